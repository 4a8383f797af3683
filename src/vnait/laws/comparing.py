"""What the laws share: texts to try, and whether two of them were told the same."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch
from torch import Tensor

from vnait.laws.subjects import Seen, Subject

EXACT = 1e-4  # of float32 through an attention


def text(subject: Subject, count: int, rows: int = 1) -> tuple[Tensor, Tensor]:
    """`rows` texts of `count` words and their mask; the same every time, and a longer one begins with the shorter."""
    generator = torch.Generator().manual_seed(0)
    vectors = (
        torch.stack([torch.randn(rows, subject.size.dim, generator=generator) for _ in range(count)], 1)
        if count
        else (torch.zeros(rows, 0, subject.size.dim))
    )
    return vectors, torch.ones(rows, count, dtype=torch.bool)


def different(one: Seen, other: Seen, tolerance: float = EXACT) -> str | None:
    """Where two texts were told something else, in words. Scores count as the logarithms of weights: a number that is added to all
    of a query's says nothing."""
    for name, (a, b) in _parts(one, other):
        if a.shape != b.shape:
            return f"{name} has the shape {tuple(b.shape)} instead of {tuple(a.shape)}"
        if a.dtype != b.dtype and tolerance == 0:
            return f"{name} is {short(b.dtype)} instead of {short(a.dtype)}"
        a, b = a.double(), b.double()
        gap = torch.where(a == b, 0.0, (a - b).abs())  # infinities that agree
        worst = float(gap.nan_to_num(nan=math.inf, posinf=math.inf).max()) if gap.numel() else 0.0
        if worst > tolerance * (1 + float(a.masked_fill(~a.isfinite(), 0).abs().max())):
            return f"{name} off by {worst:.3g}"
    return None


def of_row(seen: Seen, mask: Tensor, row: int) -> Seen:
    """One text's real tokens, without its turned queries and keys: a text further on is turned further, and its scores are the same."""
    keep = mask[row]
    scores = None if seen.scores is None else seen.scores[row][:, keep][:, :, keep]
    return Seen(x=seen.x[row, keep], out=seen.out[row, keep], scores=scores)


def finite(seen: Seen) -> bool:
    """No infinity and no NaN."""
    return all(bool(part.isfinite().all()) for part in seen if part is not None)


@contextmanager
def suppressed() -> Iterator[None]:
    """A call that may fail: another law says so."""
    with suppress(Exception):
        yield


def short(dtype: torch.dtype) -> str:
    """bfloat16 for torch.bfloat16."""
    return str(dtype).removeprefix("torch.")


def _parts(one: Seen, other: Seen) -> Iterator[tuple[str, tuple[Tensor, Tensor]]]:
    for name, a, b in zip(Seen._fields, one, other, strict=True):
        if a is None or b is None or name == "bias":
            continue
        yield ("attention", (a.log_softmax(-1), b.log_softmax(-1))) if name == "scores" else (name, (a, b))
