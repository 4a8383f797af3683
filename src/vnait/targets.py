"""What labels are, a class, a number, a tag per word or a set, and what depends on it: what a model reads,
the loss, the answers and their scores.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from vnait.bag_of_words import Weights, prior
from vnait.data import Table
from vnait.data.ids import Ids
from vnait.data.labels import cell_of, labels_in
from vnait.data.sentences import Piece, words_of
from vnait.data.tables import CLASSIFICATION, MULTILABEL, NUMBER, REGRESSION, TAGGING
from vnait.errors import InputError, extra
from vnait.model import VnaitForSequenceClassification
from vnait.predict import logits_of, word_logits_of
from vnait.scores import (
    are_spans,
    by_label,
    by_length,
    details,
    errors,
    scores,
    set_scores,
    squares_by_length,
    tag_scores,
)

logger = logging.getLogger("vnait")

FURTHEST, LARGEST = 1e5, 1e30  # of a number: the mean over the spread, and the spread, which fit into float32
IGNORED = -100  # the label of a token that is no word's first, as in transformers


class Encoder(Protocol):
    """A vocabulary, or the tokenizer of a base."""

    def encode(self, texts: Sequence[str], *, max_length: int) -> list[list[int]]:
        """The ids of each text."""

    def pieces(self, texts: Sequence[str], *, max_length: int) -> list[list[Piece]]:
        """The ids of each sentence, in pieces."""


class _Any:
    """What most labels have in common."""

    def start(self, model: PreTrainedModel, truth: Sequence[Any], weights: Weights) -> None:
        """Before the first step, from the labels of the training rows: nothing."""

    def finish(self, model: PreTrainedModel) -> None:
        """After the last step: nothing, since logits have no unit."""


class _OfTexts(_Any):
    """A label for each text."""

    task: ClassVar[str] = CLASSIFICATION

    def encode(self, encoder: Encoder, texts: Sequence[str], max_length: int) -> Any:
        """What a model reads of each text: its ids."""
        return Ids.of(encoder.encode(texts, max_length=max_length))

    def ids(self, encoded: Any) -> Any:
        """The ids of each row of what `encode` gave, for training."""
        return encoded

    def batch(self, encoded: Sequence[Any], truth: Sequence[Any]) -> Tensor:
        """The labels of a batch, for a model's own loss."""
        return self.tensor(truth)

    def tensor(self, truth: Sequence[Any]) -> Tensor:
        """What the loss compares logits with."""
        raise NotImplementedError

    def logits(self, model: PreTrainedModel, encoded: Sequence[Any]) -> Any:
        """A model's logits for what `encode` gave."""
        return logits_of(model, encoded)


@dataclass(frozen=True)
class Classes(_OfTexts):
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
        _check_known(test.labels or [], self.names, "rows have a label", test.name, name)

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


@dataclass(frozen=True)
class Numbers(_OfTexts):
    """Labels are numbers. A model learns (label - mean) / scale; `finish` undoes that in its head, so that a
    saved model answers in the labels' own unit.
    """

    mean: float
    scale: float
    names: tuple[str, ...] = (NUMBER,)
    task: ClassVar[str] = REGRESSION

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


@dataclass(frozen=True)
class Tags(_Any):
    """Each word has a tag; a model has logits for each token, of which those at a word's first one count.

    Truth and answers are lists of tags per sentence.
    """

    names: list[str]
    task: ClassVar[str] = TAGGING

    @property
    def facts(self) -> dict[str, Any]:
        """For a record."""
        return {"task": self.task, "classes": self.names}

    def truth(self, labels: Sequence[str]) -> list[Any]:
        """The tags of each sentence."""
        return list(map(words_of, labels))

    def check(self, test: Table, name: str) -> None:
        """Raise InputError if no tag of the test sentences is known; log those that aren't."""
        check_tags(test)
        _check_known(test.single_labels, self.names, "words have a tag", test.name, name)

    def encode(self, encoder: Encoder, texts: Sequence[str], max_length: int) -> Any:
        """What a model reads of each sentence: its `Piece`s."""
        return encoder.pieces(texts, max_length=max_length)

    def ids(self, encoded: Any) -> Any:
        """Of a sentence that is too long, training reads the first piece; the log has how many are."""
        if long := sum(len(sentence) > 1 for sentence in encoded):
            logger.warning(
                "%d of %d sentences are longer than max_length; training reads their first part alone. "
                "Increase max_length, or split them.",
                *(long, len(encoded)),
            )
        return [sentence[0].ids for sentence in encoded]

    def batch(self, encoded: Sequence[Any], truth: Sequence[Any]) -> Tensor:
        """The number of each word's tag at its first token, -100 at all others, (B, T)."""
        first = [pieces[0] for pieces in encoded]
        found = torch.full((len(first), max(len(piece.ids) for piece in first)), IGNORED)
        for row, piece, tags in zip(found, first, truth, strict=True):
            row[piece.starts] = self.tensor([tags[: len(piece.starts)]])
        return found

    def tensor(self, truth: Sequence[Any]) -> Tensor:
        """The number of each tag, of all sentences together."""
        number = {name: index for index, name in enumerate(self.names)}
        return torch.tensor([number[tag] for tag in chain.from_iterable(truth)])

    def logits(self, model: PreTrainedModel, encoded: Sequence[Any]) -> Any:
        """Logits (words, tags) of each sentence."""
        return word_logits_of(model, encoded)

    def loss(self, logits: Any, truth: Tensor, reduction: str = "mean") -> Tensor:
        """Cross-entropy over the words."""
        return functional.cross_entropy(torch.cat(logits), truth, reduction=reduction)

    def answers(self, logits: Any) -> list[Any]:
        """The most probable tag of each word."""
        return [[self.names[index] for index in row.argmax(-1).tolist()] for row in logits]

    def scores(self, truth: Sequence[Any], answers: Sequence[Any]) -> dict[str, float]:
        """token_accuracy with its interval over sentences, macro_f1; those of entities if tags are spans."""
        return tag_scores(truth, answers, spans=are_spans(self.names))

    def details(self, truth: Sequence[Any], answers: Sequence[Any], lengths: Sequence[int]) -> dict[str, Any]:
        """Right words by length of the sentence, and the confusion matrix."""
        classes, each = Classes(self.names), [len(tags) for tags in truth]
        true, answered = (classes.truth(list(chain.from_iterable(rows))) for rows in (truth, answers))
        return details(true, answered, np.repeat(lengths, each).tolist(), len(self.names))


@dataclass(frozen=True)
class LabelSets(_OfTexts):
    """A text has any number of labels; a model has a logit for each, and answers those above 0, with P > 1/2.

    Truth and answers are lists of labels per text.
    """

    names: list[str]
    task: ClassVar[str] = MULTILABEL

    @property
    def facts(self) -> dict[str, Any]:
        """For a record."""
        return {"task": self.task, "classes": self.names}

    def truth(self, labels: Sequence[str]) -> list[Any]:
        """The labels of each text."""
        return list(map(labels_in, labels))

    def check(self, test: Table, name: str) -> None:
        """Raise InputError if no label of the test rows is known; log those that aren't."""
        _check_known(test.single_labels, self.names, "labels are ones", test.name, name)

    def tensor(self, truth: Sequence[Any]) -> Tensor:
        """1 for each label that a text has, else 0, (texts, labels)."""
        return torch.tensor([[float(name in row) for name in self.names] for row in truth])

    @torch.no_grad()
    def start(self, model: PreTrainedModel, truth: Sequence[Any], weights: Weights) -> None:
        """Set the head's bias to the `prior` of each label (arXiv 1708.02002, section 4.1): most labels are
        rare, and from 1/2 on a few hundred steps teach the model little else. Not in a base, whose states
        may differ too little at first: there it was slower.
        """
        if isinstance(model, VnaitForSequenceClassification):
            start = prior(self.tensor(truth).numpy(), weights)
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


Target = Classes | Numbers | Tags | LabelSets
OF_CLASSES: dict[str, type[Classes] | type[Tags] | type[LabelSets]] = {
    CLASSIFICATION: Classes,
    TAGGING: Tags,
    MULTILABEL: LabelSets,
}


def check_tags(table: Table) -> None:
    """Raise InputError unless each word of a table has a tag."""
    for row, (text, label) in enumerate(zip(table.texts, table.labels or [], strict=True), 1):
        words, tags = len(words_of(text)), len(words_of(label))
        if not words or words != tags:
            raise InputError(
                f"{table.name}, sentence {row} has {words} words and {tags} tags; give each word a tag, with "
                "a space between two."
            )


def _check_known(labels: Sequence[str], names: Sequence[str], what: str, test: str, name: str) -> None:
    found = Counter(labels)
    unseen = sorted(found.keys() - set(names))
    if len(unseen) == len(found):
        raise InputError(f"{test} and {name} share no label: check the label column of both.")
    if unseen:
        logger.warning(
            "%s: %d of %d %s that training never saw (%s%s); they count as wrong.",
            test,
            sum(found[label] for label in unseen),
            len(labels),
            what,
            ", ".join(map(repr, unseen[:3])),
            " ..." * (len(unseen) > 3),
        )


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
    if table.task == TAGGING:
        return _tags_of(table)
    if table.task == MULTILABEL:
        return _sets_of(table)
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
    mean = float(numbers.mean())
    if not abs(mean) < FURTHEST * scale or not scale < LARGEST:
        raise InputError(
            f"{table.name}: the labels are near {mean:.4g} and differ by some {scale:.2g}, which a model's "
            "numbers of 32 bits can't hold; subtract a constant from them, or take a larger unit."
        )
    return Numbers(mean, scale)


def _tags_of(table: Table) -> Tags:
    check_tags(table)
    names = sorted(set(table.single_labels))
    if len(names) < 2:
        raise InputError(f"{table.name} has one tag only ({names[0]}); tagging needs two or more.")
    if are_spans(names):
        with extra("tagging"):  # before the training, not after it
            import seqeval  # noqa: F401
    others = [name for name in names if name != "O" and not are_spans([name])]
    if len(others) == 1 and are_spans(set(names) - set(others)):
        logger.warning(
            "%s: of its tags %r alone marks no span (B-, I-, O), so that spans are not scored; if it is a "
            "header's, remove that line.",
            *(table.name, others[0]),
        )
    return Tags(names)


def _sets_of(table: Table) -> LabelSets:
    names = sorted(set(table.single_labels))
    if len(names) < 2:
        raise InputError(
            f"{table.name} has {f'one label only ({names[0]})' if names else 'no label'}; multilabel needs "
            "two or more. For one, write yes or no in each row, and leave --task (task=) out."
        )
    if len(set(map(cell_of, map(labels_in, table.labels or [])))) < 2:
        raise InputError(
            f"{table.name}: every row has the labels {cell_of(names)}; multilabel needs different ones."
        )
    return LabelSets(names)
