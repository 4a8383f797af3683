"""`Injection`: the interface between positional methods and Transformers.

Encodings make an `Injection`; backbones and adapters consume it. No backbone knows a method, no method knows
a backbone.

Axes, everywhere in this package: B batch, T tokens, D width, H heads, K head width, C coordinate axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import add
from typing import Any, Literal, Protocol, cast, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vnait.shared.chunks import map_queries
from vnait.shared.errors import DoesNotFit, one_of
from vnait.shared.values import transformed

Queries = Float[Tensor, "B H TQ K"]
Keys = Float[Tensor, "B H TK K"]
Scores = Float[Tensor, "B H TQ TK"]
Visible = Bool[Tensor, "#B 1 #TQ TK"]


@dataclass(frozen=True, kw_only=True)
class PairBias:
    """A bias of pairs of tokens, not computed yet: f(S_query, S_key), for the queries after the first `past`.

    line      (B, A, T), S on the axes that f reads
    formula   of queries (B, A, TQ, 1) and keys (B, A, 1, T), whose first one is the text's first token
    relative  whether f depends on S_query - S_key only
    index     (N,), the row of `line` of each text, where several have the same; None: a row each

    >>> line = torch.tensor([[[1.0, 2.0]]])
    >>> PairBias(line=line, formula=lambda query, key: key / query).dense()
    tensor([[[[1.0000, 2.0000],
              [0.5000, 1.0000]]]])
    """

    line: Float[Tensor, "B A T"]
    formula: Callable[..., Tensor]
    past: int = 0
    relative: bool = False
    index: Int[Tensor, " N"] | None = None
    _strips: dict[tuple[bool, bool], Tensor | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def dense(self) -> Float[Tensor, "B H TQ T"]:
        """The bias of every pair."""
        bias = map_queries(self.of, self.line[..., self.past :, None], self.line[..., None, :])
        if self.index is None:
            return bias
        return bias.expand(len(self.index), -1, -1, -1) if len(bias) == 1 else bias[self.index]

    @property
    def strip(self) -> Float[Tensor, "H distances"] | None:
        """The bias at the distances T - 1, ..., 1 - T, all that there is if tokens are one apart; else None.

        Not of new tokens after a cache, nor of learned places, whose gradient it lacks, nor in torch.func or
        torch.compile, where values are not available.
        """
        if torch.compiler.is_compiling() or transformed():
            return None
        if self.line.requires_grad:
            return None
        mode = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        if mode not in self._strips:  # once for all layers; one that has no gradient is of no use to training
            self._strips[mode] = self._strip()
        return self._strips[mode]

    def _strip(self) -> Float[Tensor, "H distances"] | None:
        if not self.relative or self.past or not self.line.shape[-1]:
            return None
        if not bool((self.line.diff() == 1).all()):
            return None
        tokens = self.line.shape[-1]
        far = torch.arange(tokens - 1, -tokens, -1, dtype=self.line.dtype, device=self.line.device)
        zero = far.new_zeros(1, self.line.shape[1], 1, 1)
        return self.of(zero + far[:, None], zero)[0, ..., 0]

    def of(self, query: Float[Tensor, "B A TQ 1"], key: Float[Tensor, "B A 1 TK"]) -> Tensor:
        """The bias of these queries and keys."""
        return self.formula(query, key)

    def __add__(self, addend: PairBias) -> PairBias:
        axes = self.line.shape[1]
        lines = [part.line if part.index is None else part.line[part.index] for part in (self, addend)]
        return PairBias(
            line=torch.cat(lines, 1),  # in the wider precision
            formula=lambda query, key: (
                self.of(query[:, :axes], key[:, :axes]) + addend.of(query[:, axes:], key[:, axes:])
            ),
            past=self.past,
            relative=self.relative and addend.relative,
        )

    def rows(self, index: Tensor) -> PairBias:
        """The bias or change of the sentences `index` (N,) alone."""
        return replace(self, index=index if self.index is None else self.index[index])


@dataclass(frozen=True, kw_only=True)
class DistanceBias(PairBias):
    """A bias by a formula of two tokens' distance: f(S_query - S_key, a number per head, ...).

    line      (B, A, T), S, for A = 1 axis that all heads read, or an axis per head
    heads     further arguments of the formula, (H,) each
    dtype     of the bias; distances are subtracted at the line's precision

    >>> line = torch.tensor([[[0.0, 2.0]]])
    >>> DistanceBias(line=line, formula=lambda distance: -distance.abs()).dense()
    tensor([[[[-0., -2.],
              [-2., -0.]]]])
    """

    heads: tuple[Float[Tensor, " H"], ...] = ()
    dtype: torch.dtype = torch.float32
    relative: bool = True

    def of(self, query: Float[Tensor, "B A TQ 1"], key: Float[Tensor, "B A 1 TK"]) -> Tensor:
        """The bias of these queries and keys."""
        return self.formula((query - key).to(self.dtype), *(each[:, None, None] for each in self.heads))


@runtime_checkable
class ScoreMod(Protocol):
    """A change of the attention scores that depends on queries and keys: every layer calls it with its own.

    query     (B, H, TQ, K)    rotated, stretched and scaled; key (B, H, TK, K) likewise
    scores    (B, H, TQ, TK)   query . key / sqrt(K), without the injection's bias
    visible   broadcasts to the scores: False at keys that the query must not see

    It returns the new scores, (B, H, TQ, TK), also of hidden keys; the bias is added, and hidden keys are
    masked, after it. The queries are the last TQ of the TK tokens: a decoder with a cache has new ones only.

    >>> class Temperature:
    ...     def __call__(self, query, key, scores, visible):
    ...         return 2 * scores
    ...
    ...     def rows(self, index):
    ...         return self
    >>> isinstance(Temperature(), ScoreMod)
    True
    """

    def __call__(self, query: Queries, key: Keys, scores: Scores, visible: Visible) -> Scores: ...

    def rows(self, index: Tensor) -> ScoreMod:
        """The bias or change of the sentences `index` (N,) alone."""
        ...


@dataclass(frozen=True, kw_only=True)
class Injection:
    """Everything that a positional method puts into a model; None in an unused slot.

    added    (B, T, D)       joins the semantic vectors in the input layer
    rotary   (B, T, K/2)     angles in radians: queries and keys are rotated by them, pair by pair
    stretch  (B, T, K/2)     with rotary: multiplies a query's pair by exp(stretch), a key's by exp(-stretch)
    bias     (B, H, T, T)    added to the attention scores (query, key); H = 1 is for all heads
    distance                 a bias of two tokens' places, not computed yet; `dense` computes it
    scale    (B, T)          multiplies a query's attention scores; (B, T, H) in each head by its own factor
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
    distance: PairBias | None = None
    scale: Float[Tensor, "B T *H"] | None = None
    score_mod: ScoreMod | None = None

    def __post_init__(self) -> None:
        if not torch.compiler.is_compiling():
            self._check_types()
        if self.stretch is not None and self.rotary is None:
            raise ValueError("a stretch needs rotary angles; give rotary=torch.zeros_like(stretch).")

    def _check_types(self) -> None:
        for name in ("added", "rotary", "stretch", "bias", "scale"):
            slot = getattr(self, name)
            if slot is not None and not isinstance(slot, Tensor):
                raise TypeError(f"{name} is a {type(slot).__name__}; give a tensor.")
        if self.score_mod is not None and not isinstance(self.score_mod, ScoreMod):
            kind = type(self.score_mod).__name__
            raise TypeError(f"score_mod is a {kind}; give an object with the methods of ScoreMod.")

    def __add__(self, addend: Injection) -> Injection:
        if self.score_mod is not None and addend.score_mod is not None:
            names = " and ".join(type(part.score_mod).__name__ for part in (self, addend))
            raise ValueError(f"both injections have a score_mod, {names}, and a layer applies one; drop one.")
        return Injection(
            **{name: self._sum(addend, name) for name in ("added", "rotary", "stretch", "bias")},
            distance=_combined(add, self.distance, addend.distance),
            scale=_combined(_product, self.scale, addend.scale),
            score_mod=self.score_mod or addend.score_mod,
        )

    def _sum(self, addend: Injection, name: str) -> Tensor | None:
        """A slot of both; an error if they differ in width, which would be broadcast, or in heads."""
        first, second = getattr(self, name), getattr(addend, name)
        if first is not None and second is not None and not torch.compiler.is_compiling():
            sizes = [part.shape[1 if name == "bias" else -1] for part in (first, second)]
            if len(set(sizes)) > 1 and not (name == "bias" and 1 in sizes):
                what = "heads" if name == "bias" else "width"
                raise DoesNotFit(
                    f"two injections have `{name}` of {what} {sizes[0]} and {sizes[1]}; make them equal."
                )
        return cast("Tensor | None", _combined(add, first, second))

    def misshaped(self, batch: int, tokens: int) -> dict[str, str]:
        """The slots whose shape does not fit so many texts of so many tokens, with the shape expected.

        A score_mod is not among them: it has no shape before a layer calls it, which checks the result.
        """
        per_token = f"(B, T, ...) = ({batch}, {tokens}, ...)"
        fits = {
            "added": (self.added, (3,), (batch, tokens), per_token),
            "rotary": (self.rotary, (3,), (batch, tokens), per_token),
            "stretch": (self.stretch, (3,), (batch, tokens), per_token),
            "bias": (self.bias, (4,), (tokens, tokens), f"(B, H, T, T) = ({batch}, H, {tokens}, {tokens})"),
            "scale": (self.scale, (2, 3), (batch, tokens), f"(B, T) = ({batch}, {tokens}), or (B, T, H)"),
        }
        return {
            name: expected
            for name, (slot, axes, sizes, expected) in fits.items()
            if slot is not None
            and (
                slot.ndim not in axes
                or tuple(slot.shape[-2:] if name == "bias" else slot.shape[:2]) != sizes
                or len(slot) not in (1, batch)
            )
        }

    def rows(self, index: Tensor) -> Injection:
        """The injection of the sentences `index` (N,)."""
        distance = None if self.distance is None else self.distance.rows(index)
        score_mod = None if self.score_mod is None else self.score_mod.rows(index)
        tensors = {
            name: slot.expand(len(index), *slot.shape[1:]) if len(slot) == 1 else slot[index]
            for name, slot in self._tensors().items()
        }
        return replace(self, **tensors, distance=distance, score_mod=score_mod)

    def since(self, past: int) -> Injection:
        """The injection of the tokens after the first `past`; a bias and a score_mod keep all keys."""
        if past == 0:
            return self
        tensors = self._tensors()
        for name, slot in tensors.items():
            tensors[name] = slot[:, :, past:] if name == "bias" else slot[:, past:]
        distance = None if self.distance is None else replace(self.distance, past=self.distance.past + past)
        return replace(self, **tensors, distance=distance, score_mod=self.score_mod)

    def dense(self) -> Injection:
        """The same, with a bias of places computed for every pair."""
        if self.distance is None:
            return self
        return replace(self, bias=_combined(add, self.bias, self.distance.dense()), distance=None)

    def _tensors(self) -> dict[str, Tensor]:
        slots = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: slot for name, slot in slots.items() if isinstance(slot, Tensor)}


def _product(first: Tensor, second: Tensor) -> Tensor:
    """Two scales, (B, T) or (B, T, H), as one; per head if one of them is."""
    axes = max(first.ndim, second.ndim)
    first, second = (scale if scale.ndim == axes else scale[..., None] for scale in (first, second))
    return first * second


def _combined(operation: Callable[[Any, Any], Any], first: Any, second: Any) -> Any:
    return second if first is None else first if second is None else operation(first, second)


class LogLength(torch.nn.Module):
    """Attention that does not dilute with length: a query's scores are multiplied by log n / log n0.

    n is the number of real tokens that the query sees, n0 the mean training length (at least 2 each).

    sees    "text"      all of its sentence
            "prefix"    the tokens up to itself; for decoders
    heads   whether it applies to each head; None: to all. A head whose bias decays sees as many tokens in
            any text, and is better off without

    Source: this project; the same factor as in arXiv 2202.12172, section 5.3.

    >>> LogLength(mean_length=24)(torch.ones(1, 24, dtype=torch.bool)).scale[0, :2]
    tensor([1., 1.])
    >>> LogLength(mean_length=2, heads=[False, True])(torch.ones(1, 4, dtype=torch.bool)).scale[0, 0]
    tensor([1., 2.])
    """

    def __init__(
        self,
        *,
        mean_length: float,
        sees: Literal["text", "prefix"] = "text",
        heads: Sequence[bool] | None = None,
    ) -> None:
        super().__init__()
        if not mean_length > 0:
            raise ValueError(f"mean_length is {mean_length}; it must be a positive number of tokens.")
        one_of("sees", sees, ("text", "prefix"))
        self.mean_length, self.sees = float(mean_length), sees
        self.heads = None if heads is None else tuple(heads)

    @property
    def causal(self) -> bool:
        """True if a query's factor depends on its prefix only."""
        return self.sees == "prefix"

    def forward(self, mask: Bool[Tensor, "B T"]) -> Injection:
        length = mask.cumsum(-1) if self.causal else mask.sum(-1, keepdim=True).expand_as(mask)
        mean = torch.tensor(max(self.mean_length, 2.0))
        scale = length.clamp(min=2).float().log() / mean.log()
        if self.heads is not None:
            scale = torch.where(torch.tensor(self.heads, device=scale.device), scale[..., None], 1.0)
        return Injection(scale=scale)

    def extra_repr(self) -> str:
        heads = "" if self.heads is None else f", heads={self.heads}"
        return f"mean_length={self.mean_length}, sees={self.sees!r}{heads}"
