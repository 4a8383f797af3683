"""The contribution of each part of `vnait-warp`, the first default, and of the relation in today's
`vnait`: all parts, and variants that leave one out or replace it.

    python -m vnait_lab.runs.ablation [--tasks order,middle] [--arms "vnait-warp,no window"] [--seeds 3]
    VNAIT_DATA=DIR python -m vnait_lab.runs.ablation --sets trec,splice --seeds 10 [--shots 16]

On tasks of the length suite and of held_out.py, in the length suite's setting; or on few-label sets in the
few-label suite's setting, but tested on 30 % of train.csv, which each seed holds out: test.csv must not
decide a choice. Records go to studies/records/ablation and studies/records/ablation_few_labels; recorded
runs are not repeated.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from vnait.positions.building import parameters
from vnait.positions.coordinates import SPAN, Ends, Index, Jitter, Randomized, Span
from vnait.positions.encodings import Anchors, Centre, Fourier, Scalar, Spatial, Table
from vnait.positions.injection import LogLength
from vnait.positions.inputs import Add, Condensed, Fusion, Local, Nearest, Neighbours
from vnait.positions.method import Method
from vnait.positions.methods import METHODS
from vnait.positions.recipe import Size
from vnait_lab.records import path_of
from vnait_lab.runs import data_folder, names, parser, register, run_plans, run_suite
from vnait_lab.runs.held_out import HELD_OUT, SEEN
from vnait_lab.suites import few_labels, length

TASKS = ("order", "middle", "third", "offset3", "first_after")


class Fading(Anchors):
    """exp(-a / tau) of the distances a from the ends, in place of one anchor per position."""

    taus = (1, 2, 4, 8)

    def __init__(self) -> None:
        super().__init__(count=len(self.taus))

    def forward(self, at: Tensor) -> Tensor:
        return torch.exp(-at[..., 1:3, None] / torch.tensor(self.taus, dtype=at.dtype)).flatten(-2)


class Flat(Local):
    """A window whose taps all start with the same distribution."""

    def reset_parameters(self) -> None:
        nn.init.normal_(self.taps, std=0.1)


class Unplaced(Fusion):
    """A relation without s: x = e + MLP_rel([e; 0; e; 0])."""

    def forward(self, vectors: Tensor, added: Tensor | None) -> Tensor:
        return super().forward(vectors, torch.zeros_like(vectors))


def slow_waves() -> Fourier:
    """Periods from twice the span to an eighth of it, as in the default."""
    return Fourier(pairs=8, shortest=SPAN / 8)


def whole(
    size: Size,
    *,
    span: nn.Module | None = None,
    features: Sequence[nn.Module] | None = None,
    jitter: float = 12.0,
    share: float = 0.5,
    start: float | None = 1.0,
    relation: Callable[..., nn.Module] | None = Fusion,
    window: Callable[..., nn.Module] | None = Local,
    width: int = 9,
    nearest: bool = True,
    dropout: tuple[float, float] = (0.3, 0.3),
    scale: bool = True,
) -> Method:
    """`vnait-warp` with one part changed; `dropout` is of the window and of the nearest word."""
    inputs = Add() if relation is None else relation(dim=size.dim)
    views: list[nn.Module] = [] if window is None else [window(dim=size.dim, width=width, dropout=dropout[0])]
    views += [Nearest(dim=size.dim, dropout=dropout[1])] if nearest else []
    return Method(
        coordinates=Jitter(Ends(span or Span(source="warp")), shift=jitter, share=share),
        encoding=Spatial(
            dim=size.dim, features=features or [Scalar(), slow_waves(), Anchors(), Centre()], start=start
        ),
        inputs=Neighbours(inputs, views) if views else inputs,
        scale=LogLength(mean_length=size.mean_length) if scale else None,
    )


def counting(size: Size, relation: Callable[..., nn.Module] | None) -> Method:
    """`vnait` with another relation."""
    method = METHODS["vnait"].make(size)
    assert isinstance(method.inputs, Condensed)
    method.inputs.inputs = Add() if relation is None else relation(dim=size.dim, hidden=16)
    return method


def random_floats(size: Size) -> Method:
    """S from sorted random numbers in [0, 100), drawn anew for every training text, in place of jitter; in
    evaluation from their means.
    """
    return whole(size, span=Randomized(limit=int(SPAN), draw="floats"), jitter=0)


def table(size: Size) -> Method:
    """x = e + P[i], with as many parameters as `vnait-warp`; it refuses longer texts."""
    return Method(
        coordinates=Index(), encoding=Table(dim=size.dim, max_length=parameters(whole(size)) // size.dim)
    )


VARIANTS: dict[str, Callable[[Size], Method]] = {
    "vnait-warp": whole,
    "S frozen at 100 i/n": lambda size: whole(size, span=Span(source="uniform")),
    "S from the words": lambda size: whole(size, span=Span(source="content", dim=size.dim)),
    "no jitter": lambda size: whole(size, jitter=0),
    "all texts jittered by 9": lambda size: whole(size, share=1, jitter=9),
    "S without Fourier": lambda size: whole(size, features=[Scalar(), Anchors(), Centre()]),
    "Fourier without S": lambda size: whole(size, features=[slow_waves(), Anchors(), Centre()]),
    "16 waves down to a fiftieth": lambda size: whole(size, features=[Fourier(), Anchors(), Centre()]),
    "no anchors": lambda size: whole(size, features=[Scalar(), slow_waves(), Centre()]),
    "anchors that fade": lambda size: whole(size, features=[Scalar(), slow_waves(), Fading(), Centre()]),
    "16 anchors an end": lambda size: whole(
        size, features=[Scalar(), slow_waves(), Anchors(count=16), Centre()]
    ),
    "no centre": lambda size: whole(size, features=[Scalar(), slow_waves(), Anchors()]),
    "s starting quietly": lambda size: whole(size, start=None),
    "no relation": lambda size: whole(size, relation=None),
    "no window": lambda size: whole(size, window=None),
    "window of 17": lambda size: whole(size, width=17),
    "window left out of a tenth": lambda size: whole(size, dropout=(0.1, 0.3)),
    "window starting with taps that fade": lambda size: whole(size, window=partial(Local, shape="fading")),
    "window starting flat": lambda size: whole(size, window=Flat),
    "no nearest word": lambda size: whole(size, nearest=False),
    "no neighbours": lambda size: whole(size, window=None, nearest=False),
    "neighbours always told": lambda size: whole(size, dropout=(0, 0)),
    "no log length": lambda size: whole(size, scale=False),
    "S of sorted random floats": random_floats,
    "relation without s": lambda size: whole(size, relation=Unplaced),
    "e + s alone": lambda size: whole(size, relation=None, window=None, nearest=False, scale=False),
    "a table of as many parameters": table,
}
COUNTING: dict[str, Callable[[Size], Method]] = {  # of `vnait`
    "vnait without relation": lambda size: counting(size, None),
    "vnait with a relation without s": lambda size: counting(size, Unplaced),
}
VARIANTS_OF = {"vnait-warp": VARIANTS, "vnait": COUNTING}  # the variants of each method


def main() -> None:
    command = parser(__doc__, seeds=3, tasks=TASKS, shots=(16,), arms=[*VARIANTS, "vnait", *COUNTING])
    command.add_argument("--sets", type=names, help="of few labels, in place of tasks [none]")
    options = command.parse_args()
    for default, variants in VARIANTS_OF.items():
        formula = METHODS[default].formula  # in every variant's key, since its change changes every variant
        register(variants, f"{formula}; ablation: ", "vnait_lab.runs.ablation")
    if options.sets:
        on_few_labels(options, data_folder(command))
        return
    suite = replace(length.SUITE, tasks={**length.SUITE.tasks, **SEEN, **HELD_OUT})
    run_suite(suite, options, methods=options.arms, tasks=options.tasks, path=path_of("ablation"))


def on_few_labels(options: argparse.Namespace, data: Path) -> None:
    """On the few-label sets, in this process: a worker process would not know the variants."""
    for name in options.sets:
        seeds = range(options.seeds)
        plan = few_labels.plan_of(name, data, options.arms, options.shots, seeds, few_labels.RUN)
        print(name)
        run_plans([replace(plan, test=None)], path_of("ablation_few_labels", name), jobs=1)


if __name__ == "__main__":
    main()
