"""The heat study: its heat and what codes leave of it, by hand."""

from __future__ import annotations

import networkx as nx
import pytest
import torch
from torch import Generator

from vnait_lab.studies.heat import heat, law, unexplained
from vnait_lab.studies.parts.graphs import laplacian


def test_heat_by_many_small_steps() -> None:
    matrix = laplacian(nx.path_graph(5))
    signal = torch.tensor([1.0, 0, 0, 0, 0], dtype=torch.float64)
    spread = signal.clone()
    for _ in range(2_000):
        spread = spread - 1e-3 * matrix @ spread
    assert torch.allclose(heat(nx.path_graph(5), 2.0) @ signal, spread, atol=1e-3)
    assert not torch.allclose(heat(nx.path_graph(5), 1.9) @ signal, spread, atol=1e-3)


def test_what_eigenvectors_leave_of_noise_that_has_spread() -> None:
    """Drawn noise comes near the exact share, and the share of a mutant (another time, other vectors) is far
    from it.
    """
    path, random = nx.path_graph(64), Generator().manual_seed(0)
    drawn = heat(path, 10.0) @ torch.randn(64, 4_000, generator=random, dtype=torch.float64)
    share = unexplained("spectral", path, 8, drawn, random)
    assert share == pytest.approx(law(8), rel=0.1)
    assert unexplained("spectral", path, 8, heat(path, 10.0), random) == pytest.approx(law(8), rel=1e-9)
    assert unexplained("spectral", path, 8, heat(path, 5.0), random) > 2 * law(8)
    assert unexplained("sinusoid", path, 8, heat(path, 10.0), random) > 2 * law(8)
