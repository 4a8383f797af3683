"""The decoding suite: a decoder trained on questions up to half of the longest answers longer ones. One cell, one `Record`; it resumes.

As in Kazemnejad et al. (arXiv 2305.19466): ten tasks, an answer is right where all of its tokens are, methods are compared by their mean
reciprocal rank over tasks. What greedy decoding writes is read off one pass: it is the answer if and only if every next token is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Int
from scipy.stats import rankdata
from torch import Generator, Tensor
from torch.nn.utils.rnn import pad_sequence

from vnait.errors import InputError
from vnait.model import VnaitConfig, VnaitForCausalLM
from vnait.record import Record
from vnait.statistics import UNIT, interval
from vnait.suites.cells import SEEDS, UNASKED, Budget, Suite, by_method_and_task, run_by_all, seeded, trained
from vnait.suites.questions import QUESTIONS, Question

NEAR, FAR = 50, (60, 70, 80, 90, 100)  # lengths, in % of a task's longest; trained up to the first
MOST = 256  # tokens of a question with its answer and both ends, in any task here


@dataclass(frozen=True, kw_only=True)
class Setting(Budget):
    """One budget for every method and task. Every question of a batch has the same length, drawn evenly."""

    steps: int = 3000
    batch: int = 16
    learning_rate: float = 3e-3
    warmup: int = 50
    weight_decay: float = 0.01
    hidden_size: int = 64
    intermediate_size: int = 128
    num_hidden_layers: int = 4
    num_attention_heads: int = 4
    tests: int = 100


QUICK = Setting(steps=80, tests=20)


def lengths_of(task: Question) -> dict[int, int]:
    """The lengths tested, by their share of the longest in %; the first is the longest trained on.

    >>> lengths_of(QUESTIONS["scan"])
    {50: 24, 60: 28, 70: 33, 80: 38, 90: 43, 100: 48}
    """
    return {share: task.longest * share // 100 for share in (NEAR, *FAR)}


def fit(method: str, task: Question, seeds: Sequence[int], setting: Setting) -> list[VnaitForCausalLM]:
    """A trained decoder a seed, which decides its starting weights and its texts."""
    models = [new_model(method, task, seed, setting) for seed in seeds]
    return trained(
        models,
        partial(asked, task),
        shortest=task.shortest,
        longest=lengths_of(task)[NEAR],
        seeds=seeds,
        budget=setting,
    )


def new_model(method: str, task: Question, seed: int, setting: Setting) -> VnaitForCausalLM:
    """An untrained decoder; what two methods share starts equal. A method with a table has a row for every place there may be."""
    config = VnaitConfig(
        method=method,
        vocab_size=len(task.tokens) + 3,  # padding, the end of a question, and of an answer
        hidden_size=setting.hidden_size,
        intermediate_size=setting.intermediate_size,
        num_hidden_layers=setting.num_hidden_layers,
        num_attention_heads=setting.num_attention_heads,
        max_length=max(MOST, _longest_text(task)),
        mean_length=mean_length(task),
        dropout=0.0,
    )
    return seeded(lambda: VnaitForCausalLM(config), seed)


def _longest_text(task: Question) -> int:
    """In tokens, of 20 of its longest."""
    return max(len(one) + len(two) + 2 for one, two in task.make(20, task.longest, Generator().manual_seed(0)))


def mean_length(task: Question) -> float:
    """Of training texts in tokens, over 20 of each length."""
    lengths = range(task.shortest, lengths_of(task)[NEAR] + 1)
    sizes = [
        len(one) + len(two) + 2 for length in lengths for one, two in task.make(20, length, Generator().manual_seed(0))
    ]
    return sum(sizes) / len(sizes)


def asked(task: Question, count: int, length: int, random: Generator) -> tuple[Int[Tensor, "N T"], Int[Tensor, "N T"]]:
    """ids: a question, its end, the answer, its end, then padding; labels: the answer and its end, `UNASKED` elsewhere."""
    number = _Numbers({token: i for i, token in enumerate(task.tokens, start=1)})
    middle, end = len(number) + 1, len(number) + 2
    ids, labels = [], []
    for question, answer in task.make(count, length, random):
        read, written = [*(number[token] for token in question), middle], [*(number[token] for token in answer), end]
        ids.append(torch.tensor(read + written))
        labels.append(torch.tensor([UNASKED] * len(read) + written))
    return pad_sequence(ids, batch_first=True), pad_sequence(labels, batch_first=True, padding_value=UNASKED)


class _Numbers(dict[str, int]):
    def __missing__(self, token: str) -> int:
        raise InputError(
            f"a question or its answer has the token {token!r}, which the task's `tokens` lack; add it there."
        )


def scores(model: VnaitForCausalLM, task: Question, setting: Setting, random: Generator) -> dict[str, float]:
    """The share of new questions that are answered rightly, at every length."""
    return {
        f"exact_{share}": score(model, task, length, setting.tests, random)
        for share, length in lengths_of(task).items()
    }


@torch.no_grad()
def score(model: VnaitForCausalLM, task: Question, length: int, tests: int, random: Generator) -> float:
    """The share of new questions whose whole answer is right; 0 where the method refuses the length."""
    ids, labels = asked(task, tests, length, random)
    try:
        found = model(ids).logits[:, :-1].argmax(-1)
    except ValueError:
        return 0.0
    right = (found == labels[:, 1:]) | (labels[:, 1:] == UNASKED)
    return float(right.all(-1).float().mean())


def facts(task: Question) -> dict[str, Any]:
    """What a record says of a task."""
    return {"counts": task.counts, "lengths": list(lengths_of(task).values())}


SUITE = Suite(name="decoding", tasks=QUESTIONS, fit=fit, scores=scores, facts=facts)
run_suite = SUITE.run


def summary(found: Sequence[Record]) -> list[dict[str, Any]]:
    """A row a method and task: exact answers, mean over seeds, at the longest trained on (`near`) and over all longer ones (`far`)."""
    rows: list[dict[str, Any]] = []
    for (method, task), own in by_method_and_task(found).items():
        row: dict[str, Any] = {"method": method, "task": task, "seeds": len(own)}
        for name, shares in (("near", (NEAR,)), ("far", FAR)):
            mean, low, high = interval(
                [_mean(one.metrics[f"exact_{share}"] for share in shares) for one in own], within=UNIT
            )
            row |= {f"exact_{name}": mean, f"ci_low_{name}": low, f"ci_high_{name}": high}
        rows.append(row)
    return rows


def overall(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row a method, the best first: means over tasks, and `mrr`, the mean of 1 / its rank in each task, where equals share one."""
    ranks: dict[tuple[str, str], float] = {}
    for task in dict.fromkeys(row["task"] for row in rows):
        own = [row for row in rows if row["task"] == task]
        for row, rank in zip(own, rankdata([-row["exact_far"] for row in own]), strict=True):
            ranks[row["method"], task] = float(rank)
    found = []
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        found.append(
            {
                "method": method,
                "tasks": len(own),
                "seeds": min(row["seeds"] for row in own),
                "exact_near": _mean(row["exact_near"] for row in own),
                "exact_far": _mean(row["exact_far"] for row in own),
                "mrr": _mean(1 / ranks[method, row["task"]] for row in own),
            }
        )
    return sorted(found, key=lambda row: -row["mrr"])


def verdict(rows: Sequence[dict[str, Any]], method: str, *, tasks: Sequence[str] = tuple(QUESTIONS)) -> tuple[str, str]:
    """The claim that `method` has the highest mean reciprocal rank past the training length, over the tasks that all methods have run.

    "undecided" below 3 seeds, without a rival, or while some of `tasks` were not run by all.
    """
    methods = {row["method"] for row in rows}
    if method not in methods or len(methods) == 1:
        return "undecided", f"{method} was compared with nothing"
    if not (shared := run_by_all(rows)):
        return "undecided", "no task was run by all methods"
    by_method = {row["method"]: row for row in overall(shared)}
    best = max((name for name in by_method if name != method), key=lambda name: float(by_method[name]["mrr"]))
    own, rival, done = by_method[method], by_method[best], {row["task"] for row in shared}
    said = (
        f"mean reciprocal rank {own['mrr']:.2f} over {len(done)} tasks, {100 * own['exact_far']:.1f} % of answers; "
        f"{best} {rival['mrr']:.2f}, {100 * rival['exact_far']:.1f} %"
    )
    if min(row["seeds"] for row in by_method.values()) < SEEDS:
        return "undecided", f"{said}; fewer than {SEEDS} seeds"
    if left := [name for name in tasks if name not in done]:
        return "undecided", f"{said}; not run by all yet: {', '.join(left)}"
    return ("confirmed" if own["mrr"] > rival["mrr"] else "refuted"), said


def _mean(values: Iterable[float]) -> float:
    values = list(values)
    return sum(values) / len(values)
