"""What the reports of embedders and of language models share: advice, tables as text, reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Advice(NamedTuple):
    """The variant to take, and why."""

    variant: str
    reason: str


def reasons(left_out: dict[str, str]) -> str:
    """A line per variant that was left out."""
    return "\n".join(["left out", *(f"    {variant}: {reason}" for variant, reason in left_out.items())])


def drawn(title: str, heads: Sequence[str], rows: dict[str, list[str]]) -> str:
    """A table of cells by row, indented, under its title."""
    table = [["", *heads], *([variant, *cells] for variant, cells in rows.items())]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
    return "\n".join([title, *(f"    {line.rstrip()}" for line in lines)])
