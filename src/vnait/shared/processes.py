"""Several processes of one training, started by torchrun or `accelerate launch`; and the threads of one.

The last digits of sums depend on the number of threads.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

Made = TypeVar("Made")
WAIT = timedelta(days=1)  # for the first process, which may take long to read; by default some ten minutes


def on_cpu() -> bool:
    """Whether there is no other device. Accelerate joins processes on CPUs only with `cpu=True`."""
    import torch

    return not torch.accelerator.is_available()


def is_first() -> bool:
    """Whether this process is the first of all, which alone writes files and prints."""
    return os.environ.get("RANK", "0") == "0"


def once_per_node(make: Callable[[], Made]) -> Made:
    """What `make` returns, made by the first process of each machine. All of its processes map the arrays of
    that into their memory, which they share: an array is there once, and only as far as it was read.
    """
    if os.environ.get("WORLD_SIZE", "1") == "1":
        return make()
    import joblib
    from accelerate import PartialState
    from accelerate.utils import gather_object

    state = PartialState(cpu=on_cpu(), timeout=WAIT)
    folder = None
    try:
        if state.is_local_main_process:
            folder = tempfile.mkdtemp(prefix="vnait-")
            joblib.dump(make(), Path(folder, "made"))
        folders = gather_object([folder])  # waits for the first processes
        source = folders[state.process_index - state.local_process_index]
        made: Made = joblib.load(Path(source, "made"), mmap_mode="r")
        state.wait_for_everyone()
    finally:
        if folder is not None:
            shutil.rmtree(folder)  # what is mapped stays
    return made


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many threads inside, as many as before outside: a result must not depend on the machine's cores."""
    import torch
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with threadpool_limits(count):
            yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread inside: a result must not depend on the runs beside it either."""
    with threads(1):
        yield
