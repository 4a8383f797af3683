"""Encodings that bias: (B, H, T, T), indexed [query, key] and added to the attention scores, by formulas of distances.

The distance of a query from a key is d = at_query - at_key (axis 0 unless said): positive where the key comes first. Any real
coordinates, both directions unless said. Distances are taken at the coordinates' precision; the bias is at the parameters', or at
the coordinates' where nothing is learned; neither ever in half. No bias is infinite: hiding a key is the mask's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from vnait.encodings.shared import At, checked_heads, distances, precision, whole
from vnait.errors import one_of
from vnait.injection import DistanceBias, Injection


class Slopes(nn.Module):
    """ALiBi: a penalty that grows with the distance, at each head's own slope m_h; bias, (B, H, T, T).

    form    "symmetric"   -m_h |d|, with the paper's slopes; for encoders
            "causal"      -m_h d, the paper's own; a key after the query would gain, so the model has to hide it
            "asymmetric"  -l_h d for keys before the query, -r_h |d| for keys after; l, r in (0, 1) are learned, one each a head

    "asymmetric" is "nonsymmetric with no mask" of issue 5 of ofirpress/attention_with_linear_biases, where sigmoids of
    Normal(-2, 1) are the slopes. Source: arXiv 2108.12409, section 3; for other head counts than 1, 2, 4, ... the paper's code.

    >>> Slopes(num_heads=4)(torch.tensor([[[0.0], [2.0]]])).bias[0, :, 0, 1]
    tensor([-0.5000, -0.1250, -0.0312, -0.0078])
    """

    relative = True

    def __init__(self, *, num_heads: int, form: Literal["symmetric", "causal", "asymmetric"] = "symmetric") -> None:
        super().__init__()
        one_of("form", form, ("symmetric", "causal", "asymmetric"))
        self.num_heads, self.form = checked_heads(num_heads), form
        self.sides = nn.Parameter(torch.empty(2, num_heads)) if form == "asymmetric" else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The issue's draw, where the slopes are learned."""
        if self.sides is not None:
            nn.init.normal_(self.sides, mean=-2.0, std=1.0)

    def forward(self, at: At) -> Injection:
        if self.sides is not None:
            return _told(at[..., :1], _two_sided, *whole(self.sides).sigmoid())
        dtype = precision(at.dtype)
        slopes = torch.tensor(alibi_slopes(self.num_heads), dtype=dtype, device=at.device)
        return _told(at[..., :1], _forward_only if self.form == "causal" else _both_ways, slopes)

    def extra_repr(self) -> str:
        return f"num_heads={self.num_heads}, form={self.form!r}"


class Kerple(nn.Module):
    """KERPLE: -r1 log(1 + r2 |d|), or -r1 |d|^r2; r1, r2 > 0 are learned, one each a head; bias, (B, H, T, T).

    form    "log" or "power"; the power has r2 <= 2, without which it is no kernel. With r2 < 1 it is steep beside d = 0

    At d = 0 the gradient is finite: 0 for the distance. Starts at the paper's code's draw, r uniform in (0.01, 2) for r1 of "log" and
    r2 of "power", in (0.01, 1) for the others. Source: arXiv 2205.09921, and its code, chijames/KERPLE.

    >>> Kerple(num_heads=3)(torch.tensor([[[0.0], [0.5]]])).bias.shape
    torch.Size([1, 3, 2, 2])
    """

    relative = True

    def __init__(self, *, num_heads: int, form: Literal["log", "power"] = "log") -> None:
        super().__init__()
        one_of("form", form, ("log", "power"))
        self.form = form
        self.raw_r1, self.raw_r2 = (nn.Parameter(torch.empty(checked_heads(num_heads))) for _ in range(2))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The paper's code's draw."""
        r1 = torch.empty_like(self.raw_r1).uniform_(0.01, 2 if self.form == "log" else 1)
        r2 = torch.empty_like(self.raw_r2).uniform_(0.01, 1 if self.form == "log" else 2)
        with torch.no_grad():
            self.raw_r1.copy_(_softplus_inverse(r1))
            self.raw_r2.copy_(_softplus_inverse(r2) if self.form == "log" else (r2 / 2).logit())

    def forward(self, at: At) -> Injection:
        r1, raw = F.softplus(whole(self.raw_r1)), whole(self.raw_r2)
        if self.form == "log":
            return _told(at[..., :1], _logarithm, r1, F.softplus(raw))
        return _told(at[..., :1], _power, r1, 2 * raw.sigmoid())

    def extra_repr(self) -> str:
        return f"form={self.form!r}"


class Fire(nn.Module):
    """FIRE: f(psi(|d|) / psi(max(L, i))), psi(x) = log(c x + 1), f an MLP from one number to H; bias, (B, H, T, T).

    i is the query's coordinate measured from the sentence's first token, so the same shift of all coordinates changes nothing; from
    the first token itself, a point of reference, the denominator takes no gradient. c and L > 0 are learned, from 0.1 and `threshold`.
    As in the paper the query alone normalizes: the ratio is at most 1 for keys before it, and may be more for keys after it.
    f does not see the sign of d. Source: arXiv 2310.04418.

    >>> Fire(num_heads=3)(torch.tensor([[[0.0], [0.5]]])).bias.shape
    torch.Size([1, 3, 2, 2])
    """

    relative = True

    def __init__(self, *, num_heads: int, hidden: int = 32, threshold: float = 512.0) -> None:
        super().__init__()
        if hidden < 1 or not threshold > 0:
            raise ValueError(f"hidden={hidden}, threshold={threshold}; expected hidden >= 1 and threshold > 0.")
        self.threshold = threshold
        self.log_c, self.log_threshold = (nn.Parameter(torch.empty(())) for _ in range(2))
        self.mlp = nn.Sequential(_Linear(1, hidden), nn.ReLU(), _Linear(hidden, checked_heads(num_heads)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """c = 0.1 and L = `threshold`; the layers start themselves."""
        nn.init.constant_(self.log_c, math.log(0.1))
        nn.init.constant_(self.log_threshold, math.log(self.threshold))

    def forward(self, at: At) -> Injection:
        place = at[..., :1]
        distance = distances(place, self.log_c.dtype)[:, 0].abs()
        # Left padding repeats the first token's coordinate without its gradient: with it, results would depend on the side.
        since_first = (whole(place) - whole(place[:, :1]).detach()).to(distance.dtype)
        c, threshold = self.log_c.to(distance.dtype).exp(), self.log_threshold.to(distance.dtype).exp()
        ratio = torch.log1p(c * distance) / torch.log1p(c * torch.maximum(threshold, since_first))
        # Contiguous: PyTorch's fused attention takes no bias whose keys lie apart in memory.
        return Injection(bias=self.mlp(ratio[..., None]).movedim(-1, 1).contiguous())

    def extra_repr(self) -> str:
        return f"threshold={self.threshold:g}"


class Decay(nn.Module):
    """CABLE: -|S_i - S_j| on learned running coordinates, which is ALiBi with gaps told by the words; bias, (B, H, T, T).

    form    "shared"  all heads read axis 0, each times its own slope: learned, positive, from ALiBi's slopes
            "heads"   head h reads axis h, as in the paper, and nothing is learned here; as many axes as heads

    The paper's S sums softplus(W x + b), a column of W a head; `Running(source="content", ...)` gives one axis, for "shared".
    Source: arXiv 2503.08067, and its code, axiomlab/Cable; causal there, with the absolute value for keys after the query here.

    >>> Decay(num_heads=2, form="heads")(torch.tensor([[[1.0, 1.0], [2.0, 4.0]]])).bias[0, :, 1, 0]
    tensor([-1., -3.])
    """

    relative = True

    def __init__(self, *, num_heads: int, form: Literal["shared", "heads"] = "shared") -> None:
        super().__init__()
        one_of("form", form, ("shared", "heads"))
        self.num_heads, self.form = checked_heads(num_heads), form
        self.log_slope = nn.Parameter(torch.empty(num_heads)) if form == "shared" else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """ALiBi's slopes, where they are learned."""
        if self.log_slope is not None:
            with torch.no_grad():
                self.log_slope.copy_(torch.tensor(alibi_slopes(self.num_heads)).log())

    def forward(self, at: At) -> Injection:
        if self.log_slope is not None:
            return _told(at[..., :1], _both_ways, whole(self.log_slope).exp())
        if at.shape[-1] != self.num_heads:
            raise ValueError(
                f'form="heads" reads one axis a head: given {at.shape[-1]} axes for {self.num_heads} heads; '
                'take coordinates with an axis a head, or form="shared".'
            )
        return _told(at, _absolute)

    def extra_repr(self) -> str:
        return f"num_heads={self.num_heads}, form={self.form!r}"


class _Linear(nn.Linear):
    """A linear map at its input's precision: in half, neighbouring distances would become one."""

    def forward(self, input: Tensor) -> Tensor:
        with torch.autocast(input.device.type, enabled=False):
            return F.linear(input, self.weight.to(input.dtype), self.bias.to(input.dtype))


def alibi_slopes(num_heads: int) -> list[float]:
    """ALiBi's slopes: 2^(-8/H), 2^(-16/H), ..., 2^-8; for H no power of two, those of the power below and every other of the next.

    >>> alibi_slopes(6)
    [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]
    """
    below = 2 ** (num_heads.bit_length() - 1)
    slopes = [2.0 ** (-8 * (head + 1) / below) for head in range(below)]
    return slopes if below == num_heads else slopes + alibi_slopes(2 * below)[::2][: num_heads - below]


def _told(places: Float[Tensor, "B T A"], formula: Callable[..., Tensor], *heads: Float[Tensor, " H"]) -> Injection:
    """A bias of distances; computed now, but on CUDA, where FlexAttention may never need all of it."""
    line = whole(places).transpose(1, 2).contiguous()  # so that keys lie side by side in the bias
    dtype = heads[0].dtype if heads else line.dtype
    bias = DistanceBias(line=line, formula=formula, heads=heads, dtype=dtype)
    return Injection(distance=bias) if line.is_cuda else Injection(bias=bias.dense())


def _both_ways(distance: Tensor, slope: Tensor) -> Tensor:
    return -slope * distance.abs()


def _forward_only(distance: Tensor, slope: Tensor) -> Tensor:
    return -slope * distance


def _two_sided(distance: Tensor, left: Tensor, right: Tensor) -> Tensor:
    return -(left * distance.relu() + right * (-distance).relu())


def _absolute(distance: Tensor) -> Tensor:
    return -distance.abs()


def _logarithm(distance: Tensor, r1: Tensor, r2: Tensor) -> Tensor:
    return -r1 * torch.log1p(r2 * distance.abs())


def _power(distance: Tensor, r1: Tensor, r2: Tensor) -> Tensor:
    some = distance != 0  # |d|^r2 has no gradient at 0 where r2 < 1, and neither has log |d|
    return -r1 * torch.where(some, torch.where(some, distance.abs(), 1) ** r2, 0)


def _softplus_inverse(positive: Tensor) -> Tensor:
    return positive + torch.log(-torch.expm1(-positive))
