"""Results of a comparison, computed from its records: means, paired differences, intervals, conclusions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from vnait.record import Record
from vnait.statistics import UNIT, Interval, interval, paired, standard_error

ALL = "all"  # every training row
Shots = int | str
METRIC = "accuracy"
TIE = 0.01  # of accuracy: methods further apart on the validation rows never count as equal


@dataclass(frozen=True, kw_only=True)
class Results:
    """Records of methods x shots x seeds, each cell at most once, and their statistics.

    methods, shots   in the order of the tables
    reference        the method that the others are paired with
    """

    records: Sequence[Record]
    methods: Sequence[str]
    shots: Sequence[Shots]
    reference: str

    @cached_property
    def cells(self) -> dict[tuple[str, Shots], list[Record]]:
        """The records by method and number of shots."""
        cells: dict[tuple[str, Shots], list[Record]] = {}
        for record in self.records:
            cells.setdefault((record.method, record.data["shots"]), []).append(record)
        return cells

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """A row per method and number of shots: mean accuracy with interval, parameters, seconds."""
        return [
            {
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
            for shots in self.shots
            for method in self.methods
            if (found := self.of(method, shots))
        ]

    @cached_property
    def paired(self) -> list[dict[str, Any]]:
        """A row per method and number of shots: paired difference to the reference, with interval."""
        return [
            {
                "method": method,
                "against": self.reference,
                "shots": shots,
                **_bounds(interval(differences), "difference"),
            }
            for shots in self.shots
            for method in self.methods
            if method != self.reference
            and (differences := paired(self.by_seed(method, shots), self.by_seed(self.reference, shots)))
        ]

    def ranked(self, shots: Shots) -> list[dict[str, Any]]:
        """The rows of a number of shots, the highest mean first."""
        return sorted((row for row in self.rows if row["shots"] == shots), key=lambda row: -row["mean"])

    @property
    def seeds(self) -> list[int]:
        """The seeds of all records, in the order of the records."""
        return list(dict.fromkeys(record.seed for record in self.records))

    @property
    def most(self) -> Shots:
        """The largest number of shots."""
        return by_size(self.shots)[-1]

    @property
    def best(self) -> str | None:
        """The best method by the validation scores at the most labels, without the test rows; None if none.

        The one-standard-error rule (Breiman et al. 1984): of the methods behind the highest mean by at most
        the standard error of that paired difference, and at most one point, the cheapest: a baseline before
        a Transformer, then fewer parameters. The limit of one point keeps a real lead when few seeds have a
        large error.
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

        def cost(method: str) -> tuple[bool, int, float]:
            return self.is_transformer(method), self.of(method, self.most)[0].parameters, -means[method]

        return min(tied, key=cost)

    def is_transformer(self, method: str) -> bool:
        """Whether a method is a Transformer and not a baseline."""
        return any("steps" in record.run for record in self.of(method, self.most))

    def validation(self, method: str) -> float | None:
        """The mean validation score at the most labels; None if no rows were held out."""
        own = self._validation(method)
        return sum(own.values()) / len(own) if own else None

    def _validation(self, method: str) -> dict[int, float]:
        name = f"validation_{METRIC}"
        return {
            record.seed: record.metrics[name]
            for record in self.of(method, self.most)
            if name in record.metrics
        }

    def of(self, method: str, shots: Shots) -> list[Record]:
        """The records of a method at a number of shots, in the order of the seeds."""
        return self.cells.get((method, shots), [])

    def by_seed(self, method: str, shots: Shots) -> dict[int, float]:
        """Seed -> accuracy on the test rows."""
        return {record.seed: record.metrics[METRIC] for record in self.of(method, shots)}

    def sentences(self) -> list[str]:
        """Per number of shots, the methods ahead of the reference, behind it, or not told apart from it."""
        return [self._sentence(shots) for shots in self.shots]

    def _sentence(self, shots: Shots) -> str:
        of_sign: dict[int, list[dict[str, Any]]] = {sign: [] for sign in (-1, 0, 1)}
        for row in self.paired:
            if row["shots"] == shots:
                of_sign[interval_of(row).sign].append(row)
        parts = [
            f"{self.reference} is {word} {_listed([_points(row) for row in of_sign[sign]])}"
            for sign, word in ((-1, "ahead of"), (1, "behind"))
            if of_sign[sign]
        ]
        if of_sign[0]:
            names, count = _listed([str(row["method"]) for row in of_sign[0]]), len(self.seeds)
            over = f"{count} seed{'s' * (count > 1)}" + ", too few for an interval (3 or more)" * (count < 3)
            parts.append(f"{names} can't be told apart from {self.reference} over {over}")
        return f"{where(shots)}: {'; '.join(parts) or 'nothing to compare'}."


def where(shots: Shots) -> str:
    """The number of labels, at the start of a sentence.

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
    """Numbers of shots, increasing."""
    return sorted(shots, key=lambda count: float("inf") if count == ALL else float(count))


def interval_of(row: Mapping[str, Any]) -> Interval:
    """The mean of a row of `rows`, or the difference of a row of `paired`, with its interval."""
    return Interval(row["difference" if "difference" in row else "mean"], row["ci_low"], row["ci_high"])


def _mean(found: Sequence[Record], metric: str) -> float | None:
    values = [record.metrics[metric] for record in found if metric in record.metrics]
    return sum(values) / len(values) if values else None


def _bounds(found: Interval, name: str) -> dict[str, float | None]:
    return {name: found.mean, "ci_low": found.low, "ci_high": found.high}


def _points(row: dict[str, Any]) -> str:
    """The method and the size of its difference.

    >>> _points({"method": "none", "difference": -0.1, "ci_low": -0.12, "ci_high": -0.08})
    'none by 10.0 points [8.0, 12.0]'
    """
    size = interval_of(row).times(-100 if row["difference"] < 0 else 100)
    return f"{row['method']} by {size.written('{:.1f}', ' points')}"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
