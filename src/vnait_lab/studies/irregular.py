"""Irregular time: forecasts from samples that were dropped and bunched, with and without their timestamps.

A model reads 48 of the last 120 hours of a real series and forecasts the value 12 hours ahead. Samples are
denser on one side of a random cut, so that the number of a sample says little about its time. Its position is
counted, or known: timestamps scale the gaps of a span, so that with a uniform source S is in proportion to
time, or they are the angles of a rotation. By hand, a user would interpolate to a regular grid.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Generator, Tensor, nn

from vnait.model.backbone import Encoder
from vnait.positions.building import build
from vnait.positions.coordinates import Phase, Span
from vnait.positions.encodings import Harmonics, Spatial
from vnait.positions.method import Method
from vnait_lab.studies.figures import bars, panels
from vnait_lab.studies.parts.series import TESTED, TRAINED, VALIDATION, etth1
from vnait_lab.studies.parts.training import descend
from vnait_lab.studies.seasonality import forecast
from vnait_lab.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

WINDOW, SAMPLES, AHEAD, EVERY = 120, 48, 12, 2  # hours; a regular grid has EVERY second hour
DIM, BATCH, ROWS = 32, 32, 1000
SMALLEST = 0.05  # of the squared error
SOURCE = "004, time series"
ARMS = {
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
    kept = drawn.topk(SAMPLES, -1).indices.sort(-1).values
    at = now[:, None] - WINDOW + 1 + kept
    return y[at], at.float()


def interpolated(values: Tensor, hours: Tensor) -> Float[Tensor, "N T"]:
    """The values at every second hour up to the last one, linear between samples."""
    grid = hours[:, -1:] - EVERY * torch.arange(SAMPLES - 1, -1, -1)
    right = torch.searchsorted(hours, grid).clamp(1, SAMPLES - 1)
    one, other = (hours.gather(1, place) for place in (right - 1, right))
    share = ((grid - one) / (other - one)).clamp(0, 1)
    return torch.lerp(values.gather(1, right - 1), values.gather(1, right), share)


class Forecaster(nn.Module):
    """Values (B, T), and hours if its arm knows them -> the value to come (B,)."""

    def __init__(self, arm: str) -> None:
        super().__init__()
        self.knows = arm in ("times", "learned on times", "rope, times", "phases", "other times")
        self.enter = nn.Linear(1, DIM)
        self.method = method(arm)
        self.encoder = Encoder(dim=DIM, num_heads=4, intermediate=4 * DIM, num_layers=2, dropout=0.0)
        self.read = nn.Linear(DIM, 1)

    def forward(self, values: Tensor, hours: Tensor) -> Tensor:
        mask = torch.ones_like(values, dtype=torch.bool)
        x, injection, _ = self.method(
            self.enter(values[..., None]), mask, hours[..., None] if self.knows else None
        )
        return values[:, -1] + self.read(self.encoder(x, injection, mask)[:, -1])[:, 0]


def method(arm: str) -> Method:
    """The positional method of an arm."""
    if arm.startswith("rope"):
        return build("rope", dim=DIM, num_heads=4)
    if arm == "phases":
        return Method(coordinates=Phase(periods=[24.0]), encoding=Harmonics(dim=DIM, axes=1))
    source = "content" if arm.startswith("learned") else "uniform"
    return Method(
        coordinates=Span(source=source, dim=DIM), encoding=Spatial(dim=DIM, features="fourier", start=1.0)
    )


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    torch.manual_seed(seed)
    random, y = Generator().manual_seed(seed), series()

    def texts(first: int, last: int, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """Values, hours and answers of windows whose targets are in [first, last)."""
        low = max(first, WINDOW + AHEAD)
        now = low - AHEAD + (torch.rand(count, generator=random) * (last - low)).long()
        values, hours = sampled(y, now, random)
        if arm == "by hand":
            values = interpolated(values, hours)
        if arm == "other times":
            hours = hours.roll(1, 0)
        return values, hours, y[now + AHEAD]

    start = TRAINED + VALIDATION
    if arm == "rules":
        return rules(texts(0, TRAINED, ROWS * 8), texts(start, start + TESTED, ROWS))
    model = Forecaster(arm)

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


def ratio(found: Findings, arm: str, other: str) -> tuple[float, float, str]:
    """The limits of the error of an arm over that of another one, paired by seed, and as text."""
    over = found.ratio(arm, other, "error")
    return *over.bounds, over.written("{:.2f}")


def judge(found: Findings, arm: str, other: str) -> Verdict:
    low, high, written = ratio(found, arm, other)
    words = (
        f"squared error {found.mean(arm, 'error'):.3f}, {other} {found.mean(other, 'error'):.3f}: {written}"
    )
    if high <= 1 - SMALLEST:
        return Verdict("confirmed", words)
    return Verdict("refuted" if low > 1 - SMALLEST else "undecided", words)


@claim("Timestamps as coordinates forecast better than the index where samples are missing", source=SOURCE)
def judge_times(found: Findings) -> Verdict:
    """The squared error of `times` is at most .95 of that of `counted`, interval included; refuted if it is
    above.
    """
    verdict = judge(found, "times", "counted")
    rope = ratio(found, "rope, times", "rope")[2]
    return Verdict(verdict.word, f"{verdict.found}; rope with times over without: {rope}")


@claim("Gaps learned on top of timestamps forecast better than timestamps alone", source=SOURCE)
def judge_learned(found: Findings) -> Verdict:
    """The squared error of `learned on times` is at most .95 of that of `times`."""
    return judge(found, "learned on times", "times")


@claim("Timestamps as coordinates make interpolation by hand unnecessary", source=SOURCE)
def judge_by_hand(found: Findings) -> Verdict:
    """The squared error of `times` is at most 1.05 of that of `by hand`, interval included; refuted if it is
    above.
    """
    low, high, written = ratio(found, "times", "by hand")
    words = f"times over by hand: {written}; ridge regression of interpolated values "
    words += f"{found.mean('rules', 'error'):.3f}, the value of the day before "
    words += f"{found.mean('rules', 'day before'):.3f}, phases {found.mean('phases', 'error'):.3f}"
    if high <= 1 + SMALLEST:
        return Verdict("confirmed", words)
    return Verdict("refuted" if low > 1 + SMALLEST else "undecided", words)


def draw(found: Findings) -> Figure:
    figure, (axes,) = panels(1, size=(8, 3.8))
    bars(axes, list(ARMS), {"error": [found.values(arm, "error") for arm in ARMS]}, across=True)
    axes.set(xlabel=f"squared error of HUFL, {AHEAD} hours ahead, over its variance in the first year")
    axes.set_title(f"one dot per seed (n={len(found.values('times', 'error'))})")
    return figure


STUDY = Study(
    name="irregular",
    subject="Irregular time: samples dropped and bunched, with their timestamps",
    data="ETTh1 (hourly, electricity transformer), the usual split; 48 of the last 120 hours",
    measure="squared error on the test months, 12 hours ahead",
    smallest="5 % of the squared error",
    arms=ARMS,
    controls=[
        Control(
            statement="the timestamps of another window gain less than 5 % over the index",
            arm="other times",
            mechanism="times",
            fails=lambda found: found.mean("other times", "error") >= 0.95 * found.mean("counted", "error"),
        )
    ],
    claims=[judge_times, judge_learned, judge_by_hand],
    full=Budget(seeds=10, steps=800),
    quick=Budget(seeds=2, steps=100),
    run=run,
    draw=draw,
    needs=dict.fromkeys(ARMS, "data:etth1"),
)
