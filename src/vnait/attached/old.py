"""A model's old positions, taken over: its table as it was, or the fewest waves that give it again."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vnait.attached.finding import asked, probe_ids
from vnait.coordinates import Ends, Jitter, Running, Span, Start
from vnait.coordinates.shared import Mask, rank
from vnait.coordinates.sources import UNIT_Z
from vnait.encodings import Table

TOLERANCE = 0.01  # of the table's root mean square, what waves may leave
At = Float[Tensor, "B T"]


class Rows(Table):
    """The old table, learned on: read between its rows at real places, its last row at places past it."""

    def __init__(self, rows: Float[Tensor, "N D"]) -> None:
        super().__init__(dim=rows.shape[1], max_length=len(rows))
        with torch.no_grad():
            self.weight.copy_(rows)

    def read(self, place: At) -> Float[Tensor, "B T D"]:
        """The position vectors at these places."""
        added = self(place.clamp(0, self.max_length - 1)[..., None]).added
        assert added is not None
        return added


class Waves(nn.Module):
    """sum_k w_k cos(pi k (p + 1/2) / N): the K slowest waves of a table of N rows (its discrete cosine transform), learned on.

    K is the least that leaves at most 1% of the table's root mean square. A smooth table needs few; one of noise needs them all.
    Past the table, its last place.

    >>> len(Waves(torch.ones(64, 2)).weight)
    1
    """

    def __init__(self, rows: Float[Tensor, "N D"]) -> None:
        super().__init__()
        self.max_length = len(rows)
        place = torch.arange(self.max_length, dtype=torch.float64, device=rows.device)
        waves = _waves(place, self.max_length, self.max_length)
        weight = waves.T @ rows.double() * 2 / self.max_length
        weight[0] /= 2
        left = weight.square().sum(1).flip(0).cumsum(0).flip(0)  # of wave k and all faster ones
        enough = int((left > TOLERANCE**2 * left[0]).sum())
        self.weight = nn.Parameter(weight[: max(enough, 1)].to(torch.promote_types(rows.dtype, torch.float32)))

    def read(self, place: At) -> Float[Tensor, "B T D"]:
        """The position vectors at these places."""
        at = _waves(place.double().clamp(0, self.max_length - 1), self.max_length, len(self.weight))
        return at.to(self.weight.dtype) @ self.weight

    def extra_repr(self) -> str:
        return f"{len(self.weight)} waves for {self.max_length} rows"


def _waves(place: Float[Tensor, "*any"], length: int, count: int) -> Float[Tensor, "*any K"]:
    wave = torch.arange(count, dtype=torch.float64, device=place.device)
    return (math.pi / length * (place[..., None] + 0.5) * wave).cos()


class _Seen(Exception):
    """A table was asked; the rest of the model need not run."""

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows


def _stop(module: nn.Module, args: object, rows: Tensor) -> None:
    raise _Seen(rows)


def first_row(owner: nn.Module, table: nn.Embedding) -> int:
    """Which row of the table the first token of a text reads: 0, or past the padding's; seen by asking the model."""
    handle = table.register_forward_hook(_stop)
    try:
        with asked(owner):
            owner(input_ids=probe_ids(owner, 1, min(4, len(table.weight) // 2 + 1)))
    except _Seen as seen:
        rows = seen.rows.reshape(-1, table.weight.shape[1])
    else:
        return -1
    finally:
        handle.remove()
    for first in range(len(table.weight) - len(rows) + 1):
        if torch.equal(table.weight[first : first + len(rows)].to(rows), rows):
            return first
    return -1


def within(place: At, mask: Mask, last: int) -> At:
    """The places of texts that go on past `last`, drawn together to end there (position interpolation, arXiv 2306.15595)."""
    longest = place.masked_fill(~mask, 0).amax(-1, keepdim=True)
    return place * (last / longest.clamp(min=last))


def running(coordinates: nn.Module, vectors: Tensor, mask: Mask) -> At:
    """The place at which the old positions are read, in tokens, in its own gaps: R_i - R_1, which starts at the index.

    A method without gaps of tokens (a share of the text, a grid) leaves them at the index.
    """
    while isinstance(coordinates, Jitter):  # what training moves about is the method's own
        coordinates = coordinates.coordinates
    if isinstance(coordinates, Ends | Start):
        coordinates = coordinates.span if isinstance(coordinates, Ends) else coordinates.running
    elif type(coordinates) is not Running:
        return rank(mask).float()
    if not isinstance(coordinates, Span):  # ends of random places
        return rank(mask).float()
    return coordinates.since_start(coordinates.gaps(vectors, mask), mask).float() / unit_gap(coordinates.min_gap)


def unit_gap(min_gap: float) -> float:
    """The gap that every source starts from: 1, but for the rounding of its parameter, which 512 of them would add up."""
    return (1 - min_gap) * math.log1p(math.exp(_ROUNDED_Z)) + min_gap


_ROUNDED_Z = float(torch.tensor(UNIT_Z, dtype=torch.float32))
