"""The number of threads of PyTorch and NumPy, on which the last digits of sums depend."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many threads inside, as many as before outside: a result must not depend on the machine's cores."""
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
