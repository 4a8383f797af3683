"""A label is a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from vnait.data import Table
from vnait.data.tasks import NUMBER, REGRESSION
from vnait.results.scores import regression_scores, squares_by_length
from vnait.shared.errors import InputError
from vnait.train.bag_of_words import Weights
from vnait.train.tasks.shared import OfTexts

MAX_OFFSET, MAX_SPREAD = 1e5, 1e30  # of numbers in float32: the mean over the spread, and the spread


@dataclass(frozen=True)
class Numbers(OfTexts):
    """Labels are numbers. A model learns (label - mean) / scale; `finish` undoes that in its head, so that a
    saved model answers in the labels' own unit.
    """

    mean: float
    scale: float
    names: tuple[str, ...] = (NUMBER,)
    task: ClassVar[str] = REGRESSION

    @classmethod
    def of(cls, table: Table, rows: Sequence[int] | None, weights: Weights = None) -> Numbers:
        """The numbers of a table, standardized by these rows (None: all) with these weights (None: equal
        ones). InputError if they are equal, or a float32 can't hold them.
        """
        every = np.array(table.labels, dtype=float)
        weight = np.ones(len(table)) if weights is None else weights
        drawn = np.arange(len(table)) if rows is None else np.array(rows)
        if not weight[drawn].any():  # of a few rows
            weight = np.ones(len(table))
        with np.errstate(over="ignore", invalid="ignore"):
            mean, scale = _moments(every[drawn], weight[drawn])
            scale = scale or float(every.std())  # a few rows may be equal
        if not scale:
            raise InputError(
                f"{table.name}: every label is {every[0]:g}; regression needs different numbers."
            )
        if not abs(mean) < MAX_OFFSET * scale or not scale < MAX_SPREAD:
            by = f"some {scale:.2g}" if scale < np.inf else "too much"
            raise InputError(
                f"{table.name}: the labels are near {mean:.4g} and differ by {by}, which numbers of 32 bits "
                "can't hold; subtract a constant from them, or take a larger unit."
            )
        return cls(mean, scale)

    @property
    def facts(self) -> dict[str, Any]:
        """For a record."""
        return {"task": self.task}

    def truth(self, labels: Sequence[str]) -> list[Any]:
        """The numbers."""
        return list(map(float, labels))

    def check(self, test: Table, name: str) -> None:
        """Nothing: any number may be tested."""

    def tensor(self, truth: Sequence[Any]) -> Tensor:
        """Standardized numbers, as the model learns them."""
        return ((torch.tensor(truth, dtype=torch.float64) - self.mean) / self.scale).float()

    def start(self, model: PreTrainedModel, truth: Sequence[Any], weights: Weights) -> None:
        """Raise InputError unless `finish` can change the head."""
        _head(model)

    def loss(self, logits: Tensor, truth: Tensor, reduction: str = "mean") -> Tensor:
        """Squared error of standardized numbers."""
        return functional.mse_loss(logits[:, 0], truth, reduction=reduction)

    def answers(self, logits: Any) -> list[Any]:
        """The number of each row."""
        numbers: list[Any] = logits[:, 0].tolist()
        return numbers

    def scores(self, truth: Sequence[Any], answers: Sequence[Any]) -> dict[str, float]:
        """rmse, mae, pearson, spearman."""
        return regression_scores(truth, answers)

    def details(self, truth: Sequence[Any], answers: Sequence[Any], lengths: Sequence[int]) -> dict[str, Any]:
        """Squared errors by length."""
        return squares_by_length(truth, answers, lengths)

    @torch.no_grad()
    def resume(self, model: PreTrainedModel) -> None:
        """From the labels' unit to standardized numbers, in the head and in the linear part."""
        head = _head(model)
        head.weight.div_(self.scale)
        head.bias.sub_(self.mean).div_(self.scale)
        if hasattr(model, "bag"):
            model.bag.logits.div_(self.scale)
            model.bag.bias.div_(self.scale)

    @torch.no_grad()
    def finish(self, model: PreTrainedModel) -> None:
        """From standardized numbers to the labels' unit, in the head and in the linear part."""
        head = _head(model)
        head.weight.mul_(self.scale)
        head.bias.mul_(self.scale).add_(self.mean)
        if hasattr(model, "bag"):
            model.bag.logits.mul_(self.scale)
            model.bag.bias.mul_(self.scale)


def _moments(numbers: NDArray[np.float64], weights: NDArray[np.float64]) -> tuple[float, float]:
    """Weighted mean and standard deviation."""
    mean = np.average(numbers, weights=weights)
    return float(mean), float(np.average((numbers - mean) ** 2, weights=weights) ** 0.5)


def _head(model: PreTrainedModel) -> nn.Linear:
    """The last layer of the head, which gives the number."""
    outside = (part for name, part in model.named_children() if name != model.base_model_prefix)
    heads = [layer for part in outside for layer in part.modules() if isinstance(layer, nn.Linear)]
    if not heads or heads[-1].out_features != 1 or heads[-1].bias is None:
        raise InputError(
            f"{type(model).__name__} has no linear head with a bias, which regression needs; take "
            "another base."
        )
    return heads[-1]
