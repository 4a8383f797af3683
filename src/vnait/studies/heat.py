"""Heat on a graph: what the first Laplacian eigenvectors tell of it, and of signals that are not smooth.

Heat that spreads along the edges, exp(-t L) s, damps the eigenvector u_k of L = D - A by exp(-t lambda_k): so of white noise s, spread
for t, the first d eigenvectors leave the share sum_{k >= d} exp(-2 t lambda_k) / sum_k exp(-2 t lambda_k) unexplained. White noise is
averaged exactly: the share is that of exp(-t L). Of a path of n tokens lambda_k = 2 - 2 cos(pi k / n): see the study `spectrum`.

All codes have d columns here; the constant vector is one of the spectral code's.
"""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor

from vnait.studies.figures import dots, lines, panels
from vnait.studies.parts.graphs import DIM, LENGTH, NODES_DIM, graphs, laplacian, sinusoid, spanned, spectral, whole
from vnait.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

TIME, NODES_TIME = 10.0, 2.0  # of the path, of the graphs
DIMS = range(2, 21)
FREQUENCY = 1.0  # radians a token: a signal that is not smooth
BASES = [2.0**power for power in range(1, 14)] + [10_000.0]
ARMS = {
    "spectral": "1 and the first eigenvectors of D - A",
    "sinusoid": "the sinusoidal code of the nodes' numbers, base 10,000",
    "sinusoid, best base": f"the same with the base of 2 to 10,000 (of {len(BASES)}) that fits the signal best",
    "sinusoid, random order": "the sinusoidal code, nodes numbered at random",
    "optimum": "the best subspace of d columns for the signal, by its singular vectors",
}
DRAWN = ("spectral", "sinusoid", "sinusoid, best base", "sinusoid, random order")


def codes(arm: str, graph: Any, dim: int, signal: Tensor, random: Generator) -> list[Tensor]:
    """The arm's codes of the nodes, each (N, dim); several where the best is to be taken."""
    if arm == "spectral":
        return [spectral(graph, dim)]
    if arm == "optimum":
        return [torch.linalg.svd(signal).U[:, :dim]]
    number = torch.randperm(len(graph), generator=random) if "random" in arm else torch.arange(len(graph))
    return [sinusoid(number, dim, base) for base in (BASES if "best" in arm else [10_000.0])]


def unexplained(arm: str, graph: Any, dim: int, signal: Tensor, random: Generator) -> float:
    """The share of a signal's columns (N, M) that a linear map of the code can't tell, least squares."""
    shares = []
    for code in codes(arm, graph, dim, signal, random):
        span = spanned(code)
        shares.append(float((signal - span @ (span.T @ signal)).square().sum() / signal.square().sum()))
    return min(shares)


def heat(graph: Any, time: float) -> Tensor:
    return torch.matrix_exp(-time * laplacian(graph))


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    random = Generator().manual_seed(seed)
    path, token = nx.path_graph(LENGTH), torch.arange(LENGTH, dtype=torch.float64)[:, None]
    warm, wave, noise = heat(path, TIME), (FREQUENCY * token).sin(), torch.eye(LENGTH, dtype=torch.float64)
    own = graphs(seed).values()
    return {
        "path": [unexplained(arm, path, dim, warm, random) for dim in DIMS],
        "wave": unexplained(arm, path, DIM, wave, random),
        "noise": unexplained(arm, path, DIM, noise, random),
        "graphs": [unexplained(arm, one, whole(one, NODES_DIM), heat(one, NODES_TIME), random) for one in own],
    }


def law(dim: int) -> float:
    """What d eigenvectors leave of heat on the path, in closed form."""
    share = np.exp(-2 * TIME * (2 - 2 * np.cos(np.pi * np.arange(LENGTH) / LENGTH)))
    return float(share[dim:].sum() / share.sum())


def on_path(found: Findings, arm: str) -> np.ndarray:
    """Shares left, a number of columns each."""
    return found.curve(arm, "path").mean(0)


def random_is_worse(found: Findings) -> bool:
    return bool((found.curve("sinusoid, random order", "graphs") > 2 * found.curve("spectral", "graphs")).all())


@claim("They are the optimal basis of heat that spreads on the graph", source="004, spectral graph theory")
def judge_optimal(found: Findings) -> Verdict:
    """Confirmed where they leave what the best subspace leaves, and the closed form, to 1e-5 of it at every d."""
    own, best = on_path(found, "spectral"), on_path(found, "optimum")
    off = max(abs(own / best - 1).max(), max(abs(own[row] / law(dim) - 1) for row, dim in enumerate(DIMS)))
    said = f"what d = {DIMS[0]} to {DIMS[-1]} eigenvectors leave is the least possible, and the closed form, to {off:.0e} of it"
    return Verdict("confirmed" if off <= 1e-5 else "refuted", said)


@claim("A spectral code fits heat better than the sinusoidal code", source="004, spectral graph theory")
def judge_heat(found: Findings) -> Verdict:
    """Confirmed where it leaves less at every d than a sinusoid of the best base, and at d=16 a tenth or less."""
    own, plain, best = (on_path(found, arm) for arm in ("spectral", "sinusoid", "sinusoid, best base"))
    rows = [DIMS.index(dim) for dim in (4, 8, DIM)]
    said = "left of the heat, spectral / sinusoid / at its best base: "
    said += ", ".join(f"{own[row]:.2g} / {plain[row]:.2g} / {best[row]:.2g} (d={DIMS[row]})" for row in rows)
    right = (own < best).all() and own[rows[-1]] <= best[rows[-1]] / 10
    return Verdict("confirmed" if right else "refuted", said)


@claim("They are the natural functions of a position", source="004, spectral graph theory")
def judge_universal(found: Findings) -> Verdict:
    """Confirmed where they leave no more than the sinusoid of a wave and of noise too, conditional where of heat alone."""
    names = {"wave": f"sin({FREQUENCY:g} t)", "noise": "white noise"}
    pairs = {name: (found.mean("spectral", name), found.mean("sinusoid", name)) for name in names}
    heats = on_path(found, "spectral")[-1], on_path(found, "sinusoid")[-1]
    said = f"left by d={DIM}, spectral / sinusoid: "
    said += ", ".join(f"{names[name]} {one:.2g} / {other:.2g}" for name, (one, other) in pairs.items())
    if all(one <= other for one, other in pairs.values()) and heats[0] <= heats[1]:
        return Verdict("confirmed", said)
    if heats[0] > heats[1]:
        return Verdict("refuted", said)
    return Verdict("conditional", said, "the signal is smooth along the edges")


@claim("The eigenvectors of a graph carry positions over to any structure", source="004, spectral graph theory")
def judge_graphs(found: Findings) -> Verdict:
    """Confirmed where they leave less than the best base on every graph."""
    own, given, best, order = (found.curve(arm, "graphs").mean(0) for arm in DRAWN)
    names, wins = list(graphs(0)), int((own < best).sum())
    said = f"less is left than by the best base on {wins} of {len(names)} graphs; spectral / nodes as numbered / at random: "
    said += ", ".join(f"{name} {own[row]:.2g} / {given[row]:.2g} / {order[row]:.2g}" for row, name in enumerate(names))
    return Verdict("confirmed" if wins == len(names) else "refuted", said)


def draw(found: Findings) -> Figure:
    figure, (left, right) = panels(1, 1, size=(10, 4.2))
    lines(left, DIMS, {arm: found.curve(arm, "path") for arm in DRAWN})
    left.plot(DIMS, [law(dim) for dim in DIMS], "-", color="silver", lw=6, marker="", zorder=0, label="closed form")
    left.set(yscale="log", xlabel="columns d", xticks=DIMS[::2], ylabel="share of the heat left")
    left.set_title(f"path of {LENGTH}, white noise averaged exactly, t={TIME:g}; mean and range")
    left.legend()
    shares = {arm: found.curve(arm, "graphs") for arm in DRAWN}
    dots(right, list(graphs(0)), {arm: values.T.tolist() for arm, values in shares.items()})
    right.set(xscale="log", xlabel="share of the heat left")
    right.set_title(f"graphs, d up to {NODES_DIM}, t={NODES_TIME:g}; a mark a seed (n={len(shares['spectral'])})")
    right.legend()
    return figure


STUDY = Study(
    name="heat",
    subject="Heat on texts and graphs: what Laplacian eigenvectors tell of it",
    data=f"a path of {LENGTH} nodes; ten graphs: four of people, three drawn at random, three regular; heat of white noise on them",
    measure="the share of a signal that a linear map of the code leaves unexplained, d columns each",
    smallest="1e-5 for an identity; a tenth of the best sinusoid's share at d=16",
    arms=ARMS,
    controls=[
        Control(
            says="nodes numbered at random leave more than twice what eigenvectors leave, on every graph",
            arm="sinusoid, random order",
            mechanism="spectral",
            fails=random_is_worse,
        ),
    ],
    claims=[judge_optimal, judge_heat, judge_universal, judge_graphs],
    full=Budget(seeds=5),
    quick=Budget(seeds=2),
    run=run,
    draw=draw,
)
