"""A row of a document: a statement, and what shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """What a document states, at the place where it treats it most.

    section     there and wherever else the document states it
    statement   in one sentence
    sources     parts of the `source` of claims about it
    tests       "file::test", what makes sure that the part is the formula
    shown       what else shows it, without a verdict
    lacks       what is not shown, and why
    """

    section: str
    statement: str
    sources: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    shown: str = ""
    lacks: str = ""
