"""Attention modules that compute position themselves, of UMT5 and GPT-J.

While a method is attached, their class has a parent: it takes position as an input, and hands it on to the
function by which the module would compute it.
"""

import inspect
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from vnait.pretrained.layers import ThreadValue, check_reading, sines

_handed = ThreadValue()  # to this thread's attention module


class BiasGiven:
    """UMT5's attention with `position_bias` as an input, as T5's has it."""

    def forward(self, *args: Any, position_bias: Tensor | None = None, **kwargs: Any) -> Any:
        with _handed.holding(position_bias):
            return super().forward(*args, **kwargs)  # type: ignore[misc]

    @property
    def has_relative_attention_bias(self) -> bool:
        """Whether `compute_bias` is called: with a table of its own, or to hand a bias on."""
        return _handed.value is not None or bool(vars(self)["has_relative_attention_bias"])

    def compute_bias(self, *args: Any, **kwargs: Any) -> Tensor:
        bias = _handed.value
        if bias is None:
            check_reading("the model's bias of distances")
            bias = super().compute_bias(*args, **kwargs)  # type: ignore[misc]
        return bias


class PlacesGiven:
    """GPT-J's attention with real numbers as `position_ids`."""

    pos_embd_dim: int

    def forward(self, *args: Any, position_ids: Tensor, **kwargs: Any) -> Any:
        if not position_ids.is_floating_point():
            check_reading("the model's rotation")
        index = torch.arange(position_ids.shape[1], device=position_ids.device).expand_as(position_ids)
        with _handed.holding(position_ids):
            return super().forward(*args, position_ids=index, **kwargs)  # type: ignore[misc]

    def _get_embed_positions(self, position_ids: Tensor) -> Tensor:
        places = _handed.value
        assert places is not None
        return sines(places, self.pos_embd_dim)


def parent_of(module: nn.Module) -> type | None:
    """The parent that a module's class needs, by structure; None if it takes position as an input."""
    if hasattr(module, "_relative_position_bucket") and "position_bias" not in _inputs(module):
        return BiasGiven
    return PlacesGiven if hasattr(module, "_get_embed_positions") else None


def _inputs(module: nn.Module) -> Iterable[str]:
    """Of its forward, before its class was changed."""
    kind: Any = getattr(module, "plain", type(module))
    return inspect.signature(kind.forward).parameters
