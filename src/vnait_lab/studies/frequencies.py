"""The frequencies of the sinusoidal code that a task needs: training with a part of the wavelengths.

The code of 64 channels has 32 pairs, of wavelengths 2 pi 10000^(i/32). Those shorter than the text are its
high frequencies, and repeat within it; the others are low, and neighbours differ little in them. One layer of
attention answers four questions at every token: the token before it, the token 15 before it, the quarter of
the text it is in, and the half of the text that has more tokens of the upper kind. All bands train for the
same few hundred steps; with more steps a band might learn more.
"""

from __future__ import annotations

import math

import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from vnait.positions.coordinates import Index
from vnait.positions.encodings import Sinusoid
from vnait.positions.injection import Injection
from vnait.positions.method import Method
from vnait_lab.studies.figures import bars, panels
from vnait_lab.studies.parts.training import Reader, accuracies, descend
from vnait_lab.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

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


def reader(arm: str, seed: int) -> Reader:
    torch.manual_seed(seed)
    method = Method(coordinates=Index(), encoding=Kept(*BANDS[arm]))
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


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    random = Generator().manual_seed(seed)
    model = reader(arm, seed)

    def loss(step: int) -> Tensor:
        ids = torch.randint(TOKENS, (BATCH, LENGTH), generator=random)
        return F.cross_entropy(model(ids).unflatten(-1, (4, TOKENS)).flatten(0, 2), answers(ids).flatten())

    descend(model.parameters(), loss, steps=budget.steps, learning_rate=1e-2)
    held = torch.randint(TOKENS, (TESTED, LENGTH), generator=random)
    return accuracies(model, held, answers(held), TASKS)


@claim("Low frequencies matter more", source="003, later findings")
def judge_low(found: Findings) -> Verdict:
    """Confirmed if low ones alone are 5 points ahead of high ones in some question and behind in none;
    conditional if ahead in some and behind in others.
    """
    ahead = {task: found.mean("low", task) - found.mean("high", task) for task in TASKS}
    low, high = ([task for task in TASKS if sign * ahead[task] >= MATTERS] for sign in (1, -1))
    if low and high:
        return Verdict("conditional", shown(found, "high", "low"), f"the question is: {', '.join(low)}")
    return Verdict("confirmed" if low else "refuted", shown(found, "high", "low"))


@claim("High frequencies can sometimes be pruned", source="003, later findings")
def judge_pruned(found: Findings) -> Verdict:
    """Confirmed if low ones alone stay within 2 points of all in every question, conditional if in some."""
    spared = [task for task in TASKS if found.mean("low", task) >= found.mean("all", task) - 0.02]
    summary = shown(found, "all", "low")
    if spared and len(spared) < len(TASKS):
        return Verdict("conditional", summary, f"the question is: {', '.join(spared)}")
    return Verdict("confirmed" if spared else "refuted", summary)


@claim("High frequencies capture near positions, low ones far positions", source="003, several frequencies")
def judge_range(found: Findings) -> Verdict:
    """Confirmed if high ones alone are 5 points ahead at a distance of 1, and low ones at 15."""
    near, far = (found.mean("high", task) - found.mean("low", task) for task in TASKS[:2])
    summary = (
        f"high minus low frequencies: {100 * near:+.1f} points at 1 before, {100 * far:+.1f} at {AWAY} before"
    )
    return Verdict("confirmed" if near >= MATTERS and -far >= MATTERS else "refuted", summary)


@claim("Several scales are more flexible than one", source="003, several frequencies")
def judge_scales(found: Findings) -> Verdict:
    """Confirmed if each band alone falls at least 5 points behind all in some question."""
    behind = {
        arm: [found.mean("all", task) - found.mean(arm, task) for task in TASKS] for arm in ("high", "low")
    }
    summary = ", ".join(
        f"{arm} by {100 * max(lost):.1f} ({TASKS[lost.index(max(lost))]})" for arm, lost in behind.items()
    )
    worse = all(max(lost) >= MATTERS for lost in behind.values())
    return Verdict("confirmed" if worse else "refuted", f"largest number of points behind all: {summary}")


def shown(found: Findings, *arms: str) -> str:
    """Right answers in percent: the mean, and the range over seeds if they differ."""
    return "; ".join(
        f"{task}: " + ", ".join(f"{arm} {percent(found, arm, task)}" for arm in arms) for task in TASKS
    )


def percent(found: Findings, arm: str, task: str) -> str:
    mean, low, high = (100 * of(arm, task) for of in (found.mean, found.least, found.most))
    return f"{mean:.1f} %" + (f" ({low:.1f} to {high:.1f})" if high - low >= 0.05 else "")


def draw(found: Findings) -> Figure:
    figure, (axes,) = panels(1, size=(8, 3.2))
    pairs = {arm: f"{arm} ({int(Kept(*band).keep.sum()) // 2} pairs)" for arm, band in BANDS.items()}
    bars(axes, TASKS, {name: [100 * found.curve(arm, task) for task in TASKS] for arm, name in pairs.items()})
    for group, chance in enumerate(CHANCE):
        axes.hlines(100 * chance, group - 0.45, group + 0.45, color="black", ls=":")
    axes.set(ylim=(0, 105), ylabel="right answers (%), chance dotted")
    axes.set(title=f"mean, one dot per seed (n={len(found.values('all', TASKS[0]))})")
    figure.legend(loc="outside right center", title="wavelengths kept", frameon=False)
    return figure


STUDY = Study(
    name="frequencies",
    subject="Which frequencies of the sinusoidal code matter",
    data=f"generated texts of {LENGTH} tokens from a vocabulary of {TOKENS}; four questions per token",
    measure="right answers after training with a part of the wavelengths",
    smallest="5 points",
    arms={arm: f"wavelengths from {low:g} to below {high:g}" for arm, (low, high) in BANDS.items()},
    controls=[
        Control(
            statement="without any wavelength the token before is found in less than 30 %",
            arm="none",
            mechanism="all",
            fails=lambda found: found.mean("none", "previous") < 0.3,
        )
    ],
    claims=[judge_low, judge_pruned, judge_range, judge_scales],
    full=Budget(seeds=3, steps=500),
    quick=Budget(seeds=1, steps=500),
    run=run,
    draw=draw,
)
