"""What a kernel K of places (row, column) says of direction: along lines of every direction, and of images of a line in clutter."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from sklearn.metrics import roc_auc_score
from torch import Generator, Tensor

from vnait.study import Metrics

Kernel = Callable[[Tensor], Tensor]  # places (..., N, 2) -> K of all pairs of them (..., N, N)

SIDE = 16
POINTS, CLUTTER = 8, 16
STEPS = {"axes": ((0, 1), (1, 0)), "diagonals": ((1, 1), (1, -1))}
ANGLES = [5 * number for number in range(36)]


def cells() -> Tensor:
    """The grid's places (256, 2), in reading order."""
    return torch.cartesian_prod(*[torch.arange(SIDE, dtype=torch.float64)] * 2)


def directions(kernel: Kernel) -> Metrics:
    """The response to lines in every direction, through places all over the grid; and at the axes less at the diagonals."""
    response = responses(kernel, torch.tensor(ANGLES, dtype=torch.float64))
    at = {angle: response[:, ANGLES.index(angle)] for angle in (0, 45, 90, 135)}
    contrast = (at[0] + at[90] - at[45] - at[135]) / 2
    return {
        "contrast": float(contrast.mean()),
        "responses": response.mean(0).tolist(),
        "responses_spread": response.std(0).tolist(),
    }


def responses(kernel: Kernel, degrees: Tensor) -> Tensor:
    """The mean of K over pairs of different points of a line, (centres, directions)."""
    angle = degrees.deg2rad()
    along = torch.arange(POINTS, dtype=torch.float64) - (POINTS - 1) / 2
    line = along[:, None] * torch.stack([angle.cos(), angle.sin()], -1)[:, None]
    centre = torch.cartesian_prod(*[torch.linspace(4, SIDE - 5, 5, dtype=torch.float64)] * 2)
    pairs = kernel(centre[:, None, None] + line)
    return (pairs.sum((-1, -2)) - pairs.diagonal(dim1=-2, dim2=-1).sum(-1)) / (POINTS * (POINTS - 1))


def detection(similarity: Tensor, samples: int, random: Generator) -> Metrics:
    """AUC of the sum of K over pairs of lit cells: a line of pixels in clutter against as many cells of clutter."""
    found = {}
    truth = [1] * samples + [0] * samples
    for name, steps in STEPS.items():
        lit = torch.cat([images(steps, samples, random), images((), samples, random)])
        found[name] = float(roc_auc_score(truth, ((lit @ similarity) * lit).sum(-1)))
    return found


def images(steps: Sequence[tuple[int, int]], count: int, random: Generator) -> Tensor:
    """Lit cells (count, 256), 0 and 1: a line of `POINTS` along one of the steps, if there are any, and the rest anywhere."""
    height = torch.rand(count, SIDE**2, generator=random, dtype=torch.float64)
    if steps:
        step = torch.tensor(steps)[torch.randint(len(steps), (count,), generator=random)]
        reach = step.abs() * (POINTS - 1)
        first = (torch.rand(count, 2, generator=random) * (SIDE - reach)).long() - step.clamp(max=0) * (POINTS - 1)
        line = first[:, None] + torch.arange(POINTS)[:, None] * step[:, None]
        height.scatter_(1, line[..., 0] * SIDE + line[..., 1], 2.0)
    return torch.zeros_like(height).scatter_(1, height.topk(POINTS + CLUTTER).indices, 1.0)
