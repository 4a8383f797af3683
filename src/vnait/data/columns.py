"""Columns of a table by their names, and their cells as strings."""

from __future__ import annotations

import datetime
import logging
import math
import numbers
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches

from vnait.data.decoding import same
from vnait.data.formats import Columns
from vnait.data.labels import LABEL_SEPARATOR, cell_of
from vnait.data.pairs import Pair
from vnait.shared.errors import InputError, has_surrogate

logger = logging.getLogger("vnait")

Texts = Callable[[], Iterator[str]]  # anew at each call


def named(text: str) -> list[str]:
    """The columns that `text` may name: one, or two with a comma between them.

    >>> named("body"), named("question, answer")
    (['body'], ['question, answer', 'question', 'answer'])
    """
    parts = [part.strip() for part in text.split(",")]
    return [text] if len(parts) == 1 else [text, *parts]


def texts_in(columns: Columns, text: str, source: str) -> Texts:
    """The texts of a column, or the pairs of two."""
    _, *parts = named(text)
    if text in columns[0]:
        if parts and set(parts) <= set(columns[0]):
            logger.warning(
                "%s: %r is one column; rename it to read %s as pairs.", source, text, " and ".join(parts)
            )
        return strings_in(columns, text, source)
    if not parts:
        return strings_in(columns, text, source)
    if len(parts) > 2 or not all(parts) or parts[0] == parts[1]:
        raise InputError(
            f"{source} has no column {text!r}, and it is not a pair of columns; give one name, or two with a "
            "comma between them. Rename a column whose own name has a comma."
        )
    one, other = (strings_in(columns, part, source) for part in parts)
    return lambda: map(Pair.of, one(), other())


def strings_in(columns: Columns, name: str, source: str, *, lists: bool = False) -> Texts:
    """The cells of a column; with `lists`, also lists of labels."""
    names, cells = columns
    found = name if name in names else _alike(list(dict.fromkeys(names)), name, source)
    if (count := names.count(found)) > 1:
        raise InputError(f"{source} has {count} columns {found!r}; rename all but one.")
    at = names.index(found)
    read = _set if lists else _string
    return lambda: (read(cell, source, row, found) for row, cell in enumerate(cells(at), 1))


def _alike(columns: Sequence[str], name: str, source: str) -> str:
    """The only column that differs just in case or space; else an error that suggests the closest."""
    alike = [column for column in columns if same(column) == same(name)]
    if len(alike) == 1:
        return alike[0]
    there = ", ".join(map(repr, columns[:20])) + " ..." * (len(columns) > 20)
    close = alike or get_close_matches(name, columns, n=1)
    meant = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    raise InputError(
        f"{source} has no column {name!r}; its columns are {there}.{meant} Name the columns with --text, "
        "--label and --keep (text=, label= in Python); the first line must be the header."
    )


def _set(cell: object, source: str, row: int, column: str) -> str:
    """A cell, or a list of labels, as JSON and Parquet have them, with | between them."""
    if not isinstance(cell, list | tuple):
        return _string(cell, source, row, column)
    names = [_string(one, source, row, column) for one in cell]
    if wrong := next((name for name in names if LABEL_SEPARATOR in name), None):
        raise InputError(
            f"{source}, row {row}, column {column!r} has the label {wrong!r}; rename it without "
            f"{LABEL_SEPARATOR}."
        )
    return cell_of(names)


def _string(cell: object, source: str, row: int, column: str) -> str:
    """The cell as a string, "" if it is missing."""
    if isinstance(cell, str) and not has_surrogate(cell):
        return cell
    where = f"{source}, row {row}, column {column!r}"
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if not isinstance(cell, (str, numbers.Number, datetime.date, datetime.time)):
        raise InputError(f"{where} has a value of type {type(cell).__name__}; expected text or a number.")
    written = str(cell)
    if has_surrogate(written):
        raise InputError(
            f"{where} contains a lone surrogate, which is not valid text; write it "
            "again from the original text."
        )
    return written
