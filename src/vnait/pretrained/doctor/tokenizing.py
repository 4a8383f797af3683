"""Rules of the tokenizer: where it cuts a text, and whether its batches are read as its single texts."""

from bisect import bisect_left
from dataclasses import replace
from typing import Any

from vnait.pretrained.doctor.length import MAX_TOKENS
from vnait.pretrained.doctor.rule import Evidence, NotTried, Severity, rule
from vnait.pretrained.doctor.subject import Subject, difference

ENDLESS = 10**6  # a model_max_length beyond this is no limit
SHORT, LONG = "a good film", "a film that one sees again and again, and that was good every time"


def tokens_cut(model: Any, tokenizer: Any, words: int) -> int:
    """How many tokens of a text truncation=True leaves out."""
    text = " ".join(["film"] * words)
    return len(tokenizer(text)["input_ids"]) - len(tokenizer(text, truncation=True)["input_ids"])


def reads_truncated(model: Any, tokenizer: Any, words: int, **more: Any) -> bool:
    """Whether the model reads a text after truncation=True without an error."""
    try:
        batch = tokenizer(" ".join(["film"] * words), truncation=True, return_tensors="pt")
        model(**batch.to(model.device), **more)
    except (IndexError, RuntimeError, ValueError):
        return False
    return True


def in_a_batch(model: Any, tokenizer: Any, texts: list[str], **more: Any) -> float:
    """How much the outputs of the first text change in a batch that the tokenizer pads."""
    alone = model(**tokenizer(texts[0], return_tensors="pt").to(model.device), **more)[0]
    batch = tokenizer(texts, padding=True, return_tensors="pt").to(model.device)
    every = {name: value.expand(len(texts), -1) for name, value in more.items()}
    other, real = model(**batch, **every)[0][:1], batch["input_ids"][0] != tokenizer.pad_token_id
    return difference(alone, other[:, real] if other.shape[1] == len(real) else other)


def padding_ids_apart(model: Any, tokenizer: Any) -> int:
    """How far the padding id of the tokenizer is from the configuration's."""
    return abs(tokenizer.pad_token_id - model.config.pad_token_id)


@rule(
    "TOK01",
    "truncation",
    Severity.TRAP,
    advice="count the tokens without truncation first; read longer texts in windows",
)
def truncation(subject: Subject) -> Evidence | None:
    """truncation=True drops the end of a text silently: texts that differ there get equal outputs."""
    limit = _limit(subject)
    if limit is None:
        return None
    arguments: dict[str, Any] = {"tokenizer": subject.tokenizer}
    size = subject.measure(tokens_cut, part=subject.model, words=2 * limit, **arguments)
    if size <= 0:
        return None
    # The fewest that are cut: a word may be several tokens.
    most = limit + 1 - subject.tokenizer.num_special_tokens_to_add()
    words = 1 + bisect_left(range(1, most), True, key=lambda n: tokens_cut(None, subject.tokenizer, n) > 0)
    shown = subject.measure(tokens_cut, part=subject.model, words=words, **arguments)
    return Evidence(
        size=size,
        measured=f"of a text of {2 * limit} words {size:.0f} tokens are dropped; {limit} are read",
        smallest=f"{words} words",
        reproduction=subject.script(tokens_cut, part=subject.model, words=words, **arguments),
        shown=shown,
    )


@rule(
    "TOK02",
    "truncation too late",
    Severity.TRAP,
    advice="set tokenizer.model_max_length to what the model reads (LEN01), and save the tokenizer",
)
def too_late(subject: Subject) -> Evidence | None:
    """A text that truncation=True has cut is still too long for the model."""
    limit = _limit(subject)
    declared = getattr(subject.model.config.get_text_config(), "max_position_embeddings", None)
    longest = min(limit or ENDLESS, (declared or ENDLESS) + 1)
    if longest > MAX_TOKENS:
        raise NotTried(f"a text of {longest} tokens is too long to read here")
    arguments = {"tokenizer": subject.tokenizer, "words": longest, **subject.more}
    if subject.measure(reads_truncated, part=subject.model, **arguments):
        return None
    return Evidence(
        size=0.0,
        measured=f"a text of {longest} words raises an error after truncation=True",
        smallest=f"{longest} words",
        reproduction=subject.script(reads_truncated, part=subject.model, **arguments),
        shown=0.0,
    )


@rule(
    "TOK03",
    "the tokenizer's batch",
    Severity.BUG,
    advice="set padding_side to the side that the model reads (PAD01, PAD03), and save the tokenizer",
)
def batch(subject: Subject) -> Evidence | None:
    """A text in a batch that the tokenizer pads differs from the text alone."""
    if _tokenizer(subject).pad_token_id is None:
        raise NotTried("its tokenizer has no padding token")
    case = subject.case("two texts, of 3 and 14 words", tokenizer=subject.tokenizer, texts=[SHORT, LONG])
    evidence = subject.first_over(in_a_batch, [case], part=subject.model, what="outputs of real tokens move")
    left = subject.tokenizer.padding_side == "left" and subject.model.can_generate()
    return evidence and replace(evidence, severity=Severity.TRAP if left else Severity.BUG)


@rule(
    "TOK04",
    "two padding ids",
    Severity.TRAP,
    advice="set model.config.pad_token_id to the tokenizer's, and save both",
)
def two_padding_ids(subject: Subject) -> Evidence | None:
    """The padding ids of tokenizer and configuration differ: what is counted as padding is not what pads."""
    if _tokenizer(subject).pad_token_id is None:
        raise NotTried("its tokenizer has no padding token")
    if not isinstance(getattr(subject.model.config, "pad_token_id", None), int):
        raise NotTried("its configuration has no padding id")
    arguments = {"tokenizer": subject.tokenizer}
    size = subject.measure(padding_ids_apart, part=subject.model, **arguments)
    if size == 0:
        return None
    return Evidence(
        size=size,
        measured=f"{subject.tokenizer.pad_token_id} and {subject.model.config.pad_token_id}",
        smallest="none is needed: the two settings",
        reproduction=subject.script(padding_ids_apart, part=subject.model, **arguments),
        shown=size,
    )


def _tokenizer(subject: Subject) -> Any:
    if subject.tokenizer is None:
        raise NotTried(subject.no_tokenizer or "there is no tokenizer")
    return subject.tokenizer


def _limit(subject: Subject) -> int | None:
    limit = _tokenizer(subject).model_max_length
    return int(limit) if limit < ENDLESS else None
