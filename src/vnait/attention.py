"""Attention looked into: what kind of head it is, and what the scores of a block are made of."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vnait.backbone import Attention, Block
from vnait.injection import Injection

KINDS = ("diagonal", "banded", "uniform", "long-range", "mixed")
TERMS = ("content-content", "content-position", "position-content", "position-position")
OTHERS = ("constants", "turn", "bias")


def head_kind(weights: Float[Tensor, "T T"], spread: Float[Tensor, ""] | None = None) -> tuple[str, int]:
    """Of one head's attention (query, key): its kind, and the distance key - query of a band (else 0).

    diagonal, banded   half of it is at one distance, 0 or another
    uniform            its rows have .95 of the largest entropy
    long-range         half is on one column, or three quarters are a quarter of the text away
    mixed              none of these

    spread   the rows' entropy over the largest; None: of these weights. An average of several texts is flatter than its texts are.

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
    """The share of attention at each distance k = key - query, from 1 - T to T - 1: (2T - 1,), of sum 1.

    >>> profile(torch.eye(2))
    tensor([0., 1., 0.])
    """
    return torch.stack([weights.diagonal(k).sum() for k in range(1 - len(weights), len(weights))]) / len(weights)


def entropy(weights: Float[Tensor, "*any T T"]) -> Float[Tensor, "*any T"]:
    """Of each row, in nats: from 0, all on one key, to log T.

    >>> entropy(torch.eye(2))
    tensor([-0., -0.])
    """
    return -torch.special.xlogy(weights, weights).sum(-1)


def four_terms(
    content: Float[Tensor, "*any T D"],
    place: Float[Tensor, "*any T D"],
    query: Float[Tensor, "*maps D K"],
    key: Float[Tensor, "*maps D K"],
) -> Float[Tensor, "4 *out T T"]:
    """The terms of the scores X W_Q (X W_K)^T of X = content + place, in the order of `TERMS`: C C, C P, P C, P P.

    >>> one, two, identity = torch.tensor([[1.0]]), torch.tensor([[2.0]]), torch.eye(1)
    >>> four_terms(one, two, identity, identity).flatten()
    tensor([1., 2., 2., 4.])
    """
    return torch.stack([(one @ query) @ (other @ key).mT for one in (content, place) for other in (content, place)])


def centred(scores: Float[Tensor, "*any T T"]) -> Float[Tensor, "*any T T"]:
    """Scores less their row's mean, which the softmax does not see.

    >>> centred(torch.tensor([[1.0, 3.0], [5.0, 5.0]]))
    tensor([[-1.,  1.],
            [ 0.,  0.]])
    """
    return scores - scores.mean(-1, keepdim=True)


@torch.no_grad()
def score_terms(
    block: Block, content: Float[Tensor, "T D"], place: Float[Tensor, "T D"], injection: Injection
) -> dict[str, Float[Tensor, "H T T"]]:
    """What the scores of a block on one text, X = content + place, are the sum of; each term (H, T, T).

    The four of `TERMS`, both parts divided by the token's norm;  constants: products with the biases of the LayerNorm and of the
    projections;  turn: what rotations and stretches change;  bias: what the injection adds to the scores. A scale is in all but the bias.

    >>> block = Block(dim=4, num_heads=2, intermediate=4, dropout=0.0)
    >>> terms = score_terms(block, torch.randn(3, 4), torch.zeros(3, 4), Injection())
    >>> list(terms)[-3:], terms["content-content"].shape, bool(terms["bias"].any())
    (['constants', 'turn', 'bias'], torch.Size([2, 3, 3]), False)
    """
    attention, norm = block.attention, block.norm_attention
    x = (content + place)[None]
    own, its_place = _folded(norm, content, place)
    (query, one), (key, other) = (_by_head(attention, part, norm.bias) for part in (attention.query, attention.key))
    told = own + its_place
    constants = (told @ query @ other.mT) + (told @ key @ one.mT).mT + one @ other.mT
    plain = replace(injection.dense(), turn=None, stretch=None, bias=None)
    root = query.shape[-1] ** 0.5
    factor = torch.ones(()) if injection.scale is None else injection.scale[0, :, None]
    found = [factor * term / root for term in (*four_terms(own, its_place, query, key), constants)]
    unturned = attention.scores(block.norm_attention(x), plain, None)[0]
    turned = attention.scores(block.norm_attention(x), replace(injection.dense(), bias=None), None)[0]
    bias = injection.dense().bias
    added = torch.zeros_like(turned) if bias is None else bias[0].to(turned.dtype)
    return dict(zip((*TERMS, *OTHERS), (*found, turned - unturned, added), strict=True))


def shares(terms: dict[str, Float[Tensor, "H T T"]]) -> dict[str, Float[Tensor, " H"]]:
    """Each term's sum of squares around its rows' means over that of all of them, a head: of sum 1, or 0 where no row varies.

    >>> shares({"one": torch.tensor([[[3.0, -3.0]]]), "other": torch.tensor([[[1.0, 3.0]]])})
    {'one': tensor([0.9000]), 'other': tensor([0.1000])}
    """
    power = {name: centred(term).square().sum((-2, -1)) for name, term in terms.items()}
    whole = torch.stack(list(power.values())).sum(0)
    return {name: torch.where(whole > 0, own / whole.clamp(min=1e-30), 0) for name, own in power.items()}


def _folded(norm: nn.LayerNorm, content: Tensor, place: Tensor) -> list[Tensor]:
    """The parts of norm(content + place), less its bias: the token's mean and spread are those of the sum."""
    spread = ((content + place).var(-1, correction=0, keepdim=True) + norm.eps).sqrt()
    return [(part - part.mean(-1, keepdim=True)) / spread * norm.weight for part in (content, place)]


def _by_head(attention: Attention, projection: nn.Module, bias: Tensor) -> tuple[Tensor, Tensor]:
    """A projection's weights (H, D, K), and what it gives of the norm's bias (H, 1, K)."""
    linear = cast(nn.Linear, projection)
    weights = linear.weight.unflatten(0, (attention.num_heads, -1)).mT
    return weights, linear(bias).unflatten(0, (attention.num_heads, 1, -1))
