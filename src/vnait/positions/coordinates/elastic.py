"""Coordinates that count each token by a learned weight in [0, 1] in place of one."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from vnait.positions.coordinates.shared import (
    At,
    Line,
    Mask,
    Positions,
    Vectors,
    averaged,
    check_mask,
    nearest_real,
    steps,
    without_padding_between,
)
from vnait.positions.coordinates.sources import HIDDEN, ZeroLinear, apply_in
from vnait.positions.coordinates.spans import SPAN
from vnait.shared.chunks import map_tokens
from vnait.shared.values import precision


class _StraightThrough(nn.Module):
    """What has the gradient of something else, by which it learns; with `true_gradient` its own, which
    attribution needs.
    """

    true_gradient = False

    def _straight_through(self, value: Line, carrier: Line) -> Line:
        """The value, with the gradient of the carrier."""
        rest = value - carrier
        return carrier + (rest if self.true_gradient else rest.detach())


class Gate(_StraightThrough):
    """The evidence that a token counts, (B, T): l_i = 3/2 + v (f(e_i) + 4 w ((1 + cos(e_i, e_{i-1})) / 2)^8).

    f is an MLP and w a number, how a repetition of the token before counts; both start at zero. Adam's steps
    do not depend on the gradient's scale, so l is learned v = `speed` times as fast as the rest: weights are
    exact before the rest can answer texts of the training lengths without them. `Elastic`
    clips l to a weight in [0, 1], so that at the start every token counts one. The start at 3/2 is a margin:
    noise does not change a weight, only consistent evidence does.

    >>> Gate(dim=4)(torch.ones(1, 3, 4), torch.ones(1, 3, dtype=torch.bool)).tolist()
    [[1.5, 1.5, 1.5]]
    """

    START = 1.5
    SCALE = 4.0  # so that w, one number, is learned in as few steps as f

    def __init__(self, *, dim: int) -> None:
        super().__init__()
        self.dim, self.speed = dim, 4.0
        self.look = nn.Linear(dim, HIDDEN)
        self.weigh = ZeroLinear(HIDDEN, 1)
        self.repeat = nn.Parameter(torch.empty(1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """A repetition counts like any other token."""
        nn.init.zeros_(self.repeat)

    def forward(self, vectors: Vectors, mask: Mask) -> Line:
        if vectors is None:
            raise ValueError("a Gate reads the words: call coordinates(vectors, mask) with their vectors.")
        dtype = precision(vectors.dtype)  # never in half: gaps are summed
        with torch.autocast(vectors.device.type, enabled=False):
            return self.level(vectors.to(dtype), mask)

    def level(self, words: Float[Tensor, "B T D"], mask: Mask) -> Line:
        """l of vectors in full precision."""
        return without_padding_between(partial(map_tokens, self._level, before=1), mask, words, mask)

    def _level(self, words: Float[Tensor, "B T D"], mask: Mask) -> Line:
        hidden = F.gelu(apply_in(words.dtype, self.look, words))
        evidence = apply_in(words.dtype, self.weigh, hidden)[..., 0]
        # The cosine; F.cosine_similarity copies all words three times. The first token has none before it: it
        # is masked and not cut off, since an export for all lengths refuses a size of T - 1 = 1.
        norm = torch.linalg.vector_norm(words, dim=-1).clamp_min(1e-8)
        likeness = (words * words.roll(1, 1)).sum(-1) / (norm * norm.roll(1, 1))
        after = mask.roll(1, 1) & (torch.arange(mask.shape[1], device=mask.device) > 0)
        likeness = likeness.masked_fill(~after, -1)
        evidence = evidence + self.SCALE * self.repeat.to(words.dtype) * ((1 + likeness) / 2) ** 8
        return self.START + self.speed * evidence


class ContextGate(Gate):
    """A gate that also depends on what stands before a token: l of `Gate` plus h - clip(h, -1, 1).

    h is the state before the token, h_i = (1 - z_i) h_{i-1} + z_i v_i, z = sigmoid(4 k(e) - 2) and
    v = clip(4 u(e), -3, 3), k and u linear, u starting at zero: the last token that set the state decides, as
    an opening mark or a closing one does.

    A state within 1 of zero does nothing, so that noise has less effect; l is not pushed further than half a
    unit beyond [0, 1]; z has a constant gradient, where its own would vanish. It is learned less
    surely than `Gate`, and disturbs what a text without such marks teaches (`studies/findings/`).

    >>> ContextGate(dim=4)(torch.ones(1, 3, 4), torch.ones(1, 3, dtype=torch.bool)).tolist()
    [[1.5, 1.5, 1.5]]
    """

    MARGIN = 0.5
    REST = -2.0  # of k: at first a state is an average of some eight tokens
    SLOPE = 0.1  # of z
    MOST = 3.0  # of v, and so of h

    def __init__(self, *, dim: int) -> None:
        super().__init__(dim=dim)
        self.key = nn.Linear(dim, 1)
        self.value = ZeroLinear(dim, 1)

    def level(self, words: Float[Tensor, "B T D"], mask: Mask) -> Line:
        key = self.SCALE * apply_in(words.dtype, self.key, words)[..., 0] + self.REST
        key = self._inward(key, -6, 6)
        share = self._straight_through(key.sigmoid(), self.SLOPE * key).masked_fill(~mask, 0)
        value = self.SCALE * apply_in(words.dtype, self.value, words)[..., 0]
        value = self._inward(value, -self.MOST, self.MOST)
        value = self._straight_through(value.clamp(-self.MOST, self.MOST), value)
        state = F.pad(_recurrence(1 - share, share * value)[:, :-1], (1, 0))
        context = self._straight_through(state - state.clamp(-1, 1), state)
        if not self.true_gradient:
            context = averaged(context, mask)  # a mark's state stands in all tokens up to the next mark
        return self._inward(super().level(words, mask) + context, -self.MARGIN, 1 + self.MARGIN)

    def _inward(self, x: Line, low: float, high: float) -> Line:
        learns = torch.is_grad_enabled() and not self.true_gradient
        return _Inward.apply(x, low, high) if learns else x


class Elastic(_StraightThrough):
    """(S_i, a_i, b_i, g_i, l_i), (B, T, 5): a span, the distances from both ends, and how a token counts.

    g_i = clip(l_i, 0, 1), R_i = g_1 + ... + g_i, S_i = 100 R_i / R_n, a_i = R_i - (g_i + 1) / 2,
    b_i = R_n - R_i + (g_i - 1) / 2

    gate       (vectors, mask) -> l (B, T), such as a `Gate`
    min_gap    the least weight, in (0, 1), so that S increases strictly

    The clip makes counting exact: 0 and 1 are reached, so errors do not add up over a long text. Its gradient
    is that of the identity (straight-through, arXiv 1308.3432), so that a token that counts nothing can count
    again, and its mean over the text's tokens (`averaged`). `vnait.positions.inputs.muting` is a prior of l,
    for few training texts.

    a and b are of the token's middle: where all tokens count one they are i - 1 and n - i, as in `Ends`. A
    token that counts nothing has S of the token before, and stands halfway between its neighbours in a and b,
    so that no token that counts has its place.

    Known positions, such as timestamps, scale the weights in S, while a and b still count: g_i times the step
    (t_i - t_{i-1}) over the mean step, at least `min_gap`. A token that counts nothing takes the step before
    it away, too. Source: this project.

    >>> Elastic(Gate(dim=4))(torch.ones(1, 3, 4), torch.ones(1, 3, dtype=torch.bool))[0, :, 1:3].tolist()
    [[0.0, 2.0], [1.0, 1.0], [2.0, 0.0]]
    """

    causal = False
    per_sentence = True
    takes_positions = True

    def __init__(self, gate: nn.Module, *, min_gap: float = 1e-5) -> None:
        super().__init__()
        if not 0 < min_gap < 1:
            raise ValueError(f"min_gap={min_gap}; it is a share of a token and must be in (0, 1).")
        if not isinstance(gate, nn.Module):
            raise TypeError(f"the gate {gate!r} is not a module; give an object, such as Gate(dim=...).")
        self.gate, self.min_gap = gate, min_gap

    def forward(self, vectors: Vectors, mask: Mask, positions: Positions = None) -> At:
        check_mask(mask)
        level = self.gate(vectors, mask)
        _check_level(level, mask, type(self.gate).__name__)
        level = level if self.true_gradient else averaged(level, mask)
        # In float64: a sum has no upper bound, and the least weight must not be lost beside it.
        weight = self.min_gap + (1 - self.min_gap) * self.weigh(level).double()
        weight = weight.masked_fill(~mask, 0)
        number = weight.cumsum(-1)
        start, end = number - (weight + 1) / 2, number[..., -1:] - number + (weight - 1) / 2
        running = number
        if positions is not None:  # the least step keeps the order of two tokens at one time
            running = (weight * steps(positions, mask).clamp_min(self.min_gap)).cumsum(-1)
        place, start, end, level = (
            nearest_real(line, mask)
            for line in (SPAN * running / running[..., -1:], start, end, level.double())
        )
        return torch.stack([place, start, end, weight, level], -1)

    def weigh(self, level: Line) -> Line:
        """g of l."""
        return self._straight_through(level.clamp(0, 1), level)

    def extra_repr(self) -> str:
        return f"min_gap={self.min_gap}"


def _check_level(level: Line, mask: Mask, gate: str) -> None:
    if torch.compiler.is_compiling() or (level.shape == mask.shape and level.is_floating_point()):
        return
    raise ValueError(
        f"the gate {gate} returned {level.dtype} of the shape {tuple(level.shape)} for a mask of the shape "
        f"{tuple(mask.shape)}; return a number per token, (B, T): 1 if it counts, 0 if not."
    )


class _Inward(torch.autograd.Function):
    """The identity, without the gradient that pushes x further out of [low, high]."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Line, low: float, high: float) -> Line:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Line, float, float], output: Line) -> None:
        x, low, high = inputs
        ctx.save_for_backward(x)
        ctx.low, ctx.high = low, high

    @staticmethod
    def backward(ctx: Any, gradient: Line) -> tuple[Line, None, None]:
        (x,) = ctx.saved_tensors
        outward = ((x > ctx.high) & (gradient < 0)) | ((x < ctx.low) & (gradient > 0))
        return gradient.masked_fill(outward, 0), None, None


def _recurrence(keep: Line, new: Line) -> Line:
    """h_i = keep_i h_{i-1} + new_i, h_0 = 0, of the last 4,096 tokens: 12 steps, each doubles the reach."""
    length = keep.shape[-1]
    for step in range(12):
        if not torch.compiler.is_compiling() and 2**step >= length:  # sizes are symbols there
            break
        keep, new = (
            keep * F.pad(keep, (2**step, 0))[:, :length],
            new + keep * F.pad(new, (2**step, 0))[:, :length],
        )
    return new
