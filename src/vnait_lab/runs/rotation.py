"""What a rotation by S adds: `vnait-uniform` with queries and keys rotated by a place, in the length suite.

    python -m vnait_lab.runs.rotation [--tasks thirds,order3] [--arms "S, added; index, added"] [--seeds 3]

A variant is what rotates (S; the same without noise in training; S as `rope` takes the index, which is 16
turns in a text; the index; sorted random numbers in training; or nothing), and whether the spatial vector is
added to the input, too. All have the neighbours of `vnait` and its factor of the scores.
Records go to studies/records/rotation; recorded runs are not repeated.
"""

from functools import partial
from typing import Any

from torch import nn

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
from vnait.positions.methods import Size
from vnait_lab.records import path_of
from vnait_lab.runs import parser, register, run_suite
from vnait_lab.suites import length

SLOW: dict[str, float] = {"base": 100.0, "unit": SPAN / 10}
# The axis of (S, i - 1, n - i, random i), the settings of the rotation, and the width of its noise.
ROTATIONS: dict[str, tuple[int, dict[str, float], float] | None] = {
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


def main() -> None:
    """Run what is not recorded."""
    command = parser(__doc__, seeds=3, tasks=())
    command.add_argument("--arms", help="with semicolons [all]")
    options = command.parse_args()
    register(
        {name: partial(variant, **parts) for name, parts in VARIANTS.items()},
        "vnait-uniform; rotation: ",
        "vnait_lab.runs.rotation",
    )
    chosen = options.arms.split("; ") if options.arms else list(VARIANTS)
    tasks = options.tasks or tuple(length.SUITE.tasks)
    run_suite(length.SUITE, options, methods=chosen, tasks=tasks, path=path_of("rotation"))


if __name__ == "__main__":
    main()
