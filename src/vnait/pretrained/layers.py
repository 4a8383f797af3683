"""What `attach` puts into a pretrained model: modules in place of its own position modules; inside the
layers, the method's bias and angles, the model's own distance bias at real places, and cross-attention.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from vnait.encodings.bias_tables import of_buckets
from vnait.model.backbone import rotate

Bias = Float[Tensor, "B H T TK"]
ATTENTION_INPUTS = "vnait"  # keyword that carries `AttentionInputs` from the model to its attention modules
ROTARY = "vnait_rotary"  # keyword that carries angles, and name of the attention that rotates by them


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


class AttentionInputs(NamedTuple):
    """Inputs of all attention modules in one run.

    places      of past and new tokens, for the model's own distance bias
    bias        of the method, for the new queries
    queries     added to the inputs of cross-attention's queries
    cross_bias  bias of cross-attention's scores
    """

    places: Float[Tensor, "B T"]
    bias: Bias | None = None
    queries: Float[Tensor, "B TQ D"] | None = None
    cross_bias: Bias | None = None


def pre_attention(
    attention: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Hook before an attention module: set its `position_bias`, and in cross-attention move its queries."""
    if ATTENTION_INPUTS not in kwargs:
        return None
    shared: AttentionInputs = kwargs.pop(ATTENTION_INPUTS)
    states: Tensor = args[0] if args else kwargs["hidden_states"]
    if kwargs.get("key_value_states") is not None:
        kwargs.pop(ROTARY, None)
        bias = shared.cross_bias
        if shared.queries is not None:
            states = states + shared.queries.to(states.dtype)
            if args:
                args = (states, *args[1:])
            else:
                kwargs = kwargs | {"hidden_states": states}
    else:
        bias = shared.bias
        if getattr(attention, "has_relative_attention_bias", False) and kwargs.get("position_bias") is None:
            own = t5_bias(attention, shared.places)[:, :, -states.shape[1] :].to(states.dtype)
            bias = own if bias is None else own + bias
    if bias is not None and kwargs.get("position_bias") is None:
        kwargs["position_bias"] = bias
    return args, kwargs


def t5_bias(attention: Any, places: Float[Tensor, "B T"]) -> Bias:
    """T5's bias at real places: the model's own table, linear between whole distances."""
    return of_buckets(
        attention.relative_attention_bias.weight,
        places[..., None],
        attention.relative_attention_max_distance,
        bidirectional=not attention.is_decoder,
    )


def rotary_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, Tensor | None]:
    """transformers' sdpa attention; queries and keys are rotated by angles (B, T, K/2) if there are any.

    A cache stores keys before rotation, because a method may change the angles of past tokens.
    """
    angles = kwargs.pop(ROTARY, None)
    if angles is not None:
        query, key = rotate(query, angles[:, -query.shape[2] :]), rotate(key, angles)
    output: tuple[Tensor, Tensor | None] = ALL_ATTENTION_FUNCTIONS["sdpa"](
        module, query, key, value, attention_mask, **kwargs
    )
    return output


AttentionInterface.register(ROTARY, rotary_attention)
AttentionMaskInterface.register(ROTARY, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])


class _AlibiAtPlaces:
    """A model's `build_alibi_tensor` at real places: its mask has place + 1 at real tokens, 0 at padding."""

    def build_alibi_tensor(self, attention_mask: Tensor, num_heads: int, dtype: torch.dtype) -> Tensor:
        two = torch.ones(1, 2, device=attention_mask.device)
        slopes = super().build_alibi_tensor(two, num_heads, torch.float32)[:, 0, 1]  # type: ignore[misc]
        places = (attention_mask - 1) * (attention_mask > 0)
        bias: Tensor = slopes[:, None] * places[:, None]
        return bias.flatten(0, 1)[:, None].to(dtype)


def use_alibi_at_places(owner: PreTrainedModel) -> None:
    """Change the model's class: transformers looks `build_alibi_tensor` up there, not on the instance."""
    kind = type(owner)
    # transformers reads module and name of the class to save the model and to choose its loss.
    owner.__class__ = type(
        kind.__name__,
        (_AlibiAtPlaces, kind),
        {"__module__": kind.__module__, "__qualname__": kind.__qualname__},
    )


def restore_class(owner: PreTrainedModel) -> None:
    """Undo `use_alibi_at_places`."""
    if isinstance(owner, _AlibiAtPlaces):
        owner.__class__ = type(owner).__bases__[1]
