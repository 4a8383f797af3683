"""Analysis of attention: kinds of heads, and the terms that sum to the scores of a block."""

from dataclasses import replace
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vnait.model.backbone import Block
from vnait.positions.attention import Attention, by_head
from vnait.positions.injection import Injection

HEAD_KINDS = ("diagonal", "banded", "uniform", "long-range", "mixed")
TERMS = ("content-content", "content-position", "position-content", "position-position")
OTHERS = ("constants", "rotary", "bias")


def head_kind(weights: Float[Tensor, "T T"], spread: Float[Tensor, ""] | None = None) -> tuple[str, int]:
    """The kind of a head, from its attention (query, key), and the distance key - query of a band (else 0).

    diagonal, banded   half of the attention is at one distance: 0, or another
    uniform            mean entropy of the rows at least .95 of the maximum, log T
    long-range         half on one key, or three quarters at least T / 4 tokens away
    mixed              none of these

    spread   mean entropy over log T; None: computed from `weights`. Give the texts' own for an average over
             several texts, which is flatter than each of them.

    >>> head_kind(torch.eye(8)), head_kind(torch.full((8, 8), 1 / 8))
    (('diagonal', 0), ('uniform', 0))
    """
    share, distance = profile(weights), torch.arange(1 - len(weights), len(weights))
    best = int(distance[share.argmax()])
    if share.max() >= 0.5:
        return "banded" if best else "diagonal", best
    if spread is None:
        spread = entropy(weights).mean() / torch.tensor(float(len(weights))).log()
    far = weights.mean(0).max() >= 0.5 or share[distance.abs() >= len(weights) / 4].sum() >= 0.75
    return "uniform" if spread >= 0.95 else "long-range" if far else "mixed", 0


def profile(weights: Float[Tensor, "T T"]) -> Float[Tensor, " D"]:
    """The share of attention at each distance key - query, from 1 - T to T - 1: (2T - 1,), of sum 1.

    >>> profile(torch.eye(2))
    tensor([0., 1., 0.])
    """
    distances = range(1 - len(weights), len(weights))
    return torch.stack([weights.diagonal(distance).sum() for distance in distances]) / len(weights)


def entropy(weights: Float[Tensor, "*any T T"]) -> Float[Tensor, "*any T"]:
    """Entropy of each row in nats, from 0 (one key) to log T (uniform).

    >>> entropy(torch.eye(2))
    tensor([0., 0.])
    """
    return torch.special.entr(weights).sum(-1)


def four_terms(
    content: Float[Tensor, "*any T D"],
    position: Float[Tensor, "*any T D"],
    query: Float[Tensor, "*maps D K"],
    key: Float[Tensor, "*maps D K"],
) -> Float[Tensor, "4 *out T T"]:
    """The terms of the scores X W_Q (X W_K)^T of X = content + position, in the order of `TERMS`.

    >>> first, second, identity = torch.tensor([[1.0]]), torch.tensor([[2.0]]), torch.eye(1)
    >>> four_terms(first, second, identity, identity).flatten()
    tensor([1., 2., 2., 4.])
    """
    parts = (content, position)
    return torch.stack([(first @ query) @ (second @ key).mT for first in parts for second in parts])


def centred(scores: Float[Tensor, "*any T T"]) -> Float[Tensor, "*any T T"]:
    """Scores minus the mean of their row, which does not change the softmax.

    >>> centred(torch.tensor([[1.0, 3.0], [5.0, 5.0]]))
    tensor([[-1.,  1.],
            [ 0.,  0.]])
    """
    return scores - scores.mean(-1, keepdim=True)


@torch.no_grad()
def score_terms(
    block: Block, content: Float[Tensor, "T D"], position: Float[Tensor, "T D"], injection: Injection
) -> dict[str, Float[Tensor, "H T T"]]:
    """Terms that sum to the scores of a block on one text, X = content + position; each (H, T, T).

    content-content ... position-position   the four of `TERMS`, both parts divided by the token's norm
    constants   products with the biases of the LayerNorm and of the projections
    rotary      the change by rotations and stretches
    bias        added by the injection, and the change by its score_mod; a scale multiplies all other terms

    >>> block = Block(dim=4, num_heads=2, intermediate=4, dropout=0.0)
    >>> terms = score_terms(block, torch.randn(3, 4), torch.zeros(3, 4), Injection())
    >>> list(terms)[-3:], terms["content-content"].shape, bool(terms["bias"].any())
    (['constants', 'rotary', 'bias'], torch.Size([2, 3, 3]), False)
    """
    attention, norm = block.attention, block.norm_attention
    x = norm((content + position)[None])
    # norm(content + position) less its bias, split: both parts share the mean and spread of the sum.
    spread = ((content + position).var(-1, correction=0, keepdim=True) + norm.eps).sqrt()
    normed_content, normed_position = (
        (part - part.mean(-1, keepdim=True)) / spread * norm.weight for part in (content, position)
    )
    (query, query_bias), (key, key_bias) = (
        _by_head(attention, projection, norm.bias) for projection in (attention.query, attention.key)
    )
    whole = normed_content + normed_position
    constants = whole @ query @ key_bias.mT + (whole @ key @ query_bias.mT).mT + query_bias @ key_bias.mT
    factor = torch.ones(()) if injection.scale is None else by_head(injection.scale)[0]
    products = [
        factor * term / query.shape[-1] ** 0.5
        for term in (*four_terms(normed_content, normed_position, query, key), constants)
    ]
    dense = injection.dense()
    turned = replace(dense, bias=None, score_mod=None)
    plain = attention.scores(x, replace(turned, rotary=None, stretch=None), None)[0]
    rotated = attention.scores(x, turned, None)[0]
    bias = attention.scores(x, dense, None)[0] - rotated
    return dict(zip((*TERMS, *OTHERS), (*products, rotated - plain, bias), strict=True))


def shares(terms: dict[str, Float[Tensor, "H T T"]]) -> dict[str, Float[Tensor, " H"]]:
    """Per head, each term's sum of squares around its rows' means, divided by that of all terms; 0 if no row
    varies.

    >>> shares({"one": torch.tensor([[[3.0, -3.0]]]), "other": torch.tensor([[[1.0, 3.0]]])})
    {'one': tensor([0.9000]), 'other': tensor([0.1000])}
    """
    power = {name: centred(term).square().sum((-2, -1)) for name, term in terms.items()}
    whole = torch.stack(list(power.values())).sum(0)
    return {name: torch.where(whole > 0, part / whole.clamp(min=1e-30), 0) for name, part in power.items()}


def _by_head(attention: Attention, projection: nn.Module, bias: Tensor) -> tuple[Tensor, Tensor]:
    """The weights of a projection (H, D, K), and its image of the norm's bias (H, 1, K)."""
    linear = cast(nn.Linear, projection)
    weights = linear.weight.unflatten(0, (attention.num_heads, -1)).mT
    return weights, linear(bias).unflatten(0, (attention.num_heads, 1, -1))
