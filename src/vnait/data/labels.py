"""Labels as they are written: several of a text in one cell (crime|drama), numbers, and what is no label."""

from __future__ import annotations

import logging
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

from vnait.data.decoding import unpacked_name
from vnait.data.tasks import MULTILABEL, REGRESSION
from vnait.data.text import folded, is_blank
from vnait.shared.errors import InputError

logger = logging.getLogger("vnait")

DIFFERENCES = "spaces, capitals, invisible characters, the width of letters or how a number is written"
_GROUPED = re.compile(r"[-+]?(\d{1,3}(\.\d{3})+|\d+)(,\d*)?")  # a number with a decimal comma
_TYPED = (".xlsx", ".xlsm", ".xls", ".ods", ".parquet", ".json", ".jsonl")  # files whose numbers are numbers
LABEL_MARK = "__label__"  # of fastText, before a label
LABEL_SEPARATOR = "|"  # between labels, as in pandas' Series.str.get_dummies and in MovieLens's genres


def labels_in(cell: str) -> list[str]:
    """The labels of a cell, each once and sorted; none in an empty cell, or between two marks.

    >>> labels_in("drama | crime|drama|"), labels_in(" | ")
    (['crime', 'drama'], [])
    """
    return sorted({part.strip() for part in cell.split(LABEL_SEPARATOR) if not is_blank(part)})


def cell_of(labels: Iterable[str]) -> str:
    """The labels in one cell, as `labels_in` reads them."""
    return LABEL_SEPARATOR.join(labels)


def check_labels(
    labels: Sequence[str],
    source: str,
    column: str,
    task: str,
    number: Callable[[int], int],
    *,
    repeated: bool,
) -> None:
    """Refuse labels that are not of the task, and log those that look alike or like another task's.

    number    of a label's row, in the source
    repeated  labels that hardly repeat are refused
    """
    if task == REGRESSION:
        _check_numbers(labels, source, column, number)
        return
    sets = task == MULTILABEL
    cure = "--merge-labels (merge_labels=True in Python) makes one of them"
    warn_of_variants(chain.from_iterable(map(labels_in, labels)) if sets else labels, source, cure)
    (_check_sets if sets else _check_classes)(labels, source, column, repeated)


def warn_of_variants(labels: Iterable[str], source: str, cure: str = "write them alike") -> None:
    """Log labels that look alike, and what to do."""
    if groups := variants(labels):
        logger.warning(
            "%s: the labels %s differ only in %s, and count as different classes; %s.",
            *(source, "; ".join(map(_group, groups[:5])) + " ..." * (len(groups) > 5), DIFFERENCES, cure),
        )


def _group(labels: Mapping[str, int]) -> str:
    """Labels with their rows; letters that look alike by their codes.

    >>> _group({"pos": 2, "Pos": 1})
    "'pos' (2), 'Pos' (1)"
    """
    plain = all(unicodedata.is_normalized("NFC", label) for label in labels)
    shown = repr if plain else ascii
    return ", ".join(f"{shown(label)} ({count})" for label, count in labels.items())


def cleaned(
    labels: Sequence[str], source: str, task: str, *, decimal: str, merge: bool, known: Iterable[str]
) -> Sequence[str]:
    """Labels without fastText's mark; numbers with a point; to `merge` them, one of those that look alike."""
    labels = unmarked(labels)
    if task == REGRESSION:
        return with_points(labels, decimal, written=Path(unpacked_name(source)).suffix not in _TYPED)
    return merged(labels, source, sets=task == MULTILABEL, known=known) if merge else labels


def merged(labels: Sequence[str], source: str, *, sets: bool, known: Iterable[str] = ()) -> list[str]:
    """The labels, of those that look alike the most frequent one, or the one that is known from training.

    >>> merged(["pos", "Pos", "pos", "neg"], "films.csv", sets=False)
    ['pos', 'pos', 'pos', 'neg']
    """
    parts = list(chain.from_iterable(map(labels_in, labels))) if sets else labels
    known = set(known)
    names: dict[str, str] = {}
    for group in variants([*parts, *known]):
        name = next((label for label in group if label in known), next(iter(group)))
        names |= dict.fromkeys(group.keys() - known, name)
        logger.info("%s: the labels %s are one class, %r.", source, _group(group), name)
    if not sets:
        return [names.get(label, label) for label in labels]
    return [cell_of(labels_in(cell_of(names.get(part, part) for part in labels_in(cell)))) for cell in labels]


def unmarked(labels: Sequence[str]) -> Sequence[str]:
    """Labels without fastText's mark, if all have it.

    >>> unmarked(["__label__good", ""]), unmarked(["__label__good", "bad"])
    (['good', ''], ['__label__good', 'bad'])
    """
    if not any(labels) or not all(label.startswith(LABEL_MARK) for label in labels if label):
        return labels
    return [label.removeprefix(LABEL_MARK) for label in labels]


def with_points(labels: Sequence[str], decimal: str, *, written: bool = True) -> Sequence[str]:
    """Numbers with a point as decimal mark, which have another mark in the source.

    Points before groups of three digits are left out; any other point is a decimal mark. `written`: the
    source is text alone, so that 1.250 is a thousand; a workbook's own number 1.250 is one and a quarter.

    >>> with_points(["1,5", "1.250,75", "1.250", "1.5"], ",")
    ['1.5', '1250.75', '1250', '1.5']
    >>> with_points(["1.250", "1.250,75"], ",", written=False)
    ['1.250', '1250.75']
    """
    if decimal not in (".", ","):
        raise InputError(f"the decimal mark {decimal!r} is not known; give , or a point.")
    if decimal == ".":
        return labels

    def with_point(label: str) -> str:
        if _GROUPED.fullmatch(label.strip()) and (written or "," in label):
            return label.replace(".", "").replace(",", ".")
        return label

    return list(map(with_point, labels))


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


def _check_numbers(labels: Sequence[str], source: str, column: str, number: Callable[[int], int]) -> None:
    """Refuse labels that are no finite numbers."""
    for row, label in enumerate(labels):
        if not is_number(label):
            comma = "," in label and is_number(with_points([label], ",")[0])
            hint = "add --decimal , (decimal=',' in Python)" if comma else "write it as 1234.5"
            raise InputError(
                f"{source}, row {number(row)}: the column {column!r} has {label[:40]!r}, which is not a "
                f"finite number, and regression needs one in each row; {hint}, leave the cell empty to "
                "drop the row, or name another column by --label."
            )


def ordered(labels: Iterable[str]) -> list[str]:
    """Each label once: numbers by their value, then the others by name.

    >>> ordered(["10", "9", "b", "10", "a"])
    ['9', '10', 'a', 'b']
    """
    return sorted(set(labels), key=lambda label: (float(label) if is_number(label) else math.inf, label))


def variants(labels: Iterable[str]) -> list[dict[str, int]]:
    """Groups of labels that look alike, each label with its rows, the most frequent first.

    Alike are labels that differ only in case, in spaces, in invisible characters, in Unicode's normal form
    (NFKC, so also fullwidth letters), or in how a number is written.

    >>> variants(["good", "Good ", "bad", "good"]), variants(["1", "1.0", "2"])
    ([{'good': 2, 'Good ': 1}], [{'1': 1, '1.0': 1}])
    """
    groups: dict[object, dict[str, int]] = {}
    for label, count in sorted(Counter(labels).items(), key=lambda item: (-item[1], item[0])):
        groups.setdefault(_plain(label), {})[label] = count
    return [group for group in groups.values() if len(group) > 1]


def _plain(label: str) -> object:
    """What labels that look alike have in common."""
    plain = folded(label)
    return float(plain) if is_number(plain) else plain
