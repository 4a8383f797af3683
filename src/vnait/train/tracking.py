"""What a training measures at each step, for those who watch it: a CSV file, TensorBoard, W&B or MLflow."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from itertools import compress
from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.tracking import MLflowTracker, TensorBoardTracker, WandBTracker

from vnait.positions.gradients import PARTS
from vnait.shared.errors import InputError, as_input_error, first_line
from vnait.train.run import Run

logger = logging.getLogger("vnait")

FOLDER = Path("runs/logs")  # of all trainings, so that one page shows them side by side
PROJECT = "vnait"  # the project of W&B, the experiment of MLflow


@dataclass(frozen=True, kw_only=True)
class Status:
    """A training after a step.

    loss              of the step's batch
    validation_loss   of the held-out rows; None if they were not evaluated after this step
    gradient          the share of each part in the gradient, before it is clipped: `gradient_shares`
    """

    step: int
    steps: int
    loss: float
    learning_rate: float
    validation_loss: float | None = None
    gradient: Mapping[str, float] = field(default_factory=dict)

    @property
    def measured(self) -> dict[str, float]:
        """What is logged, by name."""
        values = {"loss": self.loss, "learning_rate": self.learning_rate}
        if self.validation_loss is not None:
            values["validation_loss"] = self.validation_loss
        return values | {f"gradient_{part}": share for part, share in self.gradient.items()}


MEASURED = ("loss", "learning_rate", "validation_loss", *(f"gradient_{part}" for part in PARTS))


@contextmanager
def tracking(run: Run, key: str) -> Iterator[Callable[[Status], None]]:
    """Yield a callback that logs each step to `run.track`, or does nothing if that is None.

    A training that goes on replaces the steps that it repeats. InputError if the tracker is not installed,
    can't start or can't write.
    """
    if run.track is None:
        yield lambda status: None
        return
    if run.track != "csv" and find_spec(run.track) is None:
        raise InputError(f"track {run.track!r} needs a package: pip install {run.track}. csv needs none.")
    trackers: list[Any] = []

    def log(status: Status) -> None:
        if not PartialState().is_main_process:
            return
        after = ". Leave --track (track=) out, or choose another."
        with as_input_error(Exception, f"{run.track} failed: ", after, message=first_line):
            if not trackers:
                trackers.append(_started(run, key, status.step))
            trackers[0].log(status.measured, step=status.step)

    try:
        yield log
    finally:
        for tracker in trackers:
            tracker.finish()


def _started(run: Run, key: str, step: int) -> Any:
    name = f"{run.method}-seed{run.seed}-{key}"
    tracker: Any
    match run.track:
        case "csv":
            tracker = _Csv(FOLDER / f"{name}.csv", step)
            logger.info("each step is logged to %s", tracker.path)
        case "tensorboard":
            tracker = TensorBoardTracker(name, FOLDER, purge_step=step)
            logger.info("watch it with: tensorboard --logdir %s", FOLDER)
        case "wandb":
            tracker = WandBTracker(PROJECT, name=name, id=key, resume="allow")
        case _:
            tracker = MLflowTracker(PROJECT, run_name=name)
    tracker.start()
    settings = {name: value for name, value in asdict(run).items() if value is not None}
    tracker.store_init_configuration(settings)
    return tracker


class _Csv:
    """A line per step, in the form of accelerate's trackers, which write no CSV."""

    def __init__(self, path: Path, step: int) -> None:
        self.path, self.step = path, step

    def start(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        before = self.path.read_text(encoding="utf-8").splitlines() if self.path.is_file() else []
        head, steps = before[:1] or [",".join(("step", *MEASURED))], before[1:]
        numbers = (line.partition(",")[0] for line in steps)
        earlier = [number.isdigit() and int(number) < self.step for number in numbers]
        lines = [*head, *compress(steps, earlier)]
        self.file = self.path.open("w", encoding="utf-8", buffering=1)  # each line at once
        self.file.writelines(f"{line}\n" for line in lines)

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """The settings are in the record."""

    def log(self, values: dict[str, float], step: int) -> None:
        print(step, *(values.get(name, "") for name in MEASURED), sep=",", file=self.file)

    def finish(self) -> None:
        self.file.close()
