"""Python's, NumPy's and PyTorch's own generators, left where they were."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def apart() -> Iterator[None]:
    """What is drawn or seeded inside is not seen outside: a bootstrap around a training would else repeat one draw."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
