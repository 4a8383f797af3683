"""The number of threads of PyTorch and NumPy."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread inside, as many as before outside: a result must not depend on the runs beside it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)
