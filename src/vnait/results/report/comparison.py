"""The sections of a comparison's report, from its records and `about.json`; none shows a text of the data."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vnait.data import QUANTILES
from vnait.results.about import About
from vnait.results.advice import advice
from vnait.results.metrics import ACCURACY, RMSE, SETS
from vnait.results.page.sections import Cell, Column, Figure, Section, Table
from vnait.results.report import figures
from vnait.results.report.breakdown import confusions, lengths
from vnait.results.report.provenance import provenance
from vnait.results.results import Results, by_size, interval_of

FORM = "{:.4g}"

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
    if results.metric is not RMSE:
        yield from confusions(results)
    yield others(results)
    if about is not None:
        yield summary(about, results)
        yield numbers(about.data) if "numbers" in about.data else classes(about.data, results)
        yield histogram(about.data["tokens"])
    yield runs(results)
    yield provenance(results.records, about.command if about else "")


def conclusions(results: Results, about: About | None) -> Section:
    """In words: which method is ahead of which, and which differences may be chance."""
    metric = results.metric
    sentences = [
        *([] if metric.better > 0 else [f"{metric.title} is an error: lower is better."]),
        *advice(results, chance_level=about.most_frequent if about else None),
        *results.sentences(),
    ]
    if results.best is not None:
        sentences.append(
            f"The advised model was chosen on the validation rows {results.inside(results.most)}; test rows "
            "were not used."
        )
    if about is not None:
        sentences.append(f"Always {metric.chance} scores {metric.form.format(about.most_frequent)}.")
    else:
        sentences.append("The folder has no about.json, so this page shows neither the data nor the command.")
    sentences.append(
        "Intervals are 95 % intervals over seeds, by Student's t; differences are paired by seed; none is "
        "corrected for several comparisons."
    )
    if about is not None and (about.test is not None or len(results.seeds) > 1):
        sentences.append(results.of_rows)
    if results.lacks_seeds:
        sentences.append(
            "Some methods have fewer seeds because the comparison was stopped; the same command resumes it."
        )
    return Section(heading="Conclusions", sentences=sentences)


def methods(results: Results) -> Section:
    """Means with intervals: a figure per number of labels, the most first, the others folded; and a table."""
    drawn: list[Figure] = []
    rows: list[dict[str, Any]] = []
    metric = results.metric
    for shots in by_size(results.shots)[::-1]:
        ranking = results.ranked(shots)
        rows += ranking
        drawn.append(
            figures.dots(
                {row["method"]: interval_of(row) for row in ranking},
                label=f"{results.where(shots)}: mean {metric.title} of each method with its interval",
                title=f"{metric.title} {results.inside(shots)}. {results.words_of(shots)}".rstrip(". "),
                folded=bool(drawn),
            )
        )
    caption = (
        f"Mean {metric.title} on the test rows with its 95 % interval (alone: without the linear part); "
        "size, seconds, ms per text"
    )
    return Section(heading="Methods", figures=drawn, table=_table(caption, rows, columns_of(results)))


def curves(results: Results) -> Section:
    """Accuracy over the number of labels."""
    sizes = by_size(results.shots)
    intervals = {(row["method"], row["shots"]): interval_of(row) for row in results.rows}
    lines = {method: [intervals.get((method, shots)) for shots in sizes] for method in results.methods}
    figure = figures.lines(
        lines,
        list(map(str, sizes)),
        label=f"Mean {results.metric.title} of each method over the number of labels",
        titles=(results.metric.kinds, results.metric.title),
        first=leading(results),
    )
    table = Table(
        caption=f"Mean {results.metric.title} by number of {results.metric.kinds}",
        columns=[Column("method"), *(Column(str(shots), results.metric.form) for shots in sizes)],
        rows=[[method, *(point and point.mean for point in line)] for method, line in lines.items()],
    )
    return Section(heading="Learning curves", figures=[figure], table=table)


def differences(results: Results) -> Section:
    """Each method minus the reference, on the same seeds."""
    against, metric = results.reference, results.metric
    points = "points" if metric.times > 1 else metric.title
    form = "{:+" + metric.points + "}"
    drawn: list[Figure] = []
    for shots in by_size(results.shots)[::-1]:
        rows = sorted(
            (row for row in results.paired if row["shots"] == shots),
            key=lambda row: -metric.better * row["difference"],
        )
        if rows:
            drawn.append(
                figures.dots(
                    {row["method"]: interval_of(row).times(metric.times) for row in rows},
                    label=f"{results.where(shots)}: difference of each method to {against} in {points}, "
                    "with its interval",
                    title=f"{points} above {against} {results.inside(shots)}",
                    hollow=[row["method"] for row in rows if not interval_of(row).sign],
                    folded=bool(drawn),
                )
            )
    words = {1: "ahead", 0: "can't be told apart", -1: "behind"}
    table = Table(
        caption=f"Method minus {against}, in {points} of {metric.title}, paired by seed"
        if metric.times > 1
        else f"Method minus {against}, in {metric.title} (below zero is better), paired by seed",
        columns=[
            Column("method"),
            Column(metric.kinds),
            *(Column(name, form) for name in (points, "low", "high")),
            Column("result"),
        ],
        rows=[
            [row["method"], row["shots"], *interval_of(row).times(metric.times), words[results.ahead(row)]]
            for row in results.paired
        ],
    )
    sentence = (
        f"A hollow dot can't be told apart from {against}: its interval includes zero, or there are fewer "
        "than 3 seeds."
    )
    return Section(heading=f"Differences to {against}", sentences=[sentence], figures=drawn, table=table)


def costs(results: Results) -> Section:
    """Accuracy over training time and over parameters, at the most labels."""
    rows = [row for row in results.rows if row["shots"] == results.most]
    metric, where = results.metric.title, results.inside(results.most)
    drawn = [
        figures.cloud(
            {row["method"]: (max(row[name], least), row["mean"]) for row in rows},
            label=f"{metric[:1].upper() + metric[1:]} of each method over its {title}, {where}",
            titles=(title, metric),
            form=form,
        )
        for name, title, least, form in (
            ("seconds", "seconds of training", 1e-3, "~g"),
            ("parameters", "learned parameters", 1, "~s"),
        )
    ]
    caption = f"Parameters and time beside {metric}, {where}"
    columns = {name: columns_of(results)[name] for name in ("method", "mean", "parameters", "seconds")}
    table = _table(caption, rows, columns)
    return Section(heading="Parameters and time", figures=drawn, table=table)


def columns_of(results: Results) -> dict[str, Column]:
    """The columns of the rows of `Results.rows`."""
    metric = results.metric
    return {
        "method": Column("method"),
        "shots": Column(metric.kinds),
        "mean": Column(metric.title, metric.form),
        "ci_low": Column("low", metric.form),
        "ci_high": Column("high", metric.form),
        "alone": Column("alone", metric.form),
        "seeds": Column("seeds"),
        "parameters": Column("parameters", "{:,}"),
        "seconds": Column("seconds", "{:.1f}"),
        "ms_per_text": Column("ms per text", "{:.2f}"),
    }


def _table(caption: str, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, Column]) -> Table:
    """Rows of `Results.rows` with these columns of them."""
    cells = [[row[name] for name in columns] for row in rows]
    return Table(caption=caption, columns=list(columns.values()), rows=cells)


def others(results: Results) -> Section:
    """The further scores, each with its interval."""
    names = results.metric.others
    rows: list[list[Cell]] = []
    for shots in by_size(results.shots)[::-1]:
        for row in results.ranked(shots):
            scores = [results.score(row["method"], shots, name) for name in names]
            rows.append([row["method"], shots, *(score and score.written(FORM) for score in scores)])
    table = Table(
        caption=f"{', '.join(names)} on the test rows, with 95 % intervals over seeds",
        columns=[Column("method"), Column(results.metric.kinds), *map(Column, names)],
        rows=rows,
    )
    return Section(heading="Other scores", sentences=[results.metric.others_say], table=table)


def numbers(facts: Any) -> Section:
    """Quantiles of the labels of a regression."""
    table = Table(
        caption="Quantiles of the labels",
        columns=[Column("share of the rows, %", "{:.0f}"), Column("label", "{:.4g}")],
        rows=[[100 * share, value] for share, value in zip(QUANTILES, facts["numbers"], strict=True)],
    )
    return Section(heading="Labels", table=table)


def runs(results: Results) -> Section:
    """A row per record."""
    metric = results.metric
    metrics = [metric.name, *metric.others, f"validation_{metric.name}"]
    table = Table(
        caption="Every run",
        columns=[
            Column("method"),
            Column(metric.kinds),
            Column("seed"),
            *(Column(name.replace("_", " "), metric.form) for name in metrics),
            Column("seconds", "{:.1f}"),
        ],
        rows=[
            [run.method, run.data["shots"], run.seed, *map(run.metrics.get, metrics), run.seconds]
            for run in results.records
        ],
        folded=True,
    )
    return Section(heading="Runs", table=table)


def leading(results: Results) -> list[str]:
    """The curves to draw if there are many: reference, best, then the highest at the most labels."""
    rows = results.ranked(results.most)
    names = [results.reference, results.best or results.reference, *(row["method"] for row in rows)]
    return list(dict.fromkeys(names))[:CURVES]


def summary(about: About, results: Results) -> Section:
    """Counts of rows, repeats, classes, tokens and unknown words."""
    facts, lengths = about.data, about.data["tokens"]["quantiles"]
    trained_on = [record.data for record in results.records if record.data["shots"] == results.most]
    unknown = [data["unknown_share"] for data in trained_on if "unknown_share" in data]
    tested = (
        "rows held out by each seed"
        if about.test is None
        else f"{about.test['name']}: {about.test['rows']:,} rows"
    )
    unknown_share = f"{100 * sum(unknown) / len(unknown):.1f} %" if unknown else None
    kinds = {ACCURACY: "classes", SETS: "labels"}.get(results.metric, "tags")
    classes: list[list[Cell]] = [] if "numbers" in facts else [[kinds, f"{len(facts['classes']):,}"]]
    rows: list[list[Cell]] = [
        ["name", facts["name"]],
        ["rows", f"{facts['rows']:,}"],
        ["rows left out, without text or label", f"{facts['dropped']:,}"],
        ["rows that repeat the text of an earlier row", f"{facts['duplicates']:,}"],
        *classes,
        ["tokens per text: shortest, median, longest", f"{lengths[0]:,}; {lengths[3]:,}; {lengths[6]:,}"],
        ["unknown tokens in the training rows", unknown_share],
        ["tested on", tested],
        ["test rows that are also training rows", f"{about.repeated:,}"],
    ]
    table = Table(caption="The data in numbers", columns=[Column("fact"), Column("value")], rows=rows)
    return Section(heading="The data", sentences=["No text of the data is on this page."], table=table)


def classes(facts: Any, results: Results) -> Section:
    """Rows per class or label, or words per tag."""
    counts = facts["classes"].items()
    what, of = {ACCURACY: ("class", "rows"), SETS: ("label", "rows")}.get(results.metric, ("tag", "words"))
    total = facts["rows"] if results.metric is SETS else sum(facts["classes"].values())
    table = Table(
        caption=f"{of.capitalize()} per {what}",
        columns=[Column(what), Column(of, "{:,}"), Column("share, %", "{:.1f}")],
        rows=[[name, count, 100 * count / total] for name, count in counts],
        folded=len(counts) > 30,
    )
    headings = {"class": "Classes", "label": "Labels", "tag": "Tags"}
    return Section(heading=headings[what], table=table)


def histogram(tokens: dict[str, Any]) -> Section:
    """Texts by number of tokens."""
    starts = [1, *(edge + 1 for edge in tokens["edges"][:-1])]
    groups = [
        f"{low} to {high}" if low < high else str(low)
        for low, high in zip(starts, tokens["edges"], strict=True)
    ]
    titles, label = ("tokens", "texts"), "Texts by number of tokens"
    figure = figures.columns(groups, tokens["rows"], label=label, titles=titles)
    table = Table(
        caption=label,
        columns=list(map(Column, titles)),
        rows=[[group, count] for group, count in zip(groups, tokens["rows"], strict=True)],
    )
    return Section(heading="Lengths of the texts", figures=[figure], table=table)
