"""Letters of DNA as numbers: motifs that are found, read from the other strand, or put into random letters at a fixed offset."""

from __future__ import annotations

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

LETTERS = "ACGT"  # a letter's partner is 3 - its number


def letters(text: str) -> Tensor:
    """Numbers; a letter that is none of the four, which real ones have now and then, counts as A."""
    return torch.tensor([max(LETTERS.find(letter), 0) for letter in text])


def reverse_complement(x: Tensor) -> Tensor:
    return 3 - x.flip(-1)


def starts(x: Tensor, motif: Tensor) -> Tensor:
    """1 where the motif starts, else 0: (N, L)."""
    found = (x.unfold(1, len(motif), 1) == motif).all(-1)
    return F.pad(found, (0, len(motif) - 1)).double()


def planted(first: Tensor, second: Tensor, offsets: Tensor, length: int, random: Generator) -> Tensor:
    """Random letters (N, length) with both motifs put in once, the second's start `offsets` (N,) after the first's."""
    x = torch.randint(4, (len(offsets), length), generator=random)
    room = length - len(second) - offsets.abs()
    left = (torch.rand(len(offsets), generator=random) * room).long()
    for motif, start in ((first, left + (-offsets).clamp(min=0)), (second, left + offsets.clamp(min=0))):
        at = start[:, None] + torch.arange(len(motif))
        x.scatter_(1, at, motif.expand(len(offsets), -1))
    return x
