"""Position through the layers: a ridge regression of the position on the states of a language model.

An added code stays in the residual stream until blocks overwrite it. Whether attention passes it on is a
separate question, so attention's outputs are probed as well. Rotated queries and biased scores put no
position into the states. A causal mask does: the average of the preceding tokens depends on their number.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor

from vnait.positions.attention import Attention
from vnait_lab.studies.figures import lines, panels
from vnait_lab.studies.parts.letters import METHODS, TRAINED, text, trained
from vnait_lab.studies.parts.training import Reader
from vnait_lab.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

LAYERS, WINDOWS = 2, 400
ABSOLUTE, RELATIVE = ("sinusoidal", "learned"), ("rope", "alibi")
KEPT = 0.9  # share of the R2 at the input
GONE = 0.1  # R2


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    model = trained(arm, seed, budget.steps, num_layers=LAYERS)
    states, mixed = inside(model, text()[1].unfold(0, TRAINED, TRAINED)[:WINDOWS])
    found = [explained(state) for state in states]
    return {
        "states": found,
        "attention": [explained(output) for output in mixed],
        "input": found[0],
        "output": found[-1],
    }


@torch.no_grad()
def inside(model: Reader, ids: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """The states before, between and after the blocks, and the output of each block's attention."""
    mixed: list[Tensor] = []
    attentions = [part for part in model.encoder.modules() if isinstance(part, Attention)]
    hooks = [part.register_forward_hook(lambda _, __, output: mixed.append(output)) for part in attentions]
    states = model.states(ids)
    for hook in hooks:
        hook.remove()
    return states, mixed


def explained(states: Tensor) -> float:
    """R2 of the position from states (N, T, D): ridge regression on the first half of the texts, tested on
    the second.
    """
    place = torch.arange(states.shape[1]).expand(states.shape[:2]).double()
    half = len(states) // 2
    x, y = states[:half].flatten(0, 1).double(), place[:half].flatten()
    mean, spread = x.mean(0), x.std(0)
    x = (x - mean) / spread
    penalty = 1e-3 * len(x) * torch.eye(x.shape[1]).double()
    weights = torch.linalg.solve(x.T @ x + penalty, x.T @ (y - y.mean()))
    error = place[half:] - y.mean() - ((states[half:].double() - mean) / spread) @ weights
    return 1 - float(error.square().mean() / y.var(correction=0))


def listed(found: Findings, arms: Sequence[str], metric: str) -> str:
    """R2 layer by layer, averaged over seeds."""
    means = {arm: found.curve(arm, metric).mean(0) for arm in arms}
    return "; ".join(f"{arm} {', '.join(f'{value:.2f}' for value in mean)}" for arm, mean in means.items())


@claim("A code that is added at the input is passed on through the layers", source="003, in the Transformer")
def judge_through(found: Findings) -> Verdict:
    """Confirmed if every state has at least .9 of the R2 at the input, for both codes; conditional if only
    the first ones have.
    """
    curves = [found.curve(arm, "states").mean(0) for arm in ABSOLUTE]
    # The number of consecutive states, from the input on; the last state is the output.
    reached = int(min((curve >= KEPT * curve[0]).cumprod().sum() for curve in curves))
    summary = "R2 before, between and after the blocks: " + listed(found, ABSOLUTE, "states")
    if reached <= 1:
        return Verdict("refuted", summary)
    condition = f"the state is at most the input of block {reached}"
    return Verdict("confirmed", summary) if reached > LAYERS else Verdict("conditional", summary, condition)


@claim("It is attention that passes it on", source="003, in the Transformer")
def judge_attention(found: Findings) -> Verdict:
    """Confirmed if R2 from attention's outputs alone is .5 or more in every block, for both codes."""
    least = min(float(found.curve(arm, "attention").mean(0).min()) for arm in ABSOLUTE)
    summary = "R2 from attention's outputs, block by block: " + listed(found, ABSOLUTE, "attention")
    return Verdict("confirmed" if least >= 0.5 else "refuted", summary)


@claim("Relative methods put no absolute position into the states", source="003, relative encodings")
def judge_relative(found: Findings) -> Verdict:
    """Confirmed if R2 is .1 or less in every state of RoPE and ALiBi."""
    most = max(float(found.curve(arm, "states").mean(0).max()) for arm in RELATIVE)
    summary = "R2 of the states: " + listed(found, RELATIVE, "states")
    return Verdict("confirmed" if most <= GONE else "refuted", summary)


@claim("Attention by itself knows no positions, under a causal mask either", source="003, why positions")
def judge_none(found: Findings) -> Verdict:
    """Confirmed if R2 is .1 or less in every state of a causal model without positions."""
    states = found.curve("none", "states").mean(0)
    summary = "R2 of the states with a causal mask: " + listed(found, ["none"], "states")
    return Verdict("confirmed" if states.max() <= GONE else "refuted", summary)


def draw(found: Findings) -> Figure:
    figure, (left, right) = panels(1, 1, size=(9, 3.2))
    for axes, metric, first in ((left, "states", 0), (right, "attention", 1)):
        curves = {arm: found.curve(arm, metric) for arm in (*ABSOLUTE, "none", *RELATIVE)}
        lines(axes, range(first, LAYERS + 1), curves)
        axes.set(ylabel="R2 of the position", ylim=(-0.1, 1.05), xticks=range(first, LAYERS + 1))
    left.set(title="states", xlabel="blocks passed")
    right.set(title="outputs of attention", xlabel="block")
    title = f"mean and range\nof {len(found.values('none', 'input'))} seeds"
    handles = right.get_legend_handles_labels()
    figure.legend(*handles, loc="outside right center", title=title, frameon=False)
    return figure


STUDY = Study(
    name="layers",
    subject="Position through the layers: a linear probe on every state",
    data=f"the news texts and language models of `extrapolation`, {LAYERS} layers; {WINDOWS} held-out "
    "windows, half for the probe",
    measure="R2 of a ridge regression of the position, on held-out windows",
    smallest="R2 of .1",
    arms={arm: METHODS[arm] for arm in (*ABSOLUTE, *RELATIVE, "none")},
    controls=[
        Control(
            statement="letters alone, before any block, do not predict the position (R2 of .05 at most)",
            arm="none",
            mechanism="sinusoidal",
            fails=lambda found: found.most("none", "input") <= 0.05,
        )
    ],
    claims=[judge_through, judge_attention, judge_relative, judge_none],
    full=Budget(seeds=3, steps=1200),
    quick=Budget(seeds=1, steps=900),
    run=run,
    draw=draw,
)
