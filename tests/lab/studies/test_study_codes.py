"""The codes study: its codes against Python's own, its measures where the answer is known."""

from __future__ import annotations

import torch

from vnait_lab.studies.codes import shape
from vnait_lab.studies.parts.place_codes import COUNT, WIDTH, encode


def test_codes_by_hand() -> None:
    assert encode("linear", torch.tensor([[5, 6]])).tolist() == [[[5.0, 1.0], [6.0, 1.0]]]
    assert encode("linear", torch.tensor([32]), unit=64).tolist() == [[0.5, 1.0]]
    assert encode("binary", torch.tensor([77]))[0].tolist() == [float(77 >> bit & 1) for bit in range(WIDTH)]


def test_residual_finds_the_affine_shifts() -> None:
    assert max(shape(name)["residual"] for name in ("linear", "sinusoid")) < 1e-10
    bits = shape("binary")
    assert bits["residual"] > 0.5 and bits["channels"] == 8 and bits["density"] == 0.5
    steps = [(place ^ (place + 1)).bit_count() ** 0.5 for place in range(COUNT - 1)]
    assert torch.allclose(torch.tensor(bits["steps"]), torch.tensor(steps))
