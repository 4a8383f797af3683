"""The spectrum study: its shares and its renumbering, by hand."""

from __future__ import annotations

import math

import networkx as nx
import pytest
import torch
from torch import Generator

from vnait.studies.spectrum import codes, graphs, heat, laplacian, law, least_cosine, relabelled, unexplained, whole


def test_heat_by_many_small_steps() -> None:
    matrix = laplacian(nx.path_graph(5))
    signal = torch.tensor([1.0, 0, 0, 0, 0], dtype=torch.float64)
    spread = signal.clone()
    for _ in range(2_000):
        spread = spread - 1e-3 * matrix @ spread
    assert torch.allclose(heat(nx.path_graph(5), 2.0) @ signal, spread, atol=1e-3)
    assert not torch.allclose(heat(nx.path_graph(5), 1.9) @ signal, spread, atol=1e-3)


def test_what_eigenvectors_leave_of_noise_that_has_spread() -> None:
    """Drawn noise comes near the exact share, and the share of a mutant (another time, other vectors) is far from it."""
    path, random = nx.path_graph(64), Generator().manual_seed(0)
    drawn = heat(path, 10.0) @ torch.randn(64, 4_000, generator=random, dtype=torch.float64)
    share = unexplained("spectral", path, 8, drawn, random)
    assert share == pytest.approx(law(8), rel=0.1)
    assert unexplained("spectral", path, 8, heat(path, 10.0), random) == pytest.approx(law(8), rel=1e-9)
    assert unexplained("spectral", path, 8, heat(path, 5.0), random) > 2 * law(8)
    assert unexplained("sinusoid", path, 8, heat(path, 10.0), random) > 2 * law(8)


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
    own = codes("spectral", cycle, 7, torch.eye(1), Generator())[0]
    assert torch.allclose(own.T @ own / 64, torch.eye(7, dtype=torch.float64), atol=1e-9)
