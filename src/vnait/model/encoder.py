"""The encoder without a head: semantic vectors, a positional method and standard blocks."""

from __future__ import annotations

import zlib
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils import can_return_tuple

from vnait.model.auto_map import write_stub
from vnait.model.backbone import Encoder
from vnait.model.configuration import VnaitConfig
from vnait.positions.attention import AttentionMask
from vnait.positions.building import build
from vnait.positions.cache import AnyMask
from vnait.positions.coordinates.shared import Positions
from vnait.positions.injection import Injection
from vnait.positions.method import Method
from vnait.shared.errors import InputError
from vnait.shared.processes import loading
from vnait.shared.randomness import Draws

if TYPE_CHECKING:
    from transformers.cache_utils import Cache

Ids = Int[Tensor, "B T"] | None
Embeds = Float[Tensor, "B T D"] | None
PositionIds = Int[Tensor, "#B T"] | None


class VnaitPreTrainedModel(PreTrainedModel):
    """Loading and saving, for all models of this family."""

    config_class = VnaitConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _no_split_modules = ["Block"]  # noqa: RUF012  transformers reads it off the class

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *args: Any, **settings: Any) -> Any:
        """As in transformers, but frozen vectors stay frozen and a method's constants are computed again.

        transformers makes every loaded weight trainable, and leaves memory that no file fills uninitialized.
        """
        with loading():
            loaded = super().from_pretrained(pretrained_model_name_or_path, *args, **settings)
        model = loaded[0] if isinstance(loaded, tuple) else loaded  # a tuple with output_loading_info=True
        model.base_model.vectors.requires_grad_(model.config.tune_vectors)
        with Draws(0).everywhere():  # what is drawn is not taken
            _take_constants(model.base_model.method, model._new_method(model.config))
        return loaded

    @staticmethod
    def _new_method(config: VnaitConfig) -> Method:
        """The method of a new model of this class."""
        return _method(config)

    def save_pretrained(self, save_directory: Any, *args: Any, **settings: Any) -> None:
        """As in transformers; a folder whose configuration has an `auto_map` gets its file again."""
        super().save_pretrained(save_directory, *args, **settings)
        if getattr(self.config, "auto_map", None):
            write_stub(save_directory)

    @classmethod
    def register_for_auto_class(cls, auto_class: Any = "AutoModel") -> None:
        """Nothing: a model that was loaded by its `auto_map` must not copy its source into what it saves."""

    def _set_gradient_checkpointing(self, enable: bool = True, **settings: Any) -> None:
        # PyTorch's reentrant kind gives no gradient to what was learned for the injection, not a tensor.
        if "gradient_checkpointing_func" in settings:
            again = settings["gradient_checkpointing_func"]
            settings["gradient_checkpointing_func"] = partial(again, use_reentrant=False)
        super()._set_gradient_checkpointing(enable, **settings)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        # Early transformers 5 resets modules that a file has filled, and guards torch.nn.init alone.
        tensors = [*module.parameters(), *module.buffers()] if hasattr(module, "reset_parameters") else []
        loaded = [
            (tensor, tensor.clone()) for tensor in tensors if getattr(tensor, "_is_hf_initialized", False)
        ]
        _reset(module)
        for tensor, value in loaded:
            tensor.copy_(value)


class TiedDecoder(VnaitPreTrainedModel):
    """A language model whose output table is the table of semantic vectors."""

    _tied_weights_keys = {"decoder.weight": "model.vectors.weight"}  # noqa: RUF012  transformers reads it off the class
    decoder: nn.Module

    def get_output_embeddings(self) -> nn.Module:
        return self.decoder

    def set_output_embeddings(self, value: nn.Module) -> None:
        self.decoder = value

    def decode(self, states: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        """The logits of every word."""
        # Rows of the table have a root mean square of 1: without the root, logits start sqrt(D) too large.
        return self.decoder(states / self.config.vector_size**0.5)


class VnaitModel(VnaitPreTrainedModel):
    """The encoder: ids (B, T) -> e -> the positional method -> blocks -> (B, T, D).

    Without `attention_mask`, every id but the padding id is a real token. `positions` (B, T, P) are known
    ones, such as timestamps or rows and columns, for methods that take them; others count tokens.

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
        self.project = (
            nn.Identity() if same else nn.Linear(config.vector_size, config.hidden_size, bias=False)
        )
        self.method = _method(config)
        self.encoder = Encoder(
            dim=config.hidden_size,
            num_heads=config.num_attention_heads,
            intermediate=config.intermediate_size,
            num_layers=config.num_hidden_layers,
            dropout=config.dropout,
        )
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.vectors

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.vectors = value

    @can_return_tuple
    def forward(
        self,
        input_ids: Ids = None,
        attention_mask: AnyMask = None,
        inputs_embeds: Embeds = None,
        positions: Positions = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        position_ids: PositionIds = None,
    ) -> BaseModelOutput:
        """`last_hidden_state` (B, T, D); on request all states, and the attention weights.

        position_ids (B, T) may count the real tokens 0, 1, 2, ..., as the method does itself.
        """
        batch = Batch(
            input_ids=input_ids,
            attention_mask=attention_mask,
            inputs_embeds=inputs_embeds,
            positions=positions,
            position_ids=position_ids,
            output_hidden_states=output_hidden_states,
            output_attentions=output_attentions,
        )
        return self.read(batch).output

    def encode(
        self, input_ids: Ids = None, attention_mask: AnyMask = None, positions: Positions = None
    ) -> Encoded:
        """The texts' states, coordinates and mask."""
        return self.read(Batch(input_ids=input_ids, attention_mask=attention_mask, positions=positions))

    def read(self, batch: Batch) -> Encoded:
        """`forward`, and what a head needs."""
        vectors, mask = self.semantics(
            batch.input_ids, batch.attention_mask, batch.inputs_embeds, batch.position_ids
        )
        check_position_ids(batch.position_ids, mask)
        x, injection, at = self.method(vectors, mask, batch.positions)
        return Encoded(self.output(x, injection, mask, batch), at, mask, batch.positions)

    def output(
        self,
        x: Float[Tensor, "B T D"],
        injection: Injection,
        attention_mask: AttentionMask,
        batch: Batch,
        cache: Cache | None = None,
    ) -> BaseModelOutput:
        """The last states; all of them, and the attention weights, on request or if configured."""
        all_states, attentions = batch.output_hidden_states, batch.output_attentions
        if all_states is None:
            all_states = self.config.output_hidden_states
        if attentions is None:
            attentions = self.config.output_attentions
        weights: list[Tensor] | None = [] if attentions else None
        states = self.encoder.trace(x, injection, attention_mask, cache, weights)
        return BaseModelOutput(
            last_hidden_state=states[-1],
            hidden_states=tuple(states) if all_states else None,
            attentions=None if weights is None else tuple(weights),
        )

    def semantics(
        self,
        input_ids: Ids,
        attention_mask: AnyMask,
        inputs_embeds: Embeds,
        position_ids: PositionIds = None,
    ) -> tuple[Float[Tensor, "B T D"], Bool[Tensor, "B T"]]:
        """e (B, T, D) and the mask of real tokens."""
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds, and not both.")
        embeds: Tensor = self.vectors(input_ids) if inputs_embeds is None else inputs_embeds
        if attention_mask is not None:
            check_mask(attention_mask, embeds)
            mask = attention_mask.bool()
        elif input_ids is not None and self.config.pad_token_id is not None:
            mask = input_ids != self.config.pad_token_id
            if position_ids is not None:  # a padding id that was written, and counted, inside a text
                mask = mask | (position_ids > 0)
        else:
            mask = torch.ones(embeds.shape[:2], dtype=torch.bool, device=embeds.device)
        return self.project(embeds), mask

    def penalty(self, encoded: Encoded) -> Float[Tensor, ""]:
        """The regularizer of the coordinates, `Method.penalty`."""
        settings = self.config
        return self.method.penalty(
            encoded.at,
            encoded.mask,
            encoded.positions,
            smooth=settings.smoothness,
            bound=settings.boundary,
            mute=settings.muting,
        )


class Batch(NamedTuple):
    """What every `forward` is given, but for labels and a cache; its own arguments are one by one, since
    transformers' Trainer and pipelines read their names.

    input_ids, inputs_embeds                    exactly one of them
    attention_mask                              None: every id but the padding id is a real token
    positions                                   known positions, for methods that take them
    position_ids                                may count the real tokens, as methods do
    output_hidden_states, output_attentions     None: as configured
    """

    input_ids: Ids = None
    attention_mask: AnyMask = None
    inputs_embeds: Embeds = None
    positions: Positions = None
    position_ids: PositionIds = None
    output_hidden_states: bool | None = None
    output_attentions: bool | None = None


class Encoded(NamedTuple):
    """A batch after the encoder: its output, its coordinates, the mask of real tokens and known positions."""

    output: BaseModelOutput
    at: Float[Tensor, "B T C"]
    mask: Bool[Tensor, "B T"]
    positions: Positions = None


def check_mask(attention_mask: Tensor, tokens: Tensor) -> None:
    """Raise InputError unless the mask has a number for each token, of `tokens` (B, T) or (B, T, D)."""
    if attention_mask.shape != tokens.shape[:2]:
        raise InputError(
            f"the attention_mask has the shape {tuple(attention_mask.shape)}, for {tokens.shape[0]} texts of "
            f"{tokens.shape[1]} tokens; give (texts, tokens), 1 at real tokens and 0 at padding."
        )


def check_position_ids(position_ids: PositionIds, mask: Bool[Tensor, "B T"], past: int = 0) -> None:
    """Raise InputError unless the numbers of the tokens after the first `past` count the real ones of a row.

    A method counts tokens itself and would not read other numbers.
    """
    if position_ids is None:
        return
    counted, real = (mask.cumsum(1) - 1)[:, past:], mask[:, past:]
    numbers = position_ids.expand_as(real)
    wrong = real & (numbers != counted)
    if bool(wrong.any()):
        row, token = wrong.nonzero()[0].tolist()
        number = int(numbers[row, token])
        # Another text begins where the numbers start again at 0, as in a packed batch of transformers.
        remedy = "leave them out" if number else "give one text per row, and pad the shorter ones"
        if past and not mask[row, past - 1]:  # a prompt that was padded on the right
            remedy = "pad prompts on the left"
        raise InputError(
            f"the position_ids of row {row} have {number} at token {token}; they count 0, 1, 2, ... over the "
            f"real tokens of a row: {remedy}."
        )


class SemanticVectors(nn.Embedding):
    """e_i = table[w_i].

    A new table is normal with root mean square 1, the scale that loaded vectors are brought to.
    """

    def reset_parameters(self) -> None:
        """Normal rows; zero at padding."""
        nn.init.normal_(self.weight)
        if self.padding_idx is not None:
            with torch.no_grad():
                self.weight[self.padding_idx].zero_()


def seed_weights(model: nn.Module, seed: int) -> None:
    """Start every module from (seed, its name) only, so that the parts that two methods share start equal."""
    # Reversed: the first owner of tied weights sets them last.
    for name, module in reversed(list(model.named_modules())):
        with Draws(zlib.crc32(f"{seed}/{name}".encode())).everywhere():
            _reset(module)


def _method(config: VnaitConfig) -> Method:
    return build(
        config.method,
        dim=config.hidden_size,
        num_heads=config.num_attention_heads,
        max_length=config.max_length,
        mean_length=config.mean_length,
        shape=config.shape,
        periods=config.periods,
    )


def _take_constants(loaded: nn.Module, new: nn.Module) -> None:
    """Copy what no file has: unsaved buffers, tensors that are plain attributes, which weights are frozen."""
    for target, source in zip(loaded.modules(), new.modules(), strict=True):
        for name in source._non_persistent_buffers_set:
            if (buffer := getattr(source, name)) is not None:
                setattr(target, name, buffer.to(getattr(target, name).device))
        for name, value in vars(source).items():
            if isinstance(value, Tensor):
                setattr(target, name, value)
        for name, parameter in source.named_parameters(recurse=False):
            getattr(target, name).requires_grad_(parameter.requires_grad)


def _reset(module: nn.Module) -> None:
    reset = getattr(module, "reset_parameters", None)
    if callable(reset):
        reset()
