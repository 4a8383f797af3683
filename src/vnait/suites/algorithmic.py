"""The algorithmic suite: trained on texts of 1 to 40 symbols, tested up to 500. One cell, one `Record`; a suite resumes.

As in Deletang et al. (arXiv 2207.02098) and Ruoss et al. (arXiv 2305.16843), an encoder reads a text and a blank for every answer, and
answers at the blanks. A score is the share of right answers, over all texts; the papers' mean over all lengths from 41 to 500 is taken
at six, from 60 to 500.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Generator, Tensor

from vnait.model import VnaitConfig, VnaitForTokenClassification
from vnait.record import Record
from vnait.statistics import UNIT, interval
from vnait.suites.algorithms import ALGORITHMS, Algorithm, Texts
from vnait.suites.cells import SEEDS, UNASKED, Budget, Suite, by_method_and_task, run_by_all, seeded, trained

TRAINED = 40
LENGTHS = (40, 60, 120, 200, 300, 400, 500)
FAR = LENGTHS[1:]  # their mean, 263, is about the 270.5 of 41 ... 500
AHEAD = 0.12  # what the claim asks over the best non-randomized method
FEWEST_TEXTS = 8
PAIRS = 4_000_000  # of tokens at a time in a test: a bias of long texts is large


@dataclass(frozen=True, kw_only=True)
class Setting(Budget):
    """One budget for every method and task. Every text of a batch has the same length, drawn evenly from 1 to 40.

    As in the papers there are 5 layers of width 64; they have 8 heads, feedforward layers of 256, and far more steps.

    tests   answers that are tested a length, in 8 texts at least
    """

    steps: int = 1000
    batch: int = 16
    learning_rate: float = 1e-3
    warmup: int = 50
    weight_decay: float = 0.01
    hidden_size: int = 64
    intermediate_size: int = 128
    num_hidden_layers: int = 5
    num_attention_heads: int = 4
    tests: int = 64


QUICK = Setting(steps=80, tests=16)


def fit(method: str, task: Algorithm, seeds: Sequence[int], setting: Setting) -> list[VnaitForTokenClassification]:
    """A trained model a seed, which decides its starting weights and its texts."""
    models = [new_model(method, task, seed, setting) for seed in seeds]

    def make(count: int, length: int, random: Generator) -> tuple[Tensor, Tensor]:
        return asked(task, task.make(count, length, random))

    return trained(models, make, shortest=1, longest=TRAINED, seeds=seeds, budget=setting)


def new_model(method: str, task: Algorithm, seed: int, setting: Setting) -> VnaitForTokenClassification:
    """An untrained model; what two methods share starts equal. A method with a table has a row for every place of the longest test."""
    config = VnaitConfig(
        method=method,
        vocab_size=task.symbols + 2,  # padding, which no text here has, and the blank
        hidden_size=setting.hidden_size,
        intermediate_size=setting.intermediate_size,
        num_hidden_layers=setting.num_hidden_layers,
        num_attention_heads=setting.num_attention_heads,
        max_length=max(LENGTHS) + task.answers(max(LENGTHS)),
        mean_length=sum(length + task.answers(length) for length in range(1, TRAINED + 1)) / TRAINED,
        dropout=0.0,
        num_labels=task.classes,
    )
    return seeded(lambda: VnaitForTokenClassification(config), seed)


def asked(task: Algorithm, texts: Texts) -> tuple[Int[Tensor, "N TA"], Int[Tensor, "N TA"]]:
    """ids, which count symbols from 1 and end in a blank an answer, and labels: the answers at the blanks, `UNASKED` elsewhere.

    >>> [part.tolist() for part in asked(ALGORITHMS["parity_check"], (torch.tensor([[1, 0]]), torch.tensor([[1]])))]
    [[[2, 1, 3]], [[-100, -100, 1]]]
    """
    text, answers = texts
    blanks = torch.full_like(answers, task.symbols + 1)
    return torch.cat([text + 1, blanks], 1), torch.cat([torch.full_like(text, UNASKED), answers], 1)


def scores(
    model: VnaitForTokenClassification, task: Algorithm, setting: Setting, random: Generator
) -> dict[str, float]:
    """The share of right answers to new texts, at every length."""
    return {f"accuracy_{length}": score(model, task, length, setting.tests, random) for length in LENGTHS}


@torch.no_grad()
def score(model: VnaitForTokenClassification, task: Algorithm, length: int, tests: int, random: Generator) -> float:
    """The share of right answers among those that count, in new texts with about `tests` of them; 0 where the method refuses the length."""
    texts = task.make(max(FEWEST_TEXTS, tests // task.answers(length)), length, random)
    ids, _ = asked(task, texts)
    answers, counted = texts[1], task.counted(texts[1])
    some = max(1, PAIRS // ids.shape[1] ** 2)
    try:
        found = torch.cat([model(part).logits[:, -answers.shape[1] :].argmax(-1) for part in ids.split(some)])
    except ValueError:
        return 0.0
    return float((found == answers)[counted].float().mean())


def facts(task: Algorithm) -> dict[str, Any]:
    """What a record says of a task."""
    return {"level": task.level, "chance": task.chance, "trained": [1, TRAINED]}


SUITE = Suite(name="algorithmic", tasks=ALGORITHMS, fit=fit, scores=scores, facts=facts)
run_suite = SUITE.run


def summary(found: Sequence[Record]) -> list[dict[str, Any]]:
    """A row a method and task: mean accuracy over seeds at every length and, as `far`, over all lengths past training, with intervals."""
    rows: list[dict[str, Any]] = []
    for (method, task), own in by_method_and_task(found).items():
        row: dict[str, Any] = {"method": method, "task": task, "seeds": len(own)}
        row |= {name: own[0].data[name] for name in ("level", "chance")}
        scores = {f"_{length}": [record.metrics[f"accuracy_{length}"] for record in own] for length in LENGTHS}
        scores["_far"] = [sum(scores[f"_{length}"][index] for length in FAR) / len(FAR) for index in range(len(own))]
        for name, values in scores.items():
            mean, low, high = interval(values, within=UNIT)
            row |= {f"accuracy{name}": mean, f"ci_low{name}": low, f"ci_high{name}": high}
        rows.append(row)
    return rows


def overall(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row a method, the best first: mean accuracy over its tasks at the training length and past it, and past it over each level's."""
    found: list[dict[str, Any]] = []
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        levels = {
            f"accuracy_far_{level}": _mean(own, "accuracy_far", level)
            for level in dict.fromkeys(row["level"] for row in own)
        }
        found.append(
            {
                "method": method,
                "tasks": len(own),
                "seeds": min(row["seeds"] for row in own),
                f"accuracy_{TRAINED}": _mean(own, f"accuracy_{TRAINED}"),
                "accuracy_far": _mean(own, "accuracy_far"),
                **levels,
            }
        )
    return sorted(found, key=lambda row: -row["accuracy_far"])


def _mean(rows: Sequence[dict[str, Any]], name: str, level: str | None = None) -> float:
    values = [row[name] for row in rows if level in (None, row["level"])]
    return sum(values) / len(values)


def verdict(
    rows: Sequence[dict[str, Any]], method: str, *, tasks: Sequence[str] = tuple(ALGORITHMS)
) -> tuple[str, str]:
    """The claim that `method` is first past the training length, and 12 points or more above the best non-randomized method.

    By means over lengths and the tasks that all have run. Rivals are all methods but `method` and its own variants. "undecided" below
    3 seeds, without a non-randomized rival, or while some of `tasks` were not run by all.
    """
    rows = [row for row in rows if row["method"] == method or row["method"].split("-")[0] != method.split("-")[0]]
    rivals = [name for name in dict.fromkeys(row["method"] for row in rows) if name != method]
    plain = [name for name in rivals if not name.startswith("randomized-")]
    if not plain or all(row["method"] != method for row in rows):
        return "undecided", f"{method} and a non-randomized method were not both run"
    if not (shared := run_by_all(rows)):
        return "undecided", f"no task was run by all of {', '.join([method, *rivals])}"
    by_method = {row["method"]: row for row in overall(shared)}
    done = {row["task"] for row in shared}
    means = {name: row["accuracy_far"] for name, row in by_method.items()}
    first, best = max(rivals, key=lambda name: means[name]), max(plain, key=lambda name: means[name])
    ahead, lead = means[method] - means[best], means[method] - means[first]
    said = (
        f"{100 * means[method]:.1f} % over {len(done)} tasks at {FAR[0]} to {FAR[-1]} symbols; "
        f"{100 * ahead:+.1f} points to the best non-randomized method, {best}"
    )
    if first != best:
        said += f", and {100 * lead:+.1f} to {first}"
    if min(row["seeds"] for row in by_method.values()) < SEEDS:
        return "undecided", f"{said}; fewer than {SEEDS} seeds"
    if left := [name for name in tasks if name not in done]:
        return "undecided", f"{said}; not run by all yet: {', '.join(left)}"
    return ("confirmed" if lead > 0 and ahead >= AHEAD else "refuted"), said
