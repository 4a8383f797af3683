"""The sinusoid study: its rotation is not built from the table it is held against."""

from __future__ import annotations

import math

import torch

from vnait_lab.studies.sinusoid import codes, rotation


def test_rotation_by_hand() -> None:
    code = codes(torch.tensor([10.0]), 4)[0]
    turned = rotation(5, 4) @ code
    assert torch.allclose(turned[:2], torch.tensor([math.sin(15), math.cos(15)]).double())
    assert torch.allclose(turned[2:], torch.tensor([math.sin(0.15), math.cos(0.15)]).double())


def test_rotations_compose() -> None:
    assert torch.allclose(rotation(7, 8) @ rotation(5, 8), rotation(12, 8), atol=1e-14)
    assert not torch.allclose(rotation(7, 8), rotation(7, 8).T, atol=0.1)
