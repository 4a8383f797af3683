"""What the laws are tried on: a positional method between semantic vectors and attention, ours or another library's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from vnait.backbone import Attention
from vnait.coordinates import Index
from vnait.coordinates.shared import located, takes_places
from vnait.encodings import Silent, Sinusoid
from vnait.injection import Injection
from vnait.laws.formulas import FORMULAS, Formula
from vnait.method import Method
from vnait.methods import METHODS, Size
from vnait.randomness import apart

SIZE = Size(dim=32, num_heads=2, max_length=64, mean_length=4.0)


class Seen(NamedTuple):
    """What a method does to a text; None where a subject doesn't show it.

    x       (B, T, D)      what enters the attention
    out     (B, T, D)      what the attention hands back
    query   (B, H, T, K)   turned, stretched and scaled; and so is `key`
    scores  (B, H, T, T)   all attention scores, -inf for padded keys
    bias    (B, H, T, T)   what is added to them
    """

    x: Tensor
    out: Tensor
    query: Tensor | None = None
    key: Tensor | None = None
    scores: Tensor | None = None
    bias: Tensor | None = None


class Probe(nn.Module):
    """A method at work. Called with vectors (B, T, D) and a mask (B, T), True = real token; gives what is `Seen`.

    places   (B, T, P)   known positions in place of counted ones, for subjects that take them
    shift    (B, T, C)   is added to the coordinates, for subjects that take shifts
    tokens   (W,)        look at these tokens alone
    """

    def forward(
        self,
        vectors: Tensor,
        mask: Tensor,
        places: Tensor | None = None,
        *,
        shift: Tensor | None = None,
        tokens: Tensor | None = None,
    ) -> Seen:
        raise NotImplementedError

    def silent(self, vectors: Tensor, mask: Tensor) -> Tensor | None:
        """What is handed back with the method switched off; None where there is no model around the method."""
        return None

    def window(self, length: int) -> Tensor:
        """The tokens of a long text to look at: its ends, and where half precision runs out of integers."""
        ranges = range(264), range(2044, 2054), range(4092, 4102), range(length - 8, length)
        return torch.tensor(sorted({token for some in ranges for token in some if token < length}))


class Through(Probe):
    """A `Method` of this package through the backbone's own `Attention`."""

    def __init__(self, method: Method, *, dim: int, num_heads: int) -> None:
        super().__init__()
        self.method = method
        self.attention = Attention(dim=dim, num_heads=num_heads)

    def forward(
        self,
        vectors: Tensor,
        mask: Tensor,
        places: Tensor | None = None,
        *,
        shift: Tensor | None = None,
        tokens: Tensor | None = None,
    ) -> Seen:
        method = self.method
        if shift is not None or tokens is not None:
            at = located(method.coordinates, vectors, mask, places)
            at = at if shift is None else at + shift
            if tokens is not None:
                at, vectors, mask = at[:, tokens], vectors[:, tokens], mask[:, tokens]
            method, places = _at(method, at), None
        x, injection, _ = method(vectors, mask, places)
        if torch.compiler.is_compiling():  # what a model computes, and no more
            return Seen(x, self.attention(x, injection, mask))
        query, key = self.attention.queries_and_keys(x, injection)
        scores = self.attention.scores(x, injection, mask)
        return Seen(x, self.attention(x, injection, mask), query, key, scores, injection.bias)

    def silent(self, vectors: Tensor, mask: Tensor) -> Tensor:
        return self.attention(vectors, Injection(), mask)


class _Given(nn.Module):
    """Coordinates that were computed before."""

    causal = True
    per_sentence = True

    def __init__(self, at: Tensor) -> None:
        super().__init__()
        self.at = at

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        return self.at


def _at(method: Method, at: Tensor) -> Method:
    """The method with its coordinates replaced by known ones."""
    other = copy.copy(method)
    other._modules = {**method._modules, "coordinates": _Given(at)}
    return other


@dataclass(frozen=True)
class Limit:
    """Why a subject can't hold some laws. It excuses a failure alone whose words hold `shows`, and is shown with it."""

    laws: tuple[str, ...]
    shows: str
    reason: str


Places = Literal["none", "whole", "real"]


@dataclass(frozen=True, kw_only=True)
class Subject:
    """An implementation, and what it claims.

    make         a fresh probe at a size; for `sized` ones at this size alone
    causal       no token is told anything about what follows it
    relative     scores hang on differences of positions alone
    places       known positions that it takes: none, whole numbers or real ones; of so many `axes`
    shifts       takes shifts of its coordinates
    tells        False for a control that says nothing of position
    long         can look at some tokens of 8,192
    formula      what it should do, in plain loops
    limits       what it can't hold
    """

    name: str
    make: Callable[[Size], Probe]
    size: Size = SIZE
    sized: bool = False
    causal: bool = False
    relative: bool = False
    places: Places = "none"
    axes: int = 1
    shifts: bool = False
    tells: bool = True
    long: bool = True
    formula: Formula | None = None
    limits: tuple[Limit, ...] = ()

    def probe(self, size: Size | None = None, *, seed: int = 0) -> Probe:
        """A fresh one in evaluation, every learned number off its start; the same for the same seed."""
        with apart():
            torch.manual_seed(seed)
            probe = self.make(size or self.size).eval()
            with torch.no_grad():
                for parameter in probe.parameters():
                    if parameter.requires_grad:
                        parameter.add_(0.2 * torch.randn_like(parameter))
        return probe


HALF = ("bfloat16", "float16")
LIMITS = {
    "xpos": Limit(
        ("float16",), "off by inf", "its powers leave float16 past 8 scale_base = 4,096 positions, as it says"
    ),
    "spectral": Limit(HALF, "told as", "near a text's ends the smoothest waves change by less than the rounding"),
    "vnait-causal": Limit(
        HALF, "told as", "S = 100 R/(R + tau) saturates: late neighbours differ by less than the rounding"
    ),
    "vnait-paper": Limit(
        HALF, "told as", "the papers' one number S tells 8,192 positions apart by less than the rounding"
    ),
}


def named(name: str) -> Subject:
    """A method of the catalogue."""

    make = METHODS[name].make
    limits = tuple(filter(None, [LIMITS.get(name)]))
    subject = Subject(
        name=name, make=lambda size: _through(make(size), size), formula=FORMULAS.get(name), limits=limits
    )
    return _claimed(subject, make(SIZE))


def given(part: nn.Module, *, dim: int | None = None, num_heads: int | None = None) -> Subject:
    """A method of one's own, or a part of one: coordinates are told by a sinusoid, an encoding is told the index."""
    if isinstance(part, Probe):
        raise ValueError("given a probe; put it into a vnait.laws.Subject, which says what it claims.")
    method = part if isinstance(part, Method) else _completed(part, dim or SIZE.dim)
    own_dim, own_heads = _read_off(method)
    size = Size(
        dim=dim or own_dim or SIZE.dim,
        num_heads=num_heads or own_heads or SIZE.num_heads,
        max_length=SIZE.max_length,
        mean_length=SIZE.mean_length,
    )

    name = type(part).__name__
    if isinstance(part, Method):
        name = f"{type(part.coordinates).__name__} x {type(part.encoding).__name__}"
    subject = Subject(name=name, make=lambda size: _through(copy.deepcopy(method), size), size=size, sized=True)
    return _claimed(subject, method)


def _through(method: Method, size: Size) -> Probe:
    return Through(method, dim=size.dim, num_heads=size.num_heads)


def ours() -> list[Subject]:
    """The whole catalogue."""
    return [named(name) for name in METHODS]


def _completed(part: nn.Module, dim: int) -> Method:
    if hasattr(part, "per_sentence"):
        return Method(coordinates=part, encoding=Sinusoid(dim=dim))
    return Method(coordinates=Index(), encoding=part)


def _claimed(subject: Subject, method: Method) -> Subject:
    """The subject with what its parts claim."""
    axes, tells = _place_axes(method), not isinstance(method.encoding, Silent)
    return replace(
        subject,
        causal=method.causal,
        relative=method.relative and tells,
        places="real" if axes else "none",
        axes=axes or 1,
        shifts=True,
        tells=tells,
    )


def _place_axes(method: Method) -> int:
    """How many numbers a place has; 0 where the coordinates take none."""
    if not takes_places(method.coordinates):
        return 0
    mask = torch.ones(1, 1, dtype=torch.bool)
    for axes in (1, 2, 3, 4):
        try:
            method.encoding(located(method.coordinates, None, mask, torch.zeros(1, 1, axes)))
        except Exception:  # another number of axes, or coordinates that want words
            continue
        return axes
    return 0


def _read_off(method: Method) -> tuple[int | None, int | None]:
    """The width and the heads that a method was made for, where its parts say so."""
    dim, heads, width = None, None, None
    for part in method.modules():
        dim = dim or _whole(part, "dim")
        heads = heads or _whole(part, "num_heads")
        width = width or _whole(part, "width")
    told = _told(method)
    if told is not None:
        dim = told.added.shape[-1] if told.added is not None else dim
        heads = told.bias.shape[1] if told.bias is not None else heads
        width = 2 * told.turn.shape[-1] if told.turn is not None else None
    if dim is None and width is not None:
        dim = width * (heads or 2)
    if dim is not None and heads is None:
        heads = dim // width if width else (2 if dim % 2 == 0 else 1)
    return dim, heads


def _whole(part: nn.Module, name: str) -> int | None:
    value = getattr(part, name, None)
    return value if isinstance(value, int) else None


def _told(method: Method) -> Injection | None:
    mask = torch.ones(1, 1, dtype=torch.bool)
    try:
        return method.encoding(method.coordinates(None, mask))
    except Exception:  # one that wants words, or more tokens
        return None
