"""Schemes with the same parts: a table per suite."""

from __future__ import annotations

from functools import partial
from statistics import fmean

from vnait.record import Record
from vnait_lab.page.parts import Section, difference, over_seeds, percent, table
from vnait_lab.runs.factorial import SCHEMES, SETS, VNAIT
from vnait_lab.suites import algorithmic, length


def section(found: list[Record], suite: str) -> Section:
    run = found[0].run
    everything = {one.data["name"] for one in found}
    arms: dict[str, list[Record]] = {}
    for one in found:
        arms.setdefault(one.method, []).append(one)
    # Means over different tasks do not compare.
    scores = {
        arm: over_seeds(own, partial(far, suite=suite))
        for arm, own in arms.items()
        if {one.data["name"] for one in own} == everything
    }
    columns = [parts for parts in SETS if any(arm.endswith(f": {parts}") for arm in scores)]
    lines = [
        [scheme, *(percent(scores.get(f"{scheme}: {parts}", {}).values()) for parts in columns)]
        for scheme in SCHEMES
    ]
    ahead = [["best other", *(best_other(scores, parts) for parts in columns)]]
    ahead += [[f"{name} minus it", *(lead(scores, parts, name) for parts in columns)] for name in VNAIT]
    return Section(f"""## The same parts for every scheme: {suite} suite

{run["steps"]:,} steps; accuracy in % past the training lengths, mean over {len(everything)} tasks and over
seeds, with its 95 % interval. Neighbours are two views of the words around a token; log n scales the scores;
random is jitter of S, and for the others n sorted random places. The last rows are paired by seed. Command:
`python -m vnait_lab.runs.factorial --suite {suite}`.

{table(["scheme", *columns], [*lines, *ahead])}""")


def best_other(scores: dict[str, dict[int, float]], parts: str) -> str:
    """The best scheme with these parts that is not this project's."""
    others = {
        scheme: fmean(scores[f"{scheme}: {parts}"].values())
        for scheme in SCHEMES
        if scheme not in VNAIT and f"{scheme}: {parts}" in scores
    }
    return max(others, key=others.__getitem__, default="-")


def lead(scores: dict[str, dict[int, float]], parts: str, name: str) -> str:
    own, other = (scores.get(f"{one}: {parts}", {}) for one in (name, best_other(scores, parts)))
    return difference(own, other) if own and other else "-"


def far(one: Record, suite: str) -> float:
    """The mean accuracy past the training lengths, as the suite's verdict counts it."""
    lengths = algorithmic.FAR if suite == "algorithmic" else length.FAR
    return fmean(one.metrics[f"accuracy_{tokens}"] for tokens in lengths)
