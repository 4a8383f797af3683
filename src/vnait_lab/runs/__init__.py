"""Long experiments, each a command: `python -m vnait_lab.runs.NAME --help`. Here is what they share: the
command line, the running of what `studies/records` does not have yet, and the verdict of a comparison.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vnait.comparison.plan import Plan
from vnait.comparison.runs import run_all
from vnait.comparison.trainings import run_plan
from vnait.data import Table
from vnait.data.tables import labels_of
from vnait.positions.method import Method
from vnait.positions.methods import METHODS
from vnait.positions.recipe import Recipe, Size
from vnait.results.record import Record
from vnait.shared.processes import one_thread
from vnait.train.predict import Fitted
from vnait.train.run import Run
from vnait_lab.records import points
from vnait_lab.rules import clear
from vnait_lab.study import Verdict
from vnait_lab.suites.suite import Suite

SETS_FOLDER = "one folder per set (train.csv and test.csv)"


def parser(
    doc: str | None, *, seeds: int, jobs: bool = True, quick: str = "", **lists: Sequence[str] | Sequence[int]
) -> argparse.ArgumentParser:
    """A command line whose --help starts with a module's docstring.

    seeds    the default of --seeds
    jobs     whether there is --jobs
    quick    what --quick does, if there is one
    lists    options whose values stand with commas, with their defaults; () stands for all
    """
    command = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, values in lists.items():
        command.add_argument(
            f"--{name}",
            type=numbers if any(isinstance(value, int) for value in values) else names,
            default=",".join(map(str, values)) or None,
            help="with commas [%(default)s]" if values else "with commas [all]",
        )
    command.add_argument("--seeds", type=int, default=seeds, help="how many [%(default)s]")
    if jobs:
        command.add_argument("--jobs", type=int, help="worker processes [one per core]")
    if quick:
        command.add_argument("--quick", action="store_true", help=quick)
    return command


def names(text: str) -> tuple[str, ...]:
    """An option's value: names with commas."""
    return tuple(text.split(","))


def numbers(text: str) -> tuple[int, ...]:
    """An option's value: whole numbers with commas."""
    return tuple(map(int, text.split(",")))


def data_folder(command: argparse.ArgumentParser, contents: str = SETS_FOLDER) -> Path:
    """The folder VNAIT_DATA; wrong use if it is not set."""
    folder = os.environ.get("VNAIT_DATA")
    if folder is None:
        command.error(f"VNAIT_DATA is not set; set it to a folder with {contents}.")
    return Path(folder)


def show_progress(done: int, total: int, record: Record | None) -> None:
    """A callback that prints how many runs are done."""
    print(f"{done} of {total}", flush=True)


def print_verdict(name: str, verdict: Verdict) -> None:
    print(f"{name}: {verdict.word}: {verdict.summary}")


def run_suite(
    suite: Suite, options: argparse.Namespace, *, methods: Sequence[str], tasks: Iterable[str], path: Path
) -> None:
    """Run a suite and print its progress."""
    suite.run(
        methods=methods,
        tasks=tuple(tasks),
        seeds=range(options.seeds),
        path=path,
        jobs=options.jobs,
        callback=show_progress,
    )


def run_plans(plans: Iterable[Plan], path: Path, jobs: int | None) -> list[Record]:
    """Run comparisons, and print their progress."""
    run = partial(run_plan, path=path, jobs=jobs, callback=show_progress)
    return [record for plan in plans for record in run(plan)]


def plan_of_words(
    table: Table, test: Table, methods: Sequence[str], *, shots: Sequence[Any], seeds: Iterable[int], run: Run
) -> Plan:
    """A comparison on words, whose vectors come from the table's own texts; nothing is chosen."""
    return Plan(
        table=table,
        test=test,
        methods=tuple(methods),
        shots=tuple(shots),
        seeds=tuple(seeds),
        run=run,
        vectors=None,
        tokenization="words",
        chooses=False,
    )


def run_each(
    path: Path,
    run: Callable[..., Record],
    runs: Iterable[tuple[Any, ...]],
    key: Callable[..., str],
    jobs: int | None = 1,
) -> list[Record]:
    """The records of `run(*arguments)` for the arguments of each run, on one core, under `key(*arguments)`;
    those that `path` has do not run again.
    """
    from joblib import delayed

    return run_all(
        path,
        {key(*arguments): (key(*arguments), arguments) for arguments in runs},
        lambda left: (delayed(_on_one_core)(run, *keyed) for keyed in left),
        jobs=jobs,
        callback=show_progress,
    )


def _on_one_core(run: Callable[..., Record], key: str, arguments: tuple[Any, ...]) -> Record:
    with one_thread():
        return replace(run(*arguments), key=key)


def recorded(fitted: Fitted, metrics: Mapping[str, float] | None = None, **facts: object) -> Record:
    """The record of a training, with more facts about its data, and other metrics if these are given."""
    record = fitted.record
    assert record is not None
    return replace(record, data={**record.data, **facts}, metrics=metrics or record.metrics)


def register(variants: Mapping[str, Callable[[Size], Method]], formula: str, source: str) -> None:
    """Add variants of a method to METHODS; `formula`, with the variant's name, is part of its runs' keys."""
    for name, make in variants.items():
        METHODS[name] = Recipe(make=make, formula=f"{formula}{name}", source=source)


def accuracy(fitted: Fitted, table: Table, probabilities: NDArray[np.float64] | None = None) -> float:
    """The share of right answers, of the model or by these probabilities (texts, classes)."""
    answers = (fitted.probabilities(table.texts) if probabilities is None else probabilities).argmax(1)
    pairs = zip(answers, labels_of(table), strict=True)
    return float(np.mean([fitted.classes[answer] == label for answer, label in pairs]))


def ahead(scores: Mapping[str, Mapping[int, float]], method: str) -> Verdict:
    """The claim that a method is ahead of all others, by scores per method and seed. Undecided if it can't be
    told apart from one, and is behind none.
    """
    leads = {name: points(scores[method], rival) for name, rival in scores.items() if name != method}
    words = ", ".join(f"{name} {lead.written('{:+.1f}')}" for name, lead in leads.items())
    return clear(leads.values(), f"{method} minus the others: {words}")
