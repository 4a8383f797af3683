"""Sentence pairs: is the second text the translation of the first?

    VNAIT_DATA=DIR python -m vnait_lab.runs.translations [--quick] [--seeds 3]

DIR has wordalign_enfr/enfr.tsv (English and French, 447 pairs) and wordalign_jaen/jaen.tsv (Japanese and
English, 582), with the columns source and target. Each seed draws 30 % of the pairs for the test. Every
sentence is there twice: with its translation, and with that of another sentence of about the same length; so
neither side alone gives the answer, nor do their lengths.

TF-IDF and averaged vectors add up the words of both sides, so they are the control: a classifier that is
ahead of them relates the two. Records go to studies/records/translations, of --quick to runs/translations;
recorded runs are not repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vnait.comparison.plan import Plan
from vnait.data import Pair, Table, read
from vnait.data.pairs import sides_of
from vnait.data.rows import split_numbers
from vnait.data.sentences import split_words
from vnait.results.record import Record
from vnait.results.results import ALL
from vnait.train.run import Run
from vnait_lab.records import baselines_of, by_method, path_of
from vnait_lab.runs import ahead, data_folder, parser, plan_of_words, print_verdict, run_plans
from vnait_lab.study import Verdict

METHODS_RUN = ("none", "sinusoidal", "vnait-uniform", "vnait")
FILES = {"wordalign_enfr": "enfr.tsv", "wordalign_jaen": "jaen.tsv"}
TEST = 0.3  # share of the pairs
RUN = Run(validation=0, tune_vectors=True, steps=400)
QUICK = Run(validation=0, tune_vectors=True, steps=20)


def questions(pairs: Sequence[tuple[str, ...]], name: str, seed: int) -> Table:
    """Two rows per pair: with its own second text, yes, and with the next longer one of another pair, no."""
    order = np.random.default_rng(seed).permutation(len(pairs)).tolist()
    order.sort(key=lambda row: len(split_words(pairs[row][1])))  # rows of equal length stay in random order
    longer = dict(zip(order, [*order[1:], *order[:1]], strict=True))
    texts: list[str] = []
    labels: list[str] = []
    for row, (source, target) in enumerate(pairs):
        wrong = pairs[longer[row]][1]
        if wrong != target:
            texts += [Pair.of(source, target), Pair.of(source, wrong)]
            labels += ["yes", "no"]
    return Table(texts=texts, labels=labels, name=name, dropped=0)


def plan_of(data: Path, name: str, seed: int, *, quick: bool) -> Plan:
    """The comparison of one seed: no sentence of its training rows is in its test rows."""
    texts = read(data / name / FILES[name], text="source,target", label=None).texts
    pairs = list(dict.fromkeys(map(sides_of, texts)))
    if quick:
        pairs = pairs[:60]
    learn, test = (
        questions([pairs[row] for row in rows], name, seed)
        for rows in split_numbers([""] * len(pairs), holdout=TEST, seed=seed)
    )
    run = QUICK if quick else RUN
    return plan_of_words(learn, test, METHODS_RUN, shots=[ALL], seeds=[seed], run=run)


def verdict(records: Sequence[Record], name: str) -> Verdict:
    """The claim: `vnait` is ahead of every other method and baseline."""
    return ahead(by_method(records, "accuracy", (*baselines_of(records), *METHODS_RUN), name=name), "vnait")


def main() -> None:
    command = parser(__doc__, seeds=3, quick="20 steps, 60 pairs of each file")
    options = command.parse_args()
    data = data_folder(command, f"the folders {' and '.join(FILES)}")
    path = path_of("translations", quick=options.quick)
    for name in FILES:
        plans = (plan_of(data, name, seed, quick=options.quick) for seed in range(options.seeds))
        print_verdict(name, verdict(run_plans(plans, path, options.jobs), name))


if __name__ == "__main__":
    main()
