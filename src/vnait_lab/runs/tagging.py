"""Parts of speech from few sentences: does it help to know where the words are?

    VNAIT_DATA=DIR python -m vnait_lab.runs.tagging [--quick] [--seeds 3]

DIR has the folders ud_english_ewt and ud_chinese_gsdsimp of Universal Dependencies, with their CoNLL-U files.
Each seed draws 100, 300 and 1,000 sentences, of Chinese 100 and 300 (its training file is not there, so they
come from the 500 of dev), the same for every method and for two baselines; the test file is only scored. Word
vectors come from all training sentences, without tags.

The control is the same with the words of every sentence, and their tags, in random order: a method that tags
as well there makes nothing of the order. Records go to studies/records/tagging, of --quick to runs/tagging;
recorded runs are not repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from vnait.comparison.plan import Plan
from vnait.data import Table, read
from vnait.data.sentences import sentence, split_words
from vnait.data.tables import labels_of
from vnait.data.tasks import TAGGING
from vnait.results.record import Record
from vnait.shared.statistics import Interval
from vnait.train.baselines import OF_TAGS
from vnait.train.run import Run
from vnait_lab.records import by_method, by_seed, path_of, points, where
from vnait_lab.rules import clear
from vnait_lab.runs import data_folder, parser, plan_of_words, print_verdict, run_plans
from vnait_lab.study import Verdict

METHODS_RUN = ("none", "sinusoidal", "rope", "vnait")
SHUFFLED = ", shuffled"  # after the name of a treebank
SIZES = {"ud_english_ewt": (100, 300, 1000), "ud_chinese_gsdsimp": (100, 300)}
FILES = {
    "ud_english_ewt": ("en_ewt-ud-train-sample.conllu", "en_ewt-ud-test.conllu"),
    "ud_chinese_gsdsimp": ("zh_gsdsimp-ud-dev.conllu", "zh_gsdsimp-ud-test.conllu"),
}
# Vectors of a few thousand sentences know little of tags, so they are trained, too.
RUN = Run(validation=0, tune_vectors=True, steps=400)
QUICK = Run(validation=0, tune_vectors=True, steps=20)


def shuffled(table: Table) -> Table:
    """The words of each sentence in random order, with their tags."""
    random = np.random.default_rng(0)
    texts, labels = [], []
    for text, label in zip(table.texts, labels_of(table), strict=True):
        words, tags = split_words(text), split_words(label)
        order = random.permutation(len(words))
        texts.append(sentence(words[place] for place in order))
        labels.append(sentence(tags[place] for place in order))
    return replace(table, texts=texts, labels=labels, name=table.name + SHUFFLED)


def plans(data: Path, seeds: int, *, quick: bool) -> list[Plan]:
    """A comparison per treebank, and one with its words shuffled."""
    pairs = []
    for name, files in FILES.items():
        learn, test = (replace(read(data / name / file, task=TAGGING), name=name) for file in files)
        if quick:
            learn, test = learn.select(range(200)), test.select(range(50))
        pairs += [(name, learn, test), (name, shuffled(learn), shuffled(test))]
    return [
        plan_of_words(
            learn,
            test,
            METHODS_RUN,
            shots=SIZES[name][:1] if quick else SIZES[name],
            seeds=range(seeds),
            run=QUICK if quick else RUN,
        )
        for name, learn, test in pairs
    ]


def lead(records: Sequence[Record], name: str, size: int) -> Interval:
    """Points of token accuracy of `vnait` over the best of the others, paired by seed."""
    scores = by_method(records, "token_accuracy", (*METHODS_RUN, *OF_TAGS), name=name, shots=size)
    ours = scores.pop("vnait")
    return points(ours, max(scores.values(), key=lambda by_seed: sum(by_seed.values())))


def order(records: Sequence[Record], name: str, size: int) -> Interval:
    """Points that `vnait` has from the order of the words: as written minus shuffled, paired by seed."""
    written, control = (
        by_seed(records, "token_accuracy", method="vnait", name=bank, shots=size)
        for bank in (name, name + SHUFFLED)
    )
    return points(written, control)


def verdict(records: Sequence[Record], name: str) -> Verdict:
    """The claim: at each number of sentences, `vnait` is ahead of the best other method or model. Undecided
    if order brings it nothing, since a lead would then not be one of position.
    """
    sizes = sorted({int(record.data["shots"]) for record in where(records, name=name)})
    leads = {size: lead(records, name, size) for size in sizes}
    gain = order(records, name, sizes[-1])
    words = "; ".join(f"{size} sentences: {points.written('{:+.1f}')}" for size, points in leads.items())
    words += f"; from the order of the words: {gain.written('{:+.1f}')}"
    if gain.sign <= 0:
        return Verdict("undecided", words)
    return clear(leads.values(), words)


def main() -> None:
    command = parser(__doc__, seeds=3, quick="20 steps, 100 sentences, 50 test sentences")
    options = command.parse_args()
    data = data_folder(command, f"the folders {' and '.join(FILES)}")
    path = path_of("tagging", quick=options.quick)
    records = run_plans(plans(data, options.seeds, quick=options.quick), path, options.jobs)
    for name in FILES:
        print_verdict(name, verdict(records, name))


if __name__ == "__main__":
    main()
