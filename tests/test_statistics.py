"""Intervals over a handful of seeds: against an independent computation, and by how often they hold the truth."""

import math

import numpy as np
import pytest

from vnait.statistics import Interval, interval

# Student's 97.5 % quantile of n - 1 degrees and Phi(-t sqrt(n / (n - 1))), by n, from printed tables.
TABLES = {5: (2.77645, 9.5410e-4), 10: (2.26216, 8.5506e-3)}
FIVE = {"close": [0.71, 0.74, 0.69, 0.78, 0.73], "skewed": [1.0, 2.0, 4.0, 8.0, 16.0]}
TEN = np.random.default_rng(3).normal(size=10).tolist()


def percentiles(values: list[float], low: float, high: float, draws: int = 200_000) -> tuple[float, float]:
    """The bootstrap distribution of the mean, by numpy alone."""
    sample = np.asarray(values)
    rows = np.random.default_rng(1).integers(len(sample), size=(draws, len(sample)))
    found = np.quantile(sample[rows].mean(1), [low, high])
    return float(found[0]), float(found[1])


@pytest.mark.parametrize("values", [*FIVE.values(), TEN], ids=[*FIVE, "ten"])
def test_against_an_independent_computation(values):
    quantile, tail = TABLES[len(values)]
    below = (1 + math.erf(-quantile * math.sqrt(len(values) / (len(values) - 1)) / math.sqrt(2))) / 2
    assert tail == pytest.approx(below, rel=1e-3)
    low, high = percentiles(values, tail, 1 - tail)
    found = interval(values)
    assert found.mean == pytest.approx(np.mean(values))
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.03 * (high - low))


def test_it_holds_the_truth_for_samples_of_five_where_the_plain_percentile_does_not():
    samples = np.random.default_rng(0).normal(size=(400, 5))
    ours = [interval(sample.tolist()) for sample in samples]
    plain = [percentiles(sample.tolist(), 0.025, 0.975, draws=2_000) for sample in samples]
    held = np.mean([found.low <= 0 <= found.high for found in ours])
    control = np.mean([low <= 0 <= high for low, high in plain])
    assert held >= 0.90
    assert control < 0.87  # about 0.83


@pytest.mark.parametrize("values", [[0.5], [0.5, 0.9]])
def test_fewer_than_three_values_give_no_interval(values):
    found = interval(values)
    assert found == Interval(pytest.approx(np.mean(values)), None, None)
    assert found.sign == 0


def test_three_values_give_their_whole_range():
    # The percentiles of three values are so far out that only resamples of one value are.
    assert interval([1.0, 2.0, 6.0]) == Interval(3.0, 1.0, 6.0)


def test_equal_values_give_an_interval_of_no_width_and_no_warning():
    assert interval([0.25] * 5) == Interval(0.25, 0.25, 0.25)


def test_the_same_values_give_the_same_interval_whatever_ran_before():
    before = interval([0.1, 0.2, 0.4, 0.8])
    np.random.default_rng().normal(size=100)
    np.random.seed(7)
    assert interval([0.1, 0.2, 0.4, 0.8]) == before


@pytest.mark.parametrize(
    ("low", "high", "sign"),
    [(0.1, 0.3, 1), (-0.3, -0.1, -1), (-0.1, 0.3, 0), (0.0, 0.3, 0), (-0.3, 0.0, 0), (0.0, 0.0, 0), (None, None, 0)],
)
def test_sign_is_claimed_only_where_zero_is_outside(low, high, sign):
    assert Interval(0.2, low, high).sign == sign
