"""How a file is laid out, and the columns that are read from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from vnait.data.decoding import separator_of
from vnait.shared.errors import InputError


class Layout(TypedDict, total=False):
    """How a file is laid out. What is left out is found in the file.

    sep         the separator of a CSV or TSV file: , ; | or tab
    encoding    of a text file; else by its byte-order mark, else UTF-8
    sheet       the sheet of a workbook; else the first that is not hidden
    header      the row of the column names, from 1, as spreadsheets count; 0: there is none, and columns are
                named 1, 2 and so on. Else the first row that is not blank
    decimal     the decimal mark of numbers as labels, . or ,
    """

    sep: str | None
    encoding: str | None
    sheet: str | None
    header: int | None
    decimal: str


@dataclass(frozen=True)
class Format:
    """The columns wanted of a file, and its layout."""

    wanted: Sequence[str]
    sep: str | None = None
    encoding: str | None = None
    sheet: str | None = None
    header: int | None = None

    @classmethod
    def of(cls, wanted: Sequence[str], layout: Layout) -> Format:
        """A layout as a user gives it, checked."""
        settings: dict[str, Any] = {name: value for name, value in layout.items() if name != "decimal"}
        if (sep := layout.get("sep")) is not None:
            settings["sep"] = separator_of(sep)
        if (header := layout.get("header")) is not None and header < 0:
            raise InputError(f"header is {header}; give the number of a row, from 1, or 0 if there is none.")
        return cls(wanted, **settings)

    def refuse(self, source: str, kind: str, *names: str) -> None:
        """Raise InputError if one of these options is set, which the kind of file has no use for."""
        if name := next((name for name in names if getattr(self, name) is not None), None):
            option = "--no-header" if name == "header" and self.header == 0 else f"--{name}"
            raise InputError(f"{source} is {kind}, which has no {name} to choose; leave {option} out.")


@dataclass(frozen=True)
class Columns:
    """Names of columns, and the cells of the column at an index; those not needed may be large or not text.

    cells   reads the file again at each call, so that only the requested part is in memory
    number  of a row, from 0: the number that a program which opens the file shows for it
    """

    names: list[str]
    cells: Callable[[int], Iterable[object]]
    number: Callable[[int], int] = lambda row: row + 1


def numbered(width: int) -> list[str]:
    """The names of columns without a header.

    >>> numbered(3)
    ['1', '2', '3']
    """
    return list(map(str, range(1, width + 1)))
