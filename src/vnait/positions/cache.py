"""What the cache of a model that reads from left to right has for a causal method, which then goes on where
it was.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers.cache_utils import (
    Cache,
    CacheLayerMixin,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    StaticLayer,
)

from vnait.positions.coordinates.shared import in_one_piece
from vnait.positions.method import Method, MethodOutput
from vnait.shared.errors import InputError
from vnait.shared.values import check

Vectors = Float[Tensor, "B T D"]
Mask = Bool[Tensor, "B T"]
AnyMask = Int[Tensor, "B T"] | Bool[Tensor, "B T"] | Float[Tensor, "B T"] | None


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


HOLE = (
    "row {} of the batch has padding between its tokens, which this method, reading earlier words, can't "
    "read with a cache; put padding before the text, or pass use_cache=False."
)


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
        if lookback:  # the words before a token stand at its side in the cache
            rule = "with a cache, padding stands before or after a text, not within it"
            check(in_one_piece(mask), rule, HOLE.format, InputError)
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
