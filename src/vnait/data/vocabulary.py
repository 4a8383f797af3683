"""The words of a data set and their semantic vectors, shared by all methods of a comparison."""

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vnait.data import tokens
from vnait.data import vectors as word_vectors
from vnait.data.coverage import Shares, coverage, coverage_of
from vnait.data.pairs import TOKEN, are_pairs
from vnait.data.rows import generator
from vnait.data.sentences import Piece
from vnait.data.vectors import Vectors
from vnait.shared.errors import InputError
from vnait.shared.processes import one_thread

_PART = 4096  # texts whose words are counted together
VECTOR_WORDS = 50_000  # words of a vector file that are kept beside those of the texts
DIM = 96  # width of vectors trained here, divisible into 4 heads of even width


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """A tokenizer, a table (V, D) of vectors in the order of its ids, and how frequent words are.

    table       e_w = (v_w - sum_u p_u v_u) / r: the vector v_w of each word minus their mean, scaled
                to a root mean square of 1
    frequency   p (V,), the share of each id among the words of the texts
    coverage    the `coverage` of the texts by the vectors of a file; None without a file

    The mean is subtracted because the common part of all vectors hides their differences (Mu and Viswanath
    2018, arXiv:1702.01417), most of all if Word2Vec had few texts. With one scale for all sources of vectors,
    every positional method works on semantic vectors of the same size.
    """

    tokenizer: Any
    table: NDArray[np.float32]
    source: str
    frequency: NDArray[np.float32]
    coverage: Shares | None = None

    @property
    def dim(self) -> int:
        """The width of the vectors."""
        return int(self.table.shape[1])

    def encode(self, texts: Sequence[str], *, max_length: int) -> list[list[int]]:
        """The ids of each text, at least one and at most `max_length`."""
        return tokens.encode(self.tokenizer, texts, max_length=max_length)

    def pieces(self, texts: Sequence[str], *, max_length: int) -> list[list[Piece]]:
        """The ids of each sentence, in pieces of at most `max_length`, with the place of each word."""
        return tokens.encode_words(self.tokenizer, texts, max_length=max_length)

    def covers(self, test: Sequence[str] | None = None) -> dict[str, Shares]:
        """The coverage by the vectors of a file, of the training texts and of these; {} without a file."""
        if self.coverage is None:
            return {}
        tests = {} if test is None else {"test": coverage_of(test, self.tokenizer)}
        return {"training": self.coverage, **tests}

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits of the SHA-256 of words, tokenization, vectors and frequencies."""
        words = [
            self.tokenizer.init_kwargs["tokenization"],
            self.tokenizer.convert_ids_to_tokens(range(len(self.table))),
        ]
        tables = self.table.tobytes() + self.frequency.tobytes()
        return hashlib.sha256(json.dumps(words).encode() + tables).hexdigest()[:16]


def vocabulary_of(
    texts: Sequence[str],
    *,
    vectors: str | None = None,
    tokenization: str = "words",
    seed: int = 0,
    vector_words: int | None = None,
) -> Vocabulary:
    """The words of the texts, with vectors from the file `vectors`; None: learned from the texts."""
    if vectors is None:
        if vector_words is not None:
            raise InputError(
                "the number of words of a file of vectors was given without the file; name it by --vectors "
                "(vectors=), or leave --vector-words out."
            )
        return learn(texts, tokenization=tokenization, seed=seed)
    return look_up(texts, vectors, tokenization=tokenization, vector_words=vector_words)


@one_thread()
def learn(texts: Sequence[str], *, tokenization: str = "words", seed: int = 0, dim: int = DIM) -> Vocabulary:
    """Word2Vec on the texts themselves; words that occur once are unknown."""
    vectors = word_vectors.train(tokens.words(texts, tokenization), dim=dim, seed=seed)
    return _vocabulary(vectors, texts, tokenization)


@one_thread()
def look_up(
    texts: Sequence[str], path: str, *, tokenization: str = "words", vector_words: int | None = None
) -> Vocabulary:
    """The words of the texts with vectors from a file, and the file's first `vector_words` (default 50,000),
    so that a model knows words that its training texts lack.
    """
    sentences = tokens.words(texts, tokenization)
    wanted = {word for sentence in sentences for word in sentence}
    first = VECTOR_WORDS if vector_words is None else vector_words
    vectors = _readable(word_vectors.look_up(path, wanted, first=first), wanted, tokenization)
    vocabulary = _vocabulary(vectors, texts, tokenization)
    counts = tokens.TextCounts(tokens.NO_LIMIT)
    tokens.encode(vocabulary.tokenizer, texts, max_length=tokens.NO_LIMIT, tally=counts)
    counts.report()
    return replace(vocabulary, coverage=coverage(sentences, vocabulary.tokenizer))


def _readable(vectors: Vectors, wanted: Collection[str], tokenization: str) -> Vectors:
    """Without words that no text is cut into, such as capitals and phrases."""
    cut = tokens.words(vectors.words, tokenization)
    rows = [
        row
        for row, (word, parts) in enumerate(zip(vectors.words, cut, strict=True))
        if word in wanted or parts == [word]
    ]
    return Vectors([vectors.words[row] for row in rows], vectors.table[rows], vectors.source)


def _vocabulary(vectors: Vectors, texts: Sequence[str], tokenization: str) -> Vocabulary:
    alone = are_pairs(texts) and TOKEN not in vectors.words  # as in a file, which has no separator
    tokenizer = tokens.tokenizer([*vectors.words, *[TOKEN] * alone], tokenization=tokenization)
    names = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    table, _ = word_vectors.align(vectors, names)
    if not vectors.table.any():
        raise InputError(f"{vectors.source}: every vector of these words is zero; take other vectors.")
    counts = np.zeros(len(names), dtype=np.int64)
    for start in range(0, len(texts), _PART):  # ids take more memory than the texts
        ids = tokens.encode(tokenizer, texts[start : start + _PART], max_length=tokens.NO_LIMIT)
        counts += np.bincount(np.fromiter(chain.from_iterable(ids), dtype=np.int64), minlength=len(names))
    frequency = (counts / counts.sum()).astype(np.float32)
    table = table - frequency @ table
    counts[tokenizer.all_special_ids] = 0
    rms = np.sqrt(np.mean(np.square(table[counts > 0]))) if counts.any() else 0.0
    table = table / (rms or 1.0)
    table[tokenizer.pad_token_id] = 0
    if alone:  # unlike an unknown word
        table[tokenizer.sep_token_id] = generator(seed=0).normal(size=table.shape[1])
    return Vocabulary(tokenizer, table.astype(np.float32), vectors.source, frequency)
