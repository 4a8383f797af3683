"""The second waist: one JSON line a run. Training writes it; comparison, studies and reports read nothing else."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from vnait.errors import InputError

logger = logging.getLogger("vnait")

Cell = TypeVar("Cell")  # whatever a runner calls one run


@dataclass(frozen=True, kw_only=True)
class Record:
    """What ran, on what, and what came out.

    key          fingerprint of everything that decides the result: two equal keys are the same run
    method       a name in `METHODS`, or a baseline's
    run          the settings of the training, as they were given
    data         name, fingerprint, rows and classes of what it was trained and tested on; unknown_share of its tokens
                 and bag_share of its logits, in [0, 1]; vectors and vocabulary
    metrics      accuracy, macro_f1, mcc in [0, 1] ([-1, 1] for mcc), on the test rows; validation_* where rows were held out.
                 A metric is a number, or a list of numbers (`scores.details`: what a report shows besides)
    parameters   learned scalars;  seconds: of training;  peak_memory: of the process so far, in MiB
    """

    key: str
    method: str
    seed: int
    run: Mapping[str, Any]
    data: Mapping[str, Any]
    metrics: Mapping[str, Any]
    parameters: int
    seconds: float
    peak_memory: float
    versions: Mapping[str, str]
    commit: str | None

    @classmethod
    def now(cls, **facts: Any) -> Record:
        """The record of a run that just ended in this process."""
        return cls(**facts, peak_memory=peak_memory(), versions=installed_versions(), commit=checkout_commit())

    def line(self) -> str:
        """The record as one line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False, sort_keys=True, default=plain)


def plain(value: Any) -> Any:
    """What JSON can hold of a setting: numpy's numbers, as a grid search gives them, are numbers; a path is its name."""
    return value.item() if hasattr(value, "item") else str(value)


def key_of(*parts: object) -> str:
    """A fingerprint of settings and data, 16 hexadecimal digits.

    >>> key_of({"method": "vnait"}, 0) == key_of({"method": "vnait"}, 0) != key_of({"method": "none"}, 0)
    True
    """
    text = json.dumps(parts, ensure_ascii=False, sort_keys=True, default=plain)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read(path: str | Path) -> list[Record]:
    """The records of a file, in order. A last line that a killed process left unfinished is passed over."""
    lines = Path(path).read_bytes().split(b"\n")
    return list(_records(path, lines))


def _records(path: str | Path, lines: list[bytes]) -> Iterator[Record]:
    for number, line in enumerate(lines, start=1):
        if not line or number == len(lines):  # only a finished line ends with a line feed
            continue
        try:
            yield Record(**json.loads(line))
        except (ValueError, TypeError) as error:
            raise InputError(
                f"line {number} of {path} is no record of this version: {error}. Move the file away."
            ) from error


def resumed(
    path: str | Path,
    cells: Mapping[str, Cell],
    run: Callable[[list[Cell]], Iterable[Record]],
    watch: Callable[[int, int, Record | None], None],
) -> list[Record]:
    """The records of all cells, by key and in their order: those that `path` holds, and those that `run` gives of the others.

    `run` may give them in any order; each is on the disk before the next is asked for.
    """
    path = Path(path)
    done = {record.key: record for record in read(path) if record.key in cells} if path.is_file() else {}
    if done:
        logger.info("%d of %d cells are done already (%s)", len(done), len(cells), path)
    results = run([cell for key, cell in cells.items() if key not in done])  # may refuse: before a file is opened
    watch(len(done), len(cells), None)
    with appending(path) as appender:
        for record in results:
            appender.write(record)
            done[record.key] = record
            watch(len(done), len(cells), record)
    return [done[key] for key in cells]


@contextmanager
def appending(path: str | Path) -> Iterator[Appender]:
    """Open a file of records for appending; each record is on the disk before the next run starts."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        _drop_unfinished_line(file)
        yield Appender(file)


class Appender:
    """Writes records to an open file, each whole and at once."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, record: Record) -> None:
        """Append one record and wait until the disk has it."""
        self._file.write(record.line().encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def _drop_unfinished_line(file: Any) -> None:
    file.seek(0)
    finished = file.read().rfind(b"\n") + 1
    file.truncate(finished)


def peak_memory() -> float:
    """The largest resident size of this process so far, in MiB; 0 where the system does not say."""
    try:
        import resource
    except ImportError:  # not on Windows
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


@lru_cache(maxsize=1)
def installed_versions() -> dict[str, str]:
    """What the run stood on."""
    names = ("vnait", "torch", "transformers", "tokenizers", "gensim", "scikit-learn", "numpy")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


@lru_cache(maxsize=1)
def checkout_commit() -> str | None:
    """The commit of the checkout that this package runs from, if it runs from one."""
    here = Path(__file__).parent
    try:
        done = subprocess.run(
            ["git", "-C", str(here), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
