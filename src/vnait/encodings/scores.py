"""Changes of the attention scores inside every layer (`ScoreMod`), which depend on its queries and keys.

The scores of hidden keys are changed too, and stay finite: the mask hides them. Never in half precision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vnait.encodings.shared import At, full, line_of, neighbours
from vnait.injection import DistanceBias, Injection, PairBias

Scores = Float[Tensor, "B H TQ TK"]


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

    def __call__(
        self,
        query: Float[Tensor, "B H TQ K"],
        key: Float[Tensor, "B H TK K"],
        scores: Scores,
        visible: Bool[Tensor, "#B 1 #TQ TK"],
    ) -> Scores:
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
        one, other = (products.gather(-1, row + first) for row in (left, right))
        return full(scores) + torch.lerp(one, other, part)

    def rows(self, index: Tensor) -> ContextualPositions:
        """Itself: all sentences share the tables."""
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

    def __call__(
        self,
        query: Float[Tensor, "B H TQ K"],
        key: Float[Tensor, "B H TK K"],
        scores: Scores,
        visible: Bool[Tensor, "#B 1 #TQ TK"],
    ) -> Scores:
        past = scores.shape[-1] - scores.shape[-2]
        if past or torch.compiler.is_compiling():  # which can't follow a cached property
            return scores * replace(self.factor, past=past).dense()
        return scores * self._whole

    @cached_property
    def _whole(self) -> Tensor:
        """Every pair's, computed once for all layers."""
        return self.factor.dense()

    def rows(self, index: Tensor) -> PairFactor:
        """Those of the sentences `index`."""
        return replace(self, factor=self.factor.rows(index))
