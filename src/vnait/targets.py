"""What labels are, a class or a number, and what depends on it: the loss, the answers and their scores."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from vnait.data import Table
from vnait.data.tables import NUMBER, REGRESSION
from vnait.errors import InputError
from vnait.scores import details, errors, scores, squares_by_length

logger = logging.getLogger("vnait")


@dataclass(frozen=True)
class Classes:
    """Labels are classes; a model has a logit for each."""

    names: list[str]

    @property
    def facts(self) -> dict[str, Any]:
        """For a record."""
        return {"classes": self.names}

    def truth(self, labels: Sequence[str]) -> list[Any]:
        """The number of each row's class; -1 for a label that training never saw."""
        number = {name: index for index, name in enumerate(self.names)}
        return [number.get(label, -1) for label in labels]

    def check(self, test: Table, name: str) -> None:
        """Raise InputError if no label of the test rows is known; log those that aren't."""
        found = Counter(test.labels)
        unseen = sorted(found.keys() - set(self.names))
        if len(unseen) == len(found):
            raise InputError(f"{test.name} and {name} share no label: check the label column of both.")
        if unseen:
            logger.warning(
                "%s: %d of %d rows have a label that training never saw (%s%s); they count as wrong.",
                test.name,
                sum(found[label] for label in unseen),
                len(test),
                ", ".join(map(repr, unseen[:3])),
                " ..." * (len(unseen) > 3),
            )

    def tensor(self, truth: Sequence[Any]) -> Tensor:
        """What the loss compares logits with."""
        return torch.tensor(truth)

    def loss(self, logits: Tensor, truth: Tensor, reduction: str = "mean") -> Tensor:
        """Cross-entropy."""
        return functional.cross_entropy(logits, truth, reduction=reduction)

    def answers(self, logits: Any) -> list[Any]:
        """The most probable class of each row of logits, by number."""
        found: list[Any] = logits.argmax(-1).tolist()
        return found

    def scores(self, truth: Sequence[Any], answers: Sequence[Any]) -> dict[str, float]:
        """accuracy, macro_f1, mcc."""
        return scores(truth, answers)

    def details(self, truth: Sequence[Any], answers: Sequence[Any], lengths: Sequence[int]) -> dict[str, Any]:
        """Right answers by length, and the confusion matrix."""
        return details(truth, answers, lengths, len(self.names))

    def finish(self, model: PreTrainedModel) -> None:
        """Nothing: logits have no unit."""


@dataclass(frozen=True)
class Numbers:
    """Labels are numbers. A model learns (label - mean) / scale; `finish` undoes that in its head, so that a
    saved model answers in the labels' own unit.
    """

    mean: float
    scale: float
    names: tuple[str, ...] = (NUMBER,)

    @property
    def facts(self) -> dict[str, Any]:
        """For a record."""
        return {"task": REGRESSION}

    def truth(self, labels: Sequence[str]) -> list[Any]:
        """The numbers."""
        return list(map(float, labels))

    def check(self, test: Table, name: str) -> None:
        """Nothing: any number may be tested."""

    def tensor(self, truth: Sequence[Any]) -> Tensor:
        """Standardized numbers, as the model learns them."""
        return (torch.tensor(truth) - self.mean) / self.scale

    def loss(self, logits: Tensor, truth: Tensor, reduction: str = "mean") -> Tensor:
        """Squared error of standardized numbers."""
        return functional.mse_loss(logits[:, 0], truth, reduction=reduction)

    def answers(self, logits: Any) -> list[Any]:
        """The number of each row."""
        found: list[Any] = logits[:, 0].tolist()
        return found

    def scores(self, truth: Sequence[Any], answers: Sequence[Any]) -> dict[str, float]:
        """rmse, mae, pearson, spearman."""
        return errors(truth, answers)

    def details(self, truth: Sequence[Any], answers: Sequence[Any], lengths: Sequence[int]) -> dict[str, Any]:
        """Squared errors by length."""
        return squares_by_length(truth, answers, lengths)

    @torch.no_grad()
    def finish(self, model: PreTrainedModel) -> None:
        """From standardized numbers to the labels' unit, in the head and in the bag of words."""
        head = _head(model)
        head.weight.mul_(self.scale)
        head.bias.mul_(self.scale).add_(self.mean)
        if hasattr(model, "bag"):
            model.bag.logits.mul_(self.scale)
            model.bag.bias.mul_(self.scale)


Target = Classes | Numbers


def _head(model: PreTrainedModel) -> nn.Linear:
    """The last layer of the head, which gives the number."""
    outside = (part for name, part in model.named_children() if name != model.base_model_prefix)
    heads = [one for part in outside for one in part.modules() if isinstance(one, nn.Linear)]
    if not heads or heads[-1].out_features != 1 or heads[-1].bias is None:
        raise InputError(
            f"{type(model).__name__} has no linear head with a bias, which regression needs; take "
            "another base."
        )
    return heads[-1]


def target_of(table: Table, rows: Sequence[int] | None = None) -> Target:
    """What a table's labels are; numbers are standardized by these rows (None: all)."""
    if table.labels is None:
        raise InputError(f"{table.name} was read without labels; training needs them.")
    if table.task != REGRESSION:
        classes = sorted(set(table.labels))
        if len(classes) < 2:
            raise InputError(
                f"{table.name} has one class only ({classes[0]}); a classifier needs two or more."
            )
        return Classes(classes)
    every = np.array(table.labels, dtype=float)
    numbers = every if rows is None else every[list(rows)]
    scale = float(numbers.std() or every.std())  # a few rows may be equal
    if not scale:
        raise InputError(f"{table.name}: every label is {every[0]:g}; regression needs different numbers.")
    return Numbers(float(numbers.mean()), scale)
