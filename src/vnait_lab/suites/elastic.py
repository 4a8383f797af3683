"""The elastic suite: what counts must be counted, not what stands there. Trained on 8 to 40 tokens, tested at
40, 160, 320 and 500. The models are the length suite's; training is three times as long, since a weight of a
token is learned only once the model can answer where no filler stands between.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import torch
from torch import Generator, Tensor

from vnait.model import VnaitForSequenceClassification
from vnait.positions.building import build
from vnait.shared.randomness import preserved_generators
from vnait_lab.study import Verdict
from vnait_lab.suites import suite
from vnait_lab.suites.fillers import ORACLES, TASKS, Task, condensed
from vnait_lab.suites.length import FAR, TOKENS, TRAINED, Setting, new_model
from vnait_lab.suites.suite import Score, Suite, answers, at_lengths, judged
from vnait_lab.suites.tasks import SHORTEST

LENGTHS = (40, 160, 320, 500)
EACH, ALL, AHEAD = 0.9, 0.95, 0.3  # the claim: on every task, on average, and above methods of the raw index
CONTROL = "vnait-uniform"
HELPED, ALONE = 0.95, 0.75  # a task counts if the control is right with the oracle's help, and wrong without


def fit(
    method: str, task: Task, seeds: Sequence[int], setting: Setting
) -> list[VnaitForSequenceClassification]:
    """One trained classifier per seed; the seed decides its first weights and its texts."""
    return train([untrained(method, task, seed, setting) for seed in seeds], task, seeds, setting)


def untrained(
    method: str, task: Task, seed: int, setting: Setting, **config: float
) -> VnaitForSequenceClassification:
    """A new classifier; `config` are further settings of `VnaitConfig`."""
    longest = 2 * max(LENGTHS)  # an oracle writes heavy words twice
    return new_model(method, task, seed, setting, max_length=longest, **config)


def train(
    models: list[VnaitForSequenceClassification], task: Task, seeds: Sequence[int], setting: Setting
) -> list[VnaitForSequenceClassification]:
    """Train each model on the texts of its seed."""

    def make(count: int, length: int, random: Generator) -> tuple[Tensor, Tensor]:
        ids, classes, _ = task.make(count, length, random, not task.oracle)
        return ids, classes

    return suite.train(models, make, lengths=range(SHORTEST, TRAINED + 1), seeds=seeds, setting=setting)


@torch.no_grad()
def score(
    model: VnaitForSequenceClassification, task: Task, length: int, count: int, random: Generator
) -> float:
    """The accuracy on `count` new texts; 0 if the method refuses the length."""
    ids, classes, weights = task.make(count, length, random, True)
    if not task.oracle:
        answer = answers(lambda part: model(part).logits, ids, rows=max(1, TOKENS // length))
        return 0.0 if answer is None else float((answer == classes).float().mean())
    texts = zip(ids, weights, strict=True)  # one at a time: without filler they differ in length
    right = [
        torch.equal(model(condensed(*text)[None]).logits.argmax(-1), answer)
        for text, answer in zip(texts, classes.split(1), strict=True)
    ]
    return sum(right) / count


SUITE = Suite(
    name="elastic",
    tasks={**TASKS, **ORACLES},
    setting=Setting(steps=3000),
    fit=fit,
    scores=at_lengths(score, LENGTHS),
    facts=lambda task: {"filler": task.filler, "trained": [SHORTEST, TRAINED]},
    shown=("filler",),
)


def reads_words(method: str) -> bool:
    """Whether the coordinates of a method depend on the words of a text."""
    with preserved_generators(), torch.no_grad():
        torch.manual_seed(0)
        built = build(method, dim=32, num_heads=4).eval()
        for parameter in built.coordinates.parameters():
            parameter.add_(torch.randn_like(parameter))
        words, mask = torch.randn(2, 8, 32), torch.ones(2, 8, dtype=torch.bool)
        return not torch.equal(*built(words, mask).at)


def far(score: Score) -> float:
    """The mean accuracy at 320 and 500 tokens."""
    return fmean(score.mean(f"accuracy_{length}") for length in FAR)


def counted(scores: Sequence[Score]) -> list[str]:
    """The tasks that the control answers with the oracle's help and not without it."""
    control = {score.task: far(score) for score in scores if score.method == CONTROL}
    return [
        name for name in TASKS if control.get(name, 1) < ALONE and control.get(f"{name}-oracle", 0) >= HELPED
    ]


def verdict(scores: Sequence[Score], method: str) -> Verdict:
    """The claim: over the tasks that count, at 320 and 500 tokens `method` is right in 95 % on average and in
    90 % on each, and 30 points above the best method whose coordinates do not read the words.
    """
    tasks = counted(scores)
    if not tasks:
        return Verdict("undecided", f"no task counts: run {CONTROL} and its oracles on the same tasks, too")
    by_method: dict[str, dict[str, Score]] = {}
    for score in scores:
        if score.task in tasks:
            by_method.setdefault(score.method, {})[score.task] = score
    means = {
        name: fmean(map(far, on_tasks.values()))
        for name, on_tasks in by_method.items()
        if len(on_tasks) == len(tasks)
    }
    if method not in means:
        return Verdict("undecided", f"{method} was not run on every task that counts")
    blind = {name: mean for name, mean in means.items() if name != method and not reads_words(name)}
    if not blind:
        return Verdict("undecided", f"{method} was compared with no other method of the raw index")
    best = max(blind, key=blind.__getitem__)
    ahead = means[method] - blind[best]
    short = {name: far(score) for name, score in by_method[method].items() if far(score) < EACH}
    words = (
        f"{100 * means[method]:.1f} % on average over {len(tasks)} tasks at {FAR[0]} and {FAR[1]} tokens; "
        f"{100 * ahead:+.1f} points to the best method of the raw index, {best}"
    )
    if short:
        listed = ", ".join(f"{name} ({100 * mean:.1f})" for name, mean in sorted(short.items()))
        words += f"; short of {100 * EACH:.0f}: {listed}"
    return judged(
        not short and means[method] >= ALL and ahead >= AHEAD,
        words,
        seeds=min(score.seeds for score in by_method[method].values()),
        missing=[],
    )
