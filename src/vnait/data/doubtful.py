"""Rows whose labels are in doubt: one text with several labels, and classes of hardly any rows."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Sequence

from vnait.data.labels import check_labels
from vnait.data.missing import Number, row_numbers
from vnait.data.tasks import CLASSIFICATION, REGRESSION
from vnait.data.text import normalized
from vnait.shared.errors import InputError, plural

logger = logging.getLogger("vnait")

SHOWN = 3


def settled(
    source: str,
    column: str,
    texts: Sequence[str],
    labels: Sequence[str],
    rows: list[int],
    number: Number,
    *,
    task: str,
    drop: bool,
    least: int,
    of_tests: bool,
) -> list[int]:
    """The rows whose labels can be learned: of those texts that have another label, too, dropped on demand,
    and of classes with at least so many rows. InputError for labels that are not of the task.
    """
    if task != REGRESSION:
        rows = contradicting(source, texts, labels, rows, number, drop=drop)
    written = [labels[row] for row in rows]
    check_labels(written, source, column, task, lambda at: number(rows[at]), repeated=not of_tests)
    return of_large_classes(source, labels, rows, least) if task == CLASSIFICATION and not of_tests else rows


def contradicting(
    source: str,
    texts: Sequence[str],
    labels: Sequence[str],
    rows: Sequence[int],
    number: Number,
    *,
    drop: bool,
) -> list[int]:
    """The rows without those whose text, as a model sees it, has another label elsewhere, too, if they
    are to be dropped. Either way their number is logged, with up to three texts.
    """
    places: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        places[normalized(texts[row])].append(row)
    groups = [group for group in places.values() if len({labels[row] for row in group}) > 1]
    if not groups:
        return list(rows)
    shown = "; ".join(
        f"{texts[group[0]][:40]!r} is {' and '.join(map(repr, dict.fromkeys(labels[row] for row in group)))} "
        f"({row_numbers(group, number)})"
        for group in groups[:SHOWN]
    )
    doubtful = {row for group in groups for row in group}
    remedy = "" if drop else " Correct them, or leave their rows out with --drop-contradicting."
    logger.warning(
        "%s: %s with more than one label%s: %s%s.%s",
        source,
        f"dropped {plural(len(doubtful), 'row')} of texts" if drop else plural(len(groups), "text"),
        "" if drop else f" in {len(doubtful)} of {len(rows)} rows",
        shown,
        " ..." * (len(groups) > SHOWN),
        remedy,
    )
    if drop and len(doubtful) == len(rows):
        raise InputError(f"{source}: every text has more than one label, so no row is left; correct them.")
    return [row for row in rows if not drop or row not in doubtful]


def of_large_classes(source: str, labels: Sequence[str], rows: Sequence[int], least: int) -> list[int]:
    """The rows of the classes that have at least so many; the others are counted and logged."""
    sizes = Counter(labels[row] for row in rows)
    small = {label: count for label, count in sizes.items() if count < least}
    if small and len(small) == len(sizes):
        raise InputError(
            f"{source}: no class has {plural(least, 'row')}, the largest {max(sizes.values())}; add rows to "
            "the classes, or name the column of the classes with --label."
        )
    if small:
        logger.warning(
            "%s: left out %s with fewer than %s, %s in all: %s%s. --min-class 1 keeps every class.",
            source,
            f"{len(small)} class" + "es" * (len(small) > 1),
            plural(least, "row"),
            plural(sum(small.values()), "row"),
            ", ".join(f"{label!r} ({count})" for label, count in list(small.items())[:SHOWN]),
            " ..." * (len(small) > SHOWN),
        )
    return [row for row in rows if labels[row] not in small]
