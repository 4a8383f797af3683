"""A comparison as one picture: mean accuracy of each method with its interval, at each number of labels."""

from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vnait.results.colours import COLOURS
from vnait.results.results import Results, Shots, by_size, interval_of

MARKS = ("o", "s", "^", "D", "v", "X", "P")
MAX_LETTERS = 30  # letters of a name


def figure(results: Results, chance_level: float) -> Figure:
    """A row per method, the best on top; with several numbers of labels, a line per method over them.

    chance_level   the accuracy of always answering the most frequent class, a dashed line
    """
    several = len(results.shots) > 1
    height = 4.5 if several else 1.2 + 0.32 * len(results.rows)
    drawn = Figure(figsize=(7.0, height), dpi=120, layout="constrained")
    axes = drawn.add_subplot()
    (_lines if several else _dots)(axes, results)
    line = axes.axhline if several else axes.axvline
    metric = results.metric
    title, chance = (f"{metric.title} on the test rows, %", metric.chance.removeprefix("answering the "))
    if metric.better < 0:
        title, chance = (f"{metric.title} on the test rows, lower is better", "mean")
    level = metric.times * chance_level
    line(level, linestyle="--", color="0.6", linewidth=1, label=chance)
    (axes.set_ylabel if several else axes.set_xlabel)(f"{title} [95 % interval]")
    axes.spines[["top", "right"]].set_visible(False)
    place = {"loc": "center left", "bbox_to_anchor": (1, 0.5)} if several else {"loc": "lower right"}
    axes.legend(**place, frameon=False, fontsize=8)
    return drawn


def _dots(axes: Axes, results: Results) -> None:
    """A dot with its interval per method; baselines are hollow."""
    times = results.metric.times
    rows = sorted(results.rows, key=lambda row: results.metric.better * row["mean"])
    for place, row in enumerate(rows):
        low, mean, high = _points(row, times)
        trained = results.is_transformer(row["method"])
        colour = COLOURS[0] if trained else COLOURS[1]
        look: dict[str, Any] = {
            "fmt": "o",
            "color": colour,
            "mfc": colour if trained else "white",
            "capsize": 3,
        }
        axes.errorbar(mean, place, xerr=[[mean - low], [high - mean]], **look)
        axes.annotate(
            f"{mean:.1f}" if times > 1 else f"{mean:.3g}",
            (mean, place),
            (0, 5),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    axes.set_yticks(range(len(rows)), [_short(row["method"]) for row in rows], parse_math=False)
    axes.set_ylim(-0.6, len(rows) - 0.3)


def _lines(axes: Axes, results: Results) -> None:
    sizes: list[Shots] = by_size(results.shots)
    colours, marks = cycle(COLOURS), cycle(MARKS)
    for number, method in enumerate(results.methods):
        rows = {row["shots"]: row for row in results.rows if row["method"] == method}
        low, mean, high = np.array(
            [_points(rows[shots], results.metric.times) for shots in sizes if shots in rows]
        ).T
        places = np.array([place for place, shots in enumerate(sizes) if shots in rows])
        axes.errorbar(
            places + 0.02 * (number - len(results.methods) / 2),  # so that no interval hides another
            mean,
            yerr=[mean - low, high - mean],
            color=next(colours),
            marker=next(marks),
            linestyle="-" if results.is_transformer(method) else ":",
            capsize=2,
            label=_short(method),
        )
    axes.set_xticks(range(len(sizes)), list(map(str, sizes)))
    axes.set_xlabel(results.metric.kinds)


def _points(row: dict[str, float | None], times: int) -> tuple[float, float, float]:
    """Low end of the interval, mean and high end, times a factor; all three are the mean without one."""
    score = interval_of(row).times(times)
    low, high = score.bounds
    return low, score.mean, high


def _short(name: str) -> str:
    return name if len(name) <= MAX_LETTERS else name[: MAX_LETTERS - 1] + "…"
