"""A fitted linear model of a text's features, saved without pickle."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from scipy import special

from vnait.data.pairs import check_sides
from vnait.data.sentences import split_words
from vnait.data.tasks import CLASSIFICATION, MULTILABEL, REGRESSION, TAGGING, check_class, check_task
from vnait.pretrained.attach.saving import BASE
from vnait.results.record import Record, warn_of_other
from vnait.shared import schemas
from vnait.shared.errors import InputError, as_input_error, first_line
from vnait.shared.escaping import json_text
from vnait.shared.files import atomic_folder
from vnait.train.attribution import TokenParts, by_occlusion, by_terms
from vnait.train.base import Base
from vnait.train.features import CONTEXTS, WEIGHED, Contexts, Features, Joined, Pooled, Terms
from vnait.train.replacing import LINEAR, check_replaceable

WEIGHTS = "model.safetensors"
FORMAT = 2


@dataclass(frozen=True, kw_only=True)
class LinearClassifier:
    """logits = features(texts) weights + bias, weights (F, C); the interface of `Fitted` in predict.py."""

    name: str
    features: Features
    classes: list[str]
    weights: NDArray[np.float64]
    bias: NDArray[np.float64]
    inputs: int  # learned weights per class; "mean" stores the product with the word vectors
    record: Record | None = None
    pairs: bool = False  # whether it reads two texts per row
    task: str = CLASSIFICATION  # one of `vnait.data.tasks.TASKS`

    def outputs(self, texts: Sequence[str]) -> Any:
        """Logits (texts, C), or a list of logits (words, C) if it tags words."""
        logits = self.logits(texts)
        if self.task != TAGGING:
            return logits
        return np.split(logits, np.cumsum([len(split_words(text)) for text in texts])[:-1])

    def of_words(self, texts: Sequence[str]) -> list[NDArray[np.float64]]:
        """P(tag | word) of each sentence (words, tags)."""
        return [special.softmax(row, axis=1) for row in self.outputs(texts)]

    def logits(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Logits (texts, C); of all words (words, C) if it tags words."""
        check_sides(texts, self.pairs)
        logits: NDArray[np.float64] = self.features(texts) @ self.weights + self.bias
        return logits

    def probabilities(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """P(class | text), (texts, C); of the bias alone for a text without a known term."""
        check_task(self.task, CLASSIFICATION, MULTILABEL)
        logits = self.logits(texts)
        if self.task == MULTILABEL:
            return np.asarray(special.expit(logits))
        return np.asarray(special.softmax(logits, axis=1))

    def numbers(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """The number of each text (texts,), of a regression."""
        check_task(self.task, REGRESSION)
        return self.logits(texts)[:, 0]

    def explain(self, text: str, label: str | None = None) -> dict[str, Any]:
        """answer, label (by default the answer), its probability, and the summands of its logit minus the
        mean logit: bias and terms; then the tokens, what each adds to this difference, and what that means.
        """
        if self.pairs:
            raise InputError("the model reads pairs of texts, and explain shows one; use `vnait predict`.")
        if isinstance(self.features, Pooled):
            raise InputError(
                f"the model {self.name} embeds whole texts, so it has no terms to list; explain another one."
            )
        check_task(self.task, CLASSIFICATION)
        if label is not None:
            check_class(label, self.classes)
        probability = self.probabilities([text])[0]
        answer = self.classes[int(probability.argmax())]
        explained = self.classes.index(label or answer)
        row = self.features([text]).tocoo()
        over, names = self.weights[:, explained] - self.weights.mean(1), self.features.names
        added = {names[column]: float(x * over[column]) for column, x in zip(row.col, row.data, strict=True)}
        return {
            "method": self.name,
            "answer": answer,
            "label": self.classes[explained],
            "probability": float(probability[explained]),
            "bias": float(self.bias[explained] - self.bias.mean()),
            "terms": dict(sorted(added.items(), key=lambda item: -abs(item[1]))),
            **self._of_tokens(text, explained, added),
        }

    def _of_tokens(self, text: str, explained: int, added: Mapping[str, float]) -> TokenParts:
        """What each token adds: exactly where each term has its tokens, else by leaving the token out."""
        assert isinstance(self.features, Joined)
        first, *rest = self.features.parts
        if not rest and first.kind in ("places", "mean"):
            return by_terms(first, added, text)

        def logit(texts: Sequence[str]) -> NDArray[np.float64]:
            logits = self.logits(texts)
            return logits[:, explained] - logits.mean(1)

        return by_occlusion(logit, first.tokenization, text)

    def save(self, folder: str | Path, *, extras: Mapping[str, str] | None = None) -> None:
        """Write the folder, whole or not at all: weights, terms, classes, record, extra files."""
        notes = {
            "format": FORMAT,
            "name": self.name,
            "task": self.task,
            **({"pairs": True} if self.pairs else {}),
            "classes": self.classes,
            "inputs": self.inputs,
            "parts": [],  # of a pooled encoder, which has a folder of its own
        }
        arrays = {"weights": self.weights, "bias": self.bias}
        if isinstance(self.features, Contexts):
            notes["parts"] = [asdict(self.features)]
        elif isinstance(self.features, Joined):
            notes["parts"] = [part.notes() for part in self.features.parts]
            idfs = {_idf(number): part.idf for number, part in enumerate(self.features.parts)}
            arrays |= {name: idf for name, idf in idfs.items() if idf is not None}
        files = {LINEAR: json_text(notes), **(extras or {})}
        if self.record is not None:
            files["record.json"] = self.record.line() + "\n"
        check_replaceable(folder)
        warn_of_other(folder, self.record)
        with atomic_folder(folder) as draft:
            if isinstance(self.features, Pooled):
                self.features.save(draft / BASE)
            save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, draft / WEIGHTS)
            for name, content in files.items():
                (draft / name).write_text(content, encoding="utf-8")


def load(folder: Path, record: Record | None) -> LinearClassifier:
    """Load what `LinearClassifier.save` wrote; an `InputError` names the damage."""
    kinds = (OSError, ValueError, KeyError, TypeError, RecursionError, SafetensorError)
    after = ". Save the model again, or train it again."
    with as_input_error(kinds, f"{folder} is damaged: ", after, message=first_line):
        document = json.loads((folder / LINEAR).read_text(encoding="utf-8"))
        notes = schemas.check(schemas.Baseline, document, LINEAR)
        arrays = load_file(folder / WEIGHTS)
        features = _features(folder, notes, arrays)
        model = LinearClassifier(
            features=features,
            weights=arrays["weights"],
            bias=arrays["bias"],
            record=record,
            pairs=notes.get("pairs", False),
            **{name: notes[name] for name in ("name", "task", "classes", "inputs")},
        )
    width = model.inputs if isinstance(features, Pooled) else len(features.names)
    classes = len(model.classes)
    expected = {"weights": (width, classes), "bias": (classes,)}
    for number, part in enumerate(notes["parts"]):
        if part["kind"] in WEIGHED:
            expected[_idf(number)] = (len(part["terms"]),)
    for name, shape in expected.items():
        has = arrays[name].shape if name in arrays else "missing"
        if has != shape:
            raise InputError(f"{folder} is damaged: its {name} are {has}, not {shape}. Train it again.")
    return model


def _features(folder: Path, notes: Mapping[str, Any], arrays: Mapping[str, Any]) -> Features:
    parts = notes["parts"]
    if not parts:
        if not (folder / BASE).is_dir():
            raise ValueError(f"it has neither terms nor an encoder in {BASE}")
        return Pooled(Base.load(folder / BASE))
    if parts[0]["kind"] in CONTEXTS:
        return Contexts(kind=parts[0]["kind"], terms=parts[0]["terms"])
    try:
        return Joined(
            tuple(
                Terms(**schemas.known(schemas.Part, part), idf=arrays.get(_idf(number)))
                for number, part in enumerate(parts)
            )
        )
    except InputError as error:  # of a tokenization
        raise ValueError(str(error).rstrip(".")) from error


def _idf(part: int) -> str:
    """The name of a part's inverse document frequencies among the arrays."""
    return f"idf_{part}"
