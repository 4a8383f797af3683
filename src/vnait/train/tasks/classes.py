"""A label is a class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from vnait.data import Table
from vnait.data.labels import ordered
from vnait.results.scores import details, right_rows, scores
from vnait.shared.errors import InputError
from vnait.train.tasks.shared import OfTexts, check_known


@dataclass(frozen=True)
class Classes(OfTexts):
    """Labels are classes; a model has a logit for each."""

    names: list[str]

    @classmethod
    def of(cls, table: Table) -> Classes:
        """The classes of a table. InputError if there is only one."""
        classes = ordered(table.labels or [])
        if len(classes) < 2:
            raise InputError(
                f"{table.name} has one class only ({classes[0]}); a classifier needs two or more."
            )
        return cls(classes)

    @property
    def facts(self) -> dict[str, Any]:
        return {"classes": self.names}

    def truth(self, labels: Sequence[str]) -> list[Any]:
        """The number of each row's class; -1, -2 and so on for labels that training never saw."""
        number = {name: index for index, name in enumerate(self.names)}
        new = sorted(set(labels) - set(number))
        number.update((name, -at) for at, name in enumerate(new, 1))
        return [number[label] for label in labels]

    def check(self, test: Table, name: str) -> None:
        """Raise InputError if no label of the test rows is known; log those that aren't."""
        check_known(test.labels or [], self.names, "rows have a label", test.name, name)

    def tensor(self, truth: Sequence[Any]) -> Tensor:
        """What the loss compares logits with."""
        return torch.tensor(truth)

    def loss(self, logits: Tensor, truth: Tensor, reduction: str = "mean") -> Tensor:
        return functional.cross_entropy(logits, truth, reduction=reduction)

    def answers(self, logits: Any) -> list[Any]:
        """The most probable class of each row of logits, by number."""
        numbers: list[Any] = logits.argmax(-1).tolist()
        return numbers

    def scores(self, truth: Sequence[Any], answers: Sequence[Any]) -> dict[str, float]:
        """accuracy, macro_f1, mcc."""
        return scores(truth, answers)

    def details(self, truth: Sequence[Any], answers: Sequence[Any], lengths: Sequence[int]) -> dict[str, Any]:
        """Right answers by length and by row, and the confusion matrix."""
        return {**details(truth, answers, lengths, len(self.names)), **right_rows(truth, answers)}
