"""How much the scores of attention change where all positions move by the same number: not at all where they are relative."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from vnait.backbone import turned
from vnait.injection import Injection
from vnait.study import Metrics

WIDTH, HEADS = 64, 8
SHIFTS = (1, 17, 1_000, 100_000)
Scores = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # of positions (1, N, 1), queries, keys and a W_Q W_K^T


def line(count: int, start: int = 0) -> Tensor:
    """Coordinates (1, count, 1)."""
    return torch.arange(start, start + count).double()[None, :, None]


def moved(scores: Scores) -> Metrics:
    """The largest change of a score where all positions move, in standard deviations of the scores; a number a shift."""
    query, key = torch.randn(2, 1, HEADS, 50, WIDTH, dtype=torch.float64)
    weight = torch.randn(WIDTH, WIDTH).double()
    still, *after = (scores(line(50, shift), query, key, weight) for shift in (0, *SHIFTS))
    changes = [float((one - still).abs().max() / still.std()) for one in after]
    return {"moved": max(changes), "changes": changes}


def scored(encoding: Callable[[Tensor], Injection], identity: bool = False) -> Scores:
    """The scores with an encoding; of a code that is added, those of the codes alone, through W or through the identity."""

    def scores(at: Tensor, query: Tensor, key: Tensor, weight: Tensor) -> Tensor:
        told = encoding(at).dense()
        if told.added is not None:
            return told.added @ (torch.eye(WIDTH).double() if identity else weight) @ told.added.mT
        if told.turn is not None:
            query, key = turned(query, told.turn), turned(key, told.turn)
        return query @ key.mT / WIDTH**0.5 + (0 if told.bias is None else told.bias)

    return scores


def fails(call: Callable[[], object], *errors: type[Exception]) -> bool:
    """Whether a call raises one of these."""
    try:
        call()
    except errors:
        return True
    return False
