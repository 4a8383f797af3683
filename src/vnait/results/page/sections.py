"""The content of a page: sections with sentences, figures and a table each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Cell = str | float | None


@dataclass(frozen=True)
class Column:
    """A heading, and the format of the numbers below it. None is an empty cell; text is not formatted.

    >>> Column("parameters", "{:,}").format(1180), Column("accuracy").format(None)
    ('1,180', '')
    """

    title: str
    form: str = "{}"

    def format(self, cell: Cell) -> str:
        """The text of a cell."""
        return "" if cell is None else cell if isinstance(cell, str) else self.form.format(cell)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows below columns; the first cell of a row names it. folded: closed until a click."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    folded: bool = False

    @property
    def kinds(self) -> list[str]:
        """Per column: "number" (aligned right), "words" (wrapped) or "name" (not wrapped)."""
        kinds = []
        for at, column in enumerate(self.columns):
            cells = [row[at] for row in self.rows]
            if column.form != "{}" or any(isinstance(cell, int | float) for cell in cells):
                kinds.append("number")
            else:
                long = any(isinstance(cell, str) and len(cell) > 24 for cell in cells)
                kinds.append("words" if long else "name")
        return kinds


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A plotly figure as plain data. label: caption and text alternative; folded: closed until a click."""

    label: str
    data: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]
    folded: bool = False


@dataclass(frozen=True, kw_only=True)
class Image:
    """The bytes of a PNG. label: its text alternative."""

    label: str
    png: bytes


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading and its content. code: a command to copy."""

    heading: str
    sentences: Sequence[str] = field(default_factory=list)
    code: str = ""
    figures: Sequence[Figure] = field(default_factory=list)
    image: Image | None = None
    table: Table | None = None
