"""A positional method: coordinates (where) x encoding (how it is told) x inputs (where it joins the words)."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Num
from torch import Tensor, nn

from vnait.coordinates import Ends, Jitter, SoftBounds, Span, check_mask, located
from vnait.injection import Injection
from vnait.inputs import Add, boundary, smoothness

logger = logging.getLogger("vnait")


class Told(NamedTuple):
    """What the backbone gets, and the coordinates behind it."""

    x: Float[Tensor, "B T D"]
    injection: Injection
    at: Float[Tensor, "B T C"]


class Method(nn.Module):
    """A positional method: e -> where -> how -> x. The one place where position enters a model.

    coordinates (vectors, mask) -> (B, T, C);  encoding (at) -> Injection;  inputs (vectors, added) -> (B, T, D);
    scale (mask) -> Injection, or None to leave the attention scores as they are. A method holds no other method: exactly one tells.

    Called with known `places` (B, T, P), the coordinates take them instead of counting: timestamps, a patch's row and column.

    >>> from vnait.coordinates import Index
    >>> from vnait.encodings import Sinusoid
    >>> method = Method(coordinates=Index(), encoding=Sinusoid(dim=4))
    >>> method(torch.zeros(1, 3, 4), torch.ones(1, 3, dtype=torch.bool)).x.shape
    torch.Size([1, 3, 4])
    """

    def __init__(
        self,
        *,
        coordinates: nn.Module,
        encoding: nn.Module,
        inputs: nn.Module | None = None,
        scale: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.coordinates = coordinates
        self.encoding = encoding
        self.inputs = Add() if inputs is None else inputs
        self.scale = scale
        for name, part in self.named_children():
            _refuse_second(name, part)
            _check_says(name, part)

    @property
    def causal(self) -> bool:
        """No token is told anything about what follows it."""
        parts = [self.coordinates.causal, getattr(self.encoding, "causal", True), self.inputs.causal]
        return all(map(bool, parts if self.scale is None else [*parts, self.scale.causal]))

    @property
    def relative(self) -> bool:
        """Attention scores hang on the differences of coordinates alone: the same shift of all changes nothing."""
        return bool(getattr(self.encoding, "relative", False))

    def forward(
        self, vectors: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"], places: Num[Tensor, "B T P"] | None = None
    ) -> Told:
        vectors = vectors.masked_fill(~mask[..., None], 0)  # no window reads padding, whatever is there
        at, injection = self.tell(vectors, mask, places)
        added = None if injection.added is None else injection.added.to(vectors.dtype)
        if self.scale is not None:
            injection = injection + self.scale(mask)
        return Told(self.inputs(vectors, added), injection, at)

    def tell(
        self, vectors: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"], places: Num[Tensor, "B T P"] | None = None
    ) -> tuple[Tensor, Injection]:
        """Coordinates and injection; once a distinct mask where they depend on nothing else, not once a sentence."""
        if self.coordinates.per_sentence or places is not None or torch.compiler.is_compiling():
            at = located(self.coordinates, vectors, mask, places)
            return at, self._injection(at)
        check_mask(mask)  # here, where a row is still the batch's row
        masks, row = mask.unique(dim=0, return_inverse=True)
        at = self.coordinates(vectors.new_empty(*masks.shape, 0), masks)  # only the dtype counts: no word is read
        return at[row], self._injection(at).rows(row)

    def _injection(self, at: Float[Tensor, "B T C"]) -> Injection:
        injection = self.encoding(at)
        if not isinstance(injection, Injection):
            raise TypeError(
                f"the encoding {type(self.encoding).__name__} gave a {type(injection).__name__}; an encoding gives an Injection, for one "
                "Injection(added=...)."
            )
        return injection

    def penalty(
        self, vectors: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"], *, smooth: float, bound: float
    ) -> Float[Tensor, ""]:
        """gamma1 smoothness + gamma2 boundary of a learned span, free of jitter; 0 where nothing is learned, or no span."""
        plain = self.coordinates.coordinates if isinstance(self.coordinates, Jitter) else self.coordinates
        # Of what else is made of spans, phases for one, 100 / n is no ideal gap.
        span = plain.span if isinstance(plain, Ends) else plain
        learned = any(parameter.requires_grad for parameter in plain.parameters())
        if not (learned and isinstance(span, Span) and span.normalization == "span") or (smooth == 0 and bound == 0):
            return vectors.new_zeros(())
        at = plain(vectors, mask)
        loss = smooth * smoothness(at, mask)
        if any(isinstance(part, SoftBounds) for part in span.modules()):
            return loss + bound * boundary(at, mask)
        if bound:
            _say_no_boundary()
        return loss


def _check_says(name: str, part: nn.Module) -> None:
    says = {"coordinates": ("causal", "per_sentence"), "inputs": ("causal",), "scale": ("causal",)}.get(name, ())
    if left := [word for word in says if not hasattr(part, word)]:
        raise TypeError(
            f"the {name} {type(part).__name__} must say {' and '.join(left)}, True or False; set it in the class."
        )


def _refuse_second(name: str, part: nn.Module) -> None:
    """A method inside another's part would tell position twice."""
    for inner in part.modules():
        if isinstance(inner, Method):
            raise ValueError(
                f"{name} holds a method of its own ({described(inner)}); a model has exactly one. Give its parts, or put "
                "several encodings into one method with encodings.Sum."
            )


def described(method: Method) -> str:
    """A method in words: its coordinates and its encoding."""
    return f"{type(method.coordinates).__name__} x {type(method.encoding).__name__}"


@lru_cache(maxsize=1)
def _say_no_boundary() -> None:
    logger.info("hard bounds keep every coordinate in (0, 100], so the boundary penalty is 0 and is not computed.")
