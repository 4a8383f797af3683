"""Hamming codes: finding a flipped bit with attention on binary position codes.

Check r covers the positions whose binary code has bit r; the odd checks are the binary code of a single
flipped bit's position. A head whose scores are s on the covered positions and 0 on the others averages the k
= 2^(m-1) covered bits with a small weight on the others: k times its output is nearly the number of ones, and
(1 - cos(pi number)) / 2 is its parity. The leak is largest if all other k - 1 bits are ones and no covered
bit is: k (k - 1) / (k e^s + k - 1) < 1/2, equivalent to e^s > (k - 1)(2k - 1) / k.
"""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import torch
from torch import Tensor

from vnait.positions.encodings import Binary
from vnait_lab.kit import Figure, Lines, decided, figure, listed
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

SHARP = 5.0  # far above ln(21/4) = 1.66, from which on all words are decoded
GRID = torch.linspace(0, 4, 81, dtype=torch.float64)
CODES = {"(3,1)": 2, "(7,4)": 3, "(15,11)": 4}  # name: checks
STUDY = Study.of(
    __name__,
    source="004, error correction",
    data="none: all words of the codes (3,1), (7,4) and (15,11), each a code word or one flip away from one",
    measure="share of words whose error is found, or which raise no false alarm",
    smallest="one word; 1e-6 for a threshold",
    variants={
        **{name: f"{checks} checks, one head each, read through a cosine" for name, checks in CODES.items()},
        "linear": "the heads of (7,4), read through the best threshold",
        "shuffled": "the heads of (7,4), with the codes in every other order",
    },
)


def bits(numbers: Tensor, dim: int) -> Tensor:
    """The binary codes of integers (N,): (N, dim), float64."""
    return Binary(dim=dim)(numbers.double()[None, :, None]).added[0]


def counts(words: Tensor, codes: Tensor, sharpness: float) -> Tensor:
    """The number of ones among the covered bits, as estimated by each check's head: words (N, n), codes
    (..., n, m) -> (..., N, m).
    """
    weights = (sharpness * codes).softmax(-2)
    return 2 ** (codes.shape[-1] - 1) * words @ weights


def parity(count: Tensor) -> Tensor:
    """0 for even numbers, 1 for odd ones, smooth in between."""
    return (1 - (math.pi * count).cos()) / 2


def spelled(odd: Tensor) -> Tensor:
    """The position whose binary code is the odd checks (..., m); 0 for no error."""
    return (odd * 2 ** torch.arange(odd.shape[-1])).sum(-1)


def read(words: Tensor, codes: Tensor, sharpness: float) -> Tensor:
    """The flipped position of each word, as computed by the heads."""
    return spelled(parity(counts(words, codes, sharpness)) > 0.5)


def flipped(words: Tensor) -> Tensor:
    """The syndrome in integers: the exclusive or of the positions of ones; 0 for a code word."""
    places = np.arange(1, words.shape[1] + 1)
    return torch.from_numpy(np.bitwise_xor.reduce(np.where(words.bool(), places, 0), axis=1))


def twice(clean: Tensor) -> tuple[Tensor, Tensor]:
    """Every code word (N, 7) with every two bits flipped (21 N, 7), and the two places (21 N, 2)."""
    pairs = torch.combinations(torch.arange(7))
    flips = torch.zeros(len(pairs), 7, dtype=clean.dtype).scatter(1, pairs, 1.0)
    return (clean[:, None] - flips).abs().flatten(0, 1), (pairs + 1).repeat(len(clean), 1)


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    checks = CODES.get(variant, 3)
    positions = 2**checks - 1
    codes = bits(torch.arange(1, positions + 1), checks)
    words = bits(torch.arange(2**positions), positions)  # all words, code words or not
    truth = flipped(words)
    if variant == "linear":
        return _linear(words, codes, truth)
    if variant == "shuffled":
        orders = torch.tensor(list(permutations(range(7)))[1:])
        return _shares(read(words, codes[orders], SHARP), truth)
    shares = [_shares(read(words, codes, float(s)), truth) for s in GRID]
    return {
        **_shares(read(words, codes, SHARP), truth),
        **{f"{name} by s": [share[name] for share in shares] for name in ("errors", "clean")},
        "threshold": _threshold(words, codes, truth),
        **(_doubles(words[truth == 0], codes) if variant == "(7,4)" else {}),
    }


def _shares(named: Tensor, truth: Tensor) -> Metrics:
    """The shares of single errors that are found, and of code words without a false alarm."""
    right = (named == truth).double()
    return {"errors": float(right[..., truth > 0].mean()), "clean": float(right[..., truth == 0].mean())}


def _linear(words: Tensor, codes: Tensor, truth: Tensor) -> Metrics:
    """Without the cosine: a check is odd above a threshold, or below it; the best rule at the best
    sharpness.
    """
    tried = []
    for s in (1.0, SHARP, 20.0):
        count = counts(words, codes, s)
        for edge in torch.arange(0.25, 4, 0.25):
            tried += [_shares(spelled(odd), truth) for odd in (count > edge, count < edge)]
    return max(tried, key=lambda shares: float(shares["errors"]))


def _threshold(words: Tensor, codes: Tensor, truth: Tensor) -> float:
    """The sharpness above which every word is read correctly, by bisection; `GRID` shows that there is
    one.
    """
    low, high = 0.0, 4.0
    for _ in range(24):
        middle = (low + high) / 2
        right = bool((read(words, codes, middle) == truth).all())
        low, high = (low, middle) if right else (middle, high)
    return high


def _doubles(clean: Tensor, codes: Tensor) -> Metrics:
    """Two flipped bits: the shares of words for which one of the two, or their exclusive or, is found."""
    words, places = twice(clean)
    named, (first, second) = read(words, codes, SHARP), places.unbind(1)
    either, both = (named == first) | (named == second), named == first ^ second
    return {"doubles": float(either.double().mean()), "xor": float(both.double().mean())}


@STUDY.control(
    "with codes in other orders at most a quarter of the errors is found",
    variant="shuffled",
    mechanism="(7,4)",
)
def other_orders_find_little(findings: Findings) -> bool:
    return findings.mean("shuffled", "errors") <= 0.25


@STUDY.control("without the cosine at most half of the errors are found", variant="linear", mechanism="(7,4)")
def linear_finds_little(findings: Findings) -> bool:
    return findings.mean("linear", "errors") <= 0.5


@STUDY.claim("The binary value of the syndrome is the position of the error")
def judge_syndrome(findings: Findings) -> Verdict:
    """Refuted if a single error or a code word is misread at s=5; conditional if with two errors neither is
    found.
    """
    single, clean = findings.mean("(7,4)", "errors"), findings.mean("(7,4)", "clean")
    double, both = findings.mean("(7,4)", "doubles"), findings.mean("(7,4)", "xor")
    summary = f"s={SHARP:g}: {112 * single:.0f} of 112 single errors and {16 * clean:.0f} of 16 code words "
    summary += f"are read correctly; of 336 double errors one is found in {336 * double:.0f}, the exclusive "
    summary += f"or of their positions in {336 * both:.0f}"
    misread, condition = min(single, clean) < 1, "at most one bit is flipped"
    return decided(double == 1 and not misread, summary, refuted=misread, condition=condition)


@STUDY.claim(
    "Heads that score high exactly where bit r is 1 estimate the checks, and together name the error"
)
def judge_soft(findings: Findings) -> Verdict:
    """Confirmed if all 128 words are read correctly at every s; conditional if from some s on."""
    threshold = findings.mean("(7,4)", "threshold")
    errors, clean = findings.curve("(7,4)", "errors by s")[0], findings.curve("(7,4)", "clean by s")[0]
    right, at = (errors == 1) & (clean == 1), int(np.argmin(np.abs(GRID.numpy() - 1.5)))
    summary = f"s=1.5: {112 * errors[at]:.0f} of 112 errors, but {16 * clean[at]:.0f} of 16 code words; "
    summary += f"all from s={threshold:.4f} on"
    wrong = not right[GRID.numpy() > threshold].all()
    condition = f"the scores of covered positions are at least {threshold:.2f} above the others"
    return decided(bool(right.all()), summary, refuted=wrong, condition=condition)


@STUDY.claim("A weighted sum of the covered bits gives the parity")
def judge_weighted(findings: Findings) -> Verdict:
    """Confirmed if a threshold on the sum finds every error; conditional if a cosine of the sum does, else
    refuted.
    """
    without, cosine = findings.mean("linear", "errors"), findings.mean("(7,4)", "errors")
    summary = f"a threshold finds at best {112 * without:.0f} of 112 errors, the cosine {112 * cosine:.0f}"
    condition = "a periodic function is applied to the sum"
    return decided(without == 1, summary, refuted=cosine < 1, condition=condition)


@STUDY.claim(
    "How high the scores must be is e^s = (k - 1)(2k - 1) / k, k the positions of a check",
    source="004, error correction; this project: the law",
)
def judge_law(findings: Findings) -> Verdict:
    """Confirmed if the measured thresholds of three codes are within 1e-6 of it."""
    measured = {name: findings.mean(name, "threshold") for name in CODES}
    off = max(abs(value - law(CODES[name])) for name, value in measured.items())
    summary = f"{listed(measured, '{:.4f} {name}')}; largest difference from the law {off:.0e}"
    return decided(off <= 1e-6, summary)


def law(checks: int) -> float:
    """The sharpness above which the leak of a check is below one half."""
    k = 2 ** (checks - 1)
    return math.log((k - 1) * (2 * k - 1) / k)


@STUDY.draws
def draw(findings: Findings) -> Figure:
    sharpness, label, look = "sharpness s (score)", "read correctly (%)", {"marker": ""}
    shown = {"112 single errors": "errors by s", "16 code words": "clean by s"}
    curves = {name: findings.curve("(7,4)", metric) for name, metric in shown.items()}
    best = {"errors, best threshold": 100 * findings.mean("linear", "errors")}
    of_law = {"ln(21/4)": law(3)}
    left = Lines(
        GRID, curves, sharpness, label, percent=True, look=look, title="(7,4)", at_x=of_law, at_y=best
    )
    words, thresholds = {}, []
    for name, checks in CODES.items():
        n = 2**checks - 1
        share = (n * findings.curve(name, "errors by s") + findings.curve(name, "clean by s")) / (n + 1)
        words[f"{name}, {2**n:,} words"] = share
        thresholds.append(law(checks))
    title = "all words; dotted: thresholds of the law"
    right = Lines(GRID, words, sharpness, label, percent=True, look=look, title=title, at_x=thresholds)
    return figure(left, right)
