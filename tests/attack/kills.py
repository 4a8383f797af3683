"""Kills of `vnait compare --jobs 2` at named points, in the command's own process and in its workers.

python tests/attack/kills.py 20        # kills a point, by three signals in turn; prints what is left
python tests/attack/kills.py 20 fork   # the same with workers that import nothing: ten times as fast
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from faults import POINTS, TABLE, outcome_of_comparison, strike
from filelock import FileLock
from joblib.externals.loky.backend.context import set_start_method

from vnait import cli
from vnait.comparison import engines, trainings
from vnait.shared.processes import begin_worker
from vnait.train.linear import LinearClassifier
from vnait.train.predict import Fitted

SEEDS = 3
MOMENT = 0.02  # seconds
PATIENCE = 5  # seconds after which no process may be left
LONGEST = 400  # seconds that a command may take
HUNG = 124  # the exit status in place of that of a command which took longer
SIGNALS = (signal.SIGTERM, signal.SIGKILL, signal.SIGINT)

POINTS.update(
    lock=[(FileLock, "acquire")],
    words=[(trainings, "_vocabulary")],
    cell=[(trainings, "fit_model")],
    save=[(Fitted, "save"), (LinearClassifier, "save")],
)
# Where each point is passed: in the command's process, or in a worker.
PLACES = [("command", point) for point in ("lock", "write", "rename", "record", "save")]
PLACES += [("worker", point) for point in ("words", "cell", "evaluation", "write", "rename", "save")]


@dataclass(frozen=True)
class Kill:
    """A signal at call number `at` of a point, `later` seconds after it."""

    place: str
    point: str
    number: signal.Signals
    at: int
    later: float = 0.0

    def strike(self, main: int, folder: Path) -> None:
        """Send the signal, once, to the command; as Ctrl-C does, SIGINT to its workers, too."""
        if self.place == "command" and os.getpid() != main:
            return  # a fork has the command's functions
        try:
            (folder / "struck").touch(exist_ok=False)
        except FileExistsError:
            return
        send = os.killpg if self.number == signal.SIGINT else os.kill
        if self.later:
            threading.Timer(self.later, send, (main, self.number)).start()
        else:
            send(main, self.number)


def begin(kill: Kill, folder: Path, main: int) -> None:
    """What a worker begins with in place of `begin_worker` alone."""
    begin_worker(main)
    if kill.place == "worker":
        strike(kill.point, kill.at, lambda: kill.strike(main, folder))


def command(folder: Path, jobs: int, kill: Kill | None = None, start: str = "loky") -> Callable[[], None]:
    """The command, to be called in a process of its own, where the kill is prepared."""

    def work() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's "&" lets processes ignore it
        os.chdir(folder.parent)
        warnings.filterwarnings("ignore", "`fork` start method")
        set_start_method(start, force=True)
        if kill is not None:
            main = os.getpid()
            engines.begin_worker = partial(begin, kill, folder)  # type: ignore[assignment]
            if kill.place == "command":
                strike(kill.point, kill.at, lambda: kill.strike(main, folder))
        words = ["compare", str(folder.parent / "rows.csv"), "--methods", "none", "--seeds", str(SEEDS)]
        cli.main([*words, "--steps", "4", "--jobs", str(jobs), "--out", str(folder / "out"), "--quiet"])

    return work


def in_a_process(work: Callable[[], None], output: Path) -> tuple[int, int]:
    """The exit status of a new session that does the work, with what it prints in a file; and its number."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setsid()
            file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(file, 1), os.dup2(file, 2)
            work()
            code = 0
        except SystemExit as error:
            code = int(error.code or 0)
        finally:
            try:
                threading._shutdown()  # as Python ends, which is how the workers end
                atexit._run_exitfuncs()
                sys.stdout.flush(), sys.stderr.flush()
            finally:  # a signal that comes here must not go on to clean up as the parent
                os._exit(code)
    until = time.monotonic() + LONGEST
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), child
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return HUNG, child


def processes_of(session: int) -> list[int]:
    """The processes of a session, also those whose parent has ended."""
    numbers = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if os.getsid(int(entry.name)) == session:
                numbers.append(int(entry.name))
    return numbers


def remaining(session: int) -> list[int]:
    """The processes that are left `PATIENCE` seconds after a command; none as soon as there are none."""
    until = time.monotonic() + PATIENCE
    while (left := processes_of(session)) and time.monotonic() < until:
        time.sleep(0.1)
    return left


@dataclass
class Tally:
    """What the kills at one point have left behind."""

    kills: int = 0
    hung: int = 0
    processes: int = 0
    lost: int = 0
    wrong: int = 0
    drafts: int = 0
    tracebacks: int = 0

    @property
    def faults(self) -> int:
        return self.hung + self.processes + self.lost + self.wrong + self.drafts + self.tracebacks

    def add(self, kill: Kill, folder: Path, expected: Any, start: str) -> bool:
        """Kill a command in an empty folder, give it again, and compare; False if the point isn't passed."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        output = folder / "output"
        code, session = in_a_process(command(folder, 2, kill, start), output)
        left = remaining(session)
        if not (folder / "struck").exists():
            assert code == 0, output.read_text()
            return False
        before = self.faults
        self.kills += 1
        self.hung += code == HUNG
        self.processes += bool(left)
        for process in left:
            os.kill(process, signal.SIGKILL)
        self.tracebacks += "Traceback" in output.read_text()
        if self.faults > before:
            print(kill, code, output.read_text(), file=sys.stderr, flush=True)
        records = folder / "out" / "records.jsonl"
        lines = records.read_bytes() if records.is_file() else b""
        lines = lines[: lines.rfind(b"\n") + 1]
        if in_a_process(command(folder, 1), output)[0] != 0:
            print(output.read_text(), file=sys.stderr)
            self.wrong += 1
            return True
        self.lost += not records.read_bytes().startswith(lines)
        self.wrong += outcome_of_comparison(folder, SEEDS) != expected
        if drafts := [str(path) for path in folder.rglob(".*")]:
            print(kill, drafts, file=sys.stderr, flush=True)
            self.drafts += 1
        return True


def kill_everywhere(room: Path, place: str, point: str, count: int, start: str = "loky") -> Tally:
    """Kill at the first, second, ... call of the point, and, if it is passed less often, a moment later."""
    tally, at, later = Tally(), 0, 0.0
    expected = outcome_of_comparison(room / "whole", SEEDS)
    while tally.kills < count:
        at += 1
        kill = Kill(place, point, SIGNALS[tally.kills % len(SIGNALS)], at, later)
        if not tally.add(kill, room / "killed", expected, start):
            assert at > 1 or later, f"{point} is not passed in a {place}"
            at, later = 0, later + MOMENT
    return tally


def prepare(room: Path) -> None:
    """Write the rows, and what an undisturbed command makes of them."""
    rows = "".join(f"{text},{label}\n" for text, label in zip(TABLE.texts, TABLE.labels or [], strict=True))
    (room / "rows.csv").write_text("text,label\n" + rows)
    (room / "whole").mkdir()
    code, _ = in_a_process(command(room / "whole", 1), room / "whole" / "output")
    assert code == 0, (room / "whole" / "output").read_text()


def main(count: int = 20, start: str = "loky") -> int:
    """Print the table; the exit code is 1 if anything was left behind or lost."""
    names = [field.name for field in fields(Tally)]
    print(f"{'killed at':20}" + "".join(f"{name:>11}" for name in names), flush=True)
    sums = Tally()
    room = Path(tempfile.mkdtemp())  # a TemporaryDirectory would end with the first command
    try:
        prepare(room)
        for place, point in PLACES:
            tally = kill_everywhere(room, place, point, count, start)
            print_row(f"{place}: {point}", tally)
            sums = Tally(*(getattr(sums, name) + getattr(tally, name) for name in names))
    finally:
        shutil.rmtree(room)
    print_row("all", sums)
    return int(sums.faults > 0)


def print_row(name: str, tally: Tally) -> None:
    print(f"{name:20}" + "".join(f"{value:11}" for value in astuple(tally)), flush=True)


if __name__ == "__main__":
    # By this name loky's workers import `begin`, and with it the points. Of __main__ they would get copies.
    import kills

    sys.exit(kills.main(*map(int, sys.argv[1:2]), *sys.argv[2:]))
