"""S = 50 and the middle of a text, at every length.

S_i = 100 R_i / R_n. With uniform gaps S_i = 100 i / n, so token n/2 of an even n has exactly 50. With learned
gaps only the end is fixed, not the middle. A curve over the relative position (`warp`) moves the middle to
the same value at every length; one gap per position (`free`) and gaps from words (`content`) move it
differently at each length. A model may learn to compensate at the training lengths; the question is whether
this carries over to longer texts. The model reads random words, and its only positions are a span or a
sinusoid.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from vnait.positions.coordinates import Span
from vnait.positions.encodings import Spatial
from vnait.positions.method import Method
from vnait_lab.kit import Dots, Figure, Lines, Reader, decided, descend, each, figure, listed
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

SHORTEST, TRAINED = 8, 24
LENGTHS = (24, 96, 192)
WORDS, DIM, BATCH = 16, 32, 32
LEARNED = ("warp", "free", "content")
BENT = ("warp from random", "free from random")  # gaps that are unequal before training
SOURCES = ("uniform", *LEARNED, "sinusoidal")
NEAR = 0.95  # accuracy that counts as success at another length
STUDY = Study.of(
    __name__,
    source="000, section 4.2",
    data=f"random words, even lengths; trained on {SHORTEST} to {TRAINED}, tested at {LENGTHS}",
    measure="S at the middle token; share of tokens put in the right half; share of middle tokens found",
    smallest="half a token of S; 5 points of accuracy",
    variants={
        "untrained": "uniform gaps, n = 2 to 256; and z ~ N(0, 1)",
        **{
            f"{source}, middle": f"{source}: which half is a token in, and which token is the middle?"
            for source in (*SOURCES, *BENT)
        },
        **{f"{source}, third": f"{source}: which token is the third?" for source in LEARNED},
    },
    full=Budget(seeds=4, steps=300, samples=128),
    quick=Budget(seeds=2, steps=160, samples=64),
)


def trained(source: str, task: str, *, seed: int, budget: Budget) -> dict[str, list[float]]:
    """Train a reader to find the middle, or the third token, and measure it at each of `LENGTHS`: see
    `measured`.
    """
    torch.manual_seed(seed)
    random = Generator().manual_seed(seed)
    model = Reader(method(source), vocabulary=WORDS, outputs=2, dim=DIM)

    def texts(count: int, length: int) -> Tensor:
        return torch.randint(WORDS, (count, length), generator=random)

    def loss(step: int) -> Tensor:
        length = 2 * int(torch.randint(SHORTEST // 2, TRAINED // 2 + 1, (), generator=random))
        halves, points = model(texts(BATCH, length)).unbind(-1)
        if task == "third":
            return F.cross_entropy(points, torch.full((BATCH,), 2))
        side = F.binary_cross_entropy_with_logits(halves, second_half(length).float().expand_as(halves))
        return side + F.cross_entropy(points, torch.full((BATCH,), length // 2 - 1))

    descend(model.parameters(), loss, steps=budget.steps, learning_rate=2e-3)
    rows = [measured(model.eval(), texts(budget.samples, length)) for length in LENGTHS]
    return {name: [row[name] for row in rows] for name in rows[0]}


def method(source: str) -> str | Method:
    """Fourier features of a span, or the method "sinusoidal"."""
    if source == "sinusoidal":
        return source
    name, _, start = source.partition(" from ")
    span = Span(source=name, dim=DIM, max_length=LENGTHS[-1])
    if start:
        nn.init.normal_(next(span.parameters()))
    return Method(coordinates=span, encoding=Spatial(dim=DIM, features="fourier", start=1.0))


def second_half(length: int) -> Tensor:
    return torch.arange(length) >= length // 2


@torch.no_grad()
def measured(model: Reader, ids: Tensor) -> dict[str, float]:
    """For texts of one even length: share of tokens put in the right half, middle tokens found, their mean
    error in tokens, and |S - 50| at the middle.
    """
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


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    if variant == "untrained":
        return exact(seed, budget)
    source, task = variant.split(", ")
    return trained(source, task, seed=seed, budget=budget)


def exact(seed: int, budget: Budget) -> Metrics:
    """The largest |S - 50| at token n/2 of even n, and in tokens at (n + 1)/2 of odd n; its root mean square
    at n/2 with random gaps.
    """
    uniform = Span(source="uniform")
    metrics: Metrics = {
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
        metrics[source] = torch.tensor(off).square().mean(0).sqrt().tolist()
    return metrics


def middle(span: Span, length: int) -> float:
    """S of token n/2, or (n + 1)/2 if n is odd."""
    return float(span(None, torch.ones(1, length, dtype=torch.bool))[0, (length - 1) // 2, 0].detach())


@STUDY.control(
    "an index coordinate trained on short texts puts fewer than 90 % of the tokens of long "
    "ones in the right half",
    variant="sinusoidal, middle",
    mechanism="uniform, middle",
)
def sinusoids_fail(findings: Findings) -> bool:
    return float(findings.curve("sinusoidal, middle", "half")[:, 1:].max()) < 0.9


@STUDY.claim("The middle token of n = 10 (i = 5) and of n = 20 (i = 10) has S = 50")
def judge_uniform(findings: Findings) -> Verdict:
    """Confirmed if, with uniform gaps, |S - 50| is at most 1e-4 at n/2 of every even n, and half a token for
    odd n.
    """
    even, odd = findings.most("untrained", "even"), findings.most("untrained", "odd")
    summary = f"n = 2 to 256, uniform gaps: |S - 50| at most {even:.0e} at token n/2 of even n, "
    summary += f"{odd:.2f} tokens at (n + 1)/2 of odd n"
    return decided(even <= 1e-4 and odd <= 0.5 + 1e-4, summary)


@STUDY.claim(
    "The span is normalized to 100, so S = 50 is always the middle, whatever n",
    source="000, section 3.2, the middle",
)
def judge_always(findings: Findings) -> Verdict:
    """Confirmed if S stays within half a token of 50 for learned gaps, trained and random; conditional if for
    some.
    """
    length = LENGTHS[-1]
    off = {
        variant: findings.curve(variant, "off")[:, -1].mean() * length / 100
        for variant in findings.variants
        if variant.startswith(LEARNED)
    }
    summary = f"distance of S = 50 from the middle of {length} tokens, in tokens: "
    summary += listed(off, "{:.1f}")
    drawn = {source: findings.curve("untrained", source).mean(0) for source in ("warp", "free")}
    summary += f"; with random gaps, in units of S at {', '.join(map(str, LENGTHS))} tokens: "
    summary += "; ".join(
        f"{source} {', '.join(f'{value:.1f}' for value in values)}" for source, values in drawn.items()
    )
    trained, random = max(off.values()) <= 0.5, max(values.max() for values in drawn.values()) <= 50 / length
    condition = "the gaps are uniform, or near it"
    if trained:
        condition += f" as after this training: at most {max(off.values()):.1f} tokens off"
    return decided(trained and random, summary, refuted=False, condition=condition)


def shares(findings: Findings, variants: list[str], metric: str) -> str:
    """The range over seeds in %, per length."""
    parts = []
    for variant in variants:
        curve = 100 * findings.curve(variant, metric)
        ranges = [f"{low:.1f}-{high:.1f}" for low, high in zip(curve.min(0), curve.max(0), strict=True)]
        parts.append(f"{variant.removesuffix(', middle')} {', '.join(ranges)}")
    return "; ".join(parts)


@STUDY.claim("What is learned of the middle holds at unseen lengths, and not with discrete indices")
def judge_transfer(findings: Findings) -> Verdict:
    """Confirmed if, with uniform gaps, halves are 95 % right at 4 and 8 times the length, and 5 points above
    sinusoids.
    """
    variants = ["uniform, middle", "sinusoidal, middle"]
    summary = f"tokens put in the right half, %, range over seeds, at {LENGTHS}: "
    summary += f"{shares(findings, variants, 'half')}; no token of the training texts of {TRAINED} has S "
    summary += f"between 50 and {50 + 100 / TRAINED:.1f}, as "
    summary += f"{100 / TRAINED:.1f} % of the tokens of a long text have"
    span, index = (findings.curve(variant, "half")[:, 1:] for variant in variants)
    return decided(span.min() >= NEAR and (span - index).min() >= 0.05, summary)


@STUDY.claim("It holds with learned gaps as well")
def judge_sources(findings: Findings) -> Verdict:
    """Confirmed if halves are 95 % right at every length and seed; conditional if for some sources. Those of
    `LEARNED` stay close to equal gaps, so that two begin with others.
    """
    sources = (*LEARNED, *BENT)
    variants = [f"{source}, middle" for source in sources]
    moved = {source: findings.curve(f"{source}, middle", "from_linear").max() for source in sources}
    summary = f"tokens put in the right half, %, at {LENGTHS}: {shares(findings, variants, 'half')}; largest "
    summary += f"|S - linear|: {listed(moved, '{:.1f}')}"
    good = {source: findings.curve(f"{source}, middle", "half").min() >= NEAR for source in sources}
    return each(good, summary, "the source is {}")


@STUDY.claim("The middle token itself is found at every length", source="001, length generalization")
def judge_token(findings: Findings) -> Verdict:
    """Confirmed if 95 % are found at every length, source and seed; conditional if at some lengths."""
    every = [f"{source}, middle" for source in SOURCES]
    summary, variants = f"middle tokens found, %, at {LENGTHS}: {shares(findings, every, 'hit')}", every[:-1]
    missed = max(findings.curve(variant, "missed")[:, -1].max() for variant in variants)
    summary += f"; mean error at most {missed:.1f} tokens (over seeds, at {LENGTHS[-1]} tokens)"
    least = np.min([findings.curve(variant, "hit").min(0) for variant in variants], axis=0)
    good = {length: share >= NEAR for length, share in zip(LENGTHS, least, strict=True)}
    return each(good, summary, f"texts of {max(filter(good.get, LENGTHS), default=0)} tokens")


@STUDY.draws
def draw(findings: Findings) -> Figure:
    off = {
        f"{source}, trained on the {task}": findings.curve(f"{source}, {task}", "off")
        for source in LEARNED
        for task in ("middle", "third")
    }
    off |= {f"{source}, random": findings.curve("untrained", source) for source in ("warp", "free")}
    off["half a token"] = np.array([[50 / length for length in LENGTHS]])
    by_length = {
        f"{length} tokens": {name: values[:, place] for name, values in off.items()}
        for place, length in enumerate(LENGTHS)
    }
    left = Dots(by_length, "|S - 50| at the middle (uniform: 0)", xscale="log", legend="lower left")
    halves = {source: findings.curve(f"{source}, middle", "half") for source in SOURCES}
    lengths, label = [str(length) for length in LENGTHS], "tokens put in the right half (%)"
    right = Lines(lengths, halves, "length (tokens)", label, percent=True, at_y=50, ylim=(0, 103))
    return figure(left, right)
