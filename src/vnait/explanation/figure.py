"""An explanation as one figure, readable in grey: tokens on the coordinate line, gaps, rho, attention, and shares of the scores."""

from __future__ import annotations

from textwrap import fill
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from rich.cells import cell_len

from vnait.explanation import Arc, Explanation
from vnait.explanation.letters import drawable

ROOM = 0.17  # inches that a token's name needs beside the next one
LETTER = 0.075  # inches of a cell of text
MAP, LEFT, RIGHT = 1.9, 1.0, 3.4  # inches: of an attention map, beside the maps for names, and for the shares
BELOW = 2.1  # inches of the shares where they are below the maps
ROW = 0.17  # inches of a row of phrases, and of a step of arcs
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


def figure(explanation: Explanation, *, narrow: float | None = None) -> Figure:
    """The whole; words that no installed font can write are drawn as boxes, and a note says so.

    narrow   so many inches wide, unless the tokens' names need more, with the shares below the maps; None: as wide as the maps need
    """
    families, tokens = drawable([*explanation.tokens, explanation.label])
    *tokens, label = tokens
    layers, heads = explanation.attention.shape[:2]
    count, name = len(tokens), LETTER * max(map(cell_len, tokens))
    side = MAP if narrow is None else (narrow - LEFT) / heads
    width = max(narrow or max(LEFT + MAP * heads + RIGHT, 9.0), LEFT + min(ROOM * count, 40.0))
    bars = 1.1 * (1 if explanation.similarity is None else 2)
    heights = [
        1.6 + name + ROW * (_steps(explanation.arcs) + len(_levels(explanation.phrases))) + bars + 0.5 + name,
        0.6 + (side + 0.35) * layers + (name if count <= NAMED else 0),
    ]
    if narrow is not None:
        heights.append(BELOW + 0.15 * heads)
    with matplotlib.rc_context({"font.family": families, "text.parse_math": False}):
        drawn = Figure(figsize=(width, sum(heights)), dpi=120, layout="constrained")
        drawn.get_layout_engine().set(h_pad=0.08)  # type: ignore[union-attr, call-arg]
        of_tokens, of_pairs, *below = drawn.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
        answer = f"{label} (probability {explanation.probability:.3f}); {explanation.method}: {explanation.formula}"
        of_tokens.suptitle(fill(answer, int(width / LETTER)), x=0.01, ha="left", fontsize=9)
        _draw_tokens(of_tokens, explanation, tokens, name, width - LEFT)
        _draw_pairs(of_pairs, explanation, tokens, beside=not below)
        for part in below:
            axes = part.subplots()
            _draw_shares(axes, explanation.shares)
            if axes.containers:
                part.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=6)
    return drawn


def spread(places: NDArray[np.float64], room: float) -> NDArray[np.float64]:
    """Ascending places moved apart by as little as makes each `room` away from the next, kept around their middle.

    >>> spread(np.array([0.0, 0.0, 10.0]), 2.0)
    array([-1.,  1., 10.])
    """
    groups: list[tuple[float, int]] = []  # where a run of touching names starts, and how many they are
    for place in places:
        start, size = float(place), 1
        while groups and groups[-1][0] + groups[-1][1] * room > start:
            before, many = groups.pop()
            start, size = (before * many + (start - many * room) * size) / (many + size), many + size
        groups.append((start, size))
    return np.concatenate([start + room * np.arange(size) for start, size in groups])


def _draw_tokens(part: SubFigure, explanation: Explanation, tokens: list[str], name: float, width: float) -> None:
    rho, levels = explanation.similarity, _levels(explanation.phrases)
    heights = {"arcs": ROW * _steps(explanation.arcs)} if explanation.arcs else {}
    heights |= {"line": 1.1 + name} | ({"phrases": ROW * len(levels)} if levels else {})
    heights |= {"gaps": 1.1} | ({} if rho is None else {"rho": 1.1})
    rows = dict(zip(heights, part.subplots(len(heights), 1, height_ratios=list(heights.values())), strict=True))
    _draw_line(rows["line"], explanation, tokens, name, width)
    edge = [-0.6, len(tokens) - 0.4]
    rows["gaps"].bar(range(len(tokens)), explanation.gaps, color="0.5", width=0.7)
    rows["gaps"].set(ylabel="gap before", xlim=edge)
    if rho is not None:
        rows["rho"].bar(range(len(tokens)), rho, color="0.2", width=0.7)
        rows["rho"].set(ylabel="rho = cos(e, s)", xlim=edge)
        rows["rho"].axhline(0, color="black", lw=0.6)
        rows["gaps"].set_xticks(range(len(tokens)), [])
    rows["gaps" if rho is None else "rho"].set_xticks(range(len(tokens)), tokens, rotation=90)
    if explanation.arcs:
        _draw_arcs(rows["arcs"], explanation)
    if levels:
        _draw_phrases(rows["phrases"], levels, explanation.coordinates)
    for kind, axes in rows.items():
        if kind in ("arcs", "phrases"):
            axes.set(xlim=rows["line"].get_xlim(), xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
        _small(axes)


def _draw_arcs(axes: Axes, explanation: Explanation) -> None:
    """Half an ellipse an arc, above the words' coordinates, with an arrow at the dependent."""
    places, heights = explanation.coordinates, _heights(explanation.arcs)
    angle = np.linspace(0, np.pi, 40)
    for (head, word, relation), height in zip(explanation.arcs, heights, strict=True):
        middle, reach = (places[head] + places[word]) / 2, (places[word] - places[head]) / 2
        axes.plot(middle - reach * np.cos(angle), height * np.sin(angle), color="black", lw=0.7)
        axes.plot(places[word], 0.1, "v", color="black", ms=3)
        axes.text(middle, height, relation, ha="center", va="bottom", fontsize=6)
    axes.set(ylim=(0, max(heights) + 1), ylabel="arcs")


def _steps(arcs: list[Arc]) -> int:
    return max(_heights(arcs), default=0)


def _heights(arcs: list[Arc]) -> list[int]:
    """Of each arc, one more than of the highest one below it.

    >>> _heights([(2, 0, "det"), (2, 1, "amod"), (3, 2, "nsubj")])
    [2, 1, 1]
    """
    spans = [tuple(sorted(arc[:2])) for arc in arcs]
    heights = [1] * len(arcs)
    for arc in sorted(range(len(arcs)), key=lambda one: spans[one][1] - spans[one][0]):
        (start, end), length = spans[arc], spans[arc][1] - spans[arc][0]
        below = [
            heights[one]
            for one, (first, last) in enumerate(spans)
            if one != arc and max(start, first) < min(end, last) and last - first < length
        ]
        heights[arc] = 1 + max(below, default=0)
    return heights


def _draw_phrases(axes: Axes, levels: list[list[Arc]], places: list[float]) -> None:
    """A bar a phrase, from its first word's coordinate to its last one's; longer ones above the shorter ones in them."""
    for row, level in enumerate(levels):
        for first, last, relation in level:
            start, end = sorted((places[first], places[last]))
            axes.barh(row, end - start, 0.75, left=start, color="0.85", edgecolor="black", lw=0.5)
            axes.text((start + end) / 2, row, relation, ha="center", va="center", fontsize=6)
    axes.set(ylim=(len(levels) - 0.5, -0.5), ylabel="phrases")


def _levels(phrases: list[Arc]) -> list[list[Arc]]:
    """Rows of phrases that don't overlap, the longest first.

    >>> _levels([(0, 2, "nsubj"), (4, 5, "obj"), (0, 5, "conj")])
    [[(0, 5, 'conj')], [(0, 2, 'nsubj'), (4, 5, 'obj')]]
    """
    levels: list[list[Arc]] = []
    for phrase in sorted(phrases, key=lambda one: one[0] - one[1]):
        for level in levels:
            if all(phrase[1] < first or last < phrase[0] for first, last, _ in level):
                level.append(phrase)
                break
        else:
            levels.append([phrase])
    return levels


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


def _draw_pairs(part: SubFigure, explanation: Explanation, tokens: list[str], *, beside: bool) -> None:
    """Maps of attention, and `beside` them the shares."""
    layers, heads = explanation.attention.shape[:2]
    grid = part.add_gridspec(layers, heads + beside, width_ratios=[*[MAP] * heads, *[RIGHT - 0.4] * beside])
    top, separator = float(explanation.attention.max()), ": " if beside else "\n"
    maps = []
    for layer, row in enumerate(explanation.heads):
        for head, kind in enumerate(row):
            axes = part.add_subplot(grid[layer, head])
            maps.append(axes)
            image = axes.imshow(explanation.attention[layer, head], cmap="gray_r", vmin=0, vmax=top)
            axes.set_title(f"layer {layer + 1}, head {head + 1}{separator}{kind}", fontsize=8)
            _name_axes(axes, tokens, last=layer == layers - 1, first=head == 0)
    if beside:
        axes = part.add_subplot(grid[0, heads])
        _draw_shares(axes, explanation.shares)
        if axes.containers:
            legend = axes.legend(fontsize=6, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.22))
            legend.set_in_layout(layers == 1)  # beside further layers there is room below
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


def _draw_shares(axes: Axes, shares: dict[str, list[float]]) -> None:
    """A bar a head; a term that no head has is left out, and named nowhere."""
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
    _small(axes)


def _small(axes: Axes) -> None:
    axes.tick_params(labelsize=7)
    axes.xaxis.label.set_fontsize(7)
    axes.yaxis.label.set_fontsize(7)
