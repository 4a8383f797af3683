"""Accuracy by length of the text, and confusion matrices, from the counts in the records."""

from collections import Counter
from collections.abc import Iterator, Sequence

from vnait.results.metrics import ENTITIES, EXACT, SETS, TOKENS
from vnait.results.page.sections import Column, Section, Table
from vnait.results.record import Record
from vnait.results.report import figures
from vnait.results.results import Results
from vnait.results.scores import LENGTHS, MOST_CLASSES
from vnait.shared.statistics import Interval

NO_LENGTHS = "These records have no answers by length. Compare again, in a new folder."
SHARES = ("precision", "recall", "F1")
UNSEEN = "(a class not learned)"


def lengths(results: Results) -> Section:
    """Accuracy over all seeds by tokens per text, at the most labels. Groups without a text are left out."""
    counts = {method: _summed(results.of(method, results.most)) for method in results.methods}
    counts = {method: pairs for method, pairs in counts.items() if pairs}
    heading = "By length of the text"
    if not counts:
        return Section(heading=heading, sentences=[NO_LENGTHS])
    texts = [max(pairs[group][0] for pairs in counts.values()) for group in range(len(LENGTHS) + 1)]
    groups = [group for group, count in enumerate(texts) if count]
    names = [_group(group) for group in groups]
    of_tags = results.metric in (TOKENS, ENTITIES)
    metric = {ENTITIES: TOKENS, SETS: EXACT}.get(results.metric, results.metric)
    root = 1 if metric.better > 0 else 0.5  # of the mean of squared errors
    shares = {
        method: [(right / of) ** root if of else None for of, right in (pairs[group] for group in groups)]
        for method, pairs in counts.items()
    }
    name = metric.title[:1].upper() + metric.title[1:]
    points = {
        method: [None if share is None else Interval(share, None, None) for share in line]
        for method, line in shares.items()
    }
    figure = figures.lines(
        points,
        names,
        label=f"{name} of each method by the length of the text, {results.inside(results.most)}",
        titles=("tokens", metric.title),
        first=[results.reference, results.best or results.reference],
    )
    table = Table(
        caption=f"{name} by tokens of the text, {results.inside(results.most)}",
        columns=[Column("method"), *(Column(group, metric.form) for group in names)],
        rows=[[method, *line] for method, line in shares.items()],
    )
    tested = ", ".join(f"{name}: {texts[group]:,}" for name, group in zip(names, groups, strict=True))
    what = "words, by tokens of their sentence" if of_tags else "texts, by tokens"
    sentence = f"All seeds together. Test {what}: {tested}. With few texts, {metric.title} is mostly chance."
    return Section(heading=heading, sentences=[sentence], figures=[figure], table=table)


def confusions(results: Results) -> Iterator[Section]:
    """Confusion matrices of the best on validation and of the reference, at the most labels, over all
    seeds; the answers of each label where a text may have several.
    """
    roles: dict[str, list[str]] = {}
    for method, role in ((results.best, "best on validation"), (results.reference, "reference")):
        if method is not None:
            roles.setdefault(method, []).append(role)
    for method, names in roles.items():
        heading = f"Answers of {method} ({' and '.join(names)})"
        kind, section = ("by_label", _by_label) if results.metric is SETS else ("confusion", _confusion)
        records = [record for record in results.of(method, results.most) if kind in record.metrics]
        if records:
            yield section(records, heading, results.inside(results.most))
        else:
            sentence = f"No confusion matrix is recorded for more than {MOST_CLASSES} classes."
            yield Section(heading=heading, sentences=[sentence])


def _confusion(records: Sequence[Record], heading: str, where: str) -> Section:
    counts: Counter[tuple[str, str]] = Counter()
    for record in records:
        classes = [*map(str, record.data["classes"])]
        for true, row in zip([*classes, UNSEEN], record.metrics["confusion"], strict=False):
            for answer, count in zip(classes, row, strict=True):
                counts[true, answer] += count
    names = list(dict.fromkeys(answer for _, answer in counts))
    truths = [*names, *([UNSEEN] if any(true == UNSEEN for true, _ in counts) else [])]
    rows = [[counts[true, answer] for answer in names] for true in truths]
    label = f"{heading}, {where}: confusion matrix"
    table = Table(
        caption=f"{label}; a row per true class, a column per answer, all seeds together",
        columns=[Column("truth"), *map(Column, names)],
        rows=[[true, *row] for true, row in zip(truths, rows, strict=True)],
        folded=len(names) > 12,
    )
    return Section(heading=heading, figures=[figures.squares(truths, names, rows, label=label)], table=table)


def _by_label(records: Sequence[Record], heading: str, where: str) -> Section:
    counts: dict[str, list[int]] = {}
    for record in records:
        for name, triple in zip(record.data["classes"], record.metrics["by_label"], strict=True):
            counts[name] = list(map(sum, zip(counts.get(name, (0, 0, 0)), triple, strict=True)))
    share = "{:.3f}"
    table = Table(
        caption=f"{heading}, {where}: test texts that have each label and its precision, recall and F1, all "
        "seeds together",
        columns=[Column("label"), Column("texts", "{:,}"), *(Column(name, share) for name in SHARES)],
        rows=[
            [name, true, *(right / of if of else None for of in (answered, true, (true + answered) / 2))]
            for name, (true, answered, right) in sorted(counts.items(), key=lambda item: -item[1][0])
        ],
        folded=len(counts) > 30,
    )
    return Section(heading=heading, table=table)


def _summed(records: Sequence[Record]) -> list[tuple[int, float]]:
    """(texts, right answers or squared errors) of each group of lengths; empty if no record has them."""
    counted = [record.metrics for record in records if "length_rows" in record.metrics]
    rows = [metrics["length_rows"] for metrics in counted]
    right = [metrics.get("length_right", metrics.get("length_squares")) for metrics in counted]
    return list(zip(map(sum, zip(*rows, strict=True)), map(sum, zip(*right, strict=True)), strict=True))


def _group(number: int) -> str:
    """
    >>> _group(0), _group(1), _group(7)
    ('1 to 8', '9 to 16', 'over 512')
    """
    if number == len(LENGTHS):
        return f"over {LENGTHS[-1]}"
    return f"{LENGTHS[number - 1] + 1 if number else 1} to {LENGTHS[number]}"
