"""The panels of a method, by the slots of its injection; a slot that is None has none. All is readable in grey."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from torch import Tensor

from vnait.drawing.shown import Shown
from vnait.drawing.telling import decay, drawn_in_training, kernel, similarity, tell
from vnait.injection import Injection
from vnait.method import Method

STYLES = ("-", "--", ":", "-.")
KINDS = ("where", "code", "pairs", "decay", "more")  # columns, from left to right

# The unit of the first axis, by the coordinates that measure it; wrappers are looked into.
UNITS = {
    "Index": "index (tokens)",
    "Span": "S (hundredths of the text)",
    "Saturating": "S (0 to 100)",
    "Running": "R (gaps; one is 1 at first)",
    "Segments": "segment",
    "Grid": "row",
    "Diagonal": "row and column, turned (cells)",
    "Phase": "phase (radians)",
    "Spectrum": "entry of an eigenvector",
}


@dataclass(frozen=True)
class Panel:
    """One picture: its kind, which decides the column, its title, and how it is put on axes."""

    kind: str
    title: str
    draw: Callable[[Axes], None]


def panels(shown: Shown) -> list[Panel]:
    """What there is to see of a method."""
    told = [tell(shown.method, vectors) for vectors in shown.texts]
    first = told[0].injection
    places = [one.at[0] for one in told]
    several = places[0].shape[-1] > 1
    some = [Panel("where", "where (axis 0)" if several else "where", lambda axes: _draw_where(axes, shown, places))]
    some += [*_codes(first), *_pairs(first)]
    if several:
        some.append(Panel("more", "where (each axis)", lambda axes: _draw_axes(axes, places[0])))
    if first.scale is not None:
        scales = [one.injection.scale[0] for one in told if one.injection.scale is not None]
        some.append(Panel("more", "scale", lambda axes: _draw_scale(axes, scales)))
    return some


def _codes(injection: Injection) -> Iterator[Panel]:
    """A heat map a slot that tells each token a row of numbers."""
    if injection.added is not None:
        yield _map("code", "added vectors", injection.added[0], ("channel", "position"), "added to e")
    if injection.turn is not None:
        yield _map("code", "turns", injection.turn[0].cos(), ("pair of channels", "position"), "cos of the angle", 1)
    if injection.stretch is not None:
        names = ("pair of channels", "position")
        yield _map("more", "stretches", injection.stretch[0], names, "log of a query's factor")


def _pairs(injection: Injection) -> Iterator[Panel]:
    """A heat map of pairs and its decay a slot that can be compared between two tokens."""
    names = ("key's position", "query's position")
    if injection.added is not None:
        of_added = similarity(injection)
        yield _map("pairs", "similarity of positions", of_added, names, "cosine of added vectors", 1)
        yield _decay("decay of similarity", [of_added], "cosine")
    if injection.turn is not None:
        of_turn = kernel(injection)
        yield _map("pairs", "similarity of positions", of_turn, names, "mean kernel of the turn", 1)
        yield _decay("decay of the kernel", [of_turn], "mean kernel")
    if injection.bias is not None:
        heads = injection.bias[0]
        yield _map("pairs", f"bias, head 1 of {len(heads)}", heads[0], names, "added to the score")
        yield _decay("decay of the bias", list(heads[: len(STYLES)]), "added to the score")


def _map(
    kind: str, title: str, table: Float[Tensor, "R C"], names: tuple[str, str], unit: str, reach: float | None = None
) -> Panel:
    """A heat map with a bar; grey is 0 and both ends are equally far where it has both signs or a `reach`."""
    numbers = table.double().numpy()
    far = max(float(np.abs(numbers).max()), reach or 0)
    both = reach is not None or (numbers.min() < 0 < numbers.max())
    low, high = (-far, far) if both else (float(numbers.min()), float(numbers.max()))

    def draw(axes: Axes) -> None:
        image = axes.imshow(numbers, cmap="gray", aspect="auto", interpolation="nearest", vmin=low, vmax=high)
        axes.set(xlabel=names[0], ylabel=names[1])
        part = axes.get_figure(root=False)
        assert part is not None
        bar = part.colorbar(image, ax=axes)
        bar.set_label(unit, fontsize=7)
        bar.ax.tick_params(labelsize=6)

    return Panel(kind, title, draw)


def _decay(title: str, tables: Sequence[Float[Tensor, "T T"]], unit: str) -> Panel:
    """Means over distances, a line a head; the spread of the first one's pairs shaded."""

    def draw(axes: Axes) -> None:
        for number, (table, style) in enumerate(zip(tables, STYLES, strict=False), 1):
            away, (mean, least, most) = decay(table)
            axes.plot(away, mean, style, color="black", lw=1, label=f"head {number}")
            if number == 1:
                axes.fill_between(away, least, most, color="0.8", lw=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(xlabel="key - query (tokens)", ylabel=f"{unit}: mean, range shaded")
        if len(tables) > 1:
            axes.legend(fontsize=6)

    return Panel("decay", title, draw)


def _draw_where(axes: Axes, shown: Shown, places: Sequence[Float[Tensor, "T C"]]) -> None:
    for number, at in enumerate(drawn_in_training(shown.method, shown.texts[0])):
        label = None if number else "drawn in training"
        axes.plot(_shares(len(at)), at[:, 0].numpy(), color="0.7", lw=0.8, label=label)
    _draw_curves(axes, [at[:, 0] for at in places])
    axes.set(ylabel=_unit(shown.method))


def _draw_axes(axes: Axes, at: Float[Tensor, "T C"]) -> None:
    shown = at[:, : len(STYLES)].T.numpy()
    for number, (line, style) in enumerate(zip(shown, STYLES, strict=False)):
        axes.plot(range(len(line)), line, style, color="black", lw=1, label=f"axis {number}")
    axes.set(xlabel="position", ylabel=f"coordinate, {len(shown)} of {at.shape[1]} axes")
    axes.legend(fontsize=6)


def _draw_scale(axes: Axes, scales: Sequence[Float[Tensor, " T"]]) -> None:
    _draw_curves(axes, scales)
    axes.set(ylabel="factor of a query's scores")


def _draw_curves(axes: Axes, lines: Sequence[Float[Tensor, " T"]]) -> None:
    """A line a text, over the share of the text; texts are numbered where their lengths don't tell them apart."""
    alike = len({len(line) for line in lines}) < len(lines)
    for number, (line, style) in enumerate(zip(lines, cycle(STYLES)), 1):
        label = f"text {number}, n = {len(line)}" if alike else f"n = {len(line)}"
        axes.plot(_shares(len(line)), line.numpy(), style, color="black", lw=1, label=label)
    axes.set(xlabel="share of the text, i/n")
    axes.legend(fontsize=6)


def _shares(length: int) -> NDArray[np.float64]:
    return np.arange(1, length + 1) / length


def _unit(method: Method) -> str:
    names = (type(part).__name__ for part in method.coordinates.modules())
    return next((UNITS[name] for name in names if name in UNITS), "coordinate")
