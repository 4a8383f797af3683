"""Simple models, what a user would try instead of a Transformer; every comparison has those of its task.

    tfidf      words, pairs of neighbours and n-grams of letters     no places
    one-hot    which word, or pair, stands at which place             from the start and from the end
    averaged   the mean of the text's word vectors                    no places

Each is a linear model: logistic regression, ridge regression of numbers.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    train_test_split,
)
from sklearn.preprocessing import StandardScaler

from vnait.data import NO_LIMIT, Table, encode
from vnait.data import words as words_of
from vnait.data.labels import ordered
from vnait.data.pairs import are_pairs
from vnait.data.tables import labels_of
from vnait.data.tasks import CLASSIFICATION, MULTILABEL, NUMBER, REGRESSION, TAGGING
from vnait.data.vocabulary import Vocabulary
from vnait.results.record import Record
from vnait.results.scores import timed
from vnait.shared.errors import InputError
from vnait.shared.keys import key_of
from vnait.shared.processes import one_thread
from vnait.train.arrays import row_weights
from vnait.train.bag_of_words import STRENGTH, both_classes, ignoring_few_rows, log_odds, of_each
from vnait.train.base import Base
from vnait.train.features import Contexts, Features, Joined, Pooled, Terms
from vnait.train.linear import LinearClassifier
from vnait.train.run import FROZEN, PREFIX, READS_MORE, READS_VECTORS
from vnait.train.span import in_span
from vnait.train.tasks import target_of, with_names

# scikit-learn's C of logistic regression, chosen by cross-validation: of rows of unit length, and of
# standardized vectors.
UNIT_ROWS, STANDARDIZED = (1.0, 10.0, 100.0), (0.003, 0.03, 0.3)
FOLDS, CHOSEN_ON = 5, 1000  # folds, and the most rows on which C is chosen
ALPHAS = tuple(10.0**power for power in range(-2, 5))  # of ridge regression
UNKNOWN = "[UNK]"
Weights = NDArray[np.float64] | None  # of rows
Words = Vocabulary | Pooled | None  # what a simple model reads beside the table


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What a simple model learns from.

    words     the vocabulary, for `averaged`; a pretrained encoder, for `frozen`; None for the others
    weights   how much each row counts
    more      texts without labels, the table's included, for the idf of `tfidf`
    """

    table: Table
    words: Words
    tokenization: str
    weights: Weights = None
    more: Sequence[str] | None = None


def tfidf(name: str, rows: Rows) -> LinearClassifier:
    """TF-IDF of words and pairs of words beside TF-IDF of n-grams of letters."""
    texts, tokenization = rows.table.texts, rows.tokenization
    parts = tuple(Terms.fit(kind, tokenization, texts, rows.more) for kind in ("words", "letters"))
    return _linear(name, rows, Joined(parts), UNIT_ROWS)


def one_hot(name: str, rows: Rows) -> LinearClassifier:
    """Words and pairs of words, each at its place from the start and from the end."""
    return _linear(name, rows, Joined((Terms.fit("places", rows.tokenization, rows.table.texts),)), UNIT_ROWS)


def averaged(name: str, rows: Rows) -> LinearClassifier:
    """The mean of a text's semantic vectors, standardized.

    The product of vectors and weights is stored, one weight per word and class.
    """
    assert isinstance(rows.words, Vocabulary)
    tokenizer, vectors = rows.words.tokenizer, rows.words.table
    encoded = encode(tokenizer, rows.table.texts, max_length=NO_LIMIT)
    means = np.stack([vectors[ids].mean(0) for ids in encoded])
    scaler = StandardScaler().fit(means, sample_weight=rows.weights)
    words = tokenizer.convert_ids_to_tokens(range(len(vectors)))
    terms = Terms(kind="mean", tokenization=rows.tokenization, terms=words, unknown=tokenizer.unk_token)
    model = _linear(name, rows, Joined((terms,)), STANDARDIZED, scaler.transform(means))
    weights = model.weights / scaler.scale_[:, None]
    bias = model.bias - scaler.mean_ @ weights
    return replace(model, weights=vectors.astype(np.float64) @ weights, bias=bias)


def frozen(name: str, rows: Rows) -> LinearClassifier:
    """The frozen embeddings of a pretrained encoder."""
    assert isinstance(rows.words, Pooled)
    return _linear(name, rows, rows.words, UNIT_ROWS)


def constant(name: str, rows: Rows) -> LinearClassifier:
    """The mean of the training rows, for any text; of sets of labels the `log_odds` of each: the answer is
    every label that most rows have.
    """
    table = rows.table
    terms = Terms(kind="mean", tokenization=rows.tokenization, terms=[UNKNOWN], unknown=UNKNOWN)
    labels, sets = _labels(table), table.task == MULTILABEL
    classes = list(target_of(table).names) if sets else [NUMBER]
    return LinearClassifier(
        name=name,
        features=Joined((terms,)),
        classes=classes,
        weights=np.zeros((1, len(classes))),
        bias=log_odds(labels) if sets else np.array([labels.mean()]),
        inputs=0,
        task=table.task,
    )


def frequent(name: str, rows: Rows) -> LinearClassifier:
    """The most frequent tag of each word, and of all words for one that training never saw.

    logits = log(n_wt + p_t), n_wt how often word w has tag t, p_t the share of t among all words
    """
    table = rows.table
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


def window(name: str, rows: Rows) -> LinearClassifier:
    """Logistic regression of each word, its neighbours, first and last letters and shape, as `Contexts`."""
    return _linear(name, rows, _of_words(rows.table, "window"), (1.0,))


def _of_words(table: Table, kind: str) -> Contexts:
    """The features of a table's words."""
    empty = Contexts(kind=kind, terms=[])
    terms = {term for text in table.texts for row in empty.of(text) for term in row}
    return replace(empty, terms=sorted(terms))


def _linear(
    name: str, rows: Rows, features: Features, strengths: Sequence[float], matrix: Any = None
) -> LinearClassifier:
    """A linear model of `features`, or of their `matrix` in another form; of several labels one per label."""
    table, labels = rows.table, _labels(rows.table)
    matrix = features(table.texts) if matrix is None else matrix
    with one_thread():  # sums in a fixed order, whatever else runs
        matrix, widen = in_span(matrix)
        if table.task == MULTILABEL:
            classes = list(target_of(table).names)
            # With C = 1, few rows leave most labels below 1/2.
            head = LogisticRegression(C=STRENGTH, max_iter=2000)
            weights, bias = of_each(head, matrix, labels, rows.weights)
        elif table.task == REGRESSION:
            ridge = fitted(Ridge(solver="lsqr"), "alpha", ALPHAS, matrix, labels, rows.weights, table.groups)
            classes, weights, bias = [NUMBER], ridge.coef_[None], np.array([ridge.intercept_])
        else:
            groups = None if table.task == TAGGING else table.groups
            head = fitted(
                LogisticRegression(max_iter=2000), "C", strengths, matrix, labels, rows.weights, groups
            )
            names, (weights, bias) = list(map(str, head.classes_)), both_classes(head)
            classes = ordered(names)
            order = list(map(names.index, classes))
            weights, bias = weights[order], bias[order]
        weights = widen(weights)
    return LinearClassifier(
        name=name,
        features=features,
        classes=classes,
        weights=weights.T,
        bias=bias,
        inputs=weights.shape[1],
        task=table.task,
    )


def fitted(
    head: Any,
    setting: str,
    values: Sequence[float],
    matrix: Any,
    labels: NDArray[Any],
    weights: Any = None,
    groups: Sequence[str] | None = None,
) -> Any:
    """The head with that of the values of its `setting` that is best on five folds, of equals the first.

    It is chosen on 1,000 rows at most, and is the middle one where a class has a single row. scikit-learn's
    C and alpha are relative to the sum of the losses, so what few rows choose is mild enough for many.
    """
    head.set_params(**{setting: values[len(values) // 2]})
    if len(values) == 1:
        return head.fit(matrix, labels, weights)
    classifies = isinstance(head, LogisticRegression)
    choosing = _choosing(labels, classifies)
    folds = min(FOLDS, _rarest(labels[choosing]) if classifies else len(choosing))
    whole = None if groups is None else np.asarray(groups)[choosing]
    if whole is not None:
        classes = labels[choosing] if classifies else np.zeros(len(choosing))
        folds = min(folds, *(len(np.unique(whole[classes == name])) for name in np.unique(classes)))
    if folds > 1:
        kinds = (KFold, StratifiedKFold) if whole is None else (GroupKFold, StratifiedGroupKFold)
        parts = kinds[classifies](folds, shuffle=True, random_state=0)
        scoring = "accuracy" if classifies else "neg_mean_squared_error"
        search = GridSearchCV(head, {setting: list(values)}, cv=parts, scoring=scoring, refit=False)
        narrow = in_span(matrix[choosing])[0]
        head.set_params(**search.fit(narrow, labels[choosing], groups=whole).best_params_)
    return head.fit(matrix, labels, weights)


def _choosing(labels: NDArray[Any], classifies: bool) -> NDArray[Any]:
    """At most `CHOSEN_ON` rows, with each class's share of all rows if every class has two and both parts
    have room for all classes.
    """
    rows = np.arange(len(labels))
    if len(rows) <= CHOSEN_ON:
        return rows
    smaller = min(CHOSEN_ON, len(rows) - CHOSEN_ON)
    even = classifies and _rarest(labels) > 1 and len(np.unique(labels)) <= smaller
    drawn: NDArray[Any] = train_test_split(
        rows, train_size=CHOSEN_ON, stratify=labels if even else None, random_state=0
    )[0]
    return drawn


def _rarest(labels: NDArray[Any]) -> int:
    """The rows of the rarest class."""
    return int(np.unique(labels, return_counts=True)[1].min())


def _labels(table: Table) -> NDArray[Any]:
    if table.task == MULTILABEL:
        target = target_of(table)
        return target.tensor(target.truth(labels_of(table))).numpy().astype(int)
    if table.task == REGRESSION:
        return np.array(table.labels, dtype=float)
    return np.asarray(table.single_labels)


@lru_cache(maxsize=1)
def pooled(source: str) -> Pooled:
    """One encoder per process, so that no text is encoded twice."""
    return Pooled(Base.load(source))


FROZEN_BASE = f"{PREFIX}{FROZEN}"  # the simple model on the frozen embeddings of a pretrained base
Makers = dict[str, Callable[[str, Rows], LinearClassifier]]
BASELINES: Makers = {"tfidf": tfidf, "one-hot": one_hot, "averaged": averaged}
OF_NUMBERS: Makers = {"mean": constant, **BASELINES}
OF_TAGS: Makers = {"frequent-tag": frequent, "window-logreg": window}
OF_SETS: Makers = {"majority": constant, **BASELINES}
BY_TASK = {CLASSIFICATION: BASELINES, REGRESSION: OF_NUMBERS, TAGGING: OF_TAGS, MULTILABEL: OF_SETS}
FORMULA = [UNIT_ROWS, STANDARDIZED, FOLDS, CHOSEN_ON, ALPHAS]  # what decides their results beside the code


def baselines_of(table: Table) -> tuple[str, ...]:
    """The names of the simple models for a table's labels."""
    return tuple(BY_TASK[table.task])


def fit_baseline(
    name: str,
    table: Table,
    test: Table | None = None,
    words: Words = None,
    *,
    tokenization: str,
    seed: int,
    validation: float = 0.0,
    weights: Weights = None,
    class_weight: Mapping[str, float] | str | None = None,
    more: Sequence[str] | None = None,
) -> LinearClassifier:
    """A simple model of all rows, with the record of its scores on the test rows.

    validation   share of the rows on which a first fit to the others is scored; the same rows as in
                 `vnait.train.fitting.fit`
    class_weight    how much the rows of each label count, as in `Run`, times their `weights`
    more         texts without labels, the rows' included, of which `tfidf` counts how many have a term
    """
    weighted: dict[str, Any] = {}
    if class_weight is not None:
        weights = np.asarray(row_weights(class_weight, table, None if weights is None else weights.tolist()))
        weighted["class_weight"] = class_weight
    rows = Rows(table=table, words=words, tokenization=tokenization, weights=weights, more=more)
    metrics: dict[str, Any] = {}
    facts: dict[str, Any] = {"name": table.name, "fingerprint": table.fingerprint, "rows": len(table)}
    if validation:
        facts["validation_rows"], metrics = _held_out(name, rows, validation, seed)
    started = time.perf_counter()
    model = _of(name, rows)
    seconds = time.perf_counter() - started
    if table.groups is not None:
        facts["groups"] = len(set(table.groups))
    if test is not None:
        table.check_apart(test)
        facts |= {"test_rows": len(test), "test_fingerprint": test.fingerprint}
        metrics |= _test_scores(model, test, rows)
    if name in READS_VECTORS and isinstance(words, Vocabulary):
        facts["vectors"] = words.source
    if table.more and name in (*READS_VECTORS, *READS_MORE):
        facts["unlabelled_rows"] = len(table.more)
    source = None if words is None else (words if isinstance(words, Vocabulary) else words.base).source
    tests = None if test is None else test.fingerprint
    record = Record.now(
        key=key_of(name, table.fingerprint, tests, source, tokenization, *weighted.values()),
        method=name,
        seed=seed,
        run={"tokenization": tokenization, **weighted},
        data={**facts, **target_of(table).facts},
        metrics=metrics,
        parameters=_parameters(model),
        seconds=seconds,
    )
    return replace(model, record=record)


def _parameters(model: LinearClassifier) -> int:
    """How many numbers are learned; of two classes scikit-learn learns only the difference."""
    outputs = 1 if len(model.classes) == 2 and model.task != MULTILABEL else len(model.classes)
    return outputs * (model.inputs + 1)


def _held_out(name: str, rows: Rows, share: float, seed: int) -> tuple[int, dict[str, float]]:
    """How many rows are held out, and the scores on them of a fit to the others."""
    learned, held = rows.table.split(holdout=share, seed=seed)
    weights = None if rows.weights is None else rows.weights[learned]
    model = _of(name, replace(rows, table=rows.table.select(learned), weights=weights))
    scores = _scores(model, rows.table.select(held))
    return len(held), {f"validation_{score}": value for score, value in scores.items()}


def _of(name: str, rows: Rows) -> LinearClassifier:
    if name == FROZEN_BASE and rows.table.task == TAGGING:
        raise InputError(
            "frozen embeddings are of whole texts, and tags are of words; leave out --method frozen "
            "(method=) to fine-tune the base."
        )
    make = frozen if name == FROZEN_BASE else BY_TASK[rows.table.task][name]
    with ignoring_few_rows():
        return replace(make(name, rows), pairs=are_pairs(rows.table.texts))


def _test_scores(model: LinearClassifier, test: Table, rows: Rows) -> dict[str, Any]:
    target = target_of(rows.table)
    truth = target.truth(test.labels or [])
    answer, per_text = timed(lambda: target.answers(model.outputs(test.texts)), test)
    if rows.words is not None:
        encoder = rows.words if isinstance(rows.words, Vocabulary) else rows.words.base
        lengths = list(map(len, encoder.encode(test.texts, max_length=NO_LIMIT)))
    else:
        lengths = list(map(len, words_of(test.texts, rows.tokenization)))
    return {
        **target.scores(truth, answer),
        **target.details(truth, answer, lengths),
        "ms_per_text": per_text,
    }


def _scores(model: LinearClassifier, table: Table) -> dict[str, float]:
    target = with_names(table.task, model.classes)
    return target.scores(target.truth(table.labels or []), target.answers(model.outputs(table.texts)))
