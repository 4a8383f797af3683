"""A linear forecast: ridge regression on the known part of a series, and how much of the rest it explains."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from vnait.studies.parts.series import phases

PENALTY = 1e-6


def forecast(x: Tensor, y: Tensor, known: int, penalty: float = PENALTY) -> Tensor:
    """Ridge regression on the first `known` rows, the mean apart; what it says of every row."""
    centre, mean = x[:known].mean(0), y[:known].mean()
    own = x[:known] - centre
    square = own.T @ own + penalty * torch.eye(x.shape[1], dtype=x.dtype)
    return (x - centre) @ torch.linalg.solve(square, own.T @ (y[:known] - mean)) + mean


def explained(y: Tensor, found: Tensor) -> float:
    """R^2."""
    return float(1 - (y - found).square().mean() / (y - y.mean()).square().mean())


def best_period(times: Tensor, y: Tensor) -> float:
    """The one from 8 to 14 that explains most of all of y."""
    candidates = [float(period) for period in np.arange(8, 14, 0.05)]
    return max(candidates, key=lambda period: explained(y, forecast(phases(times, [period]), y, len(y))))
