"""The words of a data set and their semantic vectors: what every method of a comparison shares."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vnait import text as texts_module
from vnait import vectors as vectors_module
from vnait.errors import InputError
from vnait.vectors import Vectors

DIM = 96  # of vectors trained here; shared by 4 heads of even width


@dataclass(frozen=True, eq=False)
class Lexicon:
    """A tokenizer and a table (V, D) of vectors in the order of its ids, brought to a root mean square of 1.

    One scale for all sources of vectors, so that every positional method meets words of the same loudness.
    """

    tokenizer: Any
    table: NDArray[np.float32]
    source: str

    @property
    def dim(self) -> int:
        """The width of the vectors."""
        return int(self.table.shape[1])

    def encode(self, texts: Sequence[str], *, max_length: int) -> list[list[int]]:
        """The ids of each text, at least one and at most `max_length`."""
        return texts_module.encode(self.tokenizer, texts, max_length=max_length)

    @property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that tell words, tokenization and vectors from others."""
        words = [
            self.tokenizer.init_kwargs["tokenization"],
            self.tokenizer.convert_ids_to_tokens(range(len(self.table))),
        ]
        return hashlib.sha256(json.dumps(words).encode() + self.table.tobytes()).hexdigest()[:16]


def learn(texts: Sequence[str], *, tokenization: str = "words", seed: int = 0, dim: int = DIM) -> Lexicon:
    """Word2Vec on the texts themselves; words seen once become unknown."""
    sentences = texts_module.words(texts, tokenization)
    return _lexicon(vectors_module.train(sentences, dim=dim, seed=seed), texts, tokenization)


def look_up(texts: Sequence[str], path: str, *, tokenization: str = "words") -> Lexicon:
    """Vectors from a file, for the words of the texts only."""
    wanted = {word for sentence in texts_module.words(texts, tokenization) for word in sentence}
    found = _lexicon(vectors_module.load(path, wanted), texts, tokenization)
    texts_module.report_unknown(found.tokenizer, texts_module.encode(found.tokenizer, texts, max_length=10**9))
    return found


def _lexicon(vectors: Vectors, texts: Sequence[str], tokenization: str) -> Lexicon:
    tokenizer = texts_module.tokenizer(texts, tokenization=tokenization, vocabulary=vectors.words)
    names = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    table, _ = vectors_module.align(vectors, names)
    loudness = np.sqrt(np.mean(np.square(vectors.table)))
    if loudness == 0:
        raise InputError(f"{vectors.source}: every vector of these words is zero; take other vectors.")
    table = table / loudness
    table[tokenizer.pad_token_id] = 0
    return Lexicon(tokenizer, table.astype(np.float32), vectors.source)
