"""The trajectories study: its weights and guesses, by hand."""

from __future__ import annotations

import math

import torch

from vnait_lab.studies.trajectories import LAMBDAS, SLOPES, STARTS, STATES, guesses, relative, run, weights
from vnait_lab.study import Budget


def test_weights_by_hand() -> None:
    start = STARTS.index(50)
    raw = [math.exp(-0.5 * (STATES - 1 - j)) for j in range(STATES)]
    assert torch.allclose(
        weights("relative, a=0.5")[start], torch.tensor(raw).double() / sum(raw), atol=1e-14
    )
    raw = [math.exp((70 * (50 + j) - 70 * 70) / 100) for j in range(STATES)]
    assert torch.allclose(
        weights("absolute, lambda=100")[start], torch.tensor(raw).double() / sum(raw), atol=1e-14
    )


def test_absolute_time_is_relative_with_a_slope_that_grows() -> None:
    for start, shares in zip(STARTS[:-1], weights("absolute, lambda=100"), strict=False):
        time = start + torch.arange(STATES).double()[None]
        assert torch.allclose(
            relative(time, (start + STATES - 1) / LAMBDAS["absolute, lambda=100"]).softmax(1)[0], shares
        )


def test_guesses_by_hand() -> None:
    path = torch.tensor([1.0, 2.0, 4.0, 99.0])
    assert guesses(path, torch.tensor([[0.5, 0.25, 0.25]])).item() == 2.0
    assert guesses(path, torch.tensor([[0.5, 0.5]])).item() == 5.5  # 4 + (1 + 2) / 2
    assert guesses(path, torch.tensor([[1.0]])).item() == 7.0  # 4 + 2 + 1


def test_error_at_constant_speed_is_the_geometric_sum() -> None:
    for arm, slope in SLOPES.items():
        share = [math.exp(-slope * lag) for lag in range(STATES)]
        exact = sum((lag + 1) * one for lag, one in enumerate(share)) / sum(share)
        assert all(abs(error - exact) < 1e-12 for error in run(arm, 0, Budget())["velocity"])
