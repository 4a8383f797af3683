"""Two motifs at a fixed offset, on either strand of DNA.

S(x; m1, m2, d) is the sum of k((j - i) - d) over all i with x_i = m1 and j with x_j = m2; k(t), the mean of cos(w t) over an
encoding's frequencies, is the inner product of E(i + d) and E(j). The other strand is read backwards: p becomes L-1-p, and every letter
its partner (A-T, C-G). Mirrored, an offset changes its sign, and changes it back where the motifs swap their roles: to swap them and
turn the sign is once too often. A longer motif's start becomes its end, which moves d by the difference of lengths.
"""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from sklearn.metrics import roc_auc_score
from torch import Generator, Tensor

from vnait.coordinates import Phase
from vnait.encodings import Harmonics, Sinusoid
from vnait.studies.figures import bands, bars, panels
from vnait.studies.parts.dna import letters, planted, reverse_complement, starts
from vnait.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

LENGTH, WIDTH, OFFSET = 200, 64, 17
FIRST, SECOND = "TGAC", "GGCA"
OFFSETS = range(-30, 31)
TINY = 1e-10
EXACT = {"letters": ("A", "G"), "motifs": ("TG", "GGCA")}
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


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    random = Generator().manual_seed(seed)
    if arm in EXACT:
        first, second = map(letters, EXACT[arm])
        return strands(first, second, budget.samples, random)
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
        "letters complemented alone": score(other, 3 - second, 3 - first, OFFSET + longer),  # 3 - a letter: its partner
        "not reversed, swapped, -d": score(3 - x, 3 - second, 3 - first, -OFFSET),
    }
    errors = {name: float((found - own).abs().max()) for name, found in asked.items()}
    return {**errors, "size": float(own.abs().median())}


def detection(arm: str, count: int, random: Generator) -> Metrics:
    """How well S tells pairs at the offset from pairs at another one, and from pairs the other way round; and S by the offset asked."""
    frequencies = "geometric" if arm == "geometric" else "even"
    first, second = letters(FIRST), letters(SECOND)
    others = torch.tensor([offset for offset in range(5, 49) if offset != OFFSET])
    right = planted(first, second, torch.full((count,), OFFSET), LENGTH, random)
    wrong = planted(first, second, others[torch.randint(len(others), (count,), generator=random)], LENGTH, random)
    turned = planted(first, second, torch.full((count,), -OFFSET), LENGTH, random)

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


def area(right: Tensor, wrong: Tensor) -> float:
    """Under the ROC curve: how often a right one scores more."""
    truth = [1] * len(right) + [0] * len(wrong)
    return float(roc_auc_score(truth, torch.cat([right, wrong])))


@claim("E(p) can be made so that E(i).E(j) hangs on j - i alone", source="004, genomics")
def judge_relative(found: Findings) -> Verdict:
    """Confirmed where, for either set of frequencies, no diagonal of the Gram matrix varies by more than 1e-11."""
    worst = max(found.most(arm, "diagonals") for arm in ("geometric", "even"))
    said = f"E(i).E(j) has a standard deviation of {worst:.0e} along a diagonal, at most"
    return Verdict("confirmed" if worst <= 1e-11 else "refuted", said)


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
    error = max(found.most(arm, law) for arm in EXACT for law in ("swapped, +d + longer", "not swapped, -d - longer"))
    plain, alone = found.least("motifs", "swapped, +d"), found.least("motifs", "letters complemented alone")
    said = f"error {error:.0e}; without the lengths {plain:.1f}, with motifs not read backwards {alone:.0f}"
    if error > TINY:
        return Verdict("refuted", said)
    right = "motifs read backwards too, and d + len(m2) - len(m1) for swapped motifs, or its negative for motifs that keep their places"
    return Verdict("confirmed", said) if plain <= TINY and alone <= TINY else Verdict("conditional", said, right)


@claim(
    "A weighted sum over pairs detects two motifs at a fixed offset",
    source="004, genomics",
    rule=f"confirmed where the area is .9 or more for every set of frequencies, against other offsets and against -{OFFSET}",
)
def judge_detected(found: Findings) -> Verdict:
    auc = {arm: (found.mean(arm, "auc"), found.mean(arm, "auc_sign")) for arm in AREAS}
    said = [
        f"{arm}: {away:.2f} against other offsets, {sign:.2f} against -{OFFSET}" for arm, (away, sign) in auc.items()
    ]
    every = ("even", "geometric")
    good = [arm for arm in every if min(auc[arm]) >= 0.9]
    return Verdict.among(good, every, "; ".join(said), f"the frequencies are {' or '.join(good)}")


def draw(found: Findings) -> Figure:
    figure, (left, right) = panels(3, 2, size=(10, 3.4))
    # One over the other, as they are the same.
    other, own = found.curve("even", "other_strand"), found.curve("even", "strand")
    bands(left, OFFSETS, {"other strand, swapped": other}, color="silver", lw=5, marker="")
    bands(left, OFFSETS, {"a strand, $m_1$ then $m_2$": own}, ls="-", marker="")
    left.axvline(-OFFSET, 0, 0.7, color="black", ls="--", lw=1, label="the document's d for the other")
    left.set(xlabel="offset d asked for (bases)", ylabel="mean score S", ylim=(-0.2, 1.7))
    left.set_title(f"pairs at {OFFSET}, even frequencies; mean and range over seeds")
    left.legend(loc="upper left")
    against = {"other offsets": "auc", f"offset -{OFFSET}": "auc_sign"}
    areas = {f"against {name}": [found.values(arm, metric) for arm in AREAS] for name, metric in against.items()}
    bars(right, AREAS, areas, across=True)
    right.axvline(0.5, color="black", ls=":", lw=1)
    right.set(xlim=(0, 1), ylim=(3.6, -0.6), xlabel="area under the ROC curve, chance dotted")
    right.set_title(f"mean, a dot a seed (n={len(found.values('even', 'auc'))})")
    right.legend(loc="lower center", ncols=2)
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
    claims=[judge_relative, judge_document, judge_strands, judge_detected],
    full=Budget(seeds=3, samples=1000),
    quick=Budget(seeds=2, samples=500),
    run=run,
    draw=draw,
)
