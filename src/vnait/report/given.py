"""The sections on what was learned from and tested on. No text of it is on the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vnait.about import About
from vnait.page.sections import Cell, Column, Section, Table
from vnait.report import figures
from vnait.results import Results


def sections(about: About, results: Results) -> Iterator[Section]:
    """Rows, repeats and unknown words; classes; lengths."""
    yield summary(about, results)
    yield classes(about.data)
    yield histogram(about.data["tokens"])


def summary(about: About, results: Results) -> Section:
    """The data in numbers."""
    facts, lengths = about.data, about.data["tokens"]["quantiles"]
    found = [one.data for one in results.records if one.data["shots"] == results.most]
    unknown = [data["unknown_share"] for data in found if "unknown_share" in data]
    tested = (
        "rows held out by each seed" if about.test is None else f"{about.test['name']}: {about.test['rows']:,} rows"
    )
    rows: list[list[Cell]] = [
        ["name", facts["name"]],
        ["rows", f"{facts['rows']:,}"],
        ["rows left out, without text", f"{facts['dropped']:,}"],
        ["rows whose text is that of an earlier row", f"{facts['duplicates']:,}"],
        ["classes", f"{len(facts['classes']):,}"],
        ["tokens a text: shortest, median, longest", f"{lengths[0]:,}; {lengths[3]:,}; {lengths[6]:,}"],
        ["unknown among the tokens learned from", f"{100 * sum(unknown) / len(unknown):.1f} %" if unknown else None],
        ["tested on", tested],
        ["test rows that are also among the rows to learn from", f"{about.repeated:,}"],
    ]
    table = Table(caption="The data in numbers", columns=[Column("what"), Column("how much")], rows=rows)
    return Section(heading="The data", sentences=["No text of the data is on this page."], table=table)


def classes(facts: Any) -> Section:
    """Rows of each class."""
    counts = facts["classes"].items()
    table = Table(
        caption="Rows of each class",
        columns=[Column("class"), Column("rows", "{:,}"), Column("share, %", "{:.1f}")],
        rows=[[name, count, 100 * count / facts["rows"]] for name, count in counts],
        folded=len(counts) > 30,
    )
    return Section(heading="Classes", table=table)


def histogram(tokens: dict[str, Any]) -> Section:
    """How many texts have how many tokens."""
    starts = [1, *(edge + 1 for edge in tokens["edges"][:-1])]
    groups = [f"{low} to {high}" if low < high else str(low) for low, high in zip(starts, tokens["edges"], strict=True)]
    titles = ("tokens", "texts")
    figure = figures.columns(groups, tokens["rows"], label="How many texts have how many tokens", titles=titles)
    table = Table(
        caption="Texts by their number of tokens",
        columns=list(map(Column, titles)),
        rows=[[group, count] for group, count in zip(groups, tokens["rows"], strict=True)],
    )
    return Section(heading="Lengths of the texts", figures=[figure], table=table)
