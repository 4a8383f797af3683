"""Every positional method by name: coordinates (where) x encoding (how it is told) x inputs (where it joins the words)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vnait.coordinates import Ends, Index, Jitter, Randomized, Running, SoftBounds, Span, check_mask, located
from vnait.encodings import (
    Anchors,
    Buckets,
    Decay,
    Fire,
    Fourier,
    Kerple,
    Relative,
    Rotary,
    Scaling,
    Silent,
    Sinusoid,
    Slopes,
    Spatial,
    Table,
)
from vnait.injection import Injection, LogLength
from vnait.inputs import Add, Fusion, LiteralFusion, Local, boundary, smoothness

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

    Called with known `places` (B, T, C), the coordinates take them instead of counting: timestamps, a patch's row and column.

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
        self, vectors: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"], places: Float[Tensor, "B T C"] | None = None
    ) -> Told:
        vectors = vectors.masked_fill(~mask[..., None], 0)  # no window reads padding, whatever is there
        at, injection = self.tell(vectors, mask, places)
        added = None if injection.added is None else injection.added.to(vectors.dtype)
        if self.scale is not None:
            injection = injection + self.scale(mask)
        return Told(self.inputs(vectors, added), injection, at)

    def tell(
        self, vectors: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"], places: Float[Tensor, "B T C"] | None = None
    ) -> tuple[Tensor, Injection]:
        """Coordinates and injection; once a distinct mask where they depend on nothing else, not once a sentence."""
        if self.coordinates.per_sentence or places is not None or torch.compiler.is_compiling():
            at = located(self.coordinates, vectors, mask, places)
            return at, self.encoding(at)
        check_mask(mask)  # here, where a row is still the batch's row
        masks, row = mask.unique(dim=0, return_inverse=True)
        at = self.coordinates(vectors.new_empty(*masks.shape, 0), masks)  # only the dtype counts: no word is read
        return at[row], self.encoding(at).rows(row)

    def penalty(
        self, vectors: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"], *, smooth: float, bound: float
    ) -> Float[Tensor, ""]:
        """gamma1 smoothness + gamma2 boundary of the learned coordinates, free of jitter; 0 where nothing is learned."""
        learned = any(parameter.requires_grad for parameter in self.coordinates.parameters())
        if not learned or (smooth == 0 and bound == 0):
            return vectors.new_zeros(())
        plain = self.coordinates.coordinates if isinstance(self.coordinates, Jitter) else self.coordinates
        at = plain(vectors, mask)
        loss = smooth * smoothness(at, mask)
        if any(isinstance(part, SoftBounds) for part in plain.modules()):
            return loss + bound * boundary(at, mask)
        if bound:
            _say_no_boundary()
        return loss


def _refuse_second(name: str, part: nn.Module) -> None:
    """A method inside another's part would tell position twice."""
    for inner in part.modules():
        if isinstance(inner, Method):
            raise ValueError(
                f"{name} holds a method of its own ({_described(inner)}); a model has exactly one. Give its parts, or put "
                "several encodings into one method with encodings.Sum."
            )


def _described(method: Method) -> str:
    return f"{type(method.coordinates).__name__} x {type(method.encoding).__name__}"


@lru_cache(maxsize=1)
def _say_no_boundary() -> None:
    logger.info("hard bounds keep every coordinate in (0, 100], so the boundary penalty is 0 and is not computed.")


@dataclass(frozen=True, kw_only=True)
class Size:
    """What a method must know of the model it is built into."""

    dim: int
    num_heads: int = 4
    max_length: int = 512
    mean_length: float = 24.0


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A line of `METHODS`: how a method is made at a size, its formula and where it comes from."""

    make: Callable[[Size], Method]
    formula: str
    source: str


def _rotary(size: Size, rule: str | None = None) -> nn.Module:
    """RoPE for the heads of this size; with a rule, stretched to four times the longest text."""
    original = None if rule == "linear" else size.max_length
    scaling = None if rule is None else Scaling(rule=rule, factor=4.0, original_length=original)  # type: ignore[arg-type]
    return Rotary(width=size.dim // size.num_heads, scaling=scaling)


def _vnait(size: Size, source: str) -> Method:
    features = [Fourier(pairs=16), Anchors()]
    return Method(
        coordinates=Jitter(Ends(Span(source=source)), shift=6.0),
        encoding=Spatial(dim=size.dim, features=features, hidden=(64,), start=1.0),
        inputs=Local(Fusion(dim=size.dim, hidden=16), dim=size.dim, width=9, start=0.1),
        scale=LogLength(mean_length=size.mean_length),
    )


METHODS: dict[str, Recipe] = {
    "none": Recipe(
        make=lambda size: Method(coordinates=Index(), encoding=Silent()),
        formula="x = e",
        source="control: a bag of words",
    ),
    "sinusoidal": Recipe(
        make=lambda size: Method(coordinates=Index(), encoding=Sinusoid(dim=size.dim)),
        formula="x = e + [sin(i w_k), cos(i w_k)], w_k = 10000^(-2k/d)",
        source="arXiv 1706.03762, section 3.5",
    ),
    "learned": Recipe(
        make=lambda size: Method(coordinates=Index(), encoding=Table(dim=size.dim, max_length=size.max_length)),
        formula="x = e + P[i]",
        source="BERT, arXiv 1810.04805",
    ),
    "fourier": Recipe(
        make=lambda size: Method(
            coordinates=Span(source="uniform"), encoding=Spatial(dim=size.dim, features="fourier", start=1.0)
        ),
        formula="x = e + MLP(sin, cos of 2 pi S/period), S = 100 i/n",
        source="arXiv 2106.02795, on the span",
    ),
    "cape": Recipe(
        make=lambda size: Method(
            coordinates=Jitter(Index(), shift=5.0, local=0.5, stretch=1.03), encoding=Sinusoid(dim=size.dim)
        ),
        formula="sinusoidal on lambda (i + shift + local_i), drawn in training",
        source="CAPE, arXiv 2106.03143",
    ),
    "randomized-sinusoidal": Recipe(
        make=lambda size: Method(coordinates=Randomized(Index()), encoding=Sinusoid(dim=size.dim)),
        formula="sinusoidal on n sorted random positions below 2048, drawn in training",
        source="arXiv 2305.16843",
    ),
    "rope": Recipe(
        make=lambda size: Method(coordinates=Index(), encoding=_rotary(size)),
        formula="q, k turned by i w_k, w_k = 10000^(-2k/K)",
        source="arXiv 2104.09864, section 3.2.2",
    ),
    "rope-linear": Recipe(
        make=lambda size: Method(coordinates=Index(), encoding=_rotary(size, "linear")),
        formula="rope on i/4",
        source="position interpolation, arXiv 2306.15595",
    ),
    "rope-ntk": Recipe(
        make=lambda size: Method(coordinates=Index(), encoding=_rotary(size, "dynamic")),
        formula="rope with a base that grows with the length past the longest text",
        source="dynamic NTK, transformers' ROPE_INIT_FUNCTIONS",
    ),
    "rope-yarn": Recipe(
        make=lambda size: Method(coordinates=Index(), encoding=_rotary(size, "yarn")),
        formula="rope, low frequencies / 4, high ones kept; scores * (0.1 ln 4 + 1)^2",
        source="arXiv 2309.00071",
    ),
    "randomized-rope": Recipe(
        make=lambda size: Method(coordinates=Randomized(Index()), encoding=_rotary(size)),
        formula="rope on n sorted random positions below 2048, drawn in training",
        source="arXiv 2305.16843",
    ),
    "lpi": Recipe(
        make=lambda size: Method(coordinates=Running(source="content", dim=size.dim), encoding=_rotary(size)),
        formula="rope on R_i = cumsum(softplus(f(e_{i-1}, e_i)))",
        source="learned position increments; SPEC section 3",
    ),
    "alibi": Recipe(
        make=lambda size: Method(coordinates=Index(), encoding=Slopes(num_heads=size.num_heads)),
        formula="scores - m_h |i - j|",
        source="arXiv 2108.12409, both directions",
    ),
    "t5": Recipe(
        make=lambda size: Method(coordinates=Index(), encoding=Buckets(num_heads=size.num_heads)),
        formula="scores + b_h[bucket(j - i)], 32 buckets",
        source="arXiv 1910.10683, section 2.1",
    ),
    "shaw": Recipe(
        make=lambda size: Method(coordinates=Index(), encoding=Relative(num_heads=size.num_heads, max_distance=16)),
        formula="scores + b_h[clip(j - i, 16)]",
        source="arXiv 1803.02155, section 3.2, one number a distance",
    ),
    "kerple": Recipe(
        make=lambda size: Method(coordinates=Index(), encoding=Kerple(num_heads=size.num_heads)),
        formula="scores - r1 log(1 + r2 |i - j|)",
        source="arXiv 2205.09921, section 4",
    ),
    "fire": Recipe(
        make=lambda size: Method(coordinates=Index(), encoding=Fire(num_heads=size.num_heads)),
        formula="scores + f(log(1 + c|i-j|) / log(1 + c max(L, i)))",
        source="arXiv 2310.04418, section 3",
    ),
    "cable": Recipe(
        make=lambda size: Method(
            coordinates=Running(source="content", dim=size.dim), encoding=Decay(num_heads=size.num_heads)
        ),
        formula="scores - m_h |R_i - R_j|, R = cumsum(softplus(f(e)))",
        source="CABLE, arXiv 2503.08067, gaps shared by the heads",
    ),
    "vnait": Recipe(
        make=lambda size: _vnait(size, "warp"),
        formula="x = e + s + MLP([e; s; e-s; cos]) + window(e), s = MLP(Fourier(S), ends), S = 100 R_i/R_n; scores * log n/log n0",
        source="Vnait papers + SPEC section 5",
    ),
    "vnait-uniform": Recipe(
        make=lambda size: _vnait(size, "uniform"),
        formula="vnait with S_i = 100 i/n, nothing learned in S",
        source="control: frozen uniform S",
    ),
    "vnait-paper": Recipe(
        make=lambda size: Method(
            coordinates=Span(source="free", max_length=size.max_length, min_gap=0),
            encoding=Spatial(dim=size.dim, features="scalar", hidden=(2 * size.dim,)),
            inputs=LiteralFusion(dim=size.dim, hidden=2 * size.dim),
        ),
        formula="x = e + s + MLP([e; s; e-s; cos]), s = MLP(S), S = 100 R_i/R_n, R = cumsum(softplus(z))",
        source="Vnait papers, sections 3.3 to 3.7, literally",
    ),
}


def build(
    method: str | Method, *, dim: int, num_heads: int = 4, max_length: int = 512, mean_length: float = 24.0
) -> Method:
    """The positional method `method` for a model of width `dim`: a name in `METHODS`, or a `Method` of your own parts, as it is.

    >>> build("sinusoidal", dim=8)(torch.zeros(1, 2, 8), torch.ones(1, 2, dtype=torch.bool)).at[0, :, 0]
    tensor([0., 1.])
    """
    if isinstance(method, Method):
        return method
    if method not in METHODS:
        raise ValueError(
            f"method {method!r} is not known; take one of {', '.join(METHODS)}, or register it in vnait.METHODS."
        )
    return METHODS[method].make(Size(dim=dim, num_heads=num_heads, max_length=max_length, mean_length=mean_length))


def parameters(module: nn.Module) -> int:
    """The number of learned scalars in a module."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def catalogue(*, dim: int = 768, max_length: int = 512) -> list[dict[str, str | int | bool]]:
    """`METHODS` as rows: name, formula, parameters (at this width and length), learned, causal, source; read off the built modules."""
    rows: list[dict[str, str | int | bool]] = []
    for name, recipe in METHODS.items():
        method = build(name, dim=dim, max_length=max_length)
        count = parameters(method)
        rows.append(
            {
                "name": name,
                "formula": recipe.formula,
                "parameters": count,
                "learned": count > 0,
                "causal": method.causal,
                "source": recipe.source,
            }
        )
    return rows


def sizes(*, dim: int = 768) -> list[dict[str, str | int | float]]:
    """The parameter arithmetic of SPEC section 7, counted on real modules: name, parameters, ratio to a table of 512 rows."""
    spatial = {hidden: Spatial(dim=dim, features="scalar", hidden=(hidden,)) for hidden in (64, 2 * dim)}
    counted: dict[str, list[nn.Module]] = {
        "learned table, 512 rows": [Table(dim=dim, max_length=512)],
        "learned table, 1024 rows": [Table(dim=dim, max_length=1024)],
        "the papers' sizes (hidden 2d)": [spatial[2 * dim], LiteralFusion(dim=dim, hidden=2 * dim)],
        "what the papers count (one d-2d-d MLP)": [nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)],
        "compact, bottleneck 16": [spatial[64], Fusion(dim=dim, hidden=16)],
        "compact, bottleneck 64": [spatial[64], Fusion(dim=dim, hidden=64)],
        "vnait, the default": [build("vnait", dim=dim)],
    }
    table = parameters(counted["learned table, 512 rows"][0])
    counts = {name: sum(map(parameters, modules)) for name, modules in counted.items()}
    return [{"name": name, "parameters": count, "against_table_512": count / table} for name, count in counts.items()]
