"""The language model that reads from left to right and generates, `VnaitForCausalLM`."""

from typing import Any

from torch import Tensor, nn
from transformers import DynamicCache, GenerationConfig, GenerationMixin
from transformers.cache_utils import Cache
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.utils import can_return_tuple

from vnait.model.configuration import VnaitConfig
from vnait.model.encoder import (
    Batch,
    Embeds,
    Encoded,
    Ids,
    PositionIds,
    TiedDecoder,
    VnaitModel,
    check_position_ids,
)
from vnait.positions.cache import AnyMask, causal_mask, words_of
from vnait.shared.errors import InputError


class VnaitForCausalLM(TiedDecoder, GenerationMixin):
    """The next word: p(w_{i+1} | w_1 ... w_i). The output table is the table of semantic vectors (tied).

    For causal methods only; each token sees itself and the tokens before it. A cache changes no result, nor
    does padding on the left: `generate()` writes the same.

    >>> import torch
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

        attention_mask (B, past + T) has the tokens in the cache first. position_ids (B, T) may count the
        real tokens 0, 1, 2, ..., as the method does itself.
        """
        # Blocks that are computed again in the backward pass would extend the cache again.
        replayed = self.training and self.model.encoder.blocks[0].gradient_checkpointing
        if past_key_values is not None and replayed:
            raise InputError(
                "a cache was given, and gradient checkpointing can't be used with a cache; train without one."
            )
        wanted = self.config.use_cache if use_cache is None else use_cache
        if past_key_values is None and wanted and not replayed:
            past_key_values = DynamicCache(config=self.config)
        batch = Batch(
            input_ids=input_ids,
            attention_mask=attention_mask,
            inputs_embeds=inputs_embeds,
            position_ids=position_ids,
            output_hidden_states=output_hidden_states,
            output_attentions=output_attentions,
        )
        encoded = self.read(batch, past_key_values)
        tokens = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.decode(self.narrow(encoded.output.last_hidden_state[:, tokens]))
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

    def read(self, batch: Batch, cache: Cache | None) -> Encoded:
        """The states of the new tokens, after those in the cache."""
        past = 0 if cache is None else int(cache.get_seq_length())
        attention_mask = batch.attention_mask
        # After a cache, the mask is longer than the new tokens, which `semantics` reads.
        vectors, new = self.model.semantics(
            batch.input_ids, None if past else attention_mask, batch.inputs_embeds, batch.position_ids
        )
        if past and attention_mask is not None:
            if attention_mask.shape[1] != past + vectors.shape[1]:
                raise InputError(
                    f"the attention_mask has {attention_mask.shape[1]} tokens, for {past} in the cache and "
                    f"{vectors.shape[1]} new ones; give one number per token, those in the cache first."
                )
            new = attention_mask[:, past:].bool()
        if cache is None:
            mask, (x, injection, at) = new, self.model.method(vectors, new)
        else:
            located = words_of(cache).located(self.model.method, vectors, new, attention_mask)
            mask, (x, injection, at) = located
        check_position_ids(batch.position_ids, mask, past)
        output = self.model.output(x, injection, causal_mask(mask, past), batch, cache)
        return Encoded(output, at, mask)

    @staticmethod
    def create_masks_for_generate(*args: Any, attention_mask: Tensor | None, **kwargs: Any) -> Tensor | None:
        """The mask of tokens, also for a cache of fixed length: `forward` makes the causal one."""
        return attention_mask
