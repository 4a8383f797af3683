"""Coordinates that change at random in training, so that a model can't memorize positions."""

from __future__ import annotations

import math

import torch
from torch import nn

from vnait.positions.coordinates.shared import (
    At,
    Mask,
    Positions,
    Vectors,
    Wrapper,
    check_mask,
    located,
    nearest_real,
    rank,
)
from vnait.shared.errors import one_of
from vnait.shared.randomness import generator
from vnait.shared.values import check, readable


class Jitter(Wrapper):
    """In training, axis 0 becomes lambda (S_i + shift_b + local_i); other axes and evaluation don't change.

    shift     a number per sentence, uniform in (-shift, shift), in the coordinate's unit
    local     a number per token, uniform in (-local, local); below half a gap it keeps the order
    stretch   lambda, a factor per sentence, log-uniform in [1 / stretch, stretch]; 1 for none
    share     the share of sentences that change, in (0, 1]

    Source: CAPE (arXiv 2106.03143), equation 7; with the shift alone, this project.

    >>> from vnait.positions.coordinates import Span
    >>> Jitter(Span(source="uniform"), shift=6).eval()(None, torch.ones(1, 2, dtype=torch.bool))[0, :, 0]
    tensor([ 50., 100.])
    """

    def __init__(
        self,
        coordinates: nn.Module,
        *,
        shift: float = 6.0,
        local: float = 0.0,
        stretch: float = 1.0,
        share: float = 1.0,
    ) -> None:
        super().__init__(coordinates)
        if shift < 0 or local < 0 or stretch < 1 or not 0 < share <= 1:
            raise ValueError(
                f"shift={shift}, local={local}, stretch={stretch}, share={share}; expected shift, local >= "
                "0, stretch >= 1 and share in (0, 1]."
            )
        self.shift, self.local, self.stretch, self.share = shift, local, stretch, share

    @property
    def per_sentence(self) -> bool:
        """In training every sentence draws its own numbers."""
        return self.training or super().per_sentence

    def forward(self, vectors: Vectors, mask: Mask, positions: Positions = None) -> At:
        return self.move(located(self.coordinates, vectors, mask, positions), mask)

    def move(self, at: At, mask: Mask) -> At:
        if not self.training:
            return at
        line = at[..., 0] + _uniform(at, self.shift, (len(at), 1))
        if self.local:
            line = nearest_real(line + _uniform(at, self.local, line.shape), mask)
        if self.stretch > 1:
            line = line * _uniform(at, math.log(self.stretch), (len(at), 1)).exp()
        if self.share < 1:
            line = torch.where(
                torch.rand(len(at), 1, device=at.device, generator=generator(at.device)) < self.share,
                line,
                at[..., 0],
            )
        return torch.cat([line[..., None], at[..., 1:]], -1)

    def extra_repr(self) -> str:
        return f"shift={self.shift}, local={self.local}, stretch={self.stretch}, share={self.share}"


class Randomized(nn.Module):
    """n sorted random numbers of [0, limit); in evaluation, their means. Shape (B, T, 1).

    draw   "subset": different integers (arXiv 2305.16843). "floats": real numbers (arXiv 2602.14050)

    The k-th of n has the mean k (limit + 1) / (n + 1) - 1, floats k limit / (n + 1). The papers draw in
    evaluation, too; with the mean a text has one answer, at positions that training has seen. Those of more
    than `limit` tokens are less than 1 apart, and the first is below 0. A position depends on the number of
    tokens that follow, so this is not for decoders. In training a text longer than `limit` is an error for
    "subset".

    >>> Randomized(limit=9).eval()(None, torch.ones(1, 4, dtype=torch.bool))[0, :, 0]
    tensor([1., 3., 5., 7.])
    """

    causal, per_sentence = False, True

    def __init__(self, *, limit: int = 2048, draw: str = "subset") -> None:
        super().__init__()
        one_of("draw", draw, ("subset", "floats"))
        self.limit, self.draw = limit, draw

    def forward(self, vectors: Vectors, mask: Mask) -> At:
        check_mask(mask)
        number, length = rank(mask), mask.sum(-1, keepdim=True)
        if self.training:
            positions = self._drawn(length, mask).gather(-1, number)
        else:
            first = int(self.draw == "subset")
            positions = (number + 1).float() / (length + 1) * (self.limit + first) - first
        return nearest_real(positions, mask)[..., None]

    def _drawn(self, length: torch.Tensor, mask: Mask) -> torch.Tensor:
        """Sorted numbers (B, T), as many in a row as the text has tokens, and then infinity."""
        texts, width = mask.shape
        source = generator(mask.device)
        if self.draw == "floats":
            numbers = torch.rand(texts, width, device=mask.device, generator=source) * self.limit
        else:
            numbers = self._orders(length, mask)[:, :width].float()
        numbers = nn.functional.pad(numbers, (0, width - numbers.shape[1]))
        real = torch.arange(width, device=mask.device) < length
        return numbers.masked_fill(~real, torch.inf).sort(-1).values

    def _orders(self, length: torch.Tensor, mask: Mask) -> torch.Tensor:
        """The numbers below `limit` in a random order, one per text."""
        check(
            length[:, 0] <= self.limit,
            f"no text has more than limit={self.limit} tokens",
            lambda row: (
                f"a text of {int(length[row])} tokens can't have distinct positions below "
                f"limit={self.limit}; raise it."
            ),
        )
        source = generator(mask.device)
        if readable(mask):  # a loop of permutations is quicker than to sort a table
            return torch.stack([torch.randperm(self.limit, generator=source) for _ in mask])
        return torch.rand(len(mask), self.limit, device=mask.device, generator=source).argsort(-1)

    def extra_repr(self) -> str:
        return f"limit={self.limit}, draw={self.draw!r}"


def _uniform(like: At, reach: float, shape: tuple[int, ...]) -> torch.Tensor:
    source = generator(like.device)
    return reach * (2 * torch.rand(shape, dtype=like.dtype, device=like.device, generator=source) - 1)
