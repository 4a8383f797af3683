"""The promises of RoPE, ALiBi, T5's bias and learned tables: relative scores, any length, little cost.

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
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from vnait.positions.attention import Attention
from vnait.positions.encodings import AlibiBias, NoPosition, Rotary, Sinusoid, T5Bias, Table
from vnait.positions.injection import Injection
from vnait_lab.studies.figures import lines, panels
from vnait_lab.studies.parts.shifts import HEADS, SHIFTS, WIDTH, fails, line, moved, scored
from vnait_lab.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

LONGEST, LAYERS = 512, 6
ARMS = {
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


@torch.no_grad()
def run(arm: str, seed: int, budget: Budget) -> Metrics:
    torch.manual_seed(seed)
    found: Metrics = cost(arm) if arm in COSTS else {}
    if arm in ENCODINGS:
        found["too_long"] = float(fails(lambda: ENCODINGS[arm]()(line(LONGEST + 1)), ValueError))
    if arm not in ("learned", "shaw"):
        encoding = in_bfloat16 if arm == "rope in bfloat16" else ENCODINGS.get(arm, NoPosition)()
        found |= moved(scored(encoding, identity=arm == "sinusoid, W = 1"))
    return found


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


def cost(arm: str) -> Metrics:
    """The numbers that a layer of attention reads and writes (8 heads of 64, 512 tokens).

    The injection is computed once for all layers, so each layer bears its share of that.
    """
    attention = Attention(dim=HEADS * WIDTH, num_heads=HEADS)
    x = torch.randn(1, LONGEST, HEADS * WIDTH)
    offsets = line(LONGEST)[0].long()
    place = (offsets.T - offsets).clamp(-16, 16) + 16
    keys, values = torch.randn(2, 33, WIDTH)
    with Traffic() as shared:
        injection = ENCODINGS.get(arm, NoPosition)()(line(LONGEST).float())
    with Traffic() as layer:
        value = attention.heads(attention.value(x))
        if arm == "shaw":
            query, key = attention.queries_and_keys(x, injection)
            near = torch.einsum("bhqk,qjk->bhqj", query, keys[place])
            weights = ((query @ key.mT + near) / WIDTH**0.5).softmax(-1)
            _ = weights @ value + torch.einsum("bhqj,qjk->bhqk", weights, values[place])
        else:
            _ = attention.weights(x, injection, None) @ value
    return {"traffic": layer.count + shared.count / LAYERS}


@claim(
    "RoPE keeps the geometry of relative positions",
    source="003, RoPE",
    rule=f"confirmed if no score changes by more than 1e-9 std under shifts up to {SHIFTS[-1]:,}, in float64",
)
def judge_relative(found: Findings) -> Verdict:
    """In float64; the change in half precision is reported as well."""
    error, half = found.most("rope", "moved"), found.most("rope in bfloat16", "moved")
    summary = (
        f"scores change by {error:.0e} std at shifts up to {SHIFTS[-1]:,} (angles in bfloat16: {half:.1f})"
    )
    return Verdict("confirmed" if error <= 1e-9 else "refuted", summary)


@claim("With sinusoidal codes relative position shows in the scores by itself", source="003, attention")
def judge_sinusoid(found: Findings) -> Verdict:
    """Confirmed if no shift changes the scores under a random W_Q W_K^T; conditional if only under the
    identity.
    """
    random, identity = found.most("sinusoid", "moved"), found.most("sinusoid, W = 1", "moved")
    summary = f"scores of the codes change by {random:.1f} std under a random W_Q W_K^T, "
    summary += f"by {identity:.0e} under the identity"
    if random <= 1e-9:
        return Verdict("confirmed", summary)
    condition = "W_Q W_K^T commutes with the rotation, as the identity does"
    return Verdict("conditional", summary, condition) if identity <= 1e-9 else Verdict("refuted", summary)


@claim("A learned table can't take longer texts than it was made for", source="003, comparison")
def judge_length(found: Findings) -> Verdict:
    """Confirmed if one token more raises an error."""
    others = [arm for arm in ("sinusoid", "rope", "alibi", "t5") if not found.mean(arm, "too_long")]
    fails = bool(found.mean("learned", "too_long"))
    summary = f"token {LONGEST + 1} {'is an error' if fails else 'has a code'} for the learned table; "
    summary += f"it has a code in {', '.join(others)}"
    return Verdict("confirmed" if fails else "refuted", summary)


@claim("Relative encodings are expensive", source="003, comparison")
def judge_cost(found: Findings) -> Verdict:
    """Confirmed if each moves at least twice the numbers of plain attention, conditional if some do."""
    ratio = {arm: found.mean(arm, "traffic") / found.mean("none", "traffic") for arm in COSTS[1:]}
    summary = ", ".join(f"{arm} {value:.1f}" for arm, value in ratio.items())
    high = [arm for arm, value in ratio.items() if value >= 2]
    condition = f"every pair of tokens has its own vector ({', '.join(high)})"
    return Verdict.among(
        high, ratio, f"numbers read and written, relative to plain attention: {summary}", condition
    )


def draw(found: Findings) -> Figure:
    figure, (left, right) = panels(1, 1)
    arms = ("rope", "rope in bfloat16", "sinusoid", "sinusoid, W = 1")
    lines(left, SHIFTS, {arm: found.curve(arm, "changes") for arm in arms})
    left.set(xscale="log", yscale="log", xlabel="shift of all positions (tokens)", ylim=(1e-16, 1e6))
    left.set(
        ylabel="largest change of a score (std)", title="relative scores? (ALiBi and T5: 0 at every shift)"
    )
    left.legend(ncols=2, loc="upper center")
    traffic = [found.mean(arm, "traffic") / found.mean("none", "traffic") for arm in COSTS]
    right.bar(COSTS, traffic)
    right.axhline(1, color="black", ls=":", lw=1)
    right.set_ylabel("numbers read and written (plain = 1)")
    right.set_title(f"cost of attention, {LONGEST} tokens (counted)")
    return figure


STUDY = Study(
    name="promises",
    subject="The promises of RoPE, ALiBi, T5 and learned tables: relative scores, any length, little cost",
    data="none: 50 random queries and keys per head (seed 0), 512 tokens for tables and costs",
    measure="change of scores under a shift, errors raised, numbers moved in memory",
    smallest="1e-9 of the scores' std for an identity; twice plain attention for the cost",
    arms=ARMS,
    controls=[
        Control(
            statement="under a random W a shift changes the sinusoid's scores by more than .5 std",
            arm="sinusoid",
            mechanism="rope",
            fails=lambda found: found.mean("sinusoid", "moved") > 0.5,
        ),
    ],
    claims=[judge_relative, judge_sinusoid, judge_length, judge_cost],
    full=Budget(),
    quick=Budget(),
    run=run,
    draw=draw,
)
