"""Codes of a position and learned features: against Python's own bits and loops written from the formulas, in
float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from conftest import unchecked
from helpers import at, drawn
from vnait.model import seed_weights
from vnait.positions.encodings import (
    Binary,
    GridTable,
    Harmonics,
    Linear,
    Sinusoid,
    Table,
)
from vnait.positions.injection import Injection


def added(part: nn.Module, where: Tensor) -> Tensor:
    """What is added, or, of features, all of it."""
    answer = part(where)
    return answer.added if isinstance(answer, Injection) else answer


BOTH = pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])


# --- Binary


@settings(max_examples=100)
@given(place=st.integers(-(2**53), 2**53), dim=st.integers(1, 70))
def test_bits_are_pythons(place: int, dim: int) -> None:
    """Of a negative number, too: `>>` is two's complement."""
    assert Binary(dim=dim)(at(place)).added[0, 0].tolist() == [place >> k & 1 for k in range(dim)]


def test_bits_of_a_wide_model() -> None:
    code = Binary(dim=2000)(at(0, 1, 2**40 + 5, -1, -8)).added[0]
    assert code[:3].sum(-1).tolist() == [0, 1, 3]
    assert code[3].sum() == 2000
    assert code[4].sum() == 1997
    far = Binary(dim=600)(at(2**53, 2.0**500)).added[0]
    assert far.nonzero().tolist() == [[0, 53], [1, 500]]


@settings(max_examples=50)
@given(place=st.integers(-5000, 5000), part=st.floats(0, 1), dim=st.integers(1, 16))
def test_bits_are_linear_between_integers(place: int, part: float, dim: int) -> None:
    here, there = ([number >> k & 1 for k in range(dim)] for number in (place, place + 1))
    expected = [(1 - part) * one + part * other for one, other in zip(here, there, strict=True)]
    assert Binary(dim=dim)(at(place + part)).added[0, 0].tolist() == pytest.approx(expected, abs=1e-9)


def test_the_studies_figures_of_bits() -> None:
    """A(f): 256 positions, 8 bits."""
    code = Binary(dim=8)(torch.arange(256.0)[None, :, None]).added[0]
    assert code.norm(dim=-1).max().item() == pytest.approx(2.83, abs=0.005)
    steps = code.diff(dim=0).norm(dim=-1)
    assert (steps.min().item(), steps.max().item()) == pytest.approx((1, 2.83), abs=0.005)
    assert code.mean() == 0.5


def test_the_gradient_of_bits_is_their_step() -> None:
    where = at(5.25, -0.5).requires_grad_()
    (Binary(dim=3)(where).added * torch.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert where.grad.flatten().tolist() == [-1 + 10, -1 - 10 - 100]  # 101 -> 110, and 111 -> 000


# --- Linear


@BOTH
def test_linear_is_a_linear_map_of_its_axes(dtype: torch.dtype, close: float) -> None:
    torch.manual_seed(0)
    part = Linear(dim=5, axes=3).to(dtype)
    nn.init.normal_(part.bias)
    places, weight = drawn(2, 4, 4).float(), drawn(2, 4, 5, seed=1)
    where = places.to(dtype).clone().requires_grad_()
    (part(where).added * weight.to(dtype)).sum().backward()
    w, b = part.weight.detach().double(), part.bias.detach().double()
    for sentence in range(2):
        for token in range(4):
            line = places[sentence, token].double().tolist()
            expected = [sum(w[d, a].item() * line[a] for a in range(3)) + b[d].item() for d in range(5)]
            assert part(where).added[sentence, token].tolist() == pytest.approx(expected, abs=close)
            grad = [
                sum(weight[sentence, token, d].item() * w[d, a].item() for d in range(5)) for a in range(3)
            ]
            assert where.grad[sentence, token].tolist() == pytest.approx([*grad, 0], abs=close)
    flat, summed = weight.flatten(0, 1), places.double().flatten(0, 1)[:, :3]
    torch.testing.assert_close(part.weight.grad.double(), flat.T @ summed, rtol=close, atol=close)
    torch.testing.assert_close(part.bias.grad.double(), flat.sum(0), rtol=close, atol=close)


@pytest.mark.parametrize("axes", [1, 4, 16])
def test_linear_starts_at_its_scale(axes: int) -> None:
    torch.manual_seed(0)
    for start in (1.0, 0.02):
        part = Linear(dim=4000, axes=axes, start=start)
        rms = part(drawn(1, 50, axes).sign()).added.square().mean().sqrt().item()
        assert rms == pytest.approx(start, rel=0.06)
        assert (part.bias == 0).all()


# --- Harmonics


@settings(max_examples=50)
@given(
    axes=st.integers(1, 3),
    count=st.integers(1, 12),
    angles=st.lists(st.floats(-50, 50), min_size=3, max_size=3),
    turns=st.integers(-1000, 1000),
)
def test_harmonics_are_a_formula_of_period_two_pi(
    axes: int, count: int, angles: list[float], turns: int
) -> None:
    part = Harmonics(dim=2 * axes * count, axes=axes)
    where = torch.tensor(angles, dtype=torch.float64)[None, None]
    expected = [
        wave(k * angle)
        for angle in angles[:axes]
        for k in range(1, count + 1)
        for wave in (math.sin, math.cos)
    ]
    assert part(where).added[0, 0].tolist() == pytest.approx(expected, abs=1e-11)
    again = part(where + turns * math.tau).added
    # what float64 left of the sum
    torch.testing.assert_close(again, part(where).added, rtol=0, atol=count * 1e-11)


def test_the_gradient_of_harmonics() -> None:
    where = (drawn(1, 5, 2) * 9).requires_grad_()
    assert torch.autograd.gradcheck(lambda places: Harmonics(dim=12, axes=2)(places).added, (where,))


# --- Learned frequencies


@BOTH
def test_learned_frequencies_start_as_the_sinusoid_and_have_its_derivatives(
    dtype: torch.dtype, close: float
) -> None:
    part, where = Sinusoid(dim=5, learned=True).to(dtype), torch.tensor([[[0.0], [1.0], [7.5]]], dtype=dtype)
    assert torch.equal(part(where).added, Sinusoid(dim=5)(where).added)
    with torch.no_grad():
        part.change.copy_(torch.tensor([0.5, -0.25, 1.0]))
    weight = drawn(1, 3, 5, seed=1).double()
    (part(where).added * weight.to(dtype)).sum().backward()
    change = part.change.detach().double().requires_grad_()
    rates = [10_000 ** (-2 * k / 5) * change[k].exp() for k in range(3)]
    angle = torch.stack([where[..., 0].double() * rates[channel // 2] for channel in range(5)], -1)
    even = torch.arange(5) % 2 == 0
    expected = torch.where(even, angle.sin(), angle.cos())
    (expected * weight).sum().backward()
    torch.testing.assert_close(part(where).added.double(), expected, rtol=close, atol=close)
    torch.testing.assert_close(part.change.grad.double(), change.grad, rtol=close, atol=close)


# --- Laws of every code

CODES: dict[str, Callable[[], nn.Module]] = {
    "sinusoid": lambda: Sinusoid(dim=16),
    "binary": lambda: Binary(dim=16),
    "linear": lambda: Linear(dim=6),
    "linear of two": lambda: Linear(dim=6, axes=2),
    "harmonics": lambda: Harmonics(dim=12),
    "harmonics of two": lambda: Harmonics(dim=12, axes=2),
    "table": lambda: Table(dim=6, max_length=8192),
    "grid table": lambda: GridTable(dim=6, shape=(8192, 2)),
}
LEARNED = [name for name in CODES if name.split()[0] in ("linear", "table", "grid")]
AXES = {name: 2 if name.endswith("of two") or name == "grid table" else 1 for name in CODES}


@pytest.fixture(params=list(CODES))
def name(request: pytest.FixtureRequest) -> str:
    torch.manual_seed(0)
    return request.param


def places(name: str, tokens: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Fractional and each sentence's own; axis 1 within the grid table."""
    generator = torch.Generator().manual_seed(3)
    where = torch.rand(2, tokens, 3, generator=generator, dtype=torch.float64) * torch.tensor(
        [90.0, 1.0, 90.0]
    )
    return where.to(dtype)


def test_a_model_in_half_precision_separates_8192_positions(name: str) -> None:
    part = CODES[name]().bfloat16()
    where = torch.stack([torch.arange(8192.0), torch.zeros(8192)], -1)[None]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        code = added(part, where)
    assert code.dtype == torch.float32
    assert len(code[0].unique(dim=0)) == 8192


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_an_injection_has_the_precision_of_parameters_or_coordinates(name: str, dtype: torch.dtype) -> None:
    wide = torch.promote_types(dtype, torch.float32)
    assert added(CODES[name]().to(dtype), places(name, 3, dtype)).dtype == wide
    if name in LEARNED:
        assert added(CODES[name]().to(dtype), places(name, 3)).dtype == wide
        assert added(CODES[name](), places(name, 3, dtype)).dtype == torch.float32


def test_half_precision_coordinates_are_read_as_they_are(name: str) -> None:
    part, where = CODES[name](), places(name, 5).bfloat16()
    torch.testing.assert_close(added(part, where), added(part, where.float()), rtol=0, atol=0)


def test_sentences_know_nothing_of_each_other(name: str) -> None:
    part, where = CODES[name](), places(name, 6)
    both = added(part, where)
    for row in range(2):
        torch.testing.assert_close(
            added(part, where[row : row + 1, :4]), both[row : row + 1, :4], rtol=0, atol=1e-6
        )


def test_other_axes_are_not_read(name: str) -> None:
    part, where = CODES[name](), places(name, 5)
    assert torch.equal(added(part, where), added(part, where[..., : AXES[name]]))


def test_gradients_reach_the_axes_that_are_read_and_are_finite(name: str) -> None:
    part, axes = CODES[name](), AXES[name]
    where = places(name, 5)
    where[:, 1] = where[:, 0]  # a shared place
    where[:, 2] = 0  # an integer, and the first
    where.requires_grad_()
    code = added(part, where)
    (code * torch.randn(code.shape)).sum().backward()
    assert torch.isfinite(where.grad).all()
    assert (where.grad[..., :axes] != 0).all()
    assert (where.grad[..., axes:] == 0).all()
    assert all((parameter.grad != 0).any() for parameter in part.parameters())


def test_no_tokens(name: str) -> None:
    part = CODES[name]()
    assert added(part, torch.zeros(2, 0, 3)).shape == (2, 0, added(part, torch.zeros(2, 1, 3)).shape[-1])


@pytest.mark.parametrize("name", LEARNED)
def test_the_seed_alone_decides_the_start(name: str) -> None:
    one, other = CODES[name](), CODES[name]()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.fill_(3)
    for part in (one, other):
        seed_weights(part, 5)
    for here, there in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(here, there)


# --- What the parts say


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Linear(dim=4, axes=0), "axes=0; a code needs at least one axis"),
        (
            lambda: Linear(dim=4, axes=3)(at(1.0)),
            "Linear reads 3 axes, and the coordinates have 1; take coordinates",
        ),
        (
            lambda: Harmonics(dim=6, axes=2),
            "a width of 6 has no equal number of sines and cosines for each of 2 angles",
        ),
        (lambda: Harmonics(dim=7), "a width of 7 has no equal number .* a multiple of twice the angles"),
        (lambda: Harmonics(dim=0), "a width of 0 has no equal number"),
        (lambda: Harmonics(dim=4, axes=0), "axes=0; a code needs at least one axis"),
        (lambda: Harmonics(dim=4, axes=2)(at(1.0)), "Harmonics reads 2 axes, and the coordinates have 1"),
    ],
)
def test_messages(make: Callable[[], object], message: str) -> None:
    with unchecked(), pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        (Binary(dim=4), "Binary(dim=4)"),
        (Linear(dim=4, axes=2, start=0.5), "Linear(axes=2, start=0.5)"),
        (Harmonics(dim=4, axes=2), "Harmonics(dim=4, axes=2)"),
    ],
)
def test_what_a_part_shows_of_itself(part: nn.Module, shown: str) -> None:
    assert repr(part) == shown
