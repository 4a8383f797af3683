"""How far the codes of positions that were not trained on are from those that were, and what of a loss that explains."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata, spearmanr

from vnait.study import Metrics


def geometry(table: np.ndarray, trained: int) -> dict[str, np.ndarray]:
    """Three measures of every row, from the mean and the principal components (99.9 % of the variance) of the first `trained`.

    aliasing      the largest cosine with a trained row that is 16 positions or more away
    drift         the share of the row's length that lies outside of the components
    mahalanobis   its distance along them, each in its own standard deviation; of trained rows, a root mean square of 1
    """
    own = table - table[:trained].mean(0)
    unit = own / np.linalg.norm(own, axis=1, keepdims=True)
    cosines = unit @ unit[:trained].T
    near = np.abs(np.arange(len(table))[:, None] - np.arange(trained)) < 16
    _, singular, components = np.linalg.svd(own[:trained], full_matrices=False)
    kept = int(np.searchsorted(np.cumsum(singular**2) / (singular**2).sum(), 0.999)) + 1
    inside = own @ components[:kept].T
    return {
        "aliasing": np.where(near, -1, cosines).max(1),
        "drift": np.linalg.norm(own - inside @ components[:kept], axis=1) / np.linalg.norm(own, axis=1),
        "mahalanobis": np.sqrt((inside**2 / (singular[:kept] ** 2 / trained)).mean(1)),
    }


def related(measures: dict[str, np.ndarray], loss: np.ndarray) -> Metrics:
    """Means of the trained rows and of the later ones; of these, the rank correlation with their loss: plain, and given the position.

    Both are smoothed over 16 positions. `loss` is that of the later rows alone.
    """
    place, smooth = np.arange(len(loss) - 15), np.full(16, 1 / 16)
    after = np.convolve(loss, smooth, "valid")
    found: Metrics = {}
    for name, values in measures.items():
        own, later = values[: -len(loss)], values[-len(loss) :]
        beyond = np.convolve(later, smooth, "valid")
        found[f"{name} in"], found[f"{name} out"] = float(own.mean()), float(later.mean())
        found[f"{name} rho"] = float(spearmanr(beyond, after).statistic)
        found[f"{name} partial"] = given(beyond, after, place)
        found[name] = values.reshape(-1, 8).mean(1).tolist()
    return found


def given(one: np.ndarray, other: np.ndarray, known: np.ndarray) -> float:
    """Spearman's rank correlation of what a line through the ranks of `known` leaves."""
    base = np.stack([np.ones(len(known)), rankdata(known)], 1)
    left = [ranks - base @ np.linalg.lstsq(base, ranks, rcond=None)[0] for ranks in (rankdata(one), rankdata(other))]
    return float(np.corrcoef(*left)[0, 1])
