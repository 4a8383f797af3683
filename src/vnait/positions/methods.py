"""`METHODS`: every positional method by name.

No part is imported before a method is built, so that names and formulas are read without torch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from vnait.positions import coordinates as c
from vnait.positions import encodings as e
from vnait.positions import inputs as i
from vnait.positions.recipe import Recipe, Size
from vnait.shared.errors import did_you_mean, first_line

if TYPE_CHECKING:
    from torch import nn

    from vnait.positions.method import Method

logger = logging.getLogger("vnait")

CAUSAL = "vnait-causal"  # the method of vnait's family for decoders
BASE_POSITIONS = "own"  # in place of a name in METHODS: the positions that a pretrained model has already


def _method(**parts: Any) -> Method:
    from vnait.positions.method import Method

    return Method(**parts)


def _log_length(size: Size, **options: Any) -> nn.Module:
    """Scores * log n / log n0, n0 the mean training length."""
    from vnait.positions.injection import LogLength

    return LogLength(mean_length=size.mean_length, **options)


def _rotary(size: Size, rule: str | None = None) -> nn.Module:
    """RoPE for heads of this size; with a rule, scaled to four times the longest text."""
    original = None if rule == "linear" else size.max_length
    scaling = None if rule is None else e.Scaling(rule=rule, factor=4.0, original_length=original)  # type: ignore[arg-type]
    return e.Rotary(width=size.width, scaling=scaling)


def _half_rotary(size: Size) -> nn.Module:
    """p-RoPE as with scale-invariant attention: the fast half of the pairs of base 1024^2."""
    return e.PartialRotary(width=size.width, share=0.5, base=1024.0**2)


def _randomized(size: Size) -> c.Randomized:
    """As in the paper, positions up to some four times the longest text."""
    return c.Randomized(limit=max(2048, 4 * size.max_length))


def _halves(size: Size, base: float = 10_000.0) -> nn.Module:
    """The sinusoids of two axes, each in half of the channels."""
    half = size.dim // 2
    return e.Concatenated(
        e.Axis(e.Sinusoid(dim=half, base=base), 0),
        e.Axis(e.Sinusoid(dim=size.dim - half, base=base), 1),
    )


def _vnait(
    size: Size,
    coordinates: nn.Module,
    neighbours: Callable[..., nn.Module] | None = None,
    *,
    speed: float = 3.0,
    rotates: bool = True,
) -> Method:
    features = [
        e.Scalar(),
        e.Fourier(pairs=8, shortest=c.SPAN / 8),
        e.Anchors(),
        e.Centre(),
    ]
    encoding: nn.Module = e.Spatial(dim=size.dim, features=features, hidden=(64,), start=1.0)
    if rotates and size.width % 2 == 0:  # vectors of 25 numbers, say, have heads without pairs of channels
        # At most 1.6 turns in a text, and blurred, or heads find neighbours by the size of a step, which no
        # longer text has.
        turning = e.Blurred(e.Rotary(width=size.width, base=100.0, unit=c.SPAN / 10), width=3.0)
        encoding = e.Sum(encoding, e.Axis(turning, 0))
    return _method(
        coordinates=c.Jitter(coordinates, shift=12.0, share=0.5),
        encoding=encoding,
        inputs=(neighbours or i.Neighbours)(
            i.Fusion(dim=size.dim, hidden=16),
            [i.Local(dim=size.dim, speed=speed), i.Nearest(dim=size.dim)],
        ),
        scale=_log_length(size),
    )


def _vnait_causal(size: Size) -> Method:
    features = [e.Fourier(pairs=16), e.Anchors(ends=1)]
    saturating = c.Saturating(source="content", dim=size.dim, middle=size.mean_length, stretch=16.0)
    views = [
        i.Local(dim=size.dim, width=5, look="back", shape="fading", dropout=0),
        i.Nearest(dim=size.dim, look="back", dropout=0),
    ]
    # Heads that decay read a text of any length; one in four reads all of it, to find what is far away.
    decaying = max(1, size.num_heads * 3 // 4)
    sums = c.Running(source=c.Projection(dim=size.dim, lines=decaying))
    return _method(
        coordinates=c.Joined(c.Start(saturating), sums),
        encoding=e.Sum(
            # s starts small: the words' table is also the output's, and anything added to a word is noise in
            # its logits.
            e.Axis(e.Spatial(dim=size.dim, features=features, hidden=(64,)), (0, 1)),
            e.Axis(
                e.CableBias(num_heads=size.num_heads, form="heads", free=size.num_heads - decaying),
                range(2, 2 + decaying),
            ),
        ),
        inputs=i.Neighbours(i.Fusion(dim=size.dim, hidden=16), views),
        scale=_log_length(size, sees="prefix", heads=[head >= decaying for head in range(size.num_heads)]),
    )


METHODS: dict[str, Recipe] = {
    "none": Recipe(
        make=lambda size: _method(coordinates=c.Index(), encoding=e.NoPosition()),
        formula="x = e",
        source="control: words without their order",
    ),
    "sinusoidal": Recipe(
        make=lambda size: _method(coordinates=c.Index(), encoding=e.Sinusoid(dim=size.dim)),
        formula="x = e + [sin(i w_k), cos(i w_k)], w_k = 10000^(-2k/d)",
        source="arXiv 1706.03762, section 3.5",
    ),
    "learned-frequencies": Recipe(
        make=lambda size: _method(coordinates=c.Index(), encoding=e.Sinusoid(dim=size.dim, learned=True)),
        formula="sinusoidal with w_k = 10000^(-2k/d) exp(c_k), c learned from 0",
        source="Wang et al., On Position Embeddings in BERT, ICLR 2021",
        base="sinusoidal",
    ),
    "learned": Recipe(
        make=lambda size: _method(
            coordinates=c.Index(),
            encoding=e.Table(dim=size.dim, max_length=size.max_length),
        ),
        formula="x = e + P[i]",
        source="BERT, arXiv 1810.04805",
    ),
    "fourier": Recipe(
        make=lambda size: _method(
            coordinates=c.Span(source="uniform"),
            encoding=e.Spatial(dim=size.dim, features="fourier", start=1.0),
        ),
        formula="x = e + MLP(sin, cos of 2 pi S/period), S = 100 i/n",
        source="after arXiv 2106.02795, with fixed frequencies, on the span",
    ),
    "cape": Recipe(
        make=lambda size: _method(
            coordinates=c.Jitter(c.Index(), shift=5.0, local=0.5, stretch=1.03),
            encoding=e.Sinusoid(dim=size.dim),
        ),
        formula="sinusoidal on lambda (i + shift + local_i), drawn in training",
        source="CAPE, arXiv 2106.03143",
        base="sinusoidal",
    ),
    "randomized-sinusoidal": Recipe(
        make=lambda size: _method(coordinates=_randomized(size), encoding=e.Sinusoid(dim=size.dim)),
        formula="sinusoidal on n sorted random positions below 2048, or 4 times the longest text; in "
        "evaluation their means",
        source="arXiv 2305.16843",
        base="sinusoidal",
    ),
    "rope": Recipe(
        make=lambda size: _method(coordinates=c.Index(), encoding=_rotary(size)),
        formula="q, k turned by i w_k, w_k = 10000^(-2k/K)",
        source="arXiv 2104.09864, section 3.2.2",
    ),
    "rope-linear": Recipe(
        make=lambda size: _method(coordinates=c.Index(), encoding=_rotary(size, "linear")),
        formula="rope on i/4",
        source="position interpolation, arXiv 2306.15595",
        base="rope",
    ),
    "rope-ntk": Recipe(
        make=lambda size: _method(coordinates=c.Index(), encoding=_rotary(size, "dynamic")),
        formula="rope with a base that grows with the length past the longest text",
        source="dynamic NTK, transformers' ROPE_INIT_FUNCTIONS",
        base="rope",
    ),
    "rope-yarn": Recipe(
        make=lambda size: _method(coordinates=c.Index(), encoding=_rotary(size, "yarn")),
        formula="rope, low frequencies / 4, high ones kept; scores * (0.1 ln 4 + 1)^2",
        source="arXiv 2309.00071, as in transformers",
        base="rope",
    ),
    "rope-p": Recipe(
        make=lambda size: _method(
            coordinates=c.Index(), encoding=_half_rotary(size), scale=_log_length(size)
        ),
        formula="rope in half of the pairs, w_k = 1024^(-4k/K), k < K/4; scores * log n/log n0",
        source="p-RoPE, arXiv 2410.06205, with LogN as in arXiv 2505.17083",
        base="rope",
    ),
    "randomized-rope": Recipe(
        make=lambda size: _method(coordinates=_randomized(size), encoding=_rotary(size)),
        formula="rope on n sorted random positions below 2048, or 4 times the longest text; in evaluation "
        "their means",
        source="arXiv 2305.16843",
        base="rope",
    ),
    "xpos": Recipe(
        make=lambda size: _method(coordinates=c.Index(), encoding=e.XPos(width=size.width)),
        formula="rope, and pairs of scores * zeta_k^((i-j)/512); for decoders: keys after the query gain",
        source="arXiv 2212.10554, algorithm 1",
        base="rope",
    ),
    "lpi": Recipe(
        make=lambda size: _method(
            coordinates=c.Running(source="content", dim=size.dim), encoding=_rotary(size)
        ),
        formula="rope on R_i = cumsum(softplus(f(e_{i-1}, e_i)))",
        source="learned position increments: RoPE at running sums",
        base="rope",
    ),
    "alibi": Recipe(
        make=lambda size: _method(coordinates=c.Index(), encoding=e.AlibiBias(num_heads=size.num_heads)),
        formula="scores - m_h |i - j|",
        source="arXiv 2108.12409, both directions",
    ),
    "t5": Recipe(
        make=lambda size: _method(coordinates=c.Index(), encoding=e.T5Bias(num_heads=size.num_heads)),
        formula="scores + b_h[bucket(j - i)], 32 buckets",
        source="arXiv 1910.10683, section 2.1",
    ),
    "shaw": Recipe(
        make=lambda size: _method(
            coordinates=c.Index(),
            encoding=e.ShawBias(num_heads=size.num_heads, max_distance=16),
        ),
        formula="scores + b_h[clip(j - i, 16)]",
        source="arXiv 1803.02155, section 3.2, one number per distance",
    ),
    "kerple": Recipe(
        make=lambda size: _method(coordinates=c.Index(), encoding=e.Kerple(num_heads=size.num_heads)),
        formula="scores - r1 log(1 + r2 |i - j|)",
        source="arXiv 2205.09921, section 4",
    ),
    "fire": Recipe(
        make=lambda size: _method(coordinates=c.Index(), encoding=e.Fire(num_heads=size.num_heads)),
        formula="scores + f(log(1 + c|i-j|) / log(1 + c max(L, i)))",
        source="arXiv 2310.04418, section 3",
    ),
    "cable": Recipe(
        make=lambda size: _method(
            coordinates=c.Joined(*(c.Running(source="content", dim=size.dim) for _ in range(size.num_heads))),
            encoding=e.CableBias(num_heads=size.num_heads, form="heads"),
        ),
        formula="scores - |R_hi - R_hj|, R_h = cumsum(softplus(f_h(e_{i-1}, e_i))), one sum per head",
        source="after CABLE, arXiv 2503.08067; both directions, gaps of words, the same in all layers",
    ),
    "fox": Recipe(
        make=lambda size: _method(
            coordinates=c.Index(), encoding=e.Forgetting(num_heads=size.num_heads, width=size.width)
        ),
        formula="scores - |F_hi - F_hj|, F_h = cumsum(-log sigmoid(w_h . k + b_h)), k the layer's keys",
        source="FoX, arXiv 2503.02130, both directions, gates of keys, their weights shared by layers",
    ),
    "cope": Recipe(
        make=lambda size: _method(coordinates=c.Index(), encoding=e.Cope(width=size.width)),
        formula="scores + q_i . P[p_ij], p_ij = g_ij + ... + g_ii, g = sigmoid(scores); a second P after the "
        "query",
        source="CoPE, arXiv 2405.18719, both directions",
    ),
    "scale-invariant": Recipe(
        make=lambda size: _method(
            coordinates=c.Index(),
            encoding=e.Sum(_half_rotary(size), e.ScaleInvariant()),
        ),
        formula="rope-p's rotation; a scores + 1 - a^2, a^2 = 1 + 2 log(1 + |i-j|/10)",
        source="arXiv 2505.17083, section 3.2, both directions",
        base="rope-p",
    ),
    "nape": Recipe(
        make=lambda size: _method(
            coordinates=c.Index(),
            encoding=e.Nape(num_heads=size.num_heads, width=size.width),
        ),
        formula="scores log p, p = entmax_1.5(a scores - m_h |i - j|), m_h = 1/h and a = 1 in half of the "
        "heads, else m_h = 0 and a = 1 + beta (log(n + 1))^gamma, beta and gamma of the query",
        source="NAPE with ASEntmax, arXiv 2506.16640, both directions",
    ),
    "prefix": Recipe(
        make=lambda size: _method(
            coordinates=c.Running(source="content", dim=size.dim),
            encoding=e.Prefix(num_heads=size.num_heads, start=0.1),
        ),
        formula="scores + f_h(R_j / R_i), R = cumsum(softplus(f(e_{i-1}, e_i))); for decoders",
        source="FIRE's ratio, arXiv 2310.04418, of learned coordinates",
    ),
    "hierarchical": Recipe(
        make=lambda size: _method(coordinates=c.Segments(size=8), encoding=_halves(size)),
        formula="x = e + [PE(segment), PE(offset)], segments of 8 tokens, or as `places` give them",
        source="source documents, hierarchical positions",
    ),
    "grid-separable": Recipe(
        make=lambda size: _method(coordinates=c.Grid(shape=size.shape), encoding=_halves(size, base=100.0)),
        formula="x = e + [PE(row), PE(column)]",
        source="source documents, 2-D forms; MAE's sincos2d, arXiv 2111.06377, with base 100",
    ),
    "grid-additive": Recipe(
        make=lambda size: _method(
            coordinates=c.Grid(shape=size.shape),
            encoding=e.Sum(*(e.Axis(e.Sinusoid(dim=size.dim, base=100.0), axis) for axis in (0, 1))),
        ),
        formula="x = e + PE(row) + PE(column)",
        source="source documents, 2-D forms; base 100",
    ),
    "grid-diagonal": Recipe(
        make=lambda size: _method(
            coordinates=c.Diagonal(c.Grid(shape=size.shape)),
            encoding=_halves(size, base=100.0),
        ),
        formula="x = e + [PE((r+c)/sqrt 2), PE((c-r)/sqrt 2)]",
        source="source documents, the 2-D form turned by 45 degrees; base 100",
    ),
    "grid-learned": Recipe(
        make=lambda size: _method(
            coordinates=c.Grid(shape=size.shape),
            encoding=e.GridTable(dim=size.dim, shape=size.table),
        ),
        formula="x = e + P[row, column]",
        source="ViT, arXiv 2010.11929",
    ),
    "grid-rope": Recipe(
        make=lambda size: _method(
            coordinates=c.Grid(shape=size.shape),
            encoding=e.Axial(width=size.width, axes=len(size.shape)),
        ),
        formula="q, k turned by row w_k and column w_k, each its own pairs, w_k = 100^(-k/P)",
        source="arXiv 2403.13298, axial",
    ),
    "phase": Recipe(
        make=lambda size: _method(
            coordinates=c.Phase(periods=size.periods),
            encoding=e.Harmonics(dim=size.dim, axes=len(size.periods)),
        ),
        formula="x = e + [sin k theta_p, cos k theta_p], theta_p = 2 pi i/p",
        source="source documents, seasonality",
    ),
    "spectral": Recipe(
        make=lambda size: _method(coordinates=c.Spectrum(size=16), encoding=e.Linear(dim=size.dim, axes=16)),
        formula="x = e + W u_i, u_i of the first 16 Laplacian eigenvectors of the text's path",
        source="after arXiv 2012.09699, with D - A; source documents, graph spectra",
    ),
    "vnait": Recipe(
        make=lambda size: _vnait(size, c.Elastic(c.Gate(dim=size.dim)), i.Condensed),
        formula="x = e + s + MLP([e; s; e-s; cos]) + window(e) + nearest(e), s = MLP(S, 8 waves of S, 8 "
        "places from either end, centre), S = 100 R_i/R_n, in half of the training texts + U(-12, 12), "
        "R_i = g_1 + ... + g_i, g = clip(l, 0, 1), l = 3/2 + 4 (f(e) + 4 w ((1 + cos)/2)^8), cos with the "
        "token before, l's gradient over n; window, learned 3 times as fast, and nearest, in 7 of 10 each, "
        "and places count by g, too; q, k turned by S w_k, w_k = 100^(-2k/K)/10, in training by "
        "(S + U(-3, 3)) w_k; scores * log n/log n0; of N training texts loss + 24/N mean max(0, 3/2 - l)",
        source="the Vnait papers; docs/faithfulness.md; studies/findings/",
    ),
    "vnait-uniform": Recipe(
        make=lambda size: _vnait(size, c.Ends(c.Span(source="uniform"))),
        formula="vnait with g = 1: S_i = 100 i/n, nothing learned in S",
        source="control: frozen uniform S",
        base="vnait",
    ),
    "vnait-warp": Recipe(
        make=lambda size: _vnait(size, c.Ends(c.Span(source="warp")), speed=1.0, rotates=False),
        formula="x = e + s + MLP([e; s; e-s; cos]) + window(e) + nearest(e), s = MLP(S, 8 waves of S, 8 "
        "places from either end, centre), "
        "S = 100 R_i/R_n, in half of the training texts + U(-12, 12); window and nearest in 7 of 10 each; "
        "scores * log n/log n0",
        source="vnait until 2026-11-25: gaps by place, not by token",
    ),
    "vnait-context": Recipe(
        make=lambda size: _vnait(size, c.Elastic(c.ContextGate(dim=size.dim)), i.Condensed, speed=1.0),
        formula="vnait without the fast window, with g also of a state that the last token that counts as a "
        "mark has set",
        source="this project; studies/findings/",
        base="vnait",
    ),
    "vnait-causal": Recipe(
        make=_vnait_causal,
        formula="vnait with S = 100 R_i/(R_i + tau), R stretched in training, gaps from the words so far, "
        "the start alone, neighbours before the token, never dropped; s starts small; no rotation; in three "
        "of four heads scores - |R_hi - R_hj|, R_h = cumsum(softplus(w_h . e + b_h)), in the others scores * "
        "log n/log n0",
        source="the same, for decoders, without the fast window; studies/findings/",
        base="vnait",
    ),
    "vnait-paper": Recipe(
        make=lambda size: _method(
            coordinates=c.Span(source="free", max_length=size.max_length, min_gap=0),
            encoding=e.Spatial(dim=size.dim, features="scalar", hidden=(2 * size.dim,)),
            inputs=i.LiteralFusion(dim=size.dim, hidden=2 * size.dim),
        ),
        formula="x = e + s + MLP([e; s; e-s; cos]), s = MLP(S), S = 100 R_i/R_n, R = cumsum(softplus(z))",
        source="Vnait papers, sections 3.3 to 3.7, literally",
    ),
}


def arithmetic(name: str) -> str:
    """The formula of a method, and that of its base: a run's key changes with both.

    >>> arithmetic("vnait-uniform").startswith("vnait with g = 1: S_i = 100 i/n")
    True
    >>> arithmetic("vnait-uniform").endswith(METHODS["vnait"].formula)
    True
    """
    recipe = METHODS[name]
    return recipe.formula if recipe.base is None else f"{recipe.formula}; {arithmetic(recipe.base)}"


def with_bases(name: str) -> dict[str, Recipe]:
    """A method's recipe and those of its bases, for a process that knows only the library's methods.

    >>> list(with_bases("vnait-uniform"))
    ['vnait-uniform', 'vnait']
    """
    recipe = METHODS[name]
    return {name: recipe, **(with_bases(recipe.base) if recipe.base else {})}


def unknown(names: Iterable[str]) -> Iterator[str]:
    """A clause for each name that is not in `METHODS`, with the closest one.

    >>> next(unknown(["vnat"])).split(" The methods")[0]
    "method 'vnat' is not known. Did you mean 'vnait'?"
    """
    for name in names:
        if name not in METHODS:
            meant = did_you_mean(name, METHODS)
            yield f"method {name!r} is not known.{meant} The methods are {', '.join(METHODS)}"


def _load_entry_points() -> None:
    """Methods that installed packages add, under the entry point group `vnait.methods`. One that can't be
    used is left out, with a warning.
    """
    for entry in entry_points(group="vnait.methods"):
        try:
            recipe = entry.load()
        except Exception as error:  # of another package
            recipe, wrong = None, f"can't be imported ({type(error).__name__}: {first_line(error)})"
        else:
            wrong = f"is a {type(recipe).__name__} and no vnait.positions.Recipe"
        if entry.name in METHODS:
            recipe, wrong = None, "has the name of a method that exists"
        if isinstance(recipe, Recipe):
            METHODS[entry.name] = recipe
        else:
            logger.warning(
                "the method %s of the entry point %s %s; it is left out.", entry.name, entry.value, wrong
            )


_load_entry_points()
