"""The study of classified graphs: its questions, its weights, and codes that depend on no signs."""

from __future__ import annotations

from itertools import permutations

import networkx as nx
import pytest
import torch

from vnait_lab.kit import ahead
from vnait_lab.studies import graph_classes
from vnait_lab.studies.graph_classes import (
    NODES,
    QUESTIONS,
    SIZE,
    SMALLEST,
    STEPS,
    TIMES,
    Graphs,
    atlas,
    balanced,
    classes,
    classifier,
    degree_sequences,
    drawn,
    hamiltonian,
    judge_invariant,
    judge_numbers,
    lead,
    parted,
    places,
    real,
    renumbered,
    shares,
    whitening,
)
from vnait_lab.study import Findings


def few(*rows: int) -> Graphs:
    return Graphs(*(part[list(rows)] for part in atlas()))


def graph(graphs: Graphs, row: int) -> nx.Graph:
    size = int(graphs.sizes[row])
    return nx.from_numpy_array(graphs.links[row, :size, :size].numpy())


def test_the_atlas_has_every_connected_graph_once() -> None:
    assert torch.bincount(atlas().sizes).tolist()[5:] == [21, 112, 853]  # OEIS A001349
    assert atlas().answers.sum(0).tolist() == [8 + 48 + 383, 20 + 99 + 646]  # OEIS A003216, A003094


def test_hamiltonian_is_a_cycle_through_all_nodes() -> None:
    for row in range(0, 133, 7):  # of 5 and 6 nodes
        own = graph(atlas(), row)
        tours = (
            all(own.has_edge(one, other) for one, other in zip((0, *rest), (*rest, 0), strict=True))
            for rest in permutations(range(1, len(own)))
        )
        assert hamiltonian(own) == any(tours) == bool(atlas().answers[row, 0])


def test_a_function_of_the_degrees_is_right_for_half() -> None:
    graphs = atlas()
    held, weights = parted(graphs, torch.Generator().manual_seed(0))
    sequences = degree_sequences(graphs)
    assert not {key for key, out in zip(sequences, held, strict=True) if out} & {
        key for key, out in zip(sequences, held, strict=True) if not out
    }
    named = torch.tensor([hash(key) % 3 > 0 for key in sequences])[:, None].expand(-1, len(QUESTIONS))
    assert shares(named, graphs.answers, weights * held[:, None]) == pytest.approx([0.5, 0.5], abs=1e-6)
    assert shares(graphs.answers, graphs.answers, weights * held[:, None]) == [1, 1]
    assert balanced("aaab", torch.tensor([True, True, False, True])).tolist() == [0.5, 0.5, 1, 0]


def test_both_answers_weigh_the_same() -> None:
    answers = torch.tensor([[True], [False], [False], [False], [True]])
    weights = classes(answers, torch.tensor([True, True, True, True, False]))
    assert weights[:, 0].tolist() == pytest.approx([2, 2 / 3, 2 / 3, 2 / 3, 2])


def test_codes_against_networkx() -> None:
    graphs = few(10, 100, 900)
    torch.manual_seed(0)
    mask = real(graphs)
    heat, returns, fixed = (places(variant, graphs) for variant in ("heat", "returns", "fixed"))
    for row in range(3):
        own = graph(graphs, row)
        size, laplacian = len(own), torch.tensor(nx.laplacian_matrix(own).toarray(), dtype=torch.float64)
        kernel = torch.matrix_exp(-TIMES[2] * laplacian)
        assert torch.allclose(heat[row, :size, 2], kernel.diagonal())
        walk = torch.tensor(nx.google_matrix(own, alpha=1.0), dtype=torch.float64)
        assert torch.allclose(returns[row, :size, 1], torch.matrix_power(walk, STEPS[1]).diagonal())
        for variant in ("fixed", "signs", "bases"):
            vectors, values = drawn(variant, fixed[row : row + 1])[0, :size].split(SIZE, -1)
            again = vectors / size @ values[0].diag() @ vectors.T
            assert torch.allclose(again, laplacian, atol=1e-9)
    assert all((one[~mask] == 0).all() for one in (heat, returns, fixed))


def test_only_invariant_codes_follow_the_nodes() -> None:
    random = torch.Generator().manual_seed(1)
    other = renumbered(atlas(), random)
    assert degree_sequences(other) == degree_sequences(atlas())
    assert nx.is_isomorphic(graph(other, 500), graph(atlas(), 500))
    assert not torch.equal(other.links, atlas().links)
    for variant in ("heat", "returns", "eigenvalues"):
        sums = [(places(variant, graphs) ** 3).sum(1) for graphs in (atlas(), other)]  # of all nodes
        assert torch.allclose(*sums, atol=1e-8)
    moved = [(places("signs", graphs) ** 3).sum(1) for graphs in (atlas(), other)]
    assert not torch.allclose(*moved, atol=1e-2)
    assert places("none", other) is None and places("numbers", other) is None


def test_signs_and_bases_that_are_drawn() -> None:
    cycle = torch.tensor(nx.to_numpy_array(nx.cycle_graph(NODES)))[None]
    graphs = Graphs(cycle, torch.tensor([NODES]), torch.ones(1, 2, dtype=torch.bool))
    torch.manual_seed(0)
    known = places("signs", graphs)
    flipped, turned = (drawn(variant, known) for variant in ("signs", "bases"))
    assert torch.allclose(flipped.abs(), known.abs()) and not torch.allclose(flipped, known)
    assert not torch.allclose(turned.abs(), known.abs())  # a cycle's eigenvalues come in pairs
    pair = [one[0, :, :2] @ one[0, :, :2].T for one in (turned, known)]
    assert torch.allclose(*pair)
    assert drawn("fixed", known) is known


def test_whitened_places_are_uncorrelated() -> None:
    known = torch.randn(500, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    known = known @ torch.tensor([[1.0, 2, 0], [0, 0.1, 0], [3, 0, 1]], dtype=torch.float64) + 5
    white = whitening(known)(known)
    assert (
        torch.allclose(white.T.cov(), torch.eye(3, dtype=torch.float64)) and white.mean(0).abs().max() < 1e-9
    )


@pytest.mark.parametrize("variant", ["none", "eigenvalues", "returns"])
def test_a_model_depends_on_no_numbering(variant: str) -> None:
    graphs = few(3, 300, 700)
    other = renumbered(graphs, torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    known = places(variant, graphs)
    model = classifier(variant, 0 if known is None else known.shape[-1]).eval().requires_grad_(False)
    logits = []
    for one in (graphs, other):
        at = places(variant, one)
        logits.append(model.pooled(one.links.sum(-1).long(), real(one), None if at is None else at.float()))
    assert torch.allclose(*logits, atol=1e-5)


def given(**means: float) -> Findings:
    """Findings with these shares, over three seeds."""
    return Findings(
        {
            (variant, seed): {"held": mean + 0.002 * seed}
            for variant, mean in means.items()
            for seed in range(3)
        }
    )


def test_verdicts() -> None:
    beside = (*graph_classes.INVARIANT, "forest of walks")
    found = given(signs=0.7, fixed=0.71, bases=0.6, **dict.fromkeys(beside, 0.9))
    assert ahead(lead(found, "signs", "bases")[0], SMALLEST, "").word == "confirmed"
    assert ahead(lead(found, "signs", "fixed")[0], SMALLEST, "").word == "refuted"
    assert judge_invariant.judge(found).word == "confirmed"
    rivals = {"numbers": 0.5, "eigenvalues": 0.6, "regression": 0.6, "forest": 0.72, "forest of walks": 0.8}
    assert judge_numbers.judge(given(signs=0.7, **rivals)).condition == (
        "it is compared with numbers or eigenvalues or regression"
    )
    assert judge_numbers.judge(given(signs=0.9, **rivals)).word == "confirmed"
    none = given(signs=0.7, fixed=0.71, bases=0.6, **dict.fromkeys(beside, 0.7))
    assert judge_invariant.judge(none).word == "refuted"
