"""The models: semantic vectors, a positional method and a standard encoder, as transformers' `PreTrainedModel`s."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.modeling_outputs import (
    BaseModelOutput,
    MaskedLMOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.utils import can_return_tuple

from vnait.backbone import Encoder
from vnait.coordinates.sources import ZeroLinear
from vnait.errors import InputError
from vnait.methods import build

FORMAT = 2  # of a saved model; another number is refused rather than misread

Ids = Int[Tensor, "B T"] | None
Embeds = Float[Tensor, "B T D"] | None
Places = Float[Tensor, "B T P"] | None
AnyMask = Int[Tensor, "B T"] | Bool[Tensor, "B T"] | Float[Tensor, "B T"] | None


class VnaitConfig(PreTrainedConfig):
    """Settings of a model. Names as in `BertConfig` where it has one.

    method          a name in `vnait.METHODS`
    vector_size     width of the semantic vectors (0: `hidden_size`); a learned projection joins the two where they differ
    intermediate_size   hidden width of the feedforward layers (0: twice `hidden_size`)
    tune_vectors    whether the semantic vectors are trained
    max_length      longest text in tokens, for methods with a table
    mean_length     mean training length in tokens (n0 of the log-length scale)
    shape           sizes of the grid, in reading order, for grid-*; -1 first for any number of rows
    periods         in tokens, for phase
    smoothness      gamma1 of the coordinates' regularizer;  boundary: gamma2

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
    pad_token_id: int | None = 0
    tie_word_embeddings: bool = True
    vnait_format: int = FORMAT

    def __post_init__(self, **kwargs: Any) -> None:
        """Fill in the widths that follow from others, and refuse a format that this version can't read."""
        if self.vnait_format != FORMAT:
            raise InputError(
                f"this model is of format {self.vnait_format}, and this vnait reads format {FORMAT}; "
                "load it with the vnait it was saved by, or train it again."
            )
        self.vector_size = self.vector_size or self.hidden_size
        self.intermediate_size = self.intermediate_size or 2 * self.hidden_size
        super().__post_init__(**kwargs)


class VnaitPreTrainedModel(PreTrainedModel):
    """Loading and saving, for all models of this family."""

    config_class = VnaitConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = False
    _supports_sdpa = True

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        _reset(module)


class VnaitModel(VnaitPreTrainedModel):
    """The encoder: ids (B, T) -> e -> the positional method -> blocks -> (B, T, D).

    Without `attention_mask`, every id that is not the padding id is a real token. `places` (B, T, P) are known places of the tokens,
    as timestamps or rows and columns, for methods that take them; without them tokens are counted.

    >>> VnaitModel(VnaitConfig(vocab_size=10))(torch.tensor([[3, 4, 5]])).last_hidden_state.shape
    torch.Size([1, 3, 96])
    """

    def __init__(self, config: VnaitConfig) -> None:
        super().__init__(config)
        self.vectors: nn.Module = SemanticVectors(
            config.vocab_size, config.vector_size, padding_idx=config.pad_token_id
        )
        self.vectors.requires_grad_(config.tune_vectors)
        same = config.vector_size == config.hidden_size
        self.project = nn.Identity() if same else nn.Linear(config.vector_size, config.hidden_size, bias=False)
        self.method = build(
            config.method,
            dim=config.hidden_size,
            num_heads=config.num_attention_heads,
            max_length=config.max_length,
            mean_length=config.mean_length,
            shape=config.shape,
            periods=config.periods,
        )
        self.encoder = Encoder(
            dim=config.hidden_size,
            num_heads=config.num_attention_heads,
            intermediate=config.intermediate_size,
            num_layers=config.num_hidden_layers,
            dropout=config.dropout,
        )
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """The table of semantic vectors."""
        return self.vectors

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Put another table in its place."""
        self.vectors = value

    @can_return_tuple
    def forward(
        self,
        input_ids: Ids = None,
        attention_mask: AnyMask = None,
        inputs_embeds: Embeds = None,
        places: Places = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
    ) -> BaseModelOutput:
        """`last_hidden_state` (B, T, D); on request all states, and the attention weights with bias and scale in them."""
        return self.encode(
            input_ids, attention_mask, inputs_embeds, places, output_hidden_states, output_attentions
        ).output

    def encode(
        self,
        input_ids: Ids = None,
        attention_mask: AnyMask = None,
        inputs_embeds: Embeds = None,
        places: Places = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
    ) -> Encoded:
        """`forward`, with what a head needs besides."""
        vectors, mask = self.semantics(input_ids, attention_mask, inputs_embeds)
        x, injection, _ = self.method(vectors, mask, places)
        states = self.encoder.trace(x, injection, mask)
        weights = self.config.output_attentions if output_attentions is None else output_attentions
        output = BaseModelOutput(
            last_hidden_state=states[-1],
            hidden_states=tuple(states) if output_hidden_states or self.config.output_hidden_states else None,
            attentions=tuple(self.encoder.weights(states, injection, mask)) if weights else None,
        )
        return Encoded(output, vectors, mask)

    def semantics(
        self, input_ids: Ids, attention_mask: AnyMask, inputs_embeds: Embeds
    ) -> tuple[Float[Tensor, "B T D"], Bool[Tensor, "B T"]]:
        """e (B, T, D) and the mask of real tokens."""
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds, and not both.")
        embeds: Tensor = self.vectors(input_ids) if inputs_embeds is None else inputs_embeds
        if attention_mask is not None:
            mask = attention_mask.bool()
        elif input_ids is not None and self.config.pad_token_id is not None:
            mask = input_ids != self.config.pad_token_id
        else:
            mask = torch.ones(embeds.shape[:2], dtype=torch.bool, device=embeds.device)
        return self.project(embeds), mask

    def penalty(self, encoded: Encoded) -> Float[Tensor, ""]:
        """The regularizer of the coordinates (SPEC section 6)."""
        settings = self.config
        return self.method.penalty(encoded.vectors, encoded.mask, smooth=settings.smoothness, bound=settings.boundary)


class Encoded(NamedTuple):
    """A batch after the encoder: its output, the semantic vectors it came from, and its real tokens."""

    output: BaseModelOutput
    vectors: Float[Tensor, "B T D"]
    mask: Bool[Tensor, "B T"]


class SemanticVectors(nn.Embedding):
    """e_i = table[w_i]. A new table is normal with root mean square 1, the scale that loaded vectors are brought to."""

    def reset_parameters(self) -> None:
        """Normal rows; zero at padding."""
        nn.init.normal_(self.weight)
        if self.padding_idx is not None:
            with torch.no_grad():
                self.weight[self.padding_idx].zero_()


class VnaitForSequenceClassification(VnaitPreTrainedModel):
    """One answer a text, from the mean over its real tokens: classes, or numbers with problem_type="regression".

    logits = classifier(mean of the last states) + average(mean of the semantic vectors). `average` starts at zero and takes no part in
    gradient descent: `vnait.train.fit` sets it to a logistic regression.
    """

    def __init__(self, config: VnaitConfig) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.model = VnaitModel(config)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.average = ZeroLinear(config.hidden_size, config.num_labels).requires_grad_(False)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Ids = None,
        attention_mask: AnyMask = None,
        inputs_embeds: Embeds = None,
        labels: Tensor | None = None,
        places: Places = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
    ) -> SequenceClassifierOutput:
        """`logits` (B, labels), and `loss` (task + regularizer) where labels (B,) are given."""
        encoded = self.model.encode(
            input_ids, attention_mask, inputs_embeds, places, output_hidden_states, output_attentions
        )
        output = encoded.output
        mean = mean_of(output.last_hidden_state, encoded.mask)
        logits = self.classifier(self.dropout(mean)) + self.average(mean_of(encoded.vectors, encoded.mask))
        loss = None
        if labels is not None:
            task = self.loss_function(logits=logits, labels=labels, pooled_logits=logits, config=self.config)
            loss = task + self.model.penalty(encoded)
        return SequenceClassifierOutput(
            loss=loss, logits=logits, hidden_states=output.hidden_states, attentions=output.attentions
        )


def mean_of(states: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B D"]:
    """The mean over the real tokens.

    >>> mean_of(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([[True, True, False]]))
    tensor([[2.]])
    """
    real = mask[..., None].to(states.dtype)
    return (states * real).sum(1) / real.sum(1)


class VnaitForTokenClassification(VnaitPreTrainedModel):
    """One label a token. Labels of -100 are left out of the loss."""

    def __init__(self, config: VnaitConfig) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.model = VnaitModel(config)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Ids = None,
        attention_mask: AnyMask = None,
        inputs_embeds: Embeds = None,
        labels: Tensor | None = None,
        places: Places = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
    ) -> TokenClassifierOutput:
        """`logits` (B, T, labels), and `loss` (task + regularizer) where labels (B, T) are given."""
        encoded = self.model.encode(
            input_ids, attention_mask, inputs_embeds, places, output_hidden_states, output_attentions
        )
        output = encoded.output
        logits = self.classifier(self.dropout(output.last_hidden_state))
        loss = None
        if labels is not None:
            task = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
            loss = task + self.model.penalty(encoded)
        return TokenClassifierOutput(
            loss=loss, logits=logits, hidden_states=output.hidden_states, attentions=output.attentions
        )


class VnaitForMaskedLM(VnaitPreTrainedModel):
    """The masked words. The output table is the table of semantic vectors (tied)."""

    _tied_weights_keys = {"decoder.weight": "model.vectors.weight"}  # noqa: RUF012  transformers reads it off the class

    def __init__(self, config: VnaitConfig) -> None:
        super().__init__(config)
        self.model = VnaitModel(config)
        self.transform = nn.Sequential(
            nn.Linear(config.hidden_size, config.vector_size), nn.GELU(), nn.LayerNorm(config.vector_size)
        )
        self.decoder: nn.Module = nn.Linear(config.vector_size, config.vocab_size)
        self.post_init()

    def get_output_embeddings(self) -> nn.Module:
        """The tied table."""
        return self.decoder

    def set_output_embeddings(self, value: nn.Module) -> None:
        """Put another table in its place."""
        self.decoder = value

    @can_return_tuple
    def forward(
        self,
        input_ids: Ids = None,
        attention_mask: AnyMask = None,
        inputs_embeds: Embeds = None,
        labels: Tensor | None = None,
        places: Places = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
    ) -> MaskedLMOutput:
        """`logits` (B, T, vocabulary), and `loss` where labels (B, T) are given (-100: not asked)."""
        encoded = self.model.encode(
            input_ids, attention_mask, inputs_embeds, places, output_hidden_states, output_attentions
        )
        output = encoded.output
        # Rows of the table have a root mean square of 1: without the root, logits would start sqrt(D) too large.
        logits = self.decoder(self.transform(output.last_hidden_state) / self.config.vector_size**0.5)
        loss = None
        if labels is not None:
            task = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
            loss = task + self.model.penalty(encoded)
        return MaskedLMOutput(
            loss=loss, logits=logits, hidden_states=output.hidden_states, attentions=output.attentions
        )


def seed_weights(model: nn.Module, seed: int) -> None:
    """Start every module from (seed, its name) alone, so that two methods' shared parts start equal whatever else they hold."""
    with torch.random.fork_rng(devices=[]):
        for name, module in reversed(list(model.named_modules())):  # of tied weights, the first owner has the last word
            torch.manual_seed(zlib.crc32(f"{seed}/{name}".encode()))
            _reset(module)


def _reset(module: nn.Module) -> None:
    reset = getattr(module, "reset_parameters", None)
    if callable(reset):
        reset()


def load_classifier(folder: str | Path) -> VnaitForSequenceClassification:
    """The classifier saved in a folder, or an `InputError` that says what is wrong with the folder."""
    folder = Path(folder)
    settings = _settings(folder)
    if settings.get("model_type") != "vnait" or settings.get("architectures") != ["VnaitForSequenceClassification"]:
        raise InputError(f"{folder} holds no vnait classifier (its config.json says {settings.get('architectures')}).")
    try:
        model, info = VnaitForSequenceClassification.from_pretrained(
            folder, output_loading_info=True, local_files_only=True
        )
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"{folder} is damaged: {_first_line(error)}. Save the model again, or train it again."
        ) from error
    if info["missing_keys"] or info["unexpected_keys"] or info["mismatched_keys"]:
        keys = sorted([*info["missing_keys"], *info["unexpected_keys"]])[:3]
        raise InputError(f"{folder} is damaged: its weights don't fit its config.json (for one, {', '.join(keys)}).")
    return model.eval()


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        raise InputError(
            f"{folder} is no saved model: it has no config.json. Give the folder that `vnait train --out` made."
        )
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is damaged: {_first_line(error)}.") from error
    return settings if isinstance(settings, dict) else {}


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


AutoConfig.register("vnait", VnaitConfig)
AutoModel.register(VnaitConfig, VnaitModel)
AutoModelForMaskedLM.register(VnaitConfig, VnaitForMaskedLM)
AutoModelForSequenceClassification.register(VnaitConfig, VnaitForSequenceClassification)
AutoModelForTokenClassification.register(VnaitConfig, VnaitForTokenClassification)
