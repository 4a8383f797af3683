"""Seasons: periodic encodings, learned tables and the future.

A linear model on each encoding of time is fitted to the first three quarters of a series and scored by its
R^2 on the rest. sin and cos of the phase repeat after a period, so their weights apply to the future. A
learned table has one row per point in time, and the rows of the future were never trained. The slow waves of
the standard table complete less than one turn in the data, which do not determine their continuation.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from vnait.positions.encodings import Sinusoid
from vnait_lab.kit import Dots, Figure, Lines, decided, each, figure, listed
from vnait_lab.studies.parts.series import REAL, generated, phases, real
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

PENALTY = 1e-6
SOURCE = "004, time series"
PENALTIES = [10.0**power for power in range(-6, 5)]
MOST = 6  # harmonics
WRONG = {"1.02": 1.02, "7/5": 1.4, "2": 2.0}  # times the period, which is the second harmonic of twice it
GOOD, FLOOR = 0.6, -0.6  # R^2 of a predicted season; lower limit of the figure
WEEK = (120.0, 24.0)  # 5 days, a day, in hours
# The periods of a series, and its description.
SERIES = {
    "sinusoidal": (WEEK, "generated: a sine a week and a sine a day"),
    "office hours": (WEEK, "generated: five levels, and a square wave"),
    "noise": (WEEK, "generated: no season"),
    "elnino": ((12.0,), "temperature of the sea, monthly"),
    "co2": ((12.0,), "in the air, monthly, with its trend"),
    "co2, detrended": ((12.0,), "minus the mean of the year around it"),
    "co2, differences": ((12.0,), "to the month before"),
    "sunspots": ((), "yearly"),  # the period is estimated on the training part
}
PERIODS: dict[str, tuple[float, ...]] = {variant: periods for variant, (periods, _) in SERIES.items()}
STUDY = Study.of(
    __name__,
    source=SOURCE,
    data="generated weeks of 5 days; elnino (1950-2010), co2 (1958-2001), sunspots (1700-2008), statsmodels",
    measure="R^2 on the last quarter of a series, of a linear model fitted to the rest",
    smallest=f".05 of R^2; {GOOD} for a predicted season",
    variants={variant: what for variant, (_, what) in SERIES.items()},
    full=Budget(seeds=5),
    quick=Budget(seeds=2),
    needs=dict.fromkeys(REAL, "package:statsmodels"),
)


def forecast(x: Tensor, y: Tensor, known: int, penalty: float = PENALTY) -> Tensor:
    """The prediction for every row of a ridge regression, with an unpenalized intercept, on the first `known`
    rows.
    """
    centre, mean = x[:known].mean(0), y[:known].mean()
    past = x[:known] - centre
    square = past.T @ past + penalty * torch.eye(x.shape[1], dtype=x.dtype)
    return (x - centre) @ torch.linalg.solve(square, past.T @ (y[:known] - mean)) + mean


def explained(y: Tensor, predicted: Tensor) -> float:
    """R^2."""
    return float(1 - (y - predicted).square().mean() / (y - y.mean()).square().mean())


def best_period(times: Tensor, y: Tensor) -> float:
    """The period from 8 to 14 that explains the largest share of y."""
    candidates = [float(period) for period in np.arange(8, 14, 0.05)]
    return max(candidates, key=lambda period: explained(y, forecast(phases(times, [period]), y, len(y))))


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    y = real(variant) if variant in REAL else generated(variant, seed)
    known = len(y) * 3 // 4
    times = torch.arange(len(y), dtype=torch.float64)
    periods = PERIODS[variant] or (best_period(times[:known], y[:known]),)
    codes = [phases(times, periods, order) for order in range(1, MOST + 1)]
    standard = Sinusoid(dim=64)(times[None, :, None]).added
    assert standard is not None

    def ahead(x: Tensor, penalty: float = PENALTY) -> float:
        return explained(y[known:], forecast(x, y, known, penalty)[known:])

    rows = forecast(torch.eye(len(y), dtype=torch.float64), y, known)  # a learned table, unseen rows 0
    shown = slice(known - 48, known + 96)
    return {
        "periodic": ahead(codes[1]),
        "harmonics": [ahead(code) for code in codes],
        **{
            f"{wrong} periods": ahead(phases(times, [factor * period for period in periods], 2))
            for wrong, factor in WRONG.items()
        },
        "learned": explained(y[known:], rows[known:]),
        "learned_train": float((rows - y)[:known].square().mean()),
        "standard": ahead(standard[0]),
        "standard_best": max(ahead(standard[0], penalty) for penalty in PENALTIES),
        "period": periods[0],
        "shown": [line[shown].tolist() for line in (y, forecast(codes[-1], y, known), rows)],
    }


def seasonal(findings: Findings) -> list[str]:
    """The series whose season two harmonics of its period predict."""
    return [variant for variant in PERIODS if findings.mean(variant, "periodic") >= GOOD]


@STUDY.control("the same encoding explains at most .05 of noise", variant="noise", mechanism="sinusoidal")
def noise_fails(findings: Findings) -> bool:
    return findings.most("noise", "periodic") <= 0.05


@STUDY.claim(
    "A periodic encoding that matches the signal's periods generalizes to unseen future data",
    needs=REAL,
    rule=f"confirmed if R^2 is {GOOD} or more in every seed on every series but noise, conditional if on "
    "some",
)
def judge_future(findings: Findings) -> Verdict:
    """The document's signal, a weekly and a daily sine, is made of the features themselves."""
    values = {name: findings.least(name, "periodic") for name in PERIODS if name != "noise"}
    noise = findings.most("noise", "periodic")
    summary = (
        f"R^2 of the future, in the worst of {findings.seeds} seeds: {listed(values)}; noise {noise:.3f}"
    )
    return each({name: value >= GOOD for name, value in values.items()}, summary, "the series is {}")


@STUDY.claim(
    "A learned absolute embedding is perfect on training data and extremely poor on test data", needs=REAL
)
def judge_learned(findings: Findings) -> Verdict:
    """Confirmed if on every series the squared error is at most 1e-6, and R^2 of the future at most .05."""
    train, test = (
        max(findings.most(variant, metric) for variant in PERIODS) for metric in ("learned_train", "learned")
    )
    summary = f"over all series, squared error at most {train:.0e} on training data and R^2 of the future "
    summary += f"at most {test:.3f}"
    return decided(train <= 1e-6 and test <= 0.05, summary)


@STUDY.claim(
    "Periodic sinusoidal encodings are the ideal tool for the seasons of weather and economy",
    needs=REAL,
    rule=f"confirmed if on every real series R^2 of the future is at least {GOOD}, conditional if on some",
)
def judge_ideal(findings: Findings) -> Verdict:
    values = {variant: findings.mean(variant, "periodic") for variant in REAL}
    summary = f"R^2 of the future: {listed(values)}"
    summary += f" (best period in its past: {findings.mean('sunspots', 'period'):.2f} years)"
    bad = "; ".join(variant for variant in REAL if values[variant] < GOOD)
    condition = f"the season is strict and any trend is removed: {{}} (not: {bad})"
    good = {variant: value >= GOOD for variant, value in values.items()}
    return each(good, summary, condition, join="; ")


@STUDY.claim(
    "A sine and a cosine a period are features enough",
    needs=REAL,
    rule=f"confirmed if {MOST} harmonics explain at most .05 more on every series with a season, conditional "
    "if on some",
)
def judge_sine(findings: Findings) -> Verdict:
    """One sine and cosine per period, as in the document, against six harmonics."""
    lost = {variant: findings.curve(variant, "harmonics").mean(0)[[0, -1]] for variant in seasonal(findings)}
    summary = "R^2 with 1 and with 6 harmonics: "
    summary += ", ".join(f"{variant} {first:.2f}, {six:.2f}" for variant, (first, six) in lost.items())
    enough = {variant: six - first <= 0.05 for variant, (first, six) in lost.items()}
    return each(enough, summary, "the season itself is close to a sine: {}", join="; ")


@STUDY.claim("The encoding's period has to be the signal's", needs=REAL)
def judge_matched(findings: Findings) -> Verdict:
    """Confirmed if 1.02, 7/5 and 2 of the period each cost at least .5 of R^2 on every series with a season,
    conditional if some do.
    """
    right = {variant: findings.mean(variant, "periodic") for variant in seasonal(findings)}
    wrong = {
        name: {variant: findings.mean(variant, f"{name} periods") for variant in right} for name in WRONG
    }
    summary = f"R^2 of the future: right {listed(right)}; " + "; ".join(
        f"{name} of it {', '.join(f'{value:.2f}' for value in values.values())}"
        for name, values in wrong.items()
    )
    costs = {
        name: min(right[variant] - value for variant, value in values.items()) >= 0.5
        for name, values in wrong.items()
    }
    return each(costs, summary, "the other period is {} of the signal's")


@STUDY.claim(
    "The standard sinusoidal table, periodic in every channel, tells a season as well",
    source=f"{SOURCE}; 003, periodic functions",
    needs=REAL,
    rule=f"confirmed if the best of {len(PENALTIES)} penalties reaches {GOOD} on a series with a season",
)
def judge_standard(findings: Findings) -> Verdict:
    """The ridge penalty is chosen on the future itself, in the table's favour: an upper bound."""
    plain = {variant: findings.mean(variant, "standard") for variant in seasonal(findings)}
    best = max(findings.most(variant, "standard_best") for variant in plain)
    worst = min(plain, key=lambda variant: plain[variant])
    summary = f"R^2 of the future {plain[worst]:.1e} ({worst}) to {max(plain.values()):.1e}; "
    summary += f"with the best of {len(PENALTIES)} penalties at most {best:.3f}"
    return decided(best >= GOOD, summary)


@STUDY.draws
def draw(findings: Findings) -> Figure:
    names = {
        "periodic": "right period, 2 harmonics",
        "7/5 periods": "7/5 of it",
        "learned": "learned table",
        "standard_best": "standard table, best penalty",
    }
    cut = {
        name: {variant: np.clip(findings.values(variant, metric), FLOOR, 1) for variant in PERIODS}
        for metric, name in names.items()
    }
    label, limits = f"$R^2$ of the future (cut at {FLOOR}; real series: one seed)", (FLOOR - 0.05, 1.05)
    left = Dots(cut, label, at_x=0, xlim=limits, legend="below", width=0.8)
    truth, fitted, rows = findings.curve("office hours", "shown")[0]
    curves = {f"right period, {MOST} harmonics": fitted, "learned table": rows, "series": truth}
    hours, after = np.arange(len(truth)) - 48, "hours after the end of the training part"
    right = Lines(hours, curves, after, "value", look={"marker": ""}, title="office hours, seed 0", at_x=0)
    return figure(left, right)
