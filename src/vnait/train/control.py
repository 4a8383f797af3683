"""The control of an explanation: the same training on the same rows, with shuffled labels."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from vnait.data import NO_LIMIT, Table
from vnait.data.rows import generator
from vnait.data.tables import labels_of
from vnait.data.vocabulary import Vocabulary
from vnait.shared.errors import InputError
from vnait.train.base import Base
from vnait.train.fitting import fit
from vnait.train.predict import Fitted
from vnait.train.run import Run
from vnait.train.tracking import Status


def shuffled(
    fitted: Fitted, table: Table, *, callback: Callable[[Status], None] = lambda status: None
) -> Fitted:
    """A model of the settings, vectors and rows of `fitted`, whose labels are shuffled among the rows; on a
    pretrained base it starts from the base again.

    InputError if these are other rows, or if the model does not have the vectors that it learned with.
    """
    record = fitted.record
    tables = (table, replace(table, more=[]))  # with its rows without a label, or without
    fingerprint = None if record is None else record.data.get("fingerprint")
    table = next((rows for rows in tables if rows.fingerprint == fingerprint), table)
    if record is None or fingerprint != table.fingerprint:
        raise InputError(
            f"{table.name} does not have the rows that the model learned from; give the file that "
            "`vnait train` was given, with the same --text, --label and --group."
        )
    run = Run.of(record.run)
    if "continued" in record.data:
        raise InputError(
            "a control starts from new weights, and this model went on from another one; explain a model "
            "that learned all of its rows at once."
        )
    if run.tune_vectors:
        raise InputError(
            "a control starts from the model's vectors, and this training changed them; train one on "
            "shuffled labels with `vnait train`, and explain it."
        )
    labels = labels_of(table)
    order = generator(seed=run.seed).permutation(len(labels))
    mixed = replace(table, labels=[labels[row] for row in order])
    words = _vocabulary(fitted, table) if run.base is None else Base.load(run.base)
    return fit(run, mixed, words, callback=callback)


def _vocabulary(fitted: Fitted, table: Table) -> Vocabulary:
    """The words and vectors of a model, with their frequencies in the texts of its table."""
    vectors = fitted.model.get_input_embeddings().weight.detach().numpy()
    source = "" if fitted.record is None else str(fitted.record.data["vectors"])
    words = Vocabulary(fitted.tokenizer, vectors, source, np.zeros(len(vectors), dtype=np.float32))
    ids = np.concatenate(words.encode([*table.texts, *table.more], max_length=NO_LIMIT))
    counts = np.bincount(ids, minlength=len(vectors))
    return replace(words, frequency=(counts / counts.sum()).astype(np.float32))
