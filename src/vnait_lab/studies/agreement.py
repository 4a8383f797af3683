"""Agreement of subject and verb in language models, near and far.

Sentences come from a grammar. Between a subject and its verb stand phrases ("the keys near the cabinet are")
or clauses inside one another ("the keys that the boy that the cats see likes are"). A pair is a beginning
with the right and the wrong number of the verb (Linzen et al. 2016; Warstadt et al. 2020): a model is right
if it expects the right one more. All nouns between have the other number, so that the nearest noun is always
wrong. Training has at most two phrases or clauses, half as many of two as of one; pairs have up to six and
four. A pair follows another sentence, so that the subject is not the first noun.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from vnait_lab.kit import Figure, Lines, Reader, descend, each, figure, listed
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict

NOUNS, VERBS, PHRASES = 12, 8, 3  # types: nouns and verbs per number, and words that begin a phrase
STOP, THE, THAT = 0, 1, 2
NEAR = 3
NOUN = NEAR + PHRASES  # the first singular; plurals follow the singulars
VERB = NOUN + 2 * NOUNS
VOCABULARY = VERB + 2 * VERBS
LENGTH, BATCH, PAIRS = 40, 32, 200
WINDOW = 4  # tokens that the control sees
KINDS = {"phrases": 6, "clauses": 4}  # the most of them in a pair
OFTEN = (4 / 7, 2 / 7, 1 / 7)  # how often a subject has none, one or two of them in training
KNOWN = len(OFTEN) - 1
GOOD = 0.95
METHODS = {
    "none": "no positions; the causal mask alone",
    "sinusoidal": "a sinusoidal code is added",
    "learned": "a learned vector per position is added",
    "rope": "queries and keys are rotated",
    "alibi": "a bias falls with the distance",
    "t5": "a learned bias per range of distances",
    "vnait-causal": "Vnait's causal input",
}
VARIANTS = METHODS | {"window": f"learned positions; attention to the last {WINDOW} tokens only, one layer"}
Random = np.random.Generator
STUDY = Study.of(
    __name__,
    source="003, agreement in training",
    data=f"sentences of a grammar, in texts of {LENGTH} tokens; {PAIRS} pairs per number of phrases or "
    "clauses",
    measure="share of pairs in which the verbs of the right number are expected more",
    smallest=f"{100 * GOOD:.0f} % of the pairs",
    variants=VARIANTS,
    full=Budget(seeds=3, steps=700),
    quick=Budget(seeds=1, steps=100),
)


def noun(number: int, random: Random) -> int:
    """A noun of a number: 0 singular, 1 plural."""
    return int(NOUN + number * NOUNS + random.integers(NOUNS))


def verb(number: int, random: Random) -> int:
    """A verb of a number."""
    return int(VERB + number * VERBS + random.integers(VERBS))


def subject(kind: str, count: int, numbers: list[int], random: Random) -> list[int]:
    """A subject with `count` phrases or clauses, up to the place of its verb; one number per noun."""
    first, *others = numbers
    tokens = [THE, noun(first, random)]
    if kind == "phrases":
        for number in others:
            tokens += [int(NEAR + random.integers(PHRASES)), THE, noun(number, random)]
        return tokens
    if count:
        tokens += [THAT, *subject(kind, count - 1, others, random), verb(others[0], random)]
    return tokens


def sentences(random: Random) -> Iterator[int]:
    """The tokens of endless training sentences."""
    while True:
        kind = ("phrases", "clauses")[random.integers(2)]
        count = int(random.choice(KNOWN + 1, p=OFTEN))
        numbers = random.integers(2, size=count + 1).tolist()
        yield from (*subject(kind, count, numbers, random), verb(numbers[0], random), STOP)


def texts(random: Random, count: int) -> Tensor:
    """Training texts (count, LENGTH + 1), cut anywhere from endless sentences."""
    endless = sentences(random)
    return torch.tensor([[next(endless) for _ in range(LENGTH + 1)] for _ in range(count)])


def pairs(kind: str, count: int, random: Random) -> tuple[Tensor, Tensor]:
    """Beginnings (PAIRS, T), and the number of the verb that comes next (PAIRS,). The nouns between have
    the other number.
    """
    rows, answers = [], []
    for _ in range(PAIRS):
        number = int(random.integers(2))
        before = [THE, noun(int(random.integers(2)), random)]
        before += [verb((before[1] - NOUN) // NOUNS, random), STOP]
        rows.append([STOP, *before, *subject(kind, count, [number] + [1 - number] * count, random)])
        answers.append(number)
    return torch.tensor(rows), torch.tensor(answers)


def model_of(variant: str, seed: int) -> Reader:
    torch.manual_seed(seed)
    sizes: Any = {"vocabulary": VOCABULARY, "outputs": VOCABULARY}
    if variant == "window":
        return Reader("learned", **sizes, causal=True, window=WINDOW, num_layers=1)
    return Reader(variant, **sizes, causal=True)


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    random = np.random.default_rng(seed)
    held = {kind: [pairs(kind, count, random) for count in range(most + 1)] for kind, most in KINDS.items()}
    model = model_of(variant, seed)

    def loss(step: int) -> Tensor:
        drawn = texts(random, BATCH)
        return F.cross_entropy(model(drawn[:, :-1]).flatten(0, 1), drawn[:, 1:].flatten())

    descend(model.parameters(), loss, steps=budget.steps, learning_rate=2e-3, weight_decay=0.01)
    model.eval()
    return {
        **{kind: [right(model, *pair) for pair in tested] for kind, tested in held.items()},
        **{f"looks, {kind}": [looks(model, ids) for ids, _ in held[kind]] for kind in KINDS},
    }


@torch.no_grad()
def right(model: Reader, ids: Tensor, number: Tensor) -> float:
    """The share of beginnings after which the verbs of the right number are expected more."""
    chance = model(ids)[:, -1, VERB:].unflatten(-1, (2, VERBS)).logsumexp(-1)
    return float((chance.argmax(-1) == number).double().mean())


@torch.no_grad()
def looks(model: Reader, ids: Tensor) -> float:
    """The attention from the last token to the subject's noun, averaged over texts, of the head with most."""
    place = 6  # after STOP, the sentence before, and "the"
    return max(float(weights[:, :, -1, place].mean(0).max()) for weights in model.weights(ids))


def least(findings: Findings, low: int, high: int | None = None, metric: str = "{}") -> dict[str, float]:
    """Per method the lowest mean of both kinds, with low to high phrases or clauses between."""
    metrics = [metric.format(kind) for kind in KINDS]
    return {
        name: min(float(findings.curve(name, looked).mean(0)[low:high].min()) for looked in metrics)
        for name in METHODS
    }


def agreeing(findings: Findings, which: str, low: int, high: int | None = None) -> Verdict:
    shares = least(findings, low, high)
    percents = listed({name: 100 * share for name, share in shares.items()}, "{:.1f}")
    good = {name: share >= GOOD for name, share in shares.items()}
    return each(good, f"right pairs in %, {which}: {percents}", "the positions are {}", join=", ")


@STUDY.control(
    f"with the last {WINDOW} tokens alone at most 60 % of the pairs with two phrases are right",
    variant="window",
    mechanism="sinusoidal",
)
def window_is_misled(findings: Findings) -> bool:
    return float(findings.curve("window", "phrases")[:, KNOWN].max()) <= 0.6


@STUDY.claim("Language modelling teaches the agreement of subject and verb across other nouns")
def judge_known(findings: Findings) -> Verdict:
    """Confirmed for methods with 95 % of the pairs, in the worst place, with as many phrases and clauses as
    in training.
    """
    return agreeing(findings, "the worse of one and two phrases or clauses", 1, KNOWN + 1)


@STUDY.claim("They also agree further away than in training")
def judge_far(findings: Findings) -> Verdict:
    """The same with more phrases and clauses than in training."""
    return agreeing(findings, "the worst of three phrases or clauses and more", KNOWN + 1)


@STUDY.claim("A head learns to look from the verb's place to the subject")
def judge_head(findings: Findings) -> Verdict:
    """Confirmed for methods with a head that puts half of its attention on the subject's noun, whether one or
    two phrases or clauses stand between.
    """
    weights = least(findings, 1, KNOWN + 1, "looks, {}")
    good = {name: weight >= 0.5 for name, weight in weights.items()}
    return each(good, f"least attention to the subject: {listed(weights)}", "the positions are {}", join=", ")


@STUDY.draws
def draw(findings: Findings) -> Figure:
    known = {"the most in training": KNOWN + 0.5}

    def part(kind: str, legend: str) -> Lines:
        at, label = range(KINDS[kind] + 1), f"{kind} between subject and verb"
        look: Any = {"legend": legend, "ylim": (-4, 104), "xticks": at, "at_x": known, "at_y": 50}
        return Lines(at, findings.curves(VARIANTS, kind), label, "right pairs (%)", percent=True, **look)

    return figure(part("phrases", "right"), part("clauses", ""), size=(10, 3.4))
