"""Precision, and reading coordinates and tables.

Angles, distances and shares are computed at the coordinates' precision or above. An injection has the
precision of the parameters, or, without parameters, the wider of the coordinates' and torch's default. Never
half.
"""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float, Int
from torch import Tensor, nn

from vnait.positions.injection import Injection
from vnait.shared.errors import OutOfRange
from vnait.shared.values import check, full

At = Float[Tensor, "B T C"]


def first_axes(part: nn.Module, at: At, axes: int) -> Float[Tensor, "B T A"]:
    """The first axes of the coordinates, or an error that names the part that reads them."""
    if at.shape[-1] < axes:
        raise ValueError(
            f"{type(part).__name__} reads {axes} axes, and the coordinates have {at.shape[-1]}; take "
            "coordinates with more."
        )
    return at[..., :axes]


def neighbours(
    place: Float[Tensor, "*any"], size: int
) -> tuple[Int[Tensor, "*any"], Int[Tensor, "*any"], Float[Tensor, "*any"]]:
    """The entries before and after a place in a table of `size`, and the place's fraction between them."""
    left = place.detach().floor().long().clamp(0, max(size - 2, 0))
    return left, (left + 1).clamp(max=size - 1), full(place) - left


def line_of(places: At) -> Float[Tensor, "B C T"]:
    """Coordinates at full precision, tokens last: so keys are adjacent in a bias's memory."""
    return full(places).transpose(1, 2).contiguous()


def check_inside(place: Float[Tensor, "*any"], size: int, message: Callable[[float], str]) -> None:
    """Raise OutOfRange(message(p)) for the first place p that is not in [0, size - 1]."""
    inside = (place >= 0) & (place <= size - 1)
    rule = f"coordinates are in [0, {size - 1}]"
    check(inside, rule, lambda *at: message(float(place.detach()[at])), OutOfRange)


def checked_heads(num_heads: int) -> int:
    """The number of heads, or an error."""
    if num_heads < 1:
        raise ValueError(f"num_heads={num_heads}; a bias needs at least one head.")
    return num_heads


def since(encoding: nn.Module, at: At, past: int) -> Injection:
    """encoding(at).since(past), of the new tokens alone where the others' coordinates don't count.

    An encoding made of others has a `since` of its own.
    """
    composed = getattr(encoding, "since", None)
    if composed is not None:
        return composed(at, past)
    if getattr(encoding, "pointwise", False):
        return encoding(at[:, past:])
    return encoding(at).since(past)
