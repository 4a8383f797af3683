"""What `extend` measured, and what it recommends: as text, as a JSON document."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vnait.pretrained.extend.measuring import Result
from vnait.pretrained.extend.variants import ARMS, FREE, SUREST, WORDS
from vnait.shared.statistics import Interval, interval, proportion

DEPTHS = 5  # parts of a document


class Share(NamedTuple):
    """Of the documents of a task that one arm read, up to `length` tokens or in a part of the depths."""

    task: str
    arm: str
    length: int | None
    depth: tuple[float, float] | None
    right: int
    texts: int

    @property
    def interval(self) -> Interval:
        return proportion(self.right, self.texts)


class Advice(NamedTuple):
    """The arm to take, and why."""

    arm: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """Every arm on every task.

    model       folder, name or class
    limit, to   tokens that the model reads as it is, and that it was tried on
    within      per arm, the largest change of the vector of a text within the limit
    saved       the folder that was written, and the arm in it
    unsaved     the folder that was not, since the recommended arm needs no other model
    """

    model: str
    limit: int
    to: int
    results: tuple[Result, ...]
    within: dict[str, float]
    saved: tuple[str, str] | None = None
    unsaved: str | None = None

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms that were measured, in the order of `ARMS`."""
        measured = {one.arm for one in self.results}
        return tuple(arm for arm in ARMS if arm in measured)

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.task.name for one in self.results))

    def by_length(self) -> list[Share]:
        """Shares per task, arm and length."""
        found: dict[tuple[str, str, int], list[bool]] = {}
        for one in self.results:
            for length, right in zip(one.task.lengths, one.right, strict=True):
                found.setdefault((one.task.name, one.arm, length), []).append(bool(right))
        return [Share(*key, None, sum(right), len(right)) for key, right in sorted(found.items())]

    def by_depth(self) -> list[Share]:
        """Shares per task, arm and part of the depths, of documents past the limit."""
        found: dict[tuple[str, str, int], list[bool]] = {}
        for one in self.results:
            for length, depth, right in zip(one.task.lengths, one.task.depths, one.right, strict=False):
                if length > self.limit:
                    part = min(int(depth * DEPTHS), DEPTHS - 1)
                    found.setdefault((one.task.name, one.arm, part), []).append(bool(right))
        return [
            Share(task, arm, None, (part / DEPTHS, (part + 1) / DEPTHS), sum(right), len(right))
            for (task, arm, part), right in sorted(found.items())
        ]

    def costs(self) -> list[dict[str, Any]]:
        """Milliseconds per document and most MiB, per task, arm and length of its longest document."""
        return [
            {
                "task": one.task.name,
                "arm": one.arm,
                "length": max(one.task.lengths),
                "ms_per_text": 1000 * one.seconds,
                "memory": one.memory,
            }
            for one in self.results
        ]

    @property
    def advice(self) -> Advice:
        """The best arm of the model as it is, unless another is better beyond chance.

        Compared on all documents past the limit, document by document, by a 95 % interval of the difference.
        """
        right = {arm: self._past_limit(arm) for arm in self.arms}
        free = [arm for arm in FREE if arm in right] or list(right)[:1]
        if not len(right[free[0]]):
            return Advice(free[0], f"no document has more than {self.limit} tokens, so nothing was compared")
        best = max(free, key=lambda arm: float(right[arm].mean()))
        ahead = {
            arm: interval((right[arm] - right[best]).tolist()).times(100) for arm in right if arm != best
        }
        extended = [arm for arm in ahead if arm not in (*FREE, WORDS) and ahead[arm].sign > 0]
        if extended:
            arm = max(extended, key=lambda one: ahead[one].mean)
            return Advice(arm, f"{ahead[arm].written('{:+.1f}', ' points')} over {best}, the best without it")
        others = [arm for arm in ahead if arm not in (*FREE, WORDS)]
        reason = f"{100 * right[best].mean():.1f} % past the limit"
        if others:
            second = max(others, key=lambda one: ahead[one].mean)
            lead = ahead[second].written("{:+.1f}", " points")
            reason += f"; the best extension, {second}, differs by {lead}"
            if ahead[second].mean > 0:
                reason += f", which {len(right[best])} documents can't tell from chance"
        return Advice(best, reason)

    @property
    def words(self) -> str | None:
        """A sentence if words without the model find more than the recommended arm."""
        arm = self.advice.arm
        if WORDS not in self.arms or not len(self._past_limit(arm)):
            return None
        ahead = interval((self._past_limit(WORDS) - self._past_limit(arm)).tolist()).times(100)
        if ahead.sign <= 0:
            return None
        return f"Words alone ({WORDS}) find more: {ahead.written('{:+.1f}', ' points')} over {arm}."

    def summary(self) -> str:
        """What to take, in a few sentences."""
        arm, reason = self.advice
        lines = [f"Take {arm} ({ARMS[arm]}): {reason}."]
        if self.words:
            lines.append(self.words)
        if arm == SUREST:
            lines.append("That is an index of windows, each a text of its own; the best match decides.")
        if self.saved:
            lines.append(f"{self.saved[0]} has the model with {self.saved[1]}, for sentence-transformers.")
        if self.unsaved:
            lines.append(
                f"{self.unsaved} was not written, since the model stays as it is; --save names an arm."
            )
        return " ".join(lines)

    def text(self) -> str:
        """The summary, and a table each by length, by depth, and of costs."""
        parts = [self.summary()]
        for task in self.tasks:
            shares = [one for one in self.by_length() if one.task == task]
            heads = [f"{length:,}" for length in sorted({one.length or 0 for one in shares})]
            table = self._table(shares, lambda one: one.length)
            parts.append(_drawn(f"{task}, right of texts up to so many tokens (%)", heads, table))
            shares = [one for one in self.by_depth() if one.task == task]
            if shares:
                heads = [
                    f"{100 * low:.0f}-{100 * high:.0f} %"
                    for low, high in sorted({one.depth or (0.0, 1.0) for one in shares})
                ]
                table = self._table(shares, lambda one: one.depth)
                parts.append(_drawn(f"{task}, by depth in texts past {self.limit} tokens (%)", heads, table))
        parts.append(self._costs_drawn())
        changes = [
            f"{arm} {'same bits' if not change else f'{change:.1g}'}" for arm, change in self.within.items()
        ]
        if changes:
            parts.append(f"Vectors of texts within {self.limit} tokens change by: {', '.join(changes)}.")
        return "\n\n".join(parts)

    def document(self) -> dict[str, Any]:
        """The same as one JSON document."""
        rows = []
        for one in (*self.by_length(), *self.by_depth()):
            mean, low, high = one.interval
            facts = {name: value for name, value in one._asdict().items() if value is not None}
            rows.append({**facts, "share": mean, "low": low, "high": high})
        return {
            "model": self.model,
            "limit": self.limit,
            "to": self.to,
            "rows": rows,
            "costs": self.costs(),
            "within_limit": self.within,
            "recommended": self.advice.arm,
            "reason": self.advice.reason,
            "words": self.words,
            "saved": None if self.saved is None else {"folder": self.saved[0], "arm": self.saved[1]},
        }

    def _past_limit(self, arm: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        """1 per document past the limit that is right, in the order of the tasks."""
        parts = [one.right[np.array(one.task.lengths) > self.limit] for one in self.results if one.arm == arm]
        return np.concatenate(parts).astype(np.float64)

    def _table(self, shares: Sequence[Share], column: Callable[[Share], Any]) -> dict[str, list[str]]:
        columns = sorted({column(one) for one in shares})
        cells = {(one.arm, column(one)): one.interval.times(100).written("{:.0f}") for one in shares}
        return {arm: [cells.get((arm, one), "") for one in columns] for arm in self.arms}

    def _costs_drawn(self) -> str:
        lengths = sorted({row["length"] for row in self.costs()})
        cells: dict[tuple[str, int], list[tuple[float, float]]] = {}
        for row in self.costs():
            cells.setdefault((row["arm"], row["length"]), []).append((row["ms_per_text"], row["memory"]))
        table = {
            arm: [_cost(cells[arm, length]) if (arm, length) in cells else "" for length in lengths]
            for arm in self.arms
        }
        return _drawn("ms per text, most MiB taken", [f"{length:,}" for length in lengths], table)


def _cost(found: Sequence[tuple[float, float]]) -> str:
    milliseconds = float(np.mean([one for one, _ in found]))
    return f"{milliseconds:.0f} ms, {max(memory for _, memory in found):.0f}"


def _drawn(title: str, heads: Sequence[str], rows: dict[str, list[str]]) -> str:
    table = [["", *heads], *([arm, *cells] for arm, cells in rows.items())]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
    return "\n".join([title, *(f"    {line.rstrip()}" for line in lines)])
