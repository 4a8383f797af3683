"""The cells of a plan, each trained and tested, here or by workers: method x shots x seed."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from vnait.comparison import runs
from vnait.comparison.engines import in_workers
from vnait.comparison.plan import Cell, Plan
from vnait.comparison.runs import Callback
from vnait.data.coverage import log_coverage
from vnait.data.vocabulary import Vocabulary
from vnait.positions.methods import METHODS
from vnait.positions.recipe import Recipe
from vnait.results.record import Record
from vnait.results.results import Shots, by_size
from vnait.shared.processes import one_thread
from vnait.shared.quiet import logger_at
from vnait.train import fitting as train
from vnait.train.base import Base
from vnait.train.baselines import FROZEN, fit_baseline, pooled
from vnait.train.linear import LinearClassifier
from vnait.train.models import new_model
from vnait.train.predict import Fitted
from vnait.train.run import PREFIX


def run_plan(
    plan: Plan,
    path: str | Path,
    *,
    jobs: int | None = 1,
    backend: str = "local",
    callback: Callback = lambda done, total, record: None,
    keep: Path | None = None,
) -> list[Record]:
    """The records of all cells of a plan; cells with a record in `path` are not run again.

    keep   a folder for the models of the first seed and the most labels; None: no model is saved
    """
    cells = {plan.key(cell): cell for cell in plan.cells()}
    workers: dict[str, Any] = {"jobs": jobs, "cores": plan.run.threads, "backend": backend}
    return runs.run_all(
        path, cells, lambda left: _calls(plan, left, workers, keep), **workers, callback=callback
    )


def _calls(plan: Plan, cells: list[Cell], workers: dict[str, Any], keep: Path | None) -> Iterator[Any]:
    """A call per cell; the vocabularies, which cells share, are learned first, also by workers."""
    from joblib import delayed

    keys = list(dict.fromkeys(map(plan.vocabulary_key, cells)))
    learning = (delayed(_vocabulary)(plan, key) for key in keys)
    words = dict(in_workers(learning, **workers, later=len(cells)))
    for method in set(plan.methods) & set(METHODS):
        # A method that can't have vectors of this width raises before anything trains.
        run = replace(plan.run, method=method)
        new_model(words[keys[0]], run, ["a", "b"], [1], plan.table.task)
    log_coverage(words[keys[0]].covers(plan.split(cells[0].seed)[1].texts))
    for cell in cells:
        yield delayed(run_cell)(
            plan,
            cell,
            words[plan.vocabulary_key(cell)],
            METHODS.get(cell.method.removeprefix(PREFIX)),
            keep,
        )


def _vocabulary(plan: Plan, key: tuple[int, Shots]) -> tuple[tuple[int, Shots], Vocabulary]:
    with one_thread(), logger_at("vnait", logging.ERROR):  # each cell would warn of the texts
        return key, plan.vocabulary(*key)


def run_cell(
    plan: Plan, cell: Cell, words: Vocabulary, recipe: Recipe | None = None, keep: Path | None = None
) -> Record:
    """Train and test one cell on its own threads, so that the result does not depend on other cells.

    recipe   of the method, since a worker process does not know a method that the user defined
    """
    if recipe is not None:
        METHODS[cell.method.removeprefix(PREFIX)] = recipe
    with one_thread(), logger_at("vnait", logging.ERROR):  # each cell would warn of the texts
        fitted = fit_cell(plan, cell, words)
        if keep is not None and cell == saved_cell(plan, cell.method):
            fitted.save(keep / plan.key(cell))
    assert fitted.record is not None
    return fitted.record


def fit_cell(plan: Plan, cell: Cell, words: Vocabulary) -> Fitted | LinearClassifier:
    """The trained model of a cell; its record has the cell's key, and its scores on the test rows."""
    table, test = plan.rows(cell.shots, cell.seed)
    fitted: Fitted | LinearClassifier
    if cell.method in plan.baselines:
        frozen = cell.method == FROZEN and plan.base is not None
        fitted = fit_baseline(
            cell.method,
            table,
            test,
            pooled(str(plan.base)) if frozen else words,
            tokenization=plan.tokenization,
            seed=cell.seed,
            validation=plan.run.held_out(len(table)) if plan.chooses else 0,
            class_weight=plan.run.class_weight,
            more=plan.split(cell.seed)[0].texts if plan.counts_rest(cell) else None,
        )
    else:
        run = plan.run_of(cell)
        fitted = train.fit(run, table, words if run.base is None else Base.load(run.base), test=test)
    assert fitted.record is not None
    data = {**fitted.record.data, "shots": cell.shots, "unlabelled_rows": plan.unlabelled_rows(cell)}
    return replace(fitted, record=replace(fitted.record, key=plan.key(cell), method=cell.method, data=data))


def saved_cell(plan: Plan, method: str) -> Cell:
    """The cell whose model is saved if the method is best: of the first seed and the most labels."""
    return Cell(method=method, shots=by_size(plan.shots)[-1], seed=plan.seeds[0])
