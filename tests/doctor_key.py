"""What the doctor must find in healthy models, by family: written from the code of transformers, not from
what the doctor gave.

Each group has the reason; a family that differs has its own.
"""

from typing import Any

import torch
import transformers
from torch import nn
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from doctor_survey import enlarge

# A table read at 0, 1, 2, ... whatever the mask is: padding on the left moves a text (PAD01), and the table
# ends (LEN01). Attention in both directions reads padding unless there is a mask (PAD07). transformers
# separates packed texts by position_ids in causal masks only (PACK01, and PACK03 with a mask of ones).
ENCODER = {"PAD01", "PAD07", "PACK01", "PACK03", "LEN01"}
# create_position_ids_from_input_ids: positions count ids that are not padding (PAD06, not PAD01), from the
# padding id + 1 (POS02), so that the rows before it are lost (LEN03).
FROM_IDS = {"PAD06", "PAD07", "POS02", "PACK01", "PACK03", "LEN01", "LEN03"}
# A rotation sees distances, which padding on the left leaves alone, and has no end (LEN02). Its frequencies
# are computed once, in __init__ (ROPE01), into a buffer that a cast rounds (HALF01).
ROTATION = {"HALF01", "ROPE01", "LEN02"}
ROTARY_ENCODER = ROTATION | {"PAD07", "PACK01", "PACK03"}
# create_causal_mask looks for packed texts only without a mask (PACK03) and without a cache, which is the
# default (PACK01).
ROTARY_DECODER = ROTATION | {"PACK01", "PACK03"}
DECODER = {"PAD01", "PACK01", "PACK03", "LEN01"}
# A decoder's body that reads in both directions: transformers finds packed texts in causal masks only.
EMBEDDER = ROTARY_DECODER | {"PAD07"}
CONVOLVED = {"PAD02", "PAD03", "PAD05", "PACK04", "SRC03"}  # limits: neighbours are read before any mask
# Encoder-decoders take no position_ids for the encoder's text.
TWO_TABLES = {"PAD01", "PAD07", "PAD08", "LEN01"}

SMALL = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SHIFTED = {**SMALL, "pad_token_id": 1, "bos_token_id": 0}
GROUPED = {**SMALL, "num_key_value_heads": 1, "head_dim": 16}
WIDE = {**SMALL, "hidden_size": 128, "head_dim": 64}  # a quarter of a head rotates
SIDES: dict[str, Any] = {"vocab_size": 60, "d_model": 32, "max_position_embeddings": 64}
SIDES |= {f"{side}_{name}": 2 for side in ("encoder", "decoder") for name in ("layers", "attention_heads")}
SIDES |= {"encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "decoder_start_token_id": 2}
T5: dict[str, Any] = {
    "vocab_size": 60,
    "d_model": 32,
    "d_kv": 16,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 2,
}
T5 |= {"decoder_start_token_id": 0}
GPT: dict[str, Any] = {"vocab_size": 60, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64}
GPT |= {"bos_token_id": 1, "eos_token_id": 2}

NEO: dict[str, Any] = {"vocab_size": 60, "hidden_size": 32, "num_layers": 2, "num_heads": 2, "window_size": 6}
NEO |= {"attention_types": [[["global", "local"], 1]], "max_position_embeddings": 64}
NEO |= {"bos_token_id": 1, "eos_token_id": 2}
GPT_SIDES: dict[str, Any] = {"vocab_size": 60, "d_model": 32, "num_layers": 2, "attention_heads": 2}
GPT_SIDES |= {"max_position_embeddings": 64}
LATENT: dict[str, Any] = {**SMALL, "num_key_value_heads": 2, "q_lora_rank": 16, "kv_lora_rank": 16}
LATENT |= {"qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16, "first_k_dense_replace": 2}
EXPERTS = {"num_experts": 2, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
EXPERTS |= {"shared_expert_intermediate_size": 16}
VISION = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2}
VISION |= {"model_type": "clip_vision_model", "projection_dim": 32, "image_size": 32, "patch_size": 16}
IMAGES = {"text_config": {"model_type": "llama", **GROUPED}, "vision_config": VISION, "image_token_index": 50}
SEEN = {"text_config": {**GROUPED, "rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3]}}}
SEEN |= {"vision_config": {"embed_dim": 32, "depth": 1, "num_heads": 2, "hidden_size": 32}}
YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4, "original_max_position_embeddings": 16}
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "rope_theta": 1e4, "original_max_position_embeddings": 16}
LLAMA3 |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
LONGROPE = {"rope_type": "longrope", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16}
LONGROPE |= {"short_factor": [1.0] * 8, "long_factor": [1.0, 2.0, 4.0, 8.0] * 2}
LINEAR = {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}

# name: what is found, the settings; the name is that of the type, unless the settings have one
KEY: dict[str, tuple[set[str], dict[str, Any]]] = {
    "bert": (ENCODER, SMALL),
    "distilbert": (
        ENCODER,
        {
            "vocab_size": 60,
            "dim": 32,
            "n_layers": 2,
            "n_heads": 2,
            "hidden_dim": 48,
            "max_position_embeddings": 64,
        },
    ),
    "electra": (ENCODER, {**SMALL, "embedding_size": 16}),
    "albert": (ENCODER, {**SMALL, "embedding_size": 16}),
    "ernie": (ENCODER, SMALL),
    "megatron-bert": (ENCODER, SMALL),
    "rembert": (ENCODER, {**SMALL, "input_embedding_size": 16, "output_embedding_size": 16}),
    "roberta": (FROM_IDS, SHIFTED),
    "xlm-roberta": (FROM_IDS, SHIFTED),
    "camembert": (FROM_IDS, SHIFTED),
    "data2vec-text": (FROM_IDS, SHIFTED),
    # a table as RoBERTa's, and a bias of distances in every layer (SRC03)
    "mpnet": (FROM_IDS | {"SRC03"}, SHIFTED),
    # as DeBERTa-v3: distances alone (no PAD01, LEN02); position_ids are taken and not read (POS01)
    "deberta-v2": (
        {"PAD07", "POS01", "PACK01", "PACK03", "LEN02"},
        {**SMALL, "relative_attention": True, "position_biased_input": False, "pos_att_type": ["p2c", "c2p"]},
    ),
    "modernbert": (ROTARY_ENCODER, {**SMALL, "cls_token_id": 1, "sep_token_id": 2}),
    "nomic_bert": (ROTARY_ENCODER, SMALL),
    "gpt2": (DECODER, GPT),
    "ctrl": (DECODER, {**GPT, "dff": 48}),
    # positions count the mask (no PAD01); a mask is made where there is none (PACK02)
    "opt": (
        {"PACK01", "PACK02", "PACK03", "LEN01"},
        {**SMALL, "ffn_dim": 48, "word_embed_proj_dim": 32},
    ),
    # a rotation by a table of n_positions rows in every layer
    "gptj": ({"PACK01", "PACK03", "LEN01"}, {**GPT, "rotary_dim": 8}),
    "llama": (ROTARY_DECODER, GROUPED),
    "mistral": (ROTARY_DECODER, GROUPED),
    "qwen2": (ROTARY_DECODER, GROUPED),
    "qwen3": (ROTARY_DECODER, GROUPED),
    "gemma": (ROTARY_DECODER, GROUPED),
    "gemma2": (ROTARY_DECODER, GROUPED),
    "olmo2": (ROTARY_DECODER, GROUPED),
    "starcoder2": (ROTARY_DECODER, GROUPED),
    "cohere": (ROTARY_DECODER, GROUPED),
    "granite": (ROTARY_DECODER, GROUPED),
    "phi": (ROTARY_DECODER, WIDE),
    "gpt_neox": (ROTARY_DECODER, WIDE),
    "stablelm": (ROTARY_DECODER, {**WIDE, "num_key_value_heads": 2}),
    # it makes its causal mask without position_ids, so that it never finds packed texts (PACK02)
    "falcon": (
        ROTARY_DECODER | {"PACK02"},
        {**SMALL, "num_kv_heads": 2, "new_decoder_architecture": True},
    ),
    # ALiBi is computed in the precision of the states (HALF04); no position_ids, no length
    "bloom": ({"HALF04"}, {"vocab_size": 60, "hidden_size": 32, "n_layer": 2, "n_head": 2}),
    # ALiBi as a function inside its forward; no position_ids, no max_position_embeddings
    "mpt": (set(), {"vocab_size": 60, "d_model": 32, "n_layers": 2, "n_heads": 2, "max_seq_len": 64}),
    # a bias of distances: no end, no table; attention in the encoder reads padding without a mask
    "t5": ({"PAD07"}, T5),
    "mt5": ({"PAD07"}, T5),
    "bart": (TWO_TABLES, SIDES),
    "mbart": (TWO_TABLES, SIDES),
    "pegasus": (TWO_TABLES, SIDES),
    "marian": (TWO_TABLES, {**SIDES, "pad_token_id": 59}),
    # The cases of public reports
    "llama, both ways": (EMBEDDER | {"PACK02"}, {**GROUPED, "type": "llama", "is_causal": False}),
    "gemma3_text": (ROTARY_DECODER, {**GROUPED, "layer_types": ["sliding_attention", "full_attention"]}),
    "gemma3_text, both ways": (
        EMBEDDER,
        {**GROUPED, "type": "gemma3_text", "use_bidirectional_attention": True},
    ),
    "mistral, window": (ROTARY_DECODER, {**GROUPED, "type": "mistral", "sliding_window": 5}),
    "modernbert, window": (ROTARY_ENCODER, {**SMALL, "type": "modernbert", "local_attention": 6}),
    "gpt_neo": (DECODER, NEO),
    "smollm3": (ROTARY_DECODER, {**GROUPED, "no_rope_layers": [1, 0]}),
    "cohere2": (ROTARY_DECODER, {**GROUPED, "layer_types": ["sliding_attention", "full_attention"]}),
    "glm": (ROTARY_DECODER, GROUPED),
    "llama, yarn": (ROTARY_DECODER, {**GROUPED, "type": "llama", "rope_parameters": YARN}),
    "llama, llama3": (ROTARY_DECODER, {**GROUPED, "type": "llama", "rope_parameters": LLAMA3}),
    "llama, linear": (ROTARY_DECODER, {**GROUPED, "type": "llama", "rope_parameters": LINEAR}),
    # traps: past the original length frequencies follow the longest text (its phases are tried within)
    "llama, dynamic": (
        ROTARY_DECODER - {"HALF01"} | {"PAD03", "POS03", "CACHE01"},
        {**GROUPED, "type": "llama", "rope_parameters": {**LINEAR, "rope_type": "dynamic"}},
    ),
    "phi3, longrope": (
        ROTARY_DECODER - {"HALF01"} | {"PAD03", "CACHE01"},
        {**GROUPED, "type": "phi3", "rope_parameters": LONGROPE, "original_max_position_embeddings": 16},
    ),
    # its own scales, in place of the attention_scaling that factor declares
    "phimoe, longrope": (
        ROTARY_DECODER - {"HALF01"} | {"PAD03", "CACHE01"},
        {
            **GROUPED,
            "type": "phimoe",
            "num_local_experts": 2,
            "rope_parameters": {**LONGROPE, "short_mscale": 1.2, "long_mscale": 1.3},
        },
    ),
    "llama4_text, chunks": (
        ROTARY_DECODER,
        {
            **GROUPED,
            "type": "llama4_text",
            "intermediate_size_mlp": 48,
            "num_local_experts": 2,
            "attention_chunk_size": 4,
            "layer_types": ["chunked_attention", "full_attention"],
        },
    ),
    # a table as RoBERTa's, and windows of two tokens on each side
    "longformer": (FROM_IDS, {**SHIFTED, "attention_window": 4}),
    "deepseek_v2": (ROTARY_DECODER, {**LATENT, "moe_intermediate_size": 16}),
    "deepseek_v3": (ROTARY_DECODER, LATENT),
    "llama4_text": (
        ROTARY_DECODER,
        {**GROUPED, "intermediate_size_mlp": 48, "num_local_experts": 2, "no_rope_layers": [1, 0]},
    ),
    "t5gemma": ({"HALF01", "PAD07", "LEN02"}, {"encoder": GROUPED, "decoder": GROUPED, "vocab_size": 60}),
    # ALiBi in bfloat16, twice in eager attention; its rotation is idle, and position_ids are not read
    "falcon, alibi": (
        ROTARY_DECODER | {"BIAS01", "HALF04", "PACK02", "POS01", "SRC02"},
        {**SMALL, "type": "falcon", "alibi": True, "new_decoder_architecture": False},
    ),
    "llava": (ROTARY_DECODER, IMAGES),
    "esm, rotation": (
        ROTARY_ENCODER - {"ROPE01"},
        {**SHIFTED, "type": "esm", "position_embedding_type": "rotary"},
    ),
    # no mask (a limit), and the Fourier transform knows the order; position_ids are for its table
    "fnet": ({"PAD07", "PACK01", "SRC03", "LEN01"}, SMALL),
    "umt5": ({"PAD07"}, T5),
    "switch_transformers": ({"PAD07"}, {**T5, "num_experts": 2}),
    # its table of sines grows
    "xglm": ({"PAD01", "PACK01", "PACK02", "PACK03", "LEN02"}, {**GPT_SIDES, "ffn_dim": 48}),
    "biogpt": (DECODER | {"PACK02"}, SMALL),
    "codegen": ({"PACK01", "PACK03", "LEN01"}, {**GPT, "n_embd": 64, "n_head": 4, "rotary_dim": 8}),
    "gpt_bigcode": (DECODER, GPT),
    "nemotron": (ROTARY_DECODER, GROUPED),
    "persimmon": (ROTARY_DECODER, WIDE),
    "helium": (ROTARY_DECODER, GROUPED),
    "glm4": (ROTARY_DECODER, GROUPED),
    "olmo": (ROTARY_DECODER, GROUPED),
    "olmo3": (ROTARY_DECODER, GROUPED),
    "exaone4": (
        ROTARY_DECODER,
        {**GROUPED, "sliding_window": 7, "layer_types": ["sliding_attention", "full_attention"]},
    ),
    "mixtral": (ROTARY_DECODER, {**GROUPED, "num_local_experts": 2}),
    "qwen2_moe": (ROTARY_DECODER, {**GROUPED, **EXPERTS}),
    "qwen3_moe": (ROTARY_DECODER, {**GROUPED, **EXPERTS}),
    "olmoe": (ROTARY_DECODER, {**GROUPED, **EXPERTS}),
    "granitemoe": (ROTARY_DECODER, {**GROUPED, "num_local_experts": 2}),
    "phi3": (ROTARY_DECODER, GROUPED),
    "seed_oss": (ROTARY_DECODER, GROUPED),
    "arcee": (ROTARY_DECODER, GROUPED),
    "apertus": (ROTARY_DECODER, GROUPED),
    "ernie4_5": (ROTARY_DECODER, GROUPED),
    # it makes its masks without position_ids
    "gpt_oss": (ROTARY_DECODER | {"PACK02"}, {**GROUPED, "num_local_experts": 2, "num_experts_per_tok": 2}),
    "qwen2, windows": (
        ROTARY_DECODER,
        {**GROUPED, "type": "qwen2", "use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1},
    ),
    "gemma2, window": (ROTARY_DECODER, {**GROUPED, "type": "gemma2", "sliding_window": 9}),
    "bloom, 6 heads": (
        {"HALF04"},
        {"type": "bloom", "vocab_size": 60, "hidden_size": 48, "n_layer": 2, "n_head": 6},
    ),
    "mpt, 6 heads": (set(), {"type": "mpt", "vocab_size": 60, "d_model": 48, "n_layers": 2, "n_heads": 6}),
    "roformer": (ENCODER - {"PACK01", "PACK03"}, {**SMALL, "embedding_size": 32}),
    "convbert": (ENCODER | CONVOLVED, {**SMALL, "embedding_size": 32}),
    "roberta-prelayernorm": (FROM_IDS, SHIFTED),
    "xlm-roberta-xl": (FROM_IDS, SHIFTED),
    "xmod": (FROM_IDS, {**SHIFTED, "default_language": "en_XX"}),
    "blenderbot": (TWO_TABLES, SIDES),
    # positions count ids that are not padding, and its table of sines grows
    "m2m_100": ({"PAD07", "PAD09", "LEN02"}, {**SIDES, "pad_token_id": 1}),
    "plbart": (TWO_TABLES, SIDES),
    # its position_ids are those of texts and images
    "qwen2_vl": (ROTARY_DECODER | {"PACK02"}, SEEN),
    "eurobert": (ROTARY_ENCODER, GROUPED),
}
FAST = ("bert", "roberta", "modernbert", "gpt2", "llama", "bloom", "t5")
HEADS = (
    "AutoModelForMaskedLM",
    "AutoModelForCausalLM",
    "AutoModelForImageTextToText",
    "AutoModelForSeq2SeqLM",
)


def model_of(name: str, head: str | None = None, **changes: Any) -> Any:
    """A random model of a family of the key, its weights enlarged so that positions matter."""
    settings = {"type": name, **KEY[name][1], **changes}
    config = CONFIG_MAPPING[settings.pop("type")](**settings)
    heads = (head,) if head else HEADS[3:] if config.is_encoder_decoder else HEADS
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for one in heads:
            try:
                model: nn.Module = getattr(transformers, one).from_config(config)
            except ValueError:  # a family without such a head
                continue
            return enlarge(model.eval())
    raise AssertionError(name)
