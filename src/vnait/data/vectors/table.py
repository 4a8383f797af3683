"""A table of word vectors, and its rows in the order of a vocabulary."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from vnait.shared.errors import InputError


@dataclass(frozen=True, eq=False)
class Vectors:
    """Word vectors: row i of `table` (V, D) is the vector of `words[i]`; `source` is their origin.

    InputError unless words are distinct and all numbers finite.

    >>> Vectors(["yes", "no"], np.eye(2, dtype=np.float32), "by hand").dim
    2
    """

    words: list[str]
    table: Float32[np.ndarray, "V D"]
    source: str

    def __post_init__(self) -> None:
        if self.table.ndim != 2 or self.table.dtype != np.float32 or len(self.table) != len(self.words):
            raise InputError(
                f"{self.source}: {len(self.words)} words with a {self.table.dtype} table of shape "
                f"{self.table.shape}; give one float32 row per word."
            )
        if not self.table.size:
            raise InputError(f"{self.source} has no vectors; give a source with at least one word.")
        if len(set(self.words)) < len(self.words):
            twice = Counter(self.words).most_common(1)[0][0]
            raise InputError(f"{self.source}: the word {twice!r} occurs twice; give one row per word.")
        # The extremes show any NaN or infinity, and unlike isfinite(table) they take no memory.
        if not (np.isfinite(self.table.min()) and np.isfinite(self.table.max())):
            bad = next(
                word for word, row in zip(self.words, self.table, strict=True) if not np.isfinite(row).all()
            )
            raise InputError(
                f"{self.source}: the vector of {bad!r} has NaN or infinity; train or get the vectors again."
            )

    @property
    def dim(self) -> int:
        """D, the width of the vectors."""
        return int(self.table.shape[1])


def align(vectors: Vectors, vocabulary: Sequence[str]) -> tuple[Float32[np.ndarray, "N D"], int]:
    """The rows (N, D) of the words of `vocabulary`, in its order, and how many of them `vectors` lacks.

    A missing word gets the mean of all vectors. InputError if all are missing: the two don't belong together.

    >>> table, missing = align(Vectors(["a", "b"], np.eye(2, dtype=np.float32), "by hand"), ["b", "?"])
    >>> table.tolist(), missing
    ([[0.0, 1.0], [0.5, 0.5]], 1)
    """
    row_of = {word: row for row, word in enumerate(vectors.words)}
    rows = np.array([row_of.get(word, -1) for word in vocabulary], dtype=np.int64)
    known = rows >= 0
    if not known.any():
        raise none_known(vectors.source, vocabulary)
    table = np.empty((len(rows), vectors.dim), dtype=np.float32)
    table[known] = vectors.table[rows[known]]
    table[~known] = vectors.table.mean(axis=0, dtype=np.float64)
    return table, int((~known).sum())


def none_known(source: object, wanted: Sequence[str]) -> InputError:
    """The error for a vocabulary and vectors without a common word."""
    examples = f", such as {', '.join(map(repr, wanted[:3]))}" if wanted else ""
    return InputError(
        f"{source} has none of the {len(wanted):,} words needed{examples}; give vectors of the same "
        "language, casing and segmentation."
    )
