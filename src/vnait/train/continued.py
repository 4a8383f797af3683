"""Further training of a saved Transformer on new rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedModel

from vnait.data import Table
from vnait.data.pairs import check_sides
from vnait.data.tasks import CLASSIFICATION, REGRESSION
from vnait.data.vocabulary import Vocabulary
from vnait.shared.errors import InputError
from vnait.train.linear import LinearClassifier
from vnait.train.predict import Fitted, load
from vnait.train.run import Run
from vnait.train.tasks import target_of


@dataclass(frozen=True, eq=False)
class Continued(Vocabulary):
    """The words and vectors of the model in a folder, and the model itself, from which a training starts.

    before   of the record of that model: its key, and the name and rows of its data
    """

    folder: str = ""
    before: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, fitted: Fitted, folder: str | Path, table: Table) -> Continued:
        """The words of a loaded model; InputError if the table has other labels, or pairs of texts where the
        model reads single ones.
        """
        record = _record(fitted, folder)
        check_sides(table.texts, fitted.pairs)
        if table.task != REGRESSION:
            _check_labels(list(target_of(table).names), fitted.classes, table.name, folder)
        vectors = fitted.model.get_input_embeddings().weight.detach().numpy()
        before = {"key": record.key, "name": record.data["name"], "rows": record.data["rows"]}
        before["bag_share"] = record.data.get("bag_share", 0.0)
        frequency = np.zeros(len(vectors), dtype=np.float32)  # read for a linear part alone, which it has
        source = str(record.data["vectors"])
        return cls(fitted.tokenizer, vectors, source, frequency, folder=str(folder), before=before)

    def new_model(
        self, run: Run, classes: Sequence[str], lengths: Sequence[int], task: str = CLASSIFICATION
    ) -> PreTrainedModel:
        """The saved model, loaded again, since a training changes it."""
        return loaded(self.folder).model

    @property
    def fingerprint(self) -> str:
        """That of the words, with the model's weights."""
        digest = hashlib.sha256(super().fingerprint.encode())
        for path in sorted(Path(self.folder).glob("*.safetensors")):
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()[:16]


def loaded(folder: str | Path) -> Fitted:
    """The model in a folder; InputError if it is none that a training can go on from."""
    fitted = load(folder)
    if isinstance(fitted, LinearClassifier):
        raise InputError(
            f"{folder} has the simple model {fitted.name}, which is fitted at once and can't be trained "
            "further; train it again on the old and the new rows together."
        )
    if fitted.max_length is not None:
        raise InputError(
            f"{folder} has a fine-tuned base, and only models trained from scratch can be trained further; "
            "fine-tune the base again, with --base, on the old and the new rows together."
        )
    return fitted


def run_of(fitted: Fitted, folder: str | Path, changes: Mapping[str, Any]) -> Run:
    """The settings of the model's training, with these changes. Its linear part stays as it is."""
    return Run.of(_record(fitted, folder).run, **{**changes, "bag": 0.0})


def _record(fitted: Fitted, folder: str | Path) -> Any:
    if fitted.record is None:
        raise InputError(
            f"{folder} has no record.json, which states how its model was trained; give a folder as "
            "`vnait train` wrote it."
        )
    return fitted.record


def _check_labels(labels: Sequence[str], classes: Sequence[str], name: str, folder: str | Path) -> None:
    """Raise InputError unless these are the model's classes."""
    new, missing = (sorted({*a} - {*b}) for a, b in ((labels, classes), (classes, labels)))
    if new or missing:
        parts = [f"{name} also has {', '.join(map(repr, new[:3]))}"] * bool(new)
        parts += [f"{name} lacks {', '.join(map(repr, missing[:3]))}"] * bool(missing)
        raise InputError(
            f"further training needs the labels of the model in {folder}, and {', and '.join(parts)}; train "
            "a new model on the old and the new rows together."
        )
    if list(labels) != list(classes):
        raise InputError(f"{folder} is of another version, with its labels in another order; train it again.")
