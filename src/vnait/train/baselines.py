"""Linear baselines, what a user would try instead of a Transformer; every comparison has two of them."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.preprocessing import StandardScaler

from vnait.data import NO_LIMIT, Table, encode, words
from vnait.data.pairs import are_pairs
from vnait.data.tables import labels_of
from vnait.data.tasks import CLASSIFICATION, MULTILABEL, NUMBER, REGRESSION, TAGGING
from vnait.data.vocabulary import Vocabulary
from vnait.results.record import Record, key_of
from vnait.results.scores import timed
from vnait.train.bag_of_words import STRENGTH, both_classes, ignoring_few_rows, log_odds, of_each
from vnait.train.base import Base
from vnait.train.linear import Contexts, LinearClassifier, Pooled, Terms
from vnait.train.run import PREFIX
from vnait.train.tasks import target_of, with_names

# scikit-learn's C on averaged vectors. On rows of five training files (trec, subj, tnews, eprstmt, splice; 8,
# 16 and 64 labels per class; 5 splits) .03 was within a point of the best of .003 ... 1 in 13 of 15 cases;
# scikit-learn's default 1 lost up to 3.6.
AVERAGED_STRENGTH = 0.03
ALPHAS = tuple(10.0**power for power in range(-2, 5))  # of ridge regression, chosen by leave-one-out
UNKNOWN = "[UNK]"


def tfidf(name: str, table: Table, vocabulary: Vocabulary, tokenization: str) -> LinearClassifier:
    """TF-IDF of words and pairs of words, then logistic regression."""
    empty = Terms(kind="tfidf", tokenization=tokenization, terms=[])
    analyzed = list(map(empty.of, words(table.texts, tokenization)))
    vectorizer = TfidfVectorizer(analyzer=lambda row: row, sublinear_tf=True)
    # Of sets, C as in the models' linear part: with 1, few rows leave most labels below 1/2.
    strength = STRENGTH if table.task == MULTILABEL else 1.0
    head = _head(table, LogisticRegression(C=strength, max_iter=2000), Ridge(solver="lsqr"))
    rows = vectorizer.fit_transform(analyzed)
    terms = replace(empty, terms=vectorizer.get_feature_names_out().tolist(), idf=vectorizer.idf_)
    return _linear(name, table, terms, head, rows)


def averaged(name: str, table: Table, vocabulary: Vocabulary, tokenization: str) -> LinearClassifier:
    """The mean of a text's semantic vectors, standardized, then logistic regression."""
    tokenizer, vectors = vocabulary.tokenizer, vocabulary.table
    means = np.stack([vectors[row].mean(0) for row in encode(tokenizer, table.texts, max_length=NO_LIMIT)])
    scaler = StandardScaler().fit(means)
    head = _head(table, LogisticRegression(C=AVERAGED_STRENGTH, max_iter=2000), RidgeCV(ALPHAS))
    names = tokenizer.convert_ids_to_tokens(range(len(vectors)))
    terms = Terms(kind="mean", tokenization=tokenization, terms=names, unknown=tokenizer.unk_token)
    model = _linear(name, table, terms, head, scaler.transform(means))
    weights = model.weights / scaler.scale_[:, None]
    bias = model.bias - scaler.mean_ @ weights
    return replace(model, weights=vectors.astype(np.float64) @ weights, bias=bias)


def frozen(name: str, table: Table, features: Pooled) -> LinearClassifier:
    """Logistic regression of a pretrained encoder's frozen embeddings, C = 10."""
    head = _head(table, LogisticRegression(C=10, max_iter=2000), RidgeCV(ALPHAS))
    return _linear(name, table, features, head, features(table.texts))


def constant(name: str, table: Table, vocabulary: Vocabulary, tokenization: str) -> LinearClassifier:
    """The mean of the training rows, for any text; of sets of labels the `log_odds` of each: the answer is
    every label that most rows have.
    """
    terms = Terms(kind="mean", tokenization=tokenization, terms=[UNKNOWN], unknown=UNKNOWN)
    labels, sets = _labels(table), table.task == MULTILABEL
    classes = list(target_of(table).names) if sets else [NUMBER]
    return LinearClassifier(
        name=name,
        features=terms,
        classes=classes,
        weights=np.zeros((1, len(classes))),
        bias=log_odds(labels) if sets else np.array([labels.mean()]),
        inputs=0,
        task=table.task,
    )


def frequent(name: str, table: Table, vocabulary: Vocabulary, tokenization: str) -> LinearClassifier:
    """The most frequent tag of each word, and of all words for one that training never saw.

    logits = log(n_wt + p_t), n_wt how often word w has tag t, p_t the share of t among all words
    """
    features = _of_words(table, "word")
    classes, numbers = np.unique(table.single_labels, return_inverse=True)
    one_hot = np.eye(len(classes))[numbers]
    share = one_hot.mean(0)
    counts = features(table.texts).T @ one_hot
    weights = np.log(counts + share) - np.log(share)
    return LinearClassifier(
        name=name,
        features=features,
        classes=classes.tolist(),
        weights=weights,
        bias=np.log(share),
        inputs=len(weights),
        task=TAGGING,
    )


def window(name: str, table: Table, vocabulary: Vocabulary, tokenization: str) -> LinearClassifier:
    """Logistic regression of each word, its neighbours, first and last letters and shape, as `Contexts`."""
    features = _of_words(table, "window")
    return _linear(name, table, features, LogisticRegression(max_iter=200), features(table.texts))


def _of_words(table: Table, kind: str) -> Contexts:
    """The features of a table's words."""
    empty = Contexts(kind=kind, terms=[])
    terms = {term for text in table.texts for row in empty.of(text) for term in row}
    return replace(empty, terms=sorted(terms))


def _head(table: Table, classes: LogisticRegression, numbers: Any) -> Any:
    return numbers if table.task == REGRESSION else classes


def _labels(table: Table) -> Any:
    if table.task == MULTILABEL:
        target = target_of(table)
        return target.tensor(target.truth(labels_of(table))).numpy().astype(int)
    return np.array(table.labels, dtype=float) if table.task == REGRESSION else table.single_labels


def _linear(
    name: str, table: Table, features: Terms | Pooled | Contexts, head: Any, rows: Any
) -> LinearClassifier:
    """The head, fitted to the table's labels by the features of its `rows`; to each of several on its own."""
    labels = _labels(table)
    if table.task == MULTILABEL:
        classes, (weights, bias) = list(target_of(table).names), of_each(head, rows, labels)
    elif hasattr(head.fit(rows, labels), "classes_"):
        classes, (weights, bias) = list(map(str, head.classes_)), both_classes(head)
    else:  # ridge regression
        classes, weights, bias = [NUMBER], head.coef_[None], np.array([head.intercept_])
    return LinearClassifier(
        name=name,
        features=features,
        classes=classes,
        weights=weights.T,
        bias=bias,
        inputs=weights.shape[1],
        task=table.task,
    )


@lru_cache(maxsize=1)
def pooled(source: str) -> Pooled:
    """One encoder per process, so that no text is encoded twice."""
    return Pooled(Base.load(source))


FROZEN = f"{PREFIX}frozen"  # the baseline on the frozen embeddings of a pretrained base
Makers = dict[str, Callable[[str, Table, Vocabulary, str], LinearClassifier]]
BASELINES: Makers = {
    "tfidf-logreg": tfidf,
    "average-logreg": averaged,
}
OF_NUMBERS: Makers = {"mean": constant, "tfidf-ridge": tfidf, "average-ridge": averaged}
OF_TAGS: Makers = {"frequent-tag": frequent, "window-logreg": window}
OF_SETS: Makers = {"majority": constant, **BASELINES}
OF = {CLASSIFICATION: BASELINES, REGRESSION: OF_NUMBERS, TAGGING: OF_TAGS, MULTILABEL: OF_SETS}


def baselines_of(table: Table) -> tuple[str, ...]:
    """The names of the baselines for a table's labels."""
    return tuple(OF[table.task])


def fit_baseline(
    name: str,
    table: Table,
    test: Table,
    vocabulary: Vocabulary | Pooled,
    *,
    tokenization: str,
    seed: int,
    validation: float = 0.0,
) -> LinearClassifier:
    """A baseline of all rows, with the record of its scores on the test rows.

    validation   share of the rows on which a first fit to the others is scored; the same rows as in
                 `vnait.train.fitting.fit`
    """
    held = {}
    if validation:
        rows, out = table.split(holdout=validation, seed=seed)
        first = _fitted(name, table.select(rows), vocabulary, tokenization)
        held = {f"validation_{score}": value for score, value in _scores(first, table.select(out)).items()}
    started = time.perf_counter()
    model = _fitted(name, table, vocabulary, tokenization)
    seconds = time.perf_counter() - started
    target = target_of(table)
    truth = target.truth(test.labels or [])
    answer, per_text = timed(lambda: target.answers(model.outputs(test.texts)), test)
    encoder = vocabulary if isinstance(vocabulary, Vocabulary) else vocabulary.base
    lengths = list(map(len, encoder.encode(test.texts, max_length=NO_LIMIT)))
    record = Record.now(
        key=key_of(name, table.fingerprint, test.fingerprint, encoder.source, tokenization),
        method=name,
        seed=seed,
        run={"tokenization": tokenization},
        data={
            "name": table.name,
            "fingerprint": table.fingerprint,
            "rows": len(table),
            **target.facts,
            "test_rows": len(test),
            "test_fingerprint": test.fingerprint,
        },
        metrics={
            **held,
            **target.scores(truth, answer),
            **target.details(truth, answer, lengths),
            "ms_per_text": per_text,
        },
        # scikit-learn learns only the difference of two classes.
        parameters=(1 if len(model.classes) == 2 and model.task != MULTILABEL else len(model.classes))
        * (model.inputs + 1),
        seconds=seconds,
    )
    return replace(model, record=record)


def _fitted(name: str, table: Table, vocabulary: Vocabulary | Pooled, tokenization: str) -> LinearClassifier:
    with ignoring_few_rows():
        if isinstance(vocabulary, Pooled):
            model = frozen(name, table, vocabulary)
        else:
            model = OF[table.task][name](name, table, vocabulary, tokenization)
    return replace(model, pairs=are_pairs(table.texts))


def _scores(model: LinearClassifier, table: Table) -> dict[str, float]:
    target = with_names(table.task, model.classes)
    return target.scores(target.truth(table.labels or []), target.answers(model.outputs(table.texts)))
