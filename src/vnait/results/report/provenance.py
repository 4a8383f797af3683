"""The last section of every report: command, seeds, settings, versions."""

from collections.abc import Iterable, Sequence

from vnait.results.page.sections import Cell, Column, Section, Table
from vnait.results.record import Record


def provenance(records: Sequence[Record], command: str) -> Section:
    """How the records were made; values that differ among them are all listed."""
    settings = {name: None for record in records for name in record.run if name not in ("method", "seed")}
    versions = sorted({name for record in records for name in record.versions})
    rows: list[list[Cell]] = [
        ["records", f"{len(records):,}"],
        ["seeds", _distinct(record.seed for record in records)],
    ]
    for name in settings:
        values = (record.run[name] for record in records if name in record.run)
        rows.append([f"setting: {name.replace('_', ' ')}", _distinct(values)])
    for name in versions:
        rows.append([f"version: {name}", _distinct(record.versions.get(name) for record in records)])
    rows.append(["commit", _distinct(record.commit for record in records)])
    rows.append(["seconds of training, in total", f"{sum(record.seconds for record in records):,.0f}"])
    columns = [Column("fact"), Column("value")]
    table = Table(caption="Seeds, settings and versions", columns=columns, rows=rows)
    return Section(heading="How it was made", code=command, table=table)


def _distinct(values: Iterable[object]) -> str:
    """
    >>> _distinct([0, 1, 2, 0]), _distinct([None, "a"])
    ('0, 1, 2', 'none, a')
    """
    return ", ".join(dict.fromkeys("none" if value is None else str(value) for value in values))
