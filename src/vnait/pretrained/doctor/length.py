"""Rules of length: what a model does where its table, or the length that it declares, ends."""

from bisect import bisect_left
from typing import Any

from torch import Tensor

from vnait.pretrained.doctor.rule import Evidence, NotTried, Severity, require, rule
from vnait.pretrained.doctor.subject import MAX_TOKENS, Subject
from vnait.pretrained.doctor.trial import Trial


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


@rule("LEN01", "end of the table", Severity.LIMIT)
def end_of_table(subject: Subject) -> Evidence | None:
    """A longer text than max_position_embeddings raises an error.

    The rule reads up to 1,100 tokens; it tries a further position by `position_ids`.

    Advice: cut texts at this length, read them in windows, or attach a method without a table.
    """
    declared = _declared(subject)
    trial = _reading(subject, declared + 1)
    return None if trial.size else _ends(trial, declared, "raises an error")


@rule("LEN02", "silent end", Severity.LIMIT)
def silent_end(subject: Subject) -> Evidence | None:
    """A longer text than max_position_embeddings is read without an error or a warning.

    The rule works as LEN01. Rotations have no end, and a configuration may declare more or less than the
    model was trained on.

    Advice: count tokens before the model reads them: quality is unknown past this length.
    """
    declared = _declared(subject)
    trial = _reading(subject, declared + 1)
    return _ends(trial, declared, "is read silently") if trial.size else None


@rule("LEN03", "less than declared", Severity.BUG)
def less_than_declared(subject: Subject) -> Evidence | None:
    """A text of max_position_embeddings tokens raises an error.

    It is a trap if exactly the rows before the first position are missing, as in RoBERTa: 514 rows read 512
    tokens.

    Advice: cut texts at the length that it reads, and set model_max_length of the tokenizer to it.
    """
    declared = _declared(subject)
    if _reading(subject, declared).size:
        return None
    count = bisect_left(range(declared), True, lo=1, key=lambda count: not _reading(subject, count).size)
    # RoBERTa declares its reserved rows too: whoever knows that cuts texts where they end.
    severity = Severity.TRAP if declared - (count - 1) == subject.reserved else None
    what = f"raises an error, and max_position_embeddings is {declared}"
    return _ends(_reading(subject, count), count - 1, what, severity)


def _declared(subject: Subject) -> int:
    """max_position_embeddings, or `NotTried`."""
    if subject.declared is None or subject.declared < 1:
        raise NotTried("its configuration declares no length")
    return subject.declared


def _reading(subject: Subject, count: int) -> Trial:
    """Whether it reads a text of that many tokens; of a long text, whether it reads the last place."""
    smallest, arguments = f"{count} tokens", {"ids": subject.text(1), "times": count, **subject.more}
    if count <= MAX_TOKENS:
        return subject.trial(reads, smallest, **arguments)
    placed = subject.accepts("position_ids") and not subject.encodes_and_decodes
    require(placed, f"its {count} tokens are too many to read here, and it takes no position_ids")
    return subject.trial(reads_at, smallest, **arguments, first=subject.first_position())


def _ends(trial: Trial, size: int, what: str, severity: Severity | None = None) -> Evidence:
    """Evidence of where texts end, from the text behind that."""
    return trial.evidence(f"a text of {trial.smallest} {what}", size=size, severity=severity)
