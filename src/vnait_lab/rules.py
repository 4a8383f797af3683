"""Rules of verdicts: what is observed, and which word follows.

    decided   confirmed if a condition holds, else refuted; or conditional, or undecided, in between
    each      every case must hold; conditional if some do
    ahead     an interval of a difference against the smallest effect that matters
    clear     intervals of differences, all above a limit
    at_most   intervals of losses or ratios, all at most at a limit

The last argument is the summary: a verdict's key figures, which `study.listed` writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from vnait.shared.statistics import Interval
from vnait_lab.study import Verdict


def decided(confirmed: bool, summary: str, *, refuted: bool | None = None, condition: str = "") -> Verdict:
    """Confirmed, else refuted. With `refuted`, what is neither is conditional, or undecided if there is no
    `condition`; what is both is confirmed.

    >>> decided(False, "1.2").word, decided(False, "", refuted=False, condition="it is small").word
    ('refuted', 'conditional')
    """
    if confirmed:
        return Verdict("confirmed", summary)
    if refuted is None or refuted:
        return Verdict("refuted", summary)
    return Verdict("conditional" if condition else "undecided", summary, condition)


def each(
    cases: Mapping[Any, bool], summary: str, condition: str, *, join: str = " or ", undecided: bool = False
) -> Verdict:
    """Confirmed if every case holds, refuted if none does, else conditional: `condition` with the good cases
    in place of {}. `undecided` says that, if none does, one still might.

    >>> each({"rope": True, "alibi": False}, "", "the positions are {}").condition
    'the positions are rope'
    """
    good = [str(case) for case, holds in cases.items() if holds]
    if good and len(good) < len(cases):
        return Verdict("conditional", summary, condition.format(join.join(good)))
    return decided(bool(good), summary, refuted=not undecided)


def ahead(lead: Interval, least: float, summary: str) -> Verdict:
    """Confirmed if a lead is `least` or more and its interval above 0; refuted if the interval is below
    `least`, or below 0.

    >>> ahead(Interval(0.03, 0.01, 0.05), 0.02, "").word, ahead(Interval(0.0, -0.01, 0.01), 0.02, "").word
    ('confirmed', 'refuted')
    """
    behind = lead.sign < 0 or below(lead, least)
    return decided(lead.sign > 0 and lead.mean >= least, summary, refuted=behind)


def clear(leads: Iterable[Interval], summary: str, *, least: float = 0.0) -> Verdict:
    """Confirmed if there are leads, and all above `least`, intervals included; refuted if one is below it.

    >>> clear([Interval(0.3, 0.1, 0.5), Interval(0.1, -0.1, 0.3)], "").word
    'undecided'
    """
    leads = list(leads)
    behind = any(below(lead, least) for lead in leads)
    return decided(bool(leads) and all(above(lead, least) for lead in leads), summary, refuted=behind)


def at_most(losses: Iterable[Interval], limit: float, summary: str) -> Verdict:
    """Confirmed if every interval is at most `limit`, refuted if one is above, else undecided; a mean without
    an interval decides nothing.

    >>> at_most([Interval(0.9, 0.85, 0.97)], 0.95, "").word
    'undecided'
    """
    losses = list(losses)
    behind = any(above(loss, limit) for loss in losses)
    holds = bool(losses) and all(loss.high is not None and loss.high <= limit for loss in losses)
    return decided(holds, summary, refuted=behind)


def above(interval: Interval, limit: float) -> bool:
    """Whether an interval is above a number; false without one (fewer than three seeds)."""
    return interval.low is not None and interval.low > limit


def below(interval: Interval, limit: float) -> bool:
    """Whether an interval is below a number; false without one."""
    return interval.high is not None and interval.high < limit


def within(interval: Interval, far: float) -> bool:
    """Whether an interval excludes an effect of size `far`, of either sign; false without one."""
    return above(interval, -far) and below(interval, far)
