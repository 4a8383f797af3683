"""What RoPE, ALiBi, T5's table and a learned table promise, and what the document's own code for them does.

Attention is relative where its scores hang on the differences of positions alone: move all positions by the same number, and nothing
changes. RoPE has it by turning queries and keys, ALiBi and T5 by a bias that reads the difference. A code added to the words has it
only where W_Q W_K^T lets the rotation of the code through, as the identity does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from vnait.backbone import Attention, turned
from vnait.encodings import Buckets, Rotary, Silent, Sinusoid, Slopes, Table
from vnait.injection import Injection
from vnait.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, HEADS, LONGEST, LAYERS = 64, 8, 512, 6
SHIFTS = (1, 17, 1_000, 100_000)
ARMS = {
    "none": "no positions",
    "rope": "RoPE, angles in float64",
    "rope in bfloat16": "RoPE, angles in bfloat16",
    "rope as printed": "the document's apply_rotary_pos, with ^ read as **",
    "sinusoid": "sinusoidal codes alone, a random W",
    "sinusoid, W = 1": "sinusoidal codes alone, W the identity",
    "alibi": "ALiBi, both directions",
    "t5": "T5's buckets",
    "learned": "a learned table of max_len rows",
    "shaw": "Shaw's vectors, one for keys and one for values a pair: cost alone",
}
COSTS = ("none", "rope", "alibi", "t5", "shaw")
# As the document prints them; the first lacks a bracket.
CLASS_LINES = (
    "div_term = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model)\npe[:, 0::2] = 0"
)
ROTARY_LINES = """
def apply_rotary_pos(q, k, pos_ids):
    angle = pos_ids / 10000^(torch.arange(0, dim, 2)/dim)
    cos = torch.cos(angle)
    sin = torch.sin(angle)
    q_rot = q[..., 0::2] * cos - q[..., 1::2] * sin
    k_rot = k[..., 0::2] * cos - k[..., 1::2] * sin
    return q_rot, k_rot
"""
ENCODINGS: dict[str, Callable[[], nn.Module]] = {
    "rope": lambda: Rotary(width=WIDTH),
    "sinusoid": lambda: Sinusoid(dim=WIDTH),
    "sinusoid, W = 1": lambda: Sinusoid(dim=WIDTH),
    "alibi": lambda: Slopes(num_heads=HEADS),
    "t5": lambda: Buckets(num_heads=HEADS, start=1.0),
    "learned": lambda: Table(dim=WIDTH, max_length=LONGEST),
}


@torch.no_grad()
def run(arm: str, seed: int, budget: Budget) -> Metrics:
    torch.manual_seed(seed)
    found: Metrics = cost(arm) if arm in COSTS else {}
    if arm in ENCODINGS:
        found["too_long"] = float(fails(lambda: ENCODINGS[arm]()(line(LONGEST + 1)), ValueError))
    if arm not in ("learned", "shaw"):
        found |= moved(arm)
    if arm == "t5":
        found |= buckets()
    if arm == "rope as printed":
        found |= code()
    return found


def line(count: int, start: int = 0) -> Tensor:
    """Coordinates (1, count, 1)."""
    return torch.arange(start, start + count).double()[None, :, None]


def fails(call: Callable[[], Any], *errors: type[Exception]) -> bool:
    try:
        call()
    except errors:
        return True
    return False


def moved(arm: str) -> Metrics:
    """The largest change of a score where all positions move, in standard deviations of the scores; a number a shift."""
    query, key = torch.randn(2, 1, HEADS, 50, WIDTH, dtype=torch.float64)
    weight = torch.eye(WIDTH).double() if arm == "sinusoid, W = 1" else torch.randn(WIDTH, WIDTH).double()
    encoding = ENCODINGS.get(arm, Silent)()
    still, *after = (scores(arm, encoding, line(50, shift), query, key, weight) for shift in (0, *SHIFTS))
    changes = [float((one - still).abs().max() / still.std()) for one in after]
    return {"moved": max(changes), "changes": changes}


def scores(arm: str, encoding: nn.Module, at: Tensor, query: Tensor, key: Tensor, weight: Tensor) -> Tensor:
    told: Injection = encoding(at).dense()
    if told.added is not None:
        return told.added @ weight @ told.added.mT
    if arm == "rope as printed":
        query, key = printed("**")(query, key, at[0])
    elif arm == "rope in bfloat16":
        rates = Rotary(width=WIDTH)(line(1, 1)).turn
        told = Injection(turn=(at * rates).bfloat16().double())
    if told.turn is not None:
        query, key = turned(query, told.turn), turned(key, told.turn)
    return query @ key.mT / WIDTH**0.5 + (0 if told.bias is None else told.bias)


def printed(power: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """The document's function, with another sign for the power."""
    names: dict[str, Any] = {"torch": torch, "dim": WIDTH}
    exec(ROTARY_LINES.replace("^", power), names)
    return names["apply_rotary_pos"]


def code() -> Metrics:
    """What the document's lines do."""
    query = torch.zeros(1, WIDTH)
    return {
        "class_fails": float(fails(lambda: compile(CLASS_LINES, "document", "exec"), SyntaxError)),
        "rotary_fails": float(fails(lambda: printed("^")(query, query, line(1)[0]), RuntimeError, TypeError)),
        "channels": float(printed("**")(query, query, line(1)[0])[0].shape[-1]),
    }


def buckets() -> Metrics:
    """What T5's bias tells apart at the longest text, against the table that the document prints, and against transformers'."""
    from transformers.models.t5.modeling_t5 import T5Attention

    table, printed = Buckets(num_heads=HEADS), nn.Embedding(2 * LONGEST - 1, HEADS)
    offsets = torch.arange(-3_000, 3_001)
    ours = [Buckets(num_heads=1, bidirectional=both).bucket(offsets) for both in (True, False)]
    theirs = [T5Attention._relative_position_bucket(offsets, bidirectional=both) for both in (True, False)]
    row = table.bucket(torch.arange(1 - LONGEST, LONGEST))
    return {
        "mismatches": float((torch.cat(ours) != torch.cat(theirs)).sum()),
        "row": row.double().tolist(),
        "distinct": float(len(row.unique())),
        "parameters": float(table.weight.numel()),
        "printed_parameters": float(printed.weight.numel()),
        "printed_too_long": float(fails(lambda: printed(torch.tensor(LONGEST + LONGEST - 1)), IndexError)),
    }


class Traffic(TorchDispatchMode):
    """Counts the numbers that operations read and write; views move none."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not func.is_view:
            self.count += sum(part.numel() for part in tree_leaves((args, kwargs, out)) if isinstance(part, Tensor))
        return out


def cost(arm: str) -> Metrics:
    """The numbers that a layer of attention reads and writes (8 heads of 64, 512 tokens), with its share of what all have in common."""
    attention, x = Attention(dim=HEADS * WIDTH, num_heads=HEADS, dropout=0.0), torch.randn(1, LONGEST, HEADS * WIDTH)
    offsets = line(LONGEST)[0].long()
    place = (offsets.T - offsets).clamp(-16, 16) + 16
    keys, values = torch.randn(2, 33, WIDTH)
    with Traffic() as told:
        injection = ENCODINGS.get(arm, Silent)()(line(LONGEST).float())
    with Traffic() as layer:
        value = attention.heads(attention.value(x))
        if arm == "shaw":
            query, key = attention.queries_and_keys(x, injection)
            near = torch.einsum("bhqk,qjk->bhqj", query, keys[place])
            weights = ((query @ key.mT + near) / WIDTH**0.5).softmax(-1)
            _ = weights @ value + torch.einsum("bhqj,qjk->bhqk", weights, values[place])
        else:
            _ = attention.weights(x, injection, None) @ value
    return {"traffic": layer.count + told.count / LAYERS}


@claim(
    "RoPE keeps the geometry of relative positions",
    source="003, RoPE",
    rule=f"confirmed where no score changes by more than 1e-9 std under shifts up to {SHIFTS[-1]:,}, in float64",
)
def judge_relative(found: Findings) -> Verdict:
    """In float64; what half precision makes of it is said beside."""
    error, half = found.most("rope", "moved"), found.most("rope in bfloat16", "moved")
    said = f"scores change by {error:.0e} std at shifts up to {SHIFTS[-1]:,} (angles in bfloat16: {half:.1f} std)"
    return Verdict("confirmed" if error <= 1e-9 else "refuted", said)


@claim(
    "The printed PyTorch code (PositionalEncoding, apply_rotary_pos) is the encoding",
    source="003, implementation and RoPE",
)
def judge_code(found: Findings) -> Verdict:
    """Refuted where it does not run, loses channels, or its scores move under a shift by more than .5 std."""
    own = {name: found.mean("rope as printed", name) for name in ("class_fails", "rotary_fails", "channels", "moved")}
    said = f"PositionalEncoding {'is a syntax error' if own['class_fails'] else 'compiles'}; apply_rotary_pos "
    said += "fails (^ is XOR)" if own["rotary_fails"] else "runs"
    said += (
        f", and with ** gives {own['channels']:.0f} of {WIDTH} channels, whose scores move by {own['moved']:.1f} std"
    )
    wrong = own["class_fails"] or own["rotary_fails"] or own["channels"] < WIDTH or own["moved"] > 0.5
    return Verdict("refuted" if wrong else "confirmed", said)


@claim("With sinusoidal codes relative position shows in the scores by itself", source="003, attention")
def judge_sinusoid(found: Findings) -> Verdict:
    """Confirmed where a random W_Q W_K^T gives scores that no shift changes, conditional where only the identity does."""
    random, one = found.most("sinusoid", "moved"), found.most("sinusoid, W = 1", "moved")
    said = f"scores of the codes move by {random:.1f} std under a random W_Q W_K^T, by {one:.0e} under the identity"
    if random <= 1e-9:
        return Verdict("confirmed", said)
    condition = "W_Q W_K^T commutes with the rotation, as the identity"
    return Verdict("conditional", said, condition) if one <= 1e-9 else Verdict("refuted", said)


@claim("T5's bias is a table of 2 max_len - 1 rows", source="003, T5")
def judge_table(found: Findings) -> Verdict:
    """Confirmed where both learn as many numbers and fail at the same lengths."""
    names = ("distinct", "parameters", "printed_parameters", "printed_too_long", "too_long", "mismatches")
    distinct, own, printed, stops, own_stops, wrong = (found.mean("t5", name) for name in names)
    said = f"T5 tells {distinct:.0f} of {2 * LONGEST - 1:,} differences apart with {own:.0f} numbers, against {printed:,.0f}; past max_len "
    said += f"the printed table {'fails' if stops else 'works'}, T5's {'fails' if own_stops else 'works'}; our buckets differ from "
    said += f"transformers' at {wrong:.0f} of 12,002 offsets"
    same = own == printed and stops == own_stops and wrong == 0
    return Verdict("confirmed" if same else "refuted", said)


@claim("A learned table can't take longer texts than it was made for", source="003, comparison")
def judge_length(found: Findings) -> Verdict:
    """Confirmed where one token more is an error."""
    others = [arm for arm in ("sinusoid", "rope", "alibi", "t5") if not found.mean(arm, "too_long")]
    fails = bool(found.mean("learned", "too_long"))
    said = f"token {LONGEST + 1} {'is an error' if fails else 'has a code'} for the learned table; it has one in {', '.join(others)}"
    return Verdict("confirmed" if fails else "refuted", said)


@claim("Relative encodings are expensive", source="003, comparison")
def judge_cost(found: Findings) -> Verdict:
    """Confirmed where each moves twice the numbers of plain attention, conditional where some do."""
    ratio = {arm: found.mean(arm, "traffic") / found.mean("none", "traffic") for arm in COSTS[1:]}
    said = "numbers read and written, of plain attention's: " + ", ".join(
        f"{arm} {value:.1f}" for arm, value in ratio.items()
    )
    high = [arm for arm, value in ratio.items() if value >= 2]
    if len(high) == len(ratio):
        return Verdict("confirmed", said)
    condition = f"every pair has a vector of its own ({', '.join(high)})"
    return Verdict("conditional", said, condition) if high else Verdict("refuted", said)


def draw(found: Findings) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    styles = {
        "rope": "o-",
        "rope in bfloat16": "s--",
        "rope as printed": "^:",
        "sinusoid": "v-.",
        "sinusoid, W = 1": "x:",
    }
    for arm, style in styles.items():
        left.loglog(SHIFTS, found.curve(arm, "changes")[0], style, color="black", lw=0.9, ms=5, mfc="white", label=arm)
    left.set(xlabel="shift of all positions (tokens)", ylabel="largest change of a score (std)", ylim=(1e-16, 1e6))
    left.legend(fontsize=7, ncols=2, loc="upper center")
    left.set_title("relative? (ALiBi and T5: 0 at all shifts)", fontsize=9)
    offsets = range(1 - LONGEST, LONGEST)
    middle.plot(offsets, range(2 * LONGEST - 2, -1, -1), ":", color="black", label="as printed")
    middle.plot(offsets, found.curve("t5", "row")[0], "-", color="black", label="T5's")
    middle.set(
        xlabel="key - query (tokens)",
        ylabel="number of the table's row",
        yscale="symlog",
        ylim=(-0.5, 4000),
        xlim=(-200, 200),
        xticks=[-200, -100, 0, 100, 200],
    )
    middle.set_title("differences that a table tells apart", fontsize=9)
    middle.legend(fontsize=7)
    traffic = [found.mean(arm, "traffic") / found.mean("none", "traffic") for arm in COSTS]
    right.bar(COSTS, traffic, color="lightgray", edgecolor="black")
    right.axhline(1, color="black", ls=":", lw=1)
    right.set(ylabel="numbers read and written (plain = 1)")
    right.set_title(f"cost of attention, {LONGEST} tokens (counted)", fontsize=9)
    return figure


STUDY = Study(
    name="promises",
    subject="What RoPE, ALiBi, T5's and learned tables promise, and the document's code for them",
    data="none: 50 random queries and keys a head (seed 0), 512 tokens for tables and costs",
    measure="change of scores under a shift, mean distance attended over, errors raised, numbers moved in memory",
    smallest="1e-9 of the scores' std for an identity; twice plain attention for a cost",
    arms=ARMS,
    controls=[
        Control(
            says="under a random W the sinusoid's scores move with the positions by more than .5 std",
            arm="sinusoid",
            mechanism="rope",
            fails=lambda found: found.mean("sinusoid", "moved") > 0.5,
        ),
    ],
    claims=[
        judge_relative,
        judge_code,
        judge_sinusoid,
        judge_table,
        judge_length,
        judge_cost,
    ],
    full=Budget(),
    quick=Budget(),
    run=run,
    draw=draw,
)
