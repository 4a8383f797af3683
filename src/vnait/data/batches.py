"""Batches of rows of similar length, so that little is spent on padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int64

from vnait.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

# Rows are sorted inside chunks of this many batches: wide enough for little padding, narrow enough to keep
# epochs different.
CHUNK = 50


def batches(lengths: Sequence[int], *, batch_size: int, seed: int, epoch: int) -> list[list[int]]:
    """The row numbers 0 ... N-1, each once, in batches of at most `batch_size` rows of similar length.

    Rows are shuffled, sorted by length inside chunks of 50 batches, cut, and the batches are shuffled. The
    result depends on the arguments only, so a resumed run gets the same batches.

    >>> batches([9, 1, 8, 2], batch_size=2, seed=0, epoch=0)
    [[2, 0], [1, 3]]
    """
    if batch_size < 1:
        raise InputError(f"batch_size is {batch_size}; expected at least 1.")
    random = generator(seed=seed, epoch=epoch)
    order = random.permutation(len(lengths)).tolist()
    chunks = [order[start : start + CHUNK * batch_size] for start in range(0, len(order), CHUNK * batch_size)]
    ordered = [row for chunk in chunks for row in sorted(chunk, key=lambda row: lengths[row])]
    cut = [ordered[start : start + batch_size] for start in range(0, len(ordered), batch_size)]
    return [cut[index] for index in random.permutation(len(cut))]


def collate(ids: Sequence[Sequence[int]], *, pad_id: int) -> dict[str, Int64[Tensor, "B T"]]:
    """`input_ids` and `attention_mask` (B, T), both int64, padded on the right to the longest row.

    The mask is 1 on tokens and 0 on padding. InputError if a row has no ids, since attention over an empty
    row is undefined.

    >>> collate([[5, 6], [7]], pad_id=0)["input_ids"].tolist()
    [[5, 6], [7, 0]]
    """
    import torch  # here: a faulty file is refused before torch is loaded

    empty = [row for row, line in enumerate(ids, 1) if not len(line)]
    if empty or not ids:
        reason = f"row {empty[0]} has none" if ids else "it has no rows"
        raise InputError(f"a batch needs at least one id per row; {reason}.")
    width = max(map(len, ids))
    padded = torch.full((len(ids), width), pad_id)
    mask = torch.zeros_like(padded)
    for row, line in enumerate(ids):
        padded[row, : len(line)] = torch.tensor(line)
        mask[row, : len(line)] = 1
    return {"input_ids": padded, "attention_mask": mask}


def generator(**numbers: int) -> np.random.Generator:
    """A random generator seeded by the named numbers, all 0 or more.

    >>> int(generator(seed=0, epoch=1).integers(100)) == int(generator(seed=0, epoch=1).integers(100))
    True
    """
    for name, number in numbers.items():
        if number < 0:
            raise InputError(f"{name} is {number}; expected 0 or more.")
    return np.random.default_rng(list(numbers.values()))
