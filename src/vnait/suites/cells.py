"""What suites of tasks share: `Suite`, a grid of cells that resumes, and training texts made in bulk."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Generator, Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from vnait import record as records
from vnait.errors import InputError, meant
from vnait.methods import METHODS, Recipe, parameters
from vnait.model import seed_weights
from vnait.randomness import apart
from vnait.record import Record
from vnait.suites.together import train_together
from vnait.threads import one_thread

Watch = Callable[[int, int, Record | None], None]
Make = Callable[[int, int, Generator], tuple[Tensor, Tensor]]
Model = TypeVar("Model", bound=nn.Module)
UNASKED = -100  # the label of a token that no loss counts; transformers' number
SEEDS = 3  # from how many on a claim is judged
TESTS_FROM = 1_000_000  # seeds of test texts; training's are below


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a suite gives every method and task alike."""

    steps: int
    batch: int
    learning_rate: float
    warmup: int
    weight_decay: float


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Tasks with one budget for every method; a method on a task with a seed is a cell, and its `Record` the result.

    tasks    by name; each says what it `asks`
    fit      (method, task, seeds, setting) -> a trained model a seed, which decides its starting weights and its texts
    scores   (model, task, setting, generator of new texts) -> the metrics of a record
    facts    (task) -> what a record says of its data
    """

    name: str
    tasks: dict[str, Any]
    fit: Callable[[str, Any, Sequence[int], Any], list[Any]]
    scores: Callable[[Any, Any, Any, Generator], dict[str, float]]
    facts: Callable[[Any], dict[str, Any]]

    def run(
        self,
        *,
        methods: Sequence[str],
        tasks: Sequence[str],
        seeds: Sequence[int],
        setting: Budget,
        path: str | Path,
        jobs: int | None = None,
        watch: Watch = lambda done, total, record: None,
    ) -> list[Record]:
        """Every method on every task with every seed, the seeds of both at once; what `path` holds already is not run again."""
        from joblib import Parallel, delayed

        check("method", methods, METHODS)
        check("task", tasks, self.tasks)
        cells = {
            self.key(method, task, seed, setting): (method, task, seed)
            for seed in seeds
            for task in tasks
            for method in methods
        }

        def results(left: list[tuple[str, str, int]]) -> Iterator[Record]:
            groups: dict[tuple[str, str], list[int]] = {}
            for method, task, seed in left:
                groups.setdefault((method, task), []).append(seed)
            workers = max(min(jobs or os.cpu_count() or 1, len(groups)), 1)
            found = Parallel(n_jobs=workers, return_as="generator_unordered")(
                delayed(self.of(task).cell)(method, METHODS[method], task, own, setting)
                for (method, task), own in groups.items()
            )
            return chain.from_iterable(found)

        return records.resumed(path, cells, results, watch)

    def of(self, task: str) -> Suite:
        """The suite with one of its tasks: what goes to another process, where others may not be able to."""
        return replace(self, tasks={task: self.tasks[task]})

    def key(self, method: str, task: str, seed: int, setting: Budget) -> str:
        """The fingerprint of everything that decides a cell; a method whose formula changes is another one."""
        formula, asks = METHODS[method].formula, self.tasks[task].asks
        return records.key_of(self.name, method, formula, task, asks, seed, asdict(setting))

    def cell(self, method: str, recipe: Recipe, task: str, seeds: Sequence[int], setting: Budget) -> list[Record]:
        """Train one method on one task with several seeds at once, and test each; on one core.

        It may run in another process, which knows what the library itself registers, or what an earlier cell brought: hence the recipe.
        """
        METHODS[method] = recipe
        about = self.tasks[task]
        with one_thread(), apart():
            started = time.perf_counter()
            models = self.fit(method, about, seeds, setting)
            seconds = (time.perf_counter() - started) / len(seeds)
            return [
                Record.now(
                    key=self.key(method, task, seed, setting),
                    method=method,
                    seed=seed,
                    run=asdict(setting),
                    data={"name": task, **self.facts(about)},
                    metrics=self.scores(model, about, setting, Generator().manual_seed(TESTS_FROM + seed)),
                    parameters=parameters(model.model.method),
                    seconds=seconds,
                )
                for model, seed in zip(models, seeds, strict=True)
            ]


def seeded(make: Callable[[], Model], seed: int) -> Model:
    """A new model whose weights hang on the seed and their names alone: what two methods share starts equal."""
    with apart():
        torch.manual_seed(seed)  # for parts of one's own that can't start again
        model = make().train()
    seed_weights(model, seed)
    return model


def trained(
    models: list[Model], make: Make, *, shortest: int, longest: int, seeds: Sequence[int], budget: Budget
) -> list[Model]:
    """The models, each trained on its seed's texts, ready to be tested."""
    torch.manual_seed(0)  # what a method draws in training is drawn for all seeds at once

    def loss(model: Any, ids: Tensor, labels: Tensor) -> Tensor:
        real = torch.ones(ids.shape)  # given, since no mask can be checked inside vmap
        found: Tensor = model(ids, real, labels=labels).loss
        return found

    train_together(
        models,
        in_bulk(make, shortest=shortest, longest=longest, seeds=seeds, steps=budget.steps, batch=budget.batch),
        loss,
        steps=budget.steps,
        learning_rate=budget.learning_rate,
        weight_decay=budget.weight_decay,
        warmup=budget.warmup,
    )
    return [model.eval() for model in models]


def in_bulk(
    make: Make,
    *,
    shortest: int,
    longest: int,
    seeds: Iterable[int],
    steps: int,
    batch: int,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Two tensors (seeds, batch, ...) a step, of a length drawn evenly, the same for all seeds; all of a length are made at once.

    Where texts of a length differ in tokens they are padded, with 0 and with labels that are `UNASKED`.
    """
    lengths = torch.randint(shortest, longest + 1, (steps,), generator=Generator().manual_seed(0)).tolist()
    randoms = [Generator().manual_seed(seed) for seed in seeds]
    made: dict[int, Iterator[tuple[Tensor, Tensor]]] = {}
    for length in sorted(set(lengths)):
        own = [make(lengths.count(length) * batch, length, random) for random in randoms]
        stacked = (_padded(parts, fill) for parts, fill in zip(zip(*own, strict=True), (0, UNASKED), strict=True))
        texts, answers = (part.unflatten(1, (-1, batch)).unbind(1) for part in stacked)
        made[length] = zip(texts, answers, strict=True)
    for length in lengths:
        yield next(made[length])


def _padded(parts: Sequence[Tensor], fill: int) -> Tensor:
    """(N, T) each, with T of its own -> (parts, N, longest T); or (N,) each -> (parts, N)."""
    if parts[0].ndim == 1:
        return torch.stack(list(parts))
    return pad_sequence([part.T for part in parts], batch_first=True, padding_value=fill).mT


def by_method_and_task(found: Iterable[Record]) -> dict[tuple[str, str], list[Record]]:
    """The records of each cell of a table, one a seed, though two processes may have written it twice."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in {record.key: record for record in found}.values():
        groups.setdefault((record.method, str(record.data["name"])), []).append(record)
    return groups


def run_by_all(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a summary whose task every method in it has run: means over other tasks would not compare."""
    rows = list(rows)
    methods: dict[str, set[str]] = {}
    for row in rows:
        methods.setdefault(row["task"], set()).add(row["method"])
    every = {row["method"] for row in rows}
    return [row for row in rows if methods[row["task"]] == every]


def check(what: str, given: Sequence[str], known: dict[str, Any]) -> None:
    """An error in words where nothing is given, or a name that is not known."""
    if not given:
        raise InputError(f"no {what} was given; take one or more of {', '.join(known)}.")
    for name in given:
        if name not in known:
            raise InputError(f"the {what} {name!r} is not known.{meant(name, known)} Take one of {', '.join(known)}.")
