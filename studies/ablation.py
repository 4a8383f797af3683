"""What each ingredient of `vnait` is for: the default, and beside it one arm an ingredient taken out or exchanged.

    python studies/ablation.py [--seeds 3] [--tasks order,middle] [--arms "vnait,no window"] [--jobs N]
    VNAIT_DATA=DIR python studies/ablation.py --sets trec,splice [--seeds 10] [--shots 16] [--arms ...]

Length tasks, those of held_out.py among them, with the length suite's settings; or sets of few labels with those of the few-label
suite, but tested on 30 % of train.csv that each seed holds out: what is chosen here must not have seen test.csv. Records go to
studies/records/ablation and studies/records/ablation_few_labels; what is there is not run again.
"""

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import held_out  # noqa: F401  its tasks may be asked for, too
import torch
from torch import Tensor, nn

from vnait import suites
from vnait.comparison import run_cells
from vnait.coordinates import SPAN, Ends, Index, Jitter, Randomized, Span
from vnait.encodings import Anchors, Centre, Fourier, Scalar, Spatial, Table
from vnait.injection import LogLength
from vnait.inputs import Add, Fusion, Local, Nearest, Neighbours
from vnait.method import Method
from vnait.methods import METHODS, Recipe, Size, parameters
from vnait.suites import few_labels

TASKS = ("order", "middle", "third", "offset3", "first_after")
RECORDS = Path(__file__).parent / "records"


class Fading(Anchors):
    """exp(-a / tau) of the distances a from the ends, in place of the places one by one."""

    taus = (1, 2, 4, 8)

    def __init__(self) -> None:
        super().__init__(count=len(self.taus))

    def forward(self, at: Tensor) -> Tensor:
        return torch.exp(-at[..., 1:3, None] / torch.tensor(self.taus, dtype=at.dtype)).flatten(-2)


class Flat(Local):
    """A window whose taps start alike on both sides, near and far."""

    def reset_parameters(self) -> None:
        nn.init.normal_(self.taps, std=0.1)


class Unplaced(Fusion):
    """Relates e to nothing: x = e + MLP_rel([e; 0; e; 0])."""

    def forward(self, vectors: Tensor, added: Tensor | None) -> Tensor:
        return super().forward(vectors, torch.zeros_like(vectors))


def slow_waves() -> Fourier:
    """Periods from twice the span to an eighth of it, as in the default."""
    return Fourier(pairs=8, shortest=SPAN / 8)


def vnait(
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
    untold: tuple[float, float] = (0.3, 0.3),
    scale: bool = True,
) -> Method:
    """`vnait` with one thing changed."""
    inputs = Add() if relation is None else relation(dim=size.dim)
    views: list[nn.Module] = [] if window is None else [window(dim=size.dim, width=width, dropout=untold[0])]
    views += [Nearest(dim=size.dim, dropout=untold[1])] if nearest else []
    return Method(
        coordinates=Jitter(Ends(span or Span(source="warp")), shift=jitter, share=share),
        encoding=Spatial(dim=size.dim, features=features or [Scalar(), slow_waves(), Anchors(), Centre()], start=start),
        inputs=Neighbours(inputs, views) if views else inputs,
        scale=LogLength(mean_length=size.mean_length) if scale else None,
    )


def random_floats(size: Size) -> Method:
    """S drawn anew for every training text: sorted random numbers of [0, 100), in place of the jitter; their means in evaluation."""
    return vnait(size, span=Randomized(limit=int(SPAN), draw="floats"), jitter=0)


def table(size: Size) -> Method:
    """x = e + P[i], with as many rows as `vnait` has parameters for; longer texts are refused."""
    return Method(coordinates=Index(), encoding=Table(dim=size.dim, max_length=parameters(vnait(size)) // size.dim))


ARMS: dict[str, Callable[[Size], Method]] = {
    "vnait": vnait,
    "S frozen at 100 i/n": lambda size: vnait(size, span=Span(source="uniform")),
    "S from the words": lambda size: vnait(size, span=Span(source="content", dim=size.dim)),
    "no jitter": lambda size: vnait(size, jitter=0),
    "all texts jittered by 9": lambda size: vnait(size, share=1, jitter=9),
    "S without Fourier": lambda size: vnait(size, features=[Scalar(), Anchors(), Centre()]),
    "Fourier without S": lambda size: vnait(size, features=[slow_waves(), Anchors(), Centre()]),
    "16 waves down to a fiftieth": lambda size: vnait(size, features=[Fourier(), Anchors(), Centre()]),
    "no anchors": lambda size: vnait(size, features=[Scalar(), slow_waves(), Centre()]),
    "anchors that fade": lambda size: vnait(size, features=[Scalar(), slow_waves(), Fading(), Centre()]),
    "16 anchors an end": lambda size: vnait(size, features=[Scalar(), slow_waves(), Anchors(count=16), Centre()]),
    "no centre": lambda size: vnait(size, features=[Scalar(), slow_waves(), Anchors()]),
    "s starting quietly": lambda size: vnait(size, start=None),
    "no relation": lambda size: vnait(size, relation=None),
    "no window": lambda size: vnait(size, window=None),
    "window of 17": lambda size: vnait(size, width=17),
    "window left out of a tenth": lambda size: vnait(size, untold=(0.1, 0.3)),
    "window starting with taps that fade": lambda size: vnait(size, window=partial(Local, shape="fading")),
    "window starting flat": lambda size: vnait(size, window=Flat),
    "no nearest word": lambda size: vnait(size, nearest=False),
    "no neighbours": lambda size: vnait(size, window=None, nearest=False),
    "neighbours always told": lambda size: vnait(size, untold=(0, 0)),
    "no log length": lambda size: vnait(size, scale=False),
    "S of sorted random floats": random_floats,
    "relation without s": lambda size: vnait(size, relation=Unplaced),
    "e + s alone": lambda size: vnait(size, relation=None, window=None, nearest=False, scale=False),
    "a table of as many parameters": table,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--sets", help="of few labels, in place of tasks")
    parser.add_argument("--shots", default="16")
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--jobs", type=int)
    options = parser.parse_args()
    whole = METHODS["vnait"].formula  # what changes it changes every arm
    for name, make in ARMS.items():
        METHODS[name] = Recipe(make=make, formula=f"{whole}; ablation: {name}", source="studies/ablation.py")
    if options.sets and "VNAIT_DATA" not in os.environ:
        parser.error("VNAIT_DATA is not set; set it to a folder with a folder a set (train.csv and test.csv).")
    if options.sets:
        on_few_labels(options)
    else:
        on_tasks(options)


def on_tasks(options: argparse.Namespace) -> None:
    suites.run_suite(
        methods=tuple(options.arms.split(",")),
        tasks=tuple(options.tasks.split(",")),
        seeds=range(options.seeds),
        setting=suites.Setting(),
        path=RECORDS / "ablation" / "records.jsonl",
        jobs=options.jobs,
        watch=lambda done, total, record: print(f"{done} of {total}", flush=True),
    )


def on_few_labels(options: argparse.Namespace) -> None:
    """In this process: another one would not know the arms."""
    for name in options.sets.split(","):
        plan = few_labels.plan_of(
            name,
            os.environ["VNAIT_DATA"],
            options.arms.split(","),
            [int(count) for count in options.shots.split(",")],
            range(options.seeds),
            few_labels.RUN,
        )
        run_cells(
            replace(plan, test=None),
            RECORDS / "ablation_few_labels" / name / "records.jsonl",
            watch=lambda done, total, record, name=name: print(f"{name}: {done} of {total}", flush=True),
        )


if __name__ == "__main__":
    main()
