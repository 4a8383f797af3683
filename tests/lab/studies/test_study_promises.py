"""The promises study: its scores by hand, and its counter on known operations."""

from __future__ import annotations

import math

import torch

from vnait.positions.encodings import AlibiBias, Rotary, Sinusoid
from vnait_lab.studies.parts.shifts import HEADS, WIDTH, line, moved, scored
from vnait_lab.studies.promises import Traffic


def test_rotary_scores_by_hand() -> None:
    query, key = torch.randn(2, 1, 1, 3, WIDTH, dtype=torch.float64)
    found = scored(Rotary(width=WIDTH))(line(3, 5), query, key, query[0, 0])[0, 0, 2, 0]
    half, score = WIDTH // 2, 0.0
    for pair in range(half):  # Re(q conj(k) e^(i w (5 + 2 - 5)))
        q = complex(query[0, 0, 2, pair], query[0, 0, 2, pair + half])
        k = complex(key[0, 0, 0, pair], key[0, 0, 0, pair + half])
        angle = 2 * 10_000 ** (-2 * pair / WIDTH)
        score += (q * k.conjugate() * complex(math.cos(angle), math.sin(angle))).real
    assert math.isclose(float(found), score / math.sqrt(WIDTH), rel_tol=1e-9)


def test_moved_separates_relative_from_absolute() -> None:
    torch.manual_seed(0)
    codes = Sinusoid(dim=WIDTH)
    assert moved(scored(AlibiBias(num_heads=HEADS)))["moved"] == 0
    assert moved(scored(codes, identity=True))["moved"] < 1e-9 < 0.5 < moved(scored(codes))["moved"]


def test_traffic_counts_reads_and_writes() -> None:
    x = torch.ones(3, 4)
    with Traffic() as traffic:
        (x.mT @ x).sum()
    assert traffic.count == (12 + 12 + 16) + (16 + 1)
