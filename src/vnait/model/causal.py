"""The language model that reads from left to right and generates, `VnaitForCausalLM`, and what its cache has
for a causal method, which then goes on where it was.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers import DynamicCache, GenerationConfig, GenerationMixin
from transformers.cache_utils import (
    Cache,
    CacheLayerMixin,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    StaticLayer,
)
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.utils import can_return_tuple

from vnait.model.configuration import VnaitConfig
from vnait.model.encoder import AnyMask, Embeds, Encoded, Ids, PositionIds, TiedDecoder, VnaitModel
from vnait.model.packing import packing
from vnait.positions.method import Method, MethodOutput
from vnait.shared.errors import InputError

Vectors = Float[Tensor, "B T D"]
Mask = Bool[Tensor, "B T"]


class VnaitForCausalLM(TiedDecoder, GenerationMixin):
    """The next word: p(w_{i+1} | w_1 ... w_i). The output table is the table of semantic vectors (tied).

    For causal methods only; each token sees itself and the tokens before it. A cache changes no result, nor
    does padding on the left: `generate()` writes the same.

    >>> model = VnaitForCausalLM(VnaitConfig(method="vnait-causal", vocab_size=10)).eval()
    >>> model.generate(torch.tensor([[3, 4, 5]]), max_new_tokens=2, min_new_tokens=2, do_sample=False).shape
    torch.Size([1, 5])
    """

    def __init__(self, config: VnaitConfig) -> None:
        super().__init__(config)
        self.model = VnaitModel(config)
        if not self.model.method.causal:
            raise InputError(
                f"{config.method} lets a token depend on what follows it, and VnaitForCausalLM reads from "
                "left to right; take a causal method, such as vnait-causal."
            )
        same = config.vector_size == config.hidden_size
        self.narrow = nn.Identity() if same else nn.Linear(config.hidden_size, config.vector_size, bias=False)
        self.decoder: nn.Module = nn.Linear(config.vector_size, config.vocab_size, bias=False)
        # Else transformers takes `max_length`, the size of tables, as the length to generate.
        self.generation_config = GenerationConfig(
            pad_token_id=config.pad_token_id,
            bos_token_id=config.bos_token_id,
            eos_token_id=config.eos_token_id,
        )
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Ids = None,
        attention_mask: AnyMask = None,
        inputs_embeds: Embeds = None,
        labels: Tensor | None = None,
        past_key_values: Cache | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        position_ids: PositionIds = None,
        shift_labels: Tensor | None = None,
    ) -> CausalLMOutputWithPast:
        """`logits` (B, T, vocabulary) of the next words, of the last `logits_to_keep` tokens (0: of all) or
        of the tokens with these indices, and `loss` if labels (B, T) are given: the ids themselves; -100 is
        left out. `shift_labels` (B, T) are the next words, and take the place of labels.

        attention_mask (B, past + T) has the tokens in the cache first. position_ids (B, T) that start again
        at 0 within a row begin another text there (packing): each is read alone.
        """
        replayed = self.training and self.model.encoder.blocks[0].gradient_checkpointing
        if (
            past_key_values is None
            and not replayed
            and (self.config.use_cache if use_cache is None else use_cache)
        ):
            past_key_values = DynamicCache(config=self.config)
        if past_key_values is not None and replayed:
            raise InputError(
                "a cache was given, and gradient checkpointing can't be used with a cache; train without one."
            )
        encoded = self.read(
            input_ids,
            attention_mask,
            inputs_embeds,
            past_key_values,
            output_hidden_states,
            output_attentions,
            position_ids,
        )
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.decode(self.narrow(encoded.output.last_hidden_state[:, kept]))
        loss = None
        if labels is not None or shift_labels is not None:
            shifted = None if shift_labels is None else shift_labels.contiguous()
            task = self.loss_function(
                logits=logits, labels=labels, vocab_size=self.config.vocab_size, shift_labels=shifted
            )
            loss = task + self.model.penalty(encoded)
        return CausalLMOutputWithPast(
            loss=loss,
            logits=logits,
            past_key_values=past_key_values,
            hidden_states=encoded.output.hidden_states,
            attentions=encoded.output.attentions,
        )

    def read(
        self,
        input_ids: Ids,
        attention_mask: AnyMask,
        inputs_embeds: Embeds,
        cache: Cache | None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        position_ids: PositionIds = None,
    ) -> Encoded:
        """The states of the new tokens, after those in the cache."""
        past = 0 if cache is None else int(cache.get_seq_length())
        given = None if past else attention_mask
        vectors, new = self.model.semantics(input_ids, given, inputs_embeds, position_ids)
        if past and attention_mask is not None:
            if attention_mask.shape[1] != past + vectors.shape[1]:
                raise InputError(
                    f"the attention_mask has {attention_mask.shape[1]} tokens, for {past} in the cache and "
                    f"{vectors.shape[1]} new ones; give one number per token, those in the cache first."
                )
            new = attention_mask[:, past:].bool()
        if cache is None:
            mask = new if attention_mask is None else attention_mask.bool()
            texts = packing(position_ids, mask)
            if texts is not None:
                vectors, mask = texts.unpack(vectors), texts.real
            x, injection, at = self.model.method(vectors, mask)
        else:
            located = words_of(cache).located(self.model.method, vectors, new, attention_mask)
            mask, (x, injection, at) = located
            texts = packing(_with_known(position_ids, mask, past), mask)
            if texts is not None:
                raise InputError(
                    "the position_ids pack several texts into a row, and a cache has one text per row; give "
                    "use_cache=False."
                )
        seen = causal_mask(mask, past)
        output = self.model.output(x, injection, seen, output_hidden_states, output_attentions, cache)
        if texts is None:
            return Encoded(output, at, mask)
        return Encoded(texts.repack(output), at, mask, packed=True)

    @staticmethod
    def create_masks_for_generate(*args: Any, attention_mask: Tensor | None, **kwargs: Any) -> Tensor | None:
        """The mask of tokens, also for a cache of fixed length: `forward` makes the causal one."""
        return attention_mask


def _with_known(position_ids: PositionIds, mask: Mask, past: int) -> PositionIds:
    """The position_ids of the new tokens after those of the `past` tokens in the cache."""
    if position_ids is None or past == 0:
        return position_ids
    known = mask.cumsum(1)[:, :past] - 1
    return torch.cat([known, position_ids.expand(len(mask), -1)], 1)


def causal_mask(mask: Bool[Tensor, "B T"], past: int = 0) -> Bool[Tensor, "B TQ T"]:
    """The tokens that each one after the first `past` sees: itself, even if padding, and real ones before.

    >>> causal_mask(torch.tensor([[False, True, True]]), past=1).int().tolist()
    [[[0, 1, 0], [0, 1, 1]]]
    """
    place = torch.arange(mask.shape[1], device=mask.device)
    before = place <= place[past:, None]
    return (before & mask[:, None]) | (place == place[past:, None])


def begun(mask: Mask) -> Mask:
    """The mask of texts so far; of one that has only its padding yet, the last token stands for it.

    >>> begun(torch.tensor([[False, False], [False, True]])).int().tolist()
    [[0, 1], [0, 1]]
    """
    last = torch.arange(mask.shape[1], device=mask.device) == mask.shape[1] - 1
    return mask | (last & ~mask.any(-1, keepdim=True))


class Words(DynamicLayer):
    """What a causal method knows of the text so far.

    keys     (B, 1, T, 1 + G), the mask and the method's gaps
    values   (B, 1, T, D), semantic vectors; D is 0 if the method reads none of earlier tokens
    """

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Each at its own precision."""
        super().lazy_initialization(key_states, value_states)
        self.values: Tensor = value_states[..., :0, :]

    def located(
        self, method: Method, vectors: Vectors, new: Mask, attention_mask: AnyMask
    ) -> tuple[Mask, MethodOutput]:
        """The mask of all tokens, and the method's output for the new ones; a cache changes neither."""
        past, lookback = self.get_seq_length(), method.lookback
        vectors = vectors.masked_fill(~new[..., None], 0)
        if lookback is None:  # the method has to read the whole text again
            whole, mask, _ = self.extend(vectors, new)
            mask = mask if attention_mask is None else attention_mask.bool()
            x, injection, at = method(whole, begun(mask))
            return mask, MethodOutput(x[:, past:], injection.since(past), at)
        before = self.values[:, 0, max(past - lookback, 0) :] if past and lookback else vectors[:, :0]
        seen = torch.cat([before, vectors], 1)
        gaps = method.gaps(seen, torch.ones_like(seen[..., 0], dtype=torch.bool))[:, before.shape[1] :]
        _, mask, gaps = self.extend(vectors if lookback else vectors[..., :0], new, gaps)
        mask = mask if attention_mask is None else attention_mask.bool()
        return mask, method.since(past, seen, begun(mask), gaps)

    def extend(
        self, vectors: Vectors, mask: Mask, gaps: Tensor | None = None
    ) -> tuple[Vectors, Mask, Tensor]:
        """Vectors, mask and gaps of all tokens, the new ones last."""
        if gaps is None:
            gaps = vectors.new_empty(*mask.shape, 0)
        axes = gaps.shape[2:]
        facts = torch.cat([mask[..., None].to(gaps.dtype), gaps.reshape(*mask.shape, -1)], -1)
        keys, values = self.update(facts[:, None], vectors[:, None])
        gaps = keys[:, 0, :, 1:].reshape(*keys.shape[::2], *axes)
        return values[:, 0], keys[:, 0, :, 0].bool(), gaps


class _WithWords(CacheLayerMixin):
    """A cache's layer with `words`, which are cropped, repeated and put in another order as its keys are."""

    words: Words

    def crop(self, tokens: int) -> None:
        super().crop(tokens)
        self.words.crop(tokens)

    def reset(self) -> None:
        super().reset()
        self.words = Words()  # early transformers 5 zeroes a layer, and keeps its length

    def reorder_cache(self, beam_idx: Tensor) -> None:
        super().reorder_cache(beam_idx)
        self.words.reorder_cache(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        super().batch_repeat_interleave(repeats)
        self.words.batch_repeat_interleave(repeats)

    def batch_select_indices(self, indices: Tensor) -> None:
        super().batch_select_indices(indices)
        self.words.batch_select_indices(indices)


def _with_words(kind: type[CacheLayerMixin]) -> type[_WithWords]:
    return type(f"{kind.__name__}WithWords", (_WithWords, kind), {})


# Made here, since torch.compile returns no instance of a class that was made in a graph.
CACHE_LAYERS = {kind: _with_words(kind) for kind in (DynamicLayer, DynamicSlidingWindowLayer, StaticLayer)}


def words_of(cache: Cache) -> Words:
    """What the cache knows of the text so far; its first layer stores it beside its keys."""
    if not cache.layers:  # a cache that grows on demand
        cache.layers.append(cache.layer_class_to_replicate())
    first: Any = cache.layers[0]
    if not isinstance(first, _WithWords):
        if past := int(cache.get_seq_length()):
            raise InputError(
                f"the cache has {past} tokens that were read before the method was attached; start with an "
                "empty cache."
            )
        if type(first) not in CACHE_LAYERS:
            CACHE_LAYERS[type(first)] = _with_words(type(first))
        kind: Any = CACHE_LAYERS[type(first)]
        layer = kind.__new__(kind)
        vars(layer).update(vars(first), words=Words())
        cache.layers[0] = first = layer
    words: Words = first.words
    return words
