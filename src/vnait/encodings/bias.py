"""Encodings that bias: (B, H, T, T), indexed [query, key] and added to the attention scores, from distances between coordinates.

The distance of a query from a key is d = at_query - at_key (axis 0 unless said): positive where the key comes first. Any real
coordinates, both directions unless said. Distances are taken at the coordinates' precision; the bias is at the parameters', or at
the coordinates' where nothing is learned; neither ever in half. No bias is infinite: hiding a key is the mask's.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from vnait.injection import Injection

At = Float[Tensor, "B T C"]
Bias = Float[Tensor, "B H T T"]


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

    def __init__(self, *, num_heads: int, form: Literal["symmetric", "causal", "asymmetric"] = "symmetric") -> None:
        super().__init__()
        _one_of("form", form, ("symmetric", "causal", "asymmetric"))
        self.num_heads, self.form = _checked_heads(num_heads), form
        self.sides = nn.Parameter(torch.empty(2, num_heads)) if form == "asymmetric" else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The issue's draw, where the slopes are learned."""
        if self.sides is not None:
            nn.init.normal_(self.sides, mean=-2.0, std=1.0)

    def forward(self, at: At) -> Injection:
        if self.sides is not None:
            distance = _distances(at[..., :1], self.sides.dtype)
            left, right = (_a_head(side, distance).sigmoid() for side in self.sides)
            return Injection(bias=-(left * distance.relu() + right * (-distance).relu()))
        distance = _distances(at[..., :1], at.dtype)
        slope = _a_head(torch.tensor(alibi_slopes(self.num_heads), dtype=torch.float64, device=at.device), distance)
        return Injection(bias=-slope * (distance if self.form == "causal" else distance.abs()))

    def extra_repr(self) -> str:
        return f"num_heads={self.num_heads}, form={self.form!r}"


class Buckets(nn.Module):
    """T5's learned table: one number a head for each bucket of distances, wider buckets further away; bias, (B, H, T, T).

    An integer distance has T5's bucket. Between two integers the bias is linear, so that gradients reach the coordinates. Half of
    the buckets hold one distance each, half grow up to `max_distance`; past it all is one bucket. `bidirectional` spends one half
    on keys after the query (an even `num_buckets`); without it they share the bucket of distance 0, and the model has to hide them.

    Normal rows of root mean square `start`; at 0, it says nothing at first. Source: T5, arXiv 1910.10683, section 2.1, and its code.

    >>> Buckets(num_heads=4).bucket(torch.tensor([0, -1, -7, -90, -91, 1])).tolist()
    [0, 1, 7, 14, 15, 17]
    """

    def __init__(
        self,
        *,
        num_heads: int,
        num_buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
        start: float = 0.0,
    ) -> None:
        super().__init__()
        directions = 2 if bidirectional else 1
        exact = num_buckets // directions // 2
        if num_buckets % directions or not 1 <= exact < max_distance:
            raise ValueError(
                f"num_buckets={num_buckets}, max_distance={max_distance}, bidirectional={bidirectional}; expected 2 buckets a "
                "direction or more, as many for either, and a max_distance above half of a direction's buckets."
            )
        self.num_buckets, self.max_distance, self.bidirectional = num_buckets, max_distance, bidirectional
        self.start = start
        self.weight = nn.Parameter(torch.empty(num_buckets, _checked_heads(num_heads)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Normal, of root mean square `start`."""
        nn.init.normal_(self.weight, std=self.start)

    def forward(self, at: At) -> Injection:
        offsets = torch.arange(-self.max_distance, self.max_distance + 1, device=at.device)
        return Injection(bias=_read(self.weight[self.bucket(offsets)], at))

    def bucket(self, offset: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
        """The row of `weight` for an offset, key - query."""
        size = self.num_buckets // 2 if self.bidirectional else self.num_buckets
        far = offset.abs() if self.bidirectional else (-offset).clamp(min=0)
        exact = size // 2
        # In float32, as T5: an offset at a bucket's edge falls where it falls there.
        growth = torch.log(far.clamp(min=1).float() / exact) / math.log(self.max_distance / exact)
        grown = exact + (growth * (size - exact)).long().clamp(max=size - exact - 1)
        return torch.where(far < exact, far, grown) + (offset > 0).long() * (size if self.bidirectional else 0)

    def extra_repr(self) -> str:
        return f"num_buckets={self.num_buckets}, max_distance={self.max_distance}, bidirectional={self.bidirectional}"


class Relative(nn.Module):
    """A learned table over the distances -max_distance ... max_distance, one number a head; bias, (B, H, T, T).

    Further away it is clipped; it is linear between integers. Row `max_distance` + key - query is the pair's. From one less than the
    longest text on, it is the full table. Normal rows of root mean square `start`; at 0, it says nothing at first.
    Source: Shaw et al., arXiv 1803.02155, section 3.2, whose vectors are one number here, as in T5.

    >>> table = Relative(num_heads=1, max_distance=1).requires_grad_(False)
    >>> table.weight[2] = 4.0  # one step ahead
    >>> table(torch.tensor([[[0.0], [0.5], [9.0]]])).bias[0, 0]
    tensor([[0., 2., 4.],
            [0., 0., 4.],
            [0., 0., 0.]])
    """

    def __init__(self, *, num_heads: int, max_distance: int, start: float = 0.0) -> None:
        super().__init__()
        if max_distance < 1:
            raise ValueError(f"max_distance={max_distance}; a table of distances needs at least 1.")
        self.start = start
        self.weight = nn.Parameter(torch.empty(2 * max_distance + 1, _checked_heads(num_heads)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Normal, of root mean square `start`."""
        nn.init.normal_(self.weight, std=self.start)

    def forward(self, at: At) -> Injection:
        return Injection(bias=_read(self.weight, at))


class Kerple(nn.Module):
    """KERPLE: -r1 log(1 + r2 |d|), or -r1 |d|^r2; r1, r2 > 0 are learned, one each a head; bias, (B, H, T, T).

    form    "log" or "power"; the power has r2 <= 2, without which it is no kernel. With r2 < 1 it is steep beside d = 0

    At d = 0 the gradient is finite: 0 for the distance. Starts at the paper's code's draw, r uniform in (0.01, 2) for r1 of "log" and
    r2 of "power", in (0.01, 1) for the others. Source: arXiv 2205.09921, and its code, chijames/KERPLE.

    >>> Kerple(num_heads=3)(torch.tensor([[[0.0], [0.5]]])).bias.shape
    torch.Size([1, 3, 2, 2])
    """

    def __init__(self, *, num_heads: int, form: Literal["log", "power"] = "log") -> None:
        super().__init__()
        _one_of("form", form, ("log", "power"))
        self.form = form
        self.raw_r1, self.raw_r2 = (nn.Parameter(torch.empty(_checked_heads(num_heads))) for _ in range(2))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The paper's code's draw."""
        r1 = torch.empty_like(self.raw_r1).uniform_(0.01, 2 if self.form == "log" else 1)
        r2 = torch.empty_like(self.raw_r2).uniform_(0.01, 1 if self.form == "log" else 2)
        with torch.no_grad():
            self.raw_r1.copy_(_softplus_inverse(r1))
            self.raw_r2.copy_(_softplus_inverse(r2) if self.form == "log" else (r2 / 2).logit())

    def forward(self, at: At) -> Injection:
        distance = _distances(at[..., :1], self.raw_r1.dtype).abs()
        r1, raw = F.softplus(_a_head(self.raw_r1, distance)), _a_head(self.raw_r2, distance)
        if self.form == "log":
            return Injection(bias=-r1 * torch.log1p(F.softplus(raw) * distance))
        some = distance > 0  # |d|^r2 has no gradient at 0 where r2 < 1, and neither has log |d|
        return Injection(bias=-r1 * torch.where(some, torch.where(some, distance, 1) ** (2 * raw.sigmoid()), 0))

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

    def __init__(self, *, num_heads: int, hidden: int = 32, threshold: float = 512.0) -> None:
        super().__init__()
        if hidden < 1 or not threshold > 0:
            raise ValueError(f"hidden={hidden}, threshold={threshold}; expected hidden >= 1 and threshold > 0.")
        self.threshold = threshold
        self.log_c, self.log_threshold = (nn.Parameter(torch.empty(())) for _ in range(2))
        self.mlp = nn.Sequential(_Linear(1, hidden), nn.ReLU(), _Linear(hidden, _checked_heads(num_heads)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """c = 0.1 and L = `threshold`; the layers start themselves."""
        nn.init.constant_(self.log_c, math.log(0.1))
        nn.init.constant_(self.log_threshold, math.log(self.threshold))

    def forward(self, at: At) -> Injection:
        place = at[..., :1]
        distance = _distances(place, self.log_c.dtype)[:, 0].abs()
        # Left padding repeats the first token's coordinate without its gradient: with it, results would depend on the side.
        since_first = (_whole(place) - _whole(place[:, :1]).detach()).to(distance.dtype)
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

    def __init__(self, *, num_heads: int, form: Literal["shared", "heads"] = "shared") -> None:
        super().__init__()
        _one_of("form", form, ("shared", "heads"))
        self.num_heads, self.form = _checked_heads(num_heads), form
        self.log_slope = nn.Parameter(torch.empty(num_heads)) if form == "shared" else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """ALiBi's slopes, where they are learned."""
        if self.log_slope is not None:
            with torch.no_grad():
                self.log_slope.copy_(torch.tensor(alibi_slopes(self.num_heads)).log())

    def forward(self, at: At) -> Injection:
        if self.log_slope is not None:
            distance = _distances(at[..., :1], self.log_slope.dtype).abs()
            return Injection(bias=-_a_head(self.log_slope, distance).exp() * distance)
        if at.shape[-1] != self.num_heads:
            raise ValueError(
                f'form="heads" reads one axis a head: given {at.shape[-1]} axes for {self.num_heads} heads; '
                'take coordinates with an axis a head, or form="shared".'
            )
        return Injection(bias=-_distances(at, at.dtype).abs())

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


def _distances(places: At, dtype: torch.dtype) -> Float[Tensor, "B C T T"]:
    """query - key on each axis, subtracted at the coordinates' precision and then told in `dtype`; neither in half."""
    places = _whole(places).transpose(1, 2).contiguous()  # so that keys lie side by side in the bias
    return (places[..., :, None] - places[..., None, :]).to(torch.promote_types(dtype, torch.float32))


def _whole(tensor: Tensor) -> Tensor:
    """In float32 at least."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def _a_head(values: Float[Tensor, " H"], pairs: Float[Tensor, "B one T T"]) -> Float[Tensor, "H 1 1"]:
    """One number a head, beside pairs and at their precision."""
    return values.to(pairs.dtype)[:, None, None]


def _read(table: Float[Tensor, "R H"], at: At) -> Bias:
    """A table over the offsets -R//2 ... R//2, key - query, read at each pair: linear between its rows, clipped past them."""
    reach = len(table) // 2
    offset = -_distances(at[..., :1], table.dtype)[:, 0].clamp(-reach, reach)
    left = offset.detach().floor().clamp(max=reach - 1)
    row, heads = left.long() + reach, table.to(offset.dtype).T
    return torch.lerp(heads[:, row], heads[:, row + 1], offset - left).transpose(0, 1)


def _softplus_inverse(positive: Tensor) -> Tensor:
    return positive + torch.log(-torch.expm1(-positive))


def _checked_heads(num_heads: int) -> int:
    if num_heads < 1:
        raise ValueError(f"num_heads={num_heads}; a bias needs at least one head.")
    return num_heads


def _one_of(name: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise ValueError(f"{name}={given!r} is not known; take one of {', '.join(known)}.")
