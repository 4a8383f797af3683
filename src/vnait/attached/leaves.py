"""What stands in a pretrained model where its own position was: a table that says nothing, a rotation by real places."""

from __future__ import annotations

import inspect
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn


class Silenced(nn.Module):
    """A position table that gives zeros. It keeps the table's key in the state dict, frozen, and the table itself for `detach`.

    >>> import torch
    >>> Silenced(nn.Embedding(8, 2))(torch.tensor([[99]]))
    tensor([[[0., 0.]]])
    """

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self.learned = table.weight.requires_grad
        self.weight = table.weight.requires_grad_(False)
        self._table = (table,)  # in a tuple: a submodule would have keys of its own

    def forward(self, *args: Any, **kwargs: Any) -> Float[Tensor, "1 1 D"]:
        """Whatever it is asked for, and however far; the sum broadcasts."""
        return self.weight.new_zeros(1, 1, self.weight.shape[1])

    def restored(self) -> nn.Embedding:
        """The table, as it was."""
        table = self._table[0]
        table.weight = self.weight.requires_grad_(self.learned)
        return table

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]} rows"


class Turned(nn.Module):
    """A model's own rotation with its gradient: transformers runs it under `no_grad`, and learned places would learn nothing.

    Its formula stays what it was (layout, base, scaling): the original forward is called, stripped of `no_grad` alone.
    """

    def __init__(self, rotary: nn.Module) -> None:
        super().__init__()
        self.rotary = rotary

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        forward = type(self.rotary).forward
        return getattr(forward, "__wrapped__", forward)(self.rotary, *args, **kwargs)

    def restored(self) -> nn.Module:
        """The rotation, as it was."""
        return self.rotary


def can_turn(rotary: nn.Module) -> bool:
    """Whether it is called with `position_ids`, and adds no key to the state dict that wrapping it would move."""
    return "position_ids" in inspect.signature(rotary.forward).parameters and not rotary.state_dict()
