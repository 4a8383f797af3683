"""Encodings that add a learned table's entries: vectors (B, T, D) that join the semantic vectors in the input layer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vnait.encodings.shared import At, first_axes, neighbours, outside, whole
from vnait.injection import Injection

BEFORE = 8.0  # places before 0 that jitter and softened bounds may lead to


class Table(nn.Module):
    """A learned table of `max_length` vectors, read at p and linear between rows; added, (B, T, D). p in [0, max_length - 1].

    Down to p = -8, where jitter and softened bounds may lead, the line of the first two rows goes on.
    Rows start at a root mean square of `start`, the scale of the semantic vectors in `vnait.model`. Source: BERT, arXiv 1810.04805.

    >>> Table(dim=4, max_length=8)(torch.tensor([[[0.0], [1.0]]])).added.shape
    torch.Size([1, 2, 4])
    """

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
        if (wrong := outside(place.where((place < -BEFORE) | (place > 0), 0), self.max_length)) is not None:
            raise ValueError(
                f"a coordinate of {wrong:g} is outside the learned table's max_length={self.max_length} "
                f"(positions 0 to {self.max_length - 1}); cut the text, or take a method without a table."
            )
        return Injection(added=self._read(place))

    def resized(self, max_length: int) -> Table:
        """A new table of another length: row r is this one at r (max_length_old - 1) / (max_length - 1), linear between its rows.

        Both ends are kept (`align_corners=True`), and with them the share of the text that a row stands for: the last row is the end
        of the longest text, before and after.

        >>> Table(dim=4, max_length=8).resized(15)
        Table(max_length=15)
        """
        table = Table(dim=self.weight.shape[1], max_length=max_length, start=self.start).to(self.weight)
        with torch.no_grad():
            table.weight.copy_(self._read(_spread(self.max_length, max_length, self.weight)))
        return table

    def _read(self, place: Float[Tensor, "*any"]) -> Float[Tensor, "*any D"]:
        left, right, part = neighbours(place, self.max_length)
        return _lerp(self.weight[left], self.weight[right], part)

    def extra_repr(self) -> str:
        return f"max_length={self.max_length}"


class GridTable(nn.Module):
    """A learned table of `shape` = (rows, columns) vectors, read at axes 0 and 1 and bilinear between entries; added, (B, T, D).

    Axis 0 in [0, rows - 1], axis 1 in [0, columns - 1]. Entries start at a root mean square of `start`, as a `Table`'s rows.
    Source: ViT, arXiv 2010.11929, section 3.2 for interpolation; its one table of patches in a row is a `Table` over their numbers.

    >>> GridTable(dim=4, shape=(8, 6))(torch.tensor([[[7.0, 2.5]]])).added.shape
    torch.Size([1, 1, 4])
    """

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
            if (wrong := outside(place, size)) is not None:
                raise ValueError(
                    f"a coordinate of {wrong:g} on axis {axis} is outside the learned table of shape={self.shape} "
                    f"(0 to {size - 1} on that axis); resize the table, or cut the grid."
                )
        return Injection(added=self._read(row, column))

    def resized(self, shape: Sequence[int]) -> GridTable:
        """A new table of another shape, bilinear between this one's entries; its corners are kept, as the ends by `Table.resized`.

        >>> GridTable(dim=4, shape=(8, 6)).resized((12, 12))
        GridTable(shape=(12, 12))
        """
        table = GridTable(dim=self.weight.shape[-1], shape=shape, start=self.start).to(self.weight)
        places = [_spread(*sizes, self.weight) for sizes in zip(self.shape, table.shape, strict=True)]
        with torch.no_grad():
            table.weight.copy_(self._read(*torch.meshgrid(*places, indexing="ij")))
        return table

    def _read(self, row: Float[Tensor, "*any"], column: Float[Tensor, "*any"]) -> Float[Tensor, "*any D"]:
        top, bottom, down = neighbours(row, self.shape[0])
        left, right, across = neighbours(column, self.shape[1])
        upper, lower = (_lerp(self.weight[rows, left], self.weight[rows, right], across) for rows in (top, bottom))
        return _lerp(upper, lower, down)

    def extra_repr(self) -> str:
        return f"shape={self.shape}"


def _lerp(one: Float[Tensor, "*any D"], other: Float[Tensor, "*any D"], part: Float[Tensor, "*any"]) -> Tensor:
    """At the entries' precision, float32 at least."""
    one, other = whole(one), whole(other)
    return torch.lerp(one, other, part.to(one.dtype)[..., None])


def _spread(old: int, new: int, like: Tensor) -> Float[Tensor, " new"]:
    """Where the entries of a table of a new size stand in the old one, both ends kept."""
    return torch.linspace(0, old - 1, new, dtype=torch.float64, device=like.device)


def _checked_shape(shape: Sequence[int]) -> tuple[int, int]:
    if len(shape) != 2 or min(shape) < 1:
        raise ValueError(f"shape={tuple(shape)}; a grid table needs two sizes, (rows, columns), of at least 1.")
    return shape[0], shape[1]
