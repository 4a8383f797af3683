"""What labels are, a class, a number, a tag per word or a set, and what depends on it: what a model reads,
the loss, the answers and their scores.
"""

from __future__ import annotations

from collections.abc import Sequence

from vnait.data import Table
from vnait.data.tasks import CLASSIFICATION, MULTILABEL, REGRESSION, TAGGING
from vnait.shared.errors import InputError
from vnait.train.bag_of_words import Weights
from vnait.train.tasks.classes import Classes
from vnait.train.tasks.numbers import Numbers
from vnait.train.tasks.sets import LabelSets
from vnait.train.tasks.tags import Tags

Target = Classes | Numbers | Tags | LabelSets
OF_CLASSES: dict[str, type[Classes] | type[Tags] | type[LabelSets]] = {
    CLASSIFICATION: Classes,
    TAGGING: Tags,
    MULTILABEL: LabelSets,
}


def target_of(table: Table, rows: Sequence[int] | None = None, weights: Weights = None) -> Target:
    """What a table's labels are; numbers are standardized by these rows (None: all), with these weights."""
    if table.labels is None:
        raise InputError(f"{table.name} was read without labels; training needs them.")
    if table.task == REGRESSION:
        return Numbers.of(table, rows, weights)
    return OF_CLASSES[table.task].of(table)


def with_names(task: str, names: Sequence[str]) -> Target:
    """The target of a model whose labels are known; numbers are in their own unit."""
    return Numbers(0.0, 1.0) if task == REGRESSION else OF_CLASSES[task](list(names))


__all__ = [
    "OF_CLASSES",
    "Classes",
    "LabelSets",
    "Numbers",
    "Tags",
    "Target",
    "target_of",
    "with_names",
]
