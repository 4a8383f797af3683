"""An explanation as a file: a figure, or a page with the figure and its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

import torch

from vnait import drawing, page
from vnait.errors import InputError
from vnait.explanation import Explanation
from vnait.explanation.figure import figure
from vnait.explanation.letters import shown
from vnait.files import whole_file
from vnait.page.sections import Column, Image, Section, Table

FORMATS = (*drawing.FORMATS, ".html")
LABEL = "Tokens on the coordinate line, gaps, rho and attention"
TOKENS = (
    Column("token"),
    Column("coordinate", "{:.2f}"),
    Column("gap before", "{:.2f}"),
    Column("rho", "{:.3f}"),
    Column("says", "{:+.2f}"),
    Column("known"),
)


def checked(path: str | Path) -> Path:
    """The path, or an error where its ending is not one that is written."""
    path = Path(path)
    if path.suffix not in FORMATS:
        raise InputError(f"{path}: an explanation is written as {', '.join(FORMATS)}; give a name that ends so.")
    return path


def save(explanation: Explanation, path: str | Path) -> None:
    """Write it as .png, .svg, .pdf or .html, whole or not at all. The page opens without a network."""
    path = checked(path)
    if path.suffix != ".html":
        drawing.save(figure(explanation), path)
        return
    text = page.html(f"What {explanation.method} sees", _sections(explanation))
    with whole_file(path) as draft:
        draft.write_text(text, encoding="utf-8")


def head_view(explanation: Explanation) -> str:
    """The heads as bertviz shows them (Vig 2019, arXiv:1906.05714), made by it: HTML that loads d3 and jQuery from the net."""
    if find_spec("bertviz") is None:
        raise InputError("bertviz is not installed: pip install 'vnait[bertviz]'.")
    from bertviz import head_view as view

    layers = [torch.from_numpy(layer)[None] for layer in explanation.attention]
    found: str = view(layers, [shown(token) for token in explanation.tokens], html_action="return").data
    return found


def png(explanation: Explanation, *, narrow: float | None = None) -> bytes:
    """The `figure` as a PNG."""
    with BytesIO() as file:
        figure(explanation, narrow=narrow).savefig(file, format="png")
        return file.getvalue()


def told(explanation: Explanation) -> str:
    """The answer's logit, and what says it.

    >>> from types import SimpleNamespace
    >>> told(SimpleNamespace(logit={"Transformer": 0.25, "bag of words": 1.0}))
    "Logit +1.25 over the labels' mean: Transformer +0.25, bag of words +1.00"
    """
    parts = ", ".join(f"{name} {part:+.2f}" for name, part in explanation.logit.items())
    return f"Logit {sum(explanation.logit.values()):+.2f} over the labels' mean: {parts}"


def tokens(explanation: Explanation) -> Table:
    """A row a token: its coordinate, the gap before it, rho (empty where no vector is added), what it says, and if it is known."""
    rho: Sequence[float | None] = explanation.similarity or [None] * len(explanation.tokens)
    known = ["yes" if known else "no" for known in explanation.known]
    columns = (explanation.tokens, explanation.coordinates, explanation.gaps, rho, explanation.says, known)
    return Table(caption="Tokens", columns=TOKENS, rows=list(zip(*columns, strict=True)))


def _sections(explanation: Explanation) -> list[Section]:
    kinds = [
        [f"layer {layer}, head {head}", str(kind)]
        for layer, row in enumerate(explanation.heads, 1)
        for head, kind in enumerate(row, 1)
    ]
    terms = Table(
        caption="Shares of the first layer's scores (%)",
        columns=[Column("term"), *(Column(f"head {head + 1}", "{:.1f}") for head in range(len(explanation.heads[0])))],
        rows=[[term, *(100 * share for share in found)] for term, found in explanation.shares.items()],
    )
    return [
        Section(
            heading="Answer",
            sentences=[
                f"{explanation.label}, with a probability of {explanation.probability:.3f}.",
                f"{told(explanation)}. What a word says is its part of the bag's; the rest is a constant.",
                f"{explanation.method}: {explanation.formula}",
                *(f"It {words}." for words in explanation.enters),
            ],
        ),
        Section(
            heading="Tokens",
            image=Image(label=LABEL, png=png(explanation)),
            table=tokens(explanation),
        ),
        Section(
            heading="Heads", table=Table(caption="Kinds of heads", columns=[Column("head"), Column("kind")], rows=kinds)
        ),
        Section(
            heading="Scores",
            sentences=["Position is the added vector; content is all else that the first layer reads."],
            table=terms,
        ),
    ]
