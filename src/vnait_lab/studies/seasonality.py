"""Seasons: forecasts from encodings of time with the right period, learned tables and the standard table.

A linear model on each encoding of time is fitted to the first three quarters of a series and scored by its
R^2 on the rest. sin and cos of the phase repeat after a period, so their weights apply to the future. A
learned table has one row per point in time, and the rows of the future were never trained. The slow waves of
the standard table complete less than one turn in the data, which do not determine their continuation.
"""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from vnait.positions.encodings import Sinusoid
from vnait_lab.studies.figures import dots, lines, panels
from vnait_lab.studies.parts.series import REAL, generated, phases, real
from vnait_lab.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

PENALTY = 1e-6
SOURCE = "004, time series"
PENALTIES = [10.0**power for power in range(-6, 5)]
MOST = 6  # harmonics
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
PERIODS: dict[str, tuple[float, ...]] = {arm: periods for arm, (periods, _) in SERIES.items()}


def forecast(x: Tensor, y: Tensor, known: int, penalty: float = PENALTY) -> Tensor:
    """The prediction for every row of a ridge regression, with an unpenalized intercept, on the first `known`
    rows.
    """
    centre, mean = x[:known].mean(0), y[:known].mean()
    own = x[:known] - centre
    square = own.T @ own + penalty * torch.eye(x.shape[1], dtype=x.dtype)
    return (x - centre) @ torch.linalg.solve(square, own.T @ (y[:known] - mean)) + mean


def explained(y: Tensor, found: Tensor) -> float:
    """R^2."""
    return float(1 - (y - found).square().mean() / (y - y.mean()).square().mean())


def best_period(times: Tensor, y: Tensor) -> float:
    """The period from 8 to 14 that explains the largest share of y."""
    candidates = [float(period) for period in np.arange(8, 14, 0.05)]
    return max(candidates, key=lambda period: explained(y, forecast(phases(times, [period]), y, len(y))))


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    y = real(arm) if arm in REAL else generated(arm, seed)
    known = len(y) * 3 // 4
    times = torch.arange(len(y), dtype=torch.float64)
    periods = PERIODS[arm] or (best_period(times[:known], y[:known]),)
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
        "other_period": ahead(phases(times, [1.4 * period for period in periods], 2)),
        "learned": explained(y[known:], rows[known:]),
        "learned_train": float((rows - y)[:known].square().mean()),
        "standard": ahead(standard[0]),
        "standard_best": max(ahead(standard[0], penalty) for penalty in PENALTIES),
        "period": periods[0],
        "shown": [line[shown].tolist() for line in (y, forecast(codes[-1], y, known), rows)],
    }


def seasonal(found: Findings) -> list[str]:
    """The series whose season two harmonics of its period predict."""
    return [arm for arm in PERIODS if found.mean(arm, "periodic") >= GOOD]


@claim(
    "A periodic encoding that matches the signal's periods generalizes to unseen future data", source=SOURCE
)
def judge_future(found: Findings) -> Verdict:
    """Confirmed if R^2 is .9 or more in every seed, on the document's signal (a weekly and a daily sine)."""
    value, noise = found.least("sinusoidal", "periodic"), found.most("noise", "periodic")
    seeds = len(found.values("noise", "periodic"))
    summary = f"R^2 of the future {value:.3f}, in the worst of {seeds} seeds; of noise {noise:.3f}"
    return Verdict("confirmed" if value >= 0.9 else "refuted", summary)


@claim(
    "A learned absolute embedding is perfect on training data and extremely poor on test data",
    source=SOURCE,
    needs=REAL,
)
def judge_learned(found: Findings) -> Verdict:
    """Confirmed if on every series the squared error is at most 1e-6, and R^2 of the future at most .05."""
    train, test = (max(found.most(arm, metric) for arm in PERIODS) for metric in ("learned_train", "learned"))
    summary = (
        f"over all series, squared error at most {train:.0e} on training data and R^2 of the future at most "
    )
    summary += f"{test:.3f}"
    return Verdict("confirmed" if train <= 1e-6 and test <= 0.05 else "refuted", summary)


@claim(
    "Periodic sinusoidal encodings are the ideal tool for the seasons of weather and economy",
    source=SOURCE,
    needs=REAL,
    rule=f"confirmed if on every real series R^2 of the future is at least {GOOD}, conditional if on some",
)
def judge_ideal(found: Findings) -> Verdict:
    values = {arm: found.mean(arm, "periodic") for arm in REAL}
    summary = "R^2 of the future: " + ", ".join(f"{arm} {value:.2f}" for arm, value in values.items())
    summary += f" (best period in its past: {found.mean('sunspots', 'period'):.2f} years)"
    good = [arm for arm in REAL if values[arm] >= GOOD]
    bad = "; ".join(arm for arm in REAL if arm not in good)
    condition = f"the season is strict and any trend is removed: {'; '.join(good)} (not: {bad})"
    return Verdict.among(good, REAL, summary, condition)


@claim(
    "A sine and a cosine a period are features enough",
    source=SOURCE,
    needs=REAL,
    rule=f"confirmed if {MOST} harmonics explain at most .05 more on every series with a season, conditional "
    "if on some",
)
def judge_sine(found: Findings) -> Verdict:
    """One sine and cosine per period, as in the document, against six harmonics."""
    lost = {arm: found.curve(arm, "harmonics").mean(0)[[0, -1]] for arm in seasonal(found)}
    summary = "R^2 with 1 and with 6 harmonics: "
    summary += ", ".join(f"{arm} {first:.2f}, {six:.2f}" for arm, (first, six) in lost.items())
    enough = [arm for arm, (first, six) in lost.items() if six - first <= 0.05]
    return Verdict.among(enough, lost, summary, f"the season itself is close to a sine: {'; '.join(enough)}")


@claim("The encoding's period has to be the signal's", source=SOURCE, needs=REAL)
def judge_matched(found: Findings) -> Verdict:
    """Confirmed if 7/5 of the period costs at least .5 of R^2 on every series with a season."""
    pairs = {arm: (found.mean(arm, "periodic"), found.mean(arm, "other_period")) for arm in seasonal(found)}
    summary = "R^2 of the future, right period and 7/5 of it: "
    summary += ", ".join(f"{arm} {right:.2f}, {other:.2f}" for arm, (right, other) in pairs.items())
    lost = min(right - other for right, other in pairs.values())
    return Verdict("confirmed" if lost >= 0.5 else "refuted", summary)


@claim(
    "The standard sinusoidal table, periodic in every channel, tells a season as well",
    source=f"{SOURCE}; 003, periodic functions",
    needs=REAL,
    rule=f"confirmed if the best of {len(PENALTIES)} penalties reaches {GOOD} on a series with a season",
)
def judge_standard(found: Findings) -> Verdict:
    """The ridge penalty is chosen on the future itself, in the table's favour: an upper bound."""
    plain = {arm: found.mean(arm, "standard") for arm in seasonal(found)}
    best = max(found.most(arm, "standard_best") for arm in plain)
    worst = min(plain, key=lambda arm: plain[arm])
    summary = f"R^2 of the future {plain[worst]:.1e} ({worst}) to {max(plain.values()):.1e}; "
    summary += f"with the best of {len(PENALTIES)} penalties at most {best:.3f}"
    return Verdict("confirmed" if best >= GOOD else "refuted", summary)


def draw(found: Findings) -> Figure:
    figure, (left, right) = panels(3, 4)
    names = {
        "periodic": "right period, 2 harmonics",
        "other_period": "7/5 of it",
        "learned": "learned table",
        "standard_best": "standard table, best penalty",
    }
    cut = {
        name: [np.clip(found.values(arm, metric), FLOOR, 1) for arm in PERIODS]
        for metric, name in names.items()
    }
    dots(left, list(PERIODS), cut)
    left.axvline(0, color="black", ls=":", lw=1)
    left.set(xlim=(FLOOR - 0.05, 1.05), xlabel=f"$R^2$ of the future (cut at {FLOOR})")
    left.set_title(f"one mark per seed (n={len(found.values('noise', 'periodic'))}; real series: one)")
    figure.legend(loc="outside lower left", ncols=4)
    truth, fitted, rows = found.curve("office hours", "shown")[0]
    hours = np.arange(len(truth)) - 48
    lines(right, hours, {f"right period, {MOST} harmonics": fitted, "learned table": rows}, marker="", lw=1.2)
    right.plot(hours, truth, ls="", marker=".", color="gray", label="series")
    right.axvline(0, color="black", ls=":", lw=1)
    right.set(xlabel="hours after the end of the training part", ylabel="value", title="office hours, seed 0")
    right.set_ylim(-4.4, 3.3)
    right.legend(loc="lower right")
    return figure


STUDY = Study(
    name="seasonality",
    subject="Seasons: periodic encodings, learned tables and the future",
    data="generated weeks of 5 days; elnino (1950-2010), co2 (1958-2001), sunspots (1700-2008), statsmodels",
    measure="R^2 on the last quarter of a series, of a linear model fitted to the rest",
    smallest=f".05 of R^2; {GOOD} for a predicted season",
    arms={arm: what for arm, (_, what) in SERIES.items()},
    controls=[
        Control(
            statement="the same encoding explains at most .05 of noise",
            arm="noise",
            mechanism="sinusoidal",
            fails=lambda found: found.most("noise", "periodic") <= 0.05,
        )
    ],
    claims=[judge_future, judge_learned, judge_ideal, judge_sine, judge_matched, judge_standard],
    full=Budget(seeds=5),
    quick=Budget(seeds=2),
    run=run,
    draw=draw,
    needs=dict.fromkeys(REAL, "package:statsmodels"),
)
