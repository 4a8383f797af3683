"""The explanation of a simple model as a file: what each token adds, as bars; and its terms."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from rich.cells import cell_len

from vnait.results import drawing, page
from vnait.results.colours import COLOURS
from vnait.results.drawing import small_labels
from vnait.results.explanation.display import drawable, probability_of
from vnait.results.explanation.figure import BAR, LETTER, ROOM
from vnait.results.page.sections import Column, Image, Section, Table

Facts = dict[str, Any]  # of `vnait.train.linear.LinearClassifier.explain`
LABEL = "What each token adds to the logit"


def figure(facts: Facts) -> Figure:
    """A bar per token."""
    families, (*tokens, label, answer) = drawable([*facts["tokens"], facts["label"], facts["answer"]])
    width = max(6.0, 1.0 + min(ROOM * len(tokens), 40.0))
    name = LETTER * max(map(cell_len, tokens), default=1)
    with matplotlib.rc_context({"font.family": families, "text.parse_math": False}):
        drawn = Figure(figsize=(width, 1.0 + 2 * BAR + name), dpi=120, layout="constrained")
        title = f"{facts['method']}: {label} ({probability_of(label, answer, facts['probability'])})"
        drawn.suptitle(fill(title, int(width / LETTER)), x=0.01, ha="left", fontsize=9)
        axes = drawn.subplots()
        numbers = range(len(tokens))
        axes.bar(numbers, facts["attribution"], color=COLOURS[0], width=0.7)
        axes.axhline(0, color="black", lw=0.6)
        axes.set(ylabel="adds to the logit", xlim=[-0.6, len(tokens) - 0.4])
        axes.set_xticks(numbers, tokens, rotation=90)
        small_labels(axes, ticks=7)
    return drawn


def save(facts: Facts, path: str | Path) -> None:
    """Write a .png, .svg, .pdf or .html file, whole or not at all. The page opens without a network."""
    path = Path(path)
    if path.suffix == ".html":
        page.write(path, f"One text, explained by {facts['method']}", _sections(facts))
    else:
        drawing.save(figure(facts), path)


def token_table(facts: Facts) -> Table:
    """A row per token."""
    rows = list(zip(facts["tokens"], facts["attribution"], strict=True))
    return Table(caption="Tokens", columns=[Column("token"), Column("adds", "{:+.2f}")], rows=rows)


def term_table(facts: Facts) -> Table:
    """The bias and a row per term."""
    rows = [("bias", facts["bias"]), *facts["terms"].items()]
    return Table(caption="Terms", columns=[Column("term"), Column("adds", "{:+.2f}")], rows=rows)


def _sections(facts: Facts) -> list[Section]:
    probability = probability_of(facts["label"], facts["answer"], facts["probability"])
    answer = [f"{facts['label']} ({probability}).", f"adds: {facts['by']}."]
    image = Image(label=LABEL, png=drawing.png(figure(facts)))
    return [
        Section(heading="Answer", sentences=answer),
        Section(heading="Tokens", image=image, table=token_table(facts)),
        Section(heading="Terms", table=term_table(facts)),
    ]
