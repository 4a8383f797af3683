"""Encodings that add: vectors (B, T, D) that join the semantic vectors in the input layer. And one that says nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vnait.coordinates import SPAN
from vnait.injection import Injection

At = Float[Tensor, "B T C"]


class Silent(nn.Module):
    """Says nothing: the model sees a bag of words.

    >>> Silent()(torch.zeros(1, 2, 1))
    Injection(added=None, turn=None, bias=None, scale=None)
    """

    def forward(self, at: At) -> Injection:
        return Injection()


class Sinusoid(nn.Module):
    """PE[p, 2i] = sin(p / base^(2i/D)), PE[p, 2i+1] = cos(p / base^(2i/D)); added, (B, T, D). Any real p.

    Angles are computed at the coordinates' precision, never in half precision. Source: arXiv 1706.03762, section 3.5.

    >>> Sinusoid(dim=4)(torch.tensor([[[1.0]]])).added
    tensor([[[0.8415, 0.5403, 0.0100, 0.9999]]])
    """

    def __init__(self, *, dim: int, base: float = 10_000.0) -> None:
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, at: At) -> Injection:
        # In float64: at base^(-2i/D) and positions past some thousands, float32 angles are off in the third digit.
        rate = self.base ** (-torch.arange(0, self.dim, 2, dtype=torch.float64, device=at.device) / self.dim)
        angle = at[..., :1].double() * rate
        waves = torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)[..., : self.dim]
        return Injection(added=waves.to(torch.get_default_dtype()))

    def extra_repr(self) -> str:
        return f"dim={self.dim}, base={self.base:g}"


class Table(nn.Module):
    """A learned table of `max_length` vectors, read at p and linear between rows; added, (B, T, D). p in [0, max_length - 1].

    Rows start at a root mean square of `start`, the scale of the semantic vectors in `vnait.model`. Source: BERT, arXiv 1810.04805.

    >>> Table(dim=4, max_length=8)(torch.tensor([[[0.0], [1.0]]])).added.shape
    torch.Size([1, 2, 4])
    """

    def __init__(self, *, dim: int, max_length: int, start: float = 1.0) -> None:
        super().__init__()
        self.max_length, self.start = max_length, start
        self.weight = nn.Parameter(torch.empty(max_length, dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Normal rows of root mean square `start`."""
        nn.init.normal_(self.weight, std=self.start)

    def forward(self, at: At) -> Injection:
        place = at[..., 0]
        if not torch.compiler.is_compiling() and float(place.detach().max()) > self.max_length - 1:
            raise ValueError(
                f"a coordinate of {float(place.detach().max()):g} is past the learned table's max_length={self.max_length} "
                f"(positions 0 to {self.max_length - 1}); cut the text, or take a method without a table."
            )
        left = place.detach().floor().long().clamp(0, max(self.max_length - 2, 0))
        right = (left + 1).clamp(max=self.max_length - 1)
        part = (place - left).to(self.weight.dtype)[..., None]
        return Injection(added=torch.lerp(self.weight[left], self.weight[right], part))

    def extra_repr(self) -> str:
        return f"max_length={self.max_length}"


class Spatial(nn.Module):
    """Vnait's spatial vector s_i = MLP(features(S_i)) of L >= 2 layers; added, (B, T, D). Any real coordinate.

    features    "scalar", "fourier", or modules (B, T, C) -> (B, T, size), whose outputs stand side by side
    hidden      widths of the hidden layers (the papers: 2D or 4D)
    start       None: the papers' MLP. A number: a random linear map of the features joins the MLP, so that s starts at about that root
                mean square (1 is the scale of the semantic vectors in `vnait.model`); an MLP alone starts far below it

    Source: the Vnait papers, section 3.4; SPEC of this project, section 4.

    >>> Spatial(dim=6, features="fourier")(torch.tensor([[[50.0], [100.0]]])).added.shape
    torch.Size([1, 2, 6])
    """

    def __init__(
        self,
        *,
        dim: int,
        features: Literal["scalar", "fourier"] | Sequence[nn.Module] = "fourier",
        hidden: Sequence[int] = (64,),
        activation: Literal["gelu", "relu"] = "gelu",
        start: float | None = None,
    ) -> None:
        super().__init__()
        if not hidden:
            raise ValueError("hidden=() leaves one linear layer; a spatial MLP needs at least two layers.")
        parts = _features(features)
        self.features = nn.ModuleList(parts)
        widths = [sum(cast(int, part.size) for part in parts), *hidden]
        act = _activation(activation)
        layers = [layer for pair in pairwise(widths) for layer in (nn.Linear(*pair), act())]
        self.mlp = nn.Sequential(*layers, nn.Linear(widths[-1], dim))
        self.direct = None if start is None else _Direct(widths[0], dim, start=start)

    def forward(self, at: At) -> Injection:
        features = torch.cat([part(at) for part in self.features], -1).to(next(self.mlp.parameters()).dtype)
        spatial = self.mlp(features)
        return Injection(added=spatial if self.direct is None else spatial + self.direct(features))


class _Direct(nn.Linear):
    """The random linear map beside the MLP; its features' squares add up to about half their number."""

    def __init__(self, size: int, dim: int, *, start: float) -> None:
        self.start = start
        super().__init__(size, dim, bias=False)

    def reset_parameters(self) -> None:
        """Normal, so that the output's root mean square is `start`."""
        nn.init.normal_(self.weight, std=self.start / math.sqrt(self.in_features / 2))


class Scalar(nn.Module):
    """S itself, standardized over a uniform span: (S - 50) / 28.9. One feature.

    >>> Scalar()(torch.tensor([[[50.0]]]))
    tensor([[[0.]]])
    """

    size = 1

    def forward(self, at: At) -> Float[Tensor, "B T 1"]:
        return (at[..., :1] - SPAN / 2) / (SPAN / math.sqrt(12))


class Fourier(nn.Module):
    """sin and cos of 2 pi S / period at `pairs` log-spaced periods from `longest` to `shortest`; 2 `pairs` features in [-1, 1].

    A period of twice the span or more makes the lowest pair unambiguous.

    >>> Fourier(pairs=2)(torch.tensor([[[0.0]]]))
    tensor([[[0., 0., 1., 1.]]])
    """

    def __init__(self, *, pairs: int = 16, longest: float = 2 * SPAN, shortest: float = SPAN / 50) -> None:
        super().__init__()
        if pairs < 2 or not longest > shortest > 0:
            raise ValueError(
                f"pairs={pairs}, longest={longest}, shortest={shortest}; expected pairs >= 2, longest > shortest > 0."
            )
        self.pairs, self.longest, self.shortest = pairs, longest, shortest

    @property
    def size(self) -> int:
        """The number of features."""
        return 2 * self.pairs

    def forward(self, at: At) -> Float[Tensor, "B T F"]:
        octave = torch.linspace(0, 1, self.pairs, dtype=at.dtype, device=at.device)
        period = self.longest * (self.shortest / self.longest) ** octave
        angle = 2 * math.pi * at[..., :1] / period
        return torch.cat([angle.sin(), angle.cos()], -1)

    def extra_repr(self) -> str:
        return f"pairs={self.pairs}, longest={self.longest}, shortest={self.shortest}"


class Anchors(nn.Module):
    """exp(-a / tau) and exp(-b / tau) of the distances a, b from either end (axes 1 and 2, from `Ends`); 2 features a tau, in [0, 1].

    Bounded and without a longest length: far from both ends they say nothing. Source: RECIPE of this project.

    >>> Anchors(taus=(1.0,))(torch.tensor([[[50.0, 0.0, 1.0]]]))
    tensor([[[1.0000, 0.3679]]])
    """

    def __init__(self, *, taus: Sequence[float] = (1, 2, 4, 8, 16, 32)) -> None:
        super().__init__()
        self.taus = tuple(taus)

    @property
    def size(self) -> int:
        """The number of features."""
        return 2 * len(self.taus)

    def forward(self, at: At) -> Float[Tensor, "B T F"]:
        if at.shape[-1] < 3:
            raise ValueError(f"Anchors read axes 1 and 2, given {at.shape[-1]} axis; wrap the span: Ends(Span(...)).")
        taus = torch.tensor(self.taus, dtype=at.dtype, device=at.device)
        return torch.exp(-at[..., 1:3, None] / taus).flatten(-2)

    def extra_repr(self) -> str:
        return f"taus={self.taus}"


def _features(features: str | Sequence[nn.Module]) -> Sequence[nn.Module]:
    if not isinstance(features, str):
        return features
    if features not in ("scalar", "fourier"):
        raise ValueError(f"features={features!r} is not known; take scalar, fourier, or a list of feature modules.")
    return [Scalar() if features == "scalar" else Fourier()]


def _activation(name: str) -> type[nn.Module]:
    if name not in ("gelu", "relu"):
        raise ValueError(f"activation={name!r} is not known; take gelu or relu.")
    return nn.GELU if name == "gelu" else nn.ReLU
