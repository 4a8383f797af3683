"""Positions in dependency trees against the order of words.

A model reads sentences of Universal Dependencies in which some words are hidden, and predicts the part of
speech of every word. Which words are near may be a matter of order, or of the dependency tree: a word's head
and its dependents. Places are passed per sentence: an index, a depth, eigenvectors of the sentence's own
tree, or the kind of every pair of words, whose bias is learned. Annotators saw the hidden words, so that
their tree may give a word away by its own arcs. The tree of the `visible` words can't: what is below a hidden
word is attached to the next visible word above, and the hidden one to the word before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vnait.model.backbone import Encoder
from vnait.positions.building import build
from vnait.positions.coordinates import Index, spectra
from vnait.positions.encodings import Axis, Linear, ShawBias, Sum, Table
from vnait.positions.injection import Injection
from vnait.positions.method import Method
from vnait_lab.conllu import Tree, trees
from vnait_lab.kit import Bars, Figure, ahead, descend, figure
from vnait_lab.studies.phrases import BANKS
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict, data_folder

LENGTHS = range(6, 31)
SHARE, MASKS = 0.15, 4  # hidden words, but for one per sentence; each test sentence is read with four masks
REACH, STEPS, SIZE = 8, 3, 4  # larger distances and more steps count as these; eigenvectors
DIM, HEADS, BATCH = 32, 4, 64
HIDDEN, UNKNOWN, FIRST = 0, 1, 2  # ids; the first one of a known word
SMALLEST = 0.01
ORDER = {
    "index": "a table of the index, added",
    "rope": "queries and keys turned by the index",
    "vnait": "the span, its neighbours",
    "distance": f"a bias of the distance in words, to {REACH}",
    "offset": f"a bias of the distance with its sign, to {REACH}",
}
TREE = {
    "depth": "a table of the depth, added",
    "spectrum": f"{SIZE} eigenvectors of the tree's Laplacian at most, without cut eigenspaces, added",
    "tree distance": f"a bias of the distance in arcs, to {REACH}",
    "path": f"a bias of the steps up and the steps down, to {STEPS} each",
}
BOTH = {"index + depth": "both tables", "offset + path": "both biases"}
CHANGES = {
    "exchanged": "the tree's words exchanged at random",
    "visible": "the tree of the visible words",
    "10 % wrong": "each head replaced with probability .1",
    "30 % wrong": "each head replaced with probability .3",
}
WHERE = {"none": "no positions", **ORDER, **TREE, **BOTH}
VARIANTS = {
    **WHERE,
    **{f"path, {change}": f"path; {CHANGES[change]}" for change in ("exchanged", "visible")},
    **{f"offset + path, {change}": f"both; {CHANGES[change]}" for change in [*CHANGES][1:]},
    **{
        f"offset + path, visible, {change}": f"both; {CHANGES['visible']}; {CHANGES[change]}"
        for change in ("exchanged", "10 % wrong")
    },
    "rules": "logistic regressions without a model: of words near in order, near in the tree, and of arcs",
}
CHINESE = "zh: "
VARIANTS |= {
    f"{CHINESE}{variant}": f"Chinese; {VARIANTS[variant]}"
    for variant in ("none", "offset", "path", "path, exchanged", "offset + path", "offset + path, visible")
}
Heads = tuple[int, ...]


def bank(variant: str) -> tuple[str, str, str]:
    """The folder of a variant's treebank, and its files for training and for the test."""
    return BANKS["zh" if variant.startswith(CHINESE) else "en"]


STUDY = Study.of(
    __name__,
    source="000, section 2.2, trees",
    data="Universal Dependencies, sentences of 6 to 30 words: 1,000 of English EWT, 500 others for the test; "
    "Chinese GSDSimp, all of its dev and test files",
    measure="share of hidden words (one per sentence, and 15 % of the others) whose part of speech is right",
    smallest="1 point",
    variants=VARIANTS,
    full=Budget(seeds=4, steps=400, samples=1000),
    quick=Budget(seeds=3, steps=60, samples=200),
    needs={variant: f"data:{bank(variant)[0]}" for variant in VARIANTS},
)


class Pairs(nn.Module):
    """A learned number per head for every kind of pair; bias, (B, H, T, T).

    Axis 1 + j of a token's place is the kind of its pair with token j; axis 0 is its index.
    """

    def __init__(self, *, kinds: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(HEADS, kinds))

    def forward(self, at: Tensor) -> Injection:
        return Injection(bias=self.weight[:, at[..., 1:].long()].transpose(0, 1))


def climbs(heads: Heads) -> np.ndarray:
    """Steps from word i up to the lowest word that is over both i and j, or is one of them, (n, n).

    >>> climbs((1, -1, 1))
    array([[0, 1, 1],
           [0, 0, 0],
           [1, 1, 0]])
    """
    above = np.eye(len(heads), dtype=int)
    for word, head in enumerate(heads):
        while head >= 0:
            above[word, head] = 1
            head = heads[head]
    return above.sum(1, keepdims=True) - above @ above.T


@cache
def spectrum(heads: Heads) -> np.ndarray:
    """Eigenvectors of the tree's Laplacian, (n, `SIZE`); zeros in place of a cut eigenspace."""
    graph = nx.Graph()
    graph.add_nodes_from(range(len(heads)))
    graph.add_edges_from((word, head) for word, head in enumerate(heads) if head >= 0)
    return spectra([graph], size=SIZE)[0].numpy()


def places(where: str, heads: Heads) -> np.ndarray:
    """The places (n, P) of a sentence's words: the index, then what `where` reads of the tree."""
    index = np.arange(len(heads))[:, None]
    up = climbs(heads)
    read = {
        "distance": lambda: abs(index - index.T).clip(max=REACH),
        "depth": lambda: up.max(1, keepdims=True),
        "spectrum": lambda: spectrum(heads),
        "tree distance": lambda: (up + up.T).clip(max=REACH),
        "path": lambda: up.clip(max=STEPS) * (STEPS + 1) + up.T.clip(max=STEPS),
    }.get(where.split(" + ")[-1])
    return np.concatenate([index, read()], 1) if read else index


def method(where: str) -> Method:
    """The positional method of a variant."""
    if where in ("none", "rope", "vnait"):
        return build(where, dim=DIM, num_heads=HEADS, max_length=LENGTHS.stop, mean_length=16)
    parts = {
        "index": lambda: Axis(Table(dim=DIM, max_length=LENGTHS.stop), 0),
        "depth": lambda: Axis(Table(dim=DIM, max_length=LENGTHS.stop), 1),
        "spectrum": lambda: Axis(Linear(dim=DIM, axes=SIZE), range(1, SIZE + 1)),
        "offset": lambda: Axis(ShawBias(num_heads=HEADS, max_distance=REACH, start=1.0), 0),
        "path": lambda: Pairs(kinds=(STEPS + 1) ** 2),
    }
    chosen = [parts.get(part, lambda: Pairs(kinds=REACH + 1))() for part in where.split(" + ")]
    return Method(coordinates=Index(), encoding=Sum(*chosen))


def faulty(heads: Heads, share: float, random: np.random.Generator) -> Heads:
    """The tree with each head but the root's replaced with this probability, by a word that is not below."""
    changed = list(heads)
    for word in np.flatnonzero(random.random(len(heads)) < share).tolist():
        if heads[word] >= 0:
            free = climbs(tuple(changed))[word] > 0  # not below it, nor itself
            free[changed[word]] = False
            changed[word] = int(random.choice(np.flatnonzero(free))) if free.any() else changed[word]
    return tuple(changed)


def exchanged(heads: Heads, random: np.random.Generator) -> Heads:
    """The tree with its words in random order."""
    order = random.permutation(len(heads)).tolist()
    changed = [-1] * len(heads)
    for word, head in enumerate(heads):
        if head >= 0:
            changed[order[word]] = order[head]
    return tuple(changed)


def visible(heads: Heads, hidden: np.ndarray) -> Heads:
    """The tree of the visible words; a hidden word is attached to the one before it.

    >>> visible((1, 3, 1, -1), np.array([False, True, False, False]))
    (3, 0, 3, -1)
    """
    changed = list(heads)
    for word in range(len(heads)):
        while changed[word] >= 0 and hidden[changed[word]]:
            changed[word] = heads[changed[word]]
    seen = np.flatnonzero(~hidden).tolist()
    root = next(word for word in seen if changed[word] < 0)
    for word, gone in enumerate(hidden.tolist()):
        if gone:
            changed[word] = word - 1 if word else seen[0]
        elif changed[word] < 0 and word != root:
            changed[word] = root  # of several words below a hidden root
    return tuple(changed)


class Group(NamedTuple):
    """Sentences of one length: words and tags (N, n), trees, and the places (N, n, P) of their words."""

    words: Tensor
    tags: Tensor
    heads: list[Heads]
    at: Tensor


class Corpus:
    """The sentences of a variant, by length, with its trees."""

    def __init__(self, variant: str, pool: list[Tree], known: list[str], tags: list[str], seed: int) -> None:
        self.where, *self.changes = variant.split(", ")
        random = np.random.default_rng((seed, len(pool)))
        words = {word: number for number, word in enumerate(known, FIRST)}
        self.groups = []
        for length in sorted({len(tree.words) for tree in pool}):
            group = [tree for tree in pool if len(tree.words) == length]
            heads = [self.changed(tree.heads, random) for tree in group]
            self.groups.append(
                Group(
                    torch.tensor(
                        [[words.get(word.lower(), UNKNOWN) for word in tree.words] for tree in group]
                    ),
                    torch.tensor([[tags.index(tag) for tag in tree.tags] for tree in group]),
                    heads,
                    self.located(heads),
                )
            )

    def changed(self, heads: Heads, random: np.random.Generator) -> Heads:
        """The tree that the variant gets in place of the gold one."""
        for change in self.changes:
            if change == "exchanged":
                heads = exchanged(heads, random)
            elif change.endswith("wrong"):
                heads = faulty(heads, int(change.split()[0]) / 100, random)
        return heads

    def located(self, heads: Iterable[Heads]) -> Tensor:
        """The places (N, n, P) in these trees."""
        return torch.from_numpy(np.stack([places(self.where, tree) for tree in heads])).float()

    def at(self, group: Group, rows: Tensor, hidden: Tensor) -> Tensor:
        """The places of these sentences with these words hidden."""
        if "visible" not in self.changes:
            return group.at[rows]
        pairs = zip(rows.tolist(), hidden.numpy(), strict=True)
        return self.located(visible(group.heads[row], mask) for row, mask in pairs)


class Tagger(nn.Module):
    """Words (B, T) and their places -> logits of their tags (B, T, tags)."""

    def __init__(self, where: str, words: int, tags: int) -> None:
        super().__init__()
        self.vectors = nn.Embedding(words, DIM)
        self.encoder = Encoder(dim=DIM, num_heads=HEADS, intermediate=4 * DIM, num_layers=2, dropout=0.0)
        self.read = nn.Linear(DIM, tags)
        self.method, self.counts = method(where), where in ("none", "rope", "vnait")

    def forward(self, words: Tensor, at: Tensor) -> Tensor:
        mask = torch.ones_like(words, dtype=torch.bool)
        x, injection, _ = self.method(self.vectors(words), mask, None if self.counts else at)
        return self.read(self.encoder(x, injection, mask))


@cache
def sentences(folder: str, name: str) -> list[Tree]:
    """The sentences of a file that are neither short nor long."""
    return [tree for tree in trees(data_folder(folder) / name) if len(tree.words) in LENGTHS]


def hide(count: int, length: int, random: np.random.Generator) -> Tensor:
    """True at hidden words, (count, length): one per row and `SHARE` of the others, but not all."""
    hidden = random.random((count, length)) < SHARE
    hidden[np.arange(count), random.integers(length, size=count)] = True
    hidden[hidden.all(1), 0] = False
    return torch.from_numpy(hidden)


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    random = np.random.default_rng(seed)
    folder, *files = bank(variant)
    variant = variant.removeprefix(CHINESE)
    pools = [sentences(folder, name) for name in files]
    train, test = (
        [pool[place] for place in random.permutation(len(pool))[:count]]
        for pool, count in zip(pools, (budget.samples, budget.samples // 2), strict=True)
    )
    if variant == "rules":
        return rules(train, test, random)
    counts = Counter(word.lower() for tree in train for word in tree.words)
    known = [word for word in counts if counts[word] > 1]
    tags = sorted({tag for tree in train + test for tag in tree.tags})
    learn, new = (Corpus(variant, pool, known, tags, seed) for pool in (train, test))
    torch.manual_seed(seed)
    model = Tagger(learn.where, len(known) + FIRST, len(tags))
    share = np.array([len(group.words) for group in learn.groups]) / len(train)

    def loss(step: int) -> Tensor:
        group = learn.groups[random.choice(len(share), p=share)]
        rows = torch.from_numpy(random.integers(len(group.words), size=BATCH))
        hidden = hide(BATCH, group.words.shape[1], random)
        logits = model(group.words[rows].masked_fill(hidden, HIDDEN), learn.at(group, rows, hidden))
        tag = group.tags[rows]
        every = F.cross_entropy(logits.flatten(0, 1), tag.flatten())
        return every + F.cross_entropy(logits[hidden], tag[hidden])

    descend(model.parameters(), loss, steps=budget.steps, learning_rate=1e-2, weight_decay=0.01)
    model.eval().requires_grad_(False)
    right: dict[bool, list[Tensor]] = {True: [], False: []}
    for group in new.groups * MASKS:
        hidden = hide(len(group.words), group.words.shape[1], random)
        at = new.at(group, torch.arange(len(hidden)), hidden)
        hit = model(group.words.masked_fill(hidden, HIDDEN), at).argmax(-1) == group.tags
        for side in right:
            right[side].append(hit[hidden == side])
    hits = {side: float(torch.cat(part).double().mean()) for side, part in right.items()}
    return {"accuracy": hits[True], "seen": hits[False]}


def clues(tree: Tree, place: int, hidden: Iterable[bool]) -> dict[str, dict[str, int]]:
    """What each rule reads of the word at a place: words near in order, near in the tree, or arcs alone."""
    words = ["?" if gone else word.lower() for word, gone in zip(tree.words, hidden, strict=True)]
    near = [offset for offset in (-2, -1, 1, 2) if 0 <= place + offset < len(words)]
    head, below = tree.heads[place], [word for word, head in enumerate(tree.heads) if head == place]
    depth = int(climbs(tree.heads)[place].max())
    return {
        "order": {f"{offset} {words[place + offset]}": 1 for offset in near},
        "tree": {f"head {words[head] if head >= 0 else ''}": 1}
        | {f"below {words[word]}": 1 for word in below},
        "arcs": {f"depth {depth}": 1, f"below {len(below)}": 1},
    }


def rules(train: list[Tree], test: list[Tree], random: np.random.Generator) -> Metrics:
    """Shares of hidden words right, by logistic regression, and with the most frequent tag."""
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.linear_model import LogisticRegression

    def hidden(pool: list[Tree]) -> tuple[list[dict[str, dict[str, int]]], list[str]]:
        masks = [(tree, hide(1, len(tree.words), random)[0].tolist()) for tree in pool * MASKS]
        changed = [(tree, place, mask) for tree, mask in masks for place, gone in enumerate(mask) if gone]
        return [clues(*row) for row in changed], [tree.tags[place] for tree, place, _ in changed]

    (known, answers), (new, truth) = hidden(train), hidden(test)
    most = Counter(answers).most_common(1)[0][0]
    metrics: Metrics = {"majority": float(np.mean([tag == most for tag in truth]))}
    for name in known[0]:
        vectorizer: Any = DictVectorizer()
        x = vectorizer.fit_transform([row[name] for row in known])
        model = LogisticRegression(max_iter=100, tol=1e-3).fit(x, answers)
        metrics[name] = float(model.score(vectorizer.transform([row[name] for row in new]), truth))
    return metrics


def lead(findings: Findings, variant: str, against: str, more: str) -> Verdict:
    gain = findings.difference(variant, against, "accuracy")
    points = f"{variant} minus {against}: {gain.times(100).written('{:+.1f}')} points"
    return ahead(gain, SMALLEST, f"{points}; {more}")


def percents(findings: Findings, variants: Iterable[str]) -> str:
    return findings.listed(variants, "accuracy", "{:.1f} %", scale=100)


@STUDY.control(
    "a tree whose words are exchanged gains less than 3 points over no positions",
    variant="path, exchanged",
    mechanism="path",
)
def exchanged_gains_little(findings: Findings) -> bool:
    return findings.difference("path, exchanged", "none", "accuracy").mean < 0.03


@STUDY.claim("Positions in gold trees predict a hidden word's part of speech better than its order")
def judge_tree(findings: Findings) -> Verdict:
    """The best positions in the tree against the best ones in order: confirmed if they are a point or more
    ahead and the interval excludes zero, refuted if it is below a point.
    """
    tree, order = (findings.best(variants, "accuracy") for variants in (TREE, ORDER))
    return lead(findings, tree, order, percents(findings, ["none", *ORDER, *TREE, "path, exchanged"]))


@STUDY.claim("Together with the order they are better than the order alone")
def judge_both(findings: Findings) -> Verdict:
    """The better one of both pairs against the best positions in order, by the same rule."""
    both, order = (findings.best(variants, "accuracy") for variants in (BOTH, ORDER))
    rule = findings.interval("rules", "order").times(100).written("{:.1f}")
    more = f"{percents(findings, BOTH)}; logistic regression of four words near: {rule} %"
    return lead(findings, both, order, more)


@STUDY.claim("The gain over the order survives a parser's errors, 10 % wrong heads")
def judge_faulty(findings: Findings) -> Verdict:
    """`offset + path` with 10 % wrong heads against the best positions in order, by the same rule;
    conditional if in gold trees alone: nine of ten hidden words keep their own arcs there.
    """
    variants = ["offset + path", "offset + path, 10 % wrong", "offset + path, 30 % wrong"]
    shown, order = percents(findings, variants), findings.best(ORDER, "accuracy")
    visible = lead(findings, "offset + path, visible, 10 % wrong", order, shown)
    return in_gold_trees(lead(findings, variants[1], order, visible.summary), visible)


@STUDY.claim("Trees that don't show the hidden word's own arcs leave a gain over the order")
def judge_visible(findings: Findings) -> Verdict:
    """`offset + path` in trees of the visible words against the best positions in order, and against such
    trees with their words exchanged, by the same rule.
    """
    order = findings.best(ORDER, "accuracy")
    control = lead(findings, "offset + path, visible", "offset + path, visible, exchanged", "")
    gold = findings.difference("offset + path", order, "accuracy").times(100).written("{:+.1f}")
    more = f"in gold trees {gold}; {percents(findings, ['path', 'path, visible'])}; logistic regression of "
    more += f"the hidden word's depth and number of words below it {100 * findings.mean('rules', 'arcs'):.1f}"
    more += f" %, the most frequent tag {100 * findings.mean('rules', 'majority'):.1f} %"
    verdict = lead(findings, "offset + path, visible", order, f"{control.summary}{more}")
    if control.word == "confirmed" or verdict.word == "refuted":
        return verdict
    return replace(verdict, word=control.word)


@STUDY.claim("In Chinese, too, both together are better than the order alone")
def judge_chinese(findings: Findings) -> Verdict:
    """`offset + path` against `offset`, by the same rule; conditional if in gold trees alone, which show the
    hidden word's own arcs.
    """
    both, order = f"{CHINESE}offset + path", f"{CHINESE}offset"
    variants = [variant for variant in VARIANTS if variant.startswith(CHINESE)]
    visible = lead(findings, f"{both}, visible", order, percents(findings, variants))
    return in_gold_trees(lead(findings, both, order, visible.summary), visible)


def in_gold_trees(gold: Verdict, visible: Verdict) -> Verdict:
    """The verdict in gold trees, conditional if trees of the visible words don't confirm it."""
    if gold.word != "confirmed" or visible.word == "confirmed":
        return gold
    return Verdict("conditional", gold.summary, "the trees show the hidden word's own arcs")


@STUDY.draws
def draw(findings: Findings) -> Figure:
    rows = findings.curves([variant for variant in VARIANTS if variant != "rules"], "accuracy")
    regressions = {f"regression: {name}": name for name in ("order", "tree", "arcs")}
    for name, metric in {**regressions, "most frequent tag": "majority"}.items():
        rows[name] = findings.curve("rules", metric)
    best = 100 * findings.mean(findings.best(ORDER, "accuracy"), "accuracy")
    label = "parts of speech of hidden words right (%)"
    return figure(Bars(rows, label, percent=True, at_x={"the best positions in order": best}))
