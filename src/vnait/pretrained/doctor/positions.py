"""Rules of `position_ids`: they are followed, they count from where the model counts, and calls are apart."""

from bisect import bisect_left
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from vnait.pretrained.doctor.rule import Evidence, NotTried, Severity, rule
from vnait.pretrained.doctor.subject import Subject, difference, restated
from vnait.shared.errors import plural


def reversed_places(model: Any, ids: Tensor, first: int, **more: Any) -> float:
    """How much outputs change if the positions are reversed; 0 if they are ignored."""
    mask = torch.ones_like(ids)
    places = mask.cumsum(-1) - 1 + first
    one = model(input_ids=ids, attention_mask=mask, position_ids=places, **more)[0]
    return difference(one, model(input_ids=ids, attention_mask=mask, position_ids=places.flip(1), **more)[0])


def alike(model: Any, ids: Tensor, count: int, first: int) -> int:
    """How many of the first `count` positions of a second token give it the same output as another."""
    places = torch.arange(count).to(ids.device)[:, None]
    places = torch.cat([places * 0, places], 1) + first
    rows = ids.expand(count, -1)
    found = model(input_ids=rows, attention_mask=torch.ones_like(rows), position_ids=places)[0][:, 1].float()
    apart = torch.cdist(found, found, compute_mode="donot_use_mm_for_euclid_dist").fill_diagonal_(torch.inf)
    return int((apart.amin(1) <= 1e-6 * found.norm(dim=1)).sum())


def after_others(model: Any, ids: Tensor, pad: int, **more: Any) -> float:
    """How much outputs change after calls with a longer text and a padded one."""
    before = model(input_ids=ids, attention_mask=torch.ones_like(ids), **more)[0]
    mask, twice = (torch.ones_like(ids).cumsum(-1) > 1).long(), torch.cat([ids, ids], 1)
    model(input_ids=ids * mask + pad * (1 - mask), attention_mask=mask, **more)
    model(input_ids=twice, attention_mask=torch.ones_like(twice), **more)
    return difference(before, model(input_ids=ids, attention_mask=torch.ones_like(ids), **more)[0])


@rule(
    "POS01",
    "position_ids ignored",
    Severity.BUG,
    advice="do not rely on position_ids: neither left padding nor packing can work with them",
)
def ignored(subject: Subject) -> Evidence | None:
    """The model takes position_ids, and reversing them changes nothing."""
    subject.need("position_ids")
    count = 6
    arguments = {"ids": subject.text(count), "first": subject.first or 0, **subject.more}
    size = subject.measure(reversed_places, **arguments)
    if size > 0:
        return None
    used = any(site.tables or site.rotaries for site in subject.sites)
    return Evidence(
        size=size,
        measured="reversed positions change nothing",
        smallest=f"{count} tokens",
        reproduction=subject.script(reversed_places, **arguments),
        shown=size,
        severity=None if used else Severity.TRAP,
    )


@rule(
    "POS02",
    "position_ids shifted",
    Severity.BUG,
    advice="let the model count by itself, or pass position_ids that start where it starts",
)
def shifted(subject: Subject) -> Evidence | None:
    """The positions that a model takes by itself are not 0, 1, 2, ... in position_ids."""
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
    cases = [subject.case(plural(count, "token"), ids=subject.text(count), first=first) for count in counts]
    return subject.first_over(restated, cases, what="outputs move")


@rule(
    "POS03",
    "earlier calls",
    Severity.BUG,
    advice="load the model anew for every text, and report it: positions are kept from call to call",
)
def earlier_calls(subject: Subject) -> Evidence | None:
    """Outputs of a text depend on the texts that were read before it."""
    cases = [
        subject.case(f"{count} tokens, read twice", ids=subject.text(count), pad=subject.pad)
        for count in (2, 5)
    ]
    return subject.first_over(after_others, cases, what="outputs move")


@rule(
    "POS04",
    "places that look the same",
    Severity.BUG,
    advice="give texts that end before these places: past them the model loses the order",
)
def same_places(subject: Subject) -> Evidence | None:
    """Two position_ids within the declared length give a token the same output."""
    subject.need("position_ids")
    if subject.encodes_and_decodes:
        raise NotTried("its position_ids are the decoder's alone")
    arguments = {"ids": subject.text(2), "first": subject.first_position()}
    if not subject.measure(reversed_places, **{**arguments, "ids": subject.text(6)}):
        raise NotTried("its position_ids change nothing (POS01)")
    total = subject.longest
    size = int(subject.measure(alike, count=total, **arguments))
    if not size:
        return None
    least = bisect_left(
        range(total), True, lo=2, key=lambda count: subject.measure(alike, count=count, **arguments) > 0
    )
    return Evidence(
        size=size,
        measured=f"{size} of {total} places give the same output as another",
        smallest=f"2 tokens, the second at place {least - 1}",
        reproduction=subject.script(alike, count=least, **arguments),
        shown=subject.measure(alike, count=least, **arguments),
    )
