"""The settings of a model."""

from typing import Any

from transformers import PreTrainedConfig

from vnait.shared.errors import InputError

MAX_LAYERS = 1_000  # at most: a number in a file of others must not take hours
FORMAT = 9  # of a saved model; another number is refused rather than misread


class VnaitConfig(PreTrainedConfig):
    """Settings of a model. Names as in `BertConfig` where it has one.

    method          a name in `vnait.METHODS`
    vector_size     width of the semantic vectors (0: `hidden_size`); if they differ, a projection is learned
    intermediate_size   hidden width of the feedforward layers (0: twice `hidden_size`)
    tune_vectors    whether the semantic vectors are trained
    max_length      longest text in tokens, for methods with a table
    mean_length     mean training length in tokens (n0 of the log-length scale)
    shape           sizes of the grid, in reading order, for grid-*; -1 first for any number of rows
    periods         in tokens, for phase
    unk_token_id    the id of unknown words, left out of a text's mean
    bos_token_id, eos_token_id   with which a text that `VnaitForCausalLM` writes begins and ends
    one_hot_terms   of the linear part, if that is of words at their places; 0: it is a bag of words
    use_cache       whether `VnaitForCausalLM` returns a cache if not asked; `generate` has one anyway
    smoothness      gamma1 of the regularizer of a learned `Span`;  boundary: gamma2
    muting          gamma3, of the prior that every token counts, for `Elastic`; training sets it to 24 / N
                    for N texts

    >>> VnaitConfig(method="sinusoidal", hidden_size=32).vector_size
    32
    """

    model_type = "vnait"

    method: str = "vnait"
    vocab_size: int = 30_522
    hidden_size: int = 96
    vector_size: int = 0
    num_hidden_layers: int = 2
    num_attention_heads: int = 4
    intermediate_size: int = 0
    dropout: float | int = 0.1
    max_length: int = 512
    mean_length: float | int = 24.0
    shape: tuple[int, ...] | list[int] = (-1, 16)
    periods: tuple[float | int, ...] | list[float | int] = (8.0, 64.0)
    tune_vectors: bool = True
    smoothness: float | int = 0.1
    boundary: float | int = 0.1
    muting: float | int = 0.0
    pad_token_id: int | None = 0
    unk_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    one_hot_terms: int = 0
    use_cache: bool = False
    tie_word_embeddings: bool = True
    vnait_format: int = FORMAT

    @classmethod
    def register_for_auto_class(cls, auto_class: Any = "AutoConfig") -> None:
        """Nothing: see `VnaitPreTrainedModel.register_for_auto_class`."""

    def __post_init__(self, **kwargs: Any) -> None:
        """Fill in the widths that follow from others, and refuse a format that this version can't read."""
        if self.vnait_format != FORMAT:
            raise InputError(
                f"this model is of format {self.vnait_format}, and this vnait reads format {FORMAT}; load it "
                "with the vnait that saved it, or train it again."
            )
        if not isinstance(self.method, str):
            raise InputError(
                f"method is a {type(self.method).__name__}; a configuration has the name of one. Add it to "
                "vnait.METHODS as a Recipe, and give its name."
            )
        if self.num_hidden_layers > MAX_LAYERS:
            layers = f"{self.num_hidden_layers:,}; expected {MAX_LAYERS:,} at most."
            raise InputError(f"num_hidden_layers is {layers}")
        if self.num_attention_heads < 1:
            raise InputError(f"num_attention_heads is {self.num_attention_heads}; expected at least 1.")
        self.vector_size = self.vector_size or self.hidden_size
        self.intermediate_size = self.intermediate_size or 2 * self.hidden_size
        super().__post_init__(**kwargs)
