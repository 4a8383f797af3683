"""Intervals: over a few seeds, and of a share."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import stats

MIN_SEEDS = 3  # seeds for an interval
UNIT = (0.0, 1.0)  # the range of an accuracy

Key = TypeVar("Key", bound=Hashable)


class Interval(NamedTuple):
    """A mean with its 95 % interval; the bounds are None for fewer than three values."""

    mean: float
    low: float | None
    high: float | None

    @property
    def sign(self) -> int:
        """1 or -1 if the interval excludes zero, else 0."""
        if self.low is None or self.high is None:
            return 0
        return int(self.low > 0) - int(self.high < 0)

    @property
    def bounds(self) -> tuple[float, float]:
        """Both bounds; the mean twice for fewer than three values."""
        low, high = (self.mean if end is None else end for end in (self.low, self.high))
        return low, high

    def times(self, factor: float) -> Interval:
        """Mean and bounds times `factor`, such as 100 for points; a negative one exchanges the bounds."""
        low, high = (None if end is None else factor * end for end in (self.low, self.high))
        return Interval(factor * self.mean, *((low, high) if factor > 0 else (high, low)))

    def written(self, form: str = "{:.3g}", unit: str = "") -> str:
        """The mean with its unit and, if there is one, its interval.

        >>> Interval(0.5, None, None).written()
        '0.5'
        >>> Interval(0.021, 0.012, 0.03).times(100).written("{:+.1f}", " points")
        '+2.1 points [+1.2, +3.0]'
        """
        mean = form.format(self.mean) + unit
        if self.low is None or self.high is None:
            return mean
        return f"{mean} [{form.format(self.low)}, {form.format(self.high)}]"


def interval(values: Sequence[float], *, within: tuple[float, float] = (-np.inf, np.inf)) -> Interval:
    """Mean and 95 % interval over seeds: mean -+ t s / sqrt(n), s with n - 1 in the denominator, t the 97.5 %
    quantile of Student's distribution with n - 1 degrees of freedom.

    Exact for normal values. The bounds are clipped to `within`, the range of the values. No bootstrap:
    resamples of three values stay in their range, which covers the mean of normal values only 3 times in 4.

    >>> [round(value, 2) for value in interval([0.4, 0.5, 0.6])]
    [0.5, 0.25, 0.75]
    """
    sample = np.asarray(values, dtype=float)
    mean, count = float(sample.mean()), len(sample)
    if count < MIN_SEEDS:
        return Interval(mean, None, None)
    reach = float(stats.t.ppf(0.975, count - 1) * sample.std(ddof=1) / np.sqrt(count))
    return Interval(mean, max(mean - reach, within[0]), min(mean + reach, within[1]))


def crossed(values: NDArray[np.float64], *, within: tuple[float, float] = (-np.inf, np.inf)) -> Interval:
    """Mean and 95 % interval of values (n seeds, m rows) that all seeds have on the same rows, over both.

    V = s_n^2 / n + s_m^2 / m, s_n of the means of seeds, s_m of the means of rows; mean -+ t sqrt(V), with
    Satterthwaite's degrees of freedom V^2 / (V_n^2 / (n - 1) + V_m^2 / (m - 1)). What varies with both is
    counted twice, so that the interval is rather too wide (Cornfield and Tukey 1956, crossed random effects).
    The bounds are clipped to `within`.

    >>> crossed(np.array([[1.0, 0.0, 1.0, 1.0]] * 3)).written("{:.2f}")  # no variance over seeds: rows alone
    '0.75 [-0.05, 1.55]'
    """
    mean, sizes = float(values.mean()), np.array(values.shape)
    if sizes[0] < MIN_SEEDS or sizes[1] < 2:
        return Interval(mean, None, None)
    parts = np.array([values.mean(1).var(ddof=1), values.mean(0).var(ddof=1)]) / sizes
    if not parts.any():
        return Interval(mean, mean, mean)
    freedom = parts.sum() ** 2 / (parts**2 / (sizes - 1)).sum()
    reach = float(stats.t.ppf(0.975, freedom) * np.sqrt(parts.sum()))
    return Interval(mean, max(mean - reach, within[0]), min(mean + reach, within[1]))


def proportion(right: int, count: int) -> Interval:
    """The share of `count` independent trials that are right, with Wilson's 95 % interval.

    >>> proportion(18, 20).times(100).written("{:.0f}")
    '90 [70, 97]'
    """
    low, high = stats.binomtest(right, count).proportion_ci(method="wilson")
    return Interval(right / count, float(low), float(high))


def clustered(right: Sequence[int], counts: Sequence[int]) -> Interval:
    """The share of right trials in groups, such as words in sentences, with its 95 % interval over the
    groups, in which trials may depend on each other.

    R = sum(right) / sum(counts) -+ t s / (m sqrt(n)), s the deviation of right - R counts over n groups, m
    the mean count (Cochran 1977, Sampling Techniques, section 2.11). If all trials are right, or none is, s
    is 0, and the interval is Wilson's of n groups.

    >>> clustered([9, 8, 10, 3], [10, 10, 10, 4]).written("{:.2f}")
    '0.88 [0.72, 1.00]'
    """
    hits, sizes = np.asarray(right, dtype=float), np.asarray(counts, dtype=float)
    share = float(hits.sum() / sizes.sum())
    if share in UNIT:
        return proportion(round(share) * len(counts), len(counts))
    _, low, high = interval((hits - share * sizes).tolist()).times(1 / float(sizes.mean()))
    if low is None or high is None:
        return Interval(share, None, None)
    return Interval(share, max(share + low, UNIT[0]), min(share + high, UNIT[1]))


def standard_error(values: Sequence[float]) -> float:
    """s / sqrt(n), the standard error of the mean; 0 for fewer than two values.

    >>> round(standard_error([0.4, 0.5, 0.6]), 4)
    0.0577
    """
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def seeds_needed(differences: Sequence[float]) -> int | None:
    """The smallest n with t s / sqrt(n) < |mean|, at which the interval would exclude zero.

    A projection from few seeds, so only an order of magnitude. None if n exceeds 1000, or mean or s is 0.

    >>> seeds_needed([0.01, 0.03, -0.01, 0.02])
    10
    """
    mean, spread = abs(float(np.mean(differences))), standard_error(differences) * np.sqrt(len(differences))
    if len(differences) < 2 or not mean or not spread:
        return None
    counts = np.arange(MIN_SEEDS, 1001)
    enough = stats.t.ppf(0.975, counts - 1) * spread / np.sqrt(counts) < mean
    return int(counts[enough.argmax()]) if enough.any() else None


def paired(values: Mapping[Key, float], reference: Mapping[Key, float]) -> list[float]:
    """`values` minus `reference` per seed that both have, in the order of `values`. Effects of the
    seed on both cancel.

    >>> paired({0: 3.0, 1: 5.0, 2: 9.0}, {1: 4.0, 0: 1.0})
    [2.0, 1.0]
    """
    return [value - reference[seed] for seed, value in values.items() if seed in reference]
