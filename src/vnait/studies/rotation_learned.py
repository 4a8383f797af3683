"""Does training turn W_Q W_K^T into M_3, the rotation by three places?

Position i should attend to i - 3; the score of i and j is PE_i^T W PE_j. With W = M_3 it is PE_i . PE_{j+3}, largest at j = i - 3. But
on the positions of one window many other W have their largest score there, and training finds one of those. Only where the window
starts anywhere must W commute with every rotation: then it is blocks of rotations, each with an amplitude of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor
from torch.nn import functional as F

from vnait.studies.figures import lines, maps, panels
from vnait.studies.parts.training import descend
from vnait.studies.sinusoid import codes, rotation
from vnait.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

WIDTH, WINDOW, BACK = 32, 64, 3
STARTS = 10_000  # of windows in training, where they start anywhere
TESTS = {"inside": (0,), "next": (64, 128, 192), "far": (5_000, 10_000, 15_000)}
ARMS = {
    "M_3": "W = M_3, built from its definition",
    "transposed": "W = M_3^T",
    "identity": "W = 1",
    "untrained": "a random W",
    "fixed window": f"W trained on positions 0 to {WINDOW - 1}",
    "any window": f"W trained on windows that start at 0 to {STARTS - 1:,}",
}
TRAINED = ("fixed window", "any window")


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    weight = weights(arm, seed, budget).double()
    hits = {name: float(np.mean([hit(weight, start, BACK) for start in starts])) for name, starts in TESTS.items()}
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


def weights(arm: str, seed: int, budget: Budget) -> Tensor:
    built = {"M_3": rotation(BACK, WIDTH), "transposed": rotation(BACK, WIDTH).T, "identity": torch.eye(WIDTH)}
    if arm in built:
        return built[arm]
    random = Generator().manual_seed(seed)
    weight = torch.randn(WIDTH, WIDTH, generator=random).div(WIDTH).requires_grad_()
    if arm in TRAINED:
        last, windows = (STARTS, 4) if arm == "any window" else (1, 1)
        table = codes(torch.arange(last + WINDOW), WIDTH).float()
        wanted = torch.arange(WINDOW - BACK).repeat(windows)

        def loss(step: int) -> Tensor:
            code = table[torch.randint(last, (windows, 1), generator=random) + torch.arange(WINDOW)]
            return F.cross_entropy((code[:, BACK:] @ weight @ code.mT).flatten(0, 1), wanted)

        descend([weight], loss, steps=budget.steps, learning_rate=2e-2, weight_decay=0.1)
    return weight.detach()


def scores(weight: Tensor, start: int) -> Tensor:
    code = codes(torch.arange(start, start + WINDOW), WIDTH)
    return code @ weight.double() @ code.T


def hit(weight: Tensor, start: int, back: int) -> float:
    """The share of rows, of those that have it, whose largest score is `back` places before."""
    row = torch.arange(max(back, 0), WINDOW + min(back, 0))
    return float((scores(weight, start)[row].argmax(1) == row - back).double().mean())


def mass(weight: Tensor) -> float:
    """The attention that the right place gets, at scores / sqrt(d)."""
    row = torch.arange(BACK, WINDOW)
    return float((scores(weight, 0) / WIDTH**0.5).softmax(-1)[row, row - BACK].mean())


def turning(weight: Tensor) -> float:
    """The share of W's energy in what commutes with every M_k: diagonal 2 x 2 blocks of the form [[a, b], [-b, a]]."""
    blocks = weight.unflatten(0, (-1, 2)).unflatten(2, (-1, 2)).diagonal(dim1=0, dim2=2)  # (2, 2, d/2)
    a, b = (blocks[0, 0] + blocks[1, 1]) / 2, (blocks[0, 1] - blocks[1, 0]) / 2
    return float(2 * (a.square() + b.square()).sum() / weight.square().sum())


def said_of(found: Findings, metric: str, times: float = 100, unit: str = " %", digits: int = 0) -> str:
    """A metric of both trained arms, with the 95 % interval where there are three seeds."""
    parts = []
    for arm in TRAINED:
        mean, low, high = found.interval(arm, metric)
        bounds = "" if low is None or high is None else f" ({times * low:.{digits}f} to {times * high:.{digits}f})"
        parts.append(f"{arm} {times * mean:.{digits}f}{unit}{bounds}")
    return ", ".join(parts)


@claim("Training makes W_Q W_K^T into M_3", source="003, learning, 2.3")
def judge_becomes(found: Findings) -> Verdict:
    """Confirmed where W and M_3 have a cosine of .9 or more in both trainings, conditional where in one."""
    said = "cosine of W and M_3: " + said_of(found, "cosine", 1, "", 2)
    said += f"; of the identity and M_3: {found.mean('identity', 'cosine'):.2f}"
    close = [arm for arm in TRAINED if found.mean(arm, "cosine") >= 0.9]
    return Verdict.among(close, TRAINED, said, f"trained on a {', '.join(close)}")


@claim("W_Q and W_K find the pattern of rotations by themselves", source="003, learning, 4")
def judge_pattern(found: Findings) -> Verdict:
    """Confirmed where 95 % of W's energy is in 2 x 2 rotations, conditional where only training on any window does it."""
    said = "energy of W in 2 x 2 rotations: " + said_of(found, "turning")
    said += f"; untrained {100 * found.mean('untrained', 'turning'):.0f} %"
    return by_window(said, found, lambda arm: found.least(arm, "turning") >= 0.95)


@claim("What is learned of 'distance 3' holds at every position", source="003, learning, 1")
def judge_elsewhere(found: Findings) -> Verdict:
    """Confirmed where 90 % are right outside of the window trained on, conditional where only training on any window does it."""
    places = {"inside": "at 0-63", "next": "at 64-255", "far": "past 5,000"}
    said = "; ".join(f"right {where}: {said_of(found, metric)}" for metric, where in places.items())
    return by_window(said, found, lambda arm: found.least(arm, "next") >= 0.9 and found.least(arm, "far") >= 0.9)


def by_window(said: str, found: Findings, holds: Callable[[str], bool]) -> Verdict:
    if min(found.least(arm, "inside") for arm in TRAINED) < 0.99:
        return Verdict("undecided", f"not learned: {said}")
    if not holds("any window"):
        return Verdict("refuted", said)
    if holds("fixed window"):
        return Verdict("confirmed", said)
    return Verdict("conditional", said, f"training windows start anywhere (here 0 to {STARTS - 1:,}), not always at 0")


@claim("W = M_3 makes a head attend to distance 3", source="003, learning, 2.3")
def judge_enough(found: Findings) -> Verdict:
    """Confirmed where the target has half of the attention at 1/sqrt(d), conditional where it has only the largest score."""
    right, attention = found.mean("M_3", "inside"), found.mean("M_3", "mass")
    said = f"the largest score is 3 back in {100 * right:.0f} % of rows, and gets {100 * attention:.1f} % of the attention at 1/sqrt(d)"
    if right == 1 and attention < 0.5:
        condition = f"W is M_3 times a large factor; at 1 the target has {100 * attention:.1f} % of the attention"
        return Verdict("conditional", said, condition)
    return Verdict("confirmed" if right == 1 else "refuted", said)


@claim("A head whose M_k is near the identity ignores position", source="003, learning, 3")
def judge_identity(found: Findings) -> Verdict:
    """Refuted where a position's own score is the largest in more rows than twice chance."""
    own = found.mean("identity", "self")
    said = f"with W = 1 a position's largest score is its own in {100 * own:.0f} % of rows"
    return Verdict("refuted" if own > 2 / WINDOW else "confirmed", said)


def draw(found: Findings) -> Figure:
    figure, (*left, right) = panels(1, 1, 1, 1.5, size=(12.5, 3.2))
    images = {"$M_3$" if arm == "M_3" else f"W, {arm}": found.curve(arm, "weights")[0] for arm in ("M_3", *TRAINED)}
    maps(figure, left, images, of="weight / largest", x="channel of j", y="channel of i", vmin=-1, vmax=1)
    hits = {arm: 100 * np.array([found.values(arm, name) for name in TESTS]).T for arm in TRAINED}
    lines(right, ["0-63", "64-255", "past 5,000"], hits)
    right.axhline(100 / WINDOW, color="black", ls=":", lw=1, label="chance")
    right.set(xlabel="positions of the test windows", ylabel="right places (%)", ylim=(0, 105), xlim=(-0.3, 2.3))
    right.set(title=f"mean and range of {len(hits['any window'])} seeds")
    right.legend()
    return figure


STUDY = Study(
    name="rotation_learned",
    subject="Does training turn W_Q W_K^T into M_3?",
    data=f"sinusoidal codes of width {WIDTH}, windows of {WINDOW} positions; target: {BACK} places back",
    measure="right places on windows in and out of training; cosine of W and M_3; share of W's energy in 2 x 2 rotations",
    smallest="10 points of accuracy; a cosine of .9 for 'is M_3'",
    arms=ARMS,
    controls=[
        Control(
            says="the transposed M_3 looks ahead, and never 3 back",
            arm="transposed",
            mechanism="M_3",
            fails=lambda found: found.most("transposed", "inside") <= 0.05,
        ),
        Control(
            says="an untrained W is right in 10 % of the rows at most",
            arm="untrained",
            mechanism="any window",
            fails=lambda found: found.most("untrained", "inside") <= 0.1,
        ),
    ],
    claims=[judge_becomes, judge_pattern, judge_elsewhere, judge_enough, judge_identity],
    full=Budget(seeds=5, steps=2_000),
    quick=Budget(seeds=3, steps=1_000),
    run=run,
    draw=draw,
)
