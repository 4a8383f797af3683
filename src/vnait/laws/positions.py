"""Laws of positions: fractional ones, a text's own, gradients, what is claimed of prefixes and shifts, and that there is one method."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from vnait.laws.comparing import EXACT, different, finite, of_row, text
from vnait.laws.register import DoesNotApply, law
from vnait.laws.subjects import Probe, Seen, Subject


@law("fractional")
def fractional(subject: Subject) -> str | None:
    """A token at a fractional position is told something else than at the whole ones on either side."""
    _needs_real_positions(subject)
    probe, (vectors, mask) = subject.probe(), text(subject, 3)
    seen = [_moved(subject, probe, vectors, mask, token=1, by=by) for by in (0.0, 0.5, 1.0)]
    if not all(map(finite, seen)):
        return "3 tokens, the second at 1.5: not finite"
    for other, where in ((0, "1"), (2, "2")):
        if not different(seen[1], seen[other], tolerance=1e-5):
            return f"3 tokens, the second at 1.5: told as at {where}"
    return None


@law("a text's own")
def per_sentence(subject: Subject) -> str | None:
    """Every text of a batch may have positions of its own, and gets what it would get alone."""
    if subject.places == "none" and not subject.shifts:
        raise DoesNotApply("takes no positions")
    probe, (vectors, mask) = subject.probe(), text(subject, 3)
    vectors, mask = vectors.repeat(2, 1, 1), mask.repeat(2, 1)
    step = 1.0 if subject.places == "whole" else 0.5
    apart = step * torch.arange(3).float()[None, :, None] * torch.tensor([0.0, 1.0])[:, None, None]
    together = _placed(subject, probe, vectors, mask, apart)
    for row in range(2):
        alone = _placed(subject, probe, vectors[row : row + 1], mask[row : row + 1], apart[row : row + 1])
        if wrong := different(of_row(alone, mask, 0), of_row(together, mask, row)):
            return f"2 texts of 3 tokens, one stretched by {1 + step:g}: row {row}: {wrong}"
    if subject.tells and not different(of_row(together, mask, 0), of_row(together, mask, 1), tolerance=1e-5):
        return f"2 texts of 3 tokens, one stretched by {1 + step:g}: both told the same"
    return None


@law("gradient")
def gradient(subject: Subject) -> str | None:
    """Gradients reach the positions, and all that is learned in the coordinates."""
    _needs_real_positions(subject)
    probe, (vectors, mask) = subject.probe(), text(subject, 4)
    move = 0.25 * torch.arange(4.0)[None, :, None].expand(1, 4, _axes(subject, probe, vectors, mask))
    leaf: list[Tensor] = []
    seen = _placed(subject, probe, vectors, mask, move.clone().requires_grad_(), leaf)
    loss = _some(seen)
    if not loss.requires_grad:
        return "4 tokens: the gradient is None"
    (found,) = torch.autograd.grad(loss, leaf, allow_unused=True, retain_graph=True)
    if found is None or not found.isfinite().all() or not found.abs().max() > 0:
        return f"4 tokens: the gradient is {'None' if found is None else 'not finite' if not found.isfinite().all() else 0}"
    coordinates = getattr(getattr(probe, "method", None), "coordinates", None)
    if coordinates is None:
        return None
    loss = _some(probe(vectors, mask))
    for name, parameter in coordinates.named_parameters():
        (slope,) = torch.autograd.grad(loss, parameter, allow_unused=True, retain_graph=True)
        if slope is None or not slope.isfinite().all() or not slope.abs().max() > 0:
            return f"4 tokens: none reaches coordinates.{name}"
    return None


@law("prefix")
def prefix(subject: Subject) -> str | None:
    """Where a method claims to be causal: what follows a text changes nothing of what its tokens were told."""
    if not subject.causal:
        raise DoesNotApply("makes no claim to be causal")
    for count, longer in ((1, 2), (2, 3), (3, 8), (12, 40)):
        vectors, mask = text(subject, longer)
        probe = subject.probe()
        short = probe(vectors[:, :count], mask[:, :count])
        if wrong := different(_first(short, count), _first(probe(vectors, mask), count)):
            return f"the first {count} of {longer} tokens: {wrong}"
    return None


@law("translation")
def translation(subject: Subject) -> str | None:
    """Where a method claims to be relative: the same shift of all positions changes no attention weight."""
    if not subject.relative:
        raise DoesNotApply("makes no claim to be relative")
    for count in (2, 3, 12):
        probe, (vectors, mask) = subject.probe(), text(subject, count)
        for by in (1.0, 7.25, 30.0):
            by = float(round(by)) if subject.places != "real" and not subject.shifts else by
            one, other = _shifted(subject, probe, vectors, mask, by)
            if wrong := different(one, other, tolerance=5 * EXACT):
                return f"{count} tokens, all {by:g} further: {wrong}"
    return None


@law("order")
def order(subject: Subject) -> str | None:
    """The order of the words is seen."""
    if not subject.tells:
        raise DoesNotApply("a control that says nothing of position")
    vectors, mask = text(subject, 3)
    if different(*_rolled(lambda words: subject.probe()(words, mask), vectors), tolerance=1e-5):
        return None
    return "3 tokens: in another order they get the same"


@law("one method")
def one_method(subject: Subject) -> str | None:
    """With the method switched off, order is seen no more: nothing else tells position."""
    vectors, mask = text(subject, 3)

    def silent(words: Tensor) -> Seen:
        out = subject.probe().silent(words, mask)
        if out is None:
            raise DoesNotApply("a part alone, without a model around it")
        return Seen(x=out, out=out)

    wrong = different(*_rolled(silent, vectors), tolerance=10 * EXACT)
    return wrong and f"3 tokens, the method switched off: the order is still seen, {wrong}"


def _needs_real_positions(subject: Subject) -> None:
    if not subject.tells:
        raise DoesNotApply("a control that says nothing of position")
    if subject.places == "real" or subject.shifts:
        return
    raise DoesNotApply("takes whole positions alone" if subject.places == "whole" else "takes no positions")


def _axes(subject: Subject, probe: Probe, vectors: Tensor, mask: Tensor) -> int:
    if subject.places != "none":
        return subject.axes
    return int(probe.method.coordinates(vectors, mask).shape[-1])  # type: ignore[union-attr, operator]


def _counted(subject: Subject, count: int) -> Tensor:
    """Places as they are counted, on the last axis."""
    places = torch.zeros(1, count, subject.axes)
    places[..., -1] = torch.arange(count)
    return places


def _placed(
    subject: Subject, probe: Probe, vectors: Tensor, mask: Tensor, move: Tensor, leaf: list[Tensor] | None = None
) -> Seen:
    """With positions moved by (B, T, 1 or axes) from where they are counted; `leaf` gets what a gradient should reach."""
    if leaf is not None:
        leaf.append(move)
    if subject.places != "none":
        places = _counted(subject, vectors.shape[1]) + move
        return probe(vectors, mask, places.long() if subject.places == "whole" else places)
    return probe(vectors, mask, shift=move)


def _moved(subject: Subject, probe: Probe, vectors: Tensor, mask: Tensor, *, token: int, by: float) -> Seen:
    """With one token moved."""
    move = torch.zeros(1, vectors.shape[1], 1)
    move[0, token] = by
    return _placed(subject, probe, vectors, mask, move)


def _first(seen: Seen, count: int) -> Seen:
    """What the first tokens were told, each by itself and of those up to it; what an attention that sees all gives back is left out."""
    x = seen.x[:, :count]
    query, key = (None if part is None else part[:, :, :count] for part in (seen.query, seen.key))
    scores = None
    if seen.scores is not None:
        later = torch.ones(count, count, dtype=torch.bool).triu(1)
        scores = seen.scores[:, :, :count, :count].masked_fill(later, -torch.inf)
    return Seen(x=x, out=x, query=query, key=key, scores=scores)


def _shifted(subject: Subject, probe: Probe, vectors: Tensor, mask: Tensor, by: float) -> tuple[Seen, Seen]:
    """Scores of a text, and of it with all positions further: shifted, given, or counted behind other words."""
    count = vectors.shape[1]
    if subject.shifts:
        seen = [probe(vectors, mask, shift=torch.full((1, count, 1), by * far)) for far in (0, 1)]
    elif subject.places != "none":
        seen = [_placed(subject, probe, vectors, mask, torch.full((1, count, 1), by * far)) for far in (0, 1)]
    else:
        more = torch.cat([text(subject, int(by), rows=2)[0][1:], vectors], 1)
        late = probe(more, torch.ones(more.shape[:2], dtype=torch.bool))
        assert late.scores is not None
        scores = late.scores[:, :, -count:, -count:]
        seen = [probe(vectors, mask), late._replace(scores=scores)]
    one, other = (Seen(x=vectors, out=vectors, scores=part.scores) for part in seen)
    return one, other


def _rolled(call: Callable[[Tensor], Seen], vectors: Tensor) -> tuple[Seen, Seen]:
    """What words get, rolled on by one; and what they get when they come rolled on by one."""
    one, other = call(vectors), call(vectors.roll(1, 1))
    scores = None if one.scores is None else one.scores.roll((1, 1), (2, 3))
    return Seen(x=one.x.roll(1, 1), out=one.out.roll(1, 1), scores=scores), Seen(
        x=other.x, out=other.out, scores=other.scores
    )


def _some(seen: Seen) -> Tensor:
    """A number that hangs on all that is seen, and on no symmetry of it."""
    parts = [seen.x, *(part.log_softmax(-1) for part in (seen.scores,) if part is not None)]
    generator = torch.Generator().manual_seed(1)
    return sum(((part * torch.randn(part.shape, generator=generator)).sum() for part in parts), torch.zeros(()))


LAWS = (fractional, per_sentence, gradient, prefix, translation, order, one_method)
