"""The spatial vector, (B, T, D), which joins the semantic vectors in the input layer; and the features of coordinates that it reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vnait.coordinates import SPAN
from vnait.encodings.shared import At, first_axes, precision
from vnait.injection import Injection


class Spatial(nn.Module):
    """Vnait's spatial vector s_i = MLP(features(S_i)) of L >= 2 layers; added, (B, T, D). Any real coordinate.

    features    "scalar", "fourier", or modules (B, T, C) -> (B, T, size), whose outputs stand side by side
    hidden      widths of the hidden layers (the papers: 2D or 4D)
    start       None: the papers' MLP. A number: a random linear map of the features joins the MLP, so that s starts at about that root
                mean square (1 is the scale of the semantic vectors in `vnait.model`); an MLP alone starts far below it

    Source: the Vnait papers, section 3.4; `docs/faithfulness.md`.

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


class LearnedFourier(nn.Module):
    """cos(W at), sin(W at) of the first `axes` axes, W learned; 2 `pairs` features in [-1, 1]. Any reals.

    W starts normal, of standard deviation 1 / `gamma` radians a unit: places within about gamma of each other look alike, as under a
    Gaussian kernel of that width. The paper's factor 1 / sqrt(2 pairs) is left to the layer that reads the features.
    Source: learnable Fourier features, arXiv 2106.02795, equation 2.

    >>> LearnedFourier(pairs=2, axes=2)(torch.zeros(1, 1, 2)).detach()
    tensor([[[1., 1., 0., 0.]]])
    """

    def __init__(self, *, pairs: int, axes: int = 1, gamma: float = 10.0) -> None:
        super().__init__()
        if pairs < 1 or axes < 1 or not gamma > 0:
            raise ValueError(f"pairs={pairs}, axes={axes}, gamma={gamma}; expected pairs, axes >= 1 and gamma > 0.")
        self.gamma = gamma
        self.weight = nn.Parameter(torch.empty(pairs, axes))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Normal, of standard deviation 1 / `gamma`."""
        nn.init.normal_(self.weight, std=1 / self.gamma)

    @property
    def size(self) -> int:
        """The number of features."""
        return 2 * len(self.weight)

    def forward(self, at: At) -> Float[Tensor, "B T F"]:
        # In float64, which neither autocast nor TF32 rounds.
        angle = first_axes(self, at, self.weight.shape[1]).double() @ self.weight.double().T
        return torch.cat([angle.cos(), angle.sin()], -1).to(precision(self.weight.dtype))

    def extra_repr(self) -> str:
        return f"pairs={len(self.weight)}, axes={self.weight.shape[1]}, gamma={self.gamma:g}"


class Anchors(nn.Module):
    """1 at the k-th token from an end, k = 0 ... count - 1, and 0 elsewhere: max(0, 1 - |a - k|) of the distances a from the ends.

    count   tokens at either end that are told apart, one by one; features in [0, 1], `count` an end
    ends    2: from start and end, axes 1 and 2 of `Ends`. 1: from the start alone, axis 1 of `Start`, for decoders

    Linear between whole distances, so that gradients reach learned ones. Without a longest length: far from the ends they say nothing.
    `count` must be small beside the texts trained on: where they tell all places, nothing else is learned for longer texts. Features
    that fade, exp(-a / tau), could not tell the fifth word from the sixth. Source: this project; `studies/LOG.md`.

    >>> Anchors(count=3)(torch.tensor([[[50.0, 0.0, 1.5]]]))
    tensor([[[1.0000, 0.0000, 0.0000, 0.0000, 0.5000, 0.5000]]])
    """

    def __init__(self, *, count: int = 8, ends: Literal[1, 2] = 2) -> None:
        super().__init__()
        if ends not in (1, 2):
            raise ValueError(f"ends={ends}; a text has 2, and 1 is the start alone.")
        if count < 1:
            raise ValueError(f"count={count}; an end has at least 1 token to tell.")
        self.count, self.ends = count, ends

    @property
    def size(self) -> int:
        """The number of features."""
        return self.ends * self.count

    def forward(self, at: At) -> Float[Tensor, "B T F"]:
        if at.shape[-1] <= self.ends:
            raise ValueError(
                f"Anchors read {'axes 1 and 2' if self.ends == 2 else 'axis 1'}, given coordinates of {at.shape[-1]}; wrap them: "
                f"{'Ends(Span(...))' if self.ends == 2 else 'Start(Running(...))'}."
            )
        places = torch.arange(self.count, dtype=at.dtype, device=at.device)
        return (1 - (at[..., 1 : 1 + self.ends, None] - places).abs()).clamp(min=0).flatten(-2)

    def extra_repr(self) -> str:
        return f"count={self.count}, ends={self.ends}"


class Centre(nn.Module):
    """tanh(m / tau) and exp(-|m| / tau) of the signed distance m from the middle of the text, in tokens; 2 features a tau, in [-1, 1].

    m = (a - b) / 2, of the distances a, b from either end (axes 1 and 2 of `Ends`): what the share of the text, S = 50, can't tell to
    the token in a long text. Far from the middle they say only which half. Source: the studies of this project.

    >>> Centre(taus=(1.0,))(torch.tensor([[[50.0, 2.0, 2.0]]]))
    tensor([[[0., 1.]]])
    """

    def __init__(self, *, taus: Sequence[float] = (1, 2, 4, 8)) -> None:
        super().__init__()
        self.taus = tuple(taus)

    @property
    def size(self) -> int:
        """The number of features."""
        return 2 * len(self.taus)

    def forward(self, at: At) -> Float[Tensor, "B T F"]:
        if at.shape[-1] < 3:
            raise ValueError(
                f"Centre reads axes 1 and 2, given coordinates of {at.shape[-1]}; wrap them: Ends(Span(...))."
            )
        taus = torch.tensor(self.taus, dtype=at.dtype, device=at.device)
        middle = (at[..., 1:2] - at[..., 2:3]) / 2
        return torch.cat([(middle / taus).tanh(), (-middle.abs() / taus).exp()], -1)

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
