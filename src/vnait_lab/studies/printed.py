"""The document's own code for a sinusoidal code, RoPE and T5's bias, run as printed.

The lines are copied unchanged and compared with the methods that they name. A rotation keeps all channels,
and scores of rotated queries and keys depend only on differences of positions: shifting all positions changes
nothing. T5's bias sorts differences into 32 buckets, wider for larger distances, the last one unbounded; a
table with a row for every difference has far more parameters and ends at max_len.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from vnait.positions.encodings import Sinusoid, T5Bias
from vnait_lab.studies.figures import lines, panels
from vnait_lab.studies.parts.shifts import HEADS, SHIFTS, WIDTH, fails, line, moved, scored
from vnait_lab.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

LONGEST = 512
ARMS = {
    "rope as printed": "the document's apply_rotary_pos, with ^ read as **",
    "sinusoid": "sinusoidal codes alone, a random W",
    "t5": "T5's buckets",
}
# As the document prints them; the first lacks a closing bracket.
CLASS_LINES = """
div_term = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model)
pe[:, 0::2] = 0
"""
ROTARY_LINES = """
def apply_rotary_pos(q, k, pos_ids):
    angle = pos_ids / 10000^(torch.arange(0, dim, 2)/dim)
    cos = torch.cos(angle)
    sin = torch.sin(angle)
    q_rot = q[..., 0::2] * cos - q[..., 1::2] * sin
    k_rot = k[..., 0::2] * cos - k[..., 1::2] * sin
    return q_rot, k_rot
"""


@torch.no_grad()
def run(arm: str, seed: int, budget: Budget) -> Metrics:
    torch.manual_seed(seed)
    if arm == "rope as printed":
        return {**moved(as_printed), **code()}
    if arm == "t5":
        return {**moved(scored(T5Bias(num_heads=HEADS, start=1.0))), **buckets()}
    return moved(scored(Sinusoid(dim=WIDTH)))


def as_printed(at: Tensor, query: Tensor, key: Tensor, weight: Tensor) -> Tensor:
    """Scores of queries and keys after the document's function."""
    query, key = printed("**")(query, key, at[0])
    return query @ key.mT / WIDTH**0.5


def printed(power: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """The document's function with `power` in place of the printed ^, which is XOR in Python."""
    names: dict[str, Any] = {"torch": torch, "dim": WIDTH}
    exec(ROTARY_LINES.replace("^", power), names)
    return names["apply_rotary_pos"]


def code() -> Metrics:
    """Whether the document's lines compile and run, and how many channels they return."""
    query = torch.zeros(1, WIDTH)
    return {
        "class_fails": float(fails(lambda: compile(CLASS_LINES, "document", "exec"), SyntaxError)),
        "rotary_fails": float(fails(lambda: printed("^")(query, query, line(1)[0]), RuntimeError, TypeError)),
        "channels": float(printed("**")(query, query, line(1)[0])[0].shape[-1]),
    }


def buckets() -> Metrics:
    """T5's bias at the longest text, against the table that the document prints and against transformers."""
    from transformers.models.t5.modeling_t5 import T5Attention

    table, printed = T5Bias(num_heads=HEADS), nn.Embedding(2 * LONGEST - 1, HEADS)
    offsets = torch.arange(-3_000, 3_001)
    ours = [T5Bias(num_heads=1, bidirectional=both).bucket(offsets) for both in (True, False)]
    theirs = [T5Attention._relative_position_bucket(offsets, bidirectional=both) for both in (True, False)]
    row = table.bucket(torch.arange(1 - LONGEST, LONGEST))
    return {
        "mismatches": float((torch.cat(ours) != torch.cat(theirs)).sum()),
        "row": row.double().tolist(),
        "distinct": float(len(row.unique())),
        "parameters": float(table.weight.numel()),
        "printed_parameters": float(printed.weight.numel()),
        "too_long": float(fails(lambda: table(line(LONGEST + 1)), ValueError)),
        "printed_too_long": float(fails(lambda: printed(torch.tensor(LONGEST + LONGEST - 1)), IndexError)),
    }


@claim(
    "The printed PyTorch code (PositionalEncoding, apply_rotary_pos) is the encoding",
    source="003, printed code",
)
def judge_code(found: Findings) -> Verdict:
    """Refuted if it does not run, loses channels, or a shift changes its scores by more than .5 std."""
    names = ("class_fails", "rotary_fails", "channels", "moved")
    class_fails, rotary_fails, channels, change = (found.mean("rope as printed", name) for name in names)
    summary = f"PositionalEncoding {'is a syntax error' if class_fails else 'compiles'}; "
    summary += f"apply_rotary_pos {'fails (^ is XOR)' if rotary_fails else 'runs'}, and with ** returns "
    summary += f"{channels:.0f} of {WIDTH} channels, whose scores a shift changes by {change:.1f} std"
    wrong = class_fails or rotary_fails or channels < WIDTH or change > 0.5
    return Verdict("refuted" if wrong else "confirmed", summary)


@claim("T5's bias is a table of 2 max_len - 1 rows", source="003, T5")
def judge_table(found: Findings) -> Verdict:
    """Confirmed if both have as many parameters and fail at the same lengths."""
    names = ("distinct", "parameters", "printed_parameters", "printed_too_long", "too_long", "mismatches")
    distinct, own, printed, stops, own_stops, wrong = (found.mean("t5", name) for name in names)
    summary = (
        f"T5 distinguishes {distinct:.0f} of {2 * LONGEST - 1:,} differences with {own:.0f} parameters, "
    )
    summary += f"the printed table has {printed:,.0f}; past max_len the printed table "
    summary += (
        f"{'fails' if stops else 'works'}, T5's {'fails' if own_stops else 'works'}; our buckets differ "
    )
    summary += f"from transformers' at {wrong:.0f} of 12,002 offsets"
    same = own == printed and stops == own_stops and wrong == 0
    return Verdict("confirmed" if same else "refuted", summary)


def draw(found: Findings) -> Figure:
    figure, (left, right) = panels(1, 1)
    lines(left, SHIFTS, {arm: found.curve(arm, "changes") for arm in ARMS})
    left.set(xscale="log", xlabel="shift of all positions (tokens)", ylabel="largest change of a score (std)")
    left.set(title="relative scores? T5 yes, RoPE as printed no")
    left.legend()
    offsets = range(1 - LONGEST, LONGEST)
    lines(right, offsets, {"T5's": found.curve("t5", "row")}, marker="")
    lines(right, offsets, {"as printed": range(2 * LONGEST - 2, -1, -1)}, marker="")
    right.set(xlabel="key - query (tokens)", ylabel="row of the table", yscale="symlog", ylim=(-0.5, 4000))
    right.set(xlim=(-200, 200), xticks=range(-200, 201, 100), title="rows by difference")
    right.legend()
    return figure


STUDY = Study(
    name="printed",
    subject="The document's own code for RoPE and T5's table, run as it is printed",
    data=f"none: 50 random queries and keys per head (seed 0), {LONGEST} tokens for tables",
    measure="change of scores under a shift, errors raised, channels kept, parameters",
    smallest=".5 of the scores' std; one channel, one parameter",
    arms=ARMS,
    controls=[
        Control(
            statement="under a random W a shift changes the sinusoid's scores by more than .5 std",
            arm="sinusoid",
            mechanism="t5",
            fails=lambda found: found.mean("sinusoid", "moved") > 0.5,
        ),
    ],
    claims=[judge_code, judge_table],
    full=Budget(),
    quick=Budget(),
    run=run,
    draw=draw,
)
