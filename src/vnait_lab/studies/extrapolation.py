"""Reading past the training length: perplexity by position, and the geometry of the codes.

Perplexity by position alone is not informative, as a text is not equally hard everywhere. So the same model
reads each letter twice, far into the text and in a fresh window of 64, and the measure is the ratio of the
two perplexities. For absolute codes it is compared with their geometry, position by position: similarity to a
trained code elsewhere (aliasing), the share outside the space of trained codes (drift), the distance within
that space (Mahalanobis). All of these grow with the position, and so does the loss; the relation that counts
is the rank correlation with the position partialled out.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.stats import rankdata, spearmanr
from torch import Tensor

from vnait_lab.kit import Figure, Reader, decided
from vnait_lab.studies.figures import bands, panels
from vnait_lab.studies.parts.letters import METHODS, READ, TRAINED, losses, text, trained
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

PARTS = ((64, 96), (96, 128), (128, 256), (256, 512))  # positions beyond the window
RANGES = (*PARTS, (128, 512))
CODES, RELATIVE = ("sinusoidal", "learned"), ("rope", "t5-128", "t5-64", "alibi")
FLAT, BAD, RELATED = 1.15, 2.0, 0.3  # two ratios of perplexities; a rank correlation
BEYOND = "ratio 128-512"
STUDY = Study.of(
    __name__,
    source="004, extrapolation",
    data="300 news texts (Lee), which gensim ships: 360,000 letters; the last tenth for testing",
    measure="perplexity over that of the same letters in fresh windows of 64; Spearman's rho with the "
    "position partialled out",
    smallest="15 % of perplexity; a rank correlation of .3",
    variants=METHODS,
    full=Budget(seeds=3, steps=1200),
    quick=Budget(seeds=1, steps=1100),
)


def geometry(table: np.ndarray, trained: int) -> dict[str, np.ndarray]:
    """Three measures of every row of a table, against its first `trained` rows: their mean and principal
    components (99.9 % of the variance).

    aliasing      the largest cosine with a trained row at least 16 positions away
    drift         the share of the row's norm outside of the components
    mahalanobis   the distance along the components, each in its standard deviation; trained rows have a root
                  mean square of 1
    """
    centred = table - table[:trained].mean(0)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    cosines = unit @ unit[:trained].T
    near = np.abs(np.arange(len(table))[:, None] - np.arange(trained)) < 16
    _, singular, components = np.linalg.svd(centred[:trained], full_matrices=False)
    count = int(np.searchsorted(np.cumsum(singular**2) / (singular**2).sum(), 0.999)) + 1
    inside = centred @ components[:count].T
    return {
        "aliasing": np.where(near, -1, cosines).max(1),
        "drift": np.linalg.norm(centred - inside @ components[:count], axis=1)
        / np.linalg.norm(centred, axis=1),
        "mahalanobis": np.sqrt((inside**2 / (singular[:count] ** 2 / trained)).mean(1)),
    }


def related(measures: dict[str, np.ndarray], loss: np.ndarray) -> Metrics:
    """Per measure: means of trained and of later rows, and the later rows' rank correlation with the loss,
    plain and with the position partialled out.

    `loss` has the later rows only; both sides are smoothed over 16 positions.
    """
    place = np.arange(len(loss) - 15)
    smooth = np.full(16, 1 / 16)
    after = np.convolve(loss, smooth, "valid")
    metrics: Metrics = {}
    for name, values in measures.items():
        trained, later = values[: -len(loss)], values[-len(loss) :]
        beyond = np.convolve(later, smooth, "valid")
        metrics[f"{name} in"], metrics[f"{name} out"] = float(trained.mean()), float(later.mean())
        metrics[f"{name} rho"] = float(spearmanr(beyond, after).statistic)
        metrics[f"{name} partial"] = partial_correlation(beyond, after, place)
        metrics[name] = values.reshape(-1, 8).mean(1).tolist()
    return metrics


def partial_correlation(x: np.ndarray, y: np.ndarray, known: np.ndarray) -> float:
    """Spearman's rank correlation of x and y with the ranks of `known` regressed out."""
    base = np.stack([np.ones(len(known)), rankdata(known)], 1)
    residuals = [
        ranks - base @ np.linalg.lstsq(base, ranks, rcond=None)[0] for ranks in (rankdata(x), rankdata(y))
    ]
    return float(np.corrcoef(*residuals)[0, 1])


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    model = trained(variant, seed, budget.steps)
    far, fresh = read(model, text()[1].unfold(0, READ + 1, READ + 1))
    metrics: Metrics = {"inside": float(far[:, 32:TRAINED].mean().exp())}
    for low, high in RANGES:
        same = fresh[:, low - 32 : high - 32]  # fresh losses start at position 32
        metrics[f"fresh {low}-{high}"] = float(same.mean().exp())
        metrics[f"ratio {low}-{high}"] = float((far[:, low:high] - same).mean().exp())
    metrics["far"] = far.mean(0).unflatten(0, (-1, 8)).mean(1).exp().tolist()
    metrics["fresh"] = fresh.mean(0).unflatten(0, (-1, 8)).mean(1).exp().tolist()
    if variant in CODES:
        loss = (far[:, TRAINED:] - fresh[:, TRAINED - 32 :]).mean(0).double().numpy()
        metrics |= related(geometry(codes(model), TRAINED), loss)
    return metrics


@torch.no_grad()
def read(model: Reader, windows: Tensor) -> tuple[Tensor, Tensor]:
    """Losses far into the text, (N, READ), and from position 32 on in fresh windows, after 32 to 63
    letters.
    """
    far = torch.cat([losses(model, part) for part in windows.split(8)])
    pieces = windows.unfold(1, TRAINED + 1, 32).flatten(0, 1)
    fresh = torch.cat([losses(model, part)[:, 32:] for part in pieces.split(64)])
    return far, fresh.reshape(len(windows), -1)


@torch.no_grad()
def codes(model: Reader) -> np.ndarray:
    """The vectors that a method adds at positions 0 ... READ - 1."""
    _, injection = model.method.inject(torch.zeros(1, READ, 64), torch.ones(1, READ, dtype=torch.bool))
    assert injection.added is not None
    return injection.added[0].double().numpy()


def times(findings: Findings, variant: str, metric: str = BEYOND) -> str:
    """A ratio, with its interval if there are enough seeds."""
    return findings.interval(variant, metric).written("{:.2f}")


@STUDY.control(
    "without positions perplexity within the window is at least 15 % worse than sinusoids'",
    variant="none",
    mechanism="sinusoidal",
)
def no_positions_lose(findings: Findings) -> bool:
    return findings.mean("none", "inside") >= FLAT * findings.mean("sinusoidal", "inside")


@STUDY.claim(
    "Past the training length a sinusoid still has meaning, for it is periodic: it extrapolates",
    source="003, why this design",
)
def judge_meaning(findings: Findings) -> Verdict:
    """Confirmed if perplexity at 128-512 is at most 1.15 times that in fresh windows, else refuted."""
    summary = ", ".join(
        f"{times(findings, 'sinusoidal', f'ratio {low}-{high}')} at {low}-{high}" for low, high in PARTS
    )
    summary = f"perplexity against that of the same letters in fresh windows: {summary}"
    return decided(findings.mean("sinusoidal", BEYOND) <= FLAT, summary)


@STUDY.claim("Standard sinusoids have inherent limits in long contexts")
def judge_limits(findings: Findings) -> Verdict:
    """Confirmed if perplexity at 128-512 is at least twice that in fresh windows; refuted at 1.15 or less."""
    low, high = findings.interval("sinusoidal", BEYOND).bounds
    summary = f"{times(findings, 'sinusoidal')} at 128-512; a learned table {times(findings, 'learned')}"
    return decided(low >= BAD, summary, refuted=high <= FLAT)


@STUDY.claim("RoPE extrapolates more robustly")
def judge_rope(findings: Findings) -> Verdict:
    """Confirmed if perplexity stays within 1.15 times that in fresh windows up to 512; conditional if up to
    a shorter length.
    """
    reach, parts = TRAINED, []
    for low, high in PARTS:
        part = f"ratio {low}-{high}"
        ratios = f"{times(findings, 'rope', part)} at {low}-{high}"
        parts.append(f"{ratios} (sinusoidal {times(findings, 'sinusoidal', part)})")
        if reach == low and findings.mean("rope", part) <= FLAT:
            reach = high
    condition = f"texts have at most {reach / TRAINED:g} times the training length"
    return decided(reach == READ, ", ".join(parts), refuted=reach == TRAINED, condition=condition)


@STUDY.claim(
    "A penalty on distance alone (ALiBi) reads on as within the window",
    source="004, extrapolation; 003, ALiBi",
)
def judge_alibi(findings: Findings) -> Verdict:
    """Confirmed if perplexity at 128-512 is at most 1.15 times that in fresh windows and grows by less than
    without positions, intervals included: what ignores positions reads on, too.
    """
    inside, rope = (findings.mean(name, "inside") for name in ("alibi", "rope"))
    summary = (
        f"{times(findings, 'alibi')} at 128-512, no positions {times(findings, 'none')}; its perplexity "
    )
    summary += f"within the window {inside:.2f}, rope {rope:.2f}"
    flat = findings.interval("alibi", BEYOND).bounds[1] <= FLAT
    return decided(flat and findings.difference("alibi", "none", BEYOND).sign < 0, summary)


@STUDY.claim("T5's buckets read on as within the window", source="004, extrapolation; 003, T5")
def judge_t5(findings: Findings) -> Verdict:
    """Confirmed if both ratios are at most as for ALiBi, by their means alone; conditional if only with all
    buckets trained.
    """
    wide, narrow = findings.mean("t5-128", BEYOND), findings.mean("t5-64", BEYOND)
    summary = f"{times(findings, 't5-128')} with the last bucket at 128, {times(findings, 't5-64')} with all "
    summary += f"trained (the last at {TRAINED})"
    condition = f"the last bucket starts at {TRAINED}, within the training length"
    return decided(max(wide, narrow) <= FLAT, summary, refuted=narrow > FLAT, condition=condition)


def related_to(measure: str, statement: str, source: str = "") -> None:
    """The claim that the loss is related to a measure of the codes' geometry."""

    @STUDY.claim(statement, source=source)
    def judge(findings: Findings) -> Verdict:
        """Confirmed if the partial rho is .3 or more for both codes; conditional if the measure only doubles
        outside of the window.
        """
        metrics = [f"{measure} {metric}" for metric in ("in", "out", "rho", "partial")]
        means = {name: [findings.mean(name, metric) for metric in metrics] for name in CODES}
        summary = "; ".join(
            f"{name}: {inside:.3f} in the window, {out:.3f} outside; Spearman {rho:.2f}, "
            f"position partialled out {partial:.2f}"
            for name, (inside, out, rho, partial) in means.items()
        )
        close = all(partial >= RELATED for *_, partial in means.values())
        less = any(out < BAD * inside for inside, out, *_ in means.values())
        condition = "only positions in the window are compared with those outside"
        return decided(close, summary, refuted=less, condition=condition)


related_to("drift", "The loss is closely related to the drift of the codes")
related_to("aliasing", "The loss is closely related to the severity of aliasing")
related_to(
    "mahalanobis",
    "The loss is closely related to how far out codes are in the space of trained ones (Mahalanobis)",
    source="004, extrapolation; this project: the measure",
)


@STUDY.draws
def draw(findings: Findings) -> Figure:
    figure, (left, *others) = panels(2, 1, 1, size=(11, 4))
    at = np.arange(4, READ, 8)
    bands(left, at, findings.curves((*CODES, "none", *RELATIVE), "far"), markevery=8)
    left.plot(at[4:], findings.curve("rope", "fresh").mean(0), "k+", ms=3, label="rope, fresh windows")
    left.set(yscale="log", ylim=(4, 300), ylabel="perplexity of a letter")
    left.set_yticks([5, 10, 20, 50, 100], ["5", "10", "20", "50", "100"])
    left.set_yticks([], minor=True)
    left.set_title(f"70 texts of {READ} letters; mean and range of {findings.seeds} seeds")
    left.legend(ncols=3, loc="upper center")
    for axes, name in zip(others, ("drift", "aliasing"), strict=True):
        partials = {code: findings.mean(code, f"{name} partial") for code in CODES}
        curves = {f"{code} ({rho:+.2f})": findings.curve(code, name) for code, rho in partials.items()}
        bands(axes, at, curves, marker="")
        axes.set(title=name, ylabel="share of a code's norm" if name == "drift" else "largest cosine")
        axes.set(ylim=(-0.1, 1.4), yticks=(0, 0.5, 1))
        axes.legend(title="rank correlation with the loss\nbeyond, position partialled out", title_fontsize=8)
    for axes in (left, *others):
        axes.axvline(TRAINED, color="black", ls=":", lw=0.8)
        axes.set_xlabel("position (letters)")
    return figure
