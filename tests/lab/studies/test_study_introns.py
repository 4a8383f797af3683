"""The study of inserted introns: its pieces, its mutations and the weight matrices."""

from __future__ import annotations

import pytest
import torch
from torch import Generator, Tensor, nn

from vnait_lab.studies import introns
from vnait_lab.studies.introns import HALF, VARIANTS, WINDOW, Detector, by_hand, mutated, pieces, right
from vnait_lab.studies.parts.dna import LETTERS, letters


def planted(label: int, count: int, seed: int) -> Tensor:
    """Windows with GTAAGT after their middle, with TTTTTTCAG before it, or with neither."""
    x = torch.randint(4, (count, WINDOW), generator=Generator().manual_seed(seed))
    motif = letters(("GTAAGT", "TTTTTTTTTTCAG", "")[label])
    start = HALF if label == 0 else HALF - len(motif)
    x[:, start : start + len(motif)] = motif
    return x


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Tensor]]:
    """Windows with clear junctions, in place of the real ones."""
    found = {
        part: [planted(label, 80, 10 * at + label) for label in range(3)]
        for at, part in enumerate(("train", "test"))
    }
    monkeypatch.setattr(introns, "windows", found.__getitem__)
    return found


def test_pieces_are_of_their_kind(generated: dict[str, list[Tensor]]) -> None:
    x, kind = pieces(400, 17, "test", Generator().manual_seed(0))
    assert x.shape == (400, 2 * WINDOW + 17)
    shares = torch.bincount(kind) / 400
    torch.testing.assert_close(shares, torch.tensor([0.5, 0.25, 0.125, 0.125]), atol=0.07, rtol=0)
    labels = {0: (0, 1), 1: (1, 0), 2: (0, 2), 3: (2, 1)}
    for piece, own in zip(x, kind.tolist(), strict=True):
        for part, label in zip((piece[:WINDOW], piece[-WINDOW:]), labels[own], strict=True):
            assert (generated["test"][label] == part).all(1).any()


def test_pieces_of_a_part_are_of_its_windows(generated: dict[str, list[Tensor]]) -> None:
    x, _ = pieces(50, 0, "train", Generator().manual_seed(0))
    test = torch.cat(generated["test"])
    assert not (x[:, None, :WINDOW] == test).all(-1).any()


def test_weight_matrices_find_clear_junctions_in_order(generated: dict[str, list[Tensor]]) -> None:
    found = by_hand(0, 200)
    assert found["30 inserted"] > 0.95 and found["30 inserted, acceptor first"] > 0.9
    assert found["480 inserted"] > 0.85


def test_answers_by_hand() -> None:
    kind, answer = torch.tensor([0, 0, 1, 1, 2]), torch.tensor([True, False, True, False, False])
    assert right(answer, kind, 30) == {"30 inserted": 0.6, "30 inserted, acceptor first": 0.5}


def test_mutations_are_at_the_junctions() -> None:
    """A reader that counts GT and AG at their places of an intron sees each mutation of them alone."""
    inserted = 30
    x = torch.randint(len(LETTERS), (3, 2 * WINDOW + inserted), generator=Generator().manual_seed(0))
    acceptor = WINDOW + inserted + HALF
    x[:, HALF : HALF + 2], x[:, acceptor - 2 : acceptor] = letters("GT"), letters("AG")

    class Counter(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            donor = (x[:, HALF : HALF + 2] == letters("GT")).all(1)
            return donor.float() + 2 * (x[:, acceptor - 2 : acceptor] == letters("AG")).all(1)

    found = mutated(Counter(), x, Counter()(x), inserted)  # type: ignore[arg-type]
    assert found == {"change, donor": -1, "change, acceptor": -2, "change, between": 0}


@pytest.mark.parametrize("variant", [variant for variant in VARIANTS if variant != "by hand"])
def test_only_without_positions_are_halves_exchangeable(variant: str) -> None:
    torch.manual_seed(0)
    model, x = Detector(variant).eval(), torch.randint(4, (2, 80))
    x[:, :8] = x[:, 40:48] = x[:, 32:40] = x[:, 72:] = 0  # the same letters around both cuts
    with torch.no_grad():
        same = torch.allclose(model(x), model(x.roll(40, 1)), atol=1e-5)
    assert same == (variant == "none")
