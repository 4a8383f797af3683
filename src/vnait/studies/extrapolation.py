"""Reading past the training length: language models of letters, trained on 64 and read at 512.

Perplexity by position alone says little: a text is not equally hard everywhere. So each letter is read twice by the same model, far
into the text and in a fresh window of 64, and what counts is the ratio of the two perplexities. Absolute codes have a geometry that
can be held against it, position by position: how like a trained code elsewhere a code is (aliasing), how much of it is outside the
space of trained codes (drift), how far out it is inside that space (Mahalanobis). All grow with the position, and so does the loss:
what they explain is what is left of the rank correlation once the position is given.
"""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from vnait.studies.figures import bands, panels
from vnait.studies.parts.geometry import geometry, related
from vnait.studies.parts.letters import METHODS, READ, TRAINED, losses, text, trained
from vnait.studies.parts.training import Reader
from vnait.study import Budget, Claim, Control, Findings, Metrics, Study, Verdict, claim

PARTS = ((64, 96), (96, 128), (128, 256), (256, 512))  # of what is read beyond the window
RANGES = (*PARTS, (128, 512))
CODES, RELATIVE = ("sinusoidal", "learned"), ("rope", "t5-128", "t5-64", "alibi")
FLAT, BAD, RELATED = 1.15, 2.0, 0.3  # two ratios of perplexities; a rank correlation
BEYOND = "ratio 128-512"


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    model = trained(arm, seed, budget.steps)
    far, fresh = read(model, text()[1].unfold(0, READ + 1, READ + 1))
    metrics: Metrics = {"inside": float(far[:, 32:TRAINED].mean().exp())}
    for low, high in RANGES:
        metrics[f"fresh {low}-{high}"] = float(fresh[:, low - 32 : high - 32].mean().exp())
        metrics[f"ratio {low}-{high}"] = float((far[:, low:high] - fresh[:, low - 32 : high - 32]).mean().exp())
    metrics["far"] = far.mean(0).unflatten(0, (-1, 8)).mean(1).exp().tolist()
    metrics["fresh"] = fresh.mean(0).unflatten(0, (-1, 8)).mean(1).exp().tolist()
    if arm in CODES:
        loss = (far[:, TRAINED:] - fresh[:, TRAINED - 32 :]).mean(0).double().numpy()
        metrics |= related(geometry(codes(model), TRAINED), loss)
    return metrics


@torch.no_grad()
def read(model: Reader, windows: Tensor) -> tuple[Tensor, Tensor]:
    """Losses (N, READ) far into the text; and from position 32 on, each with 32 to 63 letters of a fresh window before it."""
    far = torch.cat([losses(model, part) for part in windows.split(8)])
    pieces = windows.unfold(1, TRAINED + 1, 32).flatten(0, 1)
    fresh = torch.cat([losses(model, part)[:, 32:] for part in pieces.split(64)])
    return far, fresh.reshape(len(windows), -1)


@torch.no_grad()
def codes(model: Reader) -> np.ndarray:
    """What a method adds at positions 0 ... READ - 1."""
    _, injection = model.method.tell(torch.zeros(1, READ, 64), torch.ones(1, READ, dtype=torch.bool))
    assert injection.added is not None
    return injection.added[0].double().numpy()


def times(found: Findings, arm: str, metric: str = BEYOND) -> str:
    """A ratio with its interval, where there are seeds enough for one."""
    value = found.interval(arm, metric)
    return f"{value.mean:.2f}" + ("" if value.low is None else f" [{value.low:.2f}, {value.high:.2f}]")


@claim(
    "Past the training length a sinusoid still has meaning, for it is periodic: it extrapolates",
    source="003, why this design",
)
def judge_meaning(found: Findings) -> Verdict:
    """Confirmed where perplexity at 128-512 is at most 1.15 times that in fresh windows, else refuted."""
    said = ", ".join(f"{times(found, 'sinusoidal', f'ratio {low}-{high}')} at {low}-{high}" for low, high in PARTS)
    said = f"perplexity against that of the same letters in fresh windows: {said}"
    return Verdict("confirmed" if found.mean("sinusoidal", BEYOND) <= FLAT else "refuted", said)


@claim("Standard sinusoids have inherent limits in long contexts", source="004, extrapolation")
def judge_limits(found: Findings) -> Verdict:
    """Confirmed where perplexity at 128-512 is twice that in fresh windows or more; refuted at 1.15 or less."""
    ratio = found.mean("sinusoidal", BEYOND)
    said = f"{times(found, 'sinusoidal')} at 128-512; a learned table {times(found, 'learned')}"
    return Verdict("confirmed" if ratio >= BAD else "refuted" if ratio <= FLAT else "undecided", said)


@claim("RoPE extrapolates more robustly", source="004, extrapolation")
def judge_rope(found: Findings) -> Verdict:
    """Confirmed where perplexity stays within 1.15 times that in fresh windows up to 512; conditional up to less."""
    reach, parts = TRAINED, []
    for low, high in PARTS:
        part = f"ratio {low}-{high}"
        parts.append(f"{times(found, 'rope', part)} at {low}-{high} (sinusoidal {times(found, 'sinusoidal', part)})")
        if reach == low and found.mean("rope", part) <= FLAT:
            reach = high
    if reach in (TRAINED, READ):
        return Verdict("confirmed" if reach == READ else "refuted", ", ".join(parts))
    condition = f"no more than {reach / TRAINED:g} times the training length is read"
    return Verdict("conditional", ", ".join(parts), condition)


@claim("A penalty on distance alone (ALiBi) reads on as within the window", source="004, extrapolation; ALiBi is 003's")
def judge_alibi(found: Findings) -> Verdict:
    """Confirmed where perplexity at 128-512 is at most 1.15 times that in fresh windows."""
    inside = f"within the window {found.mean('alibi', 'inside'):.2f}, rope {found.mean('rope', 'inside'):.2f}"
    flat = found.mean("alibi", BEYOND) <= FLAT
    return Verdict("confirmed" if flat else "refuted", f"{times(found, 'alibi')} at 128-512; its perplexity {inside}")


@claim("T5's buckets read on as within the window", source="004, extrapolation; T5 is 003's")
def judge_t5(found: Findings) -> Verdict:
    """As ALiBi's; conditional where only with all buckets trained."""
    wide, narrow = found.mean("t5-128", BEYOND), found.mean("t5-64", BEYOND)
    said = f"{times(found, 't5-128')} with the last bucket at 128, {times(found, 't5-64')} at {TRAINED}, where all are trained"
    if max(wide, narrow) <= FLAT:
        return Verdict("confirmed", said)
    condition = f"the last bucket starts at {TRAINED}, within the training length"
    return Verdict("conditional", said, condition) if narrow <= FLAT else Verdict("refuted", said)


def related_to(measure: str, says: str, source: str = "004, extrapolation") -> Claim:
    """The claim that the loss is related to a measure of the codes' geometry."""

    @claim(says, source=source)
    def judge(found: Findings) -> Verdict:
        """Confirmed where rho given the position is .3 or more for both codes; conditional where it only doubles out of the window."""
        partials = {arm: found.mean(arm, f"{measure} partial") for arm in CODES}
        sides = {arm: (found.mean(arm, f"{measure} in"), found.mean(arm, f"{measure} out")) for arm in CODES}
        said = "; ".join(
            f"{arm}: {inside:.3f} in the window, {out:.3f} out; Spearman {found.mean(arm, f'{measure} rho'):.2f}, "
            f"given the position {partials[arm]:.2f}"
            for arm, (inside, out) in sides.items()
        )
        if min(partials.values()) >= RELATED:
            return Verdict("confirmed", said)
        if all(out >= BAD * inside for inside, out in sides.values()):
            return Verdict("conditional", said, "only positions in the window and out of it are compared")
        return Verdict("refuted", said)

    return judge


def draw(found: Findings) -> Figure:
    figure, (left, *others) = panels(2, 1, 1, size=(11, 4))
    at = np.arange(4, READ, 8)
    for arms, color in (((*CODES, "none"), "black"), (RELATIVE, "gray")):
        bands(left, at, {arm: found.curve(arm, "far") for arm in arms}, color=color, markevery=8)
    left.plot(at[4:], found.curve("rope", "fresh").mean(0), "k+", ms=3, label="rope, fresh windows")
    left.set(yscale="log", ylim=(4, 300), ylabel="perplexity of a letter")
    left.set_yticks([5, 10, 20, 50, 100], ["5", "10", "20", "50", "100"])
    left.set_yticks([], minor=True)
    left.set_title(f"70 texts of {READ} (seeds: {len(found.values('rope', 'far'))}; band: their range)")
    left.legend(ncols=3, loc="upper center")
    for axes, name in zip(others, ("drift", "aliasing"), strict=True):
        curves = {f"{arm} ({found.mean(arm, f'{name} partial'):+.2f})": found.curve(arm, name) for arm in CODES}
        bands(axes, at, curves, marker="")
        axes.set(title=name, ylabel="share of a code's length" if name == "drift" else "largest cosine")
        axes.set(ylim=(-0.1, 1.4), yticks=(0, 0.5, 1))
        axes.legend(title="rank correlation with the loss\nbeyond, given the position", title_fontsize=8)
    for axes in (left, *others):
        axes.axvline(TRAINED, color="black", ls=":", lw=0.8)
        axes.set_xlabel("position (letters)")
    return figure


STUDY = Study(
    name="extrapolation",
    subject="Reading past the training length: perplexity by position, and what the codes' geometry says of it",
    data="300 news texts (Lee), which gensim carries: 360,000 letters; the last tenth is read",
    measure="perplexity over that of the same letters in fresh windows of 64; Spearman's rho, given the position",
    smallest="15 % of perplexity; a rank correlation of .3",
    arms=METHODS,
    controls=[
        Control(
            says="without positions perplexity within the window is at least 15 % worse than sinusoids'",
            arm="none",
            mechanism="sinusoidal",
            fails=lambda found: found.mean("none", "inside") >= FLAT * found.mean("sinusoidal", "inside"),
        )
    ],
    claims=[
        judge_meaning,
        judge_limits,
        judge_rope,
        judge_alibi,
        judge_t5,
        related_to("drift", "The loss is closely related to the drift of the codes"),
        related_to("aliasing", "The loss is closely related to the severity of aliasing"),
        related_to(
            "mahalanobis",
            "The loss is closely related to how far out codes are in the space of trained ones (Mahalanobis)",
            source="004, extrapolation; the measure is this study's",
        ),
    ],
    full=Budget(seeds=2, steps=1200),
    quick=Budget(seeds=1, steps=1100),
    run=run,
    draw=draw,
)
