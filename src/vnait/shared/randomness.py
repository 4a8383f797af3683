"""The global random generators of Python, NumPy and PyTorch."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def preserved_generators() -> Iterator[None]:
    """Restore the generators on exit; else a bootstrap around a seeded training would repeat one draw."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


def seed_generators(seed: int) -> None:
    """Seed PyTorch's generators that are in use.

    `torch.manual_seed` also keeps a stack trace for each kind of device that is not, which takes longer than
    starting a small module.
    """
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
