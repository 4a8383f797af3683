"""The spectrum study: its cosines and its renumbering, by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Generator

from vnait_lab.studies.parts.graphs import graphs, spectral, whole
from vnait_lab.studies.spectrum import least_cosine, relabelled


def test_cosines_see_one_wrong_vector() -> None:
    place = torch.arange(64, dtype=torch.float64)[:, None] + 0.5
    waves = torch.cos(math.pi * place * torch.arange(64) / 64)
    assert least_cosine(-waves) == pytest.approx(1, abs=1e-12)
    assert least_cosine(waves[:, [0, 2, 1, *range(3, 64)]]) < 0.1


def test_new_numbers_of_a_cycle() -> None:
    """A cycle's code turns with its numbers, and no inner product does; the eigenspaces are whole."""
    cycle = graphs(0)["cycle"]
    assert whole(cycle, 8) == 7 and whole(cycle, 9) == 9
    code, projector = relabelled(cycle, Generator().manual_seed(0))
    assert code > 0.1 and projector < 1e-12
    own = spectral(cycle, 7)
    assert torch.allclose(own.T @ own / 64, torch.eye(7, dtype=torch.float64), atol=1e-9)
