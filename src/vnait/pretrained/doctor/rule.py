"""A rule of `vnait doctor`: what it looks for, how it is measured, and what it found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

PAGE = "reference/doctor.html"  # of the site, written by docs/site.py

MOVING_ADVICE = (
    "keep texts within the original length, or read them alone, without a cache and with a model just "
    "loaded: the frequencies follow the largest position of a call"
)


class Severity(StrEnum):
    """bug: the outputs are wrong in a use that the model offers; trap: right only if the user does what
    transformers documents; limit: a property of the architecture.
    """

    BUG = "bug"
    TRAP = "trap"
    LIMIT = "limit"


class NotTried(Exception):
    """A rule could not be tried on this model; the message gives the reason."""


def require(condition: object, reason: str) -> None:
    """`NotTried` with the reason unless the condition holds."""
    if not condition:
        raise NotTried(reason)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a rule measured on a model.

    size          measured; what it counts is in `measured`
    measured      the same in a sentence
    smallest      the smallest input that shows it
    reproduction  a script of at most 15 lines that prints `shown`
    shown         the number that it prints
    severity      if it is not the rule's own
    advice        if the rule's own can't be followed
    """

    size: float
    measured: str
    smallest: str
    reproduction: str
    shown: float
    severity: Severity | None = None
    advice: str | None = None


Examine = Callable[[Any], Evidence | None]  # of a `Subject`


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule: code, name, severity, meaning and advice in a sentence each, and how it is tried.

    `details` are how it shows: what is measured, what makes it milder, and where it is known.
    `examine` returns None if the model keeps it, and raises `NotTried` with a reason if it can't be tried.
    """

    code: str
    name: str
    severity: Severity
    meaning: str
    details: str
    advice: str
    examine: Examine

    @property
    def page(self) -> str:
        """Its section in the documentation."""
        return f"{PAGE}#{self.code.lower()}"


def rule(code: str, name: str, severity: Severity) -> Callable[[Examine], Rule]:
    """Decorator: make a function a rule; its docstring is the meaning, details and `Advice: ...`.

    They are paragraphs: the meaning is the first one, the advice the last one.
    """

    def made(examine: Examine) -> Rule:
        meaning, _, rest = (examine.__doc__ or "").partition("\n\n")
        details, _, advice = rest.rpartition("Advice: ")
        return Rule(
            code=code,
            name=name,
            severity=severity,
            meaning=" ".join(meaning.split()),
            details=" ".join(details.split()),
            # Reports put it within a line, and SARIF adds the full stop.
            advice=" ".join(advice.split()).removesuffix("."),
            examine=examine,
        )

    return made


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A rule that a model does not keep; the fields are those of `Rule` and `Evidence`."""

    code: str
    name: str
    severity: Severity
    meaning: str
    size: float
    measured: str
    smallest: str
    reproduction: str
    shown: float
    advice: str
    page: str


def finding(rule: Rule, evidence: Evidence) -> Finding:
    """The finding of a rule with its evidence."""
    facts = {**vars(rule), **vars(evidence), "page": rule.page}
    facts |= {"severity": evidence.severity or rule.severity, "advice": evidence.advice or rule.advice}
    return Finding(**{field.name: facts[field.name] for field in fields(Finding)})
