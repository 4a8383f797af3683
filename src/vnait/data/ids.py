"""Rows of ids in one array: 4 bytes an id, and nothing that a process must copy to read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
from jaxtyping import Int32, Int64


class Ids:
    """The ids of many texts, row by row.

    flat    (N,), the ids of all rows
    ends    (rows,), where each row ends in `flat`

    >>> ids = Ids.of([[4, 5], [], [6]])
    >>> len(ids), ids[0], ids[-1], list(ids)
    (3, [4, 5], [6], [[4, 5], [], [6]])
    """

    def __init__(self, flat: Int32[np.ndarray, " N"], ends: Int64[np.ndarray, " rows"]) -> None:
        self.flat, self.ends = flat, ends

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Ids:
        """A copy of lists."""
        ends = np.cumsum([len(row) for row in rows], dtype=np.int64)
        return cls(np.fromiter(chain.from_iterable(rows), dtype=np.int32), ends)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, row: int) -> list[int]:
        row = range(len(self))[row]
        row_ids: list[int] = self.flat[self.ends[row - 1] if row else 0 : self.ends[row]].tolist()
        return row_ids

    def __iter__(self) -> Iterator[list[int]]:
        return (self[row] for row in range(len(self)))
