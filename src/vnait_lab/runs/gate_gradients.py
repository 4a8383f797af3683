"""The gradient of the gate of `vnait`: its mean over the tokens, or one size in every step?

    python -m vnait_lab.runs.gate_gradients [--seeds 4]

Adam's steps don't depend on a gradient's scale, but on how it varies: a large gradient makes the steps after
it small. So `vnait, steady` divides the gradient of l by its norm over the batch. Printed is what
`runs.weights` prints for both, after 1,000 steps; the seeds begin at 100.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import torch

from vnait.positions.coordinates import Gate
from vnait.positions.coordinates.shared import Line, Mask
from vnait.positions.method import Method
from vnait.positions.methods import METHODS
from vnait.positions.recipe import Size
from vnait_lab.runs import parser, register, weights

SIZE = 0.003  # of the gradient: far below 1, at which the norm of all gradients is clipped
STEADY = "vnait, steady"


class Steady(torch.autograd.Function):
    """The identity, whose gradient has the norm `SIZE`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(line: Line) -> Line:
        return line.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Line], output: Line) -> None:
        """Nothing is needed."""

    @staticmethod
    def backward(ctx: Any, gradient: Line) -> Line:
        return gradient * (SIZE / gradient.norm().clamp_min(1e-12))


class SteadyGate(Gate):
    """`Gate`, with a gradient of one size."""

    def level(self, words: torch.Tensor, mask: Mask) -> Line:
        level = super().level(words, mask)
        return level if self.true_gradient or not torch.is_grad_enabled() else Steady.apply(level)


def steady(size: Size) -> Method:
    """`vnait` with a `SteadyGate`."""
    method = METHODS["vnait"].make(size)
    for part in list(method.modules()):
        if isinstance(getattr(part, "gate", None), Gate):
            part.gate = SteadyGate(dim=size.dim)
    return method


def main() -> None:
    """Print a line per task and variant."""
    options = parser(__doc__, seeds=4, jobs=False).parse_args()
    register({STEADY: steady}, f"{METHODS['vnait'].formula}; ", "vnait_lab.runs.gate_gradients")
    seeds = range(weights.FIRST_SEED, weights.FIRST_SEED + options.seeds)
    for name, variant in product(weights.TASKS, ("vnait", STEADY)):
        print(weights.row(variant, name, 1000, seeds), flush=True)


if __name__ == "__main__":
    main()
