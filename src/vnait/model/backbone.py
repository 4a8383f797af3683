"""A standard Transformer encoder. It reads an `Injection` and knows no method."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers.modeling_layers import GradientCheckpointingLayer

from vnait.positions.attention import (
    Attention,
    AttentionMask,
    Extend,
    Weights,
    X,
    masked_bias,
    needed_mask,
    whole_distances,
)
from vnait.positions.injection import Injection
from vnait.shared.randomness import Dropout

if TYPE_CHECKING:
    from transformers.cache_utils import Cache


class Encoder(nn.Module):
    """Pre-norm Transformer encoder blocks and a last norm: (B, T, D) -> (B, T, D).

    >>> encoder = Encoder(dim=8, num_heads=2, intermediate=16, num_layers=1, dropout=0.0)
    >>> encoder(torch.ones(1, 3, 8), Injection(), torch.ones(1, 3, dtype=torch.bool)).shape
    torch.Size([1, 3, 8])
    """

    def __init__(
        self, *, dim: int, num_heads: int, intermediate: int, num_layers: int, dropout: float
    ) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(dim=dim, num_heads=num_heads, intermediate=intermediate, dropout=dropout)
            for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: X, injection: Injection, attention_mask: AttentionMask) -> X:
        return self.trace(x, injection, attention_mask)[-1]

    def trace(
        self,
        x: X,
        injection: Injection,
        attention_mask: AttentionMask,
        cache: Cache | None = None,
        weights: Weights = None,
    ) -> list[X]:
        """The input and the output of every block, the last one normed.

        With a cache of keys and values, x has the new tokens only. A list `weights` is filled with the
        attention weights that the values are averaged with; gradients reach them.
        """
        known = 0 if cache is None or attention_mask is None else attention_mask.shape[-1]
        attention_mask = needed_mask(attention_mask)
        whole = weights is None and whole_distances(x, injection, attention_mask) is not None
        injection, attention_mask = masked_bias(
            injection if whole else injection.dense(), attention_mask, x.dtype
        )
        states = [self.dropout(x)]
        for layer, block in enumerate(self.blocks):
            extend = None if cache is None else partial(_extended, cache, layer, known)
            states.append(block(states[-1], injection, attention_mask, extend, weights))
        return [*states[:-1], self.norm(states[-1])]

    def weights(
        self, x: X, injection: Injection, attention_mask: AttentionMask
    ) -> list[Float[Tensor, "B H T T"]]:
        """The attention weights of every block, with bias, rotation and scale."""
        weights: list[Tensor] = []
        self.trace(x, injection, attention_mask, weights=weights)
        return weights


def _extended(cache: Cache, layer: int, known: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """The keys and values of the `known` tokens; a cache of fixed length has room for more."""
    new = torch.arange(known - key.shape[-2], known, device=key.device)
    key, value = cache.update(key, value, layer, {"cache_position": new})
    return key[:, :, :known], value[:, :, :known]


class Block(GradientCheckpointingLayer):
    """x + attention(norm(x)), then x + feedforward(norm(x))."""

    def __init__(self, *, dim: int, num_heads: int, intermediate: int, dropout: float) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(dim)
        self.attention = Attention(dim=dim, num_heads=num_heads)
        self.norm_feedforward = nn.LayerNorm(dim)
        self.feedforward = nn.Sequential(
            nn.Linear(dim, intermediate), nn.GELU(), nn.Linear(intermediate, dim)
        )
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: X,
        injection: Injection,
        attention_mask: AttentionMask,
        extend: Extend = None,
        weights: Weights = None,
    ) -> X:
        mixed = self.attention(self.norm_attention(x), injection, attention_mask, extend, weights)
        x = x + self.dropout(mixed)
        return x + self.dropout(self.feedforward(self.norm_feedforward(x)))
