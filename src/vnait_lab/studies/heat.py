"""Heat on a graph, and signals that are not smooth, explained by the first Laplacian eigenvectors.

Heat that spreads along the edges, exp(-t L) s, damps the eigenvector u_k of L = D - A by exp(-t lambda_k). So
for white noise s, spread for time t, the first d eigenvectors leave the share sum_{k >= d} exp(-2 t lambda_k)
/ sum_k exp(-2 t lambda_k) unexplained. White noise is averaged exactly: the signal is the matrix exp(-t L).
For a path of n tokens lambda_k = 2 - 2 cos(pi k / n): see the study `spectrum`.

All codes have d columns, including the constant vector of the spectral code.
"""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor

from vnait_lab.studies.figures import dots, lines, panels
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

TIME, NODES_TIME = 10.0, 2.0  # for the path, for the graphs
DIMS = range(2, 21)
FREQUENCY = 1.0  # radians per token, of a signal that is not smooth
BASES = [2.0**power for power in range(1, 14)] + [10_000.0]
ARMS = {
    "spectral": "1 and the first eigenvectors of D - A",
    "sinusoid": "the sinusoidal code of the nodes' numbers, base 10,000",
    "sinusoid, best base": f"the same with the base of 2 to 10,000 (of {len(BASES)}) that fits the signal "
    "best",
    "sinusoid, random order": "the sinusoidal code, nodes numbered at random",
    "optimum": "the best subspace of d columns for the signal, by its singular vectors",
}
DRAWN = ("spectral", "sinusoid", "sinusoid, best base", "sinusoid, random order")


def codes(arm: str, graph: Any, dim: int, signal: Tensor, random: Generator) -> list[Tensor]:
    """The arm's codes of the nodes, each (N, dim); several if the best of them counts."""
    if arm == "spectral":
        return [spectral(graph, dim)]
    if arm == "optimum":
        return [torch.linalg.svd(signal).U[:, :dim]]
    number = torch.randperm(len(graph), generator=random) if "random" in arm else torch.arange(len(graph))
    return [sinusoid(number, dim, base) for base in (BASES if "best" in arm else [10_000.0])]


def unexplained(arm: str, graph: Any, dim: int, signal: Tensor, random: Generator) -> float:
    """The share of a signal's columns (N, M) that the best linear map of the code leaves unexplained."""
    shares = []
    for code in codes(arm, graph, dim, signal, random):
        span = spanned(code)
        shares.append(float((signal - span @ (span.T @ signal)).square().sum() / signal.square().sum()))
    return min(shares)


def heat(graph: Any, time: float) -> Tensor:
    return torch.matrix_exp(-time * laplacian(graph))


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    random = Generator().manual_seed(seed)
    path = nx.path_graph(LENGTH)
    token = torch.arange(LENGTH, dtype=torch.float64)[:, None]
    warm = heat(path, TIME)
    wave = (FREQUENCY * token).sin()
    noise = torch.eye(LENGTH, dtype=torch.float64)
    return {
        "path": [unexplained(arm, path, dim, warm, random) for dim in DIMS],
        "wave": unexplained(arm, path, DIM, wave, random),
        "noise": unexplained(arm, path, DIM, noise, random),
        "graphs": [
            unexplained(arm, graph, whole(graph, NODES_DIM), heat(graph, NODES_TIME), random)
            for graph in graphs(seed).values()
        ],
    }


def law(dim: int) -> float:
    """The share of heat on the path that d eigenvectors leave unexplained, in closed form."""
    share = (-2 * TIME * path_eigenvalues()).exp()
    return float(share[dim:].sum() / share.sum())


def on_path(found: Findings, arm: str) -> np.ndarray:
    """Unexplained shares by number of columns, averaged over seeds."""
    return found.curve(arm, "path").mean(0)


def random_is_worse(found: Findings) -> bool:
    return bool(
        (found.curve("sinusoid, random order", "graphs") > 2 * found.curve("spectral", "graphs")).all()
    )


@claim("They are the optimal basis of heat that spreads on the graph", source="004, spectral graph theory")
def judge_optimal(found: Findings) -> Verdict:
    """Confirmed if their unexplained share equals that of the best subspace, and the closed form, to a factor
    of 1 + 1e-5 at every d.
    """
    own, best = on_path(found, "spectral"), on_path(found, "optimum")
    exact = np.array([law(dim) for dim in DIMS])
    off = max(abs(own / best - 1).max(), abs(own / exact - 1).max())
    summary = (
        f"for d = {DIMS[0]} to {DIMS[-1]} eigenvectors the unexplained share is the least possible, and the "
    )
    summary += f"closed form, to {off:.0e} of it"
    return Verdict("confirmed" if off <= 1e-5 else "refuted", summary)


@claim("A spectral code fits heat better than the sinusoidal code", source="004, spectral graph theory")
def judge_heat(found: Findings) -> Verdict:
    """Confirmed if it leaves less unexplained than a sinusoid of the best base at every d, and at most a
    tenth of it at d=16.
    """
    own, plain, best = (on_path(found, arm) for arm in ("spectral", "sinusoid", "sinusoid, best base"))
    rows = [DIMS.index(dim) for dim in (4, 8, DIM)]
    summary = "unexplained share of the heat, spectral / sinusoid / sinusoid at its best base: "
    summary += ", ".join(
        f"{own[row]:.2g} / {plain[row]:.2g} / {best[row]:.2g} (d={DIMS[row]})" for row in rows
    )
    right = (own < best).all() and own[rows[-1]] <= best[rows[-1]] / 10
    return Verdict("confirmed" if right else "refuted", summary)


@claim("They are the natural functions of a position", source="004, spectral graph theory")
def judge_universal(found: Findings) -> Verdict:
    """Confirmed if they leave at most as much as the sinusoid of a wave and of noise too, conditional if of
    heat alone.
    """
    names = {"wave": f"sin({FREQUENCY:g} t)", "noise": "white noise"}
    pairs = {name: (found.mean("spectral", name), found.mean("sinusoid", name)) for name in names}
    summary = f"unexplained share at d={DIM}, spectral / sinusoid: "
    summary += ", ".join(f"{names[name]} {own:.2g} / {rival:.2g}" for name, (own, rival) in pairs.items())
    if on_path(found, "spectral")[-1] > on_path(found, "sinusoid")[-1]:
        return Verdict("refuted", summary)
    if all(own <= rival for own, rival in pairs.values()):
        return Verdict("confirmed", summary)
    return Verdict("conditional", summary, "the signal is smooth along the edges")


@claim(
    "The eigenvectors of a graph carry positions over to any structure", source="004, spectral graph theory"
)
def judge_graphs(found: Findings) -> Verdict:
    """Confirmed if they leave less unexplained than the sinusoid of the best base on every graph."""
    own, plain, best, shuffled = (found.curve(arm, "graphs").mean(0) for arm in DRAWN)
    names = list(graphs(0))
    wins = int((own < best).sum())
    summary = (
        f"less is unexplained than at the best base on {wins} of {len(names)} graphs; spectral / sinusoid / "
    )
    summary += "sinusoid in random order: "
    summary += ", ".join(
        f"{name} {own[row]:.2g} / {plain[row]:.2g} / {shuffled[row]:.2g}" for row, name in enumerate(names)
    )
    return Verdict("confirmed" if wins == len(names) else "refuted", summary)


def draw(found: Findings) -> Figure:
    figure, (left, right) = panels(1, 1, size=(10, 4.2))
    lines(left, DIMS, {arm: found.curve(arm, "path") for arm in DRAWN})
    exact = [law(dim) for dim in DIMS]
    left.plot(DIMS, exact, "-", color="silver", lw=6, marker="", zorder=0, label="closed form")
    left.set(yscale="log", xlabel="columns d", xticks=DIMS[::2], ylabel="unexplained share of the heat")
    left.set_title(f"path of {LENGTH}, white noise averaged exactly, t={TIME:g}; mean and range")
    left.legend()
    shares = {arm: found.curve(arm, "graphs") for arm in DRAWN}
    dots(right, list(graphs(0)), {arm: values.T.tolist() for arm, values in shares.items()})
    right.set(xscale="log", xlabel="unexplained share of the heat")
    right.set_title(
        f"graphs, d up to {NODES_DIM}, t={NODES_TIME:g}; one mark per seed (n={len(shares['spectral'])})"
    )
    right.legend()
    return figure


STUDY = Study(
    name="heat",
    subject="Heat on texts and graphs, explained by Laplacian eigenvectors",
    data=f"{DATA}; heat of white noise on them",
    measure="the share of a signal that a linear map of the code leaves unexplained, d columns each",
    smallest="1e-5 for an identity; a tenth of the best sinusoid's share at d=16",
    arms=ARMS,
    controls=[
        Control(
            statement="the sinusoid in random order leaves over twice as much as eigenvectors, on every "
            "graph",
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
