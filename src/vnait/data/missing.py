"""Rows that lack a text or a label: found, counted and logged."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from vnait.data.pairs import are_pairs, sides_of
from vnait.data.text import is_blank
from vnait.shared.errors import InputError

logger = logging.getLogger("vnait")


Number = Callable[[int], int]  # of a row, as a program that opens the file shows it


def check_texts(source: str, texts: Iterable[str], number: Number) -> None:
    """Raise InputError if every text is empty; log how many are."""
    count, textless = _textless(source, texts)
    if textless:
        logger.warning(
            "%s: %d of %d rows have an empty text: %s.",
            *(source, len(textless), count, row_numbers(textless, number)),
        )


def complete_rows(
    source: str, texts: Sequence[str], labels: Sequence[str], number: Number, *, sets: bool, of_tests: bool
) -> tuple[list[int], list[int]]:
    """The rows with a text and a label, and those with a text alone, of which a training learns words; how
    many others there are is logged. InputError if no row has both.

    sets     the labels are sets, of which the empty one is an answer, too
    of_tests    test rows, of which all may have that answer
    """
    _, textless = _textless(source, texts)
    dropped = set(textless)
    unlabelled = [row for row, label in enumerate(labels) if row not in dropped and is_blank(label)]
    written = len(texts) - len(textless)
    if written == len(unlabelled) and not (sets and of_tests):
        raise InputError(
            f"{source} has no label in any of its {written} rows with a text. Name another column; for "
            "texts without labels, use label=None."
        )
    empty = "of which a text is empty" if are_pairs(texts) else "whose text is empty"
    without = [] if sets else unlabelled
    learned = "%d of %d rows have no label; at most words are learned from them"
    for rows, message in (
        (textless, f"dropped %d of %d rows, {empty}"),
        (without, "dropped %d of %d rows, which have no label" if of_tests else learned),
    ):
        dropped.update(rows)
        if rows:
            logger.warning(f"%s: {message}: %s.", source, len(rows), len(texts), row_numbers(rows, number))
    return [row for row in range(len(texts)) if row not in dropped], [] if of_tests else without


def _textless(source: str, texts: Iterable[str]) -> tuple[int, list[int]]:
    """How many rows there are, and which ones have no text; an error if that is all of them."""
    count, textless = 0, []
    sides: tuple[str, ...] = ()
    for row, text in enumerate(texts):
        count += 1
        sides = sides_of(text)
        if any(map(is_blank, sides)):
            textless.append(row)
    if not count:
        raise InputError(f"{source} has no rows below its header; expected at least one text.")
    if len(textless) == count:
        raise InputError(
            f"{source} has no text: all {count} rows are empty in {'the' if len(sides) == 1 else 'a'} text "
            "column. Name another column."
        )
    return count, textless


def row_numbers(rows: Sequence[int], number: Number) -> str:
    """The numbers of the first three rows, and how many more there are.

    >>> row_numbers([4], lambda row: row + 2), row_numbers([0, 1, 2, 3], lambda row: row + 2)
    ('row 6', 'rows 2, 3, 4 and 1 more')
    """
    first = ", ".join(str(number(row)) for row in rows[:3])
    more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
    return f"row{'s' if len(rows) > 1 else ''} {first}{more}"
