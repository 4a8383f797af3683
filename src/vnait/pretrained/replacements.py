"""Modules that replace a pretrained model's own position modules."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn


class SilencedTable(nn.Module):
    """A position table that returns zeros. Its frozen weight keeps its key in the state dict.

    >>> import torch
    >>> SilencedTable(nn.Embedding(8, 2))(torch.tensor([[99]]))
    tensor([[[0., 0.]]])
    """

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self.learned = table.weight.requires_grad
        self.weight = table.weight.requires_grad_(False)
        self._table = (table,)  # in a tuple: a submodule would add keys to the state dict

    def forward(self, *args: Any, **kwargs: Any) -> Float[Tensor, "1 1 D"]:
        """Zeros for any ids, also past the last row; the sum broadcasts."""
        return self.weight.new_zeros(1, 1, self.weight.shape[1])

    def original(self) -> nn.Embedding:
        """The table, learned again if it was."""
        (table,) = self._table
        table.weight = self.weight.requires_grad_(self.learned)
        return table

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]} rows"


class DifferentiableRotary(nn.Module):
    """A model's own rotary module with gradients: transformers runs it under `no_grad`, so places could not
    be learned.

    Layout, base and scaling stay: it calls the original forward without the `no_grad` decorator.
    """

    def __init__(self, rotary: nn.Module) -> None:
        super().__init__()
        self.rotary = rotary

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        forward = type(self.rotary).forward
        return getattr(forward, "__wrapped__", forward)(self.rotary, *args, **kwargs)

    def original(self) -> nn.Module:
        """The module without the wrapper."""
        return self.rotary
