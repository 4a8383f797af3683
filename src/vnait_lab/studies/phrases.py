"""Do learned gaps follow phrases and clauses?

The gap S_{i+1} - S_i of the source `content` is a function of three words, learned for the model's task. If
it reflected linguistic structure, it would be larger (or smaller) at the boundaries of clauses than
elsewhere: an area under the curve different from 1/2. The model reads sentences of Universal Dependencies and
predicts the part of speech of every word's right neighbour, which needs positions, but no tree. Training the
gaps on clause boundaries shows whether the same source could follow clauses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Generator, Tensor
from torch.nn import functional as F

from vnait.positions.coordinates import Span
from vnait.positions.coordinates.sources import UNIT_Z
from vnait.positions.encodings import Spatial
from vnait.positions.method import Method
from vnait.results.colours import COLOURS
from vnait_lab.conllu import Tree, trees
from vnait_lab.kit import Figure, Panel, Reader, above, decided, descend, each, figure, listed
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict, data_folder

# Relations whose subtree is a clause; a conjunct is a clause too if both conjuncts are verbs.
CLAUSES = {"ccomp", "advcl", "acl", "acl:relcl", "advcl:relcl", "parataxis", "csubj", "csubj:pass"}
DIM, BATCH = 32, 32
BANKS = {
    "en": ("ud_english_ewt", "en_ewt-ud-train-sample.conllu", "en_ewt-ud-test.conllu"),
    "zh": ("ud_chinese_gsdsimp", "zh_gsdsimp-ud-dev.conllu", "zh_gsdsimp-ud-test.conllu"),
}
SCORES = {
    "learned": "gaps of the source content, trained on the right neighbour's part of speech",
    "taught": "gaps of the source content, taught clause boundaries",
    "punctuation": "1 beside punctuation",
    "surprisal": "-log p of the right word, bigrams",
    "random": "random numbers",
}
KINDS = ("clause", "phrase")
AWAY = ", no punctuation"  # places without adjacent punctuation
LENGTHS = range(6, 41)
STUDY = Study.of(
    __name__,
    data="Universal Dependencies: English EWT and Chinese GSDSimp, sentences of 6 to 40 words; tested on the "
    "test files",
    measure="area under the curve of the gap at boundaries against other places, bootstrap over sentences",
    smallest=".05 of area above 1/2",
    variants={
        f"{language}, {score}": f"{BANKS[language][0]}: {about}"
        for language in BANKS
        for score, about in SCORES.items()
    },
    needs={f"{language}, {score}": f"data:{BANKS[language][0]}" for language in BANKS for score in SCORES},
    full=Budget(seeds=3, steps=500),
    quick=Budget(seeds=2, steps=250),
)


@dataclass(frozen=True)
class Sentence:
    """Words and universal tags (n,), and boolean arrays over the n - 1 places between neighbours:

    clause        a subordinate or coordinate clause begins or ends there
    phrase        at most one arc crosses it, the minimum in a tree (arcs to punctuation do not count)
    punctuation   a neighbour is punctuation
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    clause: np.ndarray
    phrase: np.ndarray
    punctuation: np.ndarray


def read(path: Path) -> list[Sentence]:
    """The sentences of a CoNLL-U file."""
    return [parsed(tree) for tree in trees(path)]


def parsed(tree: Tree) -> Sentence:
    """The sentence of a tree.

    >>> words, tags = ("I", "know", "he", "left"), ("PRON", "VERB", "PRON", "VERB")
    >>> sentence = parsed(Tree(words, tags, (1, -1, 3, 1), ("nsubj", "root", "nsubj", "ccomp")))
    >>> sentence.clause.tolist(), sentence.phrase.tolist()
    ([False, True, False], [True, True, False])
    """
    count = len(tree.words)
    clause = np.zeros(count + 1, dtype=bool)
    crossing = np.zeros(count + 1, dtype=int)
    arcs = zip(tree.spans, tree.heads, tree.relations, strict=True)
    for word, ((first, last), head, relation) in enumerate(arcs):
        verbs = relation == "conj" and tree.tags[word] == "VERB" and tree.tags[head] == "VERB"
        if relation in CLAUSES or verbs:
            clause[[first, last + 1]] = True
        if head >= 0 and relation != "punct":
            crossing[min(word, head) + 1 : max(word, head) + 1] += 1
    point = np.array([tag == "PUNCT" for tag in tree.tags])
    inner = slice(1, -1)
    words = tuple(word.lower() for word in tree.words)
    return Sentence(words, tree.tags, clause[inner], crossing[inner] <= 1, point[:-1] | point[1:])


def surprisal(train: list[Sentence], test: list[Sentence]) -> list[np.ndarray]:
    """-log p(word | word before) of bigrams, smoothed by unigrams, which are smoothed by a uniform share."""
    single = Counter(word for sentence in train for word in sentence.words)
    pairs = Counter(pair for sentence in train for pair in bigrams(sentence))
    total, kinds = sum(single.values()), len(single) + 1

    def nats(before: str, word: str) -> float:
        alone = (single[word] + 1) / (total + kinds)
        return float(-np.log((pairs[before, word] + alone) / (single[before] + 1)))

    return [np.array([nats(*pair) for pair in bigrams(sentence)]) for sentence in test]


def bigrams(sentence: Sentence) -> list[tuple[str, str]]:
    return list(pairwise(sentence.words))


def gaps(
    train: list[Sentence], test: list[Sentence], seed: int, steps: int, *, taught: bool
) -> tuple[list[np.ndarray], Metrics]:
    """Learned gaps relative to the uniform gap, trained on the right neighbour's part of speech, or taught to
    be large at clause boundaries.
    """
    counts = Counter(word for sentence in train for word in sentence.words)
    known = [word for word in counts if counts[word] > 1]
    words = {word: number for number, word in enumerate(known, 1)}  # 0: unknown
    tags = {
        tag: number for number, tag in enumerate(sorted({tag for sentence in train for tag in sentence.tags}))
    }
    torch.manual_seed(seed)
    span = Span(source="content", dim=DIM)
    method = Method(coordinates=span, encoding=Spatial(dim=DIM, features="fourier", start=1.0))
    model = Reader(method, vocabulary=len(words) + 1, outputs=len(tags), dim=DIM)

    def ids(sentences: list[Sentence]) -> Tensor:
        return torch.tensor([[words.get(word, 0) for word in sentence.words] for sentence in sentences])

    def loss(step: int) -> Tensor:
        sentences = batch()
        numbers = ids(sentences)
        if taught:
            z = span.source(model.vectors(numbers), torch.ones_like(numbers, dtype=torch.bool))
            clause = torch.tensor(np.array([sentence.clause for sentence in sentences]))
            return F.binary_cross_entropy_with_logits(z[:, 1:] - UNIT_Z, clause.to(z))
        right = torch.tensor([[tags[tag] for tag in sentence.tags[1:]] for sentence in sentences])
        return F.cross_entropy(model(numbers)[:, :-1].flatten(0, 1), right.flatten())

    batch = batches(train, Generator().manual_seed(seed))
    descend(model.parameters(), loss, steps=steps, learning_rate=2e-3)
    learned, hits, off = [], [], []
    with torch.no_grad():
        for sentence in test:
            numbers = ids([sentence])
            at = span(model.vectors(numbers), torch.ones_like(numbers, dtype=torch.bool))[0, :, 0].double()
            linear = 100 * torch.arange(1, len(at) + 1) / len(at)
            off.append(float((at - linear).abs().max()))
            learned.append((at.diff() * len(at) / 100).numpy())
            predicted = model(numbers)[0, :-1].argmax(-1).tolist()
            hits += [tag == tags.get(name) for tag, name in zip(predicted, sentence.tags[1:], strict=True)]
    return learned, {
        "accuracy": float(np.mean(hits)),
        "from_linear": float(np.mean(off)),
        "spread": float(np.concatenate(learned).std()),
    }


def batches(sentences: list[Sentence], random: Generator) -> Callable[[], list[Sentence]]:
    """Draws batches of sentences of equal length; a length is as frequent as in `sentences`."""
    by_length: dict[int, list[Sentence]] = {}
    for sentence in sentences:
        by_length.setdefault(len(sentence.words), []).append(sentence)

    def draw() -> list[Sentence]:
        first = sentences[int(torch.randint(len(sentences), (), generator=random))]
        alike = by_length[len(first.words)]
        return [alike[place] for place in torch.randint(len(alike), (BATCH,), generator=random).tolist()]

    return draw


def pairs_of(*scores: str) -> list[str]:
    return [f"{language}, {score}" for language in BANKS for score in scores]


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    language, score = variant.split(", ")
    folder, *files = BANKS[language]
    train, test = (
        [sentence for sentence in read(data_folder(folder) / file) if len(sentence.words) in LENGTHS]
        for file in files
    )
    values, extra = scored(score, train, test, seed, budget)
    places = {
        "": [np.full(len(sentence.clause), True) for sentence in test],
        AWAY: [~sentence.punctuation for sentence in test],
    }
    metrics: Metrics = {}
    for kind in KINDS:
        for name, used in places.items():
            scores = [row[use] for row, use in zip(values, used, strict=True)]
            labels = [getattr(sentence, kind)[use] for sentence, use in zip(test, used, strict=True)]
            metrics[kind + name] = area(scores, labels, seed)
    return {**metrics, **extra, "sentences": float(len(test))}


def scored(
    score: str, train: list[Sentence], test: list[Sentence], seed: int, budget: Budget
) -> tuple[list[np.ndarray], Metrics]:
    """The score of every place between words, per test sentence, and further metrics."""
    if score == "punctuation":
        return [sentence.punctuation.astype(float) for sentence in test], {}
    if score == "random":
        random = np.random.default_rng(seed)
        return [random.random(len(sentence.clause)) for sentence in test], {}
    if score == "surprisal":
        return surprisal(train, test), {}
    return gaps(train, test, seed, budget.steps, taught=score == "taught")


def area(scores: list[np.ndarray], labels: list[np.ndarray], seed: int) -> list[float]:
    """The area under the curve of all places, ties counted half, with its 95 % bootstrap interval over
    sentences.
    """
    sentence = np.repeat(np.arange(len(scores)), [len(values) for values in scores])
    score, label = np.concatenate(scores), np.concatenate(labels)
    level = np.unique(score, return_inverse=True)[1]
    random = np.random.default_rng(seed)
    drawn = []
    for draw in range(301):  # the first one is the sample itself
        times = np.ones(len(scores))
        if draw:
            times = random.multinomial(len(scores), times / len(scores)).astype(float)
        weights = times[sentence]
        yes, no = (np.bincount(level, weights * (label == side)) for side in (True, False))
        drawn.append(float(yes @ (no.cumsum() - no / 2) / (yes.sum() * no.sum())))
    return [drawn[0], *np.quantile(drawn[1:], [0.025, 0.975]).tolist()]


def bounded(findings: Findings, variants: list[str], kind: str) -> str:
    return listed({name: findings.bounds(name, kind) for name in variants}, "{:.3f}", join="; ")


def follow(kind: str) -> None:
    """The claim that gaps are larger at boundaries of clauses, or of phrases."""

    @STUDY.claim(f"Learned S_i follow {kind}s", source="000, section 5.2", needs=pairs_of("learned"))
    def judge(findings: Findings) -> Verdict:
        """Confirmed if gaps are larger at boundaries, with an area of at least .55 and an interval above 1/2,
        in both languages, away from punctuation too; conditional if in some of these cases.
        """
        variants = pairs_of("learned")
        count = " and ".join(f"{findings.mean(variant, 'sentences'):.0f}" for variant in variants)
        summary = f"area under the curve ({count} sentences; above 1/2: larger gaps at boundaries): "
        summary += f"{bounded(findings, variants, kind)}; away from punctuation: "
        summary += bounded(findings, variants, kind + AWAY)
        larger = {}
        for variant in variants:
            for boundaries in (kind, kind + AWAY):
                area = findings.bounds(variant, boundaries)
                larger[f"{variant.split(',')[0]}, {boundaries}"] = area.mean >= 0.55 and above(area, 0.5)
        return each(larger, summary, "{}", join="; ")


def at_chance(language: str) -> None:
    """The control that random numbers predict nothing."""
    variant = f"{language}, random"

    @STUDY.control(
        f"random numbers stay within .05 of chance ({language})",
        variant=variant,
        mechanism=f"{language}, taught",
    )
    def fails(findings: Findings) -> bool:
        return abs(findings.bounds(variant, "clause").mean - 0.5) < 0.05


for kind in KINDS:
    follow(kind)
for language in BANKS:
    at_chance(language)


@STUDY.claim(
    "They tell clauses better than punctuation and surprisal do",
    source="000, section 5.2",
    needs=pairs_of("learned", "punctuation", "surprisal"),
)
def judge_better(findings: Findings) -> Verdict:
    """Confirmed if their area is further from 1/2 than that of both others, in both languages."""
    variants = pairs_of("learned", "punctuation", "surprisal")
    away = np.abs([findings.bounds(variant, "clause").mean - 0.5 for variant in variants])
    away = away.reshape(len(BANKS), -1)  # (languages, scores)
    return decided((away[:, 0] > away[:, 1:].max(1)).all(), bounded(findings, variants, "clause"))


@STUDY.claim(
    "Positions learned from content collapse to nearly linear ones",
    source="the field: RePo, arXiv 2512.14391",
    needs=pairs_of("learned", "taught"),
)
def judge_uniform(findings: Findings) -> Verdict:
    """Confirmed if the gaps' SD is at most .2 of the uniform gap, every seed and language."""
    summary = "SD of the gaps over the uniform gap, and largest |S - linear| of a sentence (of 100): "
    summary += "; ".join(
        f"{variant} {findings.mean(variant, 'spread'):.2f}, {findings.mean(variant, 'from_linear'):.1f}"
        for variant in pairs_of("learned", "taught")
    )
    right = findings.listed(pairs_of("learned"), "accuracy", "{:.2f} ({name})")
    most = max(findings.most(variant, "spread") for variant in pairs_of("learned"))
    return decided(most <= 0.2, f"{summary}; parts of speech right: {right}")


@STUDY.claim(
    "Gaps read from three words could follow clauses",
    source="001, interpretability",
    needs=pairs_of("taught"),
)
def judge_able(findings: Findings) -> Verdict:
    """Confirmed if gaps that are taught clauses reach an area of .6 away from punctuation, including the
    interval.
    """
    variants, kind = pairs_of("taught"), "clause" + AWAY
    least = min(findings.bounds(variant, kind).bounds[0] for variant in variants)
    return decided(least >= 0.6, f"away from punctuation: {bounded(findings, variants, kind)}")


@STUDY.draws
def draw(findings: Findings) -> Figure:
    def paint(axes: Axes, language: str) -> None:
        kinds = [kind + place for kind in KINDS for place in ("", AWAY)]
        for row, (kind, form) in enumerate(zip(kinds, "ooss", strict=True)):
            rows = np.array([findings.bounds(f"{language}, {score}", kind) for score in SCORES])
            bounds, at = np.abs(rows[:, 1:] - rows[:, :1]).T, np.arange(len(SCORES)) + 0.18 * (row - 1.5)
            look: dict[str, Any] = {"color": COLOURS[row], "mfc": (COLOURS[row], "white")[row % 2]}
            axes.errorbar(rows[:, 0], at, xerr=bounds, label=kind, fmt=form, capsize=2, **look)
        axes.set_yticks(range(len(SCORES)), list(SCORES))
        axes.invert_yaxis()

    panels = []
    for language, legend in zip(BANKS, ("", "below"), strict=True):
        title = f"{language}: {findings.mean(f'{language}, learned', 'sentences'):.0f} sentences"
        spread = f"mean of {findings.seeds} seeds, widest 95 % bounds"
        look: dict[str, Any] = {"xlim": (0.3, 0.9), "xlabel": "area under the curve of boundaries"}
        draws = partial(paint, language=language)
        panels.append(Panel(draws, spread, title=title, legend=legend, at_x=0.5, **look))
    return figure(*panels)
