"""The few-label suite: nine real sets, 8 to 128 labels per class, every method and both baselines on the same rows. It resumes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import log2
from pathlib import Path
from typing import Any

from vnait import text as texts
from vnait.baselines import BASELINES
from vnait.comparison import run_cells
from vnait.errors import InputError, meant
from vnait.plan import Plan, labels_of
from vnait.record import Record
from vnait.statistics import Interval, interval
from vnait.train import Run

logger = logging.getLogger("vnait")

SHOTS = (8, 16, 32, 64, 128)
QUICK = 16  # the number of the quick profile
RUN = Run(validation=0)  # every row is learned from at every step: no model is chosen here
SPLITS = 10  # draws of rows from which on the claim is judged


@dataclass(frozen=True, kw_only=True)
class Set:
    """How a set is read and scored, and whether the order of its tokens is expected to matter.

    words   of a text that every method and baseline reads, the first ones; None: all
    most    of `SHOTS` that its smallest class has rows for
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
    "cola": Set(metric="mcc", ordered=True),  # seven in ten of its rows are acceptable, so accuracy says little
    "ag_news": Set(),
    "bbc_news": Set(words=128),  # its articles have some 400, which would cost as much as all other sets together
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
    jobs: int = 1,
    watch: Callable[[str, int, int, Record | None], None] = lambda name, done, total, record: None,
) -> list[Record]:
    """Every method and baseline on every set; `out`/SET/records.jsonl keeps what is done, and it is not run again.

    `data` holds a folder a set with train.csv and test.csv (columns text and label). Each seed draws its rows from train.csv, the same
    for every method; Word2Vec learns from all its texts, labels unseen; test.csv is only scored. Shots that
    the smallest class of a set does not have are left out. A `base`, a folder or name of a pretrained encoder, adds its frozen embeddings
    and methods such as `base:own`.
    """
    plans = {name: plan_of(name, data, methods, shots, seeds, run or RUN, base=base) for name in _known(sets)}
    found: list[Record] = []
    for name, plan in plans.items():

        def told(done: int, total: int, record: Record | None, name: str = name) -> None:
            watch(name, done, total, record)

        found += run_cells(plan, Path(out) / name / "records.jsonl", jobs=jobs, watch=told)
    return found


def plan_of(
    name: str,
    data: str | Path,
    methods: Sequence[str],
    shots: Sequence[int],
    seeds: Sequence[int],
    run: Run,
    *,
    base: str | None = None,
) -> Plan:
    """The comparison on one set. Its tables bear the set's name, so that records say nothing of this machine's folders."""
    folder = Path(data) / name
    table, test = (_read(folder / f"{part}.csv", name) for part in ("train", "test"))
    return Plan(
        table=table,
        test=test,
        methods=tuple(methods),
        shots=_reachable(name, labels_of(table), shots),
        seeds=tuple(seeds),
        run=run,
        vectors=None,
        base=base,
        tokenization=SETS[name].tokenization,
        chooses=False,
    )


def _read(path: Path, name: str) -> texts.Table:
    table, words = replace(texts.read(str(path)), name=name), SETS[name].words
    return table if words is None else replace(table, texts=[" ".join(text.split()[:words]) for text in table.texts])


def rows(found: Sequence[Record]) -> list[dict[str, Any]]:
    """The learning curves, a row a set, method and number of labels: mean over splits and its 95 % interval."""
    groups: dict[tuple[str, str, int], list[float]] = {}
    for (name, method, _), curve in curves(found).items():
        for shots, score in curve.items():
            groups.setdefault((name, method, shots), []).append(score)
    return [
        {"set": name, "method": method, "shots": shots, "metric": SETS[name].metric, **_bounds(values)}
        for (name, method, shots), values in groups.items()
    ]


def curves(found: Sequence[Record]) -> dict[tuple[str, str, int], dict[int, float]]:
    """(set, method, seed) -> labels per class -> score: Matthews' correlation for CoLA, accuracy elsewhere."""
    curves: dict[tuple[str, str, int], dict[int, float]] = {}
    for record in found:
        name = str(record.data["name"])
        score = record.metrics[SETS[name].metric]
        curves.setdefault((name, record.method, record.seed), {})[int(record.data["shots"])] = score
    return {key: dict(sorted(curve.items())) for key, curve in curves.items()}


def area(curve: dict[int, float]) -> float:
    """The mean height of a learning curve over log2(labels), by trapezoids: a doubling of the labels weighs the same everywhere.

    >>> round(area({8: 0.5, 16: 0.7, 64: 0.7}), 3)
    0.667
    """
    points = sorted((log2(shots), score) for shots, score in curve.items())
    if len(points) == 1:
        return points[0][1]
    under = sum((right - left) * (low + high) / 2 for (left, low), (right, high) in pairwise(points))
    return under / (points[-1][0] - points[0][0])


def areas(found: Sequence[Record]) -> list[dict[str, Any]]:
    """A row a set and method: the area under its learning curve, mean over splits with its 95 % interval."""
    groups: dict[tuple[str, str], list[float]] = {}
    for (name, method, _), curve in curves(found).items():
        groups.setdefault((name, method), []).append(area(curve))
    return [{"set": name, "method": method, **_bounds(values)} for (name, method), values in groups.items()]


def paired(found: Sequence[Record], method: str = "vnait") -> list[dict[str, Any]]:
    """`method` less each other one, in area on the same splits: a row a set, and a row with set None, pooled.

    Only labels that both have count. The pooled difference of a split is the mean over the sets that both have with its seed; its
    interval is over splits, for these sets.
    """
    every = curves(found)
    own = {(name, seed): curve for (name, other, seed), curve in every.items() if other == method}
    differences: dict[str, dict[str, dict[int, float]]] = {}
    for (name, other, seed), curve in every.items():
        shared = own.get((name, seed), {}).keys() & curve.keys()
        if other == method or not shared:
            continue
        one, two = ({shots: line[shots] for shots in shared} for line in (own[name, seed], curve))
        differences.setdefault(other, {}).setdefault(name, {})[seed] = area(one) - area(two)
    return [
        {"set": name, "method": method, "against": other, **_bounds(values)}
        for other, of_set in differences.items()
        for name, values in ((None, _pooled(of_set)), *((name, list(one.values())) for name, one in of_set.items()))
    ]


def verdict(
    found: Sequence[Record],
    method: str = "vnait",
    *,
    sets: Sequence[str] = tuple(SETS),
    shots: Sequence[int] = SHOTS,
) -> tuple[str, str]:
    """The claim that `method` learns better from few labels, judged by the areas under the learning curves, paired over splits.

    It asks three things: pooled over sets, above every other method; on no set below a baseline; above both baselines where order
    matters (TREC, CoLA, splice). "confirmed" where every interval says so (the second: no interval is wholly below zero), "refuted" where
    one is wholly on the other side, "undecided" else. While some of `sets` or `shots`, or a rival on some of them, are missing, it is
    "undecided" unless a set that is there refutes it alone; and always while some difference has fewer than 10 splits.
    """
    asked = list(_asked(paired(found, method)))
    if not asked:
        return "undecided", f"{method} was compared with nothing"
    wrong = [row for row, holds in asked if holds == "no"]
    open_ = [row for row, holds in asked if holds == "open"]
    pooled = [row for row, _ in asked if row["set"] is None and row["against"] not in BASELINES]
    worst = min(pooled, key=lambda row: row["mean"], default=None)
    said = [] if worst is None else [f"nearest of {len(pooled)} methods, pooled: {_told(worst)}"]
    said += [f"against the claim: {_listed(wrong)}"] if wrong else []
    said += [f"not told apart: {_listed(open_)}"] if open_ else []
    fewest = min(row["splits"] for row, _ in asked)
    if fewest < SPLITS:
        return "undecided", "; ".join([*said, f"{fewest} splits, fewer than {SPLITS}"])
    left = [*_absent(found, method), *_missing(found, method, sets, shots), *_unmatched(found, method)]
    if left and not any(row["set"] for row in wrong):
        return "undecided", "; ".join([*said, f"not run yet: {', '.join(left)}"])
    return ("refuted" if wrong else "undecided" if open_ else "confirmed"), "; ".join(said)


def no_loss(
    found: Sequence[Record],
    method: str = "vnait",
    against: str = "vnait-paper",
    *,
    margin: float = 0.005,
    sets: Sequence[str] = tuple(SETS),
    shots: Sequence[int] = SHOTS,
) -> tuple[str, str]:
    """The claim that `method` loses no accuracy to `against`: less than `margin`, pooled over the sets that both have.

    "confirmed" where the interval of the paired difference is above -margin, "refuted" where it is below, "undecided" else, with fewer
    than 10 splits, and while some of `sets` or `shots` are missing.
    """
    rows = [row for row in paired(found, method) if row["against"] == against]
    if not rows:
        return "undecided", f"{method} was not compared with {against}"
    (pooled,) = [row for row in rows if row["set"] is None]
    said = f"{_told(pooled)}, pooled over {', '.join(row['set'] for row in rows if row['set'])}"
    if pooled["splits"] < SPLITS:
        return "undecided", f"{said}; {pooled['splits']} splits, fewer than {SPLITS}"
    both = [record for record in found if record.method in (method, against)]
    if left := [*_missing(found, method, sets, shots), *_unmatched(both, method)]:
        return "undecided", f"{said}; not run yet: {', '.join(left)}"
    low, high = pooled["ci_low"], pooled["ci_high"]
    return ("confirmed" if low > -margin else "refuted" if high < -margin else "undecided"), said


def _asked(differences: Sequence[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], str]]:
    """The differences that the claim is about, and whether each holds: yes, no or open."""
    for row in differences:
        sign = Interval(row["mean"], row["ci_low"], row["ci_high"]).sign
        baseline = row["against"] in BASELINES
        if (row["set"] is None and not baseline) or (baseline and row["set"] is not None and SETS[row["set"]].ordered):
            yield row, "yes" if sign > 0 else "no" if sign < 0 else "open"
        elif baseline and row["set"] is not None:
            yield row, "no" if sign < 0 else "yes"


def _absent(found: Sequence[Record], method: str) -> list[str]:
    """Whom the claim is about and who did not run: a rival, and the baselines."""
    ran = {record.method for record in found}
    return [
        *(["any other method"] if ran <= {method, *BASELINES} else []),
        *(name for name in BASELINES if name not in ran),
    ]


def _missing(found: Sequence[Record], method: str, sets: Sequence[str], shots: Sequence[int]) -> list[str]:
    """The sets that `method` has not run, or not with these numbers of labels that their classes have."""
    ran = {(str(record.data["name"]), int(record.data["shots"])) for record in found if record.method == method}
    left = {name: [count for count in shots if count <= SETS[name].most and (name, count) not in ran] for name in sets}
    return [f"{name} with {', '.join(map(str, counts))} labels" for name, counts in left.items() if counts]


def _unmatched(found: Sequence[Record], method: str) -> list[str]:
    """The other methods that lack a set or number of labels that `method` has run, or its draws of rows."""
    draws: dict[str, dict[tuple[str, int], set[int]]] = {}
    for record in found:
        cell = str(record.data["name"]), int(record.data["shots"])
        draws.setdefault(record.method, {}).setdefault(cell, set()).add(record.seed)
    own = draws.pop(method)
    lacking = {
        other: [cell[0] for cell, seeds in own.items() if len(seeds & cells.get(cell, set())) < min(SPLITS, len(seeds))]
        for other, cells in draws.items()
    }
    return [f"{other} on {', '.join(sorted(set(names)))}" for other, names in lacking.items() if names]


def _pooled(of_set: dict[str, dict[int, float]]) -> list[float]:
    """The mean over sets, of every seed that all of them have."""
    seeds = sorted(set.intersection(*({*one} for one in of_set.values())))
    return [sum(one[seed] for one in of_set.values()) / len(of_set) for seed in seeds]


def _reachable(name: str, labels: Sequence[str], shots: Sequence[int]) -> tuple[int, ...]:
    smallest = min(labels.count(label) for label in set(labels))
    reachable = tuple(count for count in shots if count <= smallest)
    if left := [str(count) for count in shots if count > smallest]:
        logger.warning(
            "%s has %d rows in its smallest class: %s labels per class are left out.",
            name,
            smallest,
            " and ".join(left),
        )
    return reachable


def _known(sets: Sequence[str]) -> Sequence[str]:
    if not sets:
        raise InputError(f"no set was given; take one or more of {', '.join(SETS)}.")
    for name in sets:
        if name not in SETS:
            raise InputError(f"the set {name!r} is not known.{meant(name, SETS)} Take one of {', '.join(SETS)}.")
    return sets


def _bounds(values: Sequence[float]) -> dict[str, Any]:
    if not values:
        return {"mean": float("nan"), "ci_low": None, "ci_high": None, "splits": 0}
    found = interval(values)
    return {"mean": found.mean, "ci_low": found.low, "ci_high": found.high, "splits": len(values)}


def _told(row: dict[str, Any]) -> str:
    """A difference in words, in points.

    >>> _told({"set": "trec", "against": "none", "mean": 0.021, "ci_low": 0.012, "ci_high": 0.03})
    'none on trec +2.1 [+1.2, +3.0]'
    """
    where = "" if row["set"] is None else f" on {row['set']}"
    bounds = "" if row["ci_low"] is None else f" [{100 * row['ci_low']:+.1f}, {100 * row['ci_high']:+.1f}]"
    return f"{row['against']}{where} {100 * row['mean']:+.1f}{bounds}"


def _listed(differences: Sequence[dict[str, Any]]) -> str:
    return ", ".join(_told(row) for row in sorted(differences, key=lambda row: row["mean"]))
