"""The tests' common ground: shapes checked at run time, one thread, examples that are the same on every
run.
"""

from __future__ import annotations

import os

# Before torch and numpy load: pytest-xdist starts a worker per core, and their processes inherit this. Tests
# that ask for more threads share these cores: there a thread that spins while it waits stops the others.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
# Nor has a comparison cores of its own, unless a test gives it a number: starting its workers takes long.
os.environ["LOKY_MAX_CPU_COUNT"] = "1"

import ast
import gc
import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jaxtyping
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from jaxtyping import _import_hook, install_import_hook
from PIL import Image


class OuterFunctions(_import_hook.JaxtypingTransformer):
    """Checks no function inside a function: each call of the outer one would prepare that check anew, which
    took a seventh of the time of the tests that attach a method.
    """

    def generic_visit(self, node: ast.AST) -> None:
        if not isinstance(node, ast.FunctionDef):
            super().generic_visit(node)


_import_hook.JaxtypingTransformer = OuterFunctions

# Before anything imports vnait: every annotation with a shape is checked at every call. Not in vnait.model:
# there, transformers makes a dataclass of the configuration, and the check reads its __init__ before it has
# its arguments.
# Nor in methods.py, which has no tensor: beartype would draw one name of each list by `random`.
TYPED = ("injection", "coordinates", "encodings", "inputs", "method", "building", "attention")
CHECK = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"  # an int is a float
install_import_hook([f"vnait.positions.{name}" for name in TYPED] + ["vnait.model.backbone"], CHECK)

torch.set_num_threads(1)
# pytest listens to loggers that do not propagate. This one then writes hundreds of lines per compiled
# function, which hide what a failed test says and take a quarter of its time.
logging.getLogger("torch.__trace").propagate = True

settings.register_profile(
    "vnait", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("vnait")


# The tests of the parts check shapes at every call; in all others the check would take a third of the time.
CHECKED = {
    *("attention", "backbone", "bias", "codes", "contract", "coordinates", "encodings", "grids", "inputs"),
    *("method", "product", "rotary", "spectrum", "tables"),
}
jaxtyping.config.update("jaxtyping_disable", True)


@contextmanager
def checked(on: bool) -> Iterator[None]:
    """With or without the tests' own check of types."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", not on)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)


@contextmanager
def unchecked() -> Iterator[None]:
    """Without the check, which would speak before the library's message."""
    with checked(False):
        yield


@pytest.fixture(scope="module", autouse=True)
def _types(request: pytest.FixtureRequest) -> Iterator[None]:
    with checked(request.path.stem.removeprefix("test_") in CHECKED):
        yield


@pytest.fixture(autouse=True)
def _logger_untouched() -> None:
    """The command line takes the package's logger over, as a process of its own may, in a test or in a
    module's fixture.
    """
    logger = logging.getLogger("vnait")
    # the method, not the attribute: every child logger remembers which levels were on
    logger.setLevel(logging.NOTSET)
    logger.propagate = True
    logger.handlers.clear()


EXAMPLES = pytest.StashKey[list[int]]()
REPORTED = "coordinate_examples"


# The files that take longest, in this order: begun first, they leave no worker alone with one at the end.
LONG = [
    "train",
    "pretrained",
    "comparison",
    "cli",
    "conformance",
    "playground",
    "estimator",
    "clients",
    "extension",
    "families",
    "docs",
    "regression",
    "explanation",
    "browser",
    "multilabel",
    "site",
    "coordinates",
    "finetune",
    "contract",
    "tagging",
    "data_tables",
    "drawing",
    "public",
    "study_command",
    "together",
    "backbone",
    "rotary",
    "vectors",
    "moving",
    "combined",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: order.get(item.path.stem.removeprefix("test_"), len(order)))
    rare = getattr(sys.modules.get("families"), "RARE", ())  # of benchmarks/, if a test has imported it
    for item in items:
        if getattr(item, "callspec", None) and item.callspec.params.get("family") in rare:
            item.add_marker(pytest.mark.long)


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()  # what was imported stays, and is not looked through again and again


def pytest_configure(config: pytest.Config) -> None:
    config.stash[EXAMPLES] = [0]


@pytest.fixture(scope="session")
def counted(request: pytest.FixtureRequest) -> Callable[[], None]:
    """Called once per example by the property tests of the coordinates; the sum stands in the run's
    summary.
    """
    count = request.config.stash[EXAMPLES]

    def one_more() -> None:
        count[0] += 1

    return one_more


def pytest_sessionfinish(session: pytest.Session) -> None:
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:  # a worker of pytest-xdist hands its count to the controller
        output[REPORTED] = session.config.stash[EXAMPLES][0]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    node.config.stash[EXAMPLES][0] += getattr(node, "workeroutput", {}).get(REPORTED, 0)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if count := config.stash[EXAMPLES][0]:
        terminalreporter.write_line(f"coordinates: {count:,} Hypothesis examples ran")


def same_picture(one: Path, two: Path) -> bool:
    """A PNG or an SVG drawn twice: matplotlib's layout is solved in an order that differs, and so does its
    last digit.
    """
    if one.suffix == ".png":
        first, second = (np.asarray(Image.open(path).convert("RGB"), dtype=float) for path in (one, two))
        return first.shape == second.shape and float(np.abs(first - second).mean()) < 0.5
    number = r"-?\d+\.?\d*(?:e-?\d+)?"
    # The names of clip paths and markers are hashes of what they hold, digits of the layout among it.
    first, second = (
        re.sub(r"\b[pmh][0-9a-f]{10}\b", "name", path.read_text(encoding="utf-8")) for path in (one, two)
    )
    values = [np.array(re.findall(number, text), dtype=float) for text in (first, second)]
    return re.split(number, first) == re.split(number, second) and np.allclose(*values, atol=1e-3)
