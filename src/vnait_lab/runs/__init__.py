"""Long experiments, each a command: `python -m vnait_lab.runs.NAME --help`. Here is what their command lines
share.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vnait.data import Table
from vnait.data.tables import labels_of
from vnait.results.record import Record
from vnait.shared.statistics import interval, paired
from vnait.train.predict import Fitted
from vnait_lab.study import Verdict
from vnait_lab.suites.suite import Suite


def parser(
    doc: str | None, *, seeds: int, sets: Iterable[str] = (), methods: Iterable[str] = ()
) -> argparse.ArgumentParser:
    """A command line whose --help starts with a module's docstring: --seeds and --jobs, with these defaults;
    --sets and --methods if there are some.
    """
    command = bare_parser(doc)
    for option, default in (("--sets", ",".join(sets)), ("--methods", ",".join(methods))):
        if default:
            command.add_argument(option, type=names, default=default, help="[%(default)s]")
    command.add_argument("--seeds", type=int, default=seeds, help="how many [%(default)s]")
    command.add_argument("--jobs", type=int, help="worker processes [one per core]")
    return command


def bare_parser(doc: str | None) -> argparse.ArgumentParser:
    """A command line without options."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


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


def encoder_parser(doc: str | None, *, methods: str, shots: str, seeds: int) -> argparse.ArgumentParser:
    """The command line of a run that fine-tunes a pretrained encoder."""
    command = bare_parser(doc)
    command.add_argument("model", help="folder of the pretrained encoder")
    command.add_argument("--methods", type=names, default=methods, help="[%(default)s]")
    command.add_argument("--shots", type=numbers, default=shots, help="labels per class [%(default)s]")
    command.add_argument("--seeds", type=int, default=seeds, help="how many draws of rows [%(default)s]")
    return command


def names(text: str) -> tuple[str, ...]:
    """An option's value: names with commas."""
    return tuple(text.split(","))


def numbers(text: str) -> tuple[int, ...]:
    """An option's value: whole numbers with commas."""
    return tuple(map(int, text.split(",")))


def data_folder(command: argparse.ArgumentParser, contents: str) -> Path:
    """The folder VNAIT_DATA; wrong use if it is not set."""
    folder = os.environ.get("VNAIT_DATA")
    if folder is None:
        command.error(f"VNAIT_DATA is not set; set it to a folder with {contents}.")
    return Path(folder)


def show_progress(done: int, total: int, record: Record | None) -> None:
    """A callback that prints how many cells are done."""
    print(f"{done} of {total}", flush=True)


def by_seed(found: Iterable[Record], method: str, metric: str, **data: object) -> dict[int, float]:
    """Seed -> a metric of a method, on data of this name, these shots, and so on."""
    return {
        one.seed: float(one.metrics[metric])
        for one in found
        if one.method == method and all(one.data[name] == value for name, value in data.items())
    }


def accuracy(fitted: Fitted, table: Table, probabilities: NDArray[np.float64] | None = None) -> float:
    """The share of right answers, of the model or by these probabilities (texts, classes)."""
    found = (fitted.probabilities(table.texts) if probabilities is None else probabilities).argmax(1)
    right = [fitted.classes[one] == label for one, label in zip(found, labels_of(table), strict=True)]
    return float(np.mean(right))


def ahead(scores: Mapping[str, Mapping[int, float]], method: str) -> Verdict:
    """The claim that a method is ahead of all others, by scores per method and seed. Undecided if it can't be
    told apart from one, and is behind none.
    """
    others = {one: paired(scores[method], own) for one, own in scores.items() if one != method}
    leads = {one: interval(gaps).times(100) for one, gaps in others.items()}
    words = f"{method} minus the others: "
    words += ", ".join(f"{one} {lead.written('{:+.1f}')}" for one, lead in leads.items())
    return Verdict.by_sign([lead.sign for lead in leads.values()], words)
