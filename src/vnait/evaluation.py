"""Evaluation mode, for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards the training mode of every part is restored."""
    training = {part: part.training for part in module.modules()}
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, was in training.items():
            part.training = was
