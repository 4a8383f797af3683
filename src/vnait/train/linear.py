"""The fitted baselines: linear classifiers of a text's terms or embedding, saved without pickle."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from scipy import special
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.preprocessing import normalize
from transformers import AutoModel

from vnait.data import collate
from vnait.data import words as words_of
from vnait.data.pairs import check_sides
from vnait.data.sentences import split_words
from vnait.data.tasks import CLASSIFICATION, MULTILABEL, REGRESSION, TAGGING, check_task
from vnait.pretrained.attach.saving import BASE
from vnait.pretrained.loading import from_pretrained
from vnait.results.record import Record, warn_of_other
from vnait.shared import schemas
from vnait.shared.errors import InputError, as_input_error, first_line
from vnait.shared.files import atomic_folder
from vnait.shared.quiet import no_bars
from vnait.train.base import Base

NOTES, WEIGHTS = "baseline.json", "model.safetensors"
WRITTEN = (NOTES, WEIGHTS, "record.json", "README.md")  # the files of a saved baseline
CONTEXTS = ("word", "window")  # kinds of features of a word

Features = Any  # a sparse matrix of scikit-learn's (texts, F), which has no types


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Features (texts, F) of words and pairs of neighbouring words, F the number of terms.

    kind           "tfidf": (1 + log n_j) idf_j for term j, rows of unit length;  "mean": the share of each
                   word in the text
    tokenization   as in `vnait.data.words`
    terms          words or pairs, in the order of the columns;  idf (F,), only for "tfidf"
    unknown        for "mean": the term for all other words, and for an empty text
    """

    kind: str
    tokenization: str
    terms: list[str]
    idf: NDArray[np.float64] | None = None
    unknown: str | None = None

    def __call__(self, texts: Sequence[str]) -> Features:
        rows = [self.of(words) for words in words_of(texts, self.tokenization)]
        if self.idf is not None:
            vectorizer = TfidfVectorizer(analyzer=lambda row: row, vocabulary=self.terms, sublinear_tf=True)
            vectorizer.idf_ = self.idf
            return vectorizer.transform(rows)
        assert self.unknown is not None, "means count unknown words too"
        known, unknown = set(self.terms), self.unknown
        rows = [[term if term in known else unknown for term in row] or [unknown] for row in rows]
        counter = CountVectorizer(analyzer=lambda row: row, vocabulary=self.terms)
        return normalize(counter.transform(rows).astype(np.float64), norm="l1")

    def of(self, words: Sequence[str]) -> list[str]:
        """The terms of one text's words: the words in order, then the pairs."""
        pairs = [] if self.kind == "mean" else [f"{first} {second}" for first, second in pairwise(words)]
        return [*words, *pairs]


@dataclass(frozen=True, kw_only=True)
class Contexts:
    """Features (words, F) of each word of sentences, F the number of terms: the term "word=..." and, with
    `window`, those of its two neighbours, of its first and last one to three letters and of its shape.

    kind      "word" or "window"
    terms     in the order of the columns
    """

    kind: str
    terms: list[str]

    def __call__(self, texts: Sequence[str]) -> Features:
        vectorizer = CountVectorizer(analyzer=lambda row: row, vocabulary=self.terms)
        return vectorizer.transform(list(chain.from_iterable(map(self.of, texts)))).astype(np.float64)

    def of(self, text: str) -> list[list[str]]:
        """The terms of each word of a sentence.

        >>> Contexts(kind="window", terms=[]).of("A film")[1][:4]
        ['word=film', 'before=a', 'after=[END]', 'first=f']
        """
        words = split_words(text)
        lower = [word.lower() for word in words]
        if self.kind == "word":
            return [[f"word={word}"] for word in lower]
        padded = ["[START]", *lower, "[END]"]
        return [
            [
                f"word={word}",
                f"before={padded[place]}",
                f"after={padded[place + 2]}",
                *(f"first={word[:count]}" for count in range(1, min(3, len(word)) + 1)),
                *(f"last={word[-count:]}" for count in range(1, min(3, len(word)) + 1)),
                f"shape={_shape(words[place])}",
            ]
            for place, word in enumerate(lower)
        ]


def _shape(word: str) -> str:
    """Capitals as A, other letters as a, digits as 1, repeats once.

    >>> _shape("McCoy"), _shape("1990s"), _shape("U.S.")
    ('AaAa', '1a', 'A.A.')
    """
    marks = (
        "1" if letter.isdigit() else "A" if letter.isupper() else "a" if letter.isalpha() else letter
        for letter in word
    )
    return "".join(mark for mark, _ in groupby(marks))


class Pooled:
    """Features (texts, D): the mean of a pretrained encoder's last states over the tokens, at unit length.

    sentence-transformers does the same with most of its encoders. Texts are cut to 256 tokens; each is
    encoded once per process.
    """

    LONGEST = 256

    def __init__(self, base: Base) -> None:
        self.base = base
        with no_bars():
            self.model = from_pretrained(AutoModel, base.source).eval()
        self.separator = base.separator(self.model)
        self.known: dict[str, NDArray[np.float32]] = {}

    @torch.no_grad()
    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        new = sorted({text for text in texts if text not in self.known}, key=len)
        for start in range(0, len(new), 64):
            some = new[start : start + 64]
            ids = self.base.encode(some, max_length=self.LONGEST)
            batch = collate(ids, pad_id=self.base.tokenizer.pad_token_id, separator=self.separator)
            states, mask = self.model(**batch).last_hidden_state, batch["attention_mask"][..., None]
            mean = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1))
            self.known.update(zip(some, mean.numpy(), strict=True))
        return np.stack([self.known[text] for text in texts])

    def save(self, folder: Path) -> None:
        """Save weights and tokenizer in transformers' format."""
        with no_bars():
            self.model.save_pretrained(folder)
            self.base.tokenizer.save_pretrained(folder)


@dataclass(frozen=True, kw_only=True)
class LinearClassifier:
    """logits = features(texts) weights + bias, weights (F, C); the interface of `Fitted` in predict.py."""

    name: str
    features: Terms | Pooled | Contexts
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

    def explain(self, text: str) -> dict[str, Any]:
        """label, probability, and the summands of the label's logit minus the mean logit: bias and terms."""
        if self.pairs:
            raise InputError("the model reads pairs of texts, and explain shows one; use `vnait predict`.")
        if isinstance(self.features, Pooled):
            raise InputError(
                f"the model {self.name} embeds whole texts, so it has no terms to list; explain another one."
            )
        check_task(self.task, CLASSIFICATION)
        probability = self.probabilities([text])[0]
        best = int(probability.argmax())
        row = self.features([text]).tocoo()
        over = self.weights[:, best] - self.weights.mean(1)
        added = {
            self.features.terms[column]: float(x * over[column])
            for column, x in zip(row.col, row.data, strict=True)
        }
        return {
            "method": self.name,
            "label": self.classes[best],
            "probability": float(probability[best]),
            "bias": float(self.bias[best] - self.bias.mean()),
            "terms": dict(sorted(added.items(), key=lambda item: -abs(item[1]))),
        }

    def save(self, folder: str | Path, *, extras: Mapping[str, str] | None = None) -> None:
        """Write the folder, whole or not at all: weights, terms, classes, record, extra files."""
        terms = self.features if isinstance(self.features, Terms) else None
        kind = {"kind": "pooled"}
        if isinstance(self.features, Contexts):
            kind = asdict(self.features)
        elif terms is not None:
            kind = asdict(replace(terms, idf=None))
        notes = {"format": 1, "name": self.name, "classes": self.classes, "inputs": self.inputs, **kind}
        if self.pairs:
            notes["pairs"] = True
        if self.task == MULTILABEL:
            notes["task"] = MULTILABEL
        arrays = {"weights": self.weights, "bias": self.bias}
        if terms is not None and terms.idf is not None:
            arrays["idf"] = terms.idf
        files = {NOTES: json.dumps(notes, ensure_ascii=False), **(extras or {})}
        if self.record is not None:
            files["record.json"] = self.record.line() + "\n"
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
        document = json.loads((folder / NOTES).read_text(encoding="utf-8"))
        notes = schemas.check(schemas.Baseline, document, NOTES)
        arrays = load_file(folder / WEIGHTS)
        features: Terms | Pooled | Contexts
        if notes["kind"] == "pooled":
            features = Pooled(Base.load(folder / BASE))
        elif notes["kind"] in CONTEXTS:
            features = Contexts(kind=notes["kind"], terms=notes["terms"])
        else:
            names = ("kind", "tokenization", "terms", "unknown")
            features = Terms(**{name: notes[name] for name in names}, idf=arrays.get("idf"))
        model = LinearClassifier(
            name=notes["name"],
            features=features,
            classes=notes["classes"],
            weights=arrays["weights"],
            bias=arrays["bias"],
            inputs=notes["inputs"],
            record=record,
            pairs=notes.get("pairs", False),
            task=_task_in(notes),
        )
    width = model.inputs if isinstance(features, Pooled) else len(features.terms)
    classes = len(model.classes)
    expected = {"weights": (width, classes), "bias": (classes,)}
    if notes["kind"] == "tfidf":
        expected["idf"] = (width,)
    for name, shape in expected.items():
        has = arrays[name].shape if name in arrays else "missing"
        if has != shape:
            raise InputError(f"{folder} is damaged: its {name} are {has}, not {shape}. Train it again.")
    return model


def _task_in(notes: Mapping[str, Any]) -> str:
    """The task of a saved baseline; only sets of labels are noted."""
    if notes["kind"] in CONTEXTS:
        return TAGGING
    return str(notes.get("task", CLASSIFICATION if len(notes["classes"]) > 1 else REGRESSION))
