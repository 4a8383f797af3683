"""The last state of a training on the disk, from which a killed run continues."""

import hashlib
import json
import logging
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import RNG_STATE_NAME
from safetensors.torch import load_file, save_file
from torch import Tensor

from vnait.model.configuration import FORMAT
from vnait.shared.errors import InputError, as_input_error, first_line
from vnait.shared.files import sync, writing
from vnait.shared.randomness import Draws

logger = logging.getLogger("vnait")

PROGRESS, BEST = "progress.json", "best.safetensors"
DRAWS = "draws_{}.safetensors"  # of each process, the states of its generators
MANIFEST = "manifest.json"  # the SHA-256 of every other file


@dataclass(kw_only=True)
class Progress:
    """The part of a state that accelerate does not save itself.

    joined    the step after which all rows are used
    best      the weights of the best evaluation, at best_step; empty before the first
    threads   of PyTorch, on which the weights depend
    format    of the model, on which the meaning of the weights depends
    """

    step: int = 0
    joined: int
    seconds: float = 0.0
    best_loss: float = float("inf")
    best_step: int = 0
    best: dict[str, Tensor] = field(default_factory=dict)
    worse: int = 0
    validation: dict[str, float] = field(default_factory=dict)
    threads: int = field(default_factory=torch.get_num_threads)
    format: int = FORMAT

    def save(self, folder: Path) -> None:
        """Write the weights as safetensors, the rest as JSON."""
        facts = {name: value for name, value in vars(self).items() if name != "best"}
        (folder / PROGRESS).write_text(json.dumps(facts), encoding="utf-8")
        save_file(self.best, folder / BEST)

    def load(self, folder: Path) -> None:
        """Take over what `save` wrote."""
        facts = json.loads((folder / PROGRESS).read_text(encoding="utf-8"))
        if (threads := facts.pop("threads", "another number of")) != self.threads:
            raise InputError(
                f"the checkpoint {folder} was made with {threads} threads, and this run has {self.threads}, "
                "which gives other weights. Give it the same number, or delete that folder."
            )
        if facts.pop("format", None) != self.format:
            raise InputError(
                f"the checkpoint {folder} is of another version of vnait, in which the weights have another "
                "meaning. Delete that folder and train again."
            )
        vars(self).update(facts, best=load_file(folder / BEST))


class Checkpoints:
    """Saves and loads the last state of the training `key`; without a folder it does nothing."""

    def __init__(self, folder: str | Path | None, key: str) -> None:
        self.folder = None if folder is None else Path(folder) / key

    def save(self, accelerator: Accelerator, progress: Progress, draws: Draws) -> None:
        """Write the state as a draft first, so that an unfinished one is never loaded."""
        if self.folder is None:
            return
        draft = self.folder / "draft"
        if accelerator.is_main_process:
            shutil.rmtree(draft, ignore_errors=True)
        accelerator.wait_for_everyone()  # or a slow process would delete what a fast one wrote
        try:
            with writing(self.folder):
                accelerator.save_state(str(draft))
                # The global generators, which would be set from this file; a training has its own.
                (draft / f"{RNG_STATE_NAME}_{accelerator.process_index}.pkl").unlink()
                save_file(draws.state(), draft / DRAWS.format(accelerator.process_index))
                accelerator.wait_for_everyone()
                if accelerator.is_main_process:
                    progress.save(draft)
                    (draft / MANIFEST).write_text(json.dumps(_checksums(draft)), encoding="utf-8")
                    sync(*draft.rglob("*"), draft)
                    os.replace(draft, self.folder / f"step-{progress.step:08d}")
                    sync(self.folder)
        except InputError:
            shutil.rmtree(draft, ignore_errors=True)
            if not self._states():
                self.remove()
            raise
        if accelerator.is_main_process:
            for old in self._states()[:-1]:
                shutil.rmtree(old)

    def resume(self, accelerator: Accelerator, progress: Progress, draws: Draws) -> None:
        """Load the last state, if there is one; InputError if any file of it has changed."""
        if not (states := self._states()):
            self._warn_of_others()
            return
        state = states[-1]
        before = f"the checkpoint {state} is damaged, or of another version of vnait: "
        after = ". Delete that folder and train again; an earlier state is used if there is one."
        with as_input_error(Exception, before, after, message=first_line):
            _check(state)
            accelerator.load_state(str(state))
            draws.restore(load_file(state / DRAWS.format(accelerator.process_index)))
            progress.load(state)
        logger.info("continuing from step %d", progress.step)

    def remove(self) -> None:
        """Delete the state of a finished training, and the folder if it is then empty."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            if self.folder.parent.is_dir() and not any(self.folder.parent.iterdir()):
                self.folder.parent.rmdir()

    def _warn_of_others(self) -> None:
        if self.folder is not None and any(self.folder.parent.glob("*/step-*")):
            logger.warning(
                "%s has the state of a training with other settings or data; this one starts from the "
                "beginning. Delete that folder unless you want to resume the other.",
                self.folder.parent,
            )

    def _states(self) -> list[Path]:
        return [] if self.folder is None else sorted(self.folder.glob("step-*"))


def _check(state: Path) -> None:
    """Raise ValueError unless the folder has exactly the files of its manifest, unchanged."""
    if not (state / MANIFEST).is_file():
        raise ValueError(f"it has no {MANIFEST}")
    expected, actual = json.loads((state / MANIFEST).read_text(encoding="utf-8")), _checksums(state)
    if expected != actual:
        changed = sorted(name for name, _ in dict(expected).items() ^ actual.items())
        raise ValueError(f"{changed[0]} is not as it was written")


def _checksums(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file in the folder but the manifest, by its path there."""
    checksums = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != MANIFEST:
            with path.open("rb") as file:
                checksums[str(path.relative_to(folder))] = hashlib.file_digest(file, "sha256").hexdigest()
    return checksums
