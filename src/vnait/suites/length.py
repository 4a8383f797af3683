"""The length suite: trained on texts of 8 to 40 tokens, tested at 40, 80, 160, 320 and 500. One cell, one `Record`; a suite resumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator

from vnait.errors import InputError
from vnait.model import VnaitConfig, VnaitForSequenceClassification
from vnait.record import Record
from vnait.statistics import UNIT, interval
from vnait.suites.cells import SEEDS, Budget, Suite, by_method_and_task, seeded, trained
from vnait.suites.tasks import SHORTEST, TASKS, VOCABULARY, Task

TRAINED = 40
LENGTHS = (40, 80, 160, 320, 500)
FAR = (320, 500)
LEARNED = 0.9  # below it at the training length a method has not learned the task, and its far lengths say nothing of generalization
EACH, ALL = 0.95, 0.98  # what the claim asks of every task, and of their mean


@dataclass(frozen=True, kw_only=True)
class Setting(Budget):
    """One budget for every method and task. Every text of a batch has the same length, drawn evenly from 8 to 40."""

    steps: int = 1000
    batch: int = 16
    learning_rate: float = 2e-3
    warmup: int = 50
    weight_decay: float = 0.01
    hidden_size: int = 64
    num_hidden_layers: int = 2
    num_attention_heads: int = 4
    tests: int = 200


QUICK = Setting(steps=160, tests=50)


def fit(method: str, task: Task, seeds: Sequence[int], setting: Setting) -> list[VnaitForSequenceClassification]:
    """A trained classifier a seed, which decides its starting weights and its texts."""
    _check(task)
    models = [new_model(method, task, seed, setting) for seed in seeds]
    return trained(models, task.make, shortest=SHORTEST, longest=TRAINED, seeds=seeds, budget=setting)


def new_model(method: str, task: Task, seed: int, setting: Setting) -> VnaitForSequenceClassification:
    """An untrained classifier; what two methods share starts equal."""
    config = VnaitConfig(
        method=method,
        vocab_size=VOCABULARY,
        hidden_size=setting.hidden_size,
        num_hidden_layers=setting.num_hidden_layers,
        num_attention_heads=setting.num_attention_heads,
        max_length=max(LENGTHS),
        mean_length=(SHORTEST + TRAINED) / 2,
        dropout=0.0,
        num_labels=task.classes,
    )
    return seeded(lambda: VnaitForSequenceClassification(config), seed)


def _check(task: Task) -> None:
    """An error in words where its texts don't fit a model of the suite."""
    for length in (SHORTEST, TRAINED):
        ids, classes = task.make(100, length, Generator().manual_seed(0))
        for what, given, most in (("word", ids, VOCABULARY), ("class", classes, task.classes)):
            if not 0 <= int(given.min()) <= int(given.max()) < most:
                raise InputError(
                    f"the task {task.asks!r} made texts with a {what} from {int(given.min())} to {int(given.max())}; take 0 to {most - 1}."
                )


def scores(model: VnaitForSequenceClassification, task: Task, setting: Setting, random: Generator) -> dict[str, float]:
    """The accuracy on new texts, at every length."""
    return {f"accuracy_{length}": score(model, task, length, setting.tests, random) for length in LENGTHS}


@torch.no_grad()
def score(model: VnaitForSequenceClassification, task: Task, length: int, count: int, random: Generator) -> float:
    """The share of `count` new texts that are answered rightly; 0 where the method refuses the length."""
    ids, classes = task.make(count, length, random)
    some = max(1, 20_000 // length)  # tokens at a time: a bias of long texts is large
    try:
        answers = torch.cat([model(part, torch.ones_like(part)).logits.argmax(-1) for part in ids.split(some)])
    except ValueError:
        return 0.0
    return float((answers == classes).float().mean())


def facts(task: Task) -> dict[str, Any]:
    """What a record says of a task."""
    return {"family": task.family, "trained": [SHORTEST, TRAINED]}


SUITE = Suite(name="length", tasks=TASKS, fit=fit, scores=scores, facts=facts)
run_suite = SUITE.run


def summary(found: Sequence[Record]) -> list[dict[str, Any]]:
    """A row a method and task: mean accuracy over seeds at every length, with its interval, and whether it learned the task at all."""
    rows: list[dict[str, Any]] = []
    for (method, task), own in by_method_and_task(found).items():
        row: dict[str, Any] = {"method": method, "task": task, "family": own[0].data["family"], "seeds": len(own)}
        for length in LENGTHS:
            mean, low, high = interval([record.metrics[f"accuracy_{length}"] for record in own], within=UNIT)
            row |= {f"accuracy_{length}": mean, f"ci_low_{length}": low, f"ci_high_{length}": high}
        row["learned"] = row[f"accuracy_{TRAINED}"] >= LEARNED
        rows.append(row)
    return rows


def verdict(rows: Sequence[dict[str, Any]], method: str, *, tasks: Sequence[str] = tuple(TASKS)) -> tuple[str, str]:
    """The claim that `method` holds at 320 and 500 tokens what it learned at 40: every task at 0.95, their mean at 0.98.

    Left out are tasks that other methods have run too and none has learned. "confirmed" or "refuted" by the means, from 3 seeds on, and
    "undecided" before, or while `method` has not run all of `tasks`.
    """
    own = [row for row in rows if row["method"] == method]
    tried = {row["task"] for row in rows if row["method"] != method}
    learned = {row["task"] for row in rows if row["learned"]}
    asked = [row for row in own if row["task"] in learned or row["task"] not in tried]
    if not asked:
        return "undecided", f"{method} was not run on a task that any method learned"
    scores = {(row["task"], length): row[f"accuracy_{length}"] for row in asked for length in FAR}
    mean = sum(scores.values()) / len(scores)
    short = {cell: score for cell, score in scores.items() if score < EACH}
    said = f"{100 * mean:.1f} % on average over {len(asked)} tasks at 320 and 500 tokens"
    if short:
        worst = sorted(short, key=lambda cell: short[cell])
        said += "; short of 95: " + ", ".join(
            f"{task} at {length} ({100 * short[task, length]:.1f})" for task, length in worst
        )
    if min(row["seeds"] for row in asked) < SEEDS:
        return "undecided", f"{said}; fewer than {SEEDS} seeds"
    if left := [name for name in tasks if all(row["task"] != name for row in own)]:
        return "undecided", f"{said}; not run yet: {', '.join(left)}"
    return ("confirmed" if not short and mean >= ALL else "refuted"), said
