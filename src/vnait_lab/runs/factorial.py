"""Every scheme with the same parts: neighbours, attention scaled by log n, and random places in training.

    python -m vnait_lab.runs.factorial [--suite length] [--schemes rope,vnait] [--parts "none; all"]
        [--tasks order,middle] [--seeds 3]

A variant is a scheme and the parts that it has. Parts of `vnait` are left out, parts of the others are added:

    neighbours   `Local`, learned 3 times as fast, and `Nearest`, as in Canon layers (arXiv 2512.17351);
                 those that count, of `vnait`
    log n        scores * log n / log n0 (scalable softmax, arXiv 2501.19399)
    random       jitter of S, as in CAPE (arXiv 2106.03143), or n sorted random places (arXiv 2305.16843)

Records go to studies/records/factorial, a folder per suite; recorded runs are not repeated. A variant that
is a method, such as "rope: random", is not run here: `vnait study SUITE` has its records.
"""

from __future__ import annotations

from functools import partial
from itertools import product

from torch import nn

from vnait.positions.coordinates import Index, Jitter
from vnait.positions.encodings import NoPosition
from vnait.positions.injection import LogLength
from vnait.positions.inputs import Condensed, Local, Nearest, Neighbours
from vnait.positions.method import Method
from vnait.positions.methods import METHODS
from vnait.positions.recipe import Recipe, Size
from vnait_lab.records import path_of
from vnait_lab.runs import parser, run_suite
from vnait_lab.suites import algorithmic, elastic, length

SUITES = {suite.name: suite for suite in (length.SUITE, elastic.SUITE, algorithmic.SUITE)}
VNAIT = ("vnait-uniform", "vnait")
SCHEMES = ("none", "sinusoidal", "rope", "alibi", "t5", "fire", *VNAIT)
PARTS = ("neighbours", "log n", "random")
SETS = {
    " + ".join(part for part, has in zip(PARTS, flags, strict=True) if has) or "none": flags
    for flags in product((False, True), repeat=len(PARTS))
}
ALL = " + ".join(PARTS)
AS_METHODS = {
    **{scheme: f"{scheme}: {ALL if scheme in VNAIT else 'none'}" for scheme in SCHEMES},
    "randomized-sinusoidal": "sinusoidal: random",
    "randomized-rope": "rope: random",
}


def variant(size: Size, *, scheme: Recipe, neighbours: bool, log_n: bool, random: bool) -> Method:
    """A scheme with these parts and no others."""
    whole = scheme.make(size)
    coordinates, inputs = whole.coordinates, whole.inputs
    kind: type[nn.Module] = Neighbours
    if isinstance(coordinates, Jitter):
        coordinates = coordinates if random else coordinates.coordinates
    elif random and isinstance(coordinates, Index):
        coordinates = METHODS["randomized-rope"].make(size).coordinates
    if isinstance(inputs, Neighbours | Condensed):
        kind, inputs = type(inputs), inputs.inputs
    if neighbours:
        inputs = kind(inputs, [Local(dim=size.dim, speed=3.0), Nearest(dim=size.dim)])
    return Method(
        coordinates=coordinates,
        encoding=whole.encoding,
        inputs=inputs,
        scale=LogLength(mean_length=size.mean_length) if log_n else None,
    )


def variants() -> dict[str, Recipe]:
    """Recipes by scheme and parts, such as "rope: neighbours + log n"; `none` has no places to draw."""
    recipes = {}
    for scheme, (parts, (neighbours, log_n, random)) in product(SCHEMES, SETS.items()):
        recipe = METHODS[scheme]
        if random and isinstance(recipe.make(Size(dim=8, num_heads=2)).encoding, NoPosition):
            continue
        make = partial(variant, scheme=recipe, neighbours=neighbours, log_n=log_n, random=random)
        window = ", window learned 3 times as fast" if neighbours else ""
        recipes[f"{scheme}: {parts}"] = Recipe(
            make=make, formula=f"{recipe.formula}; with {parts}{window}", source="vnait_lab.runs.factorial"
        )
    return recipes


def main() -> None:
    command = parser(__doc__, seeds=3, schemes=SCHEMES, tasks=())
    command.add_argument("--suite", choices=SUITES, default="length", help="[%(default)s]")
    command.add_argument("--parts", default="all", help=f"with semicolons; {'; '.join(SETS)} [%(default)s]")
    options = command.parse_args()
    METHODS.update(variants())
    suite = SUITES[options.suite]
    wanted = [
        f"{scheme}: {ALL if parts == 'all' else parts}"
        for parts in options.parts.split("; ")
        for scheme in options.schemes
    ]
    # What is a method has its records from the suite, and `none` has no places to draw.
    without = {
        *AS_METHODS.values(),
        *(name for name in wanted if name.startswith("none: ") and "random" in name),
    }
    tasks = options.tasks or [name for name in suite.tasks if not name.endswith("-oracle")]
    chosen = [name for name in wanted if name not in without]
    run_suite(suite, options, methods=chosen, tasks=tasks, path=path_of("factorial", suite.name))


if __name__ == "__main__":
    main()
