"""A decoder's cache of semantic vectors, from which a causal method computes its coordinates again."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from vnait.errors import InputError

Vectors = Float[Tensor, "B T D"]
Mask = Bool[Tensor, "B T"]


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
