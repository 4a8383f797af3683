"""Rules of packing: two texts in one row, whose positions both start anew, do not read each other."""

from typing import Any

import torch
from torch import Tensor

from vnait.pretrained.doctor.rule import Evidence, Severity, require, rule
from vnait.pretrained.doctor.subject import Subject
from vnait.pretrained.doctor.trial import Measure, difference

SIZES = ((1, 1), (1, 2), (2, 3), (5, 4))  # tokens of the first text, and of the second


def packed(model: Any, ids: Tensor, start: int, first: int, **how: Any) -> float:
    """How much a text changes if another one stands before it in the row, with positions of its own."""
    count = ids.shape[1] - start
    places = torch.cat([torch.arange(start), torch.arange(count)])[None].to(ids) + first
    alone = model(input_ids=ids[:, start:])[0]
    return difference(alone, model(input_ids=ids, position_ids=places, **how)[0][:, start:])


def packed_in_blocks(model: Any, ids: Tensor, start: int, first: int, causal: bool) -> float:
    """The same with a mask (1, 1, T, T) that separates the texts."""
    count = ids.shape[1] - start
    blocks = torch.block_diag(torch.ones(start, start), torch.ones(count, count))
    blocks = blocks.tril() if causal else blocks
    mask = (1 - blocks)[None, None] * torch.finfo(model.dtype).min
    places = torch.cat([torch.arange(start), torch.arange(count)])[None].to(ids) + first
    alone = model(input_ids=ids[:, start:])[0]
    both = model(input_ids=ids, position_ids=places, attention_mask=mask.to(ids.device, model.dtype))
    return difference(alone, both[0][:, start:])


@rule("PACK01", "packed by default", Severity.TRAP)
def by_default(subject: Subject) -> Evidence | None:
    """Texts that are packed with position_ids alone read one another in a call with the defaults.

    transformers looks for packed texts in causal masks only, and only without a cache and a mask; a decoder
    makes a cache by default. Attention in both directions never separates them.

    Advice: pass a mask (1, 1, T, T) that separates the texts; for a decoder that keeps PACK02,
    use_cache=False without an attention_mask is enough.
    """
    return _leak(subject, packed)


@rule("PACK02", "packed without a cache", Severity.TRAP)
def without_cache(subject: Subject) -> Evidence | None:
    """Texts that are packed with position_ids alone read one another even with use_cache=False.

    This is what is left of PACK01 without the cache.

    Advice: pass a mask (1, 1, T, T) that separates the texts, or use flash attention.
    """
    require(subject.caches, "it takes no use_cache; PACK01 is the same")
    return _leak(subject, packed, use_cache=False)


@rule("PACK03", "packed with a mask of ones", Severity.TRAP)
def with_ones(subject: Subject) -> Evidence | None:
    """A mask of ones, which tokenizers and collators add, lets packed texts read one another.

    See https://github.com/huggingface/transformers/pull/46634.

    Advice: pass a mask (1, 1, T, T) that separates the texts, or see PACK01 and leave the mask out.
    """
    subject.need("attention_mask")
    return _leak(subject, packed, mask=True)


@rule("PACK04", "packed in blocks", Severity.TRAP)
def in_blocks(subject: Subject) -> Evidence | None:
    """Texts that are packed with position_ids and a mask that separates them still differ from alone.

    The mask has 0 where a token may read, and the lowest number of its type elsewhere. Some models take masks
    (B, T) only and raise, which is not a finding; others read such a mask otherwise.

    Advice: do not pack texts for this model: run each in a row of its own.
    """
    subject.need("attention_mask")
    _need_places(subject)
    ids = subject.text(2)
    mask = torch.zeros(1, 1, 2, 2, device=ids.device, dtype=subject.model.dtype)
    shapes = [
        subject.call(subject.body, input_ids=ids, **how)[0].shape for how in ({}, {"attention_mask": mask})
    ]
    require(shapes[0] == shapes[1], "it takes no mask (1, 1, T, T)")
    return _leak(subject, packed_in_blocks, causal=subject.causal)


def _need_places(subject: Subject) -> None:
    """`NotTried` unless it takes position_ids of one text."""
    subject.need("position_ids")
    require(not subject.encodes_and_decodes, "its positions are those of two texts")


def _leak(subject: Subject, measure: Measure, *, mask: bool = False, **more: Any) -> Evidence | None:
    """Pairs of texts in one row, of which the second one reads the first; `mask`: with a mask of ones."""
    _need_places(subject)
    first, trials = subject.first_position(), []
    for start, count in SIZES:
        ids = torch.cat([subject.text(start), subject.text(count, row=1)], 1)
        arguments = {"ids": ids, "start": start, "first": first, **more}
        arguments |= {"attention_mask": torch.ones_like(ids)} if mask else {}
        trials.append(subject.trial(measure, f"a text of {start} before a text of {count}", **arguments))
    return subject.first_over(trials, "the second text moves")
