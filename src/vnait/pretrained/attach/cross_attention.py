"""Position in an encoder-decoder's cross-attention: of the source, of the target, or between the two.

Each part starts at zero, so a warm start stays exact, and comes in addition to the methods of both sides.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vnait.positions.building import build, for_pretrained
from vnait.positions.cache import Mask, Vectors
from vnait.positions.coordinates.shared import rank
from vnait.positions.encodings import T5Bias
from vnait.positions.methods import CAUSAL
from vnait.shared.values import full

Cross = Literal["source", "target", "relative"]


class GatedPosition(nn.Module):
    """gate * s_i (B, T, D): coordinates and encoding of an additive method; the gate starts at 0."""

    def __init__(self, method: str, *, dim: int, heads: int) -> None:
        super().__init__()
        built = for_pretrained(build(method, dim=dim, num_heads=heads))
        self.coordinates, self.encoding = built.coordinates, built.encoding
        self.gate = nn.Parameter(torch.zeros(dim))

    def forward(self, vectors: Vectors, mask: Mask) -> Vectors:
        # In float32 at least, as the method itself.
        wide = full(vectors).masked_fill(~mask[..., None], 0)
        added: Tensor = self.encoding(self.coordinates(wide, mask)).added
        return (self.gate * added).to(vectors.dtype)


class SourcePositions(nn.Module):
    """h_j + gate * s_j: the encoder's states, which become keys and values, with s of `vnait`."""

    def __init__(self, *, dim: int, heads: int) -> None:
        super().__init__()
        self.place = GatedPosition("vnait", dim=dim, heads=heads)

    def forward(self, states: Vectors, mask: Mask) -> Vectors:
        return states + self.place(states, mask)


class TargetPositions(nn.Module):
    """gate * s_i, added to the inputs of the queries of every cross-attention, with s of `vnait-causal`."""

    def __init__(self, *, dim: int, heads: int) -> None:
        super().__init__()
        self.place = GatedPosition(CAUSAL, dim=dim, heads=heads)

    def forward(self, vectors: Vectors, mask: Mask) -> Vectors:
        added: Vectors = self.place(vectors, mask)
        return added


class RelativePositions(nn.Module):
    """Bias of cross-attention's scores: T5's buckets of j - i, source minus target index, in tokens."""

    def __init__(self, *, dim: int, heads: int) -> None:
        super().__init__()
        self.buckets = T5Bias(num_heads=heads)

    def forward(self, target: Mask, source: Mask) -> Float[Tensor, "B H T TK"]:
        both = torch.cat([rank(source), rank(target)], 1).float()
        length = source.shape[1]
        bias: Tensor = self.buckets(both[..., None]).dense().bias
        return bias[:, :, length:, :length]


CROSS_ATTENTION: dict[str, type[SourcePositions] | type[TargetPositions] | type[RelativePositions]]
CROSS_ATTENTION = {"source": SourcePositions, "target": TargetPositions, "relative": RelativePositions}
