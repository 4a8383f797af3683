"""Encodings that add a learned table's entries, (B, T, D), to the semantic vectors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vnait.positions.encodings.shared import At, check_inside, first_axes, neighbours
from vnait.positions.injection import Injection
from vnait.shared.values import full

MARGIN = 8.0  # jitter and soft bounds may lead to places this far below 0


class Table(nn.Module):
    """A learned table of `max_length` vectors, read at p and linear between rows; added, (B, T, D).

    p in [-8, max_length - 1]; below 0, where jitter and soft bounds may lead, the first two rows are
    extrapolated. Rows start at a root mean square of `start`, by default that of the semantic vectors.
    Source: BERT, arXiv 1810.04805.

    >>> Table(dim=4, max_length=8)(torch.tensor([[[0.0], [1.0]]])).added.shape
    torch.Size([1, 2, 4])
    """

    pointwise = True

    def __init__(self, *, dim: int, max_length: int, start: float = 1.0) -> None:
        super().__init__()
        if max_length < 1:
            raise ValueError(f"max_length={max_length}; a learned table needs at least one row.")
        self.max_length, self.start = max_length, start
        self.weight = nn.Parameter(torch.empty(max_length, dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Normal rows of root mean square `start`."""
        nn.init.normal_(self.weight, std=self.start)

    def forward(self, at: At) -> Injection:
        place = at[..., 0]
        check_inside(
            place.where((place < -MARGIN) | (place > 0), 0),
            self.max_length,
            lambda wrong: (
                f"a coordinate of {wrong:g} is outside the learned table's max_length={self.max_length} "
                f"(positions 0 to {self.max_length - 1}); cut the text, or take a method without a table."
            ),
        )
        left, right, part = neighbours(place, self.max_length)
        return Injection(added=_lerp(self.weight[left], self.weight[right], part))

    def extra_repr(self) -> str:
        return f"max_length={self.max_length}"


class GridTable(nn.Module):
    """A learned table of `shape` = (rows, columns) vectors, bilinear between entries; added, (B, T, D).

    Axis 0 in [0, rows - 1], axis 1 in [0, columns - 1]. Entries start as the rows of a `Table`. Source: ViT,
    arXiv 2010.11929, section 3.2 (interpolation); ViT's own table, of patches in a row, is a `Table`.

    >>> GridTable(dim=4, shape=(8, 6))(torch.tensor([[[7.0, 2.5]]])).added.shape
    torch.Size([1, 1, 4])
    """

    pointwise = True

    def __init__(self, *, dim: int, shape: Sequence[int], start: float = 1.0) -> None:
        super().__init__()
        self.shape, self.start = _checked_shape(shape), start
        self.weight = nn.Parameter(torch.empty(*self.shape, dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Normal entries of root mean square `start`."""
        nn.init.normal_(self.weight, std=self.start)

    def forward(self, at: At) -> Injection:
        row, column = first_axes(self, at, 2).unbind(-1)
        for axis, (place, size) in enumerate(zip((row, column), self.shape, strict=True)):
            check_inside(place, size, partial(self._outside, axis))
        top, bottom, down = neighbours(row, self.shape[0])
        left, right, across = neighbours(column, self.shape[1])
        upper, lower = (
            _lerp(self.weight[rows, left], self.weight[rows, right], across) for rows in (top, bottom)
        )
        return Injection(added=_lerp(upper, lower, down))

    def _outside(self, axis: int, wrong: float) -> str:
        return (
            f"a coordinate of {wrong:g} on axis {axis} is outside the learned table of shape={self.shape} "
            f"(0 to {self.shape[axis] - 1} on that axis); take a larger table or cut the grid."
        )

    def extra_repr(self) -> str:
        return f"shape={self.shape}"


def _lerp(
    left: Float[Tensor, "*any D"], right: Float[Tensor, "*any D"], part: Float[Tensor, "*any"]
) -> Tensor:
    """At the entries' precision, float32 at least."""
    left, right = full(left), full(right)
    return torch.lerp(left, right, part.to(left.dtype)[..., None])


def _checked_shape(shape: Sequence[int]) -> tuple[int, int]:
    if len(shape) != 2 or min(shape) < 1:
        raise ValueError(
            f"shape={tuple(shape)}; a grid table needs two sizes, (rows, columns), of at least 1."
        )
    return shape[0], shape[1]
