"""The attached module: a method in a model, beside the model's own positions."""

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from vnait.positions.cache import Mask, Vectors
from vnait.positions.method import Method
from vnait.pretrained.attach.cross_attention import RelativePositions, SourcePositions, TargetPositions
from vnait.pretrained.images import Patches, Shape, has_cells, on_cells, resized
from vnait.pretrained.table import Rows, between, interpolated, running_places
from vnait.shared.errors import InputError
from vnait.shared.values import full, precision


class AttachedOutput(NamedTuple):
    """Model input x, places for the model's own rotation or distance bias, the method's bias and angles."""

    x: Vectors
    places: Float[Tensor, "B T"]
    bias: Float[Tensor, "B H TQ T"] | None
    rotary: Float[Tensor, "B T K_half"] | None


class Attached(nn.Module):
    """x = e + old(p) + gate * (method(e) - e), with gate = 0 at first; in a cold start x = method(e).

    Computed in float32 at least, whatever the model's precision.

    Args:
        owner: the model that reads ids, or images
        dim: width of its semantic vectors
        mean_square: of their numbers; the method gets them at a root mean square of about 1
        old: its own position table, read at real places p (`running_places`); None if it has none, or in a
            cold start
        warm: whether there is a gate (D,)
        own_places: where the model's own rotation or distance bias is read: "coordinates" of the method,
            "running" places p, "zero"; None if it has neither
        own_attention: name of the model's attention if it was replaced by `layers.ROTARY`, which rotates by
            the method's angles, and fits its bias to a cache that drops old keys
        has_bias: whether the method has a bias
        crossing: position in a decoder's cross-attention
        first_row: row of the table that the first token reads
        pad: the padding id that has a row of its own in the table, as RoBERTa's; None if the table counts it
            as a word
        causal: whether a token depends on earlier ones only
        hooks_attention: whether attention modules get `AttentionInputs`
        alibi: whether the model builds its bias from the mask, as BLOOM
        patches: how an image becomes tokens; None in texts
    """

    def __init__(
        self,
        *,
        owner: PreTrainedModel,
        dim: int,
        mean_square: float,
        method: Method,
        old: Rows | None,
        warm: bool,
        own_places: str | None,
        own_attention: str | None,
        has_bias: bool,
        crossing: SourcePositions | TargetPositions | RelativePositions | None,
        first_row: int,
        pad: int | None,
        causal: bool,
        hooks_attention: bool,
        alibi: bool,
        patches: Patches | None,
    ) -> None:
        super().__init__()
        self.method, self.old, self.crossing = method, old, crossing
        # Methods are made for vectors of root mean square 1. Scaling by a power of two rounds nothing.
        self.scale = 2.0 ** round(math.log2(max(mean_square, 1e-12) ** 0.5))
        self.gate = nn.Parameter(torch.zeros(dim)) if warm else None
        self.own_places, self.own_attention, self.has_bias = own_places, own_attention, has_bias
        self.first_row, self.pad, self.causal = first_row, pad, causal
        self.hooks_attention, self.alibi, self.patches = hooks_attention, alibi, patches
        self.arguments: dict[str, Any] = {}  # of `attach`, for `save_adapter`
        self.frozen_before = False  # whether nothing but the model's own table was learned
        self.disabled = False  # for `audit`: all places at zero, no method
        self.argument_names = tuple(inspect.signature(owner.forward).parameters)
        self.has_token_types = any(name.endswith("token_type_ids") for name, _ in owner.named_buffers())

    def forward(
        self, vectors: Vectors, mask: Mask, past: int = 0, shape: Shape | None = None
    ) -> AttachedOutput:
        """Of all tokens, but a bias of the queries after the first `past`; of an image's patches by its
        `shape`.
        """
        zero = torch.zeros(mask.shape, device=mask.device)
        if self.disabled:
            return AttachedOutput(vectors, zero, None, None)
        e = full(vectors)
        if shape is not None and has_cells(self.method):
            assert self.patches is not None
            output = on_cells(self.method, e / self.scale, self.patches, shape)
        else:
            output = self.method(e / self.scale, mask)
        x = output.x * self.scale
        if self.gate is not None:
            x = e + self.gate * (x - e)
        places = zero
        if self.old is not None or self.own_places == "running":
            places = running_places(self.method.coordinates, e / self.scale, mask)
        if self.old is not None:
            x = x + self._old(self.old, places, mask, shape).to(x.dtype)
        if self.own_places == "coordinates":
            # From 0, since dynamic rotations take the last place for the text's length; only distances count.
            places = output.at[..., 0]
            places = places - places.gather(1, mask.long().argmax(1, keepdim=True))
        rotary = output.injection.rotary if self.own_attention else None
        return AttachedOutput(x.to(vectors.dtype), places, output.injection.since(past).dense().bias, rotary)

    @property
    def learns_inside(self) -> bool:
        """Whether something learned acts inside the layers: places, a bias, angles, or cross-attention's."""
        parts = self.method.coordinates, self.method.encoding
        learned = any(weight.requires_grad for part in parts for weight in part.parameters())
        slots = (self.has_bias or self.own_attention is not None) and learned
        crossed = isinstance(self.crossing, TargetPositions | RelativePositions)
        return slots or crossed or self.own_places is not None

    def _old(self, old: Rows, places: Float[Tensor, "B T"], mask: Mask, shape: Shape | None) -> Vectors:
        """The model's own table; for an image of another size, resized."""
        if self.patches is not None and shape is not None and shape != self.patches.grid:
            index = torch.arange(old.max_length, device=places.device, dtype=places.dtype)
            rows = resized(old.read(index[None])[0], self.patches, shape)
            return between(rows, interpolated(places, mask, len(rows) - 1))
        # A decoder does not know how long the text will become, so it stays at the last row.
        return old.read(places if self.causal else interpolated(places, mask, old.max_length - 1))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Follow the model to other devices and precisions, but never below float32: places are sums."""

        def at_least_float32(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            precise = precision(moved.dtype) == moved.dtype
            return moved if precise else tensor.to(moved.device)

        return super()._apply(at_least_float32, recurse)

    def extra_repr(self) -> str:
        return f"scale={self.scale:g}, own_places={self.own_places!r}"


def attached_to(owner: nn.Module) -> Attached | None:
    """What is attached to a model, if anything; of peft's modules_to_save, what is active."""
    part: Any = getattr(owner, "vnait", None)
    if hasattr(part, "modules_to_save"):
        part = part.modules_to_save[part.active_adapter]
    return part if isinstance(part, Attached) else None


def attached_owners(model: nn.Module) -> dict[str, PreTrainedModel]:
    """Path -> module with an attached method, the encoder first; `InputError` if there is none."""
    parts = {path: part for path, part in model.named_modules() if attached_to(part) is not None}
    owners = {path: part for path, part in parts.items() if isinstance(part.vnait, Attached)}
    if parts and not owners:
        raise InputError(
            f"the method of {type(model).__name__} is inside peft's modules_to_save; call merge_and_unload() "
            "first, or save with peft."
        )
    if not owners:
        raise InputError(
            f"{type(model).__name__} has no method attached; call vnait.attach(model, ...) first."
        )
    return dict(sorted(owners.items(), key=lambda item: item[1].vnait.causal))


def settings_of(owners: dict[str, PreTrainedModel]) -> dict[str, Any]:
    """The arguments of `attach`, and the scale that it found on each side."""
    arguments = next(iter(owners.values())).vnait.arguments
    if len(owners) < len(arguments["described"]):
        parts = " and ".join(type(part).__name__ for part in owners.values())
        raise InputError(
            f"{parts} is one side of a model whose other side got a method by the same call; save the whole."
        )
    return {**arguments, "scale": {path: owner.vnait.scale for path, owner in owners.items()}}
