"""A `Run` in, a trained classifier and its `Record` out."""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor
from transformers import PreTrainedModel, get_linear_schedule_with_warmup

from vnait import bag_of_words, bases
from vnait import record as records
from vnait import text as texts
from vnait.bases import Base
from vnait.checkpoints import Checkpoints
from vnait.errors import InputError
from vnait.lexicon import Lexicon
from vnait.methods import METHODS, parameters
from vnait.model import VnaitForSequenceClassification
from vnait.predict import Fitted, logits_of
from vnait.randomness import apart
from vnait.record import Record
from vnait.scores import details, scores
from vnait.text import Table

logger = logging.getLogger("vnait")

WHOLE = 10**9  # tokens: no text is cut


@dataclass(frozen=True, kw_only=True)
class Run:
    """The settings of one training.

    steps        optimizer steps at most; None: 300, or three times through the rows if that is more
    validation   share of the rows held out for the validation scores and early stopping, stratified
    patience     evaluations (one every `eval_every` steps) without a better validation loss before it stops
    refit        up to so many rows, the validation scores taken, it trains once more on all of them, to the last step; 0: never.
                 With few labels a fifth of them is worth more than early stopping, and the weights are those of validation=0
    bag          share of the answer's logits that a bag of words has, in [0, 1): a logistic regression of the words and their averaged
                 vectors, the Transformer's logits being scaled to no more than its size. None: by what it knows of rows it has not seen and
                 by how strange words are to their class (`bag_of_words.share_of`): most where words say it all or are met once, and hardly
                 anything where all is in the order of few
    base         a pretrained encoder to fine-tune, a folder or a name on the hub; its sizes and vectors take the place of those here, and
                 `method` is attached to it ("own": it keeps its positions)
    num_heads    None: the first of 4, 6, 5, 3, 2, 1 that splits the width into heads of even width
    """

    method: str = "vnait"
    seed: int = 0
    steps: int | None = None
    batch_size: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    warmup: float = 0.1
    dropout: float = 0.2
    num_layers: int = 2
    num_heads: int | None = None
    max_length: int = 512
    tune_vectors: bool = False
    smoothness: float = 0.1
    boundary: float = 0.1
    validation: float = 0.2
    eval_every: int = 25
    patience: int = 4
    refit: int = 2_000
    bag: float | None = None
    base: str | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, np.generic):  # of a grid: what is saved is plain numbers
                object.__setattr__(self, name, value.item())
        if problems := list(self._problems()):
            raise InputError("; ".join(problems) + ".")

    def _problems(self) -> Iterator[str]:
        if self.method not in METHODS and not (self.base and self.method == bases.OWN):
            yield f"method {self.method!r} is not known: take one of {', '.join(METHODS)}"
        for name in ("batch_size", "num_layers", "max_length", "eval_every", "patience"):
            if getattr(self, name) < 1:
                yield f"{name} is {getattr(self, name)}: it must be 1 or more"
        for name in ("steps", "num_heads"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                yield f"{name} is {getattr(self, name)}: it must be 1 or more"
        if not isinstance(self.seed, int) or not 0 <= self.seed < 2**32:
            yield f"seed is {self.seed}: it must be a whole number in [0, {2**32})"
        if not 0 < self.learning_rate < math.inf:
            yield f"learning_rate is {self.learning_rate}: it must be above 0 and finite"
        if self.refit < 0:
            yield f"refit is {self.refit}: it must be a number of rows, or 0 for never"
        if self.bag is not None and not 0 <= self.bag < 1:
            yield f"bag is {self.bag}: it must be in [0, 1)"
        for name in ("validation", "dropout", "warmup"):
            if not 0 <= getattr(self, name) < 1:
                yield f"{name} is {getattr(self, name)}: it must be in [0, 1)"

    def total_steps(self, rows: int) -> int:
        """The optimizer steps for this many training rows."""
        return self.steps or max(300, 3 * -(-rows // self.batch_size))


@dataclass(frozen=True, kw_only=True)
class Status:
    """How far a training is, for a progress bar."""

    step: int
    steps: int
    loss: float


@apart()
def fit(
    run: Run,
    table: Table,
    lexicon: Lexicon | Base,
    *,
    test: Table | None = None,
    checkpoints: str | Path | None = None,
    watch: Callable[[Status], None] = lambda status: None,
) -> Fitted:
    """Train one classifier on labelled texts. The same run gives the same weights, whatever ran before.

    With `checkpoints`, a folder, a run that was killed goes on from its last evaluation and ends as if it had not been. The last state
    stays there until `forget`, so that nothing is lost if the model can't be saved.
    """
    if (run.base is None) != isinstance(lexicon, Lexicon):
        raise InputError(
            f"the run's base is {run.base!r}, and a {type(lexicon).__name__} was given for it; give a bases.Base to a run with a base, "
            "and a Lexicon to one without."
        )
    key = records.key_of(asdict(run), table.fingerprint, test.fingerprint if test else None, lexicon.fingerprint)
    task, states = _Task.of(run, table, lexicon), Checkpoints(checkpoints, key)
    if test is not None:
        _check_labels(test, table.name, task.classes)
    model, share, seconds = _trained(run, task, lexicon, states, watch)
    validation = _validation_metrics(model, task)
    if task.valid and len(table) <= run.refit:
        model, share, more = _trained(run, task.whole(), lexicon, states.inner("all-rows"), watch)
        seconds += more
    record = Record.now(
        key=key,
        method=run.method,
        seed=run.seed,
        run=asdict(run),
        data={**_facts(table, test, lexicon), **_unknown(lexicon, task), "bag_share": share},
        metrics={**validation, **({} if test is None else metrics_on(model, task, test))},
        parameters=_learned(model),
        seconds=seconds,
    )
    max_length = run.max_length if run.base else None
    return Fitted(model=model, tokenizer=lexicon.tokenizer, record=record, max_length=max_length)


def _check_labels(test: Table, name: str, classes: Sequence[str]) -> None:
    unseen = sorted({label for label in test.labels or [] if label not in classes})
    if len(unseen) == len(set(test.labels or [])):
        raise InputError(f"{test.name} and {name} share no label: check the label column of both.")
    if unseen:
        rows = sum(label in unseen for label in test.labels or [])
        logger.warning(
            "%s: %d of %d rows have a label that training never saw (%s%s); they count as wrong.",
            test.name,
            rows,
            len(test),
            ", ".join(map(repr, unseen[:3])),
            " ..." * (len(unseen) > 3),
        )


def forget(checkpoints: str | Path, fitted: Fitted) -> None:
    """Delete what `fit` left in `checkpoints`, once the model is saved."""
    assert fitted.record is not None
    Checkpoints(checkpoints, fitted.record.key).remove()


def _learned(model: PreTrainedModel) -> int:
    """Learned scalars; a bag of words that has a say is learned too, though not by gradient descent."""
    if not isinstance(model, VnaitForSequenceClassification) or not model.bag.says_something:
        return parameters(model)
    return parameters(model) + model.bag.logits.numel() + model.bag.bias.numel()


def _trained(
    run: Run, task: _Task, lexicon: Lexicon | Base, states: Checkpoints, watch: Callable[[Status], None]
) -> tuple[PreTrainedModel, float, float]:
    """The model after its training on the task's rows, with its bag of words; the share of that; and the seconds of training."""
    training = _Training(run, task, lexicon, states)
    training.go(watch)
    model, share = training.best_model(), 0.0
    if isinstance(lexicon, Lexicon):
        ids, labels = [task.ids[row] for row in task.train], [task.labels[row] for row in task.train]
        share = bag_of_words.lean(model, ids, labels, bag_of_words.rarity(lexicon.frequency), run.bag)
    return model, share, training.progress.seconds


@dataclass(frozen=True, kw_only=True)
class _Task:
    """The labelled texts as ids, split into training and validation rows."""

    lexicon: Lexicon | Base
    classes: list[str]
    ids: list[list[int]]
    labels: list[int]
    train: list[int]
    valid: list[int]
    max_length: int

    @classmethod
    def of(cls, run: Run, table: Table, lexicon: Lexicon | Base) -> _Task:
        if table.labels is None:
            raise InputError(f"{table.name} was read without labels; training needs them.")
        classes = sorted(set(table.labels))
        number = {name: index for index, name in enumerate(classes)}
        if len(classes) < 2:
            raise InputError(f"{table.name} has one class only ({classes[0]}); a classifier needs two or more.")
        rows = (list(range(len(table))), list[int]())
        if run.validation:
            rows = texts.split(table.labels, holdout=run.validation, seed=run.seed)
        return cls(
            lexicon=lexicon,
            classes=classes,
            ids=lexicon.encode(table.texts, max_length=run.max_length),
            labels=[number[label] for label in table.labels],
            train=rows[0],
            valid=rows[1],
            max_length=run.max_length,
        )

    def whole(self) -> _Task:
        """The same with every row to train on and none held out."""
        return replace(self, train=sorted([*self.train, *self.valid]), valid=[])

    def batch(self, rows: Sequence[int]) -> dict[str, Tensor]:
        """The rows as tensors."""
        batch = texts.collate([self.ids[row] for row in rows], pad_id=self.lexicon.tokenizer.pad_token_id)
        return {**batch, "labels": torch.tensor([self.labels[row] for row in rows])}


@dataclass(kw_only=True)
class _Progress:
    """What a checkpoint must remember besides weights, optimizer, schedule and random states."""

    step: int = 0
    seconds: float = 0.0
    best_loss: float = float("inf")
    best: dict[str, Tensor] = field(default_factory=dict)
    worse: int = 0

    def state_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


class _Training:
    """One training loop on accelerate."""

    def __init__(self, run: Run, task: _Task, lexicon: Lexicon | Base, checkpoints: Checkpoints) -> None:
        self.run, self.task, self.checkpoints = run, task, checkpoints
        self.steps = run.total_steps(len(task.train))
        _seed_everything(run.seed)
        lengths = [len(task.ids[row]) for row in task.train]
        model = lexicon.new_model(run, task.classes, lengths)
        optimizer = torch.optim.AdamW(bases.groups(model, run), lr=run.learning_rate)
        schedule = get_linear_schedule_with_warmup(optimizer, int(run.warmup * self.steps), self.steps)
        self.accelerator = Accelerator(step_scheduler_with_optimizer=False)
        self.model, self.optimizer, self.schedule = self.accelerator.prepare(model, optimizer, schedule)
        self.progress = _Progress()
        self.accelerator.register_for_checkpointing(self.progress)

    def go(self, watch: Callable[[Status], None]) -> None:
        """Train to the last step, or until the validation loss has not improved for `patience` evaluations."""
        self.checkpoints.resume(self.accelerator)
        started = time.perf_counter() - self.progress.seconds
        for rows in self._batches():
            loss = self._step(rows)
            self.progress.seconds = time.perf_counter() - started
            watch(Status(step=self.progress.step, steps=self.steps, loss=loss))
            if self.progress.step % self.run.eval_every == 0 or self.progress.step == self.steps:
                self._evaluate()
                self.checkpoints.save(self.accelerator, self.progress.step)
            if self.progress.step == self.steps or self.progress.worse >= self.run.patience:
                return

    def best_model(self) -> PreTrainedModel:
        """The model at its best validation loss, or as it ended where nothing was held out."""
        model: PreTrainedModel = self.accelerator.unwrap_model(self.model)
        if self.progress.best:
            model.load_state_dict(self.progress.best)
        return model.cpu().eval()

    def _batches(self) -> Iterator[list[int]]:
        """The batches still to come: a function of seed and step alone, so a resumed run meets the same ones."""
        lengths = [len(self.task.ids[row]) for row in self.task.train]
        each = -(-len(lengths) // self.run.batch_size)
        epoch, done = divmod(self.progress.step, each)
        if self.progress.step >= self.steps or self.progress.worse >= self.run.patience:
            return
        while True:
            plan = texts.batches(lengths, batch_size=self.run.batch_size, seed=self.run.seed, epoch=epoch)
            for batch in plan[done:]:
                yield [self.task.train[index] for index in batch]
            epoch, done = epoch + 1, 0

    def _step(self, rows: list[int]) -> float:
        self.model.train()
        # Each process takes its share of the batch, so the result of a step does not hang on how many there are.
        share = rows[self.accelerator.process_index :: self.accelerator.num_processes] or rows[:1]
        batch = {name: tensor.to(self.accelerator.device) for name, tensor in self.task.batch(share).items()}
        loss = self.model(**batch).loss
        if not torch.isfinite(loss):
            raise FloatingPointError(
                f"the loss of {self.run.method} became {loss.item()} at step {self.progress.step}; "
                f"lower learning_rate (now {self.run.learning_rate})."
            )
        self.accelerator.backward(loss)
        self.accelerator.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad()
        self.progress.step += 1
        return float(loss.detach())

    def _evaluate(self) -> None:
        if not self.task.valid:
            return
        model = self.accelerator.unwrap_model(self.model)
        logits = logits_of(model, [self.task.ids[row] for row in self.task.valid])
        loss = torch.nn.functional.cross_entropy(
            logits, torch.tensor([self.task.labels[row] for row in self.task.valid])
        )
        if float(loss) < self.progress.best_loss:
            self.progress.best_loss, self.progress.worse = float(loss), 0
            self.progress.best = {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}
        else:
            self.progress.worse += 1


def metrics_on(model: PreTrainedModel, task: _Task, test: Table) -> dict[str, Any]:
    """The scores on rows the training never saw, with `details`. A label that training never saw counts as wrong."""
    number = {name: index for index, name in enumerate(task.classes)}
    truth = [number.get(label, -1) for label in test.labels or []]
    ids = task.lexicon.encode(test.texts, max_length=task.max_length)
    answer = logits_of(model, ids).argmax(-1).tolist()
    whole = task.lexicon.encode(test.texts, max_length=WHOLE)
    return {**scores(truth, answer), **details(truth, answer, list(map(len, whole)), len(task.classes))}


def _validation_metrics(model: PreTrainedModel, task: _Task) -> dict[str, float]:
    if not task.valid:
        return {}
    answer = logits_of(model, [task.ids[row] for row in task.valid]).argmax(-1).tolist()
    found = scores([task.labels[row] for row in task.valid], answer)
    return {f"validation_{name}": value for name, value in found.items()}


def _unknown(lexicon: Lexicon | Base, task: _Task) -> dict[str, float]:
    return {"unknown_share": texts.unknown_share(lexicon.tokenizer, task.ids)} if isinstance(lexicon, Lexicon) else {}


def _facts(table: Table, test: Table | None, lexicon: Lexicon | Base) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": table.name,
        "fingerprint": table.fingerprint,
        "rows": len(table),
        "classes": sorted(set(table.labels or [])),
        "vectors": lexicon.source,
        "vocabulary": len(lexicon.tokenizer),
    }
    if test is not None:
        facts.update(test_fingerprint=test.fingerprint, test_rows=len(test))
    return facts


def _seed_everything(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
