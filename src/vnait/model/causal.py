"""The language model that reads from left to right and generates, `VnaitForCausalLM`; its cache of semantic
vectors, from which a causal method computes its coordinates again.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers import DynamicCache, GenerationConfig, GenerationMixin
from transformers.cache_utils import Cache, DynamicLayer
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutputWithPast
from transformers.utils import can_return_tuple

from vnait.errors import InputError
from vnait.model.configuration import VnaitConfig
from vnait.model.encoder import AnyMask, Embeds, Encoded, Ids, TiedDecoder, VnaitModel

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
        self.generation_config = GenerationConfig(pad_token_id=config.pad_token_id)
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
        logits_to_keep: int = 0,
    ) -> CausalLMOutputWithPast:
        """`logits` (B, T, vocabulary) of the next words, of the last `logits_to_keep` tokens (0: of all), and
        `loss` if labels (B, T) are given: the ids themselves; -100 is left out.

        attention_mask (B, past + T) has the tokens in the cache first.
        """
        if use_cache and past_key_values is None:
            past_key_values = DynamicCache(config=self.config)
        encoded = self.read(input_ids, attention_mask, inputs_embeds, past_key_values)
        states = encoded.output.last_hidden_state[:, -logits_to_keep:]
        logits = self.decode(self.narrow(states))
        loss = None
        if labels is not None:
            task = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size)
            loss = task + self.model.penalty(encoded)
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=past_key_values)

    def read(
        self, input_ids: Ids, attention_mask: AnyMask, inputs_embeds: Embeds, cache: Cache | None
    ) -> Encoded:
        """The states of the new tokens, after those in the cache."""
        if cache is not None and cache.is_compileable:
            raise InputError(
                f"the cache is a {type(cache).__name__} of fixed length; give a DynamicCache (for generate: "
                "leave cache_implementation out)."
            )
        past = 0 if cache is None else int(cache.get_seq_length())
        vectors, new = self.model.semantics(input_ids, None if past else attention_mask, inputs_embeds)
        if past and attention_mask is not None:
            if attention_mask.shape[1] != past + vectors.shape[1]:
                raise InputError(
                    f"the attention_mask has {attention_mask.shape[1]} tokens, for {past} in the cache and "
                    f"{vectors.shape[1]} new ones; give one number per token, those in the cache first."
                )
            new = attention_mask[:, past:].bool()
        layers = self.config.num_hidden_layers
        whole, mask = (vectors, new) if cache is None else with_past(cache, vectors, new, layers=layers)
        if attention_mask is not None:
            mask = attention_mask.bool()
        x, injection, at = self.model.method(whole, mask)
        states = self.model.encoder.trace(x[:, past:], injection.since(past), causal_mask(mask, past), cache)
        return Encoded(BaseModelOutput(last_hidden_state=states[-1]), at, mask)


def causal_mask(mask: Bool[Tensor, "B T"], past: int = 0) -> Bool[Tensor, "B TQ T"]:
    """The tokens that each one after the first `past` sees: itself, even if padding, and real ones before.

    >>> causal_mask(torch.tensor([[False, True, True]]), past=1).int().tolist()
    [[[0, 1, 0], [0, 1, 1]]]
    """
    place = torch.arange(mask.shape[1], device=mask.device)
    before = place <= place[past:, None]
    return (before & mask[:, None]) | (place == place[past:, None])


class Words(DynamicLayer):
    """The semantic vectors of the text so far and their mask, as one more layer: cropped as the keys are.

    A causal method reads them again with the new ones, so that a cache changes no result.
    """

    def extend(self, vectors: Vectors, mask: Mask) -> tuple[Vectors, Mask]:
        """All vectors and their mask, the new ones last."""
        keys, values = self.update(vectors[:, None], mask[:, None, :, None].to(vectors.dtype))
        return keys[:, 0], values[:, 0, :, 0].bool()


def with_past(cache: Cache, vectors: Vectors, mask: Mask, *, layers: int) -> tuple[Vectors, Mask]:
    """The vectors of the text so far and their mask; the cache stores them after the model's own `layers`."""
    if not any(isinstance(layer, Words) for layer in cache.layers):
        if past := int(cache.get_seq_length()):
            raise InputError(
                f"the cache has {past} tokens that were read before the method was attached; start with an "
                "empty cache."
            )
        # A cache that grows on demand numbers its layers: the model's own come first.
        while cache.layer_class_to_replicate is not None and len(cache.layers) < layers:
            cache.layers.append(cache.layer_class_to_replicate())
        cache.layers.append(Words())
    words = next(layer for layer in cache.layers if isinstance(layer, Words))
    return words.extend(vectors, mask)
