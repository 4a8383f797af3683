"""Rules of `position_ids`: they are followed, they count from where the model counts, and calls are apart."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from vnait.pretrained.doctor.rule import Evidence, NotTried, Severity, require, rule
from vnait.pretrained.doctor.subject import Subject, difference, restated
from vnait.shared.errors import plural


def reversed_places(model: Any, ids: Tensor, first: int, **more: Any) -> float:
    """How much outputs change if the positions are reversed; 0 if they are ignored."""
    mask = torch.ones_like(ids)
    places = mask.cumsum(-1) - 1 + first
    ordered = model(input_ids=ids, attention_mask=mask, position_ids=places, **more)[0]
    return difference(
        ordered, model(input_ids=ids, attention_mask=mask, position_ids=places.flip(1), **more)[0]
    )


def alike(model: Any, ids: Tensor, count: int, first: int) -> int:
    """How many of the first `count` positions of a second token give it the same output as another."""
    places = torch.arange(count).to(ids.device)[:, None]
    places = torch.cat([places * 0, places], 1) + first
    rows = ids.expand(count, -1)
    states = model(input_ids=rows, attention_mask=torch.ones_like(rows), position_ids=places)[0][:, 1].float()
    apart = torch.cdist(states, states, compute_mode="donot_use_mm_for_euclid_dist").fill_diagonal_(torch.inf)
    return int((apart.amin(1) <= 1e-6 * states.norm(dim=1)).sum())


def after_others(model: Any, ids: Tensor, pad: int, **more: Any) -> float:
    """How much outputs change after calls with a longer text and a padded one."""
    before = model(input_ids=ids, attention_mask=torch.ones_like(ids), **more)[0]
    mask, twice = (torch.ones_like(ids).cumsum(-1) > 1).long(), torch.cat([ids, ids], 1)
    model(input_ids=ids * mask + pad * (1 - mask), attention_mask=mask, **more)
    model(input_ids=twice, attention_mask=torch.ones_like(twice), **more)
    return difference(before, model(input_ids=ids, attention_mask=torch.ones_like(ids), **more)[0])


@rule("POS01", "position_ids ignored", Severity.BUG)
def ignored(subject: Subject) -> Evidence | None:
    """The model takes position_ids, and reversing them changes nothing.

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

    Advice: load the model anew for every text, and report it: positions are kept from call to call.
    """
    more = {"pad": subject.pad, **subject.more}
    trials = [
        subject.trial(after_others, f"{count} tokens, read twice", **{"ids": subject.text(count), **more})
        for count in (2, 5)
    ]
    return subject.first_over(trials, "outputs move")


@rule("POS04", "places that look the same", Severity.BUG)
def same_places(subject: Subject) -> Evidence | None:
    """Two position_ids within the declared length give a token the same output.

    Advice: give texts that end before these places: past them the model loses the order.
    """
    subject.need("position_ids")
    require(not subject.encodes_and_decodes, "its position_ids are the decoder's alone")
    first, total = subject.first_position(), subject.longest
    places = subject.trial(reversed_places, "", ids=subject.text(6), first=first)
    require(places.size, "its position_ids change nothing (POS01)")
    trial = subject.trial(alike, "", count=total, ids=subject.text(2), first=first)
    size = int(trial.size)
    if not size:
        return None
    count = trial.least("count", total)
    trial = trial.at(f"2 tokens, the second at place {count - 1}", count=count)
    return trial.evidence(f"{size} of {total} places give the same output as another", size=size)
