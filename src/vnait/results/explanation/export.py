"""An explanation as a file: a figure, or a page with the figure and its numbers."""

from pathlib import Path

import torch

from vnait.results import drawing, page
from vnait.results.explanation import Explanation
from vnait.results.explanation.display import (
    ADDS,
    CONTROL,
    EQUAL,
    WITHOUT_ADDS,
    logit_parts,
    printable,
    probability_of,
)
from vnait.results.explanation.figure import figure
from vnait.results.page.sections import Column, Image, Section, Table
from vnait.shared.errors import extra

LABEL = "Tokens on the coordinate line, what they add, gaps, rho and attention"


def check_path(path: str | Path) -> Path:
    """The path; InputError for an ending that `save` can't write."""
    return drawing.check_path(path, endings=(*drawing.ENDINGS, ".html"), what="an explanation")


def save(explanation: Explanation, path: str | Path) -> None:
    """Write a .png, .svg, .pdf or .html file, whole or not at all. The page opens without a network."""
    path = check_path(path)
    if path.suffix == ".html":
        page.write(path, f"One text, explained by {explanation.method}", _sections(explanation))
    else:
        drawing.save(figure(explanation), path)


def head_view(explanation: Explanation) -> str:
    """The head view of bertviz (Vig 2019, arXiv:1906.05714): HTML that loads d3 and jQuery from the net."""
    with extra("bertviz"):
        from bertviz import head_view as view

    layers = [torch.from_numpy(layer)[None] for layer in explanation.attention]
    html: str = view(layers, [printable(token) for token in explanation.tokens], html_action="return").data
    return html


def token_table(explanation: Explanation) -> Table:
    """A row per token, with columns only for what the model has."""
    columns = [
        (Column("token"), explanation.tokens),
        (Column("adds", "{:+.2f}"), explanation.attribution),
        (Column(f"of it by the {[*explanation.logit][-1]}", "{:+.2f}"), explanation.bag_contribution),
        (Column("coordinate", "{:.2f}"), explanation.coordinates),
        (Column("gap before", "{:.2f}"), explanation.gaps),
        (Column("shuffled", "{:.2f}"), explanation.control),
        (Column("rho", "{:.3f}"), explanation.similarity),
        (Column("known"), ["yes" if known else "no" for known in explanation.known]),
    ]
    shown = [(column, values) for column, values in columns if values is not None]
    rows = list(zip(*(values for _, values in shown), strict=True))
    return Table(caption="Tokens", columns=[column for column, _ in shown], rows=rows)


def _sections(explanation: Explanation) -> list[Section]:
    kinds = [
        [f"layer {layer}, head {head}", str(kind)]
        for layer, row in enumerate(explanation.heads, 1)
        for head, kind in enumerate(row, 1)
    ]
    heads = [Column(f"head {head}", "{:.1f}") for head in range(1, len(explanation.heads[0]) + 1)]
    terms = Table(
        caption="Shares of the first layer's scores (%)",
        columns=[Column("term"), *heads],
        rows=[[term, *(100 * share for share in shares)] for term, shares in explanation.shares.items()],
    )
    label, answer = explanation.label, explanation.answer
    sentences = [
        f"{label} ({probability_of(label, answer, explanation.probability)}).",
        f"{logit_parts(explanation)}.",
        f"adds: {WITHOUT_ADDS if explanation.constant is None else f'{ADDS}, {explanation.constant:+.2f}'}.",
        f"{explanation.method}: {explanation.formula}",
        *(f"It {words}." for words in explanation.enters),
    ]
    if explanation.gaps_are_equal:
        sentences.append(f"Gaps: {EQUAL}.")
    if explanation.control is not None:
        sentences.append(f"Shuffled: {CONTROL}.")
    sections = [
        Section(heading="Answer", sentences=sentences),
        Section(
            heading="Tokens",
            image=Image(label=LABEL, png=drawing.png(figure(explanation))),
            table=token_table(explanation),
        ),
        Section(
            heading="Heads",
            table=Table(caption="Kinds of heads", columns=[Column("head"), Column("kind")], rows=kinds),
        ),
    ]
    words = "Position is the added vector; content is everything else that the first layer reads."
    return sections + (
        [Section(heading="Scores", sentences=[words], table=terms)] if explanation.shares else []
    )
