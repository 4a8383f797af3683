"""The alignment study: its bias and its orders against a few words by hand."""

from __future__ import annotations

import numpy as np
import torch
from torch import Generator

from vnait_lab.studies.alignment import aligned, crossing, permuted


def test_bias_takes_the_nearer_copy() -> None:
    random = Generator().manual_seed(0)
    ids = torch.tensor([0, 1, 2, 3, 4, 0]).expand(50, -1)
    swapped = torch.tensor([5, 1, 2, 3, 4, 0]).expand(50, -1)  # the copies have changed places
    assert aligned(ids, torch.arange(6).expand(50, -1), 1.0, random)[:, [0, 5]].all()
    assert not aligned(ids, swapped, 1.0, random)[:, [0, 5]].any()


def test_orders() -> None:
    for name in ("monotone", "near", "verb moves 3", "halves", "reversed"):
        order = permuted(name, 3, Generator().manual_seed(0))
        assert torch.equal(order.sort(1).values, torch.arange(12).expand(3, -1))
    assert permuted("halves", 1, Generator())[0].tolist() == [*range(6, 12), *range(6)]
    assert crossing(np.array([1.0, 0.75, 0.25, 0.0])) == 1.5
