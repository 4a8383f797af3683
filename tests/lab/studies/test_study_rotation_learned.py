"""The rotation study: its measures on matrices whose answer is known."""

from __future__ import annotations

import torch

from vnait_lab.studies.rotation_learned import BACK, WIDTH, hit, turning
from vnait_lab.studies.sinusoid import codes, rotation


def test_hits_look_back_not_ahead() -> None:
    weight = rotation(BACK, WIDTH)
    for start in (0, 777):
        assert hit(weight, start, BACK) == 1 and hit(weight, start, -BACK) == 0
    assert hit(weight.T, 0, -BACK) == 1 and hit(torch.eye(WIDTH), 0, 0) == 1
    row, column = codes(torch.tensor([10]), WIDTH)[0], codes(torch.arange(64), WIDTH)
    assert int(torch.stack([row @ weight @ one for one in column]).argmax()) == 10 - BACK


def test_turning_is_what_commutes_with_rotations() -> None:
    amplitudes = torch.rand(WIDTH // 2, dtype=torch.float64).repeat_interleave(2)
    turned, mirror = (
        rotation(BACK, WIDTH) * amplitudes,
        torch.diag(torch.tensor([1.0, -1.0]).repeat(WIDTH // 2)),
    )
    other = rotation(11, WIDTH)
    assert torch.allclose(turned @ other, other @ turned) and abs(turning(turned) - 1) < 1e-12
    assert turning(mirror) == 0
    assert turning(torch.randn(WIDTH, WIDTH).double()) < 0.2
