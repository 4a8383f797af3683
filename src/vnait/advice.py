"""What to do with a comparison, in one to three sentences: which model, whether order matters, whether more labels would help."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import log2

from vnait.record import Record
from vnait.results import ALL, Results, Shots, by_size
from vnait.statistics import Interval, interval, paired, seeds_needed

NONE = "none"  # the method without positions
CLEAR = 0.03  # half the width of an interval, in accuracy, past which "no difference" can't be said
FLAT = 0.005  # of accuracy per doubling: less is hardly worth labelling for


def advice(results: Results, *, most_frequent: float | None = None) -> list[str]:
    """One to three sentences, from the records alone; nothing where no method could be chosen.

    most_frequent   the accuracy of always answering the most frequent class, in [0, 1]
    """
    best = results.best
    if best is None:
        return []
    found = [_model(results, best, most_frequent), _order(results), _labels(results, best)]
    return [sentence for sentence in found if sentence]


def _model(results: Results, best: str, most_frequent: float | None) -> str:
    row = next(row for row in results.rows if row["method"] == best and row["shots"] == results.most)
    bounds = "" if row["ci_low"] is None else f" [{100 * row['ci_low']:.1f}, {100 * row['ci_high']:.1f}]"
    score = f"{100 * row['mean']:.1f} %{bounds}"
    if most_frequent is not None and (row["mean"] if row["ci_low"] is None else row["ci_low"]) <= most_frequent:
        return (
            f"No method here is shown to beat always answering the most frequent class, {100 * most_frequent:.1f} %: the best on the "
            f"validation rows, {best}, has {score}. Check the labels, or collect more."
        )
    speed = "" if row["ms_per_text"] is None else f" and takes {_short(row['ms_per_text'])} ms per text"
    return (
        f"Use {best}: {score} on the test rows; it trains in {_short(row['seconds'])} s{speed}.{_second(results, best)}"
    )


def _second(results: Results, best: str) -> str:
    """How the method that comes next on the test rows compares, and how many seeds would tell the two apart."""
    rows = [row for row in results.rows if row["shots"] == results.most and row["method"] != best]
    if not rows:
        return ""
    next_ = max(rows, key=lambda row: row["mean"])["method"]
    differences = _differences(results, best, next_)
    if interval(differences).sign:
        return ""
    needed = seeds_needed(differences)
    more = f"; about {needed} would be needed" if needed is not None and needed > len(differences) else ""
    return f" {len(differences)} seed{'s' * (len(differences) > 1)} can't separate it from {next_}{more}."


def _order(results: Results) -> str:
    """The method with positions that is best on the validation rows, against none."""
    rivals = [
        one
        for one in results.methods
        if one != NONE and ":" not in one and results.is_transformer(one) and results.validation(one) is not None
    ]
    if not rivals or not results.of(NONE, results.most):
        return ""
    best = max(rivals, key=lambda one: results.validation(one) or 0)
    differences = _differences(results, best, NONE)
    found = interval(differences)
    ahead = f"{best} minus none, which ignores it, is {_points(found)}"
    if found.low is None or found.high is None:
        return f"Whether the order of words matters needs 3 seeds or more: {ahead}."
    if found.sign > 0:
        return f"The order of words matters on this file: {ahead}."
    if found.sign < 0:
        return f"The order of words only distracts on this file: {ahead}."
    if found.high - found.low > 2 * CLEAR:
        needed = seeds_needed(differences)
        more = f"; about {needed} seeds would be needed" if needed is not None else ""
        return f"Whether the order of words matters on this file is open: {ahead}{more}."
    return f"The order of words makes no measurable difference on this file: {ahead}."


def _labels(results: Results, best: str) -> str:
    """What a doubling of the labels brought, between the two largest numbers."""
    sizes = [shots for shots in by_size(results.shots) if results.of(best, shots)]
    if len(sizes) < 2:
        return ""
    few, many = list(pairwise(sizes))[-1]
    rows = [_rows(results.of(best, shots)) for shots in (few, many)]
    if not rows[0] or rows[1] <= rows[0]:
        return ""
    doublings = log2(rows[1] / rows[0])
    gains = paired(results.by_seed(best, many), results.by_seed(best, few))
    found = interval([gain / doublings for gain in gains])
    said = f"from {_name(few)} to {_name(many)} labels per class each doubling brought {best} {_points(found)}"
    if found.sign > 0 and found.mean >= FLAT:
        return f"More labels would help: {said}."
    if found.high is not None and found.high < 2 * FLAT:
        return f"More labels would hardly help: {said}."
    return f"Whether more labels would help is open: {said}."


def _rows(found: Sequence[Record]) -> float:
    return float(sum(record.data.get("rows", 0) for record in found) / len(found))


def _name(shots: Shots) -> str:
    return "all" if shots == ALL else str(shots)


def _differences(results: Results, one: str, other: str) -> list[float]:
    return paired(results.by_seed(one, results.most), results.by_seed(other, results.most))


def _points(found: Interval) -> str:
    """A difference of accuracy in points, with its interval.

    >>> _points(Interval(0.021, 0.012, 0.03))
    '+2.1 points [+1.2, +3.0]'
    """
    bounds = "" if found.low is None or found.high is None else f" [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"
    return f"{100 * found.mean:+.1f} points{bounds}"


def _short(value: float) -> str:
    """Two significant digits, written out.

    >>> _short(12.34), _short(0.0123), _short(0.0)
    ('12', '0.012', '0')
    """
    from decimal import Decimal

    return f"{Decimal(f'{value:.2g}'):f}" if value else "0"
