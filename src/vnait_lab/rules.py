"""Rules of verdicts: what is observed, and which word follows.

    decided   confirmed if a condition holds, else refuted; or conditional, or undecided, in between
    each      every case must hold; conditional if some do
    ahead     an interval of a difference against the smallest effect that matters
    at_most   an interval of a ratio against a limit

The last argument is the summary: a verdict's key figures, which `study.listed` writes.
"""

from __future__ import annotations

from collections.abc import Mapping

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
    cases: Mapping[str, bool], summary: str, condition: str, *, join: str = " or ", undecided: bool = False
) -> Verdict:
    """Confirmed if every case holds, refuted if none does, else conditional: `condition` with the good cases
    in place of {}. `undecided` says that, if none does, one still might.

    >>> each({"rope": True, "alibi": False}, "", "the positions are {}").condition
    'the positions are rope'
    """
    good = [case for case, holds in cases.items() if holds]
    if undecided and not good:
        return Verdict("undecided", summary)
    return Verdict.among(good, cases, summary, condition.format(join.join(good)))


def ahead(lead: Interval, least: float, summary: str) -> Verdict:
    """Confirmed if a lead is `least` or more and its interval above 0; refuted if the interval is below
    `least`, or below 0.

    >>> ahead(Interval(0.03, 0.01, 0.05), 0.02, "").word, ahead(Interval(0.0, -0.01, 0.01), 0.02, "").word
    ('confirmed', 'refuted')
    """
    behind = lead.sign < 0 or below(lead, least)
    return decided(lead.sign > 0 and lead.mean >= least, summary, refuted=behind)


def at_most(ratio: Interval, limit: float, summary: str) -> Verdict:
    """Confirmed if an interval is at most `limit`, refuted if it is above, else undecided.

    >>> at_most(Interval(0.9, 0.85, 0.97), 0.95, "").word
    'undecided'
    """
    low, high = ratio.bounds
    return decided(high <= limit, summary, refuted=low > limit)


def above(interval: Interval, limit: float) -> bool:
    """Whether an interval is above a number; false without one (fewer than three seeds)."""
    return interval.low is not None and interval.low > limit


def below(interval: Interval, limit: float) -> bool:
    """Whether an interval is below a number; false without one."""
    return interval.high is not None and interval.high < limit


def within(interval: Interval, far: float) -> bool:
    """Whether an interval excludes an effect of size `far`, of either sign; false without one."""
    return above(interval, -far) and below(interval, far)
