"""Do key tokens get larger gaps? The gaps that a model learned, against what each token is worth to it.

A model learns to name the class of the middle word of those that count; words and filler are equally frequent
types, and only the labels show which is which. Then every token of new texts is erased in turn: a key token
is one without which the loss grows by 0.1 or more. Its gap is R_i - R_{i-1} over the mean gap of its text.
The rank correlation of gap and loss is recorded, too; it is low even for exact gates, as half of the words
can be erased without effect.
"""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from scipy.stats import spearmanr
from torch import Generator, Tensor
from torch.nn import functional as F

from vnait.model import VnaitForSequenceClassification
from vnait.positions.coordinates import Ends, Jitter, Span
from vnait_lab.studies.figures import bars, panels
from vnait_lab.study import Budget, Control, Findings, Metrics, Study, Verdict, claim
from vnait_lab.suites import elastic
from vnait_lab.suites.fillers import TASKS
from vnait_lab.suites.length import Setting
from vnait_lab.suites.suite import TESTS_FROM

LENGTH, DIM = 40, 64
KEY, ENOUGH = 0.1, 1.25  # the loss that makes a key token; times the gap of other tokens
TASK = TASKS["middle"]
ARMS = {
    "gates": "vnait: the weight of a token, exact at 0 and 1",
    "content": "the papers' gaps, softplus of a function of the words, with their smoothness penalty",
    "content, no penalty": "the same with gamma_1 = 0",
    "shuffled": "the gaps of `gates`, in a random order",
}


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    (model,) = elastic.train([untrained(arm, seed)], TASK, [seed], Setting(steps=budget.steps))
    random = Generator().manual_seed(TESTS_FROM + seed)
    ids, classes, counts = TASK.make(budget.samples, LENGTH, random, True)
    found, worth = gaps(model, ids), erased(model, ids, classes)
    if arm == "shuffled":
        found = found.flatten()[torch.randperm(found.numel(), generator=random)].view_as(found)
    return {
        "accuracy": float((model(ids).logits.argmax(-1) == classes).double().mean()),
        "ratio": float(found[worth >= KEY].mean() / found[worth < KEY].mean()),
        "correlation": correlation(found, worth),
        "of words": float(found[counts > 0].mean()),
        "of filler": float(found[counts == 0].mean()),
    }


def untrained(arm: str, seed: int) -> VnaitForSequenceClassification:
    papers = arm.startswith("content")
    smoothness = 0.0 if arm == "content, no penalty" else 0.1
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


def correlation(found: Tensor, worth: Tensor) -> float:
    """Spearman's rank correlation over all tokens of all texts; 0 if all gaps are equal."""
    if bool((found == found[0, 0]).all()):
        return 0.0
    return float(spearmanr(found.flatten(), worth.flatten()).statistic)


@claim("Key tokens are emphasized by larger coordinate intervals", source="000, section 3.2, key tokens")
def judge_key_tokens(found: Findings) -> Verdict:
    """Gaps do so if those of key tokens are 1.25 times those of other tokens or more, interval included.
    Confirmed for all three arms, refuted for none; undecided if `gates` answers fewer than 95 % of the texts.
    """
    arms = [arm for arm in ARMS if arm != "shuffled"]
    good = [arm for arm in arms if (found.interval(arm, "ratio").low or 0) >= ENOUGH]
    summary = "gaps of key tokens over those of others: " + "; ".join(
        f"{arm} {found.interval(arm, 'ratio').written('{:.2f}')}, filler over words "
        f"{found.mean(arm, 'of filler') / found.mean(arm, 'of words'):.2f}, right "
        f"{100 * found.mean(arm, 'accuracy'):.0f} %"
        for arm in arms
    )
    if found.mean("gates", "accuracy") < 0.95:
        return Verdict("undecided", summary)
    return Verdict.among(good, arms, summary, f"the gaps are those of {' and '.join(good) or 'none'}")


def draw(found: Findings) -> Figure:
    figure, (left, right) = panels(1, 1, size=(9, 3.4))
    names = list(ARMS)
    labels = [name.replace(", ", ",\n") for name in names]
    rows = {kind: [found.curve(name, f"of {kind}") for name in names] for kind in ("words", "filler")}
    bars(left, labels, rows)
    left.set(ylabel="gap / mean gap of the text")
    left.set_title(f"gaps, one dot per seed (n={len(found.values('gates', 'accuracy'))})")
    left.legend()
    bars(right, labels, {"ratio": [found.curve(name, "ratio") for name in names]})
    right.axhline(1, color="black", ls=":", lw=1)
    right.set(ylabel="gap of key tokens / gap of others")
    right.set_title("key: without it the loss grows by 0.1")
    return figure


STUDY = Study(
    name="key_tokens",
    subject="Learned gaps and what a token is worth to the model",
    data=f"generated texts of 8 to {LENGTH} tokens, words and filler; the class of the middle word",
    measure="gap of tokens without which the loss grows, over that of others",
    smallest="1.25 times the gap",
    arms=ARMS,
    controls=[
        Control(
            statement="shuffled gaps of key tokens are at most 1.1 times those of others",
            arm="shuffled",
            mechanism="gates",
            fails=lambda found: found.mean("shuffled", "ratio") <= 1.1,
        )
    ],
    claims=[judge_key_tokens],
    full=Budget(seeds=3, steps=1000, samples=100),
    quick=Budget(seeds=1, steps=600, samples=50),
    run=run,
    draw=draw,
)
