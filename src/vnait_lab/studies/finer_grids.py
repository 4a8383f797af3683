"""Digits on photographs, read at 32 x 32 and 64 x 64 patches by models trained at 16 x 16.

A handwritten digit fills the picture, in green on a piece of a photograph. A patch has 4 x 4 pixels, so that
twice the pixels a side are twice the patches, and all distances double. The places of patches are counted on,
or scaled to the grid of training (position interpolation; a normalized grid). Digits and photographs of the
test are others than those of training.

On ImageNet-100, trained at 224 pixels and read at 1,024 (4.57 times), a published comparison kept 63.1 % of
images right with FIRE and 18.9 % with RoPE.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from sklearn.datasets import load_sample_images
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from vnait.model.backbone import Encoder
from vnait.positions.encodings import (
    AlibiBias,
    Axial,
    Axis,
    Concatenated,
    Fire,
    GridTable,
    MixedRotary,
    NoPosition,
    Sinusoid,
    Sum,
)
from vnait.positions.injection import Injection
from vnait.shared.statistics import interval
from vnait_lab.studies.figures import bars, panels
from vnait_lab.studies.parts.training import descend
from vnait_lab.studies.vision import digits
from vnait_lab.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

SIDE, FINER = 16, (32, 64)  # patches a side, in training and after it
PATCH, DIM, HEADS, BATCH = 4, 48, 4, 32
INK = torch.tensor([0.1, 0.8, 0.2])
SMALLEST = 0.05  # of accuracy
LABELS, TRAIN = 10, 1_300  # of 1,797 digits; the others are the test
SOURCE = "004, vision in practice"
ARMS = {
    "none": "no positions",
    "learned": "a learned table of 16 x 16 vectors, interpolated",
    "sinusoid": "[PE(row), PE(column)], base 100",
    "axial": "RoPE by row and column",
    "mixed": "RoPE with learned directions",
    "alibi": "ALiBi of the row's distance and of the column's",
    "fire": "FIRE of the row's distance and of the column's",
}
TRAINED_ON = (
    "astronaut",
    "brick",
    "camera",
    "chelsea",
    "coffee",
    "coins",
    "grass",
    "gravel",
    "moon",
    "rocket",
)


def encoding(arm: str) -> nn.Module:
    if arm == "learned":
        return GridTable(dim=DIM, shape=(SIDE, SIDE), start=0.5)
    if arm == "sinusoid":
        return Concatenated(*(Axis(Sinusoid(dim=DIM // 2, base=100), axis) for axis in (0, 1)))
    if arm == "axial":
        return Axial(width=DIM // HEADS)
    if arm == "mixed":
        return MixedRotary(width=DIM // HEADS)
    if arm == "alibi":
        return Sum(*(Axis(AlibiBias(num_heads=HEADS), axis) for axis in (0, 1)))
    if arm == "fire":
        return Sum(*(Axis(Fire(num_heads=HEADS, threshold=SIDE), axis) for axis in (0, 1)))
    return NoPosition()


class Viewer(nn.Module):
    """Images (B, 3, h, w) -> logits (B, 10): patches, a class token after them, positions, two blocks."""

    def __init__(self, arm: str) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, DIM, PATCH, stride=PATCH)
        self.reader = nn.Parameter(torch.randn(DIM))
        self.encoding = encoding(arm)
        self.encoder = Encoder(dim=DIM, num_heads=HEADS, intermediate=2 * DIM, num_layers=2, dropout=0.0)
        self.read = nn.Linear(DIM, LABELS)

    def forward(self, images: Tensor, injection: Injection) -> Tensor:
        patches = self.patches(images).flatten(2).mT
        x = torch.cat([patches, self.reader.expand(len(images), 1, DIM)], 1)
        if injection.added is not None:
            x = x + injection.added
        mask = torch.ones(x.shape[:2], dtype=torch.bool)
        return self.read(self.encoder(x, injection, mask)[:, -1])


def places(side: int, *, scaled: bool) -> Float[Tensor, "1 T 2"]:
    """(row, column) of every patch, and of the class token, which has the last patch's."""
    axis = torch.arange(side, dtype=torch.float32)
    if scaled:  # the middle of a patch keeps its place in the picture
        axis = ((axis + 0.5) * SIDE / side - 0.5).clamp(0, SIDE - 1)
    cells = torch.cartesian_prod(axis, axis)
    return torch.cat([cells, cells[-1:]])[None]


@lru_cache(maxsize=1)
def photographs() -> dict[str, list[Float[Tensor, "3 h w"]]]:
    """Those of training, of scikit-image, and those of the test, of scikit-learn; values in [0, 1]."""
    from skimage import data

    def tensor(image: np.ndarray) -> Tensor:
        coloured = np.atleast_3d(image)[..., :3].repeat(1 if image.ndim == 3 else 3, -1)
        return torch.tensor(coloured, dtype=torch.float32).permute(2, 0, 1) / 255

    return {
        "training": [tensor(getattr(data, name)()) for name in TRAINED_ON],
        "test": [tensor(image) for image in load_sample_images().images],
    }


def scenes(which: Int[Tensor, " N"], side: int, part: str, random: Generator) -> Float[Tensor, "N 3 h w"]:
    """These digits as pictures of side * side patches."""
    pixels, found = side * PATCH, photographs()[part]
    cuts = []
    for pick, scale, *corner in torch.rand(len(which), 4, generator=random).tolist():
        photo = found[int(pick * len(found))]
        size = int((0.3 + 0.7 * scale) * min(photo.shape[1:]))
        top, left = (int(at * (limit - size + 1)) for at, limit in zip(corner, photo.shape[1:], strict=True))
        cut = photo[None, :, top : top + size, left : left + size]
        cuts.append(F.interpolate(cut, size=(pixels, pixels), mode="bilinear", antialias=True))
    ink = F.interpolate(digits()[0][which, None], size=(pixels, pixels), mode="bilinear")
    return torch.lerp(torch.cat(cuts), INK[:, None, None].expand(3, pixels, pixels), ink)


def trained(arm: str, seed: int, steps: int) -> tuple[Viewer, Int[Tensor, " N"]]:
    """A model, and the digits that it was not trained on."""
    torch.manual_seed(seed)
    random = Generator().manual_seed(seed)
    order = torch.randperm(len(digits()[1]), generator=random)
    model, at = Viewer(arm), places(SIDE, scaled=False)

    def loss(step: int) -> Tensor:
        which = order[torch.randint(TRAIN, (BATCH,), generator=random)]
        logits = model(scenes(which, SIDE, "training", random), model.encoding(at))
        return F.cross_entropy(logits, digits()[1][which])

    descend(model.parameters(), loss, steps=steps, learning_rate=3e-3, weight_decay=0.01)
    return model.eval(), order[TRAIN:]


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    model, new = trained(arm, seed, budget.steps)
    new = new[: budget.samples]
    found = {f"{SIDE}": accuracy(model, new, SIDE)}
    for side in FINER:
        for scaled in (False, True):
            if arm != "learned" or scaled:  # a table has no entry past its grid
                found[f"{side} {'scaled' if scaled else 'counted'}"] = accuracy(
                    model, new, side, scaled=scaled
                )
    return found


@torch.no_grad()
def accuracy(model: Viewer, which: Tensor, side: int, *, scaled: bool = False) -> float:
    """The share of these digits that the model reads, on the same photographs for every model."""
    random, injection = Generator().manual_seed(0), model.encoding(places(side, scaled=scaled))
    right = 0
    for rows in which.split(BATCH * SIDE**2 // side**2):
        found = model(scenes(rows, side, "test", random), injection).argmax(-1)
        right += int((found == digits()[1][rows]).sum())
    return right / len(which)


def percents(found: Findings, arm: str, *metrics: str) -> str:
    """Mean accuracies, such as "axial 80, 12 and 75 %"."""
    numbers = [f"{100 * found.mean(arm, metric):.0f}" for metric in metrics]
    return f"{arm} {', '.join(numbers[:-1])} and {numbers[-1]} %"


@claim("Relative encodings adapt to a finer grid by nature", source=SOURCE)
def judge_counted(found: Findings) -> Verdict:
    """With places counted on, an encoding keeps its accuracy at 64 x 64 patches within 5 points. Confirmed if
    all relative ones do, conditional if some do.
    """
    arms = ("axial", "mixed", "alibi", "fire")
    good = [arm for arm in arms if found.mean(arm, "64 counted") >= found.mean(arm, "16") - SMALLEST]
    words = "at 16, 32 and 64 patches a side, places counted on: "
    words += "; ".join(percents(found, arm, "16", "32 counted", "64 counted") for arm in (*arms, "sinusoid"))
    return Verdict.among(good, arms, words, f"the encoding is {' or '.join(good)}")


@claim("FIRE keeps more of its accuracy at four times the size than RoPE", source=SOURCE)
def judge_order(found: Findings) -> Verdict:
    """The published order: the share of its accuracy that an encoding keeps at 64 x 64 patches, `fire` minus
    `axial`, paired by seed. Confirmed if the interval is above 0, refuted if it is below.
    """
    kept = {
        arm: [
            far / near
            for far, near in zip(found.values(arm, "64 counted"), found.values(arm, "16"), strict=True)
        ]
        for arm in ("fire", "axial", "mixed", "alibi")
    }
    lead = interval([one - other for one, other in zip(kept["fire"], kept["axial"], strict=True)])
    words = ", ".join(f"{arm} keeps {100 * sum(own) / len(own):.0f} %" for arm, own in kept.items())
    return Verdict.by_sign([lead.sign], f"{words}; fire minus axial {lead.written('{:.2f}')}")


@claim("Places scaled to the grid of training keep the accuracy at four times the size", source=SOURCE)
def judge_scaled(found: Findings) -> Verdict:
    """Accuracy at 64 x 64 patches is at most 5 points below that at 16. Confirmed if it is with every
    encoding, conditional if with some.
    """
    arms = [arm for arm in ARMS if arm != "none"]
    good = [arm for arm in arms if found.mean(arm, "64 scaled") >= found.mean(arm, "16") - SMALLEST]
    words = "at 16, 32 and 64 patches a side, places scaled: "
    words += "; ".join(percents(found, arm, "16", "32 scaled", "64 scaled") for arm in arms)
    return Verdict.among(good, arms, words, f"the encoding is {' or '.join(good)}")


def draw(found: Findings) -> Figure:
    figure, axes = panels(1, 1, size=(11, 3.8))
    for one, way in zip(axes, ("counted", "scaled"), strict=True):
        metrics = {str(SIDE): str(SIDE), **{str(side): f"{side} {way}" for side in FINER}}
        arms = [arm for arm in ARMS if arm != "learned" or way == "scaled"]
        shares = {
            f"{side} x {side} patches": [100 * found.curve(arm, metric) for arm in arms]
            for side, metric in metrics.items()
        }
        bars(one, arms, shares)
        one.axhline(100 / LABELS, color="black", ls=":", lw=1)
        one.set(ylabel="right digits (%), chance dotted", ylim=(0, 100))
        one.set_title(f"places {way}; one dot per seed (n={len(found.values('axial', str(SIDE)))})")
    axes[0].legend()
    return figure


STUDY = Study(
    name="finer_grids",
    subject="Pictures at finer grids of patches than a vision Transformer was trained on",
    data="scikit-learn's digits on photographs of scikit-image (training) and of scikit-learn (test)",
    measure="accuracy on held-out digits and photographs (chance 10 %)",
    smallest="5 points",
    arms=ARMS,
    controls=[
        Control(
            statement="without positions accuracy is 20 points or more below that of axial",
            arm="none",
            mechanism="axial",
            fails=lambda found: found.mean("none", "16") <= found.mean("axial", "16") - 0.2,
        )
    ],
    claims=[judge_counted, judge_order, judge_scaled],
    full=Budget(seeds=3, steps=500, samples=100),
    quick=Budget(seeds=2, steps=20, samples=4),
    run=run,
    draw=draw,
    needs=dict.fromkeys(ARMS, "package:scikit-image"),
)
