"""The sinusoidal table: rotation, distances, wavelengths, uniqueness, rank.

PE[p, 2i] = sin(w_i p), PE[p, 2i+1] = cos(w_i p), w_i = 10000^(-2i/d). A shift by k is a rotation M_k, block
diagonal in [[cos w_i k, sin w_i k], [-sin w_i k, cos w_i k]]: PE_{p+k} = M_k PE_p for every p. Most
properties of the table follow from this, among them that the distance of two codes depends only on their
offset.
"""

from __future__ import annotations

import math

import torch
from scipy.stats import spearmanr
from torch import Tensor

from vnait.positions.encodings import Sinusoid
from vnait_lab.kit import Figure, decided, each, listed
from vnait_lab.studies.figures import lines, maps, panels
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

WIDTHS = (4, 8, 16, 64, 512)
OFFSETS, FAR = 512, 100_000
PAIRS, SQUARE = 8000, 64  # of places, for sums; rows, for stripes
STUDY = Study.of(
    __name__,
    source="003, distances",
    data="none: closed forms in float64",
    measure="largest errors, distances, ranks",
    smallest="1e-11 for an identity; .005 for a number that the document prints with two decimals",
    variants={
        **{f"d={dim}": f"the table of width {dim}" for dim in WIDTHS},
        "transposed": "M_k with its sines swapped",
        "bfloat16": "positions counted in bfloat16",
    },
)


def codes(places: Tensor, dim: int) -> Tensor:
    """PE of positions (N,): (N, dim), float64."""
    added = Sinusoid(dim=dim)(places.double()[None, :, None]).added
    assert added is not None
    return added[0]


def rotation(offset: int, dim: int) -> Tensor:
    """M_k, built from its definition, not from the table that it is tested on."""
    angles = [offset * 10_000 ** (-2 * pair / dim) for pair in range(dim // 2)]
    blocks = [[[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]] for angle in angles]
    return torch.block_diag(*torch.tensor(blocks, dtype=torch.float64))


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    if variant == "bfloat16":
        return {"distinct": float(torch.arange(2048).bfloat16().unique().numel())}
    if variant == "transposed":
        return {"shift_error": shift_error(4, transposed=True)}
    dim = int(variant.removeprefix("d="))
    table = codes(torch.arange(OFFSETS), dim)
    distance = (table - table[0]).norm(dim=1)[1:]
    far = (codes(torch.arange(FAR), dim) - table[0]).norm(dim=1)[1:]
    unit = table / table.norm(dim=0).clamp_min(1e-12)
    cosines = (unit.T @ unit - torch.eye(dim, dtype=torch.float64)).abs()
    return {
        "shift_error": shift_error(dim, transposed=False),
        "to_second": float((table[1] - table[2]).norm()),
        "to_third": float((table[1] - table[3]).norm()),
        "nearer_than_neighbour": float((distance[1:] < distance[0] - 1e-12).sum()),
        "drops": float((distance.diff() < 0).sum()),
        "rank_correlation": float(spearmanr(range(1, OFFSETS), distance).statistic),
        "longest_wavelength": 2 * math.pi * 10_000 ** ((dim - 2) / dim),
        "separation": float(far.min()),
        "rank": float(torch.linalg.matrix_rank(table)),
        "largest_cosine": float(cosines.max()),
        "products": (table[2] @ table[1:4].T).tolist(),
        **sums(dim),
        **stripes(table[:SQUARE]),
        "distances": distance.tolist(),
    }


def shift_error(dim: int, *, transposed: bool) -> float:
    """The largest |PE_{p+k} - M_k PE_p| over p up to 10,000 and k between -5,000 and 4,999."""
    places = torch.arange(0, 10_001, 97)
    worst = 0.0
    for offset in (-5000, -1234, -7, -1, 1, 3, 7, 50, 999, 4999):
        matrix = rotation(offset, dim)
        shifted = codes(places, dim) @ (matrix if transposed else matrix.T)
        worst = max(worst, float((shifted - codes(places + offset, dim)).abs().max()))
    return worst


def sums(dim: int) -> dict[str, float]:
    """How well PE_a and PE_b give PE_{a+b}: R^2 of the best linear map on other pairs, and the largest error
    of the addition theorem, which multiplies them.
    """
    pairs = torch.randint(OFFSETS, (PAIRS, 2), generator=torch.Generator().manual_seed(0))
    (first, second), whole = codes(pairs.flatten(), dim).view(-1, 2, dim).unbind(1), codes(pairs.sum(1), dim)
    inputs = torch.cat([first, second, torch.ones(len(pairs), 1)], 1)
    fitted, tested = slice(PAIRS // 2), slice(PAIRS // 2, None)
    weight = torch.linalg.lstsq(inputs[fitted], whole[fitted], rcond=1e-9, driver="gelsd").solution
    missed, spread = inputs[tested] @ weight - whole[tested], whole[tested] - whole[tested].mean(0)
    unexplained = missed.square().sum() / spread.square().sum()
    sine = first[:, ::2] * second[:, 1::2] + first[:, 1::2] * second[:, ::2]
    cosine = first[:, 1::2] * second[:, 1::2] - first[:, ::2] * second[:, ::2]
    product = torch.stack([sine, cosine], -1).flatten(1)
    return {"sum_linear": 1 - float(unexplained), "sum_product": float((product - whole).abs().max())}


def stripes(table: Tensor) -> dict[str, float]:
    """The share of the variance that the means of the diagonals explain: of the table, of PE PE^T, and of
    random numbers.
    """
    noise = torch.randn(table.shape, generator=torch.Generator().manual_seed(0), dtype=table.dtype)
    kinds = {"table": table, "products": table @ table.T, "random": noise}
    return {f"stripes_{kind}": diagonal_share(matrix) for kind, matrix in kinds.items()}


def diagonal_share(matrix: Tensor) -> float:
    rows, columns = matrix.shape
    offsets = (torch.arange(columns) - torch.arange(rows)[:, None] + rows - 1).flatten()
    values = matrix.flatten()
    sizes = offsets.bincount()
    means = torch.zeros(len(sizes), dtype=values.dtype).index_add(0, offsets, values) / sizes
    return float((means[offsets] - values.mean()).square().sum() / (values - values.mean()).square().sum())


def by_width(findings: Findings, metric: str) -> dict[str, float]:
    return {f"d={dim}": findings.mean(f"d={dim}", metric) for dim in WIDTHS}


@STUDY.control("the transposed M_k misses by more than .1", variant="transposed", mechanism="d=4")
def transposed_misses(findings: Findings) -> bool:
    return findings.mean("transposed", "shift_error") > 0.1


@STUDY.claim("PE_{p+k} = M_k PE_p for every p, whatever k", source="003, rotation")
def judge_rotation(findings: Findings) -> Verdict:
    """Confirmed if the largest error over k in -5,000...4,999 and p up to 10,000 is 1e-11 or less at every
    width.
    """
    worst = max(findings.most(f"d={dim}", "shift_error") for dim in WIDTHS)
    return decided(worst <= 1e-11, f"largest error {worst:.1e}, k from -5,000 to 4,999")


@STUDY.claim("||PE1 - PE2|| = 1.02 and ||PE1 - PE3|| = 1.84 at d=4", source="003, example")
def judge_distances(findings: Findings) -> Verdict:
    """Confirmed if both are within .005."""
    second, third = findings.mean("d=4", "to_second"), findings.mean("d=4", "to_third")
    right = abs(second - 1.02) < 0.005 and abs(third - 1.84) < 0.005
    return decided(right, f"{second:.5f} and {third:.5f}: the document's are wrong")


@STUDY.claim("The nearest code is the neighbour's")
def judge_neighbours(findings: Findings) -> Verdict:
    """Confirmed if no offset from 2 to 511 is nearer than offset 1; conditional if only at some widths."""
    nearer = by_width(findings, "nearer_than_neighbour")
    good = {dim: nearer[f"d={dim}"] == 0 for dim in WIDTHS}
    summary = f"offsets below {OFFSETS} that are nearer than the neighbour: "
    summary += listed(nearer, "{name}: {:.0f}")
    return each(good, summary, f"d >= {min(filter(good.get, WIDTHS), default=0)}")


@STUDY.claim("Distance grows with the offset")
def judge_monotone(findings: Findings) -> Verdict:
    """Confirmed if it never falls, at any width."""
    drops = by_width(findings, "drops").values()
    summary = f"the distance falls at {min(drops):.0f} to {max(drops):.0f} of {OFFSETS - 2} steps; "
    summary += f"Spearman's rho {listed(by_width(findings, 'rank_correlation'), '{:.2f} ({name})')}"
    return decided(max(drops) <= 0, summary)


@STUDY.claim("Wavelengths run from 2 pi to 10000 * 2 pi", source="003, wavelengths")
def judge_wavelength(findings: Findings) -> Verdict:
    """Confirmed if some width reaches the upper end within .1 %."""
    longest = by_width(findings, "longest_wavelength")
    reached = any(math.isclose(value, 10_000 * 2 * math.pi, rel_tol=1e-3) for value in longest.values())
    summary = f"the longest is {listed(longest, '{:,.0f} ({name})')}; 62,832 is the limit of d"
    return decided(reached, summary)


@STUDY.claim("Every position has a code of its own", source="003, uniqueness", needs=["bfloat16"])
def judge_unique(findings: Findings) -> Verdict:
    """Refuted if two codes of positions less than 100,000 apart are nearer than 1e-9; else conditional on
    the dtype of positions.
    """
    apart = by_width(findings, "separation")
    summary = f"least distance below offset {FAR:,}: {listed(apart, '{:.2g} ({name})')}; of 2,048 positions "
    summary += f"counted in bfloat16, {findings.mean('bfloat16', 'distinct'):.0f} are distinct"
    condition = "positions are counted in float32 or better"
    return decided(False, summary, refuted=min(apart.values()) <= 1e-9, condition=condition)


@STUDY.claim("Codes of different positions are linearly independent", source="003, uniqueness")
def judge_independent(findings: Findings) -> Verdict:
    """Confirmed if 512 rows have rank 512 at every width."""
    rank = by_width(findings, "rank")
    summary = f"numeric rank of the first {OFFSETS} rows: {listed(rank, '{:.0f} ({name})')}"
    return decided(min(rank.values()) == OFFSETS, summary)


@STUDY.claim("The columns are an orthogonal basis", source="003, basis")
def judge_orthogonal(findings: Findings) -> Verdict:
    """Confirmed if no two columns of 512 rows have a cosine of .01 or more (d=64)."""
    cosine = findings.mean("d=64", "largest_cosine")
    summary = f"largest cosine between two columns {cosine:.4f} (d=64)"
    return decided(cosine < 0.01, summary)


@STUDY.claim("PE_{a+b} = f(PE_a, PE_b) is additive", source="003, additivity")
def judge_sums(findings: Findings) -> Verdict:
    """Confirmed if a linear map explains 99 % of other sums; conditional if products of their channels give
    them within 1e-11.
    """
    linear, product = by_width(findings, "sum_linear"), max(by_width(findings, "sum_product").values())
    summary = f"R^2 of the best linear map: {listed(linear, '{:.2f} ({name})')}; "
    summary += f"error of the products {product:.0e}"
    condition = "f multiplies channels (sin(a + b) = sin a cos b + cos a sin b)"
    explained = min(linear.values()) > 0.99
    return decided(explained, summary, refuted=product > 1e-11, condition=condition)


@STUDY.claim("PE_2 . PE_1 is high, so position 2 attends to position 1", source="003, agreement")
def judge_products(findings: Findings) -> Verdict:
    """Confirmed if at some width the product with position 1 is above those with 2 and 3."""
    products = {dim: findings.curve(f"d={dim}", "products")[0] for dim in WIDTHS}
    highest = [dim for dim, (before, same, after) in products.items() if before > max(same, after) + 1e-9]
    before, same, after = products[4]
    summary = f"d=4: {before:.4f} with position 1, {same:.4f} with itself, {after:.4f} with position 3; "
    summary += f"the highest at {len(highest)} of {len(WIDTHS)} widths"
    return decided(bool(highest), summary)


@STUDY.claim("The table shows diagonal stripes", source="003, stripes")
def judge_stripes(findings: Findings) -> Verdict:
    """Confirmed if the means of its diagonals explain half of the variance of 64 rows of width 64."""
    table, products, noise = (
        findings.mean("d=64", f"stripes_{kind}") for kind in ("table", "products", "random")
    )
    summary = f"diagonals explain {table:.2f} of the table's variance, {products:.2f} of that of PE PE^T, "
    summary += f"{noise:.2f} of that of random numbers"
    return decided(table > 0.5, summary)


@STUDY.draws
def draw(findings: Findings) -> Figure:
    figure, (left, middle, right) = panels(1, 1, 1, size=(11, 3.2))
    table = codes(torch.arange(64), 64)
    maps(figure, [left], {"PE, d=64": table}, of="value", x="channel", y="position", aspect="auto")
    products = {"PE PE$^T$": table @ table.T}
    maps(figure, [middle], products, of="product", x="position", y="position", aspect="auto")
    away = {
        f"d={dim}": findings.curve(f"d={dim}", "distances")[0, :200] / (dim / 2) ** 0.5
        for dim in (512, 64, 4, 16)
    }
    # d=4 oscillates the most; third in the order, it is dotted.
    lines(right, range(1, 201), away, marker="", lw=0.9)
    right.set(title="exact, no sampling", xlabel="offset (positions)", ylabel="distance / sqrt(d/2)")
    right.legend()
    return figure
