"""Known positions of a span: timestamps scale its gaps, whatever their unit, their start and the padding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from vnait.positions.building import build
from vnait.positions.coordinates import Elastic, Ends, Gate, Jitter, Running, Span
from vnait.positions.coordinates.shared import located, steps

TIMES = torch.tensor([0.0, 1.0, 5.0, 6.0])
ROOM = torch.tensor([25.0, 37.5, 87.5, 100.0])  # a mean step, then 1/2, 2 and 1/2 of it
PARTS: dict[str, Callable[[], nn.Module]] = {
    "span": lambda: Span(source="uniform", min_gap=0),
    "ends": lambda: Ends(Span(source="uniform", min_gap=0)),
    "elastic": lambda: Elastic(Gate(dim=4)),
    "jitter": lambda: Jitter(Elastic(Gate(dim=4))).eval(),
}


def at(part: nn.Module, times: Tensor, mask: Tensor | None = None) -> Tensor:
    mask = torch.ones(1, len(times), dtype=torch.bool) if mask is None else mask
    return located(part, torch.randn(*mask.shape, 4), mask, times[None, :, None])[0].detach()


@pytest.mark.parametrize("name", PARTS)
def test_s_is_in_proportion_to_time(name: str) -> None:
    line = at(PARTS[name](), TIMES)[:, 0]
    assert torch.allclose(line.float(), ROOM, atol=1e-3)


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("mask", ["0011110", "1111000", "1010101", "0110011"])
def test_padding_takes_no_time(name: str, mask: str) -> None:
    real = torch.tensor([[bit == "1" for bit in mask]])
    times = torch.full((7,), torch.inf)
    times[real[0]] = TIMES
    part = PARTS[name]()
    assert torch.allclose(at(part, times, real)[real[0]], at(part, TIMES))


@pytest.mark.parametrize("name", PARTS)
def test_neither_the_unit_nor_the_start_of_time_matters(name: str) -> None:
    part = PARTS[name]()
    assert torch.allclose(at(part, 3600 * TIMES.double() + 1.7e9), at(part, TIMES), atol=1e-3)
    seconds = (3600 * TIMES).long() + 1_700_000_000  # exact as whole numbers
    assert torch.allclose(at(part, seconds), at(part, TIMES), atol=1e-6)


@pytest.mark.parametrize("name", PARTS)
def test_even_times_are_the_counted_coordinates(name: str) -> None:
    part, mask = PARTS[name](), torch.ones(1, 5, dtype=torch.bool)
    counted = part(torch.randn(1, 5, 4), mask)[0]
    assert torch.allclose(at(part, 7 * torch.arange(5.0)), counted, atol=1e-5)


@pytest.mark.parametrize("name", ["ends", "elastic"])
def test_distances_from_the_ends_count_tokens_at_any_time(name: str) -> None:
    found = at(PARTS[name](), TIMES)
    assert torch.allclose(found[:, 1].float(), torch.arange(4.0), atol=1e-4)
    assert torch.allclose(found[:, 2].float(), torch.arange(3.0, -1, -1), atol=1e-4)


@pytest.mark.parametrize("gradients", [True, False])
def test_uneven_times_move_no_neighbour(gradients: bool) -> None:
    method, words, mask = build("vnait", dim=16).eval(), torch.randn(2, 6, 16), torch.ones(2, 6).bool()
    views = cast(Any, method.inputs).views
    expected = words + sum(view(words) for view in views)
    with torch.set_grad_enabled(gradients):
        uneven = torch.tensor([0.0, 1, 2, 3, 4, 50]).expand(2, 6)[..., None]
        x, injection, _ = method(words, mask, uneven)
    assert torch.allclose(x - cast(Tensor, injection.added), expected, atol=1e-4)


@pytest.mark.parametrize("part", [Span(source="uniform"), Elastic(Gate(dim=4))], ids=["span", "elastic"])
def test_samples_of_one_moment_keep_their_order(part: nn.Module) -> None:
    line = at(part, torch.tensor([0.0, 3.0, 3.0, 3.0, 4.0]))[:, 0]
    assert bool((line.diff() > 0).all())


def test_one_moment_is_as_even_times() -> None:
    same = at(Span(source="uniform"), torch.zeros(4))[:, 0]
    assert torch.allclose(same, torch.tensor([25.0, 50.0, 75.0, 100.0]))


def test_learned_gaps_multiply_those_of_time() -> None:
    part = Span(source="free", max_length=4, min_gap=0)
    with torch.no_grad():
        part.source.z[2] = -30.0  # the third sample counts nothing, however long the step before it was
    line = at(part, TIMES)[:, 0]
    assert torch.allclose(line, torch.tensor([50.0, 75.0, 75.0, 100.0]), atol=1e-3)


@pytest.mark.parametrize("name", PARTS)
def test_a_span_refuses_places_of_two_axes(name: str) -> None:
    two = torch.stack([TIMES, TIMES], -1)[None]
    with pytest.raises(ValueError, match=r"the positions have 2 axes, and a span has one; give one of them"):
        located(PARTS[name](), torch.randn(1, 4, 4), torch.ones(1, 4, dtype=torch.bool), two)


def test_gradients_reach_times() -> None:
    times, mask = TIMES[None, :, None].clone().requires_grad_(), torch.ones(1, 4, dtype=torch.bool)
    Span(source="uniform")(None, mask, times)[0, 1, 0].backward()
    assert times.grad is not None and bool((times.grad[0, 1:] != 0).any())


def test_a_named_method_takes_times() -> None:
    vectors, mask = torch.randn(1, 4, 8), torch.ones(1, 4, dtype=torch.bool)
    for name in ("vnait", "vnait-warp", "vnait-uniform"):
        method = build(name, dim=8).eval()
        assert torch.allclose(method(vectors, mask, TIMES[None, :, None]).at[0, :, 0].float(), ROOM, atol=0.2)


@pytest.mark.parametrize(
    ("times", "message"),
    [([0.0, 2.0, 1.0], "positions decrease along a text; sort"), ([0.0, torch.nan, 1.0], "NaN or infinity")],
)
def test_messages(times: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        at(Span(source="uniform"), torch.tensor(times))


def test_running_coordinates_take_no_places() -> None:
    assert not Running().takes_positions and Span().takes_positions
    with pytest.raises(ValueError, match="depends on later tokens"):
        Running()(None, torch.ones(1, 4, dtype=torch.bool), TIMES[None, :, None])
    with pytest.raises(ValueError, match="take no positions"):
        at(Running(), TIMES)


def test_one_token_is_a_whole_text() -> None:
    assert steps(torch.tensor([[[5.0]]]), torch.ones(1, 1, dtype=torch.bool)).tolist() == [[1.0]]
    assert at(Span(source="uniform"), torch.tensor([5.0]))[0, 0] == 100


def test_repeated_times_have_the_gradient_of_close_ones() -> None:
    """S_2 of the times 0, 1, t is 100 (1 + 1) / 3 in mean steps at t = 1."""

    def gradient(last: float) -> Tensor:
        times = torch.tensor([[[0.0], [1.0], [last]]], dtype=torch.float64, requires_grad=True)
        span = Span(source="uniform")(None, torch.ones(1, 3, dtype=torch.bool), times)
        (found,) = torch.autograd.grad(span[0, 1].sum(), times)
        return found.flatten()

    assert torch.allclose(gradient(1.0), gradient(1.0 + 1e-6), atol=1e-2)
    assert float(gradient(1.0).abs().max()) > 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("name", ["span", "elastic"])
def test_an_export_with_times_holds_for_batches_of_every_size(name: str) -> None:
    part = PARTS[name]()
    sizes = {0: torch.export.Dim("B", min=2), 1: torch.export.Dim("T", min=2, max=4000)}

    def inputs(batch: int, length: int) -> tuple[Tensor, Tensor, Tensor]:
        times = torch.rand(batch, length, 1).cumsum(1)
        return torch.randn(batch, length, 4), torch.ones(batch, length, dtype=torch.bool), times

    exported = torch.export.export(part, inputs(2, 7), dynamic_shapes=(sizes,) * 3, strict=False).module()
    for batch, length in ((3, 11), (5, 2)):
        given = inputs(batch, length)
        torch.testing.assert_close(exported(*given), part(*given))
