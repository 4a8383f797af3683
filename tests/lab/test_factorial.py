"""Every scheme with the same parts: what the arms have, and what the page concludes."""

from __future__ import annotations

import pytest
import torch

from helpers import record
from vnait.model import seed_weights
from vnait.positions.coordinates import Jitter, Randomized
from vnait.positions.methods import METHODS
from vnait.positions.recipe import Size
from vnait.results.record import Record
from vnait_lab.page import factorial
from vnait_lab.runs.factorial import AS_METHODS, SCHEMES, SETS, variants

SIZE = Size(dim=16, num_heads=4)


def test_the_arms_are_every_scheme_with_every_set_of_parts() -> None:
    assert len(SETS) == 8
    assert len(variants()) == 8 * len(SCHEMES) - 4  # `none` has no places to draw


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("parts", SETS)
def test_an_arm_has_its_parts_and_no_others(scheme: str, parts: str) -> None:
    if scheme == "none" and "random" in parts:
        return
    method = variants()[f"{scheme}: {parts}"].make(SIZE)
    assert hasattr(method.inputs, "views") == ("neighbours" in parts)
    assert (method.scale is not None) == ("log n" in parts)
    assert isinstance(method.coordinates, Jitter | Randomized) == ("random" in parts)
    x = method(torch.randn(2, 5, 16), torch.ones(2, 5, dtype=torch.bool)).x
    assert x.shape == (2, 5, 16) and x.isfinite().all()


@pytest.mark.parametrize("method", AS_METHODS)
def test_an_arm_that_is_not_run_is_the_method(method: str) -> None:
    """Their parts are the same, and after the same start so is what they compute in training."""
    found = []
    for recipe in (METHODS[method], variants()[AS_METHODS[method]]):
        built = recipe.make(SIZE)
        seed_weights(built, 0)
        torch.manual_seed(0)
        found.append((str(built), built(torch.randn(2, 5, 16), torch.ones(2, 5, dtype=torch.bool)).x))
    assert found[0][0] == found[1][0] and torch.equal(found[0][1], found[1][1])


def record_of(arm: str, task: str, seed: int, accuracy: float) -> Record:
    metrics = {"accuracy_320": accuracy, "accuracy_500": accuracy}
    data = {"name": task, "filler": "none"}
    return record(arm, seed, key=f"{arm} {task} {seed}", run={"steps": 1000}, data=data, metrics=metrics)


def test_the_page_compares_with_the_best_other_scheme_that_ran_every_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`vnait` is ours, and `alibi` ran one task of two, so neither is the best rival."""
    accuracies = {"rope": 0.5, "t5": 0.7}
    parts = "neighbours + log n + random"

    def of(arm: str, accuracy: float) -> list[Record]:
        tasks = ("order", "middle")
        return [record_of(arm, task, seed, accuracy + seed / 100) for task in tasks for seed in range(3)]

    monkeypatch.setattr(factorial, "read", lambda folder: [*of("vnait", 0.8), *of("cope", 1.0)])
    ran = [one for scheme, accuracy in accuracies.items() for one in of(f"{scheme}: {parts}", accuracy)]
    text = factorial.section([*ran, record_of(f"alibi: {parts}", "order", 0, 1.0)], "length").text
    assert "| best other | t5 |" in text
    assert "| vnait minus it | +10.0 [10.0, 10.0] |" in text
    assert "| alibi | - |" in text
    drawn = factorial.figure(factorial.by_variant(ran, "length"))
    assert [len(line.get_xdata()) for line in drawn.axes[0].lines] == [6]  # two schemes, three seeds


def test_tasks_of_filler_that_do_not_count_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """`vnait-uniform` answers `middle` with the oracle alone, and `third` without it."""
    control = {"middle": 0.5, "middle-oracle": 1.0, "third": 1.0, "third-oracle": 1.0}
    of_methods = [record_of("vnait-uniform", task, 0, accuracy) for task, accuracy in control.items()]
    monkeypatch.setattr(factorial, "read", lambda folder: of_methods)
    ran = [record_of("rope: neighbours + log n + random", task, 0, 0.5) for task in ("middle", "third")]
    assert {one.data["name"] for one in factorial.with_methods(ran, "elastic")} == {"middle"}
    assert {one.data["name"] for one in factorial.with_methods(ran, "length")} == {"middle", "third"}
