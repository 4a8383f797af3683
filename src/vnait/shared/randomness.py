"""What must not change a result: global random generators, and the training mode of a module's parts."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch
from torch import nn


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
