"""The length suite: trained on texts of 8 to 40 tokens, tested at 40, 80, 160, 320 and 500."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch
from torch import Generator

from vnait.model import VnaitForSequenceClassification
from vnait.shared.errors import InputError
from vnait_lab.study import Verdict
from vnait_lab.suites import suite
from vnait_lab.suites.suite import Score, Suite, answers, at_lengths, judged
from vnait_lab.suites.tasks import SHORTEST, TASKS, VOCABULARY, Task

TRAINED = 40
LENGTHS = (40, 80, 160, 320, 500)
FAR = (320, 500)
TOKENS = 20_000  # at a time in a test
# Below this accuracy at the training length a method has not learned the task, so its far lengths do not
# measure generalization.
LEARNED = 0.9
EACH, ALL = 0.95, 0.98  # the claim: at least this on every task, and as the mean over tasks


@dataclass(frozen=True, kw_only=True)
class Setting(suite.Setting):
    """Trained on 8 to 40 tokens."""

    steps: int = 1000
    learning_rate: float = 2e-3
    num_hidden_layers: int = 2
    tests: int = 200


QUICK = Setting(steps=160, tests=50)


def fit(
    method: str, task: Task, seeds: Sequence[int], setting: Setting
) -> list[VnaitForSequenceClassification]:
    """One trained classifier per seed; the seed decides its first weights and its texts."""
    for length in (SHORTEST, TRAINED):
        ids, classes = task.make(100, length, Generator().manual_seed(0))
        for what, made, limit in (("word", ids, VOCABULARY), ("class", classes, task.classes)):
            if not 0 <= int(made.min()) <= int(made.max()) < limit:
                raise InputError(
                    f"the task {task.asks!r} made texts with a {what} from {int(made.min())} to "
                    f"{int(made.max())}; take 0 to {limit - 1}."
                )
    models = [new_model(method, task, seed, setting) for seed in seeds]
    return suite.train(models, task.make, lengths=range(SHORTEST, TRAINED + 1), seeds=seeds, setting=setting)


def new_model(
    method: str, task: Any, seed: int, setting: Setting, **config: float
) -> VnaitForSequenceClassification:
    """An untrained classifier; `config` are further settings of `VnaitConfig`."""
    sizes = {"max_length": max(LENGTHS), "mean_length": (SHORTEST + TRAINED) / 2}
    return suite.new_model(
        VnaitForSequenceClassification,
        setting,
        seed,
        method=method,
        vocab_size=VOCABULARY,
        num_labels=task.classes,
        **{**sizes, **config},
    )


def score(
    model: VnaitForSequenceClassification, task: Task, length: int, count: int, random: Generator
) -> float:
    """The accuracy on `count` new texts; 0 if the method refuses the length."""
    ids, classes = task.make(count, length, random)
    # The mask is passed, since a task of the user's may have words of id 0, which is padding's.
    rows = max(1, TOKENS // length)
    answer = answers(lambda part: model(part, torch.ones_like(part)).logits, ids, rows=rows)
    return 0.0 if answer is None else float((answer == classes).float().mean())


SUITE = Suite(
    name="length",
    tasks=TASKS,
    setting=Setting(),
    fit=fit,
    scores=at_lengths(score, LENGTHS),
    facts=lambda task: {"family": task.family, "trained": [SHORTEST, TRAINED]},
    shown=("family",),
)


def learned(score: Score) -> bool:
    """Whether the method learned the task at the training length."""
    return score.mean(f"accuracy_{TRAINED}") >= LEARNED


def verdict(scores: Sequence[Score], method: str, *, tasks: Sequence[str] = tuple(TASKS)) -> Verdict:
    """The claim: at 320 and 500 tokens `method` has an accuracy of 0.95 or more on every task, and of 0.98 or
    more on average.

    Tasks that other methods ran and no method learned do not count. Undecided with fewer than 3 seeds, or
    while `method` has not run all of `tasks`.
    """
    ran = [score for score in scores if score.method == method]
    tried = {score.task for score in scores if score.method != method}
    learnable = {score.task for score in scores if learned(score)}
    counted = [score for score in ran if score.task in learnable or score.task not in tried]
    if not counted:
        return Verdict("undecided", f"{method} was not run on a task that any method learned")
    accuracy = {(score.task, length): score.mean(f"accuracy_{length}") for score in counted for length in FAR}
    mean = fmean(accuracy.values())
    words = f"{100 * mean:.1f} % on average over {len(counted)} tasks at 320 and 500 tokens"
    short = sorted((value, task, length) for (task, length), value in accuracy.items() if value < EACH)
    if short:
        words += "; short of 95: "
        words += ", ".join(f"{task} at {length} ({100 * value:.1f})" for value, task, length in short)
    return judged(
        not short and mean >= ALL,
        words,
        seeds=min(score.seeds for score in counted),
        missing=[name for name in tasks if name not in {score.task for score in ran}],
    )
