"""Laplacian eigenvectors as positions: a text is a path graph, and its smoothest eigenvectors are cosines.

L = D - A. Of a path of n tokens u_k(i) = cos(pi k (i + 1/2) / n), the DCT-II, with eigenvalue 2 - 2 cos(pi k / n). Heat that spreads
along the edges, exp(-t L) s, damps u_k by exp(-t lambda_k): so of white noise s, spread for t, the first d eigenvectors leave the share
sum_{k >= d} exp(-2 t lambda_k) / sum_k exp(-2 t lambda_k) unexplained. White noise is averaged exactly: the share is that of exp(-t L).

All codes have d columns here; the constant vector is one of the spectral code's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
import torch
from scipy.fft import dct
from torch import Generator, Tensor

from vnait.coordinates import Spectrum
from vnait.encodings import Sinusoid
from vnait.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTH, TIME, DIMS, DIM = 64, 10.0, range(2, 21), 16  # of the path
NODES_TIME, NODES_DIM = 2.0, 8  # of the graphs
FREQUENCY = 1.0  # radians a token: a signal that is not smooth
BASES = [2.0**power for power in range(1, 14)] + [10_000.0]
ARMS = {
    "spectral": "1 and the first eigenvectors of D - A",
    "normalised": "the first eigenvectors of the normalised Laplacian",
    "sinusoid": "the sinusoidal code of the nodes' numbers, base 10,000",
    "sinusoid, best base": f"the same with the base of 2 to 10,000 (of {len(BASES)}) that fits the signal best",
    "sinusoid, random order": "the sinusoidal code, nodes numbered at random",
    "optimum": "the best subspace of d columns for the signal, by its singular vectors",
}


def graphs(seed: int) -> dict[str, Any]:
    """Connected ones of 15 to 77 nodes, without weights; four of people, three drawn at random, three regular."""
    found = {
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
    return {name: nx.convert_node_labels_to_integers(nx.Graph(list(graph.edges))) for name, graph in found.items()}


def laplacian(graph: Any) -> Tensor:
    """D - A, nodes in the graph's own order."""
    return torch.tensor(nx.laplacian_matrix(graph).toarray(), dtype=torch.float64)


def codes(arm: str, graph: Any, dim: int, signal: Tensor, random: Generator) -> list[Tensor]:
    """The arm's codes of the nodes, each (N, dim); several where the best is to be taken."""
    count = len(graph)
    if arm == "spectral":
        vectors = Spectrum(size=dim - 1, graph=graph)(None, torch.ones(1, count, dtype=torch.bool))[0]
        return [torch.cat([torch.ones_like(vectors[:, :1]), vectors], 1)]
    if arm == "normalised":
        matrix = nx.normalized_laplacian_matrix(graph).toarray()
        return [torch.linalg.eigh(torch.tensor(matrix, dtype=torch.float64)).eigenvectors[:, :dim]]
    if arm == "optimum":
        return [torch.linalg.svd(signal).U[:, :dim]]
    number = torch.randperm(count, generator=random) if "random" in arm else torch.arange(count)
    waves = [Sinusoid(dim=dim, base=base) for base in (BASES if "best" in arm else [10_000.0])]
    told = [wave(number.double()[None, :, None]).added for wave in waves]
    return [one[0] for one in told if one is not None]


def unexplained(arm: str, graph: Any, dim: int, signal: Tensor, random: Generator) -> float:
    """The share of a signal's columns (N, M) that a linear map of the code can't tell, least squares."""
    shares = []
    for code in codes(arm, graph, dim, signal, random):
        span = spanned(code)
        shares.append(float((signal - span @ (span.T @ signal)).square().sum() / signal.square().sum()))
    return min(shares)


def spanned(code: Tensor) -> Tensor:
    """An orthonormal basis of the code's columns; those below rounding are left out."""
    left, size, _ = torch.linalg.svd(code, full_matrices=False)
    return left[:, size > 1e-13 * size[0]]


def heat(graph: Any, time: float) -> Tensor:
    return torch.matrix_exp(-time * laplacian(graph))


def whole(graph: Any, dim: int) -> int:
    """The most columns up to `dim` that cut no eigenspace: of a cut one, which vectors are kept is arbitrary."""
    rise = torch.linalg.eigvalsh(laplacian(graph)).diff() > 1e-9
    return max(size for size in range(1, dim + 1) if rise[size - 1])


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    random = Generator().manual_seed(seed)
    path, token = nx.path_graph(LENGTH), torch.arange(LENGTH, dtype=torch.float64)[:, None]
    warm, wave, noise = heat(path, TIME), (FREQUENCY * token).sin(), torch.eye(LENGTH, dtype=torch.float64)
    own = graphs(seed)
    metrics: Metrics = {
        "path": [unexplained(arm, path, dim, warm, random) for dim in DIMS],
        "wave": unexplained(arm, path, DIM, wave, random),
        "noise": unexplained(arm, path, DIM, noise, random),
        "graphs": [unexplained(arm, one, whole(one, NODES_DIM), heat(one, NODES_TIME), random) for one in own.values()],
        "cosine": least_cosine(codes(arm, path, LENGTH, warm, random)[0]),
    }
    if arm == "spectral":
        metrics["moved"] = [relabelled(one, random) for one in own.values()]
        metrics["eigenvalues"] = eigenvalue_error(path)
    if arm == "sinusoid":
        metrics["shared"] = shared(path, random)
    return metrics


def least_cosine(code: Tensor) -> float:
    """Of a code's columns with the vectors of the DCT-II of the same number, as scipy has it, whatever the sign."""
    waves = torch.tensor(dct(np.eye(LENGTH), axis=0, norm="ortho")).T
    return float((torch.nn.functional.normalize(code, dim=0) * waves).sum(0).abs().min())


def eigenvalue_error(path: Any) -> float:
    """Between a path's eigenvalues and 2 - 2 cos(pi k / n)."""
    law = 2 - 2 * (torch.pi * torch.arange(LENGTH, dtype=torch.float64) / LENGTH).cos()
    return float((torch.linalg.eigvalsh(laplacian(path)) - law).abs().max())


def shared(path: Any, random: Generator) -> list[float]:
    """Cosines of the principal angles between the sinusoidal and the spectral code of a path, the largest first."""
    one, other = (spanned(codes(arm, path, DIM, torch.eye(1), random)[0]) for arm in ("sinusoid", "spectral"))
    found = torch.linalg.svdvals(one.T @ other)
    return [*found.tolist(), *[0.0] * (DIM - len(found))]


def relabelled(graph: Any, random: Generator) -> list[float]:
    """What new numbers of the nodes change in their code: its largest entry, and its projector's."""
    order = torch.randperm(len(graph), generator=random)
    turned = nx.Graph()
    turned.add_nodes_from(order.tolist())  # node order[i] is now the i-th
    turned.add_edges_from(graph.edges)
    dim = whole(graph, NODES_DIM)
    old, new = (codes("spectral", one, dim, torch.eye(1), random)[0] for one in (graph, turned))
    old = old[order]
    return [float((old - new).abs().max()), float((old @ old.T - new @ new.T).abs().max() / len(graph))]


def law(dim: int) -> float:
    """What d eigenvectors leave of heat on the path, in closed form."""
    share = np.exp(-2 * TIME * (2 - 2 * np.cos(np.pi * np.arange(LENGTH) / LENGTH)))
    return float(share[dim:].sum() / share.sum())


def on_path(found: Findings, arm: str) -> np.ndarray:
    """Shares left, a number of columns each."""
    return found.curve(arm, "path").mean(0)


def random_is_worse(found: Findings) -> bool:
    return bool((found.curve("sinusoid, random order", "graphs") > 2 * found.curve("spectral", "graphs")).all())


@claim("The Laplacian eigenvectors of a path are the DCT's basis", source="004, spectral graph theory")
def judge_dct(found: Findings) -> Verdict:
    """Confirmed where every vector of D - A is one to 1e-10, and of the normalised Laplacian; conditional where not of that."""
    plain, normalised = 1 - found.least("spectral", "cosine"), 1 - found.least("normalised", "cosine")
    worst = found.most("spectral", "eigenvalues")
    said = f"1 - |cosine| with the DCT-II: {plain:.0e} at most, eigenvalues to {worst:.0e}; of the normalised Laplacian {normalised:.2f}"
    if max(plain, worst) > 1e-10:
        return Verdict("refuted", said)
    return Verdict("confirmed", said) if normalised <= 1e-10 else Verdict("conditional", said, "the Laplacian is D - A")


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


@claim("Sinusoids are close to a path's spectrum, which explains their success", source="004, spectral graph theory")
def judge_close(found: Findings) -> Verdict:
    """Confirmed where all principal cosines are .98 or more, refuted where none is, else conditional."""
    cosines = found.curve("sinusoid", "shared").mean(0)
    near, far = int((cosines >= 0.98).sum()), int((cosines < 0.05).sum())
    said = f"of {DIM} principal cosines with the first {DIM} eigenvectors {near} are .98 or more and {far} below .05"
    if near == DIM or near == 0:
        return Verdict("confirmed" if near else "refuted", said)
    return Verdict("conditional", said, f"it is said of {near} of the {DIM} dimensions")


@claim("The eigenvectors of a graph carry positions over to any structure", source="004, spectral graph theory")
def judge_graphs(found: Findings) -> Verdict:
    """Confirmed where they leave less than the best base on every graph."""
    names = list(graphs(0))
    own, given, best, order = (
        found.curve(arm, "graphs").mean(0)
        for arm in ("spectral", "sinusoid", "sinusoid, best base", "sinusoid, random order")
    )
    wins = int((own < best).sum())
    said = f"less is left than by the best base on {wins} of {len(names)} graphs; spectral / nodes as numbered / at random: "
    said += ", ".join(f"{name} {own[row]:.2g} / {given[row]:.2g} / {order[row]:.2g}" for row, name in enumerate(names))
    return Verdict("confirmed" if wins == len(names) else "refuted", said)


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
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    arms = [arm for arm in ARMS if arm == "spectral" or "sinusoid" in arm]
    looks = dict(zip(arms, zip(("-", "--", "-.", ":"), "os^x", strict=True), strict=True))
    for arm, (style, mark) in looks.items():
        left.plot(DIMS, on_path(found, arm), style, color="black", marker=mark, ms=4, mfc="white", label=arm)
    left.plot(DIMS, [law(dim) for dim in DIMS], color="silver", lw=6, zorder=0, label="closed form")
    left.set(yscale="log", xlabel="columns d", ylabel="share of the heat left")
    left.set_title(f"path of {LENGTH}, white noise averaged exactly, t={TIME:g}", fontsize=10)
    left.set_xticks(range(2, 21, 2))
    left.legend(fontsize=8)
    for arm, (_, mark) in looks.items():
        values = found.curve(arm, "graphs")
        right.plot(values.mean(0), range(values.shape[1]), mark, color="black", mfc="white", ms=6, ls="", label=arm)
        right.hlines(range(values.shape[1]), values.min(0), values.max(0), color="gray", lw=1)
    right.set(xscale="log", xlabel="share of the heat left", yticks=range(values.shape[1]), yticklabels=list(graphs(0)))
    right.set_title(f"graphs, d up to {NODES_DIM}, t={NODES_TIME:g}; mean and range (n={len(values)})", fontsize=10)
    right.grid(axis="y", color="lightgray", lw=0.5)
    right.invert_yaxis()
    return figure


STUDY = Study(
    name="spectrum",
    subject="Laplacian eigenvectors as positions of texts and graphs",
    data=f"a path of {LENGTH} nodes; ten graphs: four of people, three drawn at random, three regular; heat of white noise on them",
    measure="the share of a signal that a linear map of the code leaves unexplained, d columns each; cosines with the DCT-II",
    smallest="1e-10 for an identity; a tenth of the best sinusoid's share at d=16",
    arms=ARMS,
    controls=[
        Control(
            says="nodes numbered at random leave more than twice what eigenvectors leave, on every graph",
            arm="sinusoid, random order",
            mechanism="spectral",
            fails=random_is_worse,
        ),
        Control(
            says="another Laplacian's eigenvectors are not the DCT's: a cosine below .9",
            arm="normalised",
            mechanism="spectral",
            fails=lambda found: found.least("normalised", "cosine") < 0.9,
        ),
    ],
    claims=[
        judge_dct,
        judge_optimal,
        judge_heat,
        judge_universal,
        judge_close,
        judge_graphs,
        judge_stable,
    ],
    full=Budget(seeds=5),
    quick=Budget(seeds=2),
    run=run,
    draw=draw,
)
