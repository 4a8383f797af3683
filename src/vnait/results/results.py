"""Results of a comparison, computed from its records: means, paired differences, intervals, conclusions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vnait.results.metrics import ACCURACY, RANGES, Metric, metric_of
from vnait.results.record import Record
from vnait.shared.errors import plural
from vnait.shared.statistics import UNIT, Interval, crossed, interval, paired, standard_error

ALL = "all"  # every training row
Shots = int | str
TIE = 0.01  # methods further apart on the validation rows, in `Results.unit`, never count as equal

FIXED = "The test rows are the same for all seeds, so the intervals do not include the choice of rows."
SPLITS = "Each seed draws its test rows from the same file; for new texts the intervals are wider."
CROSSED = "The test rows are the same for all seeds; the intervals include the choice of both."


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
    def metric(self) -> Metric:
        """What the records were scored by, on validation rows, too, if there are any."""
        names = set.intersection(*(set(record.metrics) for record in self.records))
        chosen = {name for name in names if f"validation_{name}" in names}
        metric = metric_of(dict.fromkeys(chosen)) or metric_of(self.records[0].metrics)
        assert metric is not None
        return metric

    @cached_property
    def unit(self) -> float:
        """What a large difference is: 1 of an accuracy, else the median error at the most labels, on the
        validation rows if there are any.
        """
        if self.metric.better > 0:
            return 1.0
        errors = [error for method in self.methods if (error := self.validation(method)) is not None]
        return float(np.median(errors or [row["mean"] for row in self.ranked(self.most)]))

    def ahead(self, row: Mapping[str, Any]) -> int:
        """1 or -1 if the difference of a row of `paired` is clearly for the better or the worse, else 0."""
        return self.metric.better * interval_of(row).sign

    def score(self, method: str, shots: Shots, name: str) -> Interval | None:
        """The mean of any score over the seeds with its interval; None if no record has it."""
        values = [record.metrics[name] for record in self.of(method, shots) if name in record.metrics]
        return _of_seeds(values, RANGES.get(name, UNIT)) if values else None

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
                "metric": self.metric.name,
                **_bounds(self._mean_of(method, shots), "mean"),
                "seeds": len(records),
                "alone": _mean(records, f"{self.metric.name}_alone"),
                "parameters": records[0].parameters,
                "seconds": sum(record.seconds for record in records) / len(records),
                "ms_per_text": _mean(records, "ms_per_text"),
            }
            for shots in self.shots
            for method in self.methods
            if (records := self.of(method, shots))
        ]

    @cached_property
    def paired(self) -> list[dict[str, Any]]:
        """A row per method and number of shots: paired difference to the reference, with interval."""
        return [
            {
                "method": method,
                "against": self.reference,
                "shots": shots,
                **_bounds(self.difference(method, self.reference, shots), "difference"),
                "seeds": len(self.differences(method, self.reference, shots)),
            }
            for shots in self.shots
            for method in self.methods
            if method != self.reference and self.differences(method, self.reference, shots)
        ]

    def differences(self, method: str, reference: str, shots: Shots) -> list[float]:
        """The score of a method minus the reference's, for each seed that both have."""
        return paired(self.by_seed(method, shots), self.by_seed(reference, shots))

    def difference(self, method: str, reference: str, shots: Shots) -> Interval:
        """The mean of `differences` with its interval: over seeds, and over rows if all seeds share them."""
        rows, others = self._right(method, shots), self._right(reference, shots)
        seeds = [seed for seed in rows if seed in others]
        if seeds:
            pairs = np.array([rows[seed] - others[seed] for seed in seeds])
            return crossed(pairs, within=self.metric.differences)
        return interval(self.differences(method, reference, shots), within=self.metric.differences)

    def _mean_of(self, method: str, shots: Shots) -> Interval:
        rows = np.array(list(self._right(method, shots).values()))
        if rows.size and np.ptp(rows):  # equal answers in all rows are no proof of an exact mean
            return crossed(rows, within=self.metric.within)
        return _of_seeds(list(self.by_seed(method, shots).values()), self.metric.within)

    @cached_property
    def shares_rows(self) -> bool:
        """Whether all seeds have the same test rows, and the records state which are answered right."""
        tests = {record.data.get("test_fingerprint") for record in self.records}
        stated = all("right" in record.metrics for record in self.records)
        return stated and None not in tests and len(tests) == 1 and self.metric is ACCURACY

    @property
    def of_rows(self) -> str:
        """What the intervals over seeds include of the choice of test rows."""
        if len({record.data.get("test_fingerprint") for record in self.records}) > 1:
            return SPLITS
        return CROSSED if self.shares_rows else FIXED

    def _right(self, method: str, shots: Shots) -> dict[int, NDArray[np.float64]]:
        """Seed -> 1 for each test row that is answered right, else 0; empty unless `shares_rows`."""
        if not self.shares_rows:
            return {}
        return {
            record.seed: np.unpackbits(
                np.frombuffer(bytes.fromhex(record.metrics["right"]), np.uint8),
                count=record.data["test_rows"],
            ).astype(np.float64)
            for record in self.of(method, shots)
        }

    def ranked(self, shots: Shots) -> list[dict[str, Any]]:
        """The rows of a number of shots, the best mean first; of equals the one that trains fastest."""
        rows = (row for row in self.rows if row["shots"] == shots)
        return sorted(rows, key=lambda row: (-self.metric.better * row["mean"], row["seconds"]))

    @property
    def lacks_seeds(self) -> bool:
        """Whether a method has fewer seeds than another with the same number of labels."""
        counts = [
            {len(records) for method in self.methods if (records := self.of(method, shots))}
            for shots in self.shots
        ]
        return any(len(sizes) > 1 for sizes in counts)

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
        """The cheapest of `tied`; None if no rows were held out.

        A simple model is cheaper than a Transformer, and a Transformer with fewer parameters than another.
        Of equally cheap ones the best score decides, as in `first`.
        """

        def cost(method: str) -> tuple[bool, int]:
            transformer = self.is_transformer(method)
            return transformer, transformer * self.of(method, self.most)[0].parameters

        least = min(map(cost, self.tied), default=None)
        return self.first(method for method in self.tied if cost(method) == least)

    @cached_property
    def tied(self) -> list[str]:
        """The methods that the validation rows at the most labels can't separate from the best of them.

        The one-standard-error rule (Breiman et al. 1984): all methods behind the highest mean p by at most
        its standard error, sqrt(p (1 - p) / n) for n validation rows of all seeds. Of errors, and of records
        that do not state n: by at most the standard error of the paired difference over seeds, and at most
        one point, or `TIE` of the unit.
        """
        means = {
            method: self.metric.better * score
            for method in self.methods
            if (score := self.validation(method)) is not None
        }
        top = self.first(means)
        if top is None:
            return []
        rows = self.validation_rows
        if rows and self.metric is ACCURACY:
            # Laplace's rule: a few rows that are all right are no proof of a perfect model.
            share = (means[top] * rows + 1) / (rows + 2)
            reach = dict.fromkeys(means, (share * (1 - share) / rows) ** 0.5)
        else:
            first = self._validation(top)
            errors = {method: standard_error(paired(first, self._validation(method))) for method in means}
            reach = {method: min(error, TIE * self.unit) for method, error in errors.items()}
        return [method for method, mean in means.items() if means[top] - mean <= reach[method]]

    @property
    def validation_rows(self) -> int:
        """The validation rows of all seeds, at the most labels; 0 if the records do not state them."""
        counts = [
            sum(record.data.get("validation_rows", 0) for record in records)
            for method in self.methods
            if (records := self.of(method, self.most))
        ]
        return min(counts, default=0)

    @property
    def simple(self) -> str | None:
        """The simple model with the best validation score at the most labels; None if none was scored."""
        return self.first(method for method in self.methods if not self.is_transformer(method))

    @property
    def transformer(self) -> str | None:
        """The Transformer with the best validation score at the most labels; None if none was scored."""
        return self.first(filter(self.is_transformer, self.methods))

    def first(self, methods: Iterable[str]) -> str | None:
        """The one with the best validation score at the most labels; of equal ones the first by name."""
        scores = {
            method: round(self.metric.better * score, 9)
            for method in sorted(methods)
            if (score := self.validation(method)) is not None
        }
        return max(scores, key=lambda method: scores[method], default=None)

    def is_transformer(self, method: str) -> bool:
        """Whether a method is a Transformer and not a baseline."""
        return any(map(is_transformer, self.of(method, self.most)))

    def validation(self, method: str) -> float | None:
        """The mean validation score at the most labels; None if no rows were held out."""
        by_seed = self._validation(method)
        return sum(by_seed.values()) / len(by_seed) if by_seed else None

    def _validation(self, method: str) -> dict[int, float]:
        return self.by_seed(method, self.most, f"validation_{self.metric.name}")

    def of(self, method: str, shots: Shots) -> list[Record]:
        """The records of a method at a number of shots, in the order of the seeds."""
        return self.cells.get((method, shots), [])

    def by_seed(self, method: str, shots: Shots, name: str | None = None) -> dict[int, float]:
        """Seed -> accuracy on the test rows, or any other score of the records that have it."""
        name = name or self.metric.name
        return {
            record.seed: record.metrics[name] for record in self.of(method, shots) if name in record.metrics
        }

    def sentences(self) -> list[str]:
        """Per number of shots, the methods ahead of the reference, behind it, or not told apart from it."""
        return [self._sentence(shots) for shots in self.shots]

    def _sentence(self, shots: Shots) -> str:
        of_sign: dict[int, list[dict[str, Any]]] = {sign: [] for sign in (-1, 0, 1)}
        for row in self.paired:
            if row["shots"] == shots:
                of_sign[self.ahead(row)].append(row)
        parts = [
            f"{self.reference} is {word} {listed([self._points(row) for row in of_sign[sign]])}"
            for sign, word in ((-1, "ahead of"), (1, "behind"))
            if of_sign[sign]
        ]
        if of_sign[0]:
            level = [str(row["method"]) for row in of_sign[0]]
            count = min(row["seeds"] for row in of_sign[0])
            if count < 3:
                seeds = plural(count, "seed")
                names = listed([*level, self.reference])
                parts.append(f"{names} are not ranked: {seeds}, too few for an interval")
            else:
                parts.append(f"{listed(level)} can't be told apart from {self.reference} over {count} seeds")
        return f"{self.where(shots)}: {'; '.join(parts) or 'nothing to compare'}."

    def _points(self, row: dict[str, Any]) -> str:
        """The method and the size of its difference, such as "none by 10.0 points [8.0, 12.0]"."""
        size = interval_of(row).times(-1 if row["difference"] < 0 else 1)
        return f"{row['method']} by {self.metric.of(size, sign=False)}"

    def where(self, shots: Shots) -> str:
        """The number of labels, at the start of a sentence: "With all labels", "At 16 labels per class"."""
        return (
            f"With all {self.metric.kinds.split()[0]}" if shots == ALL else f"At {shots} {self.metric.kinds}"
        )

    def unlabelled(self, shots: Shots) -> int | None:
        """The most texts without labels that a method's words were learned from; None if not stated."""
        name = "unlabelled_rows"
        counts = [
            record.data[name]
            for method in self.methods
            for record in self.of(method, shots)
            if name in record.data
        ]
        return max(counts, default=None)

    def words_of(self, shots: Shots) -> str:
        """What words were learned from, in words; "" with all labels and no other text, or if the records do
        not state it.
        """
        texts = self.unlabelled(shots)
        if texts is None or (shots == ALL and not texts):
            return ""
        if not texts:
            return "Words and vectors are learned from the labelled rows alone."
        return f"Words and vectors are learned from {texts:,} more texts, without their labels."

    def inside(self, shots: Shots) -> str:
        """`where` inside a sentence."""
        words = self.where(shots)
        return words[0].lower() + words[1:]


def is_transformer(record: Record) -> bool:
    """Whether a record is of a Transformer and not of a simple model."""
    return "steps" in record.run


def by_size(shots: Sequence[Shots]) -> list[Shots]:
    """Numbers of shots, increasing."""
    return sorted(shots, key=lambda count: float("inf") if count == ALL else float(count))


def interval_of(row: Mapping[str, Any]) -> Interval:
    """The mean of a row of `rows`, or the difference of a row of `paired`, with its interval."""
    return Interval(row["difference" if "difference" in row else "mean"], row["ci_low"], row["ci_high"])


def _mean(records: Sequence[Record], metric: str) -> float | None:
    values = [record.metrics[metric] for record in records if metric in record.metrics]
    return sum(values) / len(values) if values else None


def _bounds(score: Interval, name: str) -> dict[str, float | None]:
    return {name: score.mean, "ci_low": score.low, "ci_high": score.high}


def _of_seeds(scores: Sequence[float], within: tuple[float, float]) -> Interval:
    """The mean with its interval; without one if all scores are equal, which does not make the mean exact."""
    score = interval(scores, within=within)
    return Interval(score.mean, None, None) if len(set(scores)) == 1 else score


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
