"""Graphs and two codes of their nodes: Laplacian eigenvectors, and sinusoids of the nodes' numbers."""

from __future__ import annotations

from typing import Any

import networkx as nx
import torch
from torch import Tensor

from vnait.positions.coordinates import Spectrum
from vnait.positions.encodings import Sinusoid

LENGTH, DIM = 64, 16  # of the path, and of its codes
NODES_DIM = 8  # of the graphs' codes, at most
DATA = f"a path of {LENGTH} nodes; ten graphs: four social, three random, three regular"


def graphs(seed: int) -> dict[str, Any]:
    """Connected unweighted graphs of 15 to 77 nodes: four social ones, three random, three regular."""
    drawn = {
        "karate club": nx.karate_club_graph(),
        "Les Misérables": nx.les_miserables_graph(),
        "Florentine families": nx.florentine_families_graph(),
        "Davis' women": nx.davis_southern_women_graph(),
        "small world": nx.connected_watts_strogatz_graph(64, 4, 0.1, seed=seed),
        "scale-free": nx.barabasi_albert_graph(64, 2, seed=seed),
        "random regular": nx.random_regular_graph(4, 64, seed=seed),
        "grid": nx.grid_2d_graph(8, 8),
        "tree": nx.balanced_tree(2, 5),
        "cycle": nx.cycle_graph(64),
    }
    return {
        name: nx.convert_node_labels_to_integers(nx.Graph(list(graph.edges))) for name, graph in drawn.items()
    }


def laplacian(graph: Any) -> Tensor:
    """D - A, with the nodes in the graph's own order."""
    return torch.tensor(nx.laplacian_matrix(graph).toarray(), dtype=torch.float64)


def path_eigenvalues() -> Tensor:
    """2 - 2 cos(pi k / n): the eigenvalues of D - A of a path of n = `LENGTH` nodes, in closed form."""
    return 2 - 2 * (torch.pi * torch.arange(LENGTH, dtype=torch.float64) / LENGTH).cos()


def whole(graph: Any, dim: int) -> int:
    """The largest number of columns up to `dim` that splits no eigenspace: the choice of vectors within a
    split one would be arbitrary.
    """
    rise = torch.linalg.eigvalsh(laplacian(graph)).diff() > 1e-9
    return max(size for size in range(1, dim + 1) if rise[size - 1])


def spectral(graph: Any, dim: int) -> Tensor:
    """The spectral code of the nodes (N, dim): 1 and the first eigenvectors of D - A."""
    vectors = Spectrum(size=dim - 1, graph=graph)(None, torch.ones(1, len(graph), dtype=torch.bool))[0]
    return torch.cat([torch.ones_like(vectors[:, :1]), vectors], 1)


def sinusoid(number: Tensor, dim: int, base: float = 10_000.0) -> Tensor:
    """The sinusoidal code (N, dim) of the nodes' numbers (N,)."""
    return Sinusoid(dim=dim, base=base)(number.double()[None, :, None]).added[0]


def spanned(code: Tensor) -> Tensor:
    """An orthonormal basis of the code's column space, without directions at rounding level."""
    left, size, _ = torch.linalg.svd(code, full_matrices=False)
    return left[:, size > 1e-13 * size[0]]
