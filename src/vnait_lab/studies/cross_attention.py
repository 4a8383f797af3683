"""The symmetries of cross-attention under each way of encoding positions, tested exactly.

A target's row of weights is a softmax over the source. Without source positions it gives equal source tokens
equal weights. With a function of t_source - t_target alone it is unchanged if both sides shift together. And
a softmax cancels a term that a whole row shares: of a bias f(t_source) + g(t_target) only f remains, and a
linear f is invariant to any shift. Every test has equal tokens in it; without them any method would pass.
"""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor, nn

from vnait.positions.attention import Attention
from vnait.positions.encodings import AlibiBias, Rotary, ShawBias, Sinusoid, T5Bias
from vnait.positions.injection import Injection
from vnait_lab.studies.figures import panels
from vnait_lab.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

DIM, HEADS = 32, 4
SOURCE = [0, 1, 2, 3, 4, 5, 2, 2, 6]  # words, some of them equal: else "equal words" would be none
TARGET = [0, 1, 2, 3, 4, 1, 5]
EQUAL_SOURCES, EQUAL_TARGETS = [2, 6, 7], [1, 5]
SAME, BROKEN = 1e-12, 1e-2  # rounding in float64; a change that is not rounding
SECTION = "004, cross-attention"
ADDED = {"source": (1, 0), "target": (0, 1), "both": (1, 1)}  # 1: a sinusoid is added to source, target
RELATIVE = {
    "table": lambda: ShawBias(num_heads=HEADS, max_distance=32, start=1.0),
    "buckets": lambda: T5Bias(num_heads=HEADS, start=1.0),
    "alibi": lambda: AlibiBias(num_heads=HEADS),
    "rope": lambda: Rotary(width=DIM // HEADS),
}
# Functions of source and target positions; f and g are arbitrary, but not linear.
BIASES = {
    "f(s) + g(t)": lambda s, t: (1.3 * s).sin() + (0.7 * t).cos(),
    "a s + b t": lambda s, t: 0.3 * s - 0.2 * t,
    "g(t)": lambda s, t: (0.7 * t).cos() + 0 * s,
    "s t": lambda s, t: 0.1 * s * t,
}
TESTS = {
    "equal": "weights of\nequal sources",
    "permuted": "output, source\npermuted",
    "rows": "rows of equal\ntargets",
    "joint": "both sides\nshifted",
    "shifted": "source alone\nshifted",
    "prepended": "3 tokens\nprepended",
    "renormalised": "the same,\nrenormalised",
}


def cross(
    arm: str, seed: int, source: Tensor, target: Tensor, moved: tuple[int, int] = (0, 0)
) -> tuple[Tensor, ...]:
    """Weights (H, targets, sources) and outputs (targets, D); source and target start at positions `moved`.

    Computed as self-attention on both sides at once, masked to the sources, so that every encoding applies
    as it is.
    """
    torch.manual_seed(seed)
    attention = Attention(dim=DIM, num_heads=HEADS).double()
    for weight in attention.parameters():
        nn.init.normal_(weight, std=DIM**-0.5)
    length = len(source)
    places = torch.cat([torch.arange(length) + moved[0], torch.arange(len(target)) + moved[1]])
    at = places.double()[None, :, None]
    x, injection = inputs(arm, torch.cat([source, target])[None], at, length)
    mask = (torch.arange(x.shape[1]) < length).expand(1, x.shape[1], -1)
    weights = attention.weights(x, injection, mask)[0, :, length:, :length]
    return weights, attention(x, injection, mask)[0, length:]


def inputs(arm: str, x: Tensor, at: Tensor, length: int) -> tuple[Tensor, Injection]:
    """The input of attention (1, sources + targets, D) and the arm's injection for positions `at`
    (1, sources + targets, 1).
    """
    if arm in RELATIVE:
        return x, RELATIVE[arm]().double()(at)
    if arm in BIASES:
        bias = BIASES[arm](at[..., 0][:, None, None, :], at[..., None, :, :])
        return x, Injection(bias=bias.expand(1, HEADS, -1, -1))
    lengths = torch.tensor([length, x.shape[1] - length])
    sides = torch.tensor(ADDED.get(arm, (0, 0))).repeat_interleave(lengths)
    return x + Sinusoid(dim=DIM)(at).added * sides[:, None], Injection()


@torch.no_grad()
def run(arm: str, seed: int, budget: Budget) -> Metrics:
    random = Generator().manual_seed(seed)
    source = torch.randn(7, DIM, generator=random, dtype=torch.float64)[SOURCE]
    target = torch.randn(7, DIM, generator=random, dtype=torch.float64)[TARGET]
    new = torch.randn(3, DIM, generator=random, dtype=torch.float64)
    weights, outputs = cross(arm, seed, source, target)
    _, permuted = cross(arm, seed, source[torch.randperm(len(SOURCE), generator=random)], target)
    joint, shifted = (cross(arm, seed, source, target, moved)[0] for moved in ((3, 3), (3, 0)))
    old = cross(arm, seed, torch.cat([new, source]), torch.cat([new, target]))[0][:, 3:, 3:]
    equal, rows = weights[..., EQUAL_SOURCES], weights[:, EQUAL_TARGETS]
    changes = {
        "equal": equal.amax(-1) - equal.amin(-1),
        "permuted": permuted - outputs,
        "rows": rows.amax(1) - rows.amin(1),
        "joint": joint - weights,
        "shifted": shifted - weights,
        "prepended": old - weights,
        "renormalised": old / old.sum(-1, keepdim=True) - weights,
    }
    return {test: float(change.abs().max()) for test, change in changes.items()}


@claim("With absolute places on the target alone, equal source tokens can't be told apart", source=SECTION)
def judge_blind(found: Findings) -> Verdict:
    """Confirmed if their weights, and outputs under a permuted source, differ by 1e-12 at most."""
    equal, permuted = found.most("target", "equal"), found.most("target", "permuted")
    summary = f"weights of equal source tokens differ by {equal:.0g}, a permuted source changes outputs by "
    summary += f"{permuted:.0g}; with positions on the source weights differ by at least "
    summary += f"{found.least('source', 'equal'):.2f}"
    return Verdict("confirmed" if max(equal, permuted) <= SAME else "refuted", summary)


@claim("A function of t_source - t_target is strictly unchanged where both are shifted", source=SECTION)
def judge_joint(found: Findings) -> Verdict:
    """Confirmed if no weight changes by more than 1e-12, for every relative method."""
    change = {arm: found.most(arm, "joint") for arm in RELATIVE}
    summary = "largest change of a weight: " + ", ".join(
        f"{value:.0g} {arm}" for arm, value in change.items()
    )
    return Verdict("confirmed" if max(change.values()) <= SAME else "refuted", summary)


@claim("A bias that depends on t_source and t_target separately breaks this", source=SECTION)
def judge_separate(found: Findings) -> Verdict:
    """Refuted if none changes weights by .01; conditional if some change them by 1e-12 at most."""
    least, most = ({arm: pick(arm, "joint") for arm in BIASES} for pick in (found.least, found.most))
    summary = "change under a joint shift: "
    summary += ", ".join(f"{value:.1g} for {arm}" for arm, value in least.items())
    kept = [arm for arm in BIASES if most[arm] <= SAME]
    if not any(value >= BROKEN for value in least.values()):
        return Verdict("refuted", summary)
    if kept:
        return Verdict("conditional", summary, f"the bias is not {' or '.join(kept)}")
    return Verdict("confirmed", summary)


@claim("The invariance carries a learned alignment to other lengths", source=SECTION)
def judge_lengths(found: Findings) -> Verdict:
    """Confirmed if prepended tokens change no old weight; conditional if they only take a share of each
    row.
    """
    changed = min(found.least(arm, "prepended") for arm in RELATIVE)
    kept = max(found.most(arm, "renormalised") for arm in RELATIVE)
    absolute = found.least("both", "renormalised")
    summary = (
        f"prepended tokens change old weights by at least {changed:.2f}, renormalised ones by {kept:.0g}; "
    )
    summary += f"with absolute positions renormalised ones by {absolute:.2f}"
    if kept > SAME or absolute < BROKEN:
        return Verdict("refuted", summary)
    if changed <= SAME:
        return Verdict("confirmed", summary)
    condition = "weights are compared among the old tokens, which lose a share to the new ones"
    return Verdict("conditional", summary, condition)


@claim("The choices have different symmetries: source alone, target alone, or the offset", source=SECTION)
def judge_different(found: Findings) -> Verdict:
    """Confirmed if the three pass different sets of tests (to 1e-12)."""
    arms = ("source", "target", "table")
    kept = {arm: frozenset(test for test in TESTS if found.most(arm, test) <= SAME) for arm in arms}
    summary = "; ".join(f"{arm} keeps {', '.join(sorted(own)) or 'none'}" for arm, own in kept.items())
    return Verdict("confirmed" if len(set(kept.values())) == len(arms) else "refuted", summary)


def draw(found: Findings) -> Figure:
    figure, (axes,) = panels(1, size=(9, 5))
    worst = np.array([[found.most(arm, test) for test in TESTS] for arm in found.arms])
    image = axes.imshow(np.log10(worst.clip(1e-17)), cmap="Blues", aspect="auto", vmin=-17, vmax=1)
    for (row, column), value in np.ndenumerate(worst):
        number, color = (f"{value:.2g}", "white") if value > 1e-6 else (f"{value:.0g}", "black")
        axes.text(column, row, number, ha="center", va="center", color=color)
    axes.set_yticks(range(len(found.arms)), found.arms)
    axes.set_xticks(range(len(TESTS)), list(TESTS.values()))
    draws = len(found.values("none", "joint"))
    axes.set_title(f"largest change over {draws} draws of tokens and weights (float64)")
    figure.colorbar(image, ax=axes, label="log10 of the change")
    return figure


STUDY = Study(
    name="cross_attention",
    subject="Cross-attention: the symmetries of absolute, relative and separable positions",
    data=f"{len(SOURCE)} source and {len(TARGET)} target vectors drawn at random, 3 and 2 of them equal",
    measure="largest change of a weight (of an output, if the source is permuted), float64",
    smallest="1e-12 for unchanged, .01 for broken",
    arms={
        "none": "no positions",
        **{arm: f"sinusoids added to source, target: {sides}" for arm, sides in ADDED.items()},
        **{arm: f"{arm} on the offset of source and target" for arm in RELATIVE},
        **{arm: f"a bias {arm} of the places s of the source and t of the target" for arm in BIASES},
    },
    controls=[
        Control(
            statement="positions on the source change the weights of equal source tokens by .01 or more",
            arm="source",
            mechanism="target",
            fails=lambda found: found.least("source", "equal") >= BROKEN,
        ),
        Control(
            statement="with absolute positions on both sides a joint shift changes weights by .01 or more",
            arm="both",
            mechanism="table",
            fails=lambda found: found.least("both", "joint") >= BROKEN,
        ),
    ],
    claims=[judge_blind, judge_joint, judge_separate, judge_lengths, judge_different],
    full=Budget(seeds=10),
    quick=Budget(seeds=3),
    run=run,
    draw=draw,
)
