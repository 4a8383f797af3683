"""Writes docs/documents.md: the source documents, statement by statement, with what shows each.

A claim goes to the rows that its `source` names, such as "003, rotation; 004, two axes". Claims of the field
or of this project start with FIELD or OWN there, and have a table of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from vnait_lab.page.parts import Judged, read_data, table


@dataclass(frozen=True)
class Row:
    """What a document states, at the place where it treats it most; documents.toml has them all.

    section     there and wherever else the document states it
    statement   in one sentence
    sources     parts of the `source` of claims about it
    tests       "file::test", what makes sure that the part is the formula
    shown       what else shows it, without a verdict
    lacks       what is not shown, and why
    """

    section: str
    statement: str
    sources: Sequence[str] = ()
    tests: Sequence[str] = ()
    shown: str = ""
    lacks: str = ""


def read_documents() -> dict[str, list[Row]]:
    """The rows of each document, by its name."""
    documents = read_data("documents.toml")["document"]
    return {document["name"]: [Row(**row) for row in document["rows"]] for document in documents}


DOCUMENTS = read_documents()
FIELD, OWN = "the field", "this project"
KINDS = ("with verdicts", "of these in part", "tested or shown", "of these in part", "open")
HEADS = ("section", "the document states", "claim", "verdict", "what was found", "seeds", "command")


def page(claims: Sequence[Judged]) -> str:
    documents = "\n\n".join(f"## {name}\n\n{of(rows, claims)}" for name, rows in DOCUMENTS.items())
    others = [claim for claim in claims if any(part.startswith((FIELD, OWN)) for part in sources(claim))]
    return f"""# The documents, line by line

Written by `python -m vnait_lab.page` from the records in `studies/records`.

This project starts from two versions of a paper (000, 001) and two texts on positional encodings (003, 004).
Here are their statements in their own order, each with the claims that test it. A statement that a document
repeats has one row, where it is treated most; the section column names the other places.

- Verdicts, figures, controls and arms are those of [the page of studies](../studies/README.md).
- *tested*: a test makes sure that the library's part is the formula. *shown*: measured or drawn, without a
  verdict. *open*: what is not shown, and why.
- `vnait study NAME` computes anew; with `--out studies/records/claims` it reads the committed records.
- *seeds*: of short studies; one where a study is exact, or draws thousands of samples. Two are one fewer than
  a verdict should have.
- What the documents contradict is in [the papers' claims, and what is true](faithfulness.md).

{table(["document", "rows", *KINDS], [[name, len(rows), *counts(rows)] for name, rows in DOCUMENTS.items()])}

{documents}

## Of the field and of this project

{table(HEADS[2:], map(line, others))}
"""


def counts(rows: Sequence[Row]) -> list[int]:
    """Rows by KINDS: in part where something is open."""
    judged = [row for row in rows if row.sources]
    shown = [row for row in rows if not row.sources and (row.tests or row.shown)]
    parts = [sum(bool(row.lacks) for row in group) for group in (judged, shown)]
    return [len(judged), parts[0], len(shown), parts[1], len(rows) - len(judged) - len(shown)]


def sources(claim: Judged) -> list[str]:
    return claim.source.split("; ") if claim.source else []


def of(rows: Iterable[Row], claims: Sequence[Judged]) -> str:
    """The table of a document; a row's section and statement stand in its first line."""
    lines = []
    for row in rows:
        first: Sequence[str] = (row.section, row.statement)
        for cells in cells_of(row, claims):
            lines.append([*first, *cells])
            first = ("", "")
    return table(HEADS, lines)


def cells_of(row: Row, claims: Sequence[Judged]) -> Iterator[list[object]]:
    """The last five columns: a line per claim, then tests, what else is shown, and what is not."""
    yield from (line(claim) for claim in claims if set(row.sources) & set(sources(claim)))
    if row.tests:
        yield ["", "tested", "", "", "`pytest " + " ".join(f"tests/{path(test)}" for test in row.tests) + "`"]
    if row.shown:
        yield ["", "shown", row.shown, "", ""]
    if row.lacks:
        yield ["", "open", row.lacks, "", ""]


def path(test: str) -> str:
    """
    >>> path("test_codes::test_bits")
    'test_codes.py::test_bits'
    """
    return test.replace("::", ".py::")


def line(claim: Judged) -> list[object]:
    figure = f", [figure](../studies/records/{claim.figure})" if claim.figure else ""
    seeds = claim.seeds or ""
    return [claim.statement, claim.verdict.word, claim.summary, seeds, f"`{claim.command}`{figure}"]
