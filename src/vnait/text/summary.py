"""What a table holds, in numbers and labels: never its texts, so that a report can be sent on."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import Any

import numpy as np

from vnait.text.splits import duplicates
from vnait.text.tables import Table
from vnait.text.tokens import words

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
BINS = 24  # of the histogram of lengths, at most


def summary(table: Table, tokenization: str) -> dict[str, Any]:
    """Rows, classes, lengths and repeats, as JSON can hold them.

    name, rows, dropped (rows without text), fingerprint
    classes      label -> rows, the most frequent first
    duplicates   rows whose text is that of an earlier row, whatever its case, punctuation and spacing
    tokens       quantiles: of tokens a text, at 0, 5, 25, 50, 75, 95 and 100 %;  edges: the longest text of each group;  rows: of each

    >>> facts = summary(Table(["one two", "One, two", "three"], ["a", "a", "b"], "three.csv", 0), "words")
    >>> facts["classes"], facts["duplicates"], facts["tokens"]["quantiles"][-1]
    ({'a': 2, 'b': 1}, 1, 3)
    """
    lengths = [len(tokens) for tokens in words(table.texts, tokenization)]
    edges = _edges(max(lengths))
    groups = Counter(bisect_left(edges, length) for length in lengths)
    return {
        "name": table.name,
        "rows": len(table),
        "dropped": table.dropped,
        "fingerprint": table.fingerprint,
        "classes": dict(Counter(table.labels or []).most_common()),
        "duplicates": duplicates(table.texts),
        "tokens": {
            "quantiles": [int(value) for value in np.quantile(lengths, QUANTILES, method="nearest")],
            "edges": edges,
            "rows": [groups[group] for group in range(len(edges))],
        },
    }


def _edges(longest: int) -> list[int]:
    """The last length of each of at most 24 groups of equal width, a round one.

    >>> _edges(7), _edges(60)[:3]
    ([1, 2, 3, 4, 5, 6, 7], [5, 10, 15])
    """
    steps = (factor * 10**power for power in range(9) for factor in (1, 2, 5))
    step = next(step for step in steps if step * BINS >= longest)
    return list(range(step, longest + step, step)) or [step]
