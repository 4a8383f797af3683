"""The language model that reads from left to right and generates, `VnaitForCausalLM`, and what its cache has
for a causal method, which then goes on where it was.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers import DynamicCache, GenerationConfig, GenerationMixin
from transformers.cache_utils import Cache, DynamicLayer
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutputWithPast
from transformers.utils import can_return_tuple

from vnait.errors import InputError
from vnait.method import Method, MethodOutput
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
        if cache is None:
            mask, (x, injection, at) = new, self.model.method(vectors, new)
        else:
            words = words_of(cache, layers=self.config.num_hidden_layers)
            mask, (x, injection, at) = words.located(self.model.method, vectors, new, attention_mask)
        states = self.model.encoder.trace(x, injection, causal_mask(mask, past), cache)
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
    """What a causal method knows of the text so far, as one more layer, cropped as the keys are.

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
        past, behind = self.get_seq_length(), method.behind
        vectors = vectors.masked_fill(~new[..., None], 0)
        if behind is None:  # the method has to read the whole text again
            whole, mask, _ = self.extend(vectors, new)
            mask = mask if attention_mask is None else attention_mask.bool()
            x, injection, at = method(whole, mask)
            return mask, MethodOutput(x[:, past:], injection.since(past), at)
        before = self.values[:, 0, max(past - behind, 0) :] if past and behind else vectors[:, :0]
        seen = torch.cat([before, vectors], 1)
        gaps = method.gaps(seen, torch.ones_like(seen[..., 0], dtype=torch.bool))[:, before.shape[1] :]
        _, mask, gaps = self.extend(vectors if behind else vectors[..., :0], new, gaps)
        mask = mask if attention_mask is None else attention_mask.bool()
        return mask, method.since(past, seen, mask, gaps)

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


def words_of(cache: Cache, *, layers: int) -> Words:
    """The cache's layer of words, after the model's own `layers`."""
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
    return next(layer for layer in cache.layers if isinstance(layer, Words))
