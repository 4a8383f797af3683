"""Which half of its text is a token in, and which token is the middle? A reader learns it from short texts and is asked of long ones.

For the study `middle`; to the reader a text is random words, and all it is told of places is a span or a sinusoid.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from vnait.coordinates import Span
from vnait.encodings import Spatial
from vnait.method import Method
from vnait.studies.parts.training import Reader, descend
from vnait.study import Budget

SHORTEST, TRAINED = 8, 24
LENGTHS = (24, 96, 192)
WORDS, DIM, BATCH = 16, 32, 32


def trained(source: str, asked: str, *, seed: int, budget: Budget) -> dict[str, list[float]]:
    """What a reader that was asked for the middle, or for the third token, says of texts of each of `LENGTHS`: see `measured`."""
    torch.manual_seed(seed)
    random = Generator().manual_seed(seed)
    model = Reader(method(source), vocabulary=WORDS, outputs=2, dim=DIM)

    def texts(count: int, length: int) -> Tensor:
        return torch.randint(WORDS, (count, length), generator=random)

    def loss(step: int) -> Tensor:
        length = 2 * int(torch.randint(SHORTEST // 2, TRAINED // 2 + 1, (), generator=random))
        halves, points = model(texts(BATCH, length)).unbind(-1)
        if asked == "third":
            return F.cross_entropy(points, torch.full((BATCH,), 2))
        own = F.binary_cross_entropy_with_logits(halves, second_half(length).float().expand_as(halves))
        return own + F.cross_entropy(points, torch.full((BATCH,), length // 2 - 1))

    descend(model.parameters(), loss, steps=budget.steps, learning_rate=2e-3)
    rows = [measured(model.eval(), texts(budget.samples, length)) for length in LENGTHS]
    return {name: [row[name] for row in rows] for name in rows[0]}


def method(source: str) -> str | Method:
    """Fourier features of a span, or a method of `METHODS`."""
    if source == "sinusoidal":
        return source
    span = Span(source=source, dim=DIM, max_length=LENGTHS[-1])
    return Method(coordinates=span, encoding=Spatial(dim=DIM, features="fourier", start=1.0))


def second_half(length: int) -> Tensor:
    return torch.arange(length) >= length // 2


@torch.no_grad()
def measured(model: Reader, ids: Tensor) -> dict[str, float]:
    """Of texts of one even length: tokens put in their right half, middle tokens found and tokens missed by, and the middle's S."""
    length = ids.shape[1]
    halves, points = model(ids).unbind(-1)
    away = (points.argmax(-1) - (length // 2 - 1)).abs().double()
    at = model.method(model.vectors(ids), torch.ones_like(ids, dtype=torch.bool)).at[..., 0].double()
    linear = 100 * torch.arange(1, length + 1) / length
    return {
        "half": float(((halves > 0) == second_half(length)).double().mean()),
        "hit": float((away == 0).double().mean()),
        "missed": float(away.mean()),
        "off": float((at[:, length // 2 - 1] - 50).abs().mean()),
        "from_linear": float((at - linear).abs().max()),
    }
