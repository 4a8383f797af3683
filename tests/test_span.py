"""Linear models of few texts are fitted in the span of the rows: the same models, sooner."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from vnait.data import Table
from vnait.train import span
from vnait.train.bag_of_words import BagOfEach, BagRegression
from vnait.train.baselines import fit_baseline
from vnait.train.one_hot import OneHotRegression
from vnait.train.span import in_span

CLOSE = 0.02  # of the largest: scikit-learn's solver stops at a gradient of 1e-4 in any coordinate
RANDOM = np.random.default_rng(0)
TEXTS = [" ".join(f"w{word}" for word in RANDOM.integers(60, size=9)) for _ in range(40)]
LABELS = {
    "classification": [str(row % 3) for row in range(40)],
    "regression": [str(row % 7) for row in range(40)],
    "multilabel": [" | ".join("abc"[: row % 4]) for row in range(40)],
}


def both(monkeypatch, fit):
    """What `fit` returns, with the span and without it."""
    within = fit()
    monkeypatch.setattr(span, "MOST", 0)
    return within, fit()


def assert_close(actual, expected):
    np.testing.assert_allclose(actual, expected, atol=CLOSE * np.abs(expected).max())


@pytest.mark.parametrize("task", LABELS)
@pytest.mark.parametrize("name", ["tfidf", "one-hot"])
def test_simple_models_of_few_texts_are_the_same(task, name, monkeypatch):
    labels = LABELS[task]
    table = Table(TEXTS, labels, "t.csv", 0, **({} if task == "classification" else {"task": task}))
    weights = None if task == "regression" else RANDOM.uniform(0.5, 2, 40)
    within, without = both(
        monkeypatch, lambda: fit_baseline(name, table, tokenization="words", seed=0, weights=weights)
    )
    assert len(within.features.names) > 2 * len(TEXTS)
    assert_close(within.weights, without.weights)
    assert_close(within.outputs(TEXTS), without.outputs(TEXTS))


BAGS = sparse.csr_array((RANDOM.random((30, 90)) > 0.8).astype(float))
TRUTH = np.arange(30) % 3


@pytest.mark.parametrize(
    ("model", "labels"),
    [
        (BagRegression(np.zeros((90, 2))), TRUTH),
        (OneHotRegression(), TRUTH),
        (BagOfEach(np.zeros((90, 2))), np.eye(3, dtype=int)[TRUTH]),
    ],
    ids=["bag", "one-hot", "each"],
)
def test_linear_parts_of_few_texts_are_the_same(model, labels, monkeypatch):
    within, without = both(monkeypatch, lambda: model.fit(BAGS, labels).decision_function(BAGS))
    assert_close(within, without)


@pytest.mark.parametrize(
    "kind", [np.asarray, np.float32, sparse.csr_array], ids=["float64", "float32", "sparse"]
)
def test_inner_products_are_kept_and_weights_are_carried_back(kind):
    rows = RANDOM.random((7, 50)).astype(np.float32).astype(float)
    rows[6] = rows[5]  # of rank 6
    narrow, widen = in_span(kind(rows))
    assert narrow.shape == (7, 6)
    np.testing.assert_allclose(narrow @ narrow.T, rows @ rows.T)
    weights = RANDOM.random((2, 6))
    assert widen(weights).shape == (2, 50)
    np.testing.assert_allclose(rows @ widen(weights).T, narrow @ weights.T)


@pytest.mark.parametrize("shape", [(50, 7), (7, 7), (1_001, 2_000)], ids=str)
def test_rows_that_are_not_fewer_or_too_many_stay(shape):
    rows = np.ones(shape)
    assert in_span(rows)[0] is rows


def test_rows_without_a_known_term_stay():
    rows = sparse.csr_array((3, 9))
    narrow, widen = in_span(rows)
    head = LogisticRegression().fit(narrow, [0, 1, 1])
    assert narrow is rows and widen(head.coef_).shape == (1, 9)
