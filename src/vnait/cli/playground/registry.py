"""The models of the playground: saved ones, and every method before training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from vnait import data
from vnait.cli.playground.process import ComparisonProcess
from vnait.data import vocabulary
from vnait.data.vocabulary import Vocabulary
from vnait.positions.methods import METHODS
from vnait.results.explanation import Explanation, explain
from vnait.shared.errors import InputError, as_input_error
from vnait.train.linear import LinearClassifier
from vnait.train.models import new_model
from vnait.train.predict import Fitted, load
from vnait.train.run import Run

MAX_CHARACTERS = 600  # characters of a text; attention maps of longer ones are too small to read
UNTRAINED = "{} (before training)"


@dataclass
class Shelf:
    """Models by name, folders of comparisons (for their reports), and running comparisons.

    An untrained method is made at its first use, from a fixed seed, with Word2Vec vectors of the built-in
    sentences.
    """

    models: dict[str, Callable[[], Fitted | LinearClassifier]] = field(default_factory=dict)
    comparisons: list[Path] = field(default_factory=list)
    running: list[ComparisonProcess] = field(default_factory=list)

    @classmethod
    def of(cls, folders: Sequence[str | Path]) -> Shelf:
        """Every method, and the models and comparisons in these folders; InputError for any other folder."""
        shelf = cls()
        for folder in map(Path, folders):
            if (folder / "records.jsonl").is_file():
                shelf.add_comparison(folder)
            else:
                shelf.add_model(folder)
        shelf.models |= {UNTRAINED.format(name): cache(lambda name=name: untrained(name)) for name in METHODS}
        return shelf

    def add_model(self, folder: Path) -> None:
        """Put a saved model first, under its folder's name; loaded now, so that a damaged one fails now."""
        fitted = load(folder)
        self.models = {str(folder): lambda: fitted} | self.models

    def add_comparison(self, folder: Path) -> None:
        """Add the report of a comparison, and put its winner first."""
        if folder not in self.comparisons:
            self.comparisons.append(folder)
        if (folder / "model").is_dir():
            self.add_model(folder / "model")

    def explain(self, name: str, text: str) -> Explanation | dict[str, Any]:
        """Explain a text of at most `MAX_CHARACTERS`; for a baseline, as `LinearClassifier.explain`."""
        if len(text) > MAX_CHARACTERS:
            raise InputError(
                f"the text has {len(text):,} characters; give {MAX_CHARACTERS} at most, or use vnait explain."
            )
        if name not in self.models:
            raise InputError(f"there is no model {name!r} here; choose one of the list.")
        model = self.models[name]()
        return model.explain(text) if isinstance(model, LinearClassifier) else explain(model, text)


def untrained(method: str) -> Fitted:
    """An untrained classifier of the built-in sentences."""
    words, lengths = _words()
    with as_input_error(ValueError):
        model = new_model(words, Run(method=method), ["neg", "pos"], lengths)
    return Fitted(model=model, tokenizer=words.tokenizer)


@cache
def _words() -> tuple[Vocabulary, list[int]]:
    texts = data.read("builtin:polarity").texts
    words = vocabulary.learn(texts)
    return words, [len(ids) for ids in data.encode(words.tokenizer, texts, max_length=512)]
