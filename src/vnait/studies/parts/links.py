"""Word alignments made by hand, and an aligner to hold against them: IBM model 1 with a prior, learned by EM on the sentences alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

NULL = 0.08  # the prior of a word without a partner, as in fast_align (Dyer et al. 2013)


def read(folder: Path) -> pd.DataFrame:
    """Sentence pairs (source, target, alignment), each once; alignments are i-j, sure, and ipj, possible, counted from 1."""
    return pd.read_csv(next(folder.glob("*.tsv")), sep="\t", quoting=3).drop_duplicates()


class Cells:
    """Every pair of a source word (0: none) and a target word of a sentence, in one long line; a row of it is a target word.

    away    |i/I - j/J|, counted from 1;  gold: 2 a sure link, 1 a possible one, 0 none

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

    def posterior(self, weight: float, rounds: int = 5) -> np.ndarray:
        """P(source word | target word) of IBM model 1 with the prior exp(-weight * away), after EM."""
        prior = np.where(self.to > 0, np.exp(-weight * self.away), 0.0)
        prior = np.where(self.to > 0, (1 - NULL) * prior / self._sum(prior), NULL)
        share = prior
        for _ in range(rounds):
            table = np.bincount(self.pair, share)[self.pair] / np.bincount(self.word, share)[self.word]
            share = table * prior
            share = share / self._sum(share)
        return share

    def _sum(self, values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, self.start)[self.row]

    def scored(self, weight: float) -> tuple[np.ndarray, np.ndarray]:
        """|A and S| + |A and P|, and |A| + |S|, of every sentence: 1 - their ratio is the alignment error rate."""
        share = self.posterior(weight)
        best = (share == np.maximum.reduceat(share, self.start)[self.row]) & (self.to > 0)
        hits = best * ((self.gold == 2).astype(float) + (self.gold > 0))
        return np.bincount(self.sentence, hits), np.bincount(self.sentence, best.astype(float) + (self.gold == 2))

    def distances(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Sums over a sentence of |i/I - j/J| and of what is summed: of sure links, and of all pairs of words."""
        kinds = [(self.gold == 2).astype(float), (self.to > 0).astype(float)]
        return [(np.bincount(self.sentence, self.away * kind), np.bincount(self.sentence, kind)) for kind in kinds]
