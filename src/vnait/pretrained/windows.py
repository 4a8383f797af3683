"""Which places a token of a pretrained model reads, by its configuration."""

from typing import Any

# Whose `sliding_window` is that of all layers; others without types of layers do not read it.
WINDOWED = (
    "ministral3",
    "mistral",
    "mixtral",
    "phi3",
    "phi4_multimodal",
    "phimoe",
    "qwen3_moe",
    "starcoder2",
)
ORDER = [3, 0, 4, 2, 1, 5]  # of six tokens; the last one stays


def reads_both_ways(config: Any) -> bool:
    """Whether the configuration of a decoder's body has it read in both directions.

    >>> from transformers import LlamaConfig
    >>> reads_both_ways(LlamaConfig(is_causal=False)), reads_both_ways(LlamaConfig())
    (True, False)
    """
    both = getattr(config, "use_bidirectional_attention", None) in (True, "all")
    return both or getattr(config, "is_causal", None) is False


def window_of(config: Any, layer: int, both: bool = False) -> int | None:
    """How many places before it a token of a layer reads, and after it in a model that reads both ways.

    None if the configuration declares no window for it.

    >>> from transformers import MistralConfig
    >>> window_of(MistralConfig(sliding_window=8), 0)
    7
    """
    kinds = getattr(config, "layer_types", None) or getattr(config, "attention_layers", None)
    local = config.model_type in WINDOWED if kinds is None else kinds[layer] in ("sliding_attention", "local")
    width = getattr(config, "sliding_window", None) or getattr(config, "window_size", None)
    if not local or not isinstance(width, int) or not getattr(config, "use_sliding_window", True):
        return None
    # In both directions a window is the neighbours on each side; else, and in Gemma's, the token counts too.
    return width if both and not getattr(config, "use_bidirectional_attention", None) else width - 1


def order_within(window: int | None) -> list[int]:
    """Another order of six tokens that leaves in the last one's window the tokens that are there.

    >>> order_within(None), order_within(3)
    ([3, 0, 4, 2, 1, 5], [0, 1, 4, 3, 2, 5])
    """
    if window is None or window >= len(ORDER) - 1:
        return ORDER
    last = len(ORDER) - 1
    return [*range(last - window), *reversed(range(last - window, last)), last]
