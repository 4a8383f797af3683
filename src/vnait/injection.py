"""`Injection`: the interface between positional methods and Transformers.

Encodings make an `Injection`; backbones and adapters consume it. No backbone knows a method, no method knows
a backbone.

Axes, everywhere in this package: B batch, T tokens, D width, H heads, K head width, C coordinate axes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from operator import add, mul
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vnait.errors import one_of


@dataclass(frozen=True, kw_only=True)
class DistanceBias:
    """A bias by a formula of two tokens' distance: f(S_query - S_key, a number per head, ...).

    line      (B, A, T), S, for A = 1 axis that all heads read, or an axis per head
    heads     further arguments of the formula, (H,) each
    dtype     of the bias; distances are subtracted at the line's precision

    >>> line = torch.tensor([[[0.0, 2.0]]])
    >>> DistanceBias(line=line, formula=lambda distance: -distance.abs()).dense()
    tensor([[[[-0., -2.],
              [-2., -0.]]]])
    """

    line: Float[Tensor, "B A T"]
    formula: Callable[..., Tensor]
    heads: tuple[Float[Tensor, " H"], ...] = ()
    dtype: torch.dtype = torch.float32

    def dense(self) -> Float[Tensor, "B H T T"]:
        """The bias of every pair."""
        distance = (self.line[..., :, None] - self.line[..., None, :]).to(self.dtype)
        return self.formula(distance, *(numbers[:, None, None] for numbers in self.heads))

    def pair(self, row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """The bias of one pair of indices, for FlexAttention's kernel, which stores no (T, T)."""
        axis = head if self.line.shape[1] > 1 else torch.zeros_like(head)
        distance = (self.line[row, axis, query] - self.line[row, axis, key]).to(self.dtype)
        return self.formula(distance, *(numbers[head] for numbers in self.heads))


@runtime_checkable
class ScoreMod(Protocol):
    """A change of the attention scores that depends on queries and keys: every layer calls it with its own.

    query     (B, H, TQ, K)    rotated, stretched and scaled; key (B, H, TK, K) likewise
    scores    (B, H, TQ, TK)   query . key / sqrt(K), without the injection's bias
    visible   broadcasts to the scores: False at keys that the query must not see

    It returns the new scores, (B, H, TQ, TK), also of hidden keys; the bias is added, and hidden keys are
    masked, after it. The queries are the last TQ of the TK tokens: a decoder with a cache has new ones only.

    The name is FlexAttention's, whose score_mod sees one score of a pair, and neither query nor key.

    >>> class Temperature:
    ...     def __call__(self, query, key, scores, visible):
    ...         return 2 * scores
    ...
    ...     def rows(self, index):
    ...         return self
    >>> isinstance(Temperature(), ScoreMod)
    True
    """

    def __call__(
        self,
        query: Float[Tensor, "B H TQ K"],
        key: Float[Tensor, "B H TK K"],
        scores: Float[Tensor, "B H TQ TK"],
        visible: Bool[Tensor, "#B 1 #TQ TK"],
    ) -> Float[Tensor, "B H TQ TK"]: ...

    def rows(self, index: Tensor) -> ScoreMod:
        """The same for the sentences `index` (N,)."""
        ...


@dataclass(frozen=True, kw_only=True)
class Injection:
    """Everything that a positional method puts into a model; None in an unused slot.

    added    (B, T, D)       joins the semantic vectors in the input layer
    rotary   (B, T, K/2)     angles in radians: queries and keys are rotated by them, pair by pair
    stretch  (B, T, K/2)     with rotary: multiplies a query's pair by exp(stretch), a key's by exp(-stretch)
    bias     (B, H, T, T)    added to the attention scores (query, key); H = 1 is for all heads
    distance                 a bias of distances, not computed yet; `dense` computes it
    scale    (B, T)          multiplies a query's attention scores
    score_mod                changes the scores inside every layer, by its queries and keys; before the bias

    Injections add slot by slot (`scale` multiplies), so "a rotation on the index and a spatial vector on the
    span" is a sum. Two of them can't both have a score_mod.

    >>> added = Injection(added=torch.ones(1, 2, 3))
    >>> both = added + added + Injection(rotary=torch.zeros(1, 2, 1))
    >>> both.added.sum().item(), both.rotary.shape
    (12.0, torch.Size([1, 2, 1]))
    """

    added: Float[Tensor, "B T D"] | None = None
    rotary: Float[Tensor, "B T K_half"] | None = None
    stretch: Float[Tensor, "B T K_half"] | None = None
    bias: Float[Tensor, "B H TQ TK"] | None = None  # TQ < TK for the new tokens of a decoder with a cache
    distance: DistanceBias | None = None
    scale: Float[Tensor, "B T"] | None = None
    score_mod: ScoreMod | None = None

    def __post_init__(self) -> None:
        if self.stretch is not None and self.rotary is None:
            raise ValueError("a stretch needs rotary angles; give rotary=torch.zeros_like(stretch).")

    def __add__(self, other: Injection) -> Injection:
        if self.distance is not None and other.distance is not None:
            return self.dense() + other
        if self.score_mod is not None and other.score_mod is not None:
            names = " and ".join(type(one.score_mod).__name__ for one in (self, other))
            raise ValueError(f"both injections have a score_mod, {names}, and a layer applies one; drop one.")
        return Injection(
            added=_combined(add, self.added, other.added),
            rotary=_combined(add, self.rotary, other.rotary),
            stretch=_combined(add, self.stretch, other.stretch),
            bias=_combined(add, self.bias, other.bias),
            distance=self.distance or other.distance,
            scale=_combined(mul, self.scale, other.scale),
            score_mod=self.score_mod or other.score_mod,
        )

    def misshaped(self, batch: int, tokens: int) -> dict[str, str]:
        """The slots whose shape does not fit so many texts of so many tokens, with the shape expected.

        A score_mod is not among them: it has no shape before a layer calls it, which checks the result.
        """
        per_token = f"(B, T, ...) = ({batch}, {tokens}, ...)"
        fits = {
            "added": (self.added, 3, (batch, tokens), per_token),
            "rotary": (self.rotary, 3, (batch, tokens), per_token),
            "stretch": (self.stretch, 3, (batch, tokens), per_token),
            "bias": (self.bias, 4, (tokens, tokens), f"(B, H, T, T) = ({batch}, H, {tokens}, {tokens})"),
            "scale": (self.scale, 2, (batch, tokens), f"(B, T) = ({batch}, {tokens})"),
        }
        return {
            name: expected
            for name, (slot, axes, sizes, expected) in fits.items()
            if slot is not None
            and (
                slot.ndim != axes
                or tuple(slot.shape[-2:] if name == "bias" else slot.shape[:2]) != sizes
                or len(slot) not in (1, batch)
            )
        }

    def rows(self, index: Tensor) -> Injection:
        """The injection of the sentences `index` (N,)."""
        distance = None if self.distance is None else replace(self.distance, line=self.distance.line[index])
        score_mod = None if self.score_mod is None else self.score_mod.rows(index)
        tensors = {name: slot[index] for name, slot in self._tensors().items()}
        return replace(self, **tensors, distance=distance, score_mod=score_mod)

    def since(self, past: int) -> Injection:
        """The injection of the tokens after the first `past`; a bias and a score_mod keep all keys."""
        if past == 0:
            return self
        dense = self.dense()
        tensors = dense._tensors()
        for name, slot in tensors.items():
            tensors[name] = slot[:, :, past:] if name == "bias" else slot[:, past:]
        return replace(dense, **tensors, distance=None, score_mod=self.score_mod)

    def dense(self) -> Injection:
        """The same, with a bias of distances computed for every pair."""
        if self.distance is None:
            return self
        return replace(self, bias=_combined(add, self.bias, self.distance.dense()), distance=None)

    def _tensors(self) -> dict[str, Tensor]:
        slots = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: slot for name, slot in slots.items() if isinstance(slot, Tensor)}


def _combined(
    operation: Callable[[Tensor, Tensor], Tensor], one: Tensor | None, other: Tensor | None
) -> Tensor | None:
    return other if one is None else one if other is None else operation(one, other)


class LogLength(torch.nn.Module):
    """Attention that does not dilute with length: a query's scores are multiplied by log n / log n0.

    n is the number of real tokens that the query sees, n0 the mean training length (at least 2 each).

    sees    "text"      all of its sentence
            "prefix"    the tokens up to itself; for decoders

    Source: this project; the same factor as in arXiv 2202.12172, section 5.3.

    >>> LogLength(mean_length=24)(torch.ones(1, 24, dtype=torch.bool)).scale[0, :2]
    tensor([1., 1.])
    """

    def __init__(self, *, mean_length: float, sees: Literal["text", "prefix"] = "text") -> None:
        super().__init__()
        if not mean_length > 0:
            raise ValueError(f"mean_length is {mean_length}; it must be a positive number of tokens.")
        one_of("sees", sees, ("text", "prefix"))
        self.mean_length, self.sees = mean_length, sees

    @property
    def causal(self) -> bool:
        """True if a query's factor depends on its prefix only."""
        return self.sees == "prefix"

    def forward(self, mask: Bool[Tensor, "B T"]) -> Injection:
        length = mask.cumsum(-1) if self.causal else mask.sum(-1, keepdim=True).expand_as(mask)
        mean = torch.tensor(max(self.mean_length, 2.0))
        return Injection(scale=length.clamp(min=2).float().log() / mean.log())

    def extra_repr(self) -> str:
        return f"mean_length={self.mean_length}, sees={self.sees!r}"
