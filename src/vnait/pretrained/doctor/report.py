"""What `doctor` found: as text, as a JSON document, as a SARIF log."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from textwrap import fill, indent
from typing import Any
from urllib.parse import quote

from vnait.pretrained.doctor.rule import Finding, Rule, Severity
from vnait.shared.errors import plural

LEVELS = {Severity.BUG: "error", Severity.TRAP: "warning", Severity.LIMIT: "note"}
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
WIDTH = 100
INVITATION = "failed, by a fault of the doctor; please report it, with the type of the model:"


@dataclass(frozen=True, kw_only=True)
class Report:
    """The findings on one model, the worst first; the rules that it keeps; the reasons for rules not tried;
    and the errors of rules that failed, which are faults of the doctor.

    `model` names its class, `source` the folder or name that it was loaded from.

    >>> Report(model="BertModel", rules=(), findings=(), kept_rules=(), untried={}).bugs
    ()
    """

    model: str
    source: str | None = None
    rules: tuple[Rule, ...] = field(repr=False)
    findings: tuple[Finding, ...]
    kept_rules: tuple[str, ...]
    untried: dict[str, str]
    faults: dict[str, str] = field(default_factory=dict)

    @property
    def bugs(self) -> tuple[Finding, ...]:
        """The findings of severity bug."""
        return self.at_least(Severity.BUG)

    def at_least(self, severity: str) -> tuple[Finding, ...]:
        """The findings of this severity, bug, trap or limit, and of the worse ones."""
        worse = list(Severity)[: list(Severity).index(Severity(severity)) + 1]
        return tuple(finding for finding in self.findings if finding.severity in worse)

    @property
    def kept(self) -> tuple[str, ...]:
        """`kept_rules`, by its name in the document."""
        return self.kept_rules

    def summary(self) -> str:
        """One line with the counts of bugs, traps and limits, and of rules kept and not tried."""
        severities = [finding.severity for finding in self.findings]
        counts = ", ".join(plural(severities.count(severity), severity) for severity in Severity)
        name = self.model if self.source is None else f"{self.source} ({self.model})"
        summary = (
            f"{name}: {counts}; {plural(len(self.kept_rules), 'rule')} kept, {len(self.untried)} not tried"
        )
        return f"{summary}, {len(self.faults)} failed" if self.faults else summary

    def __str__(self) -> str:
        return self.text()

    def text(self) -> str:
        """The summary, each finding with its reproduction, and what was not tried."""
        parts = [self.summary(), *map(_paragraph, self.findings)]
        if self.kept_rules:
            parts.append(fill(f"kept: {', '.join(self.kept_rules)}", WIDTH, subsequent_indent="    "))
        if self.untried:
            reasons: dict[str, list[str]] = {}
            for code, reason in self.untried.items():
                reasons.setdefault(reason, []).append(code)
            lines = [_wrapped(f"{', '.join(codes)}: {reason}", 8) for reason, codes in reasons.items()]
            parts.append("\n".join(["not tried:", *lines]))
        if self.faults:
            lines = [_wrapped(f"{code}: {error}", 8) for code, error in self.faults.items()]
            parts.append("\n".join([INVITATION, *lines]))
        return "\n\n".join(parts)

    def document(self) -> dict[str, Any]:
        """The same as one JSON document; an infinite size is null."""
        rows = [asdict(finding) for finding in self.findings]
        for row in rows:  # JSON has no infinity
            row.update({name: None for name, value in row.items() if value in (math.inf, -math.inf)})
        facts = {"model": self.model, "source": self.source}
        outcomes = {"kept": list(self.kept_rules), "untried": self.untried, "faults": self.faults}
        return {**facts, "findings": rows, **outcomes}

    def sarif(self) -> dict[str, Any]:
        """The same as a SARIF 2.1.0 log, with a result per finding and a notification per rule not tried."""
        order = [rule.code for rule in self.rules]
        if self.source is None:
            where: dict[str, Any] = {"logicalLocations": [{"name": self.model, "kind": "object"}]}
        else:
            where = {"physicalLocation": {"artifactLocation": {"uri": quote(f"{self.source}/config.json")}}}
        rules = [_descriptor(rule) for rule in self.rules]
        driver = {"name": "vnait doctor", "version": version("vnait"), "rules": rules}
        results = [
            {
                "ruleId": finding.code,
                "ruleIndex": order.index(finding.code),
                "level": LEVELS[finding.severity],
                "message": {
                    "text": f"{finding.meaning} {finding.measured} ({finding.smallest}). {finding.advice}."
                },
                "locations": [where],
                "properties": {"severity": finding.severity, "reproduction": finding.reproduction},
            }
            for finding in self.findings
        ]
        notes = [
            {"associatedRule": {"id": code}, "level": "note", "message": {"text": f"not tried: {reason}"}}
            for code, reason in self.untried.items()
        ]
        notes += [
            {"associatedRule": {"id": code}, "level": "error", "message": {"text": f"{INVITATION} {error}"}}
            for code, error in self.faults.items()
        ]
        call = {"executionSuccessful": not self.faults, "toolExecutionNotifications": notes}
        run = {"tool": {"driver": driver}, "results": results, "invocations": [call]}
        return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _paragraph(finding: Finding) -> str:
    """A finding as text: its meaning, facts and script."""
    facts = {"measured": finding.measured, "smallest": finding.smallest, "to do": finding.advice}
    lines = [
        f"{finding.severity:5} {finding.code}  {finding.name}",
        _wrapped(finding.meaning, 4),
        *(_wrapped(f"{name:10}{words}", 14) for name, words in {**facts, "page": finding.page}.items()),
        "",
        indent(finding.reproduction, " " * 8),
    ]
    return "\n".join(lines)


def _wrapped(words: str, later: int) -> str:
    """Lines that are indented by 4, and by `later` from the second one on."""
    return fill(words, WIDTH, initial_indent=" " * 4, subsequent_indent=" " * later)


def _descriptor(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.meaning},
        "fullDescription": {"text": f"{rule.meaning} {rule.details}".strip()},
        "help": {"text": f"{rule.advice}. See {rule.page}"},
        "defaultConfiguration": {"level": LEVELS[rule.severity]},
    }
