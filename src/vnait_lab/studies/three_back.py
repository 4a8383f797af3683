"""Attending three positions back: linear, binary and sinusoidal codes, in and outside of training.

Attention scores are bilinear in the codes: with [p, 1] a score is linear in the key's position and can peak
only at an end of the text, while a sum of cosines can peak anywhere. Whether this carries over from one
window to another depends on the training. The order of two positions is a different question: a linear code
determines it at any distance.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from vnait_lab.kit import Bars, Figure, decided, figure
from vnait_lab.studies.parts.place_codes import (
    BACK,
    CODES,
    COUNT,
    STARTS,
    TESTS,
    WINDOW,
    encode,
    looking_back,
)
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

ANYWHERE = {
    f"{name}, any window": f"{CODES[name]}, trained on windows anywhere below {STARTS:,}"
    for name in ("binary", "sinusoid")
}
STUDY = Study.of(
    __name__,
    source="003, comparison of codes",
    data=f"codes of positions; windows of {WINDOW} for training",
    measure="share of rows that find 3 back, of pairs in their right order",
    smallest="10 points of accuracy",
    variants={name: what for name, what in CODES.items() if name != "random"} | ANYWHERE,
    full=Budget(seeds=5, steps=900),
    quick=Budget(seeds=3, steps=400),
)


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    metrics = retrieval(variant.removesuffix(", any window"), seed, budget, anywhere=variant in ANYWHERE)
    return metrics if variant in ANYWHERE else metrics | order(variant)


def retrieval(name: str, seed: int, budget: Budget, *, anywhere: bool) -> Metrics:
    """Train W of the scores PE_i^T W PE_j to find i - 3; the share of rows where it does, by test windows."""
    random = Generator().manual_seed(seed)

    def codes(places: Tensor) -> Tensor:
        return F.pad(encode(name, places, unit=WINDOW), (0, 1), value=1.0).float()

    table = codes(torch.arange((STARTS if anywhere else 1) + WINDOW))
    weight = looking_back(table, random, steps=budget.steps, learning_rate=3e-2)
    metrics = {}
    for metric, starts in TESTS.items():
        code = codes(torch.tensor(starts)[:, None] + torch.arange(WINDOW))
        place = (code[:, BACK:] @ weight @ code.mT).argmax(-1)
        metrics[metric] = float((place == torch.arange(WINDOW - BACK)).double().mean())
    return metrics


def order(name: str) -> Metrics:
    """Is a before b? Accuracy of a logistic regression on both codes, fitted on all pairs below 64, by
    range.
    """
    code = encode(name, torch.arange(COUNT), unit=WINDOW)

    def pairs(first: int, last: int) -> tuple[Tensor, Tensor]:
        a, b = torch.combinations(torch.arange(first, last)).unbind(1)
        both = torch.cat([torch.cat([code[a], code[b]], 1), torch.cat([code[b], code[a]], 1)])
        return both, torch.arange(2 * len(a)) < len(a)

    x, before = pairs(0, WINDOW)
    weight = torch.zeros(x.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    fit = torch.optim.LBFGS([weight, bias], max_iter=300, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        fit.zero_grad()
        value = F.binary_cross_entropy_with_logits(x @ weight + bias, before.double())
        value = value + 1e-5 * weight.square().sum()
        value.backward()
        return value

    fit.step(loss)
    ranges = {"order_inside": (0, WINDOW), "order_far": (200, COUNT), "order_all": (0, COUNT)}
    metrics = {}
    for metric, ends in ranges.items():
        tested, truth = pairs(*ends)
        metrics[metric] = float(((tested @ weight + bias > 0) == truth).double().mean())
    return metrics


def percent(findings: Findings, variant: str, metric: str) -> str:
    """The mean in percent, with its 95 % interval if seeds differ."""
    mean, low, high = findings.interval(variant, metric)
    bounds = "" if low is None or high is None or low == high else f" ({100 * low:.0f} to {100 * high:.0f})"
    return f"{100 * mean:.0f} %{bounds}"


@STUDY.control(
    "a score linear in the key's position finds 3 back in at most 10 % of rows",
    variant="linear",
    mechanism="sinusoid",
)
def linear_finds_nothing(findings: Findings) -> bool:
    return findings.most("linear", "inside") <= 0.1


@STUDY.claim("A code that counts (1, 2, 3, ...) handles long texts badly")
def judge_linear(findings: Findings) -> Verdict:
    """Confirmed if it finds 3 back in at most half of the rows and the order of fewer than 95 % of far pairs;
    conditional if it finds the order.
    """
    place, order = findings.most("linear", "inside"), findings.least("linear", "order_far")
    inside, compared = (percent(findings, "linear", metric) for metric in ("inside", "order_far"))
    summary = f"3 positions back: {inside} of rows right in the training window; "
    summary += f"a before b at 200-255, trained below {WINDOW}: {compared}"
    condition = "a position is to be found; the order of two it still gives"
    return decided(place <= 0.5 and order < 0.95, summary, refuted=place > 0.5, condition=condition)


@STUDY.claim("Trigonometric functions extrapolate to longer texts")
def judge_extrapolates(findings: Findings) -> Verdict:
    """Confirmed if 90 % are right in windows outside of training; conditional if only with training on any
    window; undecided below 99 % inside.
    """
    variants = ("sinusoid", "sinusoid, any window", "binary, any window")
    summary = "right in windows past 64 and past 5,000: " + "; ".join(
        f"{variant} {percent(findings, variant, 'next')} and {percent(findings, variant, 'far')}"
        for variant in variants
    )
    if min(findings.least(variant, "inside") for variant in variants[:2]) < 0.99:
        return Verdict("undecided", f"not learned: {summary}")
    fixed, anywhere = (
        min(findings.least(variant, "next"), findings.least(variant, "far")) >= 0.9
        for variant in variants[:2]
    )
    condition = f"training windows start anywhere (here below {STARTS:,}), not always at 0"
    return decided(fixed, summary, refuted=not anywhere, condition=condition)


@STUDY.draws
def draw(findings: Findings) -> Figure:
    variants = ["linear", "binary", "binary, any window", "sinusoid", "sinusoid, any window"]
    tested = {"tested at 0-63": "inside", "at 64-255": "next", "past 5,000": "far"}
    rows = {place: findings.curves(variants, metric) for place, metric in tested.items()}
    return figure(Bars(rows, "3 back found (%)", percent=True, at_x={"chance": 100 / WINDOW}, legend="right"))
