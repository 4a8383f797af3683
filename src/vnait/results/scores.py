"""Scores of a classifier's answers, and the counts that a report shows with them."""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Sized
from itertools import chain
from typing import Any, TypeVar

from vnait.shared.errors import extra

LENGTHS = tuple(2**power for power in range(3, 10))  # longest text per group, in tokens; then all longer ones
MOST_CLASSES = 50  # with a confusion matrix in the record

Answer = TypeVar("Answer")


def timed(answer: Callable[[], Answer], rows: Sized) -> tuple[Answer, float]:
    """The result of `answer()` for these rows, and its milliseconds per row on the wall clock."""
    started = time.perf_counter()
    result = answer()
    return result, 1000 * (time.perf_counter() - started) / len(rows)


def scores(truth: Sequence[int], answer: Sequence[int]) -> dict[str, float]:
    """accuracy and macro_f1 in [0, 1]; mcc in [-1, 1], left out where it is undefined: the rows have one
    class.

    >>> scores([0, 0, 1, 1], [0, 0, 1, 0])["accuracy"]
    0.75
    """
    # Imported here, since a report, which needs only the groups, should open fast.
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

    return {
        "accuracy": float(accuracy_score(truth, answer)),
        "macro_f1": float(f1_score(truth, answer, average="macro", zero_division=0)),
        **({"mcc": float(matthews_corrcoef(truth, answer))} if len(set(truth)) > 1 else {}),
    }


def details(
    truth: Sequence[int], answer: Sequence[int], lengths: Sequence[int], classes: int
) -> dict[str, Any]:
    """`by_length` and `confusion` together."""
    return {**by_length(truth, answer, lengths), **confusion(truth, answer, classes)}


def by_length(truth: Sequence[int], answer: Sequence[int], lengths: Sequence[int]) -> dict[str, list[int]]:
    """Numbers of texts and of right answers, for texts of up to 8 tokens, 9 to 16, ..., 257 to 512, and more.

    >>> by_length([0, 1, 1], [0, 1, 0], [3, 9, 900])
    {'length_rows': [1, 1, 0, 0, 0, 0, 0, 1], 'length_right': [1, 1, 0, 0, 0, 0, 0, 0]}
    """
    rows, right = [0] * (len(LENGTHS) + 1), [0] * (len(LENGTHS) + 1)
    for true, answered, length in zip(truth, answer, lengths, strict=True):
        group = bisect_left(LENGTHS, length)
        rows[group] += 1
        right[group] += true == answered
    return {"length_rows": rows, "length_right": right}


def right_rows(truth: Sequence[int], answer: Sequence[int]) -> dict[str, str]:
    """Which rows are answered right, a bit each, in hexadecimal digits: for intervals over rows.

    >>> right_rows([0, 1, 1], [0, 1, 0])
    {'right': 'c0'}
    """
    import numpy as np

    return {"right": np.packbits(np.asarray(truth) == np.asarray(answer)).tobytes().hex()}


def confusion(truth: Sequence[int], answer: Sequence[int], classes: int) -> dict[str, list[list[int]]]:
    """How often each class (row) was answered as each class (column); {} for more than 50 classes.

    Labels that training never saw (below 0) are a last row, if there are any.

    >>> confusion([0, 0, 1, -1, -2], [0, 1, 1, 1, 1], 2)
    {'confusion': [[1, 1], [0, 1], [0, 2]]}
    """
    if classes > MOST_CLASSES:
        return {}
    truth = [max(true, -1) for true in truth]
    counts = Counter(zip(truth, answer, strict=True))
    rows = [*range(classes), *([-1] if -1 in truth else [])]
    return {"confusion": [[counts[true, answered] for answered in range(classes)] for true in rows]}


def tag_scores(
    truth: Sequence[Sequence[str]], answers: Sequence[Sequence[str]], *, spans: bool
) -> dict[str, float]:
    """Scores of the words of sentences, in [0, 1]: token_accuracy with the bounds of its 95 % interval over
    sentences, macro_f1; of spans, if the sentences have any, also entity_f1, entity_precision and
    entity_recall, by seqeval.

    >>> tag_scores([["DET", "NOUN"], ["NOUN"]], [["DET", "VERB"], ["NOUN"]], spans=False)["token_accuracy"]
    0.6666666666666666
    """
    from sklearn.metrics import f1_score

    from vnait.shared.statistics import clustered

    right = [sum(map(str.__eq__, *pair)) for pair in zip(truth, answers, strict=True)]
    share, *bounds = clustered(right, list(map(len, truth)))
    values = {"token_accuracy": share}
    for name, bound in zip(("low", "high"), bounds, strict=True):
        if bound is not None:
            values[f"token_accuracy_{name}"] = bound
    of_words = [list(chain.from_iterable(rows)) for rows in (truth, answers)]
    values["macro_f1"] = float(f1_score(*of_words, average="macro", zero_division=0))
    if not spans or set(of_words[0]) == {"O"}:
        return values
    with extra("tagging"):
        from seqeval import metrics
    both = [[list(map(_in_bioes, tags)) for tags in rows] for rows in (truth, answers)]
    for name in ("f1", "precision", "recall"):
        score = getattr(metrics, f"{name}_score")
        values[f"entity_{name}"] = float(score(*both, zero_division=0))
    return values


def _in_bioes(tag: str) -> str:
    """The tag in the letters that seqeval knows: E- and S- for the L- and U- of BILOU."""
    return {"L-": "E-", "U-": "S-"}.get(tag[:2], tag[:2]) + tag[2:]


def set_scores(
    names: Sequence[str], truth: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Scores of texts with any number of the labels `names`, in [0, 1]: micro_f1, of all pairs of text and
    label; macro_f1, the mean over the labels that texts or answers have; exact_match, of whole rows.

    >>> values = set_scores(["a", "b"], [["a", "b"], ["a"], []], [["a"], ["a"], []])
    >>> {name: round(score, 3) for name, score in values.items()}
    {'micro_f1': 0.8, 'macro_f1': 0.5, 'exact_match': 0.667}
    """
    import numpy as np
    from sklearn.metrics import accuracy_score, f1_score
    from sklearn.preprocessing import MultiLabelBinarizer

    binarizer = MultiLabelBinarizer().fit([names, *truth])
    both = binarizer.transform(truth), binarizer.transform(answers)
    values = {  # undefined where neither has a label: such labels are left out of a mean
        f"{kind}_f1": float(np.nan_to_num(f1_score(*both, average=kind, zero_division=np.nan)))
        for kind in ("micro", "macro")
    }
    return {**values, "exact_match": float(accuracy_score(*both))}


def by_label(
    names: Sequence[str], truth: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]
) -> dict[str, list[list[int]]]:
    """How many texts have each label, are answered with it, and both.

    >>> by_label(["a", "b"], [["a", "b"], ["a"]], [["a"], []])
    {'by_label': [[2, 1, 1], [1, 0, 0]]}
    """
    right = [set(true) & set(answered) for true, answered in zip(truth, answers, strict=True)]
    counts = [Counter(chain.from_iterable(rows)) for rows in (truth, answers, right)]
    return {"by_label": [[count[name] for count in counts] for name in names]}


def are_spans(tags: Iterable[str]) -> bool:
    """Whether tags mark spans of words: B-PER, I-PER (with E-, S-, L-, U- in other schemes) and O.

    >>> are_spans(["O", "B-PER", "I-PER"]), are_spans(["NOUN", "O"]), are_spans(["O"])
    (True, False, False)
    """
    kinds = {tag[:2] for tag in tags if tag != "O"}
    return bool(kinds) and kinds <= {f"{mark}-" for mark in "BIESLU"}


def regression_scores(truth: Sequence[float], answers: Sequence[float]) -> dict[str, float]:
    """rmse and mae in the unit of the numbers; pearson and spearman in [-1, 1], left out where undefined.

    >>> {name: round(score, 3) for name, score in regression_scores([1, 2, 3], [1, 2, 5]).items()}
    {'rmse': 1.155, 'mae': 0.667, 'pearson': 0.961, 'spearman': 1.0}
    """
    import numpy as np
    from scipy import stats
    from sklearn.metrics import mean_absolute_error, root_mean_squared_error

    true, answered = np.asarray(truth, dtype=float), np.asarray(answers, dtype=float)
    values = {
        "rmse": float(root_mean_squared_error(true, answered)),
        "mae": float(mean_absolute_error(true, answered)),
    }
    if len(true) > 1 and np.ptp(true) > 0 and np.ptp(answered) > 1e-9 * np.abs(answered).max():
        values["pearson"] = float(stats.pearsonr(true, answered).statistic)
        values["spearman"] = float(stats.spearmanr(true, answered).statistic)
    return values


def squares_by_length(
    truth: Sequence[float], answers: Sequence[float], lengths: Sequence[int]
) -> dict[str, list[Any]]:
    """Numbers of texts and sums of squared errors, for the lengths of `by_length`.

    >>> counts = squares_by_length([0.0, 1.0], [0.5, 1.0], [3, 9])
    >>> counts["length_rows"][:2], counts["length_squares"][:2]
    ([1, 1], [0.25, 0.0])
    """
    rows, squares = [0] * (len(LENGTHS) + 1), [0.0] * (len(LENGTHS) + 1)
    for true, answered, length in zip(truth, answers, lengths, strict=True):
        group = bisect_left(LENGTHS, length)
        rows[group] += 1
        squares[group] += (true - answered) ** 2
    return {"length_rows": rows, "length_squares": squares}
