"""Records, one JSON line per run."""

from __future__ import annotations

import json
import logging
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from vnait.shared import schemas
from vnait.shared.errors import InputError, whole
from vnait.shared.escaping import json_text
from vnait.shared.keys import plain

logger = logging.getLogger("vnait")


@dataclass(frozen=True, kw_only=True)
class Record:
    """One run: its settings, its data and its results.

    key          fingerprint of everything that decides the result: equal keys are the same run
    method       a name in `METHODS`, or a baseline's
    run          the settings of the training
    data         name, fingerprint, rows and classes of the training and test data; unknown_share of its
                 tokens and bag_share of its logits, in [0, 1], that linear_part has; vectors and vocabulary
    metrics      accuracy and macro_f1 in [0, 1], mcc in [-1, 1], on the test rows; in regression (data has a
                 task, no classes) rmse, mae, pearson, spearman; of tags token_accuracy, macro_f1, of spans
                 entity_f1; validation_* if rows were held out; lists (`scores.details`) for reports
    parameters   learned scalars;  seconds: of training;  peak_memory: of the process so far, in MiB
    versions     of Python and the libraries that compute;  commit: of vnait's checkout, None outside one
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
        return cls(**facts, peak_memory=_peak_memory(), versions=_versions(), commit=checkout_commit())

    @classmethod
    def of(cls, content: object) -> Record:
        """The record of a line's JSON; ValueError or TypeError if it is none."""
        return cls(**schemas.known(schemas.RecordFields, schemas.check(schemas.RecordFields, content)))

    def line(self) -> str:
        """The record as one line of JSON."""
        return whole(json_text(asdict(self), sort_keys=True, default=plain))


def warn_of_other(folder: str | Path, new: Record | None) -> None:
    """Log that the model in a folder, which saving one replaces, was trained on other texts."""
    path = Path(folder) / "record.json"
    try:
        (old,) = read(path)
    except (OSError, ValueError):  # no model is there, or one without a record
        return
    if new is not None and old.data.get("fingerprint") != new.data.get("fingerprint"):
        logger.warning(
            "%s: its model of other texts (%s, %s rows) is replaced.",
            *(folder, old.data.get("name"), old.data.get("rows")),
        )


def read(path: str | Path) -> list[Record]:
    """The records of a file, in order, without a last line that a killed process left unfinished."""
    records = []
    finished = Path(path).read_bytes().split(b"\n")[:-1]
    for number, line in enumerate(finished, start=1):
        try:
            if line:
                records.append(Record.of(json.loads(line)))
        except (ValueError, TypeError, RecursionError) as error:
            raise InputError(
                f"line {number} of {path} is not a record of this version: {error}. Move the file away."
            ) from error
    return records


@contextmanager
def appending(path: str | Path) -> Iterator[Callable[[Record], None]]:
    """Open a file of records; yield a function that appends a record and returns once the disk has it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)  # drop a line that a killed process left unfinished

        def append(record: Record) -> None:
            file.write(record.line().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

        yield append


def _peak_memory() -> float:
    """The largest resident size of this process so far, in MiB; 0 on Windows, which does not report it."""
    try:
        import resource
    except ImportError:
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


@lru_cache(maxsize=1)
def _versions() -> dict[str, str]:
    names = ("vnait", "torch", "transformers", "tokenizers", "gensim", "scikit-learn", "numpy")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


@lru_cache(maxsize=1)
def checkout_commit() -> str | None:
    """The commit of the checkout that this package runs from; None if it is not a checkout."""
    here = Path(__file__).parent
    try:
        done = subprocess.run(
            ["git", "-C", str(here), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
