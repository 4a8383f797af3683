"""The contacts study: its chains, its maps and its measures, by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Generator

from vnait_lab.studies.contacts import (
    CHANNELS,
    FALSE,
    FAMILIES,
    KEPT,
    LENGTH,
    STUDY,
    Scorer,
    contents,
    fixed,
    frequency,
    measured,
    pairs,
    run,
    touching,
)
from vnait_lab.studies.parts.proteins import noisy
from vnait_lab.study import Budget


@pytest.mark.parametrize("family", [*FAMILIES])
def test_contacts_and_their_separations(family: str) -> None:
    contacts = touching(family, 60, Generator().manual_seed(0))
    assert torch.equal(contacts, contacts.mT) and contacts.diagonal(0, 1, 2).all()
    assert contacts[:, pairs(24)].double().mean().item() == pytest.approx(0.12, abs=0.002)
    share = torch.tensor(frequency(contacts))
    by_hand = sum(bool(contact[place, place + 30]) for contact in contacts for place in range(50)) / 3_000
    assert share[29].item() == pytest.approx(by_hand)
    near, middle, last = share[24:32].mean(), share[38:46].mean(), share[52:60].mean()
    if family == "globule":
        assert max(near, middle, last) - min(near, middle, last) < 0.04
    elif family == "walk":
        assert near > 2 * middle > 4 * last
    else:
        assert min(near, last) > 2 * middle  # a turn is 28 residues


def test_what_residues_and_maps_say() -> None:
    random = Generator().manual_seed(0)
    contacts = touching("globule", 60, random)
    content = contents(contacts, random)
    product, far = (content @ content.mT), pairs(24)
    assert product[:, far][contacts[:, far]].mean() > product[:, far][~contacts[:, far]].mean() + 1
    known = noisy(contacts, KEPT, FALSE, random)
    assert torch.equal(known, known.mT)
    assert known[:, far][contacts[:, far]].mean().item() == pytest.approx(0.5, abs=0.02)
    assert known[:, far][~contacts[:, far]].mean().item() == pytest.approx(0.03, abs=0.005)
    assert torch.equal(fixed("true map", contacts, random), contacts.float())
    slope = fixed("slope", contacts, random)
    assert slope[0, 3, 11] == slope[5, 11, 3] == -1


def test_a_learned_table_has_no_direction() -> None:
    model = Scorer("table")
    torch.nn.init.normal_(model.table.weight)
    scores = model(torch.zeros(1, LENGTH, CHANNELS), torch.zeros(1, LENGTH, LENGTH))
    assert torch.equal(scores, scores.mT) and scores.std() > 0.5


def test_measures() -> None:
    contacts = touching("walk", 8, Generator().manual_seed(0))
    perfect = measured(20 * contacts.float(), contacts)
    assert perfect["precision"] == perfect["area"] == 1
    assert measured(-20 * contacts.float(), contacts)["area"] == 0
    even = measured(torch.zeros(8, 80, 80), contacts)
    by_hand = 0.0
    for chain in contacts:
        for row in range(80):
            keys = [key for key in range(80) if abs(key - row) >= 6]
            by_hand += sum(bool(chain[row, key]) for key in keys if abs(key - row) >= 24) / len(keys) / 640
    assert even["mass"] == pytest.approx(by_hand, abs=1e-5) and even["area"] == 0.5


@pytest.mark.parametrize("variant", [*STUDY.variants])
def test_every_arm_runs(variant: str) -> None:
    assert run(variant, 0, Budget(steps=20, samples=8))["precision"] > 0
