"""How much attention scores change if all positions shift by the same number: relative scores do not."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from vnait.positions.attention import rotate
from vnait.positions.injection import Injection
from vnait_lab.study import Metrics

WIDTH, HEADS = 64, 8
SHIFTS = (1, 17, 1_000, 100_000)
# Positions (1, N, 1), queries, keys and W_Q W_K^T -> scores.
Scores = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def line(count: int, start: int = 0) -> Tensor:
    """Coordinates (1, count, 1)."""
    return torch.arange(start, start + count).double()[None, :, None]


def moved(scores: Scores) -> Metrics:
    """The largest change of a score, in standard deviations of the scores, over all shifts and for each."""
    query, key = torch.randn(2, 1, HEADS, 50, WIDTH, dtype=torch.float64)  # 50 tokens
    weight = torch.randn(WIDTH, WIDTH).double()
    still, *after = (scores(line(50, shift), query, key, weight) for shift in (0, *SHIFTS))
    changes = [float((scored - still).abs().max() / still.std()) for scored in after]
    return {"moved": max(changes), "changes": changes}


def scored(encoding: Callable[[Tensor], Injection], identity: bool = False) -> Scores:
    """The scores under an encoding; for an added code, those of the codes alone, through W or the
    identity.
    """

    def scores(at: Tensor, query: Tensor, key: Tensor, weight: Tensor) -> Tensor:
        injection = encoding(at).dense()
        if injection.added is not None:
            between = torch.eye(WIDTH).double() if identity else weight
            return injection.added @ between @ injection.added.mT
        if injection.rotary is not None:
            query, key = rotate(query, injection.rotary), rotate(key, injection.rotary)
        scores = query @ key.mT / WIDTH**0.5
        return scores if injection.bias is None else scores + injection.bias

    return scores


def fails(call: Callable[[], object], *errors: type[Exception]) -> bool:
    """Whether a call raises one of these."""
    try:
        call()
    except errors:
        return True
    return False
