"""Advice from a comparison: which model to use, whether word order matters, whether more labels help."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import log2
from typing import Any

from vnait.results.record import Record
from vnait.results.results import ALL, Results, by_size, interval_of, listed
from vnait.shared.errors import plural
from vnait.shared.statistics import Interval, interval, paired, seeds_needed

NONE = "none"  # the method without positions
MEAN = "mean"  # the baseline of a regression that answers the mean
SMALL = 0.01  # of accuracy: a smaller difference, however certain, is no reason to choose a method
CLEAR = 0.03  # half width of an interval, in accuracy, above which a difference is open
FLAT = 0.005  # gain of accuracy per doubling of the labels below which more are hardly worth it


def advice(results: Results, *, chance_level: float | None = None) -> list[str]:
    """Up to six sentences; none if no method could be chosen.

    chance_level   the accuracy of always answering the most frequent class, in [0, 1]
    """
    best = results.best
    if best is None:
        return []
    sentences = [
        _model(results, best, chance_level),
        _choice(results, best),
        _beside_simple(results, best),
        _order(results),
        _labels(results, best),
        _unlabelled(results),
    ]
    return [sentence for sentence in sentences if sentence]


def _model(results: Results, best: str, chance_level: float | None) -> str:
    row = next(row for row in results.rows if row["method"] == best and row["shots"] == results.most)
    score = _written(results, interval_of(row))
    title = results.metric.title
    if chance_level is not None and _is_chance(results, best, row, chance_level):
        return (
            f"{best}, the best on the validation rows, is not clearly better than always "
            f"{results.metric.chance} ({_written(results, Interval(chance_level, None, None))}): its "
            f"{title} on the test rows is {score}. {_above_chance(results, chance_level)}"
        )
    if chance_level is not None:
        score += f" (always {results.metric.chance}: {_written(results, Interval(chance_level, None, None))})"
    speed = "" if row["ms_per_text"] is None else f" and takes {_short(row['ms_per_text'])} ms per text"
    return (
        f"Use {best}: its {title} on the test rows is {score}; it trains in {_short(row['seconds'])} s"
        f"{speed}.{_second(results, best)}"
    )


def _choice(results: Results, best: str) -> str:
    """On how many rows the model was chosen, and what they can't separate from it."""
    rows, tied = results.validation_rows, [method for method in results.tied if method != best]
    if not rows:
        return ""
    chosen = f"It was chosen on {rows:,} validation rows, {plural(len(results.seeds), 'seed')} together"
    if not tied:
        return f"{chosen}, which rank it first."
    several = not results.is_transformer(best) and not all(map(results.is_transformer, tied))
    reason = "the simple model with the best score" if several else "the cheapest"
    return f"{chosen}, which can't separate it from {listed(tied)}: of these it is {reason}."


def _beside_simple(results: Results, best: str) -> str:
    """What a Transformer adds to the best simple model, on the test rows."""
    simple, transformer = results.simple, results.transformer
    if simple is None or transformer is None:
        return ""
    if not results.is_transformer(best):
        difference = results.difference(transformer, best, results.most)
        pair = (
            f"{transformer}, the best Transformer on the validation rows, minus {best} is "
            f"{results.metric.of(difference)}"
        )
        if results.metric.better * difference.sign > 0:
            return f"On the test rows {pair}: take it if the score counts more than the cost."
        open_ = f"Whether a Transformer is better is open: on the test rows {pair}"
        if difference.low is None:
            return f"{open_}; compare 3 seeds or more."
        if max(difference.times(results.metric.better).bounds) > CLEAR * results.unit:
            return f"{open_}."
        return f"A simple model is enough here: on the test rows {pair}."
    difference = results.difference(transformer, simple, results.most)
    size = results.metric.of(difference)
    if results.metric.better * difference.sign > 0:
        return f"On the test rows {transformer} minus {simple}, the best simple model, is {size}."
    return (
        f"On the test rows {transformer} is not clearly ahead of {simple}, the best simple model: the "
        f"difference is {size}."
    )


def _is_chance(results: Results, best: str, row: Mapping[str, Any], chance_level: float) -> bool:
    """Whether the interval of the best method includes the constant answer. Errors depend more on the split
    than on the method, so they are paired with the errors of the mean.
    """
    if results.metric.better > 0:
        low: float = row["mean"] if row["ci_low"] is None else row["ci_low"]
        return low <= chance_level
    lead = interval(results.differences(best, MEAN, results.most) or [row["mean"] - chance_level])
    return lead.bounds[1] >= 0


def _above_chance(results: Results, chance_level: float) -> str:
    """What to do if the chosen method is at chance: the best that is not, or else the data."""
    rows = results.ranked(results.most)
    above = [row for row in rows if not _is_chance(results, row["method"], row, chance_level)]
    if not above or results.metric.better < 0:
        return "Check the labels, or collect more."
    row = above[0]
    return f"{row['method']} is, with {_written(results, interval_of(row))}: compare more seeds or labels."


def _second(results: Results, best: str) -> str:
    """The best other method on the test rows, if it is better there, or can't be told apart from `best`; then
    with the seeds to do so.
    """
    rows = [row for row in results.ranked(results.most) if row["method"] != best]
    if not rows:
        return ""
    next_ = rows[0]["method"]
    if next_ in (results.simple, results.transformer):  # of which `_beside_simple` speaks
        return ""
    differences = results.differences(best, next_, results.most)
    lead = results.difference(best, next_, results.most)
    if results.metric.better * lead.sign > 0:
        return ""
    if lead.sign:
        ahead = results.metric.of(lead.times(-results.metric.better), sign=False)
        return f" On the test rows {next_} is better by {ahead}; the choice is by the validation rows alone."
    needed = None if results.shares_rows else seeds_needed(differences)  # more seeds bring no rows
    count = len(differences)
    more = f"; about {needed} would be needed" if needed is not None and needed > count else ""
    return f" Over {plural(count, 'seed')} it can't be told apart from {next_}{more}."


def _order(results: Results) -> str:
    """The method with positions that is best on the validation rows, compared to none."""
    best = results.first(
        method
        for method in results.methods
        if method != NONE and ":" not in method and results.is_transformer(method)
    )
    if best is None or not results.of(NONE, results.most):
        return ""
    better = results.metric.better
    differences = results.differences(best, NONE, results.most)
    effect = results.difference(best, NONE, results.most)
    lower = "" if better > 0 else " RMSE (lower is better)"
    difference = (
        f"{best} minus none, the method without positions, is {results.metric.of(effect)}{lower}"
        f"{_without_linear_parts(results, best)}"
    )
    if effect.low is None or effect.high is None:
        return f"To decide whether word order matters, compare 3 seeds or more: {difference}."
    if effect.sign and abs(effect.mean) < SMALL * results.unit:
        return f"Word order makes little difference on this file: {difference}."
    if better * effect.sign > 0:
        return f"Word order matters on this file: {difference}."
    if better * effect.sign < 0:
        return f"Word order hurts on this file: {difference}."
    if effect.high - effect.low > 2 * CLEAR * results.unit:
        needed = None if results.shares_rows else seeds_needed(differences)  # more seeds bring no rows
        more = f"; about {needed} seeds would be needed" if needed is not None else ""
        return f"Whether word order matters on this file is open: {difference}{more}."
    return f"Word order makes no measurable difference on this file: {difference}."


def _without_linear_parts(results: Results, best: str) -> str:
    """The same of the Transformers alone: a linear part of one-hot words sees order, too."""
    name = f"{results.metric.name}_alone"
    differences = paired(*(results.by_seed(method, results.most, name) for method in (best, NONE)))
    if not differences:
        return ""
    return f", and {results.metric.of(interval(differences))} without their linear parts"


def _labels(results: Results, best: str) -> str:
    """The gain per doubling of the labels, between the two largest numbers of shots."""
    sizes = [shots for shots in by_size(results.shots) if results.of(best, shots)]
    if len(sizes) < 2:
        return ""
    few, many = list(pairwise(sizes))[-1]
    rows = [_rows(results.of(best, shots)) for shots in (few, many)]
    if not rows[0] or rows[1] <= rows[0]:
        return ""
    doublings = log2(rows[1] / rows[0])
    gains = paired(results.by_seed(best, many), results.by_seed(best, few))
    slope = interval([gain / doublings for gain in gains])
    kinds = results.metric.kinds
    range_ = f"{few} {kinds} to all" if many == ALL else f"{few} to {many} {kinds}"
    change = f"the {results.metric.title} of {best} by {results.metric.of(slope)}"
    gain = f"from {range_}, each doubling changed {change}"
    slope = slope.times(results.metric.better / results.unit)
    if slope.sign > 0 and slope.mean >= FLAT:
        return f"More labels would help: {gain}."
    if slope.high is not None and slope.high < 2 * FLAT:
        return f"More labels would hardly help: {gain}."
    return f"Whether more labels would help is open: {gain}."


def _unlabelled(results: Results) -> str:
    """Which situation of few labels the scores are of, and how to see the other."""
    few = [shots for shots in results.shots if shots != ALL]
    shots = (few or results.shots)[-1]
    sentence = results.words_of(shots)
    if not sentence or shots == ALL:
        return sentence
    if results.unlabelled(shots):
        return f"{sentence} If you have none but the labelled rows, compare with --unlabelled none."
    return f"{sentence} If you have more texts, leave their labels empty, and compare with --unlabelled rest."


def _rows(records: Sequence[Record]) -> float:
    return float(sum(record.data.get("rows", 0) for record in records) / len(records))


def _written(results: Results, score: Interval) -> str:
    if results.metric.better > 0:
        return score.times(100).written("{:.1f}", " %")
    return score.written(results.metric.form)


def _short(value: float) -> str:
    """Two significant digits, written out.

    >>> _short(12.34), _short(0.0123), _short(0.0)
    ('12', '0.012', '0')
    """
    from decimal import Decimal

    return f"{Decimal(f'{value:.2g}'):f}" if value else "0"
