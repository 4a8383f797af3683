"""What `extend` measured of a language model, and what it recommends: as text, as a JSON document."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from vnait.pretrained.extend.shares import by_length, share_rows, share_tables
from vnait.pretrained.extend.tasks import Result
from vnait.pretrained.extend.variants import DECODER_VARIANTS, FREE_OF_DECODERS
from vnait.pretrained.extend.written import Advice, drawn, reasons
from vnait.shared.errors import InputError, plural
from vnait.shared.statistics import Interval, interval


class Losses(NamedTuple):
    """Mean losses of blocks of tokens, in nats, by one variant at one length; seconds per text, most MiB."""

    variant: str
    length: int
    losses: tuple[float, ...]
    seconds: float
    memory: float


@dataclass(frozen=True, kw_only=True)
class Perplexities:
    """Every variant at every length, by the perplexity of the same last tokens.

    model       folder or file
    limit       tokens that the model reads as it is
    targets     tokens at the end of each text that are measured
    left_out    per variant that could not be measured, or task at a length, the reason
    results     what was found of passages hidden in generated texts
    saved       the folder that was asked for, and the variant in it; None if the model stays as it is
    """

    model: str
    limit: int
    targets: int
    texts: int
    rows: tuple[Losses, ...]
    left_out: dict[str, str]
    results: tuple[Result, ...] = ()
    saved: tuple[str, str | None] | None = None

    @property
    def variants(self) -> tuple[str, ...]:
        """Those that were measured past the limit, at each length."""
        lengths = {row.length for row in self._past}
        return tuple(
            name
            for name in DECODER_VARIANTS
            if lengths and lengths == {row.length for row in self._past if row.variant == name}
        )

    @property
    def _past(self) -> list[Losses]:
        return [row for row in self.rows if row.length > self.limit]

    def _losses(self, variant: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Past the limit, by length and block."""
        return np.concatenate([row.losses for row in self._past if row.variant == variant])

    @property
    def advice(self) -> Advice:
        """The best variant of the model as it is, unless another is better beyond chance.

        Compared on the same tokens past the limit, block by block, by a 95 % interval of the difference.
        """
        losses = {variant: self._losses(variant) for variant in self.variants}
        if not losses:
            why = "; ".join(f"{name}: {reason}" for name, reason in self.left_out.items())
            raise InputError(f"no variant was measured past {self.limit} tokens ({why or 'no such length'}).")
        free = [variant for variant in FREE_OF_DECODERS if variant in losses] or list(losses)[:1]
        best = min(free, key=lambda variant: float(losses[variant].mean()))
        ahead = {
            variant: interval((losses[best] - losses[variant]).tolist())
            for variant in losses
            if variant not in free
        }
        better = [variant for variant in ahead if ahead[variant].sign > 0]
        if better:
            variant = max(better, key=lambda name: ahead[name].mean)
            lead = _percent(ahead[variant].times(-1))
            perplexity = float(np.exp(losses[variant].mean()))
            return Advice(variant, f"perplexity {perplexity:.1f} past the limit, {lead} against {best}")
        reason = f"perplexity {np.exp(losses[best].mean()):.1f} past the limit"
        if ahead:
            second = max(ahead, key=lambda name: ahead[name].mean)
            reason += f"; the best extension, {second}, has {_percent(ahead[second].times(-1))}"
            if ahead[second].mean > 0:
                reason += f", which {len(losses[best])} blocks of tokens can't separate from chance"
        return Advice(best, reason)

    def with_saved(self, folder: str, variant: str | None) -> Perplexities:
        """The same with the folder that was asked for, and the variant in it, if any."""
        return replace(self, saved=(folder, variant))

    def summary(self) -> str:
        """What to take, in a few sentences."""
        variant, reason = self.advice
        lines = [f"Take {variant} ({DECODER_VARIANTS[variant]}): {reason}."]
        if self.saved:
            folder, name = self.saved
            written = f"{folder} has the model with {name}." if name else None
            lines.append(written or f"{folder} was not written, since the model stays as it is.")
        if past := [share for share in by_length(self.results) if (share.length or 0) > self.limit]:
            right = {name: [share for share in past if share.variant == name] for name in DECODER_VARIANTS}
            counts = {name: sum(share.right for share in shares) for name, shares in right.items() if shares}
            best = max(counts, key=counts.__getitem__)
            texts = sum(share.texts for share in right[best])
            lines.append(
                f"Of passages hidden in texts past the limit, {best} finds most: {counts[best]} of {texts}."
            )
        return " ".join(lines)

    def text(self) -> str:
        """The summary, a table each of perplexities and of costs, and what was left out."""
        lengths = sorted({row.length for row in self.rows})
        heads = [f"{length:,}" for length in lengths]
        within = {row.length: row for row in self.rows if row.length <= self.limit}
        cells = {(row.variant, row.length): row for row in self.rows}
        named = [name for name in DECODER_VARIANTS if any(row.variant == name for row in self.rows)]
        table = {
            name: [cells.get((name, length)) or within.get(length) for length in lengths] for name in named
        }
        texts = plural(self.texts, "text")
        title = f"perplexity of the last {self.targets} tokens of {texts}, by the length read"
        parts = [
            self.summary(),
            drawn(title, heads, {name: list(map(_perplexity, row)) for name, row in table.items()}),
            drawn(
                "s per text, most MiB taken",
                heads,
                {name: list(map(_cost, row)) for name, row in table.items()},
            ),
        ]
        parts += share_tables(self.results, self.limit, tuple(DECODER_VARIANTS))
        if self.left_out:
            parts.append(reasons(self.left_out))
        return "\n\n".join(parts)

    def document(self) -> dict[str, Any]:
        """The same as one JSON document."""
        rows = []
        for row in self.rows:
            mean, low, high = (None if end is None else float(np.exp(end)) for end in interval(row.losses))
            facts = {
                "variant": row.variant,
                "length": row.length,
                "perplexity": mean,
                "low": low,
                "high": high,
            }
            rows.append({**facts, "seconds_per_text": row.seconds, "memory": row.memory})
        return {
            "model": self.model,
            "limit": self.limit,
            "targets": self.targets,
            "texts": self.texts,
            "rows": rows,
            "found": share_rows(self.results, self.limit),
            "left_out": self.left_out,
            "recommended": self.advice.variant,
            "reason": self.advice.reason,
            "saved": None if self.saved is None else {"folder": self.saved[0], "variant": self.saved[1]},
        }


def _percent(difference: Interval) -> str:
    """A difference of mean losses as one of perplexities."""
    mean, low, high = (None if end is None else 100 * float(np.expm1(end)) for end in difference)
    assert mean is not None
    return Interval(mean, low, high).written("{:+.1f}", " % perplexity")


def _perplexity(row: Losses | None) -> str:
    if row is None:
        return ""
    mean, low, high = (None if end is None else float(np.exp(end)) for end in interval(row.losses))
    assert mean is not None
    return Interval(mean, low, high).written("{:.1f}")


def _cost(row: Losses | None) -> str:
    return "" if row is None else f"{row.seconds:.1f} s, {row.memory:.0f}"
