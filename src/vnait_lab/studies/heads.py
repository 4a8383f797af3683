"""The kinds of attention heads that emerge in training.

One layer of eight heads answers four questions at every token: the token before it, the token five before it,
the first token, and how often token 0 occurs. A head is diagonal or banded if half of its attention is at one
distance; uniform if its rows have .95 of the largest entropy; long-range if half is on one column, or three
quarters are a quarter of the text away; else mixed.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from vnait.results.explanation.attention import HEAD_KINDS, entropy, head_kind, profile
from vnait_lab.kit import Figure, Reader, decided, descend, listed
from vnait_lab.studies.figures import maps, panels
from vnait_lab.studies.parts.training import accuracies
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

TOKENS, LENGTH, HEADS = 8, 24, 8
BATCH, TESTED = 16, 128
NEAR, FAR = -1, -5  # offsets of the two tokens in the questions
MOST = 7  # largest answer to "how often"
MOMENTS = (0.0, 0.1, 0.2, 0.4, 0.7, 1.0)  # of the training, at which heads are inspected
QUESTIONS = ("before", "fifth before", "first", "zeros")
VARIANTS = {
    "sinusoidal": "a sinusoidal code is added",
    "t5": "a learned bias per head for buckets of j - i, exact to 7, from 0",
    "none": "no positions",
    "shuffled": "a sinusoidal code is added; the answers are another text's",
}
STUDY = Study.of(
    __name__,
    source="003, learning, early",
    data=f"generated texts of {LENGTH} tokens from a vocabulary of {TOKENS}; four questions per token",
    measure=f"the kind of each head, from its attention averaged over {TESTED} held-out texts; accuracy",
    smallest="one head",
    variants=VARIANTS,
    full=Budget(seeds=3, steps=1200),
    quick=Budget(seeds=3, steps=700),
)


def reader(variant: str, seed: int) -> Reader:
    torch.manual_seed(seed)
    method = "sinusoidal" if variant == "shuffled" else variant
    return Reader(method, vocabulary=TOKENS, outputs=4 * TOKENS, num_heads=HEADS, num_layers=1)


def answers(ids: Tensor) -> Tensor:
    """Token before, fifth before, first token, count of 0 (at most 7): (B, T, 4); -100 if there is none."""
    near, far = (F.pad(ids, (-k, 0), value=-100)[:, :k] for k in (NEAR, FAR))
    first, zeros = ids[:, :1], (ids == 0).sum(1, keepdim=True).clamp(max=MOST)
    return torch.stack([near, far, first.expand_as(ids), zeros.expand_as(ids)], -1)


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    random = Generator().manual_seed(seed)
    model = reader(variant, seed)
    held = torch.randint(TOKENS, (TESTED, LENGTH), generator=random)
    looks = []
    moments = {round(part * budget.steps) for part in MOMENTS}

    def loss(step: int) -> Tensor:
        if step in moments:
            looks.append(attention(model, held))
        ids = torch.randint(TOKENS, (BATCH, LENGTH), generator=random)
        wanted = answers(ids.roll(1, 0) if variant == "shuffled" else ids)
        return F.cross_entropy(model(ids).unflatten(-1, (4, TOKENS)).flatten(0, 2), wanted.flatten())

    descend(model.parameters(), loss, steps=budget.steps, learning_rate=1e-2)
    looks.append(attention(model, held))
    labels = [[head_kind(*head) for head in zip(*look, strict=True)] for look in looks]
    profiles = torch.stack([torch.stack([profile(head) for head in weights]) for weights, _ in looks])
    return {
        **accuracies(model, held, answers(held), QUESTIONS),
        "bands": float(len({NEAR, FAR} & {band for _, band in labels[-1]})),
        "kinds": [[float(HEAD_KINDS.index(kind)) for kind, _ in look] for look in labels],
        "profiles": profiles.double().round(decimals=3).tolist(),
    }


@torch.no_grad()
def attention(model: Reader, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Per head, its attention averaged over texts (H, T, T), and its rows' entropy over the maximum (H,)."""
    weights = model.weights(ids)[0]
    return weights.mean(0), entropy(weights).mean((0, 2)) / torch.tensor(float(ids.shape[1])).log()


def counts(findings: Findings, variant: str, kind: str) -> np.ndarray:
    """The number of heads of a kind, (seeds, moments)."""
    return (findings.curve(variant, "kinds") == HEAD_KINDS.index(kind)).sum(2)


@STUDY.control("without positions no head is banded", variant="none", mechanism="sinusoidal")
def no_positions_no_bands(findings: Findings) -> bool:
    return findings.most("none", "bands") == 0


@STUDY.control("with another text's answers no head is banded", variant="shuffled", mechanism="sinusoidal")
def other_answers_no_bands(findings: Findings) -> bool:
    return findings.most("shuffled", "bands") == 0


@STUDY.claim("Early in training attention is spread at random")
def judge_start(findings: Findings) -> Verdict:
    """Refuted if every untrained head is uniform (.95 of the largest entropy), confirmed if none is."""
    uniform = np.stack([counts(findings, name, "uniform")[:, 0] for name in VARIANTS])
    summary = f"untrained, at least {uniform.min()} of {HEADS} heads are uniform in every arm and seed"
    return decided(bool(uniform.max() == 0), summary, refuted=bool(uniform.min() == HEADS))


@STUDY.claim(
    "In the middle of training some heads attend to the own token (k = 0)", source="003, learning, middle"
)
def judge_diagonal(findings: Findings) -> Verdict:
    """Confirmed if every seed has a diagonal head at some moment after the start."""
    seen = counts(findings, "sinusoidal", "diagonal")[:, 1:]
    summary = f"diagonal heads: {seen.max()} at most, at {seen.shape[1]} moments of {len(seen)} trainings"
    return decided(bool(seen.max(1).min() >= 1), summary)


@STUDY.claim(
    "Other heads attend at a fixed distance, one distance per head",
    source="003, learning, middle; 003, learning, 3",
)
def judge_bands(findings: Findings) -> Verdict:
    """Confirmed if every seed ends with a banded head for each of the two distances of the task."""
    return bands(findings, "sinusoidal")


@STUDY.claim("In the end heads divide the labour: local, long-range, uniform", source="003, learning, late")
def judge_labour(findings: Findings) -> Verdict:
    """Confirmed if every head ends banded or long-range (uniform heads are as before training); conditional
    if at least three do.
    """
    ends = {kind: counts(findings, "sinusoidal", kind)[:, -1] for kind in HEAD_KINDS}
    named = ends["banded"] + ends["long-range"]
    summary = "at the end " + ", ".join(
        f"{count.min()} to {count.max()} {kind}" for kind, count in ends.items()
    )
    least, condition = named.min(), f"it holds for {named.min()} to {named.max()} of {HEADS} heads"
    return decided(bool(least == HEADS), summary, refuted=bool(least < 3), condition=condition)


@STUDY.claim("A relative bias (T5) learns the distances more directly", source="003, explicit designs")
def judge_explicit(findings: Findings) -> Verdict:
    """Confirmed if every seed with the bias ends with a banded head for each of the two distances of the
    task.
    """
    return bands(findings, "t5")


def bands(findings: Findings, variant: str) -> Verdict:
    counted = ", ".join(f"{count:.0f}" for count in findings.values(variant, "bands"))
    right = {question: 100 * findings.mean(variant, question) for question in QUESTIONS[:3]}
    summary = f"bands at the two distances, per seed: {counted}; right answers: "
    return decided(findings.least(variant, "bands") == 2, summary + listed(right, "{:.1f} % ({name})"))


@STUDY.draws
def draw(findings: Findings) -> Figure:
    kinds, profiles = (findings.curve("sinusoidal", metric) for metric in ("kinds", "profiles"))
    looks = [0, 1, 3, len(MOMENTS) - 1]
    edges = (0.5 - LENGTH, LENGTH - 0.5, HEADS - 0.5, -0.5)
    figure, row = panels(*[1] * len(looks), size=(11, 3.2))
    images = {f"{100 * MOMENTS[look]:.0f} % of the steps": profiles[0, look] for look in looks}
    scale = {"cmap": "Blues", "vmin": 0, "vmax": 0.8, "aspect": "auto", "extent": edges}
    of = f"attention, mean of {TESTED} texts\n(sinusoidal, one of {len(kinds)} seeds)"
    maps(figure, row, images, of=of, x="key - query (tokens)", y="kind of each head", **scale)
    for axes, look in zip(row, looks, strict=True):
        axes.set_xlim(-10.5, 10.5)
        axes.set_yticks(range(HEADS), [HEAD_KINDS[int(kind)] for kind in kinds[0, look]])
    return figure
