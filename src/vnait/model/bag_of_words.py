"""A classifier's bag of words, which stands beside its Transformer."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vnait.model.linear_part import LinearPart


class BagOfWords(LinearPart):
    """The linear part of a classifier: sum_j a_j log2(1 + n_j) l_j + b over the words j, n_j times in a text.

    A word adds its evidence whatever else is in the text, as in naive Bayes.

    weights   a >= 0 (V,), one until set; 0 for unknown words
    logits    l (V, labels)
    """

    part = "bag of words"
    refusal = "bag of words reads ids: give input_ids, or drop the bag with model.bag.reset_parameters()"
    weights: Tensor

    def __init__(self, vocab_size: int, num_labels: int) -> None:
        super().__init__(vocab_size, num_labels)
        self.register_buffer("weights", torch.ones(vocab_size))

    def reset_parameters(self) -> None:
        """No contribution to the logits."""
        super().reset_parameters()
        self.weights.fill_(1.0)

    def each(self, ids: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T C"]:
        """Each token's share of the logits: its word's part over the word's n_j tokens; zero at padding."""
        real = mask.to(self.weights.dtype)
        words, length = len(self.weights), ids.shape[1]
        if not torch.compiler.is_compiling() and length**2 < words:  # a text's pairs are fewer than the words
            times = ((ids[:, :, None] == ids[:, None]) * real[:, None]).sum(-1)
        else:
            times = real.new_zeros(ids.shape[0], words).scatter_add(1, ids, real).gather(1, ids)
        times = times.clamp(min=1)
        share = self.weights[ids] * real * torch.log2(1 + times) / times
        return share[..., None] * self.logits[ids]

    def resize(self, vocab_size: int) -> None:
        """Another number of words; new ones add nothing."""
        for name, fill in (("weights", 1.0), ("logits", 0.0)):
            old = getattr(self, name)[:vocab_size]
            new = old.new_full((vocab_size - len(old), *old.shape[1:]), fill)
            setattr(self, name, torch.cat([old, new]))
