"""Which of the papers' choices matter? `vnait-paper` on few labels, in a fractional factorial of 7 factors.

    VNAIT_DATA=DIR python -m vnait_lab.runs.choices [--sets trec,mr] [--seeds 3]

Each factor has two levels: layers and widths of both MLPs, their activation, what the relation reads, frozen
or tuned vectors, gamma_1, hard or soft bounds. Of the 128 combinations 16 run, 2^(7-3) of resolution IV: half
of the variants have each level of a factor, and the effect of a factor is not mixed with that of any two
together (Montgomery, Design and Analysis of Experiments, chapter 8). No linear part is mixed in. Records go
to studies/records/choices, a folder per set; recorded runs are not repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from statistics import fmean

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vnait.positions.coordinates import Span
from vnait.positions.encodings import Spatial
from vnait.positions.inputs import cosine
from vnait.positions.method import Method
from vnait.positions.methods import METHODS
from vnait.positions.recipe import Size
from vnait.results.record import Record
from vnait.shared.statistics import Interval, interval
from vnait.train.run import Run
from vnait_lab.records import path_of
from vnait_lab.rules import decided, within
from vnait_lab.runs import data_folder, parser, register, run_plans
from vnait_lab.study import Verdict
from vnait_lab.suites.few_labels import SETS, plan_of, score_of

SHOTS = 16
RUN = Run(validation=0, bag=0.0)
FACTORS = {  # name -> two levels; of most the papers write the first
    "layers": ("2", "3"),
    "width": ("2d", "4d"),
    "activation": ("GELU", "ReLU"),
    "relation of": ("[e; s; e - s; rho]", "[e; s]"),
    "vectors": ("frozen", "tuned"),
    "gamma_1": ("0", "1"),
    "bounds": ("hard", "soft"),
}
ENOUGH = 0.01  # an effect that matters: a point of accuracy

Levels = Mapping[str, int]  # factor -> 0 or 1


def design() -> dict[str, Levels]:
    """The 16 variants, by name: four factors in full, each of the others the sum of three of them modulo
    2.
    """
    variants: dict[str, Levels] = {}
    for a, b, c, d in product((0, 1), repeat=4):
        values = (a, b, c, d, a ^ b ^ c, b ^ c ^ d, a ^ c ^ d)
        levels = dict(zip(FACTORS, values, strict=True))
        name = ", ".join(FACTORS[factor][level] for factor, level in levels.items())
        variants[f"vnait-paper: {name}"] = levels
    return variants


class Relation(nn.Module):
    """x = e + s + MLP([e; s; e - s; rho 1_D]), or of [e; s] alone."""

    causal = True
    lookback = 0

    def __init__(self, *, dim: int, hidden: Sequence[int], activation: type[nn.Module], whole: bool) -> None:
        super().__init__()
        self.whole = whole
        widths = [(4 if whole else 2) * dim, *hidden]
        layers = [layer for pair in pairwise(widths) for layer in (nn.Linear(*pair), activation())]
        self.mlp = nn.Sequential(*layers, nn.Linear(widths[-1], dim))

    def forward(self, vectors: Float[Tensor, "B T D"], added: Float[Tensor, "B T D"]) -> Tensor:
        parts = [vectors, added]
        if self.whole:
            parts += [vectors - added, cosine(vectors, added)[..., None].to(vectors.dtype).expand_as(vectors)]
        associated: Tensor = self.mlp(torch.cat(parts, -1))
        return vectors + added + associated


def made(size: Size, *, levels: Levels) -> Method:
    """`vnait-paper` at these levels; vectors and gamma_1 are settings of the run."""
    hidden = ((4 if levels["width"] else 2) * size.dim,) * (2 if levels["layers"] else 1)
    relu = bool(levels["activation"])
    return Method(
        coordinates=Span(
            source="free",
            max_length=size.max_length,
            min_gap=0,
            bounds="soft" if levels["bounds"] else "hard",
        ),
        encoding=Spatial(
            dim=size.dim, features="scalar", hidden=hidden, activation="relu" if relu else "gelu"
        ),
        inputs=Relation(
            dim=size.dim,
            hidden=hidden,
            activation=nn.ReLU if relu else nn.GELU,
            whole=not levels["relation of"],
        ),
    )


def run_of(levels: Levels) -> Run:
    """The settings of a variant's trainings."""
    return replace(RUN, tune_vectors=bool(levels["vectors"]), smoothness=float(levels["gamma_1"]))


def effects(records: Sequence[Record]) -> dict[str, Interval]:
    """Per factor, the mean over sets of (variants of the second level - variants of the first), with its
    interval over draws of rows. A draw counts if all variants ran on all sets.
    """
    variants = design()
    scores = {
        (record.data["name"], record.seed, record.method): score_of(record)
        for record in records
        if record.method in variants
    }
    sets = sorted({name for name, _, _ in scores})
    seeds = [
        seed
        for seed in sorted({seed for _, seed, _ in scores})
        if all((name, seed, variant) in scores for name in sets for variant in variants)
    ]

    def effect(factor: str, seed: int) -> float:
        first, second = (
            fmean(
                scores[name, seed, variant]
                for name in sets
                for variant, levels in variants.items()
                if levels[factor] == level
            )
            for level in (0, 1)
        )
        return second - first

    return {factor: interval([effect(factor, seed) for seed in seeds]) for factor in FACTORS if seeds}


def verdict(records: Sequence[Record]) -> Verdict:
    """The claim: no factor changes the accuracy by a point or more."""
    every = effects(records)
    if not every or any(effect.low is None for effect in every.values()):
        return Verdict("undecided", "no three draws ran with all arms on all sets")
    words = "; ".join(
        f"{FACTORS[factor][1]} for {FACTORS[factor][0]} {effect.times(100).written('{:+.1f}')}"
        for factor, effect in sorted(every.items(), key=lambda item: -abs(item[1].mean))
    )
    small = all(within(effect, ENOUGH) for effect in every.values())
    ends = [effect.bounds for effect in every.values()]
    return decided(small, words, refuted=any(low >= ENOUGH or high <= -ENOUGH for low, high in ends))


def main() -> None:
    command = parser(__doc__, seeds=3, sets=tuple(SETS))
    options = command.parse_args()
    data = data_folder(command)
    makes = {name: partial(made, levels=levels) for name, levels in design().items()}
    register(makes, f"{METHODS['vnait-paper'].formula}; ", "vnait_lab.runs.choices")
    by_run: dict[Run, list[str]] = {}
    for name, levels in design().items():
        by_run.setdefault(run_of(levels), []).append(name)
    for name in options.sets:
        print(name, flush=True)
        seeds = range(options.seeds)
        plans = (plan_of(name, data, names, [SHOTS], seeds, run) for run, names in by_run.items())
        run_plans(plans, path_of("choices", name), options.jobs)


if __name__ == "__main__":
    main()
