"""Linear, binary and sinusoidal codes of a position, side by side.

A shift by three is an affine map of the linear code [p, 1] and of the sinusoid, but not of the bits. The
linear code grows with the position, the bits jump at every carry, and the sinusoid takes steps of equal
length on a sphere. The study `three_back` tests what attention learns with each of them.
"""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch.nn import functional as F

from vnait_lab.studies.figures import dots, lines, panels
from vnait_lab.studies.parts.place_codes import BACK, CODES, COUNT, WIDTH, WINDOW, encode
from vnait_lab.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

SOURCE = "003, comparison of codes"


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    torch.manual_seed(seed)
    return shape(arm)


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


@claim(
    "Bits are high-dimensional and sparse",
    source=SOURCE,
    rule=f"confirmed if {COUNT} positions need more than {WIDTH} bits, and fewer than 10 % of them are 1",
)
def judge_bits(found: Findings) -> Verdict:
    channels, density = found.mean("binary", "channels"), found.mean("binary", "density")
    summary = f"{COUNT} positions take {channels:.0f} bits, of which {100 * density:.0f} % are 1"
    return Verdict("confirmed" if channels > WIDTH and density < 0.1 else "refuted", summary)


@claim("Of the three only the sinusoid makes a relative place a linear map", source=SOURCE)
def judge_shift(found: Findings) -> Verdict:
    """Confirmed if an affine map misses a shift by 3 by at most 1e-10 of the spread for the sinusoid, and by
    more for the others.
    """
    missed = {name: found.most(name, "residual") for name in CODES}
    summary = "residual of the best affine map of a shift by 3, as a share of the codes' spread: "
    summary += ", ".join(f"{value:.1g} ({name})" for name, value in missed.items())
    exact = [name for name in ("linear", "binary", "sinusoid") if missed[name] <= 1e-10]
    return Verdict("confirmed" if exact == ["sinusoid"] else "refuted", summary)


@claim(
    "The sinusoid changes smoothly, without huge differences of numbers",
    source="003, periodic functions; 003, comparison of codes",
)
def judge_smooth(found: Findings) -> Verdict:
    """Confirmed if its steps are equal to 1e-9 and its norm is at most a tenth of the linear code's."""
    varies = {name: found.most(name, "step_variation") for name in ("linear", "binary", "sinusoid")}
    norm = {name: found.most(name, "largest") for name in varies}
    summary = f"the steps' lengths vary by {varies['sinusoid']:.0e} (bits: {100 * varies['binary']:.0f} %); "
    summary += f"largest norm below {COUNT}: "
    summary += ", ".join(f"{value:.2f} ({name})" for name, value in norm.items())
    smooth = varies["sinusoid"] <= 1e-9 and norm["sinusoid"] <= norm["linear"] / 10
    return Verdict("confirmed" if smooth else "refuted", summary)


def draw(found: Findings) -> Figure:
    figure, (left, right) = panels(1, 1)
    steps = {name: found.curve(name, "steps")[0][:WINDOW] for name in ("sinusoid", "linear", "binary")}
    lines(left, range(WINDOW), steps, marker="", lw=1)
    left.set(xlabel="position", ylabel="distance to the next code", ylim=(0, 3.6), title="exact")
    left.legend(ncols=3, loc="upper center")
    dots(right, list(CODES), {"residual": [found.values(name, "residual") for name in CODES]})
    right.axvline(1e-10, color="black", ls=":", lw=1)
    right.set(xscale="log", xlabel="residual of the best affine shift by 3 (share of spread)")
    right.set_title(f"one mark per seed (n={len(found.values('random', 'residual'))}); dotted: limit, 1e-10")
    return figure


STUDY = Study(
    name="codes",
    subject="Linear, binary and sinusoidal codes of a position",
    data=f"codes of {COUNT} positions",
    measure="residual of the best affine shift, norms, steps, channels in use",
    smallest="1e-10 for an identity",
    arms=CODES,
    controls=[
        Control(
            statement="no affine map shifts random codes: the residual is more than half of their spread",
            arm="random",
            mechanism="sinusoid",
            fails=lambda found: found.least("random", "residual") > 0.5,
        )
    ],
    claims=[judge_bits, judge_shift, judge_smooth],
    full=Budget(seeds=5),
    quick=Budget(seeds=3),
    run=run,
    draw=draw,
)
