"""Forecasts by analogy: attention that looks back at the moments of the target's phase.

With p_t = (sin 2 pi t/P, cos 2 pi t/P), the query p_{t+H} and the keys p_u, a score is beta cos(2 pi (t+H-u)/P): the weights, a von
Mises density, comb the past at the target's phase. They know the clock and no value: a spectrum of them shows the P that was put in, of
noise just as well. So here the weights of 20 candidate periods are learned from the forecast's error, and the spectrum is of those.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.special import ive
from torch import Generator, Tensor
from torch.nn import functional as F

from vnait.studies.series import REAL, phases, real
from vnait.studies.training import descend
from vnait.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WINDOW, AHEAD = 120, 6
CANDIDATES = [float(period) for period in range(2, 22)]
FOCUS = (1.0, 4.0, 16.0, 64.0)  # beta
WINDOWS = (120, 125, 127)
# The period a series is known for, which the seasonal forecast repeats.
PERIODS = {
    "season of 12": 12,
    "season of 7": 7,
    "noise": 12,
    "elnino": 12,
    "co2": 12,
    "co2, differences": 12,
    "sunspots": 11,
}
SEASONS = [arm for arm in PERIODS if arm != "noise"]


def series(arm: str, seed: int) -> tuple[Tensor, int]:
    """A series (N,), float64, scaled by its first three quarters, and their length."""
    random = Generator().manual_seed(seed)
    noise = torch.randn(800, generator=random, dtype=torch.float64)
    if arm in REAL:
        y = real(arm)
    elif arm == "noise":
        y = noise
    else:
        y = torch.sin(2 * math.pi * torch.arange(800, dtype=torch.float64) / PERIODS[arm]) + 0.3 * noise
    known = len(y) * 3 // 4
    if arm == "co2":  # minus the line through what is known
        line = torch.stack([torch.ones(len(y)), torch.arange(len(y))], 1).double()
        y = y - line @ torch.linalg.lstsq(line[:known], y[:known, None]).solution[:, 0]
    return (y - y[:known].mean()) / y[:known].std(), known


def scores(periods: Sequence[float], window: int = WINDOW, ahead: int = AHEAD) -> Tensor:
    """q.k a period (window, periods), for a query `ahead` steps after the window: cos(2 pi (t+H-u)/p), told by the codes alone."""
    query, keys = phases(torch.tensor([window - 1 + ahead]), periods), phases(torch.arange(window), periods)
    return (query * keys).unflatten(1, (-1, 2)).sum(2)


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    return rows() if arm == "rows" else forecasts(arm, seed, budget)


def rows() -> Metrics:
    """What attention of one known period does, without any data."""
    period = 12.0
    lags = torch.arange(-500, 500, dtype=torch.float64)
    products = phases(torch.tensor([7.0]), [period]) @ phases(7 - lags, [period]).T
    found: Metrics = {"identity": float((products[0] - torch.cos(2 * math.pi * lags / period)).abs().max())}
    wave = torch.sin(2 * math.pi * torch.arange(WINDOW + 12, dtype=torch.float64) / period)
    for beta in FOCUS:
        ways = {window: (beta * scores([period], window))[:, 0].softmax(0) for window in WINDOWS}
        steps = [(beta * scores([period], ahead=ahead))[:, 0].softmax(0) @ wave[:WINDOW] for ahead in range(1, 13)]
        row = ways[WINDOW]
        found[f"mass {beta:g}"] = near(row, 12, 0)
        found[f"amplitude {beta:g}"] = float(torch.stack(steps) @ wave[WINDOW:] / wave[WINDOW:].square().sum())
        found[f"bessel {beta:g}"] = float(ive(1, beta) / ive(0, beta))
        found[f"share {beta:g}"] = share(row, period)
        found[f"peaks {beta:g}"] = [peak(ways[window]) for window in WINDOWS]
    return found


def near(row: Tensor, season: int, steps: int) -> float:
    """The attention that falls on the target's phase, or that many steps beside it."""
    lag = WINDOW - 1 + AHEAD - torch.arange(WINDOW)
    return float(row[torch.minimum(lag % season, -lag % season) <= steps].sum())


def share(row: Tensor, period: float) -> float:
    """Of the row's energy, its mean apart, that lies at the period's frequency."""
    energy = torch.fft.rfft(row).abs().square()[1:]
    return float(energy[round(len(row) / period) - 1] / energy.sum())


def peak(row: Tensor) -> float:
    """The period at which a row's spectrum is highest, its mean apart."""
    return len(row) / (1 + int(torch.fft.rfft(row).abs()[1:].argmax()))


def forecasts(arm: str, seed: int, budget: Budget) -> Metrics:
    """Squared errors on the last quarter: of weights learned on the rest, and of what needs no learning."""
    y, known = series(arm, seed)
    windows, targets = y.unfold(0, WINDOW, 1)[:-AHEAD], y[WINDOW - 1 + AHEAD :]
    train = known - (WINDOW - 1 + AHEAD)  # targets before this one are known
    free = torch.full((len(CANDIDATES),), -2.0, dtype=torch.float64, requires_grad=True)
    basis = scores(CANDIDATES)

    def attention() -> Tensor:
        return (basis @ F.softplus(free)).softmax(0)  # no period is turned against its own phase

    def loss(step: int) -> Tensor:
        return (windows[:train] @ attention() - targets[:train]).square().mean()

    descend([free], loss, steps=budget.steps, learning_rate=0.1)
    row = attention().detach()
    season = PERIODS[arm]
    told = {
        "learned": windows @ row,
        "fixed": windows @ (16 * scores([season]))[:, 0].softmax(0),
        "last season": windows[:, AHEAD - 1 - season],
        "mean": windows.mean(1),
    }
    errors = {name: float((said - targets)[train:].square().mean()) for name, said in told.items()}
    return {**errors, "peak": peak(row), "near": near(row, season, 1), "row": row.tolist()}


@claim("q_t.k_u = cos(2 pi (t+H-u)/P)", source="004, phase-aligned forecasting")
def judge_identity(found: Findings) -> Verdict:
    """Confirmed where the largest error is 1e-12 or less."""
    error = found.most("rows", "identity")
    return Verdict("confirmed" if error <= 1e-12 else "refuted", f"largest error {error:.0e}, lags from -500 to 499")


def judge_rows(found: Findings, metric: str, enough: float, says: str, *, wide: bool) -> Verdict:
    """What a figure is at every beta; wide: small ones have it, where it isn't in all."""
    figures = {beta: found.mean("rows", f"{metric} {beta:g}") for beta in FOCUS}
    said = f"{says} " + ", ".join(f"{value:.3f} (beta {beta:g})" for beta, value in figures.items())
    good = [beta for beta, value in figures.items() if value >= enough]
    if len(good) == len(FOCUS):
        return Verdict("confirmed", said)
    if not good:
        return Verdict("refuted", said)
    return Verdict("conditional", said, f"beta <= {max(good):g}" if wide else f"beta >= {min(good):g}")


@claim("So attention concentrates on the points in phase with the target", source="004, phase-aligned forecasting")
def judge_focus(found: Findings) -> Verdict:
    """Confirmed where half of it or more falls on the very phase at every beta, conditional where at some."""
    return judge_rows(found, "mass", 0.5, "attention at the very phase of 12:", wide=False)


@claim("The past at the target's phase gives the target's value", source="004, phase-aligned forecasting")
def judge_amplitude(found: Findings) -> Verdict:
    """Confirmed where the forecast of a sine keeps .95 of its amplitude at every beta, conditional where at some."""
    verdict = judge_rows(found, "amplitude", 0.95, "a unit sine is forecast as", wide=False)
    off = max(
        abs(found.mean("rows", f"amplitude {beta:g}") - found.mean("rows", f"bessel {beta:g}")) for beta in FOCUS[:2]
    )
    return replace(verdict, found=f"{verdict.found}; I1(beta)/I0(beta) within {off:.0e} up to beta 4")


@claim(
    "A row's Fourier transform shows the attention's energy at the frequency of P",
    source="004, phase-aligned forecasting",
    needs=SEASONS,
)
def judge_spectrum(found: Findings) -> Verdict:
    """Confirmed where half of the energy or more is there at every beta, conditional where at some."""
    verdict = judge_rows(found, "share", 0.5, "of the energy at P:", wide=True)
    comb = found.curve("rows", f"peaks {FOCUS[-1]:g}")[0]
    said = f"; the peak at beta {FOCUS[-1]:g}: " + ", ".join(
        f"{at:.1f} ({size})" for at, size in zip(comb, WINDOWS, strict=True)
    )
    right = [abs(at / PERIODS[arm] - 1) <= 0.05 for arm in SEASONS for at in found.values(arm, "peak")]
    said += f" of 12 (window); learned rows peak within 5 % of P in {sum(right)} of {len(right)} runs"
    return replace(verdict, found=verdict.found + said)


@claim("Attention learns by itself to look at the same phase", source="004, phase-aligned forecasting", needs=SEASONS)
def judge_learned(found: Findings) -> Verdict:
    """Confirmed where three quarters of it fall within a step of the phase on every series with a season (chance: 3/P)."""
    near = {arm: found.mean(arm, "near") for arm in PERIODS}
    said = "attention within a step of the phase: " + ", ".join(f"{arm} {value:.2f}" for arm, value in near.items())
    good = [arm for arm in SEASONS if near[arm] >= 0.75]
    if len(good) == len(SEASONS):
        return Verdict("confirmed", said)
    return Verdict("conditional", said, f"the series is {', '.join(good)}") if good else Verdict("refuted", said)


@claim(
    "Analogy with the same phase of earlier periods is an effective forecast",
    source="004, phase-aligned forecasting",
    needs=SEASONS,
)
def judge_forecast(found: Findings) -> Verdict:
    """Confirmed where it is 5 % better than the last season and the mean on every series with a season."""
    said = "squared error, learned / last season / mean: " + ", ".join(
        f"{arm} " + "/".join(f"{found.mean(arm, name):.2f}" for name in ("learned", "last season", "mean"))
        for arm in PERIODS
    )
    rivals = {arm: min(found.mean(arm, name) for name in ("last season", "mean")) for arm in SEASONS}
    good = [arm for arm, best in rivals.items() if found.mean(arm, "learned") < 0.95 * best]
    if len(good) == len(SEASONS):
        return Verdict("confirmed", said)
    lost = ", ".join(arm for arm in SEASONS if arm not in good)
    strict = f"seasons keep their phase and level and are noisy: {', '.join(good)} (not {lost})"
    return Verdict("conditional", said, strict) if good else Verdict("refuted", said)


def draw(found: Findings) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    lag = WINDOW - 1 + AHEAD - np.arange(WINDOW)
    left.plot(lag, found.curve("elnino", "row")[0], "k-", lw=0.9)
    for multiple in range(12, WINDOW + AHEAD, 12):
        left.axvline(multiple, color="gray", ls=":", lw=0.8)
    left.set(
        xlabel="months before the target, years dotted", ylabel="attention weight", title="elnino, learned (one run)"
    )
    lines = {
        "mass": ("o-", "attention at the very phase"),
        "amplitude": ("s--", "amplitude of a forecast sine"),
        "share": ("^:", "energy at P"),
    }
    for metric, (style, label) in lines.items():
        middle.plot(
            FOCUS,
            [found.mean("rows", f"{metric} {beta:g}") for beta in FOCUS],
            style,
            color="black",
            mfc="none",
            label=label,
        )
    middle.set(
        xscale="log",
        xticks=FOCUS,
        xticklabels=[f"{beta:g}" for beta in FOCUS],
        xlabel="focus beta",
        ylabel="share or ratio",
    )
    middle.set(title=f"P = 12, window {WINDOW}: exact", ylim=(0, 1.6))
    middle.minorticks_off()
    middle.legend(loc="upper left", fontsize=8)
    marks = {"learned": "ko", "last season": "kx", "mean": "k^"}
    for name, mark in marks.items():
        points = [(value, row) for row, arm in enumerate(PERIODS) for value in found.values(arm, name)]
        right.plot(*zip(*points, strict=True), mark, mfc="none" if mark == "k^" else "black", label=name)
    right.set(
        yticks=range(len(PERIODS)),
        yticklabels=list(PERIODS),
        xlabel="squared error / variance of the known part",
        xscale="log",
    )
    right.set(title=f"a mark a seed (n={len(found.values('noise', 'mean'))})", ylim=(len(PERIODS) + 0.6, -0.6))
    right.legend(loc="lower center", ncols=3, fontsize=8)
    return figure


STUDY = Study(
    name="forecasting",
    subject="Forecasts by analogy: attention to the moments of the target's phase",
    data="a noisy sine of period 12, of 7; noise; elnino, co2, sunspots of statsmodels",
    measure="errors and shares in float64; squared error on the last quarter of a series",
    smallest="1e-12 for an identity; 5 % of squared error",
    arms={
        "rows": "attention of the period 12, without data",
        "season of 12": "generated: a sine, noise of variance .09",
        "season of 7": "generated: a sine, noise of variance .09",
        "noise": "generated: no season",
        "elnino": "temperature of the sea, monthly",
        "co2": "in the air, monthly, minus a line through the known part",
        "co2, differences": "to the month before",
        "sunspots": "yearly",
    },
    controls=[
        Control(
            says="on noise the learned forecast gains no 2 % on the mean",
            arm="noise",
            mechanism="season of 12",
            fails=lambda found: found.mean("noise", "learned") >= 0.98 * found.mean("noise", "mean"),
        )
    ],
    claims=[
        judge_identity,
        judge_focus,
        judge_amplitude,
        judge_spectrum,
        judge_learned,
        judge_forecast,
    ],
    full=Budget(seeds=5, steps=400),
    quick=Budget(seeds=2, steps=300),
    run=run,
    draw=draw,
    needs={arm: "module:statsmodels" for arm in PERIODS if arm in REAL},
)
