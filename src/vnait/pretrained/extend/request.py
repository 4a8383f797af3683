"""What a call of `vnait.extend` asks for, of an embedder or of a language model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from vnait.pretrained.extend.finished import Finished
from vnait.pretrained.extend.tasks import MAX_TEXTS
from vnait.shared.errors import InputError
from vnait.shared.files import home

Callback = Callable[[int, int, str], None]  # (measured, all, what)


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments of `vnait.extend` beside its model, as described there."""

    to: int
    limit: int | None
    variants: Sequence[str]
    tasks: Sequence[str]
    lengths: Sequence[int]
    texts: int | None
    documents: Sequence[str]
    queries: Sequence[str]
    labels: Sequence[str]
    results: str | Path | None
    out: str | Path | None
    save: str | None
    callback: Callback | None

    @cached_property
    def finished(self) -> Finished:
        """The results of earlier calls, to which those of this one are added."""
        return Finished(None if self.results is None else Path(home(self.results)))

    def texts_per_length(self, default: int, least: int) -> int:
        """Generated texts per length; InputError for fewer than `least` or more than there are needles."""
        count = default if self.texts is None else self.texts
        if not least <= count <= MAX_TEXTS:
            raise InputError(f"texts={count} is not possible; give {least} to {MAX_TEXTS} per length.")
        return count

    def report_progress(self, number: int, count: int, what: str) -> None:
        """Call the callback, if there is one."""
        if self.callback is not None:
            self.callback(number, count, what)
