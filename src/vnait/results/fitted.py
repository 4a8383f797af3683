"""What a figure or an explanation reads of a trained classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Fitted(Protocol):
    """A trained classifier, as `vnait.train` makes it.

    model       a model of transformers: ours, or a fine-tuned base
    max_length  of a fine-tuned base only, whose configuration has no such field
    longest     the most tokens of a text that it reads
    """

    @property
    def model(self) -> Any: ...
    @property
    def tokenizer(self) -> Any: ...
    @property
    def max_length(self) -> int | None: ...
    @property
    def pairs(self) -> bool: ...
    @property
    def task(self) -> str: ...
    @property
    def classes(self) -> list[str]: ...
    @property
    def longest(self) -> int: ...

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text."""
