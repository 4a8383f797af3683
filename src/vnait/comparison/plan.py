"""The plan of a comparison: methods, data and settings, all checked before anything trains."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from itertools import chain, repeat
from typing import Any

from vnait.data import Table
from vnait.data.labels import labels_in, ordered
from vnait.data.pairs import are_pairs
from vnait.data.sentences import split_words
from vnait.data.tables import labels_of
from vnait.data.tasks import CLASSIFICATION, MULTILABEL, REGRESSION, TAGGING
from vnait.data.vocabulary import Vocabulary, vocabulary_of
from vnait.positions.methods import BASE_POSITIONS, METHODS, arithmetic
from vnait.results.results import ALL, Shots, by_size
from vnait.results.scores import regression_scores
from vnait.shared.errors import InputError
from vnait.shared.files import home
from vnait.shared.keys import key_of
from vnait.train.arrays import check_class_weight
from vnait.train.bag_of_words import FORMULA, SIF_FREQUENCY
from vnait.train.base import Base
from vnait.train.baselines import FORMULA as OF_BASELINES
from vnait.train.baselines import FROZEN_BASE, baselines_of
from vnait.train.mixing import choice_of
from vnait.train.run import PREFIX, READS_MORE, READS_VECTORS, Run, unknown_methods
from vnait.train.tasks import LabelSets, Tags
from vnait.train.tasks.shared import no_common_label

REST, NONE = "rest", "none"  # values of `Plan.unlabelled`


@dataclass(frozen=True, kw_only=True)
class Training:
    """One training of a comparison."""

    method: str
    shots: Shots
    seed: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The methods, data and settings of a comparison.

    base      a pretrained encoder, a folder or a name on the hub, for the methods base:own (its own
              positions) and base:METHOD; its frozen embeddings are one more baseline
    chooses   whether a best method is chosen by validation scores
    unlabelled   what words, vectors and the idf of tfidf are learned from: "rest", all training texts of the
              split, those without a chosen label included, and the table's texts without a label; or "none",
              the texts that labels are learned from
    """

    table: Table
    test: Table | None
    methods: tuple[str, ...]
    shots: tuple[Shots, ...]
    seeds: tuple[int, ...]
    run: Run
    vectors: str | None
    tokenization: str
    vector_words: int | None = None
    base: str | None = None
    held_out: float = 0.3
    chooses: bool = True
    unlabelled: str = REST

    def __post_init__(self) -> None:
        if problems := list(self._problems()):
            raise InputError("; ".join(problems) + ".")

    def _problems(self) -> Iterator[str]:
        yield from unknown_methods(self.methods, base=self.base is not None)
        for shots in self.shots:
            if shots != ALL and (not isinstance(shots, int) or shots < 2):
                yield f"shots {shots!r}: give a number of rows per class, 2 or more, or {ALL}"
        for name in ("methods", "shots", "seeds"):
            values = getattr(self, name)
            if not values:
                yield f"{name} is empty: give at least one"
            if len(set(values)) < len(values):
                yield f"{name} has the same entry twice: {', '.join(map(str, values))}"
        if self.unlabelled not in (REST, NONE):
            yield f"unlabelled is {self.unlabelled!r}: give {REST!r} or {NONE!r}"
        if self.run.base is not None:
            yield f"the run has a base: give base={self.run.base!r} to the comparison instead"
        if self.chooses and not self.run.validation:
            yield "validation is 0: the best method is chosen on validation rows, so hold some out"
        checks = [
            partial(self.run.check_bag, self.table.task),
            partial(check_class_weight, self.run.class_weight, self.table),
        ]
        if self.test is not None:
            checks.append(partial(self.table.check_apart, self.test))
        for check in checks:
            try:
                check()
            except InputError as error:
                yield str(error).rstrip(".")
        if self.test is not None and self.test.task != self.table.task:
            yield (
                f"{self.test.name} was read for {self.test.task}, and {self.table.name} for "
                f"{self.table.task}: read both with task={self.table.task!r}"
            )
        elif self.test is not None and self.table.task == CLASSIFICATION:
            tests, learned = (ordered(labels_of(table)) for table in (self.test, self.table))
            if not {*tests} & {*learned}:
                yield no_common_label(tests, learned, self.test.name, self.table.name)

    def split(self, seed: int) -> tuple[Table, Table]:
        """Training rows and test rows; without a test file, the seed holds the test rows out."""
        if self.test is not None:
            return self.table, self.test
        learn, test = self.table.split(holdout=self.held_out, seed=seed)
        return self.table.select(learn), self.table.select(test)

    def rows(self, shots: Shots, seed: int) -> tuple[Table, Table]:
        """The same split, with `shots` training rows per class."""
        pool, test = self.split(seed)
        if shots == ALL:
            return pool, test
        return pool.select(pool.shots(count=int(shots), seed=seed)), test

    def vocabulary(self, seed: int, shots: Shots = ALL) -> Vocabulary:
        """Words and vectors of the training texts with this many shots; no labels, no test rows."""
        if self.test is not None and shots == ALL:
            seed = 0  # all seeds have the same training texts
        return vocabulary_of(
            [*self.rows(shots, seed)[0].texts, *self.more(seed)],
            vectors=self.vectors,
            vector_words=self.vector_words,
            tokenization=self.tokenization,
            seed=seed,
        )

    def more(self, seed: int) -> list[str]:
        """The file's texts without a label, where they are read, but for texts of the test rows."""
        if self.unlabelled == NONE or not self.table.more:
            return []
        return self.table.unlike(self.split(seed)[1])

    def unlabelled_texts(self, seed: int) -> list[str]:
        """All texts that may be read without their labels: those of the split, and `more`."""
        return [*self.split(seed)[0].texts, *self.more(seed)]

    def vocabulary_key(self, training: Training) -> tuple[int, Shots]:
        """The arguments of a training's `vocabulary`, which many trainings share."""
        if self.reads_rest(training):
            return (training.seed if self.test is None else 0), ALL
        return training.seed, training.shots

    def reads_rest(self, training: Training) -> bool:
        """Whether words are learned from all training texts of the split."""
        return self.unlabelled == REST or training.shots == ALL

    def counts_rest(self, training: Training) -> bool:
        """Whether a simple model counts terms in texts without labels."""
        more = training.shots != ALL or bool(self.table.more)
        return more and training.method in READS_MORE and self.unlabelled == REST

    def unlabelled_rows(self, training: Training) -> int:
        """How many texts without labels a training reads."""
        # Not a base, which has its own words.
        reads = training.method in (*READS_VECTORS, *READS_MORE, *METHODS)
        if self.unlabelled == NONE or not reads:
            return 0
        rest = len(self.split(training.seed)[0]) - len(self.rows(training.shots, training.seed)[0])
        return rest + len(self.more(training.seed))

    def chance_level(self, metric: str = "") -> float:
        """The score of an answer that does not depend on the text, mean over the splits: of the most frequent
        class the accuracy, of the most frequent tag the token accuracy or the F1 of entities, of the labels
        that most rows have the micro F1, of the mean of the learned numbers, with the most labels, the RMSE.

        metric   of tags, the name of the score; "": entity F1, or token accuracy where there are no entities
        """
        levels: dict[str, Callable[[list[str], list[str]], float]] = {
            REGRESSION: _of_numbers,
            TAGGING: partial(_of_tags, metric=metric),
            MULTILABEL: _of_sets,
        }
        level = levels.get(self.table.task, _of_classes)
        if self.table.task == REGRESSION:
            splits = [self.rows(by_size(self.shots)[-1], seed) for seed in self.seeds]
        else:
            splits = [self.split(seed) for seed in self.seeds]
        shares = [level(*map(labels_of, split)) for split in splits]
        return sum(shares) / len(shares)

    @property
    def baselines(self) -> tuple[str, ...]:
        """The baselines of every comparison, and the frozen embeddings of a base."""
        embeds = self.base is not None and self.table.task != TAGGING  # whole texts
        return (*baselines_of(self.table), *((FROZEN_BASE,) if embeds else ()))

    def run_of(self, training: Training) -> Run:
        """The settings of a training."""
        method = training.method.removeprefix(PREFIX)
        base = None if method == training.method else self.base
        return replace(self.run, method=method, seed=training.seed, base=base)

    def trainings(self) -> list[Training]:
        """Every training: first the simple models, whose scores take seconds, then the Transformers seed by
        seed, so that an unfinished run is a whole comparison on fewer seeds.
        """
        return [
            Training(method=method, shots=shots, seed=seed)
            for methods in (self.baselines, self.methods[::-1])
            for seed in self.seeds
            for shots in self.shots
            for method in methods
        ]

    def _ends_with_all_rows(self, training: Training) -> bool:
        """Whether a training stops early and then learns from all rows, as it did not before."""
        least = self.run.early_stopping
        may_stop = len(self.table) > least and bool(self.run.validation) and not self.run.holdout
        return may_stop and len(self.rows(training.shots, training.seed)[0]) > least

    @cached_property
    def _fingerprint(self) -> str:
        """The base's."""
        assert self.base is not None
        return Base.load(self.base).fingerprint

    def key(self, training: Training) -> str:
        """The fingerprint of everything that decides a training's result, its method's formula included."""
        weighted = {} if self.run.class_weight is None else {"class_weight": self.run.class_weight}
        run: dict[str, Any] = {"simple": OF_BASELINES, **weighted}
        if self.run.validation != Run.validation:
            run["validation"] = self.run.validation
        if training.method.startswith(PREFIX):
            run = {**weighted}
            if training.method != FROZEN_BASE:
                run = self.run_of(training).facts
                attached = run["method"]
                run["method"] = attached if attached == BASE_POSITIONS else arithmetic(attached)
            run["base"] = self._fingerprint
            if are_pairs(self.table.texts):
                run["pairs"] = "token types"
        if training.method in METHODS:
            run = replace(self.run, seed=training.seed).facts | {"method": arithmetic(training.method)}
            run["bag"] = [FORMULA, self.run.bag, SIF_FREQUENCY]
            run["bag"] += choice_of(self.run_of(training), self.table.task)
            if self.table.task == MULTILABEL:
                run["start"] = "prior"  # of the head's bias
        tests = self.test.fingerprint if self.test else self.held_out
        vectors = None if self.vectors is None else [*_stamp(self.vectors), self.vector_words]
        if training.method not in self.baselines and self._ends_with_all_rows(training):
            run["ends"] = "with all rows"
        if self.counts_rest(training):
            run["idf"] = "of the other training texts, too"
        alone = [] if self.reads_rest(training) else ["words of the labelled rows"]
        if self.table.more and self.unlabelled == NONE:
            alone.append("no text without a label")
        texts = self.table.fingerprint, tests, vectors, self.tokenization
        return key_of(asdict(training), run, *texts, *alone)


def _of_classes(learn: list[str], test: list[str]) -> float:
    return test.count(Counter(learn).most_common(1)[0][0]) / len(test)


def _of_numbers(learn: list[str], test: list[str]) -> float:
    mean = sum(map(float, learn)) / len(learn)
    return regression_scores([*map(float, test)], [mean] * len(test))["rmse"]


def _of_tags(learn: list[str], test: list[str], metric: str) -> float:
    tags = Counter(chain.from_iterable(map(split_words, learn)))
    target, truth = Tags(sorted(tags)), list(map(split_words, test))
    scores = target.scores(truth, [[tags.most_common(1)[0][0]] * len(row) for row in truth])
    return scores.get(metric or "entity_f1", scores["token_accuracy"])


def _of_sets(learn: list[str], test: list[str]) -> float:
    counts = Counter(chain.from_iterable(map(labels_in, learn)))
    target = LabelSets(sorted(counts))
    most = [name for name in target.names if 2 * counts[name] > len(learn)]
    return target.scores(target.truth(test), list(repeat(most, len(test))))["micro_f1"]


def _stamp(path: str) -> list[str | int]:
    """Path, size and time of a file, which change with it; a missing file is reported when it is read."""
    try:
        facts = os.stat(home(path))
    except OSError:
        return [path]
    return [path, facts.st_size, facts.st_mtime_ns]
