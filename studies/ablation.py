"""What each ingredient of `vnait` is for: the default, and beside it one arm an ingredient taken out or exchanged.

    python studies/ablation.py [--seeds 3] [--tasks order,middle] [--arms "vnait,no window"] [--jobs N]

Records go to studies/records/ablation; what is there is not run again. Settings and tasks are the length suite's.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from vnait import suites
from vnait.coordinates import Ends, Jitter, Span
from vnait.encodings import Anchors, Centre, Fourier, Scalar, Spatial
from vnait.injection import LogLength
from vnait.inputs import Add, Fusion, Local, Nearest, Neighbours
from vnait.method import Method
from vnait.methods import METHODS, Recipe, Size

TASKS = ("order", "middle", "third", "offset3", "first_after")
PATH = Path(__file__).parent / "records" / "ablation" / "records.jsonl"


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


def vnait(
    size: Size,
    *,
    span: Span | None = None,
    features: Sequence[nn.Module] | None = None,
    jitter: float = 9.0,
    start: float | None = 1.0,
    relation: bool = True,
    window: Callable[..., nn.Module] | None = Local,
    width: int = 9,
    nearest: bool = True,
    always: bool = False,
    scale: bool = True,
) -> Method:
    """`vnait` with one thing changed."""
    inputs: nn.Module = Fusion(dim=size.dim) if relation else Add()
    views: list[nn.Module] = [] if window is None else [window(dim=size.dim, width=width, dropout=0 if always else 0.1)]
    views += [Nearest(dim=size.dim, dropout=0 if always else 0.4)] if nearest else []
    return Method(
        coordinates=Jitter(Ends(span or Span(source="warp")), shift=jitter),
        encoding=Spatial(dim=size.dim, features=features or [Fourier(), Anchors(), Centre()], start=start),
        inputs=Neighbours(inputs, views) if views else inputs,
        scale=LogLength(mean_length=size.mean_length) if scale else None,
    )


ARMS: dict[str, Callable[[Size], Method]] = {
    "vnait": vnait,
    "S frozen at 100 i/n": lambda size: vnait(size, span=Span(source="uniform")),
    "S from the words": lambda size: vnait(size, span=Span(source="content", dim=size.dim)),
    "no jitter": lambda size: vnait(size, jitter=0),
    "jitter of 6": lambda size: vnait(size, jitter=6),
    "S without Fourier": lambda size: vnait(size, features=[Scalar(), Anchors(), Centre()]),
    "no anchors": lambda size: vnait(size, features=[Fourier(), Centre()]),
    "anchors that fade": lambda size: vnait(size, features=[Fourier(), Fading(), Centre()]),
    "16 anchors an end": lambda size: vnait(size, features=[Fourier(), Anchors(count=16), Centre()]),
    "no centre": lambda size: vnait(size, features=[Fourier(), Anchors()]),
    "s starting quietly": lambda size: vnait(size, start=None),
    "no relation": lambda size: vnait(size, relation=False),
    "no window": lambda size: vnait(size, window=None),
    "window of 17": lambda size: vnait(size, width=17),
    "window starting flat": lambda size: vnait(size, window=Flat),
    "no nearest word": lambda size: vnait(size, nearest=False),
    "no neighbours": lambda size: vnait(size, window=None, nearest=False),
    "neighbours always told": lambda size: vnait(size, always=True),
    "no log length": lambda size: vnait(size, scale=False),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--jobs", type=int)
    options = parser.parse_args()
    for name, make in ARMS.items():
        METHODS[name] = Recipe(make=make, formula=f"ablation: {name}", source="studies/ablation.py")
    suites.run_suite(
        methods=tuple(options.arms.split(",")),
        tasks=tuple(options.tasks.split(",")),
        seeds=range(options.seeds),
        setting=suites.Setting(),
        path=PATH,
        jobs=options.jobs,
        watch=lambda done, total, record: print(f"{done} of {total}", flush=True),
    )


if __name__ == "__main__":
    main()
