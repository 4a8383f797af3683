"""Faults at named points: a kill, or a full disk, at each write, rename, evaluation and the final save.

python tests/attack/faults.py   # prints a table: fault, points, lost work, wrong results
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from vnait.comparison.compare import compare
from vnait.data import Table
from vnait.data import vocabulary as vocabulary
from vnait.results import record
from vnait.shared.errors import InputError
from vnait.train import fitting as train
from vnait.train.baselines import BASELINES
from vnait.train.loop import Loop
from vnait.train.predict import load
from vnait.train.run import Run

TABLE = Table(
    texts=[f"{('warm', 'dull')[row % 2]} film number {row % 7}" for row in range(40)],
    labels=["good" if row % 2 == 0 else "bad" for row in range(40)],
    name="made",
    dropped=0,
)
RUN = Run(method="none", steps=44, eval_every=2, batch_size=8, early_stopping=0, holdout=True, bag=0)

# The points: name -> the function that is called there, by its module and name


POINTS: dict[str, list[tuple[Any, str]]] = {
    "write": [(os, "fsync")],
    "rename": [(os, "replace")],
    "evaluation": [(Loop, "_evaluate")],
    "save": [(train.Fitted, "save")],
    "record": [(record.Record, "line")],
}


def strike(point: str, at: int, fault: Callable[[], None]) -> list[int]:
    """Call `fault` in place of the call number `at` (from 1) of the point; the list counts the calls."""
    calls: list[int] = []
    for owner, name in POINTS[point]:
        whole = getattr(owner, name)

        def struck(*given: Any, whole: Any = whole, **options: Any) -> Any:
            calls.append(1)
            if len(calls) == at:
                fault()
            return whole(*given, **options)

        setattr(owner, name, struck)
    return calls


def kill() -> None:
    """End this process as the system's out-of-memory killer does."""
    os.kill(os.getpid(), 9)


def full() -> None:
    """Fail as a write to a full disk does."""
    raise OSError(errno.ENOSPC, "No space left on device")


def train_once(folder: Path) -> None:
    """Train with checkpoints, save, forget; note the first step."""

    def callback(status: train.Status) -> None:
        if not (folder / "first").exists():
            (folder / "first").write_text(str(status.step))

    words = vocabulary.learn(TABLE.texts, dim=8)
    fitted = train.fit(RUN, TABLE, words, checkpoints=folder / "c", callback=callback)
    fitted.save(folder / "model")
    train.forget(folder / "c", fitted)


def compare_once(folder: Path) -> None:
    """Compare one method and the baselines with `SEEDS` seeds."""
    compare(TABLE, methods=("none",), seeds=SEEDS, run=RUN_OF_CELLS, out=folder / "out", jobs=1)


RUN_OF_CELLS, SEEDS = Run(steps=2, eval_every=2, batch_size=8), 7


def outcome_of_training(folder: Path) -> Any:
    weights = load(folder / "model").model.state_dict()
    return {name: weights[name].numpy().tobytes() for name in sorted(weights)}


def outcome_of_comparison(folder: Path, seeds: int = SEEDS) -> Any:
    timed = ("ms_per_text",)
    found = record.read(folder / "out" / "records.jsonl")
    cells = {
        one.key: {name: value for name, value in one.metrics.items() if name not in timed} for one in found
    }
    assert len(cells) == len(found) == (1 + len(BASELINES)) * seeds
    assert load(folder / "out" / "model").classes == ["bad", "good"]
    return cells


@dataclass(frozen=True)
class Job:
    """What is struck: what it does, what it finds, and the points that it passes."""

    do: Callable[[Path], None]
    outcome: Callable[[Path], Any]
    points: tuple[str, ...]


JOBS = {
    "train": Job(train_once, outcome_of_training, ("write", "rename", "evaluation", "save")),
    "compare": Job(compare_once, outcome_of_comparison, ("write", "rename", "record", "save")),
}
FAULTS: dict[str, Callable[[], None]] = {"kill": kill, "full": full}


def in_a_fork(work: Callable[[], None]) -> int:
    """The exit status of a forked process that does the work: 0 done, 2 an InputError, -9 killed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            torch.set_num_threads(1)
            work()
            code = 0
        except InputError:
            code = 2
        except OSError as error:
            code = 3 if error.errno == errno.ENOSPC else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@dataclass
class Found:
    """Of one fault at one point: how often it was injected, and what went wrong."""

    injected: int = 0
    lost: int = 0
    wrong: int = 0


def strike_everywhere(job: str, point: str, fault: str, most: int) -> Found:
    """Strike the first, second, ... call of the point, up to `most`; each time run again and compare."""
    found, todo = Found(), JOBS[job]
    with tempfile.TemporaryDirectory() as room:
        whole = Path(room) / "whole"
        whole.mkdir()
        assert in_a_fork(lambda: todo.do(whole)) == 0
        expected = todo.outcome(whole)
        for at in range(1, most + 1):
            folder = Path(room) / "struck"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()

            def struck(folder: Path = folder, at: int = at) -> None:
                calls = strike(point, at, FAULTS[fault])
                todo.do(folder)
                if len(calls) < at:
                    os._exit(77)  # the point is passed less often

            code = in_a_fork(struck)
            if code == 77:
                break
            assert code in ((-9,) if fault == "kill" else (0, 2, 3)), (job, point, fault, at, code)
            found.injected += 1
            states = sorted(path.name for path in folder.glob("c/*/step-*"))
            written = folder / "out" / "records.jsonl"
            before = written.read_bytes() if written.is_file() else b""
            before = before[: before.rfind(b"\n") + 1]
            (folder / "first").unlink(missing_ok=True)
            if in_a_fork(lambda folder=folder: todo.do(folder)) != 0:
                found.wrong += 1
                continue
            if job == "train" and code != 0:
                resumed = (
                    int((folder / "first").read_text()) - 1 if (folder / "first").exists() else RUN.steps
                )
                found.lost += resumed != (int(states[-1].removeprefix("step-")) if states else 0)
            found.lost += job == "compare" and not written.read_bytes().startswith(before)
            found.wrong += todo.outcome(folder) != expected
            left = [path for path in folder.rglob(".*") if path.name.startswith(".")]
            found.wrong += fault == "full" and bool(left)
    return found


def main(most: int) -> int:
    """Print the table; the exit code is 1 if work was lost or a result wrong."""
    print(f"{'fault':34} {'points':>7} {'lost work':>10} {'wrong results':>14}")
    bad = 0
    for job, todo in JOBS.items():
        for fault in FAULTS:
            for point in todo.points:
                found = strike_everywhere(job, point, fault, most)
                name = f"{job}: {fault} at {point}"
                print(f"{name:34} {found.injected:7} {found.lost:10} {found.wrong:14}", flush=True)
                bad += found.lost + found.wrong
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 24))
