"""The global random generators of Python, NumPy and PyTorch."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def apart() -> Iterator[None]:
    """Restore the generators on exit; else a bootstrap around a seeded training would repeat one draw."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
