"""Rows of two texts, such as a question and an answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from vnait.shared.errors import InputError

PAIR_SEPARATOR = "\x1f"  # ASCII's unit separator, which is not part of a written text
TOKEN = "[SEP]"  # between the tokens of the two; no text has it, since brackets are tokens of their own

Token = TypeVar("Token")


class Pair(str):
    """Two texts of one row. As a string: both, with ASCII's unit separator between them.

    >>> Pair.of("Who wrote it?", "Nobody.").sides
    ('Who wrote it?', 'Nobody.')
    """

    __slots__ = ()

    @classmethod
    def of(cls, first: str, second: str) -> Pair:
        return cls(PAIR_SEPARATOR.join(side.replace(PAIR_SEPARATOR, " ") for side in (first, second)))

    @property
    def sides(self) -> tuple[str, ...]:
        return tuple(self.split(PAIR_SEPARATOR))


def sides_of(text: str) -> tuple[str, ...]:
    """The texts of a row: two of a `Pair`, else one."""
    return text.sides if isinstance(text, Pair) else (text,)


def are_pairs(texts: Iterable[str]) -> bool:
    """Whether the rows are pairs; all are, or none."""
    return isinstance(next(iter(texts), None), Pair)


def check_sides(texts: Iterable[str], pairs: bool) -> None:
    """Raise InputError if the texts are pairs and the model reads single texts, or the reverse."""
    first = next(iter(texts), None)
    if first is not None and isinstance(first, Pair) != pairs:
        expected, actual = ("pairs of texts", "single texts")[:: 1 if pairs else -1]
        hint = "two columns, --text a,b" if pairs else "one column with --text"
        raise InputError(
            f"the model reads {expected}, and these are {actual}; name {hint} (in Python, as X)."
        )


def joined(parts: Sequence[list[Token]], separator: Token) -> list[Token]:
    """The tokens of a row, with the separator between its two texts.

    >>> joined([[5, 6], [7]], 3), joined([[5, 6]], 3)
    ([5, 6, 3, 7], [5, 6])
    """
    return parts[0] if len(parts) == 1 else [*parts[0], separator, *parts[1]]


def cut(ids: list[int], max_length: int, separator: int | None) -> list[int]:
    """At most `max_length` ids; of a pair, the longer side loses them first.

    >>> cut([5, 6, 7, 8, 3, 9], 4, 3), cut([5, 6, 7, 8, 9], 4, 3)
    ([5, 6, 3, 9], [5, 6, 7, 8])
    """
    if len(ids) <= max_length or separator not in ids:
        return ids[:max_length]
    if max_length < 3:
        raise InputError(f"max_length is {max_length}; a pair of texts has at least 3 tokens, so raise it.")
    at, room = ids.index(separator), max_length - 1
    first, second = ids[:at], ids[at + 1 :]
    # As tokenizers cut: an odd token stays with the longer side, or with the second of two equal ones.
    half = (room + (len(first) > len(second))) // 2
    length = min(len(first), max(room - len(second), half))
    return joined([first[:length], second[: room - length]], separator)
