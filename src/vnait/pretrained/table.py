"""A model's own position table, taken over: read at real places, and trained further."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vnait.positions.coordinates import Elastic, Ends, Jitter, Running, Span, Start
from vnait.positions.coordinates.shared import Mask, rank
from vnait.positions.coordinates.sources import UNIT_Z
from vnait.positions.encodings import Table
from vnait.positions.encodings.shared import neighbours

At = Float[Tensor, "B T"]


class Rows(Table):
    """The table, trained further: linear between its rows at real places, its last row at places past it."""

    def __init__(self, rows: Float[Tensor, "N D"]) -> None:
        super().__init__(dim=rows.shape[1], max_length=len(rows))
        with torch.no_grad():
            self.weight.copy_(rows)

    def read(self, place: At) -> Float[Tensor, "B T D"]:
        added = self(place.clamp(0, self.max_length - 1)[..., None]).added
        assert added is not None
        return added


def between(rows: Float[Tensor, "N D"], place: At) -> Float[Tensor, "B T D"]:
    """A table's rows at real places, linear between two of them."""
    left, right, part = neighbours(place, len(rows))
    return torch.lerp(rows[left], rows[right], part.to(rows.dtype)[..., None])


def interpolated(place: At, mask: Mask, last: int) -> At:
    """Compress the places of longer texts to end at `last` (position interpolation, arXiv 2306.15595)."""
    longest = place.masked_fill(~mask, 0).amax(-1, keepdim=True)
    return place * (last / longest.clamp(min=last))


def running_places(coordinates: nn.Module, vectors: Tensor, mask: Mask) -> At:
    """p = R_i - R_1, or a_i of `Elastic`: where the old positions are read, in the method's own gaps; the
    token index at first.

    A method without gaps between tokens (a share of the text, a grid) stays at the index.
    """
    while isinstance(coordinates, Jitter):  # noise in training is for the method only
        coordinates = coordinates.coordinates
    if isinstance(coordinates, Elastic):  # a first token that counts nothing stands before place 0
        return coordinates(vectors, mask)[..., 1].clamp(min=0).float()
    if isinstance(coordinates, Ends):
        coordinates = coordinates.span
    elif isinstance(coordinates, Start):
        coordinates = coordinates.running
    elif type(coordinates) is not Running:
        return rank(mask).float()
    if not isinstance(coordinates, Span):  # `Ends` of random places
        return rank(mask).float()
    # Sources start from gaps of 1, but for the rounding of their parameter, which 512 gaps would add up.
    unit = (1 - coordinates.min_gap) * math.log1p(math.exp(_ROUNDED_Z)) + coordinates.min_gap
    sums = coordinates.sums(coordinates.gaps(vectors, mask), mask)
    return coordinates.since_start(sums, mask).float() / unit


_ROUNDED_Z = float(torch.tensor(UNIT_Z, dtype=torch.float32))
