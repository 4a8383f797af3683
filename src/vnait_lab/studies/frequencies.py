"""Which frequencies of the sinusoidal code matter.

The code of 64 channels has 32 pairs, of wavelengths 2 pi 10000^(i/32). Those shorter than the text are its
high frequencies, and repeat within it; the others are low, and neighbours differ little in them. One layer of
attention answers four questions at every token: the token before it, the token 15 before it, the quarter of
the text it is in, and the half of the text that has more tokens of the upper kind. All bands train for the
same few hundred steps; with more steps a band might learn more.
"""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from vnait.positions.coordinates import Index
from vnait.positions.encodings import Sinusoid
from vnait.positions.injection import Injection
from vnait.positions.method import Method
from vnait_lab.kit import Bars, Figure, Reader, decided, descend, each, figure
from vnait_lab.studies.parts.training import accuracies
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

WIDTH, LENGTH, TOKENS, AWAY = 64, 40, 8, 15
BATCH, TESTED = 16, 400
BANDS = {  # wavelengths kept: from, and below
    "all": (0.0, math.inf),
    "high": (0.0, LENGTH),
    "low": (LENGTH, math.inf),
    "none": (0.0, 0.0),
}
TASKS = ("previous", "15 before", "quarter", "fuller half")
CHANCE = (1 / TOKENS, 1 / TOKENS, 1 / 4, 1 / 2)
MATTERS = 0.05
STUDY = Study.of(
    __name__,
    source="003, later findings",
    data=f"generated texts of {LENGTH} tokens from a vocabulary of {TOKENS}; four questions per token",
    measure="right answers after training with a part of the wavelengths",
    smallest="5 points",
    variants={name: f"wavelengths from {low:g} to below {high:g}" for name, (low, high) in BANDS.items()},
    full=Budget(seeds=3, steps=500),
    quick=Budget(seeds=1, steps=500),
)


class Kept(nn.Module):
    """The sinusoidal code with the channels of other wavelengths set to 0."""

    def __init__(self, shortest: float, longest: float) -> None:
        super().__init__()
        self.code = Sinusoid(dim=WIDTH)
        wavelength = 2 * math.pi * 10_000 ** (torch.arange(0, WIDTH, 2) / WIDTH)
        self.keep = ((wavelength >= shortest) & (wavelength < longest)).repeat_interleave(2)

    def forward(self, at: Tensor) -> Injection:
        added = self.code(at).added
        assert added is not None
        return Injection(added=added * self.keep)


def reader(variant: str, seed: int) -> Reader:
    torch.manual_seed(seed)
    method = Method(coordinates=Index(), encoding=Kept(*BANDS[variant]))
    return Reader(method, vocabulary=TOKENS, outputs=4 * TOKENS, dim=WIDTH, num_heads=8, num_layers=1)


def answers(ids: Tensor) -> Tensor:
    """Token before, token 15 before, quarter, half with more upper tokens: (B, T, 4); -100 if there is
    none.
    """
    length = ids.shape[1]
    before, away = (F.pad(ids, (back, 0), value=-100)[:, :length] for back in (1, AWAY))
    quarter = (4 * torch.arange(length) // length).expand_as(ids)
    first, second = (ids >= TOKENS // 2).unflatten(1, (2, -1)).sum(2).split(1, 1)
    half = torch.where(first == second, -100, (second > first).long()).expand_as(ids)
    return torch.stack([before, away, quarter, half], -1)


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    random = Generator().manual_seed(seed)
    model = reader(variant, seed)

    def loss(step: int) -> Tensor:
        ids = torch.randint(TOKENS, (BATCH, LENGTH), generator=random)
        return F.cross_entropy(model(ids).unflatten(-1, (4, TOKENS)).flatten(0, 2), answers(ids).flatten())

    descend(model.parameters(), loss, steps=budget.steps, learning_rate=1e-2)
    held = torch.randint(TOKENS, (TESTED, LENGTH), generator=random)
    return accuracies(model, held, answers(held), TASKS)


@STUDY.control(
    "without any wavelength the token before is found in less than 30 %", variant="none", mechanism="all"
)
def no_wavelength_finds_nothing(findings: Findings) -> bool:
    return findings.mean("none", "previous") < 0.3


@STUDY.claim("Low frequencies matter more")
def judge_low(findings: Findings) -> Verdict:
    """Confirmed if low ones alone are 5 points ahead of high ones in some question and behind in none;
    conditional if ahead in some and behind in others.
    """
    lead = {task: findings.mean("low", task) - findings.mean("high", task) for task in TASKS}
    low, high = ([task for task in TASKS if sign * lead[task] >= MATTERS] for sign in (1, -1))
    condition = f"the question is: {', '.join(low)}"
    summary = shown(findings, "high", "low")
    return decided(bool(low and not high), summary, refuted=not low, condition=condition)


@STUDY.claim("High frequencies can sometimes be pruned")
def judge_pruned(findings: Findings) -> Verdict:
    """Confirmed if low ones alone stay within 2 points of all in every question, conditional if in some."""
    spared = {task: findings.mean("low", task) >= findings.mean("all", task) - 0.02 for task in TASKS}
    return each(spared, shown(findings, "all", "low"), "the question is: {}", join=", ")


@STUDY.claim(
    "High frequencies capture near positions, low ones far positions", source="003, several frequencies"
)
def judge_range(findings: Findings) -> Verdict:
    """Confirmed if high ones alone are 5 points ahead at a distance of 1, and low ones at 15."""
    near, far = (findings.mean("high", task) - findings.mean("low", task) for task in TASKS[:2])
    summary = f"high minus low frequencies: {100 * near:+.1f} points at 1 before, {100 * far:+.1f} at "
    return decided(near >= MATTERS and -far >= MATTERS, f"{summary}{AWAY} before")


@STUDY.claim("Several scales are more flexible than one", source="003, several frequencies")
def judge_scales(findings: Findings) -> Verdict:
    """Confirmed if each band alone falls at least 5 points behind all in some question, with an interval
    above 0; refuted if one does in none, whatever the interval.
    """
    behind = {
        name: {task: findings.difference("all", name, task) for task in TASKS} for name in ("high", "low")
    }
    most = {name: max(lost, key=lambda task: lost[task].mean) for name, lost in behind.items()}
    summary = ", ".join(
        f"{name} by {behind[name][task].times(100).written('{:.1f}')} ({task})" for name, task in most.items()
    )
    large = {name: [lead for lead in lost.values() if lead.mean >= MATTERS] for name, lost in behind.items()}
    sure = all(any(lead.sign > 0 for lead in leads) for leads in large.values())
    return decided(sure, f"largest number of points behind all: {summary}", refuted=not all(large.values()))


def shown(findings: Findings, *variants: str) -> str:
    """Right answers in percent: the mean, and the range over seeds if they differ."""
    return "; ".join(
        f"{task}: {', '.join(f'{name} {percent(findings, name, task)}' for name in variants)}"
        for task in TASKS
    )


def percent(findings: Findings, variant: str, task: str) -> str:
    mean, low, high = (100 * of(variant, task) for of in (findings.mean, findings.least, findings.most))
    return f"{mean:.1f} %" + (f" ({low:.1f} to {high:.1f})" if high - low >= 0.05 else "")


@STUDY.draws
def draw(findings: Findings) -> Figure:
    rows = {
        f"{name} ({int(Kept(*band).keep.sum()) // 2} pairs)": {
            task: findings.values(name, task) for task in TASKS
        }
        for name, band in BANDS.items()
    }
    chances = {f"chance {100 * chance:g} %": 100 * chance for chance in CHANCE[1:]}
    return figure(Bars(rows, "right answers (%)", percent=True, at_x=chances, legend="right"))
