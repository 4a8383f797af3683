"""Grids, segments, phases: exact values, positions, padding on any side, causality, gradients, messages."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from helpers import everything, python
from vnait.positions.coordinates import Diagonal, Ends, Grid, Index, Joined, Phase, Running, Segments, Span

TURN = 2 * math.pi

# Every part, and the number of axes of its positions.
PARTS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "grid": (lambda: Grid(shape=(-1, 3)), 2),
    "grid 3-D": (lambda: Grid(shape=(-1, 2, 2)), 3),
    "diagonal": (lambda: Diagonal(Grid(shape=(-1, 2, 2))), 3),
    "segments": (lambda: Segments(size=3), 2),
    "phase": (lambda: Phase(periods=[3, 7.5]), 1),
    "phase of a grid": (lambda: Phase(periods=[3], coordinates=Grid(shape=(-1, 2))), 2),
    "joined": (lambda: Joined(Grid(shape=(-1, 2)), Index(), Phase(periods=[5])), 2),
}
EVERY = pytest.mark.parametrize("name", list(PARTS))


@st.composite
def masks(draw: st.DrawFn) -> Tensor:
    """1 to 3 sentences, padded on the left, the right or both sides."""
    sizes = st.tuples(st.integers(0, 4), st.integers(1, 12), st.integers(0, 4))
    rows = draw(st.lists(sizes, min_size=1, max_size=3))
    mask = torch.zeros(len(rows), max(map(sum, rows)), dtype=torch.bool)
    for row, (before, length, _) in enumerate(rows):
        mask[row, before : before + length] = True
    return mask


def assert_padding_stands_at_the_nearest(at: Tensor, mask: Tensor) -> None:
    for row, place in (~mask).nonzero().tolist():
        real = mask[row].nonzero().flatten().tolist()
        nearest = min(real, key=lambda other: (abs(other - place), other))
        assert torch.equal(at[row, place], at[row, nearest])


# --- Laws of every part


@EVERY
@settings(max_examples=20)
@given(mask=masks(), seed=st.integers(0, 99))
def test_alone_and_in_a_batch_on_any_side(name: str, mask: Tensor, seed: int) -> None:
    """The same, counted and with positions; padding holds infinity, and gets the place of its neighbour
    stands.
    """
    make, axes = PARTS[name]
    part = make()
    positions = 30 * torch.randn(*mask.shape, axes, generator=torch.Generator().manual_seed(seed))
    positions[~mask] = torch.inf
    for placed in (None, positions):
        at = part(None, mask, placed)
        assert_padding_stands_at_the_nearest(at, mask)
        for row, real in enumerate(mask):
            alone = part(None, real[real][None], None if placed is None else placed[row, real][None])
            assert torch.equal(at[row, real], alone[0])


@EVERY
def test_a_prefix_never_moves(name: str) -> None:
    make, axes = PARTS[name]
    part = make()
    assert part.causal and not part.per_sentence and part.takes_positions
    positions = torch.randn(1, 12, axes)
    for length in range(1, 12):
        assert torch.equal(part(None, everything(length)), part(None, everything(12))[:, :length])
        short = part(None, everything(length), positions[:, :length])
        assert torch.equal(short, part(None, everything(12), positions)[:, :length])


@EVERY
def test_gradients_reach_the_places_of_real_tokens_alone(name: str) -> None:
    make, axes = PARTS[name]
    mask = torch.tensor([[False, True, True, False, False], [True, True, True, True, True]])
    positions = torch.rand(2, 5, axes, dtype=torch.float64) + 0.1
    positions[~mask] = torch.nan
    positions.requires_grad_()
    at = make()(None, mask, positions)
    (at * torch.arange(1.0, at.shape[-1] + 1)).sum().backward()
    assert torch.isfinite(positions.grad).all() and not positions.grad[~mask].any()
    assert (positions.grad[mask][:, 0] != 0).all()
    inside = positions.detach()[mask][None].requires_grad_()
    assert torch.autograd.gradcheck(lambda known: make()(None, everything(7), known), inside)


@EVERY
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_never_in_half(name: str, dtype: torch.dtype) -> None:
    """Whatever the vectors and the model; positions in float64 stay so."""
    make, axes = PARTS[name]
    part, vectors = make().to(dtype), torch.randn(1, 300, 4).to(dtype)
    assert torch.equal(part(vectors, everything(300)), make()(None, everything(300)))
    positions = torch.rand(1, 300, axes).to(dtype)
    at = part(vectors, everything(300), positions)
    assert at.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert torch.equal(at, make()(None, everything(300), positions.to(at.dtype)))


@EVERY
def test_a_row_without_a_real_token(name: str) -> None:
    with pytest.raises(ValueError, match="row 1 of the batch has no real token"):
        PARTS[name][0]()(None, torch.tensor([[True, False], [False, False]]))


@EVERY
def test_places_that_are_no_numbers(name: str) -> None:
    make, axes = PARTS[name]
    with pytest.raises(ValueError, match="the positions have NaN or infinity"):
        make()(None, everything(3), torch.full((1, 3, axes), torch.nan))


@EVERY
def test_nothing_is_saved_and_a_meta_device_changes_nothing(name: str) -> None:
    make, _ = PARTS[name]
    with torch.device("meta"):
        part = make()
    assert part.state_dict() == {}
    assert torch.equal(part(None, everything(8)), make()(None, everything(8)))


@pytest.mark.long
@pytest.mark.slow
def test_compiled_and_exported() -> None:
    """In a process of its own: the tests' check of types can't be traced."""
    code = """
import torch
from vnait.positions.coordinates import Diagonal, Grid, Index, Joined, Phase, Segments
mask = torch.tensor([[False, True, True, True, True, False], [True] * 4 + [False] * 2])
longer = torch.ones(3, 8, dtype=torch.bool)
part = Joined(Diagonal(Grid(shape=(-1, 2))), Segments(size=3), Phase(periods=[3, 7]), Index())
fixed = Grid(shape=(2, 2))
for positions in (None, torch.rand(2, 6, 2)):
    for one in (part, fixed):
        compiled = torch.compile(one, backend="aot_eager", fullgraph=True)
        output, expected = compiled(None, mask, positions), one(None, mask, positions)
        torch.testing.assert_close(output, expected, rtol=0, atol=1e-6)
B, T = torch.export.Dim("B", min=2), torch.export.Dim("T", min=2)
exported = torch.export.export(part, (None, mask), dynamic_shapes=(None, {0: B, 1: T})).module()
torch.testing.assert_close(exported(None, longer), part(None, longer), rtol=0, atol=1e-6)
"""
    python(code)


# --- Grid


@settings(max_examples=40)
@given(shape=st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_a_grid_is_numpys(shape: list[int]) -> None:
    count = math.prod(shape)
    expected = torch.tensor(np.stack(np.unravel_index(np.arange(count), shape), -1), dtype=torch.float32)
    assert torch.equal(Grid(shape=shape)(None, everything(count))[0], expected)
    assert torch.equal(Grid(shape=[-1, *shape[1:]])(None, everything(count))[0], expected)


def test_any_number_of_rows_the_last_one_ragged() -> None:
    mask = torch.tensor([[True] * 5, [False] + [True] * 3 + [False]])
    at = Grid(shape=(-1, 2))(None, mask)
    assert at[0].tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0]]
    assert at[1, 1:4].tolist() == [[0, 0], [0, 1], [1, 0]]


def test_the_places_are_the_coordinates_of_a_grid() -> None:
    """Also of a sentence that doesn't fill it, and in pixels."""
    positions = torch.tensor([[[427.5, -3.0], [0.25, 8.0], [7.0, 7.0]]])
    assert torch.equal(Grid(shape=(4, 4))(None, everything(3), positions), positions)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (2, -1), (-2, 3), (-1, -1)])
def test_no_shape_of_a_grid(shape: tuple[int, ...]) -> None:
    with pytest.raises(
        ValueError, match=r"shape=\(.*\); expected one or more positive sizes, of which the first may"
    ):
        Grid(shape=shape)


def test_a_sentence_that_does_not_fill_the_grid() -> None:
    mask = torch.tensor([[True] * 6, [True] * 5 + [False]])
    message = (
        r"row 1 of the batch has 5 real tokens, and the grid of shape \(2, 3\) has 6 cells; "
        r"give `positions` \(B, T, 2\), or -1 as the first size"
    )
    with pytest.raises(ValueError, match=message):
        Grid(shape=(2, 3))(None, mask)


@pytest.mark.parametrize(("part", "axes"), [(Grid(shape=(2, 2, 2)), 3), (Segments(size=2), 2)], ids=repr)
def test_places_of_too_few_axes(part: nn.Module, axes: int) -> None:
    name = type(part).__name__
    with pytest.raises(
        ValueError, match=rf"{name} has {axes} axes, and the positions have 1; give positions \(B, T, {axes}"
    ):
        part(None, everything(8), torch.zeros(1, 8, 1))


# --- Diagonal


def test_the_diagonals_are_axes_and_distances_stay() -> None:
    grid = Grid(shape=(4, 5))
    plain, turned = (part(None, everything(20))[0].double() for part in (grid, Diagonal(grid)))
    row, column = plain.unbind(-1)
    half = math.sqrt(0.5)
    torch.testing.assert_close(turned, torch.stack([half * (row + column), half * (column - row)], -1))
    torch.testing.assert_close(torch.cdist(turned, turned), torch.cdist(plain, plain), atol=1e-5, rtol=0)


def test_further_axes_stay() -> None:
    positions = torch.tensor([[[1.0, 1.0, 5.0, -2.0]]])
    at = Diagonal(Index())(None, everything(1), positions)
    torch.testing.assert_close(at, torch.tensor([[[math.sqrt(2), 0.0, 5.0, -2.0]]]))


def test_one_axis_has_no_diagonal() -> None:
    with pytest.raises(
        ValueError, match="Diagonal rotates axes 0 and 1, and Index has 1 axis; wrap coordinates of two"
    ):
        Diagonal(Index())(None, everything(2))


# --- Segments


def looped(lengths: list[int]) -> list[list[int]]:
    return [[segment, offset] for segment, length in enumerate(lengths) for offset in range(length)]


def ragged(sentences: list[list[int]], before: list[int]) -> Tensor:
    """The mask of sentences of the given segments, each after some padding, and with one more token of
    padding at the end.
    """
    width = 1 + max(start + sum(lengths) for start, lengths in zip(before, sentences, strict=True))
    place = torch.arange(width)
    return torch.stack(
        [
            (start <= place) & (place < start + sum(lengths))
            for start, lengths in zip(before, sentences, strict=True)
        ]
    )


@settings(max_examples=40)
@given(
    sentences=st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=5), min_size=1, max_size=3),
    before=st.lists(st.integers(0, 3), min_size=3, max_size=3),
    gaps=st.lists(st.integers(0, 5), min_size=3, max_size=3),
    kind=st.sampled_from([torch.int64, torch.int32]),
)
@example(sentences=[[2, 3], [1]], before=[0, 2, 0], gaps=[0, 0, 0], kind=torch.int64)
def test_segments_of_real_data(
    sentences: list[list[int]], before: list[int], gaps: list[int], kind: torch.dtype
) -> None:
    """From lengths, some of them 0: as the loop counts."""
    mask = ragged(sentences, before[: len(sentences)])
    lengths = torch.zeros(len(sentences), 6, dtype=kind)
    for row, one in enumerate(sentences):
        gap = min(gaps[row], len(one))
        listed = [*one[:gap], 0, *one[gap:]]
        lengths[row, : len(listed)] = torch.tensor(listed)
    positions = Segments.from_lengths(lengths, mask)
    assert_padding_stands_at_the_nearest(positions, mask)
    at = Segments(size=9)(None, mask, positions)
    assert torch.equal(at, positions)
    for row, one in enumerate(sentences):
        assert at[row, mask[row]].tolist() == looped(one)


def test_segments_of_one_size() -> None:
    at = Segments(size=3)(None, everything(8))[0]
    assert at.tolist() == looped([3, 3, 2])


def test_a_segment_has_tokens() -> None:
    with pytest.raises(ValueError, match="size=0; a segment has at least 1 token"):
        Segments(size=0)


@pytest.mark.parametrize(("lengths", "total"), [([1, 1], 2), ([2, 2], 4), ([4, -1], 3)])
def test_lengths_that_do_not_add_up(lengths: list[int], total: int) -> None:
    message = (
        rf"row 1 of the batch has segments of \[.*\] tokens, {total} in all, and 3 real tokens; "
        "give lengths of 0 or more that add up"
    )
    with pytest.raises(ValueError, match=message):
        Segments.from_lengths(torch.tensor([[2, 1], lengths]), everything(3, rows=2))


def test_segments_of_nothing() -> None:
    mask = torch.zeros(1, 2, dtype=torch.bool)
    with pytest.raises(ValueError, match="row 0 of the batch has no real token"):
        Segments.from_lengths(mask.long(), mask)


# --- Phase


@settings(max_examples=60)
@given(
    seconds=st.floats(1.6e9, 2.0e9),
    period=st.sampled_from([86_400.0, 7 * 86_400.0, 365.2425 * 86_400, 0.1, 1 / 3]),
)
@example(seconds=1.7e9 + 0.25, period=86_400.0)
def test_seconds_since_1970_keep_their_phase(seconds: float, period: float) -> None:
    """Against Python's exact rational arithmetic."""
    at = Phase(periods=[period])(None, everything(1), torch.tensor([[[seconds]]], dtype=torch.float64)).item()
    share = Fraction(seconds) % Fraction(period) / Fraction(period)
    assert at == pytest.approx(TURN * float(share), rel=1e-14, abs=1e-15)


@pytest.mark.parametrize("coordinates", [Phase(periods=[60.0]), Index()])
def test_whole_seconds_since_1970_are_separate(coordinates: nn.Module) -> None:
    seconds = torch.tensor([[[1_700_000_000], [1_700_000_001], [1_700_000_030], [1_700_000_059]]])
    at = coordinates(torch.zeros(1, 4, 0), everything(4), seconds)
    assert torch.equal(at, coordinates(torch.zeros(1, 4, 0), everything(4), seconds.double()))
    assert len(at.unique()) == 4


@settings(max_examples=80)
@given(time=st.floats(-1e6, 1e6, width=32), period=st.floats(0.01, 1e4))
@example(time=-1e-30, period=5.0)
@example(time=float(np.nextafter(np.float32(7), np.float32(0))), period=7.0)
@example(time=7.0, period=7.0)
def test_a_phase_is_within_one_turn(time: float, period: float) -> None:
    """Before time 0 too, also where rounding would reach a whole turn; and its slope is 2 pi / P
    everywhere.
    """
    for dtype in (torch.float32, torch.float64):
        positions = torch.tensor([[[time]]], dtype=dtype, requires_grad=True)
        at = Phase(periods=[period])(None, everything(1), positions)
        assert 0 <= at.item() < TURN
        turns = time / period
        off = abs(at.item() / TURN - (turns - math.floor(turns)))
        assert min(off, 1 - off) < 1e-6
        at.backward()
        assert positions.grad.item() == pytest.approx(TURN / period, rel=1e-6)


def test_each_period_has_its_axis_and_counts_tokens_without_places() -> None:
    at = Phase(periods=[4, 10])(None, everything(25))[0]
    number = torch.arange(25.0)
    torch.testing.assert_close(at, torch.stack([TURN * (number % 4) / 4, TURN * (number % 10) / 10], -1))


@pytest.mark.parametrize("periods", [(), (0.0,), (7.0, -1.0), (math.inf,), (math.nan,)])
def test_no_period(periods: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"periods=\(.*\); expected one or more positive, finite numbers"):
        Phase(periods=periods)


# --- Wrappers


def test_the_axes_stand_side_by_side() -> None:
    parts = Segments(size=2), Running(), Phase(periods=[3])
    at = Joined(*parts)(None, everything(5))
    assert torch.equal(at, torch.cat([part(None, everything(5)) for part in parts], -1))
    assert at.dtype == torch.float64  # Running's


def test_wrappers_are_what_they_wrap() -> None:
    content = Running(source="content", dim=2)
    for wrap in (
        Diagonal,
        lambda part: Phase(periods=[2], coordinates=part),
        Joined,
        lambda part: Joined(Index(), part),
    ):
        assert not wrap(Span()).causal and wrap(Span()).takes_positions and not wrap(Span()).per_sentence
        assert wrap(content).causal and not wrap(content).takes_positions and wrap(content).per_sentence
    assert torch.equal(
        Phase(periods=[50], coordinates=Ends(Span(source="uniform")))(None, everything(4)),
        Phase(periods=[50], coordinates=Span(source="uniform"))(None, everything(4)),
    )


@pytest.mark.parametrize(
    "part",
    [Diagonal(Ends(Running())), Phase(periods=[2], coordinates=Running()), Joined(Index(), Running())],
    ids=repr,
)
def test_places_go_to_no_part_that_counts_itself(part: nn.Module) -> None:
    with pytest.raises(ValueError, match="count the tokens themselves and take no positions"):
        part(None, everything(3), torch.zeros(1, 3, 1))


def test_joined_needs_parts() -> None:
    with pytest.raises(ValueError, match=r"Joined\(\) has no coordinates; give one or more"):
        Joined()


def test_repr_of_parts() -> None:
    assert repr(Grid(shape=(-1, 2))) == "Grid(shape=(-1, 2))"
    assert repr(Segments(size=4)) == "Segments(size=4)"
    assert "periods=(2.0,)" in repr(Phase(periods=[2]))


def test_a_joined_inside_another_is_its_parts() -> None:
    parts = Index(), Segments(size=2), Index()
    one, flat = Joined(Joined(*parts[:2]), parts[2]), Joined(*parts)
    assert torch.equal(one(None, everything(5)), flat(None, everything(5)))
    assert len(one.coordinates) == 3
