"""Labelled texts as ids, some of them held out, and the scores of a model on such texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from vnait.data import NO_LIMIT, Table, collate
from vnait.data.vocabulary import Vocabulary
from vnait.model import VnaitForSequenceClassification
from vnait.results.scores import timed
from vnait.shared.errors import InputError
from vnait.train.base import Base
from vnait.train.logits import linear_logits_of
from vnait.train.run import Run
from vnait.train.tasks import Classes, LabelSets, Target, target_of


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """The labelled texts as ids, split into training and validation rows."""

    vocabulary: Vocabulary | Base
    target: Target
    encoded: Any
    labels: list[Any]
    weights: NDArray[np.float64] | None
    train: list[int]
    valid: list[int]
    max_length: int

    @classmethod
    def of(
        cls, run: Run, table: Table, vocabulary: Vocabulary | Base, weights: Sequence[float] | None
    ) -> Labelled:
        """A table's texts and labels, some rows held out: `Run.held_out`."""
        target_of(table)  # checks the labels before they are split
        rows = (list(range(len(table))), list[int]())
        if run.validation:
            try:
                rows = table.split(holdout=run.held_out(len(table)), seed=run.seed)
            except InputError as error:
                raise InputError(f"{error} In Python, validation=0 holds out no rows.") from error
        row_weights = None if weights is None else np.asarray(weights, dtype=float) / np.mean(weights)
        target = target_of(table, rows[0], row_weights)
        return cls(
            vocabulary=vocabulary,
            target=target,
            encoded=target.encode(vocabulary, table.texts, run.max_length),
            labels=target.truth(table.labels or []),
            weights=row_weights,
            train=rows[0],
            valid=rows[1],
            max_length=run.max_length,
        )

    @cached_property
    def ids(self) -> Any:
        """The ids of each row, for training."""
        return self.target.ids(self.encoded)

    @cached_property
    def lengths(self) -> list[int]:
        """The number of ids of each row."""
        return list(map(len, self.ids))

    def whole(self) -> Labelled:
        """The same task with no row held out."""
        return replace(self, train=sorted([*self.train, *self.valid]), valid=[])

    def batch(self, rows: Sequence[int], separator: int | None) -> dict[str, Tensor]:
        ids = [self.ids[row] for row in rows]
        batch = collate(ids, pad_id=self.vocabulary.tokenizer.pad_token_id, separator=separator)
        encoded, labels = ([part[row] for row in rows] for part in (self.encoded, self.labels))
        return {**batch, "labels": self.target.batch(encoded, labels)}

    def loss(self, logits: Any, rows: Sequence[int], less: float = 0.0) -> Tensor:
        """The mean over rows of (weight - less) times the loss; without weights, each is 1."""
        truth = self.target.tensor([self.labels[row] for row in rows])
        if self.weights is None:
            return (1 - less) * self.target.loss(logits, truth)
        truth = truth.to(logits.device)
        each = self.target.loss(logits, truth, reduction="none")
        return ((torch.from_numpy(self.weights[list(rows)]).to(each) - less) * each).mean()

    def metrics(self, model: PreTrainedModel, test: Table) -> dict[str, Any]:
        """The scores on test rows, with `details`. A label that training never saw counts as wrong.

        ms_per_text      milliseconds per text, from text to logits
        accuracy_alone   accuracy of the Transformer's own logits, if a linear part is mixed in; of sets of
                         labels micro_f1_alone
        """
        target = self.target
        truth = target.truth(test.labels or [])
        logits, per_text = timed(
            lambda: target.logits(model, target.encode(self.vocabulary, test.texts, self.max_length)), test
        )
        answer = target.answers(logits)
        whole = self.vocabulary.encode(test.texts, max_length=NO_LIMIT)
        metrics = {**target.scores(truth, answer), **target.details(truth, answer, list(map(len, whole)))}
        mixed = isinstance(model, VnaitForSequenceClassification) and model.bag.is_fitted
        if mixed and isinstance(target, Classes | LabelSets):
            ids = self.vocabulary.encode(test.texts, max_length=self.max_length)
            alone = logits - linear_logits_of(model, ids)
            name, score = next(iter(target.scores(truth, target.answers(alone)).items()))
            metrics[f"{name}_alone"] = score
        return {**metrics, "ms_per_text": per_text}

    def validation_metrics(self, model: PreTrainedModel) -> dict[str, float]:
        """The scores on the rows held out, as `validation_accuracy`; empty without such rows."""
        if not self.valid:
            return {}
        answer = self.target.answers(self.target.logits(model, [self.encoded[row] for row in self.valid]))
        scores = self.target.scores([self.labels[row] for row in self.valid], answer)
        return {f"validation_{name}": value for name, value in scores.items()}
