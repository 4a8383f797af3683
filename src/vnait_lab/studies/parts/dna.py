"""DNA letters as numbers: finding motifs, the reverse complement, and sequences with planted motifs."""

from __future__ import annotations

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

LETTERS = "ACGT"  # the complement of a letter is 3 - its number


def letters(text: str) -> Tensor:
    """The numbers of letters; ambiguous ones, such as the N of real sequences, count as A."""
    return torch.tensor([max(LETTERS.find(letter), 0) for letter in text])


def reverse_complement(x: Tensor) -> Tensor:
    return 3 - x.flip(-1)


def starts(x: Tensor, motif: Tensor) -> Tensor:
    """1 at starts of the motif, else 0: (N, L)."""
    matches = (x.unfold(1, len(motif), 1) == motif).all(-1)
    return F.pad(matches, (0, len(motif) - 1)).double()


def planted(first: Tensor, second: Tensor, offsets: Tensor, length: int, random: Generator) -> Tensor:
    """Random letters (N, length) with both motifs planted, the second `offsets` (N,) after the first, start
    to start.
    """
    x = torch.randint(4, (len(offsets), length), generator=random)
    room = length - len(second) - offsets.abs()
    left = (torch.rand(len(offsets), generator=random) * room).long()
    for motif, start in ((first, left + (-offsets).clamp(min=0)), (second, left + offsets.clamp(min=0))):
        at = start[:, None] + torch.arange(len(motif))
        x.scatter_(1, at, motif.expand(len(offsets), -1))
    return x
