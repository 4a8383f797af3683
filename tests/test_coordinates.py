"""Coordinates: the guarantees of the specification (section 2), with the worst numbers that Hypothesis and we
could think of.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from conftest import unchecked
from helpers import everything
from vnait.positions.coordinates import (
    ContextGate,
    Elastic,
    Ends,
    Gate,
    Index,
    Jitter,
    Joined,
    Running,
    Span,
    Start,
)
from vnait.positions.coordinates.sources import UNIT_Z, Content, Free, Projection, Warp
from vnait.positions.inputs import smoothness
from vnait.shared import chunks

Counted = Callable[[], None]

MODERATE = st.floats(-4, 4, width=32)
WILD = st.one_of(
    MODERATE,
    st.floats(-1e4, 1e4, width=32),
    st.sampled_from([-1e4, 1e4, -104.0, -88.0, -15.0, 0.0, 17.0, 3e38, -3e38]),
)
NORMALIZATIONS = ["span", "sum", "none"]
FORMS = [("span", "hard"), ("span", "soft"), ("sum", "hard"), ("sum", "soft"), ("none", "hard")]
SHAPES = ["mixed", "lowest", "highest", "spike", "hole", "ordinary", "cliff"]


class Given(nn.Module):
    """A source that returns the z it was given."""

    causal = True
    per_sentence = True

    def __init__(self, z: Tensor) -> None:
        super().__init__()
        self.z = nn.Parameter(z)

    def forward(self, vectors: Tensor | None, mask: Tensor) -> Tensor:
        return self.z


@dataclass(frozen=True)
class Batch:
    """Sentences of different lengths, each somewhere in its row; z at padding is as wild as elsewhere."""

    z: Tensor
    mask: Tensor

    def alone(self, row: int) -> Batch:
        real = self.mask[row]
        return Batch(self.z[row, real][None], real[real][None])


@st.composite
def batches(draw: st.DrawFn, values: st.SearchStrategy[float] = WILD, longest: int = 12) -> Batch:
    """1 to 3 sentences, padded on the left, the right or both sides."""
    sizes = st.tuples(st.integers(0, 4), st.integers(1, longest), st.integers(0, 4))
    rows = draw(st.lists(sizes, min_size=1, max_size=3))
    width = max(sum(row) for row in rows)
    mask = torch.zeros(len(rows), width, dtype=torch.bool)
    for row, (before, length, _) in enumerate(rows):
        mask[row, before : before + length] = True
    z = draw(st.lists(values, min_size=mask.numel(), max_size=mask.numel()))
    return Batch(torch.tensor(z).view(mask.shape), mask)


def adversary(shape: str, length: int, seed: int = 0) -> Tensor:
    """z (length,): the patterns that break a literal softplus and cumulative sum."""
    torch.manual_seed(seed)
    if shape in ("lowest", "highest"):
        return torch.full((length,), -1e4 if shape == "lowest" else 1e4)
    z = torch.randn(length)
    if shape == "mixed":
        return torch.where(torch.rand(length) < 0.5, z, torch.empty(length).uniform_(-1e4, 1e4))
    if shape == "cliff":
        return torch.where(torch.arange(length) < length // 2, 1e4, -1e4)
    if shape != "ordinary":
        z[length // 3] = 1e4 if shape == "spike" else -1e4
    return z


def located(
    z: Tensor, mask: Tensor, *, normalization: str = "span", bounds: str = "hard", min_gap: float = 0.01
) -> tuple[Tensor, Tensor]:
    """The coordinates (B, T), and the z they depend on."""
    part = Span(source=Given(z.clone()), normalization=normalization, bounds=bounds, min_gap=min_gap)
    return part(None, mask)[..., 0], part.source.z


def assert_lawful(at: Tensor, mask: Tensor, *, normalization: str = "span", bounds: str = "hard") -> None:
    """Finite, strictly increasing, above 0; and the last exactly 100, or all together 100."""
    assert torch.isfinite(at).all()
    for line, real in zip(at, mask, strict=True):
        line = line[real]
        assert (line.diff() > 0).all()
        assert line[0] > 0
        if normalization == "span" and bounds == "hard":
            assert line[-1] == 100
        if normalization == "sum":
            torch.testing.assert_close(line.double().sum().item(), 100.0, rtol=1e-5, atol=0)


def nearest(mask: Tensor, row: int, place: int) -> int:
    real = mask[row].nonzero().flatten().tolist()
    return min(real, key=lambda at: (abs(at - place), at))


def papers(z: list[float]) -> list[float]:
    """The papers' loop, in Python's float64."""
    running, total = [], 0.0
    for value in z:
        total += math.log1p(math.exp(value))
        running.append(total)
    return [100 * partial / total for partial in running]


# --- Order, ends, padding, gradients


@pytest.mark.parametrize("form", FORMS, ids="-".join)
@settings(max_examples=60)
@given(batch=batches())
@example(batch=Batch(torch.tensor([[3e38, -3e38, 3e38, 0.0]]), everything(4)))
def test_order_ends_and_gradients(form: tuple[str, str], batch: Batch, counted: Counted) -> None:
    counted()
    normalization, bounds = form
    if normalization == "none":  # R has no upper bound: order holds while R_n / min_gap is below 2^52
        batch = Batch(batch.z.clamp(max=1e4), batch.mask)
    at, z = located(batch.z, batch.mask, normalization=normalization, bounds=bounds)
    assert_lawful(at, batch.mask, normalization=normalization, bounds=bounds)
    (at * torch.linspace(-1, 1, at.shape[-1])).sum().backward()
    assert torch.isfinite(z.grad).all()


@pytest.mark.parametrize("normalization", [*NORMALIZATIONS, "ends"])
@settings(max_examples=40)
@given(batch=batches())
def test_padding(normalization: str, batch: Batch, counted: Counted) -> None:
    """It stands where the nearest real token stands, without gradient, and changes neither values nor
    gradients of real tokens.
    """
    counted()
    batch = Batch(batch.z.clamp(-1e4, 1e4), batch.mask)

    def locate(one: Batch) -> tuple[Tensor, Tensor]:
        source = Given(one.z.clone())
        part = (
            Ends(Span(source=source))
            if normalization == "ends"
            else Span(source=source, normalization=normalization)
        )
        return part(None, one.mask), source.z

    at, z = locate(batch)
    for row, place in (~batch.mask).nonzero().tolist():
        assert torch.equal(at[row, place], at[row, nearest(batch.mask, row, place)])
    if not batch.mask.all():
        (grad,) = torch.autograd.grad(at[~batch.mask].sum(), z, retain_graph=True, allow_unused=True)
        assert grad is None or not grad.any()
    weights = torch.arange(1.0, at[0].numel() + 1).view(at[0].shape)
    for row in range(len(at)):
        one, of = locate(batch.alone(row))
        real = batch.mask[row]
        torch.testing.assert_close(at[row, real], one[0], rtol=1e-6, atol=1e-6)
        (inside,) = torch.autograd.grad((at[row, real] * weights[: real.sum()]).sum(), z, retain_graph=True)
        (outside,) = torch.autograd.grad((one[0] * weights[: real.sum()]).sum(), of)
        torch.testing.assert_close(inside[row, real], outside[0], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("part", [Index(), Running(), Span(source="uniform"), Span(), Ends(Span())], ids=repr)
@settings(max_examples=15)
@given(batch=batches(longest=40))
def test_length_alone_decides(part: nn.Module, batch: Batch, counted: Counted) -> None:
    counted()
    at = part(None, batch.mask)
    for row, real in enumerate(batch.mask):
        alone = part(None, real[real][None])[0]
        torch.testing.assert_close(at[row, real], alone, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("form", FORMS, ids="-".join)
@pytest.mark.parametrize("shape", SHAPES)
def test_adversaries_at_every_length(form: tuple[str, str], shape: str) -> None:
    normalization, bounds = form
    for length in (1, 2, 3, 17, 512, 5242, 5243, 20_000):  # 5,242: the last length in float32
        at, z = located(
            adversary(shape, length)[None], everything(length), normalization=normalization, bounds=bounds
        )
        assert_lawful(at, everything(length), normalization=normalization, bounds=bounds)
        at.sum().backward()
        assert torch.isfinite(z.grad).all()


@settings(max_examples=12)
@given(length=st.integers(20_000, 300_000), shape=st.sampled_from(SHAPES), seed=st.integers(0, 9))
@example(length=1_000_000, shape="mixed", seed=0)
@example(length=1_000_000, shape="spike", seed=0)
@example(length=1_000_000, shape="cliff", seed=0)
@example(length=1_000_000, shape="lowest", seed=0)
def test_a_million_tokens(length: int, shape: str, seed: int, counted: Counted) -> None:
    counted()
    at, z = located(adversary(shape, length, seed)[None], everything(length))
    assert_lawful(at, everything(length))
    at.sum().backward()
    assert torch.isfinite(z.grad).all()


@settings(max_examples=40)
@given(length=st.integers(1, 6_000), shape=st.sampled_from(SHAPES), min_gap=st.floats(1e-4, 0.5))
def test_any_floor(length: int, shape: str, min_gap: float, counted: Counted) -> None:
    """No gap is under the floor, a fraction of the uniform gap."""
    counted()
    at, _ = located(adversary(shape, length)[None], everything(length), min_gap=min_gap)
    assert_lawful(at, everything(length))
    smallest = torch.cat([at[0, :1], at[0].diff()]).min().item()
    assert smallest >= min_gap * 100 / length - 1e-4


# --- Sources


def with_wild_parameters(source: str, values: Tensor, *, dim: int = 4) -> Span:
    """The source with z anywhere up to +-1e4: its parameters are set, and for `content` its output layer is
    enlarged.
    """
    span = Span(source=source, dim=dim, max_length=64)
    with torch.no_grad():
        if isinstance(span.source, Free | Warp):
            span.source.z.copy_(values.repeat(64)[: len(span.source.z)])
        if isinstance(span.source, Content):
            span.source.tell.weight.copy_(values.repeat(32)[:32][None])
    return span


@pytest.mark.parametrize("source", ["uniform", "free", "warp", "content"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@settings(max_examples=12)
@given(batch=batches(longest=30), values=st.lists(st.floats(-1e4, 1e4, width=32), min_size=5, max_size=16))
def test_every_source_and_dtype(
    source: str, dtype: torch.dtype, batch: Batch, values: list[float], counted: Counted
) -> None:
    counted()
    torch.manual_seed(0)
    part = Ends(with_wild_parameters(source, torch.tensor(values))).to(dtype)
    vectors = torch.randn(*batch.mask.shape, 4).to(dtype).requires_grad_()
    at = part(vectors, batch.mask)
    assert at.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert_lawful(at[..., 0], batch.mask)
    if source != "uniform":
        at.sum().backward()
    for tensor in (vectors, *part.parameters()):
        assert tensor.grad is None or torch.isfinite(tensor.grad).all()


@pytest.mark.parametrize("source", ["uniform", "free", "warp", "content"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_autocast(source: str, dtype: torch.dtype, normalization: str) -> None:
    torch.manual_seed(0)
    vectors, mask = torch.randn(2, 64, 4), torch.arange(64) < torch.tensor([[64], [50]])
    values = adversary("mixed", 64)
    # Of `content` the network itself runs in half precision: its gradients must fit float16.
    span = with_wild_parameters(source, values / 100 if source == "content" else values)
    span.normalization = normalization
    plain = span(vectors, mask)
    with torch.autocast("cpu", dtype=dtype):
        at = span(vectors, mask)
    assert_lawful(at[..., 0], mask, normalization=normalization)
    if source != "content":  # whose network does run in half precision
        assert torch.equal(at, plain)
    if source != "uniform":
        at.mean().backward()
    assert all(torch.isfinite(p.grad).all() for p in span.parameters())


@pytest.mark.parametrize("source", ["uniform", "free", "warp"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sums_never_run_in_half_precision(source: str, dtype: torch.dtype) -> None:
    """A model in half precision: z is rounded, the coordinates are the exact ones of that z."""
    length = 2000
    span = Span(source=source, max_length=length, min_gap=0)
    with torch.no_grad():
        for parameter in span.parameters():
            parameter.copy_(torch.linspace(-2, 2, len(parameter)))
    span.to(dtype)
    vectors = torch.zeros(1, length, 4, dtype=dtype)
    at = span(vectors, everything(length))[0, :, 0]
    z = span.source(vectors, everything(length))[0].double().tolist()
    torch.testing.assert_close(at.double(), torch.tensor(papers(z), dtype=torch.float64), rtol=1e-5, atol=0)


def test_index_in_half_precision() -> None:
    at = Index()(torch.zeros(1, 5000, 2, dtype=torch.bfloat16), everything(5000))
    assert torch.equal(at[0, :, 0], torch.arange(5000.0))


@pytest.mark.parametrize("source", ["free", "warp", "content"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_non_finite_z_names_the_source(source: str, bad: float) -> None:
    span = Span(source=source, dim=4, max_length=8)
    with torch.no_grad():
        list(span.parameters())[-1].fill_(bad)
    with pytest.raises(ValueError, match=f"the coordinate source {source} gave NaN or infinity"):
        span(torch.zeros(1, 3, 4), everything(3))


def test_non_finite_z_of_an_own_source() -> None:
    with pytest.raises(ValueError, match="the coordinate source given gave NaN or infinity"):
        located(torch.tensor([[0.0, math.nan]]), everything(2))


def test_sources_start_uniform() -> None:
    for source in ("free", "warp", "content"):
        span = Span(source=source, dim=4, max_length=10)
        at = span(torch.randn(1, 10, 4), everything(10))[0, :, 0]
        torch.testing.assert_close(at, torch.arange(10.0, 101, 10), rtol=1e-6, atol=0)


def test_free_is_one_z_a_position() -> None:
    span = Span(source="free", max_length=5, min_gap=0)
    with torch.no_grad():
        span.source.z.copy_(torch.tensor([0.5, -1.0, 2.0, 0.0, 3.0]))
    at = span(None, torch.tensor([[False, True, True, True]]))
    expected = papers([0.5, -1.0, 2.0])
    torch.testing.assert_close(at[0, 1:, 0].tolist(), expected, rtol=1e-6, atol=0)


def test_free_past_max_length_names_warp() -> None:
    span = Span(source="free", max_length=4)
    assert span(None, everything(4)).shape == (1, 4, 1)
    padded = torch.tensor([[False, False, True, True, True, True, False]])
    assert span(None, padded).shape == (1, 7, 1)  # padding doesn't count
    with pytest.raises(ValueError, match=r'5 tokens is longer than max_length=4 .* "warp"'):
        span(None, everything(5))


def test_a_warp_has_as_many_knots_by_itself_as_in_a_span() -> None:
    assert Warp().z.shape == Span(source="warp").source.z.shape == (16,)


@settings(max_examples=40)
@given(knots=st.lists(MODERATE, min_size=2, max_size=8), length=st.integers(1, 50))
def test_warp_is_one_curve_for_all_lengths(knots: list[float], length: int, counted: Counted) -> None:
    counted()
    span = Span(source=Warp(knots=len(knots)), min_gap=0)
    with torch.no_grad():
        span.source.z.copy_(torch.tensor(knots))
    z = []
    for i in range(1, length + 1):
        place = (i - 0.5) / length * (len(knots) - 1)
        left = min(int(place), len(knots) - 2)
        z.append(knots[left] + (place - left) * (knots[left + 1] - knots[left]))
    at = span(None, everything(length))[0, :, 0]
    torch.testing.assert_close(at.double().tolist(), papers(z), rtol=5e-6, atol=0)


def test_content_reads_its_window() -> None:
    torch.manual_seed(0)
    content = Content(dim=3, before=2, after=1)
    nn.init.normal_(content.tell.weight)
    vectors = torch.randn(1, 7, 3)
    changed = vectors.clone()
    changed[0, 3] += 1
    moved = (content(vectors, everything(7)) != content(changed, everything(7)))[0]
    assert moved.tolist() == [
        False,
        False,
        True,
        True,
        True,
        True,
        False,
    ]  # token 3 is seen from 2, 3, 4 and 5


# --- Against the papers' loop


@pytest.mark.parametrize(
    "coordinates",
    [
        Span(source=Content(dim=3, before=2, after=1)),
        Running(source="content", dim=3),
        Elastic(Gate(dim=3)),
        Elastic(ContextGate(dim=3)),
    ],
)
def test_a_long_text_is_read_in_chunks(coordinates: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    words, mask = torch.randn(2, 23, 3, dtype=torch.float64), torch.rand(2, 23) > 0.2
    for parameter in coordinates.double().parameters():
        nn.init.normal_(parameter, std=0.5)
    whole = coordinates(words, mask)
    monkeypatch.setattr(chunks, "CHUNK", 5)
    with torch.no_grad():
        torch.testing.assert_close(coordinates(words, mask), whole.detach())


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
@settings(max_examples=60)
@given(z=st.lists(MODERATE, min_size=1, max_size=60))
def test_the_papers_formula(dtype: torch.dtype, tolerance: float, z: list[float], counted: Counted) -> None:
    counted()
    span = Span(source=Given(torch.tensor([z], dtype=dtype)), min_gap=0)
    at = span(torch.zeros(1, len(z), 0, dtype=dtype), everything(len(z)))[0, :, 0]
    assert at.dtype == dtype
    torch.testing.assert_close(at.double().tolist(), papers(z), rtol=tolerance, atol=0)


@settings(max_examples=60)
@given(
    z=st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=40),
    min_gap=st.sampled_from([0.0, 0.01, 0.3]),
)
def test_the_floor_mixes_in_the_uniform_gap(z: list[float], min_gap: float, counted: Counted) -> None:
    counted()
    at, _ = located(torch.tensor([z]), everything(len(z)), min_gap=min_gap)
    line = papers(z)
    mixed = [(1 - min_gap) * s + min_gap * 100 * (i + 1) / len(z) for i, s in enumerate(line)]
    torch.testing.assert_close(at[0].double().tolist(), mixed, rtol=1e-5, atol=1e-5)


@settings(max_examples=40)
@given(z=st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=40))
def test_the_running_coordinate(z: list[float], counted: Counted) -> None:
    counted()
    at = Running(source=Given(torch.tensor([z])), min_gap=0.01)(None, everything(len(z)))[0, :, 0]
    expected = torch.tensor(
        [0.99 * math.log1p(math.exp(value)) + 0.01 for value in z], dtype=torch.float64
    ).cumsum(0)
    torch.testing.assert_close(at, expected, rtol=1e-6, atol=0)


def test_a_projection_gives_a_running_coordinate_per_line() -> None:
    """R_h = cumsum(softplus(w_h . e + b_h)), in order beside others, and from the gaps of a cache too."""
    torch.manual_seed(0)
    sums = Running(source=Projection(dim=3, lines=2), min_gap=0)
    nn.init.normal_(sums.source.linear.weight)
    nn.init.normal_(sums.source.linear.bias)
    vectors, mask = torch.randn(2, 5, 3), torch.tensor([[1, 1, 1, 1, 1], [0, 1, 1, 1, 0]]).bool()
    at = sums(vectors, mask)
    for text, line in ((0, 0), (0, 1), (1, 0), (1, 1)):
        z = (
            vectors[text, mask[text]] @ sums.source.linear.weight[line]
            + sums.source.linear.bias[line]
            + UNIT_Z
        )
        torch.testing.assert_close(at[text, mask[text], line], z.exp().log1p().double().cumsum(0))
    joined = Joined(Running(), sums, Index())
    assert torch.equal(joined(vectors, mask)[..., 1:3], at)
    begun = Joined(Start(Running()), sums)
    assert torch.equal(begun.locate(begun.gaps(vectors, mask), mask), begun(vectors, mask))


def test_several_z_per_token_are_as_many_spans() -> None:
    torch.manual_seed(0)
    source = Projection(dim=3, lines=2)
    nn.init.normal_(source.linear.weight)
    vectors, times = torch.randn(1, 4, 3), torch.tensor([[[0.0], [1.0], [5.0], [6.0]]])
    at = Span(source=source)(vectors, everything(4), times)
    for line in range(2):
        z = Given(source(vectors, everything(4))[..., line].detach())
        torch.testing.assert_close(at[..., line : line + 1], Span(source=z)(None, everything(4), times))
    with pytest.raises(ValueError, match="Start reads one running coordinate"):
        Start(Running(source=source))
    with pytest.raises(ValueError, match="lines=0; it must be 1 or more"):
        Projection(dim=3, lines=0)


@settings(max_examples=40)
@given(batch=batches(MODERATE, longest=30))
def test_sum_adds_up_to_100(batch: Batch, counted: Counted) -> None:
    """Constraint (2) of the papers, taken literally: 100 R_i / (R_1 + ... + R_n)."""
    counted()
    at, _ = located(batch.z, batch.mask, normalization="sum", min_gap=0)
    for row, real in enumerate(batch.mask):
        line = papers(batch.z[row, real].tolist())
        torch.testing.assert_close(
            at[row, real].tolist(), [100 * s / sum(line) for s in line], rtol=1e-5, atol=0
        )


def test_the_span_of_ten_uniform_tokens_adds_up_to_550() -> None:
    at = Span(source="uniform")(None, everything(10))[0, :, 0]
    torch.testing.assert_close(at, torch.arange(10.0, 101, 10), rtol=1e-6, atol=0)
    assert at.sum().item() == pytest.approx(550, rel=1e-6)


def test_soft_bounds_start_hard_and_then_leave_the_range() -> None:
    hard, soft = Span(source="uniform"), Span(source="uniform", bounds="soft")
    assert torch.equal(hard(None, everything(9)), soft(None, everything(9)))
    with torch.no_grad():
        soft.bounds.offset.fill_(-20)
        soft.bounds.log_scale.fill_(math.log(1.5))
    at = soft(None, everything(10))[0, :, 0]
    torch.testing.assert_close(at, 1.5 * torch.arange(10.0, 101, 10) - 20)
    at[0].backward()
    assert soft.bounds.offset.grad.item() == 1
    torch.testing.assert_close(soft.bounds.log_scale.grad.item(), 15.0)


# --- Edge cases


@pytest.mark.parametrize("source", ["uniform", "free", "warp", "content"])
def test_one_token(source: str) -> None:
    span = Span(source=source, dim=2, max_length=3)
    at = span(torch.zeros(1, 1, 2), everything(1))
    assert at.flatten().tolist() == [100]
    assert smoothness(at, everything(1)) == 0
    padded = torch.tensor([[False, True, False], [True, True, True]])
    assert span(torch.zeros(2, 3, 2), padded)[0, :, 0].tolist() == [100, 100, 100]


@pytest.mark.parametrize("part", [Index(), Span(source="uniform"), Running(), Ends(Span())], ids=repr)
def test_a_row_without_a_real_token(part: nn.Module) -> None:
    with pytest.raises(ValueError, match="row 1 of the batch has no real token"):
        part(None, torch.tensor([[True, False], [False, False]]))
    with pytest.raises(ValueError, match="row 0 of the batch has no real token"):
        part(None, torch.ones(1, 0, dtype=torch.bool))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Span(source="fre"), "source='fre' is not known; take one of uniform, free, warp, content"),
        (
            lambda: Span(normalization="mean"),
            "normalization='mean' is not known; take one of span, sum, none",
        ),
        (lambda: Span(bounds="loose"), "bounds='loose' is not known; take one of hard, soft"),
        (lambda: Span(bounds="soft", normalization="none"), 'bounds="soft" needs a normalized coordinate'),
        (lambda: Span(min_gap=1.0), r"min_gap=1.0; .* must be in \[0, 1\)"),
        (lambda: Span(min_gap=-0.1), r"min_gap=-0.1; .* must be in \[0, 1\)"),
        (lambda: Span(source="free"), 'the source "free" needs max_length='),
        (lambda: Span(source="content"), 'the source "content" needs dim='),
        (lambda: Warp(knots=1), "knots=1; a curve needs at least 2"),
        (
            lambda: Span(source="content", dim=2)(None, everything(2)),
            'the source "content" needs vectors',
        ),
    ],
)
def test_messages(make: Callable[[], object], message: str) -> None:
    with unchecked(), pytest.raises(ValueError, match=message):
        make()


# --- Causality


def causal_parts() -> list[nn.Module]:
    torch.manual_seed(0)
    parts = [
        Index(),
        Running(),
        Running(source="free", max_length=60),
        Running(source=Content(dim=3, before=2, after=0)),
        Running(source=Projection(dim=3, lines=2)),
    ]
    parts.append(Span(source="uniform", normalization="none"))
    for part in parts:
        for parameter in part.parameters():
            nn.init.normal_(parameter)
    return parts


def anticausal_parts() -> list[nn.Module]:
    parts: list[nn.Module] = [Span(source=source, max_length=60) for source in ("uniform", "free", "warp")]
    parts += [
        Span(source="uniform", normalization="sum"),
        Ends(Span(source="uniform")),
        Jitter(Span(), shift=1),
    ]
    return parts


@pytest.mark.parametrize("part", causal_parts(), ids=repr)
@settings(max_examples=25)
@given(prefix=st.integers(1, 30), more=st.integers(1, 30))
def test_a_causal_prefix_never_moves(part: nn.Module, prefix: int, more: int, counted: Counted) -> None:
    counted()
    assert part.causal
    torch.manual_seed(prefix)
    vectors = torch.randn(1, prefix + more, 3)
    whole = part(vectors, everything(prefix + more))[:, :prefix]
    alone = part(vectors[:, :prefix], everything(prefix))
    torch.testing.assert_close(alone, whole, rtol=1e-6 if part.per_sentence else 1e-14, atol=0)


def test_a_causal_prefix_never_moves_however_long_the_text() -> None:
    """Also across the length past which a span is computed in float64."""
    torch.manual_seed(0)
    running = Running(source="free", max_length=20_000)
    nn.init.normal_(running.source.z)
    whole = running(None, everything(20_000))
    torch.testing.assert_close(running(None, everything(400)), whole[:, :400], rtol=1e-14, atol=0)


@pytest.mark.parametrize("part", anticausal_parts(), ids=repr)
def test_others_are_not_causal(part: nn.Module) -> None:
    assert not part.causal
    part = part.eval()
    assert not torch.allclose(part(None, everything(4)), part(None, everything(8))[:, :4])


def test_causality_follows_the_parts() -> None:
    assert not Span(source="warp", normalization="none").causal
    assert not Span(source="content", dim=2, normalization="none").causal
    assert Span(source=Content(dim=2, after=0), normalization="none").causal
    assert Jitter(Running()).causal
    assert not Jitter(Ends(Span())).causal


# --- Ends and jitter


@settings(max_examples=40)
@given(batch=batches(longest=60))
def test_ends_count_tokens_from_either_end_whatever_the_gaps(batch: Batch, counted: Counted) -> None:
    counted()
    span = with_wild_parameters("warp", torch.linspace(-3, 3, 16))
    at = Ends(span)(None, batch.mask)
    assert torch.equal(at[..., :1], span(None, batch.mask))
    for row, real in enumerate(batch.mask):
        count = torch.arange(float(real.sum()))
        torch.testing.assert_close(at[row, real, 1], count, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(at[row, real, 2], count.flip(0), rtol=1e-6, atol=1e-6)


@settings(max_examples=25)
@given(batch=batches(), shift=st.floats(0.1, 10), seed=st.integers(0, 1000))
def test_jitter_is_one_number_a_sentence(batch: Batch, shift: float, seed: int, counted: Counted) -> None:
    counted()
    torch.manual_seed(seed)
    plain = Ends(Span(source="uniform"))
    jitter = Jitter(plain, shift=shift)
    expected = plain(None, batch.mask)
    off = jitter(None, batch.mask) - expected
    assert jitter.per_sentence
    assert torch.equal(off[..., 1:], torch.zeros_like(off[..., 1:]))
    torch.testing.assert_close(off[..., :1], off[:, :1, :1].expand_as(off[..., :1]), rtol=0, atol=1e-4)
    assert off.abs().max() <= shift + 1e-4
    assert torch.equal(jitter.eval()(None, batch.mask), expected)
    assert not jitter.per_sentence


def test_jitter_draws_for_every_sentence_over_its_whole_range() -> None:
    torch.manual_seed(0)
    mask = torch.ones(4000, 2, dtype=torch.bool)
    off = Jitter(Span(source="uniform"), shift=6)(None, mask)[:, 1, 0] - 100
    assert len(off.unique()) > 3900
    assert off.min() < -5.9
    assert off.max() > 5.9
    assert abs(off.mean()) < 0.3


def test_unit_gap() -> None:
    assert math.log1p(math.exp(UNIT_Z)) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("level", [torch.ones(2, 5, 1), torch.ones(2, 5, dtype=torch.bool)])
def test_a_gate_of_ones_own_that_gives_no_level_is_named(level: Tensor) -> None:
    class Given(nn.Module):
        def forward(self, vectors: Tensor | None, mask: Tensor) -> Tensor:
            return level

    given = re.escape(
        f"the gate Given returned {level.dtype} of the shape {tuple(level.shape)} for a mask of"
    )
    with unchecked(), pytest.raises(ValueError, match=given):
        Elastic(Given())(None, torch.ones(2, 5, dtype=torch.bool))


def test_a_gate_is_a_module() -> None:
    with unchecked(), pytest.raises(TypeError, match=r"the gate 'content' is not a module; give an object"):
        Elastic("content")
