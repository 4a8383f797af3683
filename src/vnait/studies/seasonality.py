"""Seasons: what an encoding of the right period carries into the future, and what an index cannot.

A linear model reads each encoding of time and is fitted to the first three quarters of a series; its R^2 on the rest is what it has
understood. sin and cos of the phase come back after a period, so their weights still mean something there. A learned table has a row
a point in time, and the future's rows were never learned. And of a line through the standard table's slow waves, which see less than
a turn, no data say how it goes on.
"""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from vnait.encodings import Sinusoid
from vnait.studies.figures import dots, lines, panels
from vnait.studies.parts.regression import PENALTY, best_period, explained, forecast
from vnait.studies.parts.series import REAL, generated, phases, real
from vnait.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

SOURCE = "004, time series"
PENALTIES = [10.0**power for power in range(-6, 5)]
MOST = 6  # harmonics
GOOD, FLOOR = 0.6, -0.6  # R^2: of a season that is told; where the figure is cut
WEEK = (120.0, 24.0)  # 5 days, a day, in hours
# The periods of a series, and what it is.
SERIES = {
    "sinusoidal": (WEEK, "generated: a sine a week and a sine a day"),
    "office hours": (WEEK, "generated: five levels, and a square wave"),
    "noise": (WEEK, "generated: no season"),
    "elnino": ((12.0,), "temperature of the sea, monthly"),
    "co2": ((12.0,), "in the air, monthly, with its trend"),
    "co2, detrended": ((12.0,), "minus the mean of the year around it"),
    "co2, differences": ((12.0,), "to the month before"),
    "sunspots": ((), "yearly"),  # its period is found on the training part
}
PERIODS: dict[str, tuple[float, ...]] = {arm: periods for arm, (periods, _) in SERIES.items()}


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

    rows = forecast(torch.eye(len(y), dtype=torch.float64), y, known)  # a learned table, unseen rows at 0
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
    """The series whose season two harmonics of its period tell."""
    return [arm for arm in PERIODS if found.mean(arm, "periodic") >= GOOD]


@claim("A periodic encoding that matches the signal's periods generalizes to unseen future data", source=SOURCE)
def judge_future(found: Findings) -> Verdict:
    """Confirmed where R^2 is .9 or more in every seed, on the document's signal (a sine a week, a sine a day)."""
    value, noise = found.least("sinusoidal", "periodic"), found.most("noise", "periodic")
    said = f"R^2 of the future {value:.3f}, in the worst of {len(found.values('noise', 'periodic'))} seeds; of noise {noise:.3f}"
    return Verdict("confirmed" if value >= 0.9 else "refuted", said)


@claim(
    "A learned absolute embedding is perfect on training data and extremely poor on test data",
    source=SOURCE,
    needs=REAL,
)
def judge_learned(found: Findings) -> Verdict:
    """Confirmed where on every series the squared error is 1e-6 or less, and R^2 of the future .05 or less."""
    train, test = (max(found.most(arm, metric) for arm in PERIODS) for metric in ("learned_train", "learned"))
    said = f"squared error at most {train:.0e} on what it was fitted to, R^2 of the future {test:.3f} at most, over all series"
    return Verdict("confirmed" if train <= 1e-6 and test <= 0.05 else "refuted", said)


@claim(
    "Periodic sinusoidal encodings are the ideal tool for the seasons of weather and economy",
    source=SOURCE,
    needs=REAL,
    rule=f"confirmed where on every real series R^2 of the future is {GOOD} or more, conditional where on some",
)
def judge_ideal(found: Findings) -> Verdict:
    values = {arm: found.mean(arm, "periodic") for arm in REAL}
    said = "R^2 of the future: " + ", ".join(f"{arm} {value:.2f}" for arm, value in values.items())
    said += f" (a period of {found.mean('sunspots', 'period'):.2f} years fits its past best)"
    good = [arm for arm in REAL if values[arm] >= GOOD]
    bad = ", ".join(f"{arm}: does not hold" for arm in REAL if arm not in good)
    return Verdict.among(
        good, REAL, said, f"the season is strict and any trend is taken out: {'; '.join(good)} ({bad})"
    )


@claim(
    "A sine and a cosine a period are features enough",
    source=SOURCE,
    needs=REAL,
    rule=f"confirmed where {MOST} harmonics explain at most .05 more on every series with a season, conditional where on some",
)
def judge_sine(found: Findings) -> Verdict:
    """One sine and cosine a period, as the document's features have it, against six harmonics."""
    lost = {arm: found.curve(arm, "harmonics").mean(0)[[0, -1]] for arm in seasonal(found)}
    said = "R^2 with 1 and with 6 harmonics: "
    said += ", ".join(f"{arm} {one:.2f}, {six:.2f}" for arm, (one, six) in lost.items())
    enough = [arm for arm, (one, six) in lost.items() if six - one <= 0.05]
    return Verdict.among(enough, lost, said, f"the season itself is close to a sine: {'; '.join(enough)}")


@claim("The encoding's period has to be the signal's", source=SOURCE, needs=REAL)
def judge_matched(found: Findings) -> Verdict:
    """Confirmed where 7/5 of the period costs .5 of R^2 or more on every series with a season."""
    pairs = {arm: (found.mean(arm, "periodic"), found.mean(arm, "other_period")) for arm in seasonal(found)}
    said = "R^2 of the future, right period and 7/5 of it: "
    said += ", ".join(f"{arm} {right:.2f}, {other:.2f}" for arm, (right, other) in pairs.items())
    lost = min(right - other for right, other in pairs.values())
    return Verdict("confirmed" if lost >= 0.5 else "refuted", said)


@claim(
    "The standard sinusoidal table, periodic in every channel, tells a season as well",
    source=f"{SOURCE}; 003, periodic functions",
    needs=REAL,
    rule=f"confirmed where with the best of {len(PENALTIES)} penalties it reaches {GOOD} on a series with a season",
)
def judge_standard(found: Findings) -> Verdict:
    """Ridge penalties are chosen in its favour, on the future itself: what it can at best."""
    plain = {arm: found.mean(arm, "standard") for arm in seasonal(found)}
    best = max(found.most(arm, "standard_best") for arm in plain)
    worst = min(plain, key=lambda arm: plain[arm])
    said = f"R^2 of the future {plain[worst]:.1e} ({worst}) to {max(plain.values()):.1e}; with the best of {len(PENALTIES)} penalties "
    said += f"{best:.3f} at most, that is, nothing"
    return Verdict("confirmed" if best >= GOOD else "refuted", said)


def draw(found: Findings) -> Figure:
    figure, (left, right) = panels(3, 4)
    told = {
        "periodic": "right period, 2 harmonics",
        "other_period": "7/5 of it",
        "learned": "learned table",
        "standard_best": "standard table, best penalty",
    }
    cut = {name: [np.clip(found.values(arm, metric), FLOOR, 1) for arm in PERIODS] for metric, name in told.items()}
    dots(left, list(PERIODS), cut)
    left.axvline(0, color="black", ls=":", lw=1)
    left.set(xlim=(FLOOR - 0.05, 1.05), xlabel=f"$R^2$ of the future (cut at {FLOOR})")
    left.set_title(f"a mark a seed (n={len(found.values('noise', 'periodic'))}; real series: one)")
    figure.legend(loc="outside lower left", ncols=4)
    truth, fitted, rows = found.curve("office hours", "shown")[0]
    hours = np.arange(len(truth)) - 48
    lines(right, hours, {f"right period, {MOST} harmonics": fitted, "learned table": rows}, marker="", lw=1.2)
    right.plot(hours, truth, ls="", marker=".", color="gray", label="series")
    right.axvline(0, color="black", ls=":", lw=1)
    right.set(xlabel="hours since the last one that was known", ylabel="value", title="office hours, seed 0")
    right.set_ylim(-4.4, 3.3)
    right.legend(loc="lower right")
    return figure


STUDY = Study(
    name="seasonality",
    subject="Seasons: periodic encodings, learned tables and the future",
    data="generated weeks of 5 days; elnino (1950-2010), co2 (1958-2001), sunspots (1700-2008) of statsmodels",
    measure="R^2 on the last quarter of a series, of a linear model fitted to the rest",
    smallest=f".05 of R^2; {GOOD} for a season that is told",
    arms={arm: what for arm, (_, what) in SERIES.items()},
    controls=[
        Control(
            says="of noise the same encoding explains no more than .05",
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
    needs=dict.fromkeys(REAL, "module:statsmodels"),
)
