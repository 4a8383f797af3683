"""Whole graphs classified, with positions from each graph's own spectrum.

Is a graph Hamiltonian, and is it planar? A token is a node's degree, so that without positions a model sees
the degrees alone. Graphs of the same degrees are held out together, and a held-out answer weighs as much as
the opposite one of the same degrees: any function of the degrees is right for exactly half. Eigenvectors of
the Laplacian D - A are positions up to signs, and up to a rotation where eigenvalues are equal: a model reads
one choice of them, or another one at every step. Codes of their squares, and returns of a walk, need none.
No two graphs of the atlas are isomorphic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from vnait.positions.coordinates import Index, returns, spectra
from vnait.positions.encodings import Linear
from vnait.positions.method import Method
from vnait.shared.statistics import Interval
from vnait_lab.kit import Dots, Figure, Stack, ahead, descend, each, figure
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

NODES = 7  # at most; the atlas has all graphs up to here
SIZE = NODES - 1  # eigenvectors that are not constant
TIMES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # of the heat
STEPS = range(2, 10)  # of a random walk; it never returns after one
HELD = 1 / 3  # of the degree sequences whose graphs have both answers
DRAWS = 16  # choices of signs, whose answers are averaged
DIM, HEADS, BATCH, RATE = 32, 4, 64, 4e-3
SMALLEST = 0.05  # of the accuracy
MODELS = {
    "none": "no positions: the degrees alone",
    "numbers": "a learned table of the nodes' numbers, drawn at random once per graph",
    "eigenvalues": "the graph's eigenvalues, the same at every node",
    "fixed": "eigenvalues and eigenvectors, signs and bases as `Spectrum` fixes them",
    "signs": "eigenvalues and eigenvectors, signs drawn at every step",
    "bases": "eigenvalues and eigenvectors, signs and bases of equal eigenvalues drawn at every step",
    "heat": "heat that stays at a node, exp(-t L)_ii, six times t",
    "returns": "returns of a random walk to its node after 2 to 9 steps",
}
SPECTRAL = ("fixed", "signs", "bases")
INVARIANT = ("heat", "returns")
BASELINES = {
    "regression": "no attention: logistic regression of sorted degrees and eigenvalues",
    "forest": "no attention: a random forest of sorted degrees and eigenvalues",
    "forest of walks": "no attention: a random forest of sorted degrees, returns and heat",
}
VARIANTS = MODELS | BASELINES
STUDY = Study.of(
    __name__,
    source="004, spectral graph theory",
    data="the 986 connected graphs of 5 to 7 nodes in networkx's atlas; degree sequences held out",
    measure="share of right answers, Hamiltonian or not and planar or not, among held-out graphs of the same "
    "degrees with both answers at equal weight",
    smallest="5 points",
    variants=VARIANTS,
    full=Budget(seeds=5, steps=400),
    quick=Budget(seeds=3, steps=60),
)


class Graphs(NamedTuple):
    """Adjacency matrices, filled up with isolated nodes, and the answers to the questions."""

    links: Float[Tensor, "N T T"]
    sizes: Int[Tensor, " N"]
    answers: Bool[Tensor, "N Q"]


def hamiltonian(graph: Any) -> bool:
    """Whether a cycle visits every node once; the nodes are 0 to n - 1."""
    count = len(graph)
    near = [sum(1 << neighbour for neighbour in graph[node]) for node in range(count)]
    ends = [0] * (1 << count)  # per set of nodes, where paths from node 0 through all of it end
    ends[1] = 1
    for visited in range(1, 1 << count, 2):
        for node in range(count):
            if ends[visited] >> node & 1:
                for neighbour in range(count):
                    if near[node] & ~visited & 1 << neighbour:
                        ends[visited | 1 << neighbour] |= 1 << neighbour
    return count > 2 and bool(ends[-1] & near[0])


QUESTIONS: dict[str, Callable[[Any], bool]] = {"Hamiltonian": hamiltonian, "planar": nx.is_planar}


@lru_cache(maxsize=1)
def atlas() -> Graphs:
    """The connected graphs of 5 to 7 nodes."""
    graphs = [graph for graph in nx.graph_atlas_g() if len(graph) >= 5 and nx.is_connected(graph)]
    matrices = [torch.tensor(nx.to_numpy_array(graph)) for graph in graphs]
    links = torch.stack([F.pad(matrix, 2 * (0, NODES - len(matrix))) for matrix in matrices])
    answers = [[question(graph) for question in QUESTIONS.values()] for graph in graphs]
    return Graphs(links, torch.tensor([len(graph) for graph in graphs]), torch.tensor(answers))


def renumbered(graphs: Graphs, random: Generator) -> Graphs:
    """The same graphs with their nodes in random order."""
    order = (torch.rand(graphs.links.shape[:2], generator=random) + ~real(graphs)).argsort(-1)
    rows = graphs.links.gather(1, order[..., None].expand_as(graphs.links))
    return graphs._replace(links=rows.gather(2, order[:, None].expand_as(rows)))


def real(graphs: Graphs) -> Bool[Tensor, "N T"]:
    return torch.arange(NODES) < graphs.sizes[:, None]


def degree_sequences(graphs: Graphs) -> list[tuple[int, ...]]:
    return [tuple(row) for row in graphs.links.sum(-1).long().sort(-1).values.tolist()]


def balanced(sequences: Sequence[object], answers: Bool[Tensor, " N"]) -> Float[Tensor, " N"]:
    """A weight per graph, at most 1: in each degree sequence both answers weigh what the rarer one has."""
    pairs = list(zip(sequences, answers.tolist(), strict=True))
    count = Counter(pairs)
    return torch.tensor([min(count[key, True], count[key, False]) / count[key, yes] for key, yes in pairs])


def parted(graphs: Graphs, random: Generator) -> tuple[Bool[Tensor, " N"], Float[Tensor, "N Q"]]:
    """Which graphs are held out, and what each weighs in the test of each question."""
    sequences = degree_sequences(graphs)
    weights = torch.stack([balanced(sequences, answers) for answers in graphs.answers.unbind(-1)], -1)
    pairs = zip(sequences, weights.any(-1).tolist(), strict=True)
    both = sorted({sequence for sequence, mixed in pairs if mixed})
    chosen = torch.randperm(len(both), generator=random)[: round(HELD * len(both))].tolist()
    held = {both[row] for row in chosen}
    return torch.tensor([sequence in held for sequence in sequences]), weights


def places(variant: str, graphs: Graphs) -> Float[Tensor, "N T P"] | None:
    """The known places of all nodes, 0 at padding; None if nodes are counted, or have none."""
    if variant in ("none", "numbers"):
        return None
    of_size = {}
    for size in graphs.sizes.unique().tolist():
        rows = (graphs.sizes == size).nonzero()[:, 0]
        of_size[size] = rows, code(variant, graphs.links[rows, :size, :size])
    axes = max(codes.shape[-1] for _, codes in of_size.values())
    table = torch.zeros(len(graphs.sizes), NODES, axes, dtype=torch.float64)
    for size, (rows, codes) in of_size.items():
        table[rows, :size, : codes.shape[-1]] = codes
    return table


def code(variant: str, links: Float[Tensor, "M n n"]) -> Float[Tensor, "M n P"]:
    """An variant's places in graphs of one size n."""
    degree, size = links.sum(-1), links.shape[-1]
    graphs = map(nx.from_numpy_array, links.numpy())
    if variant == "returns":
        return returns(graphs, steps=STEPS)
    values, vectors = torch.linalg.eigh(degree.diag_embed() - links)
    if variant == "heat":
        return vectors.square() @ (-values[..., None] * torch.tensor(TIMES, dtype=links.dtype)).exp()
    room = (0, NODES - size)
    spread = F.pad(values[:, None, 1:].expand(-1, size, -1), room)
    if variant == "eigenvalues":
        return spread
    axes = spectra(graphs, size=size - 1) if variant == "fixed" else size**0.5 * vectors[..., 1:]
    return torch.cat([F.pad(axes, room), spread], -1)


def drawn(variant: str, places: Float[Tensor, "B T P"]) -> Float[Tensor, "B T P"]:
    """Eigenvectors with new signs, or in new bases of their eigenspaces; other places unchanged."""
    if variant not in ("signs", "bases"):
        return places
    vectors, values = places.split(SIZE, -1)
    near = (values[:, 0, :, None] - values[:, 0, None]).abs() < 1e-8
    near &= torch.eye(SIZE, dtype=torch.bool) if variant == "signs" else True
    noise = torch.randn(near.shape, dtype=places.dtype) * near
    turn, triangle = torch.linalg.qr(noise)  # blocks stay blocks; uniform with positive diagonals
    turn = turn * triangle.diagonal(dim1=1, dim2=2).sign()[:, None]
    return torch.cat([vectors @ turn, values], -1)


def classifier(variant: str, axes: int) -> Stack:
    """Reads a node's degree at its place, of which there are so many axes."""
    degrees = nn.Embedding(NODES, DIM)
    method: str | Method = "learned" if variant == "numbers" else "none"
    if axes:
        method = Method(coordinates=Index(), encoding=Linear(dim=DIM, axes=axes))
    return Stack(method, vectors=degrees, outputs=len(QUESTIONS), dim=DIM, num_heads=HEADS, max_length=NODES)


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    torch.manual_seed(seed)
    random = Generator().manual_seed(seed)
    graphs = renumbered(atlas(), random)
    held, weights = parted(graphs, random)
    test = weights * held[:, None]
    if variant in BASELINES:
        each = shares(by_hand(variant, graphs, ~held, seed), graphs.answers, test)
        return {"held": sum(each) / len(each), "each": each}
    answer = trained(variant, graphs, ~held, random, budget)
    known, single, many = classes(graphs.answers, ~held) * ~held[:, None], answer(1), answer(DRAWS)
    each = shares(single > 0, graphs.answers, test)
    return {
        "held": sum(each) / len(each),
        "each": each,
        "averaged": sum(shares(many > 0, graphs.answers, test)) / len(each),
        "trained": sum(shares(single > 0, graphs.answers, known)) / len(each),
    }


def classes(answers: Bool[Tensor, "N Q"], used: Bool[Tensor, " N"]) -> Float[Tensor, "N Q"]:
    """Weights with which both answers to a question weigh half of the used graphs."""
    share = answers[used].double().mean(0)
    return torch.where(answers, 0.5 / share, 0.5 / (1 - share))


def shares(named: Tensor, answers: Tensor, weights: Float[Tensor, "N Q"]) -> list[float]:
    """The weighted share of right answers per question."""
    weights = weights.double()
    return (((named == answers) * weights).sum(0) / weights.sum(0)).tolist()


def trained(
    variant: str, graphs: Graphs, used: Bool[Tensor, " N"], random: Generator, budget: Budget
) -> Callable[[int], Tensor]:
    """A function from a number of draws to the mean logits (N, Q) of all graphs."""
    mask, degrees, at = real(graphs), graphs.links.sum(-1).long(), places(variant, graphs)
    model = classifier(variant, 0 if at is None else at.shape[-1])
    truth, weights, rows = graphs.answers.float(), classes(graphs.answers, used).float(), used.nonzero()[:, 0]
    whitened = nn.Identity() if at is None else whitening(at[used][mask[used]])

    def logits(chosen: Tensor) -> Tensor:
        places = None if at is None else whitened(drawn(variant, at[chosen])).float()
        return model.pooled(degrees[chosen], mask[chosen], places)

    def loss(step: int) -> Tensor:
        chosen = rows[torch.randint(len(rows), (BATCH,), generator=random)]
        return F.binary_cross_entropy_with_logits(logits(chosen), truth[chosen], weights[chosen])

    descend(model.parameters(), loss, steps=budget.steps, learning_rate=RATE, weight_decay=0.01)
    model.eval().requires_grad_(False)
    return lambda draws: torch.stack([logits(torch.arange(len(mask))) for _ in range(draws)]).mean(0)


def whitening(known: Float[Tensor, "M P"]) -> Callable[[Tensor], Tensor]:
    """An affine map to axes that are uncorrelated, and of variance 1, over the known places."""
    middle = known.mean(0)
    values, vectors = torch.linalg.eigh(known.T.cov())
    return lambda places: (places - middle) @ (vectors * values.rsqrt()) @ vectors.T


def by_hand(variant: str, graphs: Graphs, used: Bool[Tensor, " N"], seed: int) -> Bool[Tensor, "N Q"]:
    """Answers of a model without attention that reads sorted degrees and eigenvalues, or codes of nodes."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    degree = graphs.links.sum(-1)
    values = torch.linalg.eigvalsh(degree.diag_embed() - graphs.links)
    if variant.endswith("walks"):
        codes = (places(code, graphs) for code in INVARIANT)
        values = torch.cat([table.sort(1).values.flatten(1) for table in codes if table is not None], -1)
    known = torch.cat([degree.sort(-1).values, values, graphs.sizes[:, None]], -1).numpy()
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, class_weight="balanced"))
    if variant.startswith("forest"):
        model = RandomForestClassifier(200, class_weight="balanced", random_state=seed)
    named = [model.fit(known[used], answers[used]).predict(known) for answers in graphs.answers.T.numpy()]
    return torch.from_numpy(np.stack(named, -1))


def lead(findings: Findings, variant: str, against: str) -> tuple[Interval, str]:
    """The share right by which a variant is ahead, and as text."""
    gain = findings.difference(variant, against, "held")
    return gain, f"{variant} minus {against}: {gain.times(100).written('{:+.1f}', ' points')}"


def percents(findings: Findings, *variants: str, metric: str = "held") -> str:
    """The mean share of right answers per variant."""
    return findings.listed(variants, metric, "{:.0f} %", scale=100)


@STUDY.control(
    "with the nodes' numbers at most 55 % of the answers are right", variant="numbers", mechanism="signs"
)
def numbers_are_at_chance(findings: Findings) -> bool:
    return findings.mean("numbers", "held") <= 0.5 + SMALLEST


@STUDY.control("without positions half of the answers are right", variant="none", mechanism="signs")
def none_is_at_chance(findings: Findings) -> bool:
    return abs(findings.mean("none", "held") - 0.5) <= 0.01


@STUDY.claim("A graph's spectrum as positions lets attention classify graphs that node numbers can't")
def judge_numbers(findings: Findings) -> Verdict:
    """By what `signs` is 5 points ahead of, with an interval above 0: node numbers, eigenvalues without
    positions, and models without attention.
    """
    leads = {rival: lead(findings, "signs", rival) for rival in ("numbers", "eigenvalues", *BASELINES)}
    words = ", ".join(words for _, words in leads.values())
    better = {rival: gain.sign > 0 and gain.mean >= SMALLEST for rival, (gain, _) in leads.items()}
    shares = percents(findings, "signs", *leads)
    return each(better, f"{words}; {shares}", "it is compared with {}")


@STUDY.claim("Eigenvectors as positions add to a graph's eigenvalues")
def judge_values(findings: Findings) -> Verdict:
    """By the gain of `signs` over `eigenvalues`: confirmed from 5 points on with an interval above 0, refuted
    if the interval is below 5 points.
    """
    gain, words = lead(findings, "signs", "eigenvalues")
    return ahead(gain, SMALLEST, f"{words}; {percents(findings, 'eigenvalues', *SPECTRAL)}")


@STUDY.claim("Random signs in training handle the ambiguity of eigenvectors better than a fixed choice")
def judge_signs(findings: Findings) -> Verdict:
    """By the gain of `signs` over `fixed`: confirmed from 5 points on with an interval above 0, refuted if
    the interval is below 5 points.
    """
    (gain, words), (_, bases) = (lead(findings, variant, "fixed") for variant in ("signs", "bases"))
    averaged = percents(findings, "signs", "bases", metric="averaged")
    return ahead(gain, SMALLEST, f"{words}, {bases}; answers averaged over {DRAWS} draws: {averaged}")


@STUDY.claim("Codes without signs are better positions than eigenvectors")
def judge_invariant(findings: Findings) -> Verdict:
    """By the codes that gain over the best eigenvectors, 5 points or more with an interval above 0. What a
    random forest makes of the same codes is shown beside it.
    """
    best = findings.best(SPECTRAL, "held")
    leads = {variant: lead(findings, variant, best) for variant in INVARIANT}
    summary = f"{', '.join(words for _, words in leads.values())}; "
    summary += percents(findings, *INVARIANT, "forest of walks")
    better = {variant: gain.sign > 0 and gain.mean >= SMALLEST for variant, (gain, _) in leads.items()}
    return each(better, summary, "the code is {}")


@STUDY.draws
def draw(findings: Findings) -> Figure:
    label = "right of held-out graphs of equal degrees (%)"
    curves = findings.curves(VARIANTS, "each")
    panels = []
    for row, question in enumerate(QUESTIONS):
        shares = {variant: curve[:, row] for variant, curve in curves.items()}
        look: dict[str, Any] = {"at_x": {"degrees alone": 50}, "xlim": (35, 102)}
        panels.append(Dots(shares, label, percent=True, title=question, **look))
    return figure(*panels)
