"""Rules of `position_ids`: they are followed, they count from where the model counts, and calls are apart."""

from bisect import bisect_left
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from vnait.pretrained.doctor.rule import MOVING_ADVICE, Evidence, NotTried, Severity, require, rule
from vnait.pretrained.doctor.subject import Subject, restated
from vnait.pretrained.doctor.trial import difference
from vnait.shared.errors import plural

TEXTS = 3  # in each of which places look the same


def reversed_places(model: Any, ids: Tensor, first: int, **more: Any) -> float:
    """How much outputs change if the positions are reversed; 0 if they are ignored."""
    mask = torch.ones_like(ids)
    places = mask.cumsum(-1) - 1 + first
    ordered = model(input_ids=ids, attention_mask=mask, position_ids=places, **more)[0]
    return difference(
        ordered, model(input_ids=ids, attention_mask=mask, position_ids=places.flip(1), **more)[0]
    )


def alike(model: Any, ids: Tensor, places: Tensor, first: int) -> int:
    """How many of some positions of a second token give it the same output as another, in every text."""
    places, count = torch.stack([places * 0, places], 1) + first, len(places)
    rows, places = ids.repeat_interleave(count, 0), places.repeat(len(ids), 1)
    states = model(input_ids=rows, attention_mask=torch.ones_like(rows), position_ids=places)[0][:, 1].float()
    states = torch.cat(states.reshape(len(rows), -1).split(count), 1)
    apart = torch.cdist(states, states, compute_mode="donot_use_mm_for_euclid_dist").fill_diagonal_(torch.inf)
    return int((apart.amin(1) <= 1e-6 * states.norm(dim=1)).sum())


def after_others(model: Any, ids: Tensor, pad: int, **more: Any) -> float:
    """How much outputs change after calls with a longer text and a padded one."""
    before = model(input_ids=ids, attention_mask=torch.ones_like(ids), **more)[0]
    mask, twice = (torch.ones_like(ids).cumsum(-1) > 1).long(), torch.cat([ids, ids], 1)
    model(input_ids=ids * mask + pad * (1 - mask), attention_mask=mask, **more)
    model(input_ids=twice, attention_mask=torch.ones_like(twice), **more)
    return difference(before, model(input_ids=ids, attention_mask=torch.ones_like(ids), **more)[0])


def after_far(model: Any, ids: Tensor, places: Tensor, far: Tensor) -> float:
    """How much outputs change after a call with places that are farther away."""
    mask = torch.ones_like(ids)
    before = model(input_ids=ids, attention_mask=mask, position_ids=places)[0]
    model(input_ids=ids, attention_mask=mask, position_ids=far)
    return difference(before, model(input_ids=ids, attention_mask=mask, position_ids=places)[0])


def from_vectors(model: Any, ids: Tensor, **more: Any) -> float:
    """How much outputs change if a text is given as the vectors of its ids."""
    mask, vectors = torch.ones_like(ids), model.get_input_embeddings()(ids)
    before = model(input_ids=ids, attention_mask=mask, **more)[0]
    return difference(before, model(inputs_embeds=vectors, attention_mask=mask, **more)[0])


@rule("POS01", "position_ids ignored", Severity.BUG)
def ignored(subject: Subject) -> Evidence | None:
    """The model takes position_ids, and reversing them changes nothing.

    It is a bug if the model has a position table or a rotation. Otherwise the argument is there for
    compatibility, as in DeBERTa-v3, and it is a trap.

    Advice: do not rely on position_ids: neither left padding nor packing can work with them.
    """
    subject.need("position_ids")
    arguments = {"ids": subject.text(6), "first": subject.first or 0, **subject.more}
    trial = subject.trial(reversed_places, "6 tokens", **arguments)
    if trial.size > 0:
        return None
    used = any(site.tables or site.rotaries for site in subject.sites) and not subject.alibi
    return trial.evidence("reversed positions change nothing", severity=None if used else Severity.TRAP)


@rule("POS02", "position_ids shifted", Severity.BUG)
def shifted(subject: Subject) -> Evidence | None:
    """The positions that a model takes by itself are not 0, 1, 2, ... in position_ids.

    It is a trap if the table has rows for it, as RoBERTa's, whose first position is the padding id + 1;
    otherwise it is a bug.

    Advice: let the model count by itself, or pass position_ids that start where it starts.
    """
    subject.need("position_ids")
    evidence = _restated(subject, (1, 2, 6), 0)
    if subject.first is not None:
        with suppress(NotTried):  # whether it reads so long a text is for LEN03
            if far := _restated(subject, (subject.longest,), subject.first):
                return far
    if evidence is None:
        return None
    by_design = subject.first is not None and subject.first == subject.reserved
    start = "no start was found" if subject.first is None else f"it counts from {subject.first}"
    severity = Severity.TRAP if by_design else None
    return replace(evidence, severity=severity, measured=f"{evidence.measured}; {start}")


def _restated(subject: Subject, counts: tuple[int, ...], first: int) -> Evidence | None:
    """Texts that positions from `first` on change."""
    trials = [
        subject.trial(restated, plural(count, "token"), ids=subject.text(count), first=first, **subject.more)
        for count in counts
    ]
    return subject.first_over(trials, "outputs move")


@rule("POS03", "earlier calls", Severity.BUG)
def earlier_calls(subject: Subject) -> Evidence | None:
    """Outputs of a text depend on the texts that were read before it.

    The rule reads a text before and after a padded and a longer one. With a rotation it also reads one before
    and after a text whose positions end far past its length. It is a trap of a dynamic rotation past its
    original length. Servers have kept `_position_ids` of the request before:
    https://github.com/jjang-ai/vmlx/issues/113.

    Advice: load the model anew for every text, and report it: positions are kept from call to call.
    """
    more = {"pad": subject.pad, **subject.more}
    trials = [
        subject.trial(after_others, f"{count} tokens, read twice", **{"ids": subject.text(count), **more})
        for count in (2, 5)
    ]
    return subject.first_over(trials, "outputs move") or _after_far_places(subject)


def _after_far_places(subject: Subject) -> Evidence | None:
    """A text that changes after a much longer one, by the frequencies of a rotation."""
    original = subject.original_length
    length = subject.declared if original is None else original + 9
    if length is None or not subject.accepts("position_ids") or subject.encodes_and_decodes:
        return None
    if any(site.tables or site.turning for site in subject.sites):
        return None  # which end where the length does
    places, far = subject.spread(length), subject.spread(4 * length)
    arguments = {"ids": subject.text(places.shape[1]), "places": places, "far": far}
    with suppress(NotTried):  # a table that was not found may end
        trial = subject.trial(after_far, f"positions to {length - 1}, then to {4 * length - 1}", **arguments)
        if original is None:
            return subject.first_over([trial], "outputs move")
        return subject.first_over([trial], "outputs move", severity=Severity.TRAP, advice=MOVING_ADVICE)
    return None


@rule("POS05", "vectors in place of ids", Severity.BUG)
def vectors_in_place_of_ids(subject: Subject) -> Evidence | None:
    """A text that is given as inputs_embeds, the vectors of its ids, has other outputs.

    The rule tries it without padding, with a mask. The doctor found it in ESM with a position table, which is
    skipped with the embeddings, so that the model loses the order of the tokens.

    Advice: pass input_ids; soft prompts and attributions by inputs_embeds are of another model.
    """
    subject.need("inputs_embeds")
    subject.need("attention_mask")
    trials = [
        subject.trial(from_vectors, plural(count, "token"), ids=subject.text(count), **subject.more)
        for count in (2, 6)
    ]
    return subject.first_over(trials, "outputs move")


@rule("POS04", "positions that look the same", Severity.BUG)
def same_places(subject: Subject) -> Evidence | None:
    """Two position_ids within the declared length give a token the same output.

    The rule tries the second of two tokens, at the first 256 positions and at some up to the declared length,
    powers of two among them. In one text attention may be all or nothing at two positions, so it tries three.
    It finds positions that are clamped, halved, or taken modulo a length.

    Advice: give texts that end before these positions: past them the model loses the order.
    """
    subject.need("position_ids")
    require(not subject.encodes_and_decodes, "its position_ids are the decoder's alone")
    subject.need_float32()
    first = subject.first_position()
    followed = subject.trial(reversed_places, "", ids=subject.text(6), first=first)
    require(followed.size, "its position_ids change nothing (POS01)")
    places = _places(subject)
    ids = torch.cat([subject.text(2, row) for row in range(TEXTS)])
    trial = subject.trial(alike, "", places=places, ids=ids, first=first)
    size = int(trial.size)
    if not size:
        return None
    every = range(len(places))
    end = bisect_left(every, True, lo=2, key=lambda end: trial.at(places=places[:end]).size > 0)
    start = (
        bisect_left(every, True, hi=end, key=lambda start: not trial.at(places=places[start:end]).size) - 1
    )
    pair = places[[start, end - 1]]
    trial = trial.at(f"2 tokens, the second at position {pair[0]} or {pair[1]}", places=pair)
    return trial.evidence(f"{size} of {len(places)} positions give the same output as another", size=size)


def _places(subject: Subject) -> Tensor:
    """The first places, and farther ones within the declared length: powers of two and 32 others."""
    near, end = range(subject.longest), subject.declared or 0
    end -= subject.reserved
    powers = {2**power + more for power in range(8, end.bit_length()) for more in (0, 1)}
    others = {end - 1 - number * end // 32 for number in range(32)} if end > subject.longest else set()
    places = sorted({*near, *(place for place in powers | others if place < end)})
    return torch.tensor(places, device=subject.model.device)
