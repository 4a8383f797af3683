"""The hierarchy study: its F1, areas and orders against counts by hand."""

from __future__ import annotations

import numpy as np
import torch

from vnait_lab.studies.hierarchy import LENGTH, SEGMENT, both_ways, drawn_lengths, order, reading


def test_f1_by_hand() -> None:
    # Segments of 1, 3 and 2 tokens, mean 2: the code says aa|bb|cc, the truth is a|bbb|cc.
    # Pairs: 3 told, 4 true, (2, 3) and (4, 5) in both. Boundaries: told before 2 and 4, true before 1 and 4.
    same, boundary, *told = both_ways([1, 3, 2])
    assert np.isclose(same, 2 * 2 / (3 + 4)) and np.isclose(boundary, 2 * 1 / (2 + 2))
    assert told == [1.0, 1.0]


def test_area_by_hand() -> None:
    # One channel that is 1 in every other segment: as alike as can be, for pairs in one segment and for half
    # of the others.
    segment = torch.arange(LENGTH) // SEGMENT
    found = reading((segment % 2).double()[:, None] * 2 - 1)
    first, second = np.triu_indices(LENGTH, 1)
    alike, same = (segment % 2)[first] == (segment % 2)[second], segment[first] == segment[second]
    others = ~same
    assert np.isclose(found["same"], 1 - float((alike & others).sum() / others.sum()) / 2)
    assert found["boundary"] == 1.0 and found["matched"] == [1.0] * 4


def test_order_knows_direction() -> None:
    angle = torch.arange(LENGTH).double() / LENGTH
    codes = torch.stack([angle.sin(), angle.cos()], 1)
    assert order(codes) == 1.0 and order(codes.flip(0)) == 0.0


def test_drawn_lengths() -> None:
    lengths = drawn_lengths(0.3, np.random.default_rng(0))
    assert sum(lengths[:-1]) < LENGTH <= sum(lengths) and min(lengths) >= 1
    assert drawn_lengths(0.0, np.random.default_rng(0)) == [SEGMENT] * (LENGTH // SEGMENT)
