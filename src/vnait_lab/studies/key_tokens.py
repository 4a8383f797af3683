"""Learned gaps and what a token is worth to the model.

A model learns to name the class of the middle word of those that count; words and filler are equally frequent
types, and only the labels show which is which. Then every token of new texts is erased in turn: a key token
is one without which the loss grows by 0.1 or more. Its gap is R_i - R_{i-1} over the mean gap of its text.
The rank correlation of gap and loss is recorded, too; it is low even for exact gates, as half of the words
can be erased without effect.
"""

from __future__ import annotations

import torch
from scipy.stats import spearmanr
from torch import Generator, Tensor
from torch.nn import functional as F

from vnait.model import VnaitForSequenceClassification
from vnait.positions.coordinates import Ends, Jitter, Span
from vnait_lab.kit import Bars, Figure, each, figure
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict
from vnait_lab.suites import elastic
from vnait_lab.suites.fillers import TASKS
from vnait_lab.suites.length import Setting
from vnait_lab.suites.suite import TESTS_FROM

LENGTH, DIM = 40, 64
KEY, ENOUGH = 0.1, 1.25  # the loss that makes a key token; times the gap of other tokens
TASK = TASKS["middle"]
VARIANTS = {
    "gates": "vnait: the weight of a token, exact at 0 and 1",
    "content": "the papers' gaps, softplus of a function of the words, with their smoothness penalty",
    "content, no penalty": "the same with gamma_1 = 0",
    "shuffled": "the gaps of `gates`, in a random order",
}
STUDY = Study.of(
    __name__,
    source="000, section 3.2, key tokens",
    data=f"generated texts of 8 to {LENGTH} tokens, words and filler; the class of the middle word",
    measure="gap of tokens without which the loss grows, over that of others",
    smallest="1.25 times the gap",
    variants=VARIANTS,
    full=Budget(seeds=3, steps=1000, samples=100),
    quick=Budget(seeds=1, steps=600, samples=50),
)


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    (model,) = elastic.train([untrained(variant, seed)], TASK, [seed], Setting(steps=budget.steps))
    random = Generator().manual_seed(TESTS_FROM + seed)
    ids, classes, counts = TASK.make(budget.samples, LENGTH, random, True)
    sizes, worth = gaps(model, ids), erased(model, ids, classes)
    if variant == "shuffled":
        sizes = sizes.flatten()[torch.randperm(sizes.numel(), generator=random)].view_as(sizes)
    return {
        "accuracy": float((model(ids).logits.argmax(-1) == classes).double().mean()),
        "ratio": float(sizes[worth >= KEY].mean() / sizes[worth < KEY].mean()),
        "correlation": correlation(sizes, worth),
        "of words": float(sizes[counts > 0].mean()),
        "of filler": float(sizes[counts == 0].mean()),
    }


def untrained(variant: str, seed: int) -> VnaitForSequenceClassification:
    papers = variant.startswith("content")
    smoothness = 0.0 if variant == "content, no penalty" else 0.1
    model = elastic.untrained(
        "vnait-warp" if papers else "vnait", TASK, seed, Setting(), smoothness=smoothness
    )
    if papers:
        torch.manual_seed(seed)
        span = Ends(Span(source="content", dim=DIM))
        model.model.method.coordinates = Jitter(span, shift=12.0, share=0.5)
    return model


@torch.no_grad()
def gaps(model: VnaitForSequenceClassification, ids: Tensor) -> Tensor:
    """R_i - R_{i-1} over the mean gap of the text, (N, T); S is 100 R_i / R_n."""
    line = model.model.encode(ids).at[..., 0].double()
    return F.pad(line, (1, 0)).diff(dim=-1) * ids.shape[1] / line[:, -1:]


@torch.no_grad()
def erased(model: VnaitForSequenceClassification, ids: Tensor, classes: Tensor) -> Tensor:
    """How much the loss of a text grows without its i-th token, (N, T)."""
    whole = F.cross_entropy(model(ids).logits, classes, reduction="none")
    places = range(ids.shape[1])
    without = (torch.cat([ids[:, :place], ids[:, place + 1 :]], 1) for place in places)
    losses = [F.cross_entropy(model(text).logits, classes, reduction="none") for text in without]
    return torch.stack(losses, 1) - whole[:, None]


def correlation(sizes: Tensor, worth: Tensor) -> float:
    """Spearman's rank correlation over all tokens of all texts; 0 if all gaps are equal."""
    if bool((sizes == sizes[0, 0]).all()):
        return 0.0
    return float(spearmanr(sizes.flatten(), worth.flatten()).statistic)


@STUDY.control(
    "shuffled gaps of key tokens are at most 1.1 times those of others", variant="shuffled", mechanism="gates"
)
def shuffled_are_equal(findings: Findings) -> bool:
    return findings.mean("shuffled", "ratio") <= 1.1


@STUDY.claim("Key tokens are emphasized by larger coordinate intervals")
def judge_key_tokens(findings: Findings) -> Verdict:
    """Gaps do so if those of key tokens are 1.25 times those of other tokens or more, interval included.
    Confirmed for all three arms, refuted for none; undecided if `gates` answers fewer than 95 % of the texts.
    """
    ratios = {variant: findings.interval(variant, "ratio") for variant in VARIANTS if variant != "shuffled"}
    summary = "gaps of key tokens over those of others: " + "; ".join(
        f"{variant} {ratio.written('{:.2f}')}, filler over words "
        f"{findings.mean(variant, 'of filler') / findings.mean(variant, 'of words'):.2f}, right "
        f"{100 * findings.mean(variant, 'accuracy'):.0f} %"
        for variant, ratio in ratios.items()
    )
    if findings.mean("gates", "accuracy") < 0.95:
        return Verdict("undecided", summary)
    good = {variant: (ratio.low or 0) >= ENOUGH for variant, ratio in ratios.items()}
    return each(good, summary, "the gaps are those of {}", join=" and ")


@STUDY.draws
def draw(findings: Findings) -> Figure:
    kinds = {kind: findings.curves(VARIANTS, f"of {kind}") for kind in ("words", "filler")}
    ratios, label = findings.curves(VARIANTS, "ratio"), "gap of tokens worth 0.1 of the loss / of others"
    return figure(Bars(kinds, "gap / mean gap of the text"), Bars(ratios, label, at_x=1))
