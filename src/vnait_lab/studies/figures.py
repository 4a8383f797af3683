"""The look of the studies' figures: in colours, readable in grey, with the spread over seeds.

`vnait_lab.studies.draw` draws under `STYLE`, which gives each line its own colour, dashes and marker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from vnait.results.colours import COLOURS

Seeds = Sequence[float] | NDArray[Any]  # one value per seed

STYLE: Any = {
    "axes.prop_cycle": cycler(color=COLOURS, linestyle=["-", "--", ":", "-."] * 2, marker=list("os^vDxP*")),
    "axes.titlesize": 10,
    "font.size": 9,
    "legend.fontsize": 8,
    "lines.markerfacecolor": "white",
    "lines.markersize": 4,
}


def panels(*widths: float, size: tuple[float, float] = (10, 3.6)) -> tuple[Figure, list[Axes]]:
    """A figure of `size` inches with panels side by side, of relative widths `widths`."""
    figure = Figure(figsize=size, layout="constrained")
    return figure, list(figure.subplots(1, len(widths), width_ratios=widths, squeeze=False)[0])


def lines(axes: Axes, x: ArrayLike, series: Mapping[str, ArrayLike], **look: Any) -> None:
    """One line per name over x. Values (seeds, x) are drawn as their mean, with the range as bars."""
    for name, values in series.items():
        values = np.atleast_2d(np.asarray(values, dtype=float))
        mean = values.mean(0)
        drawn = axes.plot(x, mean, label=name, **look)[0]
        if len(values) > 1:
            axes.vlines(x, values.min(0), values.max(0), color=drawn.get_color(), lw=1)


def bars(
    axes: Axes, rows: Sequence[str], groups: Mapping[str, Sequence[Seeds]], *, across: bool = False
) -> None:
    """Bars of means with one dot per seed; `groups[name][row]` are the values over seeds.

    With `across` the bars are horizontal, the first row on top.
    """
    width = 0.8 / len(groups)
    for index, ((name, values), colour) in enumerate(zip(groups.items(), COLOURS, strict=False)):
        places = np.arange(len(rows)) + (index - (len(groups) - 1) / 2) * width
        look: dict[str, Any] = {"color": colour, "label": name}
        for place, own in zip(places, values, strict=True):
            (axes.barh if across else axes.bar)(place, np.mean(own), width, **look)
            at = [place] * len(own)
            x, y = (own, at) if across else (at, own)
            axes.plot(x, y, color="black", marker=".", ls="", ms=5, mfc="black")
            look["label"] = None  # one legend entry per name, not per bar
    if across:
        axes.set_yticks(range(len(rows)), list(rows))
        axes.invert_yaxis()
    else:
        axes.set_xticks(range(len(rows)), list(rows))


def dots(axes: Axes, rows: Sequence[str], groups: Mapping[str, Sequence[Seeds]]) -> None:
    """One mark per seed, rows from the top; `groups[name][row]` are the values over seeds.

    The names of a row are drawn below one another.
    """
    for index, (name, values) in enumerate(groups.items()):
        shift = 0.6 * (index - (len(groups) - 1) / 2) / len(groups)
        points = [(value, row + shift) for row, own in enumerate(values) for value in own]
        axes.plot(*zip(*points, strict=True), ls="", label=name)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.invert_yaxis()


def bands(axes: Axes, x: ArrayLike, series: Mapping[str, ArrayLike], **look: Any) -> None:
    """As `lines`, with the range over seeds as a band: for curves of many points."""
    for name, values in series.items():
        values = np.atleast_2d(np.asarray(values, dtype=float))
        drawn = axes.plot(x, values.mean(0), label=name, **look)[0]
        axes.fill_between(x, values.min(0), values.max(0), color=drawn.get_color(), alpha=0.15, lw=0)


def maps(
    figure: Figure,
    axes: Sequence[Axes],
    images: Mapping[str, ArrayLike],
    *,
    of: str,
    x: str,
    y: str,
    **look: Any,
) -> None:
    """One image per name, side by side on one scale, which is symmetric if it has both signs: white is 0.

    `of` labels the colour bar, `x` each horizontal axis and `y` the first vertical one.
    """
    values = [np.asarray(image, dtype=float) for image in images.values()]
    low, high = min(map(np.min, values)), max(map(np.max, values))
    far = max(-low, high)
    scale = {"cmap": "RdBu_r", "vmin": -far, "vmax": far} if low < 0 < high else {"vmin": low, "vmax": high}
    look = scale | look
    for one, name, image in zip(axes, images, values, strict=True):
        drawn = one.imshow(image, **look)
        one.set(title=name, xlabel=x)
    axes[0].set_ylabel(y)
    figure.colorbar(drawn, ax=list(axes), label=of)
