"""The papers' own example of other lengths: trained on articles of up to 256 words, read at 512.

    VNAIT_DATA=DIR python -m vnait_lab.runs.longer_articles [--seeds 3]

DIR has the folder bbc_news. The question is whether the halves of a text have changed places: its words alone
do not show it, so that `none` is the control. Every method learns from a random 80 % of the articles of
train.csv, cut to their first 256 words, and reads the articles of test.csv with 512 words or more, cut to 256
and to 512. Records go to studies/records/longer_articles; recorded runs are not repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from vnait.data import Table, read
from vnait.data.vocabulary import vocabulary_of
from vnait.positions.methods import arithmetic
from vnait.results.record import Record
from vnait.shared.keys import key_of
from vnait.train.fitting import fit
from vnait.train.run import Run
from vnait_lab.records import by_method, by_seed, path_of, points
from vnait_lab.runs import accuracy, ahead, data_folder, parser, recorded, run_each
from vnait_lab.study import Verdict

SET = "bbc_news"
METHODS_RUN = ("none", "sinusoidal", "rope", "vnait-uniform", "vnait")
TRAINED, READ = 256, 512  # words
SHARE = 0.8  # of the rows of train.csv, drawn anew by every seed
CHANCE = 0.6  # the most that the control may have
RUN = Run(  # punctuation marks are tokens, too; one-hot words would know what `none` must not
    validation=0, steps=200, batch_size=16, max_length=2 * READ, one_hot=False
)


def halves(table: Table, length: int) -> Table:
    """The first words of every text, in order and with their halves in each other's place."""
    texts = []
    for text in table.texts:
        words = text.split()[:length]
        middle = len(words) // 2
        texts += [" ".join(words), " ".join(words[middle:] + words[:middle])]
    labels = ["in order", "moved"] * len(table)
    return Table(texts=texts, labels=labels, name=table.name, dropped=0)


def train_and_test(data: Path, seed: int, method: str) -> Record:
    """Train one method on one draw of articles, and test it at both lengths."""
    learn, test = (read(data / SET / f"{part}.csv") for part in ("train", "test"))
    rows = np.random.default_rng(seed).permutation(len(learn))[: int(SHARE * len(learn))]
    learn = halves(learn.select(map(int, rows)), TRAINED)
    long = test.select(row for row, text in enumerate(test.texts) if len(text.split()) >= READ)
    words = vocabulary_of(learn.texts, tokenization="words")
    fitted = fit(replace(RUN, method=method, seed=seed), learn, words)
    metrics = {f"accuracy_{length}": accuracy(fitted, halves(long, length)) for length in (TRAINED, READ)}
    return recorded(fitted, metrics, name=SET)


def verdict(records: Sequence[Record]) -> Verdict:
    """The claim: `vnait` is ahead of every other method on articles of twice the training length. Undecided
    if the control answers without positions.
    """
    scores = by_method(records, f"accuracy_{READ}", METHODS_RUN)
    lead = ahead(scores, "vnait")
    lost = points(scores["vnait"], by_seed(records, f"accuracy_{TRAINED}", method="vnait"))
    words = f"{lead.summary}; at {READ} minus at {TRAINED}: {lost.written('{:+.1f}')}"
    if max(scores["none"].values()) > CHANCE:
        return Verdict("undecided", f"the control did not fail: {words}")
    return Verdict(lead.word, words)


def key(seed: int, method: str) -> str:
    """The fingerprint of everything that decides a run, but the set's files."""
    formula = arithmetic(method)
    return key_of("longer_articles", method, formula, seed, RUN.facts, TRAINED, READ, SHARE)


def main() -> None:
    command = parser(__doc__, seeds=3, methods=METHODS_RUN)
    options = command.parse_args()
    run = partial(train_and_test, data_folder(command, f"the folder {SET}"))
    run_each(
        path_of("longer_articles"), run, product(range(options.seeds), options.methods), key, options.jobs
    )


if __name__ == "__main__":
    main()
