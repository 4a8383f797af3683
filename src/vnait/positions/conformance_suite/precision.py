"""Laws of precision: half precision is accurate at 8,192 tokens, and has no effect on later calls."""

import copy
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import torch
from torch import Tensor

from vnait.positions.conformance_suite.register import (
    DoesNotApply,
    difference,
    dtype_name,
    error_line,
    law,
    text,
)
from vnait.positions.conformance_suite.subjects import Observation, Probe, Subject

LENGTH = 8192
MIN_DISTANCE = 1e-6  # neighbours closer than this in float64 are not close because of rounding
# Accepted error, in units in the last place of the largest number of a token: a few roundings in a row.
ROUNDINGS = 4


@law("bfloat16")
def bfloat16(subject: Subject) -> str | None:
    """At 8,192 tokens in bfloat16, neighbours stay distinct and errors within rounding."""
    return _half(subject, torch.bfloat16)


@law("float16")
def float16(subject: Subject) -> str | None:
    """At 8,192 tokens in float16, neighbours stay distinct and errors within rounding."""
    return _half(subject, torch.float16)


@law("no trace")
def no_trace(subject: Subject) -> str | None:
    """A call in half precision never changes a later call in float32."""
    for dtype in (torch.bfloat16, torch.float16):
        for count in (1, 2, 8, 258):
            vectors, mask = text(subject, count)
            size = replace(subject.size, max_length=max(count, subject.size.max_length))
            try:
                fresh = subject.probe(size)(vectors, mask)
            except (ValueError, AssertionError, IndexError):
                continue  # longer than its longest text, which is another law
            used = subject.probe(size)
            for inputs, way in ((vectors.to(dtype), _half_inputs), (vectors, _autocast)):
                with suppress(Exception), way(used, dtype):
                    used(inputs, mask)
            if failure := difference(fresh, used(vectors, mask), tolerance=0.0):
                return f"{count} tokens, after the same call in {dtype_name(dtype)}: {failure}"
    return None


def _half(subject: Subject, dtype: torch.dtype) -> str | None:
    if not subject.long:
        raise DoesNotApply("a whole model, whose parts are tried separately")
    # The same word everywhere, so that only position distinguishes tokens.
    vectors = text(subject, 1)[0].to(dtype).expand(1, LENGTH, -1)
    mask, exact = torch.ones(1, LENGTH, dtype=torch.bool), _rounded_probe(subject, dtype)
    tokens = exact.window(LENGTH)
    with torch.no_grad():
        expected = _exact(exact, vectors, mask, tokens)
        for way, name in WAYS.items():
            probe = _rounded_probe(subject, dtype)
            try:
                with way(probe, dtype):
                    seen = probe(vectors.float() if way is _autocast else vectors, mask, tokens=tokens)
            except RuntimeError as error:
                # PyTorch refuses to mix precisions, which is no wrong result, unless all are the same.
                mixed = re.search(r"dtype|scalar type|Input type", str(error))
                if mixed and way is not _half_module:
                    continue
                return f"{name} {dtype_name(dtype)}: {error_line(error)}"
            if failure := _failure(subject, expected, seen, dtype, tokens):
                return f"{name} {dtype_name(dtype)}: {failure}"
    return None


def _rounded_probe(subject: Subject, dtype: torch.dtype) -> Probe:
    """A float32 probe with parameters rounded to `dtype`; buffers stay exact."""
    probe = subject.probe(replace(subject.size, max_length=LENGTH))
    with torch.no_grad():
        for parameter in probe.parameters():
            if parameter.requires_grad:
                parameter.copy_(parameter.to(dtype))
    return probe


def _exact(probe: Probe, vectors: Tensor, mask: Tensor, tokens: Tensor) -> Observation:
    """In float64, or in float32 if a part does not support it."""
    with suppress(Exception):
        return copy.deepcopy(probe).double()(vectors.double(), mask, tokens=tokens)
    return probe(vectors.float(), mask, tokens=tokens)


@contextmanager
def _half_inputs(probe: Probe, dtype: torch.dtype) -> Iterator[None]:
    """Words and their projections in `dtype`, the method in float32."""
    attention = getattr(probe, "attention", None)
    if attention is not None:
        probe.attention = copy.deepcopy(attention).to(dtype)
    try:
        yield
    finally:
        if attention is not None:
            probe.attention = attention


def _autocast(probe: Probe, dtype: torch.dtype) -> torch.autocast:
    """Everything in float32, under autocast."""
    return torch.autocast("cpu", dtype=dtype)


@contextmanager
def _half_module(probe: Probe, dtype: torch.dtype) -> Iterator[None]:
    """Everything in `dtype`, also afterwards."""
    probe.to(dtype)
    yield


WAYS = {_half_inputs: "words in", _autocast: "under autocast to", _half_module: "the module in"}


def _failure(
    subject: Subject, expected: Observation, seen: Observation, dtype: torch.dtype, tokens: Tensor
) -> str | None:
    """The first token with an error above rounding, or else the first that equals its neighbour."""
    errors, merged = _errors(expected, seen, dtype), []
    if subject.positional and expected.query is not None:  # in a whole model the same words may agree
        between, rounded = _steps(expected, None), _steps(seen, dtype)
        alike = (between == 0) | ((between > MIN_DISTANCE) & (rounded == 0))
        merged = (alike & (tokens[1:] == tokens[:-1] + 1)).nonzero().flatten().tolist()
    if errors:
        row, message = min(errors)
    elif merged:
        row, message = merged[0] + 1, f"the same as token {int(tokens[merged[0]])}"
    else:
        return None
    count = f"; {len(merged)} neighbours alike" if merged else ""
    return f"token {int(tokens[row])} of {LENGTH}: {message}{count}"


def _errors(expected: Observation, seen: Observation, dtype: torch.dtype) -> list[tuple[int, str]]:
    """For x, query, key and bias: the first row with an error above rounding, and the error."""
    unit, errors = ROUNDINGS * torch.finfo(dtype).eps, []
    for name in ("x", "query", "key"):
        exact, rounded = getattr(expected, name), getattr(seen, name)
        if exact is None:
            continue
        exact, rounded = _per_token(exact), _per_token(rounded)
        error, bound = _error(exact, rounded).amax(-1), unit * exact.abs().amax(-1)
        finite = exact.isfinite().all(-1)
        for row in (~finite | (error > bound)).nonzero().flatten().tolist()[:1]:
            sizes = f"{error[row]:.3g} (at most {error.max():.3g}), rounding is {bound[row]:.2g}"
            errors.append((row, f"{name} off by {sizes}" if finite[row] else f"{name} is not finite"))
    if expected.bias is not None and seen.bias is not None:
        exact, rounded = expected.bias.double(), seen.bias.to(dtype).double()
        error = torch.where(exact == rounded, 0, _error(exact, rounded))  # a bias may be -inf
        keys = ~(error <= unit * (exact.abs() + 1)).flatten(0, 2).all(0)
        errors += [(key, f"bias off by {error.max():.3g}") for key in keys.nonzero().flatten().tolist()[:1]]
    return errors


def _error(exact: Tensor, rounded: Tensor) -> Tensor:
    return (exact - rounded).abs().nan_to_num(nan=math.inf, posinf=math.inf)


def _per_token(part: Tensor) -> Tensor:
    """(1, T, D) or (1, H, T, K) -> (T, everything about a token)."""
    return (part[0] if part.ndim == 3 else part[0].transpose(0, 1).flatten(1)).double()


def _steps(seen: Observation, dtype: torch.dtype | None) -> Tensor:
    """The largest difference between each row and the next, with the bias rounded to `dtype`."""
    parts = [_per_token(part) for part in (seen.x, seen.query, seen.key) if part is not None]
    if seen.bias is not None:
        bias = seen.bias.to(dtype or seen.bias.dtype)[0].double()
        parts += [bias.movedim(1, 0), bias.movedim(2, 0)]
    return torch.stack([part.flatten(1).diff(dim=0).abs().amax(-1) for part in parts]).amax(0)
