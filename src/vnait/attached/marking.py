"""A mark in a model's configuration, so that a folder saved with a method in it is never loaded without one, and without a word.

`from_pretrained` would drop weights that it does not know with a warning. It refuses a `quantization_config` without a `quant_method`,
the one entry of config.json that every class checks before it loads; hence the mark stands there.
"""

from __future__ import annotations

from transformers import PreTrainedConfig

from vnait.errors import InputError

MARK = {
    "attached_by": "vnait",
    "why": "a positional method is in this model, and from_pretrained can't put it there",
    "how_to_load": "save it again: vnait.attached.save_adapter, vnait.detach, then save_pretrained for the base; load the base, then "
    "vnait.attached.load_adapter",
}


def mark(config: PreTrainedConfig) -> None:
    """From now on, what is saved is refused by `from_pretrained`."""
    config.quantization_config = MARK


def unmark(config: PreTrainedConfig) -> bool:
    """As before; whether there was a mark."""
    marked = getattr(config, "quantization_config", None) == MARK
    if marked:
        del config.quantization_config
    return marked


def check_unmarked(*configs: PreTrainedConfig) -> None:
    """A base that is quantized is refused: its weights are none that a method could start from, and no one has tried."""
    if any(getattr(config, "quantization_config", None) not in (None, MARK) for config in configs):
        raise InputError("the model is quantized, which attach was never tried on; load it unquantized.")
