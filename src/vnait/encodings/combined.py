"""Encodings made of encodings: told by another axis, added up, or side by side. And one that says nothing.

With them, a code of one axis has its 2-D forms, of D channels:

    separable    Concatenated(Axis(Sinusoid(dim=D // 2), 0), Axis(Sinusoid(dim=D // 2), 1))    each axis its own half
    additive     Sum(Axis(Sinusoid(dim=D), 0), Axis(Sinusoid(dim=D), 1))                       (x, y) and (y, x) get the same vector
    rotated      the separable one, on coordinates turned by 45 degrees

They claim a law (`causal`, `relative`) where all their parts do. Source: this project.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import reduce
from operator import add

import torch
from torch import nn

from vnait.encodings.shared import At
from vnait.injection import Injection


class Silent(nn.Module):
    """Says nothing: the Transformer sees words without their order.

    >>> Silent()(torch.zeros(1, 2, 1)) == Injection()
    True
    """

    relative = True

    def forward(self, at: At) -> Injection:
        return Injection()


class _Combined(nn.Module):
    def __init__(self, *encodings: nn.Module) -> None:
        super().__init__()
        if not encodings:
            raise ValueError(f"{type(self).__name__}() has no encodings; give at least one, or take Silent.")
        self.encodings = nn.ModuleList(encodings)

    @property
    def causal(self) -> bool:
        """As its parts."""
        return all(getattr(encoding, "causal", True) for encoding in self.encodings)

    @property
    def relative(self) -> bool:
        """As its parts."""
        return all(getattr(encoding, "relative", False) for encoding in self.encodings)


class Axis(_Combined):
    """What an encoding says of another axis, or of several in the order given: at[..., axis] is all that it sees.

    >>> Axis(Silent(), 1).axis
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
                f"Axis hands axis {max(self.axis)} to {type(self.encodings[0]).__name__}, given coordinates of "
                f"{at.shape[-1]} (the first is axis 0); take coordinates that have it."
            )
        return self.encodings[0](at[..., list(self.axis)])

    def extra_repr(self) -> str:
        return f"axis={self.axis}"


class Sum(_Combined):
    """All that the encodings say, added slot by slot.

    >>> Sum(Silent(), Silent())(torch.zeros(1, 2, 1)) == Injection()
    True
    """

    def forward(self, at: At) -> Injection:
        return reduce(add, (encoding(at) for encoding in self.encodings))


class Concatenated(_Combined):
    """The vectors of encodings that add, side by side: as wide as all of them together.

    >>> from vnait.encodings.codes import Binary
    >>> Concatenated(Binary(dim=3), Binary(dim=2))(torch.ones(1, 1, 1)).added
    tensor([[[1., 0., 0., 1., 0.]]])
    """

    def forward(self, at: At) -> Injection:
        parts = [encoding(at) for encoding in self.encodings]
        for encoding, part in zip(self.encodings, parts, strict=True):
            told = [slot.name for slot in fields(part) if getattr(part, slot.name) is not None]
            if told != ["added"]:
                raise ValueError(
                    f"Concatenated sets added vectors side by side, and {type(encoding).__name__} tells "
                    f"{', '.join(told) or 'nothing'}; put it beside them with Sum."
                )
        return Injection(added=torch.cat([part.added for part in parts], -1))
