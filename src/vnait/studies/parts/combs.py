"""Attention that knows the clock and no value: over a window, from a moment after it, by the phases of both.

Of one period P and a focus beta, the weights are a comb with teeth at the moments of the target's phase; its figures are exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from scipy.special import ive
from torch import Tensor

from vnait.studies.parts.series import phases
from vnait.study import Metrics

WINDOW, AHEAD = 120, 6
FOCUS = (1.0, 4.0, 16.0, 64.0)  # beta
WINDOWS = (120, 125, 127)


def scores(periods: Sequence[float], window: int = WINDOW, ahead: int = AHEAD) -> Tensor:
    """q.k a period (window, periods), for a query `ahead` steps after the window: cos(2 pi (t+H-u)/p), told by the codes alone."""
    query, keys = phases(torch.tensor([window - 1 + ahead]), periods), phases(torch.arange(window), periods)
    return (query * keys).unflatten(1, (-1, 2)).sum(2)


def comb(beta: float, period: float, window: int = WINDOW, ahead: int = AHEAD) -> Tensor:
    """The attention (window,) that one known period makes."""
    return (beta * scores([period], window, ahead))[:, 0].softmax(0)


def near(row: Tensor, season: int, steps: int) -> float:
    """The attention that falls on the target's phase, or that many steps beside it."""
    lag = WINDOW - 1 + AHEAD - torch.arange(WINDOW)
    return float(row[torch.minimum(lag % season, -lag % season) <= steps].sum())


def share(row: Tensor, period: float) -> float:
    """Of the row's energy, its mean apart, that lies at the period's frequency."""
    energy = torch.fft.rfft(row).abs().square()[1:]
    return float(energy[round(len(row) / period) - 1] / energy.sum())


def peak(row: Tensor) -> float:
    """The period at which a row's spectrum is highest, its mean apart."""
    return len(row) / (1 + int(torch.fft.rfft(row).abs()[1:].argmax()))


def rows() -> Metrics:
    """What attention of one known period does, without any data."""
    period = 12.0
    lags = torch.arange(-500, 500, dtype=torch.float64)
    products = phases(torch.tensor([7.0]), [period]) @ phases(7 - lags, [period]).T
    found: Metrics = {"identity": float((products[0] - torch.cos(2 * math.pi * lags / period)).abs().max())}
    wave = torch.sin(2 * math.pi * torch.arange(WINDOW + 12, dtype=torch.float64) / period)
    for beta in FOCUS:
        row = comb(beta, period)
        steps = [comb(beta, period, ahead=ahead) @ wave[:WINDOW] for ahead in range(1, 13)]
        found[f"mass {beta:g}"] = near(row, 12, 0)
        found[f"amplitude {beta:g}"] = float(torch.stack(steps) @ wave[WINDOW:] / wave[WINDOW:].square().sum())
        found[f"bessel {beta:g}"] = float(ive(1, beta) / ive(0, beta))
        found[f"share {beta:g}"] = share(row, period)
        found[f"peaks {beta:g}"] = [peak(comb(beta, period, window)) for window in WINDOWS]
    return found
