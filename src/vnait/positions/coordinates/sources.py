"""Sources of z (B, T), the papers' unconstrained parameters of a span's gaps.

Every part is called `source(vectors, mask)` and has the flags `causal` and `per_sentence` of coordinates. All
start at softplus(z) = 1.
"""

from __future__ import annotations

import math
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vnait.positions.coordinates.shared import Line, Lines, Mask, Vectors, rank, without_padding_between
from vnait.shared.chunks import map_tokens
from vnait.shared.errors import OutOfRange
from vnait.shared.values import check, precision

UNIT_Z = math.log(math.e - 1)  # softplus(UNIT_Z) = 1: every source starts at gaps of one
HIDDEN = 32  # units of a network that reads words


class Uniform(nn.Module):
    """z constant: S_i = 100 i / n. Learns nothing."""

    causal = True
    per_sentence = False

    def forward(self, vectors: Vectors, mask: Mask) -> Line:
        return torch.full(mask.shape, UNIT_Z, dtype=torch.float64, device=mask.device)


class Free(nn.Module):
    """One learned z per position, the papers' z in R^n: a table of `max_length` scalars."""

    causal = True
    per_sentence = False

    def __init__(self, *, max_length: int) -> None:
        super().__init__()
        self.z = nn.Parameter(torch.empty(max_length))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.constant_(self.z, UNIT_Z)

    def forward(self, vectors: Vectors, mask: Mask) -> Line:
        number = rank(mask)
        check(
            number < len(self.z),
            'no text is longer than max_length of the source "free"',
            lambda *_: (
                f"a text of {int(number.max()) + 1} tokens is longer than max_length={len(self.z)} of "
                'the source "free"; cut it, or take the source "warp", which has no longest length.'
            ),
            OutOfRange,
        )
        return self.z[number]


class Warp(nn.Module):
    """A learned curve over the fraction of the text, (i - 1/2) / n: K knots on [0, 1], linear between."""

    causal = False
    per_sentence = False

    def __init__(self, *, knots: int = 16) -> None:
        super().__init__()
        if knots < 2:
            raise ValueError(f"knots={knots}; a curve needs at least 2.")
        self.z = nn.Parameter(torch.empty(knots))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.constant_(self.z, UNIT_Z)

    def forward(self, vectors: Vectors, mask: Mask) -> Line:
        fraction = (rank(mask) + 0.5) / mask.sum(-1, keepdim=True).clamp(min=1)
        place = fraction * (len(self.z) - 1)
        left = place.floor().long().clamp(0, len(self.z) - 2)
        return torch.lerp(self.z[left], self.z[left + 1], (place - left).to(self.z.dtype))


class Content(nn.Module):
    """z_i = MLP(e_{i-before} ... e_{i+after}): which tokens deserve more room; starts at uniform gaps."""

    per_sentence = True

    def __init__(self, *, dim: int, before: int = 1, after: int = 1) -> None:
        super().__init__()
        self.dim, self.before, self.after = dim, before, after
        self.look = nn.Conv1d(dim, HIDDEN, before + 1 + after)
        self.tell = ZeroLinear(HIDDEN, 1)

    @property
    def causal(self) -> bool:
        """True if it reads no token after i."""
        return self.after == 0

    @property
    def lookback(self) -> int:
        """How many tokens before i it reads."""
        return self.before

    def forward(self, vectors: Vectors, mask: Mask) -> Line:
        vectors = _needed(vectors, "content")
        # Never in half: a position is the sum of thousands of gaps.
        dtype = precision(vectors.dtype)

        def read(words: Tensor, real: Tensor) -> Tensor:
            seen = F.pad((words * real[..., None]).to(dtype).transpose(1, 2), (self.before, self.after))
            hidden = F.gelu(apply_in(dtype, self.look, seen)).transpose(1, 2)
            return UNIT_Z + apply_in(dtype, self.tell, hidden)[..., 0]

        with torch.autocast(vectors.device.type, enabled=False):
            near = partial(map_tokens, read, before=self.before, after=self.after)
            return without_padding_between(near, mask, vectors, mask)


class Projection(nn.Module):
    """z_i = W e_i + b, `lines` of them per token, (B, T, lines), as in CABLE; starts at uniform gaps.

    Source: arXiv 2503.08067, section 3.
    """

    causal = True
    per_sentence = True
    lookback = 0

    def __init__(self, *, dim: int, lines: int) -> None:
        super().__init__()
        if lines < 1:
            raise ValueError(f"lines={lines}; it must be 1 or more.")
        self.dim, self.lines = dim, lines
        self.linear = ZeroLinear(dim, lines)

    def forward(self, vectors: Vectors, mask: Mask) -> Lines:
        words = _needed(vectors, "projection")
        dtype = precision(words.dtype)
        with torch.autocast(words.device.type, enabled=False):
            return UNIT_Z + apply_in(dtype, self.linear, words.to(dtype))


def _needed(vectors: Vectors, source: str) -> Tensor:
    if vectors is None:
        raise ValueError(f'the source "{source}" needs vectors: call coordinates(vectors, mask).')
    return vectors


def apply_in(dtype: torch.dtype, part: nn.Module, x: Tensor) -> Tensor:
    """part(x), of a linear or convolutional part, in this dtype, whatever the model's. A layer that a client
    put in its place, such as one with LoRA, in int8 or with weights elsewhere, is called in its own dtype.
    """
    plain = type(part).forward in (nn.Linear.forward, nn.Conv1d.forward) and "forward" not in vars(part)
    if plain:
        weight, bias = cast(Tensor, part.weight).to(dtype), cast(Tensor, part.bias).to(dtype)
        return F.conv1d(x, weight, bias) if isinstance(part, nn.Conv1d) else F.linear(x, weight, bias)
    layer_dtype = next((weight.dtype for weight in part.parameters() if weight.is_floating_point()), dtype)
    return cast(Tensor, part(x.to(layer_dtype))).to(dtype)


class ZeroLinear(nn.Linear):
    """A linear map that starts at zero, also if all modules are reset one by one."""

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)
