"""The sections on the data. The page shows none of its texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vnait.about import About
from vnait.page.sections import Cell, Column, Section, Table
from vnait.report import figures
from vnait.results import Results


def sections(about: About, results: Results) -> Iterator[Section]:
    """Counts, classes, lengths."""
    yield summary(about, results)
    yield classes(about.data)
    yield histogram(about.data["tokens"])


def summary(about: About, results: Results) -> Section:
    """Counts of rows, repeats, classes, tokens and unknown words."""
    facts, lengths = about.data, about.data["tokens"]["quantiles"]
    found = [one.data for one in results.records if one.data["shots"] == results.most]
    unknown = [data["unknown_share"] for data in found if "unknown_share" in data]
    tested = (
        "rows held out by each seed"
        if about.test is None
        else f"{about.test['name']}: {about.test['rows']:,} rows"
    )
    unknown_share = f"{100 * sum(unknown) / len(unknown):.1f} %" if unknown else None
    rows: list[list[Cell]] = [
        ["name", facts["name"]],
        ["rows", f"{facts['rows']:,}"],
        ["rows left out, without text", f"{facts['dropped']:,}"],
        ["rows that repeat the text of an earlier row", f"{facts['duplicates']:,}"],
        ["classes", f"{len(facts['classes']):,}"],
        ["tokens per text: shortest, median, longest", f"{lengths[0]:,}; {lengths[3]:,}; {lengths[6]:,}"],
        ["unknown tokens in the training rows", unknown_share],
        ["tested on", tested],
        ["test rows that are also training rows", f"{about.repeated:,}"],
    ]
    table = Table(caption="The data in numbers", columns=[Column("fact"), Column("value")], rows=rows)
    return Section(heading="The data", sentences=["No text of the data is on this page."], table=table)


def classes(facts: Any) -> Section:
    """Rows per class."""
    counts = facts["classes"].items()
    table = Table(
        caption="Rows per class",
        columns=[Column("class"), Column("rows", "{:,}"), Column("share, %", "{:.1f}")],
        rows=[[name, count, 100 * count / facts["rows"]] for name, count in counts],
        folded=len(counts) > 30,
    )
    return Section(heading="Classes", table=table)


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
