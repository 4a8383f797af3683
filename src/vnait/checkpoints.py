"""The last state of a training on the disk, from which a killed run continues."""

import logging
import shutil
from pathlib import Path

from accelerate import Accelerator

from vnait.errors import InputError
from vnait.files import writing

logger = logging.getLogger("vnait")


class Checkpoints:
    """Saves and loads the last state of the training `key`; without a folder it does nothing."""

    def __init__(self, folder: str | Path | None, key: str) -> None:
        self.folder = None if folder is None else Path(folder) / key

    def save(self, accelerator: Accelerator, step: int) -> None:
        """Write the state as a draft first, so that an unfinished one is never loaded."""
        if self.folder is None:
            return
        draft = self.folder / "draft"
        shutil.rmtree(draft, ignore_errors=True)
        try:
            with writing(self.folder):
                accelerator.save_state(str(draft))
        except InputError:
            shutil.rmtree(draft, ignore_errors=True)
            if not self._states():
                self.remove()
            raise
        if accelerator.is_main_process:
            draft.rename(self.folder / f"step-{step:08d}")
            for old in self._states()[:-1]:
                shutil.rmtree(old)

    def resume(self, accelerator: Accelerator) -> None:
        """Load the last state, if there is one."""
        if states := self._states():
            accelerator.load_state(str(states[-1]))
            logger.info("continuing from step %d", int(states[-1].name.removeprefix("step-")))

    def remove(self) -> None:
        """Delete the state of a finished training, and the folder if it is then empty."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            if self.folder.parent.is_dir() and not any(self.folder.parent.iterdir()):
                self.folder.parent.rmdir()

    def _states(self) -> list[Path]:
        return [] if self.folder is None else sorted(self.folder.glob("step-*"))
