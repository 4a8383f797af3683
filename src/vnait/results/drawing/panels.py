"""The panels of a method, its coordinates and one or more per slot of its injection that is not None; and the
numbers that they draw.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from vnait.positions.injection import Injection
from vnait.positions.method import Method, MethodOutput
from vnait.results.colours import COLOURS
from vnait.results.drawing.examples import SEED, Example
from vnait.shared.errors import as_input_error
from vnait.shared.randomness import evaluating, preserved_generators

LOOKS: tuple[dict[str, Any], ...] = tuple(
    {"color": colour, "ls": style, "lw": 1}
    for colour, style in zip(COLOURS, ("-", "--", ":", "-."), strict=False)
)
PANELS = ("coordinates", "codes", "pairs", "decay", "more")  # columns, from left to right

# The unit of the first axis, by the class of the coordinates or of a part of them.
UNITS = {
    "Index": "index (tokens)",
    "Span": "S (hundredths of the text)",
    "Elastic": "S (hundredths of what counts)",
    "Saturating": "S (0 to 100)",
    "Running": "R (sum of gaps, each 1 at first)",
    "Segments": "segment",
    "Grid": "row",
    "Diagonal": "row and column, rotated (cells)",
    "Phase": "phase (radians)",
    "Spectrum": "entry of an eigenvector",
}
DRAWS = 3  # of coordinates that training draws at random


@dataclass(frozen=True)
class Panel:
    """One picture: its kind, which decides the column, its title, and a function that draws it on axes."""

    kind: str
    title: str
    draw: Callable[[Axes], None]


def panels(example: Example) -> list[Panel]:
    """All panels of a method."""
    outputs = [evaluate(example.method, vectors) for vectors in example.texts]
    injection, at = outputs[0].injection, outputs[0].at[0]
    several = at.shape[-1] > 1
    lines = [output.at[0, :, 0] for output in outputs]

    def draw_coordinates(axes: Axes) -> None:
        for number, draw in enumerate(drawn_in_training(example.method, example.texts[0])):
            label = None if number else "drawn in training"
            axes.plot(_shares(len(draw)), draw[:, 0].numpy(), color="0.7", lw=0.8, label=label)
        _draw_curves(axes, lines)
        axes.set(ylabel=_unit(example.method))

    title = "coordinates (axis 0)" if several else "coordinates"
    panels = [Panel("coordinates", title, draw_coordinates), *_codes(injection), *_pairs(injection)]
    if several:
        panels.append(Panel("more", "coordinates (all axes)", lambda axes: _draw_axes(axes, at)))
    scales = [output.injection.scale[0] for output in outputs if output.injection.scale is not None]
    if scales:
        per_head = scales[0].ndim > 1
        factors = [scale[:, -1] if per_head else scale for scale in scales]
        title = "scale (last head)" if per_head else "scale"
        panels.append(Panel("more", title, lambda axes: _draw_scale(axes, factors)))
    return panels


def _codes(injection: Injection) -> Iterator[Panel]:
    """A heat map per slot with a row of numbers per token."""
    channels, pairs = ("channel", "position"), ("pair of channels", "position")
    if injection.added is not None:
        yield _map("codes", "added vectors", injection.added[0], channels, "added to e")
    if injection.rotary is not None:
        yield _map("codes", "rotary angles", injection.rotary[0].cos(), pairs, "cos(angle)", reach=1)
    if injection.stretch is not None:
        yield _map("more", "stretches", injection.stretch[0], pairs, "log of the factor of a query")


def _pairs(injection: Injection) -> Iterator[Panel]:
    """A heat map of pairs of tokens, and its decay, per slot that allows it."""
    names = ("position of the key", "position of the query")
    if injection.added is not None:
        cosines = similarity(injection)
        yield _map("pairs", "similarity of added vectors", cosines, names, "cosine of added vectors", reach=1)
        yield _decay("decay of similarity", [cosines], "cosine")
    if injection.rotary is not None:
        kernels = kernel(injection)
        yield _map("pairs", "similarity by rotation", kernels, names, "mean rotary kernel", reach=1)
        yield _decay("decay of the kernel", [kernels], "mean kernel")
    if injection.bias is not None:
        heads = injection.bias[0]
        title = f"bias, head 1 of {len(heads)}" if len(heads) > 1 else "bias, all heads"
        yield _map("pairs", title, heads[0], names, "added to the score")
        yield _decay("decay of the bias", list(heads[: len(LOOKS)]), "added to the score")


def _map(
    kind: str,
    title: str,
    table: Float[Tensor, "R C"],
    names: tuple[str, str],
    unit: str,
    reach: float | None = None,
) -> Panel:
    """A heat map with a colour bar. With both signs or a `reach` the scale is symmetric, and white is 0."""
    numbers = table.double().numpy()
    far = max(float(np.abs(numbers).max()), reach or 0)
    both = reach is not None or (numbers.min() < 0 < numbers.max())
    low, high, colours = (-far, far, "RdBu_r") if both else (numbers.min(), numbers.max(), "viridis")

    def draw(axes: Axes) -> None:
        image = axes.imshow(
            numbers, cmap=colours, aspect="auto", interpolation="nearest", vmin=low, vmax=high
        )
        axes.set(xlabel=names[0], ylabel=names[1])
        part = axes.get_figure(root=False)
        assert part is not None
        bar = part.colorbar(image, ax=axes)
        bar.set_label(unit, fontsize=7)
        bar.ax.tick_params(labelsize=6)

    return Panel(kind, title, draw)


def _decay(title: str, tables: Sequence[Float[Tensor, "T T"]], unit: str) -> Panel:
    """Means over distances, a line per head, with its range shaded."""

    def draw(axes: Axes) -> None:
        for number, (table, look) in enumerate(zip(tables, LOOKS, strict=False), 1):
            distances, (mean, low, high) = decay(table)
            axes.plot(distances, mean, **look, label=f"head {number}")
            axes.fill_between(distances, low, high, color=look["color"], alpha=0.2, lw=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(xlabel="key - query (tokens)", ylabel=f"{unit}: mean, range shaded")
        if len(tables) > 1:
            axes.legend(fontsize=6)

    return Panel("decay", title, draw)


def _draw_axes(axes: Axes, at: Float[Tensor, "T C"]) -> None:
    lines = at[:, : len(LOOKS)].T.numpy()
    for number, (line, look) in enumerate(zip(lines, LOOKS, strict=False)):
        axes.plot(range(len(line)), line, **look, label=f"axis {number}")
    axes.set(xlabel="position", ylabel=f"coordinate, {len(lines)} of {at.shape[1]} axes")
    axes.legend(fontsize=6)


def _draw_scale(axes: Axes, scales: Sequence[Float[Tensor, " T"]]) -> None:
    _draw_curves(axes, scales)
    axes.set(ylabel="factor of the scores of a query")


def _draw_curves(axes: Axes, lines: Sequence[Float[Tensor, " T"]]) -> None:
    """A line per text, over the share of the text. Texts of equal length are numbered in the legend."""
    alike = len({len(line) for line in lines}) < len(lines)
    for number, (line, look) in enumerate(zip(lines, cycle(LOOKS)), 1):
        label = f"text {number}, n = {len(line)}" if alike else f"n = {len(line)}"
        axes.plot(_shares(len(line)), line.numpy(), **look, label=label)
    axes.set(xlabel="share of the text, i/n")
    axes.legend(fontsize=6)


def _shares(length: int) -> NDArray[np.float64]:
    return np.arange(1, length + 1) / length


def _unit(method: Method) -> str:
    names = (type(part).__name__ for part in method.coordinates.modules())
    return next((UNITS[name] for name in names if name in UNITS), "coordinate")


@torch.no_grad()
def evaluate(method: Method, vectors: Float[Tensor, "T D"]) -> MethodOutput:
    """Apply a method to one text in evaluation mode; the bias is computed for every pair."""
    with evaluating(method), as_input_error(ValueError):
        output = method(vectors[None], torch.ones(1, len(vectors), dtype=torch.bool))
    return output._replace(injection=output.injection.dense())


@torch.no_grad()
def drawn_in_training(method: Method, vectors: Float[Tensor, "T D"]) -> list[Float[Tensor, "T C"]]:
    """`DRAWS` draws of the coordinates in training mode; empty if they equal those in evaluation."""
    mask = torch.ones(1, len(vectors), dtype=torch.bool)
    at = evaluate(method, vectors).at
    with evaluating(method), preserved_generators():
        method.train()
        torch.manual_seed(SEED)
        draws = [method.coordinates(vectors[None], mask) for _ in range(DRAWS)]
    return [] if all(torch.equal(draw, at) for draw in draws) else [draw[0] for draw in draws]


def similarity(injection: Injection) -> Float[Tensor, "T T"]:
    """The cosine of every two added vectors of the first text; 0 if one of them is zero."""
    assert injection.added is not None
    codes = F.normalize(injection.added[0].double(), dim=-1)
    return codes @ codes.T


def kernel(injection: Injection) -> Float[Tensor, "T T"]:
    """mean_k exp(stretch_ik - stretch_jk) cos(angle_ik - angle_jk): the mean score of query i and key j, if
    all queries and keys are equal before they are rotated.
    """
    assert injection.rotary is not None
    angle = injection.rotary[0].double()
    stretch = torch.zeros_like(angle) if injection.stretch is None else injection.stretch[0].double()
    query, key = torch.polar(stretch.exp(), angle), torch.polar((-stretch).exp(), angle)
    return (query @ key.conj().T).real / angle.shape[-1]


def decay(pairs: Float[Tensor, "T T"]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Distances key - query (2T - 1,), and the mean, minimum and maximum of the pairs at each, (3, 2T - 1).

    >>> decay(torch.tensor([[0.0, 1.0], [3.0, 4.0]]))[1].tolist()
    [[3.0, 2.0, 1.0], [3.0, 0.0, 1.0], [3.0, 4.0, 1.0]]
    """
    table = pairs.double().numpy()
    distances = np.arange(1 - len(table), len(table))
    lines = [np.diagonal(table, distance) for distance in distances]
    return distances, np.array([[line.mean(), line.min(), line.max()] for line in lines]).T
