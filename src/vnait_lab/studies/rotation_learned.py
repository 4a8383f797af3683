"""Does training make W_Q W_K^T equal to M_3?

Position i should attend to i - 3; the score of i and j is PE_i^T W PE_j. With W = M_3 it is PE_i . PE_{j+3},
largest at j = i - 3. On the positions of one window many other W have their largest score there, and training
finds one of those. Only if windows start anywhere must W commute with every rotation: then it consists of
rotation blocks, each with its own amplitude.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Generator, Tensor

from vnait_lab.kit import Figure, decided, each
from vnait_lab.studies.figures import lines, maps, panels
from vnait_lab.studies.parts.place_codes import BACK, STARTS, TESTS, WINDOW, looking_back
from vnait_lab.studies.sinusoid import codes, rotation
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

WIDTH = 32
VARIANTS = {
    "M_3": "W = M_3, built from its definition",
    "transposed": "W = M_3^T",
    "identity": "W = 1",
    "untrained": "a random W",
    "fixed window": f"W trained on positions 0 to {WINDOW - 1}",
    "any window": f"W trained on windows that start at 0 to {STARTS - 1:,}",
}
TRAINED = ("fixed window", "any window")
STUDY = Study.of(
    __name__,
    source="003, learning, 2.3",
    data=f"sinusoidal codes of width {WIDTH}, windows of {WINDOW} positions; target: {BACK} positions back",
    measure="targets found in and outside of training windows; cosine of W and M_3; share of W's energy in "
    "2 x 2 rotations",
    smallest="10 points of accuracy; a cosine of .9 for 'is M_3'",
    variants=VARIANTS,
    full=Budget(seeds=5, steps=2_000),
    quick=Budget(seeds=3, steps=1_000),
)


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    weight = weights(variant, seed, budget).double()
    hits = {
        name: float(np.mean([hit(weight, start, BACK) for start in starts])) for name, starts in TESTS.items()
    }
    target = rotation(BACK, WIDTH)
    return {
        **hits,
        "self": hit(weight, 0, 0),
        "ahead": hit(weight, 0, -BACK),
        "mass": mass(weight),
        "cosine": float((weight * target).sum() / weight.norm() / target.norm()),
        "turning": turning(weight),
        "weights": np.round((weight / weight.abs().max()).numpy(), 3).tolist(),
    }


def weights(variant: str, seed: int, budget: Budget) -> Tensor:
    built = {
        "M_3": rotation(BACK, WIDTH),
        "transposed": rotation(BACK, WIDTH).T,
        "identity": torch.eye(WIDTH),
    }
    if variant in built:
        return built[variant]
    random = Generator().manual_seed(seed)
    if variant == "untrained":
        return torch.randn(WIDTH, WIDTH, generator=random).div(WIDTH)
    table = codes(torch.arange((STARTS if variant == "any window" else 1) + WINDOW), WIDTH).float()
    return looking_back(table, random, steps=budget.steps, learning_rate=2e-2, weight_decay=0.1)


def scores(weight: Tensor, start: int) -> Tensor:
    code = codes(torch.arange(start, start + WINDOW), WIDTH)
    return code @ weight.double() @ code.T


def hit(weight: Tensor, start: int, back: int) -> float:
    """The share of rows whose largest score is `back` positions earlier, among rows with such a position."""
    row = torch.arange(max(back, 0), WINDOW + min(back, 0))
    return float((scores(weight, start)[row].argmax(1) == row - back).double().mean())


def mass(weight: Tensor) -> float:
    """The attention on the target, with scores / sqrt(d)."""
    row = torch.arange(BACK, WINDOW)
    return float((scores(weight, 0) / WIDTH**0.5).softmax(-1)[row, row - BACK].mean())


def turning(weight: Tensor) -> float:
    """The share of W's energy in the part that commutes with every M_k: diagonal 2 x 2 blocks of the form
    [[a, b], [-b, a]].
    """
    blocks = weight.unflatten(0, (-1, 2)).unflatten(2, (-1, 2)).diagonal(dim1=0, dim2=2)  # (2, 2, d/2)
    a = (blocks[0, 0] + blocks[1, 1]) / 2
    b = (blocks[0, 1] - blocks[1, 0]) / 2
    return float(2 * (a.square() + b.square()).sum() / weight.square().sum())


def listed(findings: Findings, metric: str, times: float = 100, unit: str = " %", digits: int = 0) -> str:
    """A metric of both trainings, with its 95 % interval if there are enough seeds."""
    parts = []
    for variant in TRAINED:
        mean, low, high = findings.interval(variant, metric).times(times)
        bounds = "" if low is None else f" ({low:.{digits}f} to {high:.{digits}f})"
        parts.append(f"{variant} {mean:.{digits}f}{unit}{bounds}")
    return ", ".join(parts)


@STUDY.control("the transposed M_3 looks ahead, and never 3 back", variant="transposed", mechanism="M_3")
def transposed_fails(findings: Findings) -> bool:
    return findings.most("transposed", "inside") <= 0.05


@STUDY.control(
    "an untrained W is right in 10 % of the rows at most", variant="untrained", mechanism="any window"
)
def untrained_fails(findings: Findings) -> bool:
    return findings.most("untrained", "inside") <= 0.1


@STUDY.claim("Training makes W_Q W_K^T into M_3")
def judge_becomes(findings: Findings) -> Verdict:
    """Confirmed if W and M_3 have a cosine of .9 or more in both trainings, conditional if in one."""
    summary = "cosine of W and M_3: " + listed(findings, "cosine", 1, "", 2)
    summary += f"; of the identity and M_3: {findings.mean('identity', 'cosine'):.2f}"
    close = {variant: findings.mean(variant, "cosine") >= 0.9 for variant in TRAINED}
    return each(close, summary, "trained on a {}", join=", ")


@STUDY.claim("W_Q and W_K find the pattern of rotations by themselves", source="003, learning, 4")
def judge_pattern(findings: Findings) -> Verdict:
    """Confirmed if 95 % of W's energy is in 2 x 2 rotations; conditional if only with training on any
    window.
    """
    summary = "energy of W in 2 x 2 rotations: " + listed(findings, "turning")
    summary += f"; untrained {100 * findings.mean('untrained', 'turning'):.0f} %"
    return by_window(summary, findings, lambda variant: findings.least(variant, "turning") >= 0.95)


@STUDY.claim("What is learned of 'distance 3' holds at every position", source="003, learning, 1")
def judge_elsewhere(findings: Findings) -> Verdict:
    """Confirmed if 90 % are right outside of the training window; conditional if only with training on any
    window.
    """
    places = {"inside": "at 0-63", "next": "at 64-255", "far": "past 5,000"}
    summary = "; ".join(f"right {where}: {listed(findings, metric)}" for metric, where in places.items())

    def holds(variant: str) -> bool:
        return min(findings.least(variant, "next"), findings.least(variant, "far")) >= 0.9

    return by_window(summary, findings, holds)


def by_window(summary: str, findings: Findings, holds: Callable[[str], bool]) -> Verdict:
    """The verdict on what both trainings should reach; undecided if one has not learned its own window."""
    if min(findings.least(variant, "inside") for variant in TRAINED) < 0.99:
        return Verdict("undecided", f"not learned: {summary}")
    condition = f"training windows start anywhere (here 0 to {STARTS - 1:,}), not always at 0"
    anywhere = holds("any window")
    return decided(anywhere and holds("fixed window"), summary, refuted=not anywhere, condition=condition)


@STUDY.claim("W = M_3 makes a head attend to distance 3")
def judge_enough(findings: Findings) -> Verdict:
    """Confirmed if the target gets half of the attention at scores / sqrt(d), conditional if it has only the
    largest score.
    """
    right, attention = findings.mean("M_3", "inside"), findings.mean("M_3", "mass")
    summary = f"the largest score is 3 back in {100 * right:.0f} % of rows, and gets "
    summary += f"{100 * attention:.1f} % of the attention at scores / sqrt(d)"
    condition = f"W is M_3 times a large factor; at factor 1 the target gets {100 * attention:.1f} %"
    return decided(right == 1 and attention >= 0.5, summary, refuted=right != 1, condition=condition)


@STUDY.claim("A head whose M_k is near the identity ignores position", source="003, learning, 3")
def judge_identity(findings: Findings) -> Verdict:
    """Refuted if a position's own score is the largest in more rows than twice chance."""
    share = findings.mean("identity", "self")
    summary = f"with W = 1 a position's largest score is its own in {100 * share:.0f} % of rows"
    return decided(share <= 2 / WINDOW, summary)


@STUDY.draws
def draw(findings: Findings) -> Figure:
    figure, (*left, right) = panels(1, 1, 1, 1.5, size=(12.5, 3.2))
    images = {
        "$M_3$" if variant == "M_3" else f"W, {variant}": findings.curve(variant, "weights")[0]
        for variant in ("M_3", *TRAINED)
    }
    maps(figure, left, images, of="weight / largest", x="channel of j", y="channel of i", vmin=-1, vmax=1)
    hits = {
        variant: 100 * np.array([findings.values(variant, name) for name in TESTS]).T for variant in TRAINED
    }
    lines(right, ["0-63", "64-255", "past 5,000"], hits)
    right.axhline(100 / WINDOW, color="black", ls=":", lw=1, label="chance")
    right.set(xlabel="positions of the test windows", ylabel="targets found (%)")
    right.set(xlim=(-0.3, 2.3), ylim=(0, 105), title=f"mean and range of {len(hits['any window'])} seeds")
    right.legend()
    return figure
