"""The study of two axes: its kernels, its lines and its images, each by hand."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from torch import Generator

from vnait_lab.studies.two_axes import CLUTTER, POINTS, SIDE, detection, images, kernel, responses


def rate(channel: int) -> float:
    return 100 ** (-2 * channel / 32)


def test_the_response_by_hand() -> None:
    """A loop over the pairs of a line at 30 degrees; the rotated code's is that of a line at 75, the mirrored
    one's at -15.
    """

    def by_hand(degrees: float) -> float:
        total, turn = 0.0, math.radians(degrees)
        for one in range(8):
            for other in range(8):
                for away in (math.cos(turn), math.sin(turn)):
                    total += (
                        sum(math.cos((one - other) * away * rate(c)) for c in range(16))
                        if one != other
                        else 0
                    )
        return total / 32 / 56

    separable, rotated, isotropic = (partial(kernel, arm) for arm in ("separable", "rotated", "isotropic"))
    angle = torch.tensor([30.0], dtype=torch.float64)
    assert responses(separable, angle) == pytest.approx(by_hand(30), abs=1e-12)
    assert responses(rotated, angle) == pytest.approx(by_hand(75), abs=1e-12)
    assert abs(by_hand(75) - by_hand(30)) > 0.01
    assert responses(isotropic, angle) == pytest.approx(
        float(responses(isotropic, 3 * angle)[0, 0]), abs=1e-12
    )


def test_the_additive_kernel_by_hand() -> None:
    one, other = (2.0, 5.0), (7.0, 1.0)
    pairs = [(a, b) for a in one for b in other]  # own axes and cross terms alike
    expected = sum(math.cos((a - b) * rate(c)) for a, b in pairs for c in range(16)) / 32
    found = kernel("additive", torch.tensor([one, other], dtype=torch.float64))[0, 1]
    assert float(found) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("step", [(0, 1), (1, 0), (1, 1), (1, -1)])
def test_images_hold_a_line_and_clutter(step: tuple[int, int]) -> None:
    lit = images([step], 50, Generator().manual_seed(0)).bool().reshape(-1, SIDE, SIDE)
    assert (lit.sum((1, 2)) == POINTS + CLUTTER).all()

    def longest(image: torch.Tensor, by: tuple[int, int]) -> int:
        run = best = 0
        for start in [(row, column) for row in range(SIDE) for column in range(SIDE)]:
            run, (row, column) = 0, start
            while 0 <= row < SIDE and 0 <= column < SIDE and image[row, column]:
                run, row, column = run + 1, row + by[0], column + by[1]
            best = max(best, run)
        return best

    assert all(longest(image, step) >= POINTS for image in lit)
    across = (step[1], -step[0])
    assert not any(longest(image, across) >= POINTS for image in lit)


def test_detection_of_a_kernel_that_knows_nothing() -> None:
    found = detection(torch.eye(SIDE**2, dtype=torch.float64), 300, Generator().manual_seed(0))
    assert found == {"axes": 0.5, "diagonals": 0.5}
