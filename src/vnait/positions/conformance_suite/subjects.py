"""What the laws are tried on: a positional method between semantic vectors and attention, with its claims."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from transformers.cache_utils import DynamicLayer

from vnait.positions.attention import Attention
from vnait.positions.cache import Words, causal_mask
from vnait.positions.coordinates import Index
from vnait.positions.coordinates.shared import located, takes_positions
from vnait.positions.encodings import NoPosition, Sinusoid
from vnait.positions.injection import Injection
from vnait.positions.method import Method, described
from vnait.positions.methods import METHODS
from vnait.positions.plugins import call_plugins
from vnait.positions.recipe import Size
from vnait.shared.randomness import preserved_generators, seed_generators

Rows = list[list[float]]


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The injection of a text of n tokens: added (n, D), rotary (n, K/2), stretch (n, K/2), bias (H, n, n).

    score_mod changes the scores (n, n) of a head, by its number, its queries and its keys (n, K)
    layout    which channels are a pair: "half" (k, k + K/2) or "interleaved" (2k, 2k + 1)
    """

    added: Rows | None = None
    rotary: Rows | None = None
    stretch: Rows | None = None
    bias: list[Rows] | None = None
    score_mod: Callable[[int, Rows, Rows, Rows], Rows] | None = None
    layout: Literal["half", "interleaved"] = "half"


Formula = Callable[[Any, Rows], Expected]  # of a probe, for its parameters, and its coordinates

SIZE = Size(dim=32, num_heads=2, max_length=64, mean_length=4.0)


class Observation(NamedTuple):
    """The effect of a method on a text; None for parts that a subject does not expose.

    x       (B, T, D)      input of the attention
    out     (B, T, D)      output of the attention
    query   (B, H, T, K)   rotated, stretched and scaled; `key` likewise
    scores  (B, H, T, T)   attention scores, -inf for padded keys
    bias    (B, H, T, T)   added to the scores
    """

    x: Tensor
    out: Tensor
    query: Tensor | None = None
    key: Tensor | None = None
    scores: Tensor | None = None
    bias: Tensor | None = None


class Probe(nn.Module):
    """Runs a method: vectors (B, T, D) and a mask (B, T), True = real token -> `Observation`.

    positions   (B, T, P)   known positions instead of counted ones, for subjects that accept them
    shift       (B, T, C)   added to the coordinates, for subjects that accept shifts
    tokens      (W,)        observe these tokens only
    """

    def forward(
        self,
        vectors: Tensor,
        mask: Tensor,
        positions: Tensor | None = None,
        *,
        shift: Tensor | None = None,
        tokens: Tensor | None = None,
    ) -> Observation:
        raise NotImplementedError

    def without_method(self, vectors: Tensor, mask: Tensor) -> Tensor | None:
        """The output with the method switched off; None without a model around the method."""
        return None

    def continued(self, vectors: Tensor, mask: Tensor, past: int) -> tuple[Observation, Observation] | None:
        """What a decoder observes of the tokens after the first `past`: without and with a cache of those;
        None without a cache.
        """
        return None

    def window(self, length: int) -> Tensor:
        """Tokens of a long text to observe: its ends, and where half precision runs out of integers."""
        ranges = range(264), range(2044, 2054), range(4092, 4102), range(length - 8, length)
        return torch.tensor(sorted({token for part in ranges for token in part if token < length}))


class MethodProbe(Probe):
    """A `Method` of this package through the backbone's own `Attention`."""

    def __init__(self, method: Method, size: Size) -> None:
        super().__init__()
        self.method = method
        self.attention = Attention(dim=size.dim, num_heads=size.num_heads)

    def forward(
        self,
        vectors: Tensor,
        mask: Tensor,
        positions: Tensor | None = None,
        *,
        shift: Tensor | None = None,
        tokens: Tensor | None = None,
    ) -> Observation:
        method = self.method
        if shift is not None or tokens is not None:
            at = located(method.coordinates, vectors, mask, positions)
            at = at if shift is None else at + shift
            if tokens is not None:
                at, vectors, mask = at[:, tokens], vectors[:, tokens], mask[:, tokens]
            method, positions = copy.copy(method), None
            method._modules = {**method._modules, "coordinates": _Constant(at)}
        x, injection, _ = method(vectors, mask, positions)
        out = self.attention(x, injection, mask)
        if torch.compiler.is_compiling():  # what a model computes, and no more
            return Observation(x, out)
        scores, bias = self.attention.scores(x, injection, mask), injection.dense().bias
        if injection.score_mod is not None:  # position is in the scores, so that equal words have equal keys
            return Observation(x, out, scores=scores, bias=bias)
        return Observation(x, out, *self.attention.queries_and_keys(x, injection), scores, bias)

    def without_method(self, vectors: Tensor, mask: Tensor) -> Tensor:
        return self.attention(vectors, Injection(), mask)

    def continued(self, vectors: Tensor, mask: Tensor, past: int) -> tuple[Observation, Observation]:
        x, injection, _ = self.method(vectors, mask)
        out = self.attention(x, injection, causal_mask(mask))
        whole = Observation(x[:, past:], out[:, past:])
        words, stored = Words(), DynamicLayer()
        for start, end in ((0, past), (past, mask.shape[1])):
            here = slice(start, end)
            _, (x, injection, _) = words.located(self.method, vectors[:, here], mask[:, here], None)
            out = self.attention(x, injection, causal_mask(mask[:, :end], start), extend=stored.update)
        return whole, Observation(x, out)


class _Constant(nn.Module):
    """Coordinates computed before."""

    causal = True
    per_sentence = True

    def __init__(self, at: Tensor) -> None:
        super().__init__()
        self.at = at

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        return self.at


@dataclass(frozen=True)
class Limit:
    """Excuse for failures of some laws whose message contains `shows`; the reason is shown with it."""

    laws: tuple[str, ...]
    shows: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Subject:
    """An implementation, and its claims.

    make         builds a fresh probe of a size; `sized` ones have this size only
    causal       no token depends on later ones
    relative     scores depend on differences of positions only
    positions    known positions that it accepts: none, whole or real numbers, on so many `axes`
    shifts       accepts shifts of its coordinates
    positional   False for a control without position
    counts       tokens are counted, and padding between them is not
    long         can observe some tokens of 8,192
    formula      its formula in plain loops
    limits       failures that are excused
    """

    name: str
    make: Callable[[Size], Probe]
    size: Size = SIZE
    sized: bool = False
    causal: bool = False
    relative: bool = False
    positions: Literal["none", "whole", "real"] = "none"
    axes: int = 1
    shifts: bool = False
    positional: bool = True
    counts: bool = False
    long: bool = True
    formula: Formula | None = None
    limits: tuple[Limit, ...] = ()

    def probe(self, size: Size | None = None, *, seed: int = 0) -> Probe:
        """A fresh probe in evaluation mode, all parameters moved off their start, determined by the seed."""
        with preserved_generators():
            seed_generators(seed)
            probe = self.make(size or self.size).eval()
            with torch.no_grad():
                for parameter in probe.parameters():
                    if parameter.requires_grad:
                        parameter.add_(0.2 * torch.randn_like(parameter))
        return probe


HALF = ("bfloat16", "float16")
COUNTS = "it counts words inside the layers, and reads no coordinate"
LIMITS = {
    "xpos": (
        Limit(("float16",), "off by inf", "its powers exceed float16 past 8 scale_base = 4,096 positions"),
    ),
    "cope": (
        Limit(("fractional",), "the same as at", COUNTS),
        Limit(("a text's own",), "no difference", COUNTS),
        Limit(("gradient",), "the gradient is None", COUNTS),
    ),
    "fox": (
        Limit(("fractional",), "the same as at", COUNTS),
        Limit(("a text's own",), "no difference", COUNTS),
        Limit(("gradient",), "the gradient is None", COUNTS),
    ),
    "nape": (
        Limit(("prefix",), "attention off", "without a causal mask its threshold depends on every key"),
    ),
    "spectral": (
        Limit(HALF, "same as", "near a text's ends the smoothest waves change by less than the rounding"),
    ),
    "vnait-causal": (
        Limit(
            HALF, "same as", "S = 100 R/(R + tau) saturates: late neighbours differ by less than the rounding"
        ),
    ),
    "vnait-paper": (
        Limit(
            HALF, "same as", "the papers' single number S separates 8,192 positions by less than the rounding"
        ),
    ),
}


def subject_of_name(name: str) -> Subject:
    """A method in METHODS."""
    make = METHODS[name].make
    subject = Subject(
        name=name,
        make=lambda size: MethodProbe(make(size), size),
        formula=next((formulas[name] for formulas in call_plugins("formulas") if name in formulas), None),
        limits=LIMITS.get(name, ()),
    )
    return _with_claims(subject, make(SIZE))


def subject_of_part(part: nn.Module, *, dim: int | None = None, num_heads: int | None = None) -> Subject:
    """A `Method`, or a part of one: coordinates with a sinusoid, or an encoding of the index."""
    if isinstance(part, Probe):
        raise ValueError("a probe makes no claims; put it into a vnait.positions.conformance_suite.Subject.")
    if isinstance(part, Method):
        method, name = part, described(part)
    else:
        name = type(part).__name__
        if hasattr(part, "per_sentence") or _arguments(part) > 1:
            reads = next((width for module in part.modules() if (width := _integer(module, "dim"))), SIZE.dim)
            method = Method(coordinates=part, encoding=Sinusoid(dim=dim or reads))
        else:
            method = Method(coordinates=Index(), encoding=part)
    own_dim, own_heads = _size_of(method)
    size = replace(SIZE, dim=dim or own_dim or SIZE.dim, num_heads=num_heads or own_heads or SIZE.num_heads)
    subject = Subject(
        name=name, make=lambda size: MethodProbe(copy.deepcopy(method), size), size=size, sized=True
    )
    return _with_claims(subject, method)


def _with_claims(subject: Subject, method: Method) -> Subject:
    axes, positional = _position_axes(method), not isinstance(method.encoding, NoPosition)
    return replace(
        subject,
        causal=method.causal,
        relative=method.relative and positional,
        positions="real" if axes else "none",
        axes=axes or 1,
        shifts=True,
        counts=True,
        positional=positional,
    )


def _position_axes(method: Method) -> int:
    """How many numbers a position has, found by trying; 0 if the coordinates accept no positions."""
    if not takes_positions(method.coordinates):
        return 0
    mask = torch.ones(1, 1, dtype=torch.bool)
    for axes in (1, 2, 3, 4):
        try:
            method.encoding(located(method.coordinates, None, mask, torch.zeros(1, 1, axes)))
        except Exception:  # another number of axes, or coordinates that need vectors
            continue
        return axes
    return 0


def _size_of(method: Method) -> tuple[int | None, int | None]:
    """`dim` and `num_heads` of a method, as far as its parts have them."""
    dim, heads, width = None, None, None
    for part in method.modules():
        dim = dim or _integer(part, "dim")
        heads = heads or _integer(part, "num_heads")
        width = width or _integer(part, "width")
    try:
        injection = method.encoding(method.coordinates(None, torch.ones(1, 1, dtype=torch.bool))).dense()
    except Exception:  # it needs vectors, or more tokens
        pass
    else:
        dim = injection.added.shape[-1] if injection.added is not None else dim
        heads = injection.bias.shape[1] if injection.bias is not None else heads
        width = 2 * injection.rotary.shape[-1] if injection.rotary is not None else None
    if dim is None and width is not None:
        dim = width * (heads or 2)
    if dim is not None and heads is None:
        heads = dim // width if width else (2 if dim % 2 == 0 else 1)
    return dim, heads


def _arguments(part: nn.Module) -> int:
    """How many arguments `forward` needs: coordinates need vectors and mask, encodings coordinates alone."""
    parameters = inspect.signature(part.forward).parameters.values()
    required = [parameter for parameter in parameters if parameter.default is parameter.empty]
    return sum(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in required)


def _integer(part: nn.Module, name: str) -> int | None:
    value = getattr(part, name, None)
    return value if isinstance(value, int) else None
