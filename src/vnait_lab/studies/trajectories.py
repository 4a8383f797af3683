"""Extrapolating a path with weights of absolute or relative time.

The prediction is the average of a path's 21 states with weights softmax(l_j). Relative: l_j = -a (i - j).
Absolute: l_j = t_i t_j / lambda, t = t0 + index. But t_i t_j / lambda = t_i^2 / lambda - (t_i / lambda)(i -
j), and the softmax cancels the first term: absolute time is relative time with the slope t_i / lambda, which
grows with t0. An average of past states lies among them, whereas a moving path has left them: averages of
steps are needed to extrapolate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import torch
from torch import Tensor

from vnait.positions.encodings import CableBias
from vnait.results.colours import COLOURS
from vnait_lab.kit import Figure, decided
from vnait_lab.studies.figures import lines, panels
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

STATES = 21
STARTS = (0, 1, 5, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 100_000, 1_000_000)
FAR = STARTS.index(5000)
SPEED, ACCELERATION = 1.0, 0.1
SLOPES = {"relative, a=0.5": 0.5, "relative, a=1": 1.0, "relative, a=5": 5.0}
LAMBDAS = {"absolute, lambda=100": 100.0, "absolute, lambda=10,000": 10_000.0}
GROWING = "absolute, lambda=t^2"
STEPS = {"steps, a=1": 1, "steps of steps, a=1": 2}
STUDY = Study.of(
    __name__,
    source="004, trajectories",
    data=f"paths of {STATES} states at constant speed ({SPEED:g} a step) and acceleration ({ACCELERATION:g})",
    measure="error of the next state, entropy of the weights over its maximum, float64",
    smallest="exactly 0 for a shift; 1e-9 for an exact guess",
    variants={
        **{variant: f"weights softmax(-{slope:g} (i - j)) of states" for variant, slope in SLOPES.items()},
        **{variant: f"weights softmax(t_i t_j / {scale:g}) of states" for variant, scale in LAMBDAS.items()},
        GROWING: "weights softmax(t_j / t_i) of states",
        "steps, a=1": "the last state and weights softmax(-(i - j)) of steps",
        "steps of steps, a=1": "the last state, the last step and weights softmax(-(i - j)) of steps' "
        "differences",
        "uniform": "the plain average of states",
        "last state": "weight 1 for the last",
    },
)


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    shares = weights(variant)
    entropy = -torch.special.xlogy(shares, shares).sum(1) / math.log(shares.shape[1])
    time = torch.arange(STATES + 1, dtype=torch.float64)
    paths = {"velocity": SPEED * time, "acceleration": ACCELERATION * time**2 / 2}
    errors = {name: path[-1] - guesses(path, shares) for name, path in paths.items()}
    shift = float((errors["velocity"] - errors["velocity"][0]).abs().max())
    sizes = {name: error.abs().tolist() for name, error in errors.items()}
    return {"shift_error": shift, "entropy": entropy.tolist(), **sizes}


def weights(variant: str) -> Tensor:
    """The weight of every state (or step) for each start: (starts, states), float64."""
    time = torch.tensor(STARTS, dtype=torch.float64)[:, None] + torch.arange(STATES)
    now = time[:, -1:]
    if variant in SLOPES or variant in STEPS:
        return relative(time[:, STEPS.get(variant, 0) :], SLOPES.get(variant, 1.0)).softmax(1)
    if variant in LAMBDAS or variant == GROWING:
        return (now * time / (now**2 if variant == GROWING else LAMBDAS[variant])).softmax(1)
    return (time == now).double() if variant == "last state" else torch.full_like(time, 1 / STATES)


def relative(time: Tensor, slope: float) -> Tensor:
    """The scores -slope * (i - j) of the last query, (starts, states)."""
    decay = CableBias(num_heads=1).double()
    decay.load_state_dict({"log_slope": torch.tensor([slope]).double().log()})
    with torch.no_grad():
        bias = decay(time[..., None]).dense().bias
    assert bias is not None
    return bias[:, 0, -1]


def guesses(path: Tensor, weights: Tensor) -> Tensor:
    """The next state predicted by each row of weights; their number decides whether they average states,
    steps, or steps of steps.
    """
    states, level = path[:-1], torch.zeros(())
    while len(states) > weights.shape[1]:
        states, level = states.diff(), level + states[-1]
    return (weights * states).sum(1) + level  # a matrix product may sum rows in different orders


@STUDY.control(
    "with absolute time another start changes the guess by .1 or more",
    variant="absolute, lambda=100",
    mechanism="relative, a=1",
)
def absolute_moves(findings: Findings) -> bool:
    return findings.least("absolute, lambda=100", "shift_error") >= 0.1


@STUDY.claim("With relative weights the guess is the same from t0=0 as from t0=500")
def judge_shift(findings: Findings) -> Verdict:
    """Confirmed if no start changes the guess at all, at any slope."""
    worst = max(findings.most(variant, "shift_error") for variant in SLOPES)
    absolute = min(findings.least(variant, "shift_error") for variant in LAMBDAS)
    summary = f"guesses from t0=0 to {STARTS[-1]:,} differ by {worst:.1g}, "
    summary += f"with absolute time by at least {absolute:.1f}"
    return decided(worst == 0, summary)


@STUDY.claim(
    "With t_i t_j/lambda the weights tend to uniform at large absolute times, and the guess to the plain "
    "average",
    rule=f"confirmed if their entropy at t0={STARTS[FAR]:,} is above that at 0 for every constant lambda",
)
def judge_uniform(findings: Findings) -> Verdict:
    entropy = {variant: findings.curve(variant, "entropy")[0] for variant in (*LAMBDAS, GROWING)}
    shown = ", ".join(
        f"{curve[0]:.3f} and {curve[FAR]:.3f} ({variant[10:]})" for variant, curve in entropy.items()
    )
    errors = [findings.curve(variant, "velocity")[0] for variant in LAMBDAS]
    wrong = ", ".join(f"{curve[0]:.2f} and {curve[FAR]:.2f}" for curve in errors)
    summary = f"entropy / log {STATES} at t0=0 and {STARTS[FAR]:,}: {shown}; error at constant lambda {wrong}"
    return judged([entropy[variant][FAR] > entropy[variant][0] for variant in LAMBDAS], summary, "on lambda")


@STUDY.claim("Relative weights are an effective rule for extrapolating constant speed")
def judge_extrapolates(findings: Findings) -> Verdict:
    """Confirmed if the error at some slope is smaller than that of the last state alone."""
    last = findings.curve("last state", "velocity")[0][0]
    errors = {slope: findings.curve(variant, "velocity")[0][0] for variant, slope in SLOPES.items()}
    apart = max(abs(error * -math.expm1(-slope) / SPEED - 1) for slope, error in errors.items())
    shown = ", ".join(f"{error:.3f} (a={slope:g})" for slope, error in errors.items())
    summary = f"error {shown}, equal to v/(1 - e^-a) within {100 * apart:.2g} %; "
    summary += f"of the last state alone {last:.3f}"
    return decided(min(errors.values()) < last, summary)


@STUDY.claim("The best rules are linear (constant speed) and quadratic (constant acceleration) extrapolation")
def judge_steps(findings: Findings) -> Verdict:
    """Confirmed if averages of steps, and of steps of steps, are exact to 1e-9 from every start."""
    speed, left = (findings.curve("steps, a=1", metric)[0].max() for metric in ("velocity", "acceleration"))
    second = findings.curve("steps of steps, a=1", "acceleration")[0].max()
    summary = f"largest error of averaged steps {speed:.1g}, under acceleration {left:.3f}; "
    summary += f"of steps of steps under acceleration {second:.1g}"
    return decided(max(speed, second) <= 1e-9, summary)


@STUDY.claim("Relative weights extrapolate better than absolute ones")
def judge_better(findings: Findings) -> Verdict:
    """Confirmed if their error is smaller for every slope, lambda and t0; conditional if for some."""
    less, agree = [], []
    for (sloped, slope), (scaled, scale) in product(SLOPES.items(), LAMBDAS.items()):
        better = findings.curve(sloped, "velocity")[0] < findings.curve(scaled, "velocity")[0]
        less.extend(better)
        agree.extend(better == [slope > (start + STATES - 1) / scale for start in STARTS])
    summary = f"smaller error in {sum(less)} of {len(less)} cells of a, lambda and t0; a > t_i/lambda "
    summary += f"predicts this in {sum(agree)}"
    return judged(less, summary, "a > t_i/lambda" if all(agree) else "on a, lambda and t0")


def judged(flags: Sequence[bool], summary: str, condition: str) -> Verdict:
    return decided(all(flags), summary, refuted=not any(flags), condition=condition)


@STUDY.draws
def draw(findings: Findings) -> Figure:
    figure, (left, right) = panels(1, 1, size=(9, 3.4))
    moving = (*LAMBDAS, GROWING)
    lines(left, STARTS, findings.curves(moving, "entropy"))
    lines(right, STARTS, findings.curves(moving, "velocity"))
    colours = [*COLOURS[len(moving) :], "black"]  # one for each line
    right.set_prop_cycle(color=colours, ls=[":", "-.", (0, (5, 2)), (0, (1, 4)), "--", "-"])
    still = (*SLOPES, "uniform", "last state", "steps, a=1")
    lines(right, STARTS, findings.curves(still, "velocity"), marker="")
    for axes in (left, right):
        axes.set(xscale="symlog", xlim=(0, STARTS[-1]), xlabel="absolute time of the first state, t0 (steps)")
    left.set(ylabel=f"entropy of the weights / log {STATES}", title="exact, no sampling")
    right.set(ylabel="error at constant speed (steps)", title=f"one path of {STATES} states")
    figure.legend(*right.get_legend_handles_labels(), loc="outside right center", frameon=False)
    return figure
