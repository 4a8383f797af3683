"""Rules of padding: what stands beside a text must not change it."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from vnait.pretrained.doctor.rule import Evidence, NotTried, Severity, rule
from vnait.pretrained.doctor.subject import Case, Measure, Subject, difference
from vnait.shared.errors import plural

SIZES = ((1, 1), (2, 1), (2, 3), (6, 1), (6, 5))  # tokens, places of padding
MOVE = "outputs of real tokens move"


def padded(model: Any, ids: Tensor, pad: int, left: int, right: int, **more: Any) -> float:
    """How much the outputs of a text change if it is padded, with a mask."""
    mask = torch.nn.functional.pad(torch.ones_like(ids), (left, right))
    rows = torch.nn.functional.pad(ids, (left, right), value=pad)
    alone = model(input_ids=ids, attention_mask=torch.ones_like(ids), **more)[0]
    other = model(input_ids=rows, attention_mask=mask, **more)[0]
    count = alone.shape[1]
    return difference(alone, other[:, -count:] if left else other[:, :count])


def padded_at(model: Any, ids: Tensor, pad: int, left: int, first: int, **more: Any) -> float:
    """How much they change by padding on the left, with positions that count real tokens."""
    mask = torch.nn.functional.pad(torch.ones_like(ids), (left, 0))
    rows = torch.nn.functional.pad(ids, (left, 0), value=pad)
    places = (mask.cumsum(-1) - 1).clamp(min=0) + first
    alone = model(input_ids=ids, attention_mask=torch.ones_like(ids), **more)[0]
    other = model(input_ids=rows, attention_mask=mask, position_ids=places, **more)[0]
    return difference(alone, other[:, left:])


def unmasked(model: Any, ids: Tensor, pad: int, right: int, **more: Any) -> float:
    """How much the outputs of a text change if it is padded without a mask."""
    alone = model(input_ids=ids, **more)[0]
    other = model(input_ids=torch.nn.functional.pad(ids, (0, right), value=pad), **more)[0]
    return difference(alone, other[:, : alone.shape[1]])


def refilled(model: Any, ids: Tensor, pad: int, left: int, right: int, **more: Any) -> float:
    """How much outputs change if masked places have another id than padding."""
    mask = torch.nn.functional.pad(torch.ones_like(ids), (left, right))
    rows = [torch.nn.functional.pad(ids, (left, right), value=fill) for fill in (pad, int(ids[0, 0]))]
    one, other = (model(input_ids=row, attention_mask=mask, **more)[0] for row in rows)
    count = ids.shape[1]
    return (
        difference(one[:, -count:], other[:, -count:])
        if left
        else difference(one[:, :count], other[:, :count])
    )


def pad_inside(model: Any, ids: Tensor, pad: int, first: int, **more: Any) -> float:
    """How far the positions of a text with the padding id as a real token are from one after another."""
    row = torch.cat([ids[:, :1], ids[:, :1] * 0 + pad, ids[:, 1:]], 1)
    mask = torch.ones_like(row)
    places = mask.cumsum(-1) - 1 + first
    own = model(input_ids=row, attention_mask=mask, **more)[0]
    return difference(own, model(input_ids=row, attention_mask=mask, position_ids=places, **more)[0])


def together(model: Any, ids: Tensor, **more: Any) -> float:
    """How much the outputs of texts of equal length differ between one batch and each alone."""
    every = {name: value.expand(len(ids), -1) for name, value in more.items()}
    batch = model(input_ids=ids, attention_mask=torch.ones_like(ids), **every)[0]
    rows = [model(input_ids=row[None], attention_mask=torch.ones_like(row[None]), **more)[0] for row in ids]
    return difference(torch.cat(rows), batch)


@rule(
    "PAD01",
    "left padding",
    Severity.TRAP,
    advice="pad on the right, or pass position_ids that count real tokens: "
    "(attention_mask.cumsum(-1) - 1).clamp(min=0)",
)
def left_padding(subject: Subject) -> Evidence | None:
    """A text that is padded on the left, with a mask alone, gets other positions than unpadded."""
    subject.need("attention_mask")
    return subject.first_over(padded, _cases(subject, "left", right=0), what=MOVE)


@rule(
    "PAD02",
    "left padding with positions",
    Severity.BUG,
    advice="pad on the right, and report it: neither the mask nor position_ids are followed",
)
def left_padding_with_positions(subject: Subject) -> Evidence | None:
    """A text padded on the left, with a mask and the right position_ids, differs from the same text alone."""
    subject.need("attention_mask")
    subject.need("position_ids")
    if subject.encodes_and_decodes:
        raise NotTried("its positions are those of two texts")
    cases = _cases(subject, "left", first=subject.first_position())
    return _or_limit(subject, subject.first_over(padded_at, cases, what=MOVE))


@rule(
    "PAD03",
    "right padding",
    Severity.BUG,
    advice="run texts of one length together, without padding, and report it",
)
def right_padding(subject: Subject) -> Evidence | None:
    """A text that is padded on the right, with a mask, differs from the same text alone."""
    subject.need("attention_mask")
    return _first_part(subject, padded)


@rule("PAD04", "batched as alone", Severity.BUG, advice="run one text at a time, and report it")
def batched(subject: Subject) -> Evidence | None:
    """Texts of one length differ between a batch and each alone."""
    cases = [
        subject.case(
            f"{rows} texts of {count} tokens",
            ids=torch.cat([subject.text(count, row) for row in range(rows)]),
        )
        for rows, count in ((2, 1), (2, 4), (3, 6))
    ]
    return subject.first_over_in_parts(together, cases, what="outputs move")


@rule(
    "PAD05",
    "masked places",
    Severity.BUG,
    advice="fill masked places with the padding id, and report it: the mask is not followed everywhere",
)
def masked_places(subject: Subject) -> Evidence | None:
    """What stands at masked places after a text changes its outputs."""
    subject.need("attention_mask")
    return _first_part(subject, refilled)


@rule(
    "PAD06",
    "positions from ids",
    Severity.TRAP,
    advice="never use the padding id as a word, nor another id as padding; pass position_ids otherwise",
)
def positions_from_ids(subject: Subject) -> Evidence | None:
    """Positions are counted from the ids that are not the padding id, whatever the mask is."""
    subject.need("position_ids")
    first = subject.first_position()
    cases = [
        subject.case(
            f"{count + 1} tokens, the second with the padding id",
            ids=subject.text(count),
            pad=subject.pad,
            first=first,
        )
        for count in (2, 5)
    ]
    return subject.first_over(pad_inside, cases, what="outputs move")


@rule(
    "PAD07", "padding without a mask", Severity.TRAP, advice="always pass the attention_mask of the tokenizer"
)
def no_mask(subject: Subject) -> Evidence | None:
    """Without an attention_mask, padding on the right counts as words."""
    return subject.first_over_in_parts(unmasked, _cases(subject, "right"), what=MOVE)


def _first_part(subject: Subject, measure: Measure) -> Evidence | None:
    """The first part that a measurement of padding on the right finds something in."""
    cases = _cases(subject, "right", left=0)
    return _or_limit(subject, subject.first_over_in_parts(measure, cases, what=MOVE))


def _or_limit(subject: Subject, evidence: Evidence | None) -> Evidence | None:
    """A convolution mixes neighbours before any mask: a limit of the architecture."""
    return evidence and (replace(evidence, severity=Severity.LIMIT) if subject.convolves else evidence)


def _cases(subject: Subject, side: str, **more: Any) -> list[Case]:
    """Texts of `SIZES`, padded on one side."""
    where, cases = {"left": "before", "right": "after"}[side], []
    for count, places in SIZES:
        words = f"{plural(count, 'token')}, {plural(places, 'place')} of padding {where} "
        words += "them" if count > 1 else "it"
        arguments = {"ids": subject.text(count), "pad": subject.pad, side: places, **more}
        cases.append(subject.case(words, **arguments))
    return cases
