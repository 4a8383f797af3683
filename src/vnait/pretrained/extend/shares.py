"""Shares of right answers, by length and by depth: as tables, and as rows of a JSON document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from vnait.pretrained.extend.tasks import Result
from vnait.pretrained.extend.written import drawn
from vnait.shared.statistics import Interval, proportion

DEPTHS = 5  # parts of a document


class Share(NamedTuple):
    """Of the documents of a task that one variant read, up to `length` tokens or in a part of the depths."""

    task: str
    variant: str
    length: int | None
    depth: tuple[float, float] | None
    right: int
    texts: int

    @property
    def interval(self) -> Interval:
        return proportion(self.right, self.texts)


def by_length(results: Sequence[Result]) -> list[Share]:
    """Shares per task, variant and length."""
    groups: dict[tuple[str, str, int], list[bool]] = {}
    for result in results:
        for length, right in zip(result.task.lengths, result.right, strict=True):
            groups.setdefault((result.task.name, result.variant, length), []).append(bool(right))
    return [Share(*key, None, sum(right), len(right)) for key, right in sorted(groups.items())]


def by_depth(results: Sequence[Result], limit: int) -> list[Share]:
    """Shares per task, variant and part of the depths, of documents past the limit."""
    groups: dict[tuple[str, str, int], list[bool]] = {}
    for result in results:
        task = result.task
        for length, depth, right in zip(task.lengths, task.depths, result.right, strict=False):
            if length > limit:
                part = min(int(depth * DEPTHS), DEPTHS - 1)
                groups.setdefault((task.name, result.variant, part), []).append(bool(right))
    return [
        Share(task, variant, None, (part / DEPTHS, (part + 1) / DEPTHS), sum(right), len(right))
        for (task, variant, part), right in sorted(groups.items())
    ]


def share_tables(results: Sequence[Result], limit: int, variants: Sequence[str]) -> Iterator[str]:
    """Per task a table by length, and one by depth if that is known."""
    for task in dict.fromkeys(result.task.name for result in results):
        shares = [share for share in by_length(results) if share.task == task]
        heads = [f"{length:,}" for length in sorted({share.length or 0 for share in shares})]
        table = _table(shares, variants, lambda share: share.length)
        yield drawn(f"{task}, right of texts up to so many tokens (%)", heads, table)
        shares = [share for share in by_depth(results, limit) if share.task == task]
        if shares:
            parts = sorted({share.depth or (0.0, 1.0) for share in shares})
            heads = [f"{100 * low:.0f}-{100 * high:.0f} %" for low, high in parts]
            table = _table(shares, variants, lambda share: share.depth)
            yield drawn(f"{task}, by depth in texts past {limit} tokens (%)", heads, table)


def share_rows(results: Sequence[Result], limit: int) -> list[dict[str, Any]]:
    """Every share with its interval."""
    rows = []
    for share in (*by_length(results), *by_depth(results, limit)):
        mean, low, high = share.interval
        facts = {name: value for name, value in share._asdict().items() if value is not None}
        rows.append({**facts, "share": mean, "low": low, "high": high})
    return rows


def _table(
    shares: Sequence[Share], variants: Sequence[str], column: Callable[[Share], Any]
) -> dict[str, list[str]]:
    columns = sorted({column(share) for share in shares})
    cells = {(share.variant, column(share)): share.interval.times(100).written("{:.0f}") for share in shares}
    measured = {share.variant for share in shares}
    return {name: [cells.get((name, key), "") for key in columns] for name in variants if name in measured}
