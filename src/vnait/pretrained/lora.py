"""LoRA: adapters of some MB that learn in place of a pretrained base's own weights, by peft."""

from __future__ import annotations

import ctypes
import logging
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoConfig, PreTrainedModel
from transformers.pytorch_utils import Conv1D

from vnait.pretrained.attach.files import is_attached
from vnait.pretrained.changing import mark, unmark
from vnait.pretrained.loading import from_pretrained
from vnait.shared.errors import InputError, extra
from vnait.shared.files import fingerprint
from vnait.shared.quiet import logger_at

FOLDER = "lora"  # in the folder of a fine-tuned base
LEARNED = "learned.safetensors"  # in a checkpoint
RANK = 8
LARGE = 2**20  # bytes of a block
_MMAP_THRESHOLD = -3  # the option's number in malloc.h
# Names that transformers will change.
_quiet = partial(warnings.catch_warnings, action="ignore", category=FutureWarning)


def add_lora(model: PreTrainedModel) -> None:
    """Put adapters at all linear layers of the base, and freeze it; its head, and what is attached, learn as
    they are. Gradient checkpointing keeps the memory near that of the weights.
    """
    with extra("lora"):
        from peft import LoraConfig, get_peft_model
    _give_blocks_back()
    learns = [weight for name, weight in _attached(model) if weight.requires_grad]
    parts = {name: part for name, part in model.named_children() if part is not model.base_model}
    heads = [name for name, part in parts.items() if next(part.parameters(), None) is not None]
    layers = [
        name
        for name, part in model.base_model.named_modules(prefix=model.base_model_prefix)
        if isinstance(part, nn.Linear | Conv1D) and not is_attached(name)
    ]
    config = LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules=layers, modules_to_save=heads)
    with _quiet():
        _hold(model, get_peft_model(model, config))
    for weight in learns:
        weight.requires_grad_()
    if model.supports_gradient_checkpointing:
        model.config.use_cache = False
        with _quiet():
            model.gradient_checkpointing_enable({"use_reentrant": False})


def has_lora(model: nn.Module) -> bool:
    """Whether `add_lora` changed it."""
    return "lora" in vars(model)


def learned(model: nn.Module) -> dict[str, Tensor]:
    """The state dict, of a model with adapters without the weights that stay as they are."""
    state = model.state_dict()
    if not has_lora(model):
        return state
    return {name: state[name] for name, weight in model.named_parameters() if weight.requires_grad}


def save_states_without_base(accelerator: Any, model: nn.Module) -> None:
    """Let accelerate's checkpoints have the weights that learn, and no copy of those that stay."""

    def save(models: list[Any], weights: list[Any], folder: str) -> None:
        weights.clear()
        save_file(
            {name: value.contiguous() for name, value in learned(model).items()}, Path(folder) / LEARNED
        )

    def load(models: list[Any], folder: str) -> None:
        models.clear()
        model.load_state_dict(load_file(Path(folder) / LEARNED), strict=False)

    accelerator.register_save_state_pre_hook(save)
    accelerator.register_load_state_pre_hook(load)


def save_lora(model: PreTrainedModel, folder: Path, base: Path, source: str) -> dict[str, Any]:
    """Write the adapters, as peft reads them, and the configuration; return notes of the base."""
    vars(model)["lora"][0].save_pretrained(folder)
    unmarked = unmark(model.config)
    try:
        model.config.save_pretrained(base)
    finally:
        if unmarked:
            mark(model.config)
    path = Path(source)
    return {"base": str(path.resolve()) if path.exists() else source, "fingerprint": fingerprint(source)}


def load_base(kind: Any, folder: Path, notes: dict[str, Any]) -> PreTrainedModel:
    """The base that the adapters are for, with a new head; `InputError` if it is gone or has changed."""
    source = notes["base"]
    if fingerprint(source) != notes["fingerprint"]:
        raise InputError(
            f"the adapters in {folder.parent} are for the base {source}, which is gone or has changed; put "
            "it there again."
        )
    with logger_at("transformers", logging.ERROR):  # which would warn of the head
        model: PreTrainedModel = from_pretrained(kind, source, config=from_pretrained(AutoConfig, folder))
    return model


def load_lora(model: PreTrainedModel, folder: Path) -> None:
    """Put saved adapters into their base; OSError if there are none."""
    if not folder.is_dir():  # peft would look for it on the hub
        raise FileNotFoundError(f"there is no folder {folder.name}")
    with extra("lora"):
        from peft import PeftModel
    with _quiet():
        _hold(model, PeftModel.from_pretrained(model, str(folder)))


def _give_blocks_back() -> None:
    """Let glibc give each large block back to the system as it is freed. By default it learns to keep them,
    and what a step holds between them doubles the memory of the weights.
    """
    with suppress(OSError, AttributeError, TypeError):  # another libc
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, LARGE)


def _hold(model: nn.Module, wrapped: Any) -> None:
    """peft's model is around the base, which is in use; it is kept for saving, but as no part of the base."""
    vars(model)["lora"] = (wrapped,)


def _attached(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    return ((name, weight) for name, weight in model.named_parameters() if is_attached(name))
