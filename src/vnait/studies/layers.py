"""How far position goes: a ridge regression of the position from the states of a language model, layer by layer.

A code that is added stays in the residual stream until blocks write over it; whether attention passes it on is another question, and
its outputs are probed by themselves. Turned queries and biased scores put no position into the states. A causal mask does: a token
that averages what precedes it can tell how much that was.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor

from vnait.backbone import Attention
from vnait.studies.figures import lines, panels
from vnait.studies.parts.letters import METHODS, TRAINED, text, trained
from vnait.studies.parts.training import Reader
from vnait.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

LAYERS, WINDOWS = 2, 400
ABSOLUTE, RELATIVE = ("sinusoidal", "learned"), ("rope", "alibi")
KEPT, GONE = 0.9, 0.1  # a share of the R2 at the input; an R2


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
    """The states before, between and after the blocks; and what each block's attention adds."""
    mixed: list[Tensor] = []
    attentions = [part for part in model.encoder.modules() if isinstance(part, Attention)]
    hooks = [part.register_forward_hook(lambda part, given, output: mixed.append(output)) for part in attentions]
    states = model.states(ids)
    for hook in hooks:
        hook.remove()
    return states, mixed


def explained(states: Tensor) -> float:
    """R2 of the position, (N, T, D) -> one number: a ridge regression on the first half of the texts, judged on the second."""
    place = torch.arange(states.shape[1]).expand(states.shape[:2]).double()
    half = len(states) // 2
    x, y = states[:half].flatten(0, 1).double(), place[:half].flatten()
    mean, spread = x.mean(0), x.std(0)
    x = (x - mean) / spread
    weights = torch.linalg.solve(x.T @ x + 1e-3 * len(x) * torch.eye(x.shape[1]).double(), x.T @ (y - y.mean()))
    error = place[half:] - y.mean() - ((states[half:].double() - mean) / spread) @ weights
    return 1 - float(error.square().mean() / y.var(correction=0))


def listed(found: Findings, arms: Sequence[str], metric: str) -> str:
    """R2 layer by layer, the seeds' mean."""
    means = {arm: found.curve(arm, metric).mean(0) for arm in arms}
    return "; ".join(f"{arm} {', '.join(f'{value:.2f}' for value in mean)}" for arm, mean in means.items())


@claim("A code that is added at the input is passed on through the layers", source="003, in the Transformer")
def judge_through(found: Findings) -> Verdict:
    """Confirmed where every state has .9 or more of the R2 at the input, for both codes; conditional where some have."""
    curves = [found.curve(arm, "states").mean(0) for arm in ABSOLUTE]
    reached = int(
        min((curve >= KEPT * curve[0]).cumprod().sum() for curve in curves)
    )  # states in a row; the last is the output
    said = "R2 before, between and after the blocks: " + listed(found, ABSOLUTE, "states")
    if reached <= 1:
        return Verdict("refuted", said)
    condition = f"a state is no later than the input of block {reached}"
    return Verdict("confirmed", said) if reached > LAYERS else Verdict("conditional", said, condition)


@claim("It is attention that passes it on", source="003, in the Transformer")
def judge_attention(found: Findings) -> Verdict:
    """Confirmed where R2 from attention's outputs alone is .5 or more in every block, for both codes."""
    least = min(float(found.curve(arm, "attention").mean(0).min()) for arm in ABSOLUTE)
    said = "R2 from what attention adds, block by block: " + listed(found, ABSOLUTE, "attention")
    return Verdict("confirmed" if least >= 0.5 else "refuted", said)


@claim("Relative methods put no absolute position into the states", source="003, relative encodings")
def judge_relative(found: Findings) -> Verdict:
    """Confirmed where R2 is .1 or less in every state of RoPE and ALiBi."""
    most = max(float(found.curve(arm, "states").mean(0).max()) for arm in RELATIVE)
    said = "R2 of the states: " + listed(found, RELATIVE, "states")
    return Verdict("confirmed" if most <= GONE else "refuted", said)


@claim("Attention by itself knows no positions, under a causal mask either", source="003, why positions")
def judge_none(found: Findings) -> Verdict:
    """Confirmed where R2 is .1 or less in every state of a causal model without positions."""
    states = found.curve("none", "states").mean(0)
    said = "R2 of the states with a causal mask: " + listed(found, ["none"], "states")
    return Verdict("confirmed" if states.max() <= GONE else "refuted", said)


def draw(found: Findings) -> Figure:
    figure, (left, right) = panels(1, 1, size=(9, 3.2))
    for axes, metric, first in ((left, "states", 0), (right, "attention", 1)):
        for arms, color in (((*ABSOLUTE, "none"), "black"), (RELATIVE, "gray")):
            lines(axes, range(first, LAYERS + 1), {arm: found.curve(arm, metric) for arm in arms}, color=color)
        axes.set(ylabel="R2 of the position", ylim=(-0.1, 1.05), xticks=range(first, LAYERS + 1))
    left.set(title="states", xlabel="blocks passed")
    right.set(title="what attention adds", xlabel="block")
    seeds = len(found.values("none", "input"))
    handles = right.get_legend_handles_labels()
    figure.legend(*handles, loc="outside right center", title=f"mean and range\nof {seeds} seeds", frameon=False)
    return figure


STUDY = Study(
    name="layers",
    subject="Position through the layers: what a linear probe reads of it, state by state",
    data=f"the news texts and language models of `extrapolation`, {LAYERS} layers; {WINDOWS} held-out windows, half for the probe",
    measure="R2 of a ridge regression of the position, on windows that it has not seen",
    smallest="R2 of .1",
    arms={arm: METHODS[arm] for arm in (*ABSOLUTE, *RELATIVE, "none")},
    controls=[
        Control(
            says="letters alone, before any block, don't tell the position (R2 of .05 at most)",
            arm="none",
            mechanism="sinusoidal",
            fails=lambda found: found.most("none", "input") <= 0.05,
        )
    ],
    claims=[
        judge_through,
        judge_attention,
        judge_relative,
        judge_none,
    ],
    full=Budget(seeds=2, steps=1200),
    quick=Budget(seeds=1, steps=900),
    run=run,
    draw=draw,
)
