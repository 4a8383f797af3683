"""The linear part beside a Transformer: which of two, its share of the logits, and the sum of both."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binomtest

from vnait.data.rows import generator
from vnait.data.tasks import CLASSIFICATION, MULTILABEL, PROBLEMS
from vnait.model import VnaitForSequenceClassification
from vnait.model.bag_of_words import BagOfWords
from vnait.model.one_hot import OneHotWords
from vnait.results.advice import NONE
from vnait.shared.processes import one_thread
from vnait.train.bag_of_words import (
    BagOfEach,
    BagRegression,
    BagRidge,
    Bags,
    Weights,
    bags_of,
    held_out_logits,
    rms,
    share_of,
    skill,
    skill_at_numbers,
    skill_at_sets,
    skill_of,
    strange,
)
from vnait.train.logits import logits_of
from vnait.train.one_hot import OneHotRegression, matrix_of
from vnait.train.run import Run

MEASURED_ON = 10_000  # random rows on which the skill and the size of the logits are measured
CHOSEN_ON = 1_000  # random rows on which one of the two parts is chosen
CHANCE = 0.05  # of an error: the bag of words stays unless one-hot words are better by a test at this level
# Part of the keys of runs that choose: a change runs them again.
CHOICE = "one-hot words where they are better on held-out rows, sign test at 5 %"


def chooses(run: Run) -> bool:
    """Whether training rows may choose one-hot words; not beside the method without positions, which would
    then see the order.
    """
    return run.one_hot and run.bag is None and run.base is None and run.method != NONE


def choice_of(run: Run, task: str) -> list[str]:
    """How the linear part is chosen, for a key; empty if it is a bag of words, or there is none."""
    return [CHOICE] if chooses(run) and task == CLASSIFICATION else []


@torch.no_grad()
def mix(
    model: VnaitForSequenceClassification,
    ids: Sequence[Sequence[int]],
    labels: Sequence[Any],
    weights: NDArray[Any],
    share: float | None,
    rows: Weights = None,
    one_hot: bool = False,
) -> float:
    """Mix a regression of the training rows, with weights of the `rows`, into the model; return its share.

    It is of the rows' bags, with `weights` (V,) of the words; with `one_hot` the rows may choose words at
    their places (`OneHot`).

    The Transformer's logits are first scaled down to the regression's RMS: it memorizes its few rows, and its
    logits grow with every step. Both are then scaled up together, the more the smaller the regression's
    share, since uninformative words have logits near zero; that changes no answer.
    """
    if rows is not None:  # rows of weight zero would leave some folds empty
        counted = np.flatnonzero(rows).tolist()
        ids, labels, rows = [ids[row] for row in counted], [labels[row] for row in counted], rows[counted]
    table, bags = model.get_input_embeddings().weight.detach().numpy(), bags_of(ids, weights)
    numbers, sets = model.config.num_labels == 1, model.config.problem_type == PROBLEMS[MULTILABEL]
    truth: Any = np.asarray(labels, dtype=float if numbers else int)
    if one_hot and not (numbers or sets):
        better = OneHot.better_than(BagRegression(table), bags, ids, truth, rows, model.config.unk_token_id)
        if better is not None:
            return better.into(model, ids, truth, rows)
    drawn = _drawn(len(ids), MEASURED_ON)
    sample = (bags[drawn], truth[drawn], table, None if rows is None else rows[drawn])
    known, regression = 0.0, (BagOfEach if sets else BagRegression)(table)
    if numbers:  # with a given share, too: the folds choose alpha
        known, alpha = skill_at_numbers(*sample)
        regression = BagRidge(table, alpha)
    elif share is None:
        known = (skill_at_sets if sets else skill)(*sample)
    if share is None:
        # Numbers and sets have no classes: a word is strange to all texts.
        share = share_of(known, strange(ids, [0] * len(ids) if numbers or sets else truth))
    if not share:
        return 0.0
    with one_thread():
        regression.fit(bags, truth, rows)
    # Numbers have a unit: both parts are averaged as they are.
    size = 0.0 if numbers else rms(torch.from_numpy(regression.decision_function(bags[drawn])))
    ratio = 1.0 if numbers else _ratio(model, [ids[row] for row in drawn], size)
    assert isinstance(model.bag, BagOfWords)
    model.bag.weights.copy_(torch.from_numpy(weights))
    _write(model, regression, share, ratio)
    return share


@dataclass(frozen=True)
class OneHot:
    """One-hot words as the linear part: their skill on held-out rows, and the RMS of their logits there.

    On the rows that it learned from, that RMS is two to three times as large: each text has terms of its own.
    """

    skill: float
    size: float

    @classmethod
    def better_than(
        cls,
        bag: BagRegression,
        bags: Bags,
        ids: Sequence[Sequence[int]],
        labels: NDArray[np.int64],
        weights: Weights,
        unknown: int | None,
    ) -> Self | None:
        """None if a class has a single row, or unless they are right on held-out rows on which the bag of
        words is wrong clearly more often than the reverse.
        """
        drawn = _drawn(len(ids), CHOSEN_ON)
        truth = np.unique(labels[drawn], return_inverse=True)[1]
        if np.bincount(truth).min() < 2:
            return None
        rows = None if weights is None else weights[drawn]
        answers = held_out_logits(
            OneHotRegression(), matrix_of([ids[row] for row in drawn], unknown)[0], truth, rows
        )
        right, beaten = (
            logits.argmax(1) == truth for logits in (answers, held_out_logits(bag, bags[drawn], truth, rows))
        )
        alone, both = int((right & ~beaten).sum()), int((right != beaten).sum())
        if not both or binomtest(alone, both, alternative="greater").pvalue > CHANCE:
            return None
        return cls(skill_of(answers, truth, rows), rms(torch.from_numpy(answers)))

    def into(
        self,
        model: VnaitForSequenceClassification,
        ids: Sequence[Sequence[int]],
        labels: NDArray[np.int64],
        weights: Weights,
    ) -> float:
        """Mix them into the model, and return their share."""
        share = share_of(self.skill, strange(ids, labels.tolist()))
        matrix, terms = matrix_of(ids, model.config.unk_token_id)
        with one_thread():
            regression = OneHotRegression().fit(matrix, labels.tolist(), weights)
        ratio = _ratio(model, [ids[row] for row in _drawn(len(ids), MEASURED_ON)], self.size)
        part = OneHotWords(len(terms), model.config.num_labels, model.config.unk_token_id)
        part.terms.copy_(torch.from_numpy(terms))
        model.take(part)
        _write(model, regression, share, ratio)
        return share


def _drawn(count: int, most: int) -> NDArray[np.int64]:
    """All rows, or `most` random ones of more."""
    rows = np.arange(count)
    return rows if count <= most else np.sort(generator(seed=0).permutation(count)[:most])


def _ratio(model: VnaitForSequenceClassification, ids: Sequence[Sequence[int]], size: float) -> float:
    """The RMS of the Transformer's logits over that of the regression's, in [1, 100]."""
    return min(max(rms(logits_of(model, ids)) / size, 1.0), 100.0)


def _write(model: VnaitForSequenceClassification, regression: Any, share: float, ratio: float) -> None:
    """Scale the Transformer's head by (1 - share) scale / ratio, and write share scale times the regression
    into the model's linear part, scale = ratio ** ((1 - share) ** 2).
    """
    scale = ratio ** ((1 - share) ** 2)
    for parameter in (model.classifier.weight, model.classifier.bias):
        parameter.mul_((1 - share) * scale / ratio)
    bag, classes = model.bag, regression.classes_
    # A class whose rows all weigh nothing has no words, and the lowest bias.
    bag.bias.fill_(share * scale * float(regression.bias_.min()))
    bag.logits[:, classes] = share * scale * torch.from_numpy(regression.logits_).to(bag.logits)
    bag.bias[classes] = share * scale * torch.from_numpy(regression.bias_).to(bag.bias)
