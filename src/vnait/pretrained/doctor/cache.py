"""Rules of a decoder's cache: a text that is read in steps is the text that is read at once."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from vnait.pretrained.doctor.rule import MOVING_ADVICE, Evidence, NotTried, Severity, require, rule
from vnait.pretrained.doctor.subject import Subject
from vnait.pretrained.doctor.trial import Measure, Trial, difference
from vnait.pretrained.windows import reads_both_ways
from vnait.shared.errors import plural

STEPS = ((1, 1), (2, 1), (3, 2), (5, 1))  # tokens at first, tokens per step
LEFT = ((2, 1), (3, 3), (6, 4))  # tokens, places of padding


def stepwise(model: Any, ids: Tensor, start: int, step: int, name: str, **more: Any) -> float:
    """How far the outputs of a text in steps, with a cache, are from those of the text at once."""
    output = model(**{name: ids[:, :start]}, use_cache=True, **more)
    parts = [output[0]]
    for at in range(start, ids.shape[1], step):
        cached = {"past_key_values": output.past_key_values, "use_cache": True, **more}
        output = model(**{name: ids[:, at : at + step]}, **cached)
        parts.append(output[0])
    return difference(model(**{name: ids}, use_cache=False, **more)[0], torch.cat(parts, 1))


def padded_steps(model: Any, ids: Tensor, pad: int, left: int, first: int | None) -> float:
    """The same of a text padded on the left, with a mask, and with positions unless `first` is None."""
    mask = torch.nn.functional.pad(torch.ones_like(ids), (left, 0))
    rows = torch.nn.functional.pad(ids, (left, 0), value=pad)
    places = (mask.cumsum(-1) - 1).clamp(min=0) + (first or 0)
    cache, parts, count = None, [], ids.shape[1]
    for begin, end in [(0, left + 1), *((at, at + 1) for at in range(left + 1, left + count))]:
        known = {} if first is None else {"position_ids": places[:, begin:end]}
        cached = {"past_key_values": cache, "use_cache": True, "attention_mask": mask[:, :end]}
        output = model(input_ids=rows[:, begin:end], **cached, **known)
        cache = output.past_key_values
        parts.append(output[0])
    return difference(model(input_ids=ids, use_cache=False)[0], torch.cat(parts, 1)[:, left:])


def generated(model: Any, ids: Tensor, pad: int, left: int) -> float:
    """How far the logits of generate, of a text padded on the left, are from those of the text alone."""
    how = {"do_sample": False, "num_beams": 1, "min_new_tokens": 3, "max_new_tokens": 3}
    how |= {"pad_token_id": pad, "output_logits": True, "return_dict_in_generate": True}
    mask = torch.nn.functional.pad(torch.ones_like(ids), (left, 0))
    rows = torch.nn.functional.pad(ids, (left, 0), value=pad)
    alone = model.generate(ids, attention_mask=torch.ones_like(ids), **how)
    batched = model.generate(rows, attention_mask=mask, **how)
    tokens = [output.sequences[:, -3:] for output in (alone, batched)]
    equal = int((tokens[0] == tokens[1]).all(0).cumprod(0).sum())  # steps before rounding chose another token
    return max(difference(alone.logits[step], batched.logits[step]) for step in range(min(equal + 1, 3)))


def steps_over(model: Any, ids: Tensor, places: Tensor) -> float:
    """The same of a text whose last place alone is past the original length, in a step of its own."""
    mask = torch.ones_like(ids)
    whole = model(input_ids=ids, attention_mask=mask, position_ids=places, use_cache=False)[0]
    parts = {"input_ids": ids, "position_ids": places}
    before, after = (
        {name: part[:, at] for name, part in parts.items()} for at in (slice(-1), slice(-1, None))
    )
    output = model(**before, attention_mask=mask[:, :-1], use_cache=True)
    cached = {"past_key_values": output.past_key_values, "use_cache": True}
    return difference(whole[:, -1:], model(**after, attention_mask=mask, **cached)[0])


def generated_beside(model: Any, ids: Tensor, longer: Tensor, pad: int) -> float:
    """How far the logits of generate, of two texts in one batch padded on the left, are from each alone."""
    how = {"do_sample": False, "num_beams": 1, "min_new_tokens": 3, "max_new_tokens": 3}
    how |= {"pad_token_id": pad, "output_logits": True, "return_dict_in_generate": True}
    left, texts = longer.shape[1] - ids.shape[1], (ids, longer)
    rows = torch.cat([torch.nn.functional.pad(ids, (left, 0), value=pad), longer])
    mask = torch.cat([torch.nn.functional.pad(torch.ones_like(ids), (left, 0)), torch.ones_like(longer)])
    batch = model.generate(rows, attention_mask=mask, **how)
    alone = [model.generate(text, attention_mask=torch.ones_like(text), **how) for text in texts]
    tokens = torch.cat([output.sequences[:, -3:] for output in alone])
    equal = int((tokens == batch.sequences[:, -3:]).all(0).cumprod(0).sum())  # before another token is chosen
    steps = [torch.cat([output.logits[step] for output in alone]) for step in range(min(equal + 1, 3))]
    return max(difference(logits, batch.logits[step]) for step, logits in enumerate(steps))


@rule("CACHE01", "cache as full pass", Severity.BUG)
def full_pass(subject: Subject) -> Evidence | None:
    """A text that is read in steps, with a cache, differs from the text that is read at once.

    The rule tries 1 to 5 tokens at first and 1 or 2 per step; in an encoder-decoder it tries the decoder. A
    model that is configured to read in both directions is not tried. It is a trap if only the step past the
    original length of a dynamic or longrope rotation differs. FSMT reads more than one first token without a
    causal mask.

    Advice: pass use_cache=False, and report it.
    """
    _need_cache(subject)
    two = subject.encodes_and_decodes  # its decoder reads in steps what its encoder reads at once
    more: dict[str, Any] = {"input_ids": subject.text(4, row=7)} if two else {}
    more = {"name": "decoder_input_ids" if two else "input_ids", **more}

    def moved(*sizes: tuple[int, int]) -> Evidence | None:
        trials = []
        for start, step in sizes:
            arguments = {"ids": subject.text(start + 2 * step), "start": start, "step": step, **more}
            smallest = f"{plural(start, 'token')}, then {step} at a time"
            trials.append(subject.trial(stepwise, smallest, **arguments))
        return subject.first_over(trials, "outputs move")

    if evidence := moved(*STEPS):
        return evidence
    with suppress(NotTried):  # a decoder may read less than its encoder
        if evidence := moved((subject.longest - 2, 1)):
            return evidence
    return _over_the_original(subject)


def _over_the_original(subject: Subject) -> Evidence | None:
    """A text that grows past a moving rotation's original length."""
    if subject.original_length is None or not subject.accepts("position_ids"):
        return None
    places = subject.spread(subject.original_length)
    places[:, -1] += 8
    arguments = {"ids": subject.text(places.shape[1]), "places": places}
    trial = subject.trial(steps_over, f"a last position past {subject.original_length}", **arguments)
    return subject.first_over([trial], "outputs move", severity=Severity.TRAP, advice=MOVING_ADVICE)


@rule("CACHE02", "left padding with a cache", Severity.BUG)
def left_padding_with_cache(subject: Subject) -> Evidence | None:
    """Padded on the left, with a mask and positions in every step, a cached text differs from it alone.

    Positions are passed if the model takes them. See https://github.com/thu-nics/C2C/pull/19.

    Advice: generate without padding, one text at a time, or with use_cache=False; and report it.
    """
    _need_cache(subject)
    require(not subject.encodes_and_decodes, "its decoder's texts are not padded on the left")
    first = subject.first_position() if subject.accepts("position_ids") else None
    trials = _padded(subject, padded_steps, LEFT, first=first)
    return subject.first_over(trials, "outputs of real tokens move")


@rule("CACHE03", "generate", Severity.BUG)
def generate(subject: Subject) -> Evidence | None:
    """Generation from a text that is padded on the left, with a mask, differs from that without padding.

    The rule compares the logits of three greedy steps, up to the first that rounding takes another way, also
    of texts of 2 and 5 tokens in one batch. See https://github.com/unslothai/unsloth/issues/3699.

    Advice: generate from one text at a time, and report it.
    """
    require(
        subject.model.can_generate() and not subject.encodes_and_decodes,
        "it does not generate from a text that it continues",
    )
    # Each size generates twice or more, which takes longer than a call.
    texts = {"ids": subject.text(2, row=1), "longer": subject.text(5), "pad": subject.pad}
    two = subject.trial(generated_beside, "texts of 2 and 5 tokens in one batch", **texts)
    trials = [*_padded(subject, generated, LEFT[1:2]), two]
    return subject.first_over(trials, "logits move", parts=[subject.model])


def _need_cache(subject: Subject) -> None:
    """`NotTried` unless it returns a cache, and reads from left to right, so that a cache can be right."""
    require(subject.caches, "it has no cache of keys and values")
    both = any(reads_both_ways(part.config) for part in subject.text_parts)
    require(not both, "it is configured to read in both directions, for which no cache is right")


def _padded(subject: Subject, measure: Measure, sizes: Iterable[tuple[int, int]], **more: Any) -> list[Trial]:
    """A trial per number of tokens and of places of padding before them."""
    trials = []
    for count, left in sizes:
        arguments = {"ids": subject.text(count), "pad": subject.pad, "left": left, **more}
        smallest = f"{count} tokens, {plural(left, 'position')} of padding before them"
        trials.append(subject.trial(measure, smallest, **arguments))
    return trials
