"""The spatial vector, (B, T, D), and the features of coordinates that it reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vnait.positions.coordinates import SPAN
from vnait.positions.encodings.shared import At
from vnait.positions.injection import Injection
from vnait.shared.chunks import map_texts
from vnait.shared.errors import one_of
from vnait.shared.values import constants, transformed


class Spatial(nn.Module):
    """Vnait's spatial vector s_i = MLP(features(S_i)) of L >= 2 layers; added, (B, T, D).

    features    "scalar", "fourier", or modules (B, T, C) -> (B, T, size), concatenated
    hidden      widths of the hidden layers (the papers: 2D or 4D)
    start       None: the papers' MLP, which starts far below the scale of the semantic vectors. A number: a
                random linear map is added, so that s starts at about this root mean square

    Source: the Vnait papers, section 3.4; `docs/faithfulness.md`.

    >>> Spatial(dim=6, features="fourier")(torch.tensor([[[50.0], [100.0]]])).added.shape
    torch.Size([1, 2, 6])
    """

    pointwise = True

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
        if isinstance(features, str):
            one_of("features", features, ("scalar", "fourier"))
            features = [Scalar() if features == "scalar" else Fourier()]
        self.features = nn.ModuleList(features)
        widths = [sum(cast(int, part.size) for part in features), *hidden]
        one_of("activation", activation, ("gelu", "relu"))
        act = nn.GELU if activation == "gelu" else nn.ReLU
        layers = [layer for pair in pairwise(widths) for layer in (nn.Linear(*pair), act())]
        self.mlp = nn.Sequential(*layers, nn.Linear(widths[-1], dim))
        self.direct = None if start is None else _Direct(widths[0], dim, start=start)

    @torch.no_grad()
    def shrink(self, start: float) -> None:
        """Let the random map start at this root mean square, if it now starts at a larger one."""
        if self.direct is not None and start < self.direct.start:
            self.direct.weight.mul_(start / self.direct.start)
            self.direct.start = start

    def forward(self, at: At) -> Injection:
        weight = cast(nn.Linear, self.mlp[0]).weight  # a data-parallel replica has no `parameters()`
        dtype = getattr(
            weight, "dtype", torch.float32
        )  # an int8 layer's weight is a method; it reads float32

        def read(at: Tensor) -> Tensor:
            features = torch.cat([part(at) for part in self.features], -1).to(dtype)
            spatial = cast(Tensor, self.mlp(features))
            if self.direct is None:
                return spatial
            direct = self.direct(features)
            return spatial + direct if transformed() else spatial.add_(direct)

        return Injection(added=map_texts(read, at))


class _Direct(nn.Linear):
    """A random linear map; the squares of the features add up to about half their number."""

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
    """sin and cos of 2 pi S / period, 2 `pairs` features in [-1, 1].

    Log-spaced periods from `longest` to `shortest`; twice the span or more makes the lowest pair unambiguous.

    >>> Fourier(pairs=2)(torch.tensor([[[0.0]]]))
    tensor([[[0., 0., 1., 1.]]])
    """

    def __init__(self, *, pairs: int = 16, longest: float = 2 * SPAN, shortest: float = SPAN / 50) -> None:
        super().__init__()
        if pairs < 2 or not longest > shortest > 0:
            raise ValueError(
                f"pairs={pairs}, longest={longest}, shortest={shortest}; expected pairs >= 2 and "
                "longest > shortest > 0."
            )
        self.pairs, self.longest, self.shortest = pairs, longest, shortest

    @property
    def size(self) -> int:
        return 2 * self.pairs

    def forward(self, at: At) -> Float[Tensor, "B T F"]:
        octave = torch.linspace(0, 1, self.pairs, dtype=at.dtype, device=at.device)
        period = self.longest * (self.shortest / self.longest) ** octave
        angle = 2 * math.pi * at[..., :1] / period
        return torch.cat([angle.sin(), angle.cos()], -1)

    def extra_repr(self) -> str:
        return f"pairs={self.pairs}, longest={self.longest}, shortest={self.shortest}"


class Anchors(nn.Module):
    """max(0, 1 - |a - k|) of the distances a from the ends, k = 0 ... count - 1: 1 at the k-th token.

    count   number of features per end, in [0, 1]
    ends    2: start and end, axes 1 and 2 of `Ends`. 1: the start, axis 1 of `Start`, for decoders

    Linear between integers, so that gradients reach learned distances; 0 far from the ends. `count` must be
    small beside the length of the training texts: features of all places leave nothing to learn for longer
    texts. Fading features, exp(-a / tau), could not distinguish the fifth word from the sixth. Source: this
    project; `studies/findings/2026-11-21-anchors-one-by-one.md`.

    >>> Anchors(count=3)(torch.tensor([[[50.0, 0.0, 1.5]]]))
    tensor([[[1.0000, 0.0000, 0.0000, 0.0000, 0.5000, 0.5000]]])
    """

    def __init__(self, *, count: int = 8, ends: Literal[1, 2] = 2) -> None:
        super().__init__()
        if ends not in (1, 2):
            raise ValueError(f"ends={ends}; take 2, or 1 for the start only.")
        if count < 1:
            raise ValueError(f"count={count}; take at least 1 token per end.")
        self.count, self.ends = count, ends

    @property
    def size(self) -> int:
        return self.ends * self.count

    def forward(self, at: At) -> Float[Tensor, "B T F"]:
        if at.shape[-1] <= self.ends:
            axes, wrapped = (
                ("axes 1 and 2", "Ends(Span(...))") if self.ends == 2 else ("axis 1", "Start(Running(...))")
            )
            raise ValueError(
                f"Anchors read {axes}, and the coordinates have {at.shape[-1]}; wrap them: {wrapped}."
            )
        places = torch.arange(self.count, dtype=at.dtype, device=at.device)
        return (1 - (at[..., 1 : 1 + self.ends, None] - places).abs()).clamp(min=0).flatten(-2)

    def extra_repr(self) -> str:
        return f"count={self.count}, ends={self.ends}"


class Centre(nn.Module):
    """tanh(m / tau) and exp(-|m| / tau), m = (a - b) / 2 tokens from the middle; 2 features per tau.

    In [-1, 1], of the distances a, b from either end (axes 1 and 2 of `Ends`): exact to the token, as S = 50
    is not in a long text. Far from the middle they show only which half it is.
    Source: the studies of this project.

    >>> Centre(taus=(1.0,))(torch.tensor([[[50.0, 2.0, 2.0]]]))
    tensor([[[0., 1.]]])
    """

    def __init__(self, *, taus: Sequence[float] = (1, 2, 4, 8)) -> None:
        super().__init__()
        self.taus = tuple(taus)

    @property
    def size(self) -> int:
        return 2 * len(self.taus)

    def forward(self, at: At) -> Float[Tensor, "B T F"]:
        if at.shape[-1] < 3:
            raise ValueError(
                f"Centre reads axes 1 and 2, and the coordinates have {at.shape[-1]}; wrap them: "
                "Ends(Span(...))."
            )
        taus = constants(self.taus, at.dtype, at.device)
        middle = (at[..., 1:2] - at[..., 2:3]) / 2
        return torch.cat([(middle / taus).tanh(), (-middle.abs() / taus).exp()], -1)

    def extra_repr(self) -> str:
        return f"taus={self.taus}"
