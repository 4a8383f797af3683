"""Coordinates in a graph: the smoothest eigenvectors of its Laplacian."""

from __future__ import annotations

import logging
import math
import operator
from collections.abc import Sequence
from numbers import Real
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vnait.positions.coordinates.grids import check_tokens, unravel
from vnait.positions.coordinates.shared import At, Mask, Vectors, check_mask, nearest_real, rank

logger = logging.getLogger("vnait")

EQUAL = 1e-10  # eigenvalues nearer than this fraction of the largest are equal; solvers are exact to 1e-15
TIED = 1e-6  # entries of a projector nearer than this fraction are equal, and the first node's is taken


@runtime_checkable
class Graph(Protocol):
    """The part of a networkx graph that is read here, without importing networkx."""

    adj: Any
    edges: Any

    def is_directed(self) -> bool:
        """Whether edges have a direction."""


class Spectrum(nn.Module):
    """The first `size` non-constant eigenvectors of the Laplacian D - A, (B, T, size) in float64.

    graph     None: the path of the sentence's n tokens, u_k(i) = sqrt 2 cos(pi k (i + 1/2) / n), k = 1 ...
              size; 0 if k >= n
              sizes: a grid in reading order, whose eigenvectors are products of those of its axes; equal
              eigenvalues in the reading order of their frequencies (k_0, k_1, ...)
              a networkx graph: its nodes in its own order are the tokens; a missing "weight" is 1

    The mean square over the nodes is 1. A sentence must have a token per node of a fixed graph, which has
    `eigenvalues` (size,). float64, since float32 can't separate neighbours near the ends of a path of some
    thousands of tokens.

    Eigenvectors are defined up to a sign, and up to a rotation if eigenvalues are equal. Here a graph's are
    the same on every machine: each eigenspace's basis depends on its projector only, by Cholesky steps at the
    largest entry of its diagonal, the first among equals, where the vector is positive. If `size` cuts an
    eigenspace, the choice is arbitrary, and a warning is logged. The first c - 1 vectors of a graph in c
    parts distinguish the parts.

    Source: STUDIES of this project, B15; as node positions, arXiv 2003.00982, section 4.

    >>> Spectrum(size=1)(None, torch.ones(1, 2, dtype=torch.bool))[0, :, 0].round(decimals=6).tolist()
    [1.0, -1.0]
    """

    causal = False
    per_sentence = False

    def __init__(self, *, size: int, graph: Graph | Sequence[int] | None = None) -> None:
        super().__init__()
        if size < 1:
            raise ValueError(f"size={size}; take at least 1 eigenvector.")
        self.size = size
        # Plain tensors, not buffers: those become bfloat16 with the model, and stay empty on "meta".
        self.eigenvalues: Tensor | None = None
        self.nodes: Tensor | None = None
        if isinstance(graph, Graph):
            self.eigenvalues, self.nodes = _of_graph(graph, size)
        elif graph is not None:
            self.eigenvalues, self.nodes = _of_grid(graph, size)

    def forward(self, vectors: Vectors, mask: Mask) -> At:
        check_mask(mask)
        number = nearest_real(rank(mask), mask)
        if self.nodes is None:
            return _of_path(number, mask.sum(-1), self.size)
        count = len(self.nodes)
        remedy = "give a token per node, or leave `graph` out for the path of each sentence's own tokens."
        check_tokens(mask, count, holder=f"the graph has {count} nodes", remedy=remedy)
        return self.nodes.to(mask.device)[number]

    def extra_repr(self) -> str:
        return f"size={self.size}" if self.nodes is None else f"size={self.size}, nodes={len(self.nodes)}"


def _of_path(number: Int[Tensor, "B T"], length: Int[Tensor, " B"], size: int) -> At:
    frequency = torch.arange(1, size + 1, dtype=torch.float64, device=number.device)
    length = length[:, None, None]
    return _wave(frequency, number[..., None], length).masked_fill(frequency >= length, 0)


def _of_grid(shape: Sequence[int], size: int) -> tuple[Tensor, Tensor]:
    """Eigenvalues (size,) and eigenvectors (N, size), in closed form; a grid has a frequency per cell."""
    shape = tuple(map(operator.index, shape))
    if not shape or min(shape) < 1:
        raise ValueError(f"graph={shape}; a grid has one or more positive sizes.")
    _check_size(size, count := math.prod(shape))
    cells = unravel(torch.arange(count, device="cpu"), shape).double()
    sizes = torch.tensor(shape, dtype=torch.float64, device="cpu")
    values, order = (4 * (math.pi * cells / (2 * sizes)).sin().square()).sum(-1).sort(stable=True)
    level = levels(values)
    _warn_if_cut(values, level, size)
    # Rounding orders equal eigenvalues at random: within a level, order by the place in the grid.
    chosen = order[(level * count + order).argsort()][1 : size + 1]
    return values[1 : size + 1], _wave(cells[chosen], cells[:, None], sizes).prod(-1)


def _wave(frequency: Tensor, place: Tensor, length: Tensor) -> Tensor:
    """A path's eigenvector at a place: sqrt 2 cos(pi k (i + 1/2) / n), and 1 for k = 0."""
    height = 1 + (frequency > 0).double()
    return height.sqrt() * (math.pi * frequency * (place.double() + 0.5) / length).cos()


def _of_graph(graph: Graph, size: int) -> tuple[Tensor, Tensor]:
    """Eigenvalues (size,) and eigenvectors (N, size)."""
    matrix = laplacian(graph)
    _check_size(size, count := len(matrix))
    values, vectors = torch.linalg.eigh(matrix)
    level = levels(values)
    _warn_if_cut(values, level, size)
    basis: list[Tensor] = []
    for number in range(int(level[size]) + 1):
        space = vectors[:, level == number]
        projector = space @ space.T
        if number == 0:  # without the constant vector
            projector = projector - 1 / count
        basis += _canonical(projector, space.shape[1] - (number == 0))
    return values[1 : size + 1], math.sqrt(count) * torch.stack(basis[:size], -1)


def _canonical(projector: Float[Tensor, "N N"], rank: int) -> list[Tensor]:
    """An orthonormal basis of the projector's space: Cholesky steps, the largest diagonal entry first."""
    basis = []
    for _ in range(rank):
        height = projector.diagonal()
        pivot = int((height >= (1 - TIED) * height.max()).nonzero()[0])
        basis.append(projector[:, pivot] / height[pivot].sqrt())
        projector = projector - torch.outer(basis[-1], basis[-1])
    return basis


def laplacian(graph: Graph) -> Float[Tensor, "N N"]:
    """D - A, without loops; ValueError: a directed graph, a negative weight."""
    if graph.is_directed():
        raise ValueError(
            "the graph is directed, so its Laplacian is not symmetric; give graph.to_undirected()."
        )
    place = {node: number for number, node in enumerate(graph.adj)}
    weights = torch.zeros(len(place), len(place), dtype=torch.float64, device="cpu")
    for start, end, weight in graph.edges(data="weight", default=1.0):
        number = float(weight) if isinstance(weight, Real) else -1.0
        if not 0 <= number < math.inf:
            raise ValueError(
                f"the edge {start!r} - {end!r} has the weight {weight}; expected 0 or more, and finite."
            )
        weights[place[start], place[end]] += number
        weights[place[end], place[start]] += number
    return weights.sum(-1).diag() - weights  # a loop from a node to itself cancels


def _check_size(size: int, count: int) -> None:
    if size > count - 1:
        raise ValueError(
            f"size={size}, and a graph of {count} nodes has {max(count - 1, 0)} non-constant eigenvectors; "
            "take a smaller size."
        )


def levels(values: Float[Tensor, " N"]) -> Int[Tensor, " N"]:
    """The eigenspace of each of the ascending eigenvalues, from 0."""
    rise = values.diff() > EQUAL * values[-1]
    return nn.functional.pad(rise.long().cumsum(-1), (1, 0))


def _warn_if_cut(values: Tensor, level: Tensor, size: int) -> None:
    """Warn if the last eigenvalue taken equals the first one left out."""
    if size + 1 == len(level) or level[size] != level[size + 1]:
        return
    same = (level == level[size]).nonzero().flatten()
    whole = [str(end) for end in (max(int(same[0]) - 1, 0), int(same[-1])) if end]
    logger.warning(
        "eigenvalues %d and %d of the graph are equal (%.6g), so which of their eigenvectors size=%d keeps "
        "is arbitrary; take size=%s.",
        size,
        size + 1,
        values[size],
        size,
        " or ".join(whole),
    )
