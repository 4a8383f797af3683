"""What the records of a comparison allow one to say: means with intervals, paired differences, and the sentences that follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from vnait.record import Record
from vnait.statistics import UNIT, Interval, interval, paired, standard_error

ALL = "all"  # every row there is to learn from
Shots = int | str
METRIC = "accuracy"
TIE = 0.01  # of accuracy: two methods closer than that on the validation rows may count as equals


@dataclass(frozen=True, kw_only=True)
class Results:
    """Records of methods x shots x seeds, each cell at most once, and what follows from them.

    methods, shots   in the order in which they are shown;  reference: the method that the others are paired with
    rows             a method at a number of shots;  paired: its difference to the reference on the same seeds
    """

    records: Sequence[Record]
    methods: Sequence[str]
    shots: Sequence[Shots]
    reference: str
    rows: list[dict[str, Any]] = field(init=False)
    paired: list[dict[str, Any]] = field(init=False)
    cells: dict[tuple[str, Shots], list[Record]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", {})
        for record in self.records:
            self.cells.setdefault((record.method, record.data["shots"]), []).append(record)
        object.__setattr__(self, "rows", list(self._rows()))
        object.__setattr__(self, "paired", list(self._paired()))

    @property
    def seeds(self) -> list[int]:
        """Those of any record, in the records' order."""
        return list(dict.fromkeys(record.seed for record in self.records))

    @property
    def most(self) -> Shots:
        """The most labels."""
        return by_size(self.shots)[-1]

    @property
    def best(self) -> str | None:
        """The method to keep, by the validation scores at the most labels; the test rows have no part in it.

        The one-standard-error rule (Breiman et al. 1984): of the methods that are no further behind the highest mean than the standard
        error of that paired difference over seeds, and never further than one point, the cheapest: a baseline before a Transformer, then
        fewer parameters. Few seeds have wide errors, which would give up a real lead: hence the point. None where no rows were held out.
        """
        scores = {method: self._validation(method) for method in self.methods}
        means = {method: sum(own.values()) / len(own) for method, own in scores.items() if own}
        top = max(means, key=lambda method: means[method], default=None)
        if top is None:
            return None
        tied = [
            method
            for method, mean in means.items()
            if means[top] - mean <= min(standard_error(paired(scores[top], scores[method])), TIE)
        ]
        return min(tied, key=lambda method: (self.is_transformer(method), self._parameters(method), -means[method]))

    def is_transformer(self, method: str) -> bool:
        """Whether a method is a Transformer's; the others are baselines."""
        return any("steps" in record.run for record in self.of(method, self.most))

    def validation(self, method: str) -> float | None:
        """The mean validation score at the most labels; None where no rows were held out."""
        own = self._validation(method)
        return sum(own.values()) / len(own) if own else None

    def _parameters(self, method: str) -> int:
        return self.of(method, self.most)[0].parameters

    def _validation(self, method: str) -> dict[int, float]:
        name = f"validation_{METRIC}"
        return {record.seed: record.metrics[name] for record in self.of(method, self.most) if name in record.metrics}

    def of(self, method: str, shots: Shots) -> list[Record]:
        """The records of a method at a number of shots, in the order of the seeds."""
        return self.cells.get((method, shots), [])

    def _rows(self) -> Iterator[dict[str, Any]]:
        for shots in self.shots:
            for method in self.methods:
                if found := self.of(method, shots):
                    yield {
                        "method": method,
                        "shots": shots,
                        "metric": METRIC,
                        **_bounds(interval([record.metrics[METRIC] for record in found], within=UNIT), "mean"),
                        "seeds": len(found),
                        "alone": _mean(found, f"{METRIC}_alone"),
                        "parameters": found[0].parameters,
                        "seconds": sum(record.seconds for record in found) / len(found),
                        "ms_per_text": _mean(found, "ms_per_text"),
                    }

    def _paired(self) -> Iterator[dict[str, Any]]:
        for shots in self.shots:
            against = self.by_seed(self.reference, shots)
            for method in self.methods:
                own = self.by_seed(method, shots)
                if method != self.reference and (differences := paired(own, against)):
                    yield {
                        "method": method,
                        "against": self.reference,
                        "shots": shots,
                        **_bounds(interval(differences), "difference"),
                    }

    def by_seed(self, method: str, shots: Shots) -> dict[int, float]:
        """Seed -> accuracy on the test rows."""
        return {record.seed: record.metrics[METRIC] for record in self.of(method, shots)}

    def sentences(self) -> list[str]:
        """What can be said, in words: who is ahead, who behind, and who can't be told apart from the reference."""
        return [self.sentence(shots) for shots in self.shots]

    def sentence(self, shots: Shots) -> str:
        """The same at one number of shots."""
        of_sign: dict[int, list[dict[str, Any]]] = {sign: [] for sign in (-1, 0, 1)}
        for row in self.paired:
            if row["shots"] == shots:
                of_sign[sign_of(row)].append(row)
        parts = [
            f"{self.reference} is {word} {_listed([_points(row) for row in of_sign[sign]])}"
            for sign, word in ((-1, "ahead of"), (1, "behind"))
            if of_sign[sign]
        ]
        if of_sign[0]:
            names = _listed([str(row["method"]) for row in of_sign[0]])
            parts.append(f"{names} can't be told apart from {self.reference} on {_these_seeds(len(self.seeds))}")
        return f"{where(shots)}: {'; '.join(parts) or 'nothing to compare'}."


def where(shots: Shots) -> str:
    """How many labels, as a sentence begins.

    >>> where("all"), where(16)
    ('With all labels', 'At 16 labels per class')
    """
    return "With all labels" if shots == ALL else f"At {shots} labels per class"


def inside(shots: Shots) -> str:
    """`where` inside a sentence.

    >>> inside("all")
    'with all labels'
    """
    words = where(shots)
    return words[0].lower() + words[1:]


def by_size(shots: Sequence[Shots]) -> list[Shots]:
    """From the fewest labels to the most."""
    return sorted(shots, key=lambda count: float("inf") if count == ALL else float(count))


def sign_of(row: dict[str, Any]) -> int:
    """Of a row of `paired`: 1 or -1 where its interval leaves zero out, else 0."""
    return Interval(row["difference"], row["ci_low"], row["ci_high"]).sign


def _mean(found: Sequence[Record], metric: str) -> float | None:
    values = [record.metrics[metric] for record in found if metric in record.metrics]
    return sum(values) / len(values) if values else None


def _bounds(found: Interval, name: str) -> dict[str, float | None]:
    return {name: found.mean, "ci_low": found.low, "ci_high": found.high}


def _points(row: dict[str, Any]) -> str:
    """The method and how far it is away, without a sign.

    >>> _points({"method": "none", "difference": -0.1, "ci_low": -0.12, "ci_high": -0.08})
    'none by 10.0 points [8.0, 12.0]'
    """
    low, high = 100 * row["ci_low"], 100 * row["ci_high"]
    if row["difference"] < 0:
        low, high = -high, -low
    return f"{row['method']} by {abs(100 * row['difference']):.1f} points [{low:.1f}, {high:.1f}]"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _these_seeds(count: int) -> str:
    if count >= 3:
        return f"these {count} seeds"
    return f"{count} seed{'s' if count > 1 else ''}: too few for an interval (3 or more)"
