"""The numbers and labels of a table, but not its texts, so that a report can be passed on."""

from bisect import bisect_left
from collections import Counter
from typing import Any

from vnait.data.rows import duplicates
from vnait.data.tables import Table
from vnait.data.tasks import REGRESSION
from vnait.data.tokens import words

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
BINS = 24  # of the histogram of lengths, at most


def summary(table: Table, tokenization: str) -> dict[str, Any]:
    """Rows, classes, lengths and repeats, ready for JSON.

    name, rows, dropped (rows of which nothing is read), fingerprint
    classes      label -> rows that have it, or tag -> words, the most frequent first; {} in regression
    numbers      only in regression: quantiles of the labels
    duplicates   rows that repeat an earlier text, ignoring case, punctuation and spacing
    tokens       quantiles of the tokens per text, at 0, 5, 25, 50, 75, 95 and 100 %; a histogram: edges, the
                 longest text of each bin, and rows per bin

    >>> facts = summary(Table(["one two", "One, two", "three"], ["a", "a", "b"], "three.csv", 0), "words")
    >>> facts["classes"], facts["duplicates"], facts["tokens"]["quantiles"][-1]
    ({'a': 2, 'b': 1}, 1, 3)
    """
    import numpy as np  # here: a faulty file is refused before it is loaded

    lengths = [len(tokens) for tokens in words(table.texts, tokenization)]
    edges = _edges(max(lengths))
    groups = Counter(bisect_left(edges, length) for length in lengths)
    numbers = table.task == REGRESSION
    labels = table.single_labels
    values = np.array(labels if numbers else [], dtype=float)
    return {
        **({"numbers": np.quantile(values, QUANTILES).tolist()} if numbers else {}),
        "name": table.name,
        "rows": len(table),
        "dropped": table.dropped - len(table.more),
        "fingerprint": table.fingerprint,
        "classes": {} if numbers else dict(Counter(labels).most_common()),
        "duplicates": duplicates(table.texts),
        "tokens": {
            "quantiles": [int(value) for value in np.quantile(lengths, QUANTILES, method="nearest")],
            "edges": edges,
            "rows": [groups[group] for group in range(len(edges))],
        },
    }


def _edges(longest: int) -> list[int]:
    """The largest length of each bin: at most 24 bins of equal, round width.

    >>> _edges(7), _edges(60)[:3]
    ([1, 2, 3, 4, 5, 6, 7], [5, 10, 15])
    """
    steps = (factor * 10**power for power in range(9) for factor in (1, 2, 5))
    step = next(step for step in steps if step * BINS >= longest)
    return list(range(step, longest + step, step)) or [step]
