"""The middle study: what it measures, on a reader that knows S and one that is a token late; and spans with
known gaps.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from vnait.positions.coordinates import Span
from vnait_lab.studies.middle import exact, measured, method, second_half
from vnait_lab.study import Budget


class Knows(nn.Module):
    """Reads S itself; with `late` the answer for the token before."""

    def __init__(self, late: int) -> None:
        super().__init__()
        self.late, self.method, self.vectors = late, method("uniform"), nn.Embedding(16, 32)

    def forward(self, ids: Tensor) -> Tensor:
        mask = torch.ones_like(ids, dtype=torch.bool)
        at = Span(source="uniform")(None, mask)[..., 0]
        at = at - self.late * 100 / ids.shape[1]
        return torch.stack([at - 50.01, -(at - 50).abs()], -1)


@pytest.mark.parametrize("late", [0, 1, 3])
def test_measured(late: int) -> None:
    model: Any = Knows(late)
    found = measured(model, torch.zeros(4, 20, dtype=torch.long))
    assert found["half"] == pytest.approx(1 - late / 20) and found["missed"] == late
    assert (
        found["hit"] == float(late == 0)
        and found["off"] == 0
        and found["from_linear"] == pytest.approx(0, abs=1e-4)
    )


def test_exact_by_hand() -> None:
    assert second_half(4).tolist() == [False, False, True, True]
    found = exact(0, Budget(samples=8))
    assert found["even"] < 1e-4 and found["odd"] == pytest.approx(0.5, abs=1e-4)
    # A curve drawn once moves the middle of every length alike; a table's first gaps weigh less the longer
    # the text.
    warp, free = found["warp"], found["free"]
    assert warp[2] == pytest.approx(warp[0], rel=0.1) and warp[0] > 2 and free[2] < 0.7 * free[0]
