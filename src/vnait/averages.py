"""A linear answer from a text's averaged vectors: a baseline of its own, and a steady part of every classifier trained from scratch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn
from torch import Tensor

from vnait.model import VnaitForSequenceClassification, mean_of
from vnait.predict import logits_of

# The inverse of the penalty, as scikit-learn counts it. On rows of five training files (trec, subj, tnews, eprstmt, splice; 8, 16 and 64
# labels a class; 5 splits) .03 was within a point of the best of .003 ... 1 in 13 of 15 cases; scikit-learn's own 1 lost up to 3.6.
STRENGTH = 0.03
SHARE = "1 - (1 - w)(1 - u), w = s^2 / (s^2 + (1 - s)^2)"  # as `share_of` counts it: part of a comparison's keys


def regression() -> Any:
    """Logistic regression on standardized features."""
    return make_pipeline(StandardScaler(), LogisticRegression(C=STRENGTH, max_iter=2000))


def linear(means: NDArray[Any], labels: Sequence[int]) -> tuple[NDArray[Any], NDArray[Any]]:
    """`regression` fitted on means (texts, D) and labels 0 ... C-1, as one linear map: logits = W mean + b, W (C, D) and b (C,).

    >>> weight, bias = linear(np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 0, 1, 1])
    >>> (np.array([[0.0], [3.0]]) @ weight.T + bias).argmax(1).tolist()
    [0, 1]
    """
    with threadpool_limits(1):  # sums in one order, however many runs share the machine
        scaler, head = regression().fit(np.asarray(means, dtype=np.float64), labels)
    weight = head.coef_ / scaler.scale_
    bias = head.intercept_ - weight @ scaler.mean_
    if len(weight) == 1:  # of two classes scikit-learn keeps the difference of their logits
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    return weight, bias


def skill(means: NDArray[Any], labels: Sequence[int]) -> float:
    """What `regression` knows of rows it has not seen: (accuracy - chance) / (1 - chance), in [0, 1), by up to five folds.

    Chance is the share of the largest of C classes, and accuracy (right + 1) / (rows + C), by Laplace's rule of succession: a few rows
    that are all right are no proof. A class of a single row can't be left out; then it is 0.

    >>> skill(np.array([[0.0], [0.1], [2.0], [2.1]]), [0, 0, 1, 1])  # all four right: 5 / 6
    0.6666666666666667
    """
    counts = np.unique(np.asarray(labels), return_counts=True)[1]
    if counts.min() < 2:
        return 0.0
    folds = StratifiedKFold(min(5, int(counts.min())), shuffle=True, random_state=0)
    with threadpool_limits(1):
        answers = cross_val_predict(regression(), np.asarray(means, dtype=np.float64), labels, cv=folds)
    right, chance = int((answers == np.asarray(labels)).sum()), float(counts.max() / counts.sum())
    return max(0.0, ((right + 1) / (len(labels) + len(counts)) - chance) / (1 - chance))


def strange(ids: Sequence[Sequence[int]]) -> float:
    """The share of a text's tokens that no other of these texts has, the mean over texts, in [0, 1): what can't be learned from them.

    A text of n tokens counts as n + 1, so that something is always left to learn.

    >>> strange([[1, 2, 3], [1, 2, 4]])
    0.25
    """
    texts = Counter(chain.from_iterable(map(set, ids)))
    return float(np.mean([sum(texts[token] == 1 for token in row) / (len(row) + 1) for row in ids]))


def share_of(skill: float, strange: float) -> float:
    """The share of the answer that averaged words get, in [0, 1): 1 - (1 - w)(1 - u), w = s^2 / (s^2 + (1 - s)^2) of their skill s.

    The Transformer speaks for what they leave open, 1 - w, as far as it has met the words, 1 - u: it learns from each how it stands in
    a text, and of a word of one text it can't, while averaged vectors ask no more than what a word resembles.

    >>> [round(share_of(skill, 0), 2) for skill in (0, 0.25, 0.5, 0.75)]
    [0.0, 0.1, 0.5, 0.9]
    >>> [round(share_of(skill, 0.4), 2) for skill in (0, 0.25, 0.5, 0.75)]
    [0.4, 0.46, 0.7, 0.94]
    """
    unknown = (1 - skill) ** 2 / (skill**2 + (1 - skill) ** 2)
    return 1 - unknown * (1 - strange)


@torch.no_grad()
def lean(
    model: VnaitForSequenceClassification, ids: Sequence[Sequence[int]], labels: Sequence[int], share: float | None
) -> None:
    """Give a logistic regression of the averaged vectors of the training rows its share of the logits, and scale the classifier.

    The Transformer's logits become no louder on these rows than the regression's, share for share: it knows its few rows by heart, its
    logits grow with every step, and they would leave the average no say.
    """
    means = np.stack([_mean(model, row) for row in ids])
    share = share_of(skill(means, labels), strange(ids)) if share is None else share
    if not share:
        return
    weight, bias = linear(means, labels)
    louder = _loudness(logits_of(model, ids)) / _loudness(torch.from_numpy(means @ weight.T + bias))
    for parameter in (model.classifier.weight, model.classifier.bias):
        parameter.mul_((1 - share) / max(louder, 1.0))
    model.average.weight.copy_(share * torch.from_numpy(weight))
    model.average.bias.copy_(share * torch.from_numpy(bias))


def _loudness(logits: Tensor) -> float:
    """The root mean square of the logits around each row's mean."""
    return float((logits - logits.mean(-1, keepdim=True)).square().mean().sqrt().clamp(min=1e-12))


def _mean(model: VnaitForSequenceClassification, ids: Sequence[int]) -> NDArray[np.float32]:
    vectors, mask = model.model.semantics(torch.tensor([ids]), None, None)
    mean: NDArray[np.float32] = mean_of(vectors, mask)[0].numpy()
    return mean
