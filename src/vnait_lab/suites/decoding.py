"""The decoding suite: a decoder trained on questions up to half of the longest answers longer ones.

As in Kazemnejad et al. (arXiv 2305.19466): ten tasks, an answer is right if all of its tokens are, and
methods are compared by their mean reciprocal rank over tasks. One forward pass over question and answer is
enough: greedy decoding writes the answer if and only if every next token is right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import torch
from jaxtyping import Int
from scipy.stats import rankdata
from torch import Generator, Tensor
from torch.nn.utils.rnn import pad_sequence

from vnait.model import VnaitForCausalLM
from vnait.shared.errors import InputError
from vnait.train.tasks.tags import IGNORED
from vnait_lab.study import Verdict
from vnait_lab.suites import suite
from vnait_lab.suites.questions import QUESTIONS, Question
from vnait_lab.suites.suite import Score, Standing, Suite, answers, judged, run_by_all, standings

NEAR, FAR = 50, (60, 70, 80, 90, 100)  # lengths in % of a task's longest; trained up to NEAR
LONGEST_TEXT = 256  # tokens of a question, its answer and their ends, of any task here


@dataclass(frozen=True, kw_only=True)
class Setting(suite.Setting):
    """Trained on questions of up to half of the longest."""

    steps: int = 3000
    learning_rate: float = 3e-3
    intermediate_size: int = 128
    num_hidden_layers: int = 4
    tests: int = 100


QUICK = Setting(steps=80, tests=20)


def lengths_of(task: Question) -> dict[int, int]:
    """The lengths tested, by their share of the longest in %; the first is the longest trained on.

    >>> lengths_of(QUESTIONS["scan"])
    {50: 24, 60: 28, 70: 33, 80: 38, 90: 43, 100: 48}
    """
    return {share: task.longest * share // 100 for share in (NEAR, *FAR)}


def training_lengths(task: Question) -> range:
    return range(1, lengths_of(task)[NEAR] + 1)


def fit(method: str, task: Question, seeds: Sequence[int], setting: Setting) -> list[VnaitForCausalLM]:
    """One trained decoder per seed; the seed decides its first weights and its texts."""
    models = [new_model(method, task, seed, setting) for seed in seeds]
    make = partial(encode, task)
    return suite.train(models, make, lengths=training_lengths(task), seeds=seeds, setting=setting)


def new_model(method: str, task: Question, seed: int, setting: Setting) -> VnaitForCausalLM:
    """An untrained decoder. A table of the method has a row for every position of the longest text."""

    def sizes(length: int) -> list[int]:
        """Tokens of 20 texts."""
        pairs = task.make(20, length, Generator().manual_seed(0))
        return [len(question) + len(answer) + 2 for question, answer in pairs]

    trained_on = [size for length in training_lengths(task) for size in sizes(length)]
    return suite.new_model(
        VnaitForCausalLM,
        setting,
        seed,
        method=method,
        vocab_size=len(task.tokens) + 3,  # padding, the end of a question, and of an answer
        max_length=max(LONGEST_TEXT, *sizes(task.longest)),
        mean_length=sum(trained_on) / len(trained_on),
    )


def encode(
    task: Question, count: int, length: int, random: Generator
) -> tuple[Int[Tensor, "N T"], Int[Tensor, "N T"]]:
    """Ids: a question, its end, the answer, its end, padding. Labels: the answer and its end, `IGNORED`
    elsewhere.
    """
    numbers = {token: number for number, token in enumerate(task.tokens, start=1)}
    middle, end = len(numbers) + 1, len(numbers) + 2
    ids, labels = [], []
    for question, answer in task.make(count, length, random):
        if unknown := [token for token in [*question, *answer] if token not in numbers]:
            raise InputError(
                f"a question or its answer has the token {unknown[0]!r}, which the task's `tokens` lack; "
                "add it there."
            )
        read = [*(numbers[token] for token in question), middle]
        written = [*(numbers[token] for token in answer), end]
        ids.append(torch.tensor(read + written))
        labels.append(torch.tensor([IGNORED] * len(read) + written))
    return pad_sequence(ids, batch_first=True), pad_sequence(labels, batch_first=True, padding_value=IGNORED)


def scores(model: VnaitForCausalLM, task: Question, setting: Setting, random: Generator) -> dict[str, float]:
    """The share of new questions with a right answer, at every length."""
    return {
        f"exact_{share}": score(model, task, length, setting.tests, random)
        for share, length in lengths_of(task).items()
    }


def score(model: VnaitForCausalLM, task: Question, length: int, tests: int, random: Generator) -> float:
    """The share of new questions whose whole answer is right; 0 if the method refuses the length."""
    ids, labels = encode(task, tests, length, random)
    answer = answers(lambda part: model(part).logits[:, :-1], ids, rows=tests)
    if answer is None:
        return 0.0
    right = (answer == labels[:, 1:]) | (labels[:, 1:] == IGNORED)
    return float(right.all(-1).float().mean())


def columns(metrics: Mapping[str, float]) -> dict[str, float]:
    """Exact answers at the longest length trained on, and their mean over all longer ones."""
    return {
        "exact_near": metrics[f"exact_{NEAR}"],
        "exact_far": fmean(metrics[f"exact_{share}"] for share in FAR),
    }


SUITE = Suite(
    name="decoding",
    tasks=QUESTIONS,
    setting=Setting(),
    fit=fit,
    scores=scores,
    facts=lambda task: {"counts": task.counts, "lengths": list(lengths_of(task).values())},
    columns=columns,
)


def overall(scores: Sequence[Score]) -> list[Standing]:
    """Means over tasks; `mrr` is the mean of 1 / rank, and methods that are equal on a task share a rank."""
    ranks: dict[tuple[str, str], float] = {}
    for task in dict.fromkeys(score.task for score in scores):
        on_task = [score for score in scores if score.task == task]
        by_rank = rankdata([-score.mean("exact_far") for score in on_task])
        ranks |= {(score.method, task): float(rank) for score, rank in zip(on_task, by_rank, strict=True)}

    def means(scores: Sequence[Score]) -> dict[str, float]:
        return {
            "exact_near": fmean(score.mean("exact_near") for score in scores),
            "exact_far": fmean(score.mean("exact_far") for score in scores),
            "mrr": fmean(1 / ranks[score.method, score.task] for score in scores),
        }

    return standings(scores, means, by="mrr")


def verdict(scores: Sequence[Score], method: str, *, tasks: Sequence[str] = tuple(QUESTIONS)) -> Verdict:
    """The claim: past the training length `method` has the highest mean reciprocal rank, over the tasks that
    all methods ran.

    Undecided with fewer than 3 seeds, without a rival, or while some of `tasks` are missing.
    """
    methods = {score.method for score in scores}
    if method not in methods or len(methods) == 1:
        return Verdict("undecided", f"{method} was compared with nothing")
    shared = run_by_all(scores)
    if not shared:
        return Verdict("undecided", "no task was run by all methods")
    ranked = overall(shared)
    (ours,) = (standing for standing in ranked if standing.method == method)
    rival = next(standing for standing in ranked if standing is not ours)  # the best comes first
    done = {score.task for score in shared}
    return judged(
        ours.means["mrr"] > rival.means["mrr"],
        f"mean reciprocal rank {ours.means['mrr']:.2f} over {len(done)} tasks, "
        f"{100 * ours.means['exact_far']:.1f} % of answers; "
        f"{rival.method} {rival.means['mrr']:.2f}, {100 * rival.means['exact_far']:.1f} %",
        seeds=min(standing.seeds for standing in ranked),
        missing=[name for name in tasks if name not in done],
    )
