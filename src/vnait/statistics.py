"""Intervals over a handful of seeds, and what they allow one to say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

FEWEST = 3  # seeds below which no interval is given


class Interval(NamedTuple):
    """A mean with its 95 % interval; the bounds are None where there are fewer than three values."""

    mean: float
    low: float | None
    high: float | None

    @property
    def sign(self) -> int:
        """1 or -1 where the interval leaves zero out, else 0."""
        if self.low is None or self.high is None:
            return 0
        return int(self.low > 0) - int(self.high < 0)


def interval(values: Sequence[float]) -> Interval:
    """Mean and 95 % bootstrap interval over seeds: the expanded percentile interval.

    With few values the plain percentile interval is too short (five values: it holds the truth about 83 % of the time). Its percentiles
    are moved to Phi(-t sqrt(n / (n - 1))), t the Student quantile of n - 1 degrees: Hesterberg, "What teachers should know about the
    bootstrap", The American Statistician 69 (2015), section 5.3.

    >>> interval([0.5, 0.5, 0.5])
    Interval(mean=0.5, low=0.5, high=0.5)
    """
    sample = np.asarray(values, dtype=float)
    mean, count = float(sample.mean()), len(sample)
    if count < FEWEST:
        return Interval(mean, None, None)
    if np.ptp(sample) == 0:
        return Interval(mean, mean, mean)
    tail = stats.norm.cdf(stats.t.ppf(0.025, count - 1) * np.sqrt(count / (count - 1)))
    found = stats.bootstrap(
        (sample,), np.mean, confidence_level=1 - 2 * tail, n_resamples=19_999, method="percentile", rng=0
    ).confidence_interval
    return Interval(mean, float(found.low), float(found.high))
