"""Two motifs at a fixed offset, on both strands of DNA.

S(x; m1, m2, d) is the sum of k((j - i) - d) over all i with x_i = m1 and j with x_j = m2; k(t), the mean of
cos(w t) over an encoding's frequencies, is the inner product of E(i + d) and E(j). The other strand is read
backwards: p becomes L-1-p, and every letter its complement (A-T, C-G). The reversal changes the sign of an
offset, and swapping the roles of the motifs changes it back, so the document, which swaps the motifs and
negates d, negates once too often. The start of a longer motif becomes its end, which shifts d by the
difference of lengths.
"""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from sklearn.metrics import roc_auc_score
from torch import Generator, Tensor

from vnait.positions.coordinates import Phase
from vnait.positions.encodings import Harmonics, Sinusoid
from vnait_lab.studies.figures import bands, bars, panels
from vnait_lab.studies.parts.dna import letters, planted, reverse_complement, starts
from vnait_lab.study import Budget, Control, Findings, Metrics, Study, Verdict, claim

LENGTH, WIDTH = 200, 64
OFFSET = 17  # not 0, at which a formula with the wrong sign of the offset is right, too
FIRST, SECOND = "TGAC", "GGCA"
OFFSETS = range(-30, 31)
TINY = 1e-10
EXACT = {"letters": ("A", "G"), "motifs": ("TG", "GGCA")}
AREAS = ("even", "geometric", "no offset")


def codes(places: Tensor, frequencies: str) -> Tensor:
    """E of positions (N,): (N, WIDTH), float64, of norm 1."""
    at = places.double()[None, :, None]
    if frequencies == "even":  # multiples of 2 pi / WIDTH, up to pi
        phase = Phase(periods=[WIDTH])(None, torch.ones(at.shape[:2], dtype=torch.bool), at)
        added = Harmonics(dim=WIDTH)(phase).added
    else:
        added = Sinusoid(dim=WIDTH)(at).added
    assert added is not None
    return added[0] / (WIDTH / 2) ** 0.5


def score(x: Tensor, first: Tensor, second: Tensor, offset: int, frequencies: str = "geometric") -> Tensor:
    """S (N,) of sequences x (N, L), with motifs located by their starts."""
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
    """The largest difference between the two strands' scores, by the score that is taken on the second one.

    In the last case the second strand is complemented, but not reversed.
    """
    x = torch.randint(4, (count, LENGTH), generator=random)
    other = reverse_complement(x)
    own = score(x, first, second, OFFSET)
    mirrored, partner = reverse_complement(first), reverse_complement(second)
    longer = len(second) - len(first)
    # 3 - a letter is its complement.
    scores = {
        "swapped, -d": score(other, partner, mirrored, -OFFSET),
        "swapped, +d": score(other, partner, mirrored, OFFSET),
        "swapped, +d + longer": score(other, partner, mirrored, OFFSET + longer),
        "not swapped, -d - longer": score(other, mirrored, partner, -OFFSET - longer),
        "letters complemented alone": score(other, 3 - second, 3 - first, OFFSET + longer),
        "not reversed, swapped, -d": score(3 - x, 3 - second, 3 - first, -OFFSET),
    }
    errors = {name: float((found - own).abs().max()) for name, found in scores.items()}
    return {**errors, "size": float(own.abs().median())}


def detection(arm: str, count: int, random: Generator) -> Metrics:
    """AUC of S for pairs at the offset against other offsets and against the reversed order; S by offset."""
    frequencies = "geometric" if arm == "geometric" else "even"
    first, second = letters(FIRST), letters(SECOND)
    others = torch.tensor([offset for offset in range(5, 49) if offset != OFFSET])
    right = planted(first, second, torch.full((count,), OFFSET), LENGTH, random)
    drawn = others[torch.randint(len(others), (count,), generator=random)]
    wrong = planted(first, second, drawn, LENGTH, random)
    reversed_pairs = planted(first, second, torch.full((count,), -OFFSET), LENGTH, random)

    def found(x: Tensor, before: Tensor, after: Tensor, offset: int) -> Tensor:
        return score(x, before, after, 0 if arm == "no offset" else offset, frequencies)

    gram = codes(torch.arange(LENGTH), frequencies) @ codes(torch.arange(LENGTH), frequencies).T
    own = found(right, first, second, OFFSET)
    shown = right[:50]
    offsets = OFFSETS if arm == "even" else []
    partners = reverse_complement(second), reverse_complement(first)
    return {
        "diagonals": max(float(gram.diagonal(offset).std()) for offset in range(LENGTH - 1)),
        "auc": area(own, found(wrong, first, second, OFFSET)),
        "auc_sign": area(own, found(reversed_pairs, first, second, OFFSET)),
        "strand": [float(found(shown, first, second, offset).mean()) for offset in offsets],
        "other_strand": [
            float(found(reverse_complement(shown), *partners, offset).mean()) for offset in offsets
        ],
    }


def area(right: Tensor, wrong: Tensor) -> float:
    """The area under the ROC curve of right against wrong pairs."""
    truth = [1] * len(right) + [0] * len(wrong)
    return float(roc_auc_score(truth, torch.cat([right, wrong])))


@claim("E(p) can be made so that E(i).E(j) depends on j - i alone", source="004, motif pairs")
def judge_relative(found: Findings) -> Verdict:
    """Confirmed if, for both sets of frequencies, no diagonal of the Gram matrix has a standard deviation
    above 1e-11.
    """
    worst = max(found.most(arm, "diagonals") for arm in ("geometric", "even"))
    summary = f"E(i).E(j) has a standard deviation of {worst:.0e} along a diagonal, at most"
    return Verdict("confirmed" if worst <= 1e-11 else "refuted", summary)


@claim(
    "S(x; m1, m2, d) = S(xbar; m2bar, m1bar, -d) on the reverse complement xbar",
    source="004, motif pairs",
    rule=f"confirmed if the scores of single letters differ by at most {TINY:.0e}",
)
def judge_document(found: Findings) -> Verdict:
    missed, size = found.most("letters", "swapped, -d"), found.mean("letters", "size")
    plain = found.most("letters", "not reversed, swapped, -d")
    summary = f"they differ by up to {missed:.0f} (median |S| {size:.0f}); on a strand that is complemented, "
    summary += f"but not reversed, they agree to {plain:.0e}"
    return Verdict("confirmed" if missed <= TINY else "refuted", summary)


@claim("The score can be made the same on both strands", source="004, motif pairs")
def judge_strands(found: Findings) -> Verdict:
    """Confirmed if it is with swapped motifs and the same d; conditional if motifs of several letters need
    more.
    """
    laws = ("swapped, +d + longer", "not swapped, -d - longer")
    error = max(found.most(arm, law) for arm in EXACT for law in laws)
    plain, alone = found.least("motifs", "swapped, +d"), found.least("motifs", "letters complemented alone")
    summary = f"error {error:.0e}; without the difference of lengths {plain:.1f}, "
    summary += f"without reversed motifs {alone:.0f}"
    if error > TINY:
        return Verdict("refuted", summary)
    if max(plain, alone) <= TINY:
        return Verdict("confirmed", summary)
    condition = "motifs are reversed too, and d becomes d + len(m2) - len(m1) if they are swapped, or its "
    condition += "negative if they are not"
    return Verdict("conditional", summary, condition)


@claim(
    "A weighted sum over pairs detects two motifs at a fixed offset",
    source="004, motif pairs",
    rule="confirmed if the area is .9 or more for both sets of frequencies, against other offsets and "
    f"against -{OFFSET}",
)
def judge_detected(found: Findings) -> Verdict:
    auc = {arm: (found.mean(arm, "auc"), found.mean(arm, "auc_sign")) for arm in AREAS}
    summary = [
        f"{arm}: {away:.2f} against other offsets, {sign:.2f} against -{OFFSET}"
        for arm, (away, sign) in auc.items()
    ]
    every = ("even", "geometric")
    good = [arm for arm in every if min(auc[arm]) >= 0.9]
    return Verdict.among(good, every, "; ".join(summary), f"the frequencies are {' or '.join(good)}")


def draw(found: Findings) -> Figure:
    figure, (left, right) = panels(3, 2, size=(10, 3.4))
    # The curves coincide, so the first is drawn wide below the second.
    other, own = found.curve("even", "other_strand"), found.curve("even", "strand")
    bands(left, OFFSETS, {"other strand, swapped": other}, color="silver", lw=5, marker="")
    bands(left, OFFSETS, {"a strand, $m_1$ then $m_2$": own}, ls="-", marker="")
    left.axvline(-OFFSET, 0, 0.7, color="black", ls="--", lw=1, label="the document's d for the other strand")
    left.set(xlabel="offset d of the score (bases)", ylabel="mean score S", ylim=(-0.2, 1.7))
    left.set_title(f"pairs at {OFFSET}, even frequencies; mean and range over seeds")
    left.legend(loc="upper left")
    against = {"other offsets": "auc", f"offset -{OFFSET}": "auc_sign"}
    areas = {
        f"against {name}": [found.values(arm, metric) for arm in AREAS] for name, metric in against.items()
    }
    bars(right, AREAS, areas, across=True)
    right.axvline(0.5, color="black", ls=":", lw=1)
    right.set(xlim=(0, 1), ylim=(3.6, -0.6), xlabel="area under the ROC curve, chance dotted")
    right.set_title(f"mean, one dot per seed (n={len(found.values('even', 'auc'))})")
    right.legend(loc="lower center", ncols=2)
    return figure


STUDY = Study(
    name="motifs",
    subject="Two motifs at a fixed offset, on both strands of DNA",
    data=f"generated: {LENGTH} random letters, with {FIRST} and {SECOND} planted, starts {OFFSET} apart",
    measure="largest difference between the strands' scores (float64); area under the ROC curve, chance .5",
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
            statement="without d in the score areas are at most .6",
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
