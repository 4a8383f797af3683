"""Rules of padding: what stands beside a text must not change it."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from vnait.pretrained.doctor.rule import MOVING_ADVICE, Evidence, Severity, require, rule
from vnait.pretrained.doctor.subject import Subject
from vnait.pretrained.doctor.trial import Measure, Trial, difference
from vnait.shared.errors import plural

SIZES = ((1, 1), (2, 1), (2, 3), (6, 1), (6, 5))  # tokens, places of padding
MOVE = "outputs of real tokens move"
LAST_TOKEN = (
    "If a `pad_token_id` is defined in the configuration, it finds the last token that is not a padding "
    "token in each row."
)


def padded(model: Any, ids: Tensor, pad: int, left: int, right: int, **more: Any) -> float:
    """How much the outputs of a text change if it is padded, with a mask."""
    mask = torch.nn.functional.pad(torch.ones_like(ids), (left, right))
    rows = torch.nn.functional.pad(ids, (left, right), value=pad)
    alone = model(input_ids=ids, attention_mask=torch.ones_like(ids), **more)[0]
    batched = model(input_ids=rows, attention_mask=mask, **more)[0]
    count = alone.shape[1]
    return difference(alone, batched[:, -count:] if left else batched[:, :count])


def padded_at(model: Any, ids: Tensor, pad: int, left: int, first: int, **more: Any) -> float:
    """How much they change by padding on the left, with positions that count real tokens."""
    mask = torch.nn.functional.pad(torch.ones_like(ids), (left, 0))
    rows = torch.nn.functional.pad(ids, (left, 0), value=pad)
    places = (mask.cumsum(-1) - 1).clamp(min=0) + first
    alone = model(input_ids=ids, attention_mask=torch.ones_like(ids), **more)[0]
    batched = model(input_ids=rows, attention_mask=mask, position_ids=places, **more)[0]
    return difference(alone, batched[:, left:])


def unmasked(model: Any, ids: Tensor, pad: int, right: int, **more: Any) -> float:
    """How much the outputs of a text change if it is padded without a mask."""
    alone = model(input_ids=ids, **more)[0]
    batched = model(input_ids=torch.nn.functional.pad(ids, (0, right), value=pad), **more)[0]
    return difference(alone, batched[:, : alone.shape[1]])


def refilled(model: Any, ids: Tensor, pad: int, left: int, right: int, **more: Any) -> float:
    """How much outputs change if masked places have another id than padding."""
    mask = torch.nn.functional.pad(torch.ones_like(ids), (left, right))
    rows = [torch.nn.functional.pad(ids, (left, right), value=fill) for fill in (pad, int(ids[0, 0]))]
    first, second = (model(input_ids=row, attention_mask=mask, **more)[0] for row in rows)
    count = ids.shape[1]
    return (
        difference(first[:, -count:], second[:, -count:])
        if left
        else difference(first[:, :count], second[:, :count])
    )


def pad_inside(model: Any, ids: Tensor, pad: int, first: int, **more: Any) -> float:
    """How far the positions of a text with the padding id as a real token are from one after another."""
    row = torch.cat([ids[:, :1], ids[:, :1] * 0 + pad, ids[:, 1:]], 1)
    mask = torch.ones_like(row)
    places = mask.cumsum(-1) - 1 + first
    counted = model(input_ids=row, attention_mask=mask, **more)[0]
    return difference(counted, model(input_ids=row, attention_mask=mask, position_ids=places, **more)[0])


def together(model: Any, ids: Tensor, **more: Any) -> float:
    """How much the outputs of texts of equal length differ between one batch and each alone."""
    every = {name: value.expand(len(ids), -1) for name, value in more.items()}
    batch = model(input_ids=ids, attention_mask=torch.ones_like(ids), **every)[0]
    rows = [model(input_ids=row[None], attention_mask=torch.ones_like(row[None]), **more)[0] for row in ids]
    return difference(torch.cat(rows), batch)


def beside(model: Any, texts: list[Tensor], pad: int, left: bool, first: int | None, **more: Any) -> float:
    """How much the outputs of texts of unequal length differ between one padded batch and each alone."""
    longest = max(ids.shape[1] for ids in texts)
    pads = [(longest - ids.shape[1], 0) if left else (0, longest - ids.shape[1]) for ids in texts]
    rows, mask = (
        torch.cat([torch.nn.functional.pad(x, size, value=fill) for x, size in zip(parts, pads, strict=True)])
        for parts, fill in ((texts, pad), ([torch.ones_like(ids) for ids in texts], 0))
    )
    every = {name: value.expand(len(texts), -1) for name, value in more.items()}
    every |= {} if first is None else {"position_ids": (mask.cumsum(-1) - 1).clamp(min=0) + first}
    batch = model(input_ids=rows, attention_mask=mask, **every)[0]
    alone = [model(input_ids=ids, attention_mask=torch.ones_like(ids), **more)[0] for ids in texts]
    sizes = [slice(-x.shape[1], None) if left else slice(x.shape[1]) for x in alone]
    return max(difference(x, batch[k : k + 1, sizes[k]]) for k, x in enumerate(alone))


def padded_prompt(model: Any, ids: Tensor, prompt: Tensor, pad: int, left: int) -> float:
    """How much the outputs of a decoder's prompt change if it is padded on the left, with a mask."""
    mask = torch.nn.functional.pad(torch.ones_like(prompt), (left, 0))
    rows = torch.nn.functional.pad(prompt, (left, 0), value=pad)
    alone = model(input_ids=ids, decoder_input_ids=prompt)[0]
    return difference(
        alone, model(input_ids=ids, decoder_input_ids=rows, decoder_attention_mask=mask)[0][:, left:]
    )


def refilled_prompt(model: Any, ids: Tensor, prompt: Tensor, pad: int, left: int) -> float:
    """How much they change if the masked places have another id than padding."""
    mask = torch.nn.functional.pad(torch.ones_like(prompt), (left, 0))
    rows = [torch.nn.functional.pad(prompt, (left, 0), value=fill) for fill in (pad, int(ids[0, 0]))]
    inputs = {"input_ids": ids, "decoder_attention_mask": mask}
    first, second = (model(decoder_input_ids=row, **inputs)[0][:, left:] for row in rows)
    return difference(first, second)


def beside_far(model: Any, ids: Tensor, places: Tensor, far: Tensor) -> float:
    """How much a text's outputs change beside one whose last place is far away, at the same length."""
    mask, both = torch.ones_like(ids), torch.cat([places, far])
    alone = model(input_ids=ids, attention_mask=mask, position_ids=places)[0]
    rows = {"input_ids": ids.expand(2, -1), "attention_mask": mask.expand(2, -1), "position_ids": both}
    return difference(alone, model(**rows)[0][:1])


@rule("PAD01", "left padding", Severity.TRAP)
def left_padding(subject: Subject) -> Evidence | None:
    """A text that is padded on the left, with a mask alone, gets other positions than unpadded.

    The rule tries 1 to 6 tokens after 1 to 5 positions of padding. transformers documents that `position_ids`
    are the user's duty here; `generate` passes them by itself. Models whose positions are distances, or are
    counted from the mask (OPT), keep the rule.

    Advice: pad on the right, or pass position_ids that count real tokens:
    (attention_mask.cumsum(-1) - 1).clamp(min=0).
    """
    subject.need("attention_mask")
    without = None if subject.accepts("position_ids") else "pad on the right: it takes no position_ids"
    return subject.first_over(_trials(subject, padded, before=True, right=0), MOVE, advice=without)


@rule("PAD02", "left padding with positions", Severity.BUG)
def left_padding_with_positions(subject: Subject) -> Evidence | None:
    """A text padded on the left, with a mask and the right position_ids, differs from the same text alone.

    The rule works as PAD01, with `position_ids` that count real tokens from where the model counts (POS02),
    and with texts of 2 and 5 tokens in one batch, in both orders. It is a limit if the part that reads text
    has a convolution, which reads padding before any mask.

    Advice: pad on the right, and report it: neither the mask nor position_ids are followed.
    """
    subject.need("attention_mask")
    subject.need("position_ids")
    require(not subject.encodes_and_decodes, "its positions are those of two texts")
    trials = _trials(subject, padded_at, before=True, first=subject.first_position())
    trials += _unequal(subject, left=True, first=subject.first_position())
    return subject.first_over(trials, MOVE, severity=_severity(subject))


@rule("PAD03", "right padding", Severity.BUG)
def right_padding(subject: Subject) -> Evidence | None:
    """A text that is padded on the right, with a mask, differs from the same text alone.

    The rule works as PAD01, on the right, and with texts of 2 and 5 tokens in one batch, in both orders. A
    classifier is also compared by its logits, so that a mean that counts padding is found. It is a limit with
    a convolution. It is a trap if only positions past the original length of a dynamic or longrope rotation
    move a text: its frequencies follow the largest position of a call. The doctor found it in YOSO, whose
    mask expects other numbers than it gets.

    Advice: run texts of one length together, without padding, and report it.
    """
    subject.need("attention_mask")
    return _on_the_right(subject, padded, _unequal(subject, left=False, first=None)) or _past_the_original(
        subject
    )


def _past_the_original(subject: Subject) -> Evidence | None:
    """A text beside one that is longer than a moving rotation's original length."""
    if subject.original_length is None or not subject.accepts("position_ids"):
        return None
    half, twice = (subject.spread(at) for at in (subject.original_length // 2, 2 * subject.original_length))
    arguments = {"ids": subject.text(half.shape[1]), "places": half, "far": twice}
    smallest = f"{half.shape[1]} tokens beside positions past {subject.original_length}"
    trial = subject.trial(beside_far, smallest, **arguments)
    return subject.first_over([trial], MOVE, severity=Severity.TRAP, advice=MOVING_ADVICE)


@rule("PAD04", "batched as alone", Severity.BUG)
def batched(subject: Subject) -> Evidence | None:
    """Texts of one length differ between a batch and each alone.

    The rule tries 2 and 3 texts of 1 to 6 tokens. It is a limit if activations are quantized by the batch
    (dynamic quantization). The doctor found it in RWKV for texts of one token: its state is added across the
    batch.

    Advice: run one text at a time, and report it.
    """
    trials = []
    for count, size in ((2, 1), (2, 4), (3, 6)):
        ids = torch.cat([subject.text(size, row) for row in range(count)])
        trials.append(subject.trial(together, f"{count} texts of {size} tokens", ids=ids, **subject.more))
    if not subject.requantizes:
        return subject.first_over(trials, "outputs move", parts=subject.parts)
    return subject.first_over(
        trials,
        "its activations are quantized by the batch, and outputs move",
        severity=Severity.LIMIT,
        advice="read texts alone, or in the same batches, if their numbers must repeat",
        quantized=True,
    )


@rule("PAD05", "masked positions", Severity.BUG)
def masked_places(subject: Subject) -> Evidence | None:
    """Tokens after a text change its outputs although the mask hides them.

    The rule fills masked positions with another id than padding. It is a limit with a convolution, and a trap
    in a decoder that classifies, if only the classes change, and padding ids leave them alone. transformers
    documents that: "If a `pad_token_id` is defined in the configuration, it finds the last token that is not
    a padding token in each row."

    Advice: fill masked positions with the padding id, and report it: the mask is not followed everywhere.
    """
    subject.need("attention_mask")
    evidence = _on_the_right(subject, refilled)
    if evidence is None or _on_the_right(subject, refilled, whole=False) or _on_the_right(subject, padded):
        return evidence
    return replace(
        evidence,
        severity=Severity.TRAP,
        measured=f"{evidence.measured}; transformers documents: {LAST_TOKEN!r}",
        advice="fill masked positions with config.pad_token_id, as its tokenizer does",
    )


@rule("PAD06", "positions from ids", Severity.TRAP)
def positions_from_ids(subject: Subject) -> Evidence | None:
    """Positions are counted from the ids that are not the padding id, whatever the mask is.

    RoBERTa and similar models count ids that are not the padding id. A padding id that is also a word, such
    as an end of text that pads, moves all later tokens.

    Advice: never use the padding id as a word, nor another id as padding; pass position_ids otherwise.
    """
    subject.need("position_ids")
    first, trials = subject.first_position(), []
    for count in (2, 5):
        arguments = {"ids": subject.text(count), "pad": subject.pad, "first": first, **subject.more}
        smallest = f"{count + 1} tokens, the second with the padding id"
        trials.append(subject.trial(pad_inside, smallest, **arguments))
    return subject.first_over(trials, "outputs move")


@rule("PAD07", "padding without a mask", Severity.TRAP)
def no_mask(subject: Subject) -> Evidence | None:
    """Without an attention_mask, padding on the right counts as words.

    Decoders keep it: no token reads later ones. It is a limit of a model that takes no mask, such as FNet:
    read its texts alone, or in batches of one length.

    Advice: always pass the attention_mask of the tokenizer.
    """
    evidence = subject.first_over(_trials(subject, unmasked), MOVE, parts=subject.parts)
    if evidence is None or subject.accepts("attention_mask"):
        return evidence
    advice = "read texts alone, or in batches of one length: it takes no attention_mask"
    return replace(evidence, severity=Severity.LIMIT, advice=advice)


@rule("PAD08", "left padding of a prompt", Severity.TRAP)
def left_padded_prompt(subject: Subject) -> Evidence | None:
    """A decoder's prompt that is padded on the left, with a mask, gets other positions than unpadded.

    The rule is for models with an encoder and a decoder, which get `decoder_input_ids` with
    `decoder_attention_mask`. T5 keeps it; BART, mBART and Marian do not. See
    https://github.com/huggingface/transformers/issues/48028.

    Advice: pad decoder_input_ids on the right, or generate from prompts of one length together.
    """
    return subject.first_over(_prompts(subject, padded_prompt), MOVE)


@rule("PAD09", "masked positions of a prompt", Severity.BUG)
def masked_places_of_prompt(subject: Subject) -> Evidence | None:
    """Tokens before a decoder's prompt change its outputs although the mask hides them.

    The rule works as PAD08, with another id than padding at the masked positions. It is a trap where padding
    itself changes nothing: positions then count ids, as in M2M100. The doctor found it in FSMT, which drops
    the mask unless `use_cache=False`.

    Advice: generate from prompts of one length together, and report it: the mask is not followed.
    """
    evidence = subject.first_over(_prompts(subject, refilled_prompt), MOVE)
    # Where padding itself moves nothing, the mask is followed, and positions count ids, as M2M100's.
    by_ids = evidence is not None and not subject.first_over(_prompts(subject, padded_prompt), MOVE)
    advice = "fill masked positions with config.pad_token_id: positions count ids that are not padding"
    return replace(evidence, severity=Severity.TRAP, advice=advice) if evidence and by_ids else evidence


def _prompts(subject: Subject, measure: Measure) -> list[Trial]:
    """Prompts of a decoder, padded on the left."""
    require(subject.encodes_and_decodes, "it has no decoder beside an encoder")
    subject.need("decoder_attention_mask")
    trials = []
    for count, left in ((1, 1), (3, 2), (4, 5)):
        smallest = f"a prompt of {plural(count, 'token')}, {plural(left, 'position')} of padding before it"
        arguments = {
            "ids": subject.text(4),
            "prompt": subject.text(count, row=7),
            "pad": subject.pad,
            "left": left,
        }
        trials.append(subject.trial(measure, smallest, **arguments))
    return trials


def _unequal(subject: Subject, *, left: bool, first: int | None) -> list[Trial]:
    """Texts of unequal length in one batch, in both orders."""
    texts = [subject.text(2, row=1), subject.text(5)]
    arguments = {"pad": subject.pad, "left": left, "first": first, **subject.more}
    return [
        subject.trial(beside, "texts of 2 and 5 tokens in one batch", texts=batch, **arguments)
        for batch in (texts, texts[::-1])
    ]


def _on_the_right(
    subject: Subject, measure: Measure, others: list[Trial] | None = None, *, whole: bool = True
) -> Evidence | None:
    """A text that padding on the right changes; `whole`: also by outputs of the whole model."""
    trials = [*_trials(subject, measure, left=0), *(others or ())]
    parts = subject.parts if whole else (subject.body,)
    return subject.first_over(trials, MOVE, parts=parts, severity=_severity(subject))


def _severity(subject: Subject) -> Severity | None:
    """A convolution mixes neighbours before any mask: a limit of the architecture."""
    return Severity.LIMIT if subject.convolves else None


def _trials(subject: Subject, measure: Measure, *, before: bool = False, **more: Any) -> list[Trial]:
    """Texts of `SIZES`, padded before or after them."""
    trials, (side, where) = [], ("left", "before") if before else ("right", "after")
    for count, places in SIZES:
        smallest = f"{plural(count, 'token')}, {plural(places, 'position')} of padding {where} "
        smallest += "it" if count == 1 else "them"
        arguments = {"ids": subject.text(count), "pad": subject.pad, side: places, **more, **subject.more}
        trials.append(subject.trial(measure, smallest, **arguments))
    return trials
