"""The studies' figures as data: panels of bars, lines, bands or dots, readable in grey, with every seed.

    figure(Bars(findings.curves(variants, "error"), "squared error", at_x={"the mean": 1}))

`vnait_lab.studies.draw` draws under `STYLE`, which gives each line its own colour, dashes and marker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from vnait.results.colours import COLOURS

Seeds = Sequence[float] | NDArray[Any]  # one value per seed
Rows = Mapping[str, Seeds]
Groups = Mapping[str, Rows]  # by name in the legend
Places = float | Sequence[float] | Mapping[str, float]  # of reference lines

STYLE: Any = {
    "axes.prop_cycle": cycler(color=COLOURS, linestyle=["-", "--", ":", "-."] * 2, marker=list("os^vDxP*")),
    "axes.titlesize": 10,
    "font.size": 9,
    "legend.fontsize": 8,
    "lines.markerfacecolor": "white",
    "lines.markersize": 4,
}


class Panel:
    """One panel of a figure. Its title says how many seeds it shows, and what is dotted.

    paint         draws the data on axes
    spread        how seeds are shown, such as "one dot per seed (n=5)"
    at_x, at_y    dotted reference lines; their names are in the title
    legend        "best" in the panel, "right" or "below" the panels, "" for none; one entry needs none
    settings      what `Axes.set` takes: title, xlabel, ylim, ...
    """

    height = 3.6  # inches

    def __init__(
        self,
        paint: Callable[[Axes], object],
        spread: str = "",
        *,
        title: str = "",
        at_x: Places = (),
        at_y: Places = (),
        legend: Any = "best",
        width: float = 1.0,
        **settings: Any,
    ) -> None:
        self.paint, self.at_x, self.at_y = paint, at_x, at_y
        self.legend, self.width, self.settings = legend, width, settings
        dotted = [name for places in (at_x, at_y) if isinstance(places, Mapping) for name in places]
        parts = [title, spread, f"dotted: {', '.join(dotted)}" if dotted else ""]
        self.title = "; ".join(filter(None, parts))

    def draw(self, axes: Axes) -> None:
        self.paint(axes)
        for line, places in ((axes.axvline, self.at_x), (axes.axhline, self.at_y)):
            for place in np.atleast_1d([*places.values()] if isinstance(places, Mapping) else places):
                line(float(place), color="black", ls=":", lw=1, marker="")
        axes.set(title=self.title, **self.settings)
        handles, names = axes.get_legend_handles_labels()
        if len(names) < 2 or not self.legend:
            return
        picture = axes.get_figure()
        assert isinstance(picture, Figure)
        if self.legend == "right":
            picture.legend(handles, names, loc="outside right center", frameon=False)
        elif self.legend == "below":
            picture.legend(handles, names, loc="outside lower center", ncols=5, frameon=False)
        else:
            axes.legend(handles, names, loc=self.legend, ncols=1 if len(names) < 4 else 2)


class Bars(Panel):
    """Bars of means with one dot per seed, of rows from the top: row -> values, or name -> row -> values.

    `label` is that of the values. With `upright` the bars stand, the first row on the left.
    """

    def __init__(
        self, rows: Rows | Groups, label: str, *, upright: bool = False, percent: bool = False, **options: Any
    ) -> None:
        names, groups, seeds = _grouped(rows, 100 if percent else 1)
        options[f"{'xy'[upright]}label"] = label
        super().__init__(
            lambda axes: bars(axes, names, groups, across=not upright),
            f"one dot per seed (n={seeds})",
            **options,
        )
        self.height = 3.6 if upright else max(3.6, 1 + 0.2 * len(names) * (0.6 + 0.4 * len(groups)))


class Dots(Panel):
    """One mark per seed, of rows from the top; else as `Bars`."""

    def __init__(self, rows: Rows | Groups, label: str, *, percent: bool = False, **options: Any) -> None:
        names, groups, seeds = _grouped(rows, 100 if percent else 1)
        options["xlabel"] = label
        super().__init__(lambda axes: dots(axes, names, groups), f"one dot per seed (n={seeds})", **options)
        self.height = max(3.6, 1 + 0.25 * len(names))


class Lines(Panel):
    """One line per name over x; values (seeds, x) as their mean, with the range as bars.

    `band` shows the range as a band: for curves of many points. `look` is what `Axes.plot` takes.
    """

    def __init__(
        self,
        x: ArrayLike,
        series: Mapping[str, ArrayLike],
        xlabel: str,
        ylabel: str,
        *,
        band: bool = False,
        percent: bool = False,
        look: Mapping[str, Any] = MappingProxyType({}),
        **options: Any,
    ) -> None:
        curves = {name: (100 if percent else 1) * np.atleast_2d(values) for name, values in series.items()}
        seeds = max(len(values) for values in curves.values())
        super().__init__(
            lambda axes: (bands if band else lines)(axes, x, curves, **look),
            f"mean and range of {seeds} seeds" if seeds > 1 else "",
            xlabel=xlabel,
            ylabel=ylabel,
            **options,
        )


def _grouped(rows: Rows | Groups, scale: float) -> tuple[list[str], dict[str, list[Seeds]], int]:
    """The names of rows, the values per group and row, and the number of seeds."""
    grouped: Any = rows if isinstance(next(iter(rows.values())), Mapping) else {"": rows}
    groups: dict[str, list[Seeds]] = {
        name: [scale * np.asarray(values) for values in group.values()] for name, group in grouped.items()
    }
    return (
        list(next(iter(grouped.values()))),
        groups,
        max(len(values) for values in next(iter(groups.values()))),
    )


def figure(*parts: Panel, size: tuple[float, float] | None = None) -> Figure:
    """Panels side by side, on `size` inches, or what their number and their rows need."""
    size = size or (min(12.0, 4.0 + 4 * len(parts)), max(part.height for part in parts))
    picture, every = panels(*(part.width for part in parts), size=size)
    for part, axes in zip(parts, every, strict=True):
        part.draw(axes)
    return picture


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
        for place, seeds in zip(places, values, strict=True):
            (axes.barh if across else axes.bar)(place, np.mean(seeds), width, **look)
            at = [place] * len(seeds)
            x, y = (seeds, at) if across else (at, seeds)
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
        points = [(value, row + shift) for row, seeds in enumerate(values) for value in seeds]
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
    for panel, name, image in zip(axes, images, values, strict=True):
        drawn = panel.imshow(image, **look)
        panel.set(title=name, xlabel=x)
    axes[0].set_ylabel(y)
    figure.colorbar(drawn, ax=list(axes), label=of)
