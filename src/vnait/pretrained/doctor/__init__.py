"""`vnait doctor`: faults of position in text models of transformers, found by rule."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from vnait.pretrained.attach.saving import NOTES, load_tuned
from vnait.pretrained.changing import check_present
from vnait.pretrained.doctor.loading import check_readable, subject_of
from vnait.pretrained.doctor.report import Report
from vnait.pretrained.doctor.rule import Evidence, Finding, NotTried, Rule, Severity, finding, rule
from vnait.pretrained.doctor.rules import RULES
from vnait.pretrained.doctor.subject import Subject
from vnait.pretrained.doctor.trial import described
from vnait.shared.errors import InputError, did_you_mean
from vnait.shared.quiet import logger_at, no_bars, no_logs
from vnait.shared.randomness import evaluating, preserved_generators

__all__ = ["RULES", "Evidence", "Finding", "NotTried", "Report", "Rule", "Severity", "doctor", "rule"]


def doctor(
    model: Any,
    *,
    tokenizer: Any = None,
    rules: Sequence[str] = (),
    ignore: Sequence[str] = (),
    callback: Callable[[int, int, str], None] | None = None,
) -> Report:
    """Look for faults of position in a text model of transformers, by rule.

    model      a model, an object that has one (peft, sentence-transformers), a folder, or a name on the hub;
               it is left as it was
    tokenizer  for the rules of tokenizers; a folder's own is loaded
    rules      codes of rules to try; all if there are none
    ignore     codes of rules to leave out
    callback   called with (rules done, rules in all, code)

    `InputError` if it is not a model of text, or a code is not known.

    >>> import vnait
    >>> from transformers import BertConfig, BertModel
    >>> tiny = dict(vocab_size=50, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
    >>> bert = BertModel(BertConfig(**tiny, intermediate_size=8, max_position_embeddings=32))
    >>> [finding.code for finding in vnait.doctor(bert, rules=["LEN01", "LEN02"]).findings]
    ['LEN01']
    """
    chosen = _chosen(rules, ignore)
    # Inputs are wrong on purpose. transformers has a level of its own, which callers may have lowered.
    with (
        no_logs(logging.WARNING),
        logger_at("transformers", logging.ERROR),
        warnings.catch_warnings(action="ignore"),
    ):
        subject = _tuned(model) or subject_of(model, tokenizer)
        check_present(subject.model, "examine it")
        with (
            evaluating(subject.model),
            torch.autocast(subject.model.device.type, enabled=False),
            preserved_generators(),
        ):
            check_readable(subject)
            outcomes = _outcomes(subject, chosen, callback)
    findings = [
        finding(RULES[code], outcome) for code, outcome in outcomes.items() if isinstance(outcome, Evidence)
    ]
    order = list(Severity)
    return Report(
        model=subject.name,
        source=subject.source,
        rules=tuple(chosen),
        findings=tuple(sorted(findings, key=lambda finding: order.index(finding.severity))),
        kept_rules=tuple(code for code, outcome in outcomes.items() if outcome is None),
        untried={code: str(outcome) for code, outcome in outcomes.items() if isinstance(outcome, NotTried)},
        faults={
            code: described(outcome)
            for code, outcome in outcomes.items()
            if isinstance(outcome, Exception) and not isinstance(outcome, NotTried)
        },
    )


def _outcomes(
    subject: Subject, rules: Sequence[Rule], callback: Callable[[int, int, str], None] | None
) -> dict[str, Evidence | Exception | None]:
    """By code, what each rule measures: evidence of a fault, None, or why it was not tried or failed."""
    outcomes: dict[str, Evidence | Exception | None] = {}
    for number, tried in enumerate(rules):
        if callback is not None:
            callback(number, len(rules), tried.code)
        try:
            outcomes[tried.code] = tried.examine(subject)
        except Exception as reason:  # a rule may raise anything, and the others go on
            outcomes[tried.code] = reason
        subject.reset()
    return outcomes


def _tuned(model: Any) -> Subject | None:
    """The subject of a folder with a pretrained base that `vnait train` has fine-tuned; None of all else."""
    folder = Path(model).expanduser() if isinstance(model, str | Path) else None
    if folder is None or not (folder / NOTES).is_file():
        return None
    with no_bars():
        tuned, tokenizer, _ = load_tuned(folder)
    return Subject(
        model=tuned,
        tokenizer=tokenizer,
        source=str(model),
        setup=("from vnait.train.predict import load", f"model = load({str(folder)!r}).model"),
        tokenizer_setup=(f"tokenizer = load({str(folder)!r}).tokenizer",),
    )


def _chosen(rules: Sequence[str], ignore: Sequence[str]) -> list[Rule]:
    """One code may be given as it is."""
    rules, ignore = ([codes] if isinstance(codes, str) else codes for codes in (rules, ignore))
    named = [code.upper() for code in (*rules, *ignore)]
    if unknown := next((code for code in named if code not in RULES), None):
        raise InputError(
            f"there is no rule {unknown}; take one of {', '.join(RULES)}.{did_you_mean(unknown, RULES)}"
        )
    wanted = ({code.upper() for code in rules} or set(RULES)) - {code.upper() for code in ignore}
    if not wanted:
        raise InputError("no rule is left to try; ignore fewer.")
    return [rule for code, rule in RULES.items() if code in wanted]
