"""The extrapolation study: the geometry of codes whose geometry is known, fresh windows by hand, and what a
known position explains.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from vnait_lab.studies.extrapolation import codes, geometry, partial_correlation, read
from vnait_lab.studies.parts.letters import READ, TRAINED, losses
from vnait_lab.studies.parts.training import Reader


def test_geometry_of_known_codes() -> None:
    angle = 2 * np.pi * np.arange(READ) / 32
    circle = np.stack([np.cos(angle), np.sin(angle), 0 * angle], 1)
    found = geometry(circle, TRAINED)  # twice around within the window: every code is met again, none is new
    assert np.allclose(found["aliasing"], 1) and np.allclose(found["drift"], 0, atol=1e-12)
    assert np.allclose(found["mahalanobis"], 1)
    circle[TRAINED:] = [0, 0, 5]  # a direction that training has not seen
    found = geometry(circle, TRAINED)
    assert np.allclose(found["drift"][TRAINED:], 1) and np.allclose(found["aliasing"][TRAINED:], 0)
    steps = np.arange(READ)[:, None] * np.ones(
        (1, 3)
    )  # a line: the furthest is 16 or more away, and on the same side
    assert np.isclose(
        geometry(steps, TRAINED)["mahalanobis"][READ - 1], (READ - 1 - 31.5) / np.arange(TRAINED).std()
    )


def test_fresh_windows_by_hand() -> None:
    torch.manual_seed(0)
    model = Reader("sinusoidal", vocabulary=9, outputs=9, num_layers=1, max_length=READ, causal=True).eval()
    ids: Tensor = torch.randint(9, (2, READ + 1))
    far, fresh = read(model, ids)
    assert far.shape == (2, READ) and fresh.shape == (2, READ - 32)
    own = losses(model, ids[1:, 160:225])[0].detach()  # a window of its own from 160 on
    assert torch.allclose(fresh[1, 160:192], own[32:], atol=1e-5)
    assert not torch.allclose(far[1, 192:224], own[32:], atol=1e-3)
    assert torch.allclose(far[:, 32:64], fresh[:, :32], atol=1e-5)
    assert codes(model).shape == (READ, 64)


def test_what_the_position_explains_is_left_out() -> None:
    random, place = np.random.default_rng(0), np.arange(400.0)
    one, other = place + random.normal(0, 20, 400), place**2 + random.normal(0, 3000, 400)
    assert np.corrcoef(one, other)[0, 1] > 0.9 and abs(partial_correlation(one, other, place)) < 0.15
    assert partial_correlation(one, one - place, place) > 0.8
