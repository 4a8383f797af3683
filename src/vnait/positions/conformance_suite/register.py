"""A law, how it is tried on a subject, the texts to try, and the comparison of two observations."""

import math
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from vnait.positions.conformance_suite.subjects import Observation, Subject

Check = Callable[[Subject], str | None]
EXACT = 1e-4  # float32 through an attention


class DoesNotApply(Exception):
    """The subject does not claim this law, or can't be tested on it; the message gives the reason."""


@dataclass(frozen=True)
class Law:
    """A name, a sentence, and a check that returns the smallest failing input in words, or None."""

    name: str
    sentence: str
    check: Check


def law(name: str) -> Callable[[Check], Law]:
    """Decorator: make a check a law of this name, with its docstring as the sentence."""
    return lambda check: Law(name, " ".join((check.__doc__ or "").split()), check)


def try_law(law: Law, subject: Subject) -> tuple[bool | None, str]:
    """`passed` and `detail` of a `Row`: True, False with the smallest failing input, None with the reason."""
    torch.manual_seed(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            failure = law.check(subject)
    except DoesNotApply as reason:
        return None, str(reason)
    except Exception as error:
        if isinstance(error, ValueError) and is_refusal(error):
            return None, f"refused: {error}"
        failure = error_line(error)
    for limit in subject.limits:
        if failure is not None and law.name in limit.laws and limit.shows in failure:
            return None, f"{limit.reason} ({failure})"
    return failure is None, failure or ""


def is_refusal(error: Exception) -> bool:
    """Whether an error was raised on purpose and explains itself, unlike a crash further down."""
    kinds = ValueError | AssertionError | NotImplementedError
    last = traceback.extract_tb(error.__traceback__)[-1].line or "raise"  # no source, no telling
    return isinstance(error, kinds) and len(str(error)) > 10 and last.startswith(("raise", "assert"))


def error_line(error: Exception) -> str:
    """Type and first line of an error, at most 120 characters."""
    lines = str(error).strip().splitlines()
    return (
        f"{type(error).__name__}: {lines[0][:120]}" if lines else f"{type(error).__name__} without a message"
    )


def text(subject: Subject, count: int, rows: int = 1) -> tuple[Tensor, Tensor]:
    """`rows` random texts of `count` tokens and their mask, the same on every call.

    A longer text starts with the shorter one.
    """
    generator = torch.Generator().manual_seed(0)
    tokens = [torch.randn(rows, subject.size.dim, generator=generator) for _ in range(count)]
    vectors = torch.stack(tokens, 1) if tokens else torch.zeros(rows, 0, subject.size.dim)
    return vectors, torch.ones(rows, count, dtype=torch.bool)


def difference(first: Observation, second: Observation, tolerance: float = EXACT) -> str | None:
    """How two observations differ, in words; None if they agree.

    Scores are compared as log weights: a number added to all scores of a query changes nothing.
    """
    for name, a, b in zip(Observation._fields, first, second, strict=True):
        if a is None or b is None or name == "bias":
            continue
        if name == "scores":
            name, a, b = "attention", a.log_softmax(-1), b.log_softmax(-1)
        if a.shape != b.shape:
            return f"{name} has the shape {tuple(b.shape)} instead of {tuple(a.shape)}"
        if a.dtype != b.dtype and tolerance == 0:
            return f"{name} is {dtype_name(b.dtype)} instead of {dtype_name(a.dtype)}"
        a, b = a.double(), b.double()
        error = torch.where(a == b, 0.0, (a - b).abs())  # equal infinities
        worst = float(error.nan_to_num(nan=math.inf, posinf=math.inf).max()) if error.numel() else 0.0
        if worst > tolerance * (1 + float(a.masked_fill(~a.isfinite(), 0).abs().max())):
            return f"{name} off by {worst:.3g}"
    return None


def row_of(seen: Observation, mask: Tensor, row: int) -> Observation:
    """The real tokens of one text, without queries and keys: a shifted text rotates them, not its scores."""
    real = mask[row]
    scores = None if seen.scores is None else seen.scores[row][:, real][:, :, real]
    return Observation(x=seen.x[row, real], out=seen.out[row, real], scores=scores)


def is_finite(seen: Observation) -> bool:
    """Whether there is neither an infinity nor a NaN."""
    return all(bool(part.isfinite().all()) for part in seen if part is not None)


def dtype_name(dtype: torch.dtype) -> str:
    """bfloat16 for torch.bfloat16."""
    return str(dtype).removeprefix("torch.")
