"""How the studies' figures look: black on white, readable in grey, the spread over seeds always shown.

Lines get a style and a mark of their own from `STYLE`, in which `vnait.studies.draw` calls a study's `draw`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

HATCHES = ("", "//", "..", "xx", "\\\\", "oo", "")
GREYS = ("lightgray", "white", "white", "white", "white", "white", "dimgray")

STYLE = {
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


def lines(axes: Axes, x: ArrayLike, series: Mapping[str, ArrayLike], **look: object) -> None:
    """A line a name, over x; of values (seeds, x) the mean, with their range as bars."""
    for name, values in series.items():
        values = np.atleast_2d(np.asarray(values, dtype=float))
        mean = values.mean(0)
        drawn = axes.plot(x, mean, label=name, **look)[0]
        if len(values) > 1:
            axes.vlines(x, values.min(0), values.max(0), color=drawn.get_color(), lw=1)


def bars(axes: Axes, rows: Sequence[str], groups: Mapping[str, Sequence[Sequence[float]]], *, across: bool = False) -> None:
    """Bars of means, a dot a seed: `groups[name][row]` are the values over seeds. They stand, or lie, the first on top (`across`)."""
    width = 0.8 / len(groups)
    for index, ((name, values), hatch, grey) in enumerate(zip(groups.items(), HATCHES, GREYS, strict=False)):
        places = np.arange(len(rows)) + (index - (len(groups) - 1) / 2) * width
        look = {"color": grey, "edgecolor": "black", "hatch": hatch, "label": name}
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
