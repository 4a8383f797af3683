"""Laplacian eigenvectors as positions: a text is a path graph, and its smoothest eigenvectors are cosines.

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
from matplotlib.figure import Figure
from scipy.fft import dct
from torch import Generator, Tensor

from vnait_lab.studies.figures import bars, dots, panels
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
from vnait_lab.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

ARMS = {
    "spectral": "1 and the first eigenvectors of D - A",
    "normalised": "the first eigenvectors of the normalised Laplacian",
    "sinusoid": "the sinusoidal code of the nodes' numbers, base 10,000",
}


def code(arm: str, path: Any, dim: int) -> Tensor:
    """The arm's code of a path's nodes, (N, dim)."""
    if arm == "spectral":
        return spectral(path, dim)
    if arm == "sinusoid":
        return sinusoid(torch.arange(len(path)), dim)
    matrix = nx.normalized_laplacian_matrix(path).toarray()
    return torch.linalg.eigh(torch.tensor(matrix, dtype=torch.float64)).eigenvectors[:, :dim]


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    random = Generator().manual_seed(seed)
    path = nx.path_graph(LENGTH)
    metrics: Metrics = {"cosine": least_cosine(code(arm, path, LENGTH))}
    if arm == "spectral":
        metrics["moved"] = [relabelled(graph, random) for graph in graphs(seed).values()]
        metrics["eigenvalues"] = eigenvalue_error(path)
    if arm == "sinusoid":
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
    sinusoids, eigenvectors = (spanned(code(arm, path, DIM)) for arm in ("sinusoid", "spectral"))
    found = torch.linalg.svdvals(sinusoids.T @ eigenvectors)
    return [*found.tolist(), *[0.0] * (DIM - len(found))]


def relabelled(graph: Any, random: Generator) -> list[float]:
    """The largest changes of the nodes' codes and of the projector if the nodes are renumbered."""
    order = torch.randperm(len(graph), generator=random)
    renumbered = nx.Graph()
    renumbered.add_nodes_from(order.tolist())  # node order[i] is now the i-th
    renumbered.add_edges_from(graph.edges)
    dim = whole(graph, NODES_DIM)
    old, new = spectral(graph, dim)[order], spectral(renumbered, dim)
    return [float((old - new).abs().max()), float((old @ old.T - new @ new.T).abs().max() / len(graph))]


@claim("The Laplacian eigenvectors of a path are the DCT's basis", source="004, spectral graph theory")
def judge_dct(found: Findings) -> Verdict:
    """Confirmed if every vector of D - A and of the normalised Laplacian is in it, to 1e-10; conditional if
    only of D - A.
    """
    plain, normalised = 1 - found.least("spectral", "cosine"), 1 - found.least("normalised", "cosine")
    worst = found.most("spectral", "eigenvalues")
    summary = f"1 - |cosine| with the DCT-II: at most {plain:.0e}, error of eigenvalues {worst:.0e}; "
    summary += f"for the normalised Laplacian {normalised:.2f}"
    if max(plain, worst) > 1e-10:
        return Verdict("refuted", summary)
    if normalised <= 1e-10:
        return Verdict("confirmed", summary)
    return Verdict("conditional", summary, "the Laplacian is D - A")


@claim(
    "Sinusoids are close to a path's spectrum, which explains their success",
    source="004, spectral graph theory",
)
def judge_close(found: Findings) -> Verdict:
    """Confirmed if all principal cosines are at least .98, refuted if none is, else conditional."""
    cosines = found.curve("sinusoid", "shared").mean(0).tolist()
    near = [cosine for cosine in cosines if cosine >= 0.98]
    far = [cosine for cosine in cosines if cosine < 0.05]
    summary = (
        f"of {DIM} principal cosines with the first {DIM} eigenvectors {len(near)} are at least .98 and "
    )
    summary += f"{len(far)} below .05"
    return Verdict.among(near, cosines, summary, f"it concerns {len(near)} of the {DIM} dimensions")


@claim("A node's eigenvectors are a code of the node", source="004, spectral graph theory")
def judge_stable(found: Findings) -> Verdict:
    """Confirmed if renumbering the nodes changes no code (1e-9), conditional if only no inner product."""
    code, projector = found.curve("spectral", "moved").max(0).T
    moved = [name for name, change in zip(graphs(0), code, strict=True) if change > 1e-9]
    summary = (
        f"renumbering the nodes changes codes on {len(moved)} of {len(code)} graphs ({', '.join(moved)}: "
    )
    summary += "equal eigenvalues, or signs that symmetry leaves open), and projectors by at most "
    summary += f"{projector.max():.0e}"
    if not moved:
        return Verdict("confirmed", summary)
    if projector.max() > 1e-9:
        return Verdict("refuted", summary)
    return Verdict("conditional", summary, "codes are read by their inner products")


def draw(found: Findings) -> Figure:
    figure, (left, middle, right) = panels(2, 3, 3, size=(12, 3.6))
    bars(left, list(ARMS), {"": [found.values(arm, "cosine") for arm in ARMS]})
    left.set(ylabel="least |cosine| with the DCT-II", title=f"path of {LENGTH}, all {LENGTH} vectors")
    cosines = found.curve("sinusoid", "shared")
    bars(middle, [str(k) for k in range(1, DIM + 1)], {"": cosines.T.tolist()})
    middle.axhline(0.98, color="black", ls=":", lw=1)
    middle.set_xlabel(f"principal angle of {DIM} sinusoids and {DIM} eigenvectors")
    middle.set_ylabel("cosine (dotted: .98)")
    middle.set_title(f"path of {LENGTH}; one dot per seed (n={len(cosines)})")
    code, projector = found.curve("spectral", "moved").transpose(2, 1, 0).tolist()
    dots(right, list(graphs(0)), {"codes": code, "their inner products": projector})
    right.axvline(1e-9, color="black", ls=":", lw=1)
    right.set(xscale="log", xlabel="largest change (dotted: 1e-9)")
    right.set_title("spectral, nodes renumbered; one mark per seed")
    right.legend(loc="center right")
    return figure


STUDY = Study(
    name="spectrum",
    subject="Laplacian eigenvectors as positions: the DCT of a path, and stability under renumbering",
    data=DATA,
    measure="cosines with the DCT-II and with the span of sinusoids; changes of a code if the nodes are "
    "renumbered, d columns each",
    smallest="1e-10 for an identity, 1e-9 for an unchanged code; .98 for a principal cosine",
    arms=ARMS,
    controls=[
        Control(
            statement="eigenvectors of the normalised Laplacian are not the DCT's: a cosine below .9",
            arm="normalised",
            mechanism="spectral",
            fails=lambda found: found.least("normalised", "cosine") < 0.9,
        ),
    ],
    claims=[judge_dct, judge_close, judge_stable],
    full=Budget(seeds=5),
    quick=Budget(seeds=2),
    run=run,
    draw=draw,
)
