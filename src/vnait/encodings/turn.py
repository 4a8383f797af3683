"""Encodings that turn: angles (B, T, K/2) in radians, one a pair of channels, by which queries and keys are rotated. And layouts.

Angles are computed in float64 and handed on without their whole turns, which no rotation shows: in (-pi, pi], so that float32
holds them to 2e-7 at any position (p itself, at 100,000, would leave it 4e-3). Never in half precision.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from vnait.encodings.shared import At, precision
from vnait.injection import Injection

Layout = Literal["half", "interleaved"]

# Rule: what it needs and what it may have, beside factor and original_length, in transformers' names.
_RULES: dict[str, tuple[set[str], set[str]]] = {
    "linear": (set(), set()),
    "dynamic": (set(), set()),
    "yarn": (set(), {"attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"}),
    "llama3": ({"low_freq_factor", "high_freq_factor"}, set()),
    "longrope": ({"short_factor", "long_factor"}, {"attention_factor"}),
}


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """How a rotation trained at one length is stretched to longer ones; frequencies and attention factor are transformers' own.

    rule                "linear" (position interpolation), "dynamic" (NTK), "yarn", "llama3" or "longrope"
    factor              how many times longer, at least 1
    original_length     the length trained at; every rule but "linear" needs it
    more                the rule's other numbers, under the names of a configuration's `rope_parameters`

    "dynamic" and "longrope" depend on the length: here the sentence's own, its largest coordinate + 1, never the batch's; not below
    `original_length`, and without gradient. So past that length an earlier token's angles change as the sentence grows.

    Source: `ROPE_INIT_FUNCTIONS` of transformers (in float32); arXiv 2306.15595, 2309.00071, 2402.13753.

    >>> Scaling(rule="llama3", factor=8.0, original_length=8192, more={"low_freq_factor": 1.0, "high_freq_factor": 4.0}).rule
    'llama3'
    """

    rule: Literal["linear", "dynamic", "yarn", "llama3", "longrope"]
    factor: float
    original_length: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.rule not in _RULES:
            raise ValueError(f"the scaling rule {self.rule!r} is not known; take {', '.join(_RULES)}.")
        if not (math.isfinite(self.factor) and self.factor >= 1):
            raise ValueError(f"a scaling factor of {self.factor} is not a stretch; give a number of at least 1.")
        self._check_length()
        self._check_more()

    def rates(
        self, size: int, base: float, length: Float[Tensor, " B"]
    ) -> tuple[Float[Tensor, "... size_half"], float]:
        """Radians a position of the pairs of `size` channels, (size/2,) or (B, size/2), as precise as `length`; factor of cos and sin."""
        if self.rule == "dynamic":
            return self._ask(size, base, length[:, None])  # broadcasts: one row of rates a sentence
        rates, factor = self._ask(size, base, None)
        rates = rates.to(length)
        if self.rule == "longrope":
            assert self.original_length is not None
            long, _ = self._ask(size, base, self.original_length + 1)
            rates = torch.where(length[:, None] > self.original_length, long.to(length), rates)
        return rates, factor

    def _ask(self, size: int, base: float, length: Tensor | int | None) -> tuple[Tensor, float]:
        from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

        numbers = {"factor": self.factor, "original_max_position_embeddings": self.original_length, **self.more}
        config = _Config({"rope_type": self.rule, "rope_theta": base, **numbers}, size, self.original_length)
        # On the CPU unless the length is elsewhere: float32 powers differ in the last digit between devices.
        device = length.device if isinstance(length, Tensor) else torch.device("cpu")
        return ROPE_INIT_FUNCTIONS[self.rule](config, device, seq_len=length)

    def _check_length(self) -> None:
        if self.rule == "linear":
            if self.original_length is not None:
                raise ValueError("linear scaling reads no original_length; leave it out.")
        elif self.original_length is None or self.original_length < 2:
            raise ValueError(
                f"{self.rule} scaling was given original_length={self.original_length}; give the length trained at, "
                "2 or more."
            )

    def _check_more(self) -> None:
        needs, may = _RULES[self.rule]
        given = set(self.more)
        if not needs <= given <= needs | may:
            raise ValueError(
                f"{self.rule} scaling was given {_listed(given)} in `more`; it needs {_listed(needs)} and may have "
                f"{_listed(may)}."
            )
        if self.rule == "llama3" and not 0 < self.more["low_freq_factor"] < self.more["high_freq_factor"]:
            raise ValueError(
                f"llama3 scaling was given low_freq_factor={self.more['low_freq_factor']} and "
                f"high_freq_factor={self.more['high_freq_factor']}; the low one must be positive and below the high one."
            )


class _Config:
    """What transformers' functions read of a model's configuration; a plain class, which torch.compile can follow."""

    def __init__(self, rope_parameters: dict[str, Any], width: int, length: int | None) -> None:
        self.rope_parameters = rope_parameters
        self.head_dim = self.hidden_size = width
        self.num_attention_heads = 1
        self.max_position_embeddings = length

    def standardize_rope_params(self) -> None:
        """They are."""


class Rotary(nn.Module):
    """RoPE: turn_k = p * base^(-2k/R) over the first R/2 of the K/2 pairs, 0 over the others; turn, (B, T, K/2). Any real p.

    width       K, the width of a head, even
    share       R / K, the part of the channels that turns; R must be even. Pairs are (k, k + K/2): GPT-NeoX, whose partial rotation
                pairs k with k + R/2, needs its rows reordered
    scaling     how to reach past the length trained at

    The attention factor m of yarn and longrope multiplies cos and sin in transformers, so it enters as `scale` = m^2, (B, T): all of a
    score, as in the YaRN paper (transformers leaves out the channels that don't turn). Source: arXiv 2104.09864, section 3.2.2.

    >>> Rotary(width=4)(torch.tensor([[[1.0], [2.0]]])).turn
    tensor([[[1.0000, 0.0100],
             [2.0000, 0.0200]]])
    """

    def __init__(
        self, *, width: int, base: float = 10_000.0, share: float = 1.0, scaling: Scaling | None = None
    ) -> None:
        super().__init__()
        self.width, self.base, self.share, self.scaling = width, _checked_base(base), share, scaling
        self.turning = _turning(width, share)
        if scaling is not None:
            _check_fit(scaling, self.turning)

    @property
    def causal(self) -> bool:
        """Not where the rates hang on the length: past `original_length` a longer text turns its first tokens otherwise."""
        return self.scaling is None or self.scaling.rule not in ("dynamic", "longrope")

    @property
    def relative(self) -> bool:
        """As `causal`: where a length counts, so does the place of the last token."""
        return self.causal

    def forward(self, at: At) -> Injection:
        rates, factor = self._rates(at[..., 0].detach())
        turn = _turn(at[..., :1], rates)
        turn = F.pad(turn, (0, self.width // 2 - turn.shape[-1]))
        return Injection(turn=turn, scale=None if factor == 1 else turn.new_full(at.shape[:2], factor**2))

    def _rates(self, place: Float[Tensor, "B T"]) -> tuple[Tensor, float]:
        """Radians a position, (pairs,) or (B, 1, pairs), and the factor of cos and sin."""
        if self.scaling is None:
            return _geometric(self.turning // 2, self.base, place.device), 1.0
        length = F.pad(place.double(), (0, 1)).amax(-1) + 1  # the pad: a sentence without tokens has a length, too
        rates, factor = self.scaling.rates(self.turning, self.base, length)
        return (rates if rates.ndim == 1 else rates[:, None]), factor

    def extra_repr(self) -> str:
        return f"width={self.width}, base={self.base:g}, share={self.share:g}, scaling={self.scaling}"


class Axial(nn.Module):
    """RoPE of a grid: each of the first C = `axes` coordinate axes turns its own P = K/(2C) pairs; turn, (B, T, K/2). Any reals.

    turn_(cP + k) = p_c * base^(-k/P): axis 0 has the first P pairs. Source: arXiv 2403.13298, section 3.2 (axial frequency).

    >>> Axial(width=8)(torch.tensor([[[1.0, 2.0]]])).turn
    tensor([[[1.0000, 0.1000, 2.0000, 0.2000]]])
    """

    relative = True

    def __init__(self, *, width: int, axes: int = 2, base: float = 100.0) -> None:
        super().__init__()
        if axes < 1 or width < 1 or width % (2 * axes):
            raise ValueError(
                f"a head width of {width} has no equal number of pairs for each of {axes} axes; "
                "take a multiple of twice the axes."
            )
        self.width, self.axes, self.base = width, axes, _checked_base(base)

    def forward(self, at: At) -> Injection:
        if at.shape[-1] < self.axes:
            raise ValueError(f"Axial turns by {self.axes} axes, given coordinates of {at.shape[-1]}; set axes=.")
        rates = _geometric(self.width // (2 * self.axes), self.base, at.device)
        return Injection(turn=_turn(at[..., : self.axes, None], rates).flatten(-2))

    def extra_repr(self) -> str:
        return f"width={self.width}, axes={self.axes}, base={self.base:g}"


class XPos(nn.Module):
    """RoPE whose scores decay: stretch_k = p / scale_base * log zeta_k, zeta_k = (2k/K + 0.4) / 1.4; turn and stretch, (B, T, K/2).

    A pair of channels gives a score the factor zeta_k^((p_i - p_j) / scale_base) beside RoPE's cosine. Any real p, and scores depend
    on p_i - p_j alone: they fade for keys before the query. For keys after it they grow exponentially, and the model has to hide them.

    The factors of q and k are powers of p itself, so that a prefix keeps its own: the paper's code measures from the middle of the
    batch, and changes the past as the text grows. In float32 both hold to 1e-5 up to |p| = 47 scale_base (24,000 at 512), and past it
    there is an error; in float16 they overflow past 8 scale_base. Source: arXiv 2212.10554, algorithm 1.

    >>> XPos(width=4, scale_base=2)(torch.tensor([[[1.0], [2.0]]])).stretch
    tensor([[[-0.6264, -0.2209],
             [-1.2528, -0.4418]]])
    """

    relative = True

    def __init__(self, *, width: int, base: float = 10_000.0, scale_base: float = 512.0) -> None:
        super().__init__()
        if not scale_base > 0:
            raise ValueError(
                f"scale_base={scale_base}; give a positive number of positions, such as the length trained at."
            )
        self.pairs = _turning(width, 1.0) // 2
        self.width, self.base, self.scale_base = width, _checked_base(base), scale_base

    def forward(self, at: At) -> Injection:
        place = at[..., :1]
        turn = _turn(place, _geometric(self.pairs, self.base, at.device))
        zeta = (torch.arange(self.pairs, dtype=torch.float64, device=at.device) / self.pairs + 0.4) / 1.4
        stretch = (place.double() * zeta.log() / self.scale_base).to(turn.dtype)
        self._check_reach(place, turn.dtype)
        return Injection(turn=turn, stretch=stretch)

    def _check_reach(self, place: Float[Tensor, "B T one"], dtype: torch.dtype) -> None:
        # Two thirds of the exponents, so that small queries times small powers keep their digits.
        reach = 2 / 3 * math.log(torch.finfo(dtype).max) / -math.log(0.4 / 1.4) * self.scale_base
        if torch.compiler.is_compiling():
            return
        far = place.detach()[place.detach().abs() > reach]
        if len(far):
            raise ValueError(
                f"a coordinate of {float(far[0]):g} is past what the powers of xPos hold at scale_base={self.scale_base:g} "
                f"({reach:,.0f} either way); take a greater scale_base."
            )

    def extra_repr(self) -> str:
        return f"width={self.width}, base={self.base:g}, scale_base={self.scale_base:g}"


def convert_layout(
    weight: Float[Tensor, "HK ..."], *, num_heads: int, source: Layout, target: Layout
) -> Float[Tensor, "HK ..."]:
    """The rows of a query or key projection (HK, D), or of its bias (HK,), reordered from one layout of pairs to another.

    "half"          pairs (k, k + K/2): transformers' Llama, GPT-NeoX, this package's backbone
    "interleaved"   pairs (2k, 2k + 1): the RoPE paper, Meta's Llama, GPT-J

    Queries and keys both converted, and turned in the target layout, give the scores they gave in the source layout.

    >>> convert_layout(torch.tensor([0.0, 1.0, 2.0, 3.0]), num_heads=1, source="half", target="interleaved")
    tensor([0., 2., 1., 3.])
    """
    for name, layout in {"source": source, "target": target}.items():
        if layout not in ("half", "interleaved"):
            raise ValueError(f"{name}={layout!r} is not a known layout; take half or interleaved.")
    if num_heads < 1 or len(weight) % (2 * num_heads):
        raise ValueError(
            f"{len(weight)} rows can't be shared among {num_heads} heads of even width; for keys of grouped heads, "
            "num_heads is the number of key heads."
        )
    if source == target:
        return weight
    inner = (2, -1) if source == "half" else (-1, 2)
    return weight.unflatten(0, (num_heads, *inner)).transpose(1, 2).flatten(0, 2)


def _turn(places: Tensor, rates: Tensor) -> Tensor:
    """places * rates without whole turns, in the precision of the places or of the model, and float32 at least."""
    angle = places.double() * rates
    angle = angle - (angle.detach() / math.tau).round() * math.tau
    return angle.to(precision(places.dtype, torch.get_default_dtype()))


def _geometric(pairs: int, base: float, device: torch.device) -> Float[Tensor, " pairs"]:
    """base^(-k/pairs): from 1 radian a position down to nearly 1/base."""
    return base ** (-torch.arange(pairs, dtype=torch.float64, device=device) / pairs)


def _checked_base(base: float) -> float:
    if not (math.isfinite(base) and base > 1):
        raise ValueError(f"base={base} gives no falling frequencies; give a number above 1.")
    return base


def _turning(width: int, share: float) -> int:
    """R, the number of channels that turn."""
    if width < 2 or width % 2:
        raise ValueError(f"a head width of {width} can't be turned in pairs; take an even width of at least 2.")
    turning = round(share * width)
    if abs(turning - share * width) > 1e-6 or turning % 2 or not 0 < turning <= width:
        raise ValueError(
            f"share={share} of a head width of {width} is {share * width:g} channels; it must be an even number of "
            f"them, 2 to {width}."
        )
    return turning


def _check_fit(scaling: Scaling, turning: int) -> None:
    if scaling.rule == "dynamic" and turning < 4:
        raise ValueError("dynamic scaling spreads over at least 2 pairs, given 1; take a greater width or share.")
    for name in ("short_factor", "long_factor"):
        if name in scaling.more and len(scaling.more[name]) != turning // 2:
            raise ValueError(
                f"{name} has {len(scaling.more[name])} numbers; give one for each of the {turning // 2} turning pairs."
            )


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"
