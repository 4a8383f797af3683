"""The few-label suite: nine real sets with 8 to 128 labels per class; every method and both baselines learn
from the same rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import log2
from pathlib import Path
from typing import Any

from vnait import data as texts
from vnait.comparison.plan import REST, Plan
from vnait.comparison.trainings import run_plan
from vnait.data.tables import labels_of
from vnait.results.record import Record
from vnait.results.results import ALL, Shots, interval_of
from vnait.shared.statistics import interval
from vnait.train.run import Run
from vnait_lab.records import baselines_of
from vnait_lab.rules import clear, decided
from vnait_lab.study import Verdict
from vnait_lab.suites.suite import check

logger = logging.getLogger("vnait")

SHOTS = (8, 16, 32, 64, 128)
QUICK = 16  # labels per class of --quick
# No rows are held out: nothing is chosen here, so every row can train. One-hot words would hide the methods.
RUN = Run(validation=0, one_hot=False)
PAPER, LOSS = "vnait-paper", 0.005  # of accuracy, which a method may lose to it
SMALL = 0.01  # of accuracy: a smaller loss to a simple model does not count
SPLITS = 10  # the fewest draws of rows that decide a claim


@dataclass(frozen=True, kw_only=True)
class Set:
    """How a set is read and scored, and whether the order of its tokens should matter.

    words    how many of a text's first words every method and baseline reads; None: all
    most     the largest of `SHOTS` that its smallest class has rows for
    """

    tokenization: str = "words"
    metric: str = "accuracy"
    ordered: bool = False
    words: int | None = None
    most: int = SHOTS[-1]


SETS = {
    "trec": Set(ordered=True, most=64),
    "mr": Set(),
    "subj": Set(),
    "cola": Set(metric="mcc", ordered=True),  # 70 % of its rows are acceptable, so accuracy means little
    "ag_news": Set(),
    "bbc_news": Set(words=128),  # whole articles, about 400 words, would cost as much as all other sets
    "tnews": Set(most=64),
    "eprstmt": Set(most=64),
    "splice": Set(tokenization="characters", ordered=True),
}


def run_suite(
    *,
    data: str | Path,
    methods: Sequence[str],
    sets: Sequence[str] = tuple(SETS),
    shots: Sequence[int] = SHOTS,
    seeds: Sequence[int] = tuple(range(SPLITS)),
    run: Run | None = None,
    base: str | None = None,
    out: str | Path,
    jobs: int | None = 1,
    backend: str = "local",
    callback: Callable[[str, int, int, Record | None], None] = lambda name, done, total, record: None,
) -> list[Record]:
    """The records of every method and baseline on every set; those in `out`/SET/records.jsonl do not run
    again.

    data    a folder with one folder per set: train.csv and test.csv, columns text and label. Each seed draws
            its rows from train.csv, the same for every method; Word2Vec learns from all texts of train.csv,
            without labels; test.csv is only scored. Shots beyond the smallest class of a set are left out
    base    folder or name of a pretrained encoder: adds its frozen embeddings, and methods such as `base:own`
    """
    check("set", sets, SETS)
    plans = {name: plan_of(name, data, methods, shots, seeds, run or RUN, base=base) for name in sets}
    records: list[Record] = []
    for name, plan in plans.items():
        path = Path(out) / name / "records.jsonl"
        records += run_plan(plan, path, jobs=jobs, backend=backend, callback=partial(callback, name))
    return records


def plan_of(
    name: str,
    data: str | Path,
    methods: Sequence[str],
    shots: Sequence[Shots],
    seeds: Sequence[int],
    run: Run,
    *,
    base: str | None = None,
    unlabelled: str = REST,
    chooses: bool = False,
) -> Plan:
    """The comparison on one set.

    Its tables have the name of the set, so that records do not depend on this machine's folders.
    """
    table, test = (_read(Path(data) / name / f"{part}.csv", name) for part in ("train", "test"))
    labels = labels_of(table)
    smallest = min(labels.count(label) for label in set(labels))
    left = [count for count in shots if count != ALL and int(count) > smallest]
    if left:
        logger.warning(
            "%s has %d rows in its smallest class: %s labels per class are left out.",
            name,
            smallest,
            " and ".join(map(str, left)),
        )
    return Plan(
        table=table,
        test=test,
        methods=tuple(methods),
        shots=tuple(count for count in shots if count not in left),
        seeds=tuple(seeds),
        run=run,
        vectors=None,
        base=base,
        tokenization=SETS[name].tokenization,
        unlabelled=unlabelled,
        chooses=chooses,
    )


def _read(path: Path, name: str) -> texts.Table:
    table, words = replace(texts.read(str(path)), name=name), SETS[name].words
    if words is None:
        return table
    return replace(table, texts=[" ".join(text.split()[:words]) for text in table.texts])


def rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Learning curves, one row per set, method and number of labels: the mean over splits with its 95 %
    interval.
    """
    groups: dict[tuple[str, str, float], list[float]] = {}
    for (name, method, _), curve in curves(records).items():
        for shots, score in curve.items():
            groups.setdefault((name, method, shots), []).append(score)
    return [
        {"set": name, "method": method, "shots": shots, "metric": SETS[name].metric, **_bounds(values)}
        for (name, method, shots), values in groups.items()
    ]


def curves(records: Sequence[Record]) -> dict[tuple[str, str, int], dict[float, float]]:
    """(set, method, seed) -> labels per class, of all labels their mean -> score."""
    curves: dict[tuple[str, str, int], dict[float, float]] = {}
    for record in records:
        curve = curves.setdefault((str(record.data["name"]), record.method, record.seed), {})
        shots = record.data["shots"]
        labels = record.data["rows"] / len(record.data["classes"]) if shots == ALL else int(shots)
        curve[labels] = score_of(record)
    return {key: dict(sorted(curve.items())) for key, curve in curves.items()}


def score_of(record: Record) -> float:
    """Matthews correlation on CoLA, else accuracy."""
    return float(record.metrics[SETS[str(record.data["name"])].metric])


def area(curve: dict[float, float]) -> float:
    """The mean height of a learning curve over log2(labels), by trapezoids, so that every doubling of the
    labels has the same weight.

    >>> round(area({8: 0.5, 16: 0.7, 64: 0.7}), 3)
    0.667
    """
    points = sorted((log2(shots), score) for shots, score in curve.items())
    if len(points) == 1:
        return points[0][1]
    under = sum((right - left) * (low + high) / 2 for (left, low), (right, high) in pairwise(points))
    return under / (points[-1][0] - points[0][0])


def areas(records: Sequence[Record]) -> list[dict[str, Any]]:
    """The area under the learning curve, one row per set and method: the mean over splits with its 95 %
    interval.
    """
    groups: dict[tuple[str, str], list[float]] = {}
    for (name, method, _), curve in curves(records).items():
        groups.setdefault((name, method), []).append(area(curve))
    return [{"set": name, "method": method, **_bounds(values)} for (name, method), values in groups.items()]


def paired(records: Sequence[Record], method: str = "vnait") -> list[dict[str, Any]]:
    """`method` minus each other method, in area on the same splits: one row per set, and a pooled one with
    set None.

    Areas are under the labels that both have. The pooled difference of a split is the mean over the sets that
    both have with its seed; its interval is over splits, for these sets.
    """
    every = curves(records)
    differences: dict[str, dict[str, dict[int, float]]] = {}  # rival -> set -> seed -> difference
    for (name, rival, seed), curve in every.items():
        ours = every.get((name, method, seed), {})
        shared = ours.keys() & curve.keys()
        if rival != method and shared:
            first, second = (area({shots: scores[shots] for shots in shared}) for scores in (ours, curve))
            differences.setdefault(rival, {}).setdefault(name, {})[seed] = first - second
    rows: list[dict[str, Any]] = []
    for rival, of_set in differences.items():
        seeds = sorted(set.intersection(*({*by_seed} for by_seed in of_set.values())))
        pooled = [sum(by_seed[seed] for by_seed in of_set.values()) / len(of_set) for seed in seeds]
        values: dict[str | None, list[float]] = {None: pooled}
        values |= {name: list(by_seed.values()) for name, by_seed in of_set.items()}
        rows += [
            {"set": name, "method": method, "against": rival, **_bounds(gains)}
            for name, gains in values.items()
        ]
    return rows


def verdict(
    records: Sequence[Record],
    method: str = "vnait",
    *,
    sets: Sequence[str] = tuple(SETS),
    shots: Sequence[int] = SHOTS,
) -> Verdict:
    """The claim: `method` learns better from few labels, by the area under the learning curve, paired over
    splits. It has three parts: pooled over sets, `method` is above every other method; on no set is it below
    a baseline; on the sets where order matters (TREC, CoLA, splice) it is above both baselines.

    Confirmed if every interval supports it (for the second part: no interval is wholly below zero), refuted
    if one is wholly on the other side, else undecided. Always undecided while a difference has fewer than 10
    splits; and while some of `sets`, `shots` or rivals are missing, unless one set alone refutes it.
    """
    parts = list(_parts(paired(records, method), baselines_of(records)))
    if not parts:
        return Verdict("undecided", f"{method} was compared with nothing")
    wrong = [row for row, sign in parts if sign < 0]
    unclear = [row for row, sign in parts if sign == 0]
    pooled = [row for row, _ in parts if row["set"] is None]
    said = []
    if pooled:
        nearest = min(pooled, key=lambda row: float(row["mean"]))
        said.append(f"nearest of {len(pooled)} methods, pooled: {_difference(nearest)}")
    for about, differences in (("against the claim", wrong), ("not told apart", unclear)):
        if differences:
            ordered = sorted(differences, key=lambda row: float(row["mean"]))
            said.append(f"{about}: {', '.join(map(_difference, ordered))}")
    fewest = min(row["splits"] for row, _ in parts)
    if fewest < SPLITS:
        return Verdict("undecided", "; ".join([*said, f"{fewest} splits, fewer than {SPLITS}"]))
    ran = {record.method for record in records}
    simple = baselines_of(records)
    absent = ["any other method"] if ran <= {method, *simple} else []
    absent += [name for name in simple if name not in ran]
    absent += [*_missing(records, method, sets, shots), *_unmatched(records, method)]
    if absent and not any(row["set"] for row in wrong):
        return Verdict("undecided", "; ".join([*said, f"not run yet: {', '.join(absent)}"]))
    return decided(not wrong and not unclear, "; ".join(said), refuted=bool(wrong))


def behind_none(records: Sequence[Record], simple: Sequence[str], method: str = "vnait") -> Verdict:
    """The claim: `method` is behind no simple model, on any set.

    Refuted if the interval of a paired difference is below 0; confirmed if all are above -`SMALL`; undecided
    otherwise, with fewer than 10 splits, and while sets are missing.
    """
    pairs = [row for row in paired(records, method) if row["set"] is not None and row["against"] in simple]
    worst = [
        min((row for row in pairs if row["set"] == name), key=_mean)
        for name in dict.fromkeys(row["set"] for row in pairs)
    ]
    said = f"minus the best simple model: {', '.join(map(_difference, sorted(worst, key=_mean)))}"
    behind = any(interval_of(row).sign < 0 for row in pairs)
    absent = [name for name in SETS if name not in {row["set"] for row in pairs}]
    few = min((row["splits"] for row in pairs), default=0) < SPLITS
    if absent:
        said += f"; not run yet: {', '.join(absent)}"
    near = all(interval_of(row).bounds[0] > -SMALL for row in pairs)
    return decided(near and not few and not absent, said, refuted=behind)


def _mean(row: dict[str, Any]) -> float:
    return float(row["mean"])


def no_loss(
    records: Sequence[Record],
    method: str = "vnait",
    *,
    sets: Sequence[str] = tuple(SETS),
    shots: Sequence[int] = SHOTS,
) -> Verdict:
    """The claim: pooled over sets, `method` loses less than `LOSS` to `PAPER`.

    Confirmed if the interval of the paired difference is above -LOSS, refuted if it is below. Undecided
    otherwise, with fewer than 10 splits, and while some of `sets` or `shots` are missing.
    """
    rows = [row for row in paired(records, method) if row["against"] == PAPER]
    if not rows:
        return Verdict("undecided", f"{method} was not compared with {PAPER}")
    (pooled,) = [row for row in rows if row["set"] is None]
    said = f"{_difference(pooled)}, pooled over {', '.join(row['set'] for row in rows if row['set'])}"
    if pooled["splits"] < SPLITS:
        return Verdict("undecided", f"{said}; {pooled['splits']} splits, fewer than {SPLITS}")
    both = [record for record in records if record.method in (method, PAPER)]
    if absent := [*_missing(records, method, sets, shots), *_unmatched(both, method)]:
        return Verdict("undecided", f"{said}; not run yet: {', '.join(absent)}")
    return clear([interval_of(pooled)], said, least=-LOSS)


def _parts(
    differences: Sequence[dict[str, Any]], simple: Collection[str]
) -> Iterator[tuple[dict[str, Any], int]]:
    """The differences that the claim is about: 1 supports it, -1 refutes it, 0 is undecided."""
    for row in differences:
        sign = interval_of(row).sign
        name, baseline = row["set"], row["against"] in simple
        if name is None and not baseline:
            yield row, sign
        elif name is not None and baseline:
            # Where order does not matter, `method` only must not be below a baseline.
            yield row, sign if SETS[name].ordered or sign < 0 else 1


def _missing(records: Sequence[Record], method: str, sets: Sequence[str], shots: Sequence[int]) -> list[str]:
    """Sets that `method` did not run with all of `shots` that their classes have."""
    ran = _draws(records).get(method, {})
    left = {
        name: [count for count in shots if count <= SETS[name].most and (name, count) not in ran]
        for name in sets
    }
    return [f"{name} with {', '.join(map(str, counts))} labels" for name, counts in left.items() if counts]


def _unmatched(records: Sequence[Record], method: str) -> list[str]:
    """Other methods that lack a set, a number of labels or a draw of rows that `method` ran."""
    draws = _draws(records)
    ours = draws.pop(method)
    lacking = {
        rival: sorted(
            {
                name
                for (name, shots), seeds in ours.items()
                if len(seeds & its.get((name, shots), set())) < min(SPLITS, len(seeds))
            }
        )
        for rival, its in draws.items()
    }
    return [f"{rival} on {', '.join(names)}" for rival, names in lacking.items() if names]


def _draws(records: Sequence[Record]) -> dict[str, dict[tuple[str, int], set[int]]]:
    """Method -> (set, labels per class) -> the seeds that ran; all labels are no draw."""
    draws: dict[str, dict[tuple[str, int], set[int]]] = {}
    for record in (record for record in records if record.data["shots"] != ALL):
        run = str(record.data["name"]), int(record.data["shots"])
        draws.setdefault(record.method, {}).setdefault(run, set()).add(record.seed)
    return draws


def _bounds(values: Sequence[float]) -> dict[str, Any]:
    mean, low, high = interval(values) if values else (float("nan"), None, None)
    return {"mean": mean, "ci_low": low, "ci_high": high, "splits": len(values)}


def _difference(row: dict[str, Any]) -> str:
    """A difference in points.

    >>> _difference({"set": "trec", "against": "none", "mean": 0.021, "ci_low": 0.012, "ci_high": 0.03})
    'none on trec +2.1 [+1.2, +3.0]'
    """
    where = "" if row["set"] is None else f" on {row['set']}"
    return f"{row['against']}{where} {interval_of(row).times(100).written('{:+.1f}')}"
