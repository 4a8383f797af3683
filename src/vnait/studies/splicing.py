"""Splicing: does attention go from the donor to the branch point, and does the answer hang on it?

Generated introns: a donor GTRAGT, a branch point CTAAC 42 to 62 letters downstream, a tract of C and T, an AG. An intron is functional
unless its donor is broken or its branch point is missing; one to three decoys CTAAC stand too near the donor, so that to count motifs
is not enough: distance is needed. One layer of attention reads letters through a window of 9 and answers at the donor.
That attention goes somewhere says little; that the answer changes with what stands there (in-silico mutagenesis) says more.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from vnait.backbone import Block
from vnait.coordinates import Index
from vnait.encodings import Relative, Silent, Table
from vnait.injection import Injection
from vnait.studies.introns import LENGTH, LETTERS, Introns, introns, letters, put
from vnait.studies.training import descend
from vnait.study import Budget, Control, Findings, Metrics, Study, Verdict, claim, data_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DIM, HEADS, BATCH = 32, 2, 64
TRAINED = ("relative", "learned table", "none")
SCRAMBLED = "ACTCA"
POINT = 3  # of CTAAC, the adenine that branches
SEEN = range(-7, 6)  # of that adenine, the places whose window of 9 sees a letter of the motif


class Splicer(nn.Module):
    """Letters (N, L) and a place (N,) -> logits (N, outputs) and attention (N, H, L) there: a window of 9 letters, a method, one block.

    The block is computed at that place alone, which is all that is read.
    """

    def __init__(self, method: str, outputs: int = 2) -> None:
        super().__init__()
        encodings: dict[str, Callable[[], nn.Module]] = {
            "relative": lambda: Relative(num_heads=HEADS, max_distance=LENGTH - 1),
            "learned table": lambda: Table(dim=DIM, max_length=LENGTH),
            "none": Silent,
        }
        self.letters = nn.Linear(9 * len(LETTERS), DIM)
        self.encoding = encodings[method]()
        self.block = Block(dim=DIM, num_heads=HEADS, intermediate=2 * DIM, dropout=0.0)
        self.read = nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, outputs))

    def forward(self, x: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
        states, injection = self.told(x)
        rows, attention = torch.arange(len(x)), self.block.attention
        normed = self.block.norm_attention(states)
        query, key = attention.queries_and_keys(normed, Injection())
        scores = (key @ query[rows, :, place][..., None])[..., 0] / query.shape[-1] ** 0.5
        if injection.bias is not None:
            scores = scores + injection.bias[0, :, place].transpose(0, 1)
        weights = scores.softmax(-1)
        mixed = (weights[..., None, :] @ attention.heads(attention.value(normed)))[..., 0, :]
        state = states[rows, place] + attention.out(mixed.flatten(1))
        return self.read(state + self.block.feedforward(self.block.norm_feedforward(state))), weights

    def told(self, x: Tensor) -> tuple[Tensor, Injection]:
        """The block's input (N, L, D), and what the method says to the attention of all (1, ...)."""
        windows = F.pad(F.one_hot(x, len(LETTERS)).float(), (0, 0, 4, 4)).unfold(1, 9, 1)
        injection = self.encoding(Index()(None, torch.ones_like(x[:1], dtype=torch.bool)))
        states = F.gelu(self.letters(windows.flatten(2)))
        return states if injection.added is None else states + injection.added, injection


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    random = Generator().manual_seed(seed)
    torch.manual_seed(seed)
    if arm == "junctions":
        return junctions(budget, random)
    train, test = introns(budget.samples, random), introns(1000, random)
    model = Splicer("relative" if arm == "untrained" else arm)
    if arm != "untrained":
        fit(model, train.x, train.donor, train.label, budget.steps, random)
    return mutated(model, test)


def fit(model: Splicer, x: Tensor, place: Tensor, label: Tensor, steps: int, random: Generator) -> None:
    def loss(step: int) -> Tensor:
        own = torch.randint(len(x), (BATCH,), generator=random)
        return F.cross_entropy(model(x[own], place[own])[0], label[own])

    descend(model.parameters(), loss, steps=steps, learning_rate=5e-3)


@torch.no_grad()
def mutated(model: Splicer, test: Introns) -> Metrics:
    """Accuracy; and of functional introns, where the donor looks and how the logit changes with a mutation."""
    logits, _ = model(test.x, test.donor)
    own = Introns(*(part[test.label == 1] for part in test))
    plain, weights = model(own.x, own.donor)
    point = own.branch + POINT
    head = int(mass(weights, point).argmax())

    def changed(start: Tensor, motif: str) -> tuple[Tensor, Tensor]:
        x = own.x.clone()
        put(x, start, motif)
        return model(x, own.donor)

    broken = own.x.clone()
    row, start = own.decoys.nonzero().T
    broken[row[:, None], start[:, None] + torch.arange(5)] = letters(SCRAMBLED)
    branch, seen = changed(own.branch, SCRAMBLED)
    cases = {
        "branch": branch,
        "donor": changed(own.donor, "CA")[0],
        "decoys": model(broken, own.donor)[0],
        "control": changed(own.branch + 9, SCRAMBLED)[0],
    }
    score = {name: found[:, 1] - found[:, 0] for name, found in {"plain": plain, **cases}.items()}
    around = point[:, None] + torch.arange(-25, 26)
    return {
        "accuracy": float((logits.argmax(1) == test.label).double().mean()),
        "called": float((score["plain"] > 0).double().mean()),
        "called, branch": float((score["branch"] > 0).double().mean()),
        **{f"change, {name}": float((score[name] - score["plain"]).mean()) for name in cases},
        "mass": float(mass(weights, point)[head]),
        "mass beside": float(mass(weights, point + len(SEEN))[head]),
        "mass, scrambled": float(mass(seen, point)[head]),
        "profile": [part[:, head].gather(1, around).mean(0).tolist() for part in (weights, seen)],
    }


def mass(weights: Tensor, point: Tensor) -> Tensor:
    """The mean attention (H,) on the places that see a motif whose adenine is at `point`."""
    places = point[:, None] + torch.tensor(SEEN)
    return weights.gather(2, places[:, None].expand(-1, weights.shape[1], -1)).sum(2).mean(0)


def junctions(budget: Budget, random: Generator) -> Metrics:
    """Real windows of 60 letters: is their middle a donor, an acceptor or neither?"""
    sets = []
    for name in ("train", "test"):
        with (data_folder("splice") / f"{name}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        x = torch.stack([letters(row["text"]) for row in rows])
        sets.append(
            (x, torch.full((len(x),), 30), torch.tensor([("EI", "IE", "N").index(row["label"]) for row in rows]))
        )
    model = Splicer("relative", outputs=3)
    fit(model, *sets[0], budget.steps // 2, random)
    x, place, label = sets[1]
    with torch.no_grad():
        right = model(x, place)[0].argmax(1) == label
    return {"accuracy": float(right.double().mean()), "most frequent": float((label == 2).double().mean())}


def spread(found: Findings, arm: str, metric: str) -> str:
    """The mean of all seeds with its 95 % interval, or from the least to the most where seeds are few."""
    mean, low, high = found.interval(arm, metric)
    low, high = (found.least(arm, metric), found.most(arm, metric)) if low is None or high is None else (low, high)
    return f"{mean:.3f} ({low:.3f} to {high:.3f})"


@claim(
    "Transformers predict splicing signals, of a donor and a branch point far from it",
    source="004, genomics",
    needs=["relative", "learned table"],
)
def judge_predict(found: Findings) -> Verdict:
    """Confirmed where .97 or more are right in every arm and seed, conditional where in some arms."""
    said = "right answers: " + ", ".join(f"{arm} {spread(found, arm, 'accuracy')}" for arm in TRAINED)
    good = [arm for arm in TRAINED if found.least(arm, "accuracy") >= 0.97]
    if len(good) == len(TRAINED):
        return Verdict("confirmed", said)
    return (
        Verdict("conditional", said, f"positions are told, here: {', '.join(good)}")
        if good
        else Verdict("refuted", said)
    )


@claim("Transformers predict splice sites of real DNA", source="004, genomics", needs=["junctions"])
def judge_junctions(found: Findings) -> Verdict:
    """Confirmed where .9 or more of held-out junctions are right in every seed (the most frequent class: .54)."""
    least, often = found.least("junctions", "accuracy"), found.mean("junctions", "most frequent")
    said = f"right classes {spread(found, 'junctions', 'accuracy')}; the most frequent one: {often:.3f}"
    return Verdict("confirmed" if least >= 0.9 else "refuted", said)


@claim("A query at the donor attends to the branch point's adenine", source="004, genomics", needs=["relative"])
def judge_looks(found: Findings) -> Verdict:
    """Confirmed where the places that see it get 4 times the attention of as many beside them, or more, in every seed."""
    pairs = zip(found.values("relative", "mass"), found.values("relative", "mass beside"), strict=True)
    ratio = min(one / other for one, other in pairs)
    said = f"{spread(found, 'relative', 'mass')} of a head's attention on 13 places, {spread(found, 'relative', 'mass beside')} on "
    said += f"the 13 beside them; at least {ratio:.1f} times, untrained {untrained(found):.2f} times"
    return Verdict("confirmed" if ratio >= 4 else "refuted", said)


def untrained(found: Findings) -> float:
    return found.mean("untrained", "mass") / found.mean("untrained", "mass beside")


@claim("The attention signal vanishes where the branch point is mutated", source="004, genomics", needs=["relative"])
def judge_vanishes(found: Findings) -> Verdict:
    """Confirmed where no more is left than twice what lies beside it."""
    left = [found.mean("relative", f"mass{what}") for what in ("", ", scrambled", " beside")]
    said = f"attention {left[0]:.3f} before, {left[1]:.3f} after the branch point is scrambled (-{100 * (1 - left[1] / left[0]):.0f} %); "
    said += f"beside it {left[2]:.3f}"
    return Verdict("confirmed" if left[1] <= 2 * left[2] else "refuted", said)


@claim(
    "In-silico mutagenesis shows that the answer hangs on donor and branch point",
    source="004, genomics",
    needs=["relative"],
)
def judge_cause(found: Findings) -> Verdict:
    """Confirmed where either mutation lowers the logit by 5 or more, and one of other letters changes it by .2 at most."""
    changes = {name: found.mean("relative", f"change, {name}") for name in ("branch", "donor", "decoys", "control")}
    said = "the logit changes by " + ", ".join(f"{value:.1f} ({name})" for name, value in changes.items())
    called = [found.mean("relative", metric) for metric in ("called", "called, branch")]
    said += f"; called functional: {called[0]:.2f}, without a branch point {called[1]:.2f}"
    still = max(abs(found.most("relative", "change, control")), abs(found.least("relative", "change, control")))
    moved = max(found.most("relative", f"change, {name}") for name in ("branch", "donor"))
    return Verdict("confirmed" if moved <= -5 and still <= 0.2 else "refuted", said)


def draw(found: Findings) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    profiles = found.curve("relative", "profile")
    for index, style, label in ((0, "-", "intact"), (1, ":", "scrambled")):
        lines = left.plot(range(-25, 26), profiles[:, index].T, style, color="black", lw=1)
        lines[0].set_label(label)
    left.axvspan(min(SEEN) - 0.5, max(SEEN) + 0.5, color="gainsboro", label="sees the motif")
    left.set(
        xlabel="letters from the branch point's adenine",
        ylabel="attention of the donor",
        title="relative, a line a seed",
    )
    left.legend(fontsize=8, loc="upper right")
    cases = ("branch", "donor", "decoys", "control")
    bars(middle, found, [("relative", f"change, {name}") for name in cases], list(cases))
    middle.set(xlabel="mean change of the logit", title="relative, by what is mutated")
    bars(right, found, [(arm, "accuracy") for arm in [*TRAINED, "junctions"]], [*TRAINED, "junctions (real)"])
    right.axvline(0.75, color="black", ls=":", lw=1)
    right.set(
        xlabel="right answers (the donor alone: .75, dotted)",
        xlim=(0, 1.02),
        title=f"mean, a dot a seed (n={len(profiles)})",
    )
    return figure


def bars(axes: Axes, found: Findings, rows: list[tuple[str, str]], names: list[str]) -> None:
    for row, cell in enumerate(rows):
        values = found.values(*cell)
        axes.barh(row, np.mean(values), color="lightgray", edgecolor="black")
        axes.plot(values, [row] * len(values), "k.", ms=6)
    axes.set(yticks=range(len(rows)), yticklabels=names)
    axes.invert_yaxis()


STUDY = Study(
    name="splicing",
    subject="Splicing: from the donor to the branch point",
    data="generated introns of 128 letters, half of them functional; real junctions (UCI), 60 letters",
    measure="right answers; attention on the 13 places that see the motif; change of the logit under mutation",
    smallest="4 times the attention beside it; 5 of the logit",
    arms={
        "relative": "a bias a distance",
        "learned table": "a vector a position",
        "none": "no positions",
        "untrained": "a bias a distance, not trained",
        "junctions": "a bias a distance; donor, acceptor or neither",
    },
    controls=[
        Control(
            says="without positions no more than .85 are right",
            arm="none",
            mechanism="relative",
            fails=lambda found: found.mean("none", "accuracy") <= 0.85,
        ),
        Control(
            says="untrained, the branch point gets .8 to 1.25 times the attention beside it",
            arm="untrained",
            mechanism="relative",
            fails=lambda found: 0.8 <= untrained(found) <= 1.25,
        ),
    ],
    claims=[
        judge_predict,
        judge_junctions,
        judge_looks,
        judge_vanishes,
        judge_cause,
    ],
    full=Budget(seeds=3, steps=1200, samples=4000),
    quick=Budget(seeds=2, steps=500, samples=4000),
    run=run,
    draw=draw,
    needs={"junctions": "data:splice"},
)
