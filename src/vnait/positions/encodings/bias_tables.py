"""Biases, (B, H, T, T), by learned tables: of a distance, of a share of the prefix.

Indexed [query, key]. Linear between a table's entries, so that gradients reach the coordinates. Distances and
shares have the coordinates' precision, the bias has the parameters'; neither is ever half.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vnait.positions.encodings.shared import At, checked_heads, line_of
from vnait.positions.injection import Injection, PairBias
from vnait.shared.values import precision

Bias = Float[Tensor, "B H TQ TK"]


class _TableBias(nn.Module):
    """A table of rows of a number per head, normal with root mean square `start`."""

    def __init__(self, rows: int, num_heads: int, start: float) -> None:
        super().__init__()
        self.start = start
        self.weight = nn.Parameter(torch.empty(rows, checked_heads(num_heads)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Normal, of root mean square `start`."""
        nn.init.normal_(self.weight, std=self.start)


class T5Bias(_TableBias):
    """T5's learned table: a number per head for each bucket of distances; bias, (B, H, T, T).

    Integer distances have T5's buckets: half of them have one distance each, half grow up to `max_distance`,
    and the last has all beyond. `bidirectional` reserves one half of an even `num_buckets` for keys after the
    query; without it they share the bucket of distance 0, and the model has to hide them.

    Rows start normal with root mean square `start`. Source: T5, arXiv 1910.10683, section 2.1, and its code.

    >>> T5Bias(num_heads=4).bucket(torch.tensor([0, -1, -7, -90, -91, 1])).tolist()
    [0, 1, 7, 14, 15, 17]
    """

    relative = True

    def __init__(
        self,
        *,
        num_heads: int,
        num_buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
        start: float = 0.0,
    ) -> None:
        directions = 2 if bidirectional else 1
        exact = num_buckets // directions // 2
        if num_buckets % directions or not 1 <= exact < max_distance:
            raise ValueError(
                f"num_buckets={num_buckets}, max_distance={max_distance}, bidirectional={bidirectional}; "
                "expected 2 or more buckets per direction, the same number for both, and a max_distance "
                "above half of a direction's buckets."
            )
        super().__init__(num_buckets, num_heads, start)
        self.num_buckets, self.max_distance, self.bidirectional = num_buckets, max_distance, bidirectional

    def forward(self, at: At) -> Injection:
        offsets = torch.arange(-self.max_distance, self.max_distance + 1, device=at.device)
        return Injection(distance=_of_offsets(self.weight[self.bucket(offsets)], at))

    def bucket(self, offset: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
        """The row of `weight` for an offset, key - query."""
        return _bucket(offset, self.num_buckets, self.max_distance, bidirectional=self.bidirectional)

    def extra_repr(self) -> str:
        return (
            f"num_buckets={self.num_buckets}, max_distance={self.max_distance}, "
            f"bidirectional={self.bidirectional}"
        )


def of_buckets(
    weight: Float[Tensor, "buckets H"], at: At, max_distance: int, *, bidirectional: bool = True
) -> Bias:
    """The bias of `T5Bias` with another table."""
    offsets = torch.arange(-max_distance, max_distance + 1, device=at.device)
    rows = _bucket(offsets, len(weight), max_distance, bidirectional=bidirectional)
    return _of_offsets(weight[rows], at).dense()


def _bucket(
    offset: Int[Tensor, "*any"], count: int, max_distance: int, *, bidirectional: bool
) -> Int[Tensor, "*any"]:
    size = count // 2 if bidirectional else count
    far = offset.abs() if bidirectional else (-offset).clamp(min=0)
    exact = size // 2
    # In float32, as T5: so an offset at a bucket's edge gets the same bucket.
    growth = torch.log(far.clamp(min=1).float() / exact) / math.log(max_distance / exact)
    grown = exact + (growth * (size - exact)).long().clamp(max=size - exact - 1)
    return torch.where(far < exact, far, grown) + (offset > 0).long() * (size if bidirectional else 0)


class ShawBias(_TableBias):
    """A learned table over the clipped distances -max_distance ... max_distance; bias, (B, H, T, T).

    A number per head, linear between integers; a pair has row `max_distance` + key - query. Rows start normal
    with root mean square `start`. Source: Shaw et al., arXiv 1803.02155, section 3.2, with numbers for their
    vectors, as in T5.

    >>> table = ShawBias(num_heads=1, max_distance=1).requires_grad_(False)
    >>> table.weight[2] = 4.0  # one step ahead
    >>> table(torch.tensor([[[0.0], [0.5], [9.0]]])).dense().bias[0, 0]
    tensor([[0., 2., 4.],
            [0., 0., 4.],
            [0., 0., 0.]])
    """

    relative = True

    def __init__(self, *, num_heads: int, max_distance: int, start: float = 0.0) -> None:
        if max_distance < 1:
            raise ValueError(f"max_distance={max_distance}; a table of distances needs at least 1.")
        super().__init__(2 * max_distance + 1, num_heads, start)

    def forward(self, at: At) -> Injection:
        return Injection(distance=_of_offsets(self.weight, at))


class Prefix(_TableBias):
    """f_h(u), u = S_j / S_i in [0, 1] for query i and key j: a key's share of the prefix; bias, (B, H, T, T).

    f_h is a table of `knots` learned numbers per head, evenly spaced over [0, 1] and linear between. For
    causal coordinates that grow from 0, such as `Running`: u is clipped to 1 for keys after the query, which
    the model has to hide, and to 0 for negative keys; it is 1 if S_i <= 0. Scaling all coordinates changes
    nothing.

    Rows start normal with root mean square `start`. Source: this project; FIRE's ratio (arXiv 2310.04418) of
    learned coordinates.

    >>> prefix = Prefix(num_heads=1, knots=2).requires_grad_(False)
    >>> prefix.weight[1] = 8.0  # f(u) = 8 u
    >>> prefix(torch.tensor([[[1.0], [2.0], [4.0]]])).dense().bias[0, 0]
    tensor([[8., 8., 8.],
            [4., 8., 8.],
            [2., 4., 8.]])
    """

    def __init__(self, *, num_heads: int, knots: int = 16, start: float = 0.0) -> None:
        if knots < 2:
            raise ValueError(f"knots={knots}; a table over [0, 1] needs at least 2, for its ends.")
        super().__init__(knots, num_heads, start)

    def forward(self, at: At) -> Injection:
        return Injection(distance=PairBias(line=line_of(at[..., :1]), formula=self._of_pairs))

    def _of_pairs(self, query: Tensor, key: Tensor) -> Bias:
        key, positive = key.clamp(min=0), query > 0
        # The minimum first: a late key over a tiny query is infinite, and its gradient NaN.
        share = torch.where(positive, torch.minimum(key, query) / torch.where(positive, query, 1), 1)
        return _between(self.weight, share.to(precision(self.weight.dtype)) * (len(self.weight) - 1))

    def extra_repr(self) -> str:
        return f"knots={len(self.weight)}"


def _of_offsets(table: Float[Tensor, "R H"], at: At) -> PairBias:
    """A table over the offsets key - query from -R//2 to R//2, read at each pair, clipped at its ends."""
    reach, dtype = len(table) // 2, precision(table.dtype)

    def formula(query: Tensor, key: Tensor) -> Bias:
        return _between(table, (key - query).to(dtype).clamp(-reach, reach), first=-reach)

    return PairBias(line=line_of(at[..., :1]), formula=formula, relative=True)


def _between(table: Float[Tensor, "R H"], place: Float[Tensor, "B 1 TQ TK"], first: int = 0) -> Bias:
    """A table over first ... first + R - 1, linear between its rows; keys are adjacent in memory."""
    place = place[:, 0]
    left = place.detach().floor().clamp(max=first + len(table) - 2)
    row, table = left.long() - first, table.to(place.dtype)
    return torch.lerp(_rows(table, row), _rows(table, row + 1), place - left).transpose(0, 1)


def _rows(table: Float[Tensor, "R H"], row: Int[Tensor, "B TQ TK"]) -> Float[Tensor, "H B TQ TK"]:
    """The rows of a table. On CUDA the gradient of an index adds the repeats of a row one by one, that of an
    embedding in parallel; on the CPU the index is faster.
    """
    if not table.is_cuda:
        return table.T[:, row]
    return nn.functional.embedding(row, table).movedim(-1, 0).contiguous()
