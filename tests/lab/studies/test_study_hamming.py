"""The hamming study: its words come from the exclusive or of positions; here they come from the textbook's
generator.
"""

from __future__ import annotations

import math
from itertools import product

import torch

from vnait_lab.studies.hamming import bits, counts, flipped, law, parity, spelled


def encoded(data: tuple[int, ...]) -> list[int]:
    """Data at 3, 5, 6, 7; checks at 1, 2, 4."""
    a, b, c, d = data
    return [(a + b + d) % 2, (a + c + d) % 2, a, (b + c + d) % 2, b, c, d]


def test_single_errors_by_the_textbook() -> None:
    codes = bits(torch.arange(1, 8), 3)
    for data in product((0, 1), repeat=4):
        for place in range(8):
            word = encoded(data)
            if place:
                word[place - 1] ^= 1
            received = torch.tensor([word]).double()
            assert flipped(received).tolist() == [place]
            assert spelled(parity(counts(received, codes, 5.0)) > 0.5).tolist() == [place]
            mirrored = spelled(parity(counts(received, codes.flip(1), 5.0)) > 0.5).tolist()
            assert (mirrored == [place]) == (place in (0, 2, 5, 7)), "the order of the checks matters"


def test_leak_of_the_worst_word() -> None:
    codes = bits(torch.arange(1, 8), 3)
    word = torch.tensor([[0.0, 1, 0, 1, 0, 1, 0]]).double()  # ones at 2, 4, 6: none that check 0 covers
    leak = float(counts(word, codes, 2.0)[0, 0])
    assert math.isclose(leak, 12 / (4 * math.e**2 + 3), rel_tol=1e-12)
    assert math.isclose(float(counts(word, codes, law(3))[0, 0]), 0.5, rel_tol=1e-12)
