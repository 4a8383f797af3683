"""Intervals over a handful of seeds: against printed tables, and by how often they hold the truth."""

import math

import numpy as np
import pytest

from vnait.shared.statistics import UNIT, Interval, crossed, interval, paired

# Student's 97.5 % quantile of n - 1 degrees, by n, from printed tables.
TABLES = {3: 4.30265, 5: 2.77645, 10: 2.26216}
VALUES = {
    "three": [1.0, 2.0, 6.0],
    "close": [0.71, 0.74, 0.69, 0.78, 0.73],
    "skewed": [1.0, 2.0, 4.0, 8.0, 16.0],
    "ten": np.random.default_rng(3).normal(size=10).tolist(),
}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_against_printed_tables(values):
    mean = sum(values) / len(values)
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
    reach = TABLES[len(values)] * spread / math.sqrt(len(values))
    assert interval(values) == pytest.approx((mean, mean - reach, mean + reach), rel=1e-5)


@pytest.mark.parametrize("count", [3, 5])
def test_it_holds_the_truth_where_the_range_of_the_values_does_not(count):
    samples = np.random.default_rng(0).normal(size=(2000, count))
    held = np.mean([found.low <= 0 <= found.high for found in map(interval, samples.tolist())])
    assert 0.935 < held < 0.965
    if count == 3:
        assert np.mean((samples.min(1) <= 0) & (samples.max(1) >= 0)) < 0.78


def test_no_bound_lies_where_no_mean_can_be():
    assert interval([0.9, 1.0, 1.0], within=UNIT).high == 1 < interval([0.9, 1.0, 1.0]).high
    assert interval([0.1, 0.0, 0.0], within=UNIT).low == 0 > interval([0.1, 0.0, 0.0]).low


@pytest.mark.parametrize("values", [[0.5], [0.5, 0.9]])
def test_fewer_than_three_values_give_no_interval(values):
    found = interval(values)
    assert found == Interval(pytest.approx(np.mean(values)), None, None)
    assert found.sign == 0


def test_equal_values_give_an_interval_of_no_width_and_no_warning():
    assert interval([0.25] * 5) == Interval(0.25, 0.25, 0.25)


def test_the_same_values_give_the_same_interval_whatever_ran_before():
    before = interval([0.1, 0.2, 0.4, 0.8])
    np.random.default_rng().normal(size=100)
    np.random.seed(7)
    assert interval([0.1, 0.2, 0.4, 0.8]) == before


@pytest.mark.parametrize(
    ("low", "high", "sign"),
    [
        (0.1, 0.3, 1),
        (-0.3, -0.1, -1),
        (-0.1, 0.3, 0),
        (0.0, 0.3, 0),
        (-0.3, 0.0, 0),
        (0.0, 0.0, 0),
        (None, None, 0),
    ],
)
def test_sign_is_claimed_only_where_zero_is_outside(low, high, sign):
    assert Interval(0.2, low, high).sign == sign


def test_pairs_are_those_of_the_seeds_that_both_have():
    assert paired({2: 0.5, 0: 0.75, 7: 1.0}, {0: 0.25, 2: 0.5, 1: 0.0}) == [0.0, 0.5]
    assert paired({0: 1.0}, {1: 1.0}) == []


def test_bounds_are_the_mean_where_there_are_too_few_values() -> None:
    assert interval([0.2, 0.4]).bounds == (interval([0.2, 0.4]).mean,) * 2
    found = interval([0.4, 0.5, 0.6])
    assert found.bounds == (found.low, found.high)


@pytest.mark.parametrize(
    ("seeds", "rows"),
    [(1.0, 0.0), (0.0, 1.0), (0.3, 5.0), (1.0, 1.0)],
    ids=["seeds", "rows", "both", "equal"],
)
def test_an_interval_over_seeds_and_rows_holds_the_truth(seeds, rows):
    """Values of 5 seeds x 60 rows around 0: 94 to 98.5 of 100 intervals hold it."""
    draw = np.random.default_rng(1)
    scores = [
        crossed(
            seeds * draw.normal(size=(5, 1)) + rows * draw.normal(size=(1, 60)) + draw.normal(size=(5, 60))
        )
        for _ in range(1500)
    ]
    held = np.mean([score.low < 0 < score.high for score in scores])
    assert 0.94 <= held <= 0.985


def test_rows_widen_an_interval_that_equal_seeds_make_exact():
    right = np.array([[1.0] * 80 + [0.0] * 20] * 5)
    assert crossed(right)[:1] == (0.8,) and crossed(right).low == pytest.approx(
        0.8 - 1.984 * 0.0402, abs=1e-3
    )
    assert crossed(right[:2]) == Interval(0.8, None, None)
