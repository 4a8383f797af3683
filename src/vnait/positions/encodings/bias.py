"""Biases by formulas of distances, (B, H, T, T), indexed [query, key] and added to the attention scores.

The distance of a query from a key is d = at_query - at_key: positive if the key comes first. Any real
coordinates, both directions. Distances have the coordinates' precision; the bias has the parameters', or
without parameters the coordinates'; neither is ever half. No bias is infinite: the mask hides keys. An
injection has the formula, and `dense` computes it: a backbone may do with less than all pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from vnait.positions.encodings.shared import At, checked_heads, line_of
from vnait.positions.injection import DistanceBias, Injection, PairBias
from vnait.shared.errors import one_of
from vnait.shared.values import constants, full, precision, transformed


class AlibiBias(nn.Module):
    """ALiBi: -m_h |d|, with a slope m_h per head; bias, (B, H, T, T).

    Before the query it is the paper's -m_h d. Source: arXiv 2108.12409, section 3, and its code.

    >>> AlibiBias(num_heads=4)(torch.tensor([[[0.0], [2.0]]])).dense().bias[0, :, 0, 1]
    tensor([-0.5000, -0.1250, -0.0312, -0.0078])
    """

    relative = True

    def __init__(self, *, num_heads: int) -> None:
        super().__init__()
        self.num_heads = checked_heads(num_heads)

    def forward(self, at: At) -> Injection:
        slopes = constants(alibi_slopes(self.num_heads), precision(at.dtype), at.device)
        return _of_distances(at[..., :1], _linear, slopes)

    def extra_repr(self) -> str:
        return f"num_heads={self.num_heads}"


class Kerple(nn.Module):
    """KERPLE's logarithm: -r1 log(1 + r2 |d|), r1, r2 > 0 learned per head; bias, (B, H, T, T).

    Starts as the paper's code, r1 uniform in (0.01, 2) and r2 in (0.01, 1). At d = 0 the distance's gradient
    is 0. Source: arXiv 2205.09921, and its code, chijames/KERPLE.

    >>> Kerple(num_heads=3)(torch.tensor([[[0.0], [0.5]]])).dense().bias.shape
    torch.Size([1, 3, 2, 2])
    """

    relative = True

    def __init__(self, *, num_heads: int) -> None:
        super().__init__()
        self.raw_r1, self.raw_r2 = (nn.Parameter(torch.empty(checked_heads(num_heads))) for _ in range(2))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform numbers, as in the code of the paper."""
        with torch.no_grad():
            for raw, high in ((self.raw_r1, 2), (self.raw_r2, 1)):
                r = torch.empty_like(raw).uniform_(0.01, high)
                raw.copy_(r + torch.log(-torch.expm1(-r)))  # the inverse of softplus

    def forward(self, at: At) -> Injection:
        r1, r2 = (F.softplus(full(raw)) for raw in (self.raw_r1, self.raw_r2))
        return _of_distances(at[..., :1], _logarithm, r1, r2)


class Fire(nn.Module):
    """FIRE: f(psi(|d|) / psi(max(L, i))), psi(x) = log(c x + 1), f an MLP, 1 to H; bias, (B, H, T, T).

    i is the query's distance from the sentence's first token in memory, which known places must not precede,
    so that a shift of all coordinates changes nothing; the first token gets no gradient from it. c and L > 0
    are learned, from 0.1 and `threshold`. As in the paper only the query normalizes: the ratio is at most 1
    for keys before it, and may be more for keys after it. f does not see the sign of d. Source: arXiv
    2310.04418.

    >>> Fire(num_heads=3)(torch.tensor([[[0.0], [0.5]]])).dense().bias.shape
    torch.Size([1, 3, 2, 2])
    """

    relative = True

    def __init__(self, *, num_heads: int, hidden: int = 32, threshold: float = 512.0) -> None:
        super().__init__()
        if hidden < 1 or not threshold > 0:
            raise ValueError(
                f"hidden={hidden}, threshold={threshold}; expected hidden >= 1 and threshold > 0."
            )
        self.threshold = threshold
        self.log_c, self.log_threshold = (nn.Parameter(torch.empty(1)) for _ in range(2))
        self.mlp = nn.Sequential(_Linear(1, hidden), nn.ReLU(), _Linear(hidden, checked_heads(num_heads)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """c = 0.1 and L = `threshold`; the layers reset themselves."""
        nn.init.constant_(self.log_c, math.log(0.1))
        nn.init.constant_(self.log_threshold, math.log(self.threshold))

    def forward(self, at: At) -> Injection:
        return Injection(distance=PairBias(line=line_of(at[..., :1]), formula=self._of_pairs))

    def _of_pairs(self, query: Tensor, key: Tensor) -> Tensor:
        dtype = precision(self.log_c.dtype)
        distance = (query - key).to(dtype).abs()
        # Detached: left padding repeats the first token's coordinate without its gradient, so with the
        # gradient results would depend on the padding side.
        since_first = (query - key[..., :1].detach()).to(dtype)
        c, threshold = self.log_c.to(dtype).exp(), self.log_threshold.to(dtype).exp()
        ratio = torch.log1p(c * distance) / torch.log1p(c * torch.maximum(threshold, since_first))
        plain = all(type(layer) is _Linear for layer in (self.mlp[0], self.mlp[2]))  # not LoRA's, say
        if torch.compiler.is_compiling() or transformed() or not plain:
            # Contiguous: PyTorch's fused attention takes no bias whose keys are apart in memory.
            return self.mlp(ratio[:, 0, ..., None]).movedim(-1, 1).contiguous()
        return self._by_pieces(ratio)

    def _by_pieces(self, ratio: Float[Tensor, "B 1 TQ TK"]) -> Float[Tensor, "B H TQ TK"]:
        """f(r) = slope_p r + offset_p, p the piece that the ratio r is in.

        f(r) = sum_u out_u ReLU(weight_u r + bias_u) + rest is linear between the edges -bias_u / weight_u,
        where a hidden unit switches. So a pair needs one product per head, and not one per unit.
        """
        first, last = (cast(nn.Linear, self.mlp[layer]) for layer in (0, 2))
        weight, bias, out, rest = (
            part.to(ratio.dtype) for part in (first.weight[:, 0], first.bias, last.weight, last.bias)
        )
        # Detached: f has the same value on both sides of an edge, so moving the edge changes nothing.
        edge = torch.where(weight == 0, torch.inf, -bias / weight).detach()
        edges = edge.sort().values
        # Piece p is past p edges. Past its edge a unit is on if its weight is positive, and before it if
        # negative; without a weight it never switches.
        pieces = torch.arange(len(edges) + 1, device=ratio.device)[:, None]
        past = torch.bucketize(edge, edges) < pieces  # (pieces, units)
        on = torch.where(weight == 0, bias > 0, past == (weight > 0))
        slope, offset = ((out[:, None] * (part * on)).sum(-1) for part in (weight, bias))  # (heads, pieces)
        offset = offset + rest[:, None]
        piece = torch.bucketize(ratio.detach(), edges)
        # The tables are repeated for each row of queries, so that their gradients are summed row by row: more
        # exactly, and faster, than over all pairs at once.
        batch, _, queries, _ = ratio.shape
        rows = (batch, len(out), queries, -1)
        slope, offset = (
            table[:, None].expand(rows).gather(-1, piece.expand(rows)) for table in (slope, offset)
        )
        return torch.addcmul(offset, slope, ratio)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold:g}"


class CableBias(nn.Module):
    """CABLE: -|S_i - S_j| on learned running coordinates: ALiBi with gaps from the words; bias, (B, H, T, T).

    form    "shared"  all heads read axis 0, with a learned positive slope per head, from ALiBi's slopes
            "heads"   head h reads axis h, as in the paper, and nothing is learned here; as many axes as heads
    free    with "heads": so many heads, the last ones, have neither an axis nor a position, as half of those
            of NAPE (arXiv 2506.16640)

    The paper's S sums softplus(W x + b), with a column of W per head; `Running(source="content", ...)` gives
    one axis, for "shared". A forget gate f = sigmoid(z), as in the Forgetting Transformer (arXiv 2503.02130),
    is the same function, since -log f = softplus(-z); it reads the states of its layer.

    Source: arXiv 2503.08067, and its code, axiomlab/Cable, which is causal; the absolute value for keys after
    the query is ours.

    >>> cable = CableBias(num_heads=2, form="heads")
    >>> cable(torch.tensor([[[1.0, 1.0], [2.0, 4.0]]])).dense().bias[0, :, 1, 0]
    tensor([-1., -3.])
    """

    relative = True

    def __init__(self, *, num_heads: int, form: Literal["shared", "heads"] = "shared", free: int = 0) -> None:
        super().__init__()
        one_of("form", form, ("shared", "heads"))
        self.num_heads, self.form, self.free = checked_heads(num_heads), form, free
        if not 0 <= free < num_heads or (free and form == "shared"):
            raise ValueError(
                f'free={free} of {num_heads} heads, form={form!r}; take form="heads", and fewer free heads '
                "than heads."
            )
        self.log_slope = nn.Parameter(torch.empty(num_heads)) if form == "shared" else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """ALiBi's slopes, if they are learned."""
        if self.log_slope is not None:
            with torch.no_grad():
                self.log_slope.copy_(torch.tensor(alibi_slopes(self.num_heads)).log())

    def forward(self, at: At) -> Injection:
        if self.log_slope is not None:
            return _of_distances(at[..., :1], _linear, full(self.log_slope).exp())
        if at.shape[-1] != self.num_heads - self.free:
            raise ValueError(
                f'form="heads" reads one axis per head: {at.shape[-1]} axes for '
                f"{self.num_heads - self.free} heads; take coordinates with an axis per head, or "
                'form="shared".'
            )
        return _of_distances(F.pad(at, (0, self.free)), _absolute)

    def extra_repr(self) -> str:
        free = f", free={self.free}" if self.free else ""
        return f"num_heads={self.num_heads}, form={self.form!r}{free}"


class _Linear(nn.Linear):
    """A linear map at its input's precision: half precision would merge neighbouring distances."""

    def forward(self, input: Tensor) -> Tensor:
        with torch.autocast(input.device.type, enabled=False):
            return F.linear(input, self.weight.to(input.dtype), self.bias.to(input.dtype))


def alibi_slopes(num_heads: int) -> list[float]:
    """ALiBi's slopes: 2^(-8/H), 2^(-16/H), ..., 2^-8.

    If H is not a power of two, those of the power below and every other one of the power above.

    >>> alibi_slopes(6)
    [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]
    """
    below = 2 ** (num_heads.bit_length() - 1)
    slopes = [2.0 ** (-8 * (head + 1) / below) for head in range(below)]
    return slopes if below == num_heads else slopes + alibi_slopes(2 * below)[::2][: num_heads - below]


def _of_distances(
    places: Float[Tensor, "B T A"], formula: Callable[..., Tensor], *heads: Float[Tensor, " H"]
) -> Injection:
    line = line_of(places)
    dtype = heads[0].dtype if heads else line.dtype
    return Injection(distance=DistanceBias(line=line, formula=formula, heads=heads, dtype=dtype))


def _linear(distance: Tensor, slope: Tensor) -> Tensor:
    return -slope * distance.abs()


def _absolute(distance: Tensor) -> Tensor:
    return -distance.abs()


def _logarithm(distance: Tensor, r1: Tensor, r2: Tensor) -> Tensor:
    return -r1 * torch.log1p(r2 * distance.abs())
