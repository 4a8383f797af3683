"""The forecasting study: its attention against cosines by hand, its spectra, and what a forecast may see."""

from __future__ import annotations

import math

import torch

from vnait_lab.studies.forecasting import AHEAD, WINDOW, near, peak, scores, series, share


def test_scores_by_hand() -> None:
    found = scores([12.0, 7.0])
    for u in (0, 5, WINDOW - 1):
        lag = WINDOW - 1 + AHEAD - u
        by_hand = torch.tensor([math.cos(2 * math.pi * lag / 12), math.cos(2 * math.pi * lag / 7)]).double()
        assert torch.allclose(found[u], by_hand, atol=1e-12)


def test_near_counts_from_the_target() -> None:
    row = torch.zeros(WINDOW)
    row[WINDOW - 1 + AHEAD - 12] = 0.75  # a season of 12 before the target
    row[WINDOW - 1 + AHEAD - 13] = 0.25
    assert near(row, 12, 0) == 0.75 and near(row, 12, 1) == 1 and near(row.roll(3), 12, 1) == 0


def test_spectrum_of_a_wave_and_a_comb() -> None:
    lags = torch.arange(120).double()
    wave, comb = 1 + torch.cos(2 * math.pi * lags / 12), (lags % 12 == 0).double()
    assert math.isclose(share(wave, 12.0), 1, abs_tol=1e-12) and peak(wave) == 12
    assert math.isclose(share(comb, 12.0), 1 / 6, abs_tol=1e-12)  # five overtones are as strong


def test_scaled_by_what_is_known() -> None:
    y, known = series("season of 7", 0)
    assert known == 600
    assert abs(float(y[:known].mean())) < 1e-12 and math.isclose(float(y[:known].std()), 1, abs_tol=1e-12)
