"""Forecasts by analogy: attention to past moments at the target's phase.

With p_t = (sin 2 pi t/P, cos 2 pi t/P), the query p_{t+H} and the keys p_u, a score is beta cos(2 pi
(t+H-u)/P): the weights, a von Mises density, form a comb with teeth at the target's phase. They depend on
time alone, not on values, so their spectrum shows the P that was put in, even for noise. So here the weights
of 20 candidate periods are learned from the forecast error, and the spectrum is taken of those.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.special import ive
from torch import Generator, Tensor
from torch.nn import functional as F

from vnait_lab.kit import Dots, Figure, Lines, decided, descend, each, figure, listed
from vnait_lab.studies.parts.series import REAL, phases, real
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

WINDOW, AHEAD = 120, 6
FOCUS = (1.0, 4.0, 16.0, 64.0)  # beta
WINDOWS = (120, 125, 127)  # a multiple of the period 12, and two that are not: there the spectrum leaks
CANDIDATES = [float(period) for period in range(2, 22)]
# The known period of a series, which the seasonal forecast repeats, and its description.
SERIES = {
    "season of 12": (12, "generated: a sine, noise of variance .09"),
    "season of 7": (7, "generated: a sine, noise of variance .09"),
    "noise": (12, "generated: no season"),
    "elnino": (12, "temperature of the sea, monthly"),
    "co2": (12, "in the air, monthly, minus a line through the known part"),
    "co2, differences": (12, "to the month before"),
    "sunspots": (11, "yearly"),
}
PERIODS = {name: period for name, (period, _) in SERIES.items()}
SEASONS = [name for name in PERIODS if name != "noise"]
STUDY = Study.of(
    __name__,
    source="004, phase-aligned forecasting",
    data="noisy sines of periods 12 and 7; noise; elnino, co2, sunspots of statsmodels",
    measure="errors and shares in float64; squared error on the last quarter of a series",
    smallest="1e-12 for an identity; 5 % of squared error",
    variants={"rows": "attention of the period 12, without data"}
    | {name: what for name, (_, what) in SERIES.items()},
    full=Budget(seeds=5, steps=400),
    quick=Budget(seeds=2, steps=300),
    needs={name: "package:statsmodels" for name in PERIODS if name in REAL},
)


def scores(periods: Sequence[float], window: int = WINDOW, ahead: int = AHEAD) -> Tensor:
    """q.k per period (window, periods), for a query `ahead` steps after the window: cos(2 pi (t+H-u)/p)."""
    query = phases(torch.tensor([window - 1 + ahead]), periods)
    keys = phases(torch.arange(window), periods)
    return (query * keys).unflatten(1, (-1, 2)).sum(2)


def comb(beta: float, period: float, window: int = WINDOW, ahead: int = AHEAD) -> Tensor:
    """The attention (window,) with one known period."""
    return (beta * scores([period], window, ahead))[:, 0].softmax(0)


def near(row: Tensor, season: int, steps: int) -> float:
    """The attention within that many steps of the target's phase."""
    lag = WINDOW - 1 + AHEAD - torch.arange(WINDOW)
    return float(row[torch.minimum(lag % season, -lag % season) <= steps].sum())


def share(row: Tensor, period: float) -> float:
    """The share of the row's energy, without its mean, at the period's frequency."""
    energy = torch.fft.rfft(row).abs().square()[1:]
    return float(energy[round(len(row) / period) - 1] / energy.sum())


def peak(row: Tensor) -> float:
    """The period at which the spectrum of a row, without its mean, is highest."""
    return len(row) / (1 + int(torch.fft.rfft(row).abs()[1:].argmax()))


def rows() -> Metrics:
    """Exact figures of attention with one known period."""
    period = 12.0
    lags = torch.arange(-500, 500, dtype=torch.float64)
    products = phases(torch.tensor([7.0]), [period]) @ phases(7 - lags, [period]).T
    metrics: Metrics = {"identity": float((products[0] - torch.cos(2 * math.pi * lags / period)).abs().max())}
    wave = torch.sin(2 * math.pi * torch.arange(WINDOW + 12, dtype=torch.float64) / period)
    for beta in FOCUS:
        row = comb(beta, period)
        steps = torch.stack([comb(beta, period, ahead=ahead) @ wave[:WINDOW] for ahead in range(1, 13)])
        future = wave[WINDOW:]
        metrics[f"mass {beta:g}"] = near(row, 12, 0)
        metrics[f"amplitude {beta:g}"] = float(steps @ future / future.square().sum())
        metrics[f"bessel {beta:g}"] = float(ive(1, beta) / ive(0, beta))
        metrics[f"share {beta:g}"] = share(row, period)
        metrics[f"peaks {beta:g}"] = [peak(comb(beta, period, window)) for window in WINDOWS]
    return metrics


def series(variant: str, seed: int) -> tuple[Tensor, int]:
    """A series (N,), float64, standardized by its first three quarters, and their length."""
    random = Generator().manual_seed(seed)
    noise = torch.randn(800, generator=random, dtype=torch.float64)
    if variant in REAL:
        y = real(variant)
    elif variant == "noise":
        y = noise
    else:
        y = torch.sin(2 * math.pi * torch.arange(800, dtype=torch.float64) / PERIODS[variant]) + 0.3 * noise
    known = len(y) * 3 // 4
    if variant == "co2":  # subtract a line fitted to the known part
        line = torch.stack([torch.ones(len(y)), torch.arange(len(y))], 1).double()
        y = y - line @ torch.linalg.lstsq(line[:known], y[:known, None]).solution[:, 0]
    return (y - y[:known].mean()) / y[:known].std(), known


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    return rows() if variant == "rows" else forecasts(variant, seed, budget)


def forecasts(variant: str, seed: int, budget: Budget) -> Metrics:
    """Squared errors on the last quarter, of weights learned on the rest and of baselines."""
    y, known = series(variant, seed)
    windows = y.unfold(0, WINDOW, 1)[:-AHEAD]
    targets = y[WINDOW - 1 + AHEAD :]
    train = known - (WINDOW - 1 + AHEAD)  # the number of targets in the known part
    free = torch.full((len(CANDIDATES),), -2.0, dtype=torch.float64, requires_grad=True)
    basis = scores(CANDIDATES)

    def attention() -> Tensor:
        return (basis @ F.softplus(free)).softmax(0)  # positive weights: no period is used in antiphase

    def loss(step: int) -> Tensor:
        return (windows[:train] @ attention() - targets[:train]).square().mean()

    descend([free], loss, steps=budget.steps, learning_rate=0.1)
    row = attention().detach()
    season = PERIODS[variant]
    predictions = {
        "learned": windows @ row,
        "fixed": windows @ comb(16, season),
        "last season": windows[:, AHEAD - 1 - season],
        "mean": windows.mean(1),
    }
    errors = {name: float((values - targets)[train:].square().mean()) for name, values in predictions.items()}
    return {**errors, "peak": peak(row), "near": near(row, season, 1), "row": row.tolist()}


@STUDY.control(
    "on noise the learned forecast gains less than 2 % over the mean",
    variant="noise",
    mechanism="season of 12",
)
def noise_gains_nothing(findings: Findings) -> bool:
    return findings.mean("noise", "learned") >= 0.98 * findings.mean("noise", "mean")


@STUDY.claim("q_t.k_u = cos(2 pi (t+H-u)/P)")
def judge_identity(findings: Findings) -> Verdict:
    """Confirmed if the largest error is at most 1e-12."""
    error = findings.most("rows", "identity")
    summary = f"largest error {error:.0e}, lags from -500 to 499"
    return decided(error <= 1e-12, summary)


def judge_rows(findings: Findings, metric: str, enough: float, statement: str, *, wide: bool) -> Verdict:
    """The verdict on an exact figure at every beta; with `wide` small betas are the good ones, else large."""
    figures = {f"{beta:g}": findings.mean("rows", f"{metric} {beta:g}") for beta in FOCUS}
    summary = f"{statement} {listed(figures, '{:.3f} (beta {name})')}"
    good = {beta: figures[f"{beta:g}"] >= enough for beta in FOCUS}
    edge = max(filter(good.get, FOCUS), default=0) if wide else min(filter(good.get, FOCUS), default=0)
    return each(good, summary, f"beta {'<=' if wide else '>='} {edge:g}")


@STUDY.claim("So attention concentrates on the points in phase with the target")
def judge_focus(findings: Findings) -> Verdict:
    """Confirmed if at least half of it is exactly at the phase for every beta, conditional if for some."""
    return judge_rows(findings, "mass", 0.5, "attention exactly at the phase, period 12:", wide=False)


@STUDY.claim("The past at the target's phase gives the target's value")
def judge_amplitude(findings: Findings) -> Verdict:
    """Confirmed if the forecast of a sine keeps .95 of its amplitude for every beta, conditional if for
    some.
    """
    verdict = judge_rows(findings, "amplitude", 0.95, "amplitude of a forecast unit sine", wide=False)
    off = max(
        abs(findings.mean("rows", f"amplitude {beta:g}") - findings.mean("rows", f"bessel {beta:g}"))
        for beta in FOCUS[:2]
    )
    summary = f"{verdict.summary}; equal to I1(beta)/I0(beta) within {off:.0e} up to beta 4"
    return replace(verdict, summary=summary)


@STUDY.claim("A row's Fourier transform shows the attention's energy at the frequency of P", needs=SEASONS)
def judge_spectrum(findings: Findings) -> Verdict:
    """Confirmed if at least half of the energy is there for every beta, conditional if for some."""
    verdict = judge_rows(findings, "share", 0.5, "share of the energy at P:", wide=True)
    peaks = zip(findings.curve("rows", f"peaks {FOCUS[-1]:g}")[0], WINDOWS, strict=True)
    summary = f"; the peak at beta {FOCUS[-1]:g}: " + ", ".join(f"{at:.1f} ({size})" for at, size in peaks)
    right = [abs(at / PERIODS[name] - 1) <= 0.05 for name in SEASONS for at in findings.values(name, "peak")]
    summary += f" of 12 (window); learned rows peak within 5 % of P in {sum(right)} of {len(right)} runs"
    return replace(verdict, summary=verdict.summary + summary)


@STUDY.claim("Attention learns by itself to look at the same phase", needs=SEASONS)
def judge_learned(findings: Findings) -> Verdict:
    """Confirmed if three quarters of it are within a step of the phase on every series with a season (chance:
    3/P).
    """
    shares = {name: findings.mean(name, "near") for name in PERIODS}
    good = {name: shares[name] >= 0.75 for name in SEASONS}
    summary = f"attention within a step of the phase: {listed(shares)}"
    return each(good, summary, "the series is {}", join=", ")


@STUDY.claim("Analogy with the same phase of earlier periods is an effective forecast", needs=SEASONS)
def judge_forecast(findings: Findings) -> Verdict:
    """Confirmed if it is 5 % better than the last season and the mean on every series with a season."""
    names = ("learned", "last season", "mean")
    errors = {series: [findings.mean(series, name) for name in names] for series in PERIODS}
    summary = "squared error, learned / last season / mean: " + ", ".join(
        f"{series} {learned:.2f}/{season:.2f}/{mean:.2f}"
        for series, (learned, season, mean) in errors.items()
    )
    good = {series: errors[series][0] < 0.95 * min(errors[series][1:]) for series in SEASONS}
    rest = ", ".join(series for series in SEASONS if not good[series])
    strict = f"seasons keep their phase and level, and are noisy: {{}} (not: {rest})"
    return each(good, summary, strict, join=", ")


@STUDY.draws
def draw(findings: Findings) -> Figure:
    lags = WINDOW - 1 + AHEAD - np.arange(WINDOW)
    learned, before = {"learned": findings.curve("elnino", "row")[0]}, "months before the target"
    years = range(0, WINDOW + AHEAD, 12)
    look: Any = {"title": "elnino, learned (one run); dotted: years", "xticks": years, "at_x": years}
    left = Lines(lags, learned, before, "attention weight", look={"marker": "", "lw": 1}, width=4, **look)
    metrics = {
        "mass": "attention exactly at the phase",
        "amplitude": "amplitude of a forecast sine",
        "share": "energy at P",
    }
    exact = {
        name: [findings.mean("rows", f"{metric} {beta:g}") for beta in FOCUS]
        for metric, name in metrics.items()
    }
    focus, title = [f"{beta:g}" for beta in FOCUS], f"P = 12, window {WINDOW}: exact"
    middle = Lines(focus, exact, "focus beta", "share or ratio", title=title, ylim=(0, 1.6), width=3)
    errors = {
        name: {series: findings.values(series, name) for series in PERIODS}
        for name in ("learned", "last season", "mean")
    }
    label = "squared error / variance of the known part"
    return figure(left, middle, Dots(errors, label, xscale="log", width=4), size=(12, 3.6))
