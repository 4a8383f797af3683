"""Position in cross-attention, which attached encoder-decoders start without: of the source, of the target, or between the two.

Every part starts at nothing, so that a warm start stays exact, and is told beside what the encoder's and decoder's methods tell.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vnait.coordinates.shared import rank
from vnait.encodings import Buckets
from vnait.methods import build

Vectors = Float[Tensor, "B T D"]
Mask = Bool[Tensor, "B T"]
Cross = Literal["source", "target", "relative"]
CROSSES = ("source", "target", "relative")


class Place(nn.Module):
    """gate * s_i (B, T, D), of the coordinates and the encoding of a method that adds; the gate starts at 0."""

    def __init__(self, method: str, *, dim: int, heads: int) -> None:
        super().__init__()
        built = build(method, dim=dim, num_heads=heads)
        self.coordinates, self.encoding = built.coordinates, built.encoding
        self.gate = nn.Parameter(torch.zeros(dim))

    def forward(self, vectors: Vectors, mask: Mask) -> Vectors:
        # In float32 at least, as the method itself.
        wide = vectors.to(torch.promote_types(vectors.dtype, torch.float32)).masked_fill(~mask[..., None], 0)
        added: Tensor = self.encoding(self.coordinates(wide, mask)).added
        return (self.gate * added).to(vectors.dtype)


class Source(nn.Module):
    """The encoder's states h_j, which become keys and values, with a place in the source: h_j + gate * s_j; s of `vnait`."""

    def __init__(self, *, dim: int, heads: int) -> None:
        super().__init__()
        self.place = Place("vnait", dim=dim, heads=heads)

    def forward(self, states: Vectors, mask: Mask) -> Vectors:
        return states + self.place(states, mask)


class Target(nn.Module):
    """What is added to the inputs of every cross-attention's queries: gate * s_i, a place in the target; s of `vnait-causal`."""

    def __init__(self, *, dim: int, heads: int) -> None:
        super().__init__()
        self.place = Place("vnait-causal", dim=dim, heads=heads)

    def forward(self, vectors: Vectors, mask: Mask) -> Vectors:
        found: Vectors = self.place(vectors, mask)
        return found


class Between(nn.Module):
    """A bias of cross-attention's scores: T5's buckets of j - i, source less target, counted in tokens; (B, H, target, source)."""

    def __init__(self, *, dim: int, heads: int) -> None:
        super().__init__()
        self.buckets = Buckets(num_heads=heads)

    def forward(self, target: Mask, source: Mask) -> Float[Tensor, "B H T TK"]:
        both = torch.cat([rank(source), rank(target)], 1).float()
        told = self.buckets(both[..., None])
        length = source.shape[1]
        bias: Tensor = told.bias[:, :, length:, :length]
        return bias


def crossing(kind: Cross, *, dim: int, heads: int) -> Source | Target | Between:
    """The part of that name."""
    parts: dict[str, type[Source] | type[Target] | type[Between]]
    parts = {"source": Source, "target": Target, "relative": Between}
    return parts[kind](dim=dim, heads=heads)
