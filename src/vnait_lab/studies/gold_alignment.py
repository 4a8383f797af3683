"""Gold word alignments: when a prior towards the diagonal helps, and when it misleads.

In sentences of different lengths I and J, positions i and j become i / I and j / J. An aligner that uses
words alone (IBM model 1, learned by EM on the same sentences) is compared with itself under the prior
exp(-lambda |i/I - j/J|) of fast_align (Dyer et al. 2013). English and French have a similar word order; a
Japanese verb comes at the end of its clause, an English one does not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from vnait_lab.kit import Figure, decided
from vnait_lab.studies.figures import panels
from vnait_lab.study import Budget, Findings, Metrics, Study, Verdict, data_folder

NULL = 0.08  # the prior of a word without a partner, as in fast_align (Dyer et al. 2013)
ROUNDS = 5  # of EM
PRIORS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)
USUAL = 4.0  # fast_align's default, not tuned here
CORPORA = {"en-fr": "wordalign_enfr", "ja-en": "wordalign_jaen"}
STUDY = Study.of(
    __name__,
    source="004, multilingual models and word alignment",
    data="gold links of English-French Hansards and Japanese-English KFTT",
    measure="alignment error rate of IBM model 1, target words to source words; distance of sure links from "
    "the diagonal",
    smallest="an interval over sentences that excludes 0",
    variants={
        name: f"IBM model 1 on {folder}, {ROUNDS} rounds, priors {PRIORS}" for name, folder in CORPORA.items()
    },
    full=Budget(samples=2000),
    quick=Budget(samples=2000),
    needs={name: f"data:{folder}" for name, folder in CORPORA.items()},
)


def read(folder: Path) -> pd.DataFrame:
    """Distinct sentence pairs (source, target, alignment); links are i-j if sure, ipj if possible, from 1."""
    return pd.read_csv(next(folder.glob("*.tsv")), sep="\t", quoting=3).drop_duplicates()


class Cells:
    """All pairs of a target word and a source word (0: none) of all sentences, as one array per attribute.

    A row is a target word: its pairs with the source words 0 ... I are adjacent.

    away    |i/I - j/J|, counted from 1
    gold    2 for a sure link, 1 for a possible one, 0 for none

    >>> Cells(pd.DataFrame({"source": ["a b"], "target": ["x y"], "alignment": ["1-1 2p2"]})).gold.tolist()
    [0.0, 2.0, 0.0, 0.0, 0.0, 1.0]
    """

    def __init__(self, pairs: pd.DataFrame) -> None:
        lines = []
        for number, (source, target, links) in enumerate(pairs.itertuples(index=False)):
            rows, columns = len(target.split()), len(source.split())
            at, to = np.divmod(np.arange(rows * (columns + 1)), columns + 1)
            gold = np.zeros((rows + 1, columns + 1))
            for link in links.split():
                i, j = map(int, link.replace("p", "-").split("-"))
                if i <= columns and j <= rows:
                    gold[j, i] = 2 if "-" in link else 1
            away = np.abs(to / columns - (at + 1) / rows)
            words = np.array(["", *source.split()])[to], np.array(target.split())[at]
            lines.append((np.full(len(at), number), at, to, away, gold[at + 1, to], *words))
        self.sentence, at, self.to, self.away, self.gold, source_word, target_word = map(
            np.concatenate, zip(*lines, strict=True)
        )
        self.sentences = len(pairs)
        self.start = np.flatnonzero(self.to == 0)
        self.row = np.repeat(np.arange(len(self.start)), np.diff([*self.start, len(self.to)]))
        self.word = np.unique(source_word, return_inverse=True)[1]
        joint = self.word * (len(target_word) + 1) + np.unique(target_word, return_inverse=True)[1]
        self.pair = np.unique(joint, return_inverse=True)[1]

    def posterior(self, weight: float) -> np.ndarray:
        """P(source position | target word) of IBM model 1 with the prior exp(-weight * away), after EM."""
        prior = np.where(self.to > 0, np.exp(-weight * self.away), 0.0)
        prior = np.where(self.to > 0, (1 - NULL) * prior / self._sum(prior), NULL)
        share = prior
        for _ in range(ROUNDS):
            table = np.bincount(self.pair, share)[self.pair] / np.bincount(self.word, share)[self.word]
            share = table * prior
            share = share / self._sum(share)
        return share

    def _sum(self, values: np.ndarray) -> np.ndarray:
        """The sum over each row, repeated for its pairs."""
        return np.add.reduceat(values, self.start)[self.row]

    def scored(self, weight: float) -> tuple[np.ndarray, np.ndarray]:
        """|A and S| + |A and P|, and |A| + |S|, per sentence: the alignment error rate is 1 - their ratio."""
        share = self.posterior(weight)
        best = (share == np.maximum.reduceat(share, self.start)[self.row]) & (self.to > 0)
        hits = best * ((self.gold == 2).astype(float) + (self.gold > 0))
        made = best.astype(float) + (self.gold == 2)
        return np.bincount(self.sentence, hits), np.bincount(self.sentence, made)

    def distances(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Per sentence the sum of |i/I - j/J| and the number of terms: for sure links, and for all pairs of
        words.
        """
        kinds = [(self.gold == 2).astype(float), (self.to > 0).astype(float)]
        return [
            (np.bincount(self.sentence, self.away * kind), np.bincount(self.sentence, kind)) for kind in kinds
        ]


@STUDY.runs
def run(variant: str, seed: int, budget: Budget) -> Metrics:
    """Alignment errors at every lambda, their gains over lambda 0 and the links' distances, with bootstrap
    95 % intervals over sentences.
    """
    cells = Cells(read(data_folder(CORPORA[variant])))
    counts = [cells.scored(weight) for weight in PRIORS]
    shares = np.full(cells.sentences, 1 / cells.sentences)
    draws = np.random.default_rng(seed).multinomial(cells.sentences, shares, budget.samples)
    draws = np.vstack([np.ones(cells.sentences), draws])  # the first row is the sample itself
    errors = np.array([1 - hits @ draws.T / (made @ draws.T) for hits, made in counts])
    gold, chance = (values @ draws.T / (weights @ draws.T) for values, weights in cells.distances())
    ranges = {"gain": errors[0] - errors, "gold": gold[None], "chance": chance[None]}
    metrics: Metrics = {"sentences": float(cells.sentences), "error": errors[:, 0].tolist()}
    for name, values in ranges.items():
        metrics[name] = [[row[0], *np.quantile(row[1:], [0.025, 0.975])] for row in values.tolist()]
    return metrics


def gained(findings: Findings, variant: str) -> str:
    error, gain = findings.curve(variant, "error")[0], findings.curve(variant, "gain")[0]
    usual = PRIORS.index(USUAL)
    summary = f"alignment error {error[0]:.3f} to {error[usual]:.3f} at lambda {USUAL:g}, "
    summary += f"a gain of {show(gain[usual])}; gains: "
    summary += ", ".join(
        f"{row[0]:+.3f} at {weight:g}" for row, weight in zip(gain, PRIORS, strict=True) if weight
    )
    return f"{summary} ({findings.mean(variant, 'sentences'):.0f} sentences)"


def show(row: np.ndarray) -> str:
    return f"{row[0]:.3f} [{row[1]:.3f}, {row[2]:.3f}]"


@STUDY.control(
    "Japanese-English links, between different word orders, are farther from the diagonal "
    "than half of chance",
    variant="ja-en",
    mechanism="en-fr",
)
def japanese_is_far(findings: Findings) -> bool:
    return findings.curve("ja-en", "gold")[0, 0, 1] > findings.curve("ja-en", "chance")[0, 0, 0] / 2


@STUDY.claim("Translations between Indo-European languages are near monotone", needs=["en-fr", "ja-en"])
def judge_diagonal(findings: Findings) -> Verdict:
    """Conditional if en-fr links are nearer to the diagonal than half of chance and than ja-en's (intervals
    disjoint): it is one pair of languages.
    """
    near = findings.curve("en-fr", "gold")[0, 0]
    far = findings.curve("ja-en", "gold")[0, 0]
    chance = findings.curve("en-fr", "chance")[0, 0]
    summary = f"mean |i/I - j/J| of sure links: en-fr {show(near)}, ja-en {show(far)}; "
    summary += f"of all pairs of words {chance[0]:.3f}"
    holds = bool(near[2] < min(far[1], chance[0] / 2))
    return decided(False, summary, refuted=not holds, condition="the languages are English and French")


@STUDY.claim(
    "On English-French the bias helps",
    needs=["en-fr"],
    rule=f"confirmed if the error falls at lambda {USUAL:g}, with an interval that excludes 0",
)
def judge_helps(findings: Findings) -> Verdict:
    low = findings.curve("en-fr", "gain")[0, PRIORS.index(USUAL), 1]
    return decided(low > 0, gained(findings, "en-fr"))


@STUDY.claim(
    "On Japanese-English the bias misleads",
    needs=["ja-en"],
    rule=f"confirmed if the error rises at lambda {USUAL:g}, with an interval that excludes 0; conditional "
    "if at another lambda",
)
def judge_misleads(findings: Findings) -> Verdict:
    high, summary = findings.curve("ja-en", "gain")[0, :, 2], gained(findings, "ja-en")
    worse = [weight for weight, bound in zip(PRIORS, high, strict=True) if bound < 0]
    condition = f"lambda >= {min(worse, default=0):g}"
    return decided(USUAL in worse, summary, refuted=not worse, condition=condition)


@STUDY.draws
def draw(findings: Findings) -> Figure:
    figure, (left, right) = panels(2, 1)
    for variant in CORPORA:
        label = f"{variant} (n={findings.mean(variant, 'sentences'):.0f} sentences)"
        bounded(left, findings.curve(variant, "gain")[0], label=label)
    left.axhline(0, color="gray", lw=1)
    left.set_xticks(range(len(PRIORS)), [f"{weight:g}" for weight in PRIORS])
    left.set(xlabel="lambda of exp(-lambda |i/I - j/J|)", ylabel="reduction of the alignment error rate")
    left.set_title("95 % intervals over sentences")
    for metric, label in {"gold": "sure links", "chance": "all pairs of words"}.items():
        rows = np.array([findings.curve(corpus, metric)[0, 0] for corpus in CORPORA])
        bounded(right, rows, label=label, ls="")
    right.set_xticks(range(len(CORPORA)), list(CORPORA))
    right.set(ylabel="mean |i/I - j/J|", xlim=(-0.5, 1.5), ylim=(0, 0.45), title="distance from the diagonal")
    for panel in (left, right):
        panel.legend()
    return figure


def bounded(axes: Axes, rows: np.ndarray, **look: Any) -> None:
    """Points with error bars; a row is a mean, its lower and its upper bound."""
    axes.errorbar(range(len(rows)), rows[:, 0], np.abs(rows[:, 1:] - rows[:, :1]).T, capsize=3, **look)
