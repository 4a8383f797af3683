"""Real texts with insertions, and the sources of learned gaps: what the runs make and conclude."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from helpers import perturb, record
from vnait.data import Table
from vnait.positions.coordinates import Gate
from vnait.positions.recipe import Size
from vnait.results.record import Record
from vnait_lab.runs import gaps, gate_gradients
from vnait_lab.runs.gate_gradients import SteadyGate
from vnait_lab.runs.insertions import (
    KINDS,
    SEEN,
    UNSEEN,
    dropped,
    harmed,
    inserted,
    perturbed,
    swapped,
    typos,
    verdict,
)

LETTERS = list("ACGTACGTAC")
WORDS = ["how", "many", "people", "live", "in", "Rome", "?"]


@pytest.mark.parametrize("unseen", [False, True])
@pytest.mark.parametrize("letters", [True, False])
def test_without_its_insertions_a_text_is_what_it_was(unseen: bool, letters: bool) -> None:
    text = LETTERS if letters else WORDS
    added = {"-"} if letters else {word for kind in (UNSEEN if unseen else SEEN) for word in KINDS[kind]}
    most = 0.0
    for seed in range(50):
        found = inserted(text, 3.0, unseen, np.random.default_rng(seed), letters=letters)
        assert [one for one in found if one not in added] == text
        most = max(most, len(found) / len(text))
    assert 3 < most <= 4
    assert inserted(text, 0.0, unseen, np.random.default_rng(0), letters=letters) == text


def test_kinds_of_the_test_are_not_seen_in_training() -> None:
    assert set(SEEN) | set(UNSEEN) == set(KINDS) and not set(SEEN) & set(UNSEEN)
    seen, unseen = ({word for kind in kinds for word in KINDS[kind]} for kinds in (SEEN, UNSEEN))
    assert not seen & unseen


def test_gaps_one_by_one_are_not_the_runs_of_the_training() -> None:
    runs, single = (
        "".join(inserted(LETTERS * 6, 0.5, unseen, np.random.default_rng(1), letters=True))
        for unseen in (False, True)
    )
    assert "-----" in runs and "-----" not in single and "-" in single


def test_a_seed_perturbs_a_table_once() -> None:
    table = Table(name="t", texts=["A C G T", "T T"], labels=["x", "y"], dropped=0)
    one, again, other = (perturbed(table, 3.0, False, seed, letters=False) for seed in (0, 0, 1))
    assert one.texts == again.texts != other.texts and one.labels == table.labels


@pytest.mark.parametrize("letters", [True, False])
def test_a_tenth_of_the_tokens_is_harmed(letters: bool) -> None:
    text = (LETTERS if letters else WORDS) * 200
    found = typos(text, np.random.default_rng(0), letters=letters)
    assert len(found) == len(text)
    wrong = [(one, other) for one, other in zip(text, found, strict=True) if one != other]
    assert 0.07 < len(wrong) / len(text) < 0.13
    assert letters or all(sorted(one) == sorted(other) for one, other in wrong)
    assert set(found) <= set("ACGT") or not letters
    left = dropped(text, np.random.default_rng(0), letters=letters)
    assert 0.87 < len(left) / len(text) < 0.93
    assert dropped(["a"], np.random.default_rng(5), letters=letters) == ["a"]


def test_harm_changes_texts_alone() -> None:
    table = Table(name="t", texts=["how many people live in Rome"] * 9, labels=["x"] * 9, dropped=0)
    for kind in ("typos", "dropped"):
        assert harmed(table, kind, letters=False).labels == table.labels
        assert harmed(table, kind, letters=False).texts != table.texts


def test_neighbouring_letters_change_places() -> None:
    assert {swapped("film", np.random.default_rng(seed)) for seed in range(30)} == {"iflm", "flim", "fiml"}
    assert swapped("a", np.random.default_rng(0)) == "a"


def record_of(method: str, seed: int, clean: float, more: float) -> Record:
    metrics = {"accuracy_clean": clean, "accuracy_more": more}
    return record(method, seed, data={"name": "splice"}, metrics=metrics)


def test_the_verdict_compares_with_the_best_method_of_the_raw_index() -> None:
    """`none` loses nothing and knows nothing; `lpi` reads the words."""
    rivals = [
        record_of(name, seed, clean + seed / 100, more)
        for seed in range(4)
        for name, clean, more in (("rope", 0.9, 0.6), ("none", 0.3, 0.3), ("lpi", 0.9, 0.9))
    ]
    own = [record_of("vnait", seed, 0.9, 0.89) for seed in range(4)]
    found = verdict([*rivals, *own], "vnait", ["more"], 1 / 3)
    assert found.word == "confirmed" and found.summary.startswith("1.0 points, rope 31.5;")
    assert verdict([*rivals, *own], "vnait", ["more"], 0.01).word == "refuted"
    worse = [record_of("vnait", seed, 0.9, 0.7) for seed in range(4)]
    assert verdict([*rivals, *worse], "vnait", ["more"], 1 / 3).word == "refuted"
    assert verdict(own, "vnait", ["more"], 1).word == "undecided"
    assert verdict([*rivals[:3], *own[:1]], "vnait", ["more"], 1).word == "undecided"


def test_every_variant_of_the_gaps_takes_texts_of_two_lengths() -> None:
    vectors, mask = torch.randn(2, 7, 64), torch.ones(2, 7, dtype=torch.bool)
    mask[1, 4:] = False
    for name, parts in gaps.VARIANTS.items():
        method = gaps.variant(Size(dim=64), **parts)
        found = method(vectors, mask)
        assert found.x[mask].isfinite().all(), name
        uneven = torch.tensor([[[10.0], [20.0], [100.0]]])
        penalty = method.penalty(uneven, torch.ones(1, 3, dtype=torch.bool), smooth=9, bound=9)
        assert (penalty > 0) == (parts["gamma"] > 0), name


def test_counted_ends_ignore_weights() -> None:
    """The distances in tokens, whatever counts; those in weights move with it."""
    torch.manual_seed(0)
    both = gaps.BothEnds(gaps.SOURCES["gated"](Size(dim=8)))
    with torch.no_grad():
        both.elastic.gate.weigh.weight.normal_()
    at = both(torch.randn(1, 5, 8), torch.ones(1, 5, dtype=torch.bool))[0]
    assert at[:, 3].tolist() == [0, 1, 2, 3, 4] and at[:, 4].tolist() == [4, 3, 2, 1, 0]
    assert not torch.allclose(at[:, 1], at[:, 3], atol=0.1)


def test_a_steady_gate_has_the_values_of_its_own_and_a_gradient_of_one_size() -> None:
    method = gate_gradients.steady(Size(dim=8, num_heads=2, max_length=16))
    (steady,) = (part for part in method.modules() if isinstance(part, Gate))
    assert isinstance(steady, SteadyGate)
    perturb(steady)
    words, mask = torch.randn(2, 5, 8), torch.ones(2, 5, dtype=torch.bool)
    plain = Gate(dim=8)
    plain.load_state_dict(steady.state_dict())
    assert torch.equal(steady(words, mask), plain(words, mask))
    gradients = []
    for scale in (1.0, 1e4):
        steady.zero_grad()
        (scale * steady(words, mask)).square().sum().backward()
        gradients.append(steady.weigh.weight.grad.clone())
    torch.testing.assert_close(*gradients)
    assert 0 < float(gradients[0].norm()) < 1
