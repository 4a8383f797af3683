"""Rules of length: what a model does where its table, or the length that it declares, ends."""

from bisect import bisect_left
from typing import Any

from torch import Tensor

from vnait.pretrained.doctor.rule import Evidence, NotTried, Severity, rule
from vnait.pretrained.doctor.subject import Subject

MAX_TOKENS = 1100  # tokens that are really read; further places are tried by position_ids


def reads(model: Any, ids: Tensor, times: int, **more: Any) -> bool:
    """Whether the model reads a text of that many tokens without an error."""
    try:
        model(input_ids=ids.expand(1, times), attention_mask=ids.new_ones(1, times), **more)
    except (IndexError, RuntimeError, ValueError):
        return False
    return True


def reads_at(model: Any, ids: Tensor, times: int, first: int, **more: Any) -> bool:
    """Whether the model reads a token at the last place of a text of that many tokens without an error."""
    try:
        model(input_ids=ids, position_ids=ids * 0 + times - 1 + first, **more)
    except (IndexError, RuntimeError, ValueError):
        return False
    return True


@rule(
    "LEN01",
    "end of the table",
    Severity.LIMIT,
    advice="cut texts at this length, read them in windows, or attach a method without a table",
)
def end_of_table(subject: Subject) -> Evidence | None:
    """A longer text than max_position_embeddings raises an error."""
    declared = _declared(subject)
    return (
        None if _reads(subject, declared + 1) else _ends(subject, declared, "raises an error", declared + 1)
    )


@rule(
    "LEN02",
    "silent end",
    Severity.LIMIT,
    advice="count tokens before the model reads them: quality is unknown past this length",
)
def silent_end(subject: Subject) -> Evidence | None:
    """A longer text than max_position_embeddings is read without an error or a warning."""
    declared = _declared(subject)
    return (
        _ends(subject, declared, "is read silently", declared + 1) if _reads(subject, declared + 1) else None
    )


@rule(
    "LEN03",
    "less than declared",
    Severity.BUG,
    advice="cut texts at the length that it reads, and set model_max_length of the tokenizer to it",
)
def less_than_declared(subject: Subject) -> Evidence | None:
    """A text of max_position_embeddings tokens raises an error."""
    declared = _declared(subject)
    if _reads(subject, declared):
        return None
    high = bisect_left(range(declared), True, lo=1, key=lambda count: not _reads(subject, count))
    severity = Severity.TRAP if declared - (high - 1) == subject.reserved else Severity.BUG
    what = f"raises an error, and max_position_embeddings is {declared}"
    return _ends(subject, high - 1, what, high, severity)


def _declared(subject: Subject) -> int:
    declared = getattr(subject.body.config.get_text_config(), "max_position_embeddings", None)
    if not isinstance(declared, int) or declared < 1:
        raise NotTried("its configuration declares no length")
    return declared


def _reads(subject: Subject, count: int) -> bool:
    measure, arguments = _how(subject, count)
    return bool(subject.measure(measure, **arguments))


def _how(subject: Subject, count: int) -> tuple[Any, dict[str, Any]]:
    arguments = {"ids": subject.text(1), "times": count, **subject.more}
    if count <= MAX_TOKENS:
        return reads, arguments
    if not subject.accepts("position_ids") or subject.encodes_and_decodes:
        raise NotTried(f"its {count} tokens are too many to read here, and it takes no position_ids")
    return reads_at, {**arguments, "first": subject.first_position()}


def _ends(subject: Subject, size: int, what: str, shown: int, severity: Severity | None = None) -> Evidence:
    measure, arguments = _how(subject, shown)
    return Evidence(
        size=size,
        measured=f"a text of {shown} tokens {what}",
        smallest=f"{shown} tokens",
        reproduction=subject.script(measure, **arguments),
        shown=subject.measure(measure, **arguments),
        severity=severity,
    )
