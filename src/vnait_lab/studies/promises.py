"""The promises of RoPE, ALiBi, T5 and learned tables: relative scores, any length, little cost.

Attention is relative if its scores depend only on differences of positions: shifting all positions by the
same number changes nothing. RoPE gets this by rotating queries and keys, ALiBi and T5 by a bias that is a
function of the difference. A code added to the words has it only if W_Q W_K^T commutes with the rotation of
the code, as the identity does. Cost is counted in numbers that a layer reads and writes: a bias has one
number per pair and head, Shaw's method one vector per pair for keys and one for values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from vnait.positions.attention import Attention
from vnait.positions.encodings import AlibiBias, NoPosition, Rotary, Sinusoid, T5Bias, Table
from vnait.positions.injection import Injection
from vnait_lab.kit import Bars, Figure, Lines, decided, each, figure, listed
from vnait_lab.studies.parts.shifts import HEADS, SHIFTS, WIDTH, fails, line, moved, scored
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

LONGEST, LAYERS = 512, 6
VARIANTS = {
    "none": "no positions",
    "rope": "RoPE, angles in float64",
    "rope in bfloat16": "RoPE, angles in bfloat16",
    "sinusoid": "sinusoidal codes alone, a random W",
    "sinusoid, W = 1": "sinusoidal codes alone, W the identity",
    "alibi": "ALiBi, both directions",
    "t5": "T5's buckets",
    "learned": "a learned table of max_len rows",
    "shaw": "Shaw's vectors, one for keys and one for values a pair: cost alone",
}
COSTS = ("none", "rope", "alibi", "t5", "shaw")
ENCODINGS: dict[str, Callable[[], nn.Module]] = {
    "rope": lambda: Rotary(width=WIDTH),
    "sinusoid": lambda: Sinusoid(dim=WIDTH),
    "sinusoid, W = 1": lambda: Sinusoid(dim=WIDTH),
    "alibi": lambda: AlibiBias(num_heads=HEADS),
    "t5": lambda: T5Bias(num_heads=HEADS, start=1.0),
    "learned": lambda: Table(dim=WIDTH, max_length=LONGEST),
}
STUDY = Study.of(
    __name__,
    source="003, comparison",
    data="none: 50 random queries and keys per head (seed 0), 512 tokens for tables and costs",
    measure="change of scores under a shift, errors raised, numbers moved in memory",
    smallest="1e-9 of the scores' std for an identity; twice plain attention for the cost",
    variants=VARIANTS,
)


@STUDY.runs
@torch.no_grad()
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    torch.manual_seed(seed)
    metrics: Metrics = cost(variant) if variant in COSTS else {}
    if variant in ENCODINGS:
        metrics["too_long"] = float(fails(lambda: ENCODINGS[variant]()(line(LONGEST + 1)), ValueError))
    if variant not in ("learned", "shaw"):
        encoding = in_bfloat16 if variant == "rope in bfloat16" else ENCODINGS.get(variant, NoPosition)()
        metrics |= moved(scored(encoding, identity=variant == "sinusoid, W = 1"))
    return metrics


def in_bfloat16(at: Tensor) -> Injection:
    """RoPE with its angles rounded to bfloat16."""
    rates = Rotary(width=WIDTH)(line(1, 1)).rotary
    return Injection(rotary=(at * rates).bfloat16().double())


class Traffic(TorchDispatchMode):
    """Counts the numbers that operations read and write; views move no data."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not func.is_view:
            self.count += sum(
                part.numel() for part in tree_leaves((args, kwargs, out)) if isinstance(part, Tensor)
            )
        return out


def cost(variant: str) -> Metrics:
    """The numbers that a layer of attention reads and writes (8 heads of 64, 512 tokens).

    The injection is computed once for all layers, so each layer bears its share of that.
    """
    attention = Attention(dim=HEADS * WIDTH, num_heads=HEADS)
    x = torch.randn(1, LONGEST, HEADS * WIDTH)
    offsets = line(LONGEST)[0].long()
    place = (offsets.T - offsets).clamp(-16, 16) + 16
    keys, values = torch.randn(2, 33, WIDTH)
    with Traffic() as shared:
        injection = ENCODINGS.get(variant, NoPosition)()(line(LONGEST).float())
    with Traffic() as layer:
        value = attention.heads(attention.value(x))
        if variant == "shaw":
            query, key = attention.queries_and_keys(x, injection)
            near = torch.einsum("bhqk,qjk->bhqj", query, keys[place])
            weights = ((query @ key.mT + near) / WIDTH**0.5).softmax(-1)
            _ = weights @ value + torch.einsum("bhqj,qjk->bhqk", weights, values[place])
        else:
            _ = attention.weights(x, injection, None) @ value
    return {"traffic": layer.count + shared.count / LAYERS}


@STUDY.control(
    "under a random W a shift changes the sinusoid's scores by more than .5 std",
    variant="sinusoid",
    mechanism="rope",
)
def sinusoid_moves(findings: Findings) -> bool:
    return findings.mean("sinusoid", "moved") > 0.5


@STUDY.claim(
    "RoPE keeps the geometry of relative positions",
    source="003, RoPE",
    rule=f"confirmed if no score changes by more than 1e-9 std under shifts up to {SHIFTS[-1]:,}, in float64",
)
def judge_relative(findings: Findings) -> Verdict:
    """In float64; the change in half precision is reported as well."""
    error, half = findings.most("rope", "moved"), findings.most("rope in bfloat16", "moved")
    summary = f"scores change by {error:.0e} std at shifts up to {SHIFTS[-1]:,} "
    summary += f"(angles in bfloat16: {half:.1f})"
    return decided(error <= 1e-9, summary)


@STUDY.claim("With sinusoidal codes relative position shows in the scores by itself", source="003, attention")
def judge_sinusoid(findings: Findings) -> Verdict:
    """Confirmed if no shift changes the scores under a random W_Q W_K^T; conditional if only under the
    identity.
    """
    random, identity = findings.most("sinusoid", "moved"), findings.most("sinusoid, W = 1", "moved")
    summary = f"scores of the codes change by {random:.1f} std under a random W_Q W_K^T, "
    summary += f"by {identity:.0e} under the identity"
    condition = "W_Q W_K^T commutes with the rotation, as the identity does"
    return decided(random <= 1e-9, summary, refuted=identity > 1e-9, condition=condition)


@STUDY.claim("A learned table can't take longer texts than it was made for")
def judge_length(findings: Findings) -> Verdict:
    """Confirmed if one token more raises an error."""
    others = [
        variant for variant in ("sinusoid", "rope", "alibi", "t5") if not findings.mean(variant, "too_long")
    ]
    fails = bool(findings.mean("learned", "too_long"))
    summary = f"token {LONGEST + 1} {'is an error' if fails else 'has a code'} for the learned table; "
    summary += f"it has a code in {', '.join(others)}"
    return decided(fails, summary)


@STUDY.claim("Relative encodings are expensive")
def judge_cost(findings: Findings) -> Verdict:
    """Confirmed if each moves at least twice the numbers of plain attention, conditional if some do."""
    ratio = {
        variant: findings.mean(variant, "traffic") / findings.mean("none", "traffic") for variant in COSTS[1:]
    }
    summary = f"numbers read and written, relative to plain attention: {listed(ratio, '{:.1f}')}"
    high = {variant: value >= 2 for variant, value in ratio.items()}
    return each(high, summary, "every pair of tokens has its own vector ({})", join=", ")


@STUDY.draws
def draw(findings: Findings) -> Figure:
    variants = ("rope", "rope in bfloat16", "sinusoid", "sinusoid, W = 1")
    shift, change = "shift of all positions (tokens)", "largest change of a score (std)"
    limits: dict[str, Any] = {
        "xscale": "log",
        "yscale": "log",
        "ylim": (1e-16, 1e6),
        "legend": "upper center",
    }
    left = Lines(SHIFTS, findings.curves(variants, "changes"), shift, change, **limits)
    traffic = {variant: findings.ratio(variant, "none", "traffic").mean for variant in COSTS}
    rows = {variant: [value] for variant, value in traffic.items()}
    return figure(left, Bars(rows, "numbers read and written (plain = 1)", at_x=1))
