"""The promises study: its scores by hand, its counter on known operations, and the document's own lines."""

from __future__ import annotations

import math

import torch

from vnait.encodings import Rotary
from vnait.studies.promises import WIDTH, Traffic, buckets, code, line, moved, printed, scores


def test_rotary_scores_by_hand() -> None:
    query, key = torch.randn(2, 1, 1, 3, WIDTH, dtype=torch.float64)
    found = scores("rope", Rotary(width=WIDTH), line(3, 5), query, key, query[0, 0])[0, 0, 2, 0]
    half, score = WIDTH // 2, 0.0
    for pair in range(half):  # Re(q conj(k) e^(i w (5 + 2 - 5)))
        q = complex(query[0, 0, 2, pair], query[0, 0, 2, pair + half])
        k = complex(key[0, 0, 0, pair], key[0, 0, 0, pair + half])
        angle = 2 * 10_000 ** (-2 * pair / WIDTH)
        score += (q * k.conjugate() * complex(math.cos(angle), math.sin(angle))).real
    assert math.isclose(float(found), score / math.sqrt(WIDTH), rel_tol=1e-9)


def test_moved_tells_relative_from_absolute() -> None:
    torch.manual_seed(0)
    assert moved("alibi")["moved"] == 0
    assert moved("sinusoid, W = 1")["moved"] < 1e-9 < 0.5 < moved("sinusoid")["moved"]


def test_printed_code_is_half_of_a_rotation() -> None:
    query = torch.randn(1, WIDTH)
    found, _ = printed("**")(query, query, torch.tensor([[math.pi]]))
    assert found.shape == (1, WIDTH // 2)
    assert torch.allclose(found[0, 0], -query[0, 0], atol=1e-5)  # the first pair turns by pi
    assert code() == {"class_fails": 1.0, "rotary_fails": 1.0, "channels": 32.0}


def test_traffic_counts_reads_and_writes() -> None:
    x = torch.ones(3, 4)
    with Traffic() as traffic:
        (x.mT @ x).sum()
    assert traffic.count == (12 + 12 + 16) + (16 + 1)


def test_buckets_are_fewer() -> None:
    found = buckets()
    assert (found["distinct"], found["mismatches"], found["printed_too_long"]) == (31, 0, 1)
