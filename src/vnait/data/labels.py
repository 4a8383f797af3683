"""Labels as they are written: several of a text in one cell (crime|drama), numbers, and what is no label."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from itertools import chain

from vnait.data.tasks import MULTILABEL, REGRESSION
from vnait.shared.errors import InputError

logger = logging.getLogger("vnait")

LABEL_SEPARATOR = "|"  # between labels, as in pandas' Series.str.get_dummies and in MovieLens's genres


def labels_in(cell: str) -> list[str]:
    """The labels of a cell, each once and sorted; none in an empty cell, or between two marks.

    >>> labels_in("drama | crime|drama|"), labels_in(" | ")
    (['crime', 'drama'], [])
    """
    return sorted({part.strip() for part in cell.split(LABEL_SEPARATOR)} - {""})


def cell_of(labels: Iterable[str]) -> str:
    """The labels in one cell, as `labels_in` reads them."""
    return LABEL_SEPARATOR.join(labels)


def check_labels(
    labels: Sequence[str], rows: Sequence[int], source: str, column: str, task: str, *, repeated: bool
) -> None:
    """Refuse labels that are not of the task, and log those that look alike or like another task's.

    rows      where each stands in the source, from 0, without the header
    repeated  labels that hardly repeat are refused
    """
    if task == REGRESSION:
        _check_numbers(labels, rows, source, column)
        return
    sets = task == MULTILABEL
    if near := alike(chain.from_iterable(map(labels_in, labels)) if sets else labels):
        logger.warning(
            "%s: the labels %s differ only in spaces, capitals or how a number is written, and count as "
            "different classes; write them alike if they mean the same.",
            source,
            ", ".join(map(repr, near)),
        )
    (_check_sets if sets else _check_classes)(labels, source, column, repeated)


def _check_classes(labels: Sequence[str], source: str, column: str, repeated: bool) -> None:
    """Refuse dates, numbers or free text as labels: columns in which most values occur once. Log that a
    label looks like several, joined by |.
    """
    hint = ", or add --task regression" * is_number(labels[0])
    if repeated:
        _check_repeated(labels, len(labels), source, f"the column {column!r}", hint)
    if marked := [label for label in labels if LABEL_SEPARATOR in label]:
        logger.warning(
            "%s: %r counts as one label; if a text has several, add --task multilabel.", source, marked[0]
        )


def _check_sets(cells: Sequence[str], source: str, column: str, repeated: bool) -> None:
    """The same for cells of any number of labels; log a column in which no cell has two."""
    labels = list(chain.from_iterable(map(labels_in, cells)))
    hint = f", or write {LABEL_SEPARATOR} between the labels of a text"
    if repeated:
        _check_repeated(labels, len(cells), source, f"the column {column!r}", hint)
    if not any(LABEL_SEPARATOR in cell for cell in cells):
        logger.warning(
            "%s: no row has two labels in the column %r; if some have, write %s between them.",
            source,
            column,
            LABEL_SEPARATOR,
        )


def _check_repeated(labels: Sequence[str], rows: int, source: str, column: str, hint: str) -> None:
    distinct = len(set(labels))
    if len(labels) >= 20 and 2 * distinct > len(labels):
        raise InputError(
            f"{source}: {column} has {distinct} different labels in {rows} rows, such as "
            f"{labels[0][:40]!r}; labels must repeat. Name the column of the classes with --label{hint}."
        )


def is_number(label: str) -> bool:
    """Whether it is a finite number.

    >>> is_number("1e3"), is_number("nan"), is_number("1,5")
    (True, False, False)
    """
    try:
        return math.isfinite(float(label)) and "_" not in label  # 1_000 is Python's, not a table's
    except ValueError:
        return False


def _check_numbers(labels: Sequence[str], rows: Sequence[int], source: str, column: str) -> None:
    """Refuse labels that are no finite numbers."""
    for row, label in zip(rows, labels, strict=True):
        if not is_number(label):
            raise InputError(
                f"{source}, row {row + 1}: the column {column!r} has {label[:40]!r}, which is not a finite "
                "number, and regression needs one in each row; write it as 1234.5, leave the cell empty to "
                "drop the row, or name another column by --label."
            )


def alike(labels: Iterable[str]) -> list[str]:
    """Labels that differ from another one only in case, in surrounding space, or in how a number is written.

    >>> alike(["good", "Good ", "bad", "good"]), alike(["1", "1.0", "2"])
    (['Good ', 'good'], ['1', '1.0'])
    """
    written: dict[object, set[str]] = {}
    for label in labels:
        plain = label.strip().casefold()
        written.setdefault(float(plain) if is_number(plain) else plain, set()).add(label)
    return sorted(label for variants in written.values() if len(variants) > 1 for label in variants)
