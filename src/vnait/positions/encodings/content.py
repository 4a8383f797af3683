"""Changes of the attention scores inside every layer (`ScoreMod`), which depend on its queries and keys.

The scores of hidden keys are changed too, and stay finite: the mask hides them. Never in half precision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vnait.positions.encodings.shared import At, line_of, neighbours
from vnait.positions.injection import DistanceBias, Injection, Keys, PairBias, Queries, Scores, Visible
from vnait.shared.values import full


class Cope(nn.Module):
    """CoPE: scores + q_i . P[p_ij], p_ij = g_ij + ... + g_ii, g_ik = sigmoid(q_i . k_k / sqrt(K)).

    A query counts the keys that matter to it, from key j up to itself; hidden keys count 0. P is linear
    between its rows, and p is clipped to the last one. For keys after the query, which the paper does not
    have, the count runs from the query up to the key, g_ii + ... + g_ij, and P is a second table.

    width       K, the width of a head
    positions   rows of a table; 64 in the paper's language models

    Both tables start at zero and are shared by heads and layers. It counts tokens itself, in their order, and
    reads no coordinate. Source: arXiv 2405.18719, section 4, and its listing, which is causal.

    >>> Cope(width=4)(torch.zeros(1, 2, 1)).score_mod.before.shape
    torch.Size([64, 4])
    """

    relative = True

    def __init__(self, *, width: int, positions: int = 64) -> None:
        super().__init__()
        if width < 1 or positions < 2:
            raise ValueError(f"width={width}, positions={positions}; expected at least 1 and 2.")
        self.before, self.after = (nn.Parameter(torch.empty(positions, width)) for _ in range(2))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Zero, as the paper's listing."""
        nn.init.zeros_(self.before)
        nn.init.zeros_(self.after)

    def forward(self, at: At) -> Injection:
        return Injection(score_mod=ContextualPositions(before=self.before, after=self.after))

    def extra_repr(self) -> str:
        return f"width={self.before.shape[1]}, positions={len(self.before)}"


@dataclass(frozen=True, kw_only=True)
class ContextualPositions:
    """The score_mod of `Cope`: its tables for keys up to the query, and after it.

    >>> table = torch.tensor([[0.0], [10.0], [20.0]])
    >>> q, scores = torch.ones(1, 1, 2, 1), torch.zeros(1, 1, 2, 2)  # every gate is 1/2
    >>> ContextualPositions(before=table, after=-table)(q, q, scores, torch.ones(1, 1, 1, 2).bool())
    tensor([[[[  5., -10.],
              [ 10.,   5.]]]])
    """

    before: Float[Tensor, "P K"]
    after: Float[Tensor, "P K"]

    def __call__(self, query: Queries, key: Keys, scores: Scores, visible: Visible) -> Scores:
        queries, keys = scores.shape[-2:]
        place = torch.arange(keys, device=scores.device)
        offset = place - place[keys - queries :, None]  # key - query
        gates = full(scores).sigmoid().masked_fill(~visible, 0)
        back = gates.masked_fill(offset > 0, 0).flip(-1).cumsum(-1).flip(-1)
        ahead = gates.masked_fill(offset < 0, 0).cumsum(-1)
        count = torch.where(offset > 0, ahead, back).clamp(max=len(self.before) - 1)
        # All products with the tables first: (T, 2P) instead of a vector for each pair.
        query = full(query)
        products = full(query @ torch.cat([self.before, self.after]).to(query.dtype).T)
        first = (offset > 0) * len(self.before)
        left, right, part = neighbours(count, len(self.before))
        lower, upper = (products.gather(-1, row + first) for row in (left, right))
        return full(scores) + torch.lerp(lower, upper, part)

    def rows(self, index: Tensor) -> ContextualPositions:
        """Itself: all sentences share the tables."""
        return self


class Forgetting(nn.Module):
    """Forgetting attention: scores - |F_i - F_j|, F_i = f_1 + ... + f_i, f_t = -log sigmoid(w_h . k_t + b_h).

    Each key k_t closes a gate, so that its query and all later ones keep sigmoid(w_h . k_t + b_h) of what the
    tokens before it weigh; hidden keys close none. For keys after the query, which the paper does not have,
    the gates between the two count as well.

    width   K, the width of a head

    Source: FoX, arXiv 2503.02130, section 3.1, where w_h and b_h belong to a layer and read its input; here
    all layers share them, and they read the layer's keys. It counts tokens itself, and reads no coordinate.

    >>> Forgetting(num_heads=2, width=4)(torch.zeros(1, 2, 1)).score_mod.weight.shape
    torch.Size([2, 4])
    """

    relative = True

    def __init__(self, *, num_heads: int, width: int) -> None:
        super().__init__()
        if num_heads < 1 or width < 1:
            raise ValueError(f"num_heads={num_heads}, width={width}; expected at least 1 and 1.")
        self.weight = nn.Parameter(torch.empty(num_heads, width))
        self.bias = nn.Parameter(torch.empty(num_heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As a linear layer of the key, without a bias."""
        width = self.weight.shape[1]
        nn.init.uniform_(self.weight, -(width**-0.5), width**-0.5)
        nn.init.zeros_(self.bias)

    def forward(self, at: At) -> Injection:
        return Injection(score_mod=ForgetGates(weight=self.weight, bias=self.bias))

    def extra_repr(self) -> str:
        return f"num_heads={self.weight.shape[0]}, width={self.weight.shape[1]}"


@dataclass(frozen=True, kw_only=True)
class ForgetGates:
    """The score_mod of `Forgetting`: the gates' weights and biases, per head.

    >>> gates = ForgetGates(weight=torch.zeros(1, 1), bias=torch.zeros(1))  # each keeps a half
    >>> q, scores = torch.ones(1, 1, 3, 1), torch.zeros(1, 1, 3, 3)
    >>> gates(q, q, scores, torch.ones(1, 1, 3, 3).bool()).exp()[0, 0, 2]
    tensor([0.2500, 0.5000, 1.0000])
    """

    weight: Float[Tensor, "H K"]
    bias: Float[Tensor, " H"]

    def __call__(self, query: Queries, key: Keys, scores: Scores, visible: Visible) -> Scores:
        gates = (full(key) * full(self.weight)[:, None]).sum(-1) + full(self.bias)[:, None]
        # A key that the last query does not see is padding, which a causal mask lets see itself.
        closed = F.softplus(-gates).masked_fill(~visible[..., -1, :], 0).cumsum(-1)
        queries = closed[..., key.shape[-2] - query.shape[-2] :]
        return full(scores) - (queries[..., None] - closed[..., None, :]).abs()

    def rows(self, index: Tensor) -> ForgetGates:
        """Itself: all sentences share the weights."""
        return self


class ScaleInvariant(nn.Module):
    """Scale-invariant attention: a_d scores + m_d, a_d = sqrt(1 + 2 log(1 + d/tau)), m_d = 1 - a_d^2.

    d = |at_query - at_key|; bias, (B, 1, T, T), and score_mod. If scores are standard normal, the tokens 10
    to 100 away get as much attention before the softmax as those 100 to 1,000 away, and the more distant
    ones share it more unevenly. Its authors add p-RoPE (`PartialRotary`): with full RoPE it did not
    generalize to long texts.

    Source: arXiv 2505.17083, equation 16 with alpha = beta = sqrt(e), which leaves d = 0 unchanged; tau = 10
    is the best of its appendix H. The paper is causal; the absolute value, for keys after the query, is ours.

    >>> injection = ScaleInvariant()(torch.tensor([[[0.0], [10.0]]]))
    >>> injection.score_mod.factor.dense()[0, 0, 0], injection.dense().bias[0, 0, 0]
    (tensor([1.0000, 1.5448]), tensor([-0.0000, -1.3863]))
    """

    relative = True

    def __init__(self, *, tau: float = 10.0) -> None:
        super().__init__()
        if not tau > 0:
            raise ValueError(f"tau={tau}; it must be a positive number of tokens.")
        self.tau = tau

    def forward(self, at: At) -> Injection:
        line = line_of(at[..., :1])
        bias, factor = (
            DistanceBias(line=line, formula=formula, dtype=line.dtype)
            for formula in (lambda far: -self._growth(far), lambda far: (1 + self._growth(far)).sqrt())
        )
        return Injection(distance=bias, score_mod=PairFactor(factor=factor))

    def _growth(self, distance: Tensor) -> Tensor:
        return 2 * torch.log1p(distance.abs() / self.tau)

    def extra_repr(self) -> str:
        return f"tau={self.tau:g}"


@dataclass(frozen=True, kw_only=True)
class PairFactor:
    """The score_mod of `ScaleInvariant`: a factor for each pair of tokens.

    >>> factor = DistanceBias(line=torch.tensor([[[0.0, 2.0]]]), formula=lambda far: 1 + far.abs())
    >>> q, scores = torch.ones(1, 1, 2, 1), torch.ones(1, 1, 2, 2)
    >>> PairFactor(factor=factor)(q, q, scores, torch.ones(1, 1, 1, 2).bool())
    tensor([[[[1., 3.],
              [3., 1.]]]])
    """

    factor: PairBias

    def __call__(self, query: Queries, key: Keys, scores: Scores, visible: Visible) -> Scores:
        past = scores.shape[-1] - scores.shape[-2]
        # Compilation can't follow a cached property, and a checkpointed layer computes learned places again.
        if past or torch.compiler.is_compiling() or self.factor.line.requires_grad:
            return scores * replace(self.factor, past=past).dense()
        return scores * self._whole

    @cached_property
    def _whole(self) -> Tensor:
        """Every pair's, computed once for all layers."""
        return self.factor.dense()

    def rows(self, index: Tensor) -> PairFactor:
        return replace(self, factor=self.factor.rows(index))


class Nape(nn.Module):
    """NAPE with adaptive-scalable entmax: log p, p = entmax_1.5(a z - m_h d) of the visible keys' scores z.

    The first half of the heads are local, ALiBi with slopes m_h = 1, 1/2, 1/3, ... of d = |at_query - at_key|
    and a = 1. The others have no position, m_h = 0, and a = 1 + beta (log(n + 1))^gamma for n visible keys,
    beta = softplus(u_h . q), gamma = 2 tanh(v_h . q). The layers' softmax of log p is p; most keys of a long
    text have weight zero (1e-38, so that the logarithm is finite).

    width   K, the width of a head

    Source: arXiv 2506.16640, sections 4 and 5, and its code, deep-spin/asentmax, where u_h and v_h belong to
    a layer and read its hidden state; here all layers share them, and they read the query q. The absolute
    value of the distance, for keys after the query, is ours.

    >>> injection = Nape(num_heads=2, width=4)(torch.tensor([[[0.0], [3.0]]]))
    >>> injection.score_mod.bias.dense()[0, :, 0]
    tensor([[-0., -3.],
            [-0., -0.]])
    """

    relative = True

    def __init__(self, *, num_heads: int, width: int) -> None:
        super().__init__()
        if num_heads < 2 or width < 1:
            raise ValueError(f"num_heads={num_heads}, width={width}; expected at least 2 and 1.")
        self.num_heads, self.width = num_heads, width
        self.beta, self.gamma = (
            nn.Parameter(torch.empty(num_heads - num_heads // 2, width)) for _ in range(2)
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As a linear layer of the query."""
        for parameter in (self.beta, self.gamma):
            nn.init.uniform_(parameter, -(self.width**-0.5), self.width**-0.5)

    def forward(self, at: At) -> Injection:
        line = line_of(at[..., :1])
        local = self.num_heads // 2
        slopes = torch.zeros(self.num_heads, dtype=line.dtype, device=line.device)
        slopes[:local] = 1 / torch.arange(1, local + 1, device=line.device)
        bias = DistanceBias(
            line=line, formula=lambda far, slope: -slope * far.abs(), heads=(slopes,), dtype=line.dtype
        )
        return Injection(score_mod=SparseScores(bias=bias, beta=self.beta, gamma=self.gamma))

    def extra_repr(self) -> str:
        return f"num_heads={self.num_heads}, width={self.width}"


@dataclass(frozen=True, kw_only=True)
class SparseScores:
    """The score_mod of `Nape`: the logarithm of entmax weights, so that a softmax gives the weights."""

    bias: PairBias
    beta: Float[Tensor, "G K"]
    gamma: Float[Tensor, "G K"]

    def __call__(self, query: Queries, key: Keys, scores: Scores, visible: Visible) -> Scores:
        past = scores.shape[-1] - scores.shape[-2]
        local = scores.shape[1] - len(self.beta)
        asking = full(query[:, local:])
        beta, gamma = (
            (asking * full(part)[:, None]).sum(-1, keepdim=True) for part in (self.beta, self.gamma)
        )
        size = visible.sum(-1, keepdim=True).log1p()
        factor = 1 + F.softplus(beta) * size ** (2 * gamma.tanh())
        scores = full(scores)
        scaled = torch.cat([scores[:, :local], factor * scores[:, local:]], 1)
        return log_entmax(scaled + replace(self.bias, past=past).dense(), visible)

    def rows(self, index: Tensor) -> SparseScores:
        return replace(self, bias=self.bias.rows(index))


SMALLEST = 1e-19  # a square root of a weight, in place of zero: its square is in float32, and log is finite
MIN_SCORE = -1e4  # half a score below the largest, in place of less: its square is in float32


def log_entmax(scores: Scores, visible: Visible) -> Scores:
    """log p of p = entmax_1.5(scores) over the visible keys: p_i = max(0, scores_i / 2 - tau)^2, sum p = 1.

    tau is exact, from the sorted scores; the gradient is that of the keys whose weight is above zero.
    Source: Peters et al. 2019, arXiv 1905.05702, and Correia et al. 2019, arXiv 1909.00015, algorithm 2.

    >>> scores = torch.tensor([[[[3.0, 2.0, -5.0]]]])
    >>> log_entmax(scores, torch.ones(1, 1, 1, 3, dtype=torch.bool)).exp().round(decimals=4)
    tensor([[[[0.8307, 0.1693, 0.0000]]]])
    """
    largest = scores.masked_fill(~visible, torch.finfo(scores.dtype).min).amax(-1, keepdim=True)
    half = ((scores - largest.detach()) / 2).clamp(min=MIN_SCORE).masked_fill(~visible, MIN_SCORE)
    with torch.no_grad():
        ordered = half.sort(dim=-1, descending=True).values
        count = torch.arange(1, ordered.shape[-1] + 1, dtype=half.dtype, device=half.device)
        mean = ordered.cumsum(-1) / count
        squares = ordered.square().cumsum(-1) - count * mean.square()
        tau = mean - ((1 - squares) / count).clamp(min=0).sqrt()
        last = (tau <= ordered).sum(-1, keepdim=True) - 1
        inside = half > tau.gather(-1, last)
    number = inside.sum(-1, keepdim=True)
    mean = half.masked_fill(~inside, 0).sum(-1, keepdim=True) / number
    squares = (half - mean).masked_fill(~inside, 0).square().sum(-1, keepdim=True)
    root = half - mean + ((1 - squares) / number).sqrt()
    return 2 * root.masked_fill(~inside, 0).clamp(min=SMALLEST).log()
