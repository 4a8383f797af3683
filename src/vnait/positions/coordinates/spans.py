"""Coordinates along a text: the index, Vnait's span, the running coordinate, the ends."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import nn

from vnait.positions.coordinates.shared import (
    At,
    Line,
    Lines,
    Mask,
    Positions,
    Vectors,
    check_mask,
    known,
    located,
    nearest_real,
    rank,
    steps,
    takes_positions,
)
from vnait.positions.coordinates.sources import Content, Free, Uniform, Warp
from vnait.shared.errors import one_of
from vnait.shared.randomness import generator
from vnait.shared.values import check

SPAN = 100.0
MIN_GAP = 0.01  # the smallest gap, as a fraction of the uniform gap
MIN_STEP = 1e-30  # added to a step of time, in steps of the mean


class Index(nn.Module):
    """Integer position, 0 ... n-1, of real tokens, (B, T, 1); or known positions unchanged, (B, T, any).

    >>> Index()(None, torch.tensor([[False, True, True]]))[0, :, 0]
    tensor([0., 0., 1.])
    """

    causal = True
    per_sentence = False
    takes_positions = True

    def forward(self, vectors: Vectors, mask: Mask, positions: Positions = None) -> At:
        check_mask(mask)
        if positions is None:
            return nearest_real(rank(mask).float(), mask)[..., None]
        return known(positions, mask)


class Span(nn.Module):
    """Vnait's coordinates: S_i = 100 R_i / R_n, R_i = g_1 + ... + g_i, g_k = softplus(z_k). Shape (B, T, 1).

    source          of z: "uniform", "free", "warp", "content", or a module (vectors, mask) -> z (B, T), such
                    as `Content` that reads more neighbours, `Warp` of more knots, or `Projection`, whose
                    several z per token give an axis each
    dim             width of the vectors that "content" reads;  max_length: the longest text, for "free"
    normalization   "span": S_n = 100, in (0, 100]. "sum": S_1 + ... + S_n = 100. "none": R itself, with a
                    uniform gap of 1
    bounds          "hard": as above. "soft": offset + scale * S, both learned, from 0 and 1 (not with "none")
    min_gap         the smallest gap, a fraction of the uniform gap, in [0, 1); 0: the papers' literal formula

    Known positions, such as timestamps, scale the gaps: g_k = softplus(z_k) (t_k - t_{k-1}) over the mean
    step, and g_1 = softplus(z_1); a uniform source then gives S in proportion to time. Not with "none".

    For every finite z and min_gap > 0: strictly increasing, first above 0, last exactly 100 (span, hard),
    finite gradients. Source: the Vnait papers, sections 3.2 and 3.3; `docs/faithfulness.md`.

    >>> Span(source="uniform")(None, torch.ones(1, 4, dtype=torch.bool))[0, :, 0]
    tensor([ 25.,  50.,  75., 100.])
    """

    def __init__(
        self,
        *,
        source: str | nn.Module = "warp",
        dim: int | None = None,
        max_length: int | None = None,
        normalization: Literal["span", "sum", "none"] = "span",
        bounds: Literal["hard", "soft"] = "hard",
        min_gap: float = MIN_GAP,
    ) -> None:
        super().__init__()
        one_of("normalization", normalization, ("span", "sum", "none"))
        one_of("bounds", bounds, ("hard", "soft"))
        if bounds == "soft" and normalization == "none":
            raise ValueError(
                'bounds="soft" needs a normalized coordinate: take normalization "span" or "sum".'
            )
        self.source = _source(source, dim=dim, max_length=max_length, after=1)
        if not 0 <= min_gap < 1:
            raise ValueError(f"min_gap={min_gap}; it is a fraction of the uniform gap and must be in [0, 1).")
        self.normalization, self.min_gap = normalization, min_gap
        self.bounds = _SoftBounds() if bounds == "soft" else None

    @property
    def causal(self) -> bool:
        """True without normalization and with a causal source."""
        return self.normalization == "none" and bool(self.source.causal)

    @property
    def per_sentence(self) -> bool:
        return bool(self.source.per_sentence)

    @property
    def lookback(self) -> int | None:
        """How many tokens before its own a gap is read from; None: unknown."""
        return getattr(self.source, "lookback", None)

    @property
    def lines(self) -> int | None:
        """How many gaps a token has, in a last axis; None: one, without that axis."""
        return getattr(self.source, "lines", None)

    @property
    def takes_positions(self) -> bool:
        """True with normalization: the mean step depends on the whole text."""
        return self.normalization != "none"

    def forward(self, vectors: Vectors, mask: Mask, positions: Positions = None) -> At:
        log_gaps = self.gaps(vectors, mask)
        if positions is not None:
            if not self.takes_positions:
                raise ValueError(
                    'normalization="none" takes no positions, since the mean step depends on later tokens; '
                    'take "span", or Index for the positions themselves.'
                )
            # At a step of 0 the logarithm has no gradient, and the gap has one.
            log_steps = (steps(positions, mask) + MIN_STEP).log().to(log_gaps.dtype)
            log_gaps = log_gaps + (log_steps if self.lines is None else log_steps[..., None])
        return self.locate(log_gaps, mask)

    def gaps(self, vectors: Vectors, mask: Mask) -> Lines:
        """log softplus(z): the gaps before min_gap and normalization; as logarithms, none underflows."""
        check_mask(mask)
        z = self.source(vectors, mask)
        _check_finite(z, self.source)
        # Unnormalized sums are float64 anyway, and a prefix must not depend on how long the text is.
        exact = self.normalization == "none"
        return _log_softplus(z.to(torch.float64 if exact else _precision(vectors, mask, self.min_gap)))

    def sums(self, log_gaps: Line, mask: Mask) -> Line:
        """R (B, T), with a smallest gap; in float64, since it has no upper bound."""
        gaps = (1 - self.min_gap) * log_gaps.double().exp() + self.min_gap
        return gaps.masked_fill(~mask, 0).cumsum(-1)

    def since_start(self, running: Line, mask: Mask) -> Line:
        """R_i - R_1 (B, T): the distance from the first token."""
        # The minimum leaves padding out: if equal to R_1, it would get a share of the gradient.
        return nearest_real(running - running.masked_fill(~mask, torch.inf).amin(-1, keepdim=True), mask)

    def placed(self, running: Line, mask: Mask) -> At:
        """The coordinate of R, which is not normalized."""
        return nearest_real(running, mask)[..., None]

    def locate(self, log_gaps: Lines, mask: Mask) -> At:
        """S (or R) from the logarithms of the gaps."""
        if self.lines is None:
            return self._axis(log_gaps, mask)
        rows = log_gaps.movedim(-1, 1).flatten(0, 1)  # a row per text and line
        at = self._axis(rows, mask.repeat_interleave(self.lines, 0))
        return at.unflatten(0, (-1, self.lines)).squeeze(-1).movedim(1, -1)

    def _axis(self, log_gaps: Line, mask: Mask) -> At:
        if self.normalization == "none":
            return self.placed(self.sums(log_gaps, mask), mask)
        line = _fraction(log_gaps, mask, self.min_gap)
        if self.normalization == "sum":
            line = line / line.masked_fill(~mask, 0).sum(-1, keepdim=True)
        line = SPAN * line
        if self.bounds is not None:
            line = self.bounds(line)
        return nearest_real(line, mask)[..., None]

    def extra_repr(self) -> str:
        return f"normalization={self.normalization!r}, min_gap={self.min_gap}"


class Running(Span):
    """The running coordinate R_i = g_1 + ... + g_i, with a uniform gap of 1. Shape (B, T, 1).

    Exactly prefix-consistent, hence `causal`, with the sources "uniform", "free" and "content", which here
    looks back only; the arguments are those of `Span`. Neighbours stay distinct while R_n / min_gap is below
    2^52. Source: this project.

    >>> Running()(None, torch.ones(1, 3, dtype=torch.bool))[0, :, 0].float()
    tensor([1., 2., 3.])
    """

    def __init__(
        self,
        *,
        source: str | nn.Module = "uniform",
        dim: int | None = None,
        max_length: int | None = None,
        min_gap: float = MIN_GAP,
    ) -> None:
        back = _source(source, dim=dim, max_length=max_length, after=0)
        super().__init__(source=back, normalization="none", min_gap=min_gap)


class Saturating(Running):
    """S_i = 100 R_i / (R_i + tau), tau > 0 learned, in (0, 100). Shape (B, T, 1). Causal if R is.

    tau starts at `middle`, the number of tokens at which S reaches 50. In training R is multiplied by a
    factor per sentence, log-uniform in [1, stretch], so that training covers the S of longer texts.
    Source: this project; `studies/findings/2026-11-21-decoder-reads-on.md`.

    >>> Saturating(middle=3)(None, torch.ones(1, 3, dtype=torch.bool))[0, :, 0].float()
    tensor([25., 40., 50.], grad_fn=<ToCopyBackward0>)
    """

    def __init__(
        self,
        *,
        source: str | nn.Module = "uniform",
        dim: int | None = None,
        max_length: int | None = None,
        middle: float = 24.0,
        stretch: float = 1.0,
    ) -> None:
        super().__init__(source=source, dim=dim, max_length=max_length)
        if not middle > 0:
            raise ValueError(f"middle={middle}; it must be a positive number of tokens.")
        if stretch < 1:
            raise ValueError(f"stretch={stretch}; it must be 1 (none) or more.")
        self.middle, self.stretch = middle, stretch
        self.log_tau = nn.Parameter(torch.empty(1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """tau = middle."""
        nn.init.constant_(self.log_tau, math.log(self.middle))

    @property
    def per_sentence(self) -> bool:
        """In training every sentence may draw its own factor."""
        return (self.training and self.stretch > 1) or super().per_sentence

    def placed(self, running: Line, mask: Mask) -> At:
        """S of R."""
        running = super().placed(running, mask)
        if self.training and self.stretch > 1:
            drawn = torch.rand(
                running.shape[:-2],
                dtype=running.dtype,
                device=running.device,
                generator=generator(running.device),
            )
            running = running * self.stretch ** drawn[..., None, None]
        return SPAN * running / (running + self.log_tau.double().exp())


class Ends(nn.Module):
    """A span, or sorted random positions, and the distances from both ends: (S_i, i - 1, n - i), (B, T, 3).

    Known positions are the span's; the distances count tokens. They are unbounded: encode them by `Anchors`
    and `Centre`. They are counted, not learned: learned gaps add up their errors, and moved the middle of
    500 tokens by one (`studies/findings/`). Source: this project.

    >>> Ends(Span())(None, torch.ones(1, 3, dtype=torch.bool))[0, :, 1:].int().tolist()
    [[0, 2], [1, 1], [2, 0]]
    """

    causal = False

    def __init__(self, span: nn.Module) -> None:
        super().__init__()
        self.span = span

    @property
    def per_sentence(self) -> bool:
        return bool(self.span.per_sentence)

    @property
    def takes_positions(self) -> bool:
        return takes_positions(self.span)

    def forward(self, vectors: Vectors, mask: Mask, positions: Positions = None) -> At:
        span, number = located(self.span, vectors, mask, positions), rank(mask)
        ends = number, mask.sum(-1, keepdim=True) - 1 - number
        return torch.cat([span, *(nearest_real(end, mask)[..., None].to(span.dtype) for end in ends)], -1)


class Start(nn.Module):
    """A causal coordinate and the distance from the start: (S_i, R_i - R_1). Shape (B, T, 2).

    >>> Start(Running())(None, torch.ones(1, 3, dtype=torch.bool))[0].float().tolist()
    [[1.0, 0.0], [2.0, 1.0], [3.0, 2.0]]
    """

    def __init__(self, running: Running) -> None:
        super().__init__()
        if running.lines is not None:
            raise ValueError(
                f"Start reads one running coordinate, and this one has {running.lines}; join it."
            )
        self.running = running

    @property
    def causal(self) -> bool:
        return self.running.causal

    @property
    def per_sentence(self) -> bool:
        return self.running.per_sentence

    @property
    def lookback(self) -> int | None:
        return self.running.lookback

    def forward(self, vectors: Vectors, mask: Mask) -> At:
        return self.locate(self.gaps(vectors, mask), mask)

    def gaps(self, vectors: Vectors, mask: Mask) -> Line:
        return self.running.gaps(vectors, mask)

    def locate(self, log_gaps: Line, mask: Mask) -> At:
        """(S_i, R_i - R_1) from the logarithms of the gaps."""
        sums = self.running.sums(log_gaps, mask)
        line, since = self.running.placed(sums, mask), self.running.since_start(sums, mask)
        return torch.cat([line, since[..., None].to(line.dtype)], -1)


def _source(source: str | nn.Module, *, dim: int | None, max_length: int | None, after: int) -> nn.Module:
    if isinstance(source, nn.Module):
        return source
    one_of("source", source, ("uniform", "free", "warp", "content"))
    if source == "free":
        return Free(max_length=_needed("max_length", max_length, source))
    if source == "content":
        return Content(dim=_needed("dim", dim, source), after=after)
    return Uniform() if source == "uniform" else Warp()


def _precision(vectors: Vectors, mask: Mask, min_gap: float) -> torch.dtype:
    """float32 while the smallest gap is 16 roundings or more (some 5,000 tokens), else float64."""
    if vectors is not None and vectors.dtype == torch.float64:
        return torch.float64
    wide = (min_gap or MIN_GAP) / max(mask.shape[-1], 1) >= 16 * torch.finfo(torch.float32).eps
    return torch.float32 if wide else torch.float64


def _log_softplus(z: Lines) -> Lines:
    """log(softplus(z)); z - exp(z) / 2 below -15, since softplus underflows."""
    low = z < -15
    return torch.where(
        low, z - z.clamp(max=0).exp() / 2, torch.logaddexp(z.masked_fill(low, 0), torch.zeros_like(z)).log()
    )


def _fraction(log_gaps: Line, mask: Mask, min_gap: float) -> Line:
    """R_i / R_n with a smallest gap: in (0, 1], exactly 1 at the last real token."""
    share = log_gaps.masked_fill(~mask, -torch.inf).softmax(-1)
    uniform = mask.to(share.dtype) / mask.sum(-1, keepdim=True)
    with torch.autocast(mask.device.type, enabled=False):
        running = ((1 - min_gap) * share + min_gap * uniform).cumsum(-1)
    return running / running[..., -1:]


class _SoftBounds(nn.Module):
    """offset + scale * S, at first exactly S; scale stays positive, so the order stays."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = nn.Parameter(torch.empty(1))
        self.log_scale = nn.Parameter(torch.empty(1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.offset)
        nn.init.zeros_(self.log_scale)

    def forward(self, line: Line) -> Line:
        return self.offset.to(line.dtype) + self.log_scale.to(line.dtype).exp() * line


def _check_finite(z: Lines, source: nn.Module) -> None:
    message = (
        f"the coordinate source {type(source).__name__.lower()} gave NaN or infinity; check its parameters "
        "(a diverged training?) and the vectors it reads."
    )
    try:
        check(torch.isfinite(z), "coordinates are finite", lambda *_: message)
    except RuntimeError:  # torch.func.vmap has no values to check
        return


def _needed(name: str, value: int | None, source: str) -> int:
    if value is None:
        raise ValueError(f'the source "{source}" needs {name}=...')
    return value
