"""The training loop, on accelerate."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator

import torch
from accelerate import Accelerator, InitProcessGroupKwargs
from accelerate.utils import broadcast_object_list
from transformers import PreTrainedModel, get_linear_schedule_with_warmup

from vnait.data import batches
from vnait.data.vocabulary import Vocabulary
from vnait.positions.gradients import gradient_shares
from vnait.pretrained.lora import has_lora, learned, save_states_without_base
from vnait.shared.processes import WAIT, computing, on_cpu
from vnait.shared.randomness import Draws, draws_itself
from vnait.train.bag_of_words import sif_weights
from vnait.train.base import groups
from vnait.train.checkpoints import Checkpoints, Progress
from vnait.train.continued import Continued
from vnait.train.labelled import Labelled
from vnait.train.logits import SEPARATOR
from vnait.train.mixing import chooses, mix
from vnait.train.models import new_model
from vnait.train.run import Run
from vnait.train.tracking import Status


class Loop:
    """One training loop on accelerate.

    The first two thirds of the steps use the rows not held out; then the model is scored on the held-out
    rows, and the last third uses all rows. With more rows than `Run.early_stopping`, the first part ends
    early, at the step with the best validation loss, and the last is half as long as the way to that step.
    With `Run.holdout` that step is the model, and the held-out rows are never learned.
    """

    def __init__(self, run: Run, labelled: Labelled, checkpoints: Checkpoints) -> None:
        self.run, self.labelled, self.checkpoints = run, labelled, checkpoints
        self.steps = run.total_steps(len(labelled.train))
        self.joins = bool(labelled.valid) and not run.holdout
        self.keeps_best = bool(labelled.valid) and (run.holdout or len(labelled.labels) > run.early_stopping)
        self.draws = Draws(run.seed)
        lengths = [labelled.lengths[row] for row in labelled.train]
        target = labelled.target
        model = new_model(labelled.vocabulary, run, target.names, lengths, target.task, draws=self.draws)
        self.drawing = self.draws.everywhere if draws_itself(model) else self.draws.inside
        self.separator = getattr(model.config, SEPARATOR, None)
        weights = None if labelled.weights is None else labelled.weights[labelled.train]
        if isinstance(labelled.vocabulary, Continued):
            target.resume(model)
        else:
            target.start(model, [labelled.labels[row] for row in labelled.train], weights)
        optimizer = torch.optim.AdamW(groups(model, run), lr=run.rate, fused=True)
        schedule = get_linear_schedule_with_warmup(optimizer, int(run.warmup * self.steps), self.steps)
        self.accelerator = Accelerator(
            cpu=on_cpu(),
            step_scheduler_with_optimizer=False,
            kwargs_handlers=[InitProcessGroupKwargs(timeout=WAIT)],
        )
        self.model, self.optimizer, self.schedule = self.accelerator.prepare(model, optimizer, schedule)
        if has_lora(model):
            save_states_without_base(self.accelerator, model)
        self.progress = Progress(joined=max(self.steps * 2 // 3, 1) if self.joins else self.steps)

    def train(self, callback: Callable[[Status], None]) -> None:
        """Train to the last step, or, if the best is kept, until `patience` evaluations are not better."""
        self.checkpoints.resume(self.accelerator, self.progress, self.draws)
        started = time.perf_counter() - self.progress.seconds
        for rows in self._batches():
            rate = self.schedule.get_last_lr()[0]
            with computing():
                loss, gradient = self._step(rows)
            step = self.progress.step
            self.progress.seconds = time.perf_counter() - started
            evaluates = step % self.run.steps_between(self.steps) == 0 or step in (
                self.progress.joined,
                self.steps,
            )
            validation_loss = self._evaluate() if evaluates and step <= self.progress.joined else None
            if self.joins and (step == self.progress.joined or self._stops_early):
                self._join()
            callback(
                Status(
                    step=step,
                    steps=self.steps,
                    loss=loss,
                    learning_rate=rate,
                    validation_loss=validation_loss,
                    gradient=gradient,
                )
            )
            if evaluates:
                self.checkpoints.save(self.accelerator, self.progress, self.draws)
            if self._done:
                return

    def model_of(self, labelled: Labelled) -> tuple[PreTrainedModel, float]:
        """The model with a linear part of the labelled's rows mixed in, and the share of that part."""
        model: PreTrainedModel = self.accelerator.unwrap_model(self.model)
        if self.progress.best:
            model.load_state_dict(self.progress.best, strict=not has_lora(model))
        model = model.cpu().eval()
        share = self._mix(model, labelled) if hasattr(model, "bag") and self.run.bag != 0 else 0.0
        labelled.target.finish(model)
        return model, share

    def _mix(self, model: PreTrainedModel, labelled: Labelled) -> float:
        """Mix a linear part into the model, and return its share. The first process does it for all, since
        that takes all rows.
        """
        share = 0.0
        if self.accelerator.is_main_process:
            assert isinstance(labelled.vocabulary, Vocabulary)
            ids = [labelled.ids[row] for row in labelled.train]
            labels = labelled.target.tensor([labelled.labels[row] for row in labelled.train]).tolist()
            special = labelled.vocabulary.tokenizer.all_special_ids
            weights = sif_weights(labelled.vocabulary.frequency, special)
            each = None if labelled.weights is None else labelled.weights[labelled.train]
            share = mix(model, ids, labels, weights, self.run.bag, each, chooses(self.run))
        if self.accelerator.num_processes > 1:
            share, bag, state = broadcast_object_list([share, model.bag, model.state_dict()])
            model.take(bag)
            model.load_state_dict(state)
        return share

    @property
    def _stops_early(self) -> bool:
        return self.keeps_best and self.progress.worse >= self.run.patience

    @property
    def _done(self) -> bool:
        return self.progress.step >= self.steps or (self._stops_early and not self.joins)

    def _join(self) -> None:
        """Go back to the best step if there is one, score it, and go on to the steps that use all rows."""
        if self.progress.best:
            model: PreTrainedModel = self.accelerator.unwrap_model(self.model)
            model.load_state_dict(self.progress.best, strict=not has_lora(model))
            if self._stops_early:
                self._skip_to(self.steps - max(self.progress.best_step // 2, 1))
            self.progress.best, self.progress.worse = {}, 0
        self._validate()

    def _skip_to(self, step: int) -> None:
        """Make `step` the next one, with its learning rate."""
        self.progress.step = self.progress.joined = step
        self.schedule.scheduler.last_epoch = step - 1
        self.schedule.scheduler.step()

    def _validate(self) -> None:
        """Score the model, with the linear part mixed in, on the held-out rows; then restore its weights."""
        model = self.accelerator.unwrap_model(self.model)
        bag = getattr(model, "bag", None)
        before = {name: value.detach().clone() for name, value in learned(model).items()}
        self.progress.validation = self.labelled.validation_metrics(self.model_of(self.labelled)[0])
        if bag is not None:
            model.take(bag)
        model.load_state_dict(before, strict=not has_lora(model))
        model.to(self.accelerator.device)

    def _batches(self) -> Iterator[list[int]]:
        """The remaining batches, a function of seed and step, so that a resumed run gets the same ones."""
        while not self._done:
            joined = self.progress.joined
            first = self.progress.step < joined
            rows = self.labelled.train if first else self.labelled.whole().train
            lengths = [self.labelled.lengths[row] for row in rows]
            each = -(-len(lengths) // self.run.batch_size)
            epoch, done = divmod(self.progress.step - (0 if first else joined), each)
            last = joined if first else self.steps
            plan = batches(lengths, batch_size=self.run.batch_size, seed=self.run.seed, epoch=epoch)
            for batch in plan[done : done + last - self.progress.step]:
                yield [rows[index] for index in batch]
                if self.progress.joined != joined:  # the first part ended early
                    break

    def _step(self, rows: list[int]) -> tuple[float, dict[str, float]]:
        """The loss of a step, and the shares of the gradient."""
        self.model.train()
        # Each process takes its share of the batch, so their number does not change the result of a step: the
        # mean over processes is that over rows, also where the shares differ in size.
        processes = self.accelerator.num_processes
        share = rows[self.accelerator.process_index :: processes]
        local_rows = share or rows[:1]
        batch = self.labelled.batch(local_rows, self.separator)
        batch = {name: tensor.to(self.accelerator.device) for name, tensor in batch.items()}
        with self.drawing():
            output = self.model(**batch)
        loss = output.loss
        if self.labelled.weights is not None:  # a model's own loss weights all rows by 1
            loss = loss + self.labelled.loss(output.logits, local_rows, less=1.0)
        loss = loss * (len(share) * processes / len(rows))
        whole = float(self.accelerator.reduce(loss.detach(), "mean"))
        if not math.isfinite(whole):
            raise FloatingPointError(
                f"the loss of {self.run.method} became {whole} at step {self.progress.step}; "
                f"lower learning_rate (now {self.run.rate})."
            )
        self.accelerator.backward(loss)
        gradient = gradient_shares(self.accelerator.unwrap_model(self.model))
        self.accelerator.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad()
        self.progress.step += 1
        return whole, gradient

    def _evaluate(self) -> float | None:
        """The loss on the held-out rows, if the best step is kept."""
        if not self.keeps_best:
            return None
        progress, loss = self.progress, self._validation_loss()
        if loss < progress.best_loss:
            model = self.accelerator.unwrap_model(self.model)
            progress.best_loss, progress.best_step, progress.worse = loss, progress.step, 0
            progress.best = {name: value.detach().cpu().clone() for name, value in learned(model).items()}
        else:
            progress.worse += 1
        return loss

    def _validation_loss(self) -> float:
        rows = self.labelled.valid
        model = self.accelerator.unwrap_model(self.model)
        logits = self.labelled.target.logits(model, [self.labelled.encoded[row] for row in rows])
        return float(self.labelled.loss(logits, rows))
