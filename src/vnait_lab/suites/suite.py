"""What the suites of generated tasks share: `Suite` runs and summarizes them, and models train in groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Generator, Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from vnait.comparison.runs import Callback, run_all
from vnait.model import VnaitConfig, seed_weights
from vnait.positions.building import parameters
from vnait.positions.methods import METHODS, arithmetic, with_bases
from vnait.positions.recipe import Recipe
from vnait.results.record import Record
from vnait.shared.errors import InputError, OutOfRange, did_you_mean
from vnait.shared.keys import key_of
from vnait.shared.processes import one_thread
from vnait.shared.randomness import preserved_generators
from vnait.shared.statistics import UNIT, Interval, interval
from vnait.train.tasks.tags import IGNORED
from vnait_lab.rules import decided
from vnait_lab.study import Verdict
from vnait_lab.suites.together import train_together

Make = Callable[[int, int, Generator], tuple[Tensor, Tensor]]
Model = TypeVar("Model", bound=nn.Module)
SEEDS = 3  # the fewest that decide a claim
TESTS_FROM = 1_000_000  # seeds of test texts start here, those of training texts at 0
SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")


@dataclass(frozen=True, kw_only=True)
class Training:
    """The size and the training of every model, whatever its method and task."""

    steps: int
    batch: int = 16
    learning_rate: float
    warmup: int = 50
    weight_decay: float = 0.01
    hidden_size: int = 64
    num_hidden_layers: int


@dataclass(frozen=True, kw_only=True)
class Setting(Training):
    """The setting of a suite of generated texts. All texts of a batch have one length, drawn evenly from the
    lengths trained on.

    tests    texts per length tested
    """

    num_attention_heads: int = 4
    tests: int


@dataclass(frozen=True, kw_only=True)
class Score:
    """One method on one task.

    facts        properties of the task
    intervals    by metric: the mean over seeds with its 95 % interval
    """

    method: str
    task: str
    seeds: int
    facts: Mapping[str, Any]
    intervals: Mapping[str, Interval]

    def mean(self, metric: str) -> float:
        """Over seeds."""
        return self.intervals[metric].mean

    def row(self) -> dict[str, Any]:
        """A row of the table that `--json` prints."""
        row = {"method": self.method, "task": self.task, "seeds": self.seeds, **self.facts}
        for metric, (mean, low, high) in self.intervals.items():
            suffix = metric.partition("_")[2]
            row |= {metric: mean, f"ci_low_{suffix}": low, f"ci_high_{suffix}": high}
        return row


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One method over several tasks: `seeds` is the fewest of any task, `means` are over tasks, by metric."""

    method: str
    tasks: int
    seeds: int
    means: Mapping[str, float]

    def row(self) -> dict[str, Any]:
        """A row of a table."""
        return {"method": self.method, "tasks": self.tasks, "seeds": self.seeds, **self.means}


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Tasks on which methods are compared. A run is one method on one task with one seed; it gives one
    `Record`.

    tasks      by name; the `asks` of a task is part of its runs' keys
    setting    of the training and the test, the same for every method and task
    fit        (method, task, seeds, setting) -> one trained model per seed
    scores     (model, task, setting, generator of test texts) -> the metrics of a record
    facts      task -> what its records say about the data
    shown      names of the facts that a summary repeats
    columns    metrics of a record -> metrics of a summary
    """

    name: str
    tasks: dict[str, Any]
    setting: Training
    fit: Callable[[str, Any, Sequence[int], Any], list[Any]]
    scores: Callable[[Any, Any, Any, Generator], dict[str, float]]
    facts: Callable[[Any], dict[str, Any]]
    shown: Sequence[str] = ()
    columns: Callable[[Mapping[str, float]], dict[str, float]] = dict

    def run(
        self,
        *,
        methods: Sequence[str],
        tasks: Sequence[str],
        seeds: Sequence[int],
        setting: Training | None = None,
        path: str | Path,
        jobs: int | None = None,
        backend: str = "local",
        callback: Callback = lambda done, total, record: None,
    ) -> list[Record]:
        """The records of every method on every task with every seed; those that `path` holds do not run
        again.
        """
        from joblib import delayed

        check("method", methods, METHODS)
        check("task", tasks, self.tasks)
        setting = setting or self.setting
        runs = {
            self.key(method, task, seed, setting): (method, task, seed)
            for seed in seeds
            for task in tasks
            for method in methods
        }

        def calls(left: list[tuple[str, str, int]]) -> Iterator[Any]:
            groups: dict[tuple[str, str], list[int]] = {}
            for method, task, seed in left:
                groups.setdefault((method, task), []).append(seed)
            for (method, task), group in groups.items():
                # Only this task goes to the other process: a task of the user's may not pickle.
                single = replace(self, tasks={task: self.tasks[task]})
                yield delayed(single.train_and_test)(method, with_bases(method), task, group, setting)

        return run_all(path, runs, calls, jobs=jobs, backend=backend, callback=callback)

    def key(self, method: str, task: str, seed: int, setting: Training) -> str:
        """The fingerprint of everything that decides a run, the method's formula included."""
        formula, asks = arithmetic(method), self.tasks[task].asks
        return key_of(self.name, method, formula, task, asks, seed, asdict(setting))

    def train_and_test(
        self, method: str, recipes: Mapping[str, Recipe], task: str, seeds: Sequence[int], setting: Training
    ) -> list[Record]:
        """The records of one method on one task, all seeds trained at once on one core.

        The recipes of the method and its bases come along because a worker process knows only the library's
        own METHODS, or an earlier run's.
        """
        METHODS.update(recipes)
        about = self.tasks[task]
        with one_thread(), preserved_generators():
            started = time.perf_counter()
            models = self.fit(method, about, seeds, setting)
            seconds = (time.perf_counter() - started) / len(seeds)
            for model, seed in zip(models, seeds, strict=True):
                if not all(bool(weight.isfinite().all()) for weight in model.parameters()):
                    raise InputError(
                        f"{method}, task {task}, seed {seed}: weights are not finite after training; its "
                        "gradient is wrong somewhere."
                    )
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

    def summary(self, records: Iterable[Record]) -> list[Score]:
        """One score per method and task."""
        groups: dict[tuple[str, str], list[Record]] = {}
        for record in {record.key: record for record in records}.values():  # a run may be written twice
            groups.setdefault((record.method, str(record.data["name"])), []).append(record)
        scores = []
        for (method, task), runs in groups.items():
            metrics = [self.columns(record.metrics) for record in runs]
            intervals = {
                name: interval([metric[name] for metric in metrics], within=UNIT) for name in metrics[0]
            }
            facts = {name: runs[0].data[name] for name in self.shown}
            scores.append(Score(method=method, task=task, seeds=len(runs), facts=facts, intervals=intervals))
        return scores


def standings(
    scores: Sequence[Score], means: Callable[[Sequence[Score]], Mapping[str, float]], *, by: str
) -> list[Standing]:
    """One standing per method, highest mean of `by` first; `means` takes a method's scores."""
    by_method: dict[str, list[Score]] = {}
    for score in scores:
        by_method.setdefault(score.method, []).append(score)
    ranked = (
        Standing(method=method, tasks=len(ran), seeds=min(score.seeds for score in ran), means=means(ran))
        for method, ran in by_method.items()
    )
    return sorted(ranked, key=lambda standing: -standing.means[by])


def run_by_all(scores: Sequence[Score]) -> list[Score]:
    """The scores on tasks that every method ran: means over different tasks do not compare."""
    methods: dict[str, set[str]] = {}
    for score in scores:
        methods.setdefault(score.task, set()).add(score.method)
    every = {score.method for score in scores}
    return [score for score in scores if methods[score.task] == every]


def judged(holds: bool, words: str, *, seeds: int, missing: Sequence[str]) -> Verdict:
    """Confirmed or refuted; undecided with fewer than `SEEDS` seeds or while tasks are missing."""
    if seeds < SEEDS:
        return Verdict("undecided", f"{words}; fewer than {SEEDS} seeds")
    if missing:
        return Verdict("undecided", f"{words}; not run yet: {', '.join(missing)}")
    return decided(holds, words)


def new_model(kind: type[Model], setting: Training, seed: int, **config: Any) -> Model:
    """An untrained model. Weights depend on the seed and their names; parts of two methods start equal."""
    sizes = {name: size for name, size in asdict(setting).items() if name in SIZES}
    with preserved_generators():
        torch.manual_seed(seed)  # for parts that `seed_weights` cannot start again
        model = kind(VnaitConfig(**sizes, **config, dropout=0.0)).train()
    seed_weights(model, seed)
    return model


@torch.no_grad()
def answers(logits: Callable[[Tensor], Tensor], ids: Tensor, *, rows: int) -> Tensor | None:
    """The likeliest classes of texts, `rows` at a time: the bias of long texts takes much memory. None if the
    method refuses the length, as a table does past its end. InputError for logits that are not finite.
    """
    try:
        every = torch.cat([logits(part) for part in ids.split(rows)])
    except OutOfRange:
        return None
    if not every.isfinite().all():
        raise InputError(
            f"the logits of texts of {ids.shape[1]} tokens are not finite; the method is wrong there."
        )
    return every.argmax(-1)


def at_lengths(
    score: Callable[[Any, Any, int, int, Generator], float], lengths: Sequence[int]
) -> Callable[[Any, Any, Any, Generator], dict[str, float]]:
    """The `scores` of a suite: `score(model, task, length, number of tests, generator)` at every length."""
    return lambda model, task, setting, random: {
        f"accuracy_{length}": score(model, task, length, setting.tests, random) for length in lengths
    }


def train(
    models: list[Model], make: Make, *, lengths: range, seeds: Sequence[int], setting: Training
) -> list[Model]:
    """Train each model on the texts of its seed, and return them in evaluation mode."""
    torch.manual_seed(0)  # what a method draws in training is drawn once for all seeds

    def loss(model: Any, ids: Tensor, labels: Tensor) -> Tensor:
        mask = torch.ones(ids.shape)  # passed, since vmap cannot check whether a mask is needed
        value: Tensor = model(ids, mask, labels=labels).loss
        return value

    train_together(
        models,
        in_bulk(make, lengths=lengths, seeds=seeds, steps=setting.steps, batch=setting.batch),
        loss,
        steps=setting.steps,
        learning_rate=setting.learning_rate,
        weight_decay=setting.weight_decay,
        warmup=setting.warmup,
    )
    return [model.eval() for model in models]


def in_bulk(
    make: Make, *, lengths: range, seeds: Iterable[int], steps: int, batch: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Ids and labels (seeds, batch, ...) of each step, of a length drawn evenly, the same for all seeds.

    All texts of a length are made at once, which is faster. Texts of one length that differ in tokens are
    padded: ids with 0, labels with `IGNORED`.
    """
    order = torch.randint(
        lengths.start, lengths.stop, (steps,), generator=Generator().manual_seed(0)
    ).tolist()
    randoms = [Generator().manual_seed(seed) for seed in seeds]
    made: dict[int, Iterator[tuple[Tensor, Tensor]]] = {}
    for length in sorted(set(order)):
        ids, labels = zip(
            *(make(order.count(length) * batch, length, random) for random in randoms), strict=True
        )
        steps_of_length = (
            _padded(parts, fill).unflatten(1, (-1, batch)).unbind(1)
            for parts, fill in ((ids, 0), (labels, IGNORED))
        )
        made[length] = zip(*steps_of_length, strict=True)
    for length in order:
        yield next(made[length])


def _padded(parts: Sequence[Tensor], fill: int) -> Tensor:
    """Stack tensors (N, T), each with its own T, to (parts, N, longest T); or tensors (N,) to (parts, N)."""
    if parts[0].ndim == 1:
        return torch.stack(list(parts))
    return pad_sequence([part.T for part in parts], batch_first=True, padding_value=fill).mT


def check(what: str, names: Sequence[str], known: Mapping[str, Any]) -> None:
    """Raise InputError if no name is given, or one is not known."""
    if not names:
        raise InputError(f"no {what} was given; take one or more of {', '.join(known)}.")
    for name in names:
        if name not in known:
            raise InputError(
                f"the {what} {name!r} is not known.{did_you_mean(name, known)} "
                f"Take one of {', '.join(known)}."
            )
