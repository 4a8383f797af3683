"""Policies that do not depend on the time.

The right action depends on the state and the one before it, not on the time. A relative bias and RoPE use
differences of times alone, so relabelling a whole episode changes nothing. But "the same wherever it appears"
is stronger: a part of an episode attends to the states before it, and only a window of w states in L layers
ends their influence, after (w - 1) L states.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Generator, Tensor
from torch.nn import functional as F

from vnait.positions.coordinates import Index
from vnait.positions.encodings import ShawBias
from vnait.positions.method import Method
from vnait.results.colours import COLOURS
from vnait_lab.kit import Figure, Lines, Panel, Reader, decided, descend, figure
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

STATES, EPISODE, BATCH, TESTED = 8, 40, 16, 400
STARTS, SHIFTS = (0, 25, 60, 200, 1500), (1, 100, 1000)
PREFIX, WINDOW, LAYERS, HEADS = 20, 4, 2, 2
REACH = (WINDOW - 1) * LAYERS
MOVED = ", moved"
DIFFERENCES, ABSOLUTE = ("relative", "rope"), ("sinusoidal", "learned")
VARIANTS = {
    "relative": "a learned bias b[j - i] per head",
    "rope": "queries and keys turned by their times",
    "none": "no times",
    "sinusoidal": "a sinusoidal code of the time is added",
    "learned": "a learned vector of the time is added",
    "sinusoidal, moved": "the same as sinusoidal; each training step begins at a random time",
    "learned, moved": "the same as learned; each training step begins at a random time",
}
ONE_START = "every episode of training starts at the same time"
STUDY = Study.of(
    __name__,
    source="004, time invariance",
    data=f"generated episodes of {EPISODE} states, {STATES} different ones; the right action: is this state "
    "above the one before?",
    measure="right actions by the time of the first state; change of logits under a shift of time, as a "
    "share of their variance",
    smallest="exactly 0 for a relative bias; 1 % of the variance and 10 points of accuracy for the others",
    variants=VARIANTS,
    full=Budget(seeds=5, steps=400),
    quick=Budget(seeds=3, steps=200),
)


def policy(variant: str, seed: int) -> Reader:
    torch.manual_seed(seed)
    bias = Method(coordinates=Index(), encoding=ShawBias(num_heads=HEADS, max_distance=EPISODE))
    variant = variant.removesuffix(MOVED)
    sizes: Any = {"dim": 32, "num_heads": HEADS, "num_layers": LAYERS, "max_length": STARTS[-1] + EPISODE}
    return Reader(
        bias if variant == "relative" else variant, vocabulary=STATES, outputs=2, causal=True, **sizes
    )


def act(model: Reader, states: Tensor, *, start: int = 0, step: int = 1, window: int = EPISODE) -> Tensor:
    """Logits of the actions (B, T, 2) at times start, start + step, ...; a state sees itself and the
    window - 1 states before it.
    """
    index = torch.arange(states.shape[1])
    injection = model.method.encoding((start + step * index).float()[None, :, None])
    injection = injection.rows(torch.zeros(len(states)).long())  # the same for every episode
    back = index[:, None] - index
    mask = ((back >= 0) & (back < window)).expand(len(states), -1, -1)
    x = model.method.inputs(model.vectors(states), injection.added)
    return model.read(model.encoder(x, injection, mask))


def right_actions(states: Tensor) -> Tensor:
    """From the second state on: 1 if the state is above the one before, else 0."""
    return (states[:, 1:] > states[:, :-1]).long()


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    random = Generator().manual_seed(seed)
    model = policy(variant, seed)

    def loss(step: int) -> Tensor:
        states = torch.randint(STATES, (BATCH, EPISODE), generator=random)
        start = 0
        if variant.endswith(MOVED):
            start = int(torch.randint(STARTS[-1] + 1, (), generator=random))
        logits = act(model, states, start=start)[:, 1:]
        return F.cross_entropy(logits.flatten(0, 1), right_actions(states).flatten())

    descend(model.parameters(), loss, steps=budget.steps, learning_rate=6e-3)
    return measured(model.eval(), torch.randint(STATES, (TESTED, EPISODE), generator=random))


@torch.no_grad()
def measured(model: Reader, states: Tensor) -> Metrics:
    """Accuracy of actions by the time of the first state; changes of logits as shares of their variance."""
    plain, right = act(model, states), right_actions(states)
    logits = torch.stack([act(model, states, start=start) for start in STARTS])
    scores = (logits[:, :, 1:].argmax(-1) == right).double().mean((1, 2)).tolist()

    def change(left: Tensor, right: Tensor) -> Tensor:
        return (left - right).square().mean((0, 2)) / plain.var()

    def moved(window: int) -> Tensor:
        whole = act(model, states, window=window)[:, PREFIX:]
        return change(whole, act(model, states[:, PREFIX:], window=window))

    return {
        "accuracy": scores[0],
        "late": scores[STARTS.index(200)],
        "scores": scores,
        "shifts": [change(act(model, states, start=shift), plain).mean().item() for shift in SHIFTS],
        "timeless": change(act(model, states, step=0), plain).mean().item(),
        "part": moved(EPISODE).mean().item(),
        "by_state": moved(WINDOW).tolist(),
    }


@STUDY.control(
    "without times a policy takes less than 85 % right actions", variant="none", mechanism="relative"
)
def timeless_fails(findings: Findings) -> bool:
    return findings.mean("none", "accuracy") < 0.85


@STUDY.claim("With a relative bias a global shift of time changes nothing: the mean squared error is 0")
def judge_invariant(findings: Findings) -> Verdict:
    """Confirmed if no logit changes in any seed, and logits change by at least 1 % of their variance without
    distances.
    """
    shift, rope = (findings.curve(variant, "shifts").max() for variant in DIFFERENCES)
    timeless = findings.least("relative", "timeless")
    summary = f"largest change {shift:.1g} of the variance (RoPE {rope:.0e}); "
    summary += f"without distances at least {timeless:.2f}"
    return decided(shift == 0 and timeless >= 0.01, summary)


@STUDY.claim("With absolute encodings a global shift changes outputs markedly")
def judge_absolute(findings: Findings) -> Verdict:
    """Confirmed if shifts by 100 and by 1000 change logits by at least 10 % of their variance, for both, in
    every seed, and if training began at random times, too; conditional if not then.
    """
    variants = (*ABSOLUTE, *(variant + MOVED for variant in ABSOLUTE))
    least = {variant: findings.curve(variant, "shifts").min(0) for variant in variants}
    summary = f"least change by shifts of {SHIFTS}, of the variance: "
    summary += "; ".join(
        f"{variant}: {', '.join(f'{share:.3f}' for share in least[variant])}" for variant in variants
    )
    changed = {variant: shares[1:].min() >= 0.1 for variant, shares in least.items()}
    fixed = all(changed[variant] for variant in ABSOLUTE)
    return decided(all(changed.values()), summary, refuted=not fixed, condition=ONE_START)


@STUDY.claim(
    "Absolute encodings learn policies that depend on the hour and generalise worse; differences of times "
    "avoid it"
)
def judge_policy(findings: Findings) -> Verdict:
    """Confirmed if both lose at least 10 points with a start at 200, if training began at random times, too,
    and bias and RoPE reach 95 % and vary by at most a point over starts; conditional if not at random times.
    """
    moved = [variant + MOVED for variant in ABSOLUTE]
    lost, still = (
        min(findings.mean(variant, "accuracy") - findings.mean(variant, "late") for variant in variants)
        for variants in (ABSOLUTE, moved)
    )
    learned = min(findings.mean(variant, "accuracy") for variant in DIFFERENCES) >= 0.95
    spread = max(np.ptp(findings.curve(variant, "scores"), axis=1).max() for variant in DIFFERENCES)
    summary = "; ".join(
        f"{variant} {percent(findings, variant, 'accuracy')}, at 200 {percent(findings, variant, 'late')}"
        for variant in (*DIFFERENCES, *ABSOLUTE, *moved)
    )
    holds = bool(lost >= 0.1 and spread <= 0.01 and learned)
    return decided(holds and still >= 0.1, summary, refuted=not holds, condition=ONE_START)


@STUDY.claim("Wherever a part appears in the trajectory, the model treats it alike")
def judge_part(findings: Findings) -> Verdict:
    """Confirmed if other states before it change nothing; conditional if they change nothing past the reach
    of the windows.
    """
    moved, shift = findings.mean("relative", "part"), findings.curve("relative", "shifts").max()
    by_state = findings.curve("relative", "by_state")
    within, beyond = by_state[:, :REACH].max(), by_state[:, REACH:].max()
    summary = f"{PREFIX} other states before a part change its logits by {moved:.2f} of the variance; with a "
    summary += f"window of {WINDOW} in {LAYERS} layers by up to {within:.2f} in its first {REACH} states, "
    summary += f"by {beyond:.0e} after them"
    condition = f"the states before it move along, or are at least {REACH} states away, past the windows"
    refuted = max(shift, beyond) >= 1e-10
    return decided(moved < 1e-10, summary, refuted=refuted, condition=condition)


def percent(findings: Findings, variant: str, metric: str) -> str:
    """The mean in percent, with its 95 % interval if there are enough seeds."""
    return findings.interval(variant, metric).times(100).written("{:.1f}", " %")


@STUDY.draws
def draw(findings: Findings) -> Figure:
    scores, starts = findings.curves(VARIANTS, "scores"), [str(start) for start in STARTS]
    first = "time of the first state (steps), not to scale"
    left = Lines(starts, scores, first, "right actions (%)", percent=True, legend="right")

    def by_state(axes: Axes) -> None:
        for curve in findings.curve("relative", "by_state"):
            axes.semilogy(range(EPISODE - PREFIX), curve.clip(1e-17), "-o", color=COLOURS[0], lw=0.8)
        axes.set_ylabel("change after other states\n(share of the logits' variance)")
        axes.set_xlabel(f"state of the part; dotted: reach of {LAYERS} windows of {WINDOW}")

    return figure(left, Panel(by_state, "relative, one line per seed", at_x=REACH - 0.5))
