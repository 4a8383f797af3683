"""Faults that were planted without having read the doctor's rules, and the rule that finds each.

Most replace a function of transformers while the model reads, as a wrong patch or port would.
"""

import copy
import functools
import types
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from torch import nn
from transformers import masking_utils
from transformers.models.bart import modeling_bart
from transformers.models.bloom import modeling_bloom
from transformers.models.cohere2 import modeling_cohere2
from transformers.models.deberta_v2 import modeling_deberta_v2
from transformers.models.gemma2 import modeling_gemma2
from transformers.models.gemma3 import modeling_gemma3
from transformers.models.gpt_oss import modeling_gpt_oss
from transformers.models.gptj import modeling_gptj
from transformers.models.llama import modeling_llama
from transformers.models.llama4 import modeling_llama4
from transformers.models.mistral import modeling_mistral
from transformers.models.modernbert import modeling_modernbert
from transformers.models.mpt import modeling_mpt
from transformers.models.smollm3 import modeling_smollm3

from doctor_faults import change_inputs, places, rotary_of, seen
from doctor_key import model_of

BLIND: dict[str, tuple[str, Callable[[], Any], Callable[[Any], None]]] = {}

YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4, "original_max_position_embeddings": 16}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "rope_theta": 1e4, "original_max_position_embeddings": 16}
LLAMA3 |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
LINEAR = {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}


def blind(rule: str, family: str, **changes: Any) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Register a function that plants a fault in a healthy model, and the rule that finds it."""

    def registered(plant: Callable[[Any], None]) -> Callable[[Any], None]:
        BLIND[plant.__name__] = (rule, lambda: model_of(family, **changes), plant)
        return plant

    return registered


def while_it_runs(part: Any, module: Any, name: str = "forward", **replaced: Any) -> None:
    """Replace names of a module while a method of a part runs."""
    own = getattr(part, name)

    @functools.wraps(own)
    def method(*args: Any, **kwargs: Any) -> Any:
        with mock.patch.multiple(module, **replaced):
            return own(*args, **kwargs)

    setattr(part, name, method)


def turn(model: Any, angles: Callable[..., torch.Tensor], scale: Callable[[float], float] = float) -> None:
    """Replace the forward of a rotation: angles of places and frequencies, and its scale."""

    def forward(self: Any, x: torch.Tensor, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        half = angles(position_ids[..., None].float(), self.inv_freq)
        whole, factor = torch.cat((half, half), -1), scale(self.attention_scaling)
        return (whole.cos() * factor).to(x.dtype), (whole.sin() * factor).to(x.dtype)

    rotary_of(model).forward = types.MethodType(forward, rotary_of(model))


# Rotations


@blind("ROPE04", "llama", rope_parameters=YARN)
def yarn_scales_twice(model):
    turn(model, lambda place, rate: place * rate, lambda scale: scale**2)


@blind("ROPE04", "llama", rope_parameters=YARN)
def yarn_does_not_scale(model):
    turn(model, lambda place, rate: place * rate, lambda scale: 1.0)


@blind("ROPE04", "qwen3")
def a_rotation_has_another_base(model):
    turn(model, lambda place, rate: place * rate**1.25)


@blind("ROPE04", "llama", rope_parameters=LINEAR)
def linear_scaling_is_applied_twice(model):
    turn(model, lambda place, rate: place / 4 * rate)


@blind("ROPE04", "llama", rope_parameters=LLAMA3)
def llama3_scaling_is_forgotten_in_forward(model):
    rate = 1e4 ** -(torch.arange(0, 16, 2) / 16)
    turn(model, lambda place, scaled: place * rate)


@blind("ROPE04", "mistral", max_position_embeddings=1024)
def places_past_511_turn_as_if_they_began_anew(model):
    turn(model, lambda place, rate: place % 512 * rate)


@blind("ROPE04", "llama", max_position_embeddings=2048)
def places_are_rounded_to_bfloat16(model):
    turn(model, lambda place, rate: place.bfloat16().float() * rate)


@blind("ROPE04", "qwen2")
def a_rotation_turns_the_other_way(model):
    turn(model, lambda place, rate: -place * rate)


@blind("ROPE04", "llama", max_position_embeddings=2048)
def the_last_frequency_stands_still(model):
    turn(model, lambda place, rate: place * torch.where(rate == rate.min(), 0, rate))


@blind("ROPE04", "gemma3_text")
def global_layers_get_the_local_rotation(model):
    rotary = model.model.rotary_emb
    own = rotary.forward
    rotary.forward = lambda x, position_ids, layer_type=None: own(x, position_ids, "sliding_attention")


@blind("ROPE03", "smollm3")
def layers_without_a_rotation_rotate(model):
    for layer in model.model.layers:
        layer.self_attn.use_rope = 1


@blind("ROPE03", "cohere2")
def global_layers_rotate(model):
    for layer in model.model.layers:
        own = layer.self_attn.forward

        def forward(*args: Any, own: Any = own, part: Any = layer.self_attn, **kwargs: Any) -> Any:
            with mock.patch.object(part, "sliding_window", part.sliding_window or 64):
                return own(*args, **kwargs)

        layer.self_attn.forward = forward


@blind("ROPE02", "glm")
def the_whole_head_rotates(model):
    width = model.config.head_dim
    model.model.rotary_emb.inv_freq = 1e4 ** -(torch.arange(0, width, 2) / width)


@blind("ROPE04", "gptj")
def a_table_of_angles_has_another_base(model):
    for layer in model.transformer.h:
        attention = layer.attn
        half = attention.embed_positions.shape[1] // 2
        angles = torch.arange(64)[:, None] * 500.0 ** -(torch.arange(half) / half)
        attention.embed_positions = torch.cat((angles.sin(), angles.cos()), 1)


@blind("ROPE03", "llama")
def pairs_are_neighbours_in_one_layer(model):
    """A layer rotates neighbouring components, where the checkpoint pairs the halves of a head."""

    def rotated(x: torch.Tensor) -> torch.Tensor:
        return torch.stack((-x[..., 1::2], x[..., 0::2]), -1).flatten(-2)

    while_it_runs(model.model.layers[0].self_attn, modeling_llama, rotate_half=rotated)


# Windows


def in_windows(window: int | None, module: Any, model: Any, plain: Any) -> None:
    """Make masks of another window in the model's part that makes them."""
    name = next(name for name in vars(module) if name.startswith("create_") and "sliding" in name)
    own = getattr(module, name)

    def created(config: Any, **kwargs: Any) -> Any:
        if window is None:
            return plain(config=config, **{k: v for k, v in kwargs.items() if k != "layer_idx"})
        config = copy.copy(config)
        config.sliding_window += window
        return own(config=config, **kwargs)

    while_it_runs(model, module, **{name: created})


@blind("WIN01", "mistral", sliding_window=20)
def a_window_is_not_masked(model):
    in_windows(None, modeling_mistral, model.model, masking_utils.create_causal_mask)


@blind("WIN01", "mistral", sliding_window=20)
def a_window_is_too_wide_by_one(model):
    in_windows(1, modeling_mistral, model.model, None)


@blind("WIN01", "mistral", sliding_window=7)
def a_window_is_too_narrow_by_one(model):
    in_windows(-1, modeling_mistral, model.model, None)


@blind("WIN01", "gemma2", sliding_window=9)
def windows_of_layers_are_exchanged(model):
    layers = model.model.config.layer_types
    model.model.config.layer_types = layers[1:] + layers[:1]


@blind("WIN01", "llama4_text", attention_chunk_size=8, layer_types=["chunked_attention", "full_attention"])
def a_chunk_is_too_long_by_one(model):
    own = modeling_llama4.create_chunked_causal_mask

    def longer(config: Any, **how: Any) -> Any:
        config = copy.copy(config)
        config.attention_chunk_size += 1
        return own(config=config, **how)

    while_it_runs(model.model, modeling_llama4, create_chunked_causal_mask=longer)


@blind("WIN01", "gemma2", sliding_window=9)
def a_global_layer_has_a_window(model):
    while_it_runs(
        model.model, modeling_gemma2, create_causal_mask=modeling_gemma2.create_sliding_window_causal_mask
    )


@blind("WIN01", "modernbert", local_attention=12)
def an_encoder_has_no_window(model):
    in_windows(None, modeling_modernbert, model.model, masking_utils.create_bidirectional_mask)


@blind("WIN01", "modernbert", local_attention=12)
def the_window_of_an_encoder_is_too_wide(model):
    in_windows(2, modeling_modernbert, model.model, None)


@blind("WIN01", "gpt_neo", window_size=6)
def local_attention_is_global(model):
    for layer in model.transformer.h:
        attention = layer.attn.attention
        size = attention.bias.shape[-1]
        attention.bias = torch.ones(size, size, dtype=torch.bool).tril()[None, None]


@blind("WIN01", "cohere2", sliding_window=300, max_position_embeddings=1024)
def a_wide_window_is_not_masked(model):
    in_windows(None, modeling_cohere2, model.model, masking_utils.create_causal_mask)


# Biases


@blind("BIAS01", "bloom", n_head=6, hidden_size=48)
def slopes_of_six_heads_are_one_series(model):
    slopes = lambda heads, device: 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)  # noqa: E731
    slopes_of(model, slopes)


def slopes_of(model: Any, slopes: Any) -> None:
    for name in ("forward", "build_alibi_tensor"):
        while_it_runs(model.transformer, modeling_bloom, name, _get_alibi_slopes=slopes)


@blind("BIAS01", "bloom")
def slopes_are_half(model):
    own = modeling_bloom._get_alibi_slopes
    slopes_of(model, lambda heads, device: own(heads, device) / 2)


@blind("BIAS01", "bloom")
def slopes_are_in_the_wrong_order(model):
    own = modeling_bloom._get_alibi_slopes
    slopes_of(model, lambda heads, device: own(heads, device).flip(0))


@blind("BIAS01", "mpt")
def alibi_of_mpt_has_another_maximum(model):
    own = modeling_mpt.build_mpt_alibi_tensor
    while_it_runs(
        model.transformer,
        modeling_mpt,
        build_mpt_alibi_tensor=lambda heads, length, alibi_bias_max=8, device=None: own(
            heads, length, 2 * alibi_bias_max, device
        ),
    )


def bucketed(attention: nn.Module, change: Callable[..., torch.Tensor]) -> None:
    own = attention._relative_position_bucket
    attention._relative_position_bucket = functools.partial(change, own)


@blind("BIAS01", "t5")
def before_and_behind_are_exchanged(model):
    attention = model.encoder.block[0].layer[0].SelfAttention
    bucketed(attention, lambda own, distance, **how: own(-distance, **how))


@blind("BIAS01", "t5")
def buckets_of_a_decoder_have_two_sides(model):
    attention = model.decoder.block[0].layer[0].SelfAttention
    bucketed(attention, lambda own, distance, bidirectional, **how: own(distance, bidirectional=True, **how))


@blind("BIAS01", "mt5")
def far_words_share_a_bucket_too_early(model):
    attention = model.encoder.block[0].layer[0].SelfAttention
    bucketed(
        attention, lambda own, distance, **how: own(distance, **{**how, "max_distance": how["num_buckets"]})
    )


@blind("BIAS01", "t5")
def a_layer_gets_no_bias(model):
    attention = model.encoder.block[1].layer[0].SelfAttention

    def change(inputs):
        bias = inputs.get("position_bias")
        return {**inputs, "position_bias": None if bias is None else bias * 0}

    change_inputs(attention, change)


@blind("BIAS01", "mpnet")
def distances_of_mpnet_are_turned_around(model):
    encoder = model.mpnet.encoder
    own = encoder.relative_position_bucket
    encoder.relative_position_bucket = lambda distance, **how: own(-distance, **how)


@blind("BIAS01", "deberta-v2")
def distances_of_deberta_are_turned_around(model):
    own = modeling_deberta_v2.build_relative_position
    while_it_runs(
        model.deberta.encoder,
        modeling_deberta_v2,
        "get_rel_pos",
        build_relative_position=lambda *args, **how: -own(*args, **how),
    )


@blind("BIAS01", "deberta-v2", position_buckets=16, share_att_key=True)
def a_key_reads_the_row_of_the_opposite_distance(model):
    own = modeling_deberta_v2.build_rpos
    for layer in model.deberta.encoder.layer:
        while_it_runs(
            layer.attention.self,
            modeling_deberta_v2,
            "disentangled_attention_bias",
            build_rpos=lambda *args: -own(*args),
        )


# Directions


@blind("DIR01", "gemma3_text", use_bidirectional_attention=True)
def an_embedder_reads_one_way(model):
    own = modeling_gemma3.create_causal_mask

    def causal(config: Any, **kwargs: Any) -> Any:
        kwargs.pop("or_mask_function", None)
        with mock.patch.object(config, "is_causal", True, create=True):
            return own(config=config, **kwargs)

    while_it_runs(
        model.model, modeling_gemma3, create_causal_mask=causal, create_sliding_window_causal_mask=causal
    )
    model.set_attn_implementation("eager")


@blind("DIR01", "llama")
def a_decoder_reads_both_ways(model):
    while_it_runs(
        model.model,
        modeling_llama,
        create_causal_mask=lambda **how: torch.zeros(1, 1, 1, 1, dtype=torch.float),
    )


@blind("DIR01", "bart")
def an_encoder_reads_one_way(model):
    own = masking_utils.create_causal_mask

    def causal(config: Any, inputs_embeds: Any, attention_mask: Any, **how: Any) -> Any:
        return own(
            config=config, inputs_embeds=inputs_embeds, attention_mask=attention_mask, past_key_values=None
        )

    while_it_runs(model.model.encoder, modeling_bart, create_bidirectional_mask=causal)
    model.set_attn_implementation("eager")


# Batches and steps


@blind("PAD03", "qwen2")
def a_batch_has_the_places_of_its_first_text(model):
    def change(inputs):
        mask = inputs.get("attention_mask")
        if mask is not None and mask.ndim == 2 and not seen(inputs) and inputs.get("position_ids") is None:
            inputs["position_ids"] = (mask[:1].cumsum(-1) - 1).clamp(min=0).expand(len(mask), -1) * mask[:1]

    change_inputs(model.model, change)


@blind("PAD02", "gpt2")
def a_batch_has_the_mask_of_its_last_text(model):
    def change(inputs):
        mask = inputs.get("attention_mask")
        if mask is not None and len(mask) > 1:
            inputs["attention_mask"] = mask[-1:].expand_as(mask)

    change_inputs(model.transformer, change)


@blind("CACHE03", "gpt_neox")
def steps_of_a_batch_follow_its_longest_text(model):
    def change(inputs):
        if seen(inputs):
            inputs["position_ids"] = places(inputs)

    change_inputs(model.gpt_neox, change)


@blind("POS03", "llama")
def frequencies_follow_the_longest_text_so_far(model):
    """A dynamic scaling that is never reset."""
    rotary = rotary_of(model)
    own, longest = rotary.inv_freq.clone(), [64]

    def change(inputs):
        longest[0] = max(longest[0], int(inputs["position_ids"].max()) + 1)
        rotary.inv_freq = own * 64 / longest[0]

    change_inputs(rotary, change)


@blind("PAD09", "bart")
def the_mask_of_a_decoder_is_dropped(model):
    change_inputs(model.model.decoder, lambda inputs: {**inputs, "attention_mask": None})


@blind("PAD03", "t5")
def the_mask_of_a_source_is_not_passed_to_the_decoder(model):
    change_inputs(model.decoder, lambda inputs: {**inputs, "encoder_attention_mask": None})


# Vectors in place of ids


@blind("POS05", "gpt2")
def vectors_get_no_position(model):
    def change(inputs):
        if inputs.get("inputs_embeds") is not None:
            inputs["position_ids"] = torch.zeros(inputs["inputs_embeds"].shape[:2], dtype=torch.long)

    change_inputs(model.transformer, change)


@blind("POS05", "roberta")
def vectors_count_from_the_start_of_the_table(model):
    embeddings = model.roberta.embeddings
    embeddings.create_position_ids_from_inputs_embeds = lambda vectors, *args: torch.arange(vectors.shape[1])[
        None
    ].expand(vectors.shape[:2])


# Places far away


@blind("POS04", "gpt2", n_positions=1024)
def places_past_300_are_the_same(model):
    table = model.transformer.wpe
    change_inputs(table, lambda inputs: {**inputs, "input": inputs["input"].clamp(max=300)})


@blind("POS04", "bert", max_position_embeddings=512)
def places_past_the_middle_begin_anew(model):
    table = model.bert.embeddings.position_embeddings
    change_inputs(table, lambda inputs: {**inputs, "input": inputs["input"] % 384})


# Sources


@blind("SRC03", "deepseek_v2")
def a_table_beside_a_complex_rotation(model):
    table = torch.randn(64, 32)
    model.get_input_embeddings().register_forward_hook(
        lambda part, given, result: result + table[: result.shape[1]]
    )


@blind("PAD02", "llava")
def the_text_part_does_not_follow_the_mask(model):
    body = model.model.language_model

    def change(inputs):
        mask = inputs.get("attention_mask")
        return {
            **inputs,
            "attention_mask": torch.ones_like(mask) if mask is not None and mask.ndim == 2 else mask,
        }

    change_inputs(body, change)


@blind("PAD02", "smollm3")
def places_run_from_the_end(model):
    own = modeling_smollm3.apply_rotary_pos_emb
    while_it_runs(
        model.model,
        modeling_smollm3,
        apply_rotary_pos_emb=lambda q, k, cos, sin, **how: own(q, k, cos.flip(1), sin.flip(1), **how),
    )


@blind("SRC01", "gptj")
def only_queries_rotate(model):
    own, calls = modeling_gptj.apply_rotary_pos_emb, []

    def every_second(tensor: torch.Tensor, sin: torch.Tensor, cos: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return tensor if len(calls) % 2 else own(tensor, sin, cos)

    while_it_runs(model.transformer, modeling_gptj, apply_rotary_pos_emb=every_second)


@blind("ROPE03", "gpt_oss")
def keys_rotate_twice(model):
    own = modeling_gpt_oss.apply_rotary_pos_emb

    def twice(query: torch.Tensor, key: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Any:
        query, key = own(query, key, cos, sin)
        return query, own(key, key, cos, sin)[1]

    while_it_runs(model.model, modeling_gpt_oss, apply_rotary_pos_emb=twice)


# A fixed table


@blind("SRC05", "marian")
def sines_of_a_table_have_another_base(model):
    weight = model.model.encoder.embed_positions.weight
    half = weight.shape[1] // 2
    angles = torch.arange(len(weight))[:, None] * 1e3 ** (-torch.arange(half) / half)
    weight.copy_(torch.cat((angles.sin(), angles.cos()), 1))
