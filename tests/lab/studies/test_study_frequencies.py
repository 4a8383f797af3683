"""The frequencies study: its answers, and which channels a band keeps."""

from __future__ import annotations

import math

import torch

from vnait.positions.encodings import Sinusoid
from vnait_lab.studies.frequencies import AWAY, BANDS, LENGTH, TOKENS, WIDTH, Kept, answers


def test_answers_by_hand() -> None:
    ids = torch.randint(TOKENS, (20, LENGTH), generator=torch.Generator().manual_seed(0))
    found = answers(ids)
    for row, text in enumerate(ids.tolist()):
        upper = [
            sum(token >= TOKENS // 2 for token in half) for half in (text[: LENGTH // 2], text[LENGTH // 2 :])
        ]
        half = -100 if upper[0] == upper[1] else int(upper[1] > upper[0])
        for place in range(LENGTH):
            away = text[place - AWAY] if place >= AWAY else -100
            wanted = [text[place - 1] if place else -100, away, place // (LENGTH // 4), half]
            assert found[row, place].tolist() == wanted


def test_bands_part_the_code_by_wavelength() -> None:
    at = torch.arange(50.0)[None, :, None]
    added = {variant: Kept(*BANDS[variant])(at).added for variant in BANDS}
    code = Sinusoid(dim=WIDTH)(at).added
    assert code is not None
    assert torch.equal(added["all"], code)
    assert torch.equal(added["high"] + added["low"], code)
    assert not added["none"].any()
    for pair in range(WIDTH // 2):
        short = 2 * math.pi * 10_000 ** (2 * pair / WIDTH) < LENGTH
        assert bool(added["high"][..., 2 * pair + 1].any()) == short  # the cosine, which is 1 at 0
        assert bool(added["low"][..., 2 * pair].any()) != short
