"""What can be asked about a text: saved models, and every method as it starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from vnait import lexicon, text
from vnait.errors import InputError
from vnait.explanation import Explanation, explain
from vnait.lexicon import Lexicon
from vnait.linear import LinearClassifier
from vnait.methods import METHODS
from vnait.playground.comparing import Running
from vnait.predict import Fitted, load
from vnait.train import Run

LONGEST = 600  # characters of a text: of a longer one the maps of attention can't be read
UNTRAINED = "{} (before training)"


@dataclass
class Shelf:
    """Models by name, those of methods made when they are first asked for; the folders of comparisons, which hold reports; and what runs.

    Methods start from a fixed seed, with Word2Vec vectors of the built-in sentences.
    """

    models: dict[str, Callable[[], Fitted | LinearClassifier]] = field(default_factory=dict)
    comparisons: list[Path] = field(default_factory=list)
    running: list[Running] = field(default_factory=list)

    @classmethod
    def of(cls, folders: Sequence[str | Path]) -> Shelf:
        """Every method, and what these folders hold; a folder that holds neither a model nor a comparison is an `InputError`."""
        shelf = cls()
        for folder in map(Path, folders):
            if (folder / "records.jsonl").is_file():
                shelf.add_comparison(folder)
            else:
                shelf.add_model(folder)
        shelf.models |= {UNTRAINED.format(name): cache(lambda name=name: untrained(name)) for name in METHODS}
        return shelf

    def add_model(self, folder: Path) -> None:
        """Put a saved model first, by its folder's name; loaded at once, so that a damaged one is said at once."""
        fitted = load(folder)
        self.models = {str(folder): lambda: fitted} | self.models

    def add_comparison(self, folder: Path) -> None:
        """Put a comparison's winner first, and its report."""
        if folder not in self.comparisons:
            self.comparisons.append(folder)
        if (folder / "model").is_dir():
            self.add_model(folder / "model")

    def explain(self, name: str, given: str) -> Explanation | dict[str, Any]:
        """What a model makes of a text of at most `LONGEST` characters; of a baseline, the facts of `LinearClassifier.explain`."""
        if len(given) > LONGEST:
            raise InputError(f"the text has {len(given):,} characters; give {LONGEST} at most, or use vnait explain.")
        if name not in self.models:
            raise InputError(f"there is no model {name!r} here; choose one of the list.")
        model = self.models[name]()
        return model.explain(given) if isinstance(model, LinearClassifier) else explain(model, given)


def untrained(method: str) -> Fitted:
    """A classifier of the built-in sentences, as it starts."""
    words, lengths = _words()
    try:
        model = words.new_model(Run(method=method), ["neg", "pos"], lengths)
    except ValueError as error:
        raise InputError(str(error)) from error
    return Fitted(model=model, tokenizer=words.tokenizer)


@cache
def _words() -> tuple[Lexicon, list[int]]:
    texts = text.read("builtin:polarity").texts
    words = lexicon.learn(texts)
    return words, [len(ids) for ids in text.encode(words.tokenizer, texts, max_length=512)]
