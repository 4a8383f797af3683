"""A linear classifier of a text's words without their order, and its share beside a Transformer."""

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.preprocessing import normalize
from torch import Tensor

from vnait.shared.processes import one_thread
from vnait.train.span import in_span

# scikit-learn's C, for rows of unit length. On training rows of eight sets (16 labels per class, 3 to 9
# draws) 10 for both words and vectors was 1 to 1.6 points above 3 or 30 for either.
STRENGTH = 10.0
ALPHAS = (0.1, 1.0, 10.0)  # of ridge regression, for rows of unit length
FOLDS = KFold(5, shuffle=True, random_state=0)
SIF_FREQUENCY = 0.01  # the frequency of a word with weight 1/2: `sif_weights`
# Part of a comparison's keys: a change repeats all trainings.
FORMULA = "L2 logistic regression of unit bags and their vectors, C = 10; share 1 - (1 - w)(1 - u)^2"

Bags = Any  # a sparse array of scikit-learn's kind (texts, V); scipy has no types
Weights = NDArray[np.float64] | None  # (texts,), with a mean of 1; None: all are 1


@contextmanager
def ignoring_few_rows() -> Iterator[None]:
    """Without scikit-learn's warning, at every fit, that classes of one or two rows may be numbers."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        yield


def both_classes(head: LogisticRegression) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights (C, F) and biases (C,), also for two classes, of which scikit-learn stores the difference."""
    weights, bias = head.coef_, head.intercept_
    if len(head.classes_) == 2:
        weights, bias = np.concatenate([-weights, weights]) / 2, np.concatenate([-bias, bias]) / 2
    return weights, bias


def of_each(
    head: LogisticRegression, features: Any, labels: NDArray[Any], rows: Weights = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights (C, F) and biases (C,) of a copy of `head` for each of the labels (texts, C), learned on its
    own from features (texts, F); of a label that all texts have, or none, its `log_odds`.
    """
    narrow, widen = in_span(features)
    weights, bias = np.zeros((labels.shape[1], narrow.shape[1])), log_odds(labels)
    for label, has in enumerate(labels.T):
        if 0 < has.sum() < len(has):
            fitted = clone(head).fit(narrow, has, rows)
            weights[label], bias[label] = fitted.coef_[0], fitted.intercept_[0]
    return widen(weights), bias


def log_odds(labels: NDArray[Any], rows: Weights = None) -> NDArray[np.float64]:
    """The logit of each label, log (n + 1/2) / (N - n + 1/2), n of the N rows of labels (N, C) have it; with
    weights, sums of them.

    >>> log_odds(np.array([[1, 0], [1, 0], [0, 0]])).round(2).tolist()
    [0.51, -1.95]
    """
    each = np.ones(len(labels)) if rows is None else rows
    n = each @ labels
    logits: NDArray[np.float64] = np.log((n + 0.5) / (each.sum() - n + 0.5))
    return logits


def sif_weights(frequency: NDArray[Any], special: Sequence[int] = ()) -> NDArray[np.float32]:
    """The weight a / (a + p) of each word, a = .01, p its frequency (SIF, Arora et al. 2017).

    The weight of the ids in `special` is 0, since an unknown word is no evidence for any class.

    >>> sif_weights(np.array([0.5, 0.0, 0.01, 0.09]), special=[0]).round(2).tolist()
    [0.0, 1.0, 0.5, 0.10000000149011612]
    """
    share = SIF_FREQUENCY / (SIF_FREQUENCY + np.asarray(frequency))
    weights: NDArray[np.float32] = share.astype(np.float32)
    weights[list(special)] = 0
    return weights


def bags_of(ids: Sequence[Sequence[int]], weights: NDArray[Any]) -> Bags:
    """(texts, V): a_j log2(1 + n_j), a_j the weight of word j, n_j its count in the text.

    >>> bags_of([[1, 2, 2, 2]], np.array([1.0, 1.0, 0.5])).toarray().tolist()
    [[0.0, 1.0, 1.0]]
    """
    counts = [Counter(row) for row in ids]
    rows = np.repeat(np.arange(len(ids)), [len(count) for count in counts])
    words = np.array([word for count in counts for word in count], dtype=np.int64)
    times = np.array([n for count in counts for n in count.values()], dtype=np.float64)
    return sparse.csr_array(
        (weights[words] * np.log2(1 + times), (rows, words)), shape=(len(ids), len(weights))
    )


class _Bag(BaseEstimator):
    """X `logits_` (V, C) + `bias_` (C,), of bags X (texts, V) and word vectors `table` (V, D)."""

    def __init__(self, table: NDArray[Any]) -> None:
        self.table = table

    def decision_function(self, bags: Bags) -> NDArray[np.float64]:
        """Logits (texts, C), also for two classes."""
        logits: NDArray[np.float64] = bags @ self.logits_ + self.bias_
        return logits


class BagRegression(ClassifierMixin, _Bag):
    """Logistic regression of bags X (texts, V) on words and on the sum of their vectors, `table` (V, D).

    Features of a row: x / |x|, and x / |x| times the table, scaled to a root mean square length of 1. Vectors
    generalize to words like those seen; the words themselves learn the meaning of frequent ones here. The
    decision is linear, X `logits_` (V, C) + `bias_` (C,): rows have unit length only for the fit, and
    evidence adds up in a prediction.

    Right signs: a word that occurs in rows of only one class never raises the logit of another. With an L2
    penalty and features >= 0 its own weight has the right sign at the optimum, theta_jc = C sum_i (1[y_i = c]
    - p_ic) x_ij / |x_i|, whose terms are all positive for its class and negative for the others. If the part
    of its vector outweighs that, its logit is raised to the highest of the other classes, so that adding the
    word to a text never lowers its class.
    """

    def fit(self, bags: Bags, labels: Sequence[int], sample_weight: Weights = None) -> Self:
        """Fit to `labels` (texts,) of two classes or more."""
        features, length = _features(bags, self.table)
        narrow, widen = in_span(features)
        with ignoring_few_rows():
            head = LogisticRegression(C=STRENGTH, max_iter=2000).fit(narrow, labels, sample_weight)
        weights, bias = both_classes(head)
        logits = _of_words(widen(weights), self.table, length)
        self.classes_, self.bias_ = head.classes_, bias
        self.logits_ = _right_signs(logits, bags, np.searchsorted(head.classes_, labels)) / _mean_length(bags)
        return self

    def predict(self, bags: Bags) -> NDArray[Any]:
        """The class with the highest logit, (texts,)."""
        answers: NDArray[Any] = self.classes_[self.decision_function(bags).argmax(1)]
        return answers


class BagRidge(RegressorMixin, _Bag):
    """`BagRegression` for numbers: ridge regression of the same features."""

    def __init__(self, table: NDArray[Any], alpha: float = 1.0) -> None:
        super().__init__(table)
        self.alpha = alpha

    def fit(self, bags: Bags, labels: Sequence[float], sample_weight: Weights = None) -> Self:
        """Fit to numbers (texts,)."""
        features, length = _features(bags, self.table)
        head = Ridge(self.alpha, solver="lsqr").fit(features, labels, sample_weight)
        self.logits_ = _of_words(head.coef_[None], self.table, length) / _mean_length(bags)
        self.classes_, self.bias_ = np.arange(1), np.array([head.intercept_])
        return self

    def predict(self, bags: Bags) -> NDArray[np.float64]:
        """Numbers (texts,)."""
        return self.decision_function(bags)[:, 0]


class BagOfEach(_Bag):
    """`BagRegression` of each label on its own, where a text has any number of them."""

    def fit(self, bags: Bags, labels: NDArray[Any], sample_weight: Weights = None) -> Self:
        """Fit to `labels` (texts, C), 1 where a text has one."""
        features, length = _features(bags, self.table)
        head = LogisticRegression(C=STRENGTH, max_iter=2000)
        with ignoring_few_rows():
            weights, self.bias_ = of_each(head, features, labels, sample_weight)
        self.classes_ = np.arange(len(self.bias_))
        self.logits_ = _of_words(weights, self.table, length) / _mean_length(bags)
        return self

    def predict(self, bags: Bags) -> NDArray[Any]:
        """1 for each label above 0, (texts, C)."""
        return (self.decision_function(bags) > 0).astype(int)


def _features(bags: Bags, table: NDArray[Any]) -> tuple[Any, float]:
    """Unit bags beside sums of their vectors, (texts, dim + V), and the length that divides the sums."""
    rows = normalize(bags)
    sums = rows @ table
    length = float(np.sqrt(np.square(sums).sum(1).mean()) or 1.0)
    return sparse.hstack([sparse.csr_array(sums / length), rows], format="csr"), length


def _of_words(weights: NDArray[Any], table: NDArray[Any], length: float) -> NDArray[Any]:
    """Weights (C, dim + V) of `_features` as one per word, (V, C)."""
    dim = table.shape[1]
    logits: NDArray[Any] = table @ weights[:, :dim].T / length + weights[:, dim:].T
    return logits


def skill_at_numbers(
    bags: Bags, labels: Sequence[float], table: NDArray[Any], weights: Weights = None
) -> tuple[float, float]:
    """R^2 of `BagRidge` on five held-out folds, in [0, 1), and its alpha in `ALPHAS`, the best on them; 0 for
    fewer than five rows.
    """
    if len(labels) < 5:
        return 0.0, ALPHAS[-1]
    skills = []
    for alpha in ALPHAS:
        answers = _held_out(BagRidge(table, alpha), bags, labels, FOLDS, weights)
        skills.append((max(0.0, float(r2_score(labels, answers, sample_weight=weights))), alpha))
    return max(skills)


def skill_at_sets(bags: Bags, labels: NDArray[Any], table: NDArray[Any], weights: Weights = None) -> float:
    """(F1 - chance) / (1 - chance) of `BagOfEach`, in [0, 1), on five held-out folds; 0 for fewer than five
    rows.

    F1 = 2 right / (true + answered + 1), over all pairs of a text and one of the labels (texts, C); chance is
    that of the labels that most texts have. The 1 is there because a few right rows are no proof.
    """
    if len(labels) < 5:
        return 0.0
    each = np.ones(len(labels)) if weights is None else weights
    answers = _held_out(BagOfEach(table), bags, labels, FOLDS, weights)

    def f1(answered: NDArray[Any]) -> float:
        return float(2 * each @ (labels * answered).sum(1) / (each @ (labels + answered).sum(1) + 1))

    chance = f1(np.tile(log_odds(labels) > 0, (len(labels), 1)))
    return max(0.0, (f1(answers) - chance) / (1 - chance))


def _right_signs(logits: NDArray[Any], bags: Bags, labels: NDArray[Any]) -> NDArray[Any]:
    """The logits (V, C), with the class of a word that occurs in rows of only one class as its highest."""
    present = sparse.csr_array((bags > 0).astype(np.float64))
    rows_of = np.stack(
        [np.asarray(present[labels == label].sum(0)).ravel() for label in range(logits.shape[1])], 1
    )
    alone = np.flatnonzero((rows_of > 0).sum(1) == 1)
    signed = logits.copy()
    signed[alone, rows_of[alone].argmax(1)] = logits[alone].max(1)
    return signed


def _mean_length(bags: Bags) -> float:
    """The mean Euclidean length of the rows that have a known word; 1 if none has."""
    lengths = np.sqrt(np.asarray(bags.power(2).sum(1)).ravel())
    return float(lengths[lengths > 0].mean()) if lengths.any() else 1.0


def skill(bags: Bags, labels: Sequence[int], table: NDArray[Any], weights: Weights = None) -> float:
    """`skill_of` the answers of `BagRegression` on held-out folds; 0 if a class has a single row, which can't
    be left out.

    >>> bags = bags_of([[0], [0], [1], [1]], np.ones(2))
    >>> skill(bags, [0, 0, 1, 1], np.zeros((2, 1)))  # all four are right: accuracy 5 / 6
    0.6666666666666667
    """
    truth = np.unique(np.asarray(labels), return_inverse=True)[1]
    if np.bincount(truth).min() < 2:
        return 0.0
    return skill_of(held_out_logits(BagRegression(table), bags, truth, weights), truth, weights)


def skill_of(logits: NDArray[Any], labels: NDArray[Any], weights: Weights = None) -> float:
    """(accuracy - chance) / (1 - chance) of logits (rows, C) of the labels 0 to C - 1, in [0, 1).

    Chance is the share of the largest of C classes; accuracy is (right + 1) / (rows + C), Laplace's rule of
    succession, because a few right rows are no proof. A row counts as often as its weight.
    """
    each = np.ones(len(labels)) if weights is None else weights
    counts = np.bincount(labels, each)
    right, chance = float(each @ (logits.argmax(1) == labels)), float(counts.max() / counts.sum())
    accuracy = (right + 1) / (float(counts.sum()) + len(counts))
    return max(0.0, (accuracy - chance) / (1 - chance))


def held_out_logits(model: Any, features: Any, labels: NDArray[Any], weights: Weights) -> NDArray[Any]:
    """Each row's logits (C,) by the model that the other of up to five folds fitted; every class, from 0 to
    C - 1, has two rows or more.
    """
    folds = StratifiedKFold(min(5, int(np.bincount(labels).min())), shuffle=True, random_state=0)
    return _held_out(model, features, labels, folds, weights, "decision_function")


def _held_out(
    model: Any,
    features: Any,
    labels: Sequence[Any] | NDArray[Any],
    folds: Any,
    weights: Weights,
    method: str = "predict",
) -> NDArray[Any]:
    """Each row's answer of the model that the other folds fitted."""
    with one_thread(), ignoring_few_rows():  # sums in a fixed order, whatever else runs
        return cross_val_predict(
            model, features, labels, cv=folds, params={"sample_weight": weights}, method=method
        )


def strange(ids: Sequence[Sequence[int]], labels: Sequence[int]) -> float:
    """How strange texts' words are to their class, in [0, 1): the mean over texts of sum(1 / k) / (n + 1).

    k is the number of texts of the class that have the word, n the number of words of the text. Strange words
    are those that can't be learned from these texts.

    >>> strange([[1, 2, 3], [1, 2, 4], [4]], [0, 0, 1])  # (1/2 + 1/2 + 1) / 4, the same, and 1 / 2
    0.5
    """
    labelled = list(zip(ids, labels, strict=True))
    texts = Counter((label, word) for row, label in labelled for word in set(row))
    shares = [sum(1 / texts[label, word] for word in row) / (len(row) + 1) for row, label in labelled]
    return float(np.mean(shares))


def share_of(skill: float, strange: float) -> float:
    """The linear part's share of the logits, in [0, 1): 1 - (1 - w)(1 - u)^2, w = s^2 / (s^2 + (1 - s)^2).

    s is its skill, u how strange the words are.

    The Transformer's share is the part 1 - w that words leave open, times (1 - u)^2, the chance that both
    words of a pair can be learned. Temperature scaling and stacking on held-out rows were no better
    (`src/vnait_lab/runs/mixing.py`) and need a second training.

    >>> [round(share_of(skill, 0), 2) for skill in (0, 0.25, 0.5, 0.75)]
    [0.0, 0.1, 0.5, 0.9]
    >>> [round(share_of(skill, 0.4), 2) for skill in (0, 0.25, 0.5, 0.75)]
    [0.64, 0.68, 0.82, 0.96]
    """
    unknown = (1 - skill) ** 2 / (skill**2 + (1 - skill) ** 2)
    return 1 - unknown * (1 - strange) ** 2


def rms(logits: Tensor) -> float:
    """The root mean square of logits (texts, C) around each row's mean.

    >>> import torch
    >>> rms(torch.tensor([[1.0, 3.0]]))
    1.0
    """
    return float((logits - logits.mean(-1, keepdim=True)).square().mean().sqrt().clamp(min=1e-12))
