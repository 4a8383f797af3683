"""`vnait compare` in a process of its own, so that it can be stopped at once and its mistakes stay its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from vnait.baselines import BASELINES

FOLDER = Path("runs") / "playground"


@dataclass
class Running:
    """A comparison that was started: its process, what that says, the folder it writes to, and how many trainings there are at most."""

    process: subprocess.Popen[bytes]
    stderr: Any  # a file that it writes to, gone with this object
    out: Path
    total: int
    before: int  # records that were there at the start
    stopped: bool = False

    @classmethod
    def start(cls, data: str, methods: Sequence[str], shots: str, seeds: int, *, text: str, label: str) -> Running:
        """Start it on a file, whose copy goes to runs/playground/NAME/data, beside the results; started again, it goes on."""
        out = FOLDER / Path(data).name.split(".")[0]
        (out / "data").mkdir(parents=True, exist_ok=True)
        kept = shutil.copy(data, out / "data")  # apart: it may be named as a result is
        options = {"methods": ",".join(methods), "shots": shots, "seeds": seeds, "text": text, "label": label}
        stderr = NamedTemporaryFile()  # noqa: SIM115  it lives as long as the process
        command = [sys.executable, "-m", "vnait", "compare", str(kept), f"--out={out}"]
        process = subprocess.Popen(
            [*command, *(f"--{name}={value}" for name, value in options.items())],
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,  # it is stopped together with its workers
        )
        total = (len(BASELINES) + len(methods)) * seeds * len(shots.split(","))
        return cls(process=process, stderr=stderr, out=out, total=total, before=_records(out))

    @property
    def going(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    @property
    def done(self) -> int:
        """Trainings that it has finished."""
        return _records(self.out) - self.before

    @property
    def notes(self) -> list[str]:
        """What it has said so far, a sentence each; of a failure the last one tells why."""
        said = Path(self.stderr.name).read_text(
            encoding="utf-8", errors="replace"
        )  # opened anew: the process's own place stays
        return [line.removeprefix("vnait: ") for line in said.splitlines() if line.startswith("vnait: ")]

    def stop(self) -> None:
        """End it and its workers at once; what it has finished is on the disk."""
        if self.going:
            self.stopped = True
            if os.name == "posix":
                os.killpg(self.process.pid, signal.SIGTERM)  # SIGINT is ignored below a shell's background jobs
            else:
                self.process.terminate()
        self.process.wait()


def _records(folder: Path) -> int:
    path = folder / "records.jsonl"
    return path.read_bytes().count(b"\n") if path.is_file() else 0
