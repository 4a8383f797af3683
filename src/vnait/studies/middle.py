"""S = 50 and the middle: does Vnait's span mean the same place in texts of every length?

S_i = 100 R_i / R_n. With uniform gaps S_i = 100 i / n, and the token n/2 of an even n has exactly 50. With learned gaps nothing holds 50 in
the middle: what is fixed is the end alone. A curve over the share of the text (`warp`) moves the middle to the same other number at every
length; a gap a position (`free`) and gaps from words (`content`) move it differently at each. What reads S may learn to make up for it
at the lengths that it sees; the question is then what is left of it in longer texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from vnait.coordinates import Span
from vnait.encodings import Spatial
from vnait.method import Method
from vnait.studies.training import Reader, descend
from vnait.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHORTEST, TRAINED = 8, 24
LENGTHS = (24, 96, 192)
WORDS, DIM, BATCH = 16, 32, 32
LEARNED = ("warp", "free", "content")
NEAR = 0.95  # share of right answers from which a text of another length counts as read


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    return exact(seed, budget) if arm == "untrained" else trained(*arm.split(", "), seed=seed, budget=budget)


def exact(seed: int, budget: Budget) -> Metrics:
    """How far S is from 50 at token n/2 of even n, and in tokens at (n + 1)/2 of odd n; and at n/2 with drawn gaps, root mean square."""
    texts = [torch.ones(1, length, dtype=torch.bool) for length in range(2, 257)]
    uniform = Span(source="uniform")
    middles = [float(uniform(None, text)[0, (text.numel() - 1) // 2, 0]) - 50 for text in texts]
    found: Metrics = {
        "even": max(map(abs, middles[::2])),
        "odd": max(abs(off) * text.numel() / 100 for off, text in zip(middles[1::2], texts[1::2], strict=True)),
    }
    torch.manual_seed(seed)
    for source in ("warp", "free"):
        off = torch.empty(budget.samples, len(LENGTHS))
        for row in off:
            span = Span(source=source, max_length=LENGTHS[-1])
            nn.init.normal_(next(span.parameters()))
            row.copy_(torch.stack([span(None, texts[n - 2])[0, n // 2 - 1, 0].detach() - 50 for n in LENGTHS]))
        found[source] = off.square().mean(0).sqrt().tolist()
    return found


def trained(source: str, asked: str, *, seed: int, budget: Budget) -> Metrics:
    torch.manual_seed(seed)
    random = Generator().manual_seed(seed)
    model = Reader(method(source), vocabulary=WORDS, outputs=2, dim=DIM)

    def texts(count: int, length: int) -> Tensor:
        return torch.randint(WORDS, (count, length), generator=random)

    def loss(step: int) -> Tensor:
        length = 2 * int(torch.randint(SHORTEST // 2, TRAINED // 2 + 1, (), generator=random))
        halves, points = model(texts(BATCH, length)).unbind(-1)
        if asked == "third":
            return F.cross_entropy(points, torch.full((BATCH,), 2))
        own = F.binary_cross_entropy_with_logits(halves, second_half(length).float().expand_as(halves))
        return own + F.cross_entropy(points, torch.full((BATCH,), length // 2 - 1))

    descend(model.parameters(), loss, steps=budget.steps, learning_rate=2e-3)
    rows = [measured(model.eval(), texts(budget.samples, length)) for length in LENGTHS]
    return {name: [row[name] for row in rows] for name in rows[0]}


def method(source: str) -> str | Method:
    """Fourier features of a span, or a method of `METHODS`."""
    if source == "sinusoidal":
        return source
    span = Span(source=source, dim=DIM, max_length=LENGTHS[-1])
    return Method(coordinates=span, encoding=Spatial(dim=DIM, features="fourier", start=1.0))


def second_half(length: int) -> Tensor:
    return torch.arange(length) >= length // 2


@torch.no_grad()
def measured(model: Reader, ids: Tensor) -> dict[str, float]:
    """Of texts of one even length: tokens put in their right half, middle tokens found and tokens missed by, and the middle's S."""
    length = ids.shape[1]
    halves, points = model(ids).unbind(-1)
    away = (points.argmax(-1) - (length // 2 - 1)).abs().double()
    at = model.method(model.vectors(ids), torch.ones_like(ids, dtype=torch.bool)).at[..., 0].double()
    linear = 100 * torch.arange(1, length + 1) / length
    return {
        "half": float(((halves > 0) == second_half(length)).double().mean()),
        "hit": float((away == 0).double().mean()),
        "missed": float(away.mean()),
        "off": float((at[:, length // 2 - 1] - 50).abs().mean()),
        "from_linear": float((at - linear).abs().max()),
    }


@claim("The middle token of n = 10 (i = 5) and of n = 20 (i = 10) has S = 50", source="000, section 4.2")
def judge_uniform(found: Findings) -> Verdict:
    """Confirmed where, with uniform gaps, |S - 50| is below 1e-4 at n/2 of every even n, and half a token for odd ones."""
    even, odd = found.most("untrained", "even"), found.most("untrained", "odd")
    said = f"n = 2 to 256, uniform gaps: |S - 50| at most {even:.0e} at token n/2, half a token ({odd:.2f}) at (n + 1)/2 of odd n"
    return Verdict("confirmed" if even <= 1e-4 and odd <= 0.5 + 1e-4 else "refuted", said)


@claim("The span is normalized to 100, so S = 50 is always the middle, whatever n", source="000, section 3.2; 001")
def judge_always(found: Findings) -> Verdict:
    """Confirmed where S stays within half a token of 50 for learned gaps, trained and drawn; conditional where for some."""
    length = LENGTHS[-1]
    off = {arm: found.curve(arm, "off")[:, -1].mean() * length / 100 for arm in found.arms if arm.startswith(LEARNED)}
    said = f"the middle of {length} tokens is off S = 50, in tokens: " + ", ".join(
        f"{a} {b:.1f}" for a, b in off.items()
    )
    drawn = {source: found.curve("untrained", source).mean(0) for source in ("warp", "free")}
    said += "; with gaps drawn at random, in units of S at " + ", ".join(f"{one}" for one in LENGTHS) + " tokens: "
    said += "; ".join(f"{source} {', '.join(f'{one:.1f}' for one in own)}" for source, own in drawn.items())
    if max(off.values()) <= 0.5 and all(own.max() <= 50 / length for own in drawn.values()):
        return Verdict("confirmed", said)
    moved = [arm for arm, one in off.items() if one > 0.5]
    stayed = f"as training left them, at most {max(off.values()):.1f} tokens off"
    return Verdict("conditional", said, f"the gaps are uniform, or near it{'' if moved else ' ' + stayed}")


def shares(found: Findings, arm: str, metric: str) -> str:
    curve = 100 * found.curve(arm, metric)
    return f"{arm.removesuffix(', middle')} " + ", ".join(
        f"{low:.1f}-{high:.1f}" for low, high in zip(curve.min(0), curve.max(0), strict=True)
    )


@claim(
    "What is learned of the middle holds at unseen lengths, and not with discrete indices", source="000, section 4.2"
)
def judge_transfer(found: Findings) -> Verdict:
    """Confirmed where halves are 95 % right at 4 and 8 times the length, and 5 points above sinusoids, with uniform gaps."""
    arms = ("uniform, middle", "sinusoidal, middle")
    said = f"tokens in their right half, %, over seeds, at {LENGTHS}: " + "; ".join(
        shares(found, arm, "half") for arm in arms
    )
    span, index = (found.curve(arm, "half")[:, 1:] for arm in arms)
    said += f"; texts of {TRAINED} have no token between 50 and {50 + 100 / TRAINED:.1f}: which leaves as many % of a long one open"
    return Verdict("confirmed" if span.min() >= NEAR and (span - index).min() >= 0.05 else "refuted", said)


@claim("It holds with learned gaps as well", source="000, section 4.2")
def judge_sources(found: Findings) -> Verdict:
    """Confirmed where halves are 95 % right at every length and seed; conditional where for some sources."""
    arms = [f"{source}, middle" for source in LEARNED]
    said = f"tokens in their right half, %, at {LENGTHS}: " + "; ".join(shares(found, arm, "half") for arm in arms)
    good = [arm for arm in arms if found.curve(arm, "half").min() >= NEAR]
    if len(good) == len(arms):
        return Verdict("confirmed", said)
    return Verdict("conditional", said, f"the source is {', '.join(good)}") if good else Verdict("refuted", said)


@claim("The middle token itself is found at every length", source="001, length generalization")
def judge_token(found: Findings) -> Verdict:
    """Confirmed where 95 % are found at every length, source and seed; conditional where at some lengths."""
    arms = [f"{source}, middle" for source in ("uniform", *LEARNED)]
    said = f"middle tokens found, %, at {LENGTHS}: " + "; ".join(
        shares(found, arm, "hit") for arm in [*arms, "sinusoidal, middle"]
    )
    missed = max(found.curve(arm, "missed")[:, -1].max() for arm in arms)
    said += f"; missed by {missed:.1f} tokens at most (mean of a seed, {LENGTHS[-1]} tokens)"
    least = [min(found.curve(arm, "hit")[:, place].min() for arm in arms) for place in range(len(LENGTHS))]
    good = [length for length, share in zip(LENGTHS, least, strict=True) if share >= NEAR]
    if len(good) == len(LENGTHS):
        return Verdict("confirmed", said)
    return Verdict("conditional", said, f"texts of {max(good)} tokens") if good else Verdict("refuted", said)


def draw(found: Findings) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.5, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for source, style in zip(LEARNED, ("o", "s", "^"), strict=True):
        for asked, line in (("middle", "-"), ("third", "--")):
            off = found.curve(f"{source}, {asked}", "off").mean(0)
            left.plot(LENGTHS, off, style + line, color="black", mfc="white", label=f"{source}, asked for the {asked}")
        if source != "content":
            left.plot(
                LENGTHS, found.curve("untrained", source).mean(0), style + ":", color="0.5", label=f"{source}, drawn"
            )
    left.plot(LENGTHS, [50 / length for length in LENGTHS], color="0.75", lw=4, zorder=0, label="half a token")
    left.set(xscale="log", yscale="log", xlabel="length (tokens)", ylabel="|S - 50| at the middle token")
    left.legend(fontsize=7, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    for arm, style in zip(("uniform", *LEARNED, "sinusoidal"), ("D-", "o-", "s-", "^-", "x--"), strict=True):
        for seed, row in enumerate(100 * found.curve(f"{arm}, middle", "half")):
            right.plot(LENGTHS, row, style, color="black", mfc="white", lw=0.8, label="" if seed else arm)
    right.axhline(50, color="0.6", lw=0.8, ls=":")
    right.set(xscale="log", xlabel="length (tokens)", ylabel="tokens in their right half (%)", ylim=(0, 103))
    right.legend(fontsize=7, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    for axes in (left, right):
        axes.set_xticks(LENGTHS, [str(length) for length in LENGTHS])
        axes.minorticks_off()
    seeds = len(found.values("warp, middle", "half"))
    left.set_title(f"mean of {seeds} seeds; uniform gaps: 0 exactly", fontsize=9)
    right.set_title(f"trained on {SHORTEST} to {TRAINED} tokens, a line a seed (n={seeds})", fontsize=9)
    return figure


STUDY = Study(
    name="middle",
    subject="S = 50 and the middle of a text, at every length",
    data=f"random words, even lengths; trained on {SHORTEST} to {TRAINED}, tested at {LENGTHS}",
    measure="S at the middle token; share of tokens put in their right half; share of middle tokens pointed at",
    smallest="half a token of S; 5 points of accuracy",
    arms={
        "untrained": "uniform gaps, n = 2 to 256; and z ~ N(0, 1)",
        **{
            f"{source}, middle": f"{source}: which half is a token in, and which token is the middle?"
            for source in ("uniform", *LEARNED, "sinusoidal")
        },
        **{f"{source}, third": f"{source}: which token is the third?" for source in LEARNED},
    },
    controls=[
        Control(
            says="an index coordinate trained on short texts puts fewer than 90 % of long texts' tokens in their right half",
            arm="sinusoidal, middle",
            mechanism="uniform, middle",
            fails=lambda found: float(found.curve("sinusoidal, middle", "half")[:, 1:].max()) < 0.9,
        )
    ],
    claims=[
        judge_uniform,
        judge_always,
        judge_transfer,
        judge_sources,
        judge_token,
    ],
    full=Budget(seeds=4, steps=300, samples=128),
    quick=Budget(seeds=2, steps=160, samples=64),
    run=run,
    draw=draw,
)
