"""The motifs study: its score against a sum over pairs by hand, and its generator."""

from __future__ import annotations

import math

import torch

from vnait_lab.studies.motifs import score
from vnait_lab.studies.parts.dna import letters, planted, reverse_complement, starts


def test_score_by_hand() -> None:
    x = letters("TGACCATGTTGCAAGGCATGACC")
    pairs = [(i, j) for i in (0, 6, 9, 18) for j in (14,)]
    assert [i for i, found in enumerate(starts(x[None], letters("TG"))[0]) if found] == [0, 6, 9, 18]
    for frequencies, rates in (
        ("geometric", [10_000 ** (-k / 32) for k in range(32)]),
        ("even", [2 * math.pi * k / 64 for k in range(1, 33)]),
    ):
        by_hand = sum(math.cos(rate * (j - i - 5)) for i, j in pairs for rate in rates) / 32
        assert math.isclose(
            score(x[None], letters("TG"), letters("GGC"), 5, frequencies).item(), by_hand, abs_tol=1e-12
        )


def test_offset_has_a_sign() -> None:
    """The even kernel would hide a d subtracted instead of added, if it were tried at a pair of offset 0
    alone.
    """
    x = letters("CCCCTCCCACCC")[None]
    assert score(x, letters("T"), letters("A"), 4, "even").item() > 0.99
    assert abs(score(x, letters("T"), letters("A"), -4, "even").item()) < 0.1


def test_planted_where_said() -> None:
    offsets = torch.tensor([17, -17, 5, 48]).repeat(50)
    x = planted(letters("TGAC"), letters("GGCA"), offsets, 200, torch.Generator().manual_seed(0))
    first, second = starts(x, letters("TGAC")), starts(x, letters("GGCA"))
    for row, offset in enumerate(offsets.tolist()):
        found = {
            j - i for i in first[row].nonzero()[:, 0].tolist() for j in second[row].nonzero()[:, 0].tolist()
        }
        assert offset in found


def test_reverse_complement() -> None:
    assert reverse_complement(letters("AACGT")).tolist() == letters("ACGTT").tolist()
