"""Forecasts of ETTh1 at 24, 96 and 336 hours: phases as coordinates, and what models without attention get.

A plain Transformer reads four days of one of the seven series, and a token without a value for each hour to
come; it forecasts differences from the mean of the last day. There is a model per horizon, for all series.
Its positions are the number of an hour, or its phase in the day.

DLinear (Zeng et al. 2022, arXiv 2205.13504) is linear: the moving average of 25 hours and the rest each have
a matrix from the past to the future. Published with 336 hours of past: squared error .375 at 96 hours and
.439 at 336. Its error here shows that split and measure are the literature's.

Settings were chosen on the validation months, with seed 100.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from vnait.model.backbone import Encoder
from vnait.positions.building import build
from vnait.positions.coordinates import Phase, Span
from vnait.positions.encodings import Harmonics, Spatial
from vnait.positions.method import Method
from vnait_lab.studies.figures import bars, panels
from vnait_lab.studies.parts.series import TESTED, TRAINED, VALIDATION, etth1
from vnait_lab.studies.parts.training import descend
from vnait_lab.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

SERIES = 7
HORIZONS = (24, 96, 336)  # hours ahead
DAY, PAST, LONG_PAST = 24, 96, 336  # hours
AVERAGE = 25  # hours
DIM, HEADS, BATCH = 32, 4, 16
SMALLEST = 0.05  # of the squared error
SOURCE = "004, phase-aligned forecasting"
TRANSFORMERS = {
    "index": "the number of an hour, sinusoidal",
    "rope": "the number of an hour, rotations",
    "span": "a uniform span, S = 100 i / n, and s = MLP(S)",
    "phases": "the hour of the day, sin and cos",
    "other phases": "the same of a random hour for each token",
}
RULES = {
    "day before": "no model: the last day, repeated",
    "DLinear": "a linear model of 96 hours",
    "DLinear, 336": "a linear model of 336 hours, as published",
}


@lru_cache(maxsize=1)
def series() -> Float[Tensor, "hours series"]:
    """All seven series, standardized by their first year."""
    y = etth1()
    return (y - y[:TRAINED].mean(0)) / y[:TRAINED].std(0, correction=0)


def windows(
    now: Int[Tensor, " N"], past: int, ahead: int
) -> tuple[Float[Tensor, "N past series"], Float[Tensor, "N ahead series"]]:
    """What is read, up to hour `now`, and what follows."""
    hours = now[:, None] + torch.arange(1 - past, ahead + 1)
    before, after = series()[hours].split([past, ahead], 1)
    return before, after


class Transformer(nn.Module):
    """Values of the past (B, past) and the hour of the last one (B,) -> forecasts (B, ahead)."""

    def __init__(self, arm: str, ahead: int) -> None:
        super().__init__()
        self.arm, self.ahead = arm, ahead
        self.enter = nn.Linear(1, DIM)
        self.to_come = nn.Parameter(torch.zeros(DIM))
        self.method = method(arm)
        self.encoder = Encoder(dim=DIM, num_heads=HEADS, intermediate=4 * DIM, num_layers=2, dropout=0.1)
        self.read = nn.Linear(DIM, 1)

    def forward(self, past: Tensor, now: Tensor) -> Tensor:
        level = past[:, -DAY:].mean(1, keepdim=True)
        known = self.enter((past - level)[..., None])
        vectors = torch.cat([known, self.to_come.expand(len(past), self.ahead, DIM)], 1)
        mask = torch.ones(vectors.shape[:2], dtype=torch.bool)
        hours = None
        if "phases" in self.arm:
            hours = now[:, None] + torch.arange(1 - past.shape[1], self.ahead + 1)
            hours = torch.randint_like(hours, DAY) if self.arm == "other phases" else hours
            hours = hours[..., None].float()
        x, injection, _ = self.method(vectors, mask, hours)
        return level + self.read(self.encoder(x, injection, mask)[:, -self.ahead :])[..., 0]


def method(arm: str) -> Method:
    """The positional method of an arm."""
    if arm in ("index", "rope"):
        return build("sinusoidal" if arm == "index" else "rope", dim=DIM, num_heads=HEADS)
    if arm == "span":
        spatial = Spatial(dim=DIM, features="fourier", start=1.0)
        return Method(coordinates=Span(source="uniform", dim=DIM), encoding=spatial)
    return Method(coordinates=Phase(periods=[DAY]), encoding=Harmonics(dim=DIM))


class DLinear(nn.Module):
    """Values of the past (B, past) -> forecasts (B, ahead)."""

    def __init__(self, past: int, ahead: int) -> None:
        super().__init__()
        self.trend, self.rest = nn.Linear(past, ahead), nn.Linear(past, ahead)
        for part in (self.trend, self.rest):
            nn.init.constant_(part.weight, 1 / past)

    def forward(self, past: Tensor, now: Tensor) -> Tensor:
        ends = F.pad(past[:, None], [AVERAGE // 2] * 2, mode="replicate")
        trend = F.avg_pool1d(ends, AVERAGE, stride=1)[:, 0]
        return self.trend(trend) + self.rest(past - trend)


class Repeated(nn.Module):
    """The last day, repeated."""

    def __init__(self, ahead: int) -> None:
        super().__init__()
        self.ahead = ahead

    def forward(self, past: Tensor, now: Tensor) -> Tensor:
        return past[:, -DAY:].repeat(1, self.ahead // DAY)


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    found = {}
    for ahead in HORIZONS:
        model = fitted(arm, seed, ahead, budget.steps)
        found[f"{ahead} hours"] = error(model, past(arm), ahead, TRAINED + VALIDATION, budget.samples)
    return found


def past(arm: str) -> int:
    """The hours that it reads."""
    return LONG_PAST if arm == "DLinear, 336" else PAST


def fitted(arm: str, seed: int, ahead: int, steps: int) -> nn.Module:
    """The model of one horizon."""
    if arm == "day before":
        return Repeated(ahead)
    torch.manual_seed(seed)
    random = Generator().manual_seed(seed)
    linear = arm.startswith("DLinear")
    model = DLinear(past(arm), ahead) if linear else Transformer(arm, ahead)

    def loss(step: int) -> Tensor:
        now = torch.randint(past(arm) - 1, TRAINED - ahead, (BATCH,), generator=random)
        own = torch.arange(BATCH), slice(None), torch.randint(SERIES, (BATCH,), generator=random)
        before, after = (values[own] for values in windows(now, past(arm), ahead))
        return (model(before, now) - after).square().mean()

    steps, rate = (10 * steps, 1e-3) if linear else (steps, 3e-3)
    descend(model.parameters(), loss, steps=steps, learning_rate=rate, weight_decay=0.01)
    return model.eval()


@torch.no_grad()
def error(model: nn.Module, past: int, ahead: int, first: int, count: int) -> float:
    """The squared error of `count` windows, evenly spaced, whose targets are in the four months from `first`;
    over hours and series.
    """
    every = torch.linspace(first - 1, first + TESTED - 1 - ahead, count).long()
    total = 0.0
    for now in every.split(16):
        before, after = (values.mT.flatten(0, 1) for values in windows(now, past, ahead))
        total += float((model(before, now.repeat_interleave(SERIES)) - after).square().mean(1).sum())
    return total / (count * SERIES)


def judge(found: Findings, arm: str, other: str) -> Verdict:
    """Confirmed if at every horizon the squared error of `arm` is at most .95 of that of `other`, interval
    included; conditional if at some; refuted if it is above at every horizon.
    """
    overs = {
        horizon: found.ratio(arm, other, horizon) for horizon in (f"{ahead} hours" for ahead in HORIZONS)
    }
    errors = ", ".join(
        f"{found.mean(arm, horizon):.3f} and {found.mean(other, horizon):.3f} ({over.written('{:.2f}')})"
        for horizon, over in overs.items()
    )
    words = f"squared error at {', '.join(map(str, HORIZONS))} hours, {arm} and {other} (ratio): {errors}"
    good = [horizon for horizon, over in overs.items() if over.bounds[1] <= 1 - SMALLEST]
    if not good and any(over.bounds[0] <= 1 - SMALLEST for over in overs.values()):
        return Verdict("undecided", words)
    return Verdict.among(good, HORIZONS, words, f"the forecast is for {' or '.join(good)}")


@claim("Phases as coordinates forecast better than the number of an hour", source=SOURCE)
def judge_index(found: Findings) -> Verdict:
    """At every horizon the squared error of `phases` is at most .95 of that of `index`, interval included;
    conditional if at some, refuted if it is above .95 at all.
    """
    return beside(found, judge(found, "phases", "index"), "rope", "span")


@claim("A Transformer with phases forecasts better than the last day, repeated", source=SOURCE)
def judge_day(found: Findings) -> Verdict:
    """At every horizon the squared error of `phases` is at most .95 of that of `day before`, as above."""
    return judge(found, "phases", "day before")


@claim("A Transformer with phases forecasts better than a linear model", source=SOURCE)
def judge_linear(found: Findings) -> Verdict:
    """At every horizon the squared error of `phases` is at most .95 of that of `DLinear, 336`, as above."""
    return beside(found, judge(found, "phases", "DLinear, 336"), "DLinear")


def beside(found: Findings, verdict: Verdict, *arms: str) -> Verdict:
    """The verdict with the errors of further arms."""
    others = ", ".join(
        f"{arm} " + "/".join(f"{found.mean(arm, f'{ahead} hours'):.3f}" for ahead in HORIZONS) for arm in arms
    )
    return Verdict(verdict.word, f"{verdict.found}; {others}", verdict.condition)


def draw(found: Findings) -> Figure:
    figure, (axes,) = panels(1, size=(10, 4))
    arms = list(STUDY.arms)
    horizons = [f"{ahead} hours" for ahead in HORIZONS]
    bars(axes, arms, {horizon: [found.values(arm, horizon) for arm in arms] for horizon in horizons})
    axes.set(ylabel="squared error, standardized series")
    seeds = len(found.values("phases", horizons[0]))
    axes.set_title(f"ETTh1, seven series, test months; one dot per seed (n={seeds})")
    axes.legend(title="horizon")
    return figure


STUDY = Study(
    name="horizons",
    subject="Forecasts of ETTh1 at 24, 96 and 336 hours, with phases as coordinates",
    data="ETTh1 (hourly, electricity transformer), seven series, the usual split; 500 windows of the test "
    "months",
    measure="squared error of the standardized series, over hours and series",
    smallest="5 % of the squared error",
    arms={**TRANSFORMERS, **RULES},
    controls=[
        Control(
            statement="phases of random hours gain less than 5 % over the number of an hour, at 24 hours",
            arm="other phases",
            mechanism="phases",
            fails=lambda found: (
                found.mean("other phases", "24 hours") >= 0.95 * found.mean("index", "24 hours")
            ),
        )
    ],
    claims=[judge_index, judge_day, judge_linear],
    full=Budget(seeds=3, steps=600, samples=500),
    quick=Budget(seeds=2, steps=30, samples=40),
    run=run,
    draw=draw,
    needs=dict.fromkeys({**TRANSFORMERS, **RULES}, "data:etth1"),
)
