"""The trainings of a plan, method x shots x seed, here or by workers; each model is tested."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from vnait.comparison import runs
from vnait.comparison.engines import in_workers
from vnait.comparison.plan import Plan, Training
from vnait.comparison.runs import Callback
from vnait.data.coverage import log_coverage
from vnait.data.vocabulary import Vocabulary
from vnait.positions.methods import METHODS, with_bases
from vnait.positions.recipe import Recipe
from vnait.results.record import Record
from vnait.results.results import Shots, by_size
from vnait.shared.processes import one_thread
from vnait.shared.quiet import logger_at
from vnait.train import fitting as train
from vnait.train.base import Base
from vnait.train.baselines import FROZEN_BASE, fit_baseline, pooled
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
    """The records of all trainings of a plan; those with a record in `path` are not run again.

    keep   a folder for the models of the first seed and the most labels; None: no model is saved
    """
    trainings = {plan.key(training): training for training in plan.trainings()}
    workers: dict[str, Any] = {"jobs": jobs, "cores": plan.run.threads, "backend": backend}
    return runs.run_all(
        path, trainings, lambda left: _calls(plan, left, workers, keep), **workers, callback=callback
    )


def _calls(
    plan: Plan, trainings: list[Training], workers: dict[str, Any], keep: Path | None
) -> Iterator[Any]:
    """A call per training; the vocabularies, which trainings share, are learned first, also by workers."""
    from joblib import delayed

    keys = list(dict.fromkeys(map(plan.vocabulary_key, trainings)))
    learning = (delayed(_vocabulary)(plan, key) for key in keys)
    words = dict(in_workers(learning, **workers, later=len(trainings)))
    for method in set(plan.methods) & set(METHODS):
        # A method that can't have vectors of this width raises before anything trains.
        run = replace(plan.run, method=method)
        new_model(words[keys[0]], run, ["a", "b"], [1], plan.table.task)
    log_coverage(words[keys[0]].covers(plan.split(trainings[0].seed)[1].texts))
    for training in trainings:
        yield delayed(run_training)(
            plan,
            training,
            words[plan.vocabulary_key(training)],
            with_bases(method) if (method := training.method.removeprefix(PREFIX)) in METHODS else {},
            keep,
        )


def _vocabulary(plan: Plan, key: tuple[int, Shots]) -> tuple[tuple[int, Shots], Vocabulary]:
    with one_thread(), logger_at("vnait", logging.ERROR):  # each training would warn of the texts
        return key, plan.vocabulary(*key)


def run_training(
    plan: Plan,
    training: Training,
    words: Vocabulary,
    recipes: Mapping[str, Recipe],
    keep: Path | None = None,
) -> Record:
    """Train and test one model on its own threads, so that the result does not depend on other trainings.

    recipes   of the method and its bases, since a worker process does not know those that the user defined
    """
    METHODS.update(recipes)
    with one_thread(), logger_at("vnait", logging.ERROR):  # each training would warn of the texts
        fitted = fit_model(plan, training, words)
        if keep is not None and training == saved_training(plan, training.method):
            fitted.save(keep / plan.key(training))
    assert fitted.record is not None
    return fitted.record


def fit_model(plan: Plan, training: Training, words: Vocabulary) -> Fitted | LinearClassifier:
    """The model of a training, whose record has the training's key and the scores on the test rows."""
    table, test = plan.rows(training.shots, training.seed)
    fitted: Fitted | LinearClassifier
    if training.method in plan.baselines:
        frozen = training.method == FROZEN_BASE and plan.base is not None
        fitted = fit_baseline(
            training.method,
            table,
            test,
            pooled(str(plan.base)) if frozen else words,
            tokenization=plan.tokenization,
            seed=training.seed,
            validation=plan.run.held_out(len(table)) if plan.chooses else 0,
            class_weight=plan.run.class_weight,
            more=plan.unlabelled_texts(training.seed) if plan.counts_rest(training) else None,
        )
    else:
        run = plan.run_of(training)
        fitted = train.fit(run, table, words if run.base is None else Base.load(run.base), test=test)
    assert fitted.record is not None
    data = {
        **fitted.record.data,
        "shots": training.shots,
        "unlabelled_rows": plan.unlabelled_rows(training),
    }
    record = replace(fitted.record, key=plan.key(training), method=training.method, data=data)
    return replace(fitted, record=record)


def saved_training(plan: Plan, method: str) -> Training:
    """The training whose model is saved if the method is best: of the first seed and the most labels."""
    return Training(method=method, shots=by_size(plan.shots)[-1], seed=plan.seeds[0])
