"""Images of other sizes in a vision Transformer: masked padding, resized and moved pictures.

A mask over padding (in attention and in pooling) hides it exactly, if the real patches keep their positions
and none of them is partly padding. A learned table of (row, column) is interpolated on a finer grid. Relative
distances allow a picture anywhere on a canvas. But a resized picture has twice the distances and different
patches, and nothing tells the model that it was resized. The study `patches` covers the cutting into patches.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import nan
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from vnait.positions.coordinates import Grid
from vnait.positions.encodings import (
    Axial,
    Axis,
    Concatenated,
    GridTable,
    NoPosition,
    ShawBias,
    Sinusoid,
    Sum,
)
from vnait.positions.method import Method
from vnait_lab.kit import Bars, Dots, Figure, Stack, decided, descend, figure, listed
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

PATCH, SIDE, DIM, HEADS = 2, 4, 48, 4  # 8 x 8 pixels are 4 x 4 patches
TRAIN, BATCH = 1_300, 32  # of 1,797 digits; the others are the test
MODELS = {
    "learned": "a learned table of 4 x 4 vectors",
    "sinusoid": "[PE(row), PE(column)], base 100",
    "relative": "a learned bias of the row's distance and of the column's",
    "axial": "queries and keys turned by row and column",
    "none": "no positions",
}
ENCODINGS: dict[str, Callable[[], nn.Module]] = {
    "learned": lambda: GridTable(dim=DIM, shape=(SIDE, SIDE), start=0.5),
    "sinusoid": lambda: Concatenated(*(Axis(Sinusoid(dim=DIM // 2, base=100), axis) for axis in (0, 1))),
    "relative": lambda: Sum(
        *(Axis(ShawBias(num_heads=HEADS, max_distance=SIDE - 1, start=1.0), axis) for axis in (0, 1))
    ),
    "axial": lambda: Axial(width=DIM // HEADS, axes=2),
    "none": NoPosition,
}
STUDY = Study.of(
    __name__,
    source="004, vision in practice",
    data="scikit-learn's digits, 1,797 of 8 x 8 pixels, 497 of them held out by seed; resized bilinearly, "
    "or on a canvas of 16 x 16",
    measure="accuracy on held-out digits (chance 10 %); largest change of a logit (float64)",
    smallest="5 points of accuracy; 25 over a broken table; 1e-10 for a mask",
    variants=MODELS,
    full=Budget(seeds=4, steps=600),
    quick=Budget(seeds=3, steps=300),
)


class Patches(nn.Conv2d):
    """Images (B, channels, h, w) -> the vectors of their patches (B, T, dim), row by row."""

    def __init__(self, channels: int, dim: int, *, side: int) -> None:
        super().__init__(channels, dim, side, stride=side)

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images).flatten(2).mT


class Viewer(Stack):
    """Images (B, h, w) -> logits (B, 10), of the mean over unmasked patches."""

    def __init__(self, variant: str) -> None:
        patches = Patches(1, DIM, side=PATCH)
        method = Method(coordinates=Grid(shape=(-1, SIDE)), encoding=ENCODINGS[variant]())
        super().__init__(method, vectors=patches, outputs=10, dim=DIM, num_heads=HEADS, wide=2)
        self.unbounded = variant != "learned"  # has codes past the trained grid

    def forward(self, images: Tensor, places: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """`places` (T, 2) are the patches' coordinates, by default their cells; `mask` (B, T): True: real."""
        known = None if places is None else places.expand(len(images), -1, -1)
        return self.pooled(images[:, None], mask, known)


def grid(images: Tensor) -> Tensor:
    """The cells (T, 2) of the patches of images (B, h, w)."""
    axes = (torch.arange(size // PATCH, dtype=images.dtype) for size in images.shape[1:])
    return torch.cartesian_prod(*axes)


@lru_cache(maxsize=1)
def digits() -> tuple[Tensor, Tensor]:
    """1,797 images of 8 x 8 pixels in [0, 1], and their labels."""
    read = load_digits()
    return torch.tensor(read.images, dtype=torch.float32) / 16, torch.tensor(read.target)


def train(variant: str, seed: int, steps: int) -> tuple[Viewer, Tensor, Tensor]:
    """A trained model, and the held-out images and labels."""
    images, labels = digits()
    random = Generator().manual_seed(seed)
    order = torch.randperm(len(images), generator=random)
    torch.manual_seed(seed)
    model = Viewer(variant)

    def loss(step: int) -> Tensor:
        batch = order[torch.randint(TRAIN, (BATCH,), generator=random)]
        return F.cross_entropy(model(images[batch]), labels[batch])

    descend(model.parameters(), loss, steps=steps, learning_rate=3e-3, weight_decay=0.01)
    return model.requires_grad_(False), images[order[TRAIN:]], labels[order[TRAIN:]]


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    model, images, labels = train(variant, seed, budget.steps)

    def accuracy(images: Tensor, places: Tensor | None = None, mask: Tensor | None = None) -> float:
        return float((model(images, places, mask).argmax(1) == labels).double().mean())

    metrics = {"accuracy": accuracy(images)}
    for size in (12, 16):
        larger = F.interpolate(images[:, None], size=(size, size), mode="bilinear")[:, 0]
        for name, places in placed(grid(larger), Generator().manual_seed(seed)).items():
            if (name != "counted" or model.unbounded) and (size == 12 or name in ("scaled", "counted")):
                metrics[f"{size} {name}"] = accuracy(larger, places)
    canvas, mask = framed(images, corner=(8, 8), fill=0)
    metrics["moved"] = accuracy(
        canvas, placed(grid(canvas))["counted" if model.unbounded else "scaled"], mask
    )
    return {**metrics, **changes(model.double(), images[:8].double())}


def placed(cells: Tensor, random: Generator | None = None) -> dict[str, Tensor]:
    """Coordinates for the cells of a finer grid: scaled to the 4 x 4 of training, unchanged, clamped, or
    scaled and shuffled.
    """
    scaled = cells * (SIDE - 1) / cells.max()
    return {
        "scaled": scaled,
        "counted": cells,
        "clamped": cells.clamp(max=SIDE - 1),
        "shuffled": scaled[torch.randperm(len(cells), generator=random)],
    }


def framed(images: Tensor, *, corner: tuple[int, int], fill: float) -> tuple[Tensor, Tensor]:
    """Images on a canvas of 16 x 16 with their corner at a pixel, and the mask of their patches."""
    canvas = images.new_full((len(images), 16, 16), fill)
    mine = torch.zeros(len(images), 16, 16, dtype=torch.bool)
    window = slice(None), slice(corner[0], corner[0] + 8), slice(corner[1], corner[1] + 8)
    canvas[window], mine[window] = images, True
    return canvas, mine[:, ::PATCH, ::PATCH].flatten(1)


def changes(model: Viewer, images: Tensor) -> Metrics:
    """The largest changes of logits if an image is padded to 16 x 16, in float64."""
    plain = model(images, grid(images))
    black, mask = framed(images, corner=(0, 0), fill=0)
    white, _ = framed(images, corner=(0, 0), fill=7)
    places = placed(grid(black))
    away, there = framed(images, corner=(8, 8), fill=0)
    ragged = [model(F.pad(images[:, :7, :7], (0, 1, 0, 1), value=fill), grid(images)) for fill in (0.0, 7.0)]
    moved = {
        "masked, 0": model(black, places["clamped"], mask) - plain,  # real patches keep their positions
        "masked, 7": model(white, places["clamped"], mask) - plain,
        "shifted": model(away, places["counted" if model.unbounded else "scaled"], there) - plain,
        "no mask": model(black, places["clamped"]) - plain,
        "places spread": model(black, places["scaled"], mask) - plain,
        "ragged": ragged[0] - ragged[1],
    }
    return {name: float(change.abs().max()) for name, change in moved.items()}


def percent(findings: Findings, variant: str, metric: str) -> str:
    """Mean and range over seeds."""
    least, most = findings.least(variant, metric), findings.most(variant, metric)
    return f"{100 * findings.mean(variant, metric):.0f} % ({100 * least:.0f} to {100 * most:.0f})"


@STUDY.control(
    "without positions accuracy is 5 points or more below a learned table's",
    variant="none",
    mechanism="learned",
)
def no_positions_lose(findings: Findings) -> bool:
    return findings.mean("none", "accuracy") <= findings.mean("learned", "accuracy") - 0.05


@STUDY.claim("Positions are a key part of a vision Transformer", source="004, vision")
def judge_needed(findings: Findings) -> Verdict:
    """Confirmed if every encoding leads none by 5 points, with an interval above 0."""
    gains = findings.differences([variant for variant in MODELS if variant != "none"], "none", "accuracy")
    summary = ", ".join(f"{variant} {percent(findings, variant, 'accuracy')}" for variant in MODELS)
    right = all(gain.mean >= 0.05 and (gain.low is None or gain.low > 0) for gain in gains.values())
    return decided(right, f"held-out digits: {summary}")


@STUDY.claim("A mask keeps the model from attending to padding")
def judge_mask(findings: Findings) -> Verdict:
    """Confirmed if no logit changes by more than 1e-10, whatever fills the padding; conditional if some ways
    of padding break this.
    """
    ways = ("masked, 0", "masked, 7", "ragged", "places spread")
    worst = {name: max(findings.most(variant, name) for variant in MODELS) for name in ways}
    least = min(findings.least(variant, "no mask") for variant in MODELS)
    summary = f"largest change of a logit: {listed(worst, '{:.1g}')}; without a mask {least:.1g} or more"
    leaks = max(worst["masked, 0"], worst["masked, 7"]) > 1e-10
    traps = {"ragged": "no patch is partly padding", "places spread": "the real patches keep their positions"}
    broken = [trap for name, trap in traps.items() if worst[name] > 1e-10]
    return decided(not leaks and not broken, summary, refuted=leaks, condition=" and ".join(broken))


@STUDY.claim("A learned table adapts to other grids by bilinear interpolation")
def judge_table(findings: Findings) -> Verdict:
    """Refuted if at 12 x 12 it does not lead a clamped and a shuffled table by 25 points in every seed,
    confirmed if at 16 x 16 it loses at most 5 points, else conditional.
    """
    names = ("accuracy", "12 scaled", "12 clamped", "12 shuffled", "16 scaled")
    summary = "learned table: " + ", ".join(f"{name} {percent(findings, 'learned', name)}" for name in names)
    whole = findings.curve("learned", "12 scaled")
    leads = [whole - findings.curve("learned", broken) for broken in ("12 clamped", "12 shuffled")]
    lost = findings.mean("learned", "accuracy") - findings.mean("learned", "16 scaled")
    behind = min(lead.min() for lead in leads) < 0.25
    condition = "a loss is acceptable: it leads a clamped table, and loses "
    condition += f"{100 * lost:.0f} points at 16 x 16"
    return decided(not behind and lost <= 0.05, summary, refuted=behind, condition=condition)


@STUDY.claim("Relative encodings adapt to images of any size by nature")
def judge_relative(findings: Findings) -> Verdict:
    """Confirmed if no logit changes by 1e-10 when the canvas grows, and accuracy falls by at most 5 points
    when the picture does (16 x 16); conditional if only the former.
    """
    variants = ("relative", "axial")
    names = ("accuracy", "moved", "12 counted", "16 counted", "16 scaled")
    summary = "; ".join(
        f"{variant}: " + ", ".join(f"{name} {percent(findings, variant, name)}" for name in names)
        for variant in variants
    )
    absolute = [f"{variant} {percent(findings, variant, 'moved')}" for variant in ("learned", "sinusoid")]
    summary += f"; absolute ones, moved: {', '.join(absolute)}"
    shifts = max(findings.most(variant, "shifted") for variant in variants) <= 1e-10
    resized = all(
        findings.mean(variant, "16 counted") >= findings.mean(variant, "accuracy") - 0.05
        for variant in variants
    )
    condition = "the canvas grows, not the picture"
    return decided(shifts and resized, summary, refuted=not shifts, condition=condition)


@STUDY.draws
def draw(findings: Findings) -> Figure:
    sizes = {
        "8 x 8": "accuracy",
        "moved": "moved",
        "12 x 12, scaled": "12 scaled",
        "12 x 12, counted": "12 counted",
        "16 x 16, scaled": "16 scaled",
        "16 x 16, counted": "16 counted",
    }

    def accuracy(variant: str, metric: str) -> list[float]:
        if variant == "learned" and metric.endswith("counted"):  # positions past the table's end
            return [nan]
        return list(100 * findings.curve(variant, metric))

    rows = {name: {row: accuracy(row, metric) for row in MODELS} for name, metric in sizes.items()}
    ticks: dict[str, Any] = {"ylim": (0, 150), "yticks": range(0, 101, 20), "legend": "upper center"}
    left = Bars(rows, "right digits of 497 (%)", upright=True, at_y={"chance": 10}, width=1.6, **ticks)
    ways = {
        "masked, 0": "mask, filled with 0",
        "masked, 7": "mask, filled with 7",
        "no mask": "no mask",
        "places spread": "mask, positions scaled",
        "ragged": "a patch partly filled",
    }
    changes = {row: {name: findings.values(row, way) for way, name in ways.items()} for row in MODELS}
    right = Dots(changes, "largest change of a logit (float64)", xscale="log", xticks=[1e-15, 1e-10, 1e-5, 1])
    return figure(left, right)
