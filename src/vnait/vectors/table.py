"""A table of word vectors, and the same table in a vocabulary's order."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from vnait.errors import InputError


@dataclass(frozen=True, eq=False)
class Vectors:
    """Word vectors e(w): `table[i]` (V, D) is the vector of `words[i]`; `source` says where they come from.

    Words are distinct and every number is finite; an InputError that names the source and the word says otherwise.

    >>> Vectors(["yes", "no"], np.eye(2, dtype=np.float32), "by hand").dim
    2
    """

    words: list[str]
    table: Float32[np.ndarray, "V D"]
    source: str

    def __post_init__(self) -> None:
        if self.table.ndim != 2 or self.table.dtype != np.float32 or len(self.table) != len(self.words):
            raise InputError(
                f"{self.source}: {len(self.words)} words came with a {self.table.dtype} table of shape "
                f"{self.table.shape}; give one float32 row a word."
            )
        if not self.table.size:
            raise InputError(f"{self.source} holds no vectors; give a source with at least one word.")
        self._check_distinct()
        self._check_finite()

    @property
    def dim(self) -> int:
        """D, the width of one vector."""
        return int(self.table.shape[1])

    def _check_distinct(self) -> None:
        if len(set(self.words)) < len(self.words):
            seen: set[str] = set()
            twice = next(word for word in self.words if word in seen or seen.add(word))  # type: ignore[func-returns-value]
            raise InputError(f"{self.source}: the word {twice!r} occurs twice; keep one row a word.")

    def _check_finite(self) -> None:
        # The extremes carry any NaN or infinity, and unlike isfinite(table) they cost no memory.
        if not (np.isfinite(self.table.min()) and np.isfinite(self.table.max())):
            bad = next(word for word, row in zip(self.words, self.table, strict=True) if not np.isfinite(row).all())
            raise InputError(
                f"{self.source}: the vector of {bad!r} holds NaN or infinity, and every number must be finite; "
                "train or download the vectors again."
            )


def align(vectors: Vectors, vocabulary: Sequence[str]) -> tuple[Float32[np.ndarray, "N D"], int]:
    """The rows of `vocabulary` in its order, (N, D), and how many of its words `vectors` lacks.

    A missing word gets the mean of all vectors. An InputError if not one word is known, for then the two don't belong together.

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


def none_known(source: object, asked: Sequence[str]) -> InputError:
    """The error for a vocabulary and vectors that have no word in common."""
    examples = f", such as {', '.join(map(repr, asked[:3]))}" if asked else ""
    return InputError(
        f"{source} knows none of the {len(asked):,} words asked for{examples}; "
        "give vectors of the same language, casing and segmentation."
    )
