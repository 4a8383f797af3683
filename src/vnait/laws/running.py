"""Laws of running a method: the same again, saved and loaded, compiled, exported; and by its paper's formula."""

from __future__ import annotations

import copy
import io
import logging
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from vnait.backbone import Attention
from vnait.laws.comparing import different, suppressed, text
from vnait.laws.formulas import Expected
from vnait.laws.register import DoesNotApply, described, law
from vnait.laws.subjects import Probe, Seen, Subject
from vnait.randomness import apart


@law("deterministic")
def deterministic(subject: Subject) -> str | None:
    """In evaluation the same text gets the same, whatever was drawn or called before."""
    for count, other in ((1, 2), (2, 1), (2, 3), (5, 12)):
        vectors, mask = text(subject, count)
        fresh = subject.probe()(vectors, mask)
        used = subject.probe()
        with suppressed():
            used(*text(subject, other))
        with apart():
            torch.manual_seed(count + other)
            again = used(vectors, mask)
        if wrong := different(fresh, again, tolerance=0.0):
            return f"{count} tokens, after a call of {other}: {wrong}"
    return None


@law("state dict")
def state_dict(subject: Subject) -> str | None:
    """Saved and loaded into a fresh one, it does the same."""
    one, other = subject.probe(), subject.probe(seed=1)
    vectors, mask = text(subject, 5)
    seen = one(vectors, mask)
    buffer = io.BytesIO()
    torch.save(one.state_dict(), buffer)
    buffer.seek(0)
    other.load_state_dict(torch.load(buffer, weights_only=True))
    wrong = different(seen, other(vectors, mask), tolerance=0.0)
    return wrong and f"5 tokens: {wrong}"


@law("compile")
def compiles(subject: Subject) -> str | None:
    """torch.compile takes it in one graph, and gives the same."""
    vectors, mask = text(subject, 5)
    torch._dynamo.reset()
    compiled = torch.compile(subject.probe(), backend="aot_eager", fullgraph=True)
    try:
        with _quiet():
            seen = compiled(vectors, mask)
    except Exception as error:
        return f"5 tokens: {described(error)}"
    wrong = different(subject.probe()(vectors, mask), seen)
    return wrong and f"5 tokens: {wrong}"


@law("export")
def exports(subject: Subject) -> str | None:
    """torch.export takes it, and gives the same."""
    vectors, mask = text(subject, 5)
    try:
        with _quiet():
            exported = torch.export.export(subject.probe(), (vectors, mask), strict=False)
        seen = Seen(*exported.module()(vectors, mask))
    except Exception as error:
        return f"5 tokens: {described(error)}"
    wrong = different(subject.probe()(vectors, mask), seen)
    return wrong and f"5 tokens: {wrong}"


@law("formula")
def formula(subject: Subject) -> str | None:
    """It does what its paper's formula, written as plain loops, says."""
    if subject.formula is None:
        raise DoesNotApply("no plain formula is written for it here")
    probe = subject.probe()
    for count in (2, 3, 20, 60):
        if count > subject.size.max_length:
            break
        vectors, mask = text(subject, count)
        seen = probe(vectors, mask)
        expected = subject.formula(probe, _coordinates(probe, vectors, mask))
        if wrong := _against(expected, probe, vectors, seen):
            return f"{count} tokens: {wrong}"
    return None


@contextmanager
def _quiet() -> Iterator[None]:
    """PyTorch logs at length what it can't compile, before it raises it."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _coordinates(probe: Probe, vectors: Tensor, mask: Tensor) -> list[list[float]]:
    method = getattr(probe, "method", None)
    if method is None:
        return [[float(i)] for i in range(vectors.shape[1])]
    return method.coordinates(vectors, mask)[0].double().tolist()


def _against(expected: Expected, probe: Probe, vectors: Tensor, seen: Seen) -> str | None:
    """Scores from words and the formula, by loops, against those seen."""
    x = vectors[0].double()
    if expected.added is not None:
        x = x + torch.tensor(expected.added, dtype=torch.float64)
    attention = copy.deepcopy(probe.get_submodule("attention")).double()
    assert isinstance(attention, Attention)
    query, key = (attention.heads(linear(x[None]))[0].tolist() for linear in (attention.query, attention.key))
    scores = torch.tensor(_scores(expected, query, key), dtype=torch.float64)[None]
    return different(Seen(x=x[None], out=x[None], scores=scores), Seen(x=seen.x, out=seen.x, scores=seen.scores))


def _scores(
    expected: Expected, query: list[list[list[float]]], key: list[list[list[float]]]
) -> list[list[list[float]]]:
    """q . k / sqrt K + bias, head by head and pair by pair."""
    told = []
    for head, (queries, keys) in enumerate(zip(query, key, strict=True)):
        queries = [_turned(q, i, expected, 1.0) for i, q in enumerate(queries)]
        keys = [_turned(k, j, expected, -1.0) for j, k in enumerate(keys)]
        rows = [[_dot(q, k) / math.sqrt(len(q)) for k in keys] for q in queries]
        if expected.bias is not None:
            rows = [[s + b for s, b in zip(*pair, strict=True)] for pair in zip(rows, expected.bias[head], strict=True)]
        told.append(rows)
    return told


def _turned(vector: list[float], place: int, expected: Expected, side: float) -> list[float]:
    if expected.turn is None:
        return vector
    turned = list(vector)
    half = len(vector) // 2
    for pair, angle in enumerate(expected.turn[place]):
        one, other = (pair, pair + half) if expected.layout == "half" else (2 * pair, 2 * pair + 1)
        power = math.exp(side * expected.stretch[place][pair]) if expected.stretch is not None else 1.0
        turned[one] = power * (vector[one] * math.cos(angle) - vector[other] * math.sin(angle))
        turned[other] = power * (vector[one] * math.sin(angle) + vector[other] * math.cos(angle))
    return turned


def _dot(one: Iterable[float], other: Iterable[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


LAWS = (deterministic, state_dict, compiles, exports, formula)
