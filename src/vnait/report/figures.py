"""Plotly figures as plain data. They are told apart by shape and dash besides colour, so that they read in grey."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from vnait.page.sections import Figure
from vnait.statistics import Interval

# Each has 3 : 1 or more on white and on the dark page.
COLOURS = ("#2383C4", "#D55E00", "#1B8A5A", "#B5508A", "#7A7A7A", "#7B61D1", "#A8760B", "#5A7D2A")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star", "cross", "triangle-down")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SHADES = [[0, "#e3ebf2"], [1, "#08406f"]]
ROW = 26  # pixels of a row of dots
LONGEST = 24  # letters of a name on an axis


def dots(rows: Mapping[str, Interval], *, label: str, title: str, open_: Sequence[str] = (), **options: Any) -> Figure:
    """A name a row: its mean as a dot, hollow where it is in `open_`, its interval as a bar. A vertical line at zero."""
    names = list(rows)[::-1]  # plotly counts from below
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": [rows[name].mean for name in names],
        "y": list(range(len(names))),
        "error_x": _bars([rows[name] for name in names]),
        "marker": {"size": 9, "color": COLOURS[0], "symbol": ["circle" + "-open" * (name in open_) for name in names]},
        "hovertext": [f"{shown(name)}: {told(rows[name])}" for name in names],
        "hoverinfo": "text",
    }
    layout = _layout(height=ROW * len(names) + 80)
    layout["xaxis"] |= {"title": {"text": title}, "zeroline": True}
    layout["yaxis"] |= _names(names) | {"range": [-0.7, len(names) - 0.3], "showgrid": False}
    return Figure(label=label, data=[trace], layout=layout, **options)


def lines(
    curves: Mapping[str, Sequence[Interval | None]],
    at: Sequence[str],
    *,
    label: str,
    titles: tuple[str, str],
    first: Sequence[str] = (),
) -> Figure:
    """A line a name over the groups `at`. Of many names those in `first` are drawn, the others when their legend is clicked."""
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
                "name": shown(name),
                # Side by side, so that no interval hides another.
                "x": [group + 0.03 * (number % len(COLOURS) - middle) for group in range(len(at))],
                "y": [None if point is None else point.mean for point in points],
                "error_y": {**_bars(points), "color": colour, "width": 3, "thickness": 1.5},
                "line": {"color": colour, "dash": DASHES[number % len(DASHES)], "width": 2},
                "marker": {"size": 8, "symbol": SYMBOLS[number % len(SYMBOLS)], "color": colour},
                "visible": True if number < len(COLOURS) else "legendonly",
                "hovertext": [
                    f"{shown(name)}, {shown(group)}: {'' if point is None else told(point)}"
                    for group, point in zip(at, points, strict=True)
                ],
                "hoverinfo": "text",
            }
        )
    layout = _layout(height=380 + 10 * min(len(order), 40), legend=True)
    layout["xaxis"] |= {"title": {"text": titles[0]}, **_names(at), "range": [-0.3, len(at) - 0.7]}
    layout["yaxis"] |= {"title": {"text": titles[1]}}
    return Figure(label=label, data=traces, layout=layout)


def cloud(points: Mapping[str, tuple[float, float]], *, label: str, titles: tuple[str, str], form: str = "") -> Figure:
    """A mark a name, x on a logarithmic scale written in d3's `form`; a legend for up to eight, of more hovering tells the name."""
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": shown(name),
            "x": [x],
            "y": [y],
            "cliponaxis": False,
            "marker": {
                "size": 11,
                "color": COLOURS[number % len(COLOURS)],
                "symbol": SYMBOLS[number % len(SYMBOLS)],
            },
            "hovertext": [f"{shown(name)}: {x:,.4g}, {y:.3f}"],
            "hoverinfo": "text",
        }
        for number, (name, (x, y)) in enumerate(points.items())
    ]
    places = [x for x, _ in points.values()]
    wide = max(places) > 200 * min(places)  # then 2 and 5 between the powers of ten leave no room
    layout = _layout(height=320 + 14 * len(points) * (len(points) <= len(COLOURS)), legend=len(points) <= len(COLOURS))
    layout["xaxis"] |= {"title": {"text": titles[0]}, "type": "log", "dtick": 1 if wide else "D2", "tickformat": form}
    layout["yaxis"] |= {"title": {"text": titles[1]}}
    return Figure(label=label, data=traces, layout=layout)


def squares(rows: Sequence[str], columns: Sequence[str], counts: Sequence[Sequence[int]], *, label: str) -> Figure:
    """Counts as shades of each row's share, the first row on top; the counts stand in them while there is room."""
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
            [f"{shown(true)} answered as {shown(given)}: {count}" for given, count in zip(columns, row, strict=True)]
            for true, row in zip(rows, counts, strict=True)
        ],
        "hoverinfo": "text",
    }
    if len(columns) <= 12:
        trace |= {"text": [[str(count) for count in row] for row in counts], "texttemplate": "%{text}"}
    layout = _layout(height=max(240, 120 + 34 * min(len(rows), 20)))
    layout["xaxis"] |= {"title": {"text": "answer"}, **_names(columns), "showgrid": False}
    layout["yaxis"] |= {"title": {"text": "truth"}, **_names(rows), "autorange": "reversed", "showgrid": False}
    return Figure(label=label, data=[trace], layout=layout)


def columns(groups: Sequence[str], counts: Sequence[int], *, label: str, titles: tuple[str, str]) -> Figure:
    """A column a group."""
    trace = {
        "type": "bar",
        "x": list(range(len(groups))),
        "y": list(counts),
        "marker": {"color": COLOURS[0]},
        "hovertext": [f"{shown(group)}: {count:,}" for group, count in zip(groups, counts, strict=True)],
        "hoverinfo": "text",
    }
    layout = _layout(height=280)
    layout["xaxis"] |= {"title": {"text": titles[0]}, **_names(groups), "showgrid": False}
    layout["yaxis"] |= {"title": {"text": titles[1]}}
    return Figure(label=label, data=[trace], layout={**layout, "bargap": 0.08})


def shown(name: str) -> str:
    """A name as plotly shows it as it is: plotly reads some HTML in names, and a name may come from anyone's file."""
    return escape(name if len(name) <= LONGEST else name[: LONGEST - 1] + "…", quote=False)


def told(found: Interval) -> str:
    """A mean with its interval.

    >>> told(Interval(0.5, 0.4, 0.65)), told(Interval(0.5, None, None))
    ('0.5 [0.4, 0.65]', '0.5')
    """
    bounds = "" if found.low is None or found.high is None else f" [{found.low:.3g}, {found.high:.3g}]"
    return f"{found.mean:.3g}{bounds}"


def _bars(rows: Sequence[Interval | None]) -> dict[str, Any]:
    def reach(end: str) -> list[float | None]:
        ends = (None if row is None else getattr(row, end) for row in rows)
        return [None if to is None or row is None else abs(to - row.mean) for to, row in zip(ends, rows, strict=True)]

    return {"type": "data", "symmetric": False, "array": reach("high"), "arrayminus": reach("low"), "color": "#7A7A7A"}


def _names(names: Sequence[str]) -> dict[str, Any]:
    """An axis of names. By number, for two long names may be the same where they are cut."""
    every = -(-len(names) // 60)
    return {
        "tickmode": "array",
        "tickvals": list(range(0, len(names), every)),
        "ticktext": [shown(name) for name in names[::every]],
    }


def _layout(*, height: int, legend: bool = False) -> dict[str, Any]:
    """What all figures share; the page's style sheet colours text and grid, by day and by night."""
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
        "xaxis": dict(axis),
        "yaxis": dict(axis),
    }
