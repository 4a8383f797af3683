"""Splicing: from the donor to the branch point.

Generated introns have a donor GTRAGT, a branch point CTAAC 42 to 62 letters downstream, a tract of C and T,
and AG. An intron is functional unless its donor is broken or its branch point is missing; one to three decoys
CTAAC are too near the donor, so that counting motifs is not enough: distance is needed. One layer of
attention reads letters through a window of 9 and answers at the donor. Attention to a place is weak evidence;
that the answer changes if the place is mutated (in-silico mutagenesis) is stronger.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from matplotlib.axes import Axes
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from vnait.model.backbone import Block
from vnait.positions.coordinates import Index
from vnait.positions.encodings import NoPosition, ShawBias, Table
from vnait.positions.injection import Injection
from vnait.results.colours import COLOURS
from vnait_lab.kit import Bars, Figure, Panel, decided, descend, each, figure, listed
from vnait_lab.studies.parts.dna import LETTERS, letters, starts
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict, data_folder

LENGTH = 128
NEAR = (10, 20, 30)  # letters from the donor at which a decoy may start
FAR = (42, 62)  # first and last such distance of a branch point
DIM, HEADS, BATCH = 32, 2, 64
ENCODINGS: dict[str, Callable[[], nn.Module]] = {
    "relative": lambda: ShawBias(num_heads=HEADS, max_distance=LENGTH - 1),
    "learned table": lambda: Table(dim=DIM, max_length=LENGTH),
    "none": NoPosition,
}
TRAINED = ("relative", "learned table", "none")
MUTATED = ("branch", "donor", "decoys", "control")
SCRAMBLED = "ACTCA"
POINT = 3  # index in CTAAC of the adenine that branches
SEEN = range(-7, 6)  # offsets from that adenine at which a window of 9 includes a letter of the motif
STUDY = Study.of(
    __name__,
    source="004, splicing",
    data="generated introns of 128 letters, half of them functional; real junctions (UCI), 60 letters",
    measure="accuracy; attention on the 13 places that see the motif; change of the logit under mutation",
    smallest="4 times the attention beside it; a change of the logit by 5",
    variants={
        "relative": "a bias a distance",
        "learned table": "a vector a position",
        "none": "no positions",
        "untrained": "a bias a distance, not trained",
        "junctions": "a bias a distance; donor, acceptor or neither",
        "letters": "no model: logistic regression of the letter at each place; donor, acceptor or neither",
    },
    full=Budget(seeds=3, steps=1200, samples=4000),
    quick=Budget(seeds=2, steps=500, samples=4000),
    needs=dict.fromkeys(("junctions", "letters"), "data:splice"),
)


class Introns(NamedTuple):
    """Letters (N, LENGTH), starts of donor and branch point (N,), starts of decoys (N, LENGTH) as 0 and 1,
    and whether the intron is functional (N,).
    """

    x: Tensor
    donor: Tensor
    branch: Tensor
    decoys: Tensor
    label: Tensor


def introns(count: int, random: Generator) -> Introns:
    """Half of the introns are functional, a quarter have a broken donor, a quarter no branch point."""

    def draw(low: int, high: int, *size: int) -> Tensor:
        return torch.randint(low, high + 1, size or (count,), generator=random)

    x = draw(0, 3, count, LENGTH)
    kind = draw(0, 3)  # 0, 1: functional; 2: the donor is broken; 3: the branch point is missing
    donor = draw(2, 26)
    branch = donor + draw(*FAR)
    tract = branch + 14 + draw(0, 7)
    place = torch.arange(LENGTH)
    inside = (place >= tract[:, None]) & (place < tract[:, None] + 14)
    x = torch.where(inside, 1 + 2 * draw(0, 1, count, LENGTH), x)
    put(x, tract + 14, "AG")
    put(x, donor, "GTAAGT")
    x[torch.arange(count), donor + 2] = 2 * draw(0, 1)  # R: A or G
    put(x, donor, "CA", kind == 2)
    put(x, branch, "CTAAC", kind != 3)
    wanted = draw(1, len(NEAR))
    order = torch.rand(count, len(NEAR), generator=random).argsort(1).argsort(1)
    decoys = torch.zeros_like(x)
    meant = torch.zeros_like(x)
    meant[kind != 3, branch[kind != 3]] = 1
    for number, distance in enumerate(NEAR):
        start = donor + distance + draw(0, 1)
        chosen = order[:, number] < wanted
        put(x, start, "CTAAC", chosen)
        decoys[chosen, start[chosen]] = 1
    chance = starts(x, letters("CTAAC")).long() - meant - decoys
    x = x + 2 * chance.roll(3, 1)  # destroy branch points that arose by chance: the second A becomes a G
    return Introns(x, donor, branch, decoys, (kind < 2).long())


def junctions(part: str) -> tuple[Tensor, Tensor, Tensor]:
    """Real windows (N, 60) of "train" or "test", their middle (N,), and its class (N,): donor (0), acceptor
    (1) or neither (2).
    """
    with (data_folder("splice") / f"{part}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    x = torch.stack([letters(row["text"]) for row in rows])
    labels = torch.tensor([("EI", "IE", "N").index(row["label"]) for row in rows])
    return x, torch.full((len(x),), 30), labels


def put(x: Tensor, start: Tensor, motif: str, rows: Tensor | None = None) -> None:
    """Write the motif into the rows (N,), or into all, from `start` (N,) on; in place."""
    chosen = torch.arange(len(x)) if rows is None else rows.nonzero()[:, 0]
    x[chosen[:, None], start[chosen, None] + torch.arange(len(motif))] = letters(motif)


def replaced(x: Tensor, rows: Tensor, starts: Tensor, motif: str) -> Tensor:
    """A copy with the motif in the rows (M,), from the starts (M,) on."""
    x = x.clone()
    x[rows[:, None], starts[:, None] + torch.arange(len(motif))] = letters(motif)
    return x


class Splicer(nn.Module):
    """Letters (N, L) and a place (N,) -> logits (N, outputs) and attention (N, H, L) there: a window of 9
    letters, a method, one block.

    Only the output at `place` is read, so the block is computed for that query alone.
    """

    def __init__(self, method: str, outputs: int = 2) -> None:
        super().__init__()
        self.letters = nn.Linear(9 * len(LETTERS), DIM)
        self.encoding = ENCODINGS[method]()
        self.block = Block(dim=DIM, num_heads=HEADS, intermediate=2 * DIM, dropout=0.0)
        self.read = nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, outputs))

    def forward(self, x: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
        states, injection = self.inputs(x)
        rows = torch.arange(len(x))
        attention = self.block.attention
        normed = self.block.norm_attention(states)
        query, key = attention.queries_and_keys(normed, Injection())
        scores = (key @ query[rows, :, place][..., None])[..., 0] / query.shape[-1] ** 0.5
        if injection.bias is not None:
            scores = scores + injection.bias[0, :, place].transpose(0, 1)
        weights = scores.softmax(-1)
        mixed = (weights[..., None, :] @ attention.heads(attention.value(normed)))[..., 0, :]
        state = states[rows, place] + attention.out(mixed.flatten(1))
        return self.read(state + self.block.feedforward(self.block.norm_feedforward(state))), weights

    def inputs(self, x: Tensor) -> tuple[Tensor, Injection]:
        """The block's input (N, L, D), and the injection that all sequences share (1, ...)."""
        windows = F.pad(F.one_hot(x, len(LETTERS)).float(), (0, 0, 4, 4)).unfold(1, 9, 1)
        injection = self.encoding(Index()(None, torch.ones_like(x[:1], dtype=torch.bool))).dense()
        states = F.gelu(self.letters(windows.flatten(2)))
        if injection.added is not None:
            states = states + injection.added
        return states, injection


def fit(model: Splicer, x: Tensor, place: Tensor, label: Tensor, steps: int, random: Generator) -> None:
    def loss(step: int) -> Tensor:
        drawn = torch.randint(len(x), (BATCH,), generator=random)
        return F.cross_entropy(model(x[drawn], place[drawn])[0], label[drawn])

    descend(model.parameters(), loss, steps=steps, learning_rate=5e-3)


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    random = Generator().manual_seed(seed)
    torch.manual_seed(seed)
    if variant == "junctions":
        return classified(budget, random)
    if variant == "letters":
        return {"accuracy": regression()}
    train, test = introns(budget.samples, random), introns(1000, random)
    model = Splicer("relative" if variant == "untrained" else variant)
    if variant != "untrained":
        fit(model, train.x, train.donor, train.label, budget.steps, random)
    return mutated(model, test)


@torch.no_grad()
def mutated(model: Splicer, test: Introns) -> Metrics:
    """Accuracy; for functional introns, the donor's attention to the branch point and the change of the logit
    under mutations.
    """
    logits, _ = model(test.x, test.donor)
    functional = Introns(*(part[test.label == 1] for part in test))
    every = torch.arange(len(functional.x))
    cases = {
        "branch": (every, functional.branch, SCRAMBLED),
        "donor": (every, functional.donor, "CA"),
        "decoys": (*functional.decoys.nonzero().T, SCRAMBLED),
        "control": (every, functional.branch + 9, SCRAMBLED),
    }
    texts = {"plain": functional.x, **{name: replaced(functional.x, *case) for name, case in cases.items()}}
    outputs = {name: model(x, functional.donor) for name, x in texts.items()}
    score = {name: answer[:, 1] - answer[:, 0] for name, (answer, _) in outputs.items()}
    weights, scrambled = outputs["plain"][1], outputs["branch"][1]
    point = functional.branch + POINT
    head = int(mass(weights, point).argmax())
    around = point[:, None] + torch.arange(-25, 26)
    return {
        "accuracy": float((logits.argmax(1) == test.label).double().mean()),
        "called": float((score["plain"] > 0).double().mean()),
        "called, branch": float((score["branch"] > 0).double().mean()),
        **{f"change, {name}": float((score[name] - score["plain"]).mean()) for name in cases},
        "mass": float(mass(weights, point)[head]),
        "mass beside": float(mass(weights, point + len(SEEN))[head]),
        "mass, scrambled": float(mass(scrambled, point)[head]),
        "profile": [part[:, head].gather(1, around).mean(0).tolist() for part in (weights, scrambled)],
    }


def mass(weights: Tensor, point: Tensor) -> Tensor:
    """The mean attention (H,) on the places whose window includes a letter of the motif with its adenine at
    `point`.
    """
    places = point[:, None] + torch.tensor(SEEN)
    return weights.gather(2, places[:, None].expand(-1, weights.shape[1], -1)).sum(2).mean(0)


def classified(budget: Budget, random: Generator) -> Metrics:
    """Accuracy on real windows: is the middle a donor, an acceptor or neither?"""
    model = Splicer("relative", outputs=3)
    fit(model, *junctions("train"), budget.steps // 2, random)
    x, place, label = junctions("test")
    with torch.no_grad():
        right = model(x, place)[0].argmax(1) == label
    return {"accuracy": float(right.double().mean()), "most frequent": float((label == 2).double().mean())}


def regression() -> float:
    """Accuracy on real windows of a linear model of the letters, each at its place."""
    from sklearn.linear_model import LogisticRegression

    (x, _, label), (new, _, truth) = junctions("train"), junctions("test")
    model = LogisticRegression(max_iter=1000).fit(F.one_hot(x, len(LETTERS)).flatten(1).numpy(), label)
    return float(model.score(F.one_hot(new, len(LETTERS)).flatten(1).numpy(), truth))


def spread(findings: Findings, variant: str, metric: str) -> str:
    """The mean over seeds with its 95 % interval, or with the range if there are too few seeds for one."""
    mean, low, high = findings.interval(variant, metric)
    if low is None or high is None:
        low, high = findings.least(variant, metric), findings.most(variant, metric)
    return f"{mean:.3f} ({low:.3f} to {high:.3f})"


@STUDY.control("without positions accuracy is at most .85", variant="none", mechanism="relative")
def no_positions_fail(findings: Findings) -> bool:
    return findings.mean("none", "accuracy") <= 0.85


@STUDY.control(
    "untrained, the branch point gets .8 to 1.25 times the attention beside it",
    variant="untrained",
    mechanism="relative",
)
def untrained_sees_nothing(findings: Findings) -> bool:
    return 0.8 <= untrained(findings) <= 1.25


@STUDY.claim("Transformers predict splicing signals, of a donor and a branch point far from it")
def judge_predict(findings: Findings) -> Verdict:
    """Confirmed if accuracy is .97 or more in every arm and seed, conditional if in some arms."""
    summary = "right answers: " + ", ".join(
        f"{variant} {spread(findings, variant, 'accuracy')}" for variant in TRAINED
    )
    good = {variant: findings.least(variant, "accuracy") >= 0.97 for variant in TRAINED}
    return each(good, summary, "the model has positions, here: {}", join=", ")


@STUDY.claim("Transformers predict splice sites of real DNA", needs=["junctions", "letters"])
def judge_junctions(findings: Findings) -> Verdict:
    """Confirmed if accuracy on held-out junctions is at least .9 in every seed (most frequent class: .54),
    and above that of a linear model; conditional if not above it.
    """
    least, often = findings.least("junctions", "accuracy"), findings.mean("junctions", "most frequent")
    linear = findings.mean("letters", "accuracy")
    summary = f"accuracy {spread(findings, 'junctions', 'accuracy')}; logistic regression of the letters "
    summary += f"{linear:.3f}, the most frequent class {often:.3f}"
    condition = "it need not be better than a linear model"
    return decided(least >= 0.9 and least > linear, summary, refuted=least < 0.9, condition=condition)


@STUDY.claim("A query at the donor attends to the branch point's adenine")
def judge_looks(findings: Findings) -> Verdict:
    """Confirmed if the places that see it get at least 4 times the attention of as many places beside them,
    and of the same places with another motif there, in every seed. The second ratio leaves out what the
    distance from the donor does alone.
    """
    ratios = {
        metric: (findings.curve("relative", "mass") / findings.curve("relative", metric)).min()
        for metric in ("mass beside", "mass, scrambled")
    }
    summary = f"{spread(findings, 'relative', 'mass')} of a head's attention is on these 13 places, at least "
    summary += f"{ratios['mass beside']:.1f} times what is on the 13 beside them (untrained "
    summary += (
        f"{untrained(findings):.2f}), {ratios['mass, scrambled']:.1f} times what they get with another "
    )
    summary += "motif"
    return decided(min(ratios.values()) >= 4, summary)


def untrained(findings: Findings) -> float:
    """The ratio of attention on the branch point to that beside it before training."""
    return findings.mean("untrained", "mass") / findings.mean("untrained", "mass beside")


@STUDY.claim("The attention signal vanishes where the branch point is mutated")
def judge_vanishes(findings: Findings) -> Verdict:
    """Confirmed if the remaining attention is at most twice that beside it."""
    before, after, beside = (
        findings.mean("relative", metric) for metric in ("mass", "mass, scrambled", "mass beside")
    )
    summary = f"attention {before:.3f} before and {after:.3f} after scrambling the branch point "
    summary += f"(-{100 * (1 - after / before):.0f} %); beside it {beside:.3f}"
    return decided(after <= 2 * beside, summary)


@STUDY.claim("In-silico mutagenesis shows that the answer depends on donor and branch point")
def judge_cause(findings: Findings) -> Verdict:
    """Confirmed if each mutation lowers the logit by 5 or more, and a mutation elsewhere changes it by at
    most .2.
    """
    changes = {name: findings.mean("relative", f"change, {name}") for name in MUTATED}
    summary = f"the logit changes by {listed(changes, '{:.1f} ({name})')}"
    called = [findings.mean("relative", metric) for metric in ("called", "called, branch")]
    summary += f"; called functional: {called[0]:.2f}, without a branch point {called[1]:.2f}"
    still = max(map(abs, findings.values("relative", "change, control")))
    moved = max(findings.most("relative", f"change, {name}") for name in ("branch", "donor"))
    return decided(moved <= -5 and still <= 0.2, summary)


@STUDY.draws
def draw(findings: Findings) -> Figure:
    profiles = findings.curve("relative", "profile")  # (seeds, intact or scrambled, places)

    def attention(axes: Axes) -> None:
        for index, (name, style) in enumerate({"intact": "-", "scrambled": "--"}.items()):
            look: dict[str, Any] = {"color": COLOURS[index], "ls": style, "marker": "", "lw": 1}
            drawn = axes.plot(range(-25, 26), profiles[:, index].T, **look)
            drawn[0].set_label(name)  # one legend entry for all seeds
        axes.axvspan(min(SEEN) - 0.5, max(SEEN) + 0.5, color="gainsboro", label="sees the motif")
        axes.set(xlabel="letters from the branch point's adenine", ylabel="attention of the donor")

    left = Panel(attention, "relative, one line per seed", legend="upper right")
    changes = {name: findings.values("relative", f"change, {name}") for name in MUTATED}
    middle = Bars(changes, "mean change of the logit (relative)", xticks=range(-15, 1, 5))
    answers = findings.curves([*TRAINED, "junctions"], "accuracy")
    right = Bars(answers, "right answers", at_x={"donor alone": 0.75}, xlim=(0, 1.02))
    return figure(left, middle, right)
