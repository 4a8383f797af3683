"""A study: claims about positions, how they are measured, and the rules that turn records into verdicts, all
written before it runs.

A run is one variant with one seed and gives one `Record`; the judge of a claim reads only the records.

A module in `vnait_lab.studies` is one study, whose docstring starts with its subject (`vnait_lab.kit` has
what it imports):

    STUDY = Study.of(__name__, data=..., measure=..., smallest=..., variants=..., full=..., quick=...)
    @STUDY.runs            def run(variant, seed, budget) -> Metrics
    @STUDY.control(...)    def fails(findings) -> bool
    @STUDY.claim(...)      def judge(findings) -> Verdict
    @STUDY.draws           def draw(findings) -> Figure
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from inspect import getdoc
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from vnait.results.record import Record
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
    summary: str
    condition: str = ""

    def __post_init__(self) -> None:
        if self.word not in WORDS:
            raise ValueError(f"the verdict {self.word!r} is not known; take one of {', '.join(WORDS)}.")
        assert bool(self.condition) == (self.word == "conditional"), "only conditional has a condition"


def listed(values: Mapping[str, float | Interval], form: str = "{:.2f}", *, join: str = ", ") -> str:
    """Values with their names before them, or where {name} is; intervals as `Interval.written` gives them.

    >>> listed({"rope": 0.5, "alibi": 0.25}, "{:.2f}"), listed({"rope": 0.5}, "{:.1f} ({name})")
    ('rope 0.50, alibi 0.25', '0.5 (rope)')
    >>> listed({"rope": Interval(1.0, 0.5, 1.5)}, "{:+.1f}")
    'rope +1.0 [+0.5, +1.5]'
    """
    form = form if "{name}" in form else "{name} " + form

    def written(name: str, value: float | Interval) -> str:
        if isinstance(value, Interval):
            return f"{name} {value.written(form.removeprefix('{name} '))}"
        return form.format(value, name=name)

    return join.join(written(name, value) for name, value in values.items())


class NotRun(KeyError):
    """A judge reads a variant that has no record."""


class Findings:
    """The records of one study, read by variant and metric.

    >>> findings = Findings({("rope", 0): {"error": 0.5}, ("rope", 1): {"error": 1.5}})
    >>> findings.mean("rope", "error"), findings.most("rope", "error"), "alibi" in findings
    (1.0, 1.5, False)
    """

    def __init__(self, runs: Mapping[tuple[str, int], Mapping[str, Any]]) -> None:
        self.runs = dict(runs)

    @classmethod
    def of(cls, records: Sequence[Record]) -> Findings:
        """From the records of one study."""
        return cls({(record.method, record.seed): record.metrics for record in records})

    def __contains__(self, variant: str) -> bool:
        return any(name == variant for name, _ in self.runs)

    @property
    def variants(self) -> list[str]:
        """The variants that ran, in order."""
        return list(dict.fromkeys(name for name, _ in self.runs))

    @property
    def seeds(self) -> int:
        """The number of seeds."""
        return len({seed for _, seed in self.runs})

    def not_numbers(self) -> list[str]:
        """Variants with a NaN."""
        broken = (name for (name, _), metrics in self.runs.items() if any(map(_has_nan, metrics.values())))
        return list(dict.fromkeys(broken))

    def values(self, variant: str, metric: str) -> list[Any]:
        """One value per seed, in the order of seeds: numbers, or lists of them."""
        return list(self._by_seed(variant, metric).values())

    def _by_seed(self, variant: str, metric: str) -> dict[int, Any]:
        values = {seed: metrics[metric] for (name, seed), metrics in self.runs.items() if name == variant}
        if not values:
            raise NotRun(variant)
        return dict(sorted(values.items()))

    def mean(self, variant: str, metric: str) -> float:
        """Over seeds."""
        return float(np.mean(self.values(variant, metric)))

    def least(self, variant: str, metric: str) -> float:
        """The least of all seeds."""
        return float(min(self.values(variant, metric)))

    def most(self, variant: str, metric: str) -> float:
        """The most of all seeds."""
        return float(max(self.values(variant, metric)))

    def best(self, variants: Iterable[str], metric: str) -> str:
        """The variant with the largest mean, the first one of equals."""
        return max(variants, key=lambda variant: self.mean(variant, metric))

    def interval(self, variant: str, metric: str) -> Interval:
        """The mean with its 95 % interval over seeds."""
        return interval(self.values(variant, metric))

    def bounds(self, variant: str, metric: str) -> Interval:
        """Of a metric (mean, lowest, highest) per seed: the mean over seeds, and the widest bounds."""
        rows = self.curve(variant, metric)
        return Interval(float(rows[:, 0].mean()), float(rows[:, 1].min()), float(rows[:, 2].max()))

    def ratio(self, variant: str, against: str, metric: str) -> Interval:
        """The mean of `variant` over `against` with its 95 % interval, paired by seed."""
        upper, lower = self._by_seed(variant, metric), self._by_seed(against, metric)
        return interval([upper[seed] / lower[seed] for seed in upper if seed in lower])

    def difference(self, variant: str, against: str, metric: str) -> Interval:
        """The mean of `variant` minus `against` with its 95 % interval, paired by seed."""
        return interval(paired(self._by_seed(variant, metric), self._by_seed(against, metric)))

    def differences(self, variants: Iterable[str], against: str, metric: str) -> dict[str, Interval]:
        """`difference` of each variant to the same one."""
        return {variant: self.difference(variant, against, metric) for variant in variants}

    def curve(self, variant: str, metric: str) -> np.ndarray:
        """A metric with lists as values, as an array (seeds, ...)."""
        return np.asarray(self.values(variant, metric), dtype=float)

    def curves(self, variants: Iterable[str], metric: str, scale: float = 1.0) -> dict[str, np.ndarray]:
        """`scale` times the values of each variant, (seeds, ...): what a figure takes."""
        return {variant: scale * self.curve(variant, metric) for variant in variants}

    def listed(
        self,
        variants: Iterable[str],
        metric: str,
        form: str = "{:.2f}",
        *,
        scale: float = 1.0,
        join: str = ", ",
    ) -> str:
        """`scale` times the mean of each variant, as text (see `listed`).

        >>> Findings({("rope", 0): {"right": 0.5}}).listed(["rope"], "right", "{:.0f} %", scale=100)
        'rope 50 %'
        """
        return listed({variant: scale * self.mean(variant, metric) for variant in variants}, form, join=join)

    def replaced(self, variant: str, by: str) -> Findings:
        """A copy in which `by` has the metrics of `variant`: for the test that a control can fail to fail."""
        copied = {(by, seed): metrics for (name, seed), metrics in self.runs.items() if name == variant}
        return Findings({run: metrics for run, metrics in self.runs.items() if run[0] != by} | copied)


def _has_nan(value: Any) -> bool:
    return any(map(_has_nan, value)) if isinstance(value, list | tuple | np.ndarray) else bool(value != value)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence of a source, and the rule by which records confirm or refute it.

    statement   the sentence
    source      document and section
    rule        the rule in words
    judge       the rule as a pure function of the findings
    needs       further variants that must have run, beyond those that the judge reads
    """

    statement: str
    source: str
    rule: str
    judge: Callable[[Findings], Verdict]
    needs: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Control:
    """A variant without the mechanism, which must fail; if it does not, the study proves nothing.

    `mechanism` is a variant with it: if the control had its metrics, `fails` must be false.
    """

    statement: str
    variant: str
    mechanism: str
    fails: Callable[[Findings], bool]


def _unwritten(*_: Any) -> Any:
    raise NotImplementedError("the study has no run, or no figure: decorate one with @STUDY.runs or .draws")


@dataclass(kw_only=True)
class Study:
    """Everything that is decided before a study runs.

    subject     one line
    smallest    the smallest effect that matters
    variants    name -> description, which is part of the runs' keys
    full        what it may spend; by default one seed, and nothing drawn. `quick` is for a look
    run         (variant, seed, budget) -> metrics, on one core; depends on its arguments only
    draw        findings -> figure
    needs       variant -> requirements on the machine (see `missing`)
    source      document and section of the claims that name none

    `runs`, `draws`, `claim` and `control` decorate functions of the study's module.
    """

    name: str
    subject: str
    data: str
    measure: str
    smallest: str
    variants: Mapping[str, str]
    full: Budget = Budget()
    quick: Budget = Budget()
    controls: list[Control] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    run: Callable[[str, int, Budget], Metrics] = _unwritten
    draw: Callable[[Findings], Figure] = _unwritten
    needs: Mapping[str, str] = field(default_factory=dict)
    source: str = ""

    def __post_init__(self) -> None:
        for control in self.controls:
            self._check(control.variant, control.mechanism)
        for claim in self.claims:
            self._check(*claim.needs)
        self._check(*self.needs)

    @classmethod
    def of(cls, module: str, *, needs: str | Mapping[str, str] = "", **fields: Any) -> Study:
        """The study of a module: its name is that of the file, its subject the docstring's first paragraph.
        `needs` as a string are those of every variant.
        """
        subject = (getdoc(sys.modules[module]) or "").partition("\n\n")[0]
        every = dict.fromkeys(fields["variants"], needs) if isinstance(needs, str) and needs else needs or {}
        return cls(
            name=module.rpartition(".")[2],
            subject=" ".join(subject.split()).removesuffix("."),
            needs=every,
            **fields,
        )

    def runs(self, run: Callable[[str, int, Budget], Metrics]) -> Callable[[str, int, Budget], Metrics]:
        """Register the function that runs a variant."""
        self.run = run
        return run

    def draws(self, draw: Callable[[Findings], Figure]) -> Callable[[Findings], Figure]:
        """Register the function that draws the figure."""
        self.draw = draw
        return draw

    def claim(
        self, statement: str, *, source: str = "", rule: str | None = None, needs: Sequence[str] = ()
    ) -> Callable[[Callable[[Findings], Verdict]], Claim]:
        """Register a judge as a `Claim`, in the order of the file; its docstring is the rule, unless `rule`
        is, and its source the study's, unless `source` is.
        """
        source = source or self.source
        assert source, f"{statement!r} has no source: give one to the claim, or to the study"

        def register(judge: Callable[[Findings], Verdict]) -> Claim:
            self._check(*needs)
            written = rule or getdoc(judge)
            assert written, f"{statement!r} has no rule: write it as the judge's docstring"
            claim = Claim(statement=statement, source=source, rule=written, judge=judge, needs=needs)
            self.claims.append(claim)
            return claim

        return register

    def control(
        self, statement: str, *, variant: str, mechanism: str
    ) -> Callable[[Callable[[Findings], bool]], Callable[[Findings], bool]]:
        """Register the test of a control: whether the variant fails."""

        def register(fails: Callable[[Findings], bool]) -> Callable[[Findings], bool]:
            self._check(variant, mechanism)
            self.controls.append(
                Control(statement=statement, variant=variant, mechanism=mechanism, fails=fails)
            )
            return fails

        return register

    def _check(self, *variants: str) -> None:
        for variant in variants:
            if variant not in self.variants:
                raise ValueError(
                    f"the study {self.name} has no variant {variant!r}, which a control, a claim or `needs` "
                    f"names; its variants are {', '.join(self.variants)}."
                )

    def verdict(self, claim: Claim, findings: Findings) -> Verdict:
        """The verdict; undecided if a variant did not run or has a NaN, or if a control did not fail."""
        # Every comparison with NaN is false, so a judge may overlook it.
        if broken := findings.not_numbers():
            return Verdict("undecided", f"not a number: {', '.join(broken)}")
        try:
            for variant in claim.needs:
                if variant not in findings:
                    raise NotRun(variant)
            for control in self.controls:
                if not control.fails(findings):
                    return Verdict("undecided", f"the control did not fail: {control.statement}")
            return claim.judge(findings)
        except NotRun as error:
            (variant,) = error.args
            return Verdict("undecided", f"not run: {missing(self.needs.get(variant)) or variant}")


def missing(needs: str | None) -> str | None:
    """Why a variant cannot run here, or None. Needs, with spaces between them, are folders of VNAIT_DATA
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
