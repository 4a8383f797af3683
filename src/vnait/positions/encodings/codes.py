"""Encodings that add a code of the position, (B, T, D), to the semantic vectors."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vnait.positions.encodings.shared import At, first_axes
from vnait.positions.injection import Injection
from vnait.shared.values import precision


class Sinusoid(nn.Module):
    """PE[p, 2k] = sin(w_k p), PE[p, 2k+1] = cos(w_k p), w_k = base^(-2k/D); added, (B, T, D). Any real p.

    learned   w_k = base^(-2k/D) exp(c_k), c learned from 0, (ceil(D/2),)

    Source: arXiv 1706.03762, section 3.5; with learned frequencies, Wang et al., On Position Embeddings in
    BERT, ICLR 2021.

    >>> Sinusoid(dim=4)(torch.tensor([[[1.0]]])).added
    tensor([[[0.8415, 0.5403, 0.0100, 0.9999]]])
    """

    pointwise = True

    def __init__(self, *, dim: int, base: float = 10_000.0, learned: bool = False) -> None:
        super().__init__()
        if not (math.isfinite(base) and base > 0):
            raise ValueError(f"base={base}; expected a finite number above 0.")
        self.dim, self.base = dim, base
        self.change = nn.Parameter(torch.empty((dim + 1) // 2)) if learned else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The frequencies of the plain sinusoid."""
        if self.change is not None:
            nn.init.zeros_(self.change)

    def forward(self, at: At) -> Injection:
        # In float64: past some thousands of positions, float32 angles are wrong in the third digit.
        rate = self.base ** (-torch.arange(0, self.dim, 2, dtype=torch.float64, device=at.device) / self.dim)
        if self.change is not None:
            rate = rate * self.change.double().exp()
        return Injection(added=_waves(at[..., :1].double() * rate)[..., : self.dim].to(_precision(at)))

    def extra_repr(self) -> str:
        learned = ", learned" if self.change is not None else ""
        return f"dim={self.dim}, base={self.base:g}{learned}"


class Binary(nn.Module):
    """Bit k of an integer p, floor(p / 2^k) mod 2, k = 0 ... D-1, linear between integers; added, (B, T, D).

    Any real p; exact for every integer that float64 holds. Negative ones in two's complement, as Python's
    `p >> k & 1`: -1 is 1 in every bit. Source: the studies of this project, A(f).

    >>> Binary(dim=3)(torch.tensor([[[6.0], [6.5], [-1.0]]])).added
    tensor([[[0.0000, 1.0000, 1.0000],
             [0.5000, 1.0000, 1.0000],
             [1.0000, 1.0000, 1.0000]]])
    """

    pointwise = True

    def __init__(self, *, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, at: At) -> Injection:
        place = at[..., :1].double()
        below = place.detach().floor()
        bits = torch.lerp(self._bits(below), self._bits(below + 1), place - below)
        return Injection(added=bits.to(_precision(at)))

    def _bits(self, integer: Tensor) -> Tensor:
        # An integer of float64 has equal bits from 2^1000 on, and float64 has no 2^1024.
        power = torch.arange(self.dim, dtype=torch.float64, device=integer.device).clamp(max=1000)
        return (integer / 2**power).floor().remainder(2)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Linear(nn.Module):
    """s = W at + b over the first `axes` axes, W and b learned; added, (B, T, D). Any reals.

    For a graph's spectrum, or one axis. At the start b is 0 and s has `start` times the root mean square of
    the coordinates: give a small `start` for a span or an index. Source, for spectra: arXiv 2012.09699.

    >>> Linear(dim=6, axes=2)(torch.ones(1, 3, 2)).added.shape
    torch.Size([1, 3, 6])
    """

    pointwise = True

    def __init__(self, *, dim: int, axes: int = 1, start: float = 1.0) -> None:
        super().__init__()
        self.axes, self.start = _checked_axes(axes), start
        self.weight, self.bias = nn.Parameter(torch.empty(dim, axes)), nn.Parameter(torch.empty(dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """b is 0; W is normal, of variance `start`^2 over the number of axes."""
        nn.init.normal_(self.weight, std=self.start / math.sqrt(self.axes))
        nn.init.zeros_(self.bias)

    def forward(self, at: At) -> Injection:
        # In float64, which neither autocast nor TF32 rounds.
        added = F.linear(first_axes(self, at, self.axes).double(), self.weight.double(), self.bias.double())
        return Injection(added=added.to(precision(self.weight.dtype)))

    def extra_repr(self) -> str:
        return f"axes={self.axes}, start={self.start:g}"


class Harmonics(nn.Module):
    """sin(k theta), cos(k theta) for k = 1, 2, ... of `axes` angles in radians; added, (B, T, D).

    Each axis has D / axes adjacent channels: sin theta, cos theta, sin 2 theta, cos 2 theta, ... For `Phase`
    coordinates. Source: the studies of this project, B10.

    >>> Harmonics(dim=4)(torch.tensor([[[torch.pi / 6]]])).added
    tensor([[[0.5000, 0.8660, 0.8660, 0.5000]]])
    """

    pointwise = True

    def __init__(self, *, dim: int, axes: int = 1) -> None:
        super().__init__()
        if dim < 1 or dim % (2 * _checked_axes(axes)):
            raise ValueError(
                f"a width of {dim} has no equal number of sines and cosines for each of {axes} angles; take "
                "a multiple of twice the angles."
            )
        self.dim, self.axes = dim, axes

    def forward(self, at: At) -> Injection:
        angle = first_axes(self, at, self.axes).double()
        k = torch.arange(1, self.dim // (2 * self.axes) + 1, device=at.device)
        return Injection(added=_waves(angle[..., None] * k).flatten(-2).to(_precision(at)))

    def extra_repr(self) -> str:
        return f"dim={self.dim}, axes={self.axes}"


def _waves(angle: Tensor) -> Tensor:
    """Sine and cosine of each angle, side by side."""
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)


def _precision(at: At) -> torch.dtype:
    return precision(at.dtype, torch.get_default_dtype())


def _checked_axes(axes: int) -> int:
    if axes < 1:
        raise ValueError(f"axes={axes}; a code needs at least one axis.")
    return axes
