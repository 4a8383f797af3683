"""Known positions of the nodes of a batch of graphs, one graph per row; `Index` passes them on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral

import torch
from jaxtyping import Float
from torch import Tensor

from vnait.positions.coordinates.spectrum import Graph, Spectrum, laplacian, levels


def spectra(graphs: Iterable[Graph], *, size: int) -> Float[Tensor, "B T size"]:
    """The first `size` eigenvectors of each graph's own Laplacian, as in `Spectrum`, in float64.

    Tokens are a graph's nodes, in its own order, from the left; T is the largest number of nodes. 0 at
    padding, in place of eigenvectors that a graph does not have, and of an eigenspace that `size` cuts: which
    of its vectors are kept would be arbitrary. Equal graphs have equal signs, which are otherwise arbitrary.

    >>> import networkx
    >>> spectra([networkx.path_graph(2), networkx.path_graph(1)], size=2)[..., 0].round(decimals=3)
    tensor([[ 1., -1.],
            [ 0.,  0.]], dtype=torch.float64)
    """
    if size < 1:
        raise ValueError(f"size={size}; take at least 1 eigenvector.")
    return _batch([_spectrum(graph, size) for graph in _several(graphs)])


def _spectrum(graph: Graph, size: int) -> Float[Tensor, "N size"]:
    count = len(graph.adj)
    vectors = torch.zeros(count, size, dtype=torch.float64, device="cpu")
    if count > 1:
        spectrum = Spectrum(size=count - 1, graph=graph)
        assert spectrum.eigenvalues is not None and spectrum.nodes is not None
        level = levels(spectrum.eigenvalues)
        whole = int((level < level[size]).sum()) if size < len(level) else len(level)
        vectors[:, :whole] = spectrum.nodes[:, :whole]
    return vectors


def returns(graphs: Iterable[Graph], *, steps: Sequence[int]) -> Float[Tensor, "B T S"]:
    """The probability that a random walk is back at its node after each number of steps, in float64.

    (P^k)_ii with P = D^-1 A, loops left out; 1 at a node without edges. Unlike eigenvectors it has no
    arbitrary sign. Tokens are nodes as in `spectra`, and padding is 0. Source: arXiv 2110.07875, section 4.

    >>> import networkx
    >>> returns([networkx.star_graph(2)], steps=[1, 2])
    tensor([[[0.0000, 1.0000],
             [0.0000, 0.5000],
             [0.0000, 0.5000]]], dtype=torch.float64)
    """
    if not steps or not all(isinstance(count, Integral) and count >= 1 for count in steps):
        raise ValueError(f"steps={list(steps)}; give one or more whole numbers of steps, each at least 1.")
    return _batch([_returns(graph, steps) for graph in _several(graphs)])


def _several(graphs: Iterable[Graph]) -> Iterable[Graph]:
    if hasattr(graphs, "adj"):
        raise ValueError("one graph was given; put it into a list.")
    return graphs


def _returns(graph: Graph, steps: Sequence[int]) -> Float[Tensor, "N S"]:
    difference = laplacian(graph)
    degree = difference.diagonal()[:, None]
    stay = torch.eye(len(difference), dtype=torch.float64, device="cpu")
    walk = stay - difference / degree.where(degree > 0, 1)
    return torch.stack([torch.matrix_power(walk, count).diagonal() for count in steps], -1)


def _batch(rows: list[Tensor]) -> Tensor:
    if not rows:
        raise ValueError("there are no graphs; give one or more.")
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
