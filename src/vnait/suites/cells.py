"""What suites of generated tasks share: a grid of cells that resumes, and training texts made in bulk."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Generator, Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from vnait import record as records
from vnait.errors import InputError
from vnait.methods import METHODS
from vnait.record import Record
from vnait.suites.together import train_together

Watch = Callable[[int, int, Record | None], None]
Make = Callable[[int, int, Generator], tuple[Tensor, Tensor]]
Model = TypeVar("Model", bound=nn.Module)
UNASKED = -100  # the label of a token that no loss counts; transformers' number


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a suite gives every method and task alike."""

    steps: int
    batch: int
    learning_rate: float
    warmup: int
    weight_decay: float


def run_cells(
    run: Callable[..., list[Record]],
    key: Callable[[str, str, int], str],
    *,
    methods: Sequence[str],
    tasks: Sequence[str],
    known: dict[str, Any],
    seeds: Sequence[int],
    path: str | Path,
    jobs: int | None,
    watch: Watch,
) -> list[Record]:
    """Every method on every task with every seed, the seeds of a method and task at once; what `path` holds already is not run again.

    `run(method, recipe, task, its entry in `known`, seeds)` gives a record a seed. It may run in another process, which knows only what
    the library itself registers: hence recipe and entry.
    """
    from joblib import Parallel, delayed

    check("method", methods, METHODS)
    check("task", tasks, known)
    cells = {key(method, task, seed): (method, task, seed) for seed in seeds for task in tasks for method in methods}

    def results(left: list[tuple[str, str, int]]) -> Iterator[Record]:
        groups: dict[tuple[str, str], list[int]] = {}
        for method, task, seed in left:
            groups.setdefault((method, task), []).append(seed)
        workers = max(min(jobs or os.cpu_count() or 1, len(groups)), 1)
        found = Parallel(n_jobs=workers, return_as="generator_unordered")(
            delayed(run)(method, METHODS[method], task, known[task], own) for (method, task), own in groups.items()
        )
        return chain.from_iterable(found)

    return records.resumed(path, cells, results, watch)


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
    """The records of each cell of a table, one a seed."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in found:
        groups.setdefault((record.method, str(record.data["name"])), []).append(record)
    return groups


def check(what: str, given: Sequence[str], known: dict[str, Any]) -> None:
    """An error in words where nothing is given, or a name that is not known."""
    if not given:
        raise InputError(f"no {what} was given; take one or more of {', '.join(known)}.")
    for name in given:
        if name not in known:
            raise InputError(f"the {what} {name!r} is not known; take one of {', '.join(known)}.")
