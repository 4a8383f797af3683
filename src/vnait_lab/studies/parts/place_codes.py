"""Codes of a position (linear, binary, sinusoidal, random), and scores that look 3 back with them."""

from __future__ import annotations

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from vnait.positions.encodings import Binary, Linear, Sinusoid, Table
from vnait_lab.studies.parts.training import descend

COUNT, WIDTH, WINDOW, BACK = 256, 16, 64, 3
STARTS = 10_000  # of training windows that start anywhere
TESTS = {"inside": (0,), "next": (64, 128, 192), "far": (5_000, 10_000, 15_000)}  # starts of test windows
CODES = {
    "linear": "[p, 1]",
    "binary": f"{WIDTH} bits",
    "sinusoid": f"sines and cosines, width {WIDTH}",
    "random": f"a vector of width {WIDTH} drawn for every position; not trained with",
}


@torch.no_grad()
def encode(name: str, places: Tensor, unit: float = 1.0) -> Tensor:
    """Codes (..., D) of positions (...), float64; the linear code counts in multiples of `unit`."""
    encodings = {
        "linear": lambda: Linear(dim=2),
        "binary": lambda: Binary(dim=WIDTH),
        "sinusoid": lambda: Sinusoid(dim=WIDTH),
        "random": lambda: Table(dim=WIDTH, max_length=COUNT + BACK),
    }
    encoding = encodings[name]()
    if isinstance(encoding, Linear):
        encoding.weight.copy_(torch.tensor([[1 / unit], [0.0]]))
        encoding.bias.copy_(torch.tensor([0.0, 1.0]))
    code: Tensor = encoding(places.double().reshape(1, -1, 1)).added[0].double()
    return code.reshape(*places.shape, -1)


def looking_back(
    table: Tensor,
    random: Generator,
    *,
    steps: int,
    learning_rate: float,
    weight_decay: float = 0.0,
) -> Tensor:
    """W of the scores code_i^T W code_j, trained to be largest at j = i - `BACK`.

    table   the codes (N, D) of positions; a window of training starts anywhere where it has a whole one
    """
    width, last = table.shape[1], len(table) - WINDOW
    windows = 4 if last > 1 else 1
    weight = torch.randn(width, width, generator=random).div(width).requires_grad_()
    wanted = torch.arange(WINDOW - BACK).repeat(windows)

    def loss(step: int) -> Tensor:
        code = table[torch.randint(last, (windows, 1), generator=random) + torch.arange(WINDOW)]
        return F.cross_entropy((code[:, BACK:] @ weight @ code.mT).flatten(0, 1), wanted)

    descend([weight], loss, steps=steps, learning_rate=learning_rate, weight_decay=weight_decay)
    return weight.detach()
