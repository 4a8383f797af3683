"""Logistic regression of words and pairs at their places, the linear part that training rows may choose."""

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from vnait.data import collate
from vnait.model.one_hot import terms_of
from vnait.train.bag_of_words import STRENGTH, Weights, both_classes, ignoring_few_rows
from vnait.train.features import RARE
from vnait.train.span import in_span

TOGETHER = 256  # texts that become terms at once


def matrix_of(
    ids: Sequence[Sequence[int]], unknown: int | None
) -> tuple[sparse.csr_array, NDArray[np.int64]]:
    """Which text has which term (texts, K), and the numbers of the terms (K,), in ascending order.

    Of 1,000 texts or more the terms are those that two of them have.
    """
    rows = list(_rows(ids, unknown))
    numbers, texts = np.unique(np.concatenate(rows), return_counts=True)
    terms = numbers[texts > 1] if len(rows) >= RARE else numbers
    at = (np.searchsorted(terms[:-1], row) for row in rows)
    columns = [places[terms[places] == row] for places, row in zip(at, rows, strict=True)]
    ends = np.cumsum([0, *map(len, columns)])
    matrix = sparse.csr_array(
        (np.ones(ends[-1]), np.concatenate(columns), ends), shape=(len(rows), len(terms))
    )
    return matrix, terms


def _rows(ids: Sequence[Sequence[int]], unknown: int | None) -> Iterator[NDArray[np.int64]]:
    """The numbers of each text's terms."""
    for start in range(0, len(ids), TOGETHER):
        batch = collate(ids[start : start + TOGETHER], pad_id=0)
        terms = terms_of(batch["input_ids"], batch["attention_mask"].bool(), unknown)
        for row in terms.flatten(1).numpy():
            yield row[row >= 0]


class OneHotRegression(ClassifierMixin, BaseEstimator):
    """L2 logistic regression of the terms of texts X (texts, K), rows of unit length; of the terms that the
    rows of the fit have. Logits are X / |X| `logits_` (K, C) + `bias_` (C,).
    """

    def fit(self, terms: Any, labels: Sequence[int], sample_weight: Weights = None) -> Self:
        """Fit to `labels` (texts,) of two classes or more."""
        self.known_ = np.asarray(terms.sum(0)).ravel() > 0
        narrow, widen = in_span(self._features(terms))
        with ignoring_few_rows():
            head = LogisticRegression(C=STRENGTH, max_iter=2000).fit(narrow, labels, sample_weight)
        weights, self.bias_ = both_classes(head)
        self.classes_, self.logits_ = head.classes_, widen(weights).T
        return self

    def decision_function(self, terms: Any) -> NDArray[np.float64]:
        """Logits (texts, C), also for two classes."""
        logits: NDArray[np.float64] = self._features(terms) @ self.logits_ + self.bias_
        return logits

    def predict(self, terms: Any) -> NDArray[Any]:
        """The class with the highest logit, (texts,)."""
        answers: NDArray[Any] = self.classes_[self.decision_function(terms).argmax(1)]
        return answers

    def _features(self, terms: Any) -> Any:
        return normalize(terms[:, self.known_])
