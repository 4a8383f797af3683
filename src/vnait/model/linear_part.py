"""What the linear parts beside a classifier's Transformer share."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from vnait.model.encoder import Ids


class LinearPart(nn.Module):
    """The linear part of a classifier: what its tokens add to the logits, plus b. Zero until it is fitted, by
    a regression and not by gradient descent. Its tensors are buffers: from_pretrained makes every parameter
    trainable, so another training would change them.

    logits   of its words or terms, (any, labels), zero until set;  bias: b (labels,), zero until set
    """

    part: str
    refusal: str  # of a text without ids
    logits: Tensor
    bias: Tensor

    def __init__(self, size: int, num_labels: int) -> None:
        super().__init__()
        self.register_buffer("logits", torch.zeros(size, num_labels))
        self.register_buffer("bias", torch.zeros(num_labels))

    def reset_parameters(self) -> None:
        """No contribution to the logits."""
        # Not by torch.nn.init, which leaves loaded tensors alone while a thread loads a model.
        self.logits.zero_()
        self.bias.zero_()

    def forward(self, ids: Ids, mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B C"]:
        """From ids (B, T). Without ids, an error if the part is fitted."""
        if ids is None:
            if self.is_fitted:
                raise ValueError(f"inputs_embeds were given, and this classifier's {self.refusal}.")
            return self.bias.expand(len(mask), -1)
        return self.each(ids, mask).sum(1) + self.bias

    def each(self, ids: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T C"]:
        """Each token's share of the logits."""
        raise NotImplementedError

    def resize(self, vocab_size: int) -> None:
        """Another number of words."""
        raise NotImplementedError

    @property
    def is_fitted(self) -> bool:
        """Whether it is not zero."""
        return bool(self.logits.any())
