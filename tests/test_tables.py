"""Learned tables of positions and of a grid: against BERT's and a loop written from the formula."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertEmbeddings

from conftest import unchecked
from vnait.positions.coordinates import Index
from vnait.positions.encodings import GridTable, Table
from vnait.positions.method import Method


def at(*places: tuple[float, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor(places, dtype=dtype)[None]


def test_a_table_below_its_first_row() -> None:
    """Softened bounds let a span begin a little before 0."""
    table = Table(dim=2, max_length=4)
    one, other = table.weight[0], table.weight[1]
    torch.testing.assert_close(table(at((-0.5,))).added[0, 0], one - 0.5 * (other - one))


# --- A grid


def bilinear(weight: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """The four corners, each by its share of the cell's area."""
    top, left = (
        min(math.floor(place.item()), max(size - 2, 0))
        for place, size in zip((row, column), weight.shape, strict=False)
    )
    total = torch.zeros(weight.shape[-1], dtype=weight.dtype)
    for y in (0, 1):
        for x in (0, 1):
            share = (row - top if y else 1 - (row - top)) * (column - left if x else 1 - (column - left))
            total = (
                total + share * weight[min(top + y, weight.shape[0] - 1), min(left + x, weight.shape[1] - 1)]
            )
    return total


@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_a_grid_is_bilinear(dtype: torch.dtype, close: float) -> None:
    """Values and gradients, at the corners and between."""
    torch.manual_seed(0)
    table = GridTable(dim=3, shape=(4, 6)).to(dtype)
    exact = table.weight.detach().double().requires_grad_()
    where = torch.rand(1, 9, 3, dtype=torch.float32) * torch.tensor([3.0, 5.0, 9.0])
    where[0, :2] = torch.tensor([[0.0, 0.0, 0.0], [3.0, 5.0, 0.0]])
    ours, theirs = (where.to(kind).clone().requires_grad_() for kind in (dtype, torch.float64))
    added = table(ours).added
    expected = torch.stack([bilinear(exact, row, column) for row, column, _ in theirs[0]])[None]
    weight = torch.randn(expected.shape, dtype=torch.float64)
    (added * weight.to(dtype)).sum().backward()
    (expected * weight).sum().backward()
    for one, other in ((added, expected), (ours.grad, theirs.grad), (table.weight.grad, exact.grad)):
        torch.testing.assert_close(one.double(), other, rtol=close, atol=close)


def test_a_grid_reads_its_entries_exactly() -> None:
    table = GridTable(dim=2, shape=(3, 5)).bfloat16()
    where = torch.cartesian_prod(torch.arange(3.0), torch.arange(5.0))[None]
    assert torch.equal(table(where).added[0], table.weight.float().flatten(0, 1))


def test_places_between_are_separate_in_half_precision() -> None:
    fine = torch.arange(2048.0) / 2048
    grid = GridTable(dim=4, shape=(2, 2)).bfloat16()
    for where in (torch.stack([fine, fine], -1), torch.stack([fine, 0 * fine], -1)):
        assert len(grid(where[None]).added[0].unique(dim=0)) == 2048
    assert len(Table(dim=4, max_length=2).bfloat16()(fine[None, :, None]).added[0].unique(dim=0)) == 2048


def test_a_grid_starts_at_its_scale() -> None:
    for start in (1.0, 0.02):
        entries = GridTable(dim=16, shape=(20, 20), start=start).weight
        assert entries.square().mean().sqrt().item() == pytest.approx(start, rel=0.05)


# --- What they say


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Table(dim=2, max_length=0), "max_length=0; a learned table needs at least one row"),
        (
            lambda: Table(dim=2, max_length=4)(at((1.0,), (3.25,))),
            r"a coordinate of 3.25 is outside .* max_length=4 \(positions 0 to 3\)",
        ),
        (
            lambda: GridTable(dim=2, shape=(3, 0)),
            r"shape=\(3, 0\); a grid table needs two sizes, \(rows, columns\)",
        ),
        (lambda: GridTable(dim=2, shape=(3,)), r"shape=\(3,\); a grid table needs two sizes"),
        (lambda: GridTable(dim=2, shape=(3, 4, 5)), r"shape=\(3, 4, 5\); a grid table needs two sizes"),
        (
            lambda: GridTable(dim=2, shape=(3, 4))(at((1.0,))),
            "GridTable reads 2 axes, and the coordinates have 1",
        ),
        (
            lambda: GridTable(dim=2, shape=(3, 4))(at((1.0, 3.0), (2.5, 1.0))),
            r"a coordinate of 2.5 on axis 0 is outside the learned table of shape=\(3, 4\) \(0 to 2 on that",
        ),
        (
            lambda: GridTable(dim=2, shape=(3, 4))(at((2.0, 3.5))),
            r"a coordinate of 3.5 on axis 1 is outside .* \(0 to 3 on that axis\); take a larger table",
        ),
        (
            lambda: GridTable(dim=2, shape=(3, 4))(at((2.0, -0.5))),
            "a coordinate of -0.5 on axis 1 is outside",
        ),
    ],
)
def test_messages(make: Callable[[], object], message: str) -> None:
    with unchecked(), pytest.raises(ValueError, match=message):
        make()


def test_what_a_grid_shows_of_itself() -> None:
    assert repr(GridTable(dim=2, shape=[3, 4])) == "GridTable(shape=(3, 4))"


@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_berts_table(dtype: torch.dtype, close: float) -> None:
    """transformers' BertEmbeddings with copied weights, words and positions before its norm: values, and
    gradients of the table.
    """
    config = BertConfig(vocab_size=11, hidden_size=8, max_position_embeddings=12, hidden_dropout_prob=0.0)
    theirs, ours = BertEmbeddings(config).to(dtype), Table(dim=8, max_length=12).to(dtype)
    theirs.LayerNorm = torch.nn.Identity()
    with torch.no_grad():
        ours.weight.copy_(theirs.position_embeddings.weight)
        theirs.token_type_embeddings.weight.zero_()
    ids = torch.randint(11, (3, 12), generator=torch.Generator().manual_seed(0))
    method = Method(coordinates=Index(), encoding=ours)
    x = method(theirs.word_embeddings(ids).detach(), torch.ones(3, 12, dtype=torch.bool)).x
    expected = theirs(ids)
    torch.testing.assert_close(x, expected, rtol=close, atol=close)
    for output in (x, expected):
        (output * torch.linspace(-1, 1, output.numel(), dtype=dtype).view_as(output)).sum().backward()
    torch.testing.assert_close(
        ours.weight.grad, theirs.position_embeddings.weight.grad, rtol=close, atol=close
    )
