"""Types of coordinates, padding, known positions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor, nn
from torch.nn import functional as F

from vnait.shared.values import all_true, check, precision, readable

Vectors = Float[Tensor, "B T D"] | None
Mask = Bool[Tensor, "B T"]
Line = Float[Tensor, "B T"]
Lines = Float[Tensor, "B T *lines"]  # one, or several in a last axis
At = Float[Tensor, "B T C"]
Positions = Num[Tensor, "B T P"] | None


def rank(mask: Mask) -> Tensor:
    """Each real token's number among the real ones, from 0."""
    return (mask.long().cumsum(-1) - 1).clamp(min=0)


def nearest_real(line: Tensor, mask: Mask) -> Tensor:
    """The line, with padding set to the nearest real token's value, without gradient."""
    if all_true(mask):  # no padding
        return line
    return torch.where(mask, line, line.detach().gather(-1, _nearest(mask)))


def _nearest(mask: Mask) -> Int[Tensor, "B T"]:
    """The column of the real token nearest to each column; the earlier one of two.

    >>> _nearest(torch.tensor([[False, True, False, False, False, True]]))
    tensor([[1, 1, 1, 1, 5, 5]])
    """
    length = mask.shape[-1]
    column = torch.arange(length, device=mask.device).expand_as(mask)
    count = mask.cumsum(-1)  # of real tokens up to here: 1, 2, ... at the real ones
    # The column of the k-th real token at entry k. All padding writes to entry 0, which no real token has. A
    # running maximum of the columns would be shorter, but cummax can't be exported to ONNX.
    columns = count.new_zeros(*mask.shape[:-1], length + 2).scatter(-1, count * mask, column)
    # Where there is no token on a side, one further away than any on the other side.
    before = torch.where(count > 0, columns.gather(-1, count), -length)
    after = torch.where(count < count[..., -1:], columns.gather(-1, count + 1), 2 * length)
    nearest = torch.where(column - before <= after - column, before, after)
    return nearest.clamp(0, length - 1)  # a text without a real token, refused by `check_mask`, has none


class _Divided(torch.autograd.Function):
    """The identity, whose gradient is divided by `count`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(line: Line, count: Float[Tensor, "B one"]) -> Line:
        return line.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Line, Tensor], output: Line) -> None:
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, gradient: Line) -> tuple[Line, None]:
        return gradient / ctx.saved_tensors[0], None


def averaged(line: Line, mask: Mask) -> Line:
    """The line; its gradient is divided by n, the number of the text's tokens.

    A gap moves all later tokens: its gradient is a sum over them, fills the norm at which gradients are
    clipped, and so takes the steps of all other weights, even where nothing is learned in it. Adam's steps
    do not depend on a gradient's scale: the gaps themselves are learned as fast as before.

    >>> line = torch.ones(1, 4, requires_grad=True)
    >>> averaged(line, torch.ones(1, 4, dtype=torch.bool)).sum().backward()
    >>> line.grad
    tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """
    if not torch.is_grad_enabled():
        return line
    return cast(Line, _Divided.apply(line, mask.sum(-1, keepdim=True).clamp(min=1).to(line.dtype)))


def without_padding_between(read: Callable[..., Tensor], mask: Mask, *parts: Tensor | None) -> Tensor:
    """read(*parts), (B, T, any), with no padding between the tokens of a text, for what reads neighbours.

    Parts are (B, T, any). Where padding stands within a text its tokens are moved to the left, and back. On a
    GPU, where a check would have to wait, such a mask ends the program; compiled it is not found.
    """
    if all_true(mask):
        return read(*parts)
    whole = in_one_piece(mask)
    if not readable(mask):
        message = "row {} has padding between its tokens, which is read on the CPU alone; move it to an end."
        check(whole, "padding stands before or after a text, not within it", message.format)
    elif not bool(whole.all()):
        order = (~mask).long().argsort(dim=-1, stable=True)
        moved = [None if part is None else _taken(part, order) for part in parts]
        return _taken(read(*moved), order.argsort(-1))
    return read(*parts)


def in_one_piece(mask: Mask) -> Bool[Tensor, " B"]:
    """Whether no padding stands between the tokens of a text."""
    starts = mask & ~F.pad(mask, (1, 0))[:, :-1]
    return starts.sum(-1) <= 1


def _taken(part: Tensor, order: Tensor) -> Tensor:
    """The tokens of each text in this order (B, T)."""
    rows = part.expand(len(order), *part.shape[1:])
    return rows.gather(1, order[(...,) + (None,) * (part.ndim - 2)].expand_as(rows))


def check_mask(mask: Mask) -> None:
    """Raise an error that names the first row without a real token."""
    check(
        mask.any(-1),
        "each text needs a real token",
        lambda row: (
            f"row {row} of the batch has no real token; a text needs at least one. Drop empty texts first."
        ),
    )


class Wrapper(nn.Module):
    """A change of other coordinates, with their flags."""

    def __init__(self, coordinates: nn.Module) -> None:
        super().__init__()
        self.coordinates = coordinates

    @property
    def causal(self) -> bool:
        return bool(self.coordinates.causal)

    @property
    def per_sentence(self) -> bool:
        return bool(self.coordinates.per_sentence)

    @property
    def takes_positions(self) -> bool:
        return takes_positions(self.coordinates)


def takes_positions(coordinates: nn.Module) -> bool:
    """Whether the coordinates can be called with known positions."""
    return bool(getattr(coordinates, "takes_positions", False))


def located(coordinates: nn.Module, vectors: Vectors, mask: Mask, positions: Positions) -> At:
    """The coordinates, from known positions if given; an error if they can't use them."""
    if positions is None:
        return coordinates(vectors, mask)
    if not takes_positions(coordinates):
        raise ValueError(
            f"the coordinates {type(coordinates).__name__} count the tokens themselves and take no "
            "positions; leave `positions` out, or take Index, Span, Elastic, Grid, Segments or Phase."
        )
    if not torch.compiler.is_compiling() and (positions.ndim != 3 or positions.shape[:2] != mask.shape):
        raise ValueError(
            f"the positions have the shape {tuple(positions.shape)} for a mask of the shape "
            f"{tuple(mask.shape)}; give (B, T, P)."
        )
    return coordinates(vectors, mask, positions)


def known(positions: Num[Tensor, "B T P"], mask: Mask) -> At:
    """Known positions in float32 at least, with padding set to the nearest real token's.

    Integers are exact, in float64: float32 would round timestamps in seconds to two minutes.
    """
    message = "the positions have NaN or infinity; give a finite number for each real token."
    check(torch.isfinite(positions) | ~mask[..., None], "positions are finite", lambda *_: message)
    exact = not positions.is_floating_point() and positions.device.type != "mps"  # which has no float64
    lines = positions.to(torch.float64 if exact else precision(positions.dtype)).unbind(-1)
    return torch.stack([nearest_real(line, mask) for line in lines], -1)


def steps(positions: Num[Tensor, "B T P"], mask: Mask) -> Line:
    """The gap before each real token over the mean gap: (t_i - t_{i-1}) (n - 1) / (t_n - t_1), 1 for the
    first; t is the positions' one axis, which must not decrease. Padding between real tokens takes no time.
    """
    if positions.shape[-1] != 1:
        raise ValueError(
            f"the positions have {positions.shape[-1]} axes, and a span has one; give one of them, "
            "positions[..., :1], or take coordinates for several, such as Index or Grid."
        )
    number, count = rank(mask), mask.sum(-1, keepdim=True)
    line = known(positions, mask).squeeze(-1).double()
    # The k-th real token's place at k; padding goes to one more entry, which is never read.
    length = mask.shape[1]
    line = line.new_zeros(mask.shape[0], length + 1).scatter(-1, torch.where(mask, number, length), line)
    gaps = line.diff(dim=-1, prepend=line[:, :1]).gather(-1, number)
    message = "the positions decrease along a text; sort its tokens by their positions, such as times."
    check((gaps >= 0) | ~mask, "positions don't decrease", lambda *_: message)
    total = gaps.masked_fill(~mask, 0).sum(-1, keepdim=True)
    shares = torch.where(total > 0, gaps * (count - 1) / total.clamp_min(torch.finfo(total.dtype).tiny), 1)
    return torch.where(number == 0, 1, shares)


def max_lookback(parts: Iterable[nn.Module | None]) -> int | None:
    """The largest `lookback`, a number of earlier tokens, of the parts; None if one has none."""
    most = 0
    for part in parts:
        lookback = getattr(part, "lookback", None)
        if lookback is None:
            return None
        most = max(most, int(lookback))
    return most
