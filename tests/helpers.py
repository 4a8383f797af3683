"""What the tests of several subjects share: what they invent, and how they look at it.

Not in conftest.py: a process that a test starts imports the test's file, and conftest.py would then install
its check of types there and take half a second, within the time in which such a process is killed.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from vnait import Run, compare
from vnait.comparison.compare import Comparison
from vnait.data import vectors
from vnait.positions.building import build
from vnait.positions.methods import METHODS
from vnait.results.record import Record

TINY_SIZES = {
    "steps": 2,
    "batch": 4,
    "tests": 5,
    "hidden_size": 8,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
}


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
    """Small models of two methods, from few rows and from all; a set share of the bag spares its estimate."""
    return compare(
        file,
        task=task,
        methods=["none", "sinusoidal"],
        seeds=3,
        shots=[shots, "all"],
        out=out,
        vectors=words,
        run=Run(steps=steps, learning_rate=0.01, num_layers=1, bag=None if task == "tagging" else 0.3),
        jobs=1,
    )


def methods_of_each_kind() -> list[Any]:
    """All methods, as parameters: `long` where those before one have its kinds of coordinates, encodings and
    inputs. A kind of coordinates or encodings is what one module holds.
    """
    met: set[str] = set()
    parameters = []
    for name in METHODS:
        method = build(name, dim=32, num_heads=4, max_length=64)
        parts = type(method.coordinates).__module__, type(method.encoding).__module__
        kinds = {*parts, type(method.inputs).__name__}
        parameters.append(pytest.param(name, marks=[pytest.mark.long] * (kinds <= met)))
        met |= kinds
    return parameters


def forkserver(*imports: str) -> ForkServerContext:
    """Processes that start in no time, for the imports are done once: forked from a clean one, not from
    pytest.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*imports])
    return context


def python(code: str, *arguments: object, cwd: Path | None = None, **environment: str) -> str:
    """What a process of its own prints; it has no check of types, which can't be traced or compiled."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def perturb(model: nn.Module) -> None:
    """Move every parameter, so that none stays at a start of zeros or of equal values."""
    torch.manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)


def at(*places: float, dtype: torch.dtype = torch.float64) -> Tensor:
    """Coordinates of one axis in one text, (1, T, 1)."""
    return torch.tensor(places, dtype=dtype)[None, :, None]


def drawn(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    """Normal numbers, the same ones in every dtype."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def everything(length: int, rows: int = 1) -> Tensor:
    """The mask of texts without padding."""
    return torch.ones(rows, length, dtype=torch.bool)
