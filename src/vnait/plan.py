"""What a comparison compares, on what and with which settings: checked whole before anything trains."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from vnait import lexicon as lexicons
from vnait import record as records
from vnait import text as texts
from vnait.bag_of_words import FORMULA, RARE
from vnait.baselines import AVERAGED_STRENGTH, BASELINES, FROZEN
from vnait.bases import OWN, PREFIX, RATE, Base
from vnait.errors import InputError, meant
from vnait.lexicon import Lexicon
from vnait.methods import METHODS
from vnait.results import ALL, Shots
from vnait.text import Table
from vnait.train import Run


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One training of a comparison."""

    method: str
    shots: Shots
    seed: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A comparison before it runs: what is compared, on what, with which settings.

    base      a pretrained encoder, a folder or a name on the hub: beside it the methods base:own, its own positions, and base:METHOD may
              be compared, and its frozen embeddings are one more baseline
    chooses   whether a best method is chosen, by its validation scores
    """

    table: Table
    test: Table | None
    methods: tuple[str, ...]
    shots: tuple[Shots, ...]
    seeds: tuple[int, ...]
    run: Run
    vectors: str | None
    tokenization: str
    base: str | None = None
    held_out: float = 0.3
    chooses: bool = True

    def __post_init__(self) -> None:
        if problems := list(self._problems()):
            raise InputError("; ".join(problems) + ".")

    def _problems(self) -> Iterator[str]:
        for method in self.methods:
            if method.startswith(PREFIX):
                if self.base is None:
                    yield f"method {method!r} needs a pretrained base: give one with --base (base= in Python)"
                elif (inner := method.removeprefix(PREFIX)) not in (OWN, *METHODS):
                    yield f"method {method!r} is not known.{meant(inner, METHODS)} After {PREFIX} comes {OWN} or a method"
            elif method not in METHODS:
                yield f"method {method!r} is not known.{meant(method, METHODS)} The methods are {', '.join(METHODS)}"
        for shots in self.shots:
            if shots != ALL and (not isinstance(shots, int) or shots < 2):
                yield f"shots {shots!r}: give numbers of rows per class, 2 or more, or {ALL}"
        for name, given in (("methods", self.methods), ("shots", self.shots), ("seeds", self.seeds)):
            if not given:
                yield f"no {name} given: at least one is needed"
            if len(set(given)) < len(given):
                yield f"{name} has the same entry twice: {', '.join(map(str, given))}"
        if self.run.base is not None:
            yield f"the run's base is {self.run.base!r}: a comparison takes it by itself, so give base={self.run.base!r} there"
        if self.chooses and not self.run.validation:
            yield "validation is 0: the best method is chosen on validation rows, so hold some out"
        if self.test is not None and not set(self.test.labels or []) & set(self.table.labels or []):
            yield f"{self.test.name} and {self.table.name} share no label: check the label column of both"

    def split(self, seed: int) -> tuple[Table, Table]:
        """The rows to learn from and the rows to be tested on: the test file's, or held out by this seed."""
        if self.test is not None:
            return self.table, self.test
        learn, test = texts.split(labels_of(self.table), holdout=self.held_out, seed=seed)
        return self.table.select(learn), self.table.select(test)

    def rows(self, shots: Shots, seed: int) -> tuple[Table, Table]:
        """The same split, with so many rows per class to learn from."""
        pool, test = self.split(seed)
        if shots == ALL:
            return pool, test
        return pool.select(texts.shots(labels_of(pool), count=int(shots), seed=seed)), test

    def lexicon(self, seed: int) -> Lexicon:
        """Words and vectors of the learning side, labels unseen; the test rows stay out; those of `lexicon_seed`."""
        pool, _ = self.split(seed)
        if self.vectors is not None:
            return lexicons.look_up(pool.texts, self.vectors, tokenization=self.tokenization)
        return lexicons.learn(pool.texts, tokenization=self.tokenization, seed=self.lexicon_seed(seed))

    def lexicon_seed(self, seed: int) -> int:
        """With a test file all seeds learn from the same pool, so one set of vectors serves them all."""
        return seed if self.test is None else 0

    def most_frequent(self) -> float:
        """The accuracy of always answering the most frequent class: what the scores have to beat, over the same splits."""
        shares = []
        for seed in self.seeds:
            learn, test = (labels_of(table) for table in self.split(seed))
            shares.append(test.count(Counter(learn).most_common(1)[0][0]) / len(test))
        return sum(shares) / len(shares)

    @property
    def baselines(self) -> tuple[str, ...]:
        """Those of every comparison, and the frozen embeddings of a base."""
        return (*BASELINES, *((FROZEN,) if self.base is not None else ()))

    def run_of(self, cell: Cell) -> Run:
        """The settings of a cell; fine-tuning has a learning rate of its own unless another one was chosen."""
        if not cell.method.startswith(PREFIX):
            return replace(self.run, method=cell.method, seed=cell.seed)
        chosen = self.run.learning_rate != Run.learning_rate
        rate = self.run.learning_rate if chosen else RATE
        method = cell.method.removeprefix(PREFIX)
        return replace(self.run, method=method, seed=cell.seed, base=self.base, learning_rate=rate)

    def cells(self) -> list[Cell]:
        """Every training, seed by seed, so that what is done early is a whole comparison on fewer seeds.

        Baselines, a moment each, come last in a seed: nothing long should start when the other cores are done.
        """
        return [
            Cell(method=method, shots=shots, seed=seed)
            for seed in self.seeds
            for shots in self.shots
            for method in (*self.methods[::-1], *self.baselines)
        ]

    def key(self, cell: Cell) -> str:
        """The fingerprint of everything that decides a cell's result; a method whose formula changes is another one."""
        run: dict[str, Any] = {"strength": AVERAGED_STRENGTH}
        if cell.method.startswith(PREFIX):
            assert self.base is not None
            run = {} if cell.method == FROZEN else asdict(self.run_of(cell)) | {"method": _formula(self.run_of(cell))}
            run["base"] = Base.load(self.base).fingerprint
        if cell.method in METHODS:
            run = asdict(replace(self.run, seed=cell.seed)) | {"method": METHODS[cell.method].formula}
            run["bag"] = [FORMULA, self.run.bag, RARE]
        tests = self.test.fingerprint if self.test else self.held_out
        vectors = None if self.vectors is None else _stamp(self.vectors)
        return records.key_of(asdict(cell), run, self.table.fingerprint, tests, vectors, self.tokenization)


def _formula(run: Run) -> str:
    return OWN if run.method == OWN else METHODS[run.method].formula


def _stamp(path: str) -> list[str | int]:
    """A file that changes is another file; a missing one is for its reader to report."""
    try:
        facts = os.stat(path)
    except OSError:
        return [path]
    return [path, facts.st_size, facts.st_mtime_ns]


def labels_of(table: Table) -> list[str]:
    """The labels of a table, which must have some."""
    if table.labels is None:
        raise InputError(f"{table.name} was read without labels; a comparison needs them.")
    return table.labels
