"""Position through the layers: a linear probe on every state.

An added code stays in the residual stream until blocks overwrite it. Whether attention passes it on is a
separate question, so attention's outputs are probed as well. Rotated queries and biased scores put no
position into the states. A causal mask does: the average of the preceding tokens depends on their number.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from vnait.positions.attention import Attention
from vnait_lab.kit import Figure, Lines, Reader, decided, figure
from vnait_lab.studies.parts.letters import METHODS, TRAINED, text, trained
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

LAYERS, WINDOWS = 2, 400
ABSOLUTE, RELATIVE = ("sinusoidal", "learned"), ("rope", "alibi")
KEPT = 0.9  # share of the R2 at the input
GONE = 0.1  # R2
STUDY = Study.of(
    __name__,
    source="003, in the Transformer",
    data=f"the news texts and language models of `extrapolation`, {LAYERS} layers; {WINDOWS} held-out "
    "windows, half for the probe",
    measure="R2 of a ridge regression of the position, on held-out windows",
    smallest="R2 of .1",
    variants={variant: METHODS[variant] for variant in (*ABSOLUTE, *RELATIVE, "none")},
    full=Budget(seeds=3, steps=1200),
    quick=Budget(seeds=1, steps=900),
)


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    model = trained(variant, seed, budget.steps, num_layers=LAYERS)
    states, mixed = inside(model, text()[1].unfold(0, TRAINED, TRAINED)[:WINDOWS])
    shares = [explained(state) for state in states]
    return {
        "states": shares,
        "attention": [explained(output) for output in mixed],
        "input": shares[0],
        "output": shares[-1],
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


def by_layer(findings: Findings, variants: Sequence[str], metric: str) -> str:
    """R2 layer by layer, averaged over seeds."""
    means = {variant: curve.mean(0) for variant, curve in findings.curves(variants, metric).items()}
    return "; ".join(f"{name} {', '.join(f'{value:.2f}' for value in mean)}" for name, mean in means.items())


@STUDY.control(
    "letters alone, before any block, do not predict the position (R2 of .05 at most)",
    variant="none",
    mechanism="sinusoidal",
)
def letters_predict_nothing(findings: Findings) -> bool:
    return findings.most("none", "input") <= 0.05


@STUDY.claim("A code that is added at the input is passed on through the layers")
def judge_through(findings: Findings) -> Verdict:
    """Confirmed if every state has at least .9 of the R2 at the input, for both codes; conditional if only
    the first ones have.
    """
    curves = [findings.curve(variant, "states").mean(0) for variant in ABSOLUTE]
    # The number of consecutive states, from the input on; the last state is the output.
    reached = int(min((curve >= KEPT * curve[0]).cumprod().sum() for curve in curves))
    summary = "R2 before, between and after the blocks: " + by_layer(findings, ABSOLUTE, "states")
    condition = f"the state is at most the input of block {reached}"
    return decided(reached > LAYERS, summary, refuted=reached <= 1, condition=condition)


@STUDY.claim("It is attention that passes it on")
def judge_attention(findings: Findings) -> Verdict:
    """Confirmed if R2 from attention's outputs alone is .5 or more in every block, for both codes, and .1
    above that without positions in every seed: a causal mask alone shows the position, too.
    """
    codes = [findings.curve(variant, "attention") for variant in ABSOLUTE]
    least = min(curve.mean(0).min() for curve in codes)
    lead = min((curve - findings.curve("none", "attention")).min() for curve in codes)
    layers = by_layer(findings, (*ABSOLUTE, "none"), "attention")
    summary = f"R2 from attention's outputs, block by block: {layers}"
    return decided(bool(least >= 0.5 and lead >= 0.1), summary)


@STUDY.claim("Relative methods put no absolute position into the states", source="003, relative encodings")
def judge_relative(findings: Findings) -> Verdict:
    """Confirmed if R2 is .1 or less in every state of RoPE and ALiBi."""
    most = max(findings.curve(variant, "states").mean(0).max() for variant in RELATIVE)
    return decided(most <= GONE, "R2 of the states: " + by_layer(findings, RELATIVE, "states"))


@STUDY.claim(
    "Attention by itself knows no positions, under a causal mask either", source="003, why positions"
)
def judge_none(findings: Findings) -> Verdict:
    """Confirmed if R2 is .1 or less in every state of a causal model without positions."""
    layers = by_layer(findings, ["none"], "states")
    most = findings.curve("none", "states").mean(0).max()
    return decided(most <= GONE, f"R2 of the states with a causal mask: {layers}")


@STUDY.draws
def draw(findings: Findings) -> Figure:
    variants = (*ABSOLUTE, "none", *RELATIVE)
    states, attention = (findings.curves(variants, metric) for metric in ("states", "attention"))
    blocks, label, limits = range(LAYERS + 1), "R2 of the position", (-0.1, 1.05)
    return figure(
        Lines(blocks, states, "states, by blocks passed", label, xticks=blocks, legend="", ylim=limits),
        Lines(
            blocks[1:],
            attention,
            "attention, by block",
            label,
            xticks=blocks[1:],
            legend="right",
            ylim=limits,
        ),
    )
