"""The sections of a report on studies, from their records and figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from numbers import Real
from pathlib import Path

from vnait.results.page.sections import Cell, Column, Image, Section, Table
from vnait.results.record import Record
from vnait.results.report.provenance import provenance
from vnait.shared.errors import plural
from vnait.shared.statistics import interval
from vnait_lab import studies, study
from vnait_lab.study import WORDS, Budget, Findings, Study


def report(folder: Path, found: Sequence[Record]) -> tuple[str, Iterator[Section]] | None:
    """The title and sections for a folder of `vnait study`; None if it has no records of short studies."""
    names = {str(record.data.get("name")) for record in found}
    known = [studies.load(name) for name in studies.NAMES if name in names]
    known = [one for one in known if chosen(one, found)[1]]  # a task of a suite may share a study's name
    if not known:
        return None
    title = f"{len(known)} studies" if len(known) > 4 else f"Studies: {', '.join(one.name for one in known)}"
    return title, sections(known, found, folder / "figures")


def sections(picked_studies: Sequence[Study], records: Sequence[Record], figures: Path) -> Iterator[Section]:
    """The verdict of every claim, then the figure and means of each study, last how they were made."""
    picked = {one.name: chosen(one, records) for one in picked_studies}
    found = {name: own for name, (_, own) in picked.items()}
    yield verdicts(picked_studies, found, [one.name for one in picked_studies if _stopped(*picked[one.name])])
    for one in picked_studies:
        yield summary(one, found[one.name], figures / f"{one.name}.png")
    quick = all(picked[one.name][0] != one.full for one in picked_studies)
    names = " ".join(one.name for one in picked_studies)
    used = [record for own in found.values() for record in own]
    yield provenance(used, f"vnait study {names}{' --quick' * quick}")


def chosen(one: Study, records: Sequence[Record]) -> tuple[Budget, list[Record]]:
    """The budget to report of a study, and its records. A folder may have both budgets: the full one is
    reported if all of its seeds ran, else the quick one if all of its did, else the one with more records.
    """
    found = {}
    for budget in (one.full, one.quick):
        keys = {study.key(one, arm, seed, budget) for arm in one.variants for seed in range(budget.seeds)}
        found[budget] = list({record.key: record for record in records if record.key in keys}.values())
        arms = {record.method for record in found[budget]}
        if arms and not _stopped(budget, found[budget]):
            return budget, found[budget]
    return max(found.items(), key=lambda item: len(item[1]))


def _stopped(budget: Budget, found: Sequence[Record]) -> bool:
    """Whether seeds of an arm are missing."""
    return len(found) < len({record.method for record in found}) * budget.seeds


def verdicts(studies: Sequence[Study], found: dict[str, list[Record]], stopped: Sequence[str]) -> Section:
    """One row per claim."""
    rows = study.rows(studies, {name: Findings.of(own) for name, own in found.items()})
    words = Counter(row["verdict"] for row in rows)
    counted = ", ".join(f"{words[word]} {word}" for word in WORDS if words[word])
    table = Table(
        caption="Claims with their verdicts",
        columns=[Column(title) for title in ("verdict", "claim", "found", "holds if", "study", "source")],
        rows=[
            [row[name] for name in ("verdict", "claim", "found", "condition", "study", "source")]
            for row in rows
        ],
    )
    sentence = f"{plural(len(rows), 'claim')}: {counted}. Each rule was written before the study ran."
    sentences = [sentence]
    if stopped:
        sentences.append(f"Stopped before all seeds ran, so these verdicts may change: {', '.join(stopped)}.")
    return Section(heading="Verdicts", sentences=sentences, table=table)


def summary(one: Study, records: Sequence[Record], figure: Path) -> Section:
    """The subject, the figure, and the means of every metric."""
    lines = [
        one.subject,
        f"Data: {one.data}",
        f"Measure: {one.measure}",
        f"Smallest effect that matters: {one.smallest}",
    ]
    label = f"The figure of the study {one.name}: {one.subject}"
    return Section(
        heading=one.name,
        sentences=[f"{line.rstrip('.')}." for line in lines],
        image=Image(label=label, png=figure.read_bytes()) if figure.is_file() else None,
        table=_means(one, records) if records else None,
    )


def _means(one: Study, records: Sequence[Record]) -> Table:
    rows: list[list[Cell]] = []
    for arm in one.variants:
        metrics = [record.metrics for record in records if record.method == arm]
        numbers = [name for name, value in metrics[0].items() if isinstance(value, Real)] if metrics else []
        for name in numbers:
            rows.append([arm, name, *interval([float(each[name]) for each in metrics]), len(metrics)])
    return Table(
        caption=f"{one.name}: means over seeds, with 95 % intervals from three seeds on",
        columns=[
            Column("arm"),
            Column("measure"),
            *(Column(title, "{:.4g}") for title in ("mean", "low", "high")),
            Column("seeds"),
        ],
        rows=rows,
        folded=len(rows) > 30,
    )
