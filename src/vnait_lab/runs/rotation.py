"""What a rotation by S adds: `vnait-uniform` with queries and keys rotated by a place.

    python -m vnait_lab.runs.rotation [--suite length] [--tasks order,adjacent]
        [--arms "S, added; index, added"] [--seeds 3]

The suites are the length suite, the held-out tasks, and "chosen": the four tasks by which the rotation was
chosen, with seeds from 100.

A variant is what rotates (S; the same without noise in training; S as `rope` takes the index, which is 16
turns in a text; the index; sorted random numbers in training; or nothing), and whether the spatial vector is
added to the input, too. All have the neighbours of `vnait` and its factor of the scores.
Records go to studies/records/rotation; recorded runs are not repeated.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Generator, nn

from vnait.positions.coordinates import SPAN, Ends, Jitter, Joined, Randomized, Span
from vnait.positions.encodings import (
    Anchors,
    Axis,
    Blurred,
    Centre,
    Fourier,
    NoPosition,
    Rotary,
    Scalar,
    Spatial,
    Sum,
)
from vnait.positions.injection import LogLength
from vnait.positions.inputs import Add, Fusion, Local, Nearest, Neighbours
from vnait.positions.method import Method
from vnait.positions.recipe import Size
from vnait_lab.records import path_of
from vnait_lab.runs import parser, register, show_progress
from vnait_lab.runs.held_out import HELD_OUT, which_part
from vnait_lab.suites import length
from vnait_lab.suites.registry import registry
from vnait_lab.suites.tasks import (
    A,
    B,
    M,
    Task,
    Texts,
    at,
    below,
    coin,
    put,
    put_both,
    three_places,
    words,
)

SLOW: dict[str, Any] = {"base": 100.0, "unit": SPAN / 10}
# The axis of (S, i - 1, n - i, random i), the settings of the rotation, and the width of its noise.
ROTATIONS: dict[str, tuple[int, dict[str, Any], float] | None] = {
    "S": (0, SLOW, 3.0),
    "S without noise": (0, SLOW, 0.0),
    "S as rope": (0, {}, 0.0),
    "index": (1, {}, 0.0),
    "random index": (3, {}, 0.0),
    "nothing": None,
}
VARIANTS: dict[str, dict[str, Any]] = {
    f"{rotates}, {'added' if adds else 'not added'}": {"rotates": rotates, "adds": adds}
    for rotates in ROTATIONS
    for adds in (True, False)
}


def variant(size: Size, *, rotates: str, adds: bool) -> Method:
    """`vnait-uniform`, with one of `ROTATIONS`."""
    features = [Scalar(), Fourier(pairs=8, shortest=SPAN / 8), Anchors(), Centre()]
    spatial = Axis(Spatial(dim=size.dim, features=features, hidden=(64,), start=1.0), (0, 1, 2))
    parts: list[nn.Module] = [spatial] if adds else [NoPosition()]
    if rotation := ROTATIONS[rotates]:
        axis, settings, noise = rotation
        turning: nn.Module = Rotary(width=size.width, **settings)
        parts.append(Axis(Blurred(turning, width=noise) if noise else turning, axis))
    places = Joined(Ends(Span(source="uniform")), Randomized(limit=max(2048, 4 * size.max_length)))
    views = [Local(dim=size.dim, speed=3.0), Nearest(dim=size.dim)]
    return Method(
        coordinates=Jitter(places, shift=12.0, share=0.5),
        encoding=Sum(*parts),
        inputs=Neighbours(Fusion(dim=size.dim, hidden=16) if adds else Add(), views),
        scale=LogLength(mean_length=size.mean_length),
    )


CHOSEN, task = registry(Task)  # by these

task("global", "in which fifth of the text is M?", classes=5, name="fifths")(partial(which_part, 5))


@task("local", "A and B stand two apart: is A the left one?")
def two_apart(count: int, length: int, random: Generator) -> Texts:
    """Both occur once."""
    ids, left = words(count, length, random), coin(count, random)
    place = below(length - 2, count, random)
    return put_both(ids, place, place + 2, left), left


@task("mixed", "of what class is the word before the last M?")
def before_last(count: int, length: int, random: Generator) -> Texts:
    """Two Ms, a word before each."""
    ids, last = words(count, length, random), 3 + below(length - 3, count, random)
    first = 1 + (torch.rand(count, generator=random) * (last - 2)).long()
    ids = put(put(ids, first, M), last, M)
    return ids, at(ids, last - 1) % 2


@task("global", "do A, B and M stand in this order, or in one that begins with B or M and goes on so?")
def cyclic(count: int, length: int, random: Generator) -> Texts:
    """All three occur once, anywhere; if not, in the order of A, M, B."""
    ids, yes = words(count, length, random), coin(count, random)
    marks = torch.tensor([[[B, A, M], [A, M, B], [M, B, A]], [[A, B, M], [B, M, A], [M, A, B]]])
    orders = marks[yes, below(3, count, random)]
    for place, mark in zip(three_places(length, count, random).unbind(1), orders.unbind(1), strict=True):
        ids = put(ids, place, mark)
    return ids, yes


SUITES = {
    "length": length.SUITE,
    "held-out": replace(length.SUITE, tasks=HELD_OUT),
    "chosen": replace(length.SUITE, tasks=CHOSEN),
}


def main() -> None:
    """Run what is not recorded."""
    command = parser(__doc__, seeds=3, tasks=())
    command.add_argument("--arms", help="with semicolons [all]")
    command.add_argument("--suite", choices=SUITES, default="length")
    options = command.parse_args()
    register(
        {name: partial(variant, **parts) for name, parts in VARIANTS.items()},
        "vnait-uniform; rotation: ",
        "vnait_lab.runs.rotation",
    )
    suite, start = SUITES[options.suite], 100 if options.suite == "chosen" else 0
    suite.run(
        methods=options.arms.split("; ") if options.arms else list(VARIANTS),
        tasks=options.tasks or tuple(suite.tasks),
        seeds=range(start, start + options.seeds),
        path=path_of("rotation"),
        jobs=options.jobs,
        callback=show_progress,
    )


if __name__ == "__main__":
    main()
