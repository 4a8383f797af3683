"""The class of a model with an attached method: its `forward` gives the model vectors with position in place
of ids or pixels, and its `save_pretrained` writes the method, too.
"""

import functools
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel
from transformers.cache_utils import Cache

from vnait.positions.cache import Mask, Vectors, begun, words_of
from vnait.positions.coordinates.shared import rank
from vnait.pretrained.attach import files
from vnait.pretrained.attach.attached import Attached, AttachedOutput, attached_owners, settings_of
from vnait.pretrained.attach.cross_attention import RelativePositions, SourcePositions, TargetPositions
from vnait.pretrained.changing import Changed, checkpoints, class_changed, marked, refuse_push, write_type
from vnait.pretrained.images import Patches, check_images
from vnait.pretrained.layers import ATTENTION_INPUTS, ROTARY, AlibiAtPlaces, AttentionInputs, reading
from vnait.shared.errors import InputError

OTHER_POSITIONS = (
    "position_ids differ from the index of the tokens; the attached method counts the tokens of "
    "attention_mask itself, so leave position_ids out, give packed texts one by one, and no images to a "
    "model that gives them places in a grid."
)


class _WithMethod(Changed):
    """Of a model with a method in it."""

    def save_pretrained(
        self: Any,
        save_directory: str | Path,
        is_main_process: bool = True,
        state_dict: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if getattr(self, "_hf_peft_config_loaded", False):
            raise InputError(
                "transformers saves only the adapters of model.add_adapter, and the attached method would be "
                'lost; train with peft.get_peft_model and modules_to_save=["vnait"] instead.'
            )
        settings = _settings(self) if marked(self.config) else None  # unmarked: `save_base` leaves it out
        # A copy, since transformers empties the one that it gets.
        weights = self.state_dict() if state_dict is None else dict(state_dict)
        refuse_push(options)
        self.plain.save_pretrained(self, save_directory, is_main_process, state_dict, **options)
        if settings is not None and is_main_process:
            files.write(Path(save_directory), {**settings, "base": None}, weights)
            write_type(save_directory)

    def resize_position_embeddings(self, *args: Any, **options: Any) -> None:
        raise InputError(
            "a method is attached, and reads texts longer than the table as it is; detach it before resizing."
        )


def _settings(model: PreTrainedModel) -> dict[str, Any]:
    """What the Auto classes need to attach the method again; `InputError` if it has no name."""
    settings = settings_of(attached_owners(model))
    names = (settings["method"], settings["decoder"])[: len(settings["described"])]
    for name, words in zip(names, settings["described"], strict=True):
        if name is None:
            raise InputError(
                f"a Method of your own ({words}) is in {type(model).__name__}, and from_pretrained can't "
                "build it; save with vnait.pretrained.save_adapter and save_base, and load with load_adapter."
            )
    return settings


@functools.cache
def class_with_method(plain: Any, reads: bool) -> Any:
    """`reads`: of an owner, which reads ids or vectors; its forward is the plain one with positions."""
    made = (class_with_method, reads)
    if not reads:
        return class_changed((_WithMethod,), plain, made)
    alibi = (AlibiAtPlaces,) if hasattr(plain, "build_alibi_tensor") else ()

    @functools.wraps(plain.forward)  # clients read its signature
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        inputs = with_positions(self, args, kwargs) if hasattr(self, "vnait") else None
        if inputs is None:
            return plain.forward(self, *args, **kwargs)
        with reading():
            return plain.forward(self, **inputs)

    return class_changed((_WithMethod, *alibi), plain, made, forward=forward)


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
    if (inputs.get("input_ids") is None) == (inputs.get("inputs_embeds") is None):
        return None
    text = _text(owner, attached, inputs)
    # With a cache, the first tokens of a call may be padding alone, and a method needs a token in each text.
    output = attached(text.vectors, begun(text.mask) if text.cached else text.mask, text.past)
    new = output.x[:, text.past :]
    inputs |= {"input_ids": None, "inputs_embeds": new}
    if attached.has_token_types and inputs.get("token_type_ids") is None:
        # The model's own are a buffer as long as its table, which the text may exceed.
        inputs["token_type_ids"] = torch.zeros(new.shape[:2], dtype=torch.long, device=new.device)
    inputs |= _own_positions(attached, text, output, inputs.get("attention_mask"))
    return inputs | _attention_inputs(attached, text, output, inputs)


class _Text(NamedTuple):
    """Tokens of a cache, and then those of this call.

    vectors   (B, T, D), semantic vectors
    mask      (B, T), True at real tokens
    past      how many tokens are in the cache
    cached    whether there is a cache, be it empty
    """

    vectors: Vectors
    mask: Mask
    past: int
    cached: bool


def _text(owner: PreTrainedModel, attached: Attached, inputs: dict[str, Any]) -> _Text:
    """The whole text, past and new, and checks of all that would give wrong results without an error.

    It puts a mask or a cache into `inputs` where the model would make one of its own.
    """
    ids, vectors = inputs.get("input_ids"), inputs.get("inputs_embeds")
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
    rows, length = vectors.shape[0], past + vectors.shape[1]
    mask = _full_mask(inputs.get("attention_mask"), rows, length, vectors.device)
    _check_position_ids(inputs.get("position_ids"), mask, attached.first_row)
    if cache is not None:  # a method reads the whole text, of which this call has the last tokens
        vectors = words_of(cache).extend(vectors, mask[:, past:])[0]
    return _Text(vectors, mask, past, cache is not None)


def _own_positions(
    attached: Attached, text: _Text, output: AttachedOutput, attention_mask: Any
) -> dict[str, Tensor]:
    """Where the model's own rotation or bias is read: as position_ids, or in the mask."""
    inputs = {}
    if "position_ids" in attached.argument_names:
        # A silenced table adds nothing at any index; this one is what the model would count by itself.
        rows, length = text.mask.shape
        index = torch.arange(text.past, length, device=text.vectors.device).expand(rows, -1)
        inputs["position_ids"] = index if attached.own_places is None else output.places[:, text.past :]
    if attached.alibi:
        inputs["attention_mask"] = (output.places + 1) * text.mask  # as `AlibiAtPlaces` reads it
    elif attached.own_places is not None and attention_mask is None:
        # Without a mask, transformers takes position_ids other than 0, 1, 2 ... for packed texts.
        inputs["attention_mask"] = text.mask.long()
    return inputs


def _attention_inputs(
    attached: Attached, text: _Text, output: AttachedOutput, inputs: dict[str, Any]
) -> dict[str, Any]:
    """What the layers get: the method's bias and angles, and position in cross-attention."""
    bias = None if output.bias is None else output.bias.to(text.vectors.dtype)
    slots: dict[str, Any] = {} if output.rotary is None else {ROTARY: output.rotary}
    if attached.hooks_attention:
        slots |= _with_cross_attention(attached, inputs, AttentionInputs(output.places, bias), text)
    elif bias is not None:
        slots["position_bias"] = bias
    return slots


def _with_cross_attention(
    attached: Attached, inputs: dict[str, Any], shared: AttentionInputs, text: _Text
) -> dict[str, Any]:
    """The inputs of hooked attention modules with the position of cross-attention; a source's goes into the
    encoder's states.
    """
    part, states = attached.crossing, inputs.get("encoder_hidden_states")
    if part is None or states is None or attached.disabled:
        return {ATTENTION_INPUTS: shared}
    source = inputs.get("encoder_attention_mask")
    source = torch.ones(states.shape[:2], device=states.device) if source is None else source
    if isinstance(part, SourcePositions):
        return {ATTENTION_INPUTS: shared, "encoder_hidden_states": part(states, source.bool())}
    if isinstance(part, TargetPositions):
        mask = begun(text.mask) if text.cached else text.mask
        queries = part(text.vectors / attached.scale, mask)[:, text.past :]
        return {ATTENTION_INPUTS: shared._replace(queries=queries)}
    bias = part(text.mask, source.bool())[:, :, text.past :].to(text.vectors.dtype)
    return {ATTENTION_INPUTS: shared._replace(cross_bias=bias)}


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
    return {
        **inputs,
        "pixel_values": x,
        **{name: slot for name, slot in slots.items() if slot is not None},
    }


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
    """Without a mask, a model of the kind of RoBERTa leaves out padding, which the method would count. At the
    end of a causal model's text, as where labels are shifted to a decoder's ids, it reaches no other token.
    """
    if attached.pad is None or ids is None or inputs.get("attention_mask") is not None:
        return
    if torch.compiler.is_compiling():
        return
    padding = ids == attached.pad
    at_the_end = not (padding[:, :-1] & ~padding[:, 1:]).any()
    if padding.any() and not (attached.causal and at_the_end):
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
    relative = isinstance(attached.crossing, RelativePositions)
    if relative and kind not in ("sdpa", ROTARY) and not _adds_biases(owner):
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
