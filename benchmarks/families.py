"""What works with an attached method, per family of models: each cell is a measurement or an error.

    python benchmarks/families.py [FAMILY ...] [--out docs/families.md]

Needs the extra `attached` (peft, onnx, onnxruntime, onnxscript). Each cell starts from a new tiny model with
random weights, those of the method too.
"""

import argparse
import contextlib
import copy
import functools
import io
import logging
import re
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

import vnait
from vnait.pretrained import load_adapter, save_adapter
from vnait.pretrained.attach.attached import attached_owners

ROWS = 40  # of every position table
SMALL = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": ROWS,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED = {**SMALL, "num_key_value_heads": 1, "head_dim": 8}
FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertForMaskedLM", "BertConfig", SMALL),
    "roberta": ("RobertaForMaskedLM", "RobertaConfig", SMALL),
    "distilbert": (
        "DistilBertForMaskedLM",
        "DistilBertConfig",
        {
            "vocab_size": 50,
            "dim": 16,
            "n_layers": 2,
            "n_heads": 2,
            "hidden_dim": 32,
            "max_position_embeddings": ROWS,
        },
    ),
    "electra": ("ElectraForMaskedLM", "ElectraConfig", {**SMALL, "embedding_size": 8}),
    "modernbert": (
        "ModernBertForMaskedLM",
        "ModernBertConfig",
        {**SMALL, "cls_token_id": 1, "sep_token_id": 2},
    ),
    "gpt2": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {
            "vocab_size": 50,
            "n_embd": 16,
            "n_layer": 2,
            "n_head": 2,
            "n_positions": ROWS,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
    ),
    "bloom": (
        "BloomForCausalLM",
        "BloomConfig",
        {"vocab_size": 50, "hidden_size": 16, "n_layer": 2, "n_head": 2},
    ),
    "llama": ("LlamaForCausalLM", "LlamaConfig", GROUPED),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", GROUPED),
    "mistral": ("MistralForCausalLM", "MistralConfig", GROUPED),
    "t5": (
        "T5ForConditionalGeneration",
        "T5Config",
        {
            "vocab_size": 50,
            "d_model": 16,
            "d_kv": 8,
            "d_ff": 32,
            "num_layers": 2,
            "num_heads": 2,
            "decoder_start_token_id": 0,
        },
    ),
    "bart": (
        "BartForConditionalGeneration",
        "BartConfig",
        {
            "vocab_size": 50,
            "d_model": 16,
            "encoder_layers": 2,
            "decoder_layers": 3,
            "encoder_attention_heads": 2,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 32,
            "decoder_ffn_dim": 32,
            "max_position_embeddings": ROWS,
        },
    ),
    "xglm": (
        "XGLMForCausalLM",
        "XGLMConfig",
        {
            "vocab_size": 50,
            "d_model": 16,
            "num_layers": 2,
            "attention_heads": 2,
            "ffn_dim": 32,
            "max_position_embeddings": ROWS,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
    ),
    "roformer": ("RoFormerForMaskedLM", "RoFormerConfig", SMALL),
    "gptj": (
        "GPTJForCausalLM",
        "GPTJConfig",
        {
            "vocab_size": 50,
            "n_embd": 16,
            "n_layer": 2,
            "n_head": 2,
            "n_positions": ROWS,
            "rotary_dim": 8,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
    ),
}
FAMILIES["umt5"] = ("UMT5ForConditionalGeneration", "UMT5Config", FAMILIES["t5"][2])
DECODERS = ["gpt2", "bloom", "llama", "qwen3", "mistral", "xglm", "gptj"]
TWO_SIDED = ["t5", "bart", "umt5"]
ROTARY = ["llama", "qwen3", "mistral", "modernbert", "roformer", "gptj"]
OWN_ATTENTION = ["bloom", "xglm", "roformer", "gptj"]  # not transformers' attention functions: no bias
RARE = ["electra", "qwen3", "mistral", "xglm", "roformer", "gptj", "umt5"]  # their tests are marked long


def model_of(family: str, **changes: Any) -> Any:
    """A random model, its weights enlarged so that positions matter."""
    kind, config, settings = FAMILIES[family]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = getattr(transformers, kind)(getattr(transformers, config)(**{**settings, **changes})).eval()
        with torch.no_grad():
            for weight in model.parameters():
                if weight.ndim > 1 and (family, weight.requires_grad) != ("roformer", False):  # its sines
                    # T5 does not divide its scores by the root of the head width.
                    weight.mul_({"t5": 2, "umt5": 1}.get(family, 6))
    return model


def method_of(family: str) -> str:
    return "vnait-causal" if family in DECODERS else "vnait"


def attached_to(family: str, **options: Any) -> Any:
    """A model with an attached method whose weights are all random, as after training: a copy, which takes a
    tenth of attaching's time.
    """
    return copy.deepcopy(_attached_to(family, **options))


@functools.cache
def _attached_to(family: str, **options: Any) -> Any:
    model = model_of(family)
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(1)
        vnait.attach(model, method_of(family), **options)
        for owner in attached_owners(model).values():
            for name, weight in owner.vnait.named_parameters():
                if not name.startswith("old."):
                    weight.add_(torch.randn_like(weight), alpha=0.3)
    return model


def ids_of(rows: int = 2, length: int = 20) -> Tensor:
    return torch.randint(3, 50, (rows, length), generator=torch.Generator().manual_seed(3))


@torch.no_grad()
def logits(model: nn.Module, ids: Tensor, **more: Any) -> Tensor:
    return forward(model, ids, **more).logits


def forward(model: nn.Module, ids: Tensor, **more: Any) -> Any:
    """Both sides of an encoder-decoder read the same text by default."""
    inputs = {"attention_mask": torch.ones_like(ids), **more}
    if model.config.is_encoder_decoder:
        inputs = {"decoder_input_ids": ids, "decoder_attention_mask": inputs["attention_mask"], **inputs}
    return model(ids, **inputs)


# --- The columns


def attach(family: str) -> str:
    """How many sources of position are replaced, and what is left without the method."""
    model = model_of(family)
    attachment = vnait.attach(model, method_of(family), warm_start=None)
    left = vnait.audit(model).leftover
    assert left < 1e-4
    return f"{len(attachment.replaced)} replaced, left {left:.0e}"


def warm_start(family: str) -> str:
    """The largest difference of the logits, over the largest logit."""
    model, ids = model_of(family), ids_of(length=ROWS - 4)
    before = logits(model, ids)
    vnait.attach(model, method_of(family))
    return _difference(logits(model, ids), before)


def train(family: str) -> str:
    """The loss of 30 steps on one batch, first and last; every attached parameter gets a gradient."""
    model, ids = attached_to(family).train(), ids_of()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(forward(model, ids).logits.flatten(0, 1), ids.flatten())
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    missing = [
        name for name, weight in model.named_parameters() if weight.requires_grad and weight.grad is None
    ]
    assert not missing, missing
    assert losses[-1] < losses[0]
    return f"{losses[0]:.2f} to {losses[-1]:.2f}"


def save_and_load(family: str) -> str:
    """An adapter in a new base; plain `from_pretrained` refuses the folder of the attached model."""
    model, ids = attached_to(family), ids_of()
    with tempfile.TemporaryDirectory() as folder:
        save_adapter(model, Path(folder) / "adapter")
        again = model_of(family)
        load_adapter(again, Path(folder) / "adapter")
        model.save_pretrained(Path(folder) / "model")
        try:
            type(model).from_pretrained(Path(folder) / "model")
        except ValueError:
            return _difference(logits(again, ids), logits(model, ids))
    raise AssertionError("loaded without its method")


def pipeline(family: str) -> str:
    """A pipeline of transformers gives the same as the model itself."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(50)}, unk_token="w3"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    names = {"pad_token": "w0", "bos_token": "w1", "eos_token": "w2", "unk_token": "w3", "mask_token": "w4"}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, **names)
    model = attached_to(family)
    if family in TWO_SIDED:
        return "n/a: transformers 5 has no pipeline for them"
    if family in DECODERS:
        settings = {"max_new_tokens": 5, "do_sample": False}
        found = transformers.pipeline("text-generation", model=model, tokenizer=tokenizer)(
            "w7 w8 w9", return_full_text=False, **settings
        )
        written = model.generate(torch.tensor([[7, 8, 9]]), pad_token_id=0, **settings)
        words = [f"w{i}" for i in written[0, 3:].tolist() if i > 4]  # ids up to 4 are special
        assert found[0]["generated_text"].split() == words
        return "text-generation"
    found = transformers.pipeline("fill-mask", model=model, tokenizer=tokenizer)("w7 w4 w9", top_k=1)
    best = logits(model, torch.tensor([[7, 4, 9]]))[0, 1].argmax()
    assert found[0]["token"] == int(best)
    return "fill-mask"


def generate(family: str) -> str:
    """Greedy and with 3 beams, in a left-padded batch: the same tokens with and without a cache."""
    if family not in DECODERS + TWO_SIDED:
        return "n/a: an encoder"
    model, ids = attached_to(family), ids_of(length=8)
    mask = torch.ones_like(ids)
    mask[0, :3] = 0
    for beams in (1, 3):
        settings = {"max_new_tokens": 8, "min_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
        written = [
            model.generate(ids, attention_mask=mask, num_beams=beams, use_cache=cached, **settings)
            for cached in (True, False)
        ]
        assert torch.equal(*written)
    return "same tokens"


def lora(family: str) -> str:
    """peft's LoRA beside `modules_to_save=["vnait"]`: trained, saved, loaded into the base, merged."""
    from peft import LoraConfig, PeftModel, get_peft_model

    model, ids = attached_to(family), ids_of()
    kinds = (nn.Linear, transformers.pytorch_utils.Conv1D)
    inner = [name for name, part in model.named_modules() if isinstance(part, kinds) and "vnait" not in name]
    targets = {name.rpartition(".")[2] for name in inner if re.search("attn|attention", name.lower())}
    config = LoraConfig(target_modules=sorted(targets), modules_to_save=["vnait"], r=2)
    tuned = get_peft_model(model, config).train()
    optimizer = torch.optim.AdamW([weight for weight in tuned.parameters() if weight.requires_grad], lr=1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        forward(tuned, ids).logits.square().mean().backward()
        optimizer.step()
    trained = logits(tuned.eval(), ids)
    with tempfile.TemporaryDirectory() as folder:
        tuned.save_pretrained(folder)
        again = PeftModel.from_pretrained(attached_to(family), folder).eval()
        loaded = _difference(logits(again, ids), trained)
    return f"{loaded}, merged {_difference(logits(tuned.merge_and_unload(), ids), trained)}"


def compiled(family: str) -> str:
    """torch.compile with `fullgraph=True`, for two lengths."""
    torch.compiler.reset()  # other families run the same hook and would count as its recompilations
    model = attached_to(family)
    fast = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=True)
    texts = [ids_of(length=length) for length in (20, 31)]
    return max((_difference(logits(fast, ids), logits(model, ids)) for ids in texts), key=float)


class States(nn.Module):
    """The last states of an encoder, a decoder without cache, or the encoder of two sides."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.owner = next(iter(attached_owners(model).values()))
        self.more = {} if not self.owner.vnait.causal else {"use_cache": False}

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.owner(input_ids=input_ids, attention_mask=attention_mask, **self.more)[0]


def onnx(family: str) -> str:
    """The last states by onnxruntime and by the model, of another size than exported, with padding."""
    import onnxruntime

    part, ids = States(attached_to(family)).eval(), ids_of()
    names = ["input_ids", "attention_mask"]
    shapes = {name: {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC} for name in names}
    with tempfile.TemporaryDirectory() as folder:
        path, inputs = str(Path(folder) / "model.onnx"), (ids, torch.ones_like(ids))
        with torch.no_grad():
            torch.onnx.export(
                part, inputs, path, dynamo=True, input_names=names, dynamic_shapes=shapes, verbose=False
            )
        session = onnxruntime.InferenceSession(path)
    ids = ids_of(rows=3, length=31)
    mask = torch.ones_like(ids)
    mask[1, 20:] = 0
    found = session.run(None, {"input_ids": ids.numpy(), "attention_mask": mask.numpy()})[0]
    with torch.no_grad():
        expected = part(ids, mask)
    return _difference(torch.tensor(found)[mask.bool()], expected[mask.bool()])


def _difference(found: Tensor, expected: Tensor) -> str:
    """The largest difference, over the largest expected number."""
    return f"{float((found - expected).abs().max() / expected.abs().max()):.0e}"


COLUMNS: dict[str, Callable[[str], str]] = {
    "attach": attach,
    "warm start": warm_start,
    "train": train,
    "save and load": save_and_load,
    "pipeline": pipeline,
    "generate with cache": generate,
    "LoRA": lora,
    "compile": compiled,
    "ONNX": onnx,
}


def cell(column: str, family: str) -> str:
    """A measurement, or the first line of the error."""
    torch.manual_seed(0)
    output = io.StringIO()
    try:
        with (
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(output),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            return COLUMNS[column](family)
    except Exception as error:
        return f"FAILED: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("families", nargs="*", default=list(FAMILIES))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    lines = [f"| family | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    for family in options.families:
        cells = [cell(column, family) for column in COLUMNS]
        lines.append(f"| {family} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    if options.out:
        options.out.write_text(ABOUT + "\n".join(lines) + "\n", encoding="utf-8")


ABOUT = f"""# Attached methods by model family

Written by `python benchmarks/families.py --out docs/families.md` with transformers
{transformers.__version__} and torch {torch.__version__.split("+")[0]}, on a tiny random model per family
with vnait (vnait-causal in decoders) attached, all weights random. Differences are the largest, over the
largest logit.

- *attach*: position left without the method
- *warm start*: `warm_start="exact"` compared with the model before
- *train*: loss of 30 steps
- *save and load*: an adapter in a new base, while plain `from_pretrained` refuses the attached model
- *generate*: greedy and beams, left-padded, with and without a cache
- *LoRA*: peft with `modules_to_save=["vnait"]`, loaded and merged
- *compile*: `fullgraph=True`, two lengths
- *ONNX*: onnxruntime on other sizes, the encoder of encoder-decoders

"""


if __name__ == "__main__":
    main()
