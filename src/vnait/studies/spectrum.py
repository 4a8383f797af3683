"""Laplacian eigenvectors as positions: a text is a path graph, and its smoothest eigenvectors are cosines.

L = D - A. Of a path of n tokens u_k(i) = cos(pi k (i + 1/2) / n), the DCT-II, with eigenvalue 2 - 2 cos(pi k / n). So the first d of
them and d sinusoids can span nearly the same functions of a place, and how nearly the principal angles between the two say.

A graph's eigenvectors are its own up to their signs, and where eigenvalues are equal up to a rotation among theirs: new numbers of the
nodes may change every code, and no inner product of two codes. What the eigenvectors are good for the study `heat` asks.

All codes have d columns here; the constant vector is one of the spectral code's.
"""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.fft import dct
from torch import Generator, Tensor

from vnait.studies.figures import bars, dots, panels
from vnait.studies.parts.graphs import DIM, LENGTH, NODES_DIM, graphs, laplacian, sinusoid, spanned, spectral, whole
from vnait.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

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
    random, path = Generator().manual_seed(seed), nx.path_graph(LENGTH)
    metrics: Metrics = {"cosine": least_cosine(code(arm, path, LENGTH))}
    if arm == "spectral":
        metrics["moved"] = [relabelled(graph, random) for graph in graphs(seed).values()]
        metrics["eigenvalues"] = eigenvalue_error(path)
    if arm == "sinusoid":
        metrics["shared"] = shared(path)
    return metrics


def least_cosine(code: Tensor) -> float:
    """Of a code's columns with the vectors of the DCT-II of the same number, as scipy has it, whatever the sign."""
    waves = torch.tensor(dct(np.eye(LENGTH), axis=0, norm="ortho")).T
    return float((torch.nn.functional.normalize(code, dim=0) * waves).sum(0).abs().min())


def eigenvalue_error(path: Any) -> float:
    """Between a path's eigenvalues and 2 - 2 cos(pi k / n)."""
    law = 2 - 2 * (torch.pi * torch.arange(LENGTH, dtype=torch.float64) / LENGTH).cos()
    return float((torch.linalg.eigvalsh(laplacian(path)) - law).abs().max())


def shared(path: Any) -> list[float]:
    """Cosines of the principal angles between the sinusoidal and the spectral code of a path, the largest first."""
    one, other = (spanned(code(arm, path, DIM)) for arm in ("sinusoid", "spectral"))
    found = torch.linalg.svdvals(one.T @ other)
    return [*found.tolist(), *[0.0] * (DIM - len(found))]


def relabelled(graph: Any, random: Generator) -> list[float]:
    """What new numbers of the nodes change in their code: its largest entry, and its projector's."""
    order = torch.randperm(len(graph), generator=random)
    turned = nx.Graph()
    turned.add_nodes_from(order.tolist())  # node order[i] is now the i-th
    turned.add_edges_from(graph.edges)
    dim = whole(graph, NODES_DIM)
    old, new = spectral(graph, dim)[order], spectral(turned, dim)
    return [float((old - new).abs().max()), float((old @ old.T - new @ new.T).abs().max() / len(graph))]


@claim("The Laplacian eigenvectors of a path are the DCT's basis", source="004, spectral graph theory")
def judge_dct(found: Findings) -> Verdict:
    """Confirmed where every vector of D - A is one to 1e-10, and of the normalised Laplacian; conditional where not of that."""
    plain, normalised = 1 - found.least("spectral", "cosine"), 1 - found.least("normalised", "cosine")
    worst = found.most("spectral", "eigenvalues")
    said = f"1 - |cosine| with the DCT-II: {plain:.0e} at most, eigenvalues to {worst:.0e}; of the normalised Laplacian {normalised:.2f}"
    if max(plain, worst) > 1e-10:
        return Verdict("refuted", said)
    return Verdict("confirmed", said) if normalised <= 1e-10 else Verdict("conditional", said, "the Laplacian is D - A")


@claim("Sinusoids are close to a path's spectrum, which explains their success", source="004, spectral graph theory")
def judge_close(found: Findings) -> Verdict:
    """Confirmed where all principal cosines are .98 or more, refuted where none is, else conditional."""
    cosines = found.curve("sinusoid", "shared").mean(0).tolist()
    near, far = [one for one in cosines if one >= 0.98], [one for one in cosines if one < 0.05]
    said = f"of {DIM} principal cosines with the first {DIM} eigenvectors {len(near)} are .98 or more and {len(far)} below .05"
    return Verdict.among(near, cosines, said, f"it is said of {len(near)} of the {DIM} dimensions")


@claim("A node's eigenvectors are a code of the node", source="004, spectral graph theory")
def judge_stable(found: Findings) -> Verdict:
    """Confirmed where new numbers of the nodes change no code (1e-9), conditional where no inner product."""
    code, projector = found.curve("spectral", "moved").max(0).T
    moved = [name for name, change in zip(graphs(0), code, strict=True) if change > 1e-9]
    said = f"new numbers of the nodes change codes on {len(moved)} of {len(code)} graphs ({', '.join(moved)}: equal eigenvalues, or "
    said += f"signs that symmetry leaves open), and projectors by {projector.max():.0e} at most"
    if not moved:
        return Verdict("confirmed", said)
    if projector.max() > 1e-9:
        return Verdict("refuted", said)
    return Verdict("conditional", said, "codes are read by their inner products")


def draw(found: Findings) -> Figure:
    figure, (left, middle, right) = panels(2, 3, 3, size=(12, 3.6))
    bars(left, list(ARMS), {"": [found.values(arm, "cosine") for arm in ARMS]})
    left.set(ylabel="least |cosine| with the DCT-II", title=f"path of {LENGTH}, all {LENGTH} vectors")
    cosines = found.curve("sinusoid", "shared")
    bars(middle, [str(k) for k in range(1, DIM + 1)], {"": cosines.T.tolist()})
    middle.axhline(0.98, color="black", ls=":", lw=1)
    middle.set(xlabel=f"principal angle of {DIM} sinusoids and {DIM} eigenvectors", ylabel="cosine (dotted: .98)")
    middle.set_title(f"path of {LENGTH}; a dot a seed (n={len(cosines)})")
    code, projector = found.curve("spectral", "moved").transpose(2, 1, 0).tolist()
    dots(right, list(graphs(0)), {"codes": code, "their inner products": projector})
    right.axvline(1e-9, color="black", ls=":", lw=1)
    right.set(
        xscale="log", xlabel="largest change (dotted: 1e-9)", title="spectral, nodes numbered anew; a mark a seed"
    )
    right.legend(loc="center right")
    return figure


STUDY = Study(
    name="spectrum",
    subject="Laplacian eigenvectors as positions: the DCT of a path, and whether they are a node's own",
    data=f"a path of {LENGTH} nodes; ten graphs: four of people, three drawn at random, three regular",
    measure="cosines with the DCT-II and with the span of sinusoids; what new numbers of the nodes change in a code, d columns each",
    smallest="1e-10 for an identity, 1e-9 for a code that new numbers leave as it is; .98 of a principal cosine",
    arms=ARMS,
    controls=[
        Control(
            says="another Laplacian's eigenvectors are not the DCT's: a cosine below .9",
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
