"""The papers' choices: the design, the arms, and what is concluded."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
import torch
from torch import nn

from helpers import record
from vnait.positions.building import parameters
from vnait.positions.methods import METHODS
from vnait.positions.recipe import Size
from vnait.results.record import Record
from vnait_lab.page.trainings import of_choices
from vnait_lab.runs.choices import FACTORS, design, effects, made, run_of, verdict

FIRST = dict.fromkeys(FACTORS, 0)
SIZE = Size(dim=8, num_heads=2, max_length=16)


def test_no_effect_is_mixed_with_one_of_two_factors():
    arms = list(design().values())
    assert len(arms) == len({tuple(arm.values()) for arm in arms}) == 16 and FIRST in arms
    signs = {factor: [2 * arm[factor] - 1 for arm in arms] for factor in FACTORS}

    def product(*factors: str) -> int:
        return sum(int(torch.tensor([signs[one][at] for one in factors]).prod()) for at in range(16))

    assert not any(product(one) for one in FACTORS)
    assert not any(product(*two) for two in combinations(FACTORS, 2))
    assert not any(product(*three) for three in combinations(FACTORS, 3))


def test_the_first_levels_are_the_papers_own_method():
    own, paper = made(SIZE, levels=FIRST), METHODS["vnait-paper"].make(SIZE)
    assert parameters(own) == parameters(paper)
    with torch.no_grad():
        for one, other in zip(own.parameters(), paper.parameters(), strict=True):
            assert one.shape == other.shape
            one.copy_(torch.randn_like(one))
            other.copy_(one)
    words, mask = torch.randn(2, 5, 8), torch.ones(2, 5, dtype=torch.bool)
    torch.testing.assert_close(own(words, mask).x, paper(words, mask).x)


@pytest.mark.parametrize("factor", FACTORS)
def test_each_choice_changes_the_method_or_its_run(factor):
    second = FIRST | {factor: 1}
    before, after = made(SIZE, levels=FIRST), made(SIZE, levels=second)
    if factor in ("vectors", "gamma_1"):
        assert str(before) == str(after) and run_of(FIRST) != run_of(second)
    else:
        assert str(before) != str(after) and run_of(FIRST) == run_of(second)


def test_layers_width_and_activation_are_of_both_mlps():
    method = made(SIZE, levels=FIRST | {"layers": 1, "width": 1, "activation": 1})
    for mlp in (method.encoding.mlp, method.inputs.mlp):
        kinds = [type(layer) for layer in mlp]
        assert kinds == [nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear]
        assert [layer.out_features for layer in mlp if isinstance(layer, nn.Linear)] == [32, 32, 8]


def records(size: float, spread: float = 0.0, seeds: int = 3) -> list[Record]:
    """Two sets on which tuned vectors add `size`, and each seed `spread` more than the one before."""
    return [
        record(
            arm,
            seed,
            data={"name": name},
            metrics={"accuracy": 0.5 + 0.1 * seed + (size + spread * seed) * levels["vectors"]},
        )
        for name in ("trec", "mr")
        for seed in range(seeds)
        for arm, levels in design().items()
    ]


def test_an_effect_is_that_of_its_factor_alone():
    found = effects(records(0.04))
    assert found["vectors"].mean == pytest.approx(0.04)
    others = [one.mean for factor, one in found.items() if factor != "vectors"]
    assert others == pytest.approx([0] * 6)


def test_a_draw_without_all_arms_does_not_count():
    found = records(0.04)
    missing = replace(found[0], seed=9)
    assert effects([*found, missing]) == effects(found)


@pytest.mark.parametrize(
    ("made", "word"),
    [
        (records(0.04), "refuted"),
        (records(-0.04), "refuted"),
        (records(0.001), "confirmed"),
        (records(0.0, spread=0.02), "undecided"),
        (records(0.04, seeds=2), "undecided"),
        ([], "undecided"),
    ],
    ids=["more", "less", "small", "unclear", "two draws", "none"],
)
def test_the_verdicts(made, word):
    assert verdict(made).word == word


def test_the_page_has_each_choice_with_its_effect():
    shown = of_choices(records(0.04))
    (claim,) = shown.claims
    assert claim.verdict.word == "refuted" and claim.statement.endswith("on trec, mr")
    assert "tuned for frozen +4.0" in claim.summary
    assert "| vectors | frozen | tuned | +4.0 [4.0, 4.0] | +4.0 [4.0, 4.0] | +4.0 [4.0, 4.0] |" in shown.text
    assert all(f"| {factor} |" in shown.text for factor in FACTORS)
