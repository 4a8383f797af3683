"""Forecasts by analogy: attention that looks back at the moments of the target's phase.

With p_t = (sin 2 pi t/P, cos 2 pi t/P), the query p_{t+H} and the keys p_u, a score is beta cos(2 pi (t+H-u)/P): the weights, a von
Mises density, comb the past at the target's phase. They know the clock and no value: a spectrum of them shows the P that was put in, of
noise just as well. So here the weights of 20 candidate periods are learned from the forecast's error, and the spectrum is of those.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor
from torch.nn import functional as F

from vnait.studies.figures import dots, lines, panels
from vnait.studies.parts.combs import AHEAD, FOCUS, WINDOW, WINDOWS, comb, near, peak, rows, scores
from vnait.studies.parts.series import REAL, real
from vnait.studies.parts.training import descend
from vnait.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

SOURCE = "004, phase-aligned forecasting"
CANDIDATES = [float(period) for period in range(2, 22)]
# The period a series is known for, which the seasonal forecast repeats, and what the series is.
SERIES = {
    "season of 12": (12, "generated: a sine, noise of variance .09"),
    "season of 7": (7, "generated: a sine, noise of variance .09"),
    "noise": (12, "generated: no season"),
    "elnino": (12, "temperature of the sea, monthly"),
    "co2": (12, "in the air, monthly, minus a line through the known part"),
    "co2, differences": (12, "to the month before"),
    "sunspots": (11, "yearly"),
}
PERIODS = {arm: period for arm, (period, _) in SERIES.items()}
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


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    return rows() if arm == "rows" else forecasts(arm, seed, budget)


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
        "fixed": windows @ comb(16, season),
        "last season": windows[:, AHEAD - 1 - season],
        "mean": windows.mean(1),
    }
    errors = {name: float((said - targets)[train:].square().mean()) for name, said in told.items()}
    return {**errors, "peak": peak(row), "near": near(row, season, 1), "row": row.tolist()}


@claim("q_t.k_u = cos(2 pi (t+H-u)/P)", source=SOURCE)
def judge_identity(found: Findings) -> Verdict:
    """Confirmed where the largest error is 1e-12 or less."""
    error = found.most("rows", "identity")
    return Verdict("confirmed" if error <= 1e-12 else "refuted", f"largest error {error:.0e}, lags from -500 to 499")


def judge_rows(found: Findings, metric: str, enough: float, says: str, *, wide: bool) -> Verdict:
    """What a figure is at every beta; wide: small ones have it, where it isn't in all."""
    figures = {beta: found.mean("rows", f"{metric} {beta:g}") for beta in FOCUS}
    said = f"{says} " + ", ".join(f"{value:.3f} (beta {beta:g})" for beta, value in figures.items())
    good = [beta for beta, value in figures.items() if value >= enough]
    edge = f"beta <= {max(good, default=0):g}" if wide else f"beta >= {min(good, default=0):g}"
    return Verdict.among(good, FOCUS, said, edge)


@claim("So attention concentrates on the points in phase with the target", source=SOURCE)
def judge_focus(found: Findings) -> Verdict:
    """Confirmed where half of it or more falls on the very phase at every beta, conditional where at some."""
    return judge_rows(found, "mass", 0.5, "attention at the very phase of 12:", wide=False)


@claim("The past at the target's phase gives the target's value", source=SOURCE)
def judge_amplitude(found: Findings) -> Verdict:
    """Confirmed where the forecast of a sine keeps .95 of its amplitude at every beta, conditional where at some."""
    verdict = judge_rows(found, "amplitude", 0.95, "a unit sine is forecast as", wide=False)
    off = [found.mean("rows", f"amplitude {beta:g}") - found.mean("rows", f"bessel {beta:g}") for beta in FOCUS[:2]]
    return replace(verdict, found=f"{verdict.found}; I1(beta)/I0(beta) within {max(map(abs, off)):.0e} up to beta 4")


@claim("A row's Fourier transform shows the attention's energy at the frequency of P", source=SOURCE, needs=SEASONS)
def judge_spectrum(found: Findings) -> Verdict:
    """Confirmed where half of the energy or more is there at every beta, conditional where at some."""
    verdict = judge_rows(found, "share", 0.5, "of the energy at P:", wide=True)
    peaks = zip(found.curve("rows", f"peaks {FOCUS[-1]:g}")[0], WINDOWS, strict=True)
    said = f"; the peak at beta {FOCUS[-1]:g}: " + ", ".join(f"{at:.1f} ({size})" for at, size in peaks)
    right = [abs(at / PERIODS[arm] - 1) <= 0.05 for arm in SEASONS for at in found.values(arm, "peak")]
    said += f" of 12 (window); learned rows peak within 5 % of P in {sum(right)} of {len(right)} runs"
    return replace(verdict, found=verdict.found + said)


@claim("Attention learns by itself to look at the same phase", source=SOURCE, needs=SEASONS)
def judge_learned(found: Findings) -> Verdict:
    """Confirmed where three quarters of it fall within a step of the phase on every series with a season (chance: 3/P)."""
    near = {arm: found.mean(arm, "near") for arm in PERIODS}
    said = "attention within a step of the phase: " + ", ".join(f"{arm} {value:.2f}" for arm, value in near.items())
    good = [arm for arm in SEASONS if near[arm] >= 0.75]
    return Verdict.among(good, SEASONS, said, f"the series is {', '.join(good)}")


@claim("Analogy with the same phase of earlier periods is an effective forecast", source=SOURCE, needs=SEASONS)
def judge_forecast(found: Findings) -> Verdict:
    """Confirmed where it is 5 % better than the last season and the mean on every series with a season."""
    errors = {arm: [found.mean(arm, name) for name in ("learned", "last season", "mean")] for arm in PERIODS}
    said = "squared error, learned / last season / mean: "
    said += ", ".join(f"{arm} " + "/".join(f"{error:.2f}" for error in own) for arm, own in errors.items())
    good = [arm for arm in SEASONS if errors[arm][0] < 0.95 * min(errors[arm][1:])]
    lost = [arm for arm in SEASONS if arm not in good]
    strict = f"seasons keep their phase and level and are noisy: {', '.join(good)} (not {', '.join(lost)})"
    return Verdict.among(good, SEASONS, said, strict)


def draw(found: Findings) -> Figure:
    figure, (left, middle, right) = panels(4, 3, 4, size=(12, 3.4))
    lines(left, WINDOW - 1 + AHEAD - np.arange(WINDOW), {"learned": found.curve("elnino", "row")[0]}, marker="", lw=1)
    left.set(xticks=range(0, WINDOW + AHEAD, 12), xlabel="months before the target, years dotted")
    left.set(ylabel="attention weight", title="elnino, learned (one run)")
    left.grid(axis="x", ls=":")
    told = {"mass": "attention at the very phase", "amplitude": "amplitude of a forecast sine", "share": "energy at P"}
    exact = {name: [found.mean("rows", f"{metric} {beta:g}") for beta in FOCUS] for metric, name in told.items()}
    lines(middle, FOCUS, exact)
    middle.set(xscale="log", xlabel="focus beta", ylabel="share or ratio", ylim=(0, 1.6))
    middle.set_xticks(FOCUS, [f"{beta:g}" for beta in FOCUS])
    middle.set_title(f"P = 12, window {WINDOW}: exact")
    middle.minorticks_off()
    middle.legend(loc="upper left")
    errors = {name: [found.values(arm, name) for arm in PERIODS] for name in ("learned", "last season", "mean")}
    dots(right, list(PERIODS), errors)
    right.set(xscale="log", xlabel="squared error / variance of the known part", ylim=(len(PERIODS) + 0.6, -0.6))
    right.set_title(f"a mark a seed (n={len(found.values('noise', 'mean'))})")
    right.legend(loc="lower center", ncols=3)
    return figure


STUDY = Study(
    name="forecasting",
    subject="Forecasts by analogy: attention to the moments of the target's phase",
    data="a noisy sine of period 12, of 7; noise; elnino, co2, sunspots of statsmodels",
    measure="errors and shares in float64; squared error on the last quarter of a series",
    smallest="1e-12 for an identity; 5 % of squared error",
    arms={"rows": "attention of the period 12, without data", **{arm: what for arm, (_, what) in SERIES.items()}},
    controls=[
        Control(
            says="on noise the learned forecast gains no 2 % on the mean",
            arm="noise",
            mechanism="season of 12",
            fails=lambda found: found.mean("noise", "learned") >= 0.98 * found.mean("noise", "mean"),
        )
    ],
    claims=[judge_identity, judge_focus, judge_amplitude, judge_spectrum, judge_learned, judge_forecast],
    full=Budget(seeds=5, steps=400),
    quick=Budget(seeds=2, steps=300),
    run=run,
    draw=draw,
    needs={arm: "module:statsmodels" for arm in PERIODS if arm in REAL},
)
