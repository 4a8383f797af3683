"""The patches of a vision Transformer: a convolution whose stride equals its kernel size.

The kernel (D, channels, h, w), flattened, is the matrix W that maps the channels * h * w pixels of a patch,
read channel by channel and row by row. Vector (r, c) of the output is W x + b for the patch whose corner is
pixel (r h, c w). Patches may have any shape; if their sides do not divide those of the image, a convolution
without padding drops the last rows and columns.
"""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional as F

from vnait_lab.studies.figures import dots, panels
from vnait_lab.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

DIM, HEIGHT, WIDTH = 48, 2, 4  # of a patch: its vector, its pixels
WHOLE, ODD = (12, 20), (13, 21)  # image sizes that patches divide, and that they do not
ARMS = {
    "patches": "a convolution of 2 x 4 pixels",
    "patches, turned": "the same, its kernel read column by column",
}


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    """The difference of a convolution from patches cut and mapped by hand, and its share of pixels without a
    gradient.
    """
    torch.manual_seed(seed)
    layer = nn.Conv2d(3, DIM, (HEIGHT, WIDTH), stride=(HEIGHT, WIDTH)).double().requires_grad_(False)
    images = torch.rand(2, 3, *WHOLE, dtype=torch.float64)
    patches = images.unfold(2, HEIGHT, HEIGHT).unfold(3, WIDTH, WIDTH)
    patches = patches.permute(0, 2, 3, 1, 4, 5)  # (B, rows, columns, 3, 2, 4)
    patches = (patches.mT if arm == "patches, turned" else patches).flatten(3)
    by_hand = F.linear(patches, layer.weight.flatten(1), layer.bias)
    odd = torch.rand(1, 3, *ODD, dtype=torch.float64, requires_grad=True)
    layer(odd).square().sum().backward()
    assert odd.grad is not None
    return {
        "error": float((layer(images).movedim(1, -1) - by_hand).abs().max()),
        "unread": float((odd.grad == 0).double().mean()),
    }


@claim("Patches are a convolution whose kernel is its stride, of any shape", source="004, vision in practice")
def judge_cut(found: Findings) -> Verdict:
    """Confirmed if it equals patches cut and mapped by hand, to 1e-12; conditional if it leaves pixels of
    other image sizes unread.
    """
    error, unread = found.most("patches", "error"), found.mean("patches", "unread")
    summary = (
        f"they differ by {error:.0e}; of 13 x 21 pixels patches of 2 x 4 leave {100 * unread:.1f} % unread, "
    )
    summary += "without a warning"
    if error > 1e-12:
        return Verdict("refuted", summary)
    if unread:
        return Verdict("conditional", summary, "the patches' sides divide the image's, or it is padded")
    return Verdict("confirmed", summary)


def draw(found: Findings) -> Figure:
    figure, (left, right) = panels(3, 2, size=(10, 3))
    rows = {"patches": "row by row,\nas the convolution", "patches, turned": "column by column"}
    # A logarithmic axis can't show 0.
    errors = [np.maximum(found.values(arm, "error"), 1e-17) for arm in rows]
    dots(left, list(rows.values()), {"error": errors})
    left.axvline(1e-12, color="black", ls=":", lw=1)
    left.set(xscale="log", xlim=(1e-17, 10), ylim=(1.5, -0.5))
    left.set(xlabel="largest difference of a patch's vector (float64); 1e-12 dotted")
    left.set_title(f"patches cut by hand: one dot per seed (n={len(errors[0])})")
    unread = np.ones(ODD)
    unread[: WHOLE[0], : WHOLE[1]] = 0
    right.imshow(unread, cmap="gray_r", vmax=2, extent=(0, ODD[1], ODD[0], 0))
    right.set(xlabel="pixels", xticks=range(0, ODD[1] + 1, WIDTH))
    right.set(ylabel="pixels", yticks=range(0, ODD[0] + 1, HEIGHT))
    right.grid(color="black", lw=0.8)
    right.set_title(f"grey: unread, {100 * found.mean('patches', 'unread'):.1f} % of 13 x 21 pixels")
    return figure


STUDY = Study(
    name="patches",
    subject="Patches of an image as a convolution whose stride equals its kernel size",
    data="random images of 12 x 20 and of 13 x 21 pixels in three channels, patches of 2 x 4, by seed",
    measure="largest difference of a patch's vector (float64); share of pixels on which no vector depends",
    smallest="1e-12 for an identity",
    arms=ARMS,
    controls=[
        Control(
            statement="patches read column by column differ from the convolution by more than .1",
            arm="patches, turned",
            mechanism="patches",
            fails=lambda found: found.least("patches, turned", "error") > 0.1,
        )
    ],
    claims=[judge_cut],
    full=Budget(seeds=4),
    quick=Budget(seeds=3),
    run=run,
    draw=draw,
)
