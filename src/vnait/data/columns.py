"""Columns of a table by their names, and their cells as strings."""

from __future__ import annotations

import datetime
import json
import logging
import math
import numbers
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import islice
from typing import Unpack

from vnait.data.decoding import same
from vnait.data.formats import columns_of
from vnait.data.labels import LABEL_SEPARATOR, cell_of, labels_in
from vnait.data.layout import Columns, Format, Layout
from vnait.data.pairs import Pair
from vnait.shared.errors import InputError, has_surrogate

logger = logging.getLogger("vnait")

Texts = Callable[[], Iterator[str]]  # anew at each call
BOTH = ["text", "label"]  # the columns that are read unless others are named
_SEARCHED = 20  # rows in which a header is looked for
_YES, _NO = {"1", "1.0", "true", "yes", "y", "x"}, {"", "0", "0.0", "false", "no", "n"}


@dataclass(frozen=True)
class Cells:
    """Texts, and labels and groups if they are named; `number`: a row's number in the file."""

    texts: Texts
    labels: Texts | None
    groups: Texts | None
    number: Callable[[int], int]


def text_and_label(
    source: str,
    text: str,
    label: str | None,
    *,
    group: str | None = None,
    split: str = "train",
    sets: bool = False,
    **layout: Unpack[Layout],
) -> Cells:
    """The cells of the text column, or the pairs of two, and those of the columns of labels and of groups if
    they are named.

    text   one column; a+b: two or more, joined by a space; a,b: a pair
    label  one column; a,b,c: columns that state for each label whether a text has it
    sets   a text has any number of labels, with | between them or as a list
    """
    names = _names_in(text)
    answers = [] if label is None else _parts(label, ",")
    again = next((name for name in answers if same(name) in map(same, names)), None)
    if again is not None and text.count(",") < 2:  # more columns are refused below
        raise InputError(
            f"the column {again!r} is given as text and as label; a model would read its answer. Name "
            "another with --text or --label (text=, label= in Python)."
        )
    form = Format.of([*names, *answers, *([] if group is None else [group])], layout)
    columns = columns_of(source, split, form)
    if [text, label] == BOTH and form.header is None:
        columns, text, label = _with_header(columns, source, split, form)
    texts = _texts_in(columns, text, source)
    labels = None if label is None else _labels_in(columns, label, source, sets)
    groups = None if group is None else _strings_in(columns, group, source)
    return Cells(texts, labels, groups, columns.number)


def all_columns(source: str, text: str, **layout: Unpack[Layout]) -> list[str]:
    """The names of the columns of the table with the texts."""
    return columns_of(source, "train", Format.of(_names_in(text), layout)).names


def column(source: str, name: str, text: str, **layout: Unpack[Layout]) -> Texts:
    """The cells of one column beside the texts as strings, a row each, "" where one is missing; not held in
    memory. A list or an object is its JSON.
    """
    columns = columns_of(source, "train", Format.of([*_names_in(text), name], layout))
    return _strings_in(columns, name, source, _any)


def _parts(names: str, mark: str) -> list[str]:
    """Names with a mark between them: all, and each of several.

    >>> _parts("body", ","), _parts("question, answer", ",")
    (['body'], ['question, answer', 'question', 'answer'])
    """
    parts = [part.strip() for part in names.split(mark)]
    return [names] if len(parts) == 1 else [names, *parts]


def _names_in(text: str) -> list[str]:
    """The columns that `text` may name: one, two for pairs, and those that are joined.

    >>> _names_in("title+body,answer")
    ['title+body,answer', 'title+body', 'title', 'body', 'answer']
    """
    return [name for part in _parts(text, ",") for name in (_parts(part, "+") if "," not in part else [part])]


def _with_header(columns: Columns, source: str, split: str, form: Format) -> tuple[Columns, str, str]:
    """The columns text and label; of a file of two columns without a header those that look like them."""
    (text, label), names = BOTH, columns.names
    if len(names) != 2 or not {*map(same, names)}.isdisjoint(BOTH):
        return columns, text, label
    rows = list(zip(*(map(str, columns.cells(at)) for at in (0, 1)), strict=True))
    shorter = int(sum(len(row[1]) for row in rows) < sum(len(row[0]) for row in rows))
    if names[shorter] not in {row[shorter] for row in rows}:
        return columns, text, label
    text, label = str(2 - shorter), str(shorter + 1)
    logger.warning(
        "%s: its first row is no header, since %r is a label of other rows, too: read with --no-header "
        "--text %s --label %s.",
        *(source, names[shorter], text, label),
    )
    return columns_of(source, split, replace(form, header=0)), text, label


def _has(columns: Columns, name: str) -> bool:
    return same(name) in map(same, columns.names)


def _texts_in(columns: Columns, text: str, source: str) -> Texts:
    """The texts of a column, or the pairs of two."""
    _, *parts = _parts(text, ",")
    if _has(columns, text):
        if parts and set(parts) <= set(columns.names):
            logger.warning(
                "%s: %r is one column; rename it to read %s as pairs.", source, text, " and ".join(parts)
            )
        return _strings_in(columns, text, source)
    if not parts:
        return _joined_in(columns, text, source)
    if len(parts) > 2 or not all(parts) or parts[0] == parts[1]:
        raise InputError(
            f"{source} has no column {text!r}, and it is not a pair of columns; give one name, or two with a "
            "comma between them (a + joins columns). Rename a column whose own name has a comma."
        )
    first, second = (_joined_in(columns, part, source) for part in parts)
    return lambda: map(Pair.of, first(), second())


def _joined_in(columns: Columns, text: str, source: str) -> Texts:
    """The texts of a column, or of several with + between their names, joined by a space; empty ones don't
    count.
    """
    _, *parts = _parts(text, "+")
    if _has(columns, text) or not parts:
        return _strings_in(columns, text, source)
    cells = [_strings_in(columns, part, source) for part in parts]
    return lambda: (
        " ".join(filter(str.strip, row)) for row in zip(*(column() for column in cells), strict=True)
    )


def _labels_in(columns: Columns, label: str, source: str, sets: bool) -> Texts:
    """The labels of a column, or of several columns that have a yes or a no each."""
    _, *parts = _parts(label, ",")
    if _has(columns, label) or not parts:
        return _strings_in(columns, label, source, _set if sets else _single)
    cells = [_strings_in(columns, part, source) for part in parts]

    def labels() -> Iterator[str]:
        for row, answers in enumerate(zip(*(column() for column in cells), strict=True)):
            try:
                yes = [name for name, answer in zip(parts, answers, strict=True) if _is_yes(answer, name)]
                if len(yes) > 1 and not sets:
                    raise CellError(_several(yes))
            except CellError as error:
                raise InputError(f"{source}, row {columns.number(row)} {error}") from error
            yield cell_of(labels_in(cell_of(yes)))

    return labels


def _is_yes(answer: str, name: str) -> bool:
    plain = answer.strip().casefold()
    if plain not in _YES | _NO:
        raise CellError(
            f"has {answer[:40]!r} in the column {name!r}; a column per label has 1 or 0. Name one column of "
            "labels with --label, or columns of 0 and 1."
        )
    return plain in _YES


def _strings_in(
    columns: Columns, name: str, source: str, written: Callable[[object], str] | None = None
) -> Texts:
    """The cells of a column as strings."""
    names = columns.names
    exact = name if name in names else _alike(columns, name, source)
    if (count := names.count(exact)) > 1:
        raise InputError(f"{source} has {count} columns {exact!r}; rename all but one.")
    at, written = names.index(exact), written or _string

    def cells() -> Iterator[str]:
        for row, cell in enumerate(columns.cells(at)):
            try:
                string = written(cell)
            except CellError as error:
                raise InputError(f"{source}, row {columns.number(row)}, column {exact!r} {error}") from error
            yield string

    return cells


def _alike(columns: Columns, name: str, source: str) -> str:
    """The only column that differs just in case or space; else an error that suggests the closest."""
    names = list(dict.fromkeys(columns.names))
    alike = [column for column in names if same(column) == same(name)]
    if len(alike) == 1:
        return alike[0]
    there = (", ".join(map(repr, names[:20])) or "none") + " ..." * (len(names) > 20)
    close = alike or get_close_matches(name, names, n=1)
    meant = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    if (row := _row_with(columns, name)) is not None:
        meant = f" Row {row} has such a cell: if it is the header, add --header {row} (header={row})."
    raise InputError(
        f"{source} has no column {name!r}; its columns are {there}.{meant} Name the columns with --text, "
        "--label and --keep (text=, label= in Python); the first line must be the header, or add --no-header "
        "(header=0) and name them by number, as in --text 2."
    )


def _row_with(columns: Columns, name: str) -> int | None:
    """The number of a row near the start that has the name of a column in a cell."""
    rows = [
        row
        for at in range(len(columns.names))
        for row, cell in enumerate(islice(columns.cells(at), _SEARCHED))
        if isinstance(cell, str) and same(cell) == same(name)
    ]
    return columns.number(min(rows)) if rows else None


class CellError(Exception):
    """What is wrong with a cell, without its place."""


def _set(cell: object) -> str:
    """The labels of a cell, or of a list as JSON and Parquet have them, sorted, with | between them."""
    if not isinstance(cell, list | tuple):
        return cell_of(labels_in(_string(cell)))
    labels = list(map(_string, cell))
    if wrong := next((label for label in labels if LABEL_SEPARATOR in label), None):
        raise CellError(f"has the label {wrong!r}; rename it without {LABEL_SEPARATOR}.")
    return cell_of(labels_in(cell_of(labels)))


def _single(cell: object) -> str:
    """The label of a cell, or of a list of one."""
    if not isinstance(cell, list | tuple):
        return _string(cell)
    labels = list(map(_string, cell))
    if len(labels) > 1:
        raise CellError(_several(labels))
    return cell_of(labels)


def _several(labels: Sequence[str]) -> str:
    shown = ", ".join(map(repr, labels[:3]))
    return f"has {len(labels)} labels ({shown}); if a text may have several, add --task multilabel (task=)."


def _any(cell: object) -> str:
    """The cell as a string; the names in a list with | between them, another list or an object as JSON."""
    if isinstance(cell, list) and all(isinstance(part, str) and LABEL_SEPARATOR not in part for part in cell):
        return cell_of(map(_string, cell))
    if isinstance(cell, list | dict):
        return _string(json.dumps(cell, ensure_ascii=False, default=str))
    return _string(cell)


def _string(cell: object) -> str:
    """The cell as a string, "" if it is missing."""
    if isinstance(cell, str) and not has_surrogate(cell):
        return cell
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if not isinstance(cell, (str, numbers.Number, datetime.date, datetime.time, datetime.timedelta)):
        field = (
            f" Name a field of it, as in NAME.{next(iter(cell))}." if isinstance(cell, dict) and cell else ""
        )
        raise CellError(f"has a value of type {type(cell).__name__}; expected text or a number.{field}")
    written = str(cell)
    if has_surrogate(written):
        raise CellError(
            "contains a lone surrogate, which is not valid text; write it again from the original text."
        )
    return written
