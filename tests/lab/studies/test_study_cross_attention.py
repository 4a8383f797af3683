"""The cross_attention study: its attention, against the sums of the definition, pair by pair."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from vnait.positions.attention import Attention
from vnait_lab.studies.cross_attention import DIM, HEADS, cross, run
from vnait_lab.study import Budget


def by_hand(seed: int, source: Tensor, target: Tensor) -> Tensor:
    """ALiBi's weights of head 1, whose slope is 1/16, by the loop; the target begins at 2."""
    torch.manual_seed(seed)
    attention = Attention(dim=DIM, num_heads=HEADS).double()
    for weight in attention.parameters():
        nn.init.normal_(weight, std=DIM**-0.5)
    own, rows = slice(DIM // HEADS, 2 * DIM // HEADS), []
    for t, one in enumerate(target):
        scores = [
            float(attention.query(one)[own] @ attention.key(other)[own]) / math.sqrt(DIM // HEADS)
            - abs(s - t - 2) / 16
            for s, other in enumerate(source)
        ]
        rows.append([math.exp(score) / sum(map(math.exp, scores)) for score in scores])
    return torch.tensor(rows, dtype=torch.float64)


@torch.no_grad()
def test_alibi_by_hand() -> None:
    random = torch.Generator().manual_seed(1)
    source, target = (torch.randn(n, DIM, generator=random, dtype=torch.float64) for n in (4, 3))
    weights, _ = cross("alibi", 3, source, target, (0, 2))
    assert torch.allclose(weights[1], by_hand(3, source, target), atol=1e-12)


@pytest.mark.parametrize("variant", ["source", "table", "rope"])
def test_the_equal_tokens_are_there(variant: str) -> None:
    """Were no token repeated, "none" would pass the test of equal tokens as badly as any."""
    assert run("none", 0, Budget())["equal"] <= 1e-15
    assert run(variant, 0, Budget())["equal"] > 1e-2
