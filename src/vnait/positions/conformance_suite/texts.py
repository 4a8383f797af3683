"""Laws of texts: padding, batches, widths, and lengths from zero to past the longest."""

import re
from dataclasses import replace
from itertools import pairwise

import torch

from vnait.positions.conformance_suite.register import (
    DoesNotApply,
    difference,
    error_line,
    is_finite,
    is_refusal,
    law,
    row_of,
    text,
)
from vnait.positions.conformance_suite.subjects import Subject
from vnait.shared.errors import plural


@law("left padding")
def left_padding(subject: Subject) -> str | None:
    """Padding before a text changes nothing."""
    return _padding(subject, left=True)


@law("right padding")
def right_padding(subject: Subject) -> str | None:
    """Padding after a text changes nothing."""
    return _padding(subject, left=False)


@law("inner padding")
def inner_padding(subject: Subject) -> str | None:
    """If a method claims to count tokens, padding between those of a text changes nothing."""
    if not subject.counts:
        raise DoesNotApply("counts padding between tokens, too")
    probe = subject.probe()
    for holes in ((1,), (1, 2), (2, 4)):
        vectors, mask = text(subject, 6)
        mask[0, list(holes)] = False
        apart = row_of(probe(vectors, mask), mask, 0)
        alone = row_of(probe(vectors[:, mask[0]], mask[:, mask[0]]), mask[:, mask[0]], 0)
        if failure := difference(alone, apart):
            return f"padding at {', '.join(map(str, holes))} of 6: {failure}"
    return None


@law("no gradients")
def no_gradients(subject: Subject) -> str | None:
    """The result is the same if no gradients are recorded."""
    probe = subject.probe()
    for count in (1, 5):
        vectors, mask = text(subject, count)
        with torch.enable_grad():
            seen = probe(vectors, mask)
        with torch.no_grad():
            again = probe(vectors, mask)
        if failure := difference(seen, again):
            return f"{plural(count, 'token')}: {failure}"
    return None


@law("batch")
def batch(subject: Subject) -> str | None:
    """A text has the same result alone and in a batch."""
    probe = subject.probe()
    for count in (1, 2, 5):
        vectors, mask = text(subject, count, rows=3)
        together = probe(vectors, mask)
        for row in range(3):
            alone = probe(vectors[row : row + 1], mask[row : row + 1])
            if failure := difference(row_of(alone, mask, 0), row_of(together, mask, row)):
                return f"row {row} of 3 texts of {count} tokens: {failure}"
    return None


@law("odd width")
def odd_width(subject: Subject) -> str | None:
    """An odd width works, or is refused with a reason."""
    if subject.sized:
        raise DoesNotApply("built for one width")
    size = replace(subject.size, dim=9, num_heads=3)
    try:
        probe = subject.probe(size)
        seen = probe(torch.randn(1, 4, 9), torch.ones(1, 4, dtype=torch.bool))
    except Exception as error:
        return None if is_refusal(error) else f"width 9, 3 heads: {error_line(error)}"
    return None if is_finite(seen) else "width 9, 3 heads: not finite"


@law("no token")
def no_token(subject: Subject) -> str | None:
    """A text without tokens has an empty result, or is refused with a reason."""
    vectors, mask = text(subject, 0)
    try:
        seen = subject.probe()(vectors, mask)
    except Exception as error:
        return None if is_refusal(error) else f"0 tokens: {error_line(error)}"
    return None if seen.x.shape[1] == 0 else f"0 tokens: {seen.x.shape[1]} came back"


@law("one token")
def one_token(subject: Subject) -> str | None:
    """A text of one token works."""
    seen = subject.probe()(*text(subject, 1))
    return None if is_finite(seen) else "1 token: not finite"


@law("past the longest")
def past_the_longest(subject: Subject) -> str | None:
    """A text longer than the longest works, or is refused by an error that names the limit."""
    longest = subject.size.max_length
    for count in (longest + 1, 4 * longest):
        try:
            seen = subject.probe()(*text(subject, count))
        except Exception as error:
            if is_refusal(error) and _names(longest, str(error)):
                return None
            return f"{count} tokens, longest {longest}: {error_line(error)}"
        if not is_finite(seen):
            return f"{count} tokens, longest {longest}: not finite"
    return None


def _padding(subject: Subject, *, left: bool) -> str | None:
    """Compare a padded text in a batch with the same text alone. Padding has random vectors, never zeros."""
    probe = subject.probe()
    for count, room in ((1, 1), (2, 1), (3, 2), (5, 4)):
        vectors, mask = text(subject, count + room, rows=2)
        start = room if left else 0
        mask[1] = False
        mask[1, start : start + count] = True
        together = row_of(probe(vectors, mask), mask, 1)
        alone = probe(vectors[1:, mask[1]], mask[1:, mask[1]])
        if failure := difference(row_of(alone, mask[1:, mask[1]], 0), together):
            return f"{plural(count, 'token')} and {room} of padding: {failure}"
    return None


def _names(limit: int, message: str) -> bool:
    """Whether the message has the limit as a number, or as the sides of a grid with that many cells."""
    numbers = [int(number) for number in re.findall(r"\d+", message)]
    return limit in numbers or any(a * b == limit for a, b in pairwise(numbers))
