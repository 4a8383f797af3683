"""transformers' models and tokenizers from a folder or the hub, without running code that comes with them."""

import json
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer
from transformers.models.auto import modeling_auto

from vnait.shared.errors import InputError, as_input_error, extra, first_line
from vnait.shared.processes import loading

# A number in a file of others must not take hours or all memory.
MAX_LAYERS, MAX_COUNT = 1_000, 1_000_000
GGUF = ".gguf"
_RECIPE = "transformers does not know each kind of it: get the model as a folder of safetensors."


def from_pretrained(kind: Any, source: str | Path, **settings: Any) -> Any:
    """`kind.from_pretrained`, of a class of transformers; a folder is read without the network.

    source   a folder or a GGUF file; or, as a string that is not the path of one, a name on the hub
    """
    folder = Path(source).expanduser()
    if folder.suffix == GGUF:
        return _from_gguf(kind, folder, settings)
    path = isinstance(source, Path) or source.startswith((".", "/", "~")) or source.endswith("/")
    if path or folder.is_dir():
        if not folder.is_dir():
            raise InputError(
                f"{source} is not a folder; give one that from_pretrained reads, or a name on the hub."
            )
        _check_settings(folder)
        source, settings = str(folder), {**settings, "local_files_only": True}
    try:
        with loading():
            return kind.from_pretrained(source, trust_remote_code=False, **settings)
    except OSError as error:
        if folder.is_dir() or "couldn't connect" not in str(error).lower():
            raise
        raise InputError(
            f"there is no folder {source}, and the hub can't be reached for a model of that name."
        ) from error
    except ValueError as error:
        if "trust_remote_code" not in str(error):
            raise
        raise InputError(
            f"{source} needs Python code that comes with it, which vnait does not run; give a model of a "
            "type that transformers has itself."
        ) from error


def _from_gguf(kind: Any, file: Path, settings: dict[str, Any]) -> Any:
    """What transformers reads from a GGUF file, with whole numbers as weights in place of packed ones."""
    if not file.is_file():
        raise InputError(f"there is no file {file}; give a GGUF file, a folder, or a name on the hub.")
    with extra("gguf"):
        import gguf  # noqa: F401  transformers needs it
    from transformers import AutoConfig, GgufConfig  # later: their import imports this module again

    if kind not in (AutoConfig, AutoTokenizer):
        settings = {"dtype": torch.float32, "quantization_config": GgufConfig(dequantize=True), **settings}
    reading = as_input_error(Exception, f"{file} can't be read as GGUF: ", f"; {_RECIPE}", message=first_line)
    with loading(), reading:
        return kind.from_pretrained(
            str(file.parent),
            gguf_file=file.name,
            local_files_only=True,
            trust_remote_code=False,
            **settings,
        )


def tokenizer_from(source: str | Path) -> Any:
    """The tokenizer of a folder or a name on the hub; `InputError` if there is none that can read batches."""
    before = f"{source} is not a pretrained model with a tokenizer: "
    with as_input_error(Exception, before, ".", message=first_line):
        tokenizer = from_pretrained(AutoTokenizer, source)
    if len(tokenizer) == len(tokenizer.all_special_ids):  # transformers makes one where files are missing
        raise InputError(f"{before}its tokenizer has no words; save its own tokenizer there, too.")
    if tokenizer.pad_token_id is None:
        raise InputError(
            f"the tokenizer of {source} has no padding token, which batches need; set its pad_token."
        )
    return tokenizer


def auto_classes(config: type) -> list[tuple[Any, tuple[Any, ...]]]:
    """The Auto classes that load models with such a configuration, and their models."""
    autos: list[Any] = [value for value in vars(modeling_auto).values() if isinstance(value, type)]
    maps = [(auto, getattr(auto, "_model_mapping", None) or {}) for auto in autos]
    pairs = [(auto, models[config]) for auto, models in maps if config in models]
    return [(auto, models if isinstance(models, tuple) else (models,)) for auto, models in pairs]


def _check_settings(folder: Path) -> None:
    """Refuse a folder without config.json, or whose config.json names an attention kernel on the hub or has
    sizes that no model has.
    """
    config = folder / "config.json"
    if not config.is_file():  # transformers would look on the hub for the base of a PEFT adapter
        inner = folder / "model"  # of a comparison's folder
        advice = (
            f". Its model is in {inner}." if inner.is_dir() else "; give a folder that save_pretrained wrote."
        )
        raise InputError(
            f"{folder} is not a pretrained model with a tokenizer: it has no config.json{advice}"
        )
    try:
        settings = json.loads(config.read_text(encoding="utf-8"))
    except ValueError:  # transformers describes it
        return
    for name, value in settings.items() if isinstance(settings, dict) else ():
        counts = name.startswith(("num_", "n_")) or name.endswith("_layers")
        most = MAX_LAYERS if "layer" in name else MAX_COUNT
        if counts and isinstance(value, int) and value > most:
            raise InputError(
                f"{config} has {name} {value:,}; expected {most:,} at most. Get the model again."
            )
    for name in ("attn_implementation", "_attn_implementation"):
        if "/" in str(isinstance(settings, dict) and settings.get(name)):
            raise InputError(
                f"{config} names an attention kernel on the hub ({settings[name]}), which vnait does not "
                f"load; remove {name} from it."
            )
