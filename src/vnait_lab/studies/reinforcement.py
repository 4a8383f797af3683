"""Time invariance of a policy: the effect of a global shift of time.

The right action depends on the state and the one before it, not on the time. A relative bias and RoPE use
differences of times alone, so relabelling a whole episode changes nothing. But "the same wherever it appears"
is stronger: a part of an episode attends to the states before it, and only a window of w states in L layers
ends their influence, after (w - 1) L states.
"""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor
from torch.nn import functional as F

from vnait.positions.coordinates import Index
from vnait.positions.encodings import ShawBias
from vnait.positions.method import Method
from vnait.results.colours import COLOURS
from vnait_lab.studies.figures import lines, panels
from vnait_lab.studies.parts.training import Reader, descend
from vnait_lab.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

STATES, EPISODE, BATCH, TESTED = 8, 40, 16, 400
STARTS, SHIFTS = (0, 25, 60, 200, 1500), (1, 100, 1000)
PREFIX, WINDOW, LAYERS, HEADS = 20, 4, 2, 2
REACH = (WINDOW - 1) * LAYERS
DIFFERENCES, ABSOLUTE = ("relative", "rope"), ("sinusoidal", "learned")
ARMS = {
    "relative": "a learned bias b[j - i] per head",
    "rope": "queries and keys turned by their times",
    "none": "no times",
    "sinusoidal": "a sinusoidal code of the time is added",
    "learned": "a learned vector of the time is added",
}


def policy(arm: str, seed: int) -> Reader:
    torch.manual_seed(seed)
    bias = Method(coordinates=Index(), encoding=ShawBias(num_heads=HEADS, max_distance=EPISODE))
    sizes = {"dim": 32, "num_heads": HEADS, "num_layers": LAYERS, "max_length": STARTS[-1] + EPISODE}
    return Reader(bias if arm == "relative" else arm, vocabulary=STATES, outputs=2, causal=True, **sizes)


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


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    random = Generator().manual_seed(seed)
    model = policy(arm, seed)

    def loss(step: int) -> Tensor:
        states = torch.randint(STATES, (BATCH, EPISODE), generator=random)
        return F.cross_entropy(act(model, states)[:, 1:].flatten(0, 1), right_actions(states).flatten())

    descend(model.parameters(), loss, steps=budget.steps, learning_rate=6e-3)
    return measured(model.eval(), torch.randint(STATES, (TESTED, EPISODE), generator=random))


@torch.no_grad()
def measured(model: Reader, states: Tensor) -> Metrics:
    """Accuracy of actions by the time of the first state; changes of logits as shares of their variance."""
    plain, right = act(model, states), right_actions(states)
    logits = torch.stack([act(model, states, start=start) for start in STARTS])
    scores = (logits[:, :, 1:].argmax(-1) == right).double().mean((1, 2)).tolist()

    def change(one: Tensor, other: Tensor) -> Tensor:
        return (one - other).square().mean((0, 2)) / plain.var()

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


@claim(
    "With a relative bias a global shift of time changes nothing: the mean squared error is 0",
    source="004, time invariance",
)
def judge_invariant(found: Findings) -> Verdict:
    """Confirmed if no logit changes in any seed, and logits change by at least 1 % of their variance without
    distances.
    """
    shift, rope = (found.curve(arm, "shifts").max() for arm in DIFFERENCES)
    timeless = found.least("relative", "timeless")
    summary = f"largest change {shift:.1g} of the variance (RoPE {rope:.0e}); "
    summary += f"without distances at least {timeless:.2f}"
    return Verdict("confirmed" if shift == 0 and timeless >= 0.01 else "refuted", summary)


@claim("With absolute encodings a global shift changes outputs markedly", source="004, time invariance")
def judge_absolute(found: Findings) -> Verdict:
    """Confirmed if shifts by 100 and by 1000 change logits by at least 1 % of their variance, for both and in
    every seed.
    """
    least = {arm: found.curve(arm, "shifts").min(0) for arm in ABSOLUTE}
    summary = f"least change by shifts of {SHIFTS}, of the variance: "
    summary += "; ".join(f"{arm}: {', '.join(f'{share:.3f}' for share in least[arm])}" for arm in ABSOLUTE)
    marked = all(shares[1:].min() >= 0.01 for shares in least.values())
    return Verdict("confirmed" if marked else "refuted", summary)


@claim(
    "Absolute encodings learn policies that depend on the hour and generalise worse; differences of times "
    "avoid it",
    source="004, time invariance",
)
def judge_policy(found: Findings) -> Verdict:
    """Confirmed if both lose at least 10 points with a start at 200, and bias and RoPE reach 95 % and vary by
    at most a point over starts.
    """
    lost = [found.mean(arm, "accuracy") - found.mean(arm, "late") for arm in ABSOLUTE]
    learned = min(found.mean(arm, "accuracy") for arm in DIFFERENCES) >= 0.95
    spread = max(np.ptp(found.curve(arm, "scores"), axis=1).max() for arm in DIFFERENCES)
    shown = {
        arm: [percent(found, arm, when) for when in ("accuracy", "late")] for arm in (*DIFFERENCES, *ABSOLUTE)
    }
    summary = "; ".join(f"{arm} {first}, at 200 {late}" for arm, (first, late) in shown.items())
    return Verdict("confirmed" if min(lost) >= 0.1 and spread <= 0.01 and learned else "refuted", summary)


@claim("Wherever a part appears in the trajectory, the model treats it alike", source="004, time invariance")
def judge_part(found: Findings) -> Verdict:
    """Confirmed if other states before it change nothing; conditional if they change nothing past the reach
    of the windows.
    """
    moved, shift = found.mean("relative", "part"), found.curve("relative", "shifts").max()
    within, beyond = (part.max() for part in np.split(found.curve("relative", "by_state"), [REACH], axis=1))
    summary = f"{PREFIX} other states before a part change its logits by {moved:.2f} of the variance; with a "
    summary += f"window of {WINDOW} in {LAYERS} layers by up to {within:.2f} in its first {REACH} states, "
    summary += f"by {beyond:.0e} after them"
    if moved < 1e-10:
        return Verdict("confirmed", summary)
    if max(shift, beyond) >= 1e-10:
        return Verdict("refuted", summary)
    condition = f"the states before it move along, or are at least {REACH} states away, past the windows"
    return Verdict("conditional", summary, condition)


def percent(found: Findings, arm: str, metric: str) -> str:
    """The mean in percent, with its 95 % interval if there are enough seeds."""
    return found.interval(arm, metric).times(100).written("{:.1f}", " %")


def draw(found: Findings) -> Figure:
    figure, (left, right) = panels(1, 1, size=(9, 3.2))
    lines(left, [f"{start}" for start in STARTS], {arm: 100 * found.curve(arm, "scores") for arm in ARMS})
    left.set(xlabel="time of the first state (steps), not to scale", ylabel="right actions (%)")
    left.set(title=f"mean and range of {len(found.values('rope', 'scores'))} seeds")
    for curve in found.curve("relative", "by_state"):
        right.semilogy(range(EPISODE - PREFIX), curve.clip(1e-17), "-o", color=COLOURS[0], lw=0.8)
    right.axvline(REACH - 0.5, color="gray", ls="--", lw=1)
    right.set_title("relative, one line per seed")
    right.set_ylabel("change after other states\n(share of the logits' variance)")
    right.set_xlabel(f"state of the part; dashed: reach of {LAYERS} windows of {WINDOW}")
    figure.legend(*left.get_legend_handles_labels(), loc="outside right center", frameon=False)
    return figure


STUDY = Study(
    name="reinforcement",
    subject="Policies that do not depend on the time",
    data=f"generated episodes of {EPISODE} states, {STATES} different ones; the right action: is this state "
    "above the one before?",
    measure="right actions by the time of the first state; change of logits under a shift of time, as a "
    "share of their variance",
    smallest="exactly 0 for a relative bias; 1 % of the variance and 10 points of accuracy for the others",
    arms=ARMS,
    controls=[
        Control(
            statement="without times a policy takes less than 85 % right actions",
            arm="none",
            mechanism="relative",
            fails=lambda found: found.mean("none", "accuracy") < 0.85,
        )
    ],
    claims=[judge_invariant, judge_absolute, judge_policy, judge_part],
    full=Budget(seeds=5, steps=400),
    quick=Budget(seeds=3, steps=200),
    run=run,
    draw=draw,
)
