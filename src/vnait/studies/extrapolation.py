"""Reading past the training length: language models of letters, trained on 64 and read at 512.

Perplexity by position alone says little: a text is not equally hard everywhere. So each letter is read twice by the same model, far
into the text and in a fresh window of 64, and what counts is the ratio of the two perplexities. Absolute codes have a geometry that
can be held against it, position by position: how like a trained code elsewhere a code is (aliasing), how much of it is outside the
space of trained codes (drift), how far out it is inside that space (Mahalanobis). All grow with the position, and so does the loss:
what they explain is what is left of the rank correlation once the position is given.
"""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from gensim.test.utils import datapath
from torch import Generator, Tensor
from torch.nn import functional as F

from vnait.coordinates import Index
from vnait.encodings import Buckets
from vnait.method import Method
from vnait.studies.geometry import geometry, related
from vnait.studies.training import Reader, descend
from vnait.study import Budget, Claim, Control, Findings, Metrics, Study, Verdict, claim

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRAINED, READ, BATCH = 64, 512, 16
RANGES = ((64, 96), (96, 128), (128, 256), (256, 512), (128, 512))
ARMS = {
    "sinusoidal": "sinusoids added",
    "learned": f"a table of {READ} rows, of which {TRAINED} are trained",
    "rope": "queries and keys turned",
    "t5-128": "32 buckets of distances, the last from 128 on",
    "t5-64": "32 buckets of distances, the last from 64 on",
    "alibi": "a penalty on distance",
    "none": "no positions but the causal mask",
}
CODES = ("sinusoidal", "learned")
FLAT, BAD, RELATED = 1.15, 2.0, 0.3  # two ratios of perplexities; a rank correlation
BEYOND = "ratio 128-512"


@lru_cache(maxsize=1)
def text() -> tuple[Tensor, Tensor, int]:
    """Training letters, test letters (the last tenth) and how many letters there are: news that gensim carries for its own tests."""
    letters = Path(datapath("lee_background.cor")).read_text(encoding="utf-8")
    number = {letter: i for i, letter in enumerate(sorted(set(letters)))}
    ids = torch.tensor([number[letter] for letter in letters])
    return ids[: -len(ids) // 10], ids[-len(ids) // 10 :], len(number)


def trained(arm: str, seed: int, steps: int, *, num_layers: int = 2) -> Reader:
    """The language model of an arm."""
    train, _, count = text()
    torch.manual_seed(seed)
    method: str | Method = arm
    if arm.startswith("t5-"):
        buckets = Buckets(num_heads=4, max_distance=int(arm[3:]), bidirectional=False)
        method = Method(coordinates=Index(), encoding=buckets)
    model = Reader(method, vocabulary=count, outputs=count, num_layers=num_layers, max_length=READ, causal=True)
    random = Generator().manual_seed(seed)

    def loss(step: int) -> Tensor:
        starts = torch.randint(len(train) - TRAINED, (BATCH, 1), generator=random)
        return losses(model, train[starts + torch.arange(TRAINED + 1)]).mean()

    descend(model.parameters(), loss, steps=steps, learning_rate=3e-3)
    return model.eval()


def losses(model: Reader, ids: Tensor) -> Tensor:
    """Of the next letter, at every position but the last: (N, T + 1) -> (N, T)."""
    logits = model(ids[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none").unflatten(0, (len(ids), -1))


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
    flat = found.mean("sinusoidal", BEYOND) <= FLAT
    said = ", ".join(f"{times(found, 'sinusoidal', f'ratio {low}-{high}')} at {low}-{high}" for low, high in RANGES[:4])
    return Verdict(
        "confirmed" if flat else "refuted", f"perplexity against that of the same letters in fresh windows: {said}"
    )


@claim("Standard sinusoids have inherent limits in long contexts", source="004, extrapolation")
def judge_limits(found: Findings) -> Verdict:
    """Confirmed where perplexity at 128-512 is twice that in fresh windows or more; refuted at 1.15 or less."""
    ratio = found.mean("sinusoidal", BEYOND)
    said = f"{times(found, 'sinusoidal')} at 128-512; a learned table {times(found, 'learned')}"
    return Verdict("confirmed" if ratio >= BAD else "refuted" if ratio <= FLAT else "undecided", said)


@claim("RoPE extrapolates more robustly", source="004, extrapolation")
def judge_rope(found: Findings) -> Verdict:
    """Confirmed where perplexity stays within 1.15 times that in fresh windows up to 512; conditional up to less."""
    reach = TRAINED
    for low, high in RANGES[:4]:
        if found.mean("rope", f"ratio {low}-{high}") > FLAT:
            break
        reach = high
    said = ", ".join(
        f"{times(found, 'rope', name)} at {name[6:]} (sinusoidal {times(found, 'sinusoidal', name)})"
        for name in (f"ratio {low}-{high}" for low, high in RANGES[:4])
    )
    if reach == TRAINED:
        return Verdict("refuted", said)
    condition = f"no more than {reach / TRAINED:g} times the training length is read"
    return Verdict("confirmed", said) if reach == READ else Verdict("conditional", said, condition)


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


def judge_measure(found: Findings, name: str) -> Verdict:
    """Related in rank once the position is given; or only larger out of the window than in it."""
    partials = {arm: found.mean(arm, f"{name} partial") for arm in CODES}
    sides = {arm: (found.mean(arm, f"{name} in"), found.mean(arm, f"{name} out")) for arm in CODES}
    said = "; ".join(
        f"{arm}: {sides[arm][0]:.3f} in the window, {sides[arm][1]:.3f} out; Spearman {found.mean(arm, f'{name} rho'):.2f}, "
        f"given the position {partials[arm]:.2f}"
        for arm in CODES
    )
    if min(partials.values()) >= RELATED:
        return Verdict("confirmed", said)
    if all(out >= BAD * inside for inside, out in sides.values()):
        return Verdict("conditional", said, "only positions in the window and out of it are compared")
    return Verdict("refuted", said)


def draw(found: Findings) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    left, *others = figure.subplots(1, 3, width_ratios=(2, 1, 1))
    styles = ("-", "--", "-", "--", ":", "-", "-.")
    colors = ("black", "black", "gray", "gray", "gray", "silver", "black")
    at = np.arange(4, READ, 8)
    for arm, style, color in zip(ARMS, styles, colors, strict=True):
        curves = found.curve(arm, "far")
        left.plot(at, curves.mean(0), style, color=color, lw=2 if color == "silver" else 1.2, label=arm)
        left.fill_between(at, curves.min(0), curves.max(0), color=color, alpha=0.15, lw=0)
    seeds, fresh = len(found.values("rope", "far")), found.curve("rope", "fresh").mean(0)
    left.plot(at[4:], fresh, "+", color="black", ms=3, label="rope, fresh windows")
    left.set(yscale="log", ylim=(4, 300), ylabel="perplexity of a letter")
    left.set_yticks([], minor=True)
    left.set_yticks([5, 10, 20, 50, 100], ["5", "10", "20", "50", "100"])
    left.set_title(f"70 texts of {READ} (seeds: {seeds}; band: their range)")
    left.legend(ncols=3, fontsize=8, loc="upper center")
    for axes, name in zip(others, ("drift", "aliasing"), strict=True):
        for arm, style in zip(CODES, ("-", "--"), strict=True):
            rho = found.mean(arm, f"{name} partial")
            axes.plot(at, found.curve(arm, name).mean(0), style, color="black", label=f"{arm} ({rho:+.2f})")
        axes.set(title=name, ylabel="share of a code's length" if name == "drift" else "largest cosine")
        axes.set(ylim=(-0.1, 1.4), yticks=(0, 0.5, 1))
        axes.legend(title="rank correlation with the loss\nbeyond, given the position", fontsize=8, title_fontsize=8)
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
    arms=ARMS,
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
        Claim(
            says="The loss is closely related to the drift of the codes",
            source="004, extrapolation",
            rule="confirmed where rho given the position is .3 or more for both codes; conditional where it only doubles out of the window",
            judge=partial(judge_measure, name="drift"),
        ),
        Claim(
            says="The loss is closely related to the severity of aliasing",
            source="004, extrapolation",
            rule="as drift's",
            judge=partial(judge_measure, name="aliasing"),
        ),
        Claim(
            says="The loss is closely related to how far out codes are in the space of trained ones (Mahalanobis)",
            source="004, extrapolation; the measure is this study's",
            rule="as drift's",
            judge=partial(judge_measure, name="mahalanobis"),
        ),
    ],
    full=Budget(seeds=2, steps=1200),
    quick=Budget(seeds=1, steps=1100),
    run=run,
    draw=draw,
)
