"""Base classes of the targets."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from torch import Tensor
from transformers import PreTrainedModel

from vnait.data.ids import Ids
from vnait.data.labels import DIFFERENCES, ordered, variants
from vnait.data.sentences import Piece
from vnait.data.tasks import CLASSIFICATION
from vnait.shared.errors import InputError
from vnait.train.bag_of_words import Weights
from vnait.train.logits import logits_of

logger = logging.getLogger("vnait")


class TextEncoder(Protocol):
    """A vocabulary, or the tokenizer of a base."""

    def encode(self, texts: Sequence[str], *, max_length: int) -> list[list[int]]:
        """The ids of each text."""

    def pieces(self, texts: Sequence[str], *, max_length: int) -> list[list[Piece]]:
        """The ids of each sentence, in pieces."""


class Common:
    """Defaults: labels with names, and nothing before or after training."""

    task: ClassVar[str]
    names: Sequence[str]

    @property
    def facts(self) -> dict[str, Any]:
        return {"task": self.task, "classes": self.names}

    def start(self, model: PreTrainedModel, truth: Sequence[Any], weights: Weights) -> None:
        """Before the first step, from the labels of the training rows: nothing."""

    def resume(self, model: PreTrainedModel) -> None:
        """Before the first step of a further training, the inverse of `finish`: nothing."""

    def finish(self, model: PreTrainedModel) -> None:
        """After the last step: nothing, since logits have no unit."""


class OfTexts(Common):
    """A label for each text."""

    task: ClassVar[str] = CLASSIFICATION

    def encode(self, encoder: TextEncoder, texts: Sequence[str], max_length: int) -> Any:
        """What a model reads of each text: its ids."""
        return Ids.of(encoder.encode(texts, max_length=max_length))

    def ids(self, encoded: Any) -> Any:
        """The ids of each row of what `encode` gave, for training."""
        return encoded

    def batch(self, encoded: Sequence[Any], truth: Sequence[Any]) -> Tensor:
        return self.tensor(truth)

    def tensor(self, truth: Sequence[Any]) -> Tensor:
        """What the loss compares logits with."""
        raise NotImplementedError

    def logits(self, model: PreTrainedModel, encoded: Sequence[Any]) -> Any:
        """A model's logits for what `encode` gave."""
        return logits_of(model, encoded)


def check_known(labels: Sequence[str], names: Sequence[str], what: str, test: str, name: str) -> None:
    """Raise InputError if no label of the test rows is known; log those that aren't."""
    if not labels:
        raise InputError(f"no row of {test} has a label, so no F1 is defined; add rows that have one.")
    counts = Counter(labels)
    unseen = ordered(counts.keys() - set(names))
    if len(unseen) == len(counts):
        raise InputError(f"{no_common_label(labels, names, test, name)}.")
    if unseen:
        logger.warning(
            "%s: %d of %d %s that training never saw (%s%s); they count as wrong%s.",
            test,
            sum(counts[label] for label in unseen),
            len(labels),
            what,
            ", ".join(map(repr, unseen[:3])),
            " ..." * (len(unseen) > 3),
            _written_otherwise(unseen, names),
        )


def no_common_label(labels: Sequence[str], names: Sequence[str], test: str, name: str) -> str:
    """What to say of test rows none of whose labels is known."""
    return (
        f"{test} and {name} share no label, such as {min(labels)!r} and {names[0]!r}: check the label column "
        f"of both{_written_otherwise(labels, names)}"
    )


def _written_otherwise(labels: Sequence[str], names: Sequence[str]) -> str:
    groups = variants([*labels, *names])
    near = sorted(label for group in groups if not group.keys().isdisjoint(names) for label in group)
    if not (near := [label for label in near if label not in names]):
        return ""
    return f"; {near[0]!r} differs from a known one only in {DIFFERENCES}"
