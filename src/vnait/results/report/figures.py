"""Plotly figures as plain data. Methods differ in shape and dash, too, so that they read in grey."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from vnait.results.colours import COLOURS
from vnait.results.page.sections import Figure
from vnait.shared.statistics import Interval

SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star", "cross", "triangle-down")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SHADES = [[0, "#e3ebf2"], [1, "#08406f"]]
ROW = 26  # pixels of a row of dots
MAX_LETTERS = 24  # letters of a name on an axis


def dots(
    rows: Mapping[str, Interval], *, label: str, title: str, hollow: Sequence[str] = (), folded: bool
) -> Figure:
    """A row per name: a dot for the mean, hollow if in `hollow`, a bar for the interval. A line at zero."""
    names = list(rows)[::-1]  # plotly counts from below
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": [rows[name].mean for name in names],
        "y": list(range(len(names))),
        "error_x": _bars([rows[name] for name in names]),
        "marker": {
            "size": 9,
            "color": COLOURS[0],
            "symbol": ["circle" + "-open" * (name in hollow) for name in names],
        },
        "hovertext": [f"{escaped(name)}: {rows[name].written()}" for name in names],
        "hoverinfo": "text",
    }
    layout = _layout((title, ""), height=ROW * len(names) + 80)
    layout["xaxis"] |= {"zeroline": True}
    layout["yaxis"] |= _names(names) | {"range": [-0.7, len(names) - 0.3], "showgrid": False}
    return Figure(label=label, data=[trace], layout=layout, folded=folded)


def lines(
    curves: Mapping[str, Sequence[Interval | None]],
    at: Sequence[str],
    *,
    label: str,
    titles: tuple[str, str],
    first: Sequence[str] = (),
) -> Figure:
    """A line per name over the groups `at`. If there are many, those in `first` are drawn, the others after a
    click on the legend.
    """
    order = sorted(curves, key=lambda name: name not in first)
    middle = (min(len(order), len(COLOURS)) - 1) / 2
    traces = []
    for number, name in enumerate(order):
        points = curves[name]
        colour = COLOURS[number % len(COLOURS)]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": escaped(name),
                # Side by side, so that no interval hides another.
                "x": [group + 0.03 * (number % len(COLOURS) - middle) for group in range(len(at))],
                "y": [None if point is None else point.mean for point in points],
                "error_y": {**_bars(points), "color": colour, "width": 3, "thickness": 1.5},
                "line": {"color": colour, "dash": DASHES[number % len(DASHES)], "width": 2},
                "marker": {"size": 8, "symbol": SYMBOLS[number % len(SYMBOLS)], "color": colour},
                "visible": True if number < len(COLOURS) else "legendonly",
                "hovertext": [
                    f"{escaped(name)}, {escaped(group)}: {'' if point is None else point.written()}"
                    for group, point in zip(at, points, strict=True)
                ],
                "hoverinfo": "text",
            }
        )
    layout = _layout(titles, height=380 + 10 * min(len(order), 40), legend=True)
    layout["xaxis"] |= _names(at) | {"range": [-0.3, len(at) - 0.7]}
    return Figure(label=label, data=traces, layout=layout)


def cloud(
    points: Mapping[str, tuple[float, float]], *, label: str, titles: tuple[str, str], form: str = ""
) -> Figure:
    """A mark per name; x is logarithmic, with ticks in d3's `form`. More than eight names have no legend, and
    show on hover.
    """
    legend = len(points) <= len(COLOURS)
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": escaped(name),
            "x": [x],
            "y": [y],
            "cliponaxis": False,
            "marker": {
                "size": 11,
                "color": COLOURS[number % len(COLOURS)],
                "symbol": SYMBOLS[number % len(SYMBOLS)],
            },
            "hovertext": [f"{escaped(name)}: {x:,.4g}, {y:.3f}"],
            "hoverinfo": "text",
        }
        for number, (name, (x, y)) in enumerate(points.items())
    ]
    places = [x for x, _ in points.values()]
    wide = max(places) > 200 * min(places)  # then 2 and 5 between the powers of ten leave no room
    layout = _layout(titles, height=320 + 14 * len(points) * legend, legend=legend)
    layout["xaxis"] |= {"type": "log", "dtick": 1 if wide else "D2", "tickformat": form}
    return Figure(label=label, data=traces, layout=layout)


def squares(
    rows: Sequence[str], columns: Sequence[str], counts: Sequence[Sequence[int]], *, label: str
) -> Figure:
    """A confusion matrix: shades are shares of the row; the counts are written if there is room."""
    shares = [[count / max(sum(row), 1) for count in row] for row in counts]
    trace: dict[str, Any] = {
        "type": "heatmap",
        "z": shares,
        "zmin": 0,
        "zmax": 1,
        "colorscale": SHADES,
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
        "hovertext": [
            [
                f"{escaped(true)} answered as {escaped(answer)}: {count}"
                for answer, count in zip(columns, row, strict=True)
            ]
            for true, row in zip(rows, counts, strict=True)
        ],
        "hoverinfo": "text",
    }
    if len(columns) <= 12:
        trace |= {"text": [[str(count) for count in row] for row in counts], "texttemplate": "%{text}"}
    layout = _layout(("answer", "truth"), height=max(240, 120 + 34 * min(len(rows), 20)))
    layout["xaxis"] |= _names(columns) | {"showgrid": False}
    layout["yaxis"] |= _names(rows) | {"autorange": "reversed", "showgrid": False}
    return Figure(label=label, data=[trace], layout=layout)


def columns(groups: Sequence[str], counts: Sequence[int], *, label: str, titles: tuple[str, str]) -> Figure:
    """A column per group."""
    trace = {
        "type": "bar",
        "x": list(range(len(groups))),
        "y": list(counts),
        "marker": {"color": COLOURS[0]},
        "hovertext": [f"{escaped(group)}: {count:,}" for group, count in zip(groups, counts, strict=True)],
        "hoverinfo": "text",
    }
    layout = _layout(titles, height=280)
    layout["xaxis"] |= _names(groups) | {"showgrid": False}
    return Figure(label=label, data=[trace], layout={**layout, "bargap": 0.08})


def escaped(name: str) -> str:
    """A name, cut and escaped: plotly interprets some HTML in names, and names come from files of others."""
    return escape(name if len(name) <= MAX_LETTERS else name[: MAX_LETTERS - 1] + "…", quote=False)


def _bars(rows: Sequence[Interval | None]) -> dict[str, Any]:
    above = [None if row is None or row.high is None else row.high - row.mean for row in rows]
    below = [None if row is None or row.low is None else row.mean - row.low for row in rows]
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "color": "#7A7A7A"}


def _names(names: Sequence[str]) -> dict[str, Any]:
    """An axis of names, at numbers: two long names may be equal after the cut."""
    every = -(-len(names) // 60)
    return {
        "tickmode": "array",
        "tickvals": list(range(0, len(names), every)),
        "ticktext": [escaped(name) for name in names[::every]],
    }


def _layout(titles: tuple[str, str], *, height: int, legend: bool = False) -> dict[str, Any]:
    """The layout that all figures share, titled; the page's style sheet colours text and grid."""
    axis = {"automargin": True, "fixedrange": True, "zeroline": False}
    return {
        "height": height,
        "margin": {"l": 10, "r": 16, "t": 16, "b": 10},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 13},
        "dragmode": False,
        "hovermode": "closest",
        "hoverlabel": {"bgcolor": "#222222", "bordercolor": "#222222", "font": {"color": "#ffffff"}},
        "showlegend": legend,
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "xaxis": {**axis, "title": {"text": titles[0]}},
        "yaxis": {**axis, "title": {"text": titles[1]}},
    }
