"""The sections of a report on studies, from their records and figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from numbers import Real
from pathlib import Path

from vnait import study
from vnait.page.sections import Cell, Column, Image, Section, Table
from vnait.record import Record
from vnait.report.made import made
from vnait.statistics import interval
from vnait.study import WORDS, Budget, Findings, Study


def sections(studies: Sequence[Study], records: Sequence[Record], figures: Path) -> Iterator[Section]:
    """Every claim's verdict first, then each study's figure and means, last how it was made."""
    picked = {one.name: chosen(one, records) for one in studies}
    found = {name: own for name, (_, own) in picked.items()}
    yield verdicts(studies, found, [one.name for one in studies if _stopped(*picked[one.name])])
    for one in studies:
        yield summary(one, found[one.name], figures / f"{one.name}.png")
    quick = all(picked[one.name][0] != one.full for one in studies)
    names = " ".join(one.name for one in studies)
    used = [record for own in found.values() for record in own]
    yield made(used, f"vnait study {names}{' --quick' * quick}")


def chosen(one: Study, records: Sequence[Record]) -> tuple[Budget, list[Record]]:
    """A study's records of its whole budget, or of its quick one where only that was run to its end: a folder may hold both."""
    found = {}
    for budget in (one.full, one.quick):
        keys = {study.key(one, arm, seed, budget) for arm in one.arms for seed in range(budget.seeds)}
        found[budget] = list({record.key: record for record in records if record.key in keys}.values())
        arms = {record.method for record in found[budget]}
        if arms and not _stopped(budget, found[budget]):
            return budget, found[budget]
    return max(found.items(), key=lambda item: len(item[1]))


def _stopped(budget: Budget, found: Sequence[Record]) -> bool:
    """Whether seeds of an arm are missing."""
    return len(found) < len({record.method for record in found}) * budget.seeds


def verdicts(studies: Sequence[Study], found: dict[str, list[Record]], stopped: Sequence[str]) -> Section:
    """A row a claim, its word first."""
    rows = study.rows(studies, {name: Findings.of(own) for name, own in found.items()})
    words = Counter(row["verdict"] for row in rows)
    counted = ", ".join(f"{words[word]} {word}" for word in WORDS if words[word])
    table = Table(
        caption="Claims with their verdicts",
        columns=[Column(title) for title in ("verdict", "claim", "found", "holds if", "study", "source")],
        rows=[[row[name] for name in ("verdict", "claim", "found", "condition", "study", "source")] for row in rows],
    )
    sentence = f"{len(rows)} claim{'s' * (len(rows) > 1)}: {counted}. Each rule was written before the study ran."
    unfinished = (
        [f"Stopped before all of its seeds had run, so that these verdicts may change: {', '.join(stopped)}."]
        if stopped
        else []
    )
    return Section(heading="Verdicts", sentences=[sentence, *unfinished], table=table)


def summary(one: Study, records: Sequence[Record], figure: Path) -> Section:
    """What it is about, its figure, and the means of what was measured."""
    said = [
        one.subject,
        f"Data: {one.data}",
        f"Measure: {one.measure}",
        f"Smallest effect that matters: {one.smallest}",
    ]
    label = f"The figure of the study {one.name}: {one.subject}"
    return Section(
        heading=one.name,
        sentences=[f"{line.rstrip('.')}." for line in said],
        image=Image(label=label, png=figure.read_bytes()) if figure.is_file() else None,
        table=_means(one, records) if records else None,
    )


def _means(one: Study, records: Sequence[Record]) -> Table:
    rows: list[list[Cell]] = []
    for arm in one.arms:
        metrics = [record.metrics for record in records if record.method == arm]
        for name in (name for name, value in (metrics[0] if metrics else {}).items() if isinstance(value, Real)):
            rows.append([arm, name, *interval([float(each[name]) for each in metrics]), len(metrics)])
    return Table(
        caption=f"{one.name}: means over seeds of what was measured, with 95 % intervals where there are three seeds or more",
        columns=[
            Column("arm"),
            Column("measure"),
            *(Column(title, "{:.4g}") for title in ("mean", "low", "high")),
            Column("seeds"),
        ],
        rows=rows,
        folded=len(rows) > 30,
    )
