"""The committed records, and how pages and verdicts read them: by folder, by facts, by seed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from statistics import fmean

from vnait.results import record as files
from vnait.results.record import Record
from vnait.shared.statistics import Interval, interval, paired
from vnait.train.baselines import BASELINES as TODAY
from vnait_lab import RECORDS

BASELINES = ("tfidf-logreg", "average-logreg")  # the simple models of older comparisons

Score = str | Callable[[Record], float]  # the name of a metric, or a function of the record


def path_of(*folders: str, quick: bool = False) -> Path:
    """The file of records in a folder of `RECORDS`, of a quick look in one of `runs`."""
    return (Path("runs") if quick else RECORDS).joinpath(*folders, "records.jsonl")


def read(folder: str) -> list[Record]:
    """The records in a folder of `RECORDS` and below it; if a run was repeated, its last record."""
    paths = sorted((RECORDS / folder).rglob("records.jsonl"))
    last = {
        (
            record.method,
            record.seed,
            record.run.get("steps"),
            *map(record.data.get, ("name", "shots", "question")),
        ): record
        for path in paths
        for record in files.read(path)
    }
    return list(last.values())


def baselines_of(records: Iterable[Record]) -> tuple[str, ...]:
    """The simple models that belong to a comparison: today's if one of them ran, else those of older ones."""
    ran = {record.method for record in records}
    return tuple(TODAY) if ran & {*TODAY} else BASELINES


def where(records: Iterable[Record], **facts: object) -> list[Record]:
    """The records with this `method` or `seed`, and with these facts about their data."""
    return [
        record for record in records if all(fact_of(record, name) == value for name, value in facts.items())
    ]


def among(records: Iterable[Record], **facts: Collection[object]) -> list[Record]:
    """The records whose facts are among these."""
    return [
        record for record in records if all(fact_of(record, name) in values for name, values in facts.items())
    ]


def fact_of(record: Record, name: str) -> object:
    """The method or the seed, else a fact about the data."""
    return getattr(record, name) if name in ("method", "seed") else record.data[name]


def values_of(records: Iterable[Record], fact: str) -> list[str]:
    """What the records have as a fact, each once, in their order."""
    return list(dict.fromkeys(str(fact_of(record, fact)) for record in records))


def by_seed(records: Iterable[Record], score: Score, **facts: object) -> dict[int, float]:
    """Seed -> the mean score of the records with these facts."""
    groups: dict[int, list[float]] = {}
    for record in where(records, **facts):
        value = record.metrics[score] if isinstance(score, str) else score(record)
        groups.setdefault(record.seed, []).append(value)
    return {seed: fmean(values) for seed, values in groups.items()}


def by_method(
    records: Iterable[Record], score: Score, methods: Iterable[str], **facts: object
) -> dict[str, dict[int, float]]:
    """Method -> seed -> the mean score of its records with these facts."""
    records = list(records)
    return {method: by_seed(records, score, method=method, **facts) for method in methods}


def points(scores: Mapping[int, float], base: Mapping[int, float]) -> Interval:
    """Scores minus others, paired by seed, in points with their interval."""
    return interval(paired(scores, base)).times(100)
