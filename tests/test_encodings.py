"""Encodings: against formulas written anew in numpy, and the figures of the studies' part A(a)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from conftest import unchecked
from vnait.positions.coordinates import Ends, Span
from vnait.positions.encodings import Anchors, Centre, Fourier, NoPosition, Scalar, Sinusoid, Spatial, Table
from vnait.positions.injection import Injection, LogLength


@contextmanager
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def at(*places: float, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor(places, dtype=dtype)[None, :, None]


def codes(places: Tensor, dim: int, base: float = 10_000.0) -> np.ndarray:
    """The library's sinusoid, in float64."""
    with double():
        return Sinusoid(dim=dim, base=base)(places.double()[None, :, None]).added[0].numpy()


def reference(place: float, dim: int, base: float = 10_000.0) -> list[float]:
    """The paper's formula, number by number."""
    row = []
    for channel in range(dim):
        angle = place / base ** ((channel - channel % 2) / dim)
        row.append(math.cos(angle) if channel % 2 else math.sin(angle))
    return row


def shift(k: float, dim: int) -> np.ndarray:
    """M_k, block by block: [sin(p + k), cos(p + k)] from [sin p, cos p]."""
    matrix = np.zeros((dim, dim))
    for pair in range(dim // 2):
        angle = k / 10_000 ** (2 * pair / dim)
        cos, sin = math.cos(angle), math.sin(angle)
        matrix[2 * pair : 2 * pair + 2, 2 * pair : 2 * pair + 2] = [[cos, sin], [-sin, cos]]
    return matrix


# --- Sinusoid


def test_the_first_rows() -> None:
    expected = [
        [0, 1, 0, 1],
        [0.841471, 0.540302, 0.0099998, 0.99995],
        [0.909297, -0.416147, 0.019999, 0.9998],
        [0.14112, -0.989992, 0.029996, 0.99955],
    ]
    np.testing.assert_allclose(codes(torch.arange(4), 4), expected, atol=1e-6)


def test_the_distances_that_document_003_has_wrong() -> None:
    one, two, three = codes(torch.arange(1, 4), 4)
    assert np.linalg.norm(one - two) == pytest.approx(0.95890, abs=1e-5)  # the document: 1.02
    assert np.linalg.norm(one - three) == pytest.approx(1.68306, abs=1e-5)  # the document: 1.84


@settings(max_examples=60)
@given(place=st.floats(-1e5, 1e5, width=32), dim=st.integers(1, 40), base=st.sampled_from([100.0, 1e4, 5e5]))
def test_the_formula(place: float, dim: int, base: float) -> None:
    np.testing.assert_allclose(
        codes(torch.tensor([place]), dim, base)[0], reference(place, dim, base), atol=1e-9
    )


@pytest.mark.parametrize("dim", [4, 8, 64, 512])
def test_a_shift_is_one_matrix(dim: int) -> None:
    places = torch.tensor([0, 1, 2, 7, 100, 1234, 5000, 10_000])
    here = codes(places, dim)
    for k in (-5000, -4321, -100, -7, -1, 0, 1, 3, 512, 4999):
        np.testing.assert_allclose(here @ shift(k, dim).T, codes(places + k, dim), atol=1e-11)
    transposed = here @ shift(3, dim)
    assert np.abs(transposed - codes(places + 3, dim)).max() > 0.1


def test_shifts_compose() -> None:
    np.testing.assert_allclose(shift(7, 8) @ shift(5, 8), shift(12, 8), atol=1e-14)
    np.testing.assert_allclose(shift(7, 8) @ shift(7, 8).T, np.eye(8), atol=1e-14)


def test_the_dot_product_depends_on_the_distance_alone() -> None:
    table = codes(torch.arange(200), 16)
    gram = table @ table.T
    for k in (1, 5, 60):
        assert np.ptp(np.diagonal(gram, k)) < 1e-12


def test_angles_are_never_in_half_precision() -> None:
    places = torch.tensor([1.0, 999.0, 4097.0, 99_999.0])
    expected = [reference(place, 8) for place in places.tolist()]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        added = Sinusoid(dim=8)(places[None, :, None]).added[0]
    np.testing.assert_allclose(added.numpy(), expected, atol=1e-7)


def test_sinusoids_keep_the_precision_of_the_coordinates_and_of_the_model() -> None:
    kinds = {torch.float64: torch.float64, torch.float32: torch.float32, torch.bfloat16: torch.float32}
    for given_, expected in kinds.items():
        assert Sinusoid(dim=4)(torch.ones(1, 2, 1, dtype=given_)).added.dtype == expected
    with double():
        assert Sinusoid(dim=4)(torch.ones(1, 2, 1, dtype=torch.float32)).added.dtype == torch.float64
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert Sinusoid(dim=4)(torch.ones(1, 2, 1)).added.dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)
    places = torch.tensor([0.25, 4097.125], dtype=torch.float64)
    output = Sinusoid(dim=8)(places[None, :, None]).added[0].tolist()
    assert output == [pytest.approx(reference(place, 8), abs=1e-12) for place in places.tolist()]


# --- Table


@settings(max_examples=40)
@given(size=st.integers(1, 12), part=st.floats(0, 1), dim=st.integers(1, 5))
def test_table_is_linear_between_its_rows(size: int, part: float, dim: int) -> None:
    table = Table(dim=dim, max_length=size)
    place = part * (size - 1)
    left = int(np.float32(place))
    right = min(left + 1, size - 1)
    rows = table.weight.detach()
    expected = rows[left] + (float(np.float32(place)) - left) * (rows[right] - rows[left])
    torch.testing.assert_close(table(at(place)).added[0, 0], expected, rtol=1e-5, atol=1e-5)


def test_table_reads_rows_exactly_and_in_half_precision() -> None:
    table = Table(dim=3, max_length=2000)
    places = torch.arange(2000.0)[None, :, None]
    assert torch.equal(table(places).added[0], table.weight)
    table = table.bfloat16()
    assert torch.equal(table(places).added[0], table.weight.float())


def test_table_past_its_end() -> None:
    table = Table(dim=2, max_length=4)
    assert table(at(0, 3)).added.shape == (1, 2, 2)
    with pytest.raises(ValueError, match=r"a coordinate of 3.5 is outside the learned table's max_length=4"):
        table(at(0, 3.5).requires_grad_())  # learned coordinates; a warning is an error here
    torch.testing.assert_close(table(at(-8)).added[0, 0], 9 * table.weight[0] - 8 * table.weight[1])
    with pytest.raises(ValueError, match=r"a coordinate of -9 is outside the learned table's"):
        table(at(-9, 0))


def test_table_starts_at_its_scale() -> None:
    for start in (1.0, 0.02):
        rows = Table(dim=64, max_length=100, start=start).weight
        assert rows.square().mean().sqrt().item() == pytest.approx(start, rel=0.05)


# --- Spatial and its features


def mlp(spatial: Spatial, features: np.ndarray) -> np.ndarray:
    """The papers' MLP in numpy, with the exact GELU."""
    layers = [layer for layer in spatial.mlp if isinstance(layer, nn.Linear)]
    for number, layer in enumerate(layers):
        features = features @ layer.weight.detach().double().numpy().T + layer.bias.detach().double().numpy()
        if number < len(layers) - 1:
            features = np.vectorize(lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2)(features)
    return features


@pytest.mark.parametrize("hidden", [(8,), (16, 8)])
def test_spatial_is_an_mlp_of_the_standardized_coordinate(hidden: tuple[int, ...]) -> None:
    spatial = Spatial(dim=5, features="scalar", hidden=hidden)
    line = np.linspace(-20, 120, 15)
    expected = mlp(spatial, ((line - 50) / (100 / math.sqrt(12)))[:, None])
    torch.testing.assert_close(
        spatial(at(*line)).added[0].detach().numpy().astype(np.float64), expected, rtol=1e-4, atol=1e-5
    )


def test_spatial_of_waves() -> None:
    spatial = Spatial(dim=3, features=[Fourier(pairs=4, longest=300, shortest=3)])
    line = np.linspace(1, 100, 12)
    periods = 300 * (3 / 300) ** (np.arange(4) / 3)
    angle = 2 * math.pi * line[:, None] / periods
    expected = mlp(spatial, np.concatenate([np.sin(angle), np.cos(angle)], -1))
    torch.testing.assert_close(
        spatial(at(*line)).added[0].detach().numpy().astype(np.float64), expected, rtol=1e-3, atol=1e-4
    )


def test_relu_is_relu() -> None:
    spatial = Spatial(dim=3, features="scalar", hidden=(4,), activation="relu")
    assert [type(layer) for layer in spatial.mlp] == [nn.Linear, nn.ReLU, nn.Linear]


@pytest.mark.parametrize("start", [1.0, 0.1])
@pytest.mark.parametrize("dim", [32, 256])
def test_spatial_starts_at_the_scale_of_the_words(start: float, dim: int) -> None:
    torch.manual_seed(0)
    where = Ends(Span(source="uniform"))(None, torch.ones(1, 60, dtype=torch.bool))
    for features in (None, [Fourier(), Anchors()]):
        spatial = Spatial(dim=dim, features=features or "fourier", start=start)
        assert spatial.direct(
            torch.cat([f(where) for f in spatial.features], -1)
        ).square().mean().sqrt().item() == (pytest.approx(start, rel=0.25))
    spatial = Spatial(dim=dim, start=1.0)
    assert spatial(where).added.square().mean().sqrt().item() == pytest.approx(1, rel=0.25)
    # the papers' MLP alone starts far below
    assert Spatial(dim=dim)(where).added.square().mean().sqrt().item() < 0.3


def test_the_lowest_wave_is_unambiguous_over_the_span() -> None:
    """Its sine and cosine alone tell every place in [0, 100] from every other."""
    pair = Fourier(pairs=2)(torch.linspace(0, 100, 1001, dtype=torch.float64)[None, :, None])[0][:, [0, 2]]
    angle = torch.atan2(pair[:, 0], pair[:, 1])
    assert (angle.diff() > 0).all()
    assert torch.cdist(pair, pair).fill_diagonal_(9).min() > 1e-3
    assert Fourier().longest >= 200


def test_waves_separate_neighbours_of_a_long_text_and_a_scalar_does_not() -> None:
    line = Span(source="uniform")(None, torch.ones(1, 500, dtype=torch.bool))
    of_waves, of_scalar = (f(line)[0].diff(dim=0).norm(dim=-1).min() for f in (Fourier(), Scalar()))
    assert of_waves > 50 * of_scalar


@settings(max_examples=30)
@given(a=st.floats(0, 5), b=st.floats(0, 1e6))
def test_anchors(a: float, b: float) -> None:
    output = Anchors(count=3)(torch.tensor([[[50.0, a, b]]], dtype=torch.float64))[0, 0].tolist()
    expected = [max(0, 1 - abs(distance - k)) for distance in (a, b) for k in range(3)]
    assert output == pytest.approx(expected, abs=1e-12)


def test_anchors_separate_every_token_near_an_end_from_every_other() -> None:
    where = Ends(Span(source="uniform"))(None, torch.ones(1, 40, dtype=torch.bool))
    output = Anchors()(where)[0]
    assert torch.equal(output[:8, :8], torch.eye(8)) and torch.equal(output[32:, 8:], torch.eye(8).flip(0))
    assert not output[8:32].any()


@settings(max_examples=30)
@given(a=st.floats(0, 1e6), b=st.floats(0, 1e6))
def test_centre(a: float, b: float) -> None:
    """By the distance from the middle alone, however long the text: odd and even features of it."""
    taus = (1.0, 8.0)
    output = Centre(taus=taus)(torch.tensor([[[50.0, a, b]]], dtype=torch.float64))[0, 0].tolist()
    middle = (a - b) / 2
    expected = [math.tanh(middle / tau) for tau in taus] + [math.exp(-abs(middle) / tau) for tau in taus]
    assert output == pytest.approx(expected, abs=1e-12)
    mirrored = Centre(taus=taus)(torch.tensor([[[50.0, b, a]]], dtype=torch.float64))[0, 0].tolist()
    assert mirrored == pytest.approx([-output[0], -output[1], *output[2:]], abs=1e-12)


def test_coordinates_far_away_keep_their_precision() -> None:
    """float32 coordinates up to 1e5: the sinusoid's angles are computed in float64."""
    places = torch.arange(99_900.0, 100_000.0)
    added = Sinusoid(dim=4)(places[None, :, None]).added[0].numpy()
    np.testing.assert_allclose(added, [reference(place, 4) for place in places.tolist()], atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_features_are_computed_before_they_are_rounded(dtype: torch.dtype) -> None:
    """A model in half precision is near the same weights in float32; with rounded coordinates it would not
    be.
    """
    torch.manual_seed(0)
    spatial = Spatial(dim=64, start=1.0).to(dtype)
    where = torch.linspace(90.1, 99.9, 40)[None, :, None]
    output = spatial(where).added
    assert output.dtype == dtype
    exact = copy.deepcopy(spatial).float()
    assert (output.float() - exact(where).added).abs().max() < 0.05
    assert (exact(where.bfloat16().float()).added - exact(where).added).abs().max() > 0.2


@pytest.mark.parametrize(
    "encoding",
    [
        Spatial(dim=8),
        Spatial(dim=8, features="scalar", hidden=(16,)),
        Spatial(dim=8, features=[Fourier(), Anchors()], start=1.0),
        Table(dim=8, max_length=101),
        Sinusoid(dim=8),
    ],
    ids=lambda part: type(part).__name__,
)
def test_gradients_reach_the_coordinates(encoding: nn.Module) -> None:
    torch.manual_seed(0)
    where = (torch.rand(1, 6, 3) * 99 + 0.3).requires_grad_()
    encoding(where).added.sum().backward()
    assert (where.grad[..., 0] != 0).all()
    assert torch.isfinite(where.grad).all()


def test_gradients_are_right() -> None:
    torch.manual_seed(0)
    where = (torch.rand(1, 4, 3, dtype=torch.float64) * 4).requires_grad_()
    spatial = Spatial(dim=3, features=[Fourier(pairs=4), Anchors(count=4)]).double()
    assert torch.autograd.gradcheck(lambda at: spatial(at).added, (where,))


# --- What the parts say


def test_silent_injects_nothing() -> None:
    assert NoPosition()(at(1.0)) == Injection()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Spatial(dim=2, hidden=()), "a spatial MLP needs at least two layers"),
        (
            lambda: Spatial(dim=2, features="wavelet"),
            "features='wavelet' is not known; take one of scalar, fourier",
        ),
        (lambda: Spatial(dim=2, activation="tanh"), "activation='tanh' is not known; take one of gelu, relu"),
        (lambda: Fourier(pairs=1), "pairs=1, .* expected pairs >= 2 and longest > shortest > 0"),
        (lambda: Fourier(longest=1, shortest=2), "longest=1, shortest=2; expected"),
        (
            lambda: Anchors()(at(50.0)),
            r"read axes 1 and 2, and the coordinates have 1; wrap them: Ends\(Span",
        ),
        (
            lambda: Anchors(ends=1)(at(50.0)),
            r"read axis 1, and the coordinates have 1; wrap them: Start\(Running",
        ),
        (
            lambda: Centre()(at(50.0)),
            r"Centre reads axes 1 and 2, and the coordinates have 1; wrap them: Ends\(Span",
        ),
        (lambda: Anchors(count=0), "count=0; take at least 1 token per end"),
        (lambda: Anchors(ends=3), "ends=3; take 2, or 1 for the start only"),
        (lambda: LogLength(mean_length=0), "mean_length is 0; it must be a positive number"),
    ],
)
def test_messages(make: Callable[[], object], message: str) -> None:
    with unchecked(), pytest.raises(ValueError, match=message):
        make()


# --- Injections


def test_injections_add_slot_by_slot_and_scales_multiply() -> None:
    one = Injection(added=torch.ones(1, 2, 4), scale=torch.tensor([[2.0, 5.0]]))
    other = Injection(
        added=torch.ones(1, 2, 4),
        rotary=torch.ones(1, 2, 2),
        bias=torch.ones(1, 1, 2, 2),
        scale=torch.tensor([[3.0, 1.0]]),
    )
    for both in (one + other, other + one):
        assert both.added.unique().tolist() == [2]
        assert both.scale.tolist() == [[6, 5]]
        assert torch.equal(both.rotary, other.rotary)
        assert torch.equal(both.bias, other.bias)
    twice = other + other
    assert twice.rotary.unique().tolist() == [2]
    assert twice.bias.unique().tolist() == [2]
    assert Injection() + Injection() == Injection()


def test_injections_are_handed_to_sentences_row_by_row() -> None:
    output = Injection(added=torch.arange(2.0).view(2, 1, 1), scale=torch.tensor([[5.0], [7.0]]))
    rows = output.rows(torch.tensor([1, 0, 1]))
    assert rows.added.flatten().tolist() == [1, 0, 1]
    assert rows.scale.flatten().tolist() == [7, 5, 7]
    assert rows.rotary is None


def test_log_length() -> None:
    mask = torch.arange(100) < torch.tensor([1, 2, 10, 100])[:, None]
    scale = LogLength(mean_length=10)(mask).scale
    expected = [math.log(max(n, 2)) / math.log(10) for n in (1, 2, 10, 100)]
    torch.testing.assert_close(scale[:, 0].tolist(), expected, rtol=1e-6, atol=0)
    assert torch.equal(scale, scale[:, :1].expand(4, 100))
    assert LogLength(mean_length=1)(mask).scale[1, 0] == 1  # n0 is at least 2, as n is
