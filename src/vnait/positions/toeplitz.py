"""Attention with a bias of whole distances, without storing it for every pair of tokens."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

Heads = Float[Tensor, "B H T K"]
Strip = Float[Tensor, "H distances"]  # the bias at the distances T - 1, ..., 1 - T
ROWS = 128  # queries at a time in the backward pass


def attend(query: Heads, key: Heads, value: Heads, strip: Strip) -> Heads:
    """scaled_dot_product_attention with the bias strip[:, T - 1 - (i - j)] of query i and key j.

    From the last query to the first, the biases of the next query begin one number later: a view of the
    strip, of strides 1 and 1. PyTorch's fused kernels have no gradient of a bias, so a learned one has a
    backward pass of its own, which holds `ROWS` x T scores at a time.

    >>> same = torch.zeros(1, 1, 2, 1)
    >>> attend(same, same, torch.tensor([[[[1.0], [3.0]]]]), torch.tensor([[-9.0, 0.0, -9.0]])).round()
    tensor([[[[1.],
              [3.]]]])
    """
    if torch.is_grad_enabled() and strip.requires_grad:
        return _Learned.apply(query, key, value, strip.expand(query.shape[1], -1))
    return _fused(query, key, value, strip)


def _fused(query: Heads, key: Heads, value: Heads, strip: Strip) -> Heads:
    return F.scaled_dot_product_attention(query.flip(-2), key, value, attn_mask=_pairs(strip)).flip(-2)


def _pairs(strip: Strip) -> Float[Tensor, "1 H T T"]:
    """The bias, the last query first."""
    strip = strip.contiguous()
    heads, distances = strip.shape
    tokens = (distances + 1) // 2
    return strip.as_strided((1, heads, tokens, tokens), (0, distances, 1, 1))


class _Learned(torch.autograd.Function):
    """`_fused`, with the strip's gradient."""

    @staticmethod
    def forward(ctx: Any, query: Heads, key: Heads, value: Heads, strip: Strip) -> Heads:
        out = _fused(query, key, value, strip.detach())  # else not by a fused kernel
        ctx.save_for_backward(query, key, value, strip, out)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Heads) -> tuple[Heads | None, ...]:
        query, key, value, strip, out = ctx.saved_tensors
        if torch.is_grad_enabled():  # a gradient of this gradient will be asked for: every pair is stored
            parts = (query, key, value, strip)
            wanted = [part for part, needed in zip(parts, ctx.needs_input_grad, strict=True) if needed]
            whole = _fused(*parts)
            gradients = iter(torch.autograd.grad(whole, wanted, gradient, create_graph=True))
            return tuple(next(gradients) if needed else None for needed in ctx.needs_input_grad)
        scale, bias = query.shape[-1] ** -0.5, _pairs(strip)
        of_query, of_key, of_value = (torch.zeros_like(part) for part in (query, key, value))
        of_strip = torch.zeros_like(strip)
        # Of a softmax: p (dp - sum p dp), and the sum is the output's product with its gradient.
        mean = (gradient * out).sum(-1, keepdim=True)
        query, gradient, mean, reverse = (part.flip(-2) for part in (query * scale, gradient, mean, of_query))
        for first in range(0, query.shape[-2], ROWS):
            rows = slice(first, first + ROWS)
            share = (query[..., rows, :] @ key.mT).add_(bias[..., rows, :]).softmax(-1)
            of_value += share.mT @ gradient[..., rows, :]
            of_score = (gradient[..., rows, :] @ value.mT).sub_(mean[..., rows, :]).mul_(share)
            reverse[..., rows, :] = of_score @ key
            of_key += of_score.mT @ query[..., rows, :]
            sums = _skewed(of_score.sum(0))
            of_strip[:, first : first + sums.shape[-1]] += sums
        return reverse.flip(-2) * scale, of_key, of_value, of_strip


def _skewed(scores: Float[Tensor, "H R T"]) -> Float[Tensor, "H distances"]:
    """The sums of scores[:, i, j] over equal i + j.

    >>> _skewed(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
    tensor([[1., 5., 4.]])
    """
    heads, rows, tokens = scores.shape
    # Rows of R + T numbers, read as rows of R + T - 1: each begins one number later than the one before.
    wide = F.pad(scores, (0, rows)).flatten(1)[:, : rows * (rows + tokens - 1)]
    return wide.view(heads, rows, rows + tokens - 1).sum(1)
