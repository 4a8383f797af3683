"""In how many steps learned weights become exact: the filler tasks by which the gate of `vnait` was chosen.

    python -m vnait_lab.runs.weights [--methods vnait,vnait-uniform] [--steps 1000] [--seeds 8]

Per task and number of steps: the mean accuracy at 40, 160 and 320 tokens, and, where filler is a class of
words, in how many seeds every weight of filler is below .1 and that of every word above .9. The tasks are
none of the elastic suite's, whose setting they share, and the seeds begin at 100.
"""

from collections.abc import Sequence
from statistics import fmean

import torch
from torch import Generator

from vnait.model import VnaitForSequenceClassification
from vnait.positions.coordinates import Gate
from vnait.shared.processes import one_thread
from vnait_lab.runs import parser
from vnait_lab.suites import elastic
from vnait_lab.suites.fillers import (
    FILLERS,
    WORDS,
    M,
    Task,
    Texts,
    below,
    in_runs,
    of_rank,
    which_count,
    worded,
)
from vnait_lab.suites.length import Setting
from vnait_lab.suites.registry import registry

LENGTHS, FIRST_SEED, TESTS = (40, 160, 320), 100, 200
TASKS, task = registry(Task)


@task("class", "of what class is the fourth word from the end, of those that count?")
def fourth_from_end(count: int, length: int, random: Generator, filler: bool) -> Texts:
    """Dense filler at the end."""
    counted = which_count(count, length, random, filler, at_start=0.4, fewest=5).flip(-1)
    return worded(counted, counted.sum(-1) - 4, random)


@task("class", "of what class is the second word that counts before M?")
def second_before(count: int, length: int, random: Generator, filler: bool) -> Texts:
    """M counts, and stands where two words that count precede."""
    counted = which_count(count, length, random, filler, fewest=6)
    rank = 2 + below(counted.sum(-1) - 2, random)
    ids, classes, weights = worded(counted, rank - 2, random)
    return torch.where(of_rank(counted, rank), M, ids), classes, weights


@task("repetition", "of what class is the fourth word, a run of one word counted once?")
def fourth_run(count: int, length: int, random: Generator, filler: bool) -> Texts:
    """Long runs at the start."""
    counted = which_count(count, length, random, filler, at_start=0.4, fewest=5)
    return in_runs(counted, lambda number: torch.full_like(number, 3), random)


@torch.no_grad()
def is_exact(model: VnaitForSequenceClassification) -> bool:
    """Whether the weights of filler and words are near 0 and 1; False without learned weights."""
    gates = [part for part in model.modules() if isinstance(part, Gate)]
    if not gates:
        return False
    types = torch.tensor([*WORDS, *FILLERS])[:, None]  # texts of one token: no repetition
    vectors = model.model.vectors(types)
    weights = gates[0](vectors, torch.ones(types.shape, dtype=torch.bool))[:, 0].clamp(0, 1)
    words, filler = weights.split([len(WORDS), len(FILLERS)])
    return bool((words > 0.9).all() and (filler < 0.1).all())


def row(method: str, name: str, steps: int, seeds: Sequence[int]) -> str:
    """A line of the table."""
    with one_thread():
        models = elastic.fit(method, TASKS[name], seeds, Setting(steps=steps))
        scores = [
            fmean(
                elastic.score(model, TASKS[name], length, TESTS, Generator().manual_seed(seed))
                for model, seed in zip(models, seeds, strict=True)
            )
            for length in LENGTHS
        ]
    shown = f"{method:16} {name:16} {steps:6,} steps  " + " / ".join(f"{score:.3f}" for score in scores)
    if TASKS[name].filler != "class":  # no word is filler everywhere
        return shown
    return f"{shown}  exact in {sum(map(is_exact, models))} of {len(seeds)} seeds"


def main() -> None:
    """Print a line per method, task and number of steps."""
    command = parser(__doc__, seeds=8, jobs=False, methods=("vnait",), tasks=tuple(TASKS), steps=(1000,))
    options = command.parse_args()
    seeds = range(FIRST_SEED, FIRST_SEED + options.seeds)
    for method in options.methods:
        for name in options.tasks:
            for steps in options.steps:
                print(row(method, name, steps, seeds), flush=True)


if __name__ == "__main__":
    main()
