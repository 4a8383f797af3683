"""Any coordinates x any encoding: every pair runs through an encoder, padding changes nothing, gradients are
finite and arrive.

In `make test` each kind meets each kind, and every part takes part; every pair of parts in `make test-long`.
"""

import itertools
from collections import Counter

import pytest
import torch

from vnait.model.backbone import Encoder
from vnait.positions import coordinates as where_is
from vnait.positions import encodings as e
from vnait.positions.coordinates import (
    Ends,
    Grid,
    Index,
    Jitter,
    Joined,
    Projection,
    Randomized,
    Running,
    Saturating,
    Span,
    Start,
)
from vnait.positions.encodings import (
    Anchors,
    Axis,
    Centre,
    Fourier,
    Rotary,
    Scaling,
    Sinusoid,
    Spatial,
)
from vnait.positions.method import Method
from vnait_lab.studies.contacts import Contacts

DIM, HEADS, WIDTH, TOKENS = 16, 2, 8, 6
MAP = torch.rand(128, 128, generator=torch.Generator().manual_seed(0))

# Name, and how many axes the coordinates have.
COORDINATES = {
    "Index": (1, lambda: Index()),
    "Span uniform": (1, lambda: Span(source="uniform")),
    "Span free": (1, lambda: Span(source="free", max_length=9)),
    "Span warp": (1, lambda: Span(source="warp")),
    "Span content": (1, lambda: Span(source="content", dim=DIM)),
    "Span sum": (1, lambda: Span(source="warp", normalization="sum")),
    "Span soft": (1, lambda: Span(source="warp", bounds="soft")),
    "Running": (1, lambda: Running()),
    "Running content": (1, lambda: Running(source="content", dim=DIM)),
    "Saturating": (1, lambda: Saturating()),
    "Ends": (3, lambda: Ends(Span(source="content", dim=DIM))),
    "Elastic": (5, lambda: where_is.Elastic(where_is.Gate(dim=DIM))),
    "Elastic context": (5, lambda: where_is.Elastic(where_is.ContextGate(dim=DIM))),
    "Start": (2, lambda: Start(Running(source="content", dim=DIM))),
    "Grid": (2, lambda: Grid(shape=(2, 3))),
    "Grid 3-D": (3, lambda: Grid(shape=(-1, 2, 2))),
    "Diagonal": (2, lambda: where_is.Diagonal(Grid(shape=(-1, 3)))),
    "Segments": (2, lambda: where_is.Segments(size=4)),
    "Phase": (2, lambda: where_is.Phase(periods=[3, 8.5])),
    "Spectrum path": (3, lambda: where_is.Spectrum(size=3)),
    "Spectrum grid": (2, lambda: where_is.Spectrum(size=2, graph=(2, 3))),
    "Joined": (
        HEADS,
        lambda: Joined(Running(source="content", dim=DIM), Running(source=Projection(dim=DIM, lines=1))),
    ),
    "Jitter": (1, lambda: Jitter(Span(source="uniform"))),
    "Randomized": (1, lambda: Randomized(limit=100)),
}
# Name, and how many axes the encoding reads.
ENCODINGS = {
    "NoPosition": (1, lambda: e.NoPosition()),
    "Sinusoid": (1, lambda: Sinusoid(dim=DIM)),
    "Binary": (1, lambda: e.Binary(dim=DIM)),
    "Linear": (1, lambda: e.Linear(dim=DIM)),
    "Linear 2-D": (2, lambda: e.Linear(dim=DIM, axes=2)),
    "Harmonics": (1, lambda: e.Harmonics(dim=DIM)),
    "Harmonics 2-D": (2, lambda: e.Harmonics(dim=DIM, axes=2)),
    "Table": (1, lambda: e.Table(dim=DIM, max_length=128)),
    "GridTable": (2, lambda: e.GridTable(dim=DIM, shape=(128, 128))),
    "Spatial scalar": (1, lambda: Spatial(dim=DIM, features="scalar")),
    "Sinusoid learned": (1, lambda: Sinusoid(dim=DIM, learned=True)),
    "Spatial fourier": (1, lambda: Spatial(dim=DIM, features="fourier")),
    "Spatial ends": (3, lambda: Spatial(dim=DIM, features=[Fourier(), Anchors()])),
    "Spatial centre": (3, lambda: Spatial(dim=DIM, features=[Fourier(), Centre()])),
    "Spatial start": (2, lambda: Spatial(dim=DIM, features=[Fourier(), Anchors(ends=1)])),
    "Separable": (2, lambda: e.Concatenated(*(Axis(Sinusoid(dim=DIM // 2), axis) for axis in (0, 1)))),
    "Additive": (2, lambda: e.Sum(*(Axis(Sinusoid(dim=DIM), axis) for axis in (0, 1)))),
    "Rotary": (1, lambda: Rotary(width=WIDTH)),
    "Rotary blurred": (1, lambda: e.Blurred(Rotary(width=WIDTH), width=0.5)),
    "Rotary linear": (1, lambda: Rotary(width=WIDTH, scaling=Scaling(rule="linear", factor=2.0))),
    "Rotary yarn": (
        1,
        lambda: Rotary(width=WIDTH, scaling=Scaling(rule="yarn", factor=2.0, original_length=8)),
    ),
    "Rotary dynamic": (
        1,
        lambda: Rotary(width=WIDTH, scaling=Scaling(rule="dynamic", factor=2.0, original_length=8)),
    ),
    "Partial rotary": (1, lambda: e.PartialRotary(width=WIDTH, share=0.5)),
    "XPos": (1, lambda: e.XPos(width=WIDTH)),
    "Axial": (2, lambda: e.Axial(width=WIDTH, axes=2)),
    "Mixed rotary": (2, lambda: e.MixedRotary(width=WIDTH)),
    "Slopes": (1, lambda: e.AlibiBias(num_heads=HEADS)),
    "Buckets": (1, lambda: e.T5Bias(num_heads=HEADS, start=0.1)),
    "Buckets causal": (1, lambda: e.T5Bias(num_heads=HEADS, start=0.1, bidirectional=False)),
    "Relative": (1, lambda: e.ShawBias(num_heads=HEADS, max_distance=8, start=0.1)),
    "Kerple": (1, lambda: e.Kerple(num_heads=HEADS)),
    "Fire": (1, lambda: e.Fire(num_heads=HEADS)),
    "Decay": (1, lambda: e.CableBias(num_heads=HEADS)),
    "Decay heads": (HEADS, lambda: e.CableBias(num_heads=HEADS, form="heads")),
    "Prefix": (1, lambda: e.Prefix(num_heads=HEADS, start=0.1)),
    "Cope": (1, lambda: e.Cope(width=WIDTH)),
    "Forgetting": (1, lambda: e.Forgetting(num_heads=HEADS, width=WIDTH)),
    "Scale-invariant": (1, lambda: e.ScaleInvariant()),
    "Nape": (1, lambda: e.Nape(num_heads=HEADS, width=WIDTH)),
    "Contacts": (1, lambda: Contacts(num_heads=HEADS, contacts=MAP)),
}


def reason(where: str, how: str) -> str | None:
    """Why a pair is left out, if it is."""
    have, needs = COORDINATES[where][0], ENCODINGS[how][0]
    if have < needs:
        return "an encoding of several axes needs coordinates that have them"
    if how == "Decay heads" and have != HEADS:
        return "an axis per head, no more and no fewer"
    if how in ("GridTable", "Contacts") and where.startswith("Spectrum"):
        return "a table of places has none below 0, and eigenvectors go there"
    if how == "GridTable" and where == "Diagonal":
        return "a table of places has none below 0, and (c - r) / sqrt 2 goes there"
    return None


EVERY = list(itertools.product(COORDINATES, ENCODINGS))
WORKING = [pair for pair in EVERY if reason(*pair) is None]


KIND = {name: type(make()).__module__ for name, (_, make) in [*COORDINATES.items(), *ENCODINGS.items()]}


def of_each_kind():
    """Pairs in which each kind of coordinates meets each kind of encodings, and every part occurs.

    A kind is what one module holds: spans, grids ... and codes, rotations, biases ...
    """
    met = set()
    for where, how in WORKING:
        meeting = {where, how, (KIND[where], KIND[how])}
        if not meeting <= met:
            met |= meeting
            yield where, how


FEW = set(of_each_kind())
PAIRS = [
    pytest.param(where, how, id=f"{where} x {how}", marks=[pytest.mark.long] * ((where, how) not in FEW))
    for where, how in WORKING
]


def test_how_many_pairs_there_are():
    """And why the others are left out; the part that reads none of the axes it lacks says so itself."""
    left_out = Counter(reason(where, how) for where, how in EVERY)
    totals = {"tried by `make test`": len(FEW), **left_out}
    expected = {
        "tried by `make test`": 94,
        None: 804,
        "an encoding of several axes needs coordinates that have them": 146,
        "an axis per head, no more and no fewer": 5,
        "a table of places has none below 0, and eigenvectors go there": 4,
        "a table of places has none below 0, and (c - r) / sqrt 2 goes there": 1,
    }
    assert totals == expected, f"a part is new or gone; if every difference is right, write {totals}"
    assert {where for where, _ in FEW} == set(COORDINATES) and {how for _, how in FEW} == set(ENCODINGS)


@pytest.mark.parametrize(("where", "how"), [pair for pair in EVERY if reason(*pair) is not None])
def test_a_pair_that_is_left_out_is_refused(where, how):
    """In a sentence, never by numbers from somewhere else."""
    method = Method(coordinates=COORDINATES[where][1](), encoding=ENCODINGS[how][1]()).eval()
    with pytest.raises(ValueError, match=r"ax[ei]s|outside"):
        method(torch.randn(1, TOKENS, DIM), torch.ones(1, TOKENS, dtype=torch.bool))


def test_every_part_is_in_the_product():
    """But what is no part of its own: sources, features, wrappers of modules."""
    parts = {
        type(part).__name__
        for _, make in [*COORDINATES.values(), *ENCODINGS.values()]
        for part in make().modules()
    }
    classes = {
        name for module in (where_is, e) for name in module.__all__ if isinstance(getattr(module, name), type)
    }
    assert classes - parts == {"Scaling"}


@pytest.mark.parametrize(("where", "how"), PAIRS)
def test_every_pair_works(where, how):
    torch.manual_seed(0)
    method = Method(coordinates=COORDINATES[where][1](), encoding=ENCODINGS[how][1]()).eval()
    encoder = Encoder(dim=DIM, num_heads=HEADS, intermediate=16, num_layers=1, dropout=0.0)
    words = torch.randn(1, TOKENS, DIM)
    seen = {side: through(method, encoder, words, side) for side in ("alone", "right", "left")}
    torch.testing.assert_close(seen["right"], seen["alone"], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(seen["left"], seen["alone"], atol=1e-5, rtol=1e-5)
    seen["left"].square().sum().backward()
    assert all(torch.isfinite(part.grad).all() for part in method.parameters() if part.grad is not None)
    if how != "NoPosition":
        assert all(part.grad is not None for part in method.encoding.parameters())
    if how not in ("NoPosition", "Cope", "Forgetting"):  # which read no coordinate
        assert all(part.grad is not None for part in method.coordinates.parameters())


def through(method, encoder, words, side):
    """The encoder's output on the real tokens; padding holds noise."""
    before, after = {"alone": (0, 0), "right": (0, 2), "left": (2, 0)}[side]
    noise = torch.randn(1, before + after, DIM)
    vectors = torch.cat([noise[:, :before], words, noise[:, before:]], 1)
    mask = torch.tensor([[False] * before + [True] * words.shape[1] + [False] * after])
    x, injection, _ = method(vectors, mask)
    return encoder(x, injection, mask)[mask]
