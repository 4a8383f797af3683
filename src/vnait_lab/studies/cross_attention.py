"""Cross-attention: the symmetries of absolute, relative and separable positions.

A target's row of weights is a softmax over the source. Without source positions it gives equal source tokens
equal weights. With a function of t_source - t_target alone it is unchanged if both sides shift together. And
a softmax cancels a term that a whole row shares: of a bias f(t_source) + g(t_target) only f remains, and a
linear f is invariant to any shift. Every test has equal tokens in it; without them any method would pass.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Generator, Tensor, nn

from vnait.positions.attention import Attention
from vnait.positions.encodings import AlibiBias, Rotary, ShawBias, Sinusoid, T5Bias
from vnait.positions.injection import Injection
from vnait_lab.kit import Figure, decided, listed
from vnait_lab.studies.figures import panels
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

DIM, HEADS = 32, 4
SOURCE = [0, 1, 2, 3, 4, 5, 2, 2, 6]  # words, some of them equal: else "equal words" would be none
TARGET = [0, 1, 2, 3, 4, 1, 5]
EQUAL_SOURCES, EQUAL_TARGETS = [2, 6, 7], [1, 5]
SAME, BROKEN = 1e-12, 1e-2  # rounding in float64; a change that is not rounding
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
STUDY = Study.of(
    __name__,
    source="004, cross-attention",
    data=f"{len(SOURCE)} source and {len(TARGET)} target vectors drawn at random, 3 and 2 of them equal",
    measure="largest change of a weight (of an output, if the source is permuted), float64",
    smallest="1e-12 for unchanged, .01 for broken",
    variants={
        "none": "no positions",
        **{name: f"sinusoids added to source, target: {sides}" for name, sides in ADDED.items()},
        **{name: f"{name} on the offset of source and target" for name in RELATIVE},
        **{
            variant: f"a bias {variant} of the places s of the source and t of the target"
            for variant in BIASES
        },
    },
    full=Budget(seeds=10),
    quick=Budget(seeds=3),
)


def cross(
    variant: str, seed: int, source: Tensor, target: Tensor, moved: tuple[int, int] = (0, 0)
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
    x, injection = inputs(variant, torch.cat([source, target])[None], at, length)
    mask = (torch.arange(x.shape[1]) < length).expand(1, x.shape[1], -1)
    weights = attention.weights(x, injection, mask)[0, :, length:, :length]
    return weights, attention(x, injection, mask)[0, length:]


def inputs(variant: str, x: Tensor, at: Tensor, length: int) -> tuple[Tensor, Injection]:
    """The input of attention (1, sources + targets, D) and the variant's injection for positions `at`
    (1, sources + targets, 1).
    """
    if variant in RELATIVE:
        return x, RELATIVE[variant]().double()(at)
    if variant in BIASES:
        bias = BIASES[variant](at[..., 0][:, None, None, :], at[..., None, :, :])
        return x, Injection(bias=bias.expand(1, HEADS, -1, -1))
    lengths = torch.tensor([length, x.shape[1] - length])
    sides = torch.tensor(ADDED.get(variant, (0, 0))).repeat_interleave(lengths)
    return x + Sinusoid(dim=DIM)(at).added * sides[:, None], Injection()


@STUDY.runs
@torch.no_grad()
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    random = Generator().manual_seed(seed)
    source = torch.randn(7, DIM, generator=random, dtype=torch.float64)[SOURCE]
    target = torch.randn(7, DIM, generator=random, dtype=torch.float64)[TARGET]
    new = torch.randn(3, DIM, generator=random, dtype=torch.float64)
    weights, outputs = cross(variant, seed, source, target)
    _, permuted = cross(variant, seed, source[torch.randperm(len(SOURCE), generator=random)], target)
    joint, shifted = (cross(variant, seed, source, target, moved)[0] for moved in ((3, 3), (3, 0)))
    old = cross(variant, seed, torch.cat([new, source]), torch.cat([new, target]))[0][:, 3:, 3:]
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


@STUDY.control(
    "positions on the source change the weights of equal source tokens by .01 or more",
    variant="source",
    mechanism="target",
)
def source_positions_tell_equal_tokens(findings: Findings) -> bool:
    return findings.least("source", "equal") >= BROKEN


@STUDY.control(
    "with absolute positions on both sides a joint shift changes weights by .01 or more",
    variant="both",
    mechanism="table",
)
def absolute_positions_move(findings: Findings) -> bool:
    return findings.least("both", "joint") >= BROKEN


@STUDY.claim("With absolute places on the target alone, equal source tokens can't be told apart")
def judge_blind(findings: Findings) -> Verdict:
    """Confirmed if their weights, and outputs under a permuted source, differ by 1e-12 at most."""
    equal, permuted = findings.most("target", "equal"), findings.most("target", "permuted")
    summary = f"weights of equal source tokens differ by {equal:.0g}, a permuted source changes outputs by "
    summary += f"{permuted:.0g}; with positions on the source weights differ by at least "
    summary += f"{findings.least('source', 'equal'):.2f}"
    return decided(max(equal, permuted) <= SAME, summary)


@STUDY.claim("A function of t_source - t_target is strictly unchanged where both are shifted")
def judge_joint(findings: Findings) -> Verdict:
    """Confirmed if no weight changes by more than 1e-12, for every relative method."""
    change = {name: findings.most(name, "joint") for name in RELATIVE}
    summary = f"largest change of a weight: {listed(change, '{:.0g} {name}')}"
    return decided(max(change.values()) <= SAME, summary)


@STUDY.claim("A bias that depends on t_source and t_target separately breaks this")
def judge_separate(findings: Findings) -> Verdict:
    """Refuted if none changes weights by .01; conditional if some change them by 1e-12 at most."""
    least = {name: findings.least(name, "joint") for name in BIASES}
    summary = f"change under a joint shift: {listed(least, '{:.1g} for {name}')}"
    same = [name for name in BIASES if findings.most(name, "joint") <= SAME]
    broken, condition = max(least.values()) >= BROKEN, f"the bias is not {' or '.join(same)}"
    return decided(broken and not same, summary, refuted=not broken, condition=condition)


@STUDY.claim("The invariance carries a learned alignment to other lengths")
def judge_lengths(findings: Findings) -> Verdict:
    """Confirmed if prepended tokens change no old weight; conditional if they only take a share of each
    row.
    """
    changed = min(findings.least(name, "prepended") for name in RELATIVE)
    rest = max(findings.most(name, "renormalised") for name in RELATIVE)
    absolute = findings.least("both", "renormalised")
    summary = f"prepended tokens change old weights by at least {changed:.2f}, "
    summary += f"renormalised ones by {rest:.0g}; with absolute positions renormalised ones by {absolute:.2f}"
    lost = rest > SAME or absolute < BROKEN
    condition = "weights are compared among the old tokens, which lose a share to the new ones"
    return decided(changed <= SAME and not lost, summary, refuted=lost, condition=condition)


@STUDY.claim("The choices have different symmetries: source alone, target alone, or the offset")
def judge_different(findings: Findings) -> Verdict:
    """Confirmed if the three pass different sets of tests (to 1e-12)."""
    passed = {
        name: frozenset(test for test in TESTS if findings.most(name, test) <= SAME)
        for name in ("source", "target", "table")
    }
    texts = (f"{name} keeps {', '.join(sorted(tests)) or 'none'}" for name, tests in passed.items())
    return decided(len(set(passed.values())) == len(passed), "; ".join(texts))


@STUDY.draws
def draw(findings: Findings) -> Figure:
    figure, (axes,) = panels(1, size=(9, 5))
    worst = np.array([[findings.most(variant, test) for test in TESTS] for variant in findings.variants])
    image = axes.imshow(np.log10(worst.clip(1e-17)), cmap="Blues", aspect="auto", vmin=-17, vmax=1)
    for (row, column), value in np.ndenumerate(worst):
        number, color = (f"{value:.2g}", "white") if value > 1e-6 else (f"{value:.0g}", "black")
        axes.text(column, row, number, ha="center", va="center", color=color)
    axes.set_yticks(range(len(findings.variants)), findings.variants)
    axes.set_xticks(range(len(TESTS)), list(TESTS.values()))
    axes.set_title(f"largest change over {findings.seeds} draws of tokens and weights (float64)")
    figure.colorbar(image, ax=axes, label="log10 of the change")
    return figure
