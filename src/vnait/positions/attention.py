"""Multi-head self-attention that consumes an `Injection` and knows no method."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from vnait.positions import toeplitz
from vnait.positions.injection import Injection, ScoreMod
from vnait.shared.errors import DoesNotFit
from vnait.shared.values import all_true, transformed

X = Float[Tensor, "B T D"]
# True = visible: to all queries, or to each query of a decoder. None: the bias has -inf instead.
AttentionMask = Bool[Tensor, "B T"] | Bool[Tensor, "B TQ TK"] | None
Extend = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None  # new keys and values -> all so far
Weights = list[Tensor] | None  # to be filled with the attention weights (B, H, TQ, TK), block by block


class Attention(nn.Module):
    """Multi-head self-attention: softmax(scale * rotate(q) . rotate(k) / sqrt(K) + bias) v over real tokens.

    A bias of whole distances goes to `toeplitz` on the CPU; a score_mod gets the scores themselves;
    everything else goes to scaled_dot_product_attention. With a stretch, rotate(q) grows by exp(stretch) and
    rotate(k) by exp(-stretch), pair by pair. No dropout of the weights: it made no difference to accuracy on
    training rows of splice and SUBJ, and PyTorch's fused kernels for the CPU have none.
    """

    def __init__(self, *, dim: int, num_heads: int) -> None:
        super().__init__()
        if dim % num_heads:
            raise ValueError(
                f"a width of {dim} can't be shared among {num_heads} heads; take a number that divides it."
            )
        self.num_heads = num_heads
        self.query, self.key, self.value, self.out = (nn.Linear(dim, dim) for _ in range(4))

    def forward(
        self,
        x: X,
        injection: Injection,
        attention_mask: AttentionMask,
        extend: Extend = None,
        weights: Weights = None,
    ) -> X:
        query, key = self.queries_and_keys(x, injection)
        value = self.heads(self.value(x))
        if extend is not None:  # a decoder's cache: the keys and values of the earlier tokens come before
            key, value = extend(key, value)
        # No fused kernel shows its scores, to a score_mod or to a caller who wants the weights.
        if injection.score_mod is not None or weights is not None:
            shares = _scores(query, key, injection, attention_mask).softmax(-1)
            if weights is not None:
                weights.append(shares)
            mixed = shares.to(value.dtype) @ value  # a score_mod may return a wider dtype
        elif (strip := whole_distances(query, injection, attention_mask)) is not None:
            _check_heads(len(strip), self.num_heads)
            mixed = toeplitz.attend(query, key, value, strip.to(query.dtype))
        else:
            mixed = _of_every_pair(query, key, value, injection, attention_mask)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def weights(self, x: X, injection: Injection, attention_mask: AttentionMask) -> Float[Tensor, "B H T T"]:
        """The weights that `forward` averages the values with."""
        return self.scores(x, injection, attention_mask).softmax(-1)

    def scores(self, x: X, injection: Injection, attention_mask: AttentionMask) -> Float[Tensor, "B H T T"]:
        """The attention scores (query, key) with the whole injection; -inf at padding."""
        return _scores(*self.queries_and_keys(x, injection), injection, attention_mask)

    def queries_and_keys(self, x: X, injection: Injection) -> tuple[Tensor, Tensor]:
        """q and k (B, H, T, K), rotated, stretched and scaled."""
        query, key = self.heads(self.query(x)), self.heads(self.key(x))
        _check_width(injection, query.shape[-1])
        if injection.rotary is not None:
            rotary, stretch = injection.rotary, injection.stretch
            turn = cos_and_sin(rotary, stretch, query.dtype)
            query = _rotated(query, *turn)
            key = _rotated(key, *(turn if stretch is None else cos_and_sin(rotary, -stretch, key.dtype)))
        if injection.scale is not None:
            scale = by_head(injection.scale).to(query.dtype)
            _check_heads(scale.shape[1], self.num_heads, "scale")
            query = query * scale
        return query, key

    def heads(self, x: X) -> Float[Tensor, "B H T K"]:
        """(B, T, D) -> (B, H, T, K)."""
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)


def by_head(scale: Float[Tensor, "B T *H"]) -> Float[Tensor, "B H T 1"]:
    """An injection's scale beside queries or scores, with one head for all if it is the same in each."""
    return scale[:, None, :, None] if scale.ndim == 2 else scale.movedim(-1, 1)[..., None]


def rotate(
    x: Float[Tensor, "B H T K"],
    rotary: Float[Tensor, "B T K_half"],
    stretch: Float[Tensor, "B T K_half"] | None = None,
) -> Float[Tensor, "B H T K"]:
    """x with the pair (x_k, x_{k+K/2}) rotated by the angle rotary_k and multiplied by exp(stretch_k).

    Pairs as in the "half" layout, of Llama and GPT-NeoX. Angles and powers at the injection's precision.

    >>> rotate(torch.tensor([[[[1.0, 0.0]]]]), torch.tensor([[[torch.pi]]])).round()
    tensor([[[[-1., -0.]]]])
    """
    return _rotated(x, *cos_and_sin(rotary, stretch, x.dtype))


def cos_and_sin(
    rotary: Float[Tensor, "B T K_half"], stretch: Float[Tensor, "B T K_half"] | None, dtype: torch.dtype
) -> tuple[Float[Tensor, "B 1 T K"], Float[Tensor, "B 1 T K"]]:
    """The cosines and the sines of both halves; those of the first half are negative."""
    cos, sin = rotary.cos(), rotary.sin()
    if stretch is not None:
        cos, sin = cos * stretch.exp(), sin * stretch.exp()
    cos, sin = torch.cat([cos, cos], -1).to(dtype), torch.cat([-sin, sin], -1).to(dtype)
    return cos[:, None], sin[:, None]


def _rotated(
    x: Float[Tensor, "B H T K"], cos: Float[Tensor, "B 1 T K"], sin: Float[Tensor, "B 1 T K"]
) -> Float[Tensor, "B H T K"]:
    # Whole heads in three passes: by halves each row is half as long, and there are seven.
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, -1), sin)


def _check_width(injection: Injection, width: int) -> None:
    """Raise ValueError for a rotation of heads of another width, which might be broadcast."""
    turned = width if injection.rotary is None else 2 * injection.rotary.shape[-1]
    if not torch.compiler.is_compiling() and turned != width:
        raise DoesNotFit(
            f"the method rotates heads of width {turned}, and those of the attention have width {width}; "
            f"build it with width={width}."
        )


def _check_heads(made_for: int, heads: int, slot: str = "bias") -> None:
    if not torch.compiler.is_compiling() and made_for not in (1, heads):
        raise DoesNotFit(
            f"the method has a {slot} of {made_for} heads, and the attention has {heads}; build it with "
            f"num_heads={heads}."
        )


def _scores(
    query: Tensor, key: Tensor, injection: Injection, attention_mask: AttentionMask
) -> Float[Tensor, "B H TQ TK"]:
    """The attention scores of rotated, stretched and scaled queries and keys; -inf at hidden keys."""
    scores = query * query.shape[-1] ** -0.5 @ key.transpose(-1, -2)
    visible = None if attention_mask is None else _by_head(attention_mask)
    if injection.score_mod is not None:
        # A score_mod always gets a mask, so that none needs a case without.
        everything = torch.ones(1, 1, 1, key.shape[-2], dtype=torch.bool, device=key.device)
        seen = everything if visible is None else visible
        scores = _modified(injection.score_mod, query, key, scores, seen)
    bias = injection.dense().bias
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    return scores if visible is None else scores.masked_fill(~visible, -torch.inf)


def _modified(
    score_mod: ScoreMod, query: Tensor, key: Tensor, scores: Tensor, visible: Tensor
) -> Float[Tensor, "B H TQ TK"]:
    new = score_mod(query, key, scores, visible)
    if not torch.compiler.is_compiling() and new.shape != scores.shape:
        raise ValueError(
            f"the score_mod {type(score_mod).__name__} returned the shape {tuple(new.shape)}, for scores of "
            f"the shape {tuple(scores.shape)}; return a score for each of them."
        )
    return new


def _of_every_pair(
    query: Tensor, key: Tensor, value: Tensor, injection: Injection, attention_mask: AttentionMask
) -> Float[Tensor, "B H TQ K"]:
    """scaled_dot_product_attention, which takes one mask: the bias, or which keys are visible."""
    injection, visible = masked_bias(injection.dense(), attention_mask, query.dtype)
    if injection.bias is None:
        mask = None if visible is None else _by_head(visible)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    _check_heads(injection.bias.shape[1], query.shape[1])
    bias = injection.bias.to(query.dtype)
    # The fused kernels have no gradient of a bias, which torch.func finds out too late.
    with sdpa_kernel(SDPBackend.MATH) if transformed() else nullcontext():
        return F.scaled_dot_product_attention(query, key, value, attn_mask=bias)


def whole_distances(
    x: Tensor, injection: Injection, attention_mask: AttentionMask
) -> Float[Tensor, "H distances"] | None:
    """The bias at each distance, if it is all that the layers of x need; None: the bias of every pair."""
    if injection.distance is None or injection.bias is not None or injection.score_mod is not None:
        return None
    if attention_mask is not None:  # hidden keys are -inf, pair by pair
        return None
    # Whether distances are whole is read off their values, for which a GPU would have to wait.
    if x.is_cuda:
        return None
    # A learned strip's gradient is a sum over all pairs, too long for half precision.
    if x.dtype not in (torch.float32, torch.float64):
        return None
    return injection.distance.strip


def needed_mask(attention_mask: AttentionMask) -> AttentionMask:
    """None for a mask that is known to hide nothing."""
    return None if attention_mask is None or all_true(attention_mask) else attention_mask


def masked_bias(
    injection: Injection, attention_mask: AttentionMask, dtype: torch.dtype
) -> tuple[Injection, AttentionMask]:
    """A bias in the layers' dtype, with -inf at hidden keys; without a bias, or with a score_mod, which reads
    the mask, the arguments unchanged.
    """
    if injection.bias is None or attention_mask is None or injection.score_mod is not None:
        return injection, attention_mask
    bias = injection.bias.to(dtype).masked_fill(~_by_head(attention_mask), -torch.inf)
    return replace(injection, bias=bias), None


def _by_head(attention_mask: Tensor) -> Bool[Tensor, "B 1 #TQ TK"]:
    return attention_mask[:, None, None] if attention_mask.ndim == 2 else attention_mask[:, None]
