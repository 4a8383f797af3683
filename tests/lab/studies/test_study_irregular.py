"""The study of irregular time: which samples a model gets, and the rules without a model."""

from __future__ import annotations

import pytest
import torch

from vnait_lab.studies.irregular import AHEAD, SAMPLES, WINDOW, Forecaster, interpolated, rules, sampled

LINE = torch.arange(2000, dtype=torch.float32)  # a series whose value is its hour


def drawn(count: int = 200) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    now = torch.arange(count) + 500
    return *sampled(LINE, now, torch.Generator().manual_seed(0)), now


def test_samples_are_of_the_window_in_order_and_end_now() -> None:
    values, hours, now = drawn()
    assert values.shape == (200, SAMPLES) and torch.equal(values, hours)
    assert bool((hours.diff(dim=-1) >= 1).all()) and torch.equal(hours[:, -1], now.float())
    assert bool((hours[:, 0] > now - WINDOW).all())


def test_samples_are_bunched() -> None:
    _, hours, now = drawn()
    late = (hours > now[:, None] - WINDOW / 2).float().mean(-1)  # evenly drawn, it varies by .056
    assert late.std() > 0.09 and float(late.mean()) == pytest.approx(0.5, abs=0.1)


def test_interpolation_finds_the_values_of_a_line() -> None:
    values, hours, now = drawn()
    grid = now[:, None] - 2.0 * torch.arange(SAMPLES - 1, -1, -1)
    inside = grid >= hours[:, :1]
    assert torch.allclose(interpolated(values, hours)[inside], grid[inside], atol=1e-2)


def test_rules_of_a_line() -> None:
    values, hours, now = drawn()
    found = rules((values, hours, LINE[now + AHEAD]), (values, hours, LINE[now + AHEAD]))
    assert found["error"] < 1e-2  # of a line, the last value decides
    assert 23**2 < found["day before"] < 30**2


def test_only_arms_that_know_the_hours_read_them() -> None:
    values, hours, _ = drawn(3)
    spread = hours - 3 * torch.arange(SAMPLES).flip(0) ** 1.5
    for variant, reads in {
        "counted": False,
        "rope": False,
        "times": True,
        "rope, times": True,
        "phases": True,
    }.items():
        torch.manual_seed(0)
        model = Forecaster(variant).eval()
        with torch.no_grad():
            assert torch.allclose(model(values / 500, hours), model(values / 500, spread), atol=1e-6) != reads
