"""How many threads a computation takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn


@contextmanager
def one_thread() -> Iterator[None]:
    """One, PyTorch's and NumPy's, and afterwards as many as before: results of small runs must not depend on how many run beside them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)
