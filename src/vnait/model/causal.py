"""The language model that reads from left to right, and writes: `VnaitForCausalLM`."""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor, nn
from transformers import DynamicCache, GenerationConfig, GenerationMixin
from transformers.cache_utils import Cache
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutputWithPast
from transformers.utils import can_return_tuple

from vnait.cache import remembered
from vnait.errors import InputError
from vnait.model.configuration import VnaitConfig
from vnait.model.encoder import AnyMask, Embeds, Encoded, Ids, VnaitModel, VnaitPreTrainedModel


class VnaitForCausalLM(VnaitPreTrainedModel, GenerationMixin):
    """The next word, from those so far. The output table is the table of semantic vectors (tied).

    Takes causal methods alone: p(w_{i+1} | w_1 ... w_i) with x_i = method(e)_i and each token seeing itself and what precedes it. With a
    cache, every token is told what it is told without one: `generate()` writes the same, in batches padded on the left too.

    >>> model = VnaitForCausalLM(VnaitConfig(method="vnait-causal", vocab_size=10)).eval()
    >>> model.generate(torch.tensor([[3, 4, 5]]), max_new_tokens=2, min_new_tokens=2, do_sample=False).shape
    torch.Size([1, 5])
    """

    _tied_weights_keys = {"decoder.weight": "model.vectors.weight"}  # noqa: RUF012  transformers reads it off the class

    def __init__(self, config: VnaitConfig) -> None:
        super().__init__(config)
        self.model = VnaitModel(config)
        if not self.model.method.causal:
            raise InputError(
                f"{config.method} tells a token what follows it, and VnaitForCausalLM reads from left to right; take a causal method, such "
                "as vnait-causal."
            )
        same = config.vector_size == config.hidden_size
        self.narrow = nn.Identity() if same else nn.Linear(config.hidden_size, config.vector_size, bias=False)
        self.decoder: nn.Module = nn.Linear(config.vector_size, config.vocab_size, bias=False)
        # transformers would take `max_length`, which sizes tables, for how much to write.
        self.generation_config = GenerationConfig(pad_token_id=config.pad_token_id)
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
        past_key_values: Cache | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int = 0,
    ) -> CausalLMOutputWithPast:
        """`logits` (B, T, vocabulary) of the next words, and `loss` where labels (B, T) are given: the ids themselves, -100 left out.

        attention_mask (B, past + T) has the tokens in the cache first; `logits_to_keep` last tokens alone, 0 for all.
        """
        if use_cache and past_key_values is None:
            past_key_values = DynamicCache(config=self.config)
        encoded = self.read(input_ids, attention_mask, inputs_embeds, past_key_values)
        states = encoded.output.last_hidden_state[:, -logits_to_keep:]
        # Rows of the table have a root mean square of 1: without the root, logits would start sqrt(D) too large.
        logits = self.decoder(self.narrow(states) / self.config.vector_size**0.5)
        loss = None
        if labels is not None:
            task = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size)
            loss = task + self.model.penalty(encoded)
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=past_key_values)

    def read(self, input_ids: Ids, attention_mask: AnyMask, inputs_embeds: Embeds, cache: Cache | None) -> Encoded:
        """The states of the new tokens, after those in the cache."""
        if cache is not None and cache.is_compileable:
            raise InputError(
                f"the model was given a {type(cache).__name__} of fixed length, and tells only what was read so far; give a DynamicCache "
                "(for generate: leave cache_implementation out)."
            )
        past = 0 if cache is None else int(cache.get_seq_length())
        vectors, new = self.model.semantics(input_ids, None if past else attention_mask, inputs_embeds)
        if past and attention_mask is not None:
            if attention_mask.shape[1] != past + vectors.shape[1]:
                raise InputError(
                    f"the model was given an attention_mask of {attention_mask.shape[1]} tokens for {past} in the cache and "
                    f"{vectors.shape[1]} new ones; give one number a token, those in the cache first."
                )
            new = attention_mask[:, past:].bool()
        layers = self.config.num_hidden_layers
        whole, mask = (vectors, new) if cache is None else remembered(cache, vectors, new, layers=layers)
        if attention_mask is not None:
            mask = attention_mask.bool()
        x, injection, _ = self.model.method(whole, mask)
        states = self.model.encoder.trace(x[:, past:], injection.since(past), looking_back(mask, past), cache)
        return Encoded(BaseModelOutput(last_hidden_state=states[-1]), whole, mask)


def looking_back(mask: Bool[Tensor, "B T"], past: int = 0) -> Bool[Tensor, "B TQ T"]:
    """Which tokens each one after the first `past` sees: the real ones up to itself. And itself, so that padding sees something.

    >>> looking_back(torch.tensor([[False, True, True]]), past=1).int().tolist()
    [[[0, 1, 0], [0, 1, 1]]]
    """
    place = torch.arange(mask.shape[1], device=mask.device)
    before = place <= place[past:, None]
    return (before & mask[:, None]) | (place == place[past:, None])
