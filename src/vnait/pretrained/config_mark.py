"""A mark in a model's configuration, so that `from_pretrained` refuses a folder saved with a method inside.

It would drop weights that it does not know with a mere warning. It does refuse a `quantization_config`
without a `quant_method`, the only entry of config.json that every class checks before loading.
"""

from __future__ import annotations

from transformers import PreTrainedConfig

from vnait.errors import InputError

MARK = {
    "attached_by": "vnait",
    "why": "a positional method is in this model, and from_pretrained can't put it there",
    "how_to_load": "save it again: vnait.pretrained.save_adapter, vnait.detach, then save_pretrained for "
    "the base; load the base, then vnait.pretrained.load_adapter",
}


def mark(config: PreTrainedConfig) -> None:
    """Make `from_pretrained` refuse what is saved from now on."""
    config.quantization_config = MARK


def unmark(config: PreTrainedConfig) -> bool:
    """Remove the mark; return whether there was one."""
    marked = getattr(config, "quantization_config", None) == MARK
    if marked:
        del config.quantization_config
    return marked


def check_unmarked(*configs: PreTrainedConfig) -> None:
    """Refuse quantized bases, whose weights no method can start from; nobody has tried."""
    if any(getattr(config, "quantization_config", None) not in (None, MARK) for config in configs):
        raise InputError("the model is quantized, which attach was never tried on; load it unquantized.")
