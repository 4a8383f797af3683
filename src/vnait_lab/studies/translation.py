"""Translation by a small trained model: positions on the source, the target, or between them.

The model reads a source sentence and writes the target word by word. It is one stack: target words see the
source and the target before them, source words see the source (a prefix language model, Raffel et al. 2020,
that is, an encoder-decoder with shared weights). Positions count from 0 on both sides. The generated language
has case markers, its verb last, adjectives behind nouns, and phrases before what they describe; its sentences
repeat words, so that a bag of words does not determine the translation. What the trained model writes must
have the symmetries of its positions: both sides are shifted, or the source is put in another order. Real
pairs are few: English-French
Hansards and Japanese-English KFTT with gold links. BLEU is by sacrebleu; the alignment error rate compares
the source word that gets most attention when a target word is predicted with the gold links.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from vnait.model.backbone import Encoder
from vnait.positions.encodings import Rotary, Sinusoid, T5Bias
from vnait.positions.injection import Injection
from vnait_lab.kit import Bars, Figure, decided, descend, each, figure, listed
from vnait_lab.studies.gold_alignment import CORPORA, read
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict, data_folder

DIM, HEADS, LAYERS, BATCH = 64, 4, 2, 32
PAD, START, END, UNKNOWN = range(4)
NOUNS, VERBS, ADJECTIVES = ([f"{kind}{number}" for number in range(8)] for kind in "nva")
KNOWN, LONG = 2, (3, 4)  # phrases per noun: at most in training, and in long sentences
LONGEST = 20  # words of a real sentence, on each side
TESTED = 100  # sentences of a test
SHIFT = 5  # both sides start at this position in place of 0
SOURCE, SYMMETRY = "004, translation", "004, cross-attention"
PLACES = {
    "none": "no positions; the causal mask of the target alone",
    "causal source": "no positions; source words see those before them alone",
    "source": "a sinusoid is added to the source",
    "target": "a sinusoid is added to the target",
    "both": "a sinusoid is added to both, each from 0",
    "t5": "a learned bias per range of i - j, within and between both",
    "rope": "queries and keys are rotated by i and j",
}
# The positions whose translations must not change.
SAME = {"shifted": ("none", "causal source", "t5", "rope"), "permuted": ("none", "target")}
RULE = "no model: each source word becomes the target word that it occurs with most (Dice), in its place"
GRAMMAR = "grammar"
DATA = (GRAMMAR, *CORPORA)
NAMES = [*PLACES, "word by word"]
REAL = [name for name in NAMES if name not in ("rope", "causal source")]
VARIANTS = {
    f"{data}, {name}": PLACES.get(name, RULE)
    for data in DATA
    for name in (NAMES if data == GRAMMAR else REAL)
}
Words = list[str]
STUDY = Study.of(
    __name__,
    source=SOURCE,
    data=f"generated sentences with another word order; pairs of at most {LONGEST} words of English-French "
    f"Hansards and Japanese-English KFTT; {TESTED} for each test",
    measure="BLEU of greedy translations (sacrebleu, words as given), alignment error rate of the last "
    "layer's attention",
    smallest="10 BLEU; .05 of the alignment error rate",
    variants=VARIANTS,
    full=Budget(seeds=3, steps=1000, samples=4000),
    quick=Budget(seeds=1, steps=60, samples=500),
    needs=dict.fromkeys(VARIANTS, "package:sacrebleu")
    | {
        variant: f"package:sacrebleu data:{CORPORA[data]}"
        for variant in VARIANTS
        if (data := variant.split(", ")[0]) in CORPORA
    },
)


@dataclass(frozen=True)
class Pair:
    """A source sentence, its translation, and per target word the source words that it is linked to: sure
    links, and possible ones, which contain the sure.
    """

    source: Words
    target: Words
    sure: list[set[int]]
    possible: list[set[int]]

    @classmethod
    def unlinked(cls, source: Words, target: Words) -> Pair:
        return cls(source, target, [set() for _ in target], [set() for _ in target])


def phrase(depth: int, random: np.random.Generator) -> tuple[Words, list[tuple[str, int]]]:
    """A noun with adjectives and `depth` phrases behind it: source words, and target words with the source
    word of each.
    """
    adjectives = random.choice(ADJECTIVES, random.integers(3)).tolist()
    source = ["the", *adjectives, str(random.choice(NOUNS))]
    *described, noun = [(word.upper(), place) for place, word in enumerate(source)][1:]
    target = [noun, *described]
    if depth:
        inner, translated = phrase(depth - 1, random)
        at = len(source)
        target = [(word, at + 1 + place) for word, place in translated] + [("NEAR", at), *target]
        source += ["near", *inner]
    return source, target


def sentence(random: np.random.Generator, depths: Sequence[int]) -> Pair:
    """A generated sentence and its translation: subject WA, object O, verb."""
    subject, left = phrase(int(random.choice(depths)), random)
    thing, right = phrase(int(random.choice(depths)), random)
    verb, at = str(random.choice(VERBS)), len(subject)
    source = [*subject, verb, *thing]
    target = [
        *left,
        ("WA", -1),
        *((word, at + 1 + place) for word, place in right),
        ("O", -1),
        (verb.upper(), at),
    ]
    links: list[set[int]] = [{place} - {-1} for _, place in target]
    return Pair(source, [word for word, _ in target], links, links)


def corpus(name: str) -> list[Pair]:
    """The real pairs of at most LONGEST words on each side, in their order."""
    pairs = []
    for source, target, links in read(data_folder(CORPORA[name])).itertuples(index=False):
        pair = Pair.unlinked(source.split(), target.split())
        for link in links.split():
            i, j = (int(place) - 1 for place in link.replace("p", "-").split("-"))
            if i < len(pair.source) and j < len(pair.target):
                pair.possible[j].add(i)
                if "-" in link:
                    pair.sure[j].add(i)
        if max(len(pair.source), len(pair.target)) <= LONGEST:
            pairs.append(pair)
    return pairs


def drawn(data: str, seed: int, budget: Budget) -> tuple[list[Pair], dict[str, list[Pair]]]:
    """Pairs to train on, and the tests by name. Real pairs are split anew by each seed."""
    random = np.random.default_rng(seed)
    if data == GRAMMAR:
        depths = range(KNOWN + 1)
        tests = {"known": [sentence(random, depths) for _ in range(TESTED)]}
        tests["long"] = [sentence(random, LONG) for _ in range(TESTED)]
        return [sentence(random, depths) for _ in range(budget.samples)], tests
    pairs = corpus(data)
    order = random.permutation(len(pairs)).tolist()
    return [pairs[row] for row in order[TESTED:]], {"known": [pairs[row] for row in order[:TESTED]]}


class Translator(nn.Module):
    """Source ids and the target ids so far -> logits of the next target word at each target place."""

    def __init__(self, place: str, vocabulary: int) -> None:
        super().__init__()
        self.place = place
        self.words = nn.Embedding(vocabulary, DIM)
        self.side = nn.Embedding(2, DIM)
        self.encoding = {
            "t5": lambda: T5Bias(num_heads=HEADS),
            "rope": lambda: Rotary(width=DIM // HEADS),
        }.get(place, lambda: Sinusoid(dim=DIM))()
        self.encoder = Encoder(dim=DIM, num_heads=HEADS, intermediate=4 * DIM, num_layers=LAYERS, dropout=0.0)
        self.read = nn.Linear(DIM, vocabulary)

    def inputs(self, source: Tensor, target: Tensor, start: int = 0) -> tuple[Tensor, Injection, Tensor]:
        """x (B, S + T, D), the injection, and the attention mask (B, S + T, S + T); both sides count from
        `start`.
        """
        ids = torch.cat([source, target], 1)
        lengths = torch.tensor([source.shape[1], target.shape[1]])
        side = torch.arange(2).repeat_interleave(lengths)
        at = start + torch.cat([torch.arange(int(length)) for length in lengths]).float()[None, :, None]
        x = self.words(ids) + self.side(side)
        visible = torch.ones(len(side), len(side)).tril().bool()
        if self.place != "causal source":
            visible |= side == 0
        mask = visible[None] & (ids != PAD)[:, None] | torch.eye(len(side)).bool()
        injection = self.encoding(at)
        if self.place in ("t5", "rope"):
            return x, injection.rows(torch.zeros(len(ids)).long()), mask
        sides = [self.place in ("source", "both"), self.place in ("target", "both")]
        return x + injection.added * torch.tensor(sides)[side][:, None], Injection(), mask

    def forward(self, source: Tensor, target: Tensor, start: int = 0) -> Tensor:
        return self.read(self.encoder(*self.inputs(source, target, start))[:, source.shape[1] :])

    def attention(self, source: Tensor, target: Tensor) -> Tensor:
        """From each target place to the source (B, T, S): the last layer's, averaged over heads."""
        weights = self.encoder.weights(*self.inputs(source, target))
        return weights[-1].mean(1)[:, source.shape[1] :, : source.shape[1]]


class Vocabulary:
    """Ids of the words that training has twice or more."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        counts = Counter(word for pair in pairs for words in (pair.source, pair.target) for word in words)
        self.words = ["", "", "", "?", *sorted(word for word, count in counts.items() if count > 1)]
        self.ids = {word: number for number, word in enumerate(self.words)}

    def tensors(self, pairs: Sequence[Pair]) -> tuple[Tensor, Tensor]:
        """Source ids (B, S), and target ids with START and END (B, T)."""
        source = [torch.tensor(self.numbers(pair.source)) for pair in pairs]
        target = [torch.tensor([START, *self.numbers(pair.target), END]) for pair in pairs]
        return pad_sequence(source, batch_first=True), pad_sequence(target, batch_first=True)

    def numbers(self, words: Words) -> list[int]:
        return [self.ids.get(word, UNKNOWN) for word in words]


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    data, place = variant.split(", ")
    learn, tests = drawn(data, seed, budget)
    if place == "word by word":
        table = dictionary(learn)
        guesses = {
            name: [[table[word] for word in pair.source if word in table] for pair in test]
            for name, test in tests.items()
        }
        return {f"bleu, {name}": bleu(guess, tests[name]) for name, guess in guesses.items()}
    torch.manual_seed(seed)
    words, random = Vocabulary(learn), np.random.default_rng(seed)
    model = Translator(place, len(words.words))

    def loss(step: int) -> Tensor:
        rows = random.choice(len(learn), BATCH, replace=False)
        source, target = words.tensors([learn[row] for row in rows])
        logits = model(source, target[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)

    # Some hundred pairs are soon known by heart.
    steps = budget.steps if data == GRAMMAR else budget.steps // 2
    descend(model.parameters(), loss, steps=steps, learning_rate=3e-3, weight_decay=0.01)
    model.eval()
    guesses = {name: translated(model, words, test) for name, test in tests.items()}
    metrics = {f"bleu, {name}": bleu(guess, tests[name]) for name, guess in guesses.items()}
    metrics |= {f"error, {name}": alignment_error(model, words, test) for name, test in tests.items()}
    if data != GRAMMAR:
        return metrics
    known = tests["known"]
    mixed = [replace(pair, source=random.permutation(pair.source).tolist()) for pair in known]
    changed = {
        "shifted": translated(model, words, known, SHIFT),
        "permuted": translated(model, words, mixed),
    }
    return metrics | {f"same, {name}": same(guess, guesses["known"]) for name, guess in changed.items()}


@torch.no_grad()
def translated(model: Translator, words: Vocabulary, pairs: Sequence[Pair], start: int = 0) -> list[Words]:
    """Greedy translations, of at most 10 words more than the longest right one; both sides count from
    `start`.
    """
    source, right = words.tensors(pairs)
    target = torch.full((len(pairs), 1), START)
    for _ in range(right.shape[1] + 10):
        best = model(source, target, start)[:, -1].argmax(-1)
        target = torch.cat([target, best[:, None]], 1)
        if (target == END).any(1).all():
            break
    rows = ([*row, END] for row in target[:, 1:].tolist())
    return [[words.words[number] for number in row[: row.index(END)]] for row in rows]


def bleu(guesses: Sequence[Words], pairs: Sequence[Pair]) -> float:
    """BLEU from 0 to 100; the words are those of the data."""
    from sacrebleu import corpus_bleu

    right = [" ".join(pair.target) for pair in pairs]
    return float(corpus_bleu([" ".join(guess) for guess in guesses], [right], tokenize="none").score)


def same(guesses: Sequence[Words], others: Sequence[Words]) -> float:
    """The share of translations that equal the others, word by word."""
    return float(np.mean([guess == again for guess, again in zip(guesses, others, strict=True)]))


def dictionary(pairs: Sequence[Pair]) -> dict[str, str]:
    """Source word -> the target word with the largest Dice coefficient, 2 n(s, t) / (n(s) + n(t))."""
    source, target, both = (Counter[str](), Counter[str](), Counter[tuple[str, str]]())
    for pair in pairs:
        source.update(set(pair.source))
        target.update(set(pair.target))
        both.update((word, by) for word in set(pair.source) for by in set(pair.target))
    best: dict[str, tuple[float, str]] = {}
    for (word, by), count in both.items():
        best[word] = max(best.get(word, (0.0, "")), (2 * count / (source[word] + target[by]), by))
    return {word: by for word, (_, by) in best.items()}


@torch.no_grad()
def alignment_error(model: Translator, words: Vocabulary, pairs: Sequence[Pair]) -> float:
    """1 - (|A and S| + |A and P|) / (|A| + |S|): each linked target word's source word of most attention."""
    source, target = words.tensors(pairs)
    best = model.attention(source, target[:, :-1]).argmax(-1).tolist()
    hits = made = 0
    for pair, row in zip(pairs, best, strict=True):
        for sure, possible, place in zip(pair.sure, pair.possible, row, strict=False):
            if possible:
                hits += (place in sure) + (place in possible)
                made += 1 + len(sure)
    return 1 - hits / made


def scores(findings: Findings, data: str, metric: str, names: Sequence[str], scale: float = 1) -> str:
    return listed({name: scale * findings.mean(f"{data}, {name}", metric) for name in names}, "{:.1f}")


@STUDY.control(
    "without positions a translation loses 20 BLEU or more",
    variant=f"{GRAMMAR}, none",
    mechanism=f"{GRAMMAR}, both",
)
def no_positions_lose(findings: Findings) -> bool:
    none, both = (findings.mean(f"{GRAMMAR}, {place}", "bleu, known") for place in ("none", "both"))
    return none <= both - 20


@STUDY.claim(
    "Attention learns to translate into another word order", source=f"000, section 1.1, translation; {SOURCE}"
)
def judge_learns(findings: Findings) -> Verdict:
    """Confirmed for positions with a BLEU of 90 or more on generated sentences as long as in training."""
    good = {place: findings.mean(f"{GRAMMAR}, {place}", "bleu, known") >= 90 for place in PLACES}
    return each(good, f"BLEU: {scores(findings, GRAMMAR, 'bleu, known', NAMES)}", "the positions are {}")


@STUDY.claim("A translator needs positions on the source; on the target alone they do not help")
def judge_side(findings: Findings) -> Verdict:
    """Confirmed if `source` has 10 BLEU more than `none`, and neither `target` nor a causal mask on the
    source has, intervals included; conditional if the mask has.
    """
    gain = {
        side: findings.difference(f"{GRAMMAR}, {side}", f"{GRAMMAR}, none", "bleu, known")
        for side in ("source", "target", "causal source")
    }
    words = "; ".join(f"{side} minus none {lead.written('{:+.1f}')}" for side, lead in gain.items())
    (least, most), (low, high), (_, masked) = (lead.bounds for lead in gain.values())
    condition = "source words see the words on both sides of them" if least > 10 > high else ""
    right = least > 10 > max(high, masked)
    return decided(right, words, refuted=most < 10 or low > 10, condition=condition)


@STUDY.claim("Relative positions translate longer sentences than those of training")
def judge_long(findings: Findings) -> Verdict:
    """Confirmed for relative positions with half of their BLEU on sentences with more phrases than in
    training.
    """
    good = {}
    for place in ("t5", "rope"):
        known, long = (findings.mean(f"{GRAMMAR}, {place}", f"bleu, {test}") for test in ("known", "long"))
        good[place] = long / known >= 0.5
    return each(good, f"BLEU: {scores(findings, GRAMMAR, 'bleu, long', NAMES)}", "the positions are {}")


@STUDY.claim("What trained translators write has the symmetries of their positions", source=SYMMETRY)
def judge_symmetries(findings: Findings) -> Verdict:
    """Confirmed if in every seed 99 % of the translations stay the same where they must, and 90 % at most do
    elsewhere. Both sides shifted: they must with relative positions or none. The source permuted: they must
    without positions on it. Refuted if less than 90 % stay where they must.
    """
    ways = {f"same, {way}": must for way, must in SAME.items()}
    stay = [findings.least(f"{GRAMMAR}, {place}", way) for way, must in ways.items() for place in must]
    change = [
        findings.most(f"{GRAMMAR}, {place}", way)
        for way, must in ways.items()
        for place in PLACES
        if place not in must
    ]
    words = "translations that stay the same, in %: " + "; ".join(
        f"{way}: {scores(findings, GRAMMAR, f'same, {way}', list(PLACES), 100)}" for way in SAME
    )
    return decided(min(stay) >= 0.99 and max(change) <= 0.9, words, refuted=min(stay) < 0.9)


@STUDY.claim("From some hundred real pairs attention learns gold alignments with the help of positions")
def judge_gold(findings: Findings) -> Verdict:
    """Confirmed for a language pair if positions on both sides lower the alignment error of `none` by .05 or
    more, interval included.
    """
    gains = {name: findings.difference(f"{name}, none", f"{name}, both", "error, known") for name in CORPORA}
    good = {name: gain.bounds[0] >= 0.05 for name, gain in gains.items()}
    words = "; ".join(
        f"{name}: none minus both {gains[name].written('{:+.3f}')}, alignment errors in %: "
        + scores(findings, name, "error, known", REAL[:-1], 100)
        + f"; BLEU: {scores(findings, name, 'bleu, known', REAL)}"
        for name in CORPORA
    )
    return each(good, words, "the languages are {}")


@STUDY.draws
def draw(findings: Findings) -> Figure:
    bleu = {
        label: {name: findings.values(f"{GRAMMAR}, {name}", f"bleu, {test}") for name in NAMES}
        for label, test in {"as long as in training": "known", "longer": "long"}.items()
    }
    errors = {
        data: {name: findings.values(f"{data}, {name}", "error, known") for name in REAL[:-1]}
        for data in CORPORA
    }
    label = "alignment error rate (%), real sentences, gold links"
    return figure(Bars(bleu, "BLEU, generated sentences"), Bars(errors, label, percent=True, legend="below"))
