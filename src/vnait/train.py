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
from vnait.errors import InputError, meant
from vnait.lexicon import Lexicon
from vnait.methods import METHODS, parameters
from vnait.model import VnaitForSequenceClassification
from vnait.predict import Fitted, logits_of
from vnait.randomness import apart
from vnait.record import Record
from vnait.scores import details, scores, timed
from vnait.text import Table

logger = logging.getLogger("vnait")

WHOLE = 10**9  # tokens: no text is cut


@dataclass(frozen=True, kw_only=True)
class Run:
    """The settings of one training.

    steps        optimizer steps at most; None: 150, or three times through the rows if that is more
    validation   share of the rows held out for the validation scores and early stopping, stratified
    patience     with more rows than `refit`: evaluations (one every `eval_every` steps) without a better validation loss before it stops
    refit        up to so many rows, the validation scores are taken after two thirds of the steps, and the last third learns from all
                 rows, held-out ones too; 0: never. With few labels a fifth of them is worth more than early stopping (Goodfellow et al.
                 2016, Deep Learning, section 7.8: go on with all the data)
    bag          share of the logits that the linear part has, in [0, 1): a logistic regression of the text's words and their vectors, mixed
                 in after the training; 0: none. None: by what it knows of rows it has not seen and by how strange words are to their
                 class (`bag_of_words.share_of`)
    base         a pretrained encoder to fine-tune, a folder or a name on the hub; its sizes and vectors take the place of those here, and
                 `method` is attached to it ("own": it keeps its positions)
    num_heads    None: the first of 4, 6, 5, 3, 2, 1 that splits the width into heads of even width
    """

    method: str = "vnait"
    seed: int = 0
    steps: int | None = None
    batch_size: int = 32
    learning_rate: float = 3e-3
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
            yield f"method {self.method!r} is not known.{meant(self.method, METHODS)} The methods are {', '.join(METHODS)}"
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
        return self.steps or max(150, 3 * -(-rows // self.batch_size))


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
    training = _Training(run, task, states)
    training.go(watch)
    model, share = training.model_of(task if training.keeps_best else task.whole())
    validation = training.progress.validation
    if training.keeps_best:
        validation = _validation_metrics(model, task)
    record = Record.now(
        key=key,
        method=run.method,
        seed=run.seed,
        run=asdict(run),
        data={**_facts(table, test, lexicon), **_unknown(lexicon, task), "bag_share": share},
        metrics={**validation, **({} if test is None else metrics_on(model, task, test))},
        parameters=_learned(model),
        seconds=training.progress.seconds,
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
    """Learned scalars; a fitted bag of words is learned too, though not by gradient descent."""
    if not isinstance(model, VnaitForSequenceClassification) or not model.bag.is_fitted:
        return parameters(model)
    return parameters(model) + model.bag.logits.numel() + model.bag.bias.numel()


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
    validation: dict[str, float] = field(default_factory=dict)

    def state_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


class _Training:
    """One training loop on accelerate.

    Few rows, `Run.refit` at most: two thirds of the steps learn from the rows that are not held out; then the validation scores are
    taken, and the last third learns from all rows. More rows: the step with the best validation loss is kept.
    """

    def __init__(self, run: Run, task: _Task, checkpoints: Checkpoints) -> None:
        self.run, self.task, self.checkpoints = run, task, checkpoints
        self.steps = run.total_steps(len(task.train))
        self.keeps_best = len(task.labels) > run.refit
        joins = bool(task.valid) and not self.keeps_best
        self.joined = self.steps * 2 // 3 if joins else self.steps  # from this step on it learns from all rows
        _seed_everything(run.seed)
        lengths = [len(task.ids[row]) for row in task.train]
        model = task.lexicon.new_model(run, task.classes, lengths)
        optimizer = torch.optim.AdamW(bases.groups(model, run), lr=run.learning_rate, fused=True)
        schedule = get_linear_schedule_with_warmup(optimizer, int(run.warmup * self.steps), self.steps)
        self.accelerator = Accelerator(step_scheduler_with_optimizer=False)
        self.model, self.optimizer, self.schedule = self.accelerator.prepare(model, optimizer, schedule)
        self.progress = _Progress()
        self.accelerator.register_for_checkpointing(self.progress)

    def go(self, watch: Callable[[Status], None]) -> None:
        """Train to the last step; where the best is kept, until the validation loss has not improved for `patience` evaluations."""
        self.checkpoints.resume(self.accelerator)
        started = time.perf_counter() - self.progress.seconds
        for rows in self._batches():
            loss = self._step(rows)
            self.progress.seconds = time.perf_counter() - started
            watch(Status(step=self.progress.step, steps=self.steps, loss=loss))
            if self.progress.step == self.joined < self.steps:
                self._validate()
            if self.progress.step % self.run.eval_every == 0 or self.progress.step == self.steps:
                self._evaluate()
                self.checkpoints.save(self.accelerator, self.progress.step)
            if self._done:
                return

    def model_of(self, task: _Task) -> tuple[PreTrainedModel, float]:
        """The model, its linear part of the task's rows weighed against the rest; and the share of that part."""
        model: PreTrainedModel = self.accelerator.unwrap_model(self.model)
        if self.progress.best:
            model.load_state_dict(self.progress.best)
        model = model.cpu().eval()
        if not isinstance(task.lexicon, Lexicon) or self.run.bag == 0:
            return model, 0.0
        ids, labels = [task.ids[row] for row in task.train], [task.labels[row] for row in task.train]
        weights = bag_of_words.rarity(task.lexicon.frequency, task.lexicon.tokenizer.all_special_ids)
        return model, bag_of_words.mix(model, ids, labels, weights, self.run.bag)

    @property
    def _done(self) -> bool:
        stopped = self.keeps_best and self.progress.worse >= self.run.patience
        return self.progress.step >= self.steps or stopped

    def _validate(self) -> None:
        """Take the validation scores, of the model as it would be mixed now; the training goes on from where it was."""
        model = self.accelerator.unwrap_model(self.model)
        before = {name: value.detach().clone() for name, value in model.state_dict().items()}
        self.progress.validation = _validation_metrics(self.model_of(self.task)[0], self.task)
        model.load_state_dict(before)
        model.to(self.accelerator.device)

    def _batches(self) -> Iterator[list[int]]:
        """The batches still to come: a function of seed and step alone, so a resumed run meets the same ones."""
        while not self._done:
            first = self.progress.step < self.joined
            rows = self.task.train if first else self.task.whole().train
            lengths = [len(self.task.ids[row]) for row in rows]
            each = -(-len(lengths) // self.run.batch_size)
            epoch, done = divmod(self.progress.step - (0 if first else self.joined), each)
            last = self.joined if first else self.steps
            plan = texts.batches(lengths, batch_size=self.run.batch_size, seed=self.run.seed, epoch=epoch)
            for batch in plan[done : done + last - self.progress.step]:
                yield [rows[index] for index in batch]

    def _step(self, rows: list[int]) -> float:
        self.model.train()
        # Each process takes its share of the batch, so the result of a step does not depend on how many there are.
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
        if not (self.task.valid and self.keeps_best):
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
    """The scores on rows the training never saw, with `details`. A label that training never saw counts as wrong.

    ms_per_text      milliseconds per text, from the text to its logits, in the process as it is
    accuracy_alone   where a linear part is mixed in: of the Transformer's own logits, without it
    """
    number = {name: index for index, name in enumerate(task.classes)}
    truth = [number.get(label, -1) for label in test.labels or []]
    logits, per_text = timed(
        lambda: logits_of(model, task.lexicon.encode(test.texts, max_length=task.max_length)), test
    )
    answer = logits.argmax(-1).tolist()
    whole = task.lexicon.encode(test.texts, max_length=WHOLE)
    found = {**scores(truth, answer), **details(truth, answer, list(map(len, whole)), len(task.classes))}
    if isinstance(model, VnaitForSequenceClassification) and model.bag.is_fitted:
        ids = [row[: task.max_length] for row in whole]
        words = bag_of_words.bags_of(ids, model.bag.weights.numpy()) @ model.bag.logits.numpy()
        alone = logits - torch.from_numpy(words) - model.bag.bias
        found["accuracy_alone"] = scores(truth, alone.argmax(-1).tolist())["accuracy"]
    return {**found, "ms_per_text": per_text}


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
