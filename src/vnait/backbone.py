"""A standard Transformer encoder. It knows an `Injection`, and no method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention.flex_attention import flex_attention

from vnait.injection import DistanceBias, Injection

if TYPE_CHECKING:
    from transformers.cache_utils import Cache

X = Float[Tensor, "B T D"]
FLEX_WIDTH = 16  # the narrowest head that FlexAttention's kernel takes
# True = seen: by all queries (B, T), the real tokens; or by each (B, TQ, TK), in a decoder. None: the bias already hides the others.
Keep = Bool[Tensor, "B T"] | Bool[Tensor, "B TQ TK"] | None
Extend = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None  # new keys and values to all so far


class Encoder(nn.Module):
    """Pre-norm Transformer encoder blocks and a last norm: (B, T, D) -> (B, T, D).

    >>> encoder = Encoder(dim=8, num_heads=2, intermediate=16, num_layers=1, dropout=0.0)
    >>> encoder(torch.ones(1, 3, 8), Injection(), torch.ones(1, 3, dtype=torch.bool)).shape
    torch.Size([1, 3, 8])
    """

    def __init__(self, *, dim: int, num_heads: int, intermediate: int, num_layers: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(dim=dim, num_heads=num_heads, intermediate=intermediate, dropout=dropout) for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: X, injection: Injection, keep: Keep) -> X:
        return self.trace(x, injection, keep)[-1]

    def trace(self, x: X, injection: Injection, keep: Keep, cache: Cache | None = None) -> list[X]:
        """The input and the output of every block, the last one normed. With a cache of keys and values, x has the new tokens alone."""
        fused = self._fuses(x, injection) and (keep is None or keep.ndim == 2)
        injection, visible = _told_once(injection if fused else injection.dense(), keep, x.dtype)
        states = [self.dropout(x)]
        for layer, block in enumerate(self.blocks):
            extend = None if cache is None else partial(cache.update, layer_idx=layer)
            states.append(block(states[-1], injection, visible, extend))
        return [*states[:-1], self.norm(states[-1])]

    def weights(self, states: Sequence[X], injection: Injection, keep: Keep) -> list[Float[Tensor, "B H T T"]]:
        """The attention weights of every block on its state of `trace`; bias, rotation and scale are in them."""
        injection, visible = _told_once(injection.dense(), keep, states[0].dtype)
        return [
            cast(Block, block).weights(state, injection, visible)
            for block, state in zip(self.blocks, states, strict=False)
        ]

    def _fuses(self, x: X, injection: Injection) -> bool:
        """Whether FlexAttention can take the bias of distances as it is: it runs on CUDA, and has no narrow heads."""
        attention = cast(Block, self.blocks[0]).attention
        wide = x.shape[-1] // attention.num_heads >= FLEX_WIDTH
        return injection.distance is not None and injection.bias is None and x.is_cuda and wide


class Block(nn.Module):
    """x + attention(norm(x)), then x + feedforward(norm(x))."""

    def __init__(self, *, dim: int, num_heads: int, intermediate: int, dropout: float) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(dim)
        self.attention = Attention(dim=dim, num_heads=num_heads)
        self.norm_feedforward = nn.LayerNorm(dim)
        self.feedforward = nn.Sequential(nn.Linear(dim, intermediate), nn.GELU(), nn.Linear(intermediate, dim))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: X, injection: Injection, keep: Keep, extend: Extend = None) -> X:
        x = x + self.dropout(self.attention(self.norm_attention(x), injection, keep, extend))
        return x + self.dropout(self.feedforward(self.norm_feedforward(x)))

    def weights(self, x: X, injection: Injection, keep: Keep) -> Float[Tensor, "B H T T"]:
        """The attention weights on this block's input."""
        return self.attention.weights(self.norm_attention(x), injection, keep)


class Attention(nn.Module):
    """Multi-head self-attention: softmax(scale * turn(q) . turn(k) / sqrt(K) + bias) v over the real tokens.

    A bias of distances that is still a formula goes to FlexAttention, everything else to scaled_dot_product_attention.
    With a stretch, turn(q) grows by exp(stretch) and turn(k) by exp(-stretch), pair by pair. The weights are not dropped out: it made no
    difference to accuracy on training rows of splice and SUBJ, and PyTorch's fused kernels for the CPU have no dropout.
    """

    def __init__(self, *, dim: int, num_heads: int) -> None:
        super().__init__()
        if dim % num_heads:
            raise ValueError(
                f"a width of {dim} can't be shared among {num_heads} heads; take a number that divides it."
            )
        self.num_heads = num_heads
        self.query, self.key, self.value, self.out = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x: X, injection: Injection, keep: Keep, extend: Extend = None) -> X:
        query, key = self.queries_and_keys(x, injection)
        value = self.heads(self.value(x))
        if extend is not None:
            key, value = extend(key, value)
        if injection.distance is not None:
            mixed = _fused(query, key, value, injection.distance, keep)
        else:
            mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=_mask(injection, keep, query.dtype))
        return self.out(mixed.transpose(1, 2).flatten(2))

    def weights(self, x: X, injection: Injection, keep: Keep) -> Float[Tensor, "B H T T"]:
        """What `forward` averages the values with."""
        return self.scores(x, injection, keep).softmax(-1)

    def scores(self, x: X, injection: Injection, keep: Keep) -> Float[Tensor, "B H T T"]:
        """The attention scores (query, key): all that the injection says is in them, and padding is -inf."""
        query, key = self.queries_and_keys(x, injection)
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        injection = injection.dense()
        if injection.bias is not None:
            scores = scores + injection.bias.to(scores.dtype)
        return scores if keep is None else scores.masked_fill(~_by_head(keep), -torch.inf)

    def queries_and_keys(self, x: X, injection: Injection) -> tuple[Tensor, Tensor]:
        """q and k (B, H, T, K), turned, stretched and scaled."""
        query, key = self.heads(self.query(x)), self.heads(self.key(x))
        if injection.turn is not None:
            stretch = injection.stretch
            query = turned(query, injection.turn, stretch)
            key = turned(key, injection.turn, None if stretch is None else -stretch)
        if injection.scale is not None:
            query = query * injection.scale.to(query.dtype)[:, None, :, None]
        return query, key

    def heads(self, x: X) -> Float[Tensor, "B H T K"]:
        """(B, T, D) -> (B, H, T, K)."""
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)


def turned(
    x: Float[Tensor, "B H T K"],
    turn: Float[Tensor, "B T K_half"],
    stretch: Float[Tensor, "B T K_half"] | None = None,
) -> Float[Tensor, "B H T K"]:
    """x with the pair (x_k, x_{k+K/2}) rotated by the angle turn_k and multiplied by exp(stretch_k).

    Pairs are those of the "half" layout, of Llama and GPT-NeoX. Angles and powers are taken at the injection's precision.

    >>> turned(torch.tensor([[[[1.0, 0.0]]]]), torch.tensor([[[torch.pi]]])).round()
    tensor([[[[-1., -0.]]]])
    """
    one, other = x.chunk(2, -1)
    cos, sin = turn.cos(), turn.sin()
    if stretch is not None:
        cos, sin = cos * stretch.exp(), sin * stretch.exp()
    cos, sin = (part.to(x.dtype)[:, None] for part in (cos, sin))
    return torch.cat([one * cos - other * sin, other * cos + one * sin], -1)


def _fused(query: Tensor, key: Tensor, value: Tensor, bias: DistanceBias, keep: Keep) -> Float[Tensor, "B H T K"]:
    """FlexAttention: the bias is computed pair by pair inside the kernel, and no (T, T) is stored."""

    def score(score: Tensor, row: Tensor, head: Tensor, one: Tensor, other: Tensor) -> Tensor:
        told = score + bias.pair(row, head, one, other)
        return told if keep is None else torch.where(keep[row, other], told, -torch.inf)

    attend = cast(Callable[..., Tensor], _compiled() if query.is_cuda else flex_attention)
    return attend(query, key, value, score_mod=score)


@lru_cache(maxsize=1)
def _compiled() -> Callable[..., Tensor]:
    """Uncompiled, it would store the scores. Another length is no reason to compile again."""
    return torch.compile(flex_attention, dynamic=True)


def _told_once(injection: Injection, keep: Keep, dtype: torch.dtype) -> tuple[Injection, Keep]:
    """What is the same for every layer: a bias in the layers' dtype, with the keys that `keep` hides at -inf."""
    if injection.bias is None or keep is None:
        return injection, keep
    return replace(injection, bias=injection.bias.to(dtype).masked_fill(~_by_head(keep), -torch.inf)), None


def _by_head(keep: Tensor) -> Bool[Tensor, "B 1 #TQ TK"]:
    return keep[:, None, None] if keep.ndim == 2 else keep[:, None]


def _mask(injection: Injection, keep: Keep, dtype: torch.dtype) -> Tensor | None:
    """What PyTorch's attention takes as its mask: what is visible, or a bias with -inf where nothing is."""
    injection, keep = _told_once(injection, keep, dtype)
    if injection.bias is not None:
        return injection.bias.to(dtype)
    return None if keep is None else _by_head(keep)
