"""An explanation as one figure, readable in grey: tokens on the coordinate line, gaps, rho, attention, and shares of the scores."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from rich.cells import cell_len

from vnait.explanation import Explanation
from vnait.explanation.letters import drawable

ROOM = 0.17  # inches that a token's name needs beside the next one
LETTER = 0.075  # inches of a cell of text
MAP, LEFT, RIGHT = 1.9, 1.0, 3.4  # inches: of an attention map, beside the maps for names, and for the shares
NAMED = 16  # tokens whose names fit beside a map
STYLES = (
    ("black", ""),
    ("0.75", "///"),
    ("0.75", "\\\\\\"),
    ("0.35", ""),
    ("white", "..."),
    ("white", "xxx"),
    ("white", ""),
)


def figure(explanation: Explanation) -> Figure:
    """The whole; words that no installed font can write are drawn as boxes, and a note says so."""
    families, tokens = drawable([*explanation.tokens, explanation.label])
    *tokens, label = tokens
    layers, heads = explanation.attention.shape[:2]
    count, name = len(tokens), LETTER * max(map(cell_len, tokens))
    width = max(LEFT + MAP * heads + RIGHT, LEFT + min(ROOM * count, 40.0), 9.0)
    bars = 1.1 * (1 if explanation.similarity is None else 2)
    heights = [1.6 + name + bars + 0.5 + name, 0.6 + (MAP + 0.35) * layers + (name if count <= NAMED else 0)]
    with matplotlib.rc_context({"font.family": families, "text.parse_math": False}):
        drawn = Figure(figsize=(width, sum(heights)), dpi=120, layout="constrained")
        drawn.get_layout_engine().set(h_pad=0.08)  # type: ignore[union-attr, call-arg]
        of_tokens, of_pairs = drawn.subfigures(2, 1, height_ratios=heights, squeeze=False)[:, 0]
        answer = f"{label} (probability {explanation.probability:.3f}); {explanation.method}: {explanation.formula}"
        of_tokens.suptitle(answer, x=0.01, ha="left", fontsize=9, wrap=True)
        _draw_tokens(of_tokens, explanation, tokens, name, width - LEFT)
        _draw_pairs(of_pairs, explanation, tokens)
    return drawn


def spread(places: NDArray[np.float64], room: float) -> NDArray[np.float64]:
    """Ascending places moved apart by as little as makes each `room` away from the next, kept around their middle.

    >>> spread(np.array([0.0, 0.0, 10.0]), 2.0)
    array([-1.,  1., 10.])
    """
    moved = places.astype(float).copy()
    groups: list[tuple[float, int]] = []  # where a run of touching names starts, and how many they are
    for place in places:
        start, size = float(place), 1
        while groups and groups[-1][0] + groups[-1][1] * room > start:
            before, many = groups.pop()
            start, size = (before * many + (start - many * room) * size) / (many + size), many + size
        groups.append((start, size))
    moved[:] = np.concatenate([start + room * np.arange(size) for start, size in groups])
    return moved


def _draw_tokens(part: SubFigure, explanation: Explanation, tokens: list[str], name: float, width: float) -> None:
    rho = explanation.similarity
    rows = part.subplots(2 if rho is None else 3, 1, height_ratios=[1.1 + name, *([1.1] if rho else []), 1.1])
    _draw_line(rows[0], explanation, tokens, name, width)
    edge = [-0.6, len(tokens) - 0.4]
    rows[1].bar(range(len(tokens)), explanation.gaps, color="0.5", width=0.7)
    rows[1].set(ylabel="gap before", xlim=edge)
    if rho is not None:
        rows[2].bar(range(len(tokens)), rho, color="0.2", width=0.7)
        rows[2].set(ylabel="rho = cos(e, s)", xlim=edge)
        rows[2].axhline(0, color="black", lw=0.6)
        rows[1].set_xticks(range(len(tokens)), [])
    rows[-1].set_xticks(range(len(tokens)), tokens, rotation=90)
    for axes in rows:
        _small(axes)


def _draw_line(axes: Axes, explanation: Explanation, tokens: list[str], name: float, width: float) -> None:
    """Tokens above the coordinate line; the ordinate is in inches, so that the names fit."""
    order = np.argsort(explanation.coordinates, kind="stable")
    places = np.array(explanation.coordinates)[order]
    reach = max(float(np.ptp([0.0, *places])), 1e-6)
    labels = spread(places, ROOM * reach / width)
    for place, label, token in zip(places, labels, order, strict=True):
        grey = "black" if explanation.known[token] else "0.55"
        axes.plot([place, place, label], [0, 0.12, 0.35], color=grey, lw=0.7)
        axes.text(label, 0.4, tokens[token], rotation=90, ha="center", va="bottom", fontsize=8, color=grey)
    unknown = "" if all(explanation.known) else "; unknown words in grey"
    axes.set(ylim=(0, 0.5 + name), yticks=[], xlabel=f"coordinate (main axis{unknown})")
    room = 0.5 * ROOM * reach / width
    axes.set_xlim(min(0.0, *places, *labels) - room, max(*places, *labels) + room)
    axes.spines[["left", "right", "top"]].set_visible(False)


def _draw_pairs(part: SubFigure, explanation: Explanation, tokens: list[str]) -> None:
    layers, heads = explanation.attention.shape[:2]
    grid = part.add_gridspec(layers, heads + 1, width_ratios=[*[MAP] * heads, RIGHT - 0.4])
    top = float(explanation.attention.max())
    maps = []
    for layer, row in enumerate(explanation.heads):
        for head, kind in enumerate(row):
            axes = part.add_subplot(grid[layer, head])
            maps.append(axes)
            image = axes.imshow(explanation.attention[layer, head], cmap="gray_r", vmin=0, vmax=top)
            axes.set_title(f"layer {layer + 1}, head {head + 1}: {kind}", fontsize=8)
            _name_axes(axes, tokens, last=layer == layers - 1, first=head == 0)
    shares = part.add_subplot(grid[0, heads])
    _draw_shares(shares, explanation.shares, room_below=layers > 1)
    bar = part.colorbar(image, ax=maps, location="left", shrink=0.6, pad=0.01)
    bar.set_label("attention (a row, a query, sums to 1)", fontsize=7)
    bar.ax.tick_params(labelsize=6)


def _name_axes(axes: Axes, tokens: list[str], *, last: bool, first: bool) -> None:
    if len(tokens) <= NAMED:
        axes.set_xticks(range(len(tokens)), tokens if last else [], rotation=90)
        axes.set_yticks(range(len(tokens)), tokens if first else [])
    else:
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.set(xlabel="key" if last else "", ylabel="query" if first else "")
    _small(axes)


def _draw_shares(axes: Axes, shares: dict[str, list[float]], *, room_below: bool) -> None:
    """A bar a head; a term that no head has is left out."""
    heads = len(next(iter(shares.values())))
    left = np.zeros(heads)
    for (term, found), (colour, hatch) in zip(shares.items(), STYLES, strict=True):
        if any(found):
            style: dict[str, Any] = {"color": colour, "edgecolor": "black", "hatch": hatch, "lw": 0.5, "label": term}
            axes.barh(range(1, heads + 1), 100 * np.array(found), left=left, height=0.7, **style)
            left += 100 * np.array(found)
    axes.set(xlim=(0, 100), xlabel="share of the centred squares (%)", ylabel="head")
    axes.set_title("what scores of layer 1 are made of", fontsize=8)
    axes.set_yticks(range(1, heads + 1))
    axes.invert_yaxis()
    if left.any():
        legend = axes.legend(fontsize=6, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.22))
        legend.set_in_layout(not room_below)
    _small(axes)


def _small(axes: Axes) -> None:
    axes.tick_params(labelsize=7)
    axes.xaxis.label.set_fontsize(7)
    axes.yaxis.label.set_fontsize(7)
