"""How many types of transformers' text models `attach` supports, on a tiny random model of each.

    python benchmarks/model_types.py [TYPE ...] [--out docs/coverage.md]

Counts types that can be made tiny and that read `input_ids` only. exact: attached with an exact warm start,
no other source of position left. refused: an error that names the reason.
"""

import argparse
import contextlib
import io
import logging
import warnings
from collections import Counter
from pathlib import Path

import torch
import transformers
from torch import nn
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_MAPPING

import vnait
from vnait import InputError

MOST = 3e6  # parameters of a tiny model
WIDE, DEEP, HEADS, INNER, LONG = 32, 2, 4, 64, 64
NAMES = {  # value -> settings that get it
    60: "vocab_size",
    WIDE: "hidden_size d_model n_embd dim embedding_size emb_dim d_embed word_embed_proj_dim embed_dim",
    DEEP: "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_decoder_layers "
    "num_encoder_layers",
    HEADS: "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads "
    "num_experts num_local_experts n_routed_experts moe_num_experts num_routed_experts",
    8: "head_dim d_kv qk_rope_head_dim qk_nope_head_dim v_head_dim rotary_dim",
    INNER: "intermediate_size d_ff ffn_dim encoder_ffn_dim decoder_ffn_dim n_inner hidden_dim "
    "ffn_hidden_size moe_intermediate_size shared_expert_intermediate_size dense_intermediate_size",
    LONG + 1: "max_position_embeddings n_positions max_seq_len",
    16: "kv_lora_rank q_lora_rank",
    0: "pad_token_id",
}
TINY = {name: number for number, names in NAMES.items() for name in names.split()}
TINY |= dict.fromkeys(("num_key_value_heads", "num_kv_heads", "multi_query_group_num"), 2)
TINY |= dict.fromkeys(("num_experts_per_tok", "moe_k", "moe_topk", "top_k_experts", "eos_token_id"), 2)
TINY |= dict.fromkeys(("n_group", "topk_group", "bos_token_id"), 1)


def tiny(model_type: str, *, varied: bool = False) -> nn.Module | None:
    """A random model of this type that reads ids; None if there is none. varied: of different layers."""
    config_class = CONFIG_MAPPING[model_type]
    try:
        kinds = MODEL_MAPPING[config_class]
        known = config_class()
        settings = {name: value for name, value in TINY.items() if hasattr(known, name)}
        if isinstance(getattr(known, "layer_types", None), list):
            different = list(dict.fromkeys(known.layer_types)) if varied else []
            settings["layer_types"] = (different + known.layer_types)[:DEEP]
        config = config_class(**settings)
        kind = kinds[0] if isinstance(kinds, tuple) else kinds
        with torch.device("meta"):
            if sum(weight.numel() for weight in kind(config).parameters()) > MOST:
                return None
        torch.manual_seed(0)
        model = kind(config).eval()
        ids = torch.randint(3, 60, (1, 12))
        both = {"decoder_input_ids": ids} if config.is_encoder_decoder else {}
        with torch.no_grad():
            model(input_ids=ids, **both)
    except Exception:
        return None
    return model


def outcome(model: nn.Module) -> str:
    """exact, or the reason."""
    try:
        try:
            vnait.attach(model, "vnait")
        except InputError as error:
            if "take a causal method" not in str(error):
                raise
            vnait.attach(model, "vnait-causal")
    except InputError as error:
        return reason(str(error))
    except Exception as error:
        return f"FAILED {type(error).__name__}: {str(error).splitlines()[0][:80] if str(error) else ''}"
    left = vnait.audit(model).leftover
    return "exact" if left <= 1e-4 else f"FAILED: position left, {left:.0e}"


REASONS = {
    "to all blocks of a text": "a bias of distances that all blocks of a text share",
    "inside its layers": "position inside the layers (a convolution, a relative table)",
    "was not found": "position in a way that was not found",
    "differs by": "not exact",
    "was expected, found nothing": "no position to replace",
    "was expected, found": "several sources, or a rotation of another kind",
    "was expected, or an encoder": "no part takes ids and vectors",
    "row by row": "a table that is not read row by row",
    "could not read a random text": "could not read a random text with nothing but a mask",
}


def reason(message: str) -> str:
    return next(
        (f"refused: {short}" for part, short in REASONS.items() if part in message), f"refused: {message}"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("types", nargs="*")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    transformers.logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    found: dict[str, str] = {}
    for name in options.types or [name for name in CONFIG_MAPPING if CONFIG_MAPPING[name] in MODEL_MAPPING]:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            model = tiny(name)
            found[name] = "not run" if model is None else outcome(model)
        print(name, found[name], sep="\t", flush=True)
    ran = {name: result for name, result in found.items() if result != "not run"}
    counts = Counter(ran.values())
    summary = (
        f"{counts['exact']} of {len(ran)} types attached exactly; {len(found) - len(ran)} were not tried, "
        "because they read something other than text or could not be made tiny."
    )
    print(summary)
    if options.out:
        lines = [
            "# Which models a method can be attached to\n",
            "Written by `python benchmarks/model_types.py --out docs/coverage.md` with transformers "
            f"{transformers.__version__}, on a tiny random model of every type.",
            f"{summary}\n",
            "| outcome | types | names |",
            "|---|---|---|",
        ]
        for result, count in counts.most_common():
            names = ", ".join(name for name, other in ran.items() if other == result)
            lines.append(f"| {result} | {count} | {names} |")
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
