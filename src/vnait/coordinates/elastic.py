"""Coordinates in which only what counts takes room: a learned weight of each token instead of one."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from vnait.coordinates.shared import At, Line, Mask, Vectors, check_mask, nearest_real
from vnait.coordinates.sources import ZeroLinear, weights_in
from vnait.coordinates.spans import SPAN


class Gate(nn.Module):
    """How much a token counts: g_i = clip(3/2 + f(e_i) + 4 w ((1 + cos(e_i, e_{i-1})) / 2)^8, 0, 1).

    f is an MLP and w a number, how a repetition of the token before counts; both start at zero, so that
    at the start every token counts one.

    The clip makes counting exact: 0 and 1 are reached, so errors do not add up over a long text. Its gradient
    is that of the identity (straight-through, arXiv 1308.3432), so that a token that counts nothing can count
    again. The start at 3/2 is a margin: noise does not change a weight, only consistent evidence does.

    >>> Gate(dim=4)(torch.ones(1, 3, 4), torch.ones(1, 3, dtype=torch.bool)).tolist()
    [[1.0, 1.0, 1.0]]
    """

    causal = True
    per_sentence = True

    START = 1.5
    REPEAT_SCALE = 4.0  # so that w, one number, is learned in as few steps as f

    def __init__(self, *, dim: int, hidden: int = 32) -> None:
        super().__init__()
        self.look = nn.Linear(dim, hidden)
        self.weigh = ZeroLinear(hidden, 1)
        self.repeat = nn.Parameter(torch.empty(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """A repetition counts like any other token."""
        nn.init.zeros_(self.repeat)

    def forward(self, vectors: Vectors, mask: Mask) -> Line:
        if vectors is None:
            raise ValueError("a Gate reads the words: call coordinates(vectors, mask) with their vectors.")
        dtype = torch.promote_types(vectors.dtype, torch.float32)  # never in half: gaps are summed
        with torch.autocast(vectors.device.type, enabled=False):
            words = vectors.to(dtype)
            hidden = F.gelu(F.linear(words, *weights_in(dtype, self.look)))
            level = F.linear(hidden, *weights_in(dtype, self.weigh))[..., 0]
            likeness = F.cosine_similarity(words[:, 1:], words[:, :-1], dim=-1)
            likeness = F.pad(likeness.masked_fill(~mask[:, :-1], -1), (1, 0), value=-1.0)
            level = self.START + level + self.REPEAT_SCALE * self.repeat.to(dtype) * ((1 + likeness) / 2) ** 8
            return level + (level.clamp(0, 1) - level).detach()


class Elastic(nn.Module):
    """(S_i, a_i, b_i, g_i), (B, T, 4): a span, the distances from both ends, and the weights of a `Gate`.

    R_i = g_1 + ... + g_i, S_i = 100 R_i / R_n, a_i = R_i - (g_i + 1) / 2, b_i = R_n - R_i + (g_i - 1) / 2

    gate       (vectors, mask) -> g (B, T) in [0, 1]
    min_gap    the least weight, in (0, 1), so that S increases strictly

    a and b are of the token's middle: where all tokens count one they are i - 1 and n - i, as in `Ends`. A
    token that counts nothing has S of the token before, and stands halfway between its neighbours in a and b,
    so that no token that counts has its place. Source: this project.

    >>> Elastic(Gate(dim=4))(torch.ones(1, 3, 4), torch.ones(1, 3, dtype=torch.bool))[0, :, 1:3].tolist()
    [[0.0, 2.0], [1.0, 1.0], [2.0, 0.0]]
    """

    causal = False
    per_sentence = True

    def __init__(self, gate: nn.Module, *, min_gap: float = 1e-5) -> None:
        super().__init__()
        if not 0 < min_gap < 1:
            raise ValueError(f"min_gap={min_gap}; it is a share of a token and must be in (0, 1).")
        self.gate, self.min_gap = gate, min_gap

    def forward(self, vectors: Vectors, mask: Mask) -> At:
        check_mask(mask)
        # In float64: a sum has no upper bound, and the least weight must not be lost beside it.
        weight = self.min_gap + (1 - self.min_gap) * self.gate(vectors, mask).double()
        weight = weight.masked_fill(~mask, 0)
        running = weight.cumsum(-1)
        total = running[..., -1:]
        start, end = running - (weight + 1) / 2, total - running + (weight - 1) / 2
        return torch.stack(
            [nearest_real(line, mask) for line in (SPAN * running / total, start, end, weight)], -1
        )

    def extra_repr(self) -> str:
        return f"min_gap={self.min_gap}"
