"""Four codes of a position: linear, binary, sinusoidal and random."""

from __future__ import annotations

import torch
from torch import Tensor

from vnait.positions.encodings import Binary, Linear, Sinusoid, Table

COUNT, WIDTH, WINDOW, BACK = 256, 16, 64, 3
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
