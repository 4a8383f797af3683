"""The alignment study: its EM, its error rate and its orders against a few words by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from torch import Generator

from vnait.studies.alignment import aligned, crossing, permuted
from vnait.studies.links import NULL, Cells

PAIRS = pd.DataFrame({"source": ["a b", "a"], "target": ["x y", "x"], "alignment": ["1-1 2p2 9-9", "1-1"]})


def test_em_by_hand() -> None:
    cells, share = Cells(PAIRS), {}
    prior = {
        (s, j, i): NULL if i == 0 else (1 - NULL) / n
        for s, n in ((0, 2), (1, 1))
        for j in range(n)
        for i in range(n + 1)
    }
    words = {0: (["", "a", "b"], ["x", "y"]), 1: (["", "a"], ["x"])}
    share = dict(prior)
    for _ in range(5):
        joint: dict[tuple[str, str], float] = {}
        alone: dict[str, float] = {}
        for (s, j, i), value in share.items():
            source, target = words[s][0][i], words[s][1][j]
            joint[source, target] = joint.get((source, target), 0) + value
            alone[source] = alone.get(source, 0) + value
        for s, j, i in share:
            source, target = words[s][0][i], words[s][1][j]
            share[s, j, i] = joint[source, target] / alone[source] * prior[s, j, i]
        rows = {(s, j): sum(v for (s2, j2, _), v in share.items() if (s2, j2) == (s, j)) for s, j, _ in share}
        share = {(s, j, i): value / rows[s, j] for (s, j, i), value in share.items()}
    assert np.allclose(cells.posterior(0.0), [share[key] for key in sorted(share)])


def test_error_rate_by_hand() -> None:
    # Links told: 1-1 (sure), 2-2 (possible), and 1-1: |A and S| + |A and P| = 1 + 2 and 1 + 1, |A| + |S| = 2 + 1 and 1 + 1.
    hits, made = Cells(PAIRS).scored(4.0)
    assert hits.tolist() == [3.0, 2.0] and made.tolist() == [3.0, 2.0]
    # |i/I - j/J| of both sure links is 0; of all four pairs of the first sentence 0, .5, .5, 0.
    gold, every = Cells(PAIRS).distances()
    assert gold[0].tolist() == [0, 0] and gold[1].tolist() == [1, 1] and every[0].tolist() == [1.0, 0.0]


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
