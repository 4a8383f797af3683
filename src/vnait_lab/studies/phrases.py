"""Do learned gaps follow phrases and clauses? Vnait's S with gaps from the words, compared with the trees of
a treebank.

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
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor
from torch.nn import functional as F

from vnait.data.conllu import Tree, trees
from vnait.positions.coordinates import Span
from vnait.positions.coordinates.sources import UNIT_Z
from vnait.positions.encodings import Spatial
from vnait.positions.method import Method
from vnait.results.colours import COLOURS
from vnait_lab.studies.figures import panels
from vnait_lab.studies.parts.training import Reader, descend
from vnait_lab.study import Budget, Claim, Control, Findings, Metrics, Study, Verdict, claim, data_folder

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
    tags = {tag: number for number, tag in enumerate(sorted({tag for one in train for tag in one.tags}))}
    torch.manual_seed(seed)
    span = Span(source="content", dim=DIM)
    method = Method(coordinates=span, encoding=Spatial(dim=DIM, features="fourier", start=1.0))
    model = Reader(method, vocabulary=len(words) + 1, outputs=len(tags), dim=DIM)

    def ids(sentences: list[Sentence]) -> Tensor:
        return torch.tensor([[words.get(word, 0) for word in sentence.words] for sentence in sentences])

    def loss(step: int) -> Tensor:
        own = batch()
        numbers = ids(own)
        if taught:
            z = span.source(model.vectors(numbers), torch.ones_like(numbers, dtype=torch.bool))
            clause = torch.tensor(np.array([sentence.clause for sentence in own]))
            return F.binary_cross_entropy_with_logits(z[:, 1:] - UNIT_Z, clause.to(z))
        right = torch.tensor([[tags[tag] for tag in sentence.tags[1:]] for sentence in own])
        return F.cross_entropy(model(numbers)[:, :-1].flatten(0, 1), right.flatten())

    batch = batches(train, Generator().manual_seed(seed))
    descend(model.parameters(), loss, steps=steps, learning_rate=2e-3)
    found, hits, off = [], [], []
    with torch.no_grad():
        for sentence in test:
            numbers = ids([sentence])
            at = span(model.vectors(numbers), torch.ones_like(numbers, dtype=torch.bool))[0, :, 0].double()
            linear = 100 * torch.arange(1, len(at) + 1) / len(at)
            off.append(float((at - linear).abs().max()))
            found.append((at.diff() * len(at) / 100).numpy())
            predicted = model(numbers)[0, :-1].argmax(-1).tolist()
            hits += [tag == tags.get(name) for tag, name in zip(predicted, sentence.tags[1:], strict=True)]
    return found, {
        "accuracy": float(np.mean(hits)),
        "from_linear": float(np.mean(off)),
        "spread": float(np.concatenate(found).std()),
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


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    language, score = arm.split(", ")
    folder, *files = BANKS[language]
    train, test = (
        [sentence for sentence in read(data_folder(folder) / file) if len(sentence.words) in LENGTHS]
        for file in files
    )
    found, extra = scored(score, train, test, seed, budget)
    places = {
        "": [np.full(len(sentence.clause), True) for sentence in test],
        AWAY: [~sentence.punctuation for sentence in test],
    }
    metrics: Metrics = {}
    for kind in KINDS:
        for name, used in places.items():
            scores = [values[use] for values, use in zip(found, used, strict=True)]
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
    found = []
    for draw in range(301):  # the first one is the sample itself
        times = np.ones(len(scores))
        if draw:
            times = random.multinomial(len(scores), times / len(scores)).astype(float)
        own = times[sentence]
        yes, no = (np.bincount(level, own * (label == side)) for side in (True, False))
        found.append(float(yes @ (no.cumsum() - no / 2) / (yes.sum() * no.sum())))
    return [found[0], *np.quantile(found[1:], [0.025, 0.975]).tolist()]


def areas(found: Findings, arm: str, kind: str) -> tuple[float, float, float]:
    """The mean over seeds, and the lowest and highest bound of the seeds' intervals."""
    rows = found.curve(arm, kind)
    return float(rows[:, 0].mean()), float(rows[:, 1].min()), float(rows[:, 2].max())


def listed(found: Findings, arms: list[str], kind: str) -> str:
    return "; ".join("{} {:.3f} [{:.3f}, {:.3f}]".format(arm, *areas(found, arm, kind)) for arm in arms)


def follow(kind: str) -> Claim:
    """The claim that gaps are larger at boundaries of clauses, or of phrases."""

    @claim(f"Learned S_i follow {kind}s", source="000, section 5.2", needs=pairs_of("learned"))
    def judge(found: Findings) -> Verdict:
        """Confirmed if gaps are larger at boundaries, with an area of at least .55 and an interval above 1/2,
        in both languages, away from punctuation too; conditional if in some of these cases.
        """
        arms = pairs_of("learned")
        count = " and ".join(f"{found.mean(arm, 'sentences'):.0f}" for arm in arms)
        summary = f"area under the curve ({count} sentences; above 1/2: larger gaps at boundaries): "
        summary += f"{listed(found, arms, kind)}; away from punctuation: {listed(found, arms, kind + AWAY)}"
        every = {
            f"{arm.split(',')[0]}, {own}": areas(found, arm, own)
            for arm in arms
            for own in (kind, kind + AWAY)
        }
        larger = [name for name, (mean, low, _) in every.items() if mean >= 0.55 and low > 0.5]
        return Verdict.among(larger, every, summary, "; ".join(larger))

    return judge


@claim(
    "They tell clauses better than punctuation and surprisal do",
    source="000, section 5.2",
    needs=pairs_of("learned", "punctuation", "surprisal"),
)
def judge_better(found: Findings) -> Verdict:
    """Confirmed if their area is further from 1/2 than that of both others, in both languages."""
    arms = pairs_of("learned", "punctuation", "surprisal")
    away = np.abs([areas(found, arm, "clause")[0] - 0.5 for arm in arms])
    away = away.reshape(len(BANKS), -1)  # (languages, scores)
    better = (away[:, 0] > away[:, 1:].max(1)).all()
    return Verdict("confirmed" if better else "refuted", listed(found, arms, "clause"))


@claim(
    "Positions learned from content collapse to nearly linear ones",
    source="the field: RePo, arXiv 2512.14391",
    needs=pairs_of("learned", "taught"),
)
def judge_uniform(found: Findings) -> Verdict:
    """Confirmed if the gaps' SD is at most .2 of the uniform gap, every seed and language."""
    moved = {
        arm: (found.mean(arm, "spread"), found.mean(arm, "from_linear"))
        for arm in pairs_of("learned", "taught")
    }
    summary = "SD of the gaps over the uniform gap, and largest |S - linear| of a sentence (of 100): "
    summary += "; ".join(f"{arm} {spread:.2f}, {off:.1f}" for arm, (spread, off) in moved.items())
    right = [f"{found.mean(arm, 'accuracy'):.2f} ({arm})" for arm in pairs_of("learned")]
    summary += f"; parts of speech right: {', '.join(right)}"
    most = max(found.most(arm, "spread") for arm in pairs_of("learned"))
    return Verdict("confirmed" if most <= 0.2 else "refuted", summary)


@claim(
    "Gaps read from three words could follow clauses",
    source="001, interpretability",
    needs=pairs_of("taught"),
)
def judge_able(found: Findings) -> Verdict:
    """Confirmed if gaps that are taught clauses reach an area of .6 away from punctuation, including the
    interval.
    """
    arms, kind = pairs_of("taught"), "clause" + AWAY
    able = min(areas(found, arm, kind)[1] for arm in arms) >= 0.6
    return Verdict("confirmed" if able else "refuted", f"away from punctuation: {listed(found, arms, kind)}")


def at_chance(language: str) -> Control:
    """The control that random numbers predict nothing."""
    arm = f"{language}, random"
    return Control(
        statement=f"random numbers stay within .05 of chance ({language})",
        arm=arm,
        mechanism=f"{language}, taught",
        fails=lambda found: abs(areas(found, arm, "clause")[0] - 0.5) < 0.05,
    )


def draw(found: Findings) -> Figure:
    figure, both = panels(1, 1)
    places = np.arange(len(SCORES))
    for axes, language in zip(both, BANKS, strict=True):
        for row, kind in enumerate(name + place for name in KINDS for place in ("", AWAY)):
            rows = np.array([areas(found, f"{language}, {score}", kind) for score in SCORES])
            bounds, fill = np.abs(rows[:, 1:] - rows[:, :1]).T, (COLOURS[row], "white")[row % 2]
            at = places + 0.18 * (row - 1.5)
            look: dict[str, Any] = {"fmt": "ooss"[row], "color": COLOURS[row], "mfc": fill, "capsize": 2}
            axes.errorbar(rows[:, 0], at, xerr=bounds, label=kind, **look)
        axes.axvline(0.5, color="gray", lw=0.8)
        axes.set_yticks(places, list(SCORES))
        axes.set(xlim=(0.3, 0.9), ylim=(len(SCORES) - 0.4, -0.6), xlabel="area under the curve of boundaries")
        sentences = found.values(f"{language}, learned", "sentences")
        axes.set_title(
            f"{language}: {sentences[0]:.0f} sentences, {len(sentences)} seeds; mean, widest 95 % bounds"
        )
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


STUDY = Study(
    name="phrases",
    subject="Do learned gaps follow phrases and clauses?",
    data="Universal Dependencies: English EWT and Chinese GSDSimp, sentences of 6 to 40 words; tested on the "
    "test files",
    measure="area under the curve of the gap at boundaries against other places, bootstrap over sentences",
    smallest=".05 of area above 1/2",
    arms={
        f"{language}, {score}": f"{BANKS[language][0]}: {about}"
        for language in BANKS
        for score, about in SCORES.items()
    },
    needs={f"{language}, {score}": f"data:{BANKS[language][0]}" for language in BANKS for score in SCORES},
    controls=[*map(at_chance, BANKS)],
    claims=[*map(follow, KINDS), judge_better, judge_uniform, judge_able],
    full=Budget(seeds=3, steps=500),
    quick=Budget(seeds=2, steps=250),
    run=run,
    draw=draw,
)
