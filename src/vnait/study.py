"""A study: a claim about positions, what is measured, and the rule that turns the records into a verdict. Written before it runs.

One cell is one arm with one seed, and gives one `Record`; a claim's judge reads the records and nothing else.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from inspect import getdoc
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from vnait import record as records
from vnait.randomness import apart
from vnait.record import Record
from vnait.statistics import Interval, interval, paired
from vnait.threads import one_thread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Word = Literal["confirmed", "refuted", "conditional", "undecided"]
WORDS: tuple[Word, ...] = get_args(Word)
Metrics = dict[str, Any]  # a number, or a (nested) list of numbers that a figure draws
Watch = Callable[[int, int, Record | None], None]


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How much a study may spend: seeds, training steps, and samples it draws (texts, pairs, images)."""

    seeds: int = 1
    steps: int = 0
    samples: int = 0


@dataclass(frozen=True)
class Verdict:
    """What the records say of a claim: a word, the key figures, and, where it is conditional, its condition."""

    word: Word
    found: str
    condition: str = ""

    def __post_init__(self) -> None:
        assert self.word in WORDS, self.word
        assert bool(self.condition) == (self.word == "conditional"), "a condition goes with conditional, and only there"

    @classmethod
    def among(cls, good: Collection[object], every: Collection[object], found: str, condition: str) -> Verdict:
        """Confirmed where all are good, refuted where none is, else conditional.

        >>> Verdict.among(["a"], ["a", "b"], "1 of 2", "it is a").word, Verdict.among([], ["a"], "0 of 1", "it is none").word
        ('conditional', 'refuted')
        """
        if good and len(good) == len(every):
            return cls("confirmed", found)
        return cls("conditional", found, condition) if good else cls("refuted", found)


class NotRun(KeyError):
    """A judge asked for an arm that has no record."""


class Findings:
    """The records of one study, read by arm and metric.

    >>> findings = Findings({("rope", 0): {"error": 0.5}, ("rope", 1): {"error": 1.5}})
    >>> findings.mean("rope", "error"), findings.most("rope", "error"), "alibi" in findings
    (1.0, 1.5, False)
    """

    def __init__(self, cells: Mapping[tuple[str, int], Mapping[str, Any]]) -> None:
        self.cells = dict(cells)

    @classmethod
    def of(cls, found: Sequence[Record]) -> Findings:
        """Of records, all of one study."""
        return cls({(one.method, one.seed): one.metrics for one in found})

    def __contains__(self, arm: str) -> bool:
        return any(name == arm for name, _ in self.cells)

    @property
    def arms(self) -> list[str]:
        """The arms that ran, in their order."""
        return list(dict.fromkeys(name for name, _ in self.cells))

    def not_numbers(self) -> list[str]:
        """Arms with NaN in a figure."""
        found = (arm for (arm, _), metrics in self.cells.items() if any(map(_has_nan, metrics.values())))
        return list(dict.fromkeys(found))

    def values(self, arm: str, metric: str) -> list[Any]:
        """A value a seed, in the seeds' order; numbers, or lists of them."""
        return list(self._by_seed(arm, metric).values())

    def _by_seed(self, arm: str, metric: str) -> dict[int, Any]:
        own = sorted((seed, metrics[metric]) for (name, seed), metrics in self.cells.items() if name == arm)
        if not own:
            raise NotRun(arm)
        return dict(own)

    def mean(self, arm: str, metric: str) -> float:
        """Over seeds."""
        return float(np.mean(self.values(arm, metric)))

    def least(self, arm: str, metric: str) -> float:
        """Of all seeds."""
        return float(min(self.values(arm, metric)))

    def most(self, arm: str, metric: str) -> float:
        """Of all seeds."""
        return float(max(self.values(arm, metric)))

    def interval(self, arm: str, metric: str) -> Interval:
        """The mean with its 95 % interval over seeds."""
        return interval(self.values(arm, metric))

    def difference(self, arm: str, against: str, metric: str) -> Interval:
        """The mean of arm - against with its 95 % interval, paired by seed."""
        return interval(paired(self._by_seed(arm, metric), self._by_seed(against, metric)))

    def curve(self, arm: str, metric: str) -> np.ndarray:
        """A metric that is a list, as an array (seeds, ...)."""
        return np.asarray(self.values(arm, metric), dtype=float)

    def replaced(self, arm: str, other: str) -> Findings:
        """The same with `arm`'s figures in place of `other`'s: how a test asks whether a control could fail to fail."""
        own = {seed: metrics for (name, seed), metrics in self.cells.items() if name == arm}
        kept = {cell: metrics for cell, metrics in self.cells.items() if cell[0] != other}
        return Findings({**kept, **{(other, seed): metrics for seed, metrics in own.items()}})


def _has_nan(value: Any) -> bool:
    return any(map(_has_nan, value)) if isinstance(value, list | tuple | np.ndarray) else bool(value != value)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence of a source, and the rule by which records confirm or refute it.

    says     as the source has it;  source: document and section;  rule: when it is confirmed and when not, in words
    judge    the rule: pure, of the findings alone;  needs: arms without whose records nothing can be said, besides those it asks for
    """

    says: str
    source: str
    rule: str
    judge: Callable[[Findings], Verdict]
    needs: Sequence[str] = ()


def claim(
    says: str, *, source: str, rule: str | None = None, needs: Sequence[str] = ()
) -> Callable[[Callable[[Findings], Verdict]], Claim]:
    """Make a judge its `Claim`: where no rule is given, the judge's docstring is the rule.

    >>> @claim("it helps", source="here")
    ... def helps(found: Findings) -> Verdict:
    ...     "Confirmed where the score is above 0."
    ...     return Verdict("confirmed" if found.mean("with", "score") > 0 else "refuted", "")
    >>> helps.rule, helps.judge(Findings({("with", 0): {"score": 1.0}})).word
    ('Confirmed where the score is above 0.', 'confirmed')
    """

    def of(judge: Callable[[Findings], Verdict]) -> Claim:
        written = rule or getdoc(judge)
        assert written, f"{says!r} has no rule: write it as the judge's docstring"
        return Claim(says=says, source=source, rule=written, judge=judge, needs=needs)

    return of


@dataclass(frozen=True, kw_only=True)
class Control:
    """An arm without the mechanism, which must fail; where it does not, the study proves nothing.

    `mechanism` is an arm that has it: with its figures in the control's place, `fails` must be false.
    """

    says: str
    arm: str
    mechanism: str
    fails: Callable[[Findings], bool]


@dataclass(frozen=True, kw_only=True)
class Study:
    """Everything that is settled before a study runs.

    subject   what it is about, in a line;  data, measure: in words;  smallest: the smallest effect that matters
    arms      name -> what it is;  run: (arm, seed, budget) -> metrics, on one core and decided by its arguments alone
    draw      findings -> a figure;  needs: arm -> what a machine must have for it (see `missing`)
    """

    name: str
    subject: str
    data: str
    measure: str
    smallest: str
    arms: Mapping[str, str]
    controls: Sequence[Control]
    claims: Sequence[Claim]
    full: Budget
    quick: Budget
    run: Callable[[str, int, Budget], Metrics]
    draw: Callable[[Findings], Figure]
    needs: Mapping[str, str] = field(default_factory=dict)

    def verdict(self, claim: Claim, findings: Findings) -> Verdict:
        """The claim's verdict, from the records alone: undecided where an arm did not run or gave NaN, or a control did not fail."""
        # NaN is neither more nor less than anything, so that a judge may pass over it.
        if broken := findings.not_numbers():
            return Verdict("undecided", f"not a number: {', '.join(broken)}")
        try:
            for arm in claim.needs:
                if arm not in findings:
                    raise NotRun(arm)
            for control in self.controls:
                if not control.fails(findings):
                    return Verdict("undecided", f"the control did not fail: {control.says}")
            return claim.judge(findings)
        except NotRun as error:
            (arm,) = error.args
            return Verdict("undecided", f"not run: {missing(self.needs.get(arm)) or arm}")


def missing(need: str | None) -> str | None:
    """Why an arm can't run here, or None: a need is a folder of VNAIT_DATA ("data:trec") or a module ("module:statsmodels").

    >>> missing("module:no_such_module")
    'no_such_module is not installed (pip install no_such_module)'
    """
    kind, _, name = (need or "").partition(":")
    if kind == "module" and find_spec(name) is None:
        return f"{name} is not installed (pip install {name})"
    if kind == "data" and not (folder := data_folder(name)).is_dir():
        return f"there is no {folder}; set VNAIT_DATA to a folder that holds {name}"
    return None


def data_folder(name: str) -> Path:
    """A data set's folder in VNAIT_DATA."""
    return Path(os.environ.get("VNAIT_DATA", "VNAIT_DATA")) / name


def run(
    studies: Sequence[Study],
    *,
    quick: bool,
    path: str | Path,
    jobs: int | None = None,
    watch: Watch = lambda done, total, record: None,
) -> dict[str, Findings]:
    """Every arm of every study with every seed, one core a cell; what `path` holds already is not run again. Findings by study."""
    from joblib import Parallel, delayed

    done = {record.key for record in records.read(path)} if Path(path).is_file() else set()
    cells = {
        key(study, arm, seed, budget): (study, arm, seed, budget)
        for study in studies
        for budget in [study.quick if quick else study.full]
        for arm in study.arms
        for seed in range(budget.seeds)
        if key(study, arm, seed, budget) in done or missing(study.needs.get(arm)) is None
    }

    def results(left: list[tuple[Study, str, int, Budget]]) -> Iterator[Record]:
        workers = max(min(jobs or os.cpu_count() or 1, len(left)), 1)
        tasks = (delayed(run_cell)(*cell) for cell in left)
        return Parallel(n_jobs=workers, return_as="generator_unordered")(tasks)

    found = records.resumed(path, cells, results, watch)
    groups = groupby(found, key=lambda record: str(record.data["name"]))
    return {study.name: Findings({}) for study in studies} | {name: Findings.of(list(own)) for name, own in groups}


def key(study: Study, arm: str, seed: int, budget: Budget) -> str:
    """The fingerprint of what decides a cell; how many seeds there are does not."""
    return records.key_of("study", study.name, arm, study.arms[arm], seed, budget.steps, budget.samples)


def run_cell(study: Study, arm: str, seed: int, budget: Budget) -> Record:
    """One arm with one seed, on one core."""
    started = time.perf_counter()
    with one_thread(), apart():
        metrics = study.run(arm, seed, budget)
    return Record.now(
        key=key(study, arm, seed, budget),
        method=arm,
        seed=seed,
        run={"steps": budget.steps, "samples": budget.samples},
        data={"name": study.name},
        metrics=metrics,
        parameters=0,
        seconds=time.perf_counter() - started,
    )


def rows(studies: Sequence[Study], findings: Mapping[str, Findings]) -> list[dict[str, Any]]:
    """A row a claim: study, claim, source, verdict, condition, found."""
    table = []
    for study in studies:
        for claim in study.claims:
            verdict = study.verdict(claim, findings[study.name])
            table.append(
                {
                    "study": study.name,
                    "claim": claim.says,
                    "source": claim.source,
                    "verdict": verdict.word,
                    "condition": verdict.condition,
                    "found": verdict.found,
                }
            )
    return table
