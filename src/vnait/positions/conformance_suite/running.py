"""Laws of execution: repeated, saved and loaded, compiled, exported; and the paper's formula."""

import copy
import io
import logging
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import mul

import torch
from torch import Tensor

from vnait.positions.attention import Attention
from vnait.positions.conformance_suite.register import DoesNotApply, difference, error_line, law, text
from vnait.positions.conformance_suite.subjects import Expected, Observation, Probe, Subject
from vnait.shared.quiet import no_logs
from vnait.shared.randomness import preserved_generators


@law("deterministic")
def deterministic(subject: Subject) -> str | None:
    """In evaluation a text has the same result, whatever was drawn or called before."""
    for count, earlier in ((1, 2), (2, 1), (2, 3), (5, 12)):
        vectors, mask = text(subject, count)
        fresh = subject.probe()(vectors, mask)
        used = subject.probe()
        with suppress(Exception):  # a call that fails is for another law
            used(*text(subject, earlier))
        with preserved_generators():
            torch.manual_seed(count + earlier)
            again = used(vectors, mask)
        if failure := difference(fresh, again, tolerance=0.0):
            return f"{count} tokens, after a call of {earlier}: {failure}"
    return None


@law("state dict")
def state_dict(subject: Subject) -> str | None:
    """Saved and loaded into a new object, it has the same result."""
    saved, loaded = subject.probe(), subject.probe(seed=1)
    vectors, mask = text(subject, 5)
    seen = saved(vectors, mask)
    buffer = io.BytesIO()
    torch.save(saved.state_dict(), buffer)
    buffer.seek(0)
    loaded.load_state_dict(torch.load(buffer, weights_only=True))
    failure = difference(seen, loaded(vectors, mask), tolerance=0.0)
    return failure and f"5 tokens: {failure}"


@law("compile")
def compiles(subject: Subject) -> str | None:
    """torch.compile makes one graph of it, with the same result."""
    torch._dynamo.reset()
    return _changed(subject, torch.compile(subject.probe(), backend="aot_eager", fullgraph=True))


@law("export")
def exports(subject: Subject) -> str | None:
    """torch.export exports it, with the same result."""

    def exported(*inputs: Tensor) -> Observation:
        program = torch.export.export(subject.probe(), inputs, strict=False)
        return Observation(*program.module()(*inputs))

    return _changed(subject, exported)


@law("formula")
def formula(subject: Subject) -> str | None:
    """It equals its paper's formula, written as plain loops."""
    if subject.formula is None:
        raise DoesNotApply("has no plain formula here")
    probe = subject.probe()
    for count in (2, 3, 20, 60):
        if count > subject.size.max_length:
            break
        vectors, mask = text(subject, count)
        seen = probe(vectors, mask)
        expected = subject.formula(probe, _coordinates(probe, vectors, mask))
        if failure := _against_formula(expected, probe, vectors, seen):
            return f"{count} tokens: {failure}"
    return None


def _changed(subject: Subject, call: Callable[..., Observation]) -> str | None:
    """How `call`, made of the subject's probe, differs from it on a text of 5 tokens; None if it does not."""
    vectors, mask = text(subject, 5)
    try:
        with no_logs(logging.CRITICAL):  # PyTorch logs at length what it can't compile before it raises
            seen = call(vectors, mask)
    except Exception as error:
        return f"5 tokens: {error_line(error)}"
    failure = difference(subject.probe()(vectors, mask), seen)
    return failure and f"5 tokens: {failure}"


def _coordinates(probe: Probe, vectors: Tensor, mask: Tensor) -> list[list[float]]:
    method = getattr(probe, "method", None)
    if method is None:
        return [[float(i)] for i in range(vectors.shape[1])]
    return method.coordinates(vectors, mask)[0].double().tolist()


def _against_formula(expected: Expected, probe: Probe, vectors: Tensor, seen: Observation) -> str | None:
    """Compare observed scores with scores computed by loops."""
    x = vectors[0].double()
    if expected.added is not None:
        x = x + torch.tensor(expected.added, dtype=torch.float64)
    attention = copy.deepcopy(probe.get_submodule("attention")).double()
    assert isinstance(attention, Attention)
    query, key = (attention.heads(linear(x[None]))[0].tolist() for linear in (attention.query, attention.key))
    scores = torch.tensor(_scores(expected, query, key), dtype=torch.float64)[None]
    computed = Observation(x=x[None], out=x[None], scores=scores)
    return difference(computed, Observation(x=seen.x, out=seen.x, scores=seen.scores))


def _scores(
    expected: Expected, query: list[list[list[float]]], key: list[list[list[float]]]
) -> list[list[list[float]]]:
    """q . k / sqrt K, changed by the score_mod, + bias, per head and pair."""
    scores = []
    for head, (queries, keys) in enumerate(zip(query, key, strict=True)):
        queries = [_rotated(q, i, expected, 1.0) for i, q in enumerate(queries)]
        keys = [_rotated(k, j, expected, -1.0) for j, k in enumerate(keys)]
        rows = [[sum(map(mul, q, k)) / math.sqrt(len(q)) for k in keys] for q in queries]
        if expected.score_mod is not None:
            rows = expected.score_mod(head, queries, keys, rows)
        if expected.bias is not None:
            pairs = zip(rows, expected.bias[head], strict=True)
            rows = [[s + b for s, b in zip(row, bias, strict=True)] for row, bias in pairs]
        scores.append(rows)
    return scores


def _rotated(vector: Sequence[float], place: int, expected: Expected, side: float) -> list[float]:
    """A query (side 1) or key (side -1), rotated by its angles and multiplied by exp(side * stretch)."""
    rotated = list(vector)
    if expected.rotary is None:
        return rotated
    half = len(vector) // 2
    for pair, angle in enumerate(expected.rotary[place]):
        first, second = (pair, pair + half) if expected.layout == "half" else (2 * pair, 2 * pair + 1)
        power = math.exp(side * expected.stretch[place][pair]) if expected.stretch is not None else 1.0
        rotated[first] = power * (vector[first] * math.cos(angle) - vector[second] * math.sin(angle))
        rotated[second] = power * (vector[first] * math.sin(angle) + vector[second] * math.cos(angle))
    return rotated
