"""The models of the playground: saved ones, and every method before training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from vnait import data
from vnait.data import vocabulary
from vnait.data.vocabulary import Vocabulary
from vnait.positions.methods import METHODS
from vnait.results.explanation import Explanation, explain
from vnait.shared.errors import InputError, as_input_error
from vnait.train.features import Joined
from vnait.train.linear import LinearClassifier
from vnait.train.models import new_model
from vnait.train.predict import Fitted, load
from vnait.train.run import Run

MAX_CHARACTERS = 600  # characters of a text; attention maps of longer ones are too small to read
UNTRAINED = "{} (before training)"
METHOD_OF = {UNTRAINED.format(method): method for method in METHODS}


@dataclass
class Registry:
    """Saved models by folder, and every method before training."""

    saved: dict[str, Fitted | LinearClassifier]

    @classmethod
    def of(cls, folders: Sequence[str | Path]) -> Registry:
        """Saved models, or the winners of comparisons; InputError for any other folder."""
        models = {}
        for folder in map(Path, folders):
            model = folder / "model" if (folder / "records.jsonl").is_file() else folder
            models[str(model)] = load(model)
        return cls(models)

    @property
    def names(self) -> list[str]:
        return [*self.saved, *METHOD_OF]

    @property
    def tokenization(self) -> str:
        """How the first saved model cuts texts into tokens, and so every method before training."""
        return next(map(tokenization_of, self.saved.values()), "words")

    def explain(self, name: str, text: str) -> Explanation | dict[str, Any]:
        """Explain a text of at most `MAX_CHARACTERS`; for a baseline, as `LinearClassifier.explain`."""
        if len(text) > MAX_CHARACTERS:
            raise InputError(
                f"the text has {len(text):,} characters; give {MAX_CHARACTERS} at most, or use vnait explain."
            )
        if name not in self.names:
            raise InputError(f"there is no model {name!r} here; choose one of the list.")
        model = self.saved.get(name) or untrained(METHOD_OF[name], self.tokenization)
        return model.explain(text) if isinstance(model, LinearClassifier) else explain(model, text)


def tokenization_of(model: Fitted | LinearClassifier) -> str:
    """How a model cuts texts into tokens; "words" if it has a tokenizer of its own."""
    if isinstance(model, LinearClassifier):
        return model.features.parts[0].tokenization if isinstance(model.features, Joined) else "words"
    return str(model.tokenizer.init_kwargs.get("tokenization", "words"))


@cache
def untrained(method: str, tokenization: str) -> Fitted:
    """An untrained classifier from a fixed seed, with Word2Vec vectors of the built-in sentences."""
    words, lengths = _words(tokenization)
    with as_input_error(ValueError):
        model = new_model(words, Run(method=method), ["neg", "pos"], lengths)
    return Fitted(model=model, tokenizer=words.tokenizer)


@cache
def _words(tokenization: str) -> tuple[Vocabulary, list[int]]:
    texts = data.read("builtin:polarity").texts
    words = vocabulary.learn(texts, tokenization=tokenization)
    return words, [len(ids) for ids in words.encode(texts, max_length=512)]
