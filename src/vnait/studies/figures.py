"""How the studies' figures look: black on white, readable in grey, the spread over seeds always shown.

Lines get a style and a mark of their own from `STYLE`, in which `vnait.studies.draw` calls a study's `draw`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

Seeds = Sequence[float] | NDArray[Any]  # a value a seed

HATCHES = ("", "//", "", "xx", "\\\\", "oo", "")
GREYS = ("lightgray", "white", "darkgray", "white", "white", "white", "dimgray")

STYLE: Any = {
    "axes.prop_cycle": cycler(color=["black"] * 6, linestyle=["-", "--", ":", "-.", "-", "--"], marker=list("os^vDx")),
    "axes.titlesize": 10,
    "font.size": 9,
    "legend.fontsize": 8,
    "lines.markerfacecolor": "white",
    "lines.markersize": 4,
}


def panels(*widths: float, size: tuple[float, float] = (10, 3.6)) -> tuple[Figure, list[Axes]]:
    """A figure of `size` inches with panels side by side, as wide as `widths` say."""
    figure = Figure(figsize=size, layout="constrained")
    return figure, list(figure.subplots(1, len(widths), width_ratios=widths, squeeze=False)[0])


def lines(axes: Axes, x: ArrayLike, series: Mapping[str, ArrayLike], **look: Any) -> None:
    """A line a name, over x; of values (seeds, x) the mean, with their range as bars."""
    for name, values in series.items():
        values = np.atleast_2d(np.asarray(values, dtype=float))
        mean = values.mean(0)
        drawn = axes.plot(x, mean, label=name, **look)[0]
        if len(values) > 1:
            axes.vlines(x, values.min(0), values.max(0), color=drawn.get_color(), lw=1)


def bars(axes: Axes, rows: Sequence[str], groups: Mapping[str, Sequence[Seeds]], *, across: bool = False) -> None:
    """Bars of means, a dot a seed: `groups[name][row]` are the values over seeds. They stand, or lie, the first on top (`across`)."""
    width = 0.8 / len(groups)
    for index, ((name, values), hatch, grey) in enumerate(zip(groups.items(), HATCHES, GREYS, strict=False)):
        places = np.arange(len(rows)) + (index - (len(groups) - 1) / 2) * width
        look: dict[str, Any] = {"color": grey, "edgecolor": "black", "hatch": hatch, "label": name}
        for place, own in zip(places, values, strict=True):
            (axes.barh if across else axes.bar)(place, np.mean(own), width, **look)
            at = [place] * len(own)
            axes.plot(*((own, at) if across else (at, own)), color="black", marker=".", ls="", ms=5, mfc="black")
            look["label"] = None
    if across:
        axes.set_yticks(range(len(rows)), list(rows))
        axes.invert_yaxis()
    else:
        axes.set_xticks(range(len(rows)), list(rows))


def dots(axes: Axes, rows: Sequence[str], groups: Mapping[str, Sequence[Seeds]]) -> None:
    """A mark a seed, the first name's black; rows from the top, names below one another: `groups[name][row]` are values over seeds."""
    for index, (name, values) in enumerate(groups.items()):
        shift = 0.6 * (index - (len(groups) - 1) / 2) / len(groups)
        points = [(value, row + shift) for row, own in enumerate(values) for value in own]
        axes.plot(*zip(*points, strict=True), ls="", mfc="white" if index else "black", label=name)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.invert_yaxis()


def bands(axes: Axes, x: ArrayLike, series: Mapping[str, ArrayLike], **look: Any) -> None:
    """As `lines`, the range over seeds as a band: for curves of many points."""
    for name, values in series.items():
        values = np.atleast_2d(np.asarray(values, dtype=float))
        drawn = axes.plot(x, values.mean(0), label=name, **look)[0]
        axes.fill_between(x, values.min(0), values.max(0), color=drawn.get_color(), alpha=0.15, lw=0)


def maps(
    figure: Figure, axes: Sequence[Axes], images: Mapping[str, ArrayLike], *, of: str, x: str, y: str, **look: Any
) -> None:
    """An image a name, side by side in grey, all on one scale, whose bar says what they are `of`; `x` under each, `y` at the first."""
    values = [np.asarray(image, dtype=float) for image in images.values()]
    look = {"cmap": "gray", "vmin": min(map(np.min, values)), "vmax": max(map(np.max, values))} | look
    for one, name, image in zip(axes, images, values, strict=True):
        drawn = one.imshow(image, **look)
        one.set(title=name, xlabel=x)
    axes[0].set_ylabel(y)
    figure.colorbar(drawn, ax=list(axes), label=of)
