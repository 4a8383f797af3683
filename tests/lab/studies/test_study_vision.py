"""The vision study: its model, its canvases and its views, by hand."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from vnait.positions.encodings import GridTable
from vnait_lab.studies.vision import DIM, MODELS, Viewer, changes, framed, grid, placed


def model(arm: str) -> Viewer:
    torch.manual_seed(0)
    return Viewer(arm).double().requires_grad_(False)


def test_a_canvas_by_hand() -> None:
    canvas, keep = framed(torch.full((1, 8, 8), 5.0), corner=(8, 4), fill=7)
    assert canvas[0, 8:, 4:12].eq(5).all() and canvas.sum() == 64 * 5 + 192 * 7
    assert keep.reshape(8, 8).nonzero().tolist() == [
        [row, column] for row in range(4, 8) for column in range(2, 6)
    ]
    patches = F.unfold(canvas[:, None], 2, stride=2).mean(1)
    assert torch.equal(patches[0] == 5, keep[0])


def test_scaled_places_resize_the_table_bilinearly() -> None:
    table = GridTable(dim=DIM, shape=(4, 4))
    places = placed(grid(torch.zeros(1, 12, 12)))
    added = table(places["scaled"][None]).added[0]
    grown = F.interpolate(table.weight.movedim(-1, 0)[None], size=(6, 6), mode="bilinear", align_corners=True)
    assert torch.allclose(added, grown[0].flatten(1).T, atol=1e-6)
    assert places["counted"][7].tolist() == [1, 1] and places["clamped"].max() == 3
    assert not torch.equal(places["shuffled"], places["scaled"])


@pytest.mark.parametrize("arm", [*MODELS])
def test_padding_and_pooling(arm: str) -> None:
    """Masked padding changes nothing; a picture in the middle of a canvas is as it was for distances
    alone.
    """
    images = torch.rand(3, 8, 8, dtype=torch.float64)
    own = model(arm)
    found = changes(own, images)
    assert max(found["masked, 0"], found["masked, 7"]) < 1e-12
    assert min(found["no mask"], found["ragged"]) > 1e-4
    assert (found["shifted"] < 1e-12) == (arm in ("relative", "axial", "none"))
    canvas, keep = framed(images, corner=(4, 6), fill=3)
    places = placed(grid(canvas))["scaled" if arm == "learned" else "counted"]
    moved = float((own(canvas, places, keep) - own(images, grid(images))).abs().max())
    assert (moved < 1e-12) == (arm in ("relative", "axial", "none"))
