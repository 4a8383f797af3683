"""Two motifs at a fixed offset, on either strand of DNA.

S(x; m1, m2, d) is the sum of k((j - i) - d) over all i with x_i = m1 and j with x_j = m2; k(t), the mean of cos(w t) over an
encoding's frequencies, is the inner product of E(i + d) and E(j). The other strand is read backwards: p becomes L-1-p, and every letter
its partner (A-T, C-G). Mirrored, an offset changes its sign, and changes it back where the motifs swap their roles: to swap them and
turn the sign is once too often. A longer motif's start becomes its end, which moves d by the difference of lengths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Generator, Tensor

from vnait.coordinates import Phase
from vnait.encodings import Harmonics, Sinusoid
from vnait.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LETTERS = "ACGT"  # a letter's partner is 3 - its number
LENGTH, WIDTH, OFFSET = 200, 64, 17
FIRST, SECOND = "TGAC", "GGCA"
OFFSETS = range(-30, 31)
TINY = 1e-10
AREAS = ("even", "geometric", "no offset")


def codes(places: Tensor, frequencies: str) -> Tensor:
    """E of places (N,): (N, WIDTH), float64, of norm 1."""
    at = places.double()[None, :, None]
    if frequencies == "even":  # multiples of 2 pi / WIDTH, up to pi
        added = Harmonics(dim=WIDTH)(Phase(periods=[WIDTH])(None, torch.ones(at.shape[:2], dtype=torch.bool), at)).added
    else:
        added = Sinusoid(dim=WIDTH)(at).added
    assert added is not None
    return added[0] / (WIDTH / 2) ** 0.5


def score(x: Tensor, first: Tensor, second: Tensor, offset: int, frequencies: str = "geometric") -> Tensor:
    """S of sequences x (N, L), by the motifs' starts: (N,)."""
    places = torch.arange(x.shape[1])
    kernel = codes(places + offset, frequencies) @ codes(places, frequencies).T
    return ((starts(x, first) @ kernel) * starts(x, second)).sum(1)


def starts(x: Tensor, motif: Tensor) -> Tensor:
    """1 where the motif starts, else 0: (N, L)."""
    found = (x.unfold(1, len(motif), 1) == motif).all(-1)
    return torch.nn.functional.pad(found, (0, len(motif) - 1)).double()


def reverse_complement(x: Tensor) -> Tensor:
    return 3 - x.flip(-1)


def letters(text: str) -> Tensor:
    return torch.tensor([LETTERS.index(letter) for letter in text])


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    random = Generator().manual_seed(seed)
    if arm == "letters":
        return strands(letters("A"), letters("G"), budget.samples, random)
    if arm == "motifs":
        return strands(letters("TG"), letters("GGCA"), budget.samples, random)
    return detection(arm, budget.samples, random)


def strands(first: Tensor, second: Tensor, count: int, random: Generator) -> Metrics:
    """The largest difference of scores on both strands, by what is asked of the second one; the last one isn't read backwards."""
    x = torch.randint(4, (count, LENGTH), generator=random)
    other, own = reverse_complement(x), score(x, first, second, OFFSET)
    mirrored, partner = reverse_complement(first), reverse_complement(second)
    longer = len(second) - len(first)
    asked = {
        "swapped, -d": score(other, partner, mirrored, -OFFSET),
        "swapped, +d": score(other, partner, mirrored, OFFSET),
        "swapped, +d + longer": score(other, partner, mirrored, OFFSET + longer),
        "not swapped, -d - longer": score(other, mirrored, partner, -OFFSET - longer),
        "letters complemented alone": score(other, 3 - second, 3 - first, OFFSET + longer),
        "not reversed, swapped, -d": score(3 - x, 3 - second, 3 - first, -OFFSET),
    }
    errors = {name: float((found - own).abs().max()) for name, found in asked.items()}
    return {**errors, "size": float(own.abs().median())}


def detection(arm: str, count: int, random: Generator) -> Metrics:
    """How well S tells pairs at the offset from pairs at another one, and from pairs the other way round; and S by the offset asked."""
    frequencies = "geometric" if arm == "geometric" else "even"
    first, second = letters(FIRST), letters(SECOND)
    others = torch.tensor([offset for offset in range(5, 49) if offset != OFFSET])
    right = planted(torch.full((count,), OFFSET), random)
    wrong = planted(others[torch.randint(len(others), (count,), generator=random)], random)
    turned = planted(torch.full((count,), -OFFSET), random)

    def found(x: Tensor, one: Tensor, other: Tensor, offset: int) -> Tensor:
        return score(x, one, other, 0 if arm == "no offset" else offset, frequencies)

    gram = codes(torch.arange(LENGTH), frequencies) @ codes(torch.arange(LENGTH), frequencies).T
    own, shown = found(right, first, second, OFFSET), right[:50]
    asked = OFFSETS if arm == "even" else []
    partners = reverse_complement(second), reverse_complement(first)
    return {
        "diagonals": max(float(gram.diagonal(offset).std()) for offset in range(LENGTH - 1)),
        "auc": area(own, found(wrong, first, second, OFFSET)),
        "auc_sign": area(own, found(turned, first, second, OFFSET)),
        "strand": [float(found(shown, first, second, offset).mean()) for offset in asked],
        "other_strand": [float(found(reverse_complement(shown), *partners, offset).mean()) for offset in asked],
    }


def planted(offsets: Tensor, random: Generator) -> Tensor:
    """Random letters (N, LENGTH) with both motifs put in once, the second's start `offsets` (N,) after the first's."""
    x = torch.randint(4, (len(offsets), LENGTH), generator=random)
    room = LENGTH - len(SECOND) - offsets.abs()
    left = (torch.rand(len(offsets), generator=random) * room).long()
    for motif, start in ((FIRST, left + (-offsets).clamp(min=0)), (SECOND, left + offsets.clamp(min=0))):
        at = start[:, None] + torch.arange(len(motif))
        x.scatter_(1, at, letters(motif).expand(len(offsets), -1))
    return x


def area(right: Tensor, wrong: Tensor) -> float:
    """Under the ROC curve: how often a right one scores more."""
    truth = [1] * len(right) + [0] * len(wrong)
    return float(roc_auc_score(truth, torch.cat([right, wrong])))


@claim("E(p) can be made so that E(i).E(j) hangs on j - i alone", source="004, genomics")
def judge_relative(found: Findings) -> Verdict:
    """Confirmed where, for either set of frequencies, no diagonal of the Gram matrix varies by more than 1e-11."""
    worst = max(found.most(arm, "diagonals") for arm in ("geometric", "even"))
    return Verdict(
        "confirmed" if worst <= 1e-11 else "refuted",
        f"E(i).E(j) has a standard deviation of {worst:.0e} along a diagonal, at most",
    )


@claim(
    "S(x; m1, m2, d) = S(xbar; m2bar, m1bar, -d) on the reverse complement xbar",
    source="004, genomics",
    rule=f"confirmed where single letters' scores differ by {TINY:.0e} at most",
)
def judge_document(found: Findings) -> Verdict:
    missed, size = found.most("letters", "swapped, -d"), found.mean("letters", "size")
    plain = found.most("letters", "not reversed, swapped, -d")
    said = f"it misses by up to {missed:.0f} (median |S| {size:.0f}); it is right to {plain:.0e} of a strand that is not read backwards"
    return Verdict("confirmed" if missed <= TINY else "refuted", said)


@claim("The score can be made the same on both strands", source="004, genomics")
def judge_strands(found: Findings) -> Verdict:
    """Confirmed where it is, with motifs swapped and d as it is; conditional where motifs of several letters need more."""
    law = max(found.most(arm, "swapped, +d + longer") for arm in ("letters", "motifs"))
    other = max(found.most(arm, "not swapped, -d - longer") for arm in ("letters", "motifs"))
    plain, alone = found.least("motifs", "swapped, +d"), found.least("motifs", "letters complemented alone")
    said = f"error {max(law, other):.0e}; without the lengths {plain:.1f}, with motifs not read backwards {alone:.0f}"
    if max(law, other) > TINY:
        return Verdict("refuted", said)
    right = "motifs read backwards too, and d + len(m2) - len(m1) for swapped motifs, or its negative for motifs that keep their places"
    return Verdict("confirmed", said) if plain <= TINY and alone <= TINY else Verdict("conditional", said, right)


@claim(
    "A weighted sum over pairs detects two motifs at a fixed offset",
    source="004, genomics",
    rule=f"confirmed where the area is .9 or more for every set of frequencies, against other offsets and against -{OFFSET}",
)
def judge_detected(found: Findings) -> Verdict:
    areas = {arm: min(found.mean(arm, "auc"), found.mean(arm, "auc_sign")) for arm in ("even", "geometric")}
    said = "; ".join(
        f"{arm}: {found.mean(arm, 'auc'):.2f} against other offsets, {found.mean(arm, 'auc_sign'):.2f} against -{OFFSET}"
        for arm in AREAS
    )
    good = [arm for arm, value in areas.items() if value >= 0.9]
    if len(good) == len(areas):
        return Verdict("confirmed", said)
    return (
        Verdict("conditional", said, f"the frequencies are {' or '.join(good)}") if good else Verdict("refuted", said)
    )


def draw(found: Findings) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    left.plot(OFFSETS, found.curve("even", "other_strand").mean(0), color="silver", lw=5, label="other strand, swapped")
    left.plot(OFFSETS, found.curve("even", "strand").mean(0), color="black", lw=1.2, label="a strand, $m_1$ then $m_2$")
    left.axvline(-OFFSET, 0, 0.7, color="black", ls="--", lw=0.8, label="the document's d for the other")
    left.set(
        xlabel="offset d asked for (bases)",
        ylabel="mean score S",
        title=f"pairs at {OFFSET}, even frequencies",
        ylim=(-0.2, 1.7),
    )
    left.legend(loc="upper left", fontsize=8)
    for shift, color, metric, label in (
        (-0.2, "lightgray", "auc", "other offsets"),
        (0.2, "dimgray", "auc_sign", f"offset -{OFFSET}"),
    ):
        values = np.array([found.values(arm, metric) for arm in AREAS])
        rows = np.arange(len(AREAS)) + shift
        right.barh(rows, values.mean(1), 0.4, color=color, edgecolor="black", label=f"against {label}")
        right.plot(values, rows[:, None].repeat(values.shape[1], 1), "k.", ms=4)
    right.axvline(0.5, color="black", ls=":", lw=1)
    right.set(yticks=range(len(AREAS)), yticklabels=AREAS, xlim=(0, 1), ylim=(3.6, -0.6))
    right.set(xlabel="area under the ROC curve, chance dotted", title=f"mean, a dot a seed (n={values.shape[1]})")
    right.legend(loc="lower center", fontsize=8, ncols=2)
    return figure


STUDY = Study(
    name="motifs",
    subject="Two motifs at a fixed offset, on both strands of DNA",
    data=f"generated: random letters of length {LENGTH}; {FIRST} and {SECOND}, starts {OFFSET} apart, put into them",
    measure="largest difference of two strands' scores (float64); area under the ROC curve, chance .5",
    smallest=f"{TINY:.0e} for an identity; .1 of area",
    arms={
        "letters": "random letters, motifs A and G",
        "motifs": "random letters, motifs TG and GGCA",
        "even": f"frequencies 2 pi k / {WIDTH}, k = 1 ... {WIDTH // 2}",
        "geometric": f"frequencies 10000^(-2k/{WIDTH}), the standard table's",
        "no offset": "even frequencies, E(i).E(j) without d",
    },
    controls=[
        Control(
            says="without d in the score, areas of .6 at most",
            arm="no offset",
            mechanism="even",
            fails=lambda found: max(found.mean("no offset", metric) for metric in ("auc", "auc_sign")) <= 0.6,
        )
    ],
    claims=[
        judge_relative,
        judge_document,
        judge_strands,
        judge_detected,
    ],
    full=Budget(seeds=3, samples=1000),
    quick=Budget(seeds=2, samples=500),
    run=run,
    draw=draw,
)
