"""Training: a `Run`, texts and labels in, a trained classifier with its `Record` out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from vnait.data import Table, unknown_share, warn_of_repeats
from vnait.data.pairs import are_pairs, check_sides
from vnait.data.tasks import TAGGING
from vnait.data.vocabulary import Vocabulary
from vnait.model import VnaitForSequenceClassification
from vnait.positions.building import parameters
from vnait.results.metrics import metric_of
from vnait.results.record import Record
from vnait.shared.errors import InputError
from vnait.shared.keys import key_of
from vnait.shared.processes import threads, usual_torch
from vnait.train.arrays import row_weights
from vnait.train.base import Base
from vnait.train.checkpoints import Checkpoints
from vnait.train.continued import Continued
from vnait.train.labelled import Labelled
from vnait.train.loop import Loop
from vnait.train.mixing import choice_of
from vnait.train.predict import Fitted
from vnait.train.run import Run
from vnait.train.tracking import Status, tracking

logger = logging.getLogger("vnait")


def fit(
    run: Run,
    table: Table,
    vocabulary: Vocabulary | Base,
    *,
    test: Table | None = None,
    weights: Sequence[float] | None = None,
    checkpoints: str | Path | None = None,
    callback: Callable[[Status], None] = lambda status: None,
) -> Fitted:
    """Train one classifier on labelled texts. The same run gives the same weights, whatever ran before or
    runs beside it and on however many cores. It neither reads nor changes the global generators of random
    numbers.

    weights       how much each row counts, in every loss and in the linear part; only their ratios matter
    checkpoints   a folder from which a killed run continues after its last evaluation, with the same result;
                  its files stay until `forget`, so that nothing is lost if the model can't be saved
    callback      called with the `Status` after each step
    """
    prepared = prepare(run, table, vocabulary, test=test, weights=weights)
    return train(prepared, checkpoints=checkpoints, callback=callback)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A run with its texts as ids.

    fingerprints    the fingerprints of texts, labels, vectors and weights
    facts    about the data, for the record
    pairs    whether a row has two texts
    """

    run: Run
    fingerprints: list[Any]
    labelled: Labelled
    test: Table | None
    facts: dict[str, Any]
    pairs: bool

    @property
    def bag_share(self) -> float:
        """The share of the linear part that a further training starts with, and does not change."""
        return float(self.facts.get("continued", {}).get("bag_share", 0.0))

    @property
    def key(self) -> str:
        """The fingerprint of all of it."""
        choice = choice_of(self.run, self.labelled.target.task)
        return key_of(self.run.facts, *self.fingerprints, *choice)

    def penalized(self, smoothness: float, boundary: float) -> Prepared:
        """The same texts, with other weights of the coordinates' regularizer."""
        return replace(self, run=replace(self.run, smoothness=smoothness, boundary=boundary))


def prepare(
    run: Run,
    table: Table,
    vocabulary: Vocabulary | Base,
    *,
    test: Table | None = None,
    weights: Sequence[float] | None = None,
) -> Prepared:
    """What `fit` does before the first step. The training texts are not needed after it."""
    if (run.base is None) != isinstance(vocabulary, Vocabulary):
        raise InputError(
            f"the run's base is {run.base!r}, with a {type(vocabulary).__name__}; a run with a base needs a "
            "Base, and one without a Vocabulary."
        )
    run.check_bag(table.task)
    with usual_torch(), threads(run.threads):
        fingerprints = [table.fingerprint, test.fingerprint if test else None, vocabulary.fingerprint]
        labelled = Labelled.of(run, table, vocabulary, row_weights(run.class_weight, table, weights))
        if weights is not None and table.task == TAGGING:
            raise InputError("weights are of texts, and each word has a tag; leave them out.")
        if test is not None:
            check_sides(test.texts, are_pairs(table.texts))
            labelled.target.check(test, table.name)
            table.check_apart(test)
            warn_of_repeats(table.texts, test.texts)
        return Prepared(
            run=run,
            fingerprints=[*fingerprints, *([] if weights is None else [list(weights)])],
            labelled=labelled,
            test=test,
            facts=_facts(table, test, labelled),
            pairs=are_pairs(table.texts),
        )


@usual_torch()
def train(
    prepared: Prepared,
    *,
    checkpoints: str | Path | None = None,
    callback: Callable[[Status], None] = lambda status: None,
) -> Fitted:
    """`fit` from the first step on."""
    run, labelled = prepared.run, prepared.labelled
    with threads(run.threads):
        loop = Loop(run, labelled, Checkpoints(checkpoints, prepared.key))
        with tracking(run, prepared.key) as log:

            def watch(status: Status) -> None:
                log(status)
                callback(status)

            loop.train(watch)
        model, share = loop.model_of(labelled.whole() if loop.joins else labelled)
        validation = loop.progress.validation if loop.joins else labelled.validation_metrics(model)
        test = {} if prepared.test is None else labelled.metrics(model, prepared.test)
        record = Record.now(
            key=prepared.key,
            method=run.method,
            seed=run.seed,
            run=run.settings,
            data={**prepared.facts, **_linear_part(model, prepared.bag_share or share)},
            metrics={**validation, **test},
            parameters=_learned(model),
            seconds=loop.progress.seconds,
        )
    return Fitted(
        model=model,
        tokenizer=labelled.vocabulary.tokenizer,
        record=record,
        max_length=run.max_length if run.base else None,
        pairs=prepared.pairs,
        task=labelled.target.task,
    )


def best(fitted: Sequence[Fitted]) -> Fitted:
    """The one with the best validation score; of equals the first."""
    records = [model.record for model in fitted if model.record is not None]
    metric = metric_of(records[0].metrics, "validation_")
    if metric is None:
        raise InputError("no rows were held out, so no setting can be chosen; give one value of each.")
    scores = [float(record.metrics[f"validation_{metric.name}"]) for record in records]
    for record, score in zip(records, scores, strict=True):
        logger.info(
            "smoothness %g, boundary %g: validation %s %s",
            record.run["smoothness"],
            record.run["boundary"],
            metric.title,
            metric.form.format(score),
        )
    return fitted[max(range(len(scores)), key=lambda at: metric.better * scores[at])]


def forget(checkpoints: str | Path, fitted: Fitted) -> None:
    """Delete what `fit` left in `checkpoints`, once the model is saved."""
    assert fitted.record is not None
    Checkpoints(checkpoints, fitted.record.key).remove()


def _linear_part(model: PreTrainedModel, share: float) -> dict[str, Any]:
    """The share of the linear part in the logits, and which it is, for the record."""
    return {"bag_share": share, **({"linear_part": model.bag.part} if share else {})}


def _learned(model: PreTrainedModel) -> int:
    """Learned scalars, including those of a fitted linear part."""
    if not isinstance(model, VnaitForSequenceClassification) or not model.bag.is_fitted:
        return parameters(model)
    return parameters(model) + model.bag.logits.numel() + model.bag.bias.numel()


def _facts(table: Table, test: Table | None, labelled: Labelled) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": table.name,
        "fingerprint": table.fingerprint,
        "rows": len(table),
        "validation_rows": len(labelled.valid),
        **labelled.target.facts,
        "vectors": labelled.vocabulary.source,
        "vocabulary": len(labelled.vocabulary.tokenizer),
    }
    if isinstance(labelled.vocabulary, Vocabulary):
        if table.more and not isinstance(labelled.vocabulary, Continued):  # which keeps its words
            facts["unlabelled_rows"] = len(table.more)
        facts["unknown_share"] = unknown_share(labelled.vocabulary.tokenizer, labelled.ids)
        if coverages := labelled.vocabulary.covers(None if test is None else test.texts):
            facts["coverage"] = coverages
    if isinstance(labelled.vocabulary, Continued):
        facts["continued"] = dict(labelled.vocabulary.before)
    if table.groups is not None:
        facts["groups"] = len(set(table.groups))
    if test is not None:
        facts.update(test_fingerprint=test.fingerprint, test_rows=len(test))
    return facts
