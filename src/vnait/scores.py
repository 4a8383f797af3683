"""Answers beside the truth: the scores of a record, and the counts that a report shows besides."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence, Sized
from typing import Any, TypeVar

LENGTHS = (8, 16, 32, 64, 128, 256, 512)  # the longest text of each group, in tokens; longer ones are the last group
MOST_CLASSES = 50  # past which a record holds no confusion matrix


Answer = TypeVar("Answer")


def timed(answer: Callable[[], Answer], rows: Sized) -> tuple[Answer, float]:
    """What `answer()` gives for these rows, and its milliseconds per row on the wall clock."""
    started = time.perf_counter()
    found = answer()
    return found, 1000 * (time.perf_counter() - started) / len(rows)


def scores(truth: Sequence[int], answer: Sequence[int]) -> dict[str, float]:
    """accuracy and macro_f1 in [0, 1], mcc in [-1, 1].

    >>> scores([0, 0, 1, 1], [0, 0, 1, 0])["accuracy"]
    0.75
    """
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef  # here: a report needs the groups alone

    return {
        "accuracy": float(accuracy_score(truth, answer)),
        "macro_f1": float(f1_score(truth, answer, average="macro", zero_division=0)),
        "mcc": float(matthews_corrcoef(truth, answer)),
    }


def details(truth: Sequence[int], answer: Sequence[int], lengths: Sequence[int], classes: int) -> dict[str, Any]:
    """`by_length` and `confusion` together."""
    return {**by_length(truth, answer, lengths), **confusion(truth, answer, classes)}


def by_length(truth: Sequence[int], answer: Sequence[int], lengths: Sequence[int]) -> dict[str, list[int]]:
    """Texts, and right answers, of up to 8 tokens, 9 to 16, ..., 257 to 512, and more.

    >>> by_length([0, 1, 1], [0, 1, 0], [3, 9, 900])
    {'length_rows': [1, 1, 0, 0, 0, 0, 0, 1], 'length_right': [1, 1, 0, 0, 0, 0, 0, 0]}
    """
    rows, right = [0] * (len(LENGTHS) + 1), [0] * (len(LENGTHS) + 1)
    for true, given, length in zip(truth, answer, lengths, strict=True):
        group = bisect_left(LENGTHS, length)
        rows[group] += 1
        right[group] += true == given
    return {"length_rows": rows, "length_right": right}


def confusion(truth: Sequence[int], answer: Sequence[int], classes: int) -> dict[str, list[list[int]]]:
    """How often each class (row) was answered as each (column); a last row holds truths that training never saw (-1), if any.

    Nothing past 50 classes.

    >>> confusion([0, 0, 1, -1], [0, 1, 1, 1], 2)
    {'confusion': [[1, 1], [0, 1], [0, 1]]}
    """
    if classes > MOST_CLASSES:
        return {}
    counts = Counter(zip(truth, answer, strict=True))
    rows = [*range(classes), *([-1] if -1 in truth else [])]
    return {"confusion": [[counts[true, given] for given in range(classes)] for true in rows]}
