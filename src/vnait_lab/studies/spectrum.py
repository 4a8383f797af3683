"""Laplacian eigenvectors as positions: the DCT of a path, and stability under renumbering.

L = D - A. For a path of n tokens u_k(i) = cos(pi k (i + 1/2) / n), the DCT-II, with eigenvalue 2 - 2 cos(pi k
/ n). So the first d eigenvectors and d sinusoids may span nearly the same functions of a position; the
principal angles between the two measure how nearly.

A graph determines its eigenvectors up to their signs, and up to a rotation among those of equal eigenvalues:
renumbering the nodes may change every code, but no inner product of two codes. The study `heat` tests what
the eigenvectors are useful for.

All codes have d columns, including the constant vector of the spectral code.
"""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import torch
from scipy.fft import dct
from torch import Generator, Tensor

from vnait_lab.kit import Bars, Dots, Figure, decided, each, figure
from vnait_lab.studies.parts.graphs import (
    DATA,
    DIM,
    LENGTH,
    NODES_DIM,
    graphs,
    laplacian,
    path_eigenvalues,
    sinusoid,
    spanned,
    spectral,
    whole,
)
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

VARIANTS = {
    "spectral": "1 and the first eigenvectors of D - A",
    "normalised": "the first eigenvectors of the normalised Laplacian",
    "sinusoid": "the sinusoidal code of the nodes' numbers, base 10,000",
}
STUDY = Study.of(
    __name__,
    source="004, spectral graph theory",
    data=DATA,
    measure="cosines with the DCT-II and with the span of sinusoids; changes of a code if the nodes are "
    "renumbered, d columns each",
    smallest="1e-10 for an identity, 1e-9 for an unchanged code; .98 for a principal cosine",
    variants=VARIANTS,
    full=Budget(seeds=5),
    quick=Budget(seeds=2),
)


def code(variant: str, path: Any, dim: int) -> Tensor:
    """The variant's code of a path's nodes, (N, dim)."""
    if variant == "spectral":
        return spectral(path, dim)
    if variant == "sinusoid":
        return sinusoid(torch.arange(len(path)), dim)
    matrix = nx.normalized_laplacian_matrix(path).toarray()
    return torch.linalg.eigh(torch.tensor(matrix, dtype=torch.float64)).eigenvectors[:, :dim]


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    random = Generator().manual_seed(seed)
    path = nx.path_graph(LENGTH)
    metrics: Metrics = {"cosine": least_cosine(code(variant, path, LENGTH))}
    if variant == "spectral":
        metrics["moved"] = [relabelled(graph, random) for graph in graphs(seed).values()]
        metrics["eigenvalues"] = eigenvalue_error(path)
    if variant == "sinusoid":
        metrics["shared"] = shared(path)
    return metrics


def least_cosine(code: Tensor) -> float:
    """The least |cosine| of a code's columns with the vectors of scipy's DCT-II of the same index."""
    waves = torch.tensor(dct(np.eye(LENGTH), axis=0, norm="ortho")).T
    return float((torch.nn.functional.normalize(code, dim=0) * waves).sum(0).abs().min())


def eigenvalue_error(path: Any) -> float:
    """The largest difference of a path's eigenvalues from 2 - 2 cos(pi k / n)."""
    return float((torch.linalg.eigvalsh(laplacian(path)) - path_eigenvalues()).abs().max())


def shared(path: Any) -> list[float]:
    """Cosines of the principal angles between the sinusoidal and the spectral code of a path, in descending
    order.
    """
    sinusoids, eigenvectors = (spanned(code(variant, path, DIM)) for variant in ("sinusoid", "spectral"))
    cosines = torch.linalg.svdvals(sinusoids.T @ eigenvectors)
    return [*cosines.tolist(), *[0.0] * (DIM - len(cosines))]


def relabelled(graph: Any, random: Generator) -> list[float]:
    """The largest changes of the nodes' codes and of the projector if the nodes are renumbered."""
    order = torch.randperm(len(graph), generator=random)
    renumbered = nx.Graph()
    renumbered.add_nodes_from(order.tolist())  # node order[i] is now the i-th
    renumbered.add_edges_from(graph.edges)
    dim = whole(graph, NODES_DIM)
    old, new = spectral(graph, dim)[order], spectral(renumbered, dim)
    return [float((old - new).abs().max()), float((old @ old.T - new @ new.T).abs().max() / len(graph))]


@STUDY.control(
    "eigenvectors of the normalised Laplacian are not the DCT's: a cosine below .9",
    variant="normalised",
    mechanism="spectral",
)
def normalised_is_no_dct(findings: Findings) -> bool:
    return findings.least("normalised", "cosine") < 0.9


@STUDY.claim("The Laplacian eigenvectors of a path are the DCT's basis")
def judge_dct(findings: Findings) -> Verdict:
    """Confirmed if every vector of D - A and of the normalised Laplacian is in it, to 1e-10; conditional if
    only of D - A.
    """
    plain, normalised = 1 - findings.least("spectral", "cosine"), 1 - findings.least("normalised", "cosine")
    worst = findings.most("spectral", "eigenvalues")
    summary = f"1 - |cosine| with the DCT-II: at most {plain:.0e}, error of eigenvalues {worst:.0e}; "
    summary += f"for the normalised Laplacian {normalised:.2f}"
    exact = max(plain, worst) <= 1e-10
    condition = "the Laplacian is D - A"
    return decided(exact and normalised <= 1e-10, summary, refuted=not exact, condition=condition)


@STUDY.claim("Sinusoids are close to a path's spectrum, which explains their success")
def judge_close(findings: Findings) -> Verdict:
    """Confirmed if all principal cosines are at least .98, refuted if none is, else conditional."""
    cosines = findings.curve("sinusoid", "shared").mean(0).tolist()
    near = {number: cosine >= 0.98 for number, cosine in enumerate(cosines)}
    count, far = sum(near.values()), sum(cosine < 0.05 for cosine in cosines)
    summary = f"of {DIM} principal cosines with the first {DIM} eigenvectors {count} are at least .98 "
    summary += f"and {far} below .05"
    return each(near, summary, f"it concerns {count} of the {DIM} dimensions")


@STUDY.claim("A node's eigenvectors are a code of the node")
def judge_stable(findings: Findings) -> Verdict:
    """Confirmed if renumbering the nodes changes no code (1e-9), conditional if only no inner product."""
    code, projector = findings.curve("spectral", "moved").max(0).T
    moved = [name for name, change in zip(graphs(0), code, strict=True) if change > 1e-9]
    summary = f"renumbering the nodes changes codes on {len(moved)} of {len(code)} graphs "
    summary += f"({', '.join(moved)}: equal eigenvalues, or signs that symmetry leaves open), and "
    summary += f"projectors by at most {projector.max():.0e}"
    condition = "codes are read by their inner products"
    return decided(not moved, summary, refuted=projector.max() > 1e-9, condition=condition)


@STUDY.draws
def draw(findings: Findings) -> Figure:
    plain = f"least |cosine| of {LENGTH} vectors with the DCT-II"
    left = Bars(findings.curves(VARIANTS, "cosine"), plain, width=2)
    cosines = dict(zip(map(str, range(1, DIM + 1)), findings.curve("sinusoid", "shared").T, strict=True))
    angle = f"principal angle of {DIM} sinusoids and {DIM} eigenvectors"
    middle = Bars(cosines, "cosine", upright=True, at_y={".98": 0.98}, xlabel=angle, width=3)
    code, projector = (
        dict(zip(graphs(0), moved, strict=True))
        for moved in findings.curve("spectral", "moved").transpose(2, 1, 0)
    )
    moved, change = {"codes": code, "their inner products": projector}, "largest change, nodes renumbered"
    right = Dots(moved, change, at_x={"1e-9": 1e-9}, xscale="log", legend="center right", width=3)
    return figure(left, middle, right)
