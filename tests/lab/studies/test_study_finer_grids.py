"""The study of finer grids: its pictures, its places and its models."""

from __future__ import annotations

import pytest
import torch
from torch import Generator, Tensor
from torch.nn import functional as F

pytest.importorskip("skimage", reason="needs scikit-image")

from vnait_lab.studies import finer_grids
from vnait_lab.studies.finer_grids import SIDE, TRAIN, VARIANTS, Viewer, photographs, places, scenes, trained


def test_places_are_counted_or_scaled_and_the_class_token_has_the_last() -> None:
    counted, scaled = (places(2 * SIDE, scaled=scaled)[0] for scaled in (False, True))
    assert len(counted) == len(scaled) == 4 * SIDE**2 + 1
    assert counted[2 * SIDE + 3].tolist() == [1, 3] and counted[-1].tolist() == [31, 31]
    assert scaled[2 * SIDE + 3].tolist() == [0.25, 1.25] and scaled[-1].tolist() == [15, 15]
    assert torch.equal(places(SIDE, scaled=True), places(SIDE, scaled=False))


def test_a_finer_picture_is_the_same_picture() -> None:
    which = torch.tensor([3, 700])
    coarse, fine = (scenes(which, side, "test", Generator().manual_seed(5)) for side in (16, 32))
    assert fine.shape == (2, 3, 128, 128) and fine.min() >= 0 and fine.max() <= 1
    assert (F.avg_pool2d(fine, 2) - coarse).abs().mean() < 0.03
    other = scenes(which, 16, "test", Generator().manual_seed(6))
    assert (other - coarse).abs().mean() > 0.1


def test_photographs_of_the_test_are_others() -> None:
    found = photographs()
    assert len(found["test"]) == 2 and len(found["training"]) == 10
    assert all(image.shape[0] == 3 and image.max() <= 1 for part in found.values() for image in part)
    shapes = {tuple(image.shape): image for image in found["training"]}
    assert not any(torch.equal(shapes.get(tuple(image.shape), image[:0]), image) for image in found["test"])


def test_new_digits_are_not_among_those_of_training(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Tensor] = []

    def recorded(which: Tensor, side: int, part: str, random: Generator) -> Tensor:
        assert part == "training"
        seen.append(which)
        return torch.rand(len(which), 3, 8, 8)

    monkeypatch.setattr(finer_grids, "scenes", recorded)
    monkeypatch.setattr(finer_grids, "places", lambda side, scaled: torch.zeros(1, 5, 2))
    _, new = trained("none", 0, 60)
    drawn = torch.cat(seen).unique()
    assert len(drawn) > TRAIN // 2 and len(new) == 1797 - TRAIN
    assert not torch.isin(drawn, new).any()


@pytest.mark.parametrize("variant", [*VARIANTS])
def test_models_read_finer_grids(variant: str) -> None:
    torch.manual_seed(0)
    model, images = Viewer(variant).eval(), torch.rand(1, 3, 128, 128)
    with torch.no_grad():
        scaled = model(images, model.encoding(places(32, scaled=True)))
        assert scaled.shape == (1, 10)
        if variant == "learned":
            with pytest.raises(ValueError, match="outside the learned table"):
                model.encoding(places(32, scaled=False))
        else:
            counted = model(images, model.encoding(places(32, scaled=False)))
            assert torch.equal(counted, scaled) == (variant == "none")
