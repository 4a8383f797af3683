"""What a user would pick instead of a Transformer: two rows of every comparison."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from vnait import record as records
from vnait import text as texts
from vnait.bag_of_words import few_rows_per_class
from vnait.lexicon import Lexicon
from vnait.record import Record
from vnait.scores import details, scores
from vnait.text import Table
from vnait.train import WHOLE


# The inverse of the penalty on averaged vectors, as scikit-learn counts it. On rows of five training files (trec, subj, tnews, eprstmt,
# splice; 8, 16 and 64 labels per class; 5 splits) .03 was within a point of the best of .003 ... 1 in 13 of 15 cases; scikit-learn's own
# 1 lost up to 3.6.
AVERAGED_STRENGTH = 0.03


def tfidf(lexicon: Lexicon, tokenization: str) -> Any:
    """TF-IDF of words and pairs of words, then logistic regression."""
    vectorizer = TfidfVectorizer(
        analyzer=_Terms(tokenization),
        sublinear_tf=True,
    )
    return make_pipeline(vectorizer, _logistic())


def averaged(lexicon: Lexicon, tokenization: str) -> Any:
    """The mean of a text's semantic vectors, standardized, then logistic regression."""
    return make_pipeline(
        FunctionTransformer(_Means(lexicon)), StandardScaler(), LogisticRegression(C=AVERAGED_STRENGTH, max_iter=2000)
    )


BASELINES: dict[str, Callable[[Lexicon, str], Any]] = {"tfidf-logreg": tfidf, "average-logreg": averaged}


def fit_baseline(name: str, table: Table, test: Table, lexicon: Lexicon, *, tokenization: str, seed: int) -> Record:
    """Train a baseline on all rows (it needs none for early stopping) and score it on the test rows."""
    started = time.perf_counter()
    with few_rows_per_class():
        model = BASELINES[name](lexicon, tokenization).fit(table.texts, table.labels)
    seconds = time.perf_counter() - started
    number = {label: index for index, label in enumerate(model.classes_)}
    truth = [number.get(label, -1) for label in test.labels or []]
    answer = [number[label] for label in model.predict(test.texts)]
    lengths = list(map(len, lexicon.encode(test.texts, max_length=WHOLE)))
    head = model[-1]
    return Record.now(
        key=records.key_of(name, table.fingerprint, test.fingerprint, lexicon.source, tokenization),
        method=name,
        seed=seed,
        run={"tokenization": tokenization},
        data={
            "name": table.name,
            "fingerprint": table.fingerprint,
            "rows": len(table),
            "classes": [str(label) for label in model.classes_],
            "test_rows": len(test),
        },
        metrics={**scores(truth, answer), **details(truth, answer, lengths, len(number))},
        parameters=int(head.coef_.size + head.intercept_.size),
        seconds=seconds,
    )


def _logistic() -> LogisticRegression:
    return LogisticRegression(max_iter=2000)


class _Terms:
    """A text's words and pairs of neighbouring words, by the models' own tokenization."""

    def __init__(self, tokenization: str) -> None:
        self.tokenization = tokenization

    def __call__(self, text: str) -> list[str]:
        words = texts.words([text], self.tokenization)[0]
        return words + [f"{one} {other}" for one, other in pairwise(words)]


class _Means:
    """Texts -> the mean vector of their known words, (texts, D)."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon

    def __call__(self, given: Sequence[str]) -> NDArray[np.float32]:
        ids = texts.encode(self.lexicon.tokenizer, given, max_length=WHOLE)
        return np.stack([self.lexicon.table[row].mean(0) for row in ids])
