"""The syndrome of a Hamming code: in integers, and as heads of attention read it off the binary codes of positions."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from vnait.encodings import Binary


def bits(numbers: Tensor, dim: int) -> Tensor:
    """The binary codes of integers (N,): (N, dim), float64."""
    return Binary(dim=dim)(numbers.double()[None, :, None]).added[0]


def counts(words: Tensor, codes: Tensor, sharpness: float) -> Tensor:
    """How many covered bits are ones, as each check's head has it: words (N, n), codes (..., n, m) -> (..., N, m)."""
    weights = (sharpness * codes).softmax(-2)
    return 2 ** (codes.shape[-1] - 1) * words @ weights


def parity(count: Tensor) -> Tensor:
    """0 of an even number, 1 of an odd one, smooth between."""
    return (1 - (math.pi * count).cos()) / 2


def spelled(odd: Tensor) -> Tensor:
    """The position that the odd checks (..., m) spell, 0 for none."""
    return (odd * 2 ** torch.arange(odd.shape[-1])).sum(-1)


def read(words: Tensor, codes: Tensor, sharpness: float) -> Tensor:
    """The flipped position of each word, as the heads have it."""
    return spelled(parity(counts(words, codes, sharpness)) > 0.5)


def flipped(words: Tensor) -> Tensor:
    """The syndrome, in integers: the exclusive or of the positions of ones. 0 of a code word."""
    places = np.arange(1, words.shape[1] + 1)
    return torch.from_numpy(np.bitwise_xor.reduce(np.where(words.bool(), places, 0), axis=1))
