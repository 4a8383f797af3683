"""Encodings made of encodings; the 2-D forms of a code, with the identities of the studies' B5."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields

import pytest
import torch
from torch import Tensor, nn

from conftest import unchecked
from helpers import drawn, python
from vnait.positions.encodings import (
    AlibiBias,
    Axis,
    Binary,
    Blurred,
    Concatenated,
    GridTable,
    Linear,
    NoPosition,
    Rotary,
    Scaling,
    Sinusoid,
    Sum,
    Table,
    XPos,
)
from vnait.positions.injection import Injection

D = 32  # channels an axis
DYNAMIC = Scaling(rule="dynamic", factor=2.0, original_length=8)


def same(one: Injection, other: Injection) -> bool:
    one, other = one.dense(), other.dense()
    slots = [(getattr(one, slot.name), getattr(other, slot.name)) for slot in fields(one)]
    return all(a is b is None or torch.equal(a, b) for a, b in slots)


# --- Axis, Sum, Concatenated


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_another_axis_is_encoded_as_if_it_were_the_first(axis: int) -> None:
    at = drawn(2, 5, 3)
    for part in (Sinusoid(dim=6), Rotary(width=4), XPos(width=4), AlibiBias(num_heads=2)):
        assert same(Axis(part, axis)(at), part(at[..., axis : axis + 1]))


def test_several_axes_are_encoded_in_the_order_given() -> None:
    at = drawn(2, 5, 3).abs().clamp(max=3)
    table = GridTable(dim=4, shape=(4, 4)).double()
    assert same(Axis(table, (2, 0))(at), table(torch.stack([at[..., 2], at[..., 0]], -1)))
    assert not same(Axis(table, (2, 0))(at), Axis(table, (0, 2))(at))


def test_noise_of_a_width_blurs_each_token_in_training_alone() -> None:
    places = 10 * drawn(40, 50, 2, seed=3)
    part = Blurred(Rotary(width=8), width=3.0)
    moved = part.blurred(places) - places
    assert moved.abs().max() <= 3 and moved.std() == pytest.approx(3**0.5, rel=0.1)
    assert len(moved.unique()) == moved.numel()  # per text, token and axis
    assert part(places).rotary.shape == (40, 50, 4) and not same(part(places), Rotary(width=8)(places))
    assert same(part.eval()(places), Rotary(width=8)(places))


def test_a_sum_is_the_sum_of_injections() -> None:
    at = drawn(2, 5, 2)
    parts = (
        Sinusoid(dim=6),
        Rotary(width=4),
        Axis(Sinusoid(dim=6), 1),
        NoPosition(),
        XPos(width=4),
        AlibiBias(num_heads=2),
    )
    output = Sum(*parts)(at)
    torch.testing.assert_close(output.added, parts[0](at).added + parts[2](at).added)
    torch.testing.assert_close(output.rotary, parts[1](at).rotary + parts[4](at).rotary)
    assert torch.equal(output.stretch, parts[4](at).stretch)
    assert torch.equal(output.dense().bias, parts[5](at).dense().bias)
    assert output.scale is None
    scaled = Rotary(width=4, scaling=Scaling(rule="yarn", factor=4.0, original_length=8))
    assert torch.equal(Sum(scaled, scaled)(at).scale, scaled(at).scale ** 2)
    assert Sum(NoPosition())(at) == Injection()


def test_vectors_stand_side_by_side() -> None:
    at, parts = drawn(2, 5, 2), (Sinusoid(dim=6), Binary(dim=3), Axis(Sinusoid(dim=2), 1))
    added = Concatenated(*parts)(at).added
    assert added.shape == (2, 5, 11)
    for part, block in zip(parts, added.split([6, 3, 2], -1), strict=True):
        assert torch.equal(part(at).added, block)


def test_parts_are_registered_and_gradients_reach_them_all() -> None:
    both = Concatenated(Axis(Linear(dim=2), 1), Sum(Linear(dim=3), Axis(Table(dim=3, max_length=5), 1)))
    at = torch.rand(1, 4, 2).requires_grad_()
    added = both(at).added
    (added * torch.randn(added.shape)).sum().backward()
    assert len(list(both.parameters())) == 5
    assert all((parameter.grad != 0).any() for parameter in both.parameters())
    assert (at.grad != 0).all()
    other = Concatenated(Axis(Linear(dim=2), 1), Sum(Linear(dim=3), Axis(Table(dim=3, max_length=5), 1)))
    other.load_state_dict(both.state_dict())
    assert torch.equal(other(at).added, added)


def test_a_law_holds_where_all_parts_keep_it() -> None:
    plain, length, added = Rotary(width=4), Rotary(width=4, scaling=DYNAMIC), Sinusoid(dim=4)
    for parts, causal, relative in (
        ((plain,), True, True),
        ((plain, NoPosition()), True, True),
        ((plain, length), False, False),
        ((length, plain), False, False),
        ((plain, added), True, False),
    ):
        assert (Sum(*parts).causal, Sum(*parts).relative) == (causal, relative)
        assert (Axis(Sum(*parts), 1).causal, Axis(Sum(*parts), 1).relative) == (causal, relative)
    assert not Concatenated(added, Axis(Sum(length), 0)).causal
    assert Concatenated(added).causal


# --- 2-D forms (B5)


def separable() -> nn.Module:
    return Concatenated(Axis(Sinusoid(dim=D, base=100), 0), Axis(Sinusoid(dim=D, base=100), 1))


def additive() -> nn.Module:
    return Sum(Axis(Sinusoid(dim=D, base=100), 0), Axis(Sinusoid(dim=D, base=100), 1))


def grid(side: int = 16) -> Tensor:
    return torch.cartesian_prod(*[torch.arange(side, dtype=torch.float64)] * 2)[None]


def kernel(encoding: nn.Module, at: Tensor) -> Tensor:
    """K(a, b) = <E(a), E(b)> over all pairs of places."""
    added = encoding(at).added[0]
    return added @ added.T


def line_kernel(offset: Tensor) -> Tensor:
    """K(d) = sum_i cos(d / base^(2i/D)), of one axis."""
    return sum(torch.cos(offset / 100 ** (2 * i / D)) for i in range(D // 2))


def moved(at: Tensor, *by: float) -> Tensor:
    return at + torch.tensor(by, dtype=torch.float64)


def test_the_separable_kernel_is_a_sum_over_axes() -> None:
    at = grid()
    offset = at[0, :, None] - at[0, None, :]
    expected = line_kernel(offset[..., 0]) + line_kernel(offset[..., 1])
    assert (kernel(separable(), at) - expected).abs().max() < 1e-12
    for by in ((3, 0), (0, 3), (2, -2), (0.25, 7.5)):
        assert (kernel(separable(), moved(at, *by)) - expected).abs().max() < 1e-12


def test_the_additive_kernel_moves_along_its_main_diagonal_alone() -> None:
    at = grid()
    here = kernel(additive(), at)
    for by, change in (((1, 0), 0.17), ((0, 1), 0.17), ((1, -1), 0.33)):
        assert (kernel(additive(), moved(at, *by)) - here).abs().max().item() / D == pytest.approx(
            change, abs=0.005
        )
    assert (kernel(additive(), moved(at, 1, 1)) - here).abs().max() < 1e-12


def test_the_additive_code_has_120_collisions() -> None:
    at = grid()
    added = additive()(at).added[0]
    assert torch.equal(added, additive()(at.flip(-1)).added[0])  # E(x, y) = E(y, x)
    equal = (added[:, None] == added[None]).all(-1).triu(1)
    assert equal.sum() == 120
    apart = separable()(at).added[0]
    assert torch.cdist(apart, apart).fill_diagonal_(9).min() > 0.1


def test_the_rotated_form_is_the_separable_one_on_turned_coordinates() -> None:
    """R_rot(t) = R_sep(t + 45 degrees), for a line of unit steps; the separable form tells axes best, the
    rotated one diagonals.
    """

    def response(degrees: float, turned: bool) -> float:
        angle, steps = math.radians(degrees), torch.arange(8, dtype=torch.float64)
        at = torch.stack([steps * math.cos(angle), steps * math.sin(angle)], -1)[None]
        if turned:
            at = torch.stack([at[..., 0] + at[..., 1], at[..., 0] - at[..., 1]], -1) / math.sqrt(2)
        return (float(kernel(separable(), at).sum()) / D - 8) / 56  # the mean over pairs of different points

    for degrees in (0, 10, 30, 45, 77):
        assert response(degrees, turned=True) == pytest.approx(
            response(degrees + 45, turned=False), abs=1e-12
        )
    assert response(0, turned=False) == pytest.approx(0.838, abs=5e-4)
    contrast = response(0, turned=False) - response(45, turned=False)
    assert contrast == pytest.approx(0.0788, abs=5e-5)
    assert response(0, turned=True) - response(45, turned=True) == pytest.approx(-contrast, abs=1e-12)


# --- Compiled


@pytest.mark.long
@pytest.mark.slow
def test_compiled_and_exported() -> None:
    """In a process of its own: the tests' check of types can't be traced.

    Tables, codes and biases inside the combinations.
    """
    code = """
import torch
from vnait.positions.encodings import *
from vnait_lab.studies.contacts import Contacts
class Told(torch.nn.Module):
    def __init__(self, part):
        super().__init__()
        self.part = part
    def forward(self, at):
        told = self.part(at).dense()
        return [slot for slot in (told.added, told.rotary, told.stretch, told.bias) if slot is not None]
at = torch.stack([torch.arange(6.0), torch.arange(6.0) / 3], -1)[None].repeat(2, 1, 1)
codes = Concatenated(
    Binary(dim=8), Linear(dim=4, axes=2), Harmonics(dim=8, axes=2), Axis(Sinusoid(dim=4), 1),
    Table(dim=3, max_length=9),
    GridTable(dim=4, shape=(6, 3)), Spatial(dim=4, features=[Fourier(pairs=3)]),
)
scores = Sum(XPos(width=8), Prefix(num_heads=2, start=1.0), Contacts(num_heads=2, contacts=torch.rand(8, 8)))
shapes = ({0: torch.export.Dim("B", min=2), 1: torch.export.Dim("T", min=2)},)
for part in (codes, scores):
    told = Told(part)
    compiled = torch.compile(told, backend="aot_eager", fullgraph=True)(at)
    exported = torch.export.export(told, (at,), dynamic_shapes=shapes).module()
    other = at[:, :4].repeat(2, 1, 1)
    for ours, expected in zip([*compiled, *exported(other)], [*told(at), *told(other)], strict=True):
        torch.testing.assert_close(ours, expected, rtol=0, atol=1e-6)
"""
    python(code)


# --- What they say


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sum(), r"Sum\(\) has no encodings; give some, or take NoPosition"),
        (lambda: Concatenated(), r"Concatenated\(\) has no encodings"),
        (lambda: Blurred(NoPosition(), width=0.0), "width=0.0; it is a distance and must be positive"),
        (lambda: Axis(NoPosition(), ()), r"axis=\(\); give the number of an axis, from 0, or several"),
        (lambda: Axis(NoPosition(), -1), "axis=-1; give the number of an axis, from 0"),
        (lambda: Axis(NoPosition(), (0, -2)), r"axis=\(0, -2\); give the number"),
        (
            lambda: Axis(Sinusoid(dim=2), (0, 2))(torch.zeros(1, 1, 2)),
            r"Sinusoid reads axis 2, and the coordinates have 2 \(the first is axis 0\); take coordinates",
        ),
        (
            lambda: Concatenated(Sinusoid(dim=2), XPos(width=4))(torch.zeros(1, 1, 1)),
            "encodings that add vectors, and XPos fills rotary, stretch; combine it with Sum",
        ),
        (
            lambda: Concatenated(Sum(Sinusoid(dim=2), AlibiBias(num_heads=1)))(torch.zeros(1, 1, 1)),
            "encodings that add vectors, and Sum fills added, bias; combine it",
        ),
        (
            lambda: Concatenated(NoPosition())(torch.zeros(1, 1, 1)),
            "and NoPosition fills nothing; combine it with Sum",
        ),
    ],
)
def test_messages(make: Callable[[], object], message: str) -> None:
    with unchecked(), pytest.raises(ValueError, match=message):
        make()


def test_what_an_axis_shows_of_itself() -> None:
    assert "axis=(1, 2)" in repr(Axis(NoPosition(), [1, 2]))
    assert "width=3" in repr(Blurred(NoPosition(), width=3.0))
