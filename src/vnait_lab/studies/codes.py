"""Linear, binary and sinusoidal codes of a position.

A shift by three is an affine map of the linear code [p, 1] and of the sinusoid, but not of the bits. The
linear code grows with the position, the bits jump at every carry, and the sinusoid takes steps of equal
length on a sphere. The study `three_back` tests what attention learns with each of them.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

from vnait_lab.kit import Dots, Figure, Lines, decided, figure, listed
from vnait_lab.studies.parts.place_codes import BACK, CODES, COUNT, WIDTH, WINDOW, encode
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

STUDY = Study.of(
    __name__,
    source="003, comparison of codes",
    data=f"codes of {COUNT} positions",
    measure="residual of the best affine shift, norms, steps, channels in use",
    smallest="1e-10 for an identity",
    variants=CODES,
    full=Budget(seeds=5),
    quick=Budget(seeds=3),
)


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    torch.manual_seed(seed)
    return shape(variant)


def shape(name: str) -> Metrics:
    """Norms, steps and channels in use of the first 256 codes, and the residual of the best affine shift
    by 3.
    """
    code = encode(name, torch.arange(COUNT + BACK))
    here, there = F.pad(code[:-BACK], (0, 1), value=1.0), code[BACK:]
    missed = there - here @ torch.linalg.lstsq(here, there, driver="gelsd").solution
    step = code.diff(dim=0)[: COUNT - 1].norm(dim=1)
    norm = code[:COUNT].norm(dim=1)
    used = code[:COUNT, code[:COUNT].std(0) > 0]
    return {
        "residual": float(missed.norm() / (there - there.mean(0)).norm()),
        "largest": float(norm.max()),
        "step_variation": float(step.std(correction=0) / step.mean()),
        "channels": float(used.shape[1]),
        "density": float((used != 0).double().mean()),
        "steps": step.tolist(),
    }


@STUDY.control(
    "no affine map shifts random codes: the residual is more than half of their spread",
    variant="random",
    mechanism="sinusoid",
)
def random_codes_do_not_shift(findings: Findings) -> bool:
    return findings.least("random", "residual") > 0.5


@STUDY.claim(
    "Bits are high-dimensional and sparse",
    rule=f"confirmed if {COUNT} positions need more than {WIDTH} bits, and fewer than 10 % of them are 1",
)
def judge_bits(findings: Findings) -> Verdict:
    channels, density = findings.mean("binary", "channels"), findings.mean("binary", "density")
    summary = f"{COUNT} positions take {channels:.0f} bits, of which {100 * density:.0f} % are 1"
    return decided(channels > WIDTH and density < 0.1, summary)


@STUDY.claim("Of the three only the sinusoid makes a relative place a linear map")
def judge_shift(findings: Findings) -> Verdict:
    """Confirmed if an affine map misses a shift by 3 by at most 1e-10 of the spread for the sinusoid, and by
    more for the others.
    """
    missed = {name: findings.most(name, "residual") for name in CODES}
    summary = "residual of the best affine map of a shift by 3, as a share of the codes' spread: "
    summary += listed(missed, "{:.1g} ({name})")
    exact = [name for name in ("linear", "binary", "sinusoid") if missed[name] <= 1e-10]
    return decided(exact == ["sinusoid"], summary)


@STUDY.claim(
    "The sinusoid changes smoothly, without huge differences of numbers",
    source="003, periodic functions; 003, comparison of codes",
)
def judge_smooth(findings: Findings) -> Verdict:
    """Confirmed if its steps are equal to 1e-9 and its norm is at most a tenth of the linear code's."""
    varies = {name: findings.most(name, "step_variation") for name in ("linear", "binary", "sinusoid")}
    norm = {name: findings.most(name, "largest") for name in varies}
    summary = f"the steps' lengths vary by {varies['sinusoid']:.0e} (bits: {100 * varies['binary']:.0f} %); "
    summary += f"largest norm below {COUNT}: {listed(norm, '{:.2f} ({name})')}"
    smooth = varies["sinusoid"] <= 1e-9 and norm["sinusoid"] <= norm["linear"] / 10
    return decided(smooth, summary)


@STUDY.draws
def draw(findings: Findings) -> Figure:
    curves = {name: findings.curve(name, "steps")[0][:WINDOW] for name in ("sinusoid", "linear", "binary")}
    look = {"marker": "", "lw": 1}
    steps = Lines(range(WINDOW), curves, "position", "distance to the next code", look=look, ylim=(0, 3.6))
    label = "residual of the best affine shift by 3 (share of spread)"
    return figure(steps, Dots(findings.curves(CODES, "residual"), label, xscale="log", at_x={"limit": 1e-10}))
