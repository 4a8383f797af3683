"""Rotary encodings: an angle (B, T, K/2) in radians per pair of channels of queries and keys. And layouts.

Angles are computed in float64 and reduced to (-pi, pi], so that float32 has them to 2e-7 at any position
(without, to 4e-3 at 100,000). They are never in half precision.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from vnait.positions.encodings.rotary_scaling import Scaling
from vnait.positions.encodings.shared import At, first_axes
from vnait.positions.injection import Injection
from vnait.shared.values import check, precision


class Rotary(nn.Module):
    """RoPE: angle_k = p / unit * base^(-2k/K), with any real p; rotary, (B, T, K/2).

    width       K, the width of a head, even
    unit        the distance by which the first pair turns by 1 radian; 1 with a scaling
    scaling     for longer texts than trained on

    The attention factor m of yarn and longrope multiplies cos and sin in transformers, so it enters as
    `scale` = m^2, (B, T). Source: arXiv 2104.09864, section 3.2.2.

    >>> Rotary(width=4)(torch.tensor([[[1.0], [2.0]]])).rotary
    tensor([[[1.0000, 0.0100],
             [2.0000, 0.0200]]])
    """

    def __init__(
        self, *, width: int, base: float = 10_000.0, unit: float = 1.0, scaling: Scaling | None = None
    ) -> None:
        super().__init__()
        self.width, self.base, self.scaling = _checked_width(width), _checked_base(base), scaling
        if not 0 < unit < math.inf:
            raise ValueError(f"unit={unit}; it is a distance and must be positive and finite.")
        self.unit = unit
        if scaling is not None:
            if unit != 1:
                raise ValueError(f"unit={unit}; a scaling counts tokens: leave the unit out.")
            scaling.check_fit(width)

    @property
    def causal(self) -> bool:
        """False if the rates depend on the length: then its first tokens' angles change in a longer text."""
        return self.scaling is None or self.scaling.rule not in ("dynamic", "longrope")

    @property
    def relative(self) -> bool:
        """As `causal`: the length is the last token's place."""
        return self.causal

    @property
    def pointwise(self) -> bool:
        return self.causal

    def forward(self, at: At) -> Injection:
        if self.scaling is None:
            rates = _geometric(self.width // 2, self.base, at.device) / self.unit
            return Injection(rotary=_angles(at[..., :1], rates))
        # The pad: a sentence without tokens has a length, too.
        length = F.pad(at[..., 0].detach().double(), (0, 1)).amax(-1) + 1
        rates, factor = self.scaling.rates(self.width, self.base, length)
        rotary = _angles(at[..., :1], rates if rates.ndim == 1 else rates[:, None])
        return Injection(
            rotary=rotary, scale=None if factor == 1 else rotary.new_full(at.shape[:2], factor**2)
        )

    def extra_repr(self) -> str:
        return f"width={self.width}, base={self.base:g}, unit={self.unit:g}, scaling={self.scaling}"


class PartialRotary(nn.Module):
    """p-RoPE: RoPE in the share p of pairs that rotate fastest, and no rotation in the others.

    angle_k = p * base^(-2k/K) for k < int(share * K/2), else 0, with any real p; rotary, (B, T, K/2).

    width       K, the width of a head, even
    share       in (0, 1]

    Pairs that do not rotate compare words at any distance. Source: arXiv 2410.06205, p-RoPE, and its listing.

    >>> PartialRotary(width=8, share=0.5)(torch.tensor([[[2.0]]])).rotary
    tensor([[[2.0000, 0.2000, 0.0000, 0.0000]]])
    """

    relative = pointwise = True

    def __init__(self, *, width: int, share: float, base: float = 10_000.0) -> None:
        super().__init__()
        self.width, self.share, self.base = _checked_width(width), share, _checked_base(base)
        self.rotating = int(share * width / 2)
        if not 1 <= self.rotating <= width // 2:
            raise ValueError(
                f"share={share} rotates {self.rotating} of {width // 2} pairs of channels; give a share, at "
                "most 1, that rotates at least one, or take a greater width."
            )

    def forward(self, at: At) -> Injection:
        pairs = self.width // 2
        rates = _geometric(pairs, self.base, at.device)[: self.rotating]
        return Injection(rotary=_angles(at[..., :1], F.pad(rates, (0, pairs - self.rotating))))

    def extra_repr(self) -> str:
        return f"width={self.width}, share={self.share:g}, base={self.base:g}"


class Axial(nn.Module):
    """RoPE of a grid: each of the first C = `axes` axes rotates P = K/(2C) pairs; rotary, (B, T, K/2).

    angle_(cP + k) = p_c * base^(-k/P), with any real p_c: axis 0 has the first P pairs. Source: arXiv
    2403.13298, section 3.2 (axial frequency).

    >>> Axial(width=8)(torch.tensor([[[1.0, 2.0]]])).rotary
    tensor([[[1.0000, 0.1000, 2.0000, 0.2000]]])
    """

    relative = pointwise = True

    def __init__(self, *, width: int, axes: int = 2, base: float = 100.0) -> None:
        super().__init__()
        self.width, self.axes, self.base = _checked_axial(width, axes), axes, _checked_base(base)

    def forward(self, at: At) -> Injection:
        rates = _geometric(self.width // (2 * self.axes), self.base, at.device)
        return Injection(rotary=_angles(first_axes(self, at, self.axes)[..., None], rates).flatten(-2))

    def extra_repr(self) -> str:
        return f"width={self.width}, axes={self.axes}, base={self.base:g}"


class MixedRotary(nn.Module):
    """RoPE of a grid with learned directions: angle_k = f_k . (p_1, p_2), any real p; rotary, (B, T, K/2).

    f (K/2, 2) starts as K/4 pairs of perpendicular vectors at random angles, of length base^(-4k/K). So a
    pair of channels may compare along a diagonal, where those of `Axial` each compare rows or columns.
    Source: arXiv 2403.13298, section 3.2 (mixed learnable frequency), which learns f per head; here all heads
    share it.

    >>> MixedRotary(width=8)(torch.tensor([[[1.0, 2.0]]])).rotary.shape
    torch.Size([1, 1, 4])
    """

    relative = pointwise = True

    def __init__(self, *, width: int, base: float = 10.0) -> None:
        super().__init__()
        self.width, self.base = _checked_axial(width, 2), _checked_base(base)
        self.frequencies = nn.Parameter(torch.empty(width // 2, 2))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Perpendicular vectors at random angles."""
        angle = torch.rand(self.width // 4) * math.tau
        angle = torch.cat([angle, angle + math.pi / 2])
        length = _geometric(self.width // 4, self.base, angle.device).repeat(2)
        with torch.no_grad():
            self.frequencies.copy_(length[:, None] * torch.stack([angle.cos(), angle.sin()], -1))

    def forward(self, at: At) -> Injection:
        places = first_axes(self, at, 2)
        return Injection(rotary=_reduced(places.double() @ self.frequencies.double().mT, places.dtype))

    def extra_repr(self) -> str:
        return f"width={self.width}, base={self.base:g}"


class XPos(nn.Module):
    """RoPE with decay: stretch_k = p / scale_base * log zeta_k, zeta_k = (2k/K + 0.4) / 1.4, with any real p.

    rotary and stretch, (B, T, K/2). A pair of channels multiplies a score by zeta_k^((p_i - p_j) /
    scale_base), besides RoPE's cosine: it decays for keys before the query, and grows exponentially for keys
    after it, which the model has to hide.

    The powers are of p itself, so that a prefix keeps its own: the paper's code measures from the middle of
    the batch. In float32 they are exact to 1e-5 up to |p| = 47 scale_base (24,000 at 512), and past it there
    is an error; in float16 they overflow past 8 scale_base. Source: arXiv 2212.10554, algorithm 1.

    >>> XPos(width=4, scale_base=2)(torch.tensor([[[1.0], [2.0]]])).stretch
    tensor([[[-0.6264, -0.2209],
             [-1.2528, -0.4418]]])
    """

    relative = pointwise = True

    def __init__(self, *, width: int, base: float = 10_000.0, scale_base: float = 512.0) -> None:
        super().__init__()
        if not scale_base > 0:
            raise ValueError(
                f"scale_base={scale_base}; give a positive number of positions, such as the training length."
            )
        self.width, self.base, self.scale_base = _checked_width(width), _checked_base(base), scale_base

    def forward(self, at: At) -> Injection:
        place, pairs = at[..., :1], self.width // 2
        rotary = _angles(place, _geometric(pairs, self.base, at.device))
        zeta = (torch.arange(pairs, dtype=torch.float64, device=at.device) / pairs + 0.4) / 1.4
        stretch = (place.double() * zeta.log() / self.scale_base).to(rotary.dtype)
        self._check_reach(place, rotary.dtype)
        return Injection(rotary=rotary, stretch=stretch)

    def _check_reach(self, place: Float[Tensor, "B T one"], dtype: torch.dtype) -> None:
        # Two thirds of the exponents, so that small queries times small powers keep their digits.
        reach = 2 / 3 * math.log(torch.finfo(dtype).max) / -math.log(0.4 / 1.4) * self.scale_base
        check(
            place.abs() <= reach,
            "coordinates are in the reach of xPos with this scale_base",
            lambda *at: (
                f"a coordinate of {float(place.detach()[at]):g} is too far for xPos with "
                f"scale_base={self.scale_base:g} ({reach:,.0f} either way); take a greater scale_base."
            ),
        )

    def extra_repr(self) -> str:
        return f"width={self.width}, base={self.base:g}, scale_base={self.scale_base:g}"


def _angles(places: Tensor, rates: Tensor) -> Tensor:
    """places * rates in (-pi, pi], in the wider of the places' and torch's default dtype, never in half."""
    return _reduced(places.double() * rates, places.dtype)


def _reduced(angle: Tensor, dtype: torch.dtype) -> Tensor:
    angle = angle - (angle.detach() / math.tau).round() * math.tau
    return angle.to(precision(dtype, torch.get_default_dtype()))


def _geometric(pairs: int, base: float, device: torch.device) -> Float[Tensor, " pairs"]:
    """base^(-k/pairs): from 1 radian per position down to nearly 1/base."""
    return base ** (-torch.arange(pairs, dtype=torch.float64, device=device) / pairs)


def _checked_base(base: float) -> float:
    if not (math.isfinite(base) and base > 1):
        raise ValueError(f"base={base} gives no falling frequencies; give a number above 1.")
    return base


def _checked_width(width: int) -> int:
    if width < 2 or width % 2:
        raise ValueError(
            f"a head width of {width} can't be rotated in pairs; take an even width of at least 2."
        )
    return width


def _checked_axial(width: int, axes: int) -> int:
    if axes < 1 or width < 1 or width % (2 * axes):
        raise ValueError(
            f"a head width of {width} has no equal number of pairs for each of {axes} axes; "
            "take a multiple of twice the axes."
        )
    return width
