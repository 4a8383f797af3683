"""What is told inside a model's layers: a bias and a turn of the method's, its own bias of distances at real places, cross-attention."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from vnait.backbone import turned
from vnait.encodings.bias_tables import of_buckets

Bias = Float[Tensor, "B H T TK"]
NAME = "vnait"  # of the keyword that carries `Carried` from the owner down to its attention modules
TURN = "vnait_turn"  # of the keyword that carries angles, and of the attention that turns by them


class Carried(NamedTuple):
    """What the attention modules of one run are told, for all tokens read so far.

    places    where the tokens are, for the model's own bias of distances
    bias      of the method's, for the queries of this run
    queries   added to the inputs of cross-attention's queries
    crossing  a bias of cross-attention's scores
    """

    places: Float[Tensor, "B T"]
    bias: Bias | None = None
    queries: Float[Tensor, "B TQ D"] | None = None
    crossing: Bias | None = None


def inside(
    attention: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The hook before an attention module: what is told becomes its `position_bias`, and part of its queries."""
    if NAME not in kwargs:
        return None
    told: Carried = kwargs.pop(NAME)
    if kwargs.get("key_value_states") is not None:
        kwargs.pop(TURN, None)
        bias = told.crossing
        if told.queries is not None:
            args, kwargs = _with_queries(args, kwargs, told.queries)
    else:
        states = args[0] if args else kwargs["hidden_states"]
        bias = told.bias
        if getattr(attention, "has_relative_attention_bias", False) and kwargs.get("position_bias") is None:
            own = own_bias(attention, told.places)[:, :, -states.shape[1] :].to(states.dtype)
            bias = own if bias is None else own + bias
    if bias is not None and kwargs.get("position_bias") is None:
        kwargs["position_bias"] = bias
    return args, kwargs


def own_bias(attention: Any, places: Float[Tensor, "B T"]) -> Bias:
    """T5's bias at real places: the model's own table, linear between whole distances."""
    return of_buckets(
        attention.relative_attention_bias.weight,
        places[..., None],
        attention.relative_attention_max_distance,
        bidirectional=not attention.is_decoder,
    )


def turning(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, Tensor | None]:
    """transformers' sdpa attention with queries and keys turned by angles (B, T, K/2), where there are some.

    A cache holds keys before they are turned: a method may tell the past other angles than it did.
    """
    turn = kwargs.pop(TURN, None)
    if turn is not None:
        query, key = turned(query, turn[:, -query.shape[2] :]), turned(key, turn)
    found: tuple[Tensor, Tensor | None] = ALL_ATTENTION_FUNCTIONS["sdpa"](
        module, query, key, value, attention_mask, **kwargs
    )
    return found


AttentionInterface.register(TURN, turning)
AttentionMaskInterface.register(TURN, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])


def _with_queries(
    args: tuple[Any, ...], kwargs: dict[str, Any], queries: Float[Tensor, "B TQ D"]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if args:
        return (args[0] + queries.to(args[0].dtype), *args[1:]), kwargs
    states = kwargs["hidden_states"]
    return args, kwargs | {"hidden_states": states + queries.to(states.dtype)}


class _SlopesAtPlaces:
    """ALiBi at real places, in place of a model's `build_alibi_tensor`: its mask holds place + 1 at real tokens, 0 at padding."""

    def build_alibi_tensor(self, attention_mask: Tensor, num_heads: int, dtype: torch.dtype) -> Tensor:
        two = torch.ones(1, 2, device=attention_mask.device)
        slopes = super().build_alibi_tensor(two, num_heads, torch.float32)[:, 0, 1]  # type: ignore[misc]
        place = (attention_mask - 1) * (attention_mask > 0)
        bias: Tensor = slopes[:, None] * place[:, None]
        return bias.flatten(0, 1)[:, None].to(dtype)


def by_places(owner: PreTrainedModel) -> None:
    """From now on its ALiBi is at places. The method is looked up on the class: an instance can't carry another."""
    kind = type(owner)
    # With the names of the original, which transformers reads: for what it saves, and for its losses.
    owner.__class__ = type(
        kind.__name__, (_SlopesAtPlaces, kind), {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    )


def restored(owner: PreTrainedModel) -> None:
    """The class that it had."""
    if isinstance(owner, _SlopesAtPlaces):
        owner.__class__ = type(owner).__bases__[1]
