"""What a decoder remembers of the text so far, besides keys and values: the words, from which a causal method tells places again."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from vnait.errors import InputError

Vectors = Float[Tensor, "B T D"]
Mask = Bool[Tensor, "B T"]


class Words(DynamicLayer):
    """The semantic vectors of the text so far and their mask, one more layer of the cache: whatever happens to the keys happens to them.

    A causal method reads them again with the new ones, so that it tells each token in a cache exactly what it tells it without.
    """

    def so_far(self, vectors: Vectors, mask: Mask) -> tuple[Vectors, Mask]:
        """All vectors and their mask, the new ones last."""
        keys, values = self.update(vectors[:, None], mask[:, None, :, None].to(vectors.dtype))
        return keys[:, 0], values[:, 0, :, 0].bool()


def remembered(cache: Cache, vectors: Vectors, mask: Mask, *, layers: int) -> tuple[Vectors, Mask]:
    """The vectors of the whole text so far and their mask; the new ones are kept in the cache, past the model's own `layers`."""
    if not any(isinstance(layer, Words) for layer in cache.layers):
        if past := int(cache.get_seq_length()):
            raise InputError(
                f"the cache holds {past} tokens that were read before the method was attached; start with an empty cache."
            )
        # Layers of a cache that grows on demand go by their number: the model's own come first.
        while cache.layer_class_to_replicate is not None and len(cache.layers) < layers:
            cache.layers.append(cache.layer_class_to_replicate())
        cache.layers.append(Words())
    words = next(layer for layer in cache.layers if isinstance(layer, Words))
    return words.so_far(vectors, mask)
