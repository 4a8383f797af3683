"""scikit-learn's X, y, class_weight and sample_weight, checked, as a training takes them."""

from collections.abc import Mapping, Sequence
from itertools import compress
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.class_weight import compute_sample_weight

from vnait.data import Pair, Table
from vnait.data.labels import cell_of, labels_in
from vnait.data.tables import labels_of
from vnait.data.tasks import CLASSIFICATION
from vnait.shared.errors import InputError, as_input_error, did_you_mean, first_line

Texts = Sequence[str] | Sequence[tuple[str, str]]


def texts_of(X: Texts) -> list[str]:
    """The texts, of which each is a string or a `Pair`."""
    if isinstance(X, str):
        raise InputError("X is one string; give a list of texts.")
    shape = getattr(X, "shape", (0,))
    if len(shape) != 1 and shape[1:] != (2,):
        raise InputError(
            f"X has the shape {tuple(shape)}; give the texts alone, such as frame['text'], or two columns "
            "for pairs."
        )
    rows = list(X if len(shape) == 1 else np.asarray(X, dtype=object))
    pairs = bool(rows) and _has_two(rows[0])
    wrong = next((row for row, value in enumerate(rows) if not _is_row(value, pairs)), None)
    if wrong is not None:
        expected = "two strings; give a pair" if pairs else "a string; give one string per text, or two"
        raise InputError(f"X[{wrong}] is {type(rows[wrong]).__name__}, not {expected} in every row.")
    if not rows:
        raise InputError("X is empty; give at least one text.")
    return [Pair.of(*map(str, row)) if pairs else str(row) for row in rows]


def _is_row(value: Any, pairs: bool) -> bool:
    """Whether it is a text, or two."""
    if not pairs:
        return isinstance(value, str)
    return _has_two(value) and all(isinstance(side, str) for side in value)


def _has_two(row: Any) -> bool:
    return isinstance(row, Sequence | np.ndarray) and not isinstance(row, str) and len(row) == 2


def checked_labels(
    estimator: BaseEstimator, y: Sequence[Any] | None, texts: Sequence[str], *, matrix: bool = False
) -> NDArray[Any]:
    """The labels as an array, one per text, or one row per text in a `matrix`; none missing."""
    import pandas as pd

    if y is None:
        raise InputError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None; give one label a "
            "text."
        )
    if hasattr(y, "toarray"):
        raise InputError("y is a sparse matrix; give an array: y.toarray().")
    with as_input_error(ValueError, "y is neither labels nor a matrix of them: ", ".", message=first_line):
        labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        raise InputError(f"y has shape {labels.shape}; give its column: y.ravel(), or frame['label'].")
    several = matrix and labels.ndim == 2 and labels.shape[1] > 1
    if not (labels.ndim == 1 or several) or len(labels) != len(texts):
        expected = "one label per text" + ", or a matrix with a column per label" * matrix
        raise InputError(f"y has shape {labels.shape} for {len(texts)} texts; give {expected}.")
    # As objects: among strings, numpy makes NaN the string "nan".
    missing = np.flatnonzero(pd.isna(np.asarray(y, dtype=object)).reshape(len(labels), -1).any(1))
    if missing.size:
        raise InputError(
            f"y has no label at row {missing[0]} ({len(missing)} in all); label these texts or leave them "
            "out."
        )
    return labels


def column_names(y: Any, count: int) -> NDArray[Any]:
    """The names of a data frame's columns if they are strings, else numbers.

    InputError if a name can't be a label's.
    """
    names = list(getattr(y, "columns", ()))
    if not names or not all(isinstance(name, str) for name in names):
        return np.arange(count)
    wrong = [name for name in names if labels_in(name) != [name] or names.count(name) > 1]
    if wrong:
        raise InputError(
            f"y has the column {wrong[0]!r}, which can't name a label; drop or rename it: names differ, are "
            "not empty, and have no | and no space around them."
        )
    return np.array(names)


def cells_of(labels: NDArray[Any], names: Sequence[str]) -> list[str]:
    """The names of the columns with a 1 of each row, as one cell."""
    wrong = np.argwhere(~np.isin(labels, (0, 1)))
    if len(wrong):
        row, column = wrong[0].tolist()
        raise InputError(
            f"y has {labels[row, column]} at row {row}, column {column}; a matrix of labels has 1 where a "
            "text has the label of the column, else 0."
        )
    return [cell_of(compress(names, row)) for row in labels.astype(bool)]


def numbers_of(labels: NDArray[Any]) -> NDArray[np.float64]:
    """The labels as finite numbers, of two rows or more."""
    with as_input_error((TypeError, ValueError), "y is not numbers: ", ".", message=first_line):
        numbers = labels.astype(object).astype(np.float64)
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if wrong.size:
        raise InputError(
            f"y has {numbers[wrong[0]]} at row {wrong[0]} ({len(wrong)} in all); give finite numbers."
        )
    if len(numbers) < 2:
        raise InputError("y has one sample; a regression needs two or more.")
    return numbers


def classes_of(labels: NDArray[Any]) -> tuple[NDArray[Any], list[int]]:
    """The distinct labels in order, and the number of each text's."""
    if labels.dtype.kind == "f" and len(parts := labels[labels % 1 != 0]):
        raise InputError(
            f"y has fractions, such as {parts[0]}, and classes have none; take TextRegressor, or "
            "give strings."
        )
    wrong = next((label for label in labels.tolist() if not isinstance(label, str | Number)), None)
    if wrong is not None or labels.dtype.kind == "M":  # NumPy's times become whole numbers in a list
        remedy = "strings or numbers"
        if isinstance(wrong, set | frozenset | tuple | list):
            remedy = "a matrix of 0 and 1, such as MultiLabelBinarizer's, for several labels per text"
        kind = "datetime64" if wrong is None or labels.dtype.kind == "M" else type(wrong).__name__
        raise InputError(f"y has labels of the type {kind}; give {remedy}.")
    try:
        classes, numbers = np.unique(labels, return_inverse=True)
    except TypeError as error:
        kinds = " and ".join(sorted({type(label).__name__ for label in labels.tolist()}))
        raise InputError(
            f"y mixes labels that have no order ({kinds}); give all as strings, or all as numbers."
        ) from error
    if len(classes) < 2:
        raise InputError(f"y has one class only ({classes[0]}); a classifier needs two or more.")
    return classes, numbers.tolist()


def weights_of(
    class_weight: Mapping[Any, float] | str | None,
    labels: NDArray[Any],
    sample_weight: Sequence[float] | None,
) -> list[float] | None:
    """A weight per row: that of its label times its own; None if neither is given."""
    if class_weight is None and sample_weight is None:
        return None
    weights = np.ones(len(labels))
    if class_weight is not None:
        weights = _label_weights(class_weight, labels)
    if sample_weight is not None:
        weights = weights * _row_weights(sample_weight, len(labels))
    _check_weights(weights, labels)
    values: list[float] = weights.tolist()
    return values


def check_class_weight(class_weight: Mapping[str, float] | str | None, table: Table) -> None:
    """Raise InputError if a table's labels can't be weighted so."""
    if class_weight is None:
        return
    if table.task != CLASSIFICATION:
        raise InputError(
            f"class_weight is for one label per text, and {table.name} was read for {table.task}; leave it "
            "out."
        )
    known = sorted(set(labels_of(table)))
    names = class_weight if isinstance(class_weight, Mapping) else ()
    if unknown := [name for name in names if name not in known]:
        raise InputError(
            f"class_weight names {unknown[0]!r}, which is no label of {table.name}; its labels are "
            f"{', '.join(known[:5])}{' ...' * (len(known) > 5)}.{did_you_mean(unknown[0], known)}"
        )


def row_weights(
    class_weight: Mapping[str, float] | str | None, table: Table, weights: Sequence[float] | None
) -> list[float] | None:
    """`weights_of` the rows of a table."""
    check_class_weight(class_weight, table)
    if class_weight is None:
        return None if weights is None else list(weights)
    return weights_of(class_weight, np.asarray(labels_of(table)), weights)


def _label_weights(class_weight: Mapping[Any, float] | str, labels: NDArray[Any]) -> NDArray[np.float64]:
    before = f"class_weight is {class_weight!r}: "
    if isinstance(class_weight, Mapping):
        known = set(labels.tolist())
        if unknown := [key for key in class_weight if key not in known]:
            listed = ", ".join(map(repr, sorted(known, key=str)[:5]))
            raise InputError(f"{before}{unknown[0]!r} is not a label of y, whose labels are {listed}.")
    with as_input_error((TypeError, ValueError), before, ".", message=first_line):
        weights: NDArray[np.float64] = compute_sample_weight(class_weight, labels)
    return weights


def _row_weights(sample_weight: Sequence[float], count: int) -> NDArray[np.float64]:
    with as_input_error((TypeError, ValueError), "sample_weight is not numbers: ", ".", message=first_line):
        weights = np.asarray(sample_weight, dtype=float)
    if weights.shape != (count,):
        raise InputError(
            f"sample_weight has shape {weights.shape} for {count} texts; give one number per text."
        )
    return weights


def _check_weights(weights: NDArray[np.float64], labels: NDArray[Any]) -> None:
    """Raise InputError unless all are finite and 0 or more, with a finite sum, and two labels have some."""
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if wrong.size or not weights.any():
        first = wrong[:1].tolist()
        what = f"the weight of row {first[0]} is {weights[first[0]]}" if first else "every weight is zero"
        raise InputError(f"{what}; give finite numbers of 0 or more, not all of them 0.")
    with np.errstate(over="ignore"):
        total = weights.sum()
    if not np.isfinite(total):
        raise InputError("the weights add up to infinity; divide them, since only their ratios matter.")
    left = np.unique(labels[weights > 0], axis=0)
    if len(left) < 2:
        raise InputError(
            f"all rows with a weight above 0 have one label or class ({left[0]}); a training needs two or "
            "more."
        )
