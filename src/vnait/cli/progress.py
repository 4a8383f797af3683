"""Progress of a command, on standard error."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from vnait.cli.output import echo

LINE_SECONDS = 10  # seconds between two lines of progress where there is no terminal


@contextmanager
def progress(quiet: bool, title: str) -> Iterator[Any]:
    """Progress on standard error, called with (done, total, note): a bar on a terminal, else a line every ten
    seconds.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    aside = Console(stderr=True)
    if not quiet and not aside.is_terminal:
        with _Lines(title) as lines:
            yield lines
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=aside, disable=quiet, transient=True) as progress:
        task = progress.add_task(title, total=None, note="")
        yield lambda done, total, note: progress.update(task, completed=done, total=total, note=note)


class _Lines:
    """A line of progress every ten seconds, with the seconds left at the pace so far. A thread writes it, so
    that long phases without steps show that they go on.
    """

    def __init__(self, title: str) -> None:
        self.title, self.started, self.ended = title, time.monotonic(), threading.Event()
        self.first = self.done = self.total = 0

    def __enter__(self) -> _Lines:
        threading.Thread(target=self._write, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()

    def __call__(self, done: int, total: int, note: str) -> None:
        if not self.total:
            self.first = done  # of a run that goes on: these took no time
        self.done, self.total = done, total

    def _write(self) -> None:
        while not self.ended.wait(LINE_SECONDS):
            echo(f"vnait: {self.title}: {self._state()}", file=sys.stderr, flush=True)

    def _state(self) -> str:
        seconds, fresh = time.monotonic() - self.started, self.done - self.first
        if not self.total:
            return f"{seconds:.0f} s so far"
        if self.done == self.total:
            return f"{self.total} of {self.total} done, finishing; {seconds:.0f} s so far"
        left = f", about {seconds / fresh * (self.total - self.done):.0f} s left" if fresh else ""
        return f"{self.done} of {self.total} done{left}"
