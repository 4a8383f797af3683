"""A small model of letters, for the study `splicing`: windows of 9, one block of attention, an answer at one place."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from vnait.backbone import Block
from vnait.coordinates import Index
from vnait.encodings import Relative, Silent, Table
from vnait.injection import Injection
from vnait.studies.parts.dna import LETTERS
from vnait.studies.parts.introns import LENGTH
from vnait.studies.parts.training import descend

DIM, HEADS, BATCH = 32, 2, 64
ENCODINGS: dict[str, Callable[[], nn.Module]] = {
    "relative": lambda: Relative(num_heads=HEADS, max_distance=LENGTH - 1),
    "learned table": lambda: Table(dim=DIM, max_length=LENGTH),
    "none": Silent,
}


class Splicer(nn.Module):
    """Letters (N, L) and a place (N,) -> logits (N, outputs) and attention (N, H, L) there: a window of 9 letters, a method, one block.

    The block is computed at that place alone, which is all that is read.
    """

    def __init__(self, method: str, outputs: int = 2) -> None:
        super().__init__()
        self.letters = nn.Linear(9 * len(LETTERS), DIM)
        self.encoding = ENCODINGS[method]()
        self.block = Block(dim=DIM, num_heads=HEADS, intermediate=2 * DIM, dropout=0.0)
        self.read = nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, outputs))

    def forward(self, x: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
        states, injection = self.told(x)
        rows, attention = torch.arange(len(x)), self.block.attention
        normed = self.block.norm_attention(states)
        query, key = attention.queries_and_keys(normed, Injection())
        scores = (key @ query[rows, :, place][..., None])[..., 0] / query.shape[-1] ** 0.5
        if injection.bias is not None:
            scores = scores + injection.bias[0, :, place].transpose(0, 1)
        weights = scores.softmax(-1)
        mixed = (weights[..., None, :] @ attention.heads(attention.value(normed)))[..., 0, :]
        state = states[rows, place] + attention.out(mixed.flatten(1))
        return self.read(state + self.block.feedforward(self.block.norm_feedforward(state))), weights

    def told(self, x: Tensor) -> tuple[Tensor, Injection]:
        """The block's input (N, L, D), and what the method says to the attention of all (1, ...)."""
        windows = F.pad(F.one_hot(x, len(LETTERS)).float(), (0, 0, 4, 4)).unfold(1, 9, 1)
        injection = self.encoding(Index()(None, torch.ones_like(x[:1], dtype=torch.bool)))
        states = F.gelu(self.letters(windows.flatten(2)))
        return states if injection.added is None else states + injection.added, injection


def fit(model: Splicer, x: Tensor, place: Tensor, label: Tensor, steps: int, random: Generator) -> None:
    def loss(step: int) -> Tensor:
        own = torch.randint(len(x), (BATCH,), generator=random)
        return F.cross_entropy(model(x[own], place[own])[0], label[own])

    descend(model.parameters(), loss, steps=steps, learning_rate=5e-3)
