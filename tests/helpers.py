"""What the tests of several subjects share: what they invent, and how they look at it.

Not in conftest.py: a process that a test starts imports the test's file, and conftest.py would then install
its check of types there and take half a second, within the time in which such a process is killed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from vnait import Run, compare, vectors
from vnait.comparison import Comparison
from vnait.record import Record


def record(method: str = "m", seed: int = 0, **facts: Any) -> Record:
    """An invented run: nothing in it but the given facts."""
    usual: dict[str, Any] = {
        "key": f"{method} {seed}",
        "run": {},
        "data": {},
        "metrics": {},
        "parameters": 0,
        "seconds": 0.0,
        "peak_memory": 0.0,
        "versions": {},
        "commit": None,
    }
    return Record(method=method, seed=seed, **usual | facts)


def save_vectors(path: Path, words: list[str], width: int = 8) -> str:
    """A file of narrow vectors for these words: small models, and no Word2Vec to train."""
    table = np.random.default_rng(0).normal(size=(len(words), width)).astype(np.float32)
    vectors.save(vectors.Vectors(words, table, "made"), path)
    return str(path)


def compare_two(
    task: str, file: str, words: str, out: Path, *, shots: int = 20, steps: int = 20
) -> Comparison:
    """Small models of two methods, from few rows and from all."""
    return compare(
        file,
        task=task,
        methods=["none", "sinusoidal"],
        seeds=3,
        shots=[shots, "all"],
        out=out,
        vectors=words,
        run=Run(steps=steps, learning_rate=0.01, num_layers=1),
        jobs=1,
    )
