"""Laws of texts: padding, batches, widths, and lengths from none to past the longest."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import torch

from vnait.laws.comparing import different, finite, of_row, text
from vnait.laws.register import DoesNotApply, described, in_words, law
from vnait.laws.subjects import Subject


@law("left padding")
def left_padding(subject: Subject) -> str | None:
    """Padding before a text changes nothing."""
    return _padding(subject, left=True)


@law("right padding")
def right_padding(subject: Subject) -> str | None:
    """Padding after a text changes nothing."""
    return _padding(subject, left=False)


@law("batch")
def batch(subject: Subject) -> str | None:
    """A text gets the same alone and in a batch."""
    probe = subject.probe()
    for count in (1, 2, 5):
        vectors, mask = text(subject, count, rows=3)
        together = probe(vectors, mask)
        for row in range(3):
            alone = probe(vectors[row : row + 1], mask[row : row + 1])
            if wrong := different(of_row(alone, mask, 0), of_row(together, mask, row)):
                return f"row {row} of 3 texts of {count} tokens: {wrong}"
    return None


@law("odd width")
def odd_width(subject: Subject) -> str | None:
    """An odd width works, or is refused in words."""
    if subject.sized:
        raise DoesNotApply("made for one width")
    size = replace(subject.size, dim=9, num_heads=3)
    try:
        probe = subject.probe(size)
        vectors, mask = torch.randn(1, 4, 9), torch.ones(1, 4, dtype=torch.bool)
        seen = probe(vectors, mask)
    except Exception as error:
        return None if in_words(error) else f"width 9, 3 heads: {described(error)}"
    return None if finite(seen) else "width 9, 3 heads: not finite"


@law("no token")
def no_token(subject: Subject) -> str | None:
    """A text without tokens gives nothing, or is refused in words."""
    vectors, mask = text(subject, 0)
    try:
        seen = subject.probe()(vectors, mask)
    except Exception as error:
        return None if in_words(error) else f"0 tokens: {described(error)}"
    return None if seen.x.shape[1] == 0 else f"0 tokens: {seen.x.shape[1]} came back"


@law("one token")
def one_token(subject: Subject) -> str | None:
    """A text of one token works."""
    seen = subject.probe()(*text(subject, 1))
    return None if finite(seen) else "1 token: not finite"


@law("past the longest")
def past_the_longest(subject: Subject) -> str | None:
    """A text longer than the longest works, or is refused by an error that names the limit."""
    longest = subject.size.max_length
    for count in (longest + 1, 4 * longest):
        try:
            seen = subject.probe()(*text(subject, count))
        except Exception as error:
            if in_words(error) and _names(longest, str(error)):
                return None
            return f"{count} tokens, longest {longest}: {described(error)}"
        if not finite(seen):
            return f"{count} tokens, longest {longest}: not finite"
    return None


def _padding(subject: Subject, *, left: bool) -> str | None:
    """A padded text beside a longer one, against the same text alone. Padding holds words, which nothing may read."""
    probe = subject.probe()
    for count, room in ((1, 1), (2, 1), (3, 2), (5, 4)):
        vectors, mask = text(subject, count + room, rows=2)
        start = room if left else 0
        mask[1] = False
        mask[1, start : start + count] = True
        together = of_row(probe(vectors, mask), mask, 1)
        alone = probe(vectors[1:, mask[1]], mask[1:, mask[1]])
        if wrong := different(of_row(alone, mask[1:, mask[1]], 0), together):
            return f"{count} token{'s' * (count > 1)} and {room} of padding: {wrong}"
    return None


def _names(limit: int, message: str) -> bool:
    """The limit as a number, or as the sizes of a grid that has so many cells."""
    numbers = [int(number) for number in re.findall(r"\d+", message)]
    return limit in numbers or any(a * b == limit for a, b in pairwise(numbers))


LAWS = (left_padding, right_padding, batch, odd_width, no_token, one_token, past_the_longest)
