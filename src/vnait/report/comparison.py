"""The sections of a comparison's report, from its records and `about.json`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from vnait.about import About
from vnait.advice import advice
from vnait.page.sections import Column, Figure, Section, Table
from vnait.record import Record
from vnait.report import dataset, figures
from vnait.report.breakdown import confusions, lengths
from vnait.report.provenance import provenance
from vnait.results import METRIC, Results, by_size, inside, sign_of, where
from vnait.statistics import Interval

SHARE = "{:.3f}"
POINTS = "{:+.1f}"
LABELS = "labels per class"
ROW = (
    "method",
    "shots",
    "mean",
    "ci_low",
    "ci_high",
    "alone",
    "seeds",
    "parameters",
    "seconds",
    "ms_per_text",
)
CURVES = 8  # of a figure; the others are drawn after a click on the legend


def sections(results: Results, about: About | None) -> Iterator[Section]:
    """Conclusions first, then the figures behind them, then the data, and last how it was made."""
    yield conclusions(results, about)
    yield methods(results)
    if len(results.shots) > 1:
        yield curves(results)
    yield differences(results)
    yield costs(results)
    yield lengths(results)
    yield from confusions(results)
    if about is not None:
        yield from dataset.sections(about, results)
    yield runs(results.records)
    yield provenance(results.records, about.command if about else "")


def conclusions(results: Results, about: About | None) -> Section:
    """In words: which method is ahead of which, and which differences may be chance."""
    sentences = [
        *advice(results, most_frequent=about.most_frequent if about else None),
        *results.sentences(),
    ]
    if results.best is not None:
        sentences.append(
            f"The advised model was chosen on the validation rows {inside(results.most)}; test rows had no "
            "part in it."
        )
    if about is not None:
        sentences.append(f"Always answering the most frequent class scores {about.most_frequent:.3f}.")
    else:
        sentences.append("The folder has no about.json, so this page knows neither the data nor the command.")
    sentences.append(
        "Intervals are 95 % intervals over seeds, by Student's t; differences are paired by seed; none is "
        "corrected for several comparisons."
    )
    return Section(heading="Conclusions", sentences=sentences)


def methods(results: Results) -> Section:
    """Means with intervals: a figure per number of labels, the most first, the others folded; and a table."""
    drawn: list[Figure] = []
    rows: list[list[Any]] = []
    for shots in by_size(results.shots)[::-1]:
        own = sorted((row for row in results.rows if row["shots"] == shots), key=lambda row: -row["mean"])
        rows += [[row[name] for name in ROW] for row in own]
        drawn.append(
            figures.dots(
                {row["method"]: _interval(row) for row in own},
                label=f"{where(shots)}: mean {METRIC} of each method with its interval",
                title=f"{METRIC} {inside(shots)}",
                folded=bool(drawn),
            )
        )
    table = Table(
        caption=f"Mean {METRIC} on the test rows with its 95 % interval (alone: without the linear part); "
        "size, seconds, ms per text",
        columns=[
            Column("method"),
            Column(LABELS),
            *(Column(name, SHARE) for name in (METRIC, "low", "high", "alone")),
            Column("seeds"),
            Column("parameters", "{:,}"),
            Column("seconds", "{:.1f}"),
            Column("ms per text", "{:.2f}"),
        ],
        rows=rows,
    )
    return Section(heading="Methods", figures=drawn, table=table)


def curves(results: Results) -> Section:
    """Accuracy over the number of labels."""
    sizes = by_size(results.shots)
    intervals = {(row["method"], row["shots"]): _interval(row) for row in results.rows}
    lines = {method: [intervals.get((method, shots)) for shots in sizes] for method in results.methods}
    figure = figures.lines(
        lines,
        list(map(str, sizes)),
        label=f"Mean {METRIC} of each method over the number of labels",
        titles=(LABELS, METRIC),
        first=leading(results),
    )
    table = Table(
        caption=f"Mean {METRIC} by number of labels per class",
        columns=[Column("method"), *(Column(str(shots), SHARE) for shots in sizes)],
        rows=[[method, *(point and point.mean for point in line)] for method, line in lines.items()],
    )
    return Section(heading="Learning curves", figures=[figure], table=table)


def differences(results: Results) -> Section:
    """Each method minus the reference, on the same seeds."""
    against = results.reference
    drawn: list[Figure] = []
    for shots in by_size(results.shots)[::-1]:
        rows = sorted(
            (row for row in results.paired if row["shots"] == shots), key=lambda row: -row["difference"]
        )
        if rows:
            drawn.append(
                figures.dots(
                    {row["method"]: _points(row) for row in rows},
                    label=f"{where(shots)}: difference of each method to {against} in points, with its "
                    "interval",
                    title=f"points above {against} {inside(shots)}",
                    hollow=[row["method"] for row in rows if not sign_of(row)],
                    folded=bool(drawn),
                )
            )
    words = {1: "ahead", 0: "can't be told apart", -1: "behind"}
    table = Table(
        caption=f"Method minus {against}, in points of {METRIC}, paired by seed",
        columns=[
            Column("method"),
            Column(LABELS),
            *(Column(name, POINTS) for name in ("points", "low", "high")),
            Column("result"),
        ],
        rows=[[row["method"], row["shots"], *_points(row), words[sign_of(row)]] for row in results.paired],
    )
    sentence = (
        f"A hollow dot can't be told apart from {against}: its interval includes zero, or there are fewer "
        "than 3 seeds."
    )
    return Section(heading=f"Differences to {against}", sentences=[sentence], figures=drawn, table=table)


def costs(results: Results) -> Section:
    """Accuracy over training time and over parameters, at the most labels."""
    rows = [row for row in results.rows if row["shots"] == results.most]
    drawn = [
        figures.cloud(
            {row["method"]: (max(row[name], least), row["mean"]) for row in rows},
            label=f"{METRIC.capitalize()} of each method over its {title}, {inside(results.most)}",
            titles=(title, METRIC),
            form=form,
        )
        for name, title, least, form in (
            ("seconds", "seconds of training", 1e-3, "~g"),
            ("parameters", "learned parameters", 1, "~s"),
        )
    ]
    table = Table(
        caption=f"Parameters and time beside {METRIC}, {inside(results.most)}",
        columns=[
            Column("method"),
            Column(METRIC, SHARE),
            Column("parameters", "{:,}"),
            Column("seconds", "{:.1f}"),
        ],
        rows=[[row["method"], row["mean"], row["parameters"], row["seconds"]] for row in rows],
    )
    return Section(heading="Parameters and time", figures=drawn, table=table)


def runs(found: Sequence[Record]) -> Section:
    """A row per record."""
    metrics = [METRIC, "macro_f1", "mcc", f"validation_{METRIC}"]
    table = Table(
        caption="Every run",
        columns=[
            Column("method"),
            Column(LABELS),
            Column("seed"),
            *(Column(name.replace("_", " "), SHARE) for name in metrics),
            Column("seconds", "{:.1f}"),
        ],
        rows=[
            [run.method, run.data["shots"], run.seed, *map(run.metrics.get, metrics), run.seconds]
            for run in found
        ],
        folded=True,
    )
    return Section(heading="Runs", table=table)


def leading(results: Results) -> list[str]:
    """The curves to draw if there are many: reference, best, then the highest at the most labels."""
    rows = sorted((row for row in results.rows if row["shots"] == results.most), key=lambda row: -row["mean"])
    names = [results.reference, results.best or results.reference, *(row["method"] for row in rows)]
    return list(dict.fromkeys(names))[:CURVES]


def _interval(row: dict[str, Any]) -> Interval:
    return Interval(row["mean"], row["ci_low"], row["ci_high"])


def _points(row: dict[str, Any]) -> Interval:
    low, high = (None if row[name] is None else 100 * row[name] for name in ("ci_low", "ci_high"))
    return Interval(100 * row["difference"], low, high)
