"""Hamming codes: is finding a flipped bit learned?

Each of the 128 words of seven bits is a code word or one flip away from one, so that a model that has seen
all words may know them by heart; words held out of the training show whether it learned the checks. A model
that is blind to order sees the number of ones alone: its best guess is the most frequent place among words of
that weight, right for 24 of 128 words. A word with two flips is also a word of another code word with one: a
decoder that is right about all single flips names the exclusive or of the two places, and neither of them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from vnait.positions.coordinates import Index
from vnait.positions.encodings import Binary
from vnait.positions.method import Method
from vnait_lab.kit import Bars, Figure, Reader, clear, decided, descend, each, figure
from vnait_lab.studies.hamming import bits, flipped, twice
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

HELD = 32  # of the 128 words, drawn anew per seed
READ = 2  # the token at which the place is read; the others are the bits
DIM = 32
METHODS = {
    "none": "no positions",
    "binary": "the binary code of the place, added",
    "learned": "a table, added",
    "rope": "queries and keys turned",
}
ALL, PART = "all words", "three of four"
CODED = tuple(METHODS)[1:]
BASELINES = {"nearest": "the place of the nearest trained word", "linear": "logistic regression of the bits"}
STUDY = Study.of(
    __name__,
    source="004, error correction",
    data="all 128 words of the code (7,4), each a code word or one flip away from one; or three of four of "
    "them",
    measure="share of words whose flipped place is named, of those trained and of those held out",
    smallest="5 points",
    variants={
        **{f"{name}, {split}": about for name, about in METHODS.items() for split in (ALL, PART)},
        **{f"{name}, {PART}": about for name, about in BASELINES.items()},
    },
    full=Budget(seeds=5, steps=1_000),
    quick=Budget(seeds=3, steps=200),
)


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    words, truth = everything()
    method, split = variant.split(", ")
    order = torch.randperm(len(words), generator=Generator().manual_seed(seed))
    trained, held = (order[HELD:], order[:HELD]) if split == PART else (order, order)
    answer = fitted(method, words[trained], truth[trained], seed, budget)
    right = (answer(words) == truth).double()
    received, places = twice(words[truth == 0])
    named = answer(received)
    return {
        "trained": float(right[trained].mean()),
        "held": float(right[held].mean()),
        "blind": blind(words[trained], truth[trained]),
        "of two": float((named[:, None] == places).any(1).double().mean()),
        "third": float((named == places[:, 0] ^ places[:, 1]).double().mean()),
    }


def everything() -> tuple[Tensor, Tensor]:
    """All words (128, 7), and the place of the flipped bit (128,), 0 for a code word."""
    words = bits(torch.arange(128), 7)
    return words, flipped(words)


def blind(words: Tensor, truth: Tensor) -> float:
    """The largest share of words that any function of the number of ones gets right.

    >>> 128 * blind(*everything())
    24.0
    """
    weight = words.sum(1).long()
    best = [torch.bincount(truth[weight == ones]).max() for ones in weight.unique()]
    return float(sum(best)) / len(words)


def fitted(
    method: str, words: Tensor, truth: Tensor, seed: int, budget: Budget
) -> Callable[[Tensor], Tensor]:
    """A function from words (N, 7) to places (N,)."""
    if method == "nearest":
        return lambda asked: truth[torch.cdist(asked, words, p=1).argmin(1)]
    if method == "linear":
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(C=1e6, max_iter=1_000).fit(words.numpy(), truth.numpy())
        return lambda asked: torch.from_numpy(model.predict(asked.numpy()))
    torch.manual_seed(seed)
    code = Method(coordinates=Index(), encoding=Binary(dim=DIM)) if method == "binary" else method
    reader = Reader(code, vocabulary=3, outputs=8, dim=DIM, num_heads=4, num_layers=2, max_length=8)
    ids = tokens(words)
    descend(
        reader.parameters(),
        lambda step: F.cross_entropy(reader(ids)[:, -1], truth),
        steps=budget.steps,
        learning_rate=5e-3,
        weight_decay=0.1,
    )
    reader.eval().requires_grad_(False)
    return lambda asked: reader(tokens(asked))[:, -1].argmax(-1)


def tokens(words: Tensor) -> Tensor:
    """The bits, then the token at which the place is read, (N, 8)."""
    return F.pad(words.long(), (0, 1), value=READ)


def shares(findings: Findings, split: str, metric: str, names: tuple[str, ...] = CODED) -> str:
    """Mean percentages over seeds, with the least."""
    return ", ".join(
        f"{name} {100 * findings.mean(f'{name}, {split}', metric):.0f} % "
        f"(least {100 * findings.least(f'{name}, {split}', metric):.0f})"
        for name in names
    )


@STUDY.control(
    "without positions no more words are read correctly than the number of ones allows",
    variant=f"none, {ALL}",
    mechanism=f"binary, {ALL}",
)
def blind_is_bounded(findings: Findings) -> bool:
    return findings.most(f"none, {ALL}", "trained") <= blind(*everything()) + 1e-9


@STUDY.claim("Attention learns from examples to find the flipped bit")
def judge_learned(findings: Findings) -> Verdict:
    """By the positions with which 99 % of the words are read correctly after all seeds' trainings."""
    good = {name: findings.least(f"{name}, {ALL}", "trained") >= 0.99 for name in CODED}
    summary = f"trained on all 128 words: {shares(findings, ALL, 'trained')}"
    return each(good, summary, "the positions are {}")


@STUDY.claim("It learns the checks, so that it corrects words that it never saw")
def judge_held(findings: Findings) -> Verdict:
    """Confirmed for positions with 95 % of the held-out words on average; undecided if no training learned
    its own words.
    """
    summary = f"held out: {shares(findings, PART, 'held')}; "
    summary += shares(findings, PART, "held", tuple(BASELINES))
    if max(findings.mean(f"{name}, {PART}", "trained") for name in CODED) < 0.99:
        return Verdict("undecided", f"not learned: {summary}")
    good = {name: findings.mean(f"{name}, {PART}", "held") >= 0.95 for name in CODED}
    return each(good, summary, "the positions are {}")


@STUDY.claim("Binary position codes make the checks easier to learn")
def judge_binary(findings: Findings) -> Verdict:
    """By the difference to the best other positions on held-out words, with its interval."""
    binary = f"binary, {PART}"
    best = findings.best([f"{name}, {PART}" for name in CODED if name != "binary"], "held")
    lead = findings.difference(binary, best, "held").times(100)
    summary = f"held out, binary minus {best.removesuffix(f', {PART}')}: {lead.written('{:+.0f}')} points"
    return clear([lead], summary)


@STUDY.claim("The learned decoder copes with more noise: two flipped bits")
def judge_noise(findings: Findings) -> Verdict:
    """Confirmed if a decoder that learned all words names one of the two in half of the words or more."""
    best = findings.best([f"{name}, {ALL}" for name in CODED], "trained")
    named, third = (findings.mean(best, metric) for metric in ("of two", "third"))
    summary = f"{best.removesuffix(f', {ALL}')}: one of the two in {100 * named:.0f} % of 336 words, their "
    return decided(named >= 0.5, f"{summary}exclusive or in {100 * third:.0f} %")


@STUDY.draws
def draw(findings: Findings) -> Figure:
    seen = {name: findings.values(f"{name}, {ALL}", "trained") for name in METHODS}
    held = {name: findings.values(f"{name}, {PART}", "held") for name in METHODS | BASELINES}
    order = {"best without order": 100 * blind(*everything())}
    known = Bars(seen, "all 128 words trained: places found (%)", percent=True, at_x=order)
    label = f"{HELD} of 128 words held out: places found (%)"
    return figure(known, Bars(held, label, percent=True, at_x={"chance": 100 / 8}))
