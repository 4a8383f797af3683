"""Where a comparison's answers are right: by the texts' length, and class by class. From counts that records hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from vnait.page.sections import Column, Section, Table
from vnait.record import Record
from vnait.report import figures
from vnait.results import METRIC, Results, inside
from vnait.scores import LENGTHS, MOST_CLASSES
from vnait.statistics import Interval

OLD = "These records hold no answers by length: they are of an older vnait. Compare again, in a new folder."
UNSEEN = "(a class not learned)"


def lengths(results: Results) -> Section:
    """Right answers of all seeds by the texts' tokens, at the most labels; groups without a text are left out."""
    counts = {method: _summed(results.of(method, results.most)) for method in results.methods}
    counts = {method: own for method, own in counts.items() if own}
    heading = "By length of the text"
    if not counts:
        return Section(heading=heading, sentences=[OLD])
    texts = [max(own[group][0] for own in counts.values()) for group in range(len(LENGTHS) + 1)]
    groups = [group for group, count in enumerate(texts) if count]
    names = [_group(group) for group in groups]
    shares = {
        method: [own[group][1] / own[group][0] if own[group][0] else None for group in groups]
        for method, own in counts.items()
    }
    figure = figures.lines(
        {
            method: [None if one is None else Interval(one, None, None) for one in line]
            for method, line in shares.items()
        },
        names,
        label=f"{METRIC.capitalize()} of each method by the length of the text, {inside(results.most)}",
        titles=("tokens", METRIC),
        first=[results.reference, results.best or results.reference],
    )
    table = Table(
        caption=f"{METRIC.capitalize()} by tokens of the text, {inside(results.most)}",
        columns=[Column("method"), *(Column(name, "{:.3f}") for name in names)],
        rows=[[method, *line] for method, line in shares.items()],
    )
    tested = ", ".join(f"{name}: {texts[group]:,}" for name, group in zip(names, groups, strict=True))
    sentence = f"Answers of all seeds together. Texts tested, by tokens: {tested}. Of few texts, a share is chance."
    return Section(heading=heading, sentences=[sentence], figures=[figure], table=table)


def confusions(results: Results) -> Iterator[Section]:
    """What was taken for what, by the best on validation and by the reference, at the most labels and over all seeds."""
    roles: dict[str, list[str]] = {}
    for method, role in ((results.best, "best on validation"), (results.reference, "reference")):
        if method is not None:
            roles.setdefault(method, []).append(role)
    for method, names in roles.items():
        heading = f"Answers of {method} ({' and '.join(names)})"
        found = [record for record in results.of(method, results.most) if "confusion" in record.metrics]
        if found:
            yield _confusion(found, heading, inside(results.most))
        else:
            reason = f"These records hold no confusion matrix: they have more than {MOST_CLASSES} classes, or are of an older vnait."
            yield Section(heading=heading, sentences=[reason])


def _confusion(found: Sequence[Record], heading: str, where: str) -> Section:
    counts: Counter[tuple[str, str]] = Counter()
    for record in found:
        classes = [*map(str, record.data["classes"])]
        for true, row in zip([*classes, UNSEEN], record.metrics["confusion"], strict=False):
            for given, count in zip(classes, row, strict=True):
                counts[true, given] += count
    names = list(dict.fromkeys(given for _, given in counts))
    truths = [*names, *([UNSEEN] if any(true == UNSEEN for true, _ in counts) else [])]
    rows = [[counts[true, given] for given in names] for true in truths]
    label = f"{heading}, {where}: how often each class was answered as which"
    table = Table(
        caption=f"{heading}, {where}: a row a true class, a column an answer, all seeds together",
        columns=[Column("truth"), *map(Column, names)],
        rows=[[true, *row] for true, row in zip(truths, rows, strict=True)],
        folded=len(names) > 12,
    )
    return Section(heading=heading, figures=[figures.squares(truths, names, rows, label=label)], table=table)


def _summed(found: Sequence[Record]) -> list[tuple[int, int]]:
    """(texts, right answers) of each group of lengths; nothing where no record has them."""
    kept = [record.metrics for record in found if "length_rows" in record.metrics]
    pairs = [zip(metrics["length_rows"], metrics["length_right"], strict=True) for metrics in kept]
    return [(sum(rows for rows, _ in group), sum(right for _, right in group)) for group in zip(*pairs, strict=True)]


def _group(number: int) -> str:
    """
    >>> _group(0), _group(1), _group(7)
    ('1 to 8', '9 to 16', 'over 512')
    """
    if number == len(LENGTHS):
        return f"over {LENGTHS[-1]}"
    return f"{LENGTHS[number - 1] + 1 if number else 1} to {LENGTHS[number]}"
