"""Each word has a tag."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from vnait.data import Table
from vnait.data.sentences import split_words
from vnait.data.tasks import TAGGING
from vnait.results.scores import are_spans, details, tag_scores
from vnait.shared.errors import InputError, extra
from vnait.train.logits import word_logits_of
from vnait.train.tasks.classes import Classes
from vnait.train.tasks.shared import Common, TextEncoder, check_known

logger = logging.getLogger("vnait")

IGNORED = -100  # the label of a token without a loss, as in torch and transformers


@dataclass(frozen=True)
class Tags(Common):
    """Each word has a tag; a model has logits for each token, of which those at a word's first one count.

    Truth and answers are lists of tags per sentence.
    """

    names: list[str]
    task: ClassVar[str] = TAGGING

    @classmethod
    def of(cls, table: Table) -> Tags:
        """The tags of a table. InputError if a word has none, or all have the same."""
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
                "%s: of its tags %r alone marks no span (B-, I-, O), so that spans are not scored; if it is "
                "a header's, remove that line.",
                *(table.name, others[0]),
            )
        return cls(names)

    def truth(self, labels: Sequence[str]) -> list[Any]:
        return list(map(split_words, labels))

    def check(self, test: Table, name: str) -> None:
        """Raise InputError if no tag of the test sentences is known; log those that aren't."""
        check_tags(test)
        check_known(test.single_labels, self.names, "words have a tag", test.name, name)

    def encode(self, encoder: TextEncoder, texts: Sequence[str], max_length: int) -> Any:
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
        labels = torch.full((len(first), max(len(piece.ids) for piece in first)), IGNORED)
        for row, piece, tags in zip(labels, first, truth, strict=True):
            row[piece.starts] = self.tensor([tags[: len(piece.starts)]])
        return labels

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


def check_tags(table: Table) -> None:
    """Raise InputError unless each word of a table has a tag."""
    for row, (text, label) in enumerate(zip(table.texts, table.labels or [], strict=True), 1):
        words, tags = len(split_words(text)), len(split_words(label))
        if not words or words != tags:
            raise InputError(
                f"{table.name}, sentence {row} has {words} words and {tags} tags; give each word a tag, with "
                "a space between two."
            )
