"""Coordinates of several axes: grids, segments, phases, and several coordinates side by side.

All but `Diagonal` and `Joined` count the real tokens, or take known positions.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import cast

import torch
from jaxtyping import Int
from torch import Tensor, nn

from vnait.positions.coordinates.shared import (
    At,
    Lines,
    Mask,
    Positions,
    Vectors,
    Wrapper,
    check_mask,
    known,
    located,
    max_lookback,
    nearest_real,
    rank,
    takes_positions,
)
from vnait.positions.coordinates.spans import Index, Span
from vnait.shared.values import check, constants


class Grid(nn.Module):
    """The cell of a grid in reading order: (row, column) for two axes. Shape (B, T, len(shape)).

    shape     the grid's sizes; a sentence has a token per cell. As in torch.reshape the first may be -1, for
              any number of rows and an incomplete last one

    Known positions (B, T, len(shape)) are the coordinates themselves, at any length and in any unit.

    >>> Grid(shape=(2, 2))(None, torch.ones(1, 4, dtype=torch.bool))[0].tolist()
    [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    """

    causal = True
    per_sentence = False
    takes_positions = True

    def __init__(self, *, shape: Sequence[int]) -> None:
        super().__init__()
        self.shape = tuple(map(operator.index, shape))
        if (
            not self.shape
            or min(self.shape[1:], default=1) < 1
            or (self.shape[0] < 1 and self.shape[0] != -1)
        ):
            raise ValueError(
                f"shape={self.shape}; expected one or more positive sizes, of which the first may be -1."
            )

    def forward(self, vectors: Vectors, mask: Mask, positions: Positions = None) -> At:
        check_mask(mask)
        if positions is not None:
            return _known(positions, mask, axes=len(self.shape), part="Grid")
        if self.shape[0] != -1:
            check_tokens(
                mask,
                cells := math.prod(self.shape),
                holder=f"the grid of shape {self.shape} has {cells} cells",
                remedy=f"give `positions` (B, T, {len(self.shape)}), or -1 as the first size for any rows.",
            )
        return unravel(nearest_real(rank(mask), mask), self.shape)

    def extra_repr(self) -> str:
        return f"shape={self.shape}"


class Diagonal(Wrapper):
    """Axes 0 and 1 rotated by 45 degrees: ((r + c) / sqrt 2, (c - r) / sqrt 2). Further axes stay.

    For the "45-degree rotated" 2-D encodings: a separable encoding of these axes is best on the diagonals.

    >>> Diagonal(Grid(shape=(2, 2)))(None, torch.ones(1, 4, dtype=torch.bool))[0, :, 1]
    tensor([ 0.0000,  0.7071, -0.7071,  0.0000])
    """

    def forward(self, vectors: Vectors, mask: Mask, positions: Positions = None) -> At:
        at = located(self.coordinates, vectors, mask, positions)
        if at.shape[-1] < 2:
            name = type(self.coordinates).__name__
            raise ValueError(
                f"Diagonal rotates axes 0 and 1, and {name} has 1 axis; wrap coordinates of two, as Grid."
            )
        row, column = at[..., :1], at[..., 1:2]
        return torch.cat([(row + column) / math.sqrt(2), (column - row) / math.sqrt(2), at[..., 2:]], -1)


class Segments(nn.Module):
    """(segment, offset): the token's segment, and its number in the segment, from 0. Shape (B, T, 2).

    size      the segments' length without positions; the last may be shorter

    For segments of real data give positions, such as those of `Segments.from_lengths`.

    >>> Segments(size=2)(None, torch.ones(1, 3, dtype=torch.bool))[0].tolist()
    [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    """

    causal = True
    per_sentence = False
    takes_positions = True

    def __init__(self, *, size: int) -> None:
        super().__init__()
        if size < 1:
            raise ValueError(f"size={size}; a segment has at least 1 token.")
        self.size = size

    def forward(self, vectors: Vectors, mask: Mask, positions: Positions = None) -> At:
        check_mask(mask)
        if positions is not None:
            return _known(positions, mask, axes=2, part="Segments")
        return unravel(nearest_real(rank(mask), mask), (-1, self.size))

    @staticmethod
    def from_lengths(lengths: Int[Tensor, "B S"], mask: Mask) -> At:
        """Positions (B, T, 2) from the lengths of each sentence's segments in order, which may be 0.

        >>> Segments.from_lengths(torch.tensor([[1, 0, 2]]), torch.ones(1, 3, dtype=torch.bool))[0].tolist()
        [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]
        """
        check_mask(mask)
        _check_lengths(lengths, mask)
        number = nearest_real(rank(mask), mask)
        stop = lengths.long().cumsum(-1)
        entry = torch.searchsorted(stop, number, right=True)
        segment = (lengths > 0).cumsum(-1).gather(-1, entry) - 1
        offset = number - (stop - lengths).gather(-1, entry)
        return torch.stack([segment, offset], -1).float()

    def extra_repr(self) -> str:
        return f"size={self.size}"


class Phase(Wrapper):
    """Phases: axis k is 2 pi (t mod P_k) / P_k, in [0, 2 pi). Shape (B, T, number of periods).

    periods       P_k > 0, in the unit of t: tokens if they are counted, seconds for timestamps in seconds
    coordinates   t is their axis 0; None for `Index()`, so that positions are the times themselves

    Computed in float64. Give seconds since 1970 in float64, too: in float32 they have steps of two minutes.

    >>> Phase(periods=[4])(None, torch.ones(1, 5, dtype=torch.bool))[0, :, 0]
    tensor([0.0000, 1.5708, 3.1416, 4.7124, 0.0000])
    """

    def __init__(self, *, periods: Sequence[float], coordinates: nn.Module | None = None) -> None:
        super().__init__(Index() if coordinates is None else coordinates)
        self.periods = tuple(map(float, periods))
        if not self.periods or not all(0 < period < math.inf for period in self.periods):
            raise ValueError(f"periods={self.periods}; expected one or more positive, finite numbers.")

    def forward(self, vectors: Vectors, mask: Mask, positions: Positions = None) -> At:
        time = located(self.coordinates, vectors, mask, positions)[..., :1]
        period = constants(self.periods, torch.float64, time.device)
        phase = (math.tau * (time.double().remainder(period) / period)).to(time.dtype)
        # Rounding may reach 2 pi; subtracted, not replaced by 0, for the gradient.
        return phase - math.tau * (phase >= math.tau).to(phase.dtype)

    def extra_repr(self) -> str:
        return f"periods={self.periods}"


class Joined(nn.Module):
    """The axes of several coordinates side by side, in the widest of their dtypes. Shape (B, T, sum of C).

    All of them get the known positions.

    >>> Joined(Index(), Segments(size=2))(None, torch.ones(1, 3, dtype=torch.bool))[0, 2].tolist()
    [2.0, 1.0, 0.0]
    """

    def __init__(self, *coordinates: nn.Module) -> None:
        super().__init__()
        if not coordinates:
            raise ValueError("Joined() has no coordinates; give one or more.")
        flat: list[nn.Module] = []
        for part in coordinates:
            flat += part.coordinates if isinstance(part, Joined) else [part]
        self.coordinates: nn.ModuleList = nn.ModuleList(flat)

    @property
    def causal(self) -> bool:
        return all(bool(part.causal) for part in self.coordinates)

    @property
    def per_sentence(self) -> bool:
        return any(bool(part.per_sentence) for part in self.coordinates)

    @property
    def takes_positions(self) -> bool:
        return all(map(takes_positions, self.coordinates))

    @property
    def lookback(self) -> int | None:
        """The largest of the parts; None if one has no gaps."""
        return max_lookback(part if part.per_sentence else None for part in self.coordinates)

    def forward(self, vectors: Vectors, mask: Mask, positions: Positions = None) -> At:
        return torch.cat([located(part, vectors, mask, positions) for part in self.coordinates], -1)

    def gaps(self, vectors: Vectors, mask: Mask) -> Lines:
        """The gaps of all parts, side by side in a last axis."""
        gaps = (cast(Span, part).gaps(vectors, mask) for part in self.coordinates)
        return torch.cat([part.reshape(*mask.shape, -1) for part in gaps], -1)

    def locate(self, gaps: Lines, mask: Mask) -> At:
        counts = [getattr(part, "lines", None) for part in self.coordinates]
        lines = gaps.split([count or 1 for count in counts], -1)
        axes = [
            cast(Span, part).locate(line if count else line[..., 0], mask)
            for part, line, count in zip(self.coordinates, lines, counts, strict=True)
        ]
        return torch.cat(axes, -1)


def unravel(number: Int[Tensor, "*N"], shape: Sequence[int]) -> Tensor:
    """The cells (*N, len(shape)) of the numbers in reading order; the first size is not read."""
    axes = []
    for size in reversed(shape[1:]):
        axes.append(number % size)
        number = number // size
    return torch.stack([number, *reversed(axes)], -1).float()


def check_tokens(mask: Mask, count: int, *, holder: str, remedy: str) -> None:
    """Raise an error that names the first row without exactly `count` real tokens."""
    tokens = mask.sum(-1)

    def message(row: int) -> str:
        return f"row {row} of the batch has {int(tokens[row])} real tokens, and {holder}; {remedy}"

    check(tokens == count, f"each text has {count} real tokens", message)


def _known(positions: At, mask: Mask, *, axes: int, part: str) -> At:
    if positions.shape[-1] != axes:
        raise ValueError(
            f"{part} has {axes} axes, and the positions have {positions.shape[-1]}; give positions "
            f"(B, T, {axes})."
        )
    return known(positions, mask)


def _check_lengths(lengths: Int[Tensor, "B S"], mask: Mask) -> None:
    total, tokens = lengths.sum(-1), mask.sum(-1)

    def message(row: int) -> str:
        return (
            f"row {row} of the batch has segments of {lengths[row].tolist()} tokens, {int(total[row])} in "
            f"all, and {int(tokens[row])} real tokens; give lengths of 0 or more that add up to these."
        )

    check((total == tokens) & (lengths >= 0).all(-1), "segments add up to the real tokens", message)
