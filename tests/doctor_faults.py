"""Faults of position to plant into healthy models, each after a public report where there is one."""

import functools
import inspect
import types
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import nn
from transformers import LlamaForCausalLM
from transformers.models.llama import modeling_llama

from doctor_key import model_of

FAULTS: dict[str, tuple[str, Callable[[], Any], Callable[[Any], None]]] = {}
Inputs = dict[str, Any]


def fault(rule: str, family: str, **changes: Any) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Register a function that plants a fault, with the rule that must find it and the healthy model."""

    def registered(plant: Callable[[Any], None]) -> Callable[[Any], None]:
        FAULTS[plant.__name__] = (rule, lambda: model_of(family, **changes), plant)
        return plant

    return registered


def change_inputs(part: nn.Module, change: Callable[[Inputs], Inputs | None]) -> None:
    """Let a function change what a part's forward gets."""
    own = part.forward
    signature = inspect.signature(own)

    @functools.wraps(own)
    def forward(*args: Any, **kwargs: Any) -> Any:
        inputs = dict(signature.bind_partial(*args, **kwargs).arguments)
        inputs |= inputs.pop("kwargs", {})
        return own(**(change(inputs) or inputs))

    part.forward = forward


def count(inputs: Inputs) -> int:
    return int(inputs["input_ids"].shape[1])


def seen(inputs: Inputs) -> int:
    """Tokens in the cache."""
    cache = inputs.get("past_key_values")
    return 0 if cache is None else int(cache.get_seq_length())


def places(inputs: Inputs) -> torch.Tensor:
    """0, 1, 2, ... after what the cache has."""
    return torch.arange(seen(inputs), seen(inputs) + count(inputs))[None]


def rotary_of(model: Any) -> Any:
    return model.model.rotary_emb


def replace_rotation(model: Any, forward: Callable[..., Any]) -> None:
    rotary = rotary_of(model)
    rotary.forward = types.MethodType(forward, rotary)


# Positions


@fault("POS02", "bert")
def positions_start_at_one(model):
    model.bert.embeddings.position_ids += 1


@fault("POS02", "bert")
def a_buffer_of_positions_ends_early(model):
    model.bert.embeddings.position_ids.clamp_(max=20)


@fault("POS04", "bert")
def places_past_the_fifteenth_are_the_same(model):
    def change(inputs):
        given = inputs.get("position_ids")
        inputs["position_ids"] = (places(inputs) if given is None else given).clamp(max=15)

    change_inputs(model.bert, change)


@fault("POS04", "llama")
def a_rotation_joins_neighbours(model):
    change_inputs(rotary_of(model), lambda inputs: {**inputs, "position_ids": inputs["position_ids"] // 2})


@fault("LEN03", "bert")
def the_last_row_is_out_of_reach(model):
    model.bert.embeddings.position_ids += 1


@fault("POS01", "gpt2")
def position_ids_are_not_passed_on(model):
    """lucidrains/x-transformers #346: the wrapper drops them."""
    change_inputs(model.transformer, lambda inputs: {**inputs, "position_ids": places(inputs)})


@fault("PAD02", "gpt2")
def positions_of_the_caller_are_dropped_beside_padding(model):
    """hiyouga/LlamaFactory #10783: positions that do not fit a padded batch."""

    def change(inputs):
        mask = inputs.get("attention_mask")
        if mask is not None and not mask.all():
            inputs["position_ids"] = places(inputs)

    change_inputs(model.transformer, change)


@fault("POS02", "gpt2")
def positions_count_a_mask_without_its_first_column(model):
    """A cumulative sum of the wrong mask: thu-nics/C2C #19 cuts it."""

    def change(inputs):
        mask = inputs.get("attention_mask")
        if mask is not None and inputs.get("position_ids") is None and not seen(inputs):
            inputs["position_ids"] = (mask.cumsum(-1) - 2).clamp(min=0)

    change_inputs(model.transformer, change)


@fault("PAD06", "gpt2", pad_token_id=2)
def the_padding_id_is_not_counted(model):
    """The padding id is the end of a text, and positions skip it: as RoBERTa's do, in a GPT-2."""

    def change(inputs):
        if inputs.get("position_ids") is None and not seen(inputs):
            inputs["position_ids"] = ((inputs["input_ids"] != 2).cumsum(-1) - 1).clamp(min=0)

    change_inputs(model.transformer, change)


@fault("PAD04", "gpt2")
def positions_depend_on_the_row_of_the_batch(model):
    def change(inputs):
        if inputs.get("position_ids") is None:
            inputs["position_ids"] = places(inputs) + torch.arange(len(inputs["input_ids"]))[:, None]

    change_inputs(model.transformer, change)


@fault("POS03", "gpt2")
def positions_of_the_first_call_are_kept(model):
    """jjang-ai/vmlx #113, mlx-embeddings #79: `_position_ids` of one request are used in the next."""
    kept = []

    def change(inputs):
        mask = inputs.get("attention_mask")
        if mask is not None and not mask.all():
            kept.append((mask.cumsum(-1) - 1).clamp(min=0))
        if kept and kept[-1].shape == inputs["input_ids"].shape and not seen(inputs):
            inputs["position_ids"] = kept[-1]

    change_inputs(model.transformer, change)


# Padding


@fault("PAD03", "bert")
def the_mask_is_not_followed(model):
    change_inputs(model.bert, lambda inputs: {**inputs, "attention_mask": None})


@fault("PAD05", "bert")
def masked_places_are_read(model):
    change_inputs(model.bert, lambda inputs: {**inputs, "attention_mask": None})


@fault("PAD03", "bert", head="AutoModelForSequenceClassification")
def a_mean_counts_padding(model):
    """The vector of a text is the mean of all places, padded ones too."""
    model.bert.pooler.forward = lambda states: states.mean(1)


@fault("PAD01", "llama")
def distances_count_padding_twice(model):
    """A rotation whose positions grow at masked places: unlike the healthy one, it sees padding."""

    def change(inputs):
        mask = inputs.get("attention_mask")
        if mask is not None and mask.ndim == 2 and inputs.get("position_ids") is None and not seen(inputs):
            inputs["position_ids"] = (mask * (1 - mask).sum(-1, keepdim=True) + 1).cumsum(-1) - 1

    change_inputs(model.model, change)


# Packing


@fault("PACK02", "llama")
def a_mask_of_ones_is_always_made(model):
    """huggingface/transformers #46634: a mask of ones turns the detection of packed texts off."""

    def change(inputs):
        if inputs.get("attention_mask") is None and not seen(inputs):
            inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])

    change_inputs(model.model, change)


@fault("PACK04", "llama")
def a_mask_of_blocks_is_not_followed(model):
    """hiyouga/LlamaFactory #4224: the mask is prepared by a function that is never called."""

    def change(inputs):
        mask = inputs.get("attention_mask")
        if mask is not None and mask.ndim == 4:
            inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])

    change_inputs(model.model, change)


# Cache


@fault("CACHE01", "gpt2")
def positions_start_anew_in_every_step(model):
    def change(inputs):
        if inputs.get("position_ids") is None:
            inputs["position_ids"] = torch.arange(count(inputs))[None]

    change_inputs(model.transformer, change)


@fault("CACHE01", "llama")
def single_tokens_are_rotated_by_nothing(model):
    """oxiglade/mlx-rs #359: steps of one token with an offset lose it."""

    def change(inputs):
        if count(inputs) == 1 and seen(inputs):
            inputs["position_ids"] = torch.zeros(len(inputs["input_ids"]), 1, dtype=torch.long)

    change_inputs(model.model, change)


@fault("CACHE01", "llama")
def a_full_cache_is_off_by_one(model):
    def change(inputs):
        if seen(inputs) >= 12 and inputs.get("position_ids") is None:
            inputs["position_ids"] = places(inputs) + 1

    change_inputs(model.model, change)


@fault("CACHE01", "t5")
def the_bias_of_a_decoder_starts_anew(model):
    attention = model.decoder.block[0].layer[0].SelfAttention
    own = attention.compute_bias
    attention.compute_bias = lambda *args, past_seen_tokens=0, **kwargs: own(*args, **kwargs)


@fault("CACHE02", "gpt2")
def the_mask_is_cut_to_one_column_in_a_step(model):
    """thu-nics/C2C #19: `[:, :end]` counts the tokens of this call only."""

    def change(inputs):
        if seen(inputs) and inputs.get("attention_mask") is not None:
            inputs["attention_mask"] = torch.ones_like(inputs["attention_mask"])

    change_inputs(model.transformer, change)


@fault("CACHE02", "gpt2")
def positions_of_the_caller_are_dropped_after_the_first_step(model):
    """thu-nics/C2C #19: decoding passes position_ids=None."""

    def change(inputs):
        if seen(inputs):
            inputs["position_ids"] = None

    change_inputs(model.transformer, change)


@fault("CACHE03", "gpt2")
def generate_shares_the_positions_of_the_longest_text(model):
    """unslothai/unsloth #3699: position_ids are one row of the cache, for a batch with padding."""
    own = model.prepare_inputs_for_generation

    def prepare(*args, **kwargs):
        inputs = own(*args, **kwargs)
        return {**inputs, "position_ids": places(inputs)}

    model.prepare_inputs_for_generation = prepare


# Rotations


@fault("HALF03", "llama")
def angles_are_computed_in_bfloat16(model):
    """huggingface/candle #3520: positions and frequencies in the precision of the model."""

    def forward(self, x, position_ids):
        angles = position_ids[..., None].to(x.dtype) * self.inv_freq.to(x.dtype)
        angles = torch.cat((angles, angles), -1)
        return angles.cos(), angles.sin()

    replace_rotation(model, forward)


@fault("HALF02", "llama")
def autocast_reaches_the_angles(model):
    """huggingface/transformers #29285: the product of positions and frequencies is autocast."""

    def forward(self, x, position_ids):
        angles = (self.inv_freq[None, :, None].float() @ position_ids[:, None, :].float()).transpose(1, 2)
        angles = torch.cat((angles, angles), -1).float()
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)

    replace_rotation(model, forward)


@fault("ROPE02", "llama")
def frequencies_are_rounded(model):
    """sgl-project/sglang-jax #1472: frequencies pass through the precision of the model."""
    rotary_of(model).inv_freq = rotary_of(model).inv_freq.bfloat16().float()


@fault("ROPE02", "llama")
def buffers_are_blank_after_loading(model):
    """macwiatrak/Bacformer #33: a buffer that is not in the file is left as memory was."""
    rotary_of(model).inv_freq.copy_(torch.linspace(0, 3, len(rotary_of(model).inv_freq)))


@fault("ROPE02", "llama")
def a_rotation_scales(model):
    rotary_of(model).attention_scaling = 3.0


@fault(
    "ROPE02",
    "llama",
    rope_parameters={
        "rope_type": "yarn",
        "factor": 4.0,
        "rope_theta": 1e4,
        "original_max_position_embeddings": 16,
    },
)
def scaling_is_dropped(model):
    """sgl-project/sglang #26187: the scaling of the configuration does not reach the rotation."""
    plain = deepcopy(model.config)
    plain.rope_parameters = {"rope_type": "default", "rope_theta": 1e4}
    rotary_of(model).inv_freq = LlamaForCausalLM(plain).model.rotary_emb.inv_freq


def rotate_in_layer(model: Any, change: Callable[..., Any]) -> None:
    """Let a function change the cosines and sines that the last layer gets."""
    attention = model.model.layers[-1].self_attn
    name = "position_embeddings"
    change_inputs(attention, lambda inputs: {**inputs, name: change(*inputs[name])})


@fault("ROPE03", "llama")
def a_layer_does_not_rotate(model):
    rotate_in_layer(model, lambda cos, sin: (torch.ones_like(cos), torch.zeros_like(sin)))


@fault("ROPE03", "llama")
def a_layer_rotates_twice(model):
    rotate_in_layer(model, lambda cos, sin: (cos**2 - sin**2, 2 * cos * sin))


@fault("ROPE03", "llama")
def a_layer_stops_at_its_third_place(model):
    def clamped(turn):
        return turn[:, torch.arange(turn.shape[1]).clamp(max=2)]

    rotate_in_layer(model, lambda cos, sin: (clamped(cos), clamped(sin)))


@fault("ROPE03", "llama")
def keys_are_not_rotated(model):
    own = modeling_llama.apply_rotary_pos_emb
    rotated = lambda query, key, *turns: (own(query, key, *turns)[0], key)  # noqa: E731
    for layer in model.model.layers:
        forward = layer.self_attn.forward.__func__
        layer.self_attn.forward = types.MethodType(
            types.FunctionType(forward.__code__, {**forward.__globals__, "apply_rotary_pos_emb": rotated}),
            layer.self_attn,
        )


@fault("ROPE02", "llama")
def a_rotation_has_a_configuration_of_its_own(model):
    other = deepcopy(model.config)
    other.rope_parameters = {"rope_type": "default", "rope_theta": 5e5}
    model.model.rotary_emb = type(rotary_of(model))(other)


@fault("ROPE03", "llama")
def cosines_and_sines_change_places(model):
    name = "position_embeddings"
    for layer in model.model.layers:
        change_inputs(layer.self_attn, lambda inputs: {**inputs, name: inputs[name][::-1]})


@fault("ROPE04", "llama")
def a_patch_that_takes_anything_doubles(model):
    own = rotary_of(model).forward
    rotary_of(model).forward = lambda *args, **kwargs: tuple(2 * part for part in own(*args, **kwargs))


@fault("BIAS01", "t5")
def buckets_end_early(model):
    for part in model.modules():
        if hasattr(part, "relative_attention_max_distance"):
            part.relative_attention_max_distance = 20


# Sources


@fault("SRC02", "bert")
def a_table_is_silenced(model):
    model.bert.embeddings.position_embeddings.register_forward_hook(lambda part, given, found: found * 0)


@fault("SRC01", "bert")
def no_position_is_added(model):
    model.bert.embeddings.position_embeddings.weight.data.zero_()


@fault("SRC04", "bert")
def half_of_the_table_repeats_the_other(model):
    rows = model.bert.embeddings.position_embeddings.weight.data
    rows[len(rows) // 2 :] = rows[: len(rows) // 2]


@fault("SRC04", "bert")
def a_row_far_away_is_not_a_number(model):
    model.bert.embeddings.position_embeddings.weight.data[-3] = float("nan")


def angles_of(rows: int, count: int, last: int, base: float = 1e4) -> torch.Tensor:
    return torch.arange(rows)[:, None] * base ** (-torch.arange(count) / last)


@fault("SRC05", "roformer")
def the_angles_of_a_rotation_have_another_base(model):
    rows = model.base_model.encoder.embed_positions.weight
    half = rows.shape[1] // 2
    angles = angles_of(len(rows), half, half, base=2e4)
    rows.copy_(torch.cat((angles.sin(), angles.cos()), 1))


@fault("SRC05", "m2m_100")
def sines_of_fairseq_have_the_frequencies_of_others(model):
    rows = model.model.decoder.embed_positions.weights
    half = rows.shape[1] // 2
    angles = angles_of(len(rows), half, half)
    rows[2:] = torch.cat((angles.sin(), angles.cos()), 1)[2:]


@fault("SRC05", "xglm")
def places_far_away_are_one_too_low(model):
    rows = model.model.embed_positions.weights
    rows[41:] = rows[40:-1].clone()


@fault("SRC05", "ctrl")
def sines_and_cosines_are_exchanged(model):
    model.transformer.pos_encoding = model.transformer.pos_encoding.roll(model.config.n_embd // 2, 1)


@fault("SRC01", "bloom")
def alibi_is_zero(model):
    own = model.transformer.build_alibi_tensor
    model.transformer.build_alibi_tensor = lambda *args, **kwargs: own(*args, **kwargs) * 0


@fault("SRC03", "llama")
def a_table_beside_a_rotation(model):
    owner = model.model
    owner.position_embeddings = nn.Embedding(64, model.config.hidden_size)
    owner.embed_tokens.register_forward_hook(
        lambda part, given, found: found + owner.position_embeddings(torch.arange(found.shape[1]))
    )


@fault("SRC03", "llama")
def sinusoids_beside_a_rotation(model):
    def added(part, given, found):
        return found + torch.arange(found.shape[1])[:, None].mul(0.7).sin()

    model.model.embed_tokens.register_forward_hook(added)
