"""Laws of precision: half precision is near at 8,192 tokens, and leaves no trace."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor

from vnait.laws.comparing import different, short, suppressed, text
from vnait.laws.register import DoesNotApply, described, law
from vnait.laws.subjects import Probe, Seen, Subject

LONG = 8192
LEAST = 1e-6  # neighbours nearer than this in float64 are near for other reasons than rounding
# A result may be off by so many units in the last place of the largest number beside it: a few roundings in a row.
ROUNDINGS = 4


@law("bfloat16")
def bfloat16(subject: Subject) -> str | None:
    """At 8,192 tokens in bfloat16 neighbours stay distinct, and errors are within the rounding of the result."""
    return _low(subject, torch.bfloat16)


@law("float16")
def float16(subject: Subject) -> str | None:
    """At 8,192 tokens in float16 neighbours stay distinct, and errors are within the rounding of the result."""
    return _low(subject, torch.float16)


@law("no trace")
def no_trace(subject: Subject) -> str | None:
    """A call in low precision never changes a later call in float32."""
    for dtype in (torch.bfloat16, torch.float16):
        for count in (1, 2, 8, 258):
            told, mask = text(subject, count)
            try:
                fresh = _used(subject, count)(told, mask)
            except (ValueError, AssertionError, IndexError):
                continue  # past its longest text, which is another law's
            used = _used(subject, count)
            for vectors, way in ((told.to(dtype), _in_words), (told, _in_autocast)):
                with suppressed(), way(used, dtype):
                    used(vectors, mask)
            if wrong := different(fresh, used(told, mask), tolerance=0.0):
                return f"{count} tokens, after a call of as many in {short(dtype)}: {wrong}"
    return None


def _low(subject: Subject, dtype: torch.dtype) -> str | None:
    if not subject.long:
        raise DoesNotApply("a whole model, whose parts are tried by themselves")
    # The same word all along, which nothing but position tells apart.
    vectors = text(subject, 1)[0].to(dtype).expand(1, LONG, -1)
    mask, exact = torch.ones(1, LONG, dtype=torch.bool), _rounded_to(subject, dtype)
    tokens = exact.window(LONG)
    with torch.no_grad():
        right = _in_double(exact, vectors, mask, tokens)
        for way, name in WAYS.items():
            probe = _rounded_to(subject, dtype)
            try:
                with way(probe, dtype):
                    seen = probe(vectors.float() if way is _in_autocast else vectors, mask, tokens=tokens)
            except RuntimeError as error:
                if way is _in_low or not _of_types(error):
                    return f"{name} {short(dtype)}: {described(error)}"
                continue  # float32 modules may refuse words in another type
            if wrong := _off(subject, right, seen, dtype, tokens):
                return f"{name} {short(dtype)}: {wrong}"
    return None


def _rounded_to(subject: Subject, dtype: torch.dtype) -> Probe:
    """In float32, every learned number as `dtype` holds it; what is not learned is exact."""
    probe = subject.probe(replace(subject.size, max_length=LONG))
    with torch.no_grad():
        for parameter in probe.parameters():
            if parameter.requires_grad:
                parameter.copy_(parameter.to(dtype))
    return probe


def _in_double(probe: Probe, vectors: Tensor, mask: Tensor, tokens: Tensor) -> Seen:
    """In float64, or in float32 where something in it can't."""
    with suppressed():
        return copy.deepcopy(probe).double()(vectors.double(), mask, tokens=tokens)
    return probe(vectors.float(), mask, tokens=tokens)


def _used(subject: Subject, count: int) -> Probe:
    """With room for so many tokens."""
    return subject.probe(replace(subject.size, max_length=max(count, subject.size.max_length)))


@contextmanager
def _in_words(probe: Probe, dtype: torch.dtype) -> Iterator[None]:
    """The words and their projections in `dtype`, the method in float32."""
    attention = getattr(probe, "attention", None)
    if attention is not None:
        probe.attention = copy.deepcopy(attention).to(dtype)
    try:
        yield
    finally:
        if attention is not None:
            probe.attention = attention


@contextmanager
def _in_low(probe: Probe, dtype: torch.dtype) -> Iterator[None]:
    """All in `dtype`, from then on."""
    probe.to(dtype)
    yield


@contextmanager
def _in_autocast(probe: Probe, dtype: torch.dtype) -> Iterator[None]:
    """All in float32, under autocast."""
    with torch.autocast("cpu", dtype=dtype):
        yield


WAYS = {_in_words: "words in", _in_autocast: "under autocast to", _in_low: "the module in"}


def _off(subject: Subject, exact: Seen, seen: Seen, dtype: torch.dtype, tokens: Tensor) -> str | None:
    """The first token whose result is off by more than its rounding, or else the first that is told as its neighbour is."""
    wrong = _errors(exact, seen, dtype)
    alike = [row for row in _neighbours(tokens) if _alike(exact, seen, row, dtype)] if subject.tells else []
    if wrong:
        row, said = min(wrong)
    elif alike:
        row, said = alike[0] + 1, f"told as token {int(tokens[alike[0]])} is"
    else:
        return None
    return f"token {int(tokens[row])} of {LONG}: {said}" + (f"; {len(alike)} neighbours alike" if alike else "")


def _errors(exact: Seen, seen: Seen, dtype: torch.dtype) -> list[tuple[int, str]]:
    """For x, query, key and bias: the first row that is off, and by how much."""
    unit, found = ROUNDINGS * torch.finfo(dtype).eps, []
    for name in ("x", "query", "key"):
        one, other = getattr(exact, name), getattr(seen, name)
        if one is None:
            continue
        one, other = _a_token(one), _a_token(other)
        gap, bound = _gap(one, other).amax(-1), unit * one.abs().amax(-1)
        for row in (gap > bound).nonzero().flatten().tolist()[:1]:
            sizes = f"{gap[row]:.3g} (at most {gap.max():.3g}), rounding is {bound[row]:.2g}"
            found.append((row, f"{name} off by {sizes}"))
    if exact.bias is not None and seen.bias is not None:
        one, other = exact.bias.double(), seen.bias.to(dtype).double()
        gap = _gap(one, other)
        wrong = (gap > unit * (one.abs() + 1)).flatten(0, 2).any(0)
        found += [(row, f"bias off by {gap.max():.3g}") for row in wrong.nonzero().flatten().tolist()[:1]]
    return found


def _gap(one: Tensor, other: Tensor) -> Tensor:
    return (one - other).abs().nan_to_num(nan=math.inf, posinf=math.inf)


def _neighbours(tokens: Tensor) -> list[int]:
    """The rows that the next token follows."""
    return [row for row in range(len(tokens) - 1) if tokens[row + 1] == tokens[row] + 1]


def _of_types(error: RuntimeError) -> bool:
    """PyTorch's refusal to mix precisions: out loud, and so no wrong result."""
    return re.search(r"dtype|scalar type|Input type", str(error)) is not None


def _a_token(part: Tensor) -> Tensor:
    """(W, everything that is said of a token)."""
    return (part[0] if part.ndim == 3 else part[0].transpose(0, 1).flatten(1)).double()


def _alike(exact: Seen, seen: Seen, row: int, dtype: torch.dtype) -> bool:
    """Whether rows `row` and `row` + 1 are told the same: in half precision where they differ in float64, or in both."""
    if exact.query is None:
        return False  # a whole model, in which the same words may well get the same
    right = _apart(exact, row, None)
    return right == 0 or (right > LEAST and _apart(seen, row, dtype) == 0)


def _apart(seen: Seen, row: int, dtype: torch.dtype | None) -> float:
    """The largest difference in what is told of the tokens of rows `row` and `row` + 1."""
    gaps = [
        part[row] - part[row + 1] for part in map(_a_token, (part for part in seen[:1] + seen[2:4] if part is not None))
    ]
    if seen.bias is not None:
        bias = seen.bias.to(dtype or seen.bias.dtype)[0].double()
        gaps += [part[row] - part[row + 1] for part in (bias.movedim(1, 0), bias.movedim(2, 0))]
    return max(float(gap.abs().max()) for gap in gaps)


LAWS = (bfloat16, float16, no_trace)
