"""Alignments made by hand, of real translations: where a prior towards the diagonal helps an aligner, and where it misleads.

In sentences of unlike lengths I and J, i / I and j / J stand for the places i and j. An aligner that knows words alone (IBM model 1,
learned by EM on the sentences themselves) is held against itself with the prior exp(-lambda |i/I - j/J|) of fast_align (Dyer et al.
2013). English and French go on together; a Japanese verb stands at the end, and its English one does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vnait.studies.figures import panels
from vnait.studies.parts.links import Cells, read
from vnait.study import Budget, Control, Findings, Metrics, Study, Verdict, claim, data_folder

PRIORS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)
SOURCE = "004, multilingual models and word alignment"
USUAL = 4.0  # fast_align's own lambda: taken as it is, tuned on nothing here
CORPORA = {"en-fr": "wordalign_enfr", "ja-en": "wordalign_jaen"}


def run(arm: str, seed: int, budget: Budget) -> Metrics:
    """Alignment errors at every lambda, their differences to lambda 0 and the links' distances, with 95 % intervals over sentences."""
    cells = Cells(read(data_folder(CORPORA[arm])))
    counts = [cells.scored(weight) for weight in PRIORS]
    shares = np.full(cells.sentences, 1 / cells.sentences)
    draws = np.random.default_rng(seed).multinomial(cells.sentences, shares, budget.samples)
    draws = np.vstack([np.ones(cells.sentences), draws])  # the first one is the sample itself
    errors = np.array([1 - hits @ draws.T / (made @ draws.T) for hits, made in counts])
    gold, chance = (values @ draws.T / (weights @ draws.T) for values, weights in cells.distances())
    ranges = {"gain": errors[0] - errors, "gold": gold[None], "chance": chance[None]}
    found: Metrics = {"sentences": float(cells.sentences), "error": errors[:, 0].tolist()}
    for name, values in ranges.items():
        found[name] = [[row[0], *np.quantile(row[1:], [0.025, 0.975])] for row in values.tolist()]
    return found


def gained(found: Findings, arm: str) -> str:
    error, gain = found.curve(arm, "error")[0], found.curve(arm, "gain")[0]
    usual = PRIORS.index(USUAL)
    said = (
        f"alignment error {error[0]:.3f} to {error[usual]:.3f} at lambda {USUAL:g}; it falls by {show(gain[usual])}; "
    )
    said += ", ".join(f"{row[0]:+.3f} at {weight:g}" for row, weight in zip(gain, PRIORS, strict=True) if weight)
    return f"{said} ({found.mean(arm, 'sentences'):.0f} sentences)"


def show(row: np.ndarray) -> str:
    return f"{row[0]:.3f} [{row[1]:.3f}, {row[2]:.3f}]"


@claim(
    "On English-French the bias helps",
    source=SOURCE,
    needs=["en-fr"],
    rule=f"confirmed where the error falls at lambda {USUAL:g}, its interval without 0",
)
def judge_helps(found: Findings) -> Verdict:
    low = found.curve("en-fr", "gain")[0, PRIORS.index(USUAL), 1]
    return Verdict("confirmed" if low > 0 else "refuted", gained(found, "en-fr"))


@claim(
    "On Japanese-English the bias misleads",
    source=SOURCE,
    needs=["ja-en"],
    rule=f"confirmed where the error rises at lambda {USUAL:g}, its interval without 0; conditional where at another lambda",
)
def judge_misleads(found: Findings) -> Verdict:
    high, said = found.curve("ja-en", "gain")[0, :, 2], gained(found, "ja-en")
    if high[PRIORS.index(USUAL)] < 0:
        return Verdict("confirmed", said)
    worse = [weight for weight, bound in zip(PRIORS, high, strict=True) if bound < 0]
    return Verdict("conditional", said, f"lambda >= {min(worse):g}") if worse else Verdict("refuted", said)


@claim("Translations between Indo-European languages are near monotone", source=SOURCE, needs=["en-fr", "ja-en"])
def judge_diagonal(found: Findings) -> Verdict:
    """Confirmed where en-fr links are nearer to the diagonal than half of chance, and than ja-en's (intervals apart)."""
    near, far, chance = (found.curve(*of)[0, 0] for of in [("en-fr", "gold"), ("ja-en", "gold"), ("en-fr", "chance")])
    said = f"mean |i/I - j/J| of sure links: en-fr {show(near)}, ja-en {show(far)}; "
    said += f"of all pairs of words {chance[0]:.3f}"
    return Verdict("confirmed" if near[2] < min(far[1], chance[0] / 2) else "refuted", said)


def draw(found: Findings) -> Figure:
    figure, (left, right) = panels(2, 1)
    for arm in CORPORA:
        bounded(left, found.curve(arm, "gain")[0], label=f"{arm} (n={found.mean(arm, 'sentences'):.0f} sentences)")
    left.axhline(0, color="gray", lw=1)
    left.set_xticks(range(len(PRIORS)), [f"{weight:g}" for weight in PRIORS])
    left.set(xlabel="lambda of exp(-lambda |i/I - j/J|)", ylabel="fall of the alignment error rate")
    left.set_title("95 % intervals over sentences")
    for metric, label in {"gold": "sure links", "chance": "all pairs of words"}.items():
        bounded(right, np.array([found.curve(arm, metric)[0, 0] for arm in CORPORA]), label=label, ls="")
    right.set_xticks(range(len(CORPORA)), list(CORPORA))
    right.set(ylabel="mean |i/I - j/J|", xlim=(-0.5, 1.5), ylim=(0, 0.45), title="distance from the diagonal")
    for panel in (left, right):
        panel.legend()
    return figure


def bounded(axes: Axes, rows: np.ndarray, **look: Any) -> None:
    """Points with intervals: a row is a mean, its lower and its upper bound."""
    axes.errorbar(range(len(rows)), rows[:, 0], np.abs(rows[:, 1:] - rows[:, :1]).T, capsize=3, **look)


STUDY = Study(
    name="gold_alignment",
    subject="Word alignments made by hand: where a prior towards the diagonal helps, and where it misleads",
    data="hand-made links of English-French Hansards and Japanese-English KFTT",
    measure="alignment error rate of IBM model 1, target words to source words; distance of sure links from the diagonal",
    smallest="an interval over sentences without 0",
    arms={arm: f"IBM model 1 on {folder}, 5 rounds, priors {PRIORS}" for arm, folder in CORPORA.items()},
    needs={arm: f"data:{folder}" for arm, folder in CORPORA.items()},
    controls=[
        Control(
            says="Japanese-English links, of another order of words, are farther from the diagonal than half of chance",
            arm="ja-en",
            mechanism="en-fr",
            fails=lambda found: found.curve("ja-en", "gold")[0, 0, 1] > found.curve("ja-en", "chance")[0, 0, 0] / 2,
        )
    ],
    claims=[judge_diagonal, judge_helps, judge_misleads],
    full=Budget(samples=2000),
    quick=Budget(samples=2000),
    run=run,
    draw=draw,
)
