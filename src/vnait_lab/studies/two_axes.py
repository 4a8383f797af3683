"""Codes of two axes: separable, additive, rotated; shifts and directions.

Separable E = [PE(row), PE(column)] has K = k(dr) + k(dc), a function of offsets alone. Additive E = PE(row) +
PE(column) also has the cross terms <PE(row_a), PE(column_b)>, which depend on the positions: they are
unchanged only if both axes shift by the same amount. The rotated form is the separable code of axes rotated
by 45 degrees (the document calls it "RoPE-style"; only the grid is rotated).

Directional responses use lines of points one unit apart. Lines of pixels would not do: on a diagonal pixels
are sqrt 2 apart, so that a kernel without any direction would seem to have one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from matplotlib.axes import Axes
from sklearn.metrics import roc_auc_score
from torch import Generator, Tensor

from vnait.positions.building import build
from vnait.results.colours import COLOURS
from vnait_lab.kit import Dots, Figure, Panel, decided, figure, listed
from vnait_lab.studies.figures import lines
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

Kernel = Callable[[Tensor], Tensor]  # positions (..., N, 2) -> K of all pairs (..., N, N)

SIDE = 16
POINTS, CLUTTER = 8, 16
STEPS = {"axes": ((0, 1), (1, 0)), "diagonals": ((1, 1), (1, -1))}
ANGLES = [5 * number for number in range(36)]
CHANNELS = 32  # per axis
SIGMA = 2.0  # best of 1, 1.5, 2, 2.5, 3, 4 at finding diagonals: the strongest rival
SHIFTS = {"rows": (1, 0), "columns": (0, 1), "the main diagonal": (1, 1), "the other diagonal": (1, -1)}
VARIANTS = {
    "separable": "[PE(row), PE(column)], 32 channels each, base 100",
    "additive": "PE(row) + PE(column), 32 channels",
    "rotated": "the separable code of ((r + c) / sqrt 2, (c - r) / sqrt 2)",
    "rotated, not scaled": "the separable code of (r + c, c - r), as the document has it",
    "isotropic": f"a kernel of distance alone: a Gaussian, sigma {SIGMA:g}",
    "shuffled": "the separable code, its cells in random order",
}
METHODS = {"separable": "grid-separable", "additive": "grid-additive"}
STUDY = Study.of(
    __name__,
    source="004, two axes",
    data=f"a grid of {SIDE} x {SIDE}; lines of {POINTS} unit steps; images of a line of {POINTS} cells and "
    f"{CLUTTER} of clutter",
    measure="largest changes of the kernel K; mean K along a line; AUC of lines in clutter against clutter",
    smallest="1e-12 for an identity; .05 for a response; .04 for an AUC",
    variants=VARIANTS,
    full=Budget(seeds=5, samples=6_000),
    quick=Budget(seeds=5, samples=1_500),
)


def cells() -> Tensor:
    """The positions (256, 2) of the grid, in reading order."""
    return torch.cartesian_prod(*[torch.arange(SIDE, dtype=torch.float64)] * 2)


def directions(kernel: Kernel) -> Metrics:
    """The response to lines in every direction, over centres across the grid; the contrast is axes minus
    diagonals.
    """
    response = responses(kernel, torch.tensor(ANGLES, dtype=torch.float64))
    at = {angle: response[:, ANGLES.index(angle)] for angle in (0, 45, 90, 135)}
    contrast = (at[0] + at[90] - at[45] - at[135]) / 2
    return {
        "contrast": float(contrast.mean()),
        "responses": response.mean(0).tolist(),
        "responses_spread": response.std(0).tolist(),
    }


def responses(kernel: Kernel, degrees: Tensor) -> Tensor:
    """The mean of K over pairs of distinct points of a line, (centres, directions)."""
    angle = degrees.deg2rad()
    along = torch.arange(POINTS, dtype=torch.float64) - (POINTS - 1) / 2
    line = along[:, None] * torch.stack([angle.cos(), angle.sin()], -1)[:, None]
    centre = torch.cartesian_prod(*[torch.linspace(4, SIDE - 5, 5, dtype=torch.float64)] * 2)
    pairs = kernel(centre[:, None, None] + line)
    return (pairs.sum((-1, -2)) - pairs.diagonal(dim1=-2, dim2=-1).sum(-1)) / (POINTS * (POINTS - 1))


def detection(similarity: Tensor, samples: int, random: Generator) -> Metrics:
    """AUC of the sum of K over pairs of lit cells: a line in clutter against clutter of as many cells."""
    metrics: Metrics = {}
    truth = [1] * samples + [0] * samples
    for name, steps in STEPS.items():
        lit = torch.cat([images(steps, samples, random), images((), samples, random)])
        metrics[name] = float(roc_auc_score(truth, ((lit @ similarity) * lit).sum(-1)))
    return metrics


def images(steps: Sequence[tuple[int, int]], count: int, random: Generator) -> Tensor:
    """Lit cells (count, 256), 0 and 1: a line of `POINTS` along one of the steps, if any, and the rest at
    random.
    """
    height = torch.rand(count, SIDE**2, generator=random, dtype=torch.float64)
    if steps:
        step = torch.tensor(steps)[torch.randint(len(steps), (count,), generator=random)]
        reach = step.abs() * (POINTS - 1)
        corner = (torch.rand(count, 2, generator=random) * (SIDE - reach)).long()
        first = corner - step.clamp(max=0) * (POINTS - 1)  # a negative step starts at the other end
        line = first[:, None] + torch.arange(POINTS)[:, None] * step[:, None]
        height.scatter_(1, line[..., 0] * SIDE + line[..., 1], 2.0)
    return torch.zeros_like(height).scatter_(1, height.topk(POINTS + CLUTTER).indices, 1.0)


def kernel(variant: str, places: Tensor) -> Tensor:
    """K of all pairs of positions (..., N, 2): (..., N, N), float64, scaled to K = 1 at offset 0."""
    if variant == "isotropic":
        offset = places[..., :, None, :] - places[..., None, :, :]
        return (-offset.square().sum(-1) / (2 * SIGMA**2)).exp()
    code = encoded(variant, places)
    return code @ code.mT / CHANNELS


def encoded(variant: str, places: Tensor) -> Tensor:
    """E (..., D) of positions (..., 2)."""
    dim = CHANNELS if variant == "additive" else 2 * CHANNELS
    method = build(METHODS.get(variant, "grid-diagonal"), dim=dim)
    flat = places.reshape(1, -1, 2) * (math.sqrt(2) if variant == "rotated, not scaled" else 1)
    _, injection = method.inject(flat, torch.ones(flat.shape[:2], dtype=torch.bool), flat)
    assert injection.added is not None
    return injection.added.reshape(*places.shape[:-1], dim)


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    random = Generator().manual_seed(seed)
    if variant == "shuffled":
        places = cells()[torch.randperm(SIDE**2, generator=random)]
        return detection(kernel("separable", places), budget.samples, random)
    exact = identities(variant) if variant != "isotropic" else {}
    return {
        **exact,
        **directions(partial(kernel, variant)),
        **detection(kernel(variant, cells()), budget.samples, random),
    }


def identities(variant: str) -> Metrics:
    """The largest difference of K from k(dr) + k(dc), changes under shifts, and pairs of cells with equal
    codes.
    """
    places = cells()
    here = kernel(variant, places)
    offset = places[:, None] - places
    rate = 100 ** (-2 * torch.arange(CHANNELS // 2, dtype=torch.float64) / CHANNELS)
    both = torch.cos(offset[..., None] * rate).mean(-1).mean(-1)  # from cosines, not from codes
    code = encoded(variant, places)
    equal = ((code[:, None] - code).abs() < 1e-9).all(-1)
    metrics = {"off_axes": float((here - both).abs().max()), "same": float(equal.triu(1).sum())}
    for name, by in SHIFTS.items():
        metrics[name] = float((kernel(variant, places + torch.tensor(by)) - here).abs().max())
    return metrics


@STUDY.control(
    "a kernel of distance alone has no contrast of directions, to 1e-12",
    variant="isotropic",
    mechanism="separable",
)
def isotropic_has_no_contrast(findings: Findings) -> bool:
    return abs(findings.mean("isotropic", "contrast")) <= 1e-12


@STUDY.control(
    "with its cells in random order the separable code stays within .05 of chance",
    variant="shuffled",
    mechanism="separable",
)
def shuffled_is_at_chance(findings: Findings) -> bool:
    return all(abs(findings.mean("shuffled", name) - 0.5) <= 0.05 for name in STEPS)


@STUDY.claim("The separable kernel is a sum of a term of dx and a term of dy")
def judge_separable(findings: Findings) -> Verdict:
    """Confirmed if K is k(dr) + k(dc) and unchanged under shifts, to 1e-12."""
    off = findings.most("separable", "off_axes")
    moved = max(findings.most("separable", name) for name in SHIFTS)
    summary = f"K differs from k(dr) + k(dc) by {off:.0e} at most, "
    summary += f"and from itself after a shift by {moved:.0e}"
    return decided(max(off, moved) <= 1e-12, summary)


@STUDY.claim("Adding the codes of x and y brings cross terms and breaks translation invariance")
def judge_additive(findings: Findings) -> Verdict:
    """Confirmed if there are cross terms and every shift changes K, conditional if some shifts do not
    (1e-12).
    """
    cross = findings.most("additive", "off_axes")
    moved = {name: findings.most("additive", name) for name in SHIFTS}
    summary = f"cross terms of up to {cross:.2f} (K = 1 at offset 0); a shift by one cell changes K by up to "
    summary += listed(moved, "{:.2g} ({name})")
    same, apart = findings.most("additive", "same"), findings.most("separable", "same")
    summary += f"; pairs of cells with equal codes: {same:.0f} (separable: {apart:.0f})"
    still = [name for name, change in moved.items() if change <= 1e-12]
    refuted = cross <= 1e-12 or len(still) == len(moved)
    condition = f"the shift is not along {' or '.join(still)}"
    return decided(not still and not refuted, summary, refuted=refuted, condition=condition)


@STUDY.claim("The separable code is sensitive to horizontals and verticals, the rotated one to diagonals")
def judge_directions(findings: Findings) -> Verdict:
    """Confirmed if the mean K along axes minus that along diagonals is at least .05, and at most -.05 when
    rotated.
    """
    names = ("separable", "rotated", "rotated, not scaled", "isotropic")
    contrast = {variant: findings.mean(variant, "contrast") for variant in names}
    plain, rotated = (findings.curve(variant, "responses")[0] for variant in ("separable", "rotated"))
    off = abs(rotated - np.roll(plain, -ANGLES.index(45))).max()
    summary = f"axes minus diagonals: {listed(contrast, '{:+.3f}')}; the rotated response is the separable "
    summary += f"one shifted by 45 degrees, to {off:.0e}"
    return decided(contrast["separable"] >= 0.05 and contrast["rotated"] <= -0.05, summary)


@STUDY.claim("Separable codes detect horizontals and verticals best, rotated ones diagonals, clearly")
def judge_detection(findings: Findings) -> Verdict:
    """Confirmed if each leads the other and a kernel without direction by an AUC of .04 (lower bound over
    seeds), conditional if it leads the other alone.
    """
    axes, diagonals = ({variant: findings.mean(variant, name) for variant in VARIANTS} for name in STEPS)
    summary = "AUC axes / diagonals: "
    summary += ", ".join(f"{variant} {axes[variant]:.3f} / {diagonals[variant]:.3f}" for variant in axes)
    ahead = {rival: ahead_of(findings, "separable", rival, "axes") for rival in ("rotated", "isotropic")}
    across = {
        rival: ahead_of(findings, "rotated", rival, "diagonals") for rival in ("separable", "isotropic")
    }
    condition = "they are compared with each other; over a Gaussian of distance alone the gains are "
    condition += f"{axes['separable'] - axes['isotropic']:+.3f} and "
    condition += f"{diagonals['rotated'] - diagonals['isotropic']:+.3f}"
    clear, refuted = min(*ahead.values(), *across.values()), min(ahead["rotated"], across["separable"]) < 0.04
    return decided(clear >= 0.04, summary, refuted=refuted, condition=condition)


def ahead_of(findings: Findings, variant: str, rival: str, metric: str) -> float:
    """The lower bound of the gain's interval, or its mean if there are too few seeds for one."""
    return findings.difference(variant, rival, metric).bounds[0]


@STUDY.draws
def draw(findings: Findings) -> Figure:
    variants = ("separable", "rotated", "isotropic", "additive")
    responses = {variant: findings.curve(variant, "responses")[0] for variant in variants}
    centred = {variant: response - response.mean() for variant, response in responses.items()}
    additive, spread = centred["additive"], findings.curve("additive", "responses_spread")[0]

    def directions(axes: Axes) -> None:
        axes.fill_between(ANGLES, additive - spread, additive + spread, color=COLOURS[3], alpha=0.15, lw=0)
        lines(axes, ANGLES, centred, marker="")
        axes.set(xlabel="direction of the line (degrees)", ylabel="mean K minus its mean over directions")
        axes.set(xticks=range(0, 181, 45), ylim=(-0.2, 0.2))

    left = Panel(directions, "band: std of the additive code over positions", legend="lower center")
    areas = {f"lines along {name}": findings.curves(VARIANTS, name) for name in STEPS}
    right = Dots(areas, "AUC in clutter", at_x={"chance": 0.5}, xlim=(0.4, 1), legend="lower right")
    return figure(left, right)
