"""A positional method: coordinates x encoding x inputs."""

from __future__ import annotations

import logging
from functools import lru_cache, partial
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from vnait.positions.coordinates import Elastic, Ends, Jitter, Span, check_mask, located
from vnait.positions.coordinates.shared import Positions, max_lookback, without_padding_between
from vnait.positions.encodings.shared import since
from vnait.positions.injection import Injection
from vnait.positions.inputs import Add, boundary, muting, smoothness
from vnait.shared.chunks import map_texts
from vnait.shared.errors import DoesNotFit
from vnait.shared.values import all_true, readable

logger = logging.getLogger("vnait")


class MethodOutput(NamedTuple):
    """The backbone's input and injection, and the coordinates, without the jitter of the training."""

    x: Float[Tensor, "B T D"]
    injection: Injection
    at: Float[Tensor, "B T C"]


class Method(nn.Module):
    """A positional method, from semantic vectors e to the backbone's input x and its `Injection`.

    coordinates    (vectors, mask) -> (B, T, C)
    encoding       (at) -> Injection
    inputs         (vectors, added) -> (B, T, D); by default `Add`. It may read the coordinates (`Condensed`)
    scale          (mask) -> Injection, or None for the attention scores as they are

    A method contains no other method. Known `positions` (B, T, P), such as timestamps or a patch's row and
    column, replace the counted ones.

    >>> from vnait.positions.coordinates import Index
    >>> from vnait.positions.encodings import Sinusoid
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
        for name, part in (("coordinates", coordinates), ("encoding", encoding)):
            if not isinstance(part, nn.Module):
                raise TypeError(f"the {name} {part!r} is not a module; give an object, such as Index().")
        self.coordinates = coordinates
        self.encoding = encoding
        self.inputs = Add() if inputs is None else inputs
        self.scale = scale
        for name, part in self.named_children():
            _refuse_second(name, part)
            _check_flags(name, part)

    @property
    def causal(self) -> bool:
        """No token depends on what follows it."""
        parts = [self.coordinates.causal, getattr(self.encoding, "causal", True), self.inputs.causal]
        return all(map(bool, parts if self.scale is None else [*parts, self.scale.causal]))

    @property
    def relative(self) -> bool:
        """Attention scores depend on differences of coordinates only."""
        return bool(getattr(self.encoding, "relative", False))

    def forward(
        self,
        vectors: Float[Tensor, "B T D"],
        mask: Bool[Tensor, "B T"],
        positions: Positions = None,
    ) -> MethodOutput:
        """x (B, T, D), the injection, and the coordinates (B, T, C); `mask` is True for real tokens.

        positions   known positions in place of counted ones, such as timestamps

        ValueError for shapes that differ, or positions that the coordinates don't take; `DoesNotFit` if the
        encoding adds vectors of another width.
        """
        _check_inputs(vectors, mask)
        if not all_true(mask):
            vectors = vectors.masked_fill(~mask[..., None], 0)  # so that no window reads padding
        at, injection = self.inject(vectors, mask, positions)
        added = None if injection.added is None else injection.added.to(vectors.dtype)
        if added is not None and added.shape[-1] != vectors.shape[-1]:
            raise DoesNotFit(
                f"the encoding {type(self.encoding).__name__} adds vectors of width {added.shape[-1]}, and "
                f"those of the words have width {vectors.shape[-1]}; give it dim={vectors.shape[-1]}."
            )
        if self.scale is not None:
            injection = injection + self.scale(mask)
        seen = (vectors, added, at) if getattr(self.inputs, "reads_coordinates", False) else (vectors, added)
        # In training a part may draw a number per call.
        read = self.inputs if self.training else partial(map_texts, self.inputs)
        # What reads one token alone does not depend on where padding is.
        x = read(*seen) if max_lookback([self.inputs]) == 0 else without_padding_between(read, mask, *seen)
        return MethodOutput(x, injection, at)

    @property
    def lookback(self) -> int | None:
        """How many tokens before it a token's x and gap are computed from, for `since`; None: all."""
        coordinates = _plain(self.coordinates)
        parts = (self.inputs, coordinates) if coordinates.per_sentence else (self.inputs,)
        return None if self.training else max_lookback(parts)

    def gaps(self, vectors: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T *gaps"]:
        """What the coordinates of words are computed from, token by token; nothing if they count tokens."""
        coordinates = _plain(self.coordinates)
        if coordinates.per_sentence:
            return cast(Span, coordinates).gaps(vectors, mask)
        return vectors.new_empty(*mask.shape, 0)

    def since(
        self,
        past: int,
        vectors: Float[Tensor, "B W D"],
        mask: Bool[Tensor, "B T"],
        gaps: Float[Tensor, "B T *gaps"],
    ) -> MethodOutput:
        """x and injection of the tokens after the first `past`, and all coordinates.

        vectors   those of the new tokens and of `lookback` tokens before them, zero at padding
        gaps      those of all tokens
        """
        coordinates, new = _plain(self.coordinates), mask.shape[1] - past
        words = vectors.new_empty(*mask.shape, 0)  # only the dtype counts
        if coordinates.per_sentence:
            at = cast(Span, coordinates).locate(gaps, mask)
        else:
            at = coordinates(words, mask)
        injection = since(self.encoding, at, past)
        if self.scale is not None:
            injection = injection + self.scale(mask).since(past)
        added = injection.added
        if added is not None:  # a view reads earlier words, and nothing reads what was added to them
            added = F.pad(added.to(vectors.dtype), (0, 0, vectors.shape[1] - new, 0))
        return MethodOutput(self.inputs(vectors, added)[:, -new:], injection, at)

    def inject(
        self,
        vectors: Float[Tensor, "B T D"],
        mask: Bool[Tensor, "B T"],
        positions: Positions = None,
    ) -> tuple[Tensor, Injection]:
        """Coordinates and injection; if they depend on the mask alone, computed once per distinct mask."""
        jitter = self.coordinates if isinstance(self.coordinates, Jitter) else None
        plain = _plain(self.coordinates)
        if self.coordinates.per_sentence or positions is not None or not readable(mask):
            at = _checked(plain, located(plain, vectors, mask, positions), mask)
            return at, self._injection(at if jitter is None else jitter.move(at, mask))
        check_mask(mask)  # here a row of the mask is still a row of the batch
        if all_true(mask):  # to sort equal rows would take longer than to number them
            masks, row = mask[:1], mask.new_zeros(len(mask), dtype=torch.long)
        else:
            masks, row = mask.unique(dim=0, return_inverse=True)
        empty = vectors.new_empty(*masks.shape, 0)  # only the dtype counts
        at = _checked(plain, self.coordinates(empty, masks), masks)
        placed = at.expand(len(row), -1, -1) if len(at) == 1 else at[row]
        return placed, self._injection(at).rows(row)

    def _injection(self, at: Float[Tensor, "B T C"]) -> Injection:
        injection = self.encoding(at)
        if not isinstance(injection, Injection):
            raise TypeError(
                f"the encoding {type(self.encoding).__name__} returned a {type(injection).__name__}; return "
                "an Injection, such as Injection(added=...)."
            )
        if torch.compiler.is_compiling():  # sizes are symbols there
            return injection
        for name, expected in injection.misshaped(*at.shape[:2]).items():
            raise ValueError(
                f"the encoding {type(self.encoding).__name__} returned {name} of the shape "
                f"{tuple(getattr(injection, name).shape)}, for coordinates of the shape {tuple(at.shape)}; "
                f"return {expected}."
            )
        return injection

    @property
    def span(self) -> Span | None:
        """The learned span that `penalty` regularizes, if there is one."""
        return _span(self.coordinates)

    def penalty(
        self,
        at: Float[Tensor, "B T C"],
        mask: Bool[Tensor, "B T"],
        positions: Positions = None,
        *,
        smooth: float,
        bound: float,
        mute: float = 0.0,
    ) -> Float[Tensor, ""]:
        """gamma1 smoothness + gamma2 boundary of a learned span at `at`, which was computed with these
        positions; gamma3 muting of elastic coordinates; 0 for others.
        """
        if mute and isinstance(_plain(self.coordinates), Elastic):
            return mute * muting(at, mask).float()
        span = self.span
        if span is None or (smooth == 0 and bound == 0):
            return at.new_zeros((), dtype=torch.float32)  # coordinates may be float64, and a loss is not
        loss = smooth * smoothness(at, mask, positions)
        if span.bounds is not None:
            return loss + bound * boundary(at, mask)
        if bound:
            _log_no_boundary()
        return loss


def _check_inputs(vectors: Tensor, mask: Tensor) -> None:
    if torch.compiler.is_compiling():
        return
    if mask.dtype != torch.bool:
        raise ValueError(f"the mask has the dtype {mask.dtype}; give True at real tokens: mask.bool().")
    if vectors.ndim != 3 or vectors.shape[:2] != mask.shape:
        raise ValueError(
            f"the vectors have the shape {tuple(vectors.shape)} and the mask {tuple(mask.shape)}; give "
            "(B, T, D) and (B, T)."
        )


def _checked(coordinates: nn.Module, at: Tensor, mask: Tensor) -> Tensor:
    if not isinstance(at, Tensor):
        raise TypeError(
            f"the coordinates {type(coordinates).__name__} returned a {type(at).__name__}; return a tensor "
            "(B, T, C)."
        )
    if not torch.compiler.is_compiling() and (at.ndim != 3 or at.shape[:2] != mask.shape):
        raise ValueError(
            f"the coordinates {type(coordinates).__name__} returned the shape {tuple(at.shape)} for a mask "
            f"of the shape {tuple(mask.shape)}; return (B, T, C), such as line[..., None]."
        )
    return at


def _plain(coordinates: nn.Module) -> nn.Module:
    """The coordinates without their jitter."""
    return coordinates.coordinates if isinstance(coordinates, Jitter) else coordinates


def _span(coordinates: nn.Module) -> Span | None:
    """The learned span whose S is axis 0 of the coordinates, if there is one."""
    part = _plain(coordinates)
    part = part.span if isinstance(part, Ends) else part
    learned = [
        span
        for span in part.modules()
        if isinstance(span, Span)
        and span.normalization == "span"
        and any(parameter.requires_grad for parameter in span.parameters())
    ]
    if not learned:
        return None
    if learned != [part]:
        # 100 / n is not an ideal gap of other coordinates that contain a span, such as phases.
        _log_unseen(type(part).__name__)
        return None
    return learned[0]


def _check_flags(name: str, part: nn.Module) -> None:
    flags = {"coordinates": ("causal", "per_sentence"), "encoding": ()}.get(name, ("causal",))
    if missing := [flag for flag in flags if not hasattr(part, flag)]:
        raise TypeError(
            f"the {name} {type(part).__name__} must have {' and '.join(missing)}, True or False; set it in "
            "the class."
        )


def _refuse_second(name: str, part: nn.Module) -> None:
    """Raise an error if a part contains a method: position would enter twice."""
    for inner in part.modules():
        if isinstance(inner, Method):
            raise ValueError(
                f"{name} contains another method ({described(inner)}); a model has exactly one. Give its "
                "parts, or combine several encodings with encodings.Sum."
            )


def described(method: Method) -> str:
    """A method in words: its coordinates and its encoding."""
    return f"{type(method.coordinates).__name__} x {type(method.encoding).__name__}"


@lru_cache(maxsize=1)
def _log_no_boundary() -> None:
    logger.info("hard bounds keep every coordinate in (0, 100], so the boundary penalty is 0.")


@lru_cache(maxsize=8)
def _log_unseen(name: str) -> None:
    logger.warning(
        "the regularizer does not reach the learned Span inside the coordinates %s: the smoothness and "
        "boundary penalties are 0. Give the Span itself, Ends or Jitter, or set both weights to 0.",
        name,
    )
