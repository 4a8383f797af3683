"""Schemes with the same parts: a table and a figure per suite."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean

import matplotlib
from matplotlib.figure import Figure

from vnait.results.record import Record
from vnait_lab import STUDIES
from vnait_lab.page.parts import Section, difference, over_seeds, percent, records, table
from vnait_lab.runs.factorial import AS_METHODS, SCHEMES, SETS, SUITES, VNAIT
from vnait_lab.studies.figures import STYLE, dots
from vnait_lab.suites import algorithmic, elastic, length

FIGURES = Path("records", "factorial")  # in the page's folder


def with_methods(found: list[Record], suite: str) -> list[Record]:
    """Records of a factorial on the tasks that count, and those of the methods that are arms of it, on the
    same tasks and seeds.
    """
    methods = records(suite)
    if suite == elastic.SUITE.name:
        counted = elastic.counted(elastic.SUITE.summary(methods))
        found = [one for one in found if one.data["name"] in counted]
    cells = {(one.data["name"], one.seed) for one in found}
    own = [one for one in methods if (one.data["name"], one.seed) in cells]
    return found + [replace(one, method=AS_METHODS[one.method]) for one in own if one.method in AS_METHODS]


def by_arm(found: list[Record], suite: str) -> dict[str, dict[int, float]]:
    """Per arm that ran every task, and per seed, the mean accuracy past the training lengths: means over
    different tasks do not compare.
    """
    arms: dict[str, list[Record]] = {}
    for one in found:
        arms.setdefault(one.method, []).append(one)
    tasks = {one.data["name"] for one in found}
    whole = {arm: own for arm, own in arms.items() if {one.data["name"] for one in own} == tasks}
    return {arm: over_seeds(own, partial(far, suite=suite)) for arm, own in whole.items()}


def section(ran: list[Record], suite: str) -> Section:
    found = with_methods(ran, suite)
    scores = by_arm(found, suite)
    columns = columns_of(scores)
    tasks, steps = len({one.data["name"] for one in found}), found[0].run["steps"]
    lines = [
        [scheme, *(percent(scores.get(f"{scheme}: {parts}", {}).values()) for parts in columns)]
        for scheme in SCHEMES
    ]
    ahead = [["best other", *(best_other(scores, parts) for parts in columns)]]
    ahead += [[f"{name} minus it", *(lead(scores, parts, name) for parts in columns)] for name in VNAIT]
    picture = f"\n\n![{suite} suite]({FIGURES / suite}.png)"
    return Section(f"""## The same parts for every scheme: {suite} suite

{steps:,} steps; accuracy in % past the training lengths, mean over {tasks} tasks and over seeds, with its
95 % interval. Neighbours are two views of the words around a token; log n scales the scores; random is jitter
of S, and for the others n sorted random places. The last rows are paired by seed. Command:
`python -m vnait_lab.runs.factorial --suite {suite}`.

{table(["scheme", *columns], [*lines, *ahead])}{picture}""")


def columns_of(scores: dict[str, dict[int, float]]) -> list[str]:
    """The sets of parts that an arm has."""
    return [parts for parts in SETS if any(arm.endswith(f": {parts}") for arm in scores)]


def figure(scores: dict[str, dict[int, float]]) -> Figure:
    """A row per scheme that ran, a mark per seed and set of parts."""
    schemes = [scheme for scheme in SCHEMES if any(arm.startswith(f"{scheme}: ") for arm in scores)]
    groups = {
        parts: [[100 * one for one in scores.get(f"{scheme}: {parts}", {}).values()] for scheme in schemes]
        for parts in columns_of(scores)
    }
    with matplotlib.rc_context(STYLE):
        drawn = Figure(figsize=(7.0, 4.5), layout="constrained")
        axes = drawn.add_subplot()
        dots(axes, schemes, groups)
        axes.set_xlabel("accuracy past the training lengths, %, one mark per seed")
        axes.legend(title="parts", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return drawn


def draw_figures() -> None:
    """A figure per suite that has records."""
    for suite in SUITES:
        if ran := records(f"factorial/{suite}"):
            path = STUDIES / FIGURES / f"{suite}.png"
            drawn = figure(by_arm(with_methods(ran, suite), suite))
            drawn.savefig(path, dpi=110, metadata={"Software": None})


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
