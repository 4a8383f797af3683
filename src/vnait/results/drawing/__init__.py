"""Methods side by side in one figure: a row per method, with panels for the slots of its injection.

coordinates    over the share of the text, at several lengths; a straight line is uniform
codes          position by channel: added vectors, cosines of rotary angles
pairs          position by position: cosines of added vectors, the mean rotary kernel, the bias of one head
decay          the same over the distance of key and query
more           all axes of the coordinates, stretches, the factors of the scores
"""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from textwrap import fill

from vnait.shared.errors import InputError, extra

with extra("figures"):
    import matplotlib
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

from vnait.positions.methods import METHODS
from vnait.results.drawing.examples import Example, from_options, random_words, trained, untrained
from vnait.results.drawing.panels import PANELS, Panel, panels
from vnait.shared.escaping import safe
from vnait.shared.files import atomic_file

__all__ = [
    "Example",
    "Panel",
    "check_path",
    "figure",
    "from_options",
    "panels",
    "png",
    "random_words",
    "save",
    "small_labels",
    "titles",
    "trained",
    "untrained",
]

ENDINGS = (".png", ".svg", ".pdf")


def figure(examples: Sequence[Example]) -> Figure:
    """A row per method, a column per kind of panel. InputError if a method refuses its texts."""
    rows = [_by_column(panels(example)) for example in examples]
    columns = sorted({column for row in rows for column in row})
    drawn = Figure(figsize=(max(3.1 * len(columns), 6), 3.1 * len(rows)), dpi=120, layout="constrained")
    parts = drawn.subfigures(len(rows), 1, squeeze=False)[:, 0]
    for part, example, row in zip(parts, examples, rows, strict=True):
        title = part.suptitle(fill(_title(example), 42 * max(len(columns), 2)), x=0.01, ha="left", fontsize=9)
        title.set_parse_math(False)
        grid = part.add_gridspec(1, len(columns))
        for column, panel in row.items():
            axes = part.add_subplot(grid[0, columns.index(column)])
            axes.set_title(panel.title, fontsize=8)
            panel.draw(axes)
            small_labels(axes, ticks=6)
    return drawn


def titles(drawn: Figure) -> list[list[str]]:
    """The titles of the panels in each row."""
    return [[axes.get_title() for axes in part.axes if axes.get_title()] for part in drawn.subfigs]


def png(drawn: Figure) -> bytes:
    """A figure as a PNG."""
    with BytesIO() as file:
        drawn.savefig(file, format="png")
        return file.getvalue()


def save(drawn: Figure, path: str | Path) -> None:
    """Write a figure as .png, .svg or .pdf, whole or not at all; without the date, so that it can be
    reproduced.
    """
    path = check_path(path)
    with atomic_file(path) as draft, matplotlib.rc_context({"svg.hashsalt": "vnait"}):
        if path.suffix == ".svg":
            drawn.savefig(draft, format="svg", metadata={"Date": None})
            # XML has no control characters, not even in the comments with a label's text.
            draft.write_text(safe(draft.read_text(encoding="utf-8")), encoding="utf-8")
        elif path.suffix == ".pdf":
            drawn.savefig(draft, format="pdf", metadata={"CreationDate": None})
        else:
            drawn.savefig(draft, format="png", metadata={"Software": None})


def check_path(path: str | Path, *, endings: Sequence[str] = ENDINGS, what: str = "a figure") -> Path:
    """The path; InputError for any other ending."""
    path = Path(path)
    if path.suffix not in endings:
        raise InputError(f"{path}: {what} is written as {', '.join(endings)}; give a name that ends so.")
    return path


def small_labels(axes: Axes, *, ticks: int) -> None:
    """Axis labels at 7 points, tick labels at `ticks` points."""
    axes.tick_params(labelsize=ticks)
    axes.xaxis.label.set_fontsize(7)
    axes.yaxis.label.set_fontsize(7)


def _by_column(row: Sequence[Panel]) -> dict[tuple[int, int], Panel]:
    """The panels by column: the index of the kind in `PANELS`, then the number within the kind."""
    columns: dict[tuple[int, int], Panel] = {}
    for panel in row:
        kind = PANELS.index(panel.kind)
        columns[kind, sum(column[0] == kind for column in columns)] = panel
    return columns


def _title(example: Example) -> str:
    name = f"{example.name} ({example.note})" if example.note else example.name
    return f"{name}: {METHODS[example.name].formula}" if example.name in METHODS else name
