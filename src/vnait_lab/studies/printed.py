"""The document's own code for RoPE and T5's table, run as it is printed.

The lines are copied unchanged and compared with the methods that they name. A rotation keeps all channels,
and scores of rotated queries and keys depend only on differences of positions: shifting all positions changes
nothing. T5's bias sorts differences into 32 buckets, wider for larger distances, the last one unbounded; a
table with a row for every difference has far more parameters and ends at max_len.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from vnait.positions.encodings import Sinusoid, T5Bias
from vnait_lab.kit import Figure, Lines, decided, figure
from vnait_lab.studies.parts.shifts import HEADS, SHIFTS, WIDTH, fails, line, moved, scored
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

LONGEST = 512
VARIANTS = {
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
STUDY = Study.of(
    __name__,
    source="003, printed code",
    data=f"none: 50 random queries and keys per head (seed 0), {LONGEST} tokens for tables",
    measure="change of scores under a shift, errors raised, channels kept, parameters",
    smallest=".5 of the scores' std; one channel, one parameter",
    variants=VARIANTS,
)


@STUDY.runs
@torch.no_grad()
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    torch.manual_seed(seed)
    if variant == "rope as printed":
        return {**moved(as_printed), **code()}
    if variant == "t5":
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


@STUDY.control(
    "under a random W a shift changes the sinusoid's scores by more than .5 std",
    variant="sinusoid",
    mechanism="t5",
)
def sinusoid_moves(findings: Findings) -> bool:
    return findings.mean("sinusoid", "moved") > 0.5


@STUDY.claim("The printed PyTorch code (PositionalEncoding, apply_rotary_pos) is the encoding")
def judge_code(findings: Findings) -> Verdict:
    """Refuted if it does not run, loses channels, or a shift changes its scores by more than .5 std."""
    names = ("class_fails", "rotary_fails", "channels", "moved")
    class_fails, rotary_fails, channels, change = (findings.mean("rope as printed", name) for name in names)
    summary = f"PositionalEncoding {'is a syntax error' if class_fails else 'compiles'}; "
    summary += f"apply_rotary_pos {'fails (^ is XOR)' if rotary_fails else 'runs'}, and with ** returns "
    summary += f"{channels:.0f} of {WIDTH} channels, whose scores a shift changes by {change:.1f} std"
    return decided(not (class_fails or rotary_fails or channels < WIDTH or change > 0.5), summary)


@STUDY.claim("T5's bias is a table of 2 max_len - 1 rows", source="003, T5")
def judge_table(findings: Findings) -> Verdict:
    """Confirmed if both have as many parameters and fail at the same lengths."""
    names = ("distinct", "parameters", "printed_parameters", "printed_too_long", "too_long", "mismatches")
    distinct, rows, printed, stops, ours, wrong = (findings.mean("t5", name) for name in names)
    summary = f"T5 distinguishes {distinct:.0f} of {2 * LONGEST - 1:,} differences with {rows:.0f} "
    summary += f"parameters, the printed table has {printed:,.0f}; past max_len the printed table "
    summary += f"{'fails' if stops else 'works'}, T5's {'fails' if ours else 'works'}; our buckets differ "
    summary += f"from transformers' at {wrong:.0f} of 12,002 offsets"
    return decided(rows == printed and stops == ours and wrong == 0, summary)


@STUDY.draws
def draw(findings: Findings) -> Figure:
    shift, change = "shift of all positions (tokens)", "largest change of a score (std)"
    left = Lines(SHIFTS, findings.curves(VARIANTS, "changes"), shift, change, xscale="log")
    rows: dict[str, Any] = {"T5's": findings.curve("t5", "row"), "as printed": range(2 * LONGEST - 2, -1, -1)}
    limits: dict[str, Any] = {"yscale": "symlog", "ylim": (-0.5, 4000), "xlim": (-200, 200)}
    offset, row = "key - query (tokens)", "row of the table"
    return figure(left, Lines(range(1 - LONGEST, LONGEST), rows, offset, row, look={"marker": ""}, **limits))
