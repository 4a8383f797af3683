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


def window_of(config: Any, layer: int, both: bool = False, kind: str | None = None) -> int | None:
    """How many places before it a token of a layer reads, and after it in a model that reads both ways.

    None if the configuration declares no window for it. kind: the type of a layer that keeps its own.

    >>> from transformers import MistralConfig
    >>> window_of(MistralConfig(sliding_window=8), 0)
    7
    """
    kinds = _kinds(config)
    known = kind or kinds[layer] if kinds else None
    local = known in ("sliding_attention", "local") if kinds else config.model_type in WINDOWED
    width = getattr(config, "sliding_window", None) or getattr(config, "window_size", None)
    if (wide := getattr(config, "attention_window", None)) and not config.is_encoder_decoder:
        return (wide[layer] if isinstance(wide, list) else wide) // 2  # Longformer's, half of it on each side
    if not local or not isinstance(width, int) or not getattr(config, "use_sliding_window", True):
        return None
    # In both directions a window is the neighbours on each side; else, and in Gemma's, the token counts too.
    return width if both and not getattr(config, "use_bidirectional_attention", None) else width - 1


def windows_of_layers(config: Any) -> list[int | None]:
    """`window_of` for each layer.

    >>> from transformers import Gemma2Config
    >>> windows_of_layers(Gemma2Config(num_hidden_layers=2, sliding_window=8))
    [7, None]
    """
    kinds = _kinds(config)
    return [window_of(config, layer) for layer in range(len(kinds) if kinds else config.num_hidden_layers)]


def _kinds(config: Any) -> list[str] | None:
    """The type of each layer, if it is declared."""
    return getattr(config, "layer_types", None) or getattr(config, "attention_layers", None)


def order_within(window: int | None) -> list[int]:
    """Another order of six tokens that leaves in the last one's window the tokens that are there.

    >>> order_within(None), order_within(3)
    ([3, 0, 4, 2, 1, 5], [0, 1, 4, 3, 2, 5])
    """
    if window is None or window >= len(ORDER) - 1:
        return ORDER
    last = len(ORDER) - 1
    return [*range(last - window), *reversed(range(last - window, last)), last]


def chunk_of(config: Any, layer: int) -> int | None:
    """How many tokens are in a chunk of a layer that reads within chunks; None of other layers.

    >>> from transformers import Llama4TextConfig
    >>> chunk_of(Llama4TextConfig(attention_chunk_size=16), 0)
    16
    """
    kinds = getattr(config, "layer_types", None) or ()
    chunked = layer < len(kinds) and kinds[layer] == "chunked_attention"
    return getattr(config, "attention_chunk_size", None) if chunked else None
