"""What a user would pick instead of a Transformer: two rows of every comparison, and models that can be kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from vnait import record as records
from vnait import text as texts
from vnait.bag_of_words import few_rows_per_class
from vnait.bases import PREFIX, Base
from vnait.lexicon import Lexicon
from vnait.linear import LinearClassifier, Pooled, Terms
from vnait.record import Record
from vnait.scores import details, scores, timed
from vnait.text import Table
from vnait.train import WHOLE

# The inverse of the penalty on averaged vectors, as scikit-learn counts it. On rows of five training files (trec, subj, tnews, eprstmt,
# splice; 8, 16 and 64 labels per class; 5 splits) .03 was within a point of the best of .003 ... 1 in 13 of 15 cases; scikit-learn's own
# 1 lost up to 3.6.
AVERAGED_STRENGTH = 0.03


def tfidf(name: str, table: Table, words: Lexicon, tokenization: str) -> LinearClassifier:
    """TF-IDF of words and pairs of words, then logistic regression."""
    split = Terms(kind="tfidf", tokenization=tokenization, terms=[])
    analyzed = list(map(split.of, texts.words(table.texts, tokenization)))
    vectorizer = TfidfVectorizer(analyzer=lambda row: row, sublinear_tf=True)
    head = LogisticRegression(max_iter=2000).fit(vectorizer.fit_transform(analyzed), table.labels)
    terms = replace(split, terms=vectorizer.get_feature_names_out().tolist(), idf=vectorizer.idf_)
    weights, bias = _both(head)
    return LinearClassifier(
        name=name, features=terms, classes=_named(head), weights=weights, bias=bias, inputs=len(weights)
    )


def averaged(name: str, table: Table, words: Lexicon, tokenization: str) -> LinearClassifier:
    """The mean of a text's semantic vectors, standardized, then logistic regression; folded into a logit per word and class."""
    names = words.tokenizer.convert_ids_to_tokens(range(len(words.table)))
    ids = texts.encode(words.tokenizer, table.texts, max_length=WHOLE)
    means = np.stack([words.table[row].mean(0) for row in ids])
    scaler = StandardScaler().fit(means)
    head = LogisticRegression(C=AVERAGED_STRENGTH, max_iter=2000).fit(scaler.transform(means), table.labels)
    weights, bias = _both(head)
    weights = weights / scaler.scale_[:, None]
    terms = Terms(kind="mean", tokenization=tokenization, terms=names, unknown=words.tokenizer.unk_token)
    return LinearClassifier(
        name=name,
        features=terms,
        classes=_named(head),
        weights=words.table.astype(np.float64) @ weights,
        bias=bias - scaler.mean_ @ weights,
        inputs=words.dim,
    )


def frozen(name: str, table: Table, features: Pooled) -> LinearClassifier:
    """Logistic regression of a pretrained encoder's frozen embeddings, C = 10."""
    head = LogisticRegression(C=10, max_iter=2000).fit(features(table.texts), table.labels)
    weights, bias = _both(head)
    return LinearClassifier(
        name=name, features=features, classes=_named(head), weights=weights, bias=bias, inputs=len(weights)
    )


@lru_cache(maxsize=1)
def pooled(source: str) -> Pooled:
    """One per process, so that no text is read twice."""
    return Pooled(Base.load(source))


FROZEN = f"{PREFIX}frozen"  # beside a pretrained base, its frozen embeddings
BASELINES: dict[str, Callable[[str, Table, Lexicon, str], LinearClassifier]] = {
    "tfidf-logreg": tfidf,
    "average-logreg": averaged,
}


def fit_baseline(
    name: str,
    table: Table,
    test: Table,
    lexicon: Lexicon | Pooled,
    *,
    tokenization: str,
    seed: int,
    validation: float = 0.0,
) -> LinearClassifier:
    """A baseline of all rows (it needs none for early stopping), with the record of its scores on the test rows.

    validation   share of the rows that are held out for validation scores first, the same rows as `vnait.train.fit` holds out
    """
    held = {}
    if validation:
        rows, out = texts.split(table.labels or [], holdout=validation, seed=seed)
        first = _fitted(name, table.select(rows), lexicon, tokenization)
        held = {f"validation_{score}": value for score, value in _scores(first, table.select(out)).items()}
    started = time.perf_counter()
    model = _fitted(name, table, lexicon, tokenization)
    seconds = time.perf_counter() - started
    truth, (answer, per_text) = _numbers(model, test), timed(lambda: model.logits(test.texts).argmax(1).tolist(), test)
    words = lexicon if isinstance(lexicon, Lexicon) else lexicon.base
    lengths = list(map(len, words.encode(test.texts, max_length=WHOLE)))
    record = Record.now(
        key=records.key_of(name, table.fingerprint, test.fingerprint, words.source, tokenization),
        method=name,
        seed=seed,
        run={"tokenization": tokenization},
        data={
            "name": table.name,
            "fingerprint": table.fingerprint,
            "rows": len(table),
            "classes": model.classes,
            "test_rows": len(test),
            "test_fingerprint": test.fingerprint,
        },
        metrics={
            **held,
            **scores(truth, answer),
            **details(truth, answer, lengths, len(model.classes)),
            "ms_per_text": per_text,
        },
        parameters=_learned(model),
        seconds=seconds,
    )
    return replace(model, record=record)


def _fitted(name: str, table: Table, lexicon: Lexicon | Pooled, tokenization: str) -> LinearClassifier:
    with few_rows_per_class():
        if isinstance(lexicon, Pooled):
            return frozen(name, table, lexicon)
        return BASELINES[name](name, table, lexicon, tokenization)


def _scores(model: LinearClassifier, table: Table) -> dict[str, float]:
    return scores(_numbers(model, table), model.logits(table.texts).argmax(1).tolist())


def _numbers(model: LinearClassifier, table: Table) -> list[int]:
    """Each row's class by its number; -1 for a label that training never saw."""
    number = {label: index for index, label in enumerate(model.classes)}
    return [number.get(label, -1) for label in table.labels or []]


def _learned(model: LinearClassifier) -> int:
    """Learned scalars as scikit-learn keeps them: of two classes, the difference alone."""
    heads = 1 if len(model.classes) == 2 else len(model.classes)
    return heads * (model.inputs + 1)


def _named(head: LogisticRegression) -> list[str]:
    return [str(label) for label in head.classes_]


def _both(head: LogisticRegression) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights (F, C) and biases (C,), also of two classes, of which scikit-learn keeps the difference."""
    weights, bias = head.coef_.T, head.intercept_
    if len(head.classes_) == 2:
        weights, bias = np.concatenate([-weights, weights], 1) / 2, np.concatenate([-bias, bias]) / 2
    return weights, bias
