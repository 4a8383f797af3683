"""Linear classifiers of a text's terms or embedding: what the baselines are once fitted, on the disk and back, without pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from scipy import sparse, special
from transformers import AutoModel

from vnait import text as texts_module
from vnait.bases import BASE, Base, no_bars
from vnait.errors import InputError
from vnait.files import whole_folder
from vnait.record import Record

NOTES, WEIGHTS = "baseline.json", "model.safetensors"
WRITTEN = (NOTES, WEIGHTS, "record.json", "README.md")  # what stands in such a folder

Features = Any  # a sparse array of scikit-learn's kind (texts, F); scipy has no types


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Words, and pairs of neighbouring words, as numbers: (texts, F), F the number of terms.

    kind           "tfidf": (1 + log n_j) idf_j of each term j, rows of unit length;  "mean": the share of each word in the text
    tokenization   as `vnait.text.words` takes it
    terms          their names, in the order of the columns;  idf (F,), of "tfidf" alone
    unknown        of "mean": the term that stands for every other word, and for a text without any
    """

    kind: str
    tokenization: str
    terms: list[str]
    idf: NDArray[np.float64] | None = None
    unknown: str | None = None

    def __call__(self, given: Sequence[str]) -> Features:
        columns = {term: column for column, term in enumerate(self.terms)}
        rows = [self._columns(words, columns) for words in texts_module.words(given, self.tokenization)]
        counts = sparse.csr_array(
            (
                np.ones(sum(map(len, rows))),
                (np.repeat(np.arange(len(rows)), list(map(len, rows))), [one for row in rows for one in row]),
            ),
            shape=(len(rows), len(self.terms)),
        )
        counts.sum_duplicates()
        if self.idf is None:
            return _over(counts, np.asarray(counts.sum(1)).ravel())
        counts.data = 1 + np.log(counts.data)
        weighed = sparse.csr_array(counts.multiply(self.idf[None]))
        return _over(weighed, np.sqrt(np.asarray(weighed.power(2).sum(1)).ravel()))

    def of(self, words: Sequence[str]) -> list[str]:
        """The terms of one text's words, in order; the pairs after the words."""
        pairs = [] if self.kind == "mean" else [f"{one} {other}" for one, other in pairwise(words)]
        return [*words, *pairs]

    def _columns(self, words: Sequence[str], columns: Mapping[str, int]) -> list[int]:
        if self.unknown is None:
            return [columns[term] for term in self.of(words) if term in columns]
        return [columns.get(term, columns[self.unknown]) for term in words] or [columns[self.unknown]]


def _over(rows: Features, lengths: NDArray[Any]) -> Features:
    """Each row divided by its length; a row without a known term stays zero."""
    return sparse.csr_array(sparse.diags_array(1 / np.where(lengths > 0, lengths, 1)) @ rows)


class Pooled:
    """The mean of a pretrained encoder's last states over a text's tokens, scaled to unit length: (texts, D).

    That is what sentence-transformers does with most of its encoders. Texts are cut at 256 tokens; each is read once per process.
    """

    LONGEST = 256

    def __init__(self, base: Base) -> None:
        self.base = base
        with no_bars():
            self.model = AutoModel.from_pretrained(base.source).eval()
        self.known: dict[str, NDArray[np.float32]] = {}

    @torch.no_grad()
    def __call__(self, given: Sequence[str]) -> NDArray[np.float32]:
        new = sorted({text for text in given if text not in self.known}, key=len)
        for start in range(0, len(new), 64):
            some = new[start : start + 64]
            ids = self.base.encode(some, max_length=self.LONGEST)
            batch = texts_module.collate(ids, pad_id=self.base.tokenizer.pad_token_id)
            states, mask = self.model(**batch).last_hidden_state, batch["attention_mask"][..., None]
            mean = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1))
            self.known.update(zip(some, mean.numpy(), strict=True))
        return np.stack([self.known[text] for text in given])

    def save(self, folder: Path) -> None:
        """Weights and tokenizer as transformers reads them."""
        with no_bars():
            self.model.save_pretrained(folder)
            self.base.tokenizer.save_pretrained(folder)


@dataclass(frozen=True, kw_only=True)
class LinearClassifier:
    """logits = features(texts) weights + bias, weights (F, C); the probabilities are their softmax.

    It reads and writes as `vnait.predict.Fitted` does: `classes`, `probabilities`, `record`, `save`.
    """

    name: str
    features: Terms | Pooled
    classes: list[str]
    weights: NDArray[np.float64]
    bias: NDArray[np.float64]
    inputs: int  # learned weights per class, before any folding
    record: Record | None = None

    def logits(self, given: Sequence[str]) -> NDArray[np.float64]:
        """(texts, C)."""
        logits: NDArray[np.float64] = self.features(given) @ self.weights + self.bias
        return logits

    def probabilities(self, given: Sequence[str]) -> NDArray[np.float64]:
        """P(class | text), (texts, C). A text without a known term gets the prior, softmax(bias)."""
        found: NDArray[np.float64] = special.softmax(self.logits(given), axis=1)
        return found

    def explain(self, text: str) -> dict[str, Any]:
        """label, probability, bias, and what each term adds to the label's logit over the mean of all labels; they sum to it."""
        if isinstance(self.features, Pooled):
            raise InputError(
                f"the model {self.name} reads one embedding per text, which has no terms to list; ask a model with words."
            )
        probability = self.probabilities([text])[0]
        best = int(probability.argmax())
        row = self.features([text]).tocoo()
        over = self.weights[:, best] - self.weights.mean(1)
        added = {
            self.features.terms[column]: float(x * over[column]) for column, x in zip(row.col, row.data, strict=True)
        }
        return {
            "method": self.name,
            "label": self.classes[best],
            "probability": float(probability[best]),
            "bias": float(self.bias[best] - self.bias.mean()),
            "terms": dict(sorted(added.items(), key=lambda item: -abs(item[1]))),
        }

    def save(self, folder: str | Path, *, extras: Mapping[str, str] | None = None) -> None:
        """Write the folder: weights, terms, classes, record, extra files. It appears whole or not at all."""
        terms = self.features if isinstance(self.features, Terms) else None
        kind = {"kind": "pooled"} if terms is None else asdict(replace(terms, idf=None))
        notes = {"format": 1, "name": self.name, "classes": self.classes, "inputs": self.inputs, **kind}
        arrays = {"weights": self.weights, "bias": self.bias}
        if terms is not None and terms.idf is not None:
            arrays["idf"] = terms.idf
        files = {NOTES: json.dumps(notes, ensure_ascii=False), **(extras or {})}
        if self.record is not None:
            files["record.json"] = self.record.line() + "\n"
        with whole_folder(folder) as draft:
            if isinstance(self.features, Pooled):
                self.features.save(draft / BASE)
            save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, draft / WEIGHTS)
            for name, content in files.items():
                (draft / name).write_text(content, encoding="utf-8")


def load(folder: Path, record: Record | None) -> LinearClassifier:
    """What `LinearClassifier.save` wrote; an `InputError` names what is damaged."""
    try:
        notes = json.loads((folder / NOTES).read_text(encoding="utf-8"))
        arrays = load_file(folder / WEIGHTS)
        features = _features(folder, notes, arrays)
        found = LinearClassifier(
            name=notes["name"],
            features=features,
            classes=notes["classes"],
            weights=arrays["weights"],
            bias=arrays["bias"],
            inputs=notes["inputs"],
            record=record,
        )
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise InputError(f"{folder} is damaged: {error!r}. Save the model again, or train it again.") from error
    expected = (len(features.terms) if isinstance(features, Terms) else found.inputs, len(found.classes))
    if found.weights.shape != expected:
        raise InputError(
            f"{folder} is damaged: weights of shape {found.weights.shape} where {expected} were expected. Train it again."
        )
    return found


def _features(folder: Path, notes: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Terms | Pooled:
    if notes["kind"] == "pooled":
        return Pooled(Base.load(str(folder / BASE)))
    return Terms(
        kind=notes["kind"],
        tokenization=notes["tokenization"],
        terms=notes["terms"],
        idf=arrays.get("idf"),
        unknown=notes["unknown"],
    )
