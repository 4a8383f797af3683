"""Where learned gaps come from, what smooths them, and what counts in them: tasks of the elastic suite.

    python -m vnait_lab.runs.gaps [--tasks middle,third] [--arms "gated, learned ends, 0"] [--seeds 3]

A variant is a source of weights, whether the distances from the ends count tokens or weights or both, and the
weight gamma_1 of the smoothness penalty on S. Everything else is `vnait`, in the length suite's setting.
Records go to studies/records/gaps; recorded runs are not repeated.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vnait.positions.coordinates import SPAN, Content, Elastic, Ends, Gate, Jitter, Span, Uniform, Warp
from vnait.positions.encodings import Anchors, Centre, Fourier, Scalar, Spatial
from vnait.positions.injection import LogLength
from vnait.positions.inputs import Fusion, Local, Nearest, Neighbours, smoothness
from vnait.positions.method import Method
from vnait.positions.recipe import Size
from vnait_lab.records import path_of
from vnait_lab.runs import parser, register, run_suite
from vnait_lab.suites import elastic
from vnait_lab.suites.length import Setting

TASKS = ("middle", "third")
GAMMAS = (0, 0.01, 0.1, 1)


class Softplus(Elastic):
    """With the papers' weights, g = softplus(z), of a source of z."""

    def weigh(self, level: Tensor) -> Tensor:
        return F.softplus(level)


SOURCES: dict[str, Callable[[Size], Elastic]] = {
    "uniform": lambda size: Softplus(Uniform()),
    "warp": lambda size: Softplus(Warp()),
    "content": lambda size: Softplus(Content(dim=size.dim, before=1, after=1)),
    "gated": lambda size: Elastic(Gate(dim=size.dim)),
}


class BothEnds(nn.Module):
    """(S, a, b) of `Elastic`, then the distances from the ends in tokens: (B, T, 5)."""

    causal, per_sentence = False, True

    def __init__(self, elastic: Elastic) -> None:
        super().__init__()
        self.elastic, self.tokens = elastic, Ends(Span(source="uniform"))

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        learned = self.elastic(vectors, mask)[..., :3]
        return torch.cat([learned, self.tokens(vectors, mask)[..., 1:].to(learned)], -1)


class Of(nn.Module):
    """A feature of the main axis and two others."""

    def __init__(self, feature: Anchors | Centre, *axes: int) -> None:
        super().__init__()
        self.feature, self.axes, self.size = feature, [0, *axes], feature.size

    def forward(self, at: Tensor) -> Tensor:
        return self.feature(at[..., self.axes])


ENDS = {"counted": ((3, 4),), "learned": ((1, 2),), "both": ((1, 2), (3, 4))}


class Smoothed(Method):
    """A method with its own gamma_1, for gaps of any source."""

    gamma = 0.0

    def penalty(self, at: Tensor, mask: Tensor, positions: Tensor | None = None, **weights: float) -> Tensor:
        return self.gamma * smoothness(at, mask).float()


def variant(size: Size, *, source: str, ends: str, gamma: float) -> Method:
    """`vnait` with weights of a source."""
    places = [Of(feature(), *axes) for axes in ENDS[ends] for feature in (Anchors, Centre)]
    method = Smoothed(
        coordinates=Jitter(BothEnds(SOURCES[source](size)), shift=12.0, share=0.5),
        encoding=Spatial(
            dim=size.dim, features=[Scalar(), Fourier(pairs=8, shortest=SPAN / 8), *places], start=1.0
        ),
        inputs=Neighbours(Fusion(dim=size.dim), [Local(dim=size.dim), Nearest(dim=size.dim)]),
        scale=LogLength(mean_length=size.mean_length),
    )
    method.gamma = gamma
    return method


# With weights of one, counted and learned ends are the same, and nothing is smoothed.
VARIANTS: dict[str, dict[str, Any]] = {
    f"{source}, {ends} ends, {gamma}": {"source": source, "ends": ends, "gamma": gamma}
    for source in SOURCES
    for ends in ENDS
    for gamma in GAMMAS
    if source != "uniform" or (ends == "counted" and gamma == 0)
}


def main() -> None:
    command = parser(__doc__, seeds=3, tasks=TASKS)
    command.add_argument("--arms", help="with semicolons [all]")
    options = command.parse_args()
    variants = {name: partial(variant, **parts) for name, parts in VARIANTS.items()}
    register(variants, "vnait; gaps: ", "vnait_lab.runs.gaps")
    chosen = options.arms.split("; ") if options.arms else list(VARIANTS)
    suite = replace(elastic.SUITE, setting=Setting())
    run_suite(suite, options, methods=chosen, tasks=options.tasks, path=path_of("gaps"))


if __name__ == "__main__":
    main()
