"""The sinusoid study: its rotation is not built from the table it is held against."""

from __future__ import annotations

import math

import torch

from vnait_lab.studies.sinusoid import codes, diagonal_share, rotation, sums


def test_rotation_by_hand() -> None:
    code = codes(torch.tensor([10.0]), 4)[0]
    turned = rotation(5, 4) @ code
    assert torch.allclose(turned[:2], torch.tensor([math.sin(15), math.cos(15)]).double())
    assert torch.allclose(turned[2:], torch.tensor([math.sin(0.15), math.cos(0.15)]).double())


def test_rotations_compose() -> None:
    assert torch.allclose(rotation(7, 8) @ rotation(5, 8), rotation(12, 8), atol=1e-14)
    assert not torch.allclose(rotation(7, 8), rotation(7, 8).T, atol=0.1)


def test_the_share_of_the_diagonals_by_hand() -> None:
    """Of [[1, 1], [-1, -1]] the diagonals have the means -1, 0 and 1, which explain 2 of 4."""
    assert diagonal_share(torch.tensor([[1.0, 1.0], [-1.0, -1.0]])) == 0.5
    assert diagonal_share(torch.tensor([[0.0, 1.0, 2.0], [-1.0, 0.0, 1.0]])) == 1


def test_sums_of_places_multiply_codes() -> None:
    found = sums(4)
    assert found["sum_product"] < 1e-13 and found["sum_linear"] < 0.2
