"""A text has any number of labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from vnait.data import Table
from vnait.data.labels import cell_of, labels_in, ordered
from vnait.data.tasks import MULTILABEL
from vnait.model import VnaitForSequenceClassification
from vnait.results.scores import by_label, by_length, set_scores
from vnait.shared.errors import InputError
from vnait.train.bag_of_words import Weights, log_odds
from vnait.train.tasks.shared import OfTexts, check_known


@dataclass(frozen=True)
class LabelSets(OfTexts):
    """A text has any number of labels; a model has a logit for each, and answers those above 0, with P > 1/2.

    Truth and answers are lists of labels per text.
    """

    names: list[str]
    task: ClassVar[str] = MULTILABEL

    @classmethod
    def of(cls, table: Table) -> LabelSets:
        """The labels of a table. InputError if there is only one, or all texts have the same."""
        names = ordered(table.single_labels)
        if len(names) < 2:
            raise InputError(
                f"{table.name} has {f'one label only ({names[0]})' if names else 'no label'}; multilabel "
                "needs two or more. For one, write yes or no in each row, and leave --task (task=) out."
            )
        if len(set(map(cell_of, map(labels_in, table.labels or [])))) < 2:
            raise InputError(
                f"{table.name}: every row has the labels {cell_of(names)}; multilabel needs different ones."
            )
        return cls(names)

    def truth(self, labels: Sequence[str]) -> list[Any]:
        return list(map(labels_in, labels))

    def check(self, test: Table, name: str) -> None:
        """Raise InputError if no label of the test rows is known; log those that aren't."""
        check_known(test.single_labels, self.names, "labels are ones", test.name, name)

    def tensor(self, truth: Sequence[Any]) -> Tensor:
        """1 for each label that a text has, else 0, (texts, labels)."""
        return torch.tensor([[float(name in row) for name in self.names] for row in truth])

    @torch.no_grad()
    def start(self, model: PreTrainedModel, truth: Sequence[Any], weights: Weights) -> None:
        """Set the head's bias to the `log_odds` of each label (arXiv 1708.02002, section 4.1): most labels
        are rare, and from 1/2 on a few hundred steps teach the model little else. Not in a base, whose
        states may differ too little at first: there it was slower.
        """
        if isinstance(model, VnaitForSequenceClassification):
            start = log_odds(self.tensor(truth).numpy(), weights)
            model.classifier.bias.copy_(torch.from_numpy(start))

    def loss(self, logits: Tensor, truth: Tensor, reduction: str = "mean") -> Tensor:
        """Binary cross-entropy, the mean over the labels."""
        each = functional.binary_cross_entropy_with_logits(logits, truth, reduction="none").mean(1)
        return each.mean() if reduction == "mean" else each

    def answers(self, logits: Any) -> list[Any]:
        """The labels of each row of logits."""
        return [
            [name for name, logit in zip(self.names, row, strict=True) if logit > 0]
            for row in logits.tolist()
        ]

    def scores(self, truth: Sequence[Any], answers: Sequence[Any]) -> dict[str, float]:
        """micro_f1, macro_f1, exact_match."""
        return set_scores(self.names, truth, answers)

    def details(self, truth: Sequence[Any], answers: Sequence[Any], lengths: Sequence[int]) -> dict[str, Any]:
        """Exact answers by length, and the texts of each label."""
        return {**by_length(truth, answers, lengths), **by_label(self.names, truth, answers)}
