"""Encodings composed of others: on another axis, blurred, summed or concatenated; and NoPosition.

With them, a code of one axis has 2-D forms, of D channels:

    separable    Concatenated(Axis(Sinusoid(dim=D // 2), 0), Axis(Sinusoid(dim=D // 2), 1))
    additive     Sum(Axis(Sinusoid(dim=D), 0), Axis(Sinusoid(dim=D), 1)); the same for (x, y) and (y, x)
    rotated      the separable form on coordinates rotated by 45 degrees

They are `causal` or `relative` if all their parts are. Source: this project.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from functools import reduce
from operator import add

import torch
from torch import nn

from vnait.positions.encodings.shared import At, since
from vnait.positions.injection import Injection
from vnait.shared.randomness import generator


class NoPosition(nn.Module):
    """An empty injection: the Transformer sees words without their order.

    >>> NoPosition()(torch.zeros(1, 2, 1)) == Injection()
    True
    """

    relative = pointwise = True

    def forward(self, at: At) -> Injection:
        return Injection()


class _Combined(nn.Module):
    def __init__(self, *encodings: nn.Module) -> None:
        super().__init__()
        if not encodings:
            raise ValueError(f"{type(self).__name__}() has no encodings; give some, or take NoPosition.")
        if wrong := [part for part in encodings if not isinstance(part, nn.Module)]:
            raise TypeError(f"{type(self).__name__} takes encodings one by one, not {wrong[0]!r}.")
        self.encodings = nn.ModuleList(encodings)

    @property
    def causal(self) -> bool:
        return all(getattr(encoding, "causal", True) for encoding in self.encodings)

    @property
    def pointwise(self) -> bool:
        """Whether all parts encode each token by itself."""
        return all(getattr(encoding, "pointwise", False) for encoding in self.encodings)

    @property
    def relative(self) -> bool:
        """Whether shifting all coordinates equally changes no score."""
        return all(getattr(encoding, "relative", False) for encoding in self.encodings)


class Axis(_Combined):
    """An encoding of at[..., axis]: of another axis, or of several in this order.

    >>> Axis(NoPosition(), 1).axis
    (1,)
    """

    def __init__(self, encoding: nn.Module, axis: int | Sequence[int]) -> None:
        super().__init__(encoding)
        self.axis = (axis,) if isinstance(axis, int) else tuple(axis)
        if not self.axis or min(self.axis) < 0:
            raise ValueError(f"axis={axis}; give the number of an axis, from 0, or several of them.")

    def forward(self, at: At) -> Injection:
        if max(self.axis) >= at.shape[-1]:
            raise ValueError(
                f"{type(self.encodings[0]).__name__} reads axis {max(self.axis)}, and the coordinates have "
                f"{at.shape[-1]} (the first is axis 0); take coordinates with more."
            )
        return self.encodings[0](torch.stack([at[..., axis] for axis in self.axis], -1))

    def extra_repr(self) -> str:
        return f"axis={self.axis}"


class Blurred(_Combined):
    """In training, the encoding of at + u, u uniform in (-width, width), drawn for each token and axis.

    Tokens less than `width` apart can't be told apart by it, so that a model learns their order from what
    stands beside them, at any length, and not from the size of a step at the lengths of training.

    width   in the coordinate's unit

    Source: this project, after the local noise of CAPE (arXiv 2106.03143); `studies/findings/`.

    >>> at = torch.tensor([[[50.0], [100.0]]])
    >>> torch.equal(Blurred(NoPosition(), width=3.0).blurred(at), at)
    False
    """

    def __init__(self, encoding: nn.Module, *, width: float) -> None:
        super().__init__(encoding)
        if not 0 < width < math.inf:
            raise ValueError(f"width={width}; it is a distance and must be positive and finite.")
        self.width = width

    def forward(self, at: At) -> Injection:
        return self.encodings[0](self.blurred(at))

    def blurred(self, at: At) -> At:
        """The coordinates that the encoding reads."""
        if not self.training:
            return at
        draws = torch.rand(at.shape, dtype=at.dtype, device=at.device, generator=generator(at.device))
        return at + self.width * (2 * draws - 1)

    def extra_repr(self) -> str:
        return f"width={self.width:g}"


class Sum(_Combined):
    """The injections of several encodings, added slot by slot.

    >>> Sum(NoPosition(), NoPosition())(torch.zeros(1, 2, 1)) == Injection()
    True
    """

    def forward(self, at: At) -> Injection:
        return reduce(add, (encoding(at) for encoding in self.encodings))

    def since(self, at: At, past: int) -> Injection:
        """self(at).since(past), each part by its own means."""
        return reduce(add, (since(encoding, at, past) for encoding in self.encodings))


class Concatenated(_Combined):
    """The added vectors of several encodings side by side: as wide as all of them together.

    >>> from vnait.positions.encodings.codes import Binary
    >>> Concatenated(Binary(dim=3), Binary(dim=2))(torch.ones(1, 1, 1)).added
    tensor([[[1., 0., 0., 1., 0.]]])
    """

    def forward(self, at: At) -> Injection:
        parts = [encoding(at) for encoding in self.encodings]
        for encoding, part in zip(self.encodings, parts, strict=True):
            part = part.dense()
            slots = [slot.name for slot in fields(part) if getattr(part, slot.name) is not None]
            if slots != ["added"]:
                raise ValueError(
                    f"Concatenated takes encodings that add vectors, and {type(encoding).__name__} fills "
                    f"{', '.join(slots) or 'nothing'}; combine it with Sum."
                )
        return Injection(added=torch.cat([part.added for part in parts], -1))
