"""What the sections share: claims with their verdicts, intervals and tables as text."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from statistics import fmean
from typing import Any, TypeVar

from vnait.positions.methods import METHODS
from vnait.results.record import Record
from vnait.shared.statistics import Interval, interval, paired
from vnait_lab.records import Score, by_seed
from vnait_lab.study import Verdict

Row = TypeVar("Row")
Column = TypeVar("Column")


@dataclass(frozen=True)
class Judged:
    """A claim, its verdict by the records, and the command that writes them; `source` as in `Claim`."""

    statement: str
    verdict: Verdict
    command: str
    source: str = ""
    seeds: int | None = None
    figure: str = ""  # a file in `RECORDS`

    @property
    def summary(self) -> str:
        condition = self.verdict.condition
        return f"if {condition}: {self.verdict.summary}" if condition else self.verdict.summary


@dataclass(frozen=True)
class Section:
    """A part of the page, its rows in the table of claims at the top, and those that its text has."""

    text: str
    claims: Sequence[Judged] = ()
    inside: Sequence[Judged] = ()


def read_data(name: str) -> dict[str, Any]:
    """A file of data in this folder."""
    return tomllib.loads(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))


PROSE = read_data("sections.toml")


def prose(name: str, **fields: object) -> str:
    """The text of a section, filled in."""
    text: str = PROSE[name]
    return text.format(**fields)


def judge(verdicts: Mapping[str, Verdict], command: str, *, source: str) -> list[Judged]:
    """Claims of one source, by their statements."""
    return [Judged(statement, verdict, command, source) for statement, verdict in verdicts.items()]


def bounded(mean: Interval | None, sign: str = "") -> str:
    """A mean in %, with its bounds if it has any; `sign` "+" signs the mean."""
    if mean is None:
        return "-"
    text = f"{100 * mean.mean:{sign}.1f}"
    if mean.low is None or mean.high is None:
        return text
    return f"{text} [{100 * mean.low:.1f}, {100 * mean.high:.1f}]"


def percent(values: Iterable[float], sign: str = "") -> str:
    """The mean of scores, or of their differences, in % with its interval."""
    values = list(values)
    return bounded(interval(values, within=(-1, 1)) if values else None, sign)


def scored(records: Iterable[Record], metric: Score, **facts: object) -> str:
    """The mean over seeds of the records with these facts, in % with its interval."""
    return percent(by_seed(records, metric, **facts).values())


def mean(values: Iterable[float]) -> str:
    """The mean of scores in %, without an interval."""
    values = list(values)
    return bounded(Interval(fmean(values), None, None) if values else None)


def difference(scores: dict[int, float], base: dict[int, float]) -> str:
    """In points, paired by seed."""
    return percent(paired(scores, base), "+")


def with_commas(methods: Collection[str]) -> str:
    """In the order of `METHODS`, as a command takes them."""
    return ",".join(name for name in METHODS if name in methods)


def table(head: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    rows = [head, ["---"] * len(head), *([str(cell).replace("|", "\\|") for cell in line] for line in lines)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def grid(
    corner: str, rows: Iterable[Row], columns: Mapping[str, Column], cell: Callable[[Row, Column], str]
) -> str:
    """A table with a line per row, named by the first column, and a cell for each of the columns."""
    lines = [[row, *(cell(row, column) for column in columns.values())] for row in rows]
    return table([corner, *columns], lines)


def per_name(text: str, names: Iterable[str], part: Callable[[str], str]) -> str:
    """A text, then a heading and a part for each name."""
    return "\n\n".join([text, *(f"### {name}\n\n{part(name)}" for name in names)])
