"""A trained classifier: probabilities of texts; saved to a folder and loaded from it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from vnait.data import NO_LIMIT, Table, TextCounts, encode
from vnait.data.columns import Texts
from vnait.data.labels import cell_of
from vnait.data.pairs import check_sides, sides_of
from vnait.data.sentences import Piece, split_words
from vnait.data.tasks import (
    ANSWERS,
    CLASSIFICATION,
    MULTILABEL,
    OTHERWISE,
    PROBLEMS,
    REGRESSION,
    TAGGING,
    check_task,
)
from vnait.data.tokens import encode_words, parts
from vnait.model import VnaitForTokenClassification
from vnait.pretrained import tokens
from vnait.pretrained.attach.saving import NOTES, load_tuned, save_tuned
from vnait.pretrained.lora import has_lora
from vnait.results.record import Record, warn_of_other
from vnait.shared.errors import InputError
from vnait.shared.files import atomic_folder, home
from vnait.shared.processes import one_thread, usual_torch
from vnait.shared.quiet import no_bars
from vnait.train import linear, saved
from vnait.train.linear import LinearClassifier
from vnait.train.logits import logits_of, word_logits_of
from vnait.train.replacing import LINEAR, check_replaceable
from vnait.train.tasks import with_names

TOGETHER = 4096  # texts sorted by length, so that batches have little padding


@dataclass(frozen=True, eq=False, kw_only=True)
class Fitted:
    """A trained classifier: model, tokenizer, labels, and the record of its training."""

    model: PreTrainedModel
    tokenizer: Any
    record: Record | None = None
    max_length: int | None = None  # only of a fine-tuned base, whose configuration has no such field
    pairs: bool = False  # whether it reads two texts per row
    task: str = CLASSIFICATION  # one of `vnait.data.tasks.TASKS`

    @property
    def classes(self) -> list[str]:
        """The labels, in the order of the probabilities."""
        return [self.model.config.id2label[index] for index in range(self.model.config.num_labels)]

    @property
    def longest(self) -> int:
        """The most tokens of a text that it reads."""
        return self.max_length or int(self.model.config.max_length)

    def probabilities(self, texts: Sequence[str], tally: TextCounts | None = None) -> NDArray[np.float64]:
        """P(class | text), (texts, classes); they sum to 1, unless a text has `several`. An empty text counts
        as one unknown word.

        The number of texts cut is logged, or left to a `tally` of several calls, with that of unknown words.
        """
        check_task(self.task, CLASSIFICATION, MULTILABEL)
        logits = self._outputs(texts, tally)
        with one_thread():  # several would stay, and a fork would wait for them forever
            return (torch.sigmoid(logits) if self.task == MULTILABEL else torch.softmax(logits, -1)).numpy()

    def of_words(self, texts: Sequence[str], tally: TextCounts | None = None) -> list[NDArray[np.float64]]:
        """P(tag | word) of each sentence (words, tags). The words of a text have a space between them."""
        check_task(self.task, TAGGING)
        logits = word_logits_of(self.model, self._pieces(texts, tally))
        with one_thread():
            return [torch.softmax(_finite(row).double(), -1).numpy() for row in logits]

    def numbers(self, texts: Sequence[str], tally: TextCounts | None = None) -> NDArray[np.float64]:
        """The number of each text (texts,), of a regression."""
        check_task(self.task, REGRESSION)
        return self._outputs(texts, tally)[:, 0].numpy()

    def _outputs(self, texts: Sequence[str], tally: TextCounts | None) -> Tensor:
        check_sides(texts, self.pairs)
        logits = logits_of(self.model, self.ids(texts, tally))
        with one_thread():
            return _finite(logits).double()

    def ids(self, texts: Sequence[str], tally: TextCounts | None = None) -> list[list[int]]:
        """The ids of each text, at most `longest`."""
        if self.max_length is None:
            return encode(self.tokenizer, texts, max_length=self.longest, tally=tally)
        ids: list[list[int]] = []
        for part in parts(texts):
            if tally is not None:
                whole = tokens.encode(self.tokenizer, part, max_length=NO_LIMIT)
                tally.add(whole, self.tokenizer.unk_token_id)
            ids += tokens.encode(self.tokenizer, part, max_length=self.longest)
        return ids

    def _pieces(self, texts: Sequence[str], tally: TextCounts | None) -> list[list[Piece]]:
        if self.max_length is None:
            return encode_words(self.tokenizer, texts, max_length=self.longest, tally=tally)
        return tokens.encode_words(self.tokenizer, texts, max_length=self.longest)

    def save(self, folder: str | Path, *, extras: Mapping[str, str] | None = None) -> None:
        """Write the folder, whole or not at all: weights, settings, tokenizer, record, extra files."""
        check_replaceable(folder)
        warn_of_other(folder, self.record)
        record = {} if self.record is None else {"record.json": self.record.line() + "\n"}
        with atomic_folder(folder) as draft, no_bars():
            if self.max_length is None:
                self.tokenizer.model_max_length = self.longest  # for pipelines that truncate
                self.model.save_pretrained(draft)
                self.tokenizer.save_pretrained(draft)
            else:
                if self.record is None:
                    raise InputError(
                        f"{folder} was not written: a fine-tuned base is saved with its record, and this one "
                        "was loaded without record.json; copy its folder instead."
                    )
                notes = {"method": self.record.run["method"], "max_length": self.max_length}
                if self.pairs:
                    notes["pairs"] = True
                if self.task == TAGGING:
                    notes["task"] = TAGGING
                if has_lora(self.model):
                    notes["base"] = self.record.run["base"]
                save_tuned(self.model, self.tokenizer, draft, notes)
            for name, content in {**record, **(extras or {})}.items():
                (draft / name).write_text(content, encoding="utf-8")


def predictions(
    fitted: Fitted | LinearClassifier, texts: Iterable[str]
) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Each text with P(class | text), with the number of a regression or with P(tag | word), in the order of
    the texts, of which 4,096 are in memory at a time.

    At the end it logs how many texts were cut, and a share of unknown words above 20 %.
    """
    tally = TextCounts(NO_LIMIT)  # a tuned base's tokenizer cuts its texts itself
    if isinstance(fitted, Fitted) and fitted.max_length is None:
        tally.max_length = NO_LIMIT if fitted.task == TAGGING else fitted.longest
    rest = iter(texts)
    readers: dict[str, Callable[..., Any]] = {TAGGING: fitted.of_words, REGRESSION: fitted.numbers}
    read = readers.get(fitted.task, fitted.probabilities)
    while group := list(islice(rest, TOGETHER)):
        answers = read(group, tally) if isinstance(fitted, Fitted) else read(group)
        yield from zip(group, answers, strict=True)
    tally.report()


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """The least probability of an answer, in [0, 1], and what is answered where no class has it."""

    least: float = 0.0
    otherwise: str = OTHERWISE

    def check(self, classes: Sequence[str], task: str) -> None:
        """Raise InputError unless it is a probability that a model of the task can answer with."""
        if task != CLASSIFICATION:
            raise InputError(
                f"the model answers with {ANSWERS[task][0]}, and a threshold needs one class per text; leave "
                "--threshold (threshold=) out."
            )
        if not 0 <= self.least <= 1:
            raise InputError(f"the threshold is {self.least}; give a probability, from 0 to 1.")
        if self.otherwise in classes:
            raise InputError(
                f"{self.otherwise!r} is a class of the model; give another --otherwise (otherwise=)."
            )


def evaluate(
    fitted: Fitted | LinearClassifier, table: Table, *, threshold: float | None = None
) -> dict[str, float]:
    """The scores of a model on labelled rows, as `scores` of its target gives them (`vnait.train.tasks`). Of
    classes also the bounds of the accuracy's 95 % interval over texts, accuracy_low and accuracy_high.

    table       read with `task=fitted.task`
    threshold   adds two scores: coverage, the share of texts whose answer has at least this probability, and
                answered_accuracy, the accuracy of these answers, if there are any

    InputError if no label of the rows is one of the model's, or they were read for another task.
    """
    from vnait.shared.statistics import proportion  # scipy, which other uses of a model do not wait for

    classes, task = fitted.classes, fitted.task
    if table.task != task:
        raise InputError(f"{table.name} was read for {table.task}; read it with task={task!r}, the model's.")
    if threshold is not None:
        Threshold(least=threshold).check((), task)
    target = with_names(task, classes)
    target.check(table, "the rows that the model learned from")
    truth = target.truth(table.labels or [])
    rows = [row for _, row in predictions(fitted, table.texts)]
    if task == REGRESSION:
        return target.scores(truth, [float(row) for row in rows])
    if task == TAGGING:
        return target.scores(truth, [[classes[index] for index in row.argmax(-1)] for row in rows])
    answers = target.truth([_answer(row, classes, task) for row in rows])
    scores = target.scores(truth, answers)
    if task == CLASSIFICATION:
        bounds = proportion(sum(map(int.__eq__, truth, answers)), len(truth)).bounds
        scores |= dict(zip(("accuracy_low", "accuracy_high"), bounds, strict=True))
    if threshold is not None:
        right = [a == b for a, b, row in zip(truth, answers, rows, strict=True) if row.max() >= threshold]
        scores["coverage"] = len(right) / len(rows)
        if right:
            scores["answered_accuracy"] = sum(right) / len(right)
    return scores


def table_of(
    fitted: Fitted | LinearClassifier, text: str, texts: Texts, threshold: Threshold | None = None
) -> tuple[list[str], Iterator[list[object]]]:
    """Names and rows of a table of answers: the columns of `text`, label, probability of each class. If the
    model tags words: the number of the sentence, from 1, and the word in place of the text. If a text has any
    number of labels: those above 1/2, with | between them. With a `threshold`, the label is its `otherwise`
    where no class has that probability.
    """
    if threshold is not None:
        threshold.check(fitted.classes, fitted.task)
    if fitted.task == TAGGING:
        return ["sentence", "word", *_answer_names(fitted.classes)], _word_rows(fitted, texts)
    check_sides(texts(), fitted.pairs)
    columns = [name.strip() for name in text.split(",")] if fitted.pairs else [text]
    if any(name == "label" or name.startswith("probability_") for name in columns):  # the answers' names
        columns = ["text", "other_text"][: len(columns)]
    classes = [] if fitted.task == REGRESSION else fitted.classes
    rows = (
        [
            *sides_of(words),
            *([_answer(row, classes, fitted.task, threshold)] if classes else []),
            *(round(value, 6) if classes else float(f"{value:.7g}") for value in row.reshape(-1).tolist()),
        ]
        for words, row in predictions(fitted, texts())
    )
    return [*columns, *_answer_names(classes)], rows


def _answer(
    row: NDArray[np.float64], classes: Sequence[str], task: str, threshold: Threshold | None = None
) -> str:
    if threshold is not None and row.max() < threshold.least:
        return threshold.otherwise
    if task != MULTILABEL:
        return classes[int(row.argmax())]
    return cell_of(name for name, value in zip(classes, row, strict=True) if value > 0.5)


def _answer_names(classes: Sequence[str]) -> list[str]:
    return ["label", *(f"probability_{name}" for name in classes)]


def _word_rows(fitted: Fitted | LinearClassifier, texts: Texts) -> Iterator[list[object]]:
    classes = fitted.classes
    for number, (text, probabilities) in enumerate(predictions(fitted, texts()), 1):
        for word, row in zip(split_words(text), probabilities, strict=True):
            yield [number, word, classes[int(row.argmax())], *(round(value, 6) for value in row.tolist())]


def load_transformer(folder: str | Path) -> Fitted:
    """The Transformer saved in a folder; a baseline is refused."""
    fitted = load(folder)
    if isinstance(fitted, LinearClassifier):
        raise InputError(
            f"{folder} has the baseline {fitted.name}, and this needs a Transformer; `vnait predict` "
            "and `vnait explain` read both."
        )
    return fitted


@usual_torch()
def load(folder: str | Path) -> Fitted | LinearClassifier:
    """The classifier saved in a folder; an `InputError` names the fault of the folder."""
    folder = Path(home(folder))
    record = saved.record_in(folder)
    if (folder / LINEAR).is_file():
        return linear.load(folder, record)
    if (folder / NOTES).is_file():
        with no_bars():
            model, tokenizer, notes = load_tuned(folder)
        settings = {"max_length": notes["max_length"], "pairs": notes.get("pairs", False)}
        task = _task_of(model, notes.get("task") == TAGGING)
        return Fitted(model=model, tokenizer=tokenizer, record=record, task=task, **settings)
    model, tokenizer = saved.load_both(folder)
    return Fitted(
        model=model,
        tokenizer=tokenizer,
        record=record,
        pairs=tokenizer.sep_token is not None,
        task=_task_of(model, isinstance(model, VnaitForTokenClassification)),
    )


def _task_of(model: PreTrainedModel, tags: bool) -> str:
    """The task of a saved model; `tags`: whether it answers words."""
    if tags:
        return TAGGING
    if model.config.problem_type == PROBLEMS[MULTILABEL]:
        return MULTILABEL
    return CLASSIFICATION if model.config.num_labels > 1 else REGRESSION


def _finite(logits: Tensor) -> Tensor:
    if not logits.isfinite().all():
        raise InputError(
            "the model's answer is not a finite number: its weights are damaged; copy its folder again, or "
            "train it again."
        )
    return logits
