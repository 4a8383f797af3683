"""The sections of a report on studies, from their records and figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from numbers import Real
from pathlib import Path

from vnait.results.page.sections import Cell, Column, Image, Section, Table
from vnait.results.record import Record
from vnait.results.report.provenance import provenance
from vnait.shared.errors import plural
from vnait.shared.statistics import interval
from vnait_lab import studies
from vnait_lab.running import key
from vnait_lab.running import rows as rows_of
from vnait_lab.study import WORDS, Budget, Findings, Study


def report(folder: Path, records: Sequence[Record]) -> tuple[str, Iterator[Section]] | None:
    """The title and sections for a folder of `vnait study`; None if it has no records of short studies."""
    ran = {str(record.data.get("name")) for record in records}
    known = [studies.load(name) for name in studies.NAMES if name in ran]
    known = [study for study in known if chosen(study, records)[1]]  # a suite's task may share a study's name
    if not known:
        return None
    names = ", ".join(study.name for study in known)
    title = f"{len(known)} studies" if len(known) > 4 else f"Studies: {names}"
    return title, sections(known, records, folder / "figures")


def sections(known: Sequence[Study], records: Sequence[Record], figures: Path) -> Iterator[Section]:
    """The verdict of every claim, then the figure and means of each study, last how they were made."""
    picked = {study.name: chosen(study, records) for study in known}
    runs = {name: chosen_runs for name, (_, chosen_runs) in picked.items()}
    yield verdicts(known, runs, [name for name in picked if _stopped(*picked[name])])
    for study in known:
        yield summary(study, runs[study.name], figures / f"{study.name}.png")
    quick = all(picked[study.name][0] != study.full for study in known)
    used = list(chain.from_iterable(runs.values()))
    yield provenance(used, f"vnait study {' '.join(picked)}{' --quick' * quick}")


def chosen(study: Study, records: Sequence[Record]) -> tuple[Budget, list[Record]]:
    """The budget to report of a study, and its records. A folder may have both budgets: the full one is
    reported if all of its seeds ran, else the quick one if all of its did, else the one with more records.
    """
    runs = {}
    for budget in (study.full, study.quick):
        keys = {
            key(study, variant, seed, budget) for variant in study.variants for seed in range(budget.seeds)
        }
        runs[budget] = list({record.key: record for record in records if record.key in keys}.values())
        if runs[budget] and not _stopped(budget, runs[budget]):
            return budget, runs[budget]
    return max(runs.items(), key=lambda item: len(item[1]))


def _stopped(budget: Budget, records: Sequence[Record]) -> bool:
    """Whether seeds of a variant are missing."""
    return len(records) < len({record.method for record in records}) * budget.seeds


def verdicts(known: Sequence[Study], records: dict[str, list[Record]], stopped: Sequence[str]) -> Section:
    """One row per claim."""
    rows = rows_of(known, {name: Findings.of(runs) for name, runs in records.items()})
    words = Counter(row["verdict"] for row in rows)
    counted = ", ".join(f"{words[word]} {word}" for word in WORDS if words[word])
    heads = {name: name for name in ("verdict", "claim", "found", "condition", "study", "source")}
    heads["condition"] = "holds if"
    table = Table(
        caption="Claims with their verdicts",
        columns=[Column(title) for title in heads.values()],
        rows=[[row[name] for name in heads] for row in rows],
    )
    sentences = [
        f"{plural(len(rows), 'claim')}: {counted}. A rule that changed after a first run names "
        "that in its study."
    ]
    if stopped:
        sentences.append(f"Stopped before all seeds ran, so these verdicts may change: {', '.join(stopped)}.")
    return Section(heading="Verdicts", sentences=sentences, table=table)


def summary(study: Study, records: Sequence[Record], figure: Path) -> Section:
    """The subject, the figure, and the means of every metric."""
    lines = [
        study.subject,
        f"Data: {study.data}",
        f"Measure: {study.measure}",
        f"Smallest effect that matters: {study.smallest}",
    ]
    label = f"The figure of the study {study.name}: {study.subject}"
    return Section(
        heading=study.name,
        sentences=[f"{line.rstrip('.')}." for line in lines],
        image=Image(label=label, png=figure.read_bytes()) if figure.is_file() else None,
        table=_means(study, records) if records else None,
    )


def _means(study: Study, records: Sequence[Record]) -> Table:
    rows: list[list[Cell]] = []
    for variant in study.variants:
        metrics = [record.metrics for record in records if record.method == variant]
        numbers = [name for name, value in metrics[0].items() if isinstance(value, Real)] if metrics else []
        for name in numbers:
            rows.append([variant, name, *interval([float(each[name]) for each in metrics]), len(metrics)])
    ends = [Column(title, "{:.4g}") for title in ("mean", "low", "high")]
    return Table(
        caption=f"{study.name}: means over seeds, with 95 % intervals from three seeds on",
        columns=[Column("variant"), Column("measure"), *ends, Column("seeds")],
        rows=rows,
        folded=len(rows) > 30,
    )
