"""Patches of an image as a convolution whose stride equals its kernel size.

The kernel (D, channels, h, w), flattened, is the matrix W that maps the channels * h * w pixels of a patch,
read channel by channel and row by row. Vector (r, c) of the output is W x + b for the patch whose corner is
pixel (r h, c w). Patches may have any shape; if their sides do not divide those of the image, a convolution
without padding drops the last rows and columns.
"""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import nn
from torch.nn import functional as F

from vnait_lab.kit import Dots, Figure, Panel, decided, figure
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

DIM, HEIGHT, WIDTH = 48, 2, 4  # of a patch: its vector, its pixels
WHOLE, ODD = (12, 20), (13, 21)  # image sizes that patches divide, and that they do not
VARIANTS = {
    "patches": "a convolution of 2 x 4 pixels",
    "patches, turned": "the same, its kernel read column by column",
}
STUDY = Study.of(
    __name__,
    source="004, vision in practice",
    data="random images of 12 x 20 and of 13 x 21 pixels in three channels, patches of 2 x 4, by seed",
    measure="largest difference of a patch's vector (float64); share of pixels on which no vector depends",
    smallest="1e-12 for an identity",
    variants=VARIANTS,
    full=Budget(seeds=4),
    quick=Budget(seeds=3),
)


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    """The difference of a convolution from patches cut and mapped by hand, and its share of pixels without a
    gradient.
    """
    torch.manual_seed(seed)
    layer = nn.Conv2d(3, DIM, (HEIGHT, WIDTH), stride=(HEIGHT, WIDTH)).double().requires_grad_(False)
    images = torch.rand(2, 3, *WHOLE, dtype=torch.float64)
    patches = images.unfold(2, HEIGHT, HEIGHT).unfold(3, WIDTH, WIDTH)
    patches = patches.permute(0, 2, 3, 1, 4, 5)  # (B, rows, columns, 3, 2, 4)
    patches = (patches.mT if variant == "patches, turned" else patches).flatten(3)
    by_hand = F.linear(patches, layer.weight.flatten(1), layer.bias)
    odd = torch.rand(1, 3, *ODD, dtype=torch.float64, requires_grad=True)
    layer(odd).square().sum().backward()
    assert odd.grad is not None
    return {
        "error": float((layer(images).movedim(1, -1) - by_hand).abs().max()),
        "unread": float((odd.grad == 0).double().mean()),
    }


@STUDY.control(
    "patches read column by column differ from the convolution by more than .1",
    variant="patches, turned",
    mechanism="patches",
)
def turned_differ(findings: Findings) -> bool:
    return findings.least("patches, turned", "error") > 0.1


@STUDY.claim("Patches are a convolution whose kernel is its stride, of any shape")
def judge_cut(findings: Findings) -> Verdict:
    """Confirmed if it equals patches cut and mapped by hand, to 1e-12; conditional if it leaves pixels of
    other image sizes unread.
    """
    error, unread = findings.most("patches", "error"), findings.mean("patches", "unread")
    summary = f"they differ by {error:.0e}; of 13 x 21 pixels patches of 2 x 4 leave "
    summary += f"{100 * unread:.1f} % unread, without a warning"
    equal, condition = error <= 1e-12, "the patches' sides divide the image's, or it is padded"
    return decided(equal and not unread, summary, refuted=not equal, condition=condition)


@STUDY.draws
def draw(findings: Findings) -> Figure:
    rows = {"patches": "row by row,\nas the convolution", "patches, turned": "column by column"}
    # A logarithmic axis can't show 0.
    errors = {row: np.maximum(findings.values(variant, "error"), 1e-17) for variant, row in rows.items()}
    unread = np.ones(ODD)
    unread[: WHOLE[0], : WHOLE[1]] = 0

    def image(axes: Axes) -> None:
        axes.imshow(unread, cmap="gray_r", vmax=2, extent=(0, ODD[1], ODD[0], 0))
        axes.set(xlabel="pixels", xticks=range(0, ODD[1] + 1, WIDTH))
        axes.set(ylabel="pixels", yticks=range(0, ODD[0] + 1, HEIGHT))
        axes.grid(color="black", lw=0.8)

    label = "largest difference of a patch's vector (float64)"
    left = Dots(errors, label, at_x={"1e-12": 1e-12}, xscale="log", xlim=(1e-17, 10), ylim=(1.5, -0.5))
    title = f"grey: unread, {100 * findings.mean('patches', 'unread'):.1f} % of 13 x 21 pixels"
    return figure(left, Panel(image, title=title))
