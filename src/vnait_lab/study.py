"""A study: claims about positions, how they are measured, and the rules that turn records into verdicts, all
written before it runs.

A cell is one arm with one seed and gives one `Record`; the judge of a claim reads only the records.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from inspect import getdoc
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from vnait.comparison import runs
from vnait.comparison.runs import Callback
from vnait.results import record as records
from vnait.results.record import Record
from vnait.shared.processes import one_thread
from vnait.shared.randomness import preserved_generators
from vnait.shared.statistics import Interval, interval, paired

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Word = Literal["confirmed", "refuted", "conditional", "undecided"]
WORDS: tuple[Word, ...] = get_args(Word)
Metrics = dict[str, Any]  # numbers, or (nested) lists of numbers for a figure


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a study may spend: seeds, training steps, and drawn samples (texts, pairs, images)."""

    seeds: int = 1
    steps: int = 0
    samples: int = 0


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim, its key figures, and its condition if it is conditional."""

    word: Word
    found: str
    condition: str = ""

    def __post_init__(self) -> None:
        if self.word not in WORDS:
            raise ValueError(f"the verdict {self.word!r} is not known; take one of {', '.join(WORDS)}.")
        assert bool(self.condition) == (self.word == "conditional"), "only conditional has a condition"

    @classmethod
    def among(
        cls, good: Collection[object], every: Collection[object], found: str, condition: str
    ) -> Verdict:
        """Confirmed if all are good, refuted if none is, else conditional.

        >>> Verdict.among(["a"], ["a", "b"], "1 of 2", "it is a").word
        'conditional'
        """
        if good and len(good) == len(every):
            return cls("confirmed", found)
        return cls("conditional", found, condition) if good else cls("refuted", found)

    @classmethod
    def by_sign(cls, signs: Collection[int], found: str) -> Verdict:
        """Of intervals that a claim needs above zero: confirmed if all are, refuted if one is below.

        >>> Verdict.by_sign([1, 0], "").word
        'undecided'
        """
        return cls("refuted" if -1 in signs else "confirmed" if {*signs} == {1} else "undecided", found)


class NotRun(KeyError):
    """A judge reads an arm that has no record."""


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
        """From the records of one study."""
        return cls({(one.method, one.seed): one.metrics for one in found})

    def __contains__(self, arm: str) -> bool:
        return any(name == arm for name, _ in self.cells)

    @property
    def arms(self) -> list[str]:
        """The arms that ran, in order."""
        return list(dict.fromkeys(name for name, _ in self.cells))

    def not_numbers(self) -> list[str]:
        """Arms with a NaN."""
        found = (arm for (arm, _), metrics in self.cells.items() if any(map(_has_nan, metrics.values())))
        return list(dict.fromkeys(found))

    def values(self, arm: str, metric: str) -> list[Any]:
        """One value per seed, in the order of seeds: numbers, or lists of them."""
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
        """The least of all seeds."""
        return float(min(self.values(arm, metric)))

    def most(self, arm: str, metric: str) -> float:
        """The most of all seeds."""
        return float(max(self.values(arm, metric)))

    def interval(self, arm: str, metric: str) -> Interval:
        """The mean with its 95 % interval over seeds."""
        return interval(self.values(arm, metric))

    def ratio(self, arm: str, against: str, metric: str) -> Interval:
        """The mean of `arm` over `against` with its 95 % interval, paired by seed."""
        pairs = zip(self.values(arm, metric), self.values(against, metric), strict=True)
        return interval([one / other for one, other in pairs])

    def difference(self, arm: str, against: str, metric: str) -> Interval:
        """The mean of `arm` minus `against` with its 95 % interval, paired by seed."""
        return interval(paired(self._by_seed(arm, metric), self._by_seed(against, metric)))

    def curve(self, arm: str, metric: str) -> np.ndarray:
        """A metric with lists as values, as an array (seeds, ...)."""
        return np.asarray(self.values(arm, metric), dtype=float)

    def replaced(self, arm: str, other: str) -> Findings:
        """A copy in which `other` has the metrics of `arm`: for the test that a control can fail to fail."""
        own = {seed: metrics for (name, seed), metrics in self.cells.items() if name == arm}
        kept = {cell: metrics for cell, metrics in self.cells.items() if cell[0] != other}
        return Findings({**kept, **{(other, seed): metrics for seed, metrics in own.items()}})


def _has_nan(value: Any) -> bool:
    return any(map(_has_nan, value)) if isinstance(value, list | tuple | np.ndarray) else bool(value != value)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence of a source, and the rule by which records confirm or refute it.

    statement   the sentence
    source      document and section
    rule        the rule in words
    judge       the rule as a pure function of the findings
    needs       further arms that must have run, beyond those that the judge reads
    """

    statement: str
    source: str
    rule: str
    judge: Callable[[Findings], Verdict]
    needs: Sequence[str] = ()


def claim(
    statement: str, *, source: str, rule: str | None = None, needs: Sequence[str] = ()
) -> Callable[[Callable[[Findings], Verdict]], Claim]:
    """Decorate a judge to make it a `Claim`; its docstring is the rule, unless `rule` is.

    >>> @claim("it helps", source="here")
    ... def helps(found: Findings) -> Verdict:
    ...     "Confirmed if the score is above 0."
    ...     return Verdict("confirmed" if found.mean("with", "score") > 0 else "refuted", "")
    >>> helps.rule, helps.judge(Findings({("with", 0): {"score": 1.0}})).word
    ('Confirmed if the score is above 0.', 'confirmed')
    """

    def of(judge: Callable[[Findings], Verdict]) -> Claim:
        written = rule or getdoc(judge)
        assert written, f"{statement!r} has no rule: write it as the judge's docstring"
        return Claim(statement=statement, source=source, rule=written, judge=judge, needs=needs)

    return of


@dataclass(frozen=True, kw_only=True)
class Control:
    """An arm without the mechanism, which must fail; if it does not, the study proves nothing.

    `mechanism` is an arm with it: if the control had its metrics, `fails` must be false.
    """

    statement: str
    arm: str
    mechanism: str
    fails: Callable[[Findings], bool]


@dataclass(frozen=True, kw_only=True)
class Study:
    """Everything that is decided before a study runs.

    subject     one line
    smallest    the smallest effect that matters
    arms        name -> description, which is part of the cells' keys
    run         (arm, seed, budget) -> metrics, on one core; depends on its arguments only
    draw        findings -> figure
    needs       arm -> requirements on the machine (see `missing`)
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

    def __post_init__(self) -> None:
        named = [arm for control in self.controls for arm in (control.arm, control.mechanism)]
        named += [arm for claim in self.claims for arm in claim.needs]
        for arm in [*named, *self.needs]:
            if arm not in self.arms:
                raise ValueError(
                    f"the study {self.name} has no arm {arm!r}, which a control, a claim or `needs` names; "
                    f"its arms are {', '.join(self.arms)}."
                )

    def verdict(self, claim: Claim, findings: Findings) -> Verdict:
        """The verdict; undecided if an arm did not run or has a NaN, or if a control did not fail."""
        # Every comparison with NaN is false, so a judge may overlook it.
        if broken := findings.not_numbers():
            return Verdict("undecided", f"not a number: {', '.join(broken)}")
        try:
            for arm in claim.needs:
                if arm not in findings:
                    raise NotRun(arm)
            for control in self.controls:
                if not control.fails(findings):
                    return Verdict("undecided", f"the control did not fail: {control.statement}")
            return claim.judge(findings)
        except NotRun as error:
            (arm,) = error.args
            return Verdict("undecided", f"not run: {missing(self.needs.get(arm)) or arm}")


def missing(needs: str | None) -> str | None:
    """Why an arm cannot run here, or None. Needs, with spaces between them, are folders of VNAIT_DATA
    ("data:trec") and packages by the names that pip knows ("package:scikit-image").

    >>> missing("package:torch package:no-such-package")
    'no-such-package is not installed (pip install no-such-package)'
    """
    for need in (needs or "").split():
        kind, _, name = need.partition(":")
        if kind == "package" and not any(metadata.Distribution.discover(name=name)):
            return f"{name} is not installed (pip install {name})"
        if kind == "data" and not (folder := data_folder(name)).is_dir():
            return f"there is no {folder}; set VNAIT_DATA to a folder that has {name} (docs/data-sets.md)"
    return None


def data_folder(name: str) -> Path:
    """The folder of a data set in VNAIT_DATA."""
    return Path(os.environ.get("VNAIT_DATA", "VNAIT_DATA")) / name


def run(
    studies: Sequence[Study],
    *,
    quick: bool,
    path: str | Path,
    jobs: int | None = None,
    backend: str = "local",
    callback: Callback = lambda done, total, record: None,
) -> dict[str, Findings]:
    """Run every arm of every study with every seed, one core per cell; cells in `path` do not run again.

    Returns the findings per study.
    """
    from joblib import delayed

    done = {record.key for record in records.read(path)} if Path(path).is_file() else set()
    cells = {
        key(study, arm, seed, budget): (study, arm, seed, budget)
        for study in studies
        for budget in [study.quick if quick else study.full]
        for arm in study.arms
        for seed in range(budget.seeds)
        if key(study, arm, seed, budget) in done or missing(study.needs.get(arm)) is None
    }

    found = runs.run_all(
        path,
        cells,
        lambda left: (delayed(run_cell)(*cell) for cell in left),
        jobs=jobs,
        backend=backend,
        callback=callback,
    )
    groups = groupby(found, key=lambda record: str(record.data["name"]))
    return {study.name: Findings({}) for study in studies} | {
        name: Findings.of(list(own)) for name, own in groups
    }


def key(study: Study, arm: str, seed: int, budget: Budget) -> str:
    """The fingerprint of everything that decides a cell; the number of seeds does not."""
    return records.key_of("study", study.name, arm, study.arms[arm], seed, budget.steps, budget.samples)


def run_cell(study: Study, arm: str, seed: int, budget: Budget) -> Record:
    """One arm with one seed, on one core."""
    started = time.perf_counter()
    with one_thread(), preserved_generators():
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
    """One row per claim."""
    return [
        {
            "study": study.name,
            "claim": claim.statement,
            "source": claim.source,
            "verdict": verdict.word,
            "condition": verdict.condition,
            "found": verdict.found,
        }
        for study in studies
        for claim in study.claims
        for verdict in [study.verdict(claim, findings[study.name])]
    ]
