"""Irregular time: samples dropped and bunched, with their timestamps.

A model reads 48 of the last 120 hours of a real series and forecasts the value 12 hours ahead. Samples are
denser on one side of a random cut, so that the number of a sample says little about its time. Its position is
counted, or known: timestamps scale the gaps of a span, so that with a uniform source S is in proportion to
time, or they are the angles of a rotation. By hand, a user would interpolate to a regular grid.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

from vnait.positions.building import build
from vnait.positions.coordinates import Phase, Span
from vnait.positions.encodings import Harmonics, Spatial
from vnait.positions.method import Method
from vnait.shared.statistics import Interval
from vnait_lab.kit import Bars, Figure, Stack, at_most, descend, figure
from vnait_lab.studies.parts.series import TESTED, TRAINED, VALIDATION, etth1
from vnait_lab.studies.seasonality import forecast
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

WINDOW, SAMPLES, AHEAD, EVERY = 120, 48, 12, 2  # hours; a regular grid has EVERY second hour
DIM, BATCH, ROWS = 32, 32, 1000
SMALLEST = 0.05  # of the squared error
VARIANTS = {
    "counted": "a uniform span, S = 100 i / n",
    "learned": "a span with gaps from the values",
    "times": "a uniform span of the timestamps: S in proportion to time",
    "learned on times": "a span of the timestamps with gaps from the values",
    "rope": "a rotation by the number of a sample",
    "rope, times": "a rotation by the hour",
    "phases": "the hour of the day, sin and cos",
    "other times": "the timestamps of another window",
    "by hand": "interpolated to every second hour; a uniform span",
    "rules": "no model: the value nearest to a day before, and a ridge regression of those interpolated",
}
STUDY = Study.of(
    __name__,
    source="004, time series",
    data="ETTh1 (hourly, electricity transformer), the usual split; 48 of the last 120 hours",
    measure="squared error on the test months, 12 hours ahead",
    smallest="5 % of the squared error",
    variants=VARIANTS,
    full=Budget(seeds=10, steps=800),
    quick=Budget(seeds=2, steps=100),
    needs="data:etth1",
)


def series() -> Tensor:
    """A load, which has a daily season, standardized by its first year."""
    y = etth1()[:, 0]
    return (y - y[:TRAINED].mean()) / y[:TRAINED].std()


def sampled(y: Tensor, now: Tensor, random: Generator) -> tuple[Float[Tensor, "N T"], Float[Tensor, "N T"]]:
    """Values and hours of `SAMPLES` of the `WINDOW` hours up to each `now`, which is kept; in order."""
    cut, left, right = torch.rand(3, len(now), 1, generator=random)
    hours = torch.arange(WINDOW)
    rate = torch.where(hours / WINDOW < cut, 0.05 + 0.95 * left, 0.05 + 0.95 * right)
    drawn = torch.rand(len(now), WINDOW, generator=random) ** (1 / rate)  # without replacement, by rate
    drawn[:, -1] = 2
    places = drawn.topk(SAMPLES, -1).indices.sort(-1).values
    at = now[:, None] - WINDOW + 1 + places
    return y[at], at.float()


def interpolated(values: Tensor, hours: Tensor) -> Float[Tensor, "N T"]:
    """The values at every second hour up to the last one, linear between samples."""
    grid = hours[:, -1:] - EVERY * torch.arange(SAMPLES - 1, -1, -1)
    right = torch.searchsorted(hours, grid).clamp(1, SAMPLES - 1)
    before, after = (hours.gather(1, place) for place in (right - 1, right))
    share = ((grid - before) / (after - before)).clamp(0, 1)
    return torch.lerp(values.gather(1, right - 1), values.gather(1, right), share)


class Forecaster(Stack):
    """Values (B, T), and hours if its variant knows them -> the value to come (B,)."""

    def __init__(self, variant: str) -> None:
        enter = nn.Linear(1, DIM)
        super().__init__(method(variant), vectors=enter, outputs=1, dim=DIM)
        self.knows = variant in ("times", "learned on times", "rope, times", "phases", "other times")

    def forward(self, values: Tensor, hours: Tensor) -> Tensor:
        states = self.states(values[..., None], positions=hours[..., None] if self.knows else None)
        return values[:, -1] + self.read(states[-1][:, -1])[:, 0]


def method(variant: str) -> Method:
    """The positional method of a variant."""
    if variant.startswith("rope"):
        return build("rope", dim=DIM, num_heads=4)
    if variant == "phases":
        return Method(coordinates=Phase(periods=[24.0]), encoding=Harmonics(dim=DIM, axes=1))
    source = "content" if variant.startswith("learned") else "uniform"
    return Method(
        coordinates=Span(source=source, dim=DIM), encoding=Spatial(dim=DIM, features="fourier", start=1.0)
    )


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    torch.manual_seed(seed)
    random, y = Generator().manual_seed(seed), series()

    def texts(first: int, last: int, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """Values, hours and answers of windows whose targets are in [first, last)."""
        low = max(first, WINDOW + AHEAD)
        now = low - AHEAD + (torch.rand(count, generator=random) * (last - low)).long()
        values, hours = sampled(y, now, random)
        if variant == "by hand":
            values = interpolated(values, hours)
        if variant == "other times":
            hours = hours.roll(1, 0)
        return values, hours, y[now + AHEAD]

    start = TRAINED + VALIDATION
    if variant == "rules":
        return rules(texts(0, TRAINED, ROWS * 8), texts(start, start + TESTED, ROWS))
    model = Forecaster(variant)

    def loss(step: int) -> Tensor:
        values, hours, answers = texts(0, TRAINED, BATCH)
        return (model(values, hours) - answers).square().mean()

    descend(model.parameters(), loss, steps=budget.steps, learning_rate=2e-3, weight_decay=0.01)
    values, hours, answers = texts(start, start + TESTED, ROWS)
    with torch.no_grad():
        return {"error": float((model.eval()(values, hours) - answers).square().mean())}


def rules(known: tuple[Tensor, Tensor, Tensor], new: tuple[Tensor, Tensor, Tensor]) -> Metrics:
    """Squared errors of two rules without a model, on the new windows."""
    values, hours, answers = new
    day = (hours - (hours[:, -1:] + AHEAD - 24)).abs().argmin(-1, keepdim=True)
    x = torch.cat([interpolated(*known[:2]), interpolated(values, hours)]).double()
    y = torch.cat([known[2], answers]).double()
    ridge = forecast(x, y, len(known[2]), penalty=1.0)[len(known[2]) :]
    return {
        "error": float((ridge - answers).square().mean()),
        "day before": float((values.gather(1, day)[:, 0] - answers).square().mean()),
    }


def over(findings: Findings, variant: str, against: str) -> tuple[Interval, str]:
    """The error of a variant over that of another one, paired by seed, and as text."""
    ratio = findings.ratio(variant, against, "error")
    return ratio, ratio.written("{:.2f}")


def compared(findings: Findings, variant: str, against: str, more: str = "") -> Verdict:
    ratio, written = over(findings, variant, against)
    summary = f"squared error {findings.mean(variant, 'error'):.3f}, "
    summary += f"{against} {findings.mean(against, 'error'):.3f}: {written}{more}"
    return at_most([ratio], 1 - SMALLEST, summary)


@STUDY.control(
    "the timestamps of another window gain less than 5 % over the index",
    variant="other times",
    mechanism="times",
)
def other_times_gain_little(findings: Findings) -> bool:
    return findings.mean("other times", "error") >= 0.95 * findings.mean("counted", "error")


@STUDY.claim("Timestamps as coordinates forecast better than the index where samples are missing")
def judge_times(findings: Findings) -> Verdict:
    """The squared error of `times` is at most .95 of that of `counted`, interval included; refuted if it is
    above.
    """
    rope = over(findings, "rope, times", "rope")[1]
    return compared(findings, "times", "counted", f"; rope with times over without: {rope}")


@STUDY.claim("Gaps learned on top of timestamps forecast better than timestamps alone")
def judge_learned(findings: Findings) -> Verdict:
    """The squared error of `learned on times` is at most .95 of that of `times`."""
    return compared(findings, "learned on times", "times")


@STUDY.claim("Timestamps as coordinates make interpolation by hand unnecessary")
def judge_by_hand(findings: Findings) -> Verdict:
    """The squared error of `times` is at most 1.05 of that of `by hand`, interval included; refuted if it is
    above.
    """
    ratio, written = over(findings, "times", "by hand")
    summary = f"times over by hand: {written}; ridge regression of interpolated values "
    summary += f"{findings.mean('rules', 'error'):.3f}, the value of the day before "
    summary += f"{findings.mean('rules', 'day before'):.3f}, phases {findings.mean('phases', 'error'):.3f}"
    return at_most([ratio], 1 + SMALLEST, summary)


@STUDY.draws
def draw(findings: Findings) -> Figure:
    label = f"squared error of HUFL, {AHEAD} hours ahead, over its variance in the first year"
    return figure(Bars(findings.curves(VARIANTS, "error"), label))
