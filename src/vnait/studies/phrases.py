"""Do learned gaps follow phrases and clauses? Vnait's S with gaps from the words, held against the trees of a treebank.

The gap S_{i+1} - S_i of the source `content` is a function of three words, learned for whatever the model is asked. If it stood for
linguistic structure, it would be larger (or smaller) where a clause begins or ends than elsewhere: an area under the curve away from 1/2.
The model reads sentences of Universal Dependencies and tells the part of speech of every word's right neighbour, which takes places
and needs no tree. Whether the same source could follow clauses is asked by teaching it them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from vnait.coordinates import Span
from vnait.coordinates.sources import UNIT_Z
from vnait.encodings import Spatial
from vnait.method import Method
from vnait.studies.training import Reader, descend
from vnait.studies.treebank import Sentence, read
from vnait.study import Budget, Claim, Control, Findings, Metrics, Study, Verdict, claim, data_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BANKS = {
    "en": ("ud_english_ewt", "en_ewt-ud-train-sample.conllu", "en_ewt-ud-test.conllu"),
    "zh": ("ud_chinese_gsdsimp", "zh_gsdsimp-ud-dev.conllu", "zh_gsdsimp-ud-test.conllu"),
}
SCORES = ("learned", "taught", "punctuation", "surprisal", "random")
KINDS = ("clause", "phrase")
AWAY = ", no punctuation"  # of places with no punctuation beside them
LENGTHS = range(6, 41)


def pairs_of(*scores: str) -> list[str]:
    return [f"{language}, {score}" for language in BANKS for score in scores]


DIM, BATCH = 32, 32
Batch = tuple[Tensor, Tensor, Tensor]  # words, tags of the right neighbours, clause boundaries


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    language, score = arm.split(", ")
    folder, *files = BANKS[language]
    train, test = ([one for one in read(data_folder(folder) / file) if len(one.words) in LENGTHS] for file in files)
    found, extra = scored(score, train, test, seed, budget)
    areas: Metrics = {}
    for kind in KINDS:
        labels = [getattr(one, kind) for one in test]
        areas[kind] = area(found, labels, seed)
        away = [~one.punctuation for one in test]
        areas[kind + AWAY] = area(cut(found, away), cut(labels, away), seed)
    return {**areas, **extra, "sentences": float(len(test))}


def cut(lines: list[np.ndarray], kept: list[np.ndarray]) -> list[np.ndarray]:
    return [line[use] for line, use in zip(lines, kept, strict=True)]


def scored(
    score: str, train: list[Sentence], test: list[Sentence], seed: int, budget: Budget
) -> tuple[list[np.ndarray], Metrics]:
    """A number for every place between words, of every test sentence."""
    if score == "punctuation":
        return [one.punctuation.astype(float) for one in test], {}
    if score == "random":
        random = np.random.default_rng(seed)
        return [random.random(len(one.clause)) for one in test], {}
    if score == "surprisal":
        return surprisal(train, test), {}
    return gaps(train, test, seed, budget, taught=score == "taught")


def surprisal(train: list[Sentence], test: list[Sentence]) -> list[np.ndarray]:
    """-log p(word | word before): bigrams, backed by single words, backed by an even share."""
    single = Counter(word for one in train for word in one.words)
    pairs = Counter(pair for one in train for pair in zip(one.words, one.words[1:], strict=False))
    total, kinds = sum(single.values()), len(single) + 1

    def bits(before: str, word: str) -> float:
        alone = (single[word] + 1) / (total + kinds)
        return float(-np.log((pairs[before, word] + alone) / (single[before] + 1)))

    return [np.array([bits(*pair) for pair in zip(one.words, one.words[1:], strict=False)]) for one in test]


def gaps(
    train: list[Sentence], test: list[Sentence], seed: int, budget: Budget, *, taught: bool
) -> tuple[list[np.ndarray], Metrics]:
    """Learned gaps over the uniform one; trained on the right neighbour's part of speech, or to be large at clause boundaries."""
    counts = Counter(word for one in train for word in one.words)
    words = {word: number for number, word in enumerate((one for one in counts if counts[one] > 1), 1)}
    tags = {tag: number for number, tag in enumerate(sorted({tag for one in train for tag in one.tags}))}
    torch.manual_seed(seed)
    span = Span(source="content", dim=DIM)
    method = Method(coordinates=span, encoding=Spatial(dim=DIM, features="fourier", start=1.0))
    model = Reader(method, vocabulary=len(words) + 1, outputs=len(tags), dim=DIM)

    def ids(sentences: list[Sentence]) -> Tensor:
        return torch.tensor([[words.get(word, 0) for word in one.words] for one in sentences])

    def loss(step: int) -> Tensor:
        own = batch()
        if taught:
            z = span.source(model.vectors(ids(own)), torch.ones(len(own), len(own[0].words), dtype=torch.bool))
            return F.binary_cross_entropy_with_logits(
                z[:, 1:] - UNIT_Z, torch.tensor(np.array([one.clause for one in own])).to(z)
            )
        right = torch.tensor([[tags[tag] for tag in one.tags[1:]] for one in own])
        return F.cross_entropy(model(ids(own))[:, :-1].flatten(0, 1), right.flatten())

    batch = batches(train, Generator().manual_seed(seed))
    descend(model.parameters(), loss, steps=budget.steps, learning_rate=2e-3)
    found, hits, off = [], [], []
    with torch.no_grad():
        for one in test:
            mask = torch.ones(1, len(one.words), dtype=torch.bool)
            at = span(model.vectors(ids([one])), mask)[0, :, 0].double()
            linear = 100 * torch.arange(1, len(at) + 1) / len(at)
            off.append(float((at - linear).abs().max()))
            found.append((at.diff() * len(at) / 100).numpy())
            told = model(ids([one]))[0, :-1].argmax(-1).tolist()
            hits += [number == tags.get(tag) for number, tag in zip(told, one.tags[1:], strict=True)]
    together = np.concatenate(found)
    return found, {
        "accuracy": float(np.mean(hits)),
        "from_linear": float(np.mean(off)),
        "spread": float(together.std()),
    }


def batches(sentences: list[Sentence], random: Generator) -> Callable[[], list[Sentence]]:
    """Sentences of one length, drawn as often as it occurs."""
    by_length: dict[int, list[Sentence]] = {}
    for one in sentences:
        by_length.setdefault(len(one.words), []).append(one)

    def draw() -> list[Sentence]:
        alike = by_length[len(sentences[int(torch.randint(len(sentences), (), generator=random))].words)]
        return [alike[place] for place in torch.randint(len(alike), (BATCH,), generator=random).tolist()]

    return draw


def area(scores: list[np.ndarray], labels: list[np.ndarray], seed: int) -> list[float]:
    """The area under the curve of all places, ties half, with its 95 % interval over sentences."""
    sentence = np.repeat(np.arange(len(scores)), [len(one) for one in scores])
    score, label = np.concatenate(scores), np.concatenate(labels)
    level = np.unique(score, return_inverse=True)[1]
    random = np.random.default_rng(seed)
    found = []
    for draw in range(301):
        weight = (
            np.ones(len(scores))
            if draw == 0
            else random.multinomial(len(scores), np.full(len(scores), 1 / len(scores)))
        )
        own = weight[sentence].astype(float)
        yes, no = (np.bincount(level, own * (label == side)) for side in (True, False))
        found.append(float(yes @ (no.cumsum() - no / 2) / (yes.sum() * no.sum())))
    return [found[0], *np.quantile(found[1:], [0.025, 0.975]).tolist()]


def areas(found: Findings, arm: str, kind: str) -> tuple[float, float, float]:
    """The mean over seeds, and the lowest and highest bound of their intervals."""
    rows = found.curve(arm, kind)
    return float(rows[:, 0].mean()), float(rows[:, 1].min()), float(rows[:, 2].max())


def told(found: Findings, arms: list[str], kind: str) -> str:
    return "; ".join("{} {:.3f} [{:.3f}, {:.3f}]".format(arm, *areas(found, arm, kind)) for arm in arms)


def judge_follow(found: Findings, kind: str) -> Verdict:
    """The share of arms and places in which gaps are larger at a boundary decides."""
    arms = pairs_of("learned")
    count = " and ".join(f"{found.mean(arm, 'sentences'):.0f}" for arm in arms)
    said = (
        f"area under the curve ({count} sentences; above 1/2: larger gaps at boundaries): {told(found, arms, kind)}; "
    )
    said += f"away from punctuation: {told(found, arms, kind + AWAY)}"
    larger = {(arm, own): areas(found, arm, own) for arm in arms for own in (kind, kind + AWAY)}
    where = [
        f"{arm.split(',')[0]}, {own}" for (arm, own), (mean, low, _) in larger.items() if mean >= 0.55 and low > 0.5
    ]
    if len(where) == len(larger):
        return Verdict("confirmed", said)
    return Verdict("conditional", said, "; ".join(where)) if where else Verdict("refuted", said)


def at_chance(found: Findings, arm: str) -> bool:
    return abs(areas(found, arm, "clause")[0] - 0.5) < 0.05


@claim(
    "They tell clauses better than punctuation and surprisal do",
    source="000, section 5.2",
    needs=pairs_of("learned", "punctuation", "surprisal"),
)
def judge_better(found: Findings) -> Verdict:
    """Confirmed where their area is further from 1/2 than both others', in both languages."""
    strength = {
        (language, score): abs(areas(found, f"{language}, {score}", "clause")[0] - 0.5)
        for language in BANKS
        for score in SCORES
    }
    better = all(
        strength[language, "learned"] > max(strength[language, score] for score in ("punctuation", "surprisal"))
        for language in BANKS
    )
    arms = pairs_of("learned", "punctuation", "surprisal")
    return Verdict("confirmed" if better else "refuted", told(found, arms, "clause"))


@claim(
    "Positions learned from content collapse to nearly linear ones",
    source="the field: RePo, arXiv 2512.14391",
    needs=pairs_of("learned", "taught"),
)
def judge_uniform(found: Findings) -> Verdict:
    """Confirmed where the gaps' SD is at most .2 of the uniform gap, every seed and language."""
    rows = {
        arm: [found.mean(arm, name) for name in ("spread", "from_linear", "accuracy")]
        for arm in pairs_of("learned", "taught")
    }
    said = "SD of the gaps over the uniform gap, and largest |S - linear| of a sentence (of 100): "
    said += "; ".join(f"{arm} {spread:.2f}, {off:.1f}" for arm, (spread, off, _) in rows.items())
    said += "; parts of speech right: " + ", ".join(f"{rows[arm][2]:.2f} ({arm})" for arm in pairs_of("learned"))
    most = max(found.most(arm, "spread") for arm in pairs_of("learned"))
    return Verdict("confirmed" if most <= 0.2 else "refuted", said)


@claim("Gaps read from three words could follow clauses", source="001, interpretability", needs=pairs_of("taught"))
def judge_able(found: Findings) -> Verdict:
    """Confirmed where gaps that are taught clauses reach an area of .6 away from punctuation, intervals and all."""
    arms, kind = pairs_of("taught"), "clause" + AWAY
    able = min(areas(found, arm, kind)[1] for arm in arms) >= 0.6
    return Verdict("confirmed" if able else "refuted", f"away from punctuation: {told(found, arms, kind)}")


def draw(found: Findings) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for axes, language in zip(figure.subplots(1, 2, sharey=True), BANKS, strict=True):
        for row, kind in enumerate(name + place for name in KINDS for place in ("", AWAY)):
            rows = np.array([areas(found, f"{language}, {score}", kind) for score in SCORES])
            axes.errorbar(
                rows[:, 0], np.arange(len(SCORES)) + 0.18 * (row - 1.5), xerr=np.abs(rows[:, 1:] - rows[:, :1]).T,
                fmt="ooss"[row], color="black", mfc=("black", "white", "black", "white")[row], capsize=2, label=kind,
            )  # fmt: skip
        seeds, count = (
            len(found.values(f"{language}, learned", "clause")),
            found.mean(f"{language}, learned", "sentences"),
        )
        axes.axvline(0.5, color="0.6", lw=0.8)
        axes.set(
            xlim=(0.3, 0.9), xlabel="area under the curve of boundaries", yticks=range(len(SCORES)), yticklabels=SCORES
        )
        axes.set_title(f"{language}: {count:.0f} sentences, {seeds} seeds; mean, widest 95 % bounds", fontsize=9)
    axes.invert_yaxis()
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    return figure


STUDY = Study(
    name="phrases",
    subject="Do learned gaps follow phrases and clauses?",
    data="Universal Dependencies: English EWT and Chinese GSDSimp, sentences of 6 to 40 words; test files apart",
    measure="area under the curve of the gap at boundaries against other places, bootstrap over sentences",
    smallest=".05 of area above 1/2",
    arms={
        f"{language}, {score}": f"{BANKS[language][0]}: {about}"
        for language in BANKS
        for score, about in zip(
            SCORES,
            (
                "gaps of the source content, trained on the right neighbour's part of speech",
                "gaps of the source content, taught clause boundaries",
                "1 beside punctuation",
                "-log p of the right word, bigrams",
                "random numbers",
            ),
            strict=True,
        )
    },
    needs={f"{language}, {score}": f"data:{BANKS[language][0]}" for language in BANKS for score in SCORES},
    controls=[
        Control(
            says=f"random numbers stay within .05 of chance ({language})",
            arm=f"{language}, random",
            mechanism=f"{language}, taught",
            fails=partial(at_chance, arm=f"{language}, random"),
        )
        for language in BANKS
    ],
    claims=[
        *(
            Claim(
                says=f"Learned S_i follow {kind}s",
                source="000, section 5.2",
                rule="confirmed where gaps are larger at boundaries, the area .55 or more and its interval above 1/2, in both languages, "
                "away from punctuation too; conditional where in some of these",
                judge=partial(judge_follow, kind=kind),
                needs=pairs_of("learned"),
            )
            for kind in KINDS
        ),
        judge_better,
        judge_uniform,
        judge_able,
    ],
    full=Budget(seeds=3, steps=500),
    quick=Budget(seeds=2, steps=250),
    run=run,
    draw=draw,
)
