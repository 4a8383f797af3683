"""The attached module, and the inputs that it gives the model's forward."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel
from transformers.cache_utils import Cache

from vnait.positions.cache import Mask, Vectors, begun, words_of
from vnait.positions.coordinates.shared import rank
from vnait.positions.method import Method
from vnait.pretrained.attach.cross_attention import Relative, Source, Target
from vnait.pretrained.attach.warm_start import Rows, between, interpolated, running_places
from vnait.pretrained.images import (
    Patches,
    Shape,
    check_images,
    has_cells,
    on_cells,
    resized,
)
from vnait.pretrained.layers import ATTENTION_INPUTS, ROTARY, AttentionInputs, reading
from vnait.pretrained.locate import Site
from vnait.shared.errors import InputError
from vnait.shared.values import full, precision

OTHER_POSITIONS = (
    "position_ids differ from the index of the tokens; the attached method counts the tokens of "
    "attention_mask itself, so leave position_ids out, give packed texts one by one, and no images to a "
    "model that gives them places in a grid."
)


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
        old: the model's own position table, read at real places p (`running_places`); None if it has none,
            or in a cold start
        warm: whether there is a gate (D,)
        own_places: where the model's own rotation or distance bias is read: "coordinates" of the method,
            "running" places p, "zero"; None if it has neither
        site: the side of the model
        first_row: row of the table that the first token reads
        own_attention: name of the model's attention if it was replaced by `layers.ROTARY`, which rotates by
            the method's angles, and fits its bias to a cache that drops old keys
        crossing: position in a decoder's cross-attention
    """

    def __init__(
        self,
        *,
        method: Method,
        old: Rows | None,
        warm: bool,
        own_places: str | None,
        site: Site,
        first_row: int,
        has_bias: bool,
        own_attention: str | None,
        crossing: Source | Target | Relative | None,
    ) -> None:
        super().__init__()
        self.method, self.old, self.crossing = method, old, crossing
        owner = site.owner
        vectors = site.vectors().float()
        # Methods are made for vectors of root mean square 1. Scaling by a power of two rounds nothing.
        self.scale = 2.0 ** round(float(vectors.square().mean().clamp(min=1e-12).sqrt().log2()))
        self.gate = nn.Parameter(torch.zeros(vectors.shape[-1], device=vectors.device)) if warm else None
        self.own_places, self.first_row, self.causal = own_places, first_row, site.causal
        self.has_bias, self.own_attention = has_bias, own_attention
        self.hooks_attention, self.alibi = bool(site.attentions), site.alibi
        self.patches = site.patches
        # Some tables, as RoBERTa's, give a row of their own to this id; the others count it as a word.
        self.pad = getattr(site.tables[0].module, "padding_idx", None) if site.tables and warm else None
        self.arguments: dict[str, Any] = {}  # of `attach`, for `save_adapter`
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
        return slots or self.own_places is not None or isinstance(self.crossing, Target | Relative)

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
    found: Any = getattr(owner, "vnait", None)
    if hasattr(found, "modules_to_save"):
        found = found.modules_to_save[found.active_adapter]
    return found if isinstance(found, Attached) else None


def with_positions(
    owner: PreTrainedModel, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any] | None:
    """Inputs of the owner's forward, with vectors with position in place of ids or pixels, and with bias and
    angles.

    None if there are ids and vectors, or neither: the model raises its own error.
    """
    attached: Attached = owner.vnait
    inputs = {**dict(zip(attached.argument_names, args, strict=False)), **kwargs}
    if attached.patches is not None:
        return _of_images(owner, attached, attached.patches, inputs)
    ids, vectors = inputs.get("input_ids"), inputs.get("inputs_embeds")
    if (ids is None) == (vectors is None):
        return None
    if "lengths" in attached.argument_names and inputs.get("attention_mask") is None:
        inputs["attention_mask"] = _mask_of_lengths(owner, inputs)
    _check_padding(attached, ids, inputs)
    vectors = owner.get_input_embeddings()(ids) if vectors is None else vectors
    if vectors.ndim != 3:
        raise InputError(
            f"inputs_embeds has the shape {tuple(vectors.shape)}; an attached model takes (sentences, "
            "tokens, width)."
        )
    _check_settings(owner, attached)
    cache = _cache(owner, attached, inputs)
    past = 0 if cache is None else int(cache.get_seq_length())
    length = past + vectors.shape[1]
    mask = _full_mask(inputs.get("attention_mask"), vectors.shape[0], length, vectors.device)
    _check_position_ids(inputs.get("position_ids"), mask, attached.first_row)
    text = vectors if cache is None else words_of(cache).extend(vectors, mask[:, past:])[0]
    x, places, bias, rotary = attached(text, mask if cache is None else begun(mask), past)
    bias = None if bias is None else bias.to(vectors.dtype)
    inputs |= {"input_ids": None, "inputs_embeds": x[:, past:]}
    if "position_ids" in attached.argument_names:
        index = torch.arange(past, length, device=vectors.device).expand(vectors.shape[0], -1)
        inputs["position_ids"] = index if attached.own_places is None else places[:, past:]
    if attached.own_places is not None and inputs.get("attention_mask") is None:
        # Without a mask, transformers takes position_ids other than 0, 1, 2 ... for packed texts.
        inputs["attention_mask"] = mask.long()
    if attached.has_token_types and inputs.get("token_type_ids") is None:
        inputs["token_type_ids"] = torch.zeros(vectors.shape[:2], dtype=torch.long, device=vectors.device)
    if attached.alibi:
        inputs["attention_mask"] = (places + 1) * mask
    if rotary is not None:
        inputs[ROTARY] = rotary
    if attached.hooks_attention:
        shared = AttentionInputs(places, bias)
        inputs[ATTENTION_INPUTS] = _with_cross_attention(attached, inputs, shared, text, mask, past)
    elif bias is not None:
        inputs["position_bias"] = bias
    return inputs


def _of_images(
    owner: PreTrainedModel, attached: Attached, patches: Patches, inputs: dict[str, Any]
) -> dict[str, Any] | None:
    if inputs.get("pixel_values") is None:
        return None
    check_images(inputs)
    _check_settings(owner, attached)
    part: Any = owner.get_submodule(patches.path)
    pixels = inputs["pixel_values"].to(part.patch_embeddings.projection.weight.dtype)
    more = {name: inputs[name] for name in patches.inputs if inputs.get(name) is not None}
    with reading():
        vectors = part(pixels, **more)
    mask = torch.ones(vectors.shape[:2], dtype=torch.bool, device=vectors.device)
    x, _, bias, rotary = attached(vectors, mask, shape=patches.shape(pixels))
    slots = {"position_bias": None if bias is None else bias.to(vectors.dtype), ROTARY: rotary}
    given = {name: slot for name, slot in slots.items() if slot is not None}
    return {**inputs, "pixel_values": x, **given}


def _with_cross_attention(
    attached: Attached, inputs: dict[str, Any], shared: AttentionInputs, text: Vectors, mask: Mask, past: int
) -> AttentionInputs:
    """Add the position of cross-attention; a source's goes into the encoder's states in `inputs`."""
    part, states = attached.crossing, inputs.get("encoder_hidden_states")
    if part is None or states is None or attached.disabled:
        return shared
    source = inputs.get("encoder_attention_mask")
    source = torch.ones(states.shape[:2], device=states.device) if source is None else source
    if isinstance(part, Source):
        inputs["encoder_hidden_states"] = part(states, source.bool())
        return shared
    if isinstance(part, Target):
        return shared._replace(queries=part(text / attached.scale, mask)[:, past:])
    return shared._replace(cross_bias=part(mask, source.bool())[:, :, past:].to(text.dtype))


def _cache(owner: PreTrainedModel, attached: Attached, inputs: dict[str, Any]) -> Cache | None:
    """The cache of keys and values that this run fills; created here if the model would create one.

    It has to exist before the forward, because it also stores the semantic vectors.
    """
    if not attached.causal or "past_key_values" not in attached.argument_names:
        return None
    cache = inputs.get("past_key_values")
    if cache is None:
        use_cache = inputs.get("use_cache")
        if not (owner.config.use_cache if use_cache is None else use_cache) or checkpoints(owner):
            return None
        cache = DynamicCache(config=owner.config)
        if owner.config.is_encoder_decoder or inputs.get("encoder_hidden_states") is not None:
            cache = EncoderDecoderCache(cache, DynamicCache(config=owner.config))
        inputs["past_key_values"] = cache
    cache = cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache
    grows = attached.has_bias or attached.own_attention or attached.alibi
    fixed = getattr(cache, "is_compileable", False) and grows
    if not isinstance(cache, Cache) or not hasattr(cache, "layers") or fixed:
        raise InputError(
            f"an attached model takes a DynamicCache as its cache, not a {type(cache).__name__}; for "
            "generate, give cache_implementation='dynamic'."
        )
    return cache


def _mask_of_lengths(owner: PreTrainedModel, inputs: dict[str, Any]) -> Tensor | None:
    """What a model of the kind of XLM reads, which counts a text's tokens by `lengths`, or by ids that aren't
    padding.
    """
    lengths, ids = inputs.get("lengths"), inputs.get("input_ids")
    if lengths is None and ids is None:
        return None
    tokens: Tensor = inputs["inputs_embeds"] if ids is None else ids
    if lengths is None:
        lengths = (tokens != owner.pad_index).sum(1)
    return (torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]).long()


def _full_mask(mask: Any, rows: int, length: int, device: torch.device) -> Mask:
    """The mask of past and new tokens, True = real token."""
    if mask is None:
        return torch.ones(rows, length, dtype=torch.bool, device=device)
    if not isinstance(mask, Tensor) or mask.ndim != 2:
        shape = tuple(mask.shape) if isinstance(mask, Tensor) else type(mask).__name__
        raise InputError(
            f"an attached model can't count tokens in an attention_mask of {shape}; give (sentences, "
            "tokens), 1 at real tokens (for generate: a cache that grows, cache_implementation='dynamic')."
        )
    if mask.shape[1] != length:
        raise InputError(
            f"attention_mask has {mask.shape[1]} tokens, and the text has {length}; give one number per "
            "token, those in the cache first."
        )
    return mask.bool().expand(rows, length)


def _check_padding(attached: Attached, ids: Tensor | None, inputs: dict[str, Any]) -> None:
    """Without a mask, a model of the kind of RoBERTa leaves out padding, which the method would count."""
    if attached.pad is None or ids is None or inputs.get("attention_mask") is not None:
        return
    if not torch.compiler.is_compiling() and (ids == attached.pad).any():
        raise InputError(f"input_ids have padding, the id {attached.pad}, and no attention_mask; pass it.")


def _check_position_ids(position_ids: Int[Tensor, "B T"] | None, mask: Mask, first_row: int) -> None:
    """Accept the token index, as `generate` passes it, and nothing else: the method counts the tokens."""
    if position_ids is None:
        return
    new = slice(mask.shape[1] - position_ids.shape[-1], None)
    offset, hidden = position_ids - rank(mask)[:, new], ~mask[:, new]
    counted = ((offset == 0) | hidden).all() | ((offset == first_row) | hidden).all()
    if torch.compiler.is_compiling():
        torch._assert_async(counted, OTHER_POSITIONS)
    elif not counted:
        raise InputError(OTHER_POSITIONS)


def _check_settings(owner: PreTrainedModel, attached: Attached) -> None:
    """Settings that may change after `attach` and would make results wrong without an error."""
    kind = owner.config._attn_implementation
    needed = ROTARY if attached.own_attention else "sdpa"
    slot = "bias" if attached.has_bias else "rotation"
    if (attached.own_attention or attached.has_bias) and kind not in (needed, ROTARY):
        raise InputError(
            f"{kind} attention ignores the {slot} of the method; call "
            f'model.set_attn_implementation("{needed}").'
        )
    if isinstance(attached.crossing, Relative) and kind not in ("sdpa", ROTARY) and not _adds_biases(owner):
        raise InputError(
            f'{kind} attention ignores the bias of cross="relative"; call '
            'model.set_attn_implementation("sdpa").'
        )
    if attached.own_places is not None and attached.causal and "flash" in kind:
        raise InputError(
            f"{kind} takes real-valued places for those of packed texts; call "
            'model.set_attn_implementation("sdpa").'
        )
    if not attached.learns_inside or not checkpoints(owner):
        return
    functions = (getattr(part, "_gradient_checkpointing_func", None) for part in owner.modules())
    if any(getattr(function, "keywords", {}).get("use_reentrant") for function in functions):
        raise InputError(
            "reentrant gradient checkpointing loses the gradient of what is learned inside the layers; call "
            'model.gradient_checkpointing_enable({"use_reentrant": False}).'
        )


def _adds_biases(owner: PreTrainedModel) -> bool:
    """Whether its own attention adds a bias, whatever the implementation, as T5's does."""
    return any(hasattr(part, "has_relative_attention_bias") for part in owner.modules())


def checkpoints(owner: PreTrainedModel) -> bool:
    """Whether the model trains with gradient checkpointing."""
    return owner.training and any(getattr(part, "gradient_checkpointing", False) for part in owner.modules())
