"""Rules of the tokenizer: where it cuts a text, and whether its batches are read as its single texts."""

from typing import Any

from vnait.pretrained.doctor.rule import Evidence, Severity, require, rule
from vnait.pretrained.doctor.subject import MAX_TOKENS, Subject
from vnait.pretrained.doctor.trial import difference

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
    ids, pad = batch["input_ids"], tokenizer.pad_token_id
    real = batch.get("attention_mask", ids != pad)[0].bool()
    batched = model(**batch, **every)[0][:1]
    return difference(alone, batched if batched.shape[1:] == alone.shape[1:] else batched[:, real])


def padding_ids_apart(model: Any, tokenizer: Any) -> int:
    """How far the padding id of the tokenizer is from the configuration's."""
    return abs(tokenizer.pad_token_id - model.config.pad_token_id)


@rule("TOK01", "truncation", Severity.TRAP)
def truncation(subject: Subject) -> Evidence | None:
    """truncation=True drops the end of a text silently: texts that differ there get equal outputs.

    The rule finds it in every tokenizer with a limit.

    Advice: count the tokens without truncation first; read longer texts in windows.
    """
    limit = _limit(subject)
    if limit is None:
        return None
    more = {"words": 2 * limit, "tokenizer": subject.tokenizer}
    trial = subject.trial(tokens_cut, "", part=subject.model, **more)
    if trial.size <= 0:
        return None
    # The fewest that are cut: a word may be several tokens.
    most = limit + 1 - subject.tokenizer.num_special_tokens_to_add()
    words = trial.least("words", most, start=1)
    measured = f"of a text of {2 * limit} words {trial.size:.0f} tokens are dropped; {limit} are read"
    return trial.at(f"{words} words", words=words).evidence(measured, size=trial.size)


@rule("TOK02", "truncation too late", Severity.TRAP)
def too_late(subject: Subject) -> Evidence | None:
    """A text that truncation=True has cut is still too long for the model.

    The rule tries a text of as many words as the tokenizer lets through, at most one more than the model
    declares.

    Advice: set tokenizer.model_max_length to what the model reads (LEN01), and save the tokenizer.
    """
    limit = _limit(subject)
    longest = min(limit or ENDLESS, (subject.declared or ENDLESS) + 1)
    require(longest <= MAX_TOKENS, f"a text of {longest} tokens is too long to read here")
    more = {"tokenizer": subject.tokenizer, "words": longest, **subject.more}
    trial = subject.trial(reads_truncated, f"{longest} words", part=subject.model, **more)
    if trial.size:
        return None
    measured = f"a text of {longest} words raises an error after truncation=True"
    return trial.evidence(measured, size=0.0, shown=0.0)  # a number, where the script prints False


@rule("TOK03", "the tokenizer's batch", Severity.BUG)
def batch(subject: Subject) -> Evidence | None:
    """A text in a batch that the tokenizer pads differs from the text alone.

    The rule passes two texts of different lengths through `tokenizer(texts, padding=True)`. It is a trap for
    a decoder that pads on the left, since `generate` passes positions.

    Advice: set padding_side to the side that the model reads (PAD01, PAD03), and save the tokenizer.
    """
    require(_tokenizer(subject).pad_token_id is not None, "its tokenizer has no padding token")
    more = {"tokenizer": subject.tokenizer, "texts": [SHORT, LONG], **subject.more}
    trial = subject.trial(in_a_batch, "two texts, of 3 and 14 words", **more)
    # A decoder's tokenizer pads on the left for generate, which counts positions by the mask.
    left = subject.tokenizer.padding_side == "left" and subject.model.can_generate()
    severity = Severity.TRAP if left else None
    return subject.first_over(
        [trial], "outputs of real tokens move", parts=[subject.model], severity=severity
    )


@rule("TOK04", "two padding ids", Severity.TRAP)
def two_padding_ids(subject: Subject) -> Evidence | None:
    """The padding ids of tokenizer and configuration differ: what is counted as padding is not what pads.

    Models that count positions or find the last token by `config.pad_token_id` read the wrong positions.

    Advice: set model.config.pad_token_id to the tokenizer's, and save both.
    """
    require(_tokenizer(subject).pad_token_id is not None, "its tokenizer has no padding token")
    require(
        isinstance(getattr(subject.model.config, "pad_token_id", None), int),
        "its configuration has no padding id",
    )
    smallest = "none is needed: the two settings"
    trial = subject.trial(padding_ids_apart, smallest, part=subject.model, tokenizer=subject.tokenizer)
    if trial.size == 0:
        return None
    return trial.evidence(f"{subject.tokenizer.pad_token_id} and {subject.model.config.pad_token_id}")


def _tokenizer(subject: Subject) -> Any:
    """The tokenizer, or `NotTried` with the reason why there is none."""
    require(subject.tokenizer is not None, subject.no_tokenizer or "there is no tokenizer")
    return subject.tokenizer


def _limit(subject: Subject) -> int | None:
    """Where truncation=True cuts; None if nowhere."""
    limit = _tokenizer(subject).model_max_length
    return int(limit) if limit < ENDLESS else None
