"""Laws of positions: fractional, per text, gradients, prefixes, caches, shifts, order, one method."""

from collections.abc import Callable

import torch
from torch import Tensor

from vnait.positions.conformance_suite.register import (
    EXACT,
    DoesNotApply,
    difference,
    is_finite,
    is_refusal,
    law,
    row_of,
    text,
)
from vnait.positions.conformance_suite.subjects import Observation, Probe, Subject


@law("fractional")
def fractional(subject: Subject) -> str | None:
    """A fractional position differs from the whole ones on either side."""
    _require_real_positions(subject)
    probe, (vectors, mask) = subject.probe(), text(subject, 3)
    seen = []
    for step in (0.0, 0.5, 1.0):
        move = torch.zeros(1, 3, 1)
        move[0, 1] = step
        seen.append(_moved(subject, probe, vectors, mask, move))
    if not all(map(is_finite, seen)):
        return "3 tokens, the second at 1.5: not finite"
    for whole, place in ((0, "1"), (2, "2")):
        if not difference(seen[1], seen[whole], tolerance=1e-5):
            return f"3 tokens, the second at 1.5: the same as at {place}"
    return None


@law("a text's own")
def per_sentence(subject: Subject) -> str | None:
    """Every text of a batch may have its own positions, with the same result as alone."""
    if subject.positions == "none" and not subject.shifts:
        raise DoesNotApply("accepts no positions")
    probe, (vectors, mask) = subject.probe(), text(subject, 3)
    vectors, mask = vectors.repeat(2, 1, 1), mask.repeat(2, 1)
    step = 1.0 if subject.positions == "whole" else 0.5
    # The second gap grows more than the first, since a span does not depend on the unit of time.
    moves = torch.stack([torch.zeros(3), step * torch.tensor([0.0, 1.0, 4.0])])[..., None]
    together = _moved(subject, probe, vectors, mask, moves)
    case = f"2 texts of 3 tokens, one with gaps of {1 + step:g} and {1 + 3 * step:g}"
    for row in range(2):
        alone = _moved(subject, probe, vectors[row : row + 1], mask[row : row + 1], moves[row : row + 1])
        if failure := difference(row_of(alone, mask, 0), row_of(together, mask, row)):
            return f"{case}: row {row}: {failure}"
    first, second = (row_of(together, mask, row) for row in range(2))
    if subject.positional and not difference(first, second, tolerance=1e-5):
        return f"{case}: no difference between them"
    return None


@law("gradient")
def gradient(subject: Subject) -> str | None:
    """Gradients reach the positions and every parameter of the method, and are finite."""
    _require_real_positions(subject)
    probe, (vectors, mask) = subject.probe(), text(subject, 4)
    axes = subject.axes
    if subject.positions == "none":
        axes = int(probe.method.coordinates(vectors, mask).shape[-1])  # type: ignore[union-attr, operator]
    move = (0.25 * torch.arange(4.0)[None, :, None].expand(1, 4, axes)).clone().requires_grad_()
    loss = _loss(_moved(subject, probe, vectors, mask, move))
    if not loss.requires_grad:
        return "4 tokens: the gradient is None"
    (derivative,) = torch.autograd.grad(loss, move, allow_unused=True, retain_graph=True)
    if failure := _no_gradient(derivative):
        return f"4 tokens: the gradient is {failure}"
    method = getattr(probe, "method", None)
    if method is None:
        return None
    loss = _loss(probe(vectors, mask))
    for name, parameter in method.named_parameters():
        (derivative,) = torch.autograd.grad(loss, parameter, allow_unused=True, retain_graph=True)
        if failure := _no_gradient(derivative):
            return f"4 tokens: the gradient of {name} is {failure}"
    return None


@law("prefix")
def prefix(subject: Subject) -> str | None:
    """If a method claims to be causal, later tokens change nothing for earlier ones."""
    if not subject.causal:
        raise DoesNotApply("makes no claim to be causal")
    longest = subject.size.max_length
    for count, longer in ((1, 2), (2, 3), (3, 8), (12, 40), (longest, 2 * longest)):
        vectors, mask = text(subject, longer)
        probe = subject.probe()
        alone = probe(vectors[:, :count], mask[:, :count])
        try:
            whole = probe(vectors, mask)
        except Exception as error:
            if not is_refusal(error):  # past the longest text, as that law allows
                raise
            continue
        if failure := difference(_first(alone, count), _first(whole, count)):
            return f"the first {count} of {longer} tokens: {failure}"
    return None


@law("cache")
def cache(subject: Subject) -> str | None:
    """If a method claims to be causal, tokens after those in a decoder's cache are read as without it."""
    if not subject.causal:
        raise DoesNotApply("makes no claim to be causal")
    for past, count in ((1, 2), (2, 5), (5, 8), (20, 21)):
        seen = subject.probe().continued(*text(subject, count), past)
        if seen is None:
            raise DoesNotApply("has no cache here")
        if failure := difference(*seen):
            return f"{past} of {count} tokens in the cache: {failure}"
    return None


@law("translation")
def translation(subject: Subject) -> str | None:
    """If a method claims to be relative, the same shift of all positions changes no attention weight."""
    if not subject.relative:
        raise DoesNotApply("makes no claim to be relative")
    for count in (2, 3, 12):
        probe, (vectors, mask) = subject.probe(), text(subject, count)
        for shift in (1.0, 7.25, 30.0):
            if subject.positions != "real" and not subject.shifts:
                shift = float(round(shift))
            before, after = _shifted(subject, probe, vectors, mask, shift)
            if failure := difference(before, after, tolerance=5 * EXACT):
                return f"{count} tokens, all {shift:g} further: {failure}"
    return None


@law("order")
def order(subject: Subject) -> str | None:
    """The result depends on the order of the words."""
    if not subject.positional:
        raise DoesNotApply("a control without position")
    vectors, mask = text(subject, 3)
    if difference(*_rolled(lambda words: subject.probe()(words, mask), vectors), tolerance=1e-5):
        return None
    return "3 tokens: another order changes nothing"


@law("one method")
def one_method(subject: Subject) -> str | None:
    """With the method switched off, the result does not depend on the order: there is no second method."""
    vectors, mask = text(subject, 3)

    def without_method(words: Tensor) -> Observation:
        out = subject.probe().without_method(words, mask)
        if out is None:
            raise DoesNotApply("a part without a model around it")
        return Observation(x=out, out=out)

    failure = difference(*_rolled(without_method, vectors), tolerance=10 * EXACT)
    return failure and f"3 tokens, the method switched off: the order still matters, {failure}"


def _require_real_positions(subject: Subject) -> None:
    if not subject.positional:
        raise DoesNotApply("a control without position")
    if subject.positions != "real" and not subject.shifts:
        raise DoesNotApply(
            "accepts whole positions only" if subject.positions == "whole" else "accepts no positions"
        )


def _moved(subject: Subject, probe: Probe, vectors: Tensor, mask: Tensor, move: Tensor) -> Observation:
    """Run with positions moved by (B, T, 1 or axes) from the token index, on the last axis."""
    if subject.positions == "none":
        return probe(vectors, mask, shift=move)
    positions = torch.zeros(1, vectors.shape[1], subject.axes)
    positions[..., -1] = torch.arange(vectors.shape[1])
    positions = positions + move
    return probe(vectors, mask, positions.long() if subject.positions == "whole" else positions)


def _no_gradient(gradient: Tensor | None) -> str | None:
    if gradient is None:
        return "None"
    if not gradient.isfinite().all():
        return "not finite"
    return None if gradient.abs().max() > 0 else "0"


def _first(seen: Observation, count: int) -> Observation:
    """The first tokens, with scores of earlier keys only, and no `out`: the attention sees all tokens."""
    x = seen.x[:, :count]
    query, key = (None if part is None else part[:, :, :count] for part in (seen.query, seen.key))
    scores = None
    if seen.scores is not None:
        later = torch.ones(count, count, dtype=torch.bool).triu(1)
        scores = seen.scores[:, :, :count, :count].masked_fill(later, -torch.inf)
    return Observation(x=x, out=x, query=query, key=key, scores=scores)


def _shifted(
    subject: Subject, probe: Probe, vectors: Tensor, mask: Tensor, shift: float
) -> tuple[Observation, Observation]:
    """Scores of a text, and with all positions `shift` further, which may take as many words before it."""
    count = vectors.shape[1]
    if subject.shifts:
        seen = [probe(vectors, mask, shift=torch.full((1, count, 1), by)) for by in (0.0, shift)]
    elif subject.positions != "none":
        seen = [_moved(subject, probe, vectors, mask, torch.full((1, count, 1), by)) for by in (0.0, shift)]
    else:
        longer = torch.cat([text(subject, int(shift), rows=2)[0][1:], vectors], 1)
        late = probe(longer, torch.ones(longer.shape[:2], dtype=torch.bool))
        assert late.scores is not None
        seen = [probe(vectors, mask), late._replace(scores=late.scores[:, :, -count:, -count:])]
    before, after = (Observation(x=vectors, out=vectors, scores=part.scores) for part in seen)
    return before, after


def _rolled(call: Callable[[Tensor], Observation], vectors: Tensor) -> tuple[Observation, Observation]:
    """The results rolled by one token, and the results of rolled vectors."""
    straight, rolled = call(vectors), call(vectors.roll(1, 1))
    scores = None if straight.scores is None else straight.scores.roll((1, 1), (2, 3))
    return (
        Observation(x=straight.x.roll(1, 1), out=straight.out.roll(1, 1), scores=scores),
        Observation(x=rolled.x, out=rolled.out, scores=rolled.scores),
    )


def _loss(seen: Observation) -> Tensor:
    """A number that depends on everything observed, and on no symmetry of it."""
    parts = [seen.x] if seen.scores is None else [seen.x, seen.scores.log_softmax(-1)]
    generator = torch.Generator().manual_seed(1)
    weighted = [(part * torch.randn(part.shape, generator=generator)).sum() for part in parts]
    return sum(weighted, torch.zeros(()))
