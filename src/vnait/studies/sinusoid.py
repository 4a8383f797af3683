"""The sinusoidal table: what 003 says of it, held against the numbers.

PE[p, 2i] = sin(w_i p), PE[p, 2i+1] = cos(w_i p), w_i = 10000^(-2i/d). A shift by k is a rotation M_k, block diagonal in
[[cos w_i k, sin w_i k], [-sin w_i k, cos w_i k]]: PE_{p+k} = M_k PE_p for every p. From this follows most of what is true of the
table, and that the distance of two codes hangs on their offset alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from vnait.encodings import Sinusoid
from vnait.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTHS = (4, 8, 16, 64, 512)
OFFSETS = 512
FAR = 100_000


def codes(places: Tensor, dim: int) -> Tensor:
    """PE of places (N,): (N, dim), float64."""
    added = Sinusoid(dim=dim)(places.double()[None, :, None]).added
    assert added is not None
    return added[0]


def rotation(offset: int, dim: int) -> Tensor:
    """M_k, built from its definition and not from the table."""
    blocks = []
    for pair in range(dim // 2):
        angle = offset * 10_000 ** (-2 * pair / dim)
        cos, sin = math.cos(angle), math.sin(angle)
        blocks.append(torch.tensor([[cos, sin], [-sin, cos]], dtype=torch.float64))
    return torch.block_diag(*blocks)


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    if arm == "bfloat16":
        return {"distinct": float(torch.arange(2048).bfloat16().unique().numel())}
    if arm == "transposed":
        return {"shift_error": shift_error(4, transposed=True)}
    dim = int(arm.removeprefix("d="))
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
        "distances": distance.tolist(),
    }


def shift_error(dim: int, *, transposed: bool) -> float:
    """The largest |PE_{p+k} - M_k PE_p| over p up to 10,000 and k between -5,000 and 4,999."""
    places = torch.arange(0, 10_001, 97)
    worst = 0.0
    for offset in (-5000, -1234, -7, -1, 1, 3, 7, 50, 999, 4999):
        turn = rotation(offset, dim)
        found = codes(places, dim) @ (turn if transposed else turn.T)
        worst = max(worst, float((found - codes(places + offset, dim)).abs().max()))
    return worst


@claim("PE_{p+k} = M_k PE_p for every p, whatever k", source="003, rotation")
def judge_rotation(found: Findings) -> Verdict:
    """Confirmed where the largest error over k in -5,000...4,999 and p up to 10,000 is 1e-11 or less at every width."""
    worst = max(found.most(f"d={dim}", "shift_error") for dim in WIDTHS)
    return Verdict("confirmed" if worst <= 1e-11 else "refuted", f"largest error {worst:.1e}, k from -5,000 to 4,999")


@claim("||PE1 - PE2|| = 1.02 and ||PE1 - PE3|| = 1.84 at d=4", source="003, example")
def judge_distances(found: Findings) -> Verdict:
    """Confirmed where both are within .005."""
    second, third = found.mean("d=4", "to_second"), found.mean("d=4", "to_third")
    right = abs(second - 1.02) < 0.005 and abs(third - 1.84) < 0.005
    return Verdict("confirmed" if right else "refuted", f"{second:.5f} and {third:.5f}: the document's are wrong")


@claim(
    "The nearest code is the neighbour's",
    source="003, distances",
    rule=f"confirmed where no offset from 2 to {OFFSETS - 1} is nearer than 1; conditional where some widths have it",
)
def judge_neighbours(found: Findings) -> Verdict:
    nearer = {dim: found.mean(f"d={dim}", "nearer_than_neighbour") for dim in WIDTHS}
    said = ", ".join(f"d={dim}: {count:.0f}" for dim, count in nearer.items())
    said = f"offsets below {OFFSETS} that are nearer than the neighbour: {said}"
    good = [dim for dim in WIDTHS if nearer[dim] == 0]
    if len(good) == len(WIDTHS):
        return Verdict("confirmed", said)
    return Verdict("conditional", said, f"d >= {min(good)}") if good else Verdict("refuted", said)


@claim("Distance grows with the offset", source="003, distances")
def judge_monotone(found: Findings) -> Verdict:
    """Confirmed where it never falls, at any width."""
    drops = [found.mean(f"d={dim}", "drops") for dim in WIDTHS]
    correlation = [found.mean(f"d={dim}", "rank_correlation") for dim in WIDTHS]
    said = f"the distance falls at {min(drops):.0f} to {max(drops):.0f} of {OFFSETS - 2} steps; Spearman's rho "
    said += ", ".join(f"{value:.2f} (d={dim})" for dim, value in zip(WIDTHS, correlation, strict=True))
    return Verdict("refuted" if max(drops) > 0 else "confirmed", said)


@claim("Wavelengths run from 2 pi to 10000 * 2 pi", source="003, wavelengths")
def judge_wavelength(found: Findings) -> Verdict:
    """Confirmed where a width reaches the last within .1 %."""
    longest = {dim: found.mean(f"d={dim}", "longest_wavelength") for dim in WIDTHS}
    promised = 10_000 * 2 * math.pi
    reached = any(math.isclose(value, promised, rel_tol=1e-3) for value in longest.values())
    said = ", ".join(f"{value:,.0f} (d={dim})" for dim, value in longest.items())
    return Verdict("confirmed" if reached else "refuted", f"the longest is {said}; 62,832 is the limit of d")


@claim(
    "Every position has a code of its own",
    source="003, uniqueness",
    needs=["bfloat16"],
    rule=f"refuted where two codes less than {FAR:,} apart are nearer than 1e-9; conditional on the dtype of positions",
)
def judge_unique(found: Findings) -> Verdict:
    apart = {dim: found.mean(f"d={dim}", "separation") for dim in WIDTHS}
    distinct = found.mean("bfloat16", "distinct")
    said = f"least distance below offset {FAR:,}: " + ", ".join(
        f"{value:.2g} (d={dim})" for dim, value in apart.items()
    )
    said += f"; of 2,048 positions counted in bfloat16, {distinct:.0f} are left"
    if min(apart.values()) <= 1e-9:
        return Verdict("refuted", said)
    return Verdict("conditional", said, "positions are counted in float32 or better")


@claim(
    "Codes of different positions are linearly independent",
    source="003, uniqueness",
    rule=f"confirmed where {OFFSETS} rows have rank {OFFSETS} at every width",
)
def judge_independent(found: Findings) -> Verdict:
    rank = {dim: found.mean(f"d={dim}", "rank") for dim in WIDTHS}
    said = ", ".join(f"{value:.0f} (d={dim})" for dim, value in rank.items())
    independent = all(value == OFFSETS for value in rank.values())
    return Verdict("confirmed" if independent else "refuted", f"numeric rank of the first {OFFSETS} rows: {said}")


@claim("The columns are an orthogonal basis", source="003, basis")
def judge_orthogonal(found: Findings) -> Verdict:
    """Confirmed where no two columns of 512 rows have a cosine of .01 or more (d=64)."""
    cosine = found.mean("d=64", "largest_cosine")
    return Verdict(
        "confirmed" if cosine < 0.01 else "refuted", f"largest cosine between two columns {cosine:.4f} (d=64)"
    )


def draw(found: Findings) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.2), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    table = codes(torch.arange(64), 64)
    for axes, image, title in ((left, table, "PE"), (middle, table @ table.T, "PE PE$^T$")):
        figure.colorbar(axes.imshow(image, cmap="gray", aspect="auto"), ax=axes)
        axes.set(title=title, ylabel="position", xlabel="channel" if title == "PE" else "position")
    for dim, style in zip((4, 16, 64, 512), (":", "-.", "--", "-"), strict=True):
        distances = found.curve(f"d={dim}", "distances")[0][:200]
        right.plot(range(1, 201), distances / np.sqrt(dim / 2), style, color="black", lw=0.9, label=f"d={dim}")
    right.set(title="exact, no sampling", xlabel="offset (positions)", ylabel="distance / sqrt(d/2)")
    right.legend()
    return figure


STUDY = Study(
    name="sinusoid",
    subject="The sinusoidal table: rotation, distances, wavelengths, uniqueness, rank",
    data="none: closed forms in float64",
    measure="largest errors, distances, ranks",
    smallest="1e-11 for an identity; .005 for a figure that the document prints with two decimals",
    arms={
        **{f"d={dim}": f"the table of width {dim}" for dim in WIDTHS},
        "transposed": "M_k with its sines swapped",
        "bfloat16": "positions counted in bfloat16",
    },
    controls=[
        Control(
            says="the transposed M_k misses by more than .1",
            arm="transposed",
            mechanism="d=4",
            fails=lambda found: found.mean("transposed", "shift_error") > 0.1,
        )
    ],
    claims=[
        judge_rotation,
        judge_distances,
        judge_neighbours,
        judge_monotone,
        judge_wavelength,
        judge_unique,
        judge_independent,
        judge_orthogonal,
    ],
    full=Budget(),
    quick=Budget(),
    run=run,
    draw=draw,
)
