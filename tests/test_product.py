"""Any coordinates x any encoding: every pair runs through an encoder, padding changes nothing, gradients are finite and arrive."""

import itertools

import pytest
import torch

from vnait.backbone import Encoder
from vnait.coordinates import Ends, Index, Jitter, Randomized, Running, Saturating, Span
from vnait.encodings import (
    Anchors,
    Axial,
    Buckets,
    Decay,
    Fire,
    Fourier,
    Kerple,
    Relative,
    Rotary,
    Scaling,
    Silent,
    Sinusoid,
    Slopes,
    Spatial,
    Table,
)
from vnait.method import Method

DIM, HEADS, WIDTH = 16, 2, 8

COORDINATES = {
    "Index": lambda: Index(),
    "Span uniform": lambda: Span(source="uniform"),
    "Span free": lambda: Span(source="free", max_length=9),
    "Span warp": lambda: Span(source="warp"),
    "Span content": lambda: Span(source="content", dim=DIM),
    "Span sum": lambda: Span(source="warp", normalization="sum"),
    "Span soft": lambda: Span(source="warp", bounds="soft"),
    "Running": lambda: Running(),
    "Running content": lambda: Running(source="content", dim=DIM),
    "Saturating": lambda: Saturating(),
    "Ends": lambda: Ends(Span(source="content", dim=DIM)),
    "Jitter": lambda: Jitter(Span(source="uniform")),
    "Randomized": lambda: Randomized(Index()),
}
ENCODINGS = {
    "Silent": lambda: Silent(),
    "Sinusoid": lambda: Sinusoid(dim=DIM),
    "Table": lambda: Table(dim=DIM, max_length=128),
    "Spatial scalar": lambda: Spatial(dim=DIM, features="scalar"),
    "Spatial fourier": lambda: Spatial(dim=DIM, features="fourier"),
    "Spatial anchors": lambda: Spatial(dim=DIM, features=[Fourier(), Anchors()]),
    "Rotary": lambda: Rotary(width=WIDTH),
    "Rotary yarn": lambda: Rotary(width=WIDTH, scaling=Scaling(rule="yarn", factor=2.0, original_length=8)),
    "Rotary dynamic": lambda: Rotary(width=WIDTH, scaling=Scaling(rule="dynamic", factor=2.0, original_length=8)),
    "Axial": lambda: Axial(width=WIDTH, axes=2),
    "Slopes": lambda: Slopes(num_heads=HEADS),
    "Slopes causal": lambda: Slopes(num_heads=HEADS, form="causal"),
    "Slopes asymmetric": lambda: Slopes(num_heads=HEADS, form="asymmetric"),
    "Buckets": lambda: Buckets(num_heads=HEADS, start=0.1),
    "Relative": lambda: Relative(num_heads=HEADS, max_distance=8, start=0.1),
    "Kerple log": lambda: Kerple(num_heads=HEADS),
    "Kerple power": lambda: Kerple(num_heads=HEADS, form="power"),
    "Fire": lambda: Fire(num_heads=HEADS),
    "Decay": lambda: Decay(num_heads=HEADS),
}
# An encoding that reads several axes needs coordinates that have them, and no other pair is left out.
AXES = {"Spatial anchors": 3, "Axial": 2}
HAVE = {"Ends": 3}
PAIRS = [
    pytest.param(where, how, id=f"{where} x {how}")
    for where, how in itertools.product(COORDINATES, ENCODINGS)
    if HAVE.get(where, 1) >= AXES.get(how, 1)
]


def test_how_many_pairs_there_are():
    left_out = (len(COORDINATES) - len(HAVE)) * len(AXES)
    assert len(PAIRS) == len(COORDINATES) * len(ENCODINGS) - left_out == 223


@pytest.mark.parametrize(("where", "how"), PAIRS)
def test_every_pair_works(where, how):
    torch.manual_seed(0)
    method = Method(coordinates=COORDINATES[where](), encoding=ENCODINGS[how]()).eval()
    encoder = Encoder(dim=DIM, num_heads=HEADS, intermediate=16, num_layers=1, dropout=0.0)
    words = torch.randn(1, 6, DIM)
    seen = {side: through(method, encoder, words, side) for side in ("alone", "right", "left")}
    torch.testing.assert_close(seen["right"], seen["alone"], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(seen["left"], seen["alone"], atol=1e-5, rtol=1e-5)
    seen["left"].square().sum().backward()
    assert all(torch.isfinite(part.grad).all() for part in method.parameters() if part.grad is not None)
    if how != "Silent":
        assert all(part.grad is not None for part in method.encoding.parameters())
        assert all(part.grad is not None for part in method.coordinates.parameters())


def through(method, encoder, words, side):
    """The encoder's output on the real tokens; padding holds noise."""
    before, after = {"alone": (0, 0), "right": (0, 2), "left": (2, 0)}[side]
    noise = torch.randn(1, before + after, DIM)
    vectors = torch.cat([noise[:, :before], words, noise[:, before:]], 1)
    mask = torch.tensor([[False] * before + [True] * words.shape[1] + [False] * after])
    x, injection, _ = method(vectors, mask)
    return encoder(x, injection, mask)[mask]
