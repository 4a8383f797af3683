"""The study of ETTh1's horizons: what a model reads, what it is trained and tested on, and the baselines."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from vnait_lab.studies import horizons
from vnait_lab.studies.horizons import (
    DAY,
    HORIZONS,
    PAST,
    TESTED,
    TRAINED,
    TRANSFORMERS,
    DLinear,
    Repeated,
    Transformer,
    error,
    fitted,
    windows,
)

HOURS = 14_400


@pytest.fixture
def numbered(monkeypatch: pytest.MonkeyPatch) -> Tensor:
    """Seven series whose value is the hour, in place of the real ones."""
    y = torch.arange(HOURS, dtype=torch.float32)[:, None].repeat(1, 7)
    monkeypatch.setattr(horizons, "series", lambda: y)
    return y


def test_a_window_ends_now(numbered: Tensor) -> None:
    before, after = windows(torch.tensor([500, 501]), PAST, 24)
    assert before[0, :, 3].tolist() == list(range(500 - PAST + 1, 501))
    assert after[1, :, 0].tolist() == list(range(502, 526))


@pytest.mark.parametrize("ahead", HORIZONS)
def test_targets_are_the_whole_of_the_test_months(numbered: Tensor, ahead: int) -> None:
    seen = []

    class Recorder(nn.Module):
        def forward(self, past: Tensor, now: Tensor) -> Tensor:
            seen.append(now)
            return past[:, -1:] + torch.arange(1, ahead + 1)

    assert error(Recorder(), PAST, ahead, TRAINED, 50) == 0  # of a line, the last value decides
    now = torch.cat(seen)
    assert int(now.min()) + 1 == TRAINED and int(now.max()) + ahead == TRAINED + TESTED - 1


def test_the_last_day_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    season = torch.arange(HOURS).remainder(DAY).float()[:, None].repeat(1, 7)
    monkeypatch.setattr(horizons, "series", lambda: season)
    assert error(Repeated(96), PAST, 96, TRAINED, 20) == 0
    assert error(Repeated(24), PAST, 24, TRAINED, 20) == 0


def test_a_linear_model_starts_as_the_mean_of_the_past() -> None:
    past, model = torch.randn(2, 96), DLinear(96, 24)
    bias = model.trend.bias + model.rest.bias
    torch.testing.assert_close(model(past, torch.zeros(2)) - bias, past.mean(1, keepdim=True).expand(2, 24))


@pytest.mark.parametrize("variant", ["DLinear", "index"])
def test_training_reads_the_first_year_alone(
    variant: str, numbered: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(horizons, "TRAINED", 300)
    numbered /= HOURS
    numbered[300:] = torch.nan
    model = fitted(variant, 0, 24, 20 if variant == "index" else 2)
    assert all(weight.isfinite().all() for weight in model.parameters())


@pytest.mark.parametrize("variant", [*TRANSFORMERS])
def test_only_phases_know_the_hour(variant: str) -> None:
    torch.manual_seed(0)
    model, past, now = Transformer(variant, 24).eval(), torch.randn(2, PAST), torch.tensor([1000, 2000])
    with torch.no_grad():
        same, other = model(past, now + DAY), model(past, now + 5)
        found = model(past, now)
    assert torch.equal(found, same) == (variant != "other phases")
    assert torch.equal(found, other) == ("phases" not in variant)
