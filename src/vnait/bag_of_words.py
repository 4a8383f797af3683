"""What a text's words tell wherever they stand: a linear answer beside the Transformer that `train.fit` trains from scratch."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from vnait.model import VnaitForSequenceClassification
from vnait.predict import logits_of
from vnait.threads import one_thread

# The inverse of the penalty on averaged vectors, as scikit-learn counts it. On rows of five training files (trec, subj, tnews, eprstmt,
# splice; 8, 16 and 64 labels a class; 5 splits) .03 was within a point of the best of .003 ... 1 in 13 of 15 cases; scikit-learn's own 1
# lost up to 3.6.
STRENGTH = 0.03
WORD_STRENGTH = 3.0  # and on words: `studies/LOG.md`, thirteenth sitting
RARE = 0.01  # the frequency at which a word weighs half: `rarity`
SHARE = "1 - (1 - w)(1 - u)^2, w = s^2 / (s^2 + (1 - s)^2)"  # as `share_of` counts it: part of a comparison's keys

Bags = Any  # a sparse array of scikit-learn's kind (texts, V); scipy has no types


@contextmanager
def few_rows_a_class() -> Iterator[None]:
    """Without scikit-learn's guess that classes of a row or two were numbers, said at every fit."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        yield


def rarity(frequency: NDArray[Any]) -> NDArray[np.float32]:
    """The weight of each word, a / (a + p), a = .01, p its share of all words: smooth inverse frequency (Arora et al. 2017).

    >>> rarity(np.array([0.0, 0.01, 0.09])).round(2).tolist()
    [1.0, 0.5, 0.10000000149011612]
    """
    weights: NDArray[np.float32] = (RARE / (RARE + np.asarray(frequency))).astype(np.float32)
    return weights


def bags_of(ids: Sequence[Sequence[int]], weights: NDArray[Any]) -> Bags:
    """(texts, V): the weight of each word in each text, which sum to 1 over a text.

    >>> bags_of([[1, 2, 2]], np.array([1.0, 1.0, 0.5])).toarray().tolist()
    [[0.0, 0.5, 0.5]]
    """
    rows = np.repeat(np.arange(len(ids)), [len(row) for row in ids])
    words = np.fromiter(chain.from_iterable(ids), dtype=np.int64)
    values = weights[words].astype(np.float64)
    values /= np.bincount(rows, values)[rows]
    return sparse.csr_array((values, (rows, words)), shape=(len(ids), len(weights)))


class BagRegression(ClassifierMixin, BaseEstimator):
    """Logistic regression of bags X (texts, V) on their words and on the mean of their vectors, table (V, D).

    Features: sqrt(.03) (X table, standardized) and sqrt(3) X / the root mean square length of X's rows. Averaged vectors know what a new
    word resembles, words know what a frequent one means here; each alone is behind where the other one is better
    (`studies/LOG.md`). The answer is linear in X: decision = X `logits_` (V, C) + `bias_` (C,).
    """

    def __init__(self, table: NDArray[Any]) -> None:
        self.table = table

    def fit(self, bags: Bags, labels: Sequence[int]) -> Self:
        """`labels` (texts,), of two classes or more."""
        scaler = StandardScaler()
        means = scaler.fit_transform(bags @ np.asarray(self.table, dtype=np.float64))
        vectors, words = STRENGTH**0.5, (WORD_STRENGTH * len(labels) / bags.power(2).sum()) ** 0.5
        features = sparse.hstack([sparse.csr_array(means * vectors), bags * words], format="csr")
        with few_rows_a_class():
            head = LogisticRegression(C=1, max_iter=2000).fit(features, labels)
        dim = means.shape[1]
        of_vectors, of_words = head.coef_[:, :dim] * vectors / scaler.scale_, head.coef_[:, dim:] * words
        logits, bias = self.table @ of_vectors.T + of_words.T, head.intercept_ - of_vectors @ scaler.mean_
        if len(head.classes_) == 2:  # scikit-learn keeps the difference of their logits
            logits, bias = np.concatenate([-logits, logits], 1) / 2, np.concatenate([-bias, bias]) / 2
        self.classes_, self.logits_, self.bias_ = head.classes_, logits, bias
        return self

    def decision_function(self, bags: Bags) -> NDArray[np.float64]:
        """Logits (texts, C), also of two classes."""
        logits: NDArray[np.float64] = bags @ self.logits_ + self.bias_
        return logits

    def predict(self, bags: Bags) -> NDArray[Any]:
        """The class with the highest logit, (texts,)."""
        answers: NDArray[Any] = self.classes_[self.decision_function(bags).argmax(1)]
        return answers


def skill(bags: Bags, labels: Sequence[int], table: NDArray[Any]) -> float:
    """What `BagRegression` knows of rows it has not seen: (accuracy - chance) / (1 - chance), in [0, 1), by up to five folds.

    Chance is the share of the largest of C classes, and accuracy (right + 1) / (rows + C), by Laplace's rule of succession: a few rows
    that are all right are no proof. A class of a single row can't be left out; then it is 0.

    >>> skill(bags_of([[0], [0], [1], [1]], np.ones(2)), [0, 0, 1, 1], np.zeros((2, 1)))  # all four right: 5 / 6
    0.6666666666666667
    """
    counts = np.unique(np.asarray(labels), return_counts=True)[1]
    if counts.min() < 2:
        return 0.0
    folds = StratifiedKFold(min(5, int(counts.min())), shuffle=True, random_state=0)
    with one_thread(), few_rows_a_class():  # sums in one order, however many runs share the machine
        answers = cross_val_predict(BagRegression(table), bags, labels, cv=folds)
    right, chance = int((answers == np.asarray(labels)).sum()), float(counts.max() / counts.sum())
    return max(0.0, ((right + 1) / (len(labels) + len(counts)) - chance) / (1 - chance))


def strange(ids: Sequence[Sequence[int]], labels: Sequence[int]) -> float:
    """How strange a text's words are to its class, the mean over texts, in [0, 1): what can't be learned from these texts.

    A word that k texts of the class have counts 1 / k: all where the text has it alone, hardly where all have it. A text of n words counts
    as n + 1, so that something is always left to learn.

    >>> strange([[1, 2, 3], [1, 2, 4], [4]], [0, 0, 1])  # (1/2 + 1/2 + 1) / 4, the same, and 1 / 2
    0.5
    """
    labelled = list(zip(ids, labels, strict=True))
    texts = Counter((label, word) for row, label in labelled for word in set(row))
    shares = [sum(1 / texts[label, word] for word in row) / (len(row) + 1) for row, label in labelled]
    return float(np.mean(shares))


def share_of(skill: float, strange: float) -> float:
    """The share of the answer that the bag of words gets, in [0, 1): 1 - (1 - w)(1 - u)^2, w = s^2 / (s^2 + (1 - s)^2) of its skill s.

    The Transformer speaks for what words leave open, 1 - w, as far as it could learn how two of them stand to each other, (1 - u)^2:
    of a word that one text alone has it learns nothing, while the bag asks no more than what a word resembles.

    >>> [round(share_of(skill, 0), 2) for skill in (0, 0.25, 0.5, 0.75)]
    [0.0, 0.1, 0.5, 0.9]
    >>> [round(share_of(skill, 0.4), 2) for skill in (0, 0.25, 0.5, 0.75)]
    [0.64, 0.68, 0.82, 0.96]
    """
    unknown = (1 - skill) ** 2 / (skill**2 + (1 - skill) ** 2)
    return 1 - unknown * (1 - strange) ** 2


@torch.no_grad()
def lean(
    model: VnaitForSequenceClassification,
    ids: Sequence[Sequence[int]],
    labels: Sequence[int],
    weights: NDArray[Any],
    share: float | None,
) -> float:
    """Give a regression of the training rows' bags, with `weights` (V,), its share of the logits, scale the classifier; the share.

    The Transformer's logits become no louder on these rows than the regression's, share for share: it knows its few rows by heart, its
    logits grow with every step, and they would leave the words no say. Both are then made louder together, the more the smaller the
    regression's share: of words that tell nothing it makes logits near zero, and the Transformer's would be lost beside them.
    """
    table, bags = model.get_input_embeddings().weight.detach().numpy(), bags_of(ids, weights)
    share = share_of(skill(bags, labels, table), strange(ids, labels)) if share is None else share
    if not share:
        return 0.0
    with one_thread():
        words = BagRegression(table).fit(bags, labels)
    louder = _loudness(logits_of(model, ids)) / _loudness(torch.from_numpy(words.decision_function(bags)))
    louder = min(max(louder, 1.0), 100.0)  # words that tell nothing give logits of any smallness
    both = louder ** ((1 - share) ** 2)  # changes no answer
    for parameter in (model.classifier.weight, model.classifier.bias):
        parameter.mul_((1 - share) * both / louder)
    model.bag.weights.copy_(torch.from_numpy(weights))
    model.bag.logits.copy_(share * both * torch.from_numpy(words.logits_))
    model.bag.bias.copy_(share * both * torch.from_numpy(words.bias_))
    return share


def _loudness(logits: Tensor) -> float:
    """The root mean square of the logits around each row's mean."""
    return float((logits - logits.mean(-1, keepdim=True)).square().mean().sqrt().clamp(min=1e-12))
