"""A context manager for evaluation mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import nn


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards the training mode of every part is restored, and the kind
    of attention that BigBird changes permanently for a short text.
    """
    training = {part: part.training for part in module.modules()}
    kinds = {part: part.attention_type for part in training if hasattr(part, "set_attention_type")}
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, was in training.items():
            part.training = was
        for owner, kind in kinds.items():
            cast(Any, owner).set_attention_type(kind)
