"""The study of alignments by hand: its EM and its error rate against a few words by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd

from vnait_lab.studies.gold_alignment import NULL, Cells

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
    # Links found: 1-1 (sure), 2-2 (possible), and 1-1: |A and S| + |A and P| = 1 + 2 and 1 + 1, |A| + |S| = 2
    # + 1 and 1 + 1.
    hits, made = Cells(PAIRS).scored(4.0)
    assert hits.tolist() == [3.0, 2.0] and made.tolist() == [3.0, 2.0]
    # |i/I - j/J| of both sure links is 0; of all four pairs of the first sentence 0, .5, .5, 0.
    gold, every = Cells(PAIRS).distances()
    assert gold[0].tolist() == [0, 0] and gold[1].tolist() == [1, 1] and every[0].tolist() == [1.0, 0.0]
