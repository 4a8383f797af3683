"""`vnait compare` in its own process, so that it can be stopped at once and can't crash the page."""

from __future__ import annotations

import filecmp
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from vnait.train.baselines import BASELINES

FOLDER = Path("runs") / "playground"


@dataclass
class ComparisonProcess:
    """A comparison that was started."""

    process: subprocess.Popen[bytes]
    stderr: Any  # its standard error, a temporary file that is deleted with this object
    out: Path
    total: int  # trainings at most
    before: int  # records that existed at the start
    stopped: bool = False

    @classmethod
    def start(
        cls, data: str, methods: Sequence[str], shots: str, seeds: int, *, text: str, label: str
    ) -> ComparisonProcess:
        """Compare on a copy of the file `data`, in runs/playground/NAME; if started again, it resumes.

        A file of the same name and with other rows goes into NAME-2, and so on.
        """
        out, copy = _room(Path(data))
        options = {"methods": ",".join(methods), "shots": shots, "seeds": seeds, "text": text, "label": label}
        stderr = NamedTemporaryFile()  # noqa: SIM115  it lives as long as the process
        command = [sys.executable, "-m", "vnait", "compare", str(copy), f"--out={out}"]
        process = subprocess.Popen(
            [*command, *(f"--{name}={value}" for name, value in options.items())],
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,  # so that its workers are stopped with it
        )
        total = (len(BASELINES) + len(methods)) * seeds * len(shots.split(","))
        return cls(process=process, stderr=stderr, out=out, total=total, before=_records(out))

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    @property
    def done(self) -> int:
        """Number of finished trainings."""
        return _records(self.out) - self.before

    @property
    def notes(self) -> list[str]:
        """Its messages so far; after a failure the last one is the reason."""
        # Opened again, so that the write position of the process stays.
        lines = Path(self.stderr.name).read_text(encoding="utf-8", errors="replace").splitlines()
        return [line.removeprefix("vnait: ") for line in lines if line.startswith("vnait: ")]

    def stop(self) -> None:
        """End the process and its workers at once; finished trainings are on the disk."""
        if self.running:
            self.stopped = True
            if os.name == "posix":
                os.killpg(self.process.pid, signal.SIGTERM)  # background jobs of a shell ignore SIGINT
            else:
                self.process.terminate()
        self.process.wait()


def _room(data: Path) -> tuple[Path, Path]:
    """The folder of a comparison of this file, and the file's copy in it."""
    name = data.name.split(".")[0]
    for number in count(1):
        out = FOLDER / (name if number == 1 else f"{name}-{number}")
        copy = out / "data" / data.name  # a folder of its own: its name may be that of a result
        try:
            copy.parent.mkdir(parents=True)
        except FileExistsError:
            if not (copy.is_file() and filecmp.cmp(data, copy, shallow=False)):
                continue
        else:
            shutil.copy(data, copy)
        return out, copy
    raise AssertionError("count never ends")


def _records(folder: Path) -> int:
    path = folder / "records.jsonl"
    return path.read_bytes().count(b"\n") if path.is_file() else 0
