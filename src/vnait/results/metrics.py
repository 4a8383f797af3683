"""The scores that a comparison can be about, and how they are written."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vnait.shared.statistics import UNIT, Interval


@dataclass(frozen=True, kw_only=True)
class Metric:
    """The score that a comparison is about, and how it is written.

    better   1 if higher is better, else -1
    within   its range;  others: further scores of each record
    times    factor of a difference, with its form and the word behind it
    chance   what always gives the same answer
    others_say   what the further scores are, in a report
    """

    name: str
    title: str
    better: int
    within: tuple[float, float]
    others: tuple[str, ...]
    form: str
    times: int
    points: str
    unit: str
    chance: str
    kinds: str  # after a number of rows to learn from
    others_say: str

    @property
    def differences(self) -> tuple[float, float]:
        """The range of a difference of two scores."""
        low, high = self.within
        return low - high, high - low

    def of(self, difference: Interval, *, sign: bool = True) -> str:
        """A difference with its interval."""
        return difference.times(self.times).written(("{:+" if sign else "{:") + self.points + "}", self.unit)


ACCURACY = Metric(
    name="accuracy",
    title="accuracy",
    better=1,
    within=UNIT,
    others=("macro_f1", "mcc"),
    form="{:.3f}",
    times=100,
    points=".1f",
    unit=" points",
    chance="answering the most frequent class",
    kinds="labels per class",
    others_say="macro F1 is the mean over classes of each one's F1, in which rare classes count as much as "
    "others; MCC is 0 for answers by chance and 1 for right ones.",
)
RMSE = Metric(
    name="rmse",
    title="RMSE",
    better=-1,
    within=(0.0, np.inf),
    others=("mae", "pearson", "spearman"),
    form="{:.4g}",
    times=1,
    points=".2g",
    unit="",
    chance="answering the mean of the training rows",
    kinds="labels",
    others_say="MAE is lower for better answers, the correlations of Pearson and Spearman are higher.",
)
TOKENS = replace(
    ACCURACY,
    name="token_accuracy",
    title="token accuracy",
    others=("macro_f1",),
    chance="answering the most frequent tag",
    kinds="sentences",
    others_say="macro F1 is the mean over tags of each one's F1, in which rare tags count as much as others.",
)
ENTITIES = replace(
    TOKENS,
    name="entity_f1",
    title="entity F1",
    others=("entity_precision", "entity_recall", "token_accuracy"),
    others_say="An entity is right if its first word, its last word and its kind are.",
)
SETS = replace(
    ACCURACY,
    name="micro_f1",
    title="micro F1",
    others=("macro_f1", "exact_match"),
    chance="answering the labels that most training rows have",
    kinds="rows",
    others_say="micro F1 counts all pairs of a text and a label; macro F1 is the mean over labels of each "
    "one's F1; an exact match has all labels of a text and no other.",
)
EXACT = replace(SETS, name="exact_match", title="exact match")
RANGES = {  # of scores that are not in [0, 1]
    **dict.fromkeys(("rmse", "mae"), (0.0, np.inf)),
    **dict.fromkeys(("mcc", "pearson", "spearman"), (-1.0, 1.0)),
}
METRICS = (ACCURACY, RMSE, ENTITIES, TOKENS, SETS)  # of several in a record, the first


def metric_of(metrics: Mapping[str, Any], prefix: str = "") -> Metric | None:
    """What decides among the metrics of a record whose names begin with the prefix; None if there is none."""
    return next((metric for metric in METRICS if prefix + metric.name in metrics), None)
