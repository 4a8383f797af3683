"""What `extend` measured, and what it recommends: as text, as a JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vnait.pretrained.extend.shares import Share, by_depth, by_length, share_rows, share_tables
from vnait.pretrained.extend.tasks import Result
from vnait.pretrained.extend.variants import FREE, SUREST, VARIANTS, WORDS
from vnait.pretrained.extend.written import Advice, drawn, reasons
from vnait.shared.statistics import interval


@dataclass(frozen=True, kw_only=True)
class Report:
    """Every variant on every task.

    model       folder, name or class
    limit, to   tokens that the model reads as it is, and that it was tried on
    within      per variant, the largest change of the vector of a text within the limit
    saved       the folder that was written, and the variant in it
    left_out    per variant that could not be measured, the reason
    unsaved     the folder that was not, since the recommended variant needs no other model
    """

    model: str
    limit: int
    to: int
    results: tuple[Result, ...]
    within: dict[str, float]
    left_out: dict[str, str] = field(default_factory=dict)
    saved: tuple[str, str] | None = None
    unsaved: str | None = None

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants that were measured, in the order of `VARIANTS`."""
        measured = {result.variant for result in self.results}
        return tuple(variant for variant in VARIANTS if variant in measured)

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(result.task.name for result in self.results))

    def by_length(self) -> list[Share]:
        """Shares per task, variant and length."""
        return by_length(self.results)

    def by_depth(self) -> list[Share]:
        """Shares per task, variant and part of the depths, of documents past the limit."""
        return by_depth(self.results, self.limit)

    def costs(self) -> list[dict[str, Any]]:
        """Milliseconds per document and most MiB, per task, variant and length of its longest document."""
        return [
            {
                "task": result.task.name,
                "variant": result.variant,
                "length": max(result.task.lengths),
                "ms_per_text": 1000 * result.seconds,
                "memory": result.memory,
            }
            for result in self.results
        ]

    @property
    def advice(self) -> Advice:
        """The best variant of the model as it is, unless another is better beyond chance.

        Compared on all documents past the limit, document by document, by a 95 % interval of the difference.
        """
        right = {variant: self._past_limit(variant) for variant in self.variants}
        free = [variant for variant in FREE if variant in right] or list(right)[:1]
        if not len(right[free[0]]):
            return Advice(free[0], f"no document has more than {self.limit} tokens, so nothing was compared")
        best = max(free, key=lambda variant: float(right[variant].mean()))
        ahead = {
            variant: interval((right[variant] - right[best]).tolist()).times(100)
            for variant in right
            if variant != best
        }
        extended = [variant for variant in ahead if variant not in (*FREE, WORDS) and ahead[variant].sign > 0]
        if extended:
            variant = max(extended, key=lambda name: ahead[name].mean)
            lead = ahead[variant].written("{:+.1f}", " points")
            return Advice(variant, f"{lead} over {best}, the best without it")
        others = [variant for variant in ahead if variant not in (*FREE, WORDS)]
        reason = f"{100 * right[best].mean():.1f} % past the limit"
        if others:
            second = max(others, key=lambda name: ahead[name].mean)
            lead = ahead[second].written("{:+.1f}", " points")
            reason += f"; the best extension, {second}, differs by {lead}"
            if ahead[second].mean > 0:
                reason += f", which {len(right[best])} documents can't separate from chance"
        return Advice(best, reason)

    @property
    def words(self) -> str | None:
        """A sentence if words without the model find more than the recommended variant."""
        variant = self.advice.variant
        if WORDS not in self.variants or not len(self._past_limit(variant)):
            return None
        ahead = interval((self._past_limit(WORDS) - self._past_limit(variant)).tolist()).times(100)
        if ahead.sign <= 0:
            return None
        return f"Words alone ({WORDS}) find more: {ahead.written('{:+.1f}', ' points')} over {variant}."

    def summary(self) -> str:
        """What to take, in a few sentences."""
        variant, reason = self.advice
        lines = [f"Take {variant} ({VARIANTS[variant]}): {reason}."]
        if self.words:
            lines.append(self.words)
        if variant == SUREST:
            lines.append("That is an index of windows, each a text of its own; the best match decides.")
        if self.saved:
            lines.append(f"{self.saved[0]} has the model with {self.saved[1]}, for sentence-transformers.")
        if self.unsaved:
            lines.append(
                f"{self.unsaved} was not written, since the model stays as it is; --save names a variant."
            )
        return " ".join(lines)

    def __str__(self) -> str:
        return self.text()

    def text(self) -> str:
        """The summary, and a table each by length, by depth, and of costs."""
        parts = [self.summary(), *share_tables(self.results, self.limit, self.variants), self._cost_table()]
        changes = [
            f"{variant} {'same bits' if not change else f'{change:.1g}'}"
            for variant, change in self.within.items()
        ]
        if changes:
            parts.append(f"Vectors of texts within {self.limit} tokens change by: {', '.join(changes)}.")
        if self.left_out:
            parts.append(reasons(self.left_out))
        return "\n\n".join(parts)

    def document(self) -> dict[str, Any]:
        """The same as one JSON document."""
        return {
            "model": self.model,
            "limit": self.limit,
            "to": self.to,
            "rows": share_rows(self.results, self.limit),
            "costs": self.costs(),
            "within_limit": self.within,
            "left_out": self.left_out,
            "recommended": self.advice.variant,
            "reason": self.advice.reason,
            "words": self.words,
            "saved": None if self.saved is None else {"folder": self.saved[0], "variant": self.saved[1]},
        }

    def _past_limit(self, variant: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        """1 per document past the limit that is right, in the order of the tasks."""
        parts = [
            result.right[np.array(result.task.lengths) > self.limit]
            for result in self.results
            if result.variant == variant
        ]
        return np.concatenate(parts).astype(np.float64)

    def _cost_table(self) -> str:
        lengths = sorted({row["length"] for row in self.costs()})
        cells: dict[tuple[str, int], list[tuple[float, float]]] = {}
        for row in self.costs():
            cells.setdefault((row["variant"], row["length"]), []).append((row["ms_per_text"], row["memory"]))
        table = {
            variant: [
                _cost(cells[variant, length]) if (variant, length) in cells else "" for length in lengths
            ]
            for variant in self.variants
        }
        return drawn("ms per text, most MiB taken", [f"{length:,}" for length in lengths], table)


def _cost(costs: Sequence[tuple[float, float]]) -> str:
    milliseconds, memory = zip(*costs, strict=True)
    return f"{float(np.mean(milliseconds)):.0f} ms, {max(memory):.0f}"
