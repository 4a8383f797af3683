"""Methods side by side in one figure: what each tells, as panels that fit the slots of its injection.

    where    coordinates over the share of the text, at several lengths: a straight line is uniform
    code     position by dimension: added vectors, cosines of turns
    pairs    position by position: cosines of added vectors, the mean kernel of a turn, the bias of one head
    decay    the same over the distance of key and query
    more     the other axes of the coordinates, stretches, the factors of the scores

A panel that a method has nothing for is left out. All is readable in grey.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from vnait.drawing.panels import KINDS, Panel, panels
from vnait.drawing.shown import Shown, asked, named, random_words, trained
from vnait.errors import InputError
from vnait.files import whole_file
from vnait.methods import METHODS

__all__ = [
    "Panel",
    "Shown",
    "asked",
    "checked",
    "figure",
    "named",
    "panels",
    "random_words",
    "save",
    "titles",
    "trained",
]

FORMATS = (".png", ".svg", ".pdf")


def figure(methods: Sequence[Shown]) -> Figure:
    """A row a method, a column a kind of panel; an `InputError` says what a method can't be shown."""
    rows = [keyed(panels(shown)) for shown in methods]
    columns = sorted({key for row in rows for key in row})
    drawn = Figure(figsize=(max(3.1 * len(columns), 6), 3.1 * len(rows)), dpi=120, layout="constrained")
    for part, shown, row in zip(drawn.subfigures(len(rows), 1, squeeze=False)[:, 0], methods, rows, strict=True):
        title = part.suptitle(fill(_title(shown), 42 * max(len(columns), 2)), x=0.01, ha="left", fontsize=9)
        title.set_parse_math(False)
        grid = part.add_gridspec(1, len(columns))
        for key, panel in row.items():
            axes = part.add_subplot(grid[0, columns.index(key)])
            axes.set_title(panel.title, fontsize=8)
            panel.draw(axes)
            _small(axes)
    return drawn


def titles(drawn: Figure) -> list[list[str]]:
    """The panels of a figure's rows."""
    return [[axes.get_title() for axes in part.axes if axes.get_title()] for part in drawn.subfigs]


def save(drawn: Figure, path: str | Path) -> None:
    """Write a figure as .png, .svg or .pdf, whole or not at all; twice the same, but for the layout's rounding."""
    path = checked(path)
    with whole_file(path) as draft, matplotlib.rc_context({"svg.hashsalt": "vnait"}):
        if path.suffix == ".svg":
            drawn.savefig(draft, format="svg", metadata={"Date": None})
        elif path.suffix == ".pdf":
            drawn.savefig(draft, format="pdf", metadata={"CreationDate": None})
        else:  # one byte a pixel, since all is grey
            canvas = FigureCanvasAgg(drawn)
            canvas.draw()
            Image.fromarray(np.asarray(canvas.buffer_rgba())[..., 0]).save(draft, format="png", optimize=True)


def checked(path: str | Path) -> Path:
    """The path, or an error where its ending is not one that is written."""
    path = Path(path)
    if path.suffix not in FORMATS:
        raise InputError(f"{path}: a figure is written as {', '.join(FORMATS)}; give a name that ends so.")
    return path


def keyed(row: Sequence[Panel]) -> dict[tuple[int, int], Panel]:
    """The panels by their columns: the kind's place in `KINDS`, then the number among those of its kind."""
    found: dict[tuple[int, int], Panel] = {}
    for panel in row:
        kind = KINDS.index(panel.kind)
        found[kind, sum(key[0] == kind for key in found)] = panel
    return found


def _title(shown: Shown) -> str:
    name = f"{shown.name} ({shown.note})" if shown.note else shown.name
    return f"{name}: {METHODS[shown.name].formula}" if shown.name in METHODS else name


def _small(axes: Axes) -> None:
    axes.tick_params(labelsize=6)
    axes.xaxis.label.set_fontsize(7)
    axes.yaxis.label.set_fontsize(7)
