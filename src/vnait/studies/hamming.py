"""Attention that corrects errors: a Hamming code's checks, read by three heads off the binary codes of positions.

Check r covers the positions whose binary code has bit r; the checks that come out odd spell the position of a single flipped bit. A
head whose scores are s on the covered positions and 0 on the others averages the k = 2^(m-1) covered bits, and some of the others: k
times its output is nearly the number of ones, and (1 - cos(pi number)) / 2 is its parity. The leak is worst where all other k - 1 bits
are ones and no covered one is: k (k - 1) / (k e^s + k - 1) < 1/2, which is e^s > (k - 1)(2k - 1) / k.
"""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from vnait.studies.figures import lines, panels
from vnait.studies.parts.syndrome import bits, counts, flipped, read, spelled
from vnait.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

SHARP = 5.0
GRID = torch.linspace(0, 4, 81, dtype=torch.float64)
CODES = {"(3,1)": 2, "(7,4)": 3, "(15,11)": 4}  # name: checks


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    checks = CODES.get(arm, 3)
    positions = 2**checks - 1
    codes, words = bits(torch.arange(1, positions + 1), checks), bits(torch.arange(2**positions), positions)
    truth = flipped(words)
    if arm == "linear":
        return _linear(words, codes, truth)
    if arm == "shuffled":
        orders = torch.tensor(list(permutations(range(7)))[1:])
        return _shares(read(words, codes[orders], SHARP), truth)
    shares = [_shares(read(words, codes, float(s)), truth) for s in GRID]
    return {
        **_shares(read(words, codes, SHARP), truth),
        **{f"{name} by s": [share[name] for share in shares] for name in ("errors", "clean")},
        "threshold": _threshold(words, codes, truth),
        **(_doubles(words[truth == 0], codes) if arm == "(7,4)" else {}),
    }


def _shares(found: Tensor, truth: Tensor) -> Metrics:
    """The shares of single errors that are found, and of code words that raise no alarm."""
    right = (found == truth).double()
    return {"errors": float(right[..., truth > 0].mean()), "clean": float(right[..., truth == 0].mean())}


def _linear(words: Tensor, codes: Tensor, truth: Tensor) -> Metrics:
    """Without the cosine: odd is what lies above a number, or below it; whichever finds the most errors, at any sharpness."""
    tried = []
    for s in (1.0, SHARP, 20.0):
        count = counts(words, codes, s)
        for edge in torch.arange(0.25, 4, 0.25):
            tried += [_shares(spelled(odd), truth) for odd in (count > edge, count < edge)]
    return max(tried, key=lambda shares: float(shares["errors"]))


def _threshold(words: Tensor, codes: Tensor, truth: Tensor) -> float:
    """The sharpness above which every word is read aright, by halving; that there is one is read off the grid."""
    low, high = 0.0, 4.0
    for _ in range(24):
        middle = (low + high) / 2
        right = bool((read(words, codes, middle) == truth).all())
        low, high = (low, middle) if right else (middle, high)
    return high


def _doubles(clean: Tensor, codes: Tensor) -> Metrics:
    """Two flipped bits: is one of the two named? Or the exclusive or of both?"""
    pairs = torch.combinations(torch.arange(7))
    flips = torch.zeros(len(pairs), 7, dtype=torch.float64).scatter(1, pairs, 1.0)
    words = (clean[:, None] - flips).abs().flatten(0, 1)
    found = read(words, codes, SHARP)
    one, other = (pairs + 1).repeat(len(clean), 1).unbind(1)
    named = (found == one) | (found == other)
    return {"doubles": float(named.double().mean()), "xor": float((found == one ^ other).double().mean())}


@claim("The binary value of the syndrome is the position of the error", source="004, error correction")
def judge_syndrome(found: Findings) -> Verdict:
    """Refuted where a single error or a code word is misread at s=5; conditional where two errors name neither."""
    single, clean = found.mean("(7,4)", "errors"), found.mean("(7,4)", "clean")
    double, both = found.mean("(7,4)", "doubles"), found.mean("(7,4)", "xor")
    said = f"s={SHARP:g}: {112 * single:.0f} of 112 single errors and {16 * clean:.0f} of 16 code words read aright; of two errors "
    said += f"one is named {336 * double:.0f} times of 336, the exclusive or of their positions {336 * both:.0f} times"
    if min(single, clean) < 1:
        return Verdict("refuted", said)
    return Verdict("confirmed", said) if double == 1 else Verdict("conditional", said, "at most one bit is flipped")


@claim(
    "Heads that score high exactly where bit r is 1 estimate the checks, and together name the error",
    source="004, error correction",
)
def judge_soft(found: Findings) -> Verdict:
    """Confirmed where all 128 words are read aright whatever s; conditional where from some s on."""
    threshold = found.mean("(7,4)", "threshold")
    errors, clean = found.curve("(7,4)", "errors by s")[0], found.curve("(7,4)", "clean by s")[0]
    above, at = GRID.numpy() > threshold, int(np.argmin(np.abs(GRID.numpy() - 1.5)))
    said = f"s=1.5: {112 * errors[at]:.0f} of 112 errors, but {16 * clean[at]:.0f} of 16 code words; all from s={threshold:.4f} on"
    if not (errors[above] == 1).all() or not (clean[above] == 1).all():
        return Verdict("refuted", said)
    if (errors == 1).all() and (clean == 1).all():
        return Verdict("confirmed", said)
    return Verdict("conditional", said, f"the covered positions' scores are {threshold:.2f} or more above the others'")


@claim("A weighted sum of the covered bits gives the parity", source="004, error correction")
def judge_weighted(found: Findings) -> Verdict:
    """Confirmed where a threshold on the sum finds every error; conditional where a cosine of it does, refuted otherwise."""
    without, given = found.mean("linear", "errors"), found.mean("(7,4)", "errors")
    said = f"read off a threshold, at best {112 * without:.0f} of 112 errors; through the cosine {112 * given:.0f}"
    if without < 1 and given == 1:
        return Verdict("conditional", said, "a periodic function of the sum follows")
    return Verdict("confirmed" if without == 1 else "refuted", said)


@claim(
    "How high the scores must be is e^s = (k - 1)(2k - 1) / k, k the positions of a check",
    source="004, error correction; the law is this study's",
)
def judge_law(found: Findings) -> Verdict:
    """Confirmed where the measured thresholds of three codes are within 1e-6 of it."""
    measured = {name: found.mean(name, "threshold") for name in CODES}
    off = max(abs(value - law(CODES[name])) for name, value in measured.items())
    said = ", ".join(f"{value:.4f} {name}" for name, value in measured.items())
    return Verdict("confirmed" if off <= 1e-6 else "refuted", f"{said}; largest difference from the law {off:.0e}")


def law(checks: int) -> float:
    """The sharpness above which the leak is below one half."""
    k = 2 ** (checks - 1)
    return math.log((k - 1) * (2 * k - 1) / k)


def draw(found: Findings) -> Figure:
    figure, (left, right) = panels(1, 1, size=(9.5, 3.3))
    shown = {"112 single errors": "errors by s", "16 code words": "clean by s"}
    lines(left, GRID, {label: 100 * found.curve("(7,4)", metric) for label, metric in shown.items()}, marker="")
    left.axhline(100 * found.mean("linear", "errors"), color="gray", lw=0.9, label="errors, best linear read-out")
    left.axvline(law(3), color="gray", ls=":", label="ln(21/4)")
    left.set(title="(7,4), all 128 words", xlabel="sharpness s (score)", ylabel="read aright (%)", ylim=(0, 104))
    left.legend(loc="center right")
    for name, checks in CODES.items():
        n = 2**checks - 1
        share = (n * found.curve(name, "errors by s") + found.curve(name, "clean by s")) / (n + 1)
        lines(right, GRID, {f"{name}, {2**n:,} words": 100 * share}, marker="")
    right.plot([law(checks) for checks in CODES.values()], [100] * len(CODES), "kv", mfc="black", ms=7)
    right.set(title="all words; the law's thresholds marked", xlabel="sharpness s (score)", ylim=(0, 104))
    right.legend(loc="lower right")
    return figure


STUDY = Study(
    name="hamming",
    subject="Hamming codes: attention on binary position codes finds a flipped bit",
    data="none: every word of the codes (3,1), (7,4) and (15,11), each a code word or one flip away from one",
    measure="share of words whose error is named, or which raise no alarm",
    smallest="one word; 1e-6 for a threshold",
    arms={
        **{name: f"{checks} checks, one head each, read through a cosine" for name, checks in CODES.items()},
        "linear": "the heads of (7,4), read through the best threshold",
        "shuffled": "the heads of (7,4), with the codes in every other order",
    },
    controls=[
        Control(
            says="with codes in other orders at most a quarter of the errors is found",
            arm="shuffled",
            mechanism="(7,4)",
            fails=lambda found: found.mean("shuffled", "errors") <= 0.25,
        ),
        Control(
            says="without the cosine at most half of the errors are found",
            arm="linear",
            mechanism="(7,4)",
            fails=lambda found: found.mean("linear", "errors") <= 0.5,
        ),
    ],
    claims=[judge_syndrome, judge_soft, judge_weighted, judge_law],
    full=Budget(),
    quick=Budget(),
    run=run,
    draw=draw,
)
