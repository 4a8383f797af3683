"""Regularizers of coordinates, added to the loss."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from vnait.positions.coordinates import SPAN, Gate
from vnait.positions.coordinates.shared import Positions, steps, without_padding_between


def smoothness(
    at: Float[Tensor, "B T C"], mask: Bool[Tensor, "B T"], positions: Positions = None
) -> Float[Tensor, ""]:
    """sum_{i=1}^{n-1} Huber((S_{i+1} - S_i) - 100/n), delta = 1, averaged over the sentences.

    With known positions 100/n times the step between two of them over the mean step.

    >>> smoothness(torch.tensor([[[50.0], [100.0]]]), torch.ones(1, 2, dtype=torch.bool))
    tensor(0.)
    """
    ideal = (SPAN / mask.sum(-1, keepdim=True)).expand_as(mask)
    if positions is not None:
        ideal = ideal * steps(positions, mask)

    def uneven(line: Tensor, ideal: Tensor, mask: Tensor) -> Tensor:
        between = mask & F.pad(mask, (1, 0))[:, :-1]
        off = (line.diff(dim=-1, prepend=line[:, :1]) - ideal).masked_fill(~between, 0)
        return F.huber_loss(off, torch.zeros_like(off), reduction="none", delta=1.0)

    return without_padding_between(uneven, mask, at[..., 0], ideal, mask).sum() / len(mask)


def muting(at: Float[Tensor, "B T C"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, ""]:
    """The prior that every token counts: max(0, 3/2 - l_i), l on axis 4 of `Elastic`, averaged over tokens.

    >>> muting(torch.tensor([[[0.0, 0.0, 0.0, 0.5, 0.5]]]), torch.ones(1, 1, dtype=torch.bool))
    tensor(1.)
    """
    short = (Gate.START - at[..., 4]).relu().masked_fill(~mask, 0)
    return short.sum() / mask.sum()


def boundary(at: Float[Tensor, "B T C"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, ""]:
    """max(0, -S_1)^2 + max(0, S_n - 100)^2, averaged over the sentences.

    >>> boundary(torch.tensor([[[-1.0], [102.0]]]), torch.ones(1, 2, dtype=torch.bool))
    tensor(5.)
    """
    line = at[..., 0]
    # Padding repeats S_1 or S_n, and would get a share of their gradient.
    first = line.masked_fill(~mask, torch.inf).amin(-1)
    last = line.masked_fill(~mask, -torch.inf).amax(-1)
    return ((-first).clamp(min=0).square() + (last - SPAN).clamp(min=0).square()).mean()
