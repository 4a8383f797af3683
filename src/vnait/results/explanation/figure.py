"""An explanation as one figure: tokens on the coordinate line, what they add, gaps, rho, attention."""

from textwrap import fill

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from rich.cells import cell_len

from vnait.results.colours import COLOURS
from vnait.results.drawing import small_labels
from vnait.results.explanation import Explanation
from vnait.results.explanation.display import EQUAL, drawable, probability_of

# Inches
ROOM = 0.17  # from a token's label to the next
LETTER = 0.075  # a cell of text
MAP, LEFT, RIGHT = 1.9, 1.0, 3.4  # an attention map; left of the maps, for tokens; right of them, for shares
BELOW = 2.1  # shares below the maps
BAR = 1.1  # a row of bars

LABELLED = 16  # up to so many tokens, a map has them on its axes


def figure(explanation: Explanation, *, narrow: float | None = None) -> Figure:
    """All panels of an explanation. Letters that no installed font has become boxes, with a warning.

    narrow   width in inches, more if the tokens need it, with the shares below the maps; None: the width that
             the maps need
    """
    families, (*tokens, label, answer) = drawable(
        [*explanation.tokens, explanation.label, explanation.answer]
    )
    layers, heads = explanation.attention.shape[:2]
    count, name = len(tokens), LETTER * max(map(cell_len, tokens))
    side = MAP if narrow is None else (narrow - LEFT) / heads
    width = max(narrow or max(LEFT + MAP * heads + RIGHT, 9.0), LEFT + min(ROOM * count, 40.0))
    bars = BAR * len(_bars(explanation))
    heights = [
        1.6 + name + bars + 0.5 + name,
        0.6 + (side + 0.35) * layers + (name if count <= LABELLED else 0),
    ]
    if narrow is not None:
        heights.append(BELOW + 0.15 * heads)
    with matplotlib.rc_context({"font.family": families, "text.parse_math": False}):
        drawn = Figure(figsize=(width, sum(heights)), dpi=120, layout="constrained")
        drawn.get_layout_engine().set(h_pad=0.08)  # type: ignore[union-attr, call-arg]
        parts = drawn.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)
        of_tokens, of_pairs, *below = parts[:, 0]
        probability = probability_of(label, answer, explanation.probability)
        title = f"{label} ({probability}); {explanation.method}: {explanation.formula}"
        of_tokens.suptitle(fill(title, int(width / LETTER)), x=0.01, ha="left", fontsize=9)
        _draw_tokens(of_tokens, explanation, tokens, name, width - LEFT)
        _draw_pairs(of_pairs, explanation, tokens, beside=not below)
        for part in below:
            axes = part.subplots()
            _draw_shares(axes, explanation.shares)
            if axes.containers:
                handles, labels = axes.get_legend_handles_labels()
                part.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=6)
    return drawn


def spread(places: NDArray[np.float64], room: float) -> NDArray[np.float64]:
    """Ascending places, moved apart as little as possible until each is `room` away from the next.

    >>> spread(np.array([0.0, 0.0, 10.0]), 2.0)
    array([-1.,  1., 10.])
    """
    groups: list[tuple[float, int]] = []  # runs of touching labels: start, number of labels
    for place in places:
        start, size = float(place), 1
        while groups and groups[-1][0] + groups[-1][1] * room > start:
            before, many = groups.pop()
            start, size = (before * many + (start - many * room) * size) / (many + size), many + size
        groups.append((start, size))
    return np.concatenate([start + room * np.arange(size) for start, size in groups])


def _draw_tokens(
    part: SubFigure, explanation: Explanation, tokens: list[str], name: float, width: float
) -> None:
    bars = _bars(explanation)
    line, *axes_of = part.subplots(1 + len(bars), 1, height_ratios=[BAR + name, *[BAR] * len(bars)])
    _draw_line(line, explanation, tokens, name, width)
    numbers = range(len(tokens))
    for axes, (title, values), colour in zip(axes_of, bars.items(), COLOURS, strict=False):
        axes.bar(numbers, values, color=colour, width=0.7)
        axes.set(ylabel=title, xlim=[-0.6, len(tokens) - 0.4])
        axes.axhline(0, color="black", lw=0.6)
        if values is explanation.gaps:
            _note_gaps(axes, explanation)
        axes.set_xticks(numbers, tokens if axes is axes_of[-1] else [], rotation=90)
    for axes in (line, *axes_of):
        small_labels(axes, ticks=7)


def _bars(explanation: Explanation) -> dict[str, list[float]]:
    """A number per token, by the title of its row; only of what the model has."""
    rows = {
        "adds to the logit": explanation.attribution,
        "gap before": explanation.gaps,
        "rho = cos(e, s)": explanation.similarity,
    }
    return {title: values for title, values in rows.items() if values is not None}


def _note_gaps(axes: Axes, explanation: Explanation) -> None:
    """That all gaps are equal, and the gaps of the control."""
    if explanation.gaps_are_equal:
        axes.set_title(EQUAL, fontsize=7, loc="right")
    if explanation.control is not None:
        numbers = range(len(explanation.control))
        axes.plot(numbers, explanation.control, "k_", ms=8, label="with shuffled labels")
        axes.legend(fontsize=6, loc="upper left", bbox_to_anchor=(0, 1.25), frameon=False)


def _draw_line(axes: Axes, explanation: Explanation, tokens: list[str], name: float, width: float) -> None:
    """Tokens above the coordinate line. The ordinate is in inches, so that the labels fit."""
    order = np.argsort(explanation.coordinates, kind="stable")
    places = np.array(explanation.coordinates)[order]
    room = ROOM / width * max(float(np.ptp([0.0, *places])), 1e-6)
    labels = spread(places, room)
    for place, label, token in zip(places, labels, order, strict=True):
        grey = "black" if explanation.known[token] else "0.55"
        axes.plot([place, place, label], [0, 0.12, 0.35], color=grey, lw=0.7)
        axes.text(label, 0.4, tokens[token], rotation=90, ha="center", va="bottom", fontsize=8, color=grey)
    unknown = "" if all(explanation.known) else "; unknown words in grey"
    axes.set(ylim=(0, 0.5 + name), yticks=[], xlabel=f"coordinate (main axis{unknown})")
    axes.set_xlim(min(0.0, *places, *labels) - room / 2, max(*places, *labels) + room / 2)
    axes.spines[["left", "right", "top"]].set_visible(False)


def _draw_pairs(part: SubFigure, explanation: Explanation, tokens: list[str], *, beside: bool) -> None:
    """Attention maps, and the shares if they are `beside` the maps."""
    layers, heads = explanation.attention.shape[:2]
    grid = part.add_gridspec(layers, heads + beside, width_ratios=[*[MAP] * heads, *[RIGHT - 0.4] * beside])
    top, separator = float(explanation.attention.max()), ": " if beside else "\n"
    maps = []
    for layer, row in enumerate(explanation.heads):
        for head, kind in enumerate(row):
            axes = part.add_subplot(grid[layer, head])
            maps.append(axes)
            image = axes.imshow(explanation.attention[layer, head], cmap="Blues", vmin=0, vmax=top)
            axes.set_title(f"layer {layer + 1}, head {head + 1}{separator}{kind}", fontsize=8)
            _label_map(axes, tokens, last=layer == layers - 1, first=head == 0)
    if beside:
        axes = part.add_subplot(grid[0, heads])
        _draw_shares(axes, explanation.shares)
        if axes.containers:
            legend = axes.legend(fontsize=6, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.22))
            legend.set_in_layout(layers == 1)  # with more layers there is free space below
    bar = part.colorbar(image, ax=maps, location="left", shrink=0.6, pad=0.01)
    bar.set_label("attention (a row is a query; sum 1)", fontsize=7)
    bar.ax.tick_params(labelsize=6)


def _label_map(axes: Axes, tokens: list[str], *, last: bool, first: bool) -> None:
    if len(tokens) <= LABELLED:
        axes.set_xticks(range(len(tokens)), tokens if last else [], rotation=90)
        axes.set_yticks(range(len(tokens)), tokens if first else [])
    else:
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.set(xlabel="key" if last else "", ylabel="query" if first else "")
    small_labels(axes, ticks=7)


def _draw_shares(axes: Axes, shares: dict[str, list[float]]) -> None:
    """A bar per head. A term that is zero in all heads is left out of the legend, too."""
    if not shares:  # of a fine-tuned base
        axes.set_axis_off()
        return
    heads = len(next(iter(shares.values())))
    left = np.zeros(heads)
    for (term, of_heads), colour in zip(shares.items(), COLOURS, strict=False):
        if any(of_heads):
            axes.barh(
                range(1, heads + 1),
                100 * np.array(of_heads),
                left=left,
                height=0.7,
                color=colour,
                edgecolor="white",
                lw=0.5,
                label=term,
            )
            left += 100 * np.array(of_heads)
    axes.set(xlim=(0, 100), xlabel="share of squared deviations from row means (%)", ylabel="head")
    axes.set_title("attention scores of layer 1, by term", fontsize=8)
    axes.set_yticks(range(1, heads + 1))
    axes.invert_yaxis()
    small_labels(axes, ticks=7)
