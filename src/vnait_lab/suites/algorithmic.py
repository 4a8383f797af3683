"""The algorithmic suite: trained on texts of 1 to 40 symbols, tested up to 500.

As in Deletang et al. (arXiv 2207.02098) and Ruoss et al. (arXiv 2305.16843), an encoder reads a text and one
blank per answer, and answers at the blanks. The score is the share of right answers. The papers average it
over all lengths from 41 to 500; here it is averaged over six, from 60 to 500.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import torch
from jaxtyping import Int
from torch import Generator, Tensor

from vnait.model import VnaitForTokenClassification
from vnait.train.tasks.tags import IGNORED
from vnait_lab.study import Verdict
from vnait_lab.suites import suite
from vnait_lab.suites.algorithms import ALGORITHMS, Algorithm, Texts
from vnait_lab.suites.suite import Score, Standing, Suite, answers, at_lengths, judged, run_by_all, standings

TRAINED = 40
LENGTHS = (40, 60, 120, 200, 300, 400, 500)
FAR = LENGTHS[1:]  # their mean, 263, is close to 270.5, the mean of 41 to 500
# The claim: at least this above the best non-randomized method, as Ruoss et al. report of randomized ones.
AHEAD = 0.12
FEWEST_TEXTS = 8
PAIRS = 4_000_000  # of tokens, at a time in a test


@dataclass(frozen=True, kw_only=True)
class Setting(suite.Setting):
    """Trained on 1 to 40 symbols. The papers also use 5 layers of width 64, but 8 heads, feedforward layers
    of 256, and many more steps.

    tests    answers per length, of 8 texts or more
    """

    steps: int = 1000
    learning_rate: float = 1e-3
    intermediate_size: int = 128
    num_hidden_layers: int = 5
    tests: int = 64


QUICK = Setting(steps=80, tests=16)


def fit(
    method: str, task: Algorithm, seeds: Sequence[int], setting: Setting
) -> list[VnaitForTokenClassification]:
    """One trained model per seed; the seed decides its first weights and its texts."""
    models = [new_model(method, task, seed, setting) for seed in seeds]

    def make(count: int, length: int, random: Generator) -> tuple[Tensor, Tensor]:
        return encode(task, task.make(count, length, random))

    return suite.train(models, make, lengths=range(1, TRAINED + 1), seeds=seeds, setting=setting)


def new_model(method: str, task: Algorithm, seed: int, setting: Setting) -> VnaitForTokenClassification:
    """An untrained model. A table of the method has a row for every position of the longest text."""
    return suite.new_model(
        VnaitForTokenClassification,
        setting,
        seed,
        method=method,
        vocab_size=task.symbols + 2,  # padding, which no text here has, and the blank
        max_length=max(LENGTHS) + task.answers(max(LENGTHS)),
        mean_length=sum(length + task.answers(length) for length in range(1, TRAINED + 1)) / TRAINED,
        num_labels=task.classes,
    )


def encode(task: Algorithm, texts: Texts) -> tuple[Int[Tensor, "N TA"], Int[Tensor, "N TA"]]:
    """Ids: symbols from 1, then one blank per answer. Labels: answers at the blanks, `IGNORED` elsewhere.

    >>> texts = torch.tensor([[1, 0]]), torch.tensor([[1]])
    >>> [part.tolist() for part in encode(ALGORITHMS["parity_check"], texts)]
    [[[2, 1, 3]], [[-100, -100, 1]]]
    """
    text, answers = texts
    blanks = torch.full_like(answers, task.symbols + 1)
    return torch.cat([text + 1, blanks], 1), torch.cat([torch.full_like(text, IGNORED), answers], 1)


def score(
    model: VnaitForTokenClassification, task: Algorithm, length: int, tests: int, random: Generator
) -> float:
    """The share of right answers among those that count, about `tests` of them in new texts; 0 if the method
    refuses the length.
    """
    texts = task.make(max(FEWEST_TEXTS, tests // task.answers(length)), length, random)
    ids, _ = encode(task, texts)
    wanted = texts[1]
    rows = max(1, PAIRS // ids.shape[1] ** 2)
    answer = answers(lambda part: model(part).logits[:, -wanted.shape[1] :], ids, rows=rows)
    return 0.0 if answer is None else float((answer == wanted)[task.counted(wanted)].float().mean())


def columns(metrics: Mapping[str, float]) -> dict[str, float]:
    """The accuracy at every length, and as `accuracy_far` the mean past the training length."""
    return {**metrics, "accuracy_far": fmean(metrics[f"accuracy_{length}"] for length in FAR)}


SUITE = Suite(
    name="algorithmic",
    tasks=ALGORITHMS,
    setting=Setting(),
    fit=fit,
    scores=at_lengths(score, LENGTHS),
    facts=lambda task: {"level": task.level, "chance": task.chance, "trained": [1, TRAINED]},
    shown=("level", "chance"),
    columns=columns,
)


def overall(scores: Sequence[Score]) -> list[Standing]:
    """Means over tasks at the training length and past it, and past it per level of the hierarchy."""

    def means(scores: Sequence[Score]) -> dict[str, float]:
        by_level: dict[str, list[float]] = {}
        for score in scores:
            by_level.setdefault(f"accuracy_far_{score.facts['level']}", []).append(score.mean("accuracy_far"))
        return {
            f"accuracy_{TRAINED}": fmean(score.mean(f"accuracy_{TRAINED}") for score in scores),
            "accuracy_far": fmean(score.mean("accuracy_far") for score in scores),
            **{level: fmean(values) for level, values in by_level.items()},
        }

    return standings(scores, means, by="accuracy_far")


def verdict(scores: Sequence[Score], method: str, *, tasks: Sequence[str] = tuple(ALGORITHMS)) -> Verdict:
    """The claim: past the training length `method` has the highest accuracy, 12 points or more above the best
    non-randomized method.

    Rivals are all methods except the variants of `method`; means are over the tasks that all of them ran.
    Undecided with fewer than 3 seeds, without a non-randomized rival, or while some of `tasks` are missing.
    """
    family = method.split("-")[0]
    scores = [score for score in scores if score.method == method or score.method.split("-")[0] != family]
    rivals = [name for name in dict.fromkeys(score.method for score in scores) if name != method]
    plain = [name for name in rivals if not name.startswith("randomized-")]
    if not plain or all(score.method != method for score in scores):
        return Verdict("undecided", f"{method} and a non-randomized method were not both run")
    shared = run_by_all(scores)
    if not shared:
        return Verdict("undecided", f"no task was run by all of {', '.join([method, *rivals])}")
    ranked = {standing.method: standing for standing in overall(shared)}
    far = {name: standing.means["accuracy_far"] for name, standing in ranked.items()}
    first, best = max(rivals, key=far.__getitem__), max(plain, key=far.__getitem__)
    ahead, lead = far[method] - far[best], far[method] - far[first]
    done = {score.task for score in shared}
    words = (
        f"{100 * far[method]:.1f} % over {len(done)} tasks at {FAR[0]} to {FAR[-1]} symbols; "
        f"{100 * ahead:+.1f} points to the best non-randomized method, {best}"
    )
    if first != best:
        words += f", and {100 * lead:+.1f} to {first}"
    return judged(
        lead > 0 and ahead >= AHEAD,
        words,
        seeds=min(standing.seeds for standing in ranked.values()),
        missing=[name for name in tasks if name not in done],
    )
