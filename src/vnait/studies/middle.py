"""S = 50 and the middle: does Vnait's span mean the same place in texts of every length?

S_i = 100 R_i / R_n. With uniform gaps S_i = 100 i / n, and the token n/2 of an even n has exactly 50. With learned gaps nothing holds 50 in
the middle: what is fixed is the end alone. A curve over the share of the text (`warp`) moves the middle to the same other number at every
length; a gap a position (`free`) and gaps from words (`content`) move it differently at each. What reads S may learn to make up for it
at the lengths that it sees; the question is then what is left of it in longer texts.
"""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import nn

from vnait.coordinates import Span
from vnait.studies.figures import dots, lines, panels
from vnait.studies.parts.halves import LENGTHS, SHORTEST, TRAINED, trained
from vnait.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

SECTION = "000, section 4.2"
LEARNED = ("warp", "free", "content")
SOURCES = ("uniform", *LEARNED, "sinusoidal")
NEAR = 0.95  # share of right answers from which a text of another length counts as read


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    return exact(seed, budget) if arm == "untrained" else trained(*arm.split(", "), seed=seed, budget=budget)


def exact(seed: int, budget: Budget) -> Metrics:
    """How far S is from 50 at token n/2 of even n, and in tokens at (n + 1)/2 of odd n; and at n/2 with drawn gaps, root mean square."""
    uniform = Span(source="uniform")
    found: Metrics = {
        "even": max(abs(middle(uniform, length) - 50) for length in range(2, 257, 2)),
        "odd": max(abs(middle(uniform, length) - 50) * length / 100 for length in range(3, 257, 2)),
    }
    torch.manual_seed(seed)
    for source in ("warp", "free"):
        off = []
        for _ in range(budget.samples):
            span = Span(source=source, max_length=LENGTHS[-1])
            nn.init.normal_(next(span.parameters()))
            off.append([middle(span, length) - 50 for length in LENGTHS])
        found[source] = torch.tensor(off).square().mean(0).sqrt().tolist()
    return found


def middle(span: Span, length: int) -> float:
    """S of token n/2 or, where n is odd, (n + 1)/2."""
    return float(span(None, torch.ones(1, length, dtype=torch.bool))[0, (length - 1) // 2, 0].detach())


@claim("The middle token of n = 10 (i = 5) and of n = 20 (i = 10) has S = 50", source=SECTION)
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
    said = f"the middle of {length} tokens is off S = 50, in tokens: "
    said += ", ".join(f"{arm} {tokens:.1f}" for arm, tokens in off.items())
    drawn = {source: found.curve("untrained", source).mean(0) for source in ("warp", "free")}
    said += f"; with gaps drawn at random, in units of S at {', '.join(map(str, LENGTHS))} tokens: "
    said += "; ".join(f"{source} {', '.join(f'{one:.1f}' for one in own)}" for source, own in drawn.items())
    if max(off.values()) <= 0.5 and all(own.max() <= 50 / length for own in drawn.values()):
        return Verdict("confirmed", said)
    condition = "the gaps are uniform, or near it"
    if max(off.values()) <= 0.5:
        condition += f" as training left them, at most {max(off.values()):.1f} tokens off"
    return Verdict("conditional", said, condition)


def shares(found: Findings, arms: list[str], metric: str) -> str:
    """From the least seed to the most, in %, a length each."""
    said = []
    for arm in arms:
        curve = 100 * found.curve(arm, metric)
        ranges = [f"{low:.1f}-{high:.1f}" for low, high in zip(curve.min(0), curve.max(0), strict=True)]
        said.append(f"{arm.removesuffix(', middle')} {', '.join(ranges)}")
    return "; ".join(said)


@claim("What is learned of the middle holds at unseen lengths, and not with discrete indices", source=SECTION)
def judge_transfer(found: Findings) -> Verdict:
    """Confirmed where halves are 95 % right at 4 and 8 times the length, and 5 points above sinusoids, with uniform gaps."""
    arms = ["uniform, middle", "sinusoidal, middle"]
    said = f"tokens in their right half, %, over seeds, at {LENGTHS}: {shares(found, arms, 'half')}"
    span, index = (found.curve(arm, "half")[:, 1:] for arm in arms)
    said += f"; texts of {TRAINED} have no token between 50 and {50 + 100 / TRAINED:.1f}: which leaves as many % of a long one open"
    return Verdict("confirmed" if span.min() >= NEAR and (span - index).min() >= 0.05 else "refuted", said)


@claim("It holds with learned gaps as well", source=SECTION)
def judge_sources(found: Findings) -> Verdict:
    """Confirmed where halves are 95 % right at every length and seed; conditional where for some sources."""
    arms = [f"{source}, middle" for source in LEARNED]
    said = f"tokens in their right half, %, at {LENGTHS}: {shares(found, arms, 'half')}"
    good = [arm for arm in arms if found.curve(arm, "half").min() >= NEAR]
    return Verdict.among(good, arms, said, f"the source is {' or '.join(arm.removesuffix(', middle') for arm in good)}")


@claim("The middle token itself is found at every length", source="001, length generalization")
def judge_token(found: Findings) -> Verdict:
    """Confirmed where 95 % are found at every length, source and seed; conditional where at some lengths."""
    arms = [f"{source}, middle" for source in ("uniform", *LEARNED)]
    said = f"middle tokens found, %, at {LENGTHS}: {shares(found, [*arms, 'sinusoidal, middle'], 'hit')}"
    missed = max(found.curve(arm, "missed")[:, -1].max() for arm in arms)
    said += f"; missed by {missed:.1f} tokens at most (mean of a seed, {LENGTHS[-1]} tokens)"
    least = [min(found.curve(arm, "hit")[:, place].min() for arm in arms) for place in range(len(LENGTHS))]
    good = [length for length, share in zip(LENGTHS, least, strict=True) if share >= NEAR]
    return Verdict.among(good, LENGTHS, said, f"texts of {max(good, default=0)} tokens")


def draw(found: Findings) -> Figure:
    figure, (left, right) = panels(1, 1, size=(10, 4))
    off = {
        f"{source}, asked for the {asked}": found.curve(f"{source}, {asked}", "off")
        for source in LEARNED
        for asked in ("middle", "third")
    }
    off |= {f"{source}, drawn": found.curve("untrained", source) for source in ("warp", "free")}
    off["half a token"] = np.array([[50 / length for length in LENGTHS]])
    lengths = {length: [own[:, place].tolist() for own in off.values()] for place, length in enumerate(LENGTHS)}
    dots(left, list(off), {f"{length} tokens": values for length, values in lengths.items()})
    left.set(xscale="log", xlabel="|S - 50| at the middle token", title="a mark a seed; uniform gaps: 0 exactly")
    left.legend(loc="lower left")
    halves = {source: 100 * found.curve(f"{source}, middle", "half") for source in SOURCES}
    lines(right, LENGTHS, halves)
    right.axhline(50, color="gray", lw=0.8, ls=":")
    right.set(xscale="log", xlabel="length (tokens)", ylabel="tokens in their right half (%)", ylim=(0, 103))
    right.set_title(f"trained on {SHORTEST} to {TRAINED} tokens; mean and range (n={len(halves['uniform'])})")
    right.set_xticks(LENGTHS, [str(length) for length in LENGTHS])
    right.minorticks_off()
    right.legend()
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
            for source in SOURCES
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
    claims=[judge_uniform, judge_always, judge_transfer, judge_sources, judge_token],
    full=Budget(seeds=4, steps=300, samples=128),
    quick=Budget(seeds=2, steps=160, samples=64),
    run=run,
    draw=draw,
)
