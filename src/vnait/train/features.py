"""Features of texts for linear models: words and their neighbours, letters, places, vectors; and of words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.preprocessing import normalize
from transformers import AutoModel

from vnait.data import collate
from vnait.data import words as words_of
from vnait.data.sentences import split_words
from vnait.data.text import normalized
from vnait.pretrained.loading import from_pretrained
from vnait.shared.errors import InputError
from vnait.shared.quiet import no_bars
from vnait.train.base import Base

Matrix = Any  # a sparse matrix of scikit-learn's (texts, F), which has no types

CONTEXTS = ("word", "window")  # kinds of features of a word
WEIGHED = ("words", "letters")  # kinds of terms with idf
LETTERS = (2, 5)  # letters of an n-gram
PLACES = 64  # from either end of a text
RARE = 1000  # texts from which on a term that a single text has is left out


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Features (texts, F) of the terms that a text has, F the number of terms; rows of unit length.

    kind           "words": words and pairs of neighbours;  "letters": n-grams of letters inside a word, with
                   a space for its edges;  both (1 + log n_j) idf_j for a term j that stands n_j times in the
                   text;  "places": each of the first and last 64 words with its place, and pairs of
                   neighbours with theirs, 1 or 0;  "mean": the share of each word, of sum 1
    tokenization   as in `vnait.data.words`; letters need none
    terms          in the order of the columns;  idf (F,), None for places and means
    unknown        for "mean": the term for all other words, and for an empty text
    """

    kind: str
    tokenization: str
    terms: list[str]
    idf: NDArray[np.float64] | None = None
    unknown: str | None = None

    def __post_init__(self) -> None:
        words_of([], self.tokenization)  # an unknown one is refused

    @classmethod
    def fit(
        cls, kind: str, tokenization: str, texts: Sequence[str], more: Sequence[str] | None = None
    ) -> Terms:
        """The terms of the texts; of 1,000 texts or more those that two of them have. Their idf is of these
        texts, or of `more`, which include them.
        """
        new = cls(kind=kind, tokenization=tokenization, terms=[])
        vectorizer = new._vectorizer(vocabulary=None, min_df=2 if len(texts) >= RARE else 1)
        try:
            vectorizer.fit(new._rows(texts))
        except ValueError as error:  # of scikit-learn, without a term
            word = "word that two of them have" if len(texts) >= RARE else "word"
            raise InputError(
                f"the {len(texts):,} texts have no {word}; give texts that are not empty."
            ) from error
        terms = vectorizer.get_feature_names_out().tolist()
        if more is not None:
            vectorizer = new._vectorizer(vocabulary=terms).fit(new._rows(more))
        return replace(new, terms=terms, idf=vectorizer.idf_ if kind in WEIGHED else None)

    def __call__(self, texts: Sequence[str]) -> Matrix:
        if self.unknown is not None:
            return self._shares(texts)
        vectorizer = self._vectorizer(vocabulary=self.terms)
        if self.idf is None:
            return normalize(vectorizer.transform(self._rows(texts)))
        vectorizer.idf_ = self.idf
        return vectorizer.transform(self._rows(texts))

    @property
    def names(self) -> list[str]:
        """The terms as they are shown."""
        return [f"letters {term!r}" for term in self.terms] if self.kind == "letters" else self.terms

    def notes(self) -> dict[str, Any]:
        """The fields that are saved as JSON."""
        notes = asdict(replace(self, idf=None))
        del notes["idf"]
        return notes

    def _vectorizer(self, **settings: Any) -> CountVectorizer:
        if self.kind == "letters":
            return TfidfVectorizer(analyzer="char_wb", ngram_range=LETTERS, sublinear_tf=True, **settings)
        if self.kind == "words":
            return TfidfVectorizer(analyzer=with_pairs, sublinear_tf=True, **settings)
        return CountVectorizer(analyzer=with_places, dtype=np.float64, **settings)

    def _rows(self, texts: Sequence[str]) -> Sequence[Any]:
        if self.kind == "letters":
            return list(map(normalized, texts))
        return words_of(texts, self.tokenization)

    def _shares(self, texts: Sequence[str]) -> Matrix:
        known, unknown = set(self.terms), self.unknown
        rows = [
            [word if word in known else unknown for word in row] or [unknown] for row in self._rows(texts)
        ]
        counter = CountVectorizer(analyzer=list, vocabulary=self.terms)
        return normalize(counter.transform(rows).astype(np.float64), norm="l1")


def with_pairs(words: Sequence[str]) -> list[str]:
    """The words in order, then the pairs of neighbours.

    >>> with_pairs(["not", "bad", "."])
    ['not', 'bad', '.', 'not bad', 'bad .']
    """
    return [*words, *map(" ".join, pairwise(words))]


def with_places(words: Sequence[str]) -> list[str]:
    """Words and pairs of neighbours with their places, from the start (from 1) and from the end (from -1).

    >>> with_places(["not", "bad"])
    ['1=not', '2=bad', '1=not bad', '-2=not', '-1=bad', '-2=not bad']
    """
    first, last = words[:PLACES], words[-PLACES:]
    return [
        f"{place}={term}"
        for start, part in ((1, first), (-len(last), last))
        for terms in (part, list(map(" ".join, pairwise(part))))
        for place, term in enumerate(terms, start)
    ]


@dataclass(frozen=True)
class Joined:
    """Features of several kinds side by side, (texts, F), rows of unit length."""

    parts: tuple[Terms, ...]

    def __call__(self, texts: Sequence[str]) -> Matrix:
        return sparse.hstack([part(texts) for part in self.parts], format="csr") / np.sqrt(len(self.parts))

    @property
    def names(self) -> list[str]:
        """The terms of all parts as they are shown."""
        return list(chain.from_iterable(part.names for part in self.parts))


@dataclass(frozen=True, kw_only=True)
class Contexts:
    """Features (words, F) of each word of sentences, F the number of terms: the term "word=..." and, with
    `window`, those of its two neighbours, of its first and last one to three letters and of its shape.

    kind      "word" or "window"
    terms     in the order of the columns
    """

    kind: str
    terms: list[str]

    @property
    def names(self) -> list[str]:
        return self.terms

    def __call__(self, texts: Sequence[str]) -> Matrix:
        vectorizer = CountVectorizer(analyzer=lambda row: row, vocabulary=self.terms)
        return vectorizer.transform(list(chain.from_iterable(map(self.of, texts)))).astype(np.float64)

    def of(self, text: str) -> list[list[str]]:
        """The terms of each word of a sentence.

        >>> Contexts(kind="window", terms=[]).of("A film")[1][:4]
        ['word=film', 'before=a', 'after=[END]', 'first=f']
        """
        words = split_words(text)
        lower = [word.lower() for word in words]
        if self.kind == "word":
            return [[f"word={word}"] for word in lower]
        padded = ["[START]", *lower, "[END]"]
        return [
            [
                f"word={word}",
                f"before={padded[place]}",
                f"after={padded[place + 2]}",
                *(f"first={word[:count]}" for count in range(1, min(3, len(word)) + 1)),
                *(f"last={word[-count:]}" for count in range(1, min(3, len(word)) + 1)),
                f"shape={_shape(words[place])}",
            ]
            for place, word in enumerate(lower)
        ]


def _shape(word: str) -> str:
    """Capitals as A, other letters as a, digits as 1, repeats once.

    >>> _shape("McCoy"), _shape("1990s"), _shape("U.S.")
    ('AaAa', '1a', 'A.A.')
    """
    marks = (
        "1" if letter.isdigit() else "A" if letter.isupper() else "a" if letter.isalpha() else letter
        for letter in word
    )
    return "".join(mark for mark, _ in groupby(marks))


class Pooled:
    """Features (texts, D): the mean of a pretrained encoder's last states over the tokens, at unit length.

    sentence-transformers does the same with most of its encoders. Texts are cut to 256 tokens; each is
    encoded once per process.
    """

    LONGEST = 256

    def __init__(self, base: Base) -> None:
        self.base = base
        with no_bars():
            self.model = from_pretrained(AutoModel, base.source).eval()
        self.separator = base.separator(self.model)
        self.known: dict[str, NDArray[np.float32]] = {}

    @torch.no_grad()
    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        new = sorted({text for text in texts if text not in self.known}, key=len)
        for start in range(0, len(new), 64):
            group = new[start : start + 64]
            ids = self.base.encode(group, max_length=self.LONGEST)
            batch = collate(ids, pad_id=self.base.tokenizer.pad_token_id, separator=self.separator)
            states, mask = self.model(**batch).last_hidden_state, batch["attention_mask"][..., None]
            mean = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1))
            self.known.update(zip(group, mean.numpy(), strict=True))
        return np.stack([self.known[text] for text in texts])

    def save(self, folder: Path) -> None:
        """Save weights and tokenizer in transformers' format."""
        with no_bars():
            self.model.save_pretrained(folder)
            self.base.tokenizer.save_pretrained(folder)


Features = Joined | Contexts | Pooled
