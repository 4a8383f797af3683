"""The first waist: what a positional method tells a Transformer, and where it enters.

Encodings make an `Injection`; backbones and adapters consume it. No backbone knows a method, no method knows a backbone.

Axes, everywhere in this package: B batch, T tokens, D width, H heads, K head width, C coordinate axes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Injection:
    """Up to five tensors, each with its own place in the model; a slot that is None says nothing.

    added    (B, T, D)       joins the semantic vectors in the input layer
    turn     (B, T, K/2)     angles in radians: queries and keys are rotated by them, pair by pair
    stretch  (B, T, K/2)     beside a turn, natural logarithms: a pair of a query is multiplied by exp(stretch), of a key by exp(-stretch)
    bias     (B, H, T, T)    added to the attention scores (query, key)
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
    bias: Float[Tensor, "B H T T"] | None = None
    scale: Float[Tensor, "B T"] | None = None

    def __post_init__(self) -> None:
        if self.stretch is not None and self.turn is None:
            raise ValueError("an injection was given a stretch without a turn; give turn=torch.zeros_like(stretch).")

    def __add__(self, other: Injection) -> Injection:
        scale = other.scale if self.scale is None else self.scale if other.scale is None else self.scale * other.scale
        return Injection(
            added=_sum(self.added, other.added),
            turn=_sum(self.turn, other.turn),
            stretch=_sum(self.stretch, other.stretch),
            bias=_sum(self.bias, other.bias),
            scale=scale,
        )

    def rows(self, index: Tensor) -> Injection:
        """The injection of the sentences `index` (N,): what was computed once a length, handed to each sentence."""
        slots = {field.name: getattr(self, field.name) for field in fields(self)}
        return Injection(**{name: None if slot is None else slot[index] for name, slot in slots.items()})


def _sum(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return other if one is None else one if other is None else one + other


class LogLength(torch.nn.Module):
    """Attention that does not dilute with length: a query's scores are multiplied by log n / log n0.

    n is the number of real tokens that the query sees, n0 the mean training length (at least 2 each).

    sees    "text"      all of its sentence
            "prefix"    the tokens up to itself; for decoders

    Source: RECIPE of this project; the same factor as in "Overcoming a theoretical limitation of self-attention" (arXiv 2202.12172,
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
