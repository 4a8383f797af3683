"""Training: a `Run`, texts and labels in, a trained classifier with its `Record` out."""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator, InitProcessGroupKwargs
from accelerate.utils import broadcast_object_list
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel, get_linear_schedule_with_warmup

from vnait import bag_of_words
from vnait.checkpoints import Checkpoints, Progress
from vnait.data import WHOLE, Table, batches, collate, unknown_share, warn_of_repeats
from vnait.data.pairs import are_pairs, check_sides
from vnait.data.tables import TAGGING
from vnait.data.vocabulary import Vocabulary
from vnait.errors import InputError
from vnait.methods import parameters
from vnait.model import VnaitForSequenceClassification
from vnait.predict import Fitted
from vnait.pretrained.finetune import SEPARATOR, Base, groups
from vnait.processes import WAIT, on_cpu
from vnait.randomness import apart
from vnait.record import Record, key_of
from vnait.results import METRICS
from vnait.run import Run
from vnait.scores import timed
from vnait.targets import Classes, LabelSets, Target, target_of
from vnait.threads import threads
from vnait.tracking import Status, tracking

logger = logging.getLogger("vnait")


def fit(
    run: Run,
    table: Table,
    vocabulary: Vocabulary | Base,
    *,
    test: Table | None = None,
    weights: Sequence[float] | None = None,
    checkpoints: str | Path | None = None,
    callback: Callable[[Status], None] = lambda status: None,
) -> Fitted:
    """Train one classifier on labelled texts. The same run gives the same weights, whatever ran before and
    on however many cores.

    weights       how much each row counts, in every loss and in the linear part; only their ratios matter
    checkpoints   a folder from which a killed run continues after its last evaluation, with the same result;
                  its files stay until `forget`, so that nothing is lost if the model can't be saved
    callback      called with the `Status` after each step
    """
    prepared = prepare(run, table, vocabulary, test=test, weights=weights)
    return train(prepared, checkpoints=checkpoints, callback=callback)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A run with its texts as ids.

    marks    the fingerprints of texts, labels, vectors and weights
    facts    about the data, for the record
    pairs    whether a row has two texts
    """

    run: Run
    marks: list[Any]
    task: _Task
    test: Table | None
    facts: dict[str, Any]
    pairs: bool

    @property
    def key(self) -> str:
        """The fingerprint of all of it."""
        return key_of(self.run.facts, *self.marks)

    def penalized(self, smoothness: float, boundary: float) -> Prepared:
        """The same texts, with other weights of the coordinates' regularizer."""
        return replace(self, run=replace(self.run, smoothness=smoothness, boundary=boundary))


def prepare(
    run: Run,
    table: Table,
    vocabulary: Vocabulary | Base,
    *,
    test: Table | None = None,
    weights: Sequence[float] | None = None,
) -> Prepared:
    """What `fit` does before the first step. The training texts are not needed after it."""
    if (run.base is None) != isinstance(vocabulary, Vocabulary):
        raise InputError(
            f"the run's base is {run.base!r}, with a {type(vocabulary).__name__}; a run with a base needs a "
            "Base, and one without a Vocabulary."
        )
    with apart(), threads(run.threads):
        marks = [table.fingerprint, test.fingerprint if test else None, vocabulary.fingerprint]
        task = _Task.of(run, table, vocabulary, weights)
        if weights is not None and table.task == TAGGING:
            raise InputError("weights are of texts, and each word has a tag; leave them out.")
        if test is not None:
            check_sides(test.texts, are_pairs(table.texts))
            task.target.check(test, table.name)
            warn_of_repeats(table.texts, test.texts)
        return Prepared(
            run=run,
            marks=[*marks, *([] if weights is None else [list(weights)])],
            task=task,
            test=test,
            facts=_facts(table, test, task),
            pairs=are_pairs(table.texts),
        )


@apart()
def train(
    prepared: Prepared,
    *,
    checkpoints: str | Path | None = None,
    callback: Callable[[Status], None] = lambda status: None,
) -> Fitted:
    """`fit` from the first step on."""
    run, task = prepared.run, prepared.task
    with threads(run.threads):
        training = _Training(run, task, Checkpoints(checkpoints, prepared.key))
        with tracking(run, prepared.key) as log:

            def watch(status: Status) -> None:
                log(status)
                callback(status)

            training.go(watch)
        model, share = training.model_of(task if training.keeps_best else task.whole())
        validation = _validation_metrics(model, task) if training.keeps_best else training.progress.validation
        test = {} if prepared.test is None else metrics_on(model, task, prepared.test)
        record = Record.now(
            key=prepared.key,
            method=run.method,
            seed=run.seed,
            run=run.settings,
            data={**prepared.facts, "bag_share": share},
            metrics={**validation, **test},
            parameters=_learned(model),
            seconds=training.progress.seconds,
        )
    return Fitted(
        model=model,
        tokenizer=task.vocabulary.tokenizer,
        record=record,
        max_length=run.max_length if run.base else None,
        pairs=prepared.pairs,
        tags=task.target.task == TAGGING,
    )


def best(fitted: Sequence[Fitted]) -> Fitted:
    """The one with the best validation score; of equals the first."""
    records = [one.record for one in fitted if one.record is not None]
    names = [metric for metric in METRICS if f"validation_{metric.name}" in records[0].metrics]
    if not names:
        raise InputError("no rows were held out, so no setting can be chosen; give one value of each.")
    scores = [float(record.metrics[f"validation_{names[0].name}"]) for record in records]
    for record, score in zip(records, scores, strict=True):
        logger.info(
            "smoothness %g, boundary %g: validation %s %s",
            record.run["smoothness"],
            record.run["boundary"],
            names[0].title,
            names[0].form.format(score),
        )
    return fitted[max(range(len(scores)), key=lambda at: names[0].better * scores[at])]


def forget(checkpoints: str | Path, fitted: Fitted) -> None:
    """Delete what `fit` left in `checkpoints`, once the model is saved."""
    assert fitted.record is not None
    Checkpoints(checkpoints, fitted.record.key).remove()


def _learned(model: PreTrainedModel) -> int:
    """Learned scalars, including those of a fitted bag of words."""
    if not isinstance(model, VnaitForSequenceClassification) or not model.bag.is_fitted:
        return parameters(model)
    return parameters(model) + model.bag.logits.numel() + model.bag.bias.numel()


@dataclass(frozen=True, kw_only=True)
class _Task:
    """The labelled texts as ids, split into training and validation rows."""

    vocabulary: Vocabulary | Base
    target: Target
    encoded: Any
    labels: list[Any]
    weights: NDArray[np.float64] | None
    train: list[int]
    valid: list[int]
    max_length: int

    @classmethod
    def of(
        cls, run: Run, table: Table, vocabulary: Vocabulary | Base, weights: Sequence[float] | None
    ) -> _Task:
        target_of(table)  # checks the labels before they are split
        rows = (list(range(len(table))), list[int]())
        if run.validation:
            rows = table.split(holdout=run.validation, seed=run.seed)
        target = target_of(table, rows[0])
        return cls(
            vocabulary=vocabulary,
            target=target,
            encoded=target.encode(vocabulary, table.texts, run.max_length),
            labels=target.truth(table.labels or []),
            weights=None if weights is None else np.asarray(weights, dtype=float) / np.mean(weights),
            train=rows[0],
            valid=rows[1],
            max_length=run.max_length,
        )

    @cached_property
    def ids(self) -> Any:
        """The ids of each row, for training."""
        return self.target.ids(self.encoded)

    @cached_property
    def lengths(self) -> list[int]:
        """The number of ids of each row."""
        return list(map(len, self.ids))

    def whole(self) -> _Task:
        """The same task with no row held out."""
        return replace(self, train=sorted([*self.train, *self.valid]), valid=[])

    def batch(self, rows: Sequence[int], separator: int | None) -> dict[str, Tensor]:
        """The rows as tensors."""
        ids = [self.ids[row] for row in rows]
        batch = collate(ids, pad_id=self.vocabulary.tokenizer.pad_token_id, separator=separator)
        encoded, labels = ([part[row] for row in rows] for part in (self.encoded, self.labels))
        return {**batch, "labels": self.target.batch(encoded, labels)}

    def loss(self, logits: Any, rows: Sequence[int], less: float = 0.0) -> Tensor:
        """The mean over rows of (weight - less) times the loss; without weights, each is 1."""
        truth = self.target.tensor([self.labels[row] for row in rows])
        if self.weights is None:
            return (1 - less) * self.target.loss(logits, truth)
        truth = truth.to(logits.device)
        each = self.target.loss(logits, truth, reduction="none")
        return ((torch.from_numpy(self.weights[list(rows)]).to(each) - less) * each).mean()


class _Training:
    """One training loop on accelerate.

    With up to `Run.refit` rows, the first two thirds of the steps use the rows not held out; then the model
    is scored on the held-out rows, and the last third uses all rows. With more rows, the step with the best
    validation loss is kept.
    """

    def __init__(self, run: Run, task: _Task, checkpoints: Checkpoints) -> None:
        self.run, self.task, self.checkpoints = run, task, checkpoints
        self.steps = run.total_steps(len(task.train))
        self.keeps_best = len(task.labels) > run.refit
        self.joins = bool(task.valid) and not self.keeps_best
        # The first step that uses all rows.
        self.joined = max(self.steps * 2 // 3, 1) if self.joins else self.steps
        random.seed(run.seed)
        np.random.seed(run.seed)
        torch.manual_seed(run.seed)
        lengths = [task.lengths[row] for row in task.train]
        model = task.vocabulary.new_model(run, task.target.names, lengths, task.target.task)
        self.separator = getattr(model.config, SEPARATOR, None)
        weights = None if task.weights is None else task.weights[task.train]
        task.target.start(model, [task.labels[row] for row in task.train], weights)
        optimizer = torch.optim.AdamW(groups(model, run), lr=run.learning_rate, fused=True)
        schedule = get_linear_schedule_with_warmup(optimizer, int(run.warmup * self.steps), self.steps)
        self.accelerator = Accelerator(
            cpu=on_cpu(),
            step_scheduler_with_optimizer=False,
            kwargs_handlers=[InitProcessGroupKwargs(timeout=WAIT)],
        )
        self.model, self.optimizer, self.schedule = self.accelerator.prepare(model, optimizer, schedule)
        self.progress = Progress()

    def go(self, callback: Callable[[Status], None]) -> None:
        """Train to the last step, or, if the best is kept, until `patience` evaluations are not better."""
        self.checkpoints.resume(self.accelerator, self.progress)
        started = time.perf_counter() - self.progress.seconds
        for rows in self._batches():
            rate = self.schedule.get_last_lr()[0]
            loss = self._step(rows)
            step = self.progress.step
            self.progress.seconds = time.perf_counter() - started
            if self.joins and step == self.joined:
                self._validate()
            evaluates = step % self.run.eval_every == 0 or step == self.steps
            validation_loss = self._evaluate() if evaluates else None
            callback(
                Status(
                    step=step,
                    steps=self.steps,
                    loss=loss,
                    learning_rate=rate,
                    validation_loss=validation_loss,
                )
            )
            if evaluates:
                self.checkpoints.save(self.accelerator, self.progress)
            if self._done:
                return

    def model_of(self, task: _Task) -> tuple[PreTrainedModel, float]:
        """The model with a linear part of the task's rows mixed in, and the share of that part."""
        model: PreTrainedModel = self.accelerator.unwrap_model(self.model)
        if self.progress.best:
            model.load_state_dict(self.progress.best)
        model = model.cpu().eval()
        share = self._mix(model, task) if hasattr(model, "bag") and self.run.bag != 0 else 0.0
        task.target.finish(model)
        return model, share

    def _mix(self, model: PreTrainedModel, task: _Task) -> float:
        """Mix a linear part into the model, and return its share. The first process does it for all, since
        that takes all rows.
        """
        share = 0.0
        if self.accelerator.is_main_process:
            assert isinstance(task.vocabulary, Vocabulary)
            ids = [task.ids[row] for row in task.train]
            labels = task.target.tensor([task.labels[row] for row in task.train]).tolist()
            special = task.vocabulary.tokenizer.all_special_ids
            weights = bag_of_words.rarity(task.vocabulary.frequency, special)
            each = None if task.weights is None else task.weights[task.train]
            share = bag_of_words.mix(model, ids, labels, weights, self.run.bag, each)
        if self.accelerator.num_processes > 1:
            share, state = broadcast_object_list([share, model.state_dict()])
            model.load_state_dict(state)
        return share

    @property
    def _done(self) -> bool:
        stopped = self.keeps_best and self.progress.worse >= self.run.patience
        return self.progress.step >= self.steps or stopped

    def _validate(self) -> None:
        """Score the model, with the linear part mixed in, on the held-out rows; then restore its weights."""
        model = self.accelerator.unwrap_model(self.model)
        before = {name: value.detach().clone() for name, value in model.state_dict().items()}
        self.progress.validation = _validation_metrics(self.model_of(self.task)[0], self.task)
        model.load_state_dict(before)
        model.to(self.accelerator.device)

    def _batches(self) -> Iterator[list[int]]:
        """The remaining batches, a function of seed and step, so that a resumed run gets the same ones."""
        while not self._done:
            first = self.progress.step < self.joined
            rows = self.task.train if first else self.task.whole().train
            lengths = [self.task.lengths[row] for row in rows]
            each = -(-len(lengths) // self.run.batch_size)
            epoch, done = divmod(self.progress.step - (0 if first else self.joined), each)
            last = self.joined if first else self.steps
            plan = batches(lengths, batch_size=self.run.batch_size, seed=self.run.seed, epoch=epoch)
            for batch in plan[done : done + last - self.progress.step]:
                yield [rows[index] for index in batch]

    def _step(self, rows: list[int]) -> float:
        self.model.train()
        # Each process takes its share of the batch, so their number does not change the result of a step: the
        # mean over processes is that over rows, also where the shares differ in size.
        processes = self.accelerator.num_processes
        share = rows[self.accelerator.process_index :: processes]
        own = share or rows[:1]
        batch = self.task.batch(own, self.separator)
        batch = {name: tensor.to(self.accelerator.device) for name, tensor in batch.items()}
        output = self.model(**batch)
        loss = output.loss
        if self.task.weights is not None:  # a model's own loss weights all rows by 1
            loss = loss + self.task.loss(output.logits, own, less=1.0)
        loss = loss * (len(share) * processes / len(rows))
        whole = float(self.accelerator.reduce(loss.detach(), "mean"))
        if not math.isfinite(whole):
            raise FloatingPointError(
                f"the loss of {self.run.method} became {whole} at step {self.progress.step}; "
                f"lower learning_rate (now {self.run.learning_rate})."
            )
        self.accelerator.backward(loss)
        self.accelerator.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad()
        self.progress.step += 1
        return whole

    def _evaluate(self) -> float | None:
        """The loss on the held-out rows, if the best step is kept."""
        if not (self.task.valid and self.keeps_best):
            return None
        model = self.accelerator.unwrap_model(self.model)
        logits = self.task.target.logits(model, [self.task.encoded[row] for row in self.task.valid])
        loss = float(self.task.loss(logits, self.task.valid))
        if loss < self.progress.best_loss:
            self.progress.best_loss, self.progress.worse = loss, 0
            self.progress.best = {
                name: value.detach().cpu().clone() for name, value in model.state_dict().items()
            }
        else:
            self.progress.worse += 1
        return loss


def metrics_on(model: PreTrainedModel, task: _Task, test: Table) -> dict[str, Any]:
    """The scores on test rows, with `details`. A label that training never saw counts as wrong.

    ms_per_text      milliseconds per text, from text to logits
    accuracy_alone   accuracy of the Transformer's own logits, if a linear part is mixed in; of sets of labels
                     micro_f1_alone
    """
    target = task.target
    truth = target.truth(test.labels or [])
    logits, per_text = timed(
        lambda: target.logits(model, target.encode(task.vocabulary, test.texts, task.max_length)), test
    )
    answer = target.answers(logits)
    whole = task.vocabulary.encode(test.texts, max_length=WHOLE)
    found = {**target.scores(truth, answer), **target.details(truth, answer, list(map(len, whole)))}
    mixed = isinstance(model, VnaitForSequenceClassification) and model.bag.is_fitted
    if mixed and isinstance(target, Classes | LabelSets):
        ids = task.vocabulary.encode(test.texts, max_length=task.max_length)
        words = bag_of_words.bags_of(ids, model.bag.weights.numpy()) @ model.bag.logits.numpy()
        alone = logits - torch.from_numpy(words) - model.bag.bias
        name, score = next(iter(target.scores(truth, target.answers(alone)).items()))
        found[f"{name}_alone"] = score
    return {**found, "ms_per_text": per_text}


def _validation_metrics(model: PreTrainedModel, task: _Task) -> dict[str, float]:
    if not task.valid:
        return {}
    answer = task.target.answers(task.target.logits(model, [task.encoded[row] for row in task.valid]))
    found = task.target.scores([task.labels[row] for row in task.valid], answer)
    return {f"validation_{name}": value for name, value in found.items()}


def _facts(table: Table, test: Table | None, task: _Task) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": table.name,
        "fingerprint": table.fingerprint,
        "rows": len(table),
        **task.target.facts,
        "vectors": task.vocabulary.source,
        "vocabulary": len(task.vocabulary.tokenizer),
    }
    if isinstance(task.vocabulary, Vocabulary):
        facts["unknown_share"] = unknown_share(task.vocabulary.tokenizer, task.ids)
    if test is not None:
        facts.update(test_fingerprint=test.fingerprint, test_rows=len(test))
    return facts
