"""What the weights of earlier formats lack: models up to format 6, adapters up to format 3."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from vnait.inputs.neighbours import Local


def one_axis(weight: Tensor) -> Tensor:
    """A parameter of one number has one axis, since FSDP shards no other; in earlier formats it has none."""
    return weight.reshape(1) if weight.ndim == 0 else weight


@torch.no_grad()
def divide_taps(module: nn.Module) -> None:
    """Divide all taps by their speed: in earlier formats they are the window itself."""
    for part in module.modules():
        if isinstance(part, Local):
            part.taps.div_(part.speed)
