"""What the sections share: records by folder and by seed, intervals and tables as text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from vnait.positions.methods import METHODS
from vnait.results import record
from vnait.results.record import Record
from vnait.shared.statistics import Interval, interval, paired
from vnait_lab import RECORDS
from vnait_lab.study import Verdict


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
    def found(self) -> str:
        condition = self.verdict.condition
        return f"if {condition}: {self.verdict.found}" if condition else self.verdict.found


@dataclass(frozen=True)
class Section:
    """A part of the page, its rows in the table of claims at the top, and those that its text has."""

    text: str
    claims: Sequence[Judged] = ()
    inside: Sequence[Judged] = ()


def records(folder: str) -> list[Record]:
    """The records in a folder of `RECORDS`; if a cell ran twice, its last record."""
    found = [one for path in sorted((RECORDS / folder).rglob("records.jsonl")) for one in record.read(path)]
    cells = {
        (one.method, one.seed, one.run.get("steps"), *map(one.data.get, ("name", "shots", "question"))): one
        for one in found
    }
    return list(cells.values())


def over_seeds(found: Iterable[Record], score: Callable[[Record], float]) -> dict[int, float]:
    """Per seed, the mean of its records' scores."""
    groups: dict[int, list[float]] = {}
    for one in found:
        groups.setdefault(one.seed, []).append(score(one))
    return {seed: fmean(values) for seed, values in groups.items()}


def bounded(found: Interval | None, sign: str = "") -> str:
    """A mean in %, with its bounds if it has any; `sign` "+" signs the mean."""
    if found is None:
        return "-"
    mean = f"{100 * found.mean:{sign}.1f}"
    if found.low is None or found.high is None:
        return mean
    return f"{mean} [{100 * found.low:.1f}, {100 * found.high:.1f}]"


def percent(values: Iterable[float], sign: str = "") -> str:
    """The mean of scores, or of their differences, in % with its interval."""
    values = list(values)
    return bounded(interval(values, within=(-1, 1)) if values else None, sign)


def mean(values: Iterable[float]) -> str:
    """The mean of scores in %, without an interval."""
    values = list(values)
    return bounded(Interval(fmean(values), None, None) if values else None)


def difference(own: dict[int, float], other: dict[int, float]) -> str:
    """In points, paired by seed."""
    return percent(paired(own, other), "+")


def with_commas(methods: Collection[str]) -> str:
    """In the order of `METHODS`, as a command takes them."""
    return ",".join(name for name in METHODS if name in methods)


def table(head: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    rows = [head, ["---"] * len(head), *([str(cell).replace("|", "\\|") for cell in line] for line in lines)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
