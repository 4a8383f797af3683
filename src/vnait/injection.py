"""The first waist: what a positional method tells a Transformer, and where it enters.

Encodings make an `Injection`; backbones and adapters consume it. No backbone knows a method, no method knows a backbone.

Axes, everywhere in this package: B batch, T tokens, D width, H heads, K head width, C coordinate axes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class DistanceBias:
    """A bias that is a formula of two tokens' distance: f(S_query - S_key, one number a head, ...), stored as its (B, A, T) coordinates.

    line      (B, A, T), for A = 1 axis that all heads read, or an axis a head
    heads     numbers (H,) that the formula takes beside the distance; they broadcast
    dtype     of the bias; distances are subtracted at the line's precision

    >>> line = torch.tensor([[[0.0, 2.0]]])
    >>> bias = DistanceBias(line=line, formula=lambda distance, slope: -slope * distance.abs(), heads=(torch.ones(1),))
    >>> bias.dense()
    tensor([[[[-0., -2.],
              [-2., -0.]]]])
    """

    line: Float[Tensor, "B A T"]
    formula: Callable[..., Tensor]
    heads: tuple[Float[Tensor, " H"], ...] = ()
    dtype: torch.dtype = torch.float32

    def dense(self) -> Float[Tensor, "B H T T"]:
        """Every pair's."""
        distance = (self.line[..., :, None] - self.line[..., None, :]).to(self.dtype)
        return self.formula(distance, *(numbers[:, None, None] for numbers in self.heads))

    def pair(self, row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """One pair's, by their numbers; FlexAttention's kernel calls it, and nothing (T, T) is ever stored."""
        axis = head if self.line.shape[1] > 1 else torch.zeros_like(head)
        distance = (self.line[row, axis, query] - self.line[row, axis, key]).to(self.dtype)
        return self.formula(distance, *(numbers[head] for numbers in self.heads))


@dataclass(frozen=True, kw_only=True)
class Injection:
    """Up to six parts, each with its own place in the model; a slot that is None says nothing.

    added    (B, T, D)       joins the semantic vectors in the input layer
    turn     (B, T, K/2)     angles in radians: queries and keys are rotated by them, pair by pair
    stretch  (B, T, K/2)     beside a turn, natural logarithms: a pair of a query is multiplied by exp(stretch), of a key by exp(-stretch)
    bias     (B, H, T, T)    added to the attention scores (query, key)
    distance                 a bias that is a formula of distances, not computed yet; `dense` makes it one
    scale    (B, T)          multiplies a query's attention scores

    Injections add slot by slot (`scale` multiplies), so "a rotation on the index and a spatial vector on the span" is a sum.

    >>> import torch
    >>> both = Injection(added=torch.ones(1, 2, 3)) + Injection(added=torch.ones(1, 2, 3), turn=torch.zeros(1, 2, 1))
    >>> both.added.sum().item(), both.turn.shape
    (12.0, torch.Size([1, 2, 1]))
    """

    added: Float[Tensor, "B T D"] | None = None
    turn: Float[Tensor, "B T K_half"] | None = None
    stretch: Float[Tensor, "B T K_half"] | None = None
    bias: Float[Tensor, "B H TQ TK"] | None = None  # TQ = T, but for the new tokens of a decoder with a cache
    distance: DistanceBias | None = None
    scale: Float[Tensor, "B T"] | None = None

    def __post_init__(self) -> None:
        if self.stretch is not None and self.turn is None:
            raise ValueError("an injection was given a stretch without a turn; give turn=torch.zeros_like(stretch).")

    def __add__(self, other: Injection) -> Injection:
        if self.distance is not None and other.distance is not None:
            return self.dense() + other
        scale = other.scale if self.scale is None else self.scale if other.scale is None else self.scale * other.scale
        return Injection(
            added=_sum(self.added, other.added),
            turn=_sum(self.turn, other.turn),
            stretch=_sum(self.stretch, other.stretch),
            bias=_sum(self.bias, other.bias),
            distance=self.distance or other.distance,
            scale=scale,
        )

    def rows(self, index: Tensor) -> Injection:
        """The injection of the sentences `index` (N,): what was computed once a length, handed to each sentence."""
        slots = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "distance"}
        distance = None if self.distance is None else replace(self.distance, line=self.distance.line[index])
        rows = {name: None if slot is None else slot[index] for name, slot in slots.items()}
        return Injection(**rows, distance=distance)

    def since(self, past: int) -> Injection:
        """What the tokens after the first `past` are told; a bias keeps all of its keys."""
        if past == 0:
            return self
        slots = {
            field.name: getattr(self, field.name) for field in fields(self) if field.name not in ("bias", "distance")
        }
        last = {name: None if slot is None else slot[:, past:] for name, slot in slots.items()}
        bias = self.dense().bias
        return Injection(**last, bias=None if bias is None else bias[:, :, past:])

    def dense(self) -> Injection:
        """The same, with a bias of distances computed for every pair."""
        if self.distance is None:
            return self
        return replace(self, bias=_sum(self.bias, self.distance.dense()), distance=None)


def _sum(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return other if one is None else one if other is None else one + other


class LogLength(torch.nn.Module):
    """Attention that does not dilute with length: a query's scores are multiplied by log n / log n0.

    n is the number of real tokens that the query sees, n0 the mean training length (at least 2 each).

    sees    "text"      all of its sentence
            "prefix"    the tokens up to itself; for decoders

    Source: this project; the same factor as in "Overcoming a theoretical limitation of self-attention" (arXiv 2202.12172,
    section 5.3).

    >>> LogLength(mean_length=24)(torch.ones(1, 24, dtype=torch.bool)).scale[0, :2]
    tensor([1., 1.])
    """

    def __init__(self, *, mean_length: float, sees: Literal["text", "prefix"] = "text") -> None:
        super().__init__()
        if not mean_length > 0:
            raise ValueError(f"mean_length is {mean_length}; it must be a positive number of tokens.")
        if sees not in ("text", "prefix"):
            raise ValueError(f"sees={sees!r} is not known; take text or prefix.")
        self.mean_length, self.sees = mean_length, sees

    @property
    def causal(self) -> bool:
        """Where a query's factor hangs on its prefix."""
        return self.sees == "prefix"

    def forward(self, mask: Bool[Tensor, "B T"]) -> Injection:
        length = mask.cumsum(-1) if self.causal else mask.sum(-1, keepdim=True).expand_as(mask)
        return Injection(scale=length.clamp(min=2).float().log() / torch.tensor(max(self.mean_length, 2.0)).log())

    def extra_repr(self) -> str:
        return f"mean_length={self.mean_length}, sees={self.sees!r}"
