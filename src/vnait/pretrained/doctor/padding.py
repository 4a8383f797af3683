"""Rules of padding: what stands beside a text must not change it."""

from typing import Any

import torch
from torch import Tensor

from vnait.pretrained.doctor.rule import Evidence, Severity, require, rule
from vnait.pretrained.doctor.subject import Measure, Subject, Trial, difference
from vnait.shared.errors import plural

SIZES = ((1, 1), (2, 1), (2, 3), (6, 1), (6, 5))  # tokens, places of padding
MOVE = "outputs of real tokens move"


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


@rule("PAD01", "left padding", Severity.TRAP)
def left_padding(subject: Subject) -> Evidence | None:
    """A text that is padded on the left, with a mask alone, gets other positions than unpadded.

    Advice: pad on the right, or pass position_ids that count real tokens:
    (attention_mask.cumsum(-1) - 1).clamp(min=0).
    """
    subject.need("attention_mask")
    return subject.first_over(_trials(subject, padded, before=True, right=0), MOVE)


@rule("PAD02", "left padding with positions", Severity.BUG)
def left_padding_with_positions(subject: Subject) -> Evidence | None:
    """A text padded on the left, with a mask and the right position_ids, differs from the same text alone.

    Advice: pad on the right, and report it: neither the mask nor position_ids are followed.
    """
    subject.need("attention_mask")
    subject.need("position_ids")
    require(not subject.encodes_and_decodes, "its positions are those of two texts")
    trials = _trials(subject, padded_at, before=True, first=subject.first_position())
    return subject.first_over(trials, MOVE, severity=_severity(subject))


@rule("PAD03", "right padding", Severity.BUG)
def right_padding(subject: Subject) -> Evidence | None:
    """A text that is padded on the right, with a mask, differs from the same text alone.

    Advice: run texts of one length together, without padding, and report it.
    """
    subject.need("attention_mask")
    return _on_the_right(subject, padded)


@rule("PAD04", "batched as alone", Severity.BUG)
def batched(subject: Subject) -> Evidence | None:
    """Texts of one length differ between a batch and each alone.

    Advice: run one text at a time, and report it.
    """
    trials = []
    for count, size in ((2, 1), (2, 4), (3, 6)):
        ids = torch.cat([subject.text(size, row) for row in range(count)])
        trials.append(subject.trial(together, f"{count} texts of {size} tokens", ids=ids, **subject.more))
    return subject.first_over(trials, "outputs move", parts=subject.parts)


@rule("PAD05", "masked places", Severity.BUG)
def masked_places(subject: Subject) -> Evidence | None:
    """What stands at masked places after a text changes its outputs.

    Advice: fill masked places with the padding id, and report it: the mask is not followed everywhere.
    """
    subject.need("attention_mask")
    return _on_the_right(subject, refilled)


@rule("PAD06", "positions from ids", Severity.TRAP)
def positions_from_ids(subject: Subject) -> Evidence | None:
    """Positions are counted from the ids that are not the padding id, whatever the mask is.

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

    Advice: always pass the attention_mask of the tokenizer.
    """
    return subject.first_over(_trials(subject, unmasked), MOVE, parts=subject.parts)


def _on_the_right(subject: Subject, measure: Measure) -> Evidence | None:
    """A text that padding on the right changes."""
    trials = _trials(subject, measure, left=0)
    return subject.first_over(trials, MOVE, parts=subject.parts, severity=_severity(subject))


def _severity(subject: Subject) -> Severity | None:
    """A convolution mixes neighbours before any mask: a limit of the architecture."""
    return Severity.LIMIT if subject.convolves else None


def _trials(subject: Subject, measure: Measure, *, before: bool = False, **more: Any) -> list[Trial]:
    """Texts of `SIZES`, padded before or after them."""
    trials, (side, where) = [], ("left", "before") if before else ("right", "after")
    for count, places in SIZES:
        smallest = f"{plural(count, 'token')}, {plural(places, 'place')} of padding {where} "
        smallest += "it" if count == 1 else "them"
        arguments = {"ids": subject.text(count), "pad": subject.pad, side: places, **more, **subject.more}
        trials.append(subject.trial(measure, smallest, **arguments))
    return trials
