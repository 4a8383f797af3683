"""The seasonality study: its regression against a formula by hand, and what it may not see."""

from __future__ import annotations

import math

import torch

from vnait_lab.studies.parts.series import generated, phases
from vnait_lab.studies.seasonality import best_period, explained, forecast


def test_forecast_sees_no_future() -> None:
    x, y = (
        phases(torch.arange(100.0), [12.0], 2),
        torch.randn(100, generator=torch.Generator().manual_seed(0)).double(),
    )
    changed = torch.cat([y[:60], y[60:] + 9])
    assert torch.equal(forecast(x, y, 60), forecast(x, changed, 60))
    assert not torch.equal(forecast(x, y, 80), forecast(x, changed, 80))


def test_forecast_is_least_squares() -> None:
    x = torch.tensor([[0.0], [1.0], [2.0], [3.0]]).double()
    line = forecast(x, 2 * x[:, 0] + 5, 3, penalty=0.0)
    assert torch.allclose(line, torch.tensor([5.0, 7.0, 9.0, 11.0]).double())
    shrunk = forecast(x, 2 * x[:, 0] + 5, 3, penalty=2.0)  # own.own = 2, so the slope is halved
    assert torch.allclose(shrunk, torch.tensor([6.0, 7.0, 8.0, 9.0]).double())


def test_phases_come_back() -> None:
    codes = phases(torch.arange(240.0), [120.0, 24.0], 3)
    assert torch.allclose(codes[:120], codes[120:], atol=1e-12) and not torch.allclose(
        codes[:24], codes[24:48], atol=0.1
    )
    assert torch.allclose(
        codes[7, 6:8], torch.tensor([math.sin(2 * math.pi * 7 / 24), math.cos(2 * math.pi * 7 / 24)]).double()
    )


def test_period_and_share_found() -> None:
    times = torch.arange(300.0).double()
    assert math.isclose(best_period(times, torch.sin(2 * math.pi * times / 10.5 + 1)), 10.5, abs_tol=0.06)
    week, noise = generated("sinusoidal", 0), generated("noise", 0)
    assert math.isclose(explained(week, week - noise), 1 - 0.09 / float(week.var()), abs_tol=0.01)
