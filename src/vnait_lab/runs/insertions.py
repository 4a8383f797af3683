"""Real texts into which things were inserted that don't count, or that have typos or lack words: does a
method still find what counts?

    VNAIT_DATA=DIR python -m vnait_lab.runs.insertions [--sets splice,trec] [--seeds 10]

Every method learns from the same rows, a random 80 % of train.csv, with insertions of up to half of a text's
length, and is tested on test.csv as it is (clean), with as much inserted (seen), with up to three times the
text (more), and with other kinds (unseen). The variant `filtered` is the control, `vnait-uniform`, on texts
from which every insertion was removed by hand. Records go to studies/records/insertions; recorded runs are
not repeated.

Insertions in splice junctions are gaps, `-`: in runs (seen), or one by one (unseen), so that the junction is
in the middle of the letters and not of the text. In other texts they are mark-up, tracking lines and OCR
noise (seen), or signatures, emoji and addresses (unseen), between words.

Two more tests have no insertions, but a typo in every tenth token, or every tenth left out: a letter of DNA
becomes another, and in a word two neighbouring letters change places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.random import Generator

from vnait.data import Table
from vnait.data.vocabulary import vocabulary_of
from vnait.positions.methods import arithmetic
from vnait.results.record import Record
from vnait.shared.keys import key_of
from vnait.shared.statistics import interval, paired
from vnait.train.fitting import fit
from vnait_lab.records import path_of
from vnait_lab.rules import clear
from vnait_lab.runs import accuracy, data_folder, parser, recorded, run_each
from vnait_lab.study import Verdict
from vnait_lab.suites import few_labels
from vnait_lab.suites.elastic import reads_words
from vnait_lab.suites.few_labels import SETS, plan_of

METHODS_RUN = ("none", "sinusoidal", "rope", "alibi", "vnait-uniform", "vnait")
FILTERED, CONTROL = "filtered", "vnait-uniform"
KINDS = {
    "markup": ("<br>", "</p>", "<div>", "&nbsp;", "</span>"),
    "tracking": ("utm", "=", "newsletter", "&", "ref", "id"),
    "ocr": ("|", "~", "^", "_", "||"),
    "signature": ("sent", "from", "my", "phone", "--", "regards"),
    "emoji": ("\U0001f600", "\U0001f44d", "\U0001f389"),
    "address": ("www", ".", "example", "com", "/", "index"),
}
SEEN, UNSEEN = ("markup", "tracking", "ocr"), ("signature", "emoji", "address")
# Name of a test: the most that is inserted, as a multiple of the text's length, and whether kinds are unseen.
TESTS = {"clean": (0.0, False), "seen": (0.5, False), "more": (3.0, False), "unseen": (0.5, True)}
TRAINED = TESTS["seen"]
HARMED = 0.1  # of the tokens, by chance
SHARE = 0.8  # of the rows of train.csv, drawn anew by every seed
RUN = replace(few_labels.RUN, steps=1000)

Tokens = list[str]


def inserted(tokens: Tokens, most: float, unseen: bool, random: Generator, *, letters: bool) -> Tokens:
    """A text with insertions of a share of its length that is drawn evenly from 0 to `most`."""
    room = int(random.uniform(0, most) * len(tokens))
    before: dict[int, Tokens] = {}
    while room > 0:
        part = gap(unseen, random) if letters else boilerplate(unseen, random)
        before.setdefault(int(random.integers(len(tokens) + 1)), []).extend(part[:room])
        room -= len(part)
    parts = ([*before.get(place, ()), *tokens[place : place + 1]] for place in range(len(tokens) + 1))
    return [token for part in parts for token in part]


def gap(unseen: bool, random: Generator) -> Tokens:
    """A run of up to 30 gaps, or a single one."""
    return ["-"] * (1 if unseen else int(random.integers(1, 31)))


def boilerplate(unseen: bool, random: Generator) -> Tokens:
    """One to six tokens of one kind."""
    words = KINDS[str(random.choice(UNSEEN if unseen else SEEN))]
    return [str(random.choice(words)) for _ in range(random.integers(1, 7))]


def changed(table: Table, change: Callable[[Tokens], Tokens], *, letters: bool) -> Table:
    """A table with every text's tokens changed."""
    split, glue = (list, "") if letters else (str.split, " ")
    return replace(table, texts=[glue.join(change(split(text))) for text in table.texts])


def perturbed(table: Table, most: float, unseen: bool, seed: int, *, letters: bool) -> Table:
    """Every text of a table, with insertions."""
    random = np.random.default_rng(seed)
    return changed(
        table, lambda tokens: inserted(tokens, most, unseen, random, letters=letters), letters=letters
    )


def typos(tokens: Tokens, random: Generator, *, letters: bool) -> Tokens:
    """A text with typos in a tenth of its tokens."""
    mistake = mistaken if letters else swapped
    return [token if random.random() >= HARMED else mistake(token, random) for token in tokens]


def mistaken(base: str, random: Generator) -> str:
    """Another base of DNA."""
    return str(random.choice([letter for letter in "ACGT" if letter != base]))


def swapped(word: str, random: Generator) -> str:
    """A word, two of whose neighbouring letters have changed places."""
    at = int(random.integers(max(len(word) - 1, 1)))
    return word[:at] + word[at : at + 2][::-1] + word[at + 2 :]


def dropped(tokens: Tokens, random: Generator, *, letters: bool) -> Tokens:
    """A text without a tenth of its tokens."""
    return [token for token in tokens if random.random() >= HARMED] or tokens[:1]


HARMS: dict[str, Callable[..., Tokens]] = {"typos": typos, "dropped": dropped}


def harmed(table: Table, kind: str, *, letters: bool) -> Table:
    """Every text of a table, harmed."""
    random = np.random.default_rng(0)
    return changed(table, lambda tokens: HARMS[kind](tokens, random, letters=letters), letters=letters)


def train_and_test(data: Path, name: str, seed: int, variant: str) -> Record:
    """Train one variant on one draw of rows, and test it on every kind of text."""
    letters = SETS[name].tokenization == "characters"
    method = CONTROL if variant == FILTERED else variant
    plan = plan_of(name, data, [method], [few_labels.QUICK], [seed], RUN)
    rows = np.random.default_rng(seed).permutation(len(plan.table))[: int(SHARE * len(plan.table))]
    learn, test = plan.table.select(map(int, rows)), plan.split(seed)[1]
    amount = TESTS["clean"] if variant == FILTERED else TRAINED
    learn = perturbed(learn, *amount, seed, letters=letters)
    known = perturbed(plan.table, *amount, seed, letters=letters).texts
    words = vocabulary_of(known, tokenization=plan.tokenization)
    fitted = fit(replace(RUN, method=method, seed=seed), learn, words)
    tables = {  # filtered by hand, every text is clean
        kind: perturbed(test, *(TESTS["clean"] if variant == FILTERED else amount), index, letters=letters)
        for index, (kind, amount) in enumerate(TESTS.items())
    } | {kind: harmed(test, kind, letters=letters) for kind in HARMS}
    metrics = {f"accuracy_{kind}": accuracy(fitted, table) for kind, table in tables.items()}
    return replace(recorded(fitted, metrics, name=name), method=variant)


def drop(record: Record, *kinds: str) -> float:
    """The accuracy that a record loses by tests of these kinds, on average."""
    left = fmean(record.metrics[f"accuracy_{kind}"] for kind in kinds)
    return float(record.metrics["accuracy_clean"] - left)


def verdict(records: Sequence[Record], method: str, kinds: Sequence[str], share: float) -> Verdict:
    """The claim: on one set, `method` loses by tests of these kinds at most this share of what the method
    loses that is best there among those whose coordinates do not read the words.
    """
    return spared(scores_of(records, *kinds), scores_of(records, "clean"), method, share)


def scores_of(records: Sequence[Record], *kinds: str) -> dict[str, dict[int, float]]:
    """The accuracy by tests of these kinds, on average, per variant and seed."""
    scores: dict[str, dict[int, float]] = {}
    for record in records:
        mean = fmean(record.metrics[f"accuracy_{kind}"] for kind in kinds)
        scores.setdefault(record.method, {})[record.seed] = mean
    return scores


def spared(
    left: Mapping[str, Mapping[int, float]],
    clean: Mapping[str, Mapping[int, float]],
    method: str,
    share: float,
) -> Verdict:
    """The claim of `verdict`, by the accuracy that is left and that on clean texts, per variant and seed."""
    blind = [name for name in left if name not in (method, FILTERED) and not reads_words(name)]
    if method not in left or not blind:
        return Verdict("undecided", f"{method} and a method of the raw index were not both run")
    best = max(blind, key=lambda name: fmean(left[name].values()))
    ours, its = (
        {seed: clean[name][seed] - score for seed, score in left[name].items()} for name in (method, best)
    )
    gain = interval(paired({seed: share * loss for seed, loss in its.items()}, ours)).times(100)
    lost, rival = (100 * fmean(losses.values()) for losses in (ours, its))
    part = "the latter" if share == 1 else f"{share:.2g} of the latter"
    words = f"{lost:.1f} points, {best} {rival:.1f}; {part} minus the former: {gain.written('{:+.1f}')}"
    return clear([gain], words)


def key(name: str, seed: int, variant: str) -> str:
    """The fingerprint of everything that decides a run, but the set's files."""
    formula = arithmetic(CONTROL if variant == FILTERED else variant)
    return key_of("insertions", name, variant, formula, seed, RUN.facts, TESTS, KINDS, HARMED)


def main() -> None:
    command = parser(__doc__, seeds=10, sets=("splice", "trec"), methods=METHODS_RUN)
    options = command.parse_args()
    run = partial(train_and_test, data_folder(command))
    runs = product(options.sets, range(options.seeds), (*options.methods, FILTERED))
    run_each(path_of("insertions"), run, runs, key, options.jobs)


if __name__ == "__main__":
    main()
