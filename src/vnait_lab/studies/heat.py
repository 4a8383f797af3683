"""Heat on texts and graphs, explained by Laplacian eigenvectors.

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
from torch import Generator, Tensor

from vnait_lab.kit import Figure, decided
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
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

TIME, NODES_TIME = 10.0, 2.0  # for the path, for the graphs
DIMS = range(2, 21)
FREQUENCY = 1.0  # radians per token, of a signal that is not smooth
BASES = [2.0**power for power in range(1, 14)] + [10_000.0]
VARIANTS = {
    "spectral": "1 and the first eigenvectors of D - A",
    "sinusoid": "the sinusoidal code of the nodes' numbers, base 10,000",
    "sinusoid, best base": f"the same with the base of 2 to 10,000 (of {len(BASES)}) that fits the signal "
    "best",
    "sinusoid, random order": "the sinusoidal code, nodes numbered at random",
    "optimum": "the best subspace of d columns for the signal, by its singular vectors",
}
DRAWN = ("spectral", "sinusoid", "sinusoid, best base", "sinusoid, random order")
STUDY = Study.of(
    __name__,
    source="004, spectral graph theory",
    data=f"{DATA}; heat of white noise on them",
    measure="the share of a signal that a linear map of the code leaves unexplained, d columns each",
    smallest="1e-5 for an identity; a tenth of the best sinusoid's share at d=16",
    variants=VARIANTS,
    full=Budget(seeds=5),
    quick=Budget(seeds=2),
)


def codes(variant: str, graph: Any, dim: int, signal: Tensor, random: Generator) -> list[Tensor]:
    """The variant's codes of the nodes, each (N, dim); several if the best of them counts."""
    if variant == "spectral":
        return [spectral(graph, dim)]
    if variant == "optimum":
        return [torch.linalg.svd(signal).U[:, :dim]]
    number = torch.randperm(len(graph), generator=random) if "random" in variant else torch.arange(len(graph))
    return [sinusoid(number, dim, base) for base in (BASES if "best" in variant else [10_000.0])]


def unexplained(variant: str, graph: Any, dim: int, signal: Tensor, random: Generator) -> float:
    """The share of a signal's columns (N, M) that the best linear map of the code leaves unexplained."""
    shares = []
    for code in codes(variant, graph, dim, signal, random):
        span = spanned(code)
        shares.append(float((signal - span @ (span.T @ signal)).square().sum() / signal.square().sum()))
    return min(shares)


def heat(graph: Any, time: float) -> Tensor:
    return torch.matrix_exp(-time * laplacian(graph))


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    random = Generator().manual_seed(seed)
    path = nx.path_graph(LENGTH)
    token = torch.arange(LENGTH, dtype=torch.float64)[:, None]
    warm = heat(path, TIME)
    wave = (FREQUENCY * token).sin()
    noise = torch.eye(LENGTH, dtype=torch.float64)
    return {
        "path": [unexplained(variant, path, dim, warm, random) for dim in DIMS],
        "wave": unexplained(variant, path, DIM, wave, random),
        "noise": unexplained(variant, path, DIM, noise, random),
        "graphs": [
            unexplained(variant, graph, whole(graph, NODES_DIM), heat(graph, NODES_TIME), random)
            for graph in graphs(seed).values()
        ],
    }


def law(dim: int) -> float:
    """The share of heat on the path that d eigenvectors leave unexplained, in closed form."""
    share = (-2 * TIME * path_eigenvalues()).exp()
    return float(share[dim:].sum() / share.sum())


def on_path(findings: Findings, variant: str) -> np.ndarray:
    """Unexplained shares by number of columns, averaged over seeds."""
    return findings.curve(variant, "path").mean(0)


@STUDY.control(
    "the sinusoid in random order leaves over twice as much as eigenvectors, on every graph",
    variant="sinusoid, random order",
    mechanism="spectral",
)
def random_is_worse(findings: Findings) -> bool:
    random, spectral = (findings.curve(name, "graphs") for name in ("sinusoid, random order", "spectral"))
    return bool((random > 2 * spectral).all())


@STUDY.claim("They are the optimal basis of heat that spreads on the graph")
def judge_optimal(findings: Findings) -> Verdict:
    """Confirmed if their unexplained share equals that of the best subspace, and the closed form, to a factor
    of 1 + 1e-5 at every d.
    """
    left, best = on_path(findings, "spectral"), on_path(findings, "optimum")
    exact = np.array([law(dim) for dim in DIMS])
    off = max(abs(left / best - 1).max(), abs(left / exact - 1).max())
    summary = f"for d = {DIMS[0]} to {DIMS[-1]} eigenvectors the unexplained share is the least possible, "
    return decided(off <= 1e-5, f"{summary}and the closed form, to {off:.0e} of it")


@STUDY.claim("A spectral code fits heat better than the sinusoidal code")
def judge_heat(findings: Findings) -> Verdict:
    """Confirmed if it leaves less unexplained than a sinusoid of the best base at every d, and at most a
    tenth of it at d=16.
    """
    code, plain, best = (on_path(findings, name) for name in DRAWN[:3])
    rows = [DIMS.index(dim) for dim in (4, 8, DIM)]
    summary = "unexplained share of the heat, spectral / sinusoid / sinusoid at its best base: "
    summary += ", ".join(
        f"{code[row]:.2g} / {plain[row]:.2g} / {best[row]:.2g} (d={DIMS[row]})" for row in rows
    )
    return decided(bool((code < best).all() and code[rows[-1]] <= best[rows[-1]] / 10), summary)


@STUDY.claim("They are the natural functions of a position")
def judge_universal(findings: Findings) -> Verdict:
    """Confirmed if they leave at most as much as the sinusoid of a wave and of noise too, conditional if of
    heat alone.
    """
    names = {"wave": f"sin({FREQUENCY:g} t)", "noise": "white noise"}
    pairs = {name: (findings.mean("spectral", name), findings.mean("sinusoid", name)) for name in names}
    summary = f"unexplained share at d={DIM}, spectral / sinusoid: "
    summary += ", ".join(f"{names[name]} {code:.2g} / {rival:.2g}" for name, (code, rival) in pairs.items())
    worse = bool(on_path(findings, "spectral")[-1] > on_path(findings, "sinusoid")[-1])
    right = not worse and all(code <= rival for code, rival in pairs.values())
    return decided(right, summary, refuted=worse, condition="the signal is smooth along the edges")


@STUDY.claim("The eigenvectors of a graph carry positions over to any structure")
def judge_graphs(findings: Findings) -> Verdict:
    """If they leave less unexplained than the sinusoid of the best base on every graph: of heat on that
    graph, whose own eigenvectors they are.
    """
    code, plain, best, shuffled = (findings.curve(name, "graphs").mean(0) for name in DRAWN)
    names = list(graphs(0))
    wins = int((code < best).sum())
    summary = f"less is unexplained than at the best base on {wins} of {len(names)} graphs; "
    summary += "spectral / sinusoid / sinusoid in random order: " + ", ".join(
        f"{name} {code[row]:.2g} / {plain[row]:.2g} / {shuffled[row]:.2g}" for row, name in enumerate(names)
    )
    condition = "the signal is smooth along the graph's edges, as heat is"
    return decided(False, summary, refuted=wins < len(names), condition=condition)


@STUDY.draws
def draw(findings: Findings) -> Figure:
    figure, (left, right) = panels(1, 1, size=(10, 4.2))
    lines(left, DIMS, findings.curves(DRAWN, "path"))
    exact = [law(dim) for dim in DIMS]
    left.plot(DIMS, exact, "-", color="silver", lw=6, marker="", zorder=0, label="closed form")
    left.set(yscale="log", xlabel="columns d", xticks=DIMS[::2], ylabel="unexplained share of the heat")
    left.set_title(f"path of {LENGTH}, white noise averaged exactly, t={TIME:g}; mean and range")
    left.legend()
    shares = {name: values.T.tolist() for name, values in findings.curves(DRAWN, "graphs").items()}
    dots(right, list(graphs(0)), shares)
    right.set(xscale="log", xlabel="unexplained share of the heat")
    right.set_title(f"graphs, d up to {NODES_DIM}, t={NODES_TIME:g}; one mark per seed (n={findings.seeds})")
    right.legend()
    return figure
