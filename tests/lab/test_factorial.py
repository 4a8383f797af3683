"""Every scheme with the same parts: what the arms have, and what the page concludes."""

from __future__ import annotations

import pytest
import torch

from vnait.coordinates import Index, Jitter, Randomized
from vnait.methods import METHODS, Size
from vnait.record import Record
from vnait_lab.page.factorial import section
from vnait_lab.runs.factorial import SCHEMES, SETS, VNAIT, arms

SIZE = Size(dim=16, num_heads=4)


def test_the_arms_are_every_scheme_with_every_set_of_parts() -> None:
    assert len(SETS) == 8
    assert len(arms()) == 8 * len(SCHEMES) - 4  # `none` has no places to draw


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("parts", SETS)
def test_an_arm_has_its_parts_and_no_others(scheme: str, parts: str) -> None:
    if scheme == "none" and "random" in parts:
        return
    method = arms()[f"{scheme}: {parts}"].make(SIZE)
    assert hasattr(method.inputs, "views") == ("neighbours" in parts)
    assert (method.scale is not None) == ("log n" in parts)
    assert isinstance(method.coordinates, Jitter | Randomized) == ("random" in parts)
    x = method(torch.randn(2, 5, 16), torch.ones(2, 5, dtype=torch.bool)).x
    assert x.shape == (2, 5, 16) and x.isfinite().all()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_parts_of_vnait_make_it_vnait(scheme: str) -> None:
    """With what it has by itself an arm is the scheme: all three of vnait, none of the others."""
    parts = "neighbours + log n + random" if scheme in VNAIT else "none"
    weights = [
        {name: tuple(weight.shape) for name, weight in recipe.make(SIZE).named_parameters()}
        for recipe in (METHODS[scheme], arms()[f"{scheme}: {parts}"])
    ]
    assert weights[0] == weights[1]
    assert isinstance(arms()[f"{scheme}: none"].make(SIZE).coordinates, Index) == (scheme not in VNAIT)


def record(arm: str, task: str, seed: int, accuracy: float) -> Record:
    metrics = {"accuracy_320": accuracy, "accuracy_500": accuracy}
    return Record.now(
        key=f"{arm}{task}{seed}",
        method=arm,
        seed=seed,
        run={"steps": 1000},
        data={"name": task},
        metrics=metrics,
        parameters=0,
        seconds=0.0,
    )


def test_the_page_compares_with_the_best_other_scheme_that_ran_every_task() -> None:
    """`vnait-uniform` is ours, and `alibi` ran one task of two: neither is the best rival."""
    accuracies = {"rope": 0.5, "t5": 0.7, "vnait-uniform": 0.9, "vnait": 0.8}
    found = [
        record(f"{scheme}: neighbours", task, seed, accuracy + seed / 100)
        for scheme, accuracy in accuracies.items()
        for task in ("order", "middle")
        for seed in range(3)
    ]
    text = section([*found, record("alibi: neighbours", "order", 0, 1.0)], "length").text
    assert "| best other | t5 |" in text
    assert "| vnait minus it | +10.0 [10.0, 10.0] |" in text
    assert "| vnait-elastic minus it | - |" in text
    assert "| alibi | - |" in text
