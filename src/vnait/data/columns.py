"""Columns of a table by their names, and their cells as strings."""

from __future__ import annotations

import datetime
import logging
import math
import numbers
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches

from vnait.data.decoding import same, separator_of
from vnait.data.formats import Columns, Format, columns_of
from vnait.data.labels import LABEL_SEPARATOR, cell_of, labels_in
from vnait.data.pairs import Pair
from vnait.shared.errors import InputError, has_surrogate

logger = logging.getLogger("vnait")

Texts = Callable[[], Iterator[str]]  # anew at each call


def text_and_label(
    source: str,
    text: str,
    label: str | None,
    *,
    split: str = "train",
    sep: str | None = None,
    encoding: str | None = None,
    sets: bool = False,
) -> tuple[Texts, Texts | None]:
    """The cells of the text column, or the pairs of two, and those of the label column if one is named.

    sets   a cell of labels has any number of them, with | between them or as a list
    """
    names = _names_in(text)
    if label is not None and same(label) in map(same, names) and len(names) <= 3:  # more are refused below
        raise InputError(
            f"the column {label!r} is given as text and as label; a model would read its answer. Name "
            "another with --text or --label (text=, label= in Python)."
        )
    columns = _columns(source, names if label is None else [*names, label], split, sep, encoding)
    texts = _texts_in(columns, text, source)
    return texts, None if label is None else _strings_in(columns, label, source, sets=sets)


def column(
    source: str, name: str, *, split: str = "train", sep: str | None = None, encoding: str | None = None
) -> Texts:
    """The cells of one column as strings, a row each, "" where one is missing; not held in memory."""
    return _strings_in(_columns(source, [name], split, sep, encoding), name, source)


def _names_in(text: str) -> list[str]:
    """The columns that `text` may name: one, or two with a comma between them.

    >>> _names_in("body"), _names_in("question, answer")
    (['body'], ['question, answer', 'question', 'answer'])
    """
    parts = [part.strip() for part in text.split(",")]
    return [text] if len(parts) == 1 else [text, *parts]


def _columns(
    source: str, wanted: Sequence[str], split: str, sep: str | None, encoding: str | None
) -> Columns:
    return columns_of(source, split, Format(wanted, None if sep is None else separator_of(sep), encoding))


def _texts_in(columns: Columns, text: str, source: str) -> Texts:
    """The texts of a column, or the pairs of two."""
    _, *parts = _names_in(text)
    if text in columns[0]:
        if parts and set(parts) <= set(columns[0]):
            logger.warning(
                "%s: %r is one column; rename it to read %s as pairs.", source, text, " and ".join(parts)
            )
        return _strings_in(columns, text, source)
    if not parts:
        return _strings_in(columns, text, source)
    if len(parts) > 2 or not all(parts) or parts[0] == parts[1]:
        raise InputError(
            f"{source} has no column {text!r}, and it is not a pair of columns; give one name, or two with a "
            "comma between them. Rename a column whose own name has a comma."
        )
    first, second = (_strings_in(columns, part, source) for part in parts)
    return lambda: map(Pair.of, first(), second())


def _strings_in(columns: Columns, name: str, source: str, *, sets: bool = False) -> Texts:
    """The cells of a column; with `sets`, each has any number of labels."""
    names, cells = columns
    exact = name if name in names else _alike(list(dict.fromkeys(names)), name, source)
    if (count := names.count(exact)) > 1:
        raise InputError(f"{source} has {count} columns {exact!r}; rename all but one.")
    at = names.index(exact)
    written = _set if sets else _string
    return lambda: (written(cell, source, row, exact) for row, cell in enumerate(cells(at), 1))


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
    """The labels of a cell, or of a list as JSON and Parquet have them, sorted, with | between them."""
    if not isinstance(cell, list | tuple):
        return cell_of(labels_in(_string(cell, source, row, column)))
    labels = [_string(label, source, row, column) for label in cell]
    if wrong := next((label for label in labels if LABEL_SEPARATOR in label), None):
        raise InputError(
            f"{source}, row {row}, column {column!r} has the label {wrong!r}; rename it without "
            f"{LABEL_SEPARATOR}."
        )
    return cell_of(labels_in(cell_of(labels)))


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
