"""Methods x shots x seeds on identical splits: paired differences with intervals, and no ranking inside the noise."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vnait import record as records
from vnait import text as texts
from vnait import train
from vnait.baselines import BASELINES, fit_baseline
from vnait.errors import InputError
from vnait.lexicon import Lexicon
from vnait.plan import ALL, Cell, Plan, Shots, labels_of
from vnait.predict import Fitted, check_replaceable
from vnait.record import Record
from vnait.statistics import Interval, interval
from vnait.text import Table
from vnait.threads import one_thread
from vnait.train import Run

logger = logging.getLogger("vnait")

DEFAULT_METHODS = ("none", "sinusoidal", "learned", "vnait-uniform", "vnait")
METRIC = "accuracy"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What came out. `rows`: a method at a number of shots; `paired`: its difference to the reference on the same seeds."""

    plan: Plan
    records: list[Record]
    reference: str
    path: Path
    rows: list[dict[str, Any]] = field(init=False)
    paired: list[dict[str, Any]] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", list(self._rows()))
        object.__setattr__(self, "paired", list(self._paired()))

    @property
    def table(self) -> Any:
        """`rows` as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.rows)

    @property
    def best(self) -> str:
        """The method with the highest mean validation score at the most labels; the test rows have no say in it."""
        most = _by_size(self.plan.shots)[-1]
        means = {
            method: interval([record.metrics[f"validation_{METRIC}"] for record in self.of(method, most)]).mean
            for method in self.plan.methods
        }
        return max(means, key=lambda method: means[method])

    def sentences(self) -> list[str]:
        """What can be said, in words: who is ahead, who behind, and who can't be told apart from the reference."""
        return [self.sentence(shots) for shots in self.plan.shots]

    def _rows(self) -> Iterator[dict[str, Any]]:
        for shots in self.plan.shots:
            for method in (*BASELINES, *self.plan.methods):
                found = self.of(method, shots)
                yield {
                    "method": method,
                    "shots": shots,
                    "metric": METRIC,
                    **_bounds(interval(_values(found)), "mean"),
                    "seeds": len(found),
                    "parameters": found[0].parameters,
                    "seconds": sum(record.seconds for record in found) / len(found),
                }

    def _paired(self) -> Iterator[dict[str, Any]]:
        for shots in self.plan.shots:
            against = _values(self.of(self.reference, shots))
            for method in (*BASELINES, *self.plan.methods):
                if method != self.reference:
                    own = _values(self.of(method, shots))
                    difference = interval([one - other for one, other in zip(own, against, strict=True)])
                    yield {
                        "method": method,
                        "against": self.reference,
                        "shots": shots,
                        **_bounds(difference, "difference"),
                    }

    def of(self, method: str, shots: Shots) -> list[Record]:
        """The records of a method at a number of shots, in the order of the seeds."""
        by_key = {record.key: record for record in self.records}
        keys = [self.plan.key(Cell(method=method, shots=shots, seed=seed)) for seed in self.plan.seeds]
        return [by_key[key] for key in keys]

    def sentence(self, shots: Shots) -> str:
        rows = [row for row in self.paired if row["shots"] == shots]
        of_sign: dict[int, list[dict[str, Any]]] = {sign: [] for sign in (-1, 0, 1)}
        for row in rows:
            of_sign[Interval(row["difference"], row["ci_low"], row["ci_high"]).sign].append(row)
        parts = [
            f"{self.reference} is {word} {_listed([_points(row) for row in of_sign[sign]])}"
            for sign, word in ((-1, "ahead of"), (1, "behind"))
            if of_sign[sign]
        ]
        if of_sign[0]:
            names = _listed([str(row["method"]) for row in of_sign[0]])
            parts.append(f"{names} can't be told apart from {self.reference} on {_these_seeds(len(self.plan.seeds))}")
        where = "With all labels" if shots == ALL else f"At {shots} labels a class"
        return f"{where}: {'; '.join(parts)}."


def compare(
    data: str | Table,
    *,
    methods: Sequence[str] = DEFAULT_METHODS,
    shots: Sequence[Shots] = (ALL,),
    seeds: int | Sequence[int] = 5,
    test: str | Table | None = None,
    out: str | Path = "runs/compare",
    text: str = "text",
    label: str = "label",
    vectors: str | None = None,
    tokenization: str = "words",
    run: Run | None = None,
    reference: str | None = None,
    jobs: int | None = None,
    backend: str = "local",
    watch: Callable[[int, int, Record | None], None] = lambda done, total, record: None,
) -> Comparison:
    """Compare positional methods and two baselines on a labelled file; the best method's model is saved in `out`/model.

    shots       rows a class to learn from (validation rows included), or "all"
    seeds       how many, or which: each seed draws its own rows, splits, starting weights and batches, the same for every method
    test        a file of test rows; without one each seed holds out 30 % of the rows
    reference   the method that the others are paired with: "vnait" where it is compared, else the first
    jobs        cells at a time, one core each; None: all cores. The results do not depend on it

    Finished cells are kept in `out`/records.jsonl and are not run again.
    """
    plan = Plan(
        table=_labelled(data, text, label),
        test=None if test is None else _labelled(test, text, label),
        methods=tuple(methods),
        shots=tuple(shots),
        seeds=tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds),
        run=run or Run(),
        vectors=vectors,
        tokenization=tokenization,
    )
    reference = reference or ("vnait" if "vnait" in plan.methods else plan.methods[0])
    if reference not in (*plan.methods, *BASELINES):
        raise InputError(f"reference {reference!r} is not compared: take one of {', '.join(plan.methods)}.")
    _warn_of_repeats(plan)
    _check_splits(plan)
    out = Path(out)
    check_replaceable(out / "model")
    path = out / "records.jsonl"
    found = run_cells(plan, path, jobs=jobs or os.cpu_count() or 1, backend=backend, watch=watch)
    comparison = Comparison(plan=plan, records=found, reference=reference, path=path)
    _save_best(plan, comparison.best, out / "model")
    return comparison


def run_cells(
    plan: Plan,
    path: str | Path,
    *,
    jobs: int = 1,
    backend: str = "local",
    watch: Callable[[int, int, Record | None], None] = lambda done, total, record: None,
) -> list[Record]:
    """The records of all cells of a plan; those that `path` holds are not run again."""
    cells = {plan.key(cell): cell for cell in plan.cells()}
    return records.resumed(path, cells, lambda left: _results(plan, left, jobs, backend), watch)


def _results(plan: Plan, cells: list[Cell], jobs: int, backend: str) -> Iterator[Record]:
    """Records as they come in."""
    from joblib import Parallel, delayed

    if not cells:
        return iter(())
    words = {seed: plan.lexicon(seed) for seed in _lexicon_seeds(plan, cells)}
    tasks = (delayed(run_cell)(plan, cell, words[_lexicon_seed(plan, cell.seed)]) for cell in cells)
    workers = min(jobs, len(cells))
    results: Iterator[Record] = Parallel(
        n_jobs=workers, backend=_backend(backend, workers), return_as="generator_unordered"
    )(tasks)
    return results


def _lexicon_seed(plan: Plan, seed: int) -> int:
    """With a test file all seeds learn from the same pool, so one set of vectors serves them all."""
    return seed if plan.test is None else plan.seeds[0]


def _lexicon_seeds(plan: Plan, cells: list[Cell]) -> list[int]:
    return sorted({_lexicon_seed(plan, cell.seed) for cell in cells})


def run_cell(plan: Plan, cell: Cell, words: Lexicon) -> Record:
    """Train and test one cell on one core, so that the result is the same however many run beside it."""
    with one_thread(), _hushed():
        if cell.method not in BASELINES:
            record = _fitted(plan, cell, words).record
            assert record is not None
            return record
        table, test = plan.rows(cell.shots, cell.seed)
        record = fit_baseline(cell.method, table, test, words, tokenization=plan.tokenization, seed=cell.seed)
    return _of_cell(record, plan, cell)


def _fitted(plan: Plan, cell: Cell, words: Lexicon) -> Fitted:
    table, test = plan.rows(cell.shots, cell.seed)
    fitted = train.fit(replace(plan.run, method=cell.method, seed=cell.seed), table, words, test=test)
    assert fitted.record is not None
    return replace(fitted, record=_of_cell(fitted.record, plan, cell))


def _of_cell(record: Record, plan: Plan, cell: Cell) -> Record:
    return replace(record, key=plan.key(cell), data={**record.data, "shots": cell.shots})


def _save_best(plan: Plan, method: str, folder: Path) -> None:
    """The winner, trained on all rows of the first seed's learning side: never on its test rows. Not again if it is there."""
    cell = Cell(method=method, shots=ALL, seed=plan.seeds[0])
    note = folder / "record.json"
    if note.is_file() and [record.key for record in records.read(note)] == [plan.key(cell)]:
        return
    with one_thread():
        _fitted(plan, cell, plan.lexicon(cell.seed)).save(folder)


@contextmanager
def _hushed() -> Iterator[None]:
    """No notes: what there is to say of the texts would be said again by every cell."""
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _backend(name: str, workers: int) -> str:
    if name == "local":
        return "loky" if workers > 1 else "sequential"
    if name != "ray":
        raise InputError(f"backend {name!r} is not known: take local or ray.")
    try:
        from ray.util.joblib import register_ray
    except ImportError as error:
        raise InputError("backend ray needs Ray: pip install 'vnait[ray]'.") from error
    register_ray()
    return "ray"


def _labelled(data: str | Table, text: str, label: str) -> Table:
    return data if isinstance(data, Table) else texts.read(data, text=text, label=label)


def _warn_of_repeats(plan: Plan) -> None:
    learn, test = plan.split(plan.seeds[0])
    if count := texts.repeated(learn.texts, test.texts):
        logger.warning(
            "%d of %d test rows also occur among the rows to learn from: scores will be too high. Remove the repeats.",
            count,
            len(test),
        )


def _check_splits(plan: Plan) -> None:
    """Draw every split before anything trains, so that a class with too few rows stops the whole at once."""
    for seed in plan.seeds:
        for shots in plan.shots:
            table, _ = plan.rows(shots, seed)
            if plan.run.validation:
                texts.split(labels_of(table), holdout=plan.run.validation, seed=seed)


def _values(found: list[Record]) -> list[float]:
    return [record.metrics[METRIC] for record in found]


def _bounds(found: Interval, name: str) -> dict[str, float | None]:
    return {name: found.mean, "ci_low": found.low, "ci_high": found.high}


def _by_size(shots: Sequence[Shots]) -> list[Shots]:
    return sorted(shots, key=lambda count: float("inf") if count == ALL else float(count))


def _points(row: dict[str, Any]) -> str:
    low, high = (
        sorted((-100 * row["ci_low"], -100 * row["ci_high"]))
        if row["difference"] < 0
        else (
            100 * row["ci_low"],
            100 * row["ci_high"],
        )
    )
    return f"{row['method']} by {abs(100 * row['difference']):.1f} points [{low:.1f}, {high:.1f}]"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _these_seeds(count: int) -> str:
    return (
        f"these {count} seeds"
        if count >= 3
        else f"{count} seed{'s' if count > 1 else ''}: too few for an interval (3 or more)"
    )
