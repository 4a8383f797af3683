"""What a page says, before it is a page: sections of sentences, figures and a table each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Cell = str | float | None


@dataclass(frozen=True)
class Column:
    """A heading, and how a number below it is written; None is an empty cell, and text stands as it is.

    >>> Column("parameters", "{:,}").shown(1180), Column("accuracy").shown(None)
    ('1,180', '')
    """

    title: str
    form: str = "{}"

    def shown(self, cell: Cell) -> str:
        """A cell as it is read."""
        return "" if cell is None else cell if isinstance(cell, str) else self.form.format(cell)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows below columns; the first cell of a row names it. folded: closed until it is asked for."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    folded: bool = False

    @property
    def kinds(self) -> list[str]:
        """Of each column: "number", which stands to the right, "words", which need room to break, or "name"."""
        return [self._kind(column, [row[at] for row in self.rows]) for at, column in enumerate(self.columns)]

    def _kind(self, column: Column, cells: Sequence[Cell]) -> str:
        if column.form != "{}" or any(isinstance(cell, int | float) for cell in cells):
            return "number"
        return "words" if any(isinstance(cell, str) and len(cell) > 24 for cell in cells) else "name"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A plotly figure as plain data. label: what it shows, for those who don't see it;  folded: closed until it is asked for."""

    label: str
    data: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]
    folded: bool = False


@dataclass(frozen=True, kw_only=True)
class Image:
    """A picture that is there already: bytes of a PNG, and what it shows."""

    label: str
    png: bytes


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading and what stands below it. code: something to copy, such as a command."""

    heading: str
    sentences: Sequence[str] = field(default_factory=list)
    code: str = ""
    figures: Sequence[Figure] = field(default_factory=list)
    image: Image | None = None
    table: Table | None = None
