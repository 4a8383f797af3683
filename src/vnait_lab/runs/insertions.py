"""Real texts into which things were inserted that don't count, or that have typos or lack words: does a
method still find what counts?

    VNAIT_DATA=DIR python -m vnait_lab.runs.insertions [--sets splice,trec] [--seeds 10]

Every method learns from the same rows, a random 80 % of train.csv, with insertions of up to half of a text's
length, and is tested on test.csv as it is (clean), with as much inserted (seen), with up to three times the
text (more), and with other kinds (unseen). The arm `filtered` is the control, `vnait-uniform`, on texts from
which every insertion was removed by hand. Records go to studies/records/insertions; recorded cells do not run
again.

Insertions in splice junctions are gaps, `-`: in runs (seen), or one by one (unseen), so that the junction is
in the middle of the letters and not of the text. In other texts they are mark-up, tracking lines and OCR
noise (seen), or signatures, emoji and addresses (unseen), between words.

Two more tests have no insertions, but a typo in every tenth token, or every tenth left out: a letter of DNA
becomes another, and in a word two neighbouring letters change places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.random import Generator

from vnait.comparison.runs import run_all
from vnait.data import Table
from vnait.data.vocabulary import vocabulary_of
from vnait.positions.methods import METHODS
from vnait.results.record import Record, key_of
from vnait.shared.processes import one_thread
from vnait.shared.statistics import interval, paired
from vnait.train.fitting import fit
from vnait_lab import RECORDS
from vnait_lab.runs import accuracy, data_folder, parser, show_progress
from vnait_lab.study import Verdict
from vnait_lab.suites import few_labels
from vnait_lab.suites.elastic import reads_words
from vnait_lab.suites.few_labels import SETS, plan_of

PATH = RECORDS / "insertions" / "records.jsonl"
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
    found: dict[int, Tokens] = {}
    while room > 0:
        part = gap(unseen, random) if letters else boilerplate(unseen, random)
        found.setdefault(int(random.integers(len(tokens) + 1)), []).extend(part[:room])
        room -= len(part)
    return [
        one for place in range(len(tokens) + 1) for one in (*found.get(place, ()), *tokens[place : place + 1])
    ]


def gap(unseen: bool, random: Generator) -> Tokens:
    """A run of up to 30 gaps, or a single one."""
    return ["-"] * (1 if unseen else int(random.integers(1, 31)))


def boilerplate(unseen: bool, random: Generator) -> Tokens:
    """One to six tokens of one kind."""
    words = KINDS[str(random.choice(UNSEEN if unseen else SEEN))]
    return [str(random.choice(words)) for _ in range(random.integers(1, 7))]


def perturbed(table: Table, most: float, unseen: bool, seed: int, *, letters: bool) -> Table:
    """Every text of a table, with insertions."""
    random = np.random.default_rng(seed)
    split: Callable[[str], Tokens] = list if letters else str.split
    glue = "" if letters else " "
    texts = [glue.join(inserted(split(one), most, unseen, random, letters=letters)) for one in table.texts]
    return replace(table, texts=texts)


def typos(tokens: Tokens, random: Generator, *, letters: bool) -> Tokens:
    """A text with typos in a tenth of its tokens."""
    return [
        one if random.random() >= HARMED else mistaken(one, random) if letters else swapped(one, random)
        for one in tokens
    ]


def mistaken(base: str, random: Generator) -> str:
    """Another base of DNA."""
    return str(random.choice([other for other in "ACGT" if other != base]))


def swapped(word: str, random: Generator) -> str:
    """A word, two of whose neighbouring letters have changed places."""
    at = int(random.integers(max(len(word) - 1, 1)))
    return word[:at] + word[at : at + 2][::-1] + word[at + 2 :]


def dropped(tokens: Tokens, random: Generator, *, letters: bool) -> Tokens:
    """A text without a tenth of its tokens."""
    return [one for one in tokens if random.random() >= HARMED] or tokens[:1]


HARMS: dict[str, Callable[..., Tokens]] = {"typos": typos, "dropped": dropped}


def harmed(table: Table, kind: str, *, letters: bool) -> Table:
    """Every text of a table, harmed."""
    random = np.random.default_rng(0)
    split: Callable[[str], Tokens] = list if letters else str.split
    glue = "" if letters else " "
    texts = [glue.join(HARMS[kind](split(one), random, letters=letters)) for one in table.texts]
    return replace(table, texts=texts)


def run_cell(name: str, data: Path, arm: str, seed: int, key: str) -> Record:
    """Train one arm on one draw of rows, and test it on every kind of text."""
    letters = SETS[name].tokenization == "characters"
    method = CONTROL if arm == FILTERED else arm
    with one_thread():
        plan = plan_of(name, data, [method], [few_labels.QUICK], [seed], RUN)
        rows = np.random.default_rng(seed).permutation(len(plan.table))[: int(SHARE * len(plan.table))]
        learn, test = plan.table.select(map(int, rows)), plan.split(seed)[1]
        amount = TESTS["clean"] if arm == FILTERED else TRAINED
        learn = perturbed(learn, *amount, seed, letters=letters)
        known = perturbed(plan.table, *amount, seed, letters=letters).texts
        words = vocabulary_of(known, tokenization=plan.tokenization)
        fitted = fit(replace(RUN, method=method, seed=seed), learn, words)
        assert fitted.record is not None
        shown = {  # filtered by hand, every text is clean
            kind: perturbed(test, *(TESTS["clean"] if arm == FILTERED else amount), index, letters=letters)
            for index, (kind, amount) in enumerate(TESTS.items())
        } | {kind: harmed(test, kind, letters=letters) for kind in HARMS}
        metrics = {f"accuracy_{kind}": accuracy(fitted, table) for kind, table in shown.items()}
    data_of = {**fitted.record.data, "name": name}
    return replace(fitted.record, key=key, method=arm, data=data_of, metrics=metrics)


def drop(one: Record, *kinds: str) -> float:
    """The accuracy that a record loses by tests of these kinds, on average."""
    return float(one.metrics["accuracy_clean"] - fmean(one.metrics[f"accuracy_{kind}"] for kind in kinds))


def verdict(found: Sequence[Record], method: str, kinds: Sequence[str], share: float) -> Verdict:
    """The claim: on one set, `method` loses by tests of these kinds at most this share of what the method
    loses that is best there among those whose coordinates do not read the words.
    """
    left, clean = scores_of(found, *kinds), scores_of(found, "clean")
    return spared(left, clean, method, share)


def scores_of(found: Sequence[Record], *kinds: str) -> dict[str, dict[int, float]]:
    """The accuracy by tests of these kinds, on average, per arm and seed."""
    arms: dict[str, dict[int, float]] = {}
    for one in found:
        mean = fmean(one.metrics[f"accuracy_{kind}"] for kind in kinds)
        arms.setdefault(one.method, {})[one.seed] = mean
    return arms


def spared(
    left: Mapping[str, Mapping[int, float]],
    clean: Mapping[str, Mapping[int, float]],
    method: str,
    share: float,
) -> Verdict:
    """The claim of `verdict`, by the accuracy that is left and that on clean texts, per arm and seed."""
    blind = [arm for arm in left if arm not in (method, FILTERED) and not reads_words(arm)]
    if method not in left or not blind:
        return Verdict("undecided", f"{method} and a method of the raw index were not both run")
    best = max(blind, key=lambda arm: fmean(left[arm].values()))
    own, other = (
        {seed: clean[arm][seed] - score for seed, score in left[arm].items()} for arm in (method, best)
    )
    gain = interval(paired({seed: share * loss for seed, loss in other.items()}, own)).times(100)
    mine, its = (100 * fmean(losses.values()) for losses in (own, other))
    part = "the latter" if share == 1 else f"{share:.2g} of the latter"
    words = f"{mine:.1f} points, {best} {its:.1f}; {part} minus the former: {gain.written('{:+.1f}')}"
    return Verdict.by_sign([gain.sign], words)


def main() -> None:
    command = parser(__doc__, seeds=10, sets=("splice", "trec"), methods=METHODS_RUN)
    options = command.parse_args()
    data = data_folder(command, "one folder per set (train.csv and test.csv)")
    arms = (*options.methods, FILTERED)
    run_all(
        PATH,
        {key(*cell): cell for cell in cells(options.sets, arms, options.seeds)},
        lambda left: calls(left, data),
        jobs=options.jobs,
        callback=show_progress,
    )


Cell = tuple[str, str, int]


def cells(sets: Sequence[str], arms: Sequence[str], seeds: int) -> Iterator[Cell]:
    """(set, arm, seed), seed by seed."""
    for name in sets:
        for seed in range(seeds):
            for arm in arms:
                yield name, arm, seed


def key(name: str, arm: str, seed: int) -> str:
    """The fingerprint of everything that decides a cell, but the set's files."""
    formula = METHODS[CONTROL if arm == FILTERED else arm].formula
    return key_of("insertions", name, arm, formula, seed, RUN.facts, TESTS, KINDS, HARMED)


def calls(left: list[Cell], data: Path) -> Iterator[Any]:
    from joblib import delayed

    for cell in left:
        name, arm, seed = cell
        yield delayed(run_cell)(name, data, arm, seed, key(*cell))


if __name__ == "__main__":
    main()
