"""Biases: against transformers' BLOOM and T5, against loops written from the papers' formulas, and on the
whole encoder.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from transformers import T5Config
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.t5.modeling_t5 import T5Attention

from conftest import unchecked
from vnait.model import seed_weights
from vnait.model.backbone import Encoder
from vnait.positions.coordinates import Elastic, Gate, Index, Running
from vnait.positions.encodings import (
    AlibiBias,
    Axis,
    CableBias,
    Fire,
    Kerple,
    Prefix,
    ShawBias,
    T5Bias,
    alibi_slopes,
)
from vnait.positions.injection import PairBias
from vnait.positions.method import Method
from vnait.shared import chunks
from vnait_lab.studies.contacts import Contacts

HEADS = 6
LONGEST = 32
MAKE: dict[str, Callable[[], nn.Module]] = {
    "slopes": lambda: AlibiBias(num_heads=HEADS),
    "buckets": lambda: T5Bias(num_heads=HEADS, num_buckets=8, max_distance=12),
    "buckets-causal": lambda: T5Bias(num_heads=HEADS, num_buckets=8, max_distance=20, bidirectional=False),
    "relative": lambda: ShawBias(num_heads=HEADS, max_distance=4),
    "kerple": lambda: Kerple(num_heads=HEADS),
    "fire": lambda: Fire(num_heads=HEADS, hidden=5, threshold=3.0),
    "decay": lambda: CableBias(num_heads=HEADS),
    "decay-heads": lambda: CableBias(num_heads=HEADS, form="heads"),
    "prefix": lambda: Prefix(num_heads=HEADS, knots=5),
    "contacts": lambda: Contacts(num_heads=HEADS, contacts=torch.eye(LONGEST)),
}
BOTH = [torch.float32, torch.float64]
CLOSE = {torch.float32: {"rtol": 1e-5, "atol": 1e-5}, torch.float64: {"rtol": 1e-10, "atol": 1e-10}}


ONE_AXIS = [name for name in MAKE if name != "decay-heads"]
RELATIVE = [name for name in MAKE if name not in ("prefix", "contacts")]
ANYWHERE = [name for name in MAKE if name != "contacts"]  # a map of pairs ends


@pytest.fixture(params=list(MAKE))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def part_of(name: str) -> nn.Module:
    """The part with every parameter off its start."""
    torch.manual_seed(0)
    part = MAKE[name]()
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return part


def places(name: str, *, sentences: int = 2, tokens: int = 6, dtype: torch.dtype = torch.float64) -> Tensor:
    """Fractional coordinates of every sentence's own, in no order, past the tables' ends too."""
    axes = HEADS if name == "decay-heads" else 2
    generator = torch.Generator().manual_seed(3)
    at = torch.rand(sentences, tokens, axes, generator=generator, dtype=torch.float64) * 30 - 4
    at = at.abs() if name == "contacts" else at
    return at.float().to(dtype)  # what float32 can hold, so that both precisions see the same places


def line(*numbers: float, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor(numbers, dtype=dtype)[None, :, None]


# --- Against transformers


@pytest.mark.parametrize("num_heads", range(1, 17))
def test_blooms_alibi(num_heads: int) -> None:
    """BLOOM leaves out what is the same for a whole row: its number for key j is ours plus m_h i."""
    keep = torch.tensor([[1] * 9, [0, 0] + [1] * 7, [1] * 5 + [0] * 4])
    theirs = build_alibi_tensor(keep, num_heads, torch.float32).view(3, num_heads, 1, 9)
    words = torch.zeros(3, 9, 4)
    output = Method(coordinates=Index(), encoding=AlibiBias(num_heads=num_heads))(words, keep.bool())
    difference = theirs - theirs.transpose(-1, -2)  # b_j - b_i = -m_h (i - j)
    real = (keep[:, None, :, None] * keep[:, None, None, :]).bool().expand_as(difference)
    bias = output.injection.dense().bias
    torch.testing.assert_close(bias[real], -difference.abs()[real], rtol=1e-5, atol=1e-5)
    before = real & torch.ones(9, 9, dtype=torch.bool).tril()
    torch.testing.assert_close(bias[before], difference[before], rtol=1e-5, atol=1e-5)
    assert torch.equal(bias, bias.transpose(-1, -2))


@pytest.mark.parametrize("num_heads", [1, 2, 4, 8])
def test_blooms_alibi_in_float64(num_heads: int) -> None:
    """With heads whose slopes float32 holds, for BLOOM computes them there: weights and the gradients of what
    they average.
    """
    theirs = build_alibi_tensor(torch.ones(1, 9), num_heads, torch.float64).view(1, num_heads, 1, 9)
    bias = AlibiBias(num_heads=num_heads)(torch.arange(9.0, dtype=torch.float64)[None, :, None]).dense().bias
    torch.manual_seed(0)
    hidden = torch.ones(9, 9).triu(1).bool()
    gradients = []
    for output in (bias, theirs):
        scores = torch.randn(
            1, num_heads, 9, 9, generator=torch.Generator().manual_seed(1), dtype=torch.float64
        ).requires_grad_()
        weights = (scores + output).masked_fill(hidden, -torch.inf).softmax(-1)
        gradients.append((weights, *torch.autograd.grad(weights.square().sum(), scores)))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("num_heads", range(1, 33))
def test_slopes_in_float64(num_heads: int) -> None:
    """The paper's code's recursion, in exact powers of two: exponents, not products."""

    def exponents(heads: int) -> list[float]:
        if math.log2(heads).is_integer():
            return [-8 * k / heads for k in range(1, heads + 1)]
        below = 2 ** math.floor(math.log2(heads))
        return exponents(below) + exponents(2 * below)[0::2][: heads - below]

    assert alibi_slopes(num_heads) == pytest.approx([2**e for e in exponents(num_heads)], rel=1e-14)
    output = AlibiBias(num_heads=num_heads)(line(0, 1, dtype=torch.float64)).dense().bias[0, :, 0, 1]
    assert (-output).tolist() == pytest.approx([2**e for e in exponents(num_heads)], rel=1e-14)


def test_published_slopes() -> None:
    assert alibi_slopes(8) == [2.0**-k for k in range(1, 9)]
    assert alibi_slopes(6) == [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(
    ("num_buckets", "max_distance"), [(32, 128), (32, 64), (16, 100), (64, 1000), (4, 3)]
)
def test_t5s_buckets(bidirectional: bool, num_buckets: int, max_distance: int) -> None:
    offsets = torch.arange(-3000, 3001)
    ours = T5Bias(
        num_heads=1, num_buckets=num_buckets, max_distance=max_distance, bidirectional=bidirectional
    ).bucket(offsets)
    theirs = T5Attention._relative_position_bucket(offsets, bidirectional, num_buckets, max_distance)
    assert (ours != theirs).sum() == 0


@pytest.mark.parametrize("bidirectional", [True, False])
def test_t5s_buckets_are_read_at_every_distance(bidirectional: bool) -> None:
    """Not the rule alone: the bias of a pair is its bucket's row, also past the table's ends."""
    buckets = T5Bias(num_heads=1, bidirectional=bidirectional)
    with torch.no_grad():
        buckets.weight.copy_(torch.arange(32.0)[:, None])
        offsets = torch.arange(-3000.0, 3001.0)[::7]
        rows = [buckets(line(0, *some.tolist())).dense().bias[0, 0, 0, 1:] for some in offsets.split(60)]
    theirs = T5Attention._relative_position_bucket(offsets.long(), bidirectional)
    assert torch.equal(torch.cat(rows).long(), theirs)


def test_a_table_read_as_on_cuda_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """There it is an embedding, for its gradient."""
    torch.manual_seed(0)
    bias, at = ShawBias(num_heads=2, max_distance=2, start=1.0), torch.rand(2, 5, 1) * 8
    weight = torch.randn(2, 2, 5, 5)

    def found() -> tuple[Tensor, Tensor]:
        output = bias(at).dense().bias
        return output, *torch.autograd.grad((output * weight).sum(), bias.weight)

    expected = found()
    monkeypatch.setattr(Tensor, "is_cuda", True)
    torch.testing.assert_close(found(), expected)


def test_where_t5s_last_bucket_starts() -> None:
    two_ways, one_way = (T5Bias(num_heads=1, bidirectional=both) for both in (True, False))
    back = -torch.arange(0, 200)
    assert (two_ways.bucket(back) == 15).nonzero()[0] == 91
    assert (two_ways.bucket(-back) == 31).nonzero()[0] == 91
    assert (one_way.bucket(back) == 31).nonzero()[0] == 113
    assert len(two_ways.bucket(torch.arange(-200, 201)).unique()) == 31


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("bidirectional", [True, False])
def test_t5s_bias_with_copied_weights(bidirectional: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    config = T5Config(num_heads=4, d_model=16, d_kv=4, is_decoder=not bidirectional)
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0).to(dtype)
    ours = T5Bias(num_heads=4, bidirectional=bidirectional).to(dtype)
    ours.load_state_dict(theirs.relative_attention_bias.state_dict())
    words, keep = torch.zeros(1, 200, 4), torch.ones(1, 200, dtype=torch.bool)
    output, expected = (
        Method(coordinates=Index(), encoding=ours)(words, keep).injection.dense().bias,
        theirs.compute_bias(200, 200),
    )
    assert output.dtype == dtype
    torch.testing.assert_close(output, expected, **CLOSE[dtype])
    weight = torch.randn(output.shape, dtype=dtype) / 200
    (output * weight).sum().backward()
    (expected * weight).sum().backward()
    torch.testing.assert_close(ours.weight.grad, theirs.relative_attention_bias.weight.grad, **CLOSE[dtype])


# --- Against the formulas, pair by pair


def softplus(x: Tensor) -> Tensor:
    return torch.log(1 + torch.exp(x))


def between(value: Callable[[int], Tensor], offset: Tensor) -> Tensor:
    """Linear from integer to integer."""
    left = math.floor(offset.item())
    return value(left) + (offset - left) * (value(left + 1) - value(left))


def t5(part: T5Bias, offset: Tensor, head: int) -> Tensor:
    size, way = part.num_buckets, part.bidirectional

    def value(number: int) -> Tensor:
        row = T5Attention._relative_position_bucket(torch.tensor(number), way, size, part.max_distance)
        return part.weight[row, head]

    return between(value, offset)


def fire(part: Fire, q: Tensor, k: Tensor, first: Tensor, head: int) -> Tensor:
    c, threshold = torch.exp(part.log_c), torch.exp(part.log_threshold)
    i = q - first.detach()
    ratio = torch.log(c * abs(q - k) + 1) / torch.log(c * (i if i > threshold else threshold) + 1)
    one, _, two = part.mlp
    out = two.bias[head]
    for unit in range(len(one.bias)):
        x = one.weight[unit, 0] * ratio + one.bias[unit]
        out = out + two.weight[head, unit] * (x if x > 0 else 0 * x)
    return out


def prefix(part: Prefix, q: Tensor, k: Tensor, head: int) -> Tensor:
    share = 0 * q + 1 if q <= 0 or k >= q else 0 * q if k < 0 else k / q
    last = len(part.weight) - 1
    return between(lambda number: part.weight[min(number, last), head], share * last)


def contacts(part: Contacts, q: Tensor, k: Tensor, head: int) -> Tensor:
    return between(lambda row: between(lambda column: part.weight[head, row, column], k), q)


FORMULAS: dict[str, Callable[[nn.Module, Tensor, Tensor, Tensor, int], Tensor]] = {
    "slopes": lambda part, q, k, first, h: -alibi_slopes(HEADS)[h] * abs(q[0] - k[0]),
    "buckets": lambda part, q, k, first, h: t5(part, k[0] - q[0], h),
    "buckets-causal": lambda part, q, k, first, h: t5(part, k[0] - q[0], h),
    "relative": lambda part, q, k, first, h: between(
        lambda number: part.weight[min(max(number, -4), 4) + 4, h], k[0] - q[0]
    ),
    "kerple": lambda part, q, k, first, h: (
        -softplus(part.raw_r1[h]) * torch.log(1 + softplus(part.raw_r2[h]) * abs(q[0] - k[0]))
    ),
    "fire": lambda part, q, k, first, h: fire(part, q[0], k[0], first[0], h),
    "decay": lambda part, q, k, first, h: -torch.exp(part.log_slope[h]) * abs(q[0] - k[0]),
    "decay-heads": lambda part, q, k, first, h: -abs(q[h] - k[h]),
    "prefix": lambda part, q, k, first, h: prefix(part, q[0], k[0], h),
    "contacts": lambda part, q, k, first, h: contacts(part, q[0], k[0], h),
}


def looped(name: str, part: nn.Module, at: Tensor) -> Tensor:
    """The formula for each head, query and key, one number at a time, in float64."""
    formula = FORMULAS[name]
    return torch.stack(
        [
            torch.stack([formula(part, query, key, row[0], head) for query in row for key in row])
            for row in at
            for head in range(HEADS)
        ]
    ).view(len(at), HEADS, at.shape[1], at.shape[1])


@pytest.mark.parametrize("dtype", BOTH)
def test_the_formula_values_and_gradients(name: str, dtype: torch.dtype) -> None:
    part = part_of(name)
    reference = copy.deepcopy(part).double()
    part.to(dtype)
    at, exact = places(name, dtype=dtype).requires_grad_(), places(name).requires_grad_()
    output, expected = part(at).dense().bias, looped(name, reference, exact)
    assert output.dtype == dtype
    torch.testing.assert_close(output, expected.to(dtype), **CLOSE[dtype])
    weight = torch.randn(expected.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64) / 6
    (output * weight.to(dtype)).sum().backward()
    (expected * weight).sum().backward()
    torch.testing.assert_close(at.grad, exact.grad.to(dtype), **CLOSE[dtype])
    for ours, theirs in zip(part.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad.to(dtype), **CLOSE[dtype])


def test_the_references_see_both_sides_of_every_branch() -> None:
    """Else the loops would prove less than they seem to."""
    at = places("fire")[..., 0]
    since_first = at - at[:, :1]
    assert (since_first > 4).any()
    assert (since_first < 0).any()
    distance = (at[:, :, None] - at[:, None, :]).abs()
    assert (distance > 20).any()  # past every table
    assert ((distance > 0) & (distance < 1)).any()
    query, key = at[:, :, None], at[:, None, :]
    for side in (query <= 0, (query > 0) & (key < 0), (key > 0) & (key < query), (query > 0) & (key > query)):
        assert side.any()


def test_free_heads_of_cable_have_no_position() -> None:
    at = torch.tensor([[[1.0, 5.0], [4.0, 7.0]]])
    bias = CableBias(num_heads=3, form="heads", free=1)(at).dense().bias
    assert bias[0, :, 1, 0].tolist() == [-3, -2, 0]


@pytest.mark.parametrize("dtype", BOTH)
def test_cable(dtype: torch.dtype) -> None:
    """The paper: b_ij = S_i - S_j with S = cumsum(-softplus(W x + b)), for keys not after the query; values,
    and gradients of W and b.
    """
    torch.manual_seed(0)
    words, project = torch.randn(2, 7, 5, dtype=torch.float64), nn.Linear(5, 3).double()
    ours = copy.deepcopy(project).to(dtype)
    output = (
        CableBias(num_heads=3, form="heads")(nn.functional.softplus(ours(words.to(dtype))).cumsum(1))
        .dense()
        .bias
    )
    steps = (1 + project(words).exp()).log()
    before = torch.ones(7, 7).tril().bool()
    expected = torch.stack(
        [
            -sum(steps[sentence, j + 1 : i + 1, head], start=steps.new_zeros(()))
            for sentence in range(2)
            for head in range(3)
            for i in range(7)
            for j in range(i + 1)
        ]
    ).view(2, 3, -1)
    torch.testing.assert_close(output[..., before], expected.to(dtype), **CLOSE[dtype])
    weight = torch.randn(expected.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64) / 6
    (output[..., before] * weight.to(dtype)).sum().backward()
    (expected * weight).sum().backward()
    for one, other in zip(ours.parameters(), project.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad.to(dtype), **CLOSE[dtype])


def test_decay_over_uniform_gaps_starts_as_alibi() -> None:
    mask = torch.ones(1, 6, dtype=torch.bool)
    decay = CableBias(num_heads=4)(Running()(None, mask)).dense().bias
    torch.testing.assert_close(decay, AlibiBias(num_heads=4)(Index()(None, mask)).dense().bias)


# --- Laws of every part


def test_shape_and_precision(name: str) -> None:
    part = part_of(name)
    for at in (places(name, dtype=torch.float32), places(name, sentences=1, tokens=1, dtype=torch.float32)):
        output = part(at)
        assert output.dense().bias.shape == (len(at), HEADS, at.shape[1], at.shape[1])
        assert output.dense().bias.dtype == torch.float32
        assert (output.added, output.rotary, output.scale) == (None, None, None)


def test_no_tokens(name: str) -> None:
    assert part_of(name)(torch.zeros(2, 0, HEADS)).dense().bias.shape == (2, HEADS, 0, 0)


@torch.no_grad()
def test_a_few_queries_at_a_time_give_the_bias_of_all(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three queries, and the one that is left; also for the new tokens of a decoder."""
    injection = part_of(name)(places(name, tokens=7))
    later = injection.since(2)
    whole, new = injection.dense().bias, later.dense().bias
    monkeypatch.setattr(chunks, "PAIRS", 2 * 7 * 3)
    assert torch.equal(injection.dense().bias, whole)
    assert torch.equal(later.dense().bias, new) and new.shape[2] == 5


def test_keys_lie_side_by_side_in_memory(name: str) -> None:
    """PyTorch's fused attention asks it of a bias, and falls back without it."""
    assert part_of(name)(places(name)).dense().bias.stride(-1) == 1


@settings(max_examples=30)
@given(shift=st.integers(-(2**20), 2**20), halves=st.lists(st.integers(-60, 60), min_size=1, max_size=6))
def test_a_shift_of_all_coordinates_changes_nothing(shift: int, halves: list[int]) -> None:
    for name in RELATIVE:
        part, axes = part_of(name), HEADS if name == "decay-heads" else 1
        at = torch.tensor(halves, dtype=torch.float64)[None, :, None].expand(-1, -1, axes) / 2
        assert torch.equal(part(at).dense().bias, part(at + shift).dense().bias)


def test_who_claims_that_a_shift_changes_nothing(name: str) -> None:
    part = part_of(name)
    assert getattr(part, "relative", False) == (name in RELATIVE)
    if name not in RELATIVE:
        at = places(name).abs()
        assert (part(at).dense().bias - part(at + 2).dense().bias).abs().max() > 0.01


# FIRE divides by the query's own coordinate
@pytest.mark.parametrize("name", [name for name in RELATIVE if name != "fire"])
def test_the_bias_depends_on_the_distance_alone(name: str) -> None:
    axes = HEADS if name == "decay-heads" else 1
    output = part_of(name)((torch.arange(9.0) * 1.25)[None, :, None].expand(-1, -1, axes)).dense().bias
    # To rounding: a processor takes most of a row's logarithms and powers at once, and the last ones singly.
    assert torch.allclose(
        output[..., 1:, 1:], output[..., :-1, :-1], rtol=4 * torch.finfo(output.dtype).eps, atol=0
    )


def test_fire_divides_by_the_query_and_not_by_the_key() -> None:
    output = part_of("fire")(line(0, 2, 20)).dense().bias[0]
    within = part_of("fire")(line(0, 2)).dense().bias[0]
    torch.testing.assert_close(output[:, :2, :2], within)  # no token depends on those behind it
    assert (output[:, 0, 2] - output[:, 2, 0]).abs().min() > 1e-4


def test_the_first_index_is_the_query() -> None:
    """A table that knows one offset, the key one step before the query: the diagonal below the main one."""
    before = torch.diag(torch.ones(3), -1)
    relative, buckets = ShawBias(num_heads=1, max_distance=2), T5Bias(num_heads=1)
    with torch.no_grad():
        relative.weight[1] = 1
        buckets.weight[1] = 1
    for part in (relative, buckets):
        assert torch.equal(part(line(0, 1, 2, 3)).dense().bias[0, 0], before)


def test_gradients_reach_the_coordinates_and_every_parameter(name: str) -> None:
    part = part_of(name)
    at = torch.tensor([0.3, 1.1, 2.9, 4.6])[None, :, None].repeat(2, 1, HEADS).requires_grad_()
    weight = torch.randn(2, HEADS, 4, 4, generator=torch.Generator().manual_seed(5))
    (part(at).dense().bias * weight).sum().backward()
    reached = at.grad if name == "decay-heads" else at.grad[..., 0]
    assert (reached != 0).all()
    for label, parameter in part.named_parameters():
        assert parameter.grad is not None, label
        assert (parameter.grad != 0).any(), label


def test_gradients_are_finite_where_tokens_share_a_place(name: str) -> None:
    part = part_of(name)
    at = torch.tensor([5.0, 5.0, 5.0, 9.0])[None, :, None].repeat(1, 1, HEADS).requires_grad_()
    output = part(at).dense().bias
    (output * torch.randn(output.shape, generator=torch.Generator().manual_seed(5))).sum().backward()
    assert torch.isfinite(output).all()
    assert torch.isfinite(at.grad).all()
    assert all(torch.isfinite(parameter.grad).all() for parameter in part.parameters())


@pytest.mark.parametrize("name", ANYWHERE)
def test_no_bias_is_infinite(name: str) -> None:
    axes = HEADS if name == "decay-heads" else 1
    at = torch.tensor([-1e7, 0.0, 1e-7, 1e7])[None, :, None].expand(-1, -1, axes)
    assert torch.isfinite(part_of(name)(at).dense().bias).all()


def test_kerples_numbers_stay_in_their_range() -> None:
    kerple = Kerple(num_heads=3)
    with torch.no_grad():
        for raw in (kerple.raw_r1, kerple.raw_r2):
            raw.copy_(torch.tensor([-30.0, 0.0, 30.0]))
    assert (kerple(line(0, 2.0)).dense().bias[0, :, 0, 1] < 0).all()


# --- Precision


@pytest.mark.parametrize("name", ANYWHERE)
def test_distances_are_never_in_half_precision(name: str) -> None:
    """8,192 tokens: a model in bfloat16, and autocast, change the parameters' rounding and not the
    places'.
    """
    part = part_of(name)
    axes = HEADS if name == "decay-heads" else 1
    at = torch.arange(8160.0, 8192.0)[None, :, None].expand(-1, -1, axes)
    exact = part(at).dense().bias
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(part(at).dense().bias, exact)
    rounded = part.bfloat16()
    output = rounded(at).dense().bias
    assert output.dtype == torch.float32
    assert torch.equal(output, copy.deepcopy(rounded).float()(at).dense().bias)


@pytest.mark.parametrize("name", RELATIVE)
def test_coordinates_far_away_keep_their_distances(name: str) -> None:
    axes = HEADS if name == "decay-heads" else 1
    near = torch.tensor([0.0, 0.25, 1.5])[None, :, None].expand(-1, -1, axes)
    part = part_of(name)
    torch.testing.assert_close(
        part(near.double() + 2**40).dense().bias.float(), part(near).dense().bias, rtol=1e-6, atol=1e-6
    )


def test_neighbours_stay_apart_at_8192_tokens() -> None:
    at = torch.arange(8192.0)[None, :, None]
    for name in ("slopes", "kerple", "decay"):
        part = part_of(name).bfloat16()
        whole = part(torch.cat([at[:, :1], at[:, -64:]], 1)).dense().bias[0, :, 0, 1:]
        assert (whole.diff(dim=-1) < 0).all()
    part = Prefix(num_heads=1, knots=3)
    with torch.no_grad():
        part.weight.copy_(torch.tensor([[0.0], [1.0], [3.0]]))
    assert (part.bfloat16()(torch.cat([at[:, :1], at[:, -64:]], 1)).dense().bias[0, 0, -1].diff() > 0).all()


# --- The share of the prefix


@settings(max_examples=40)
@given(
    gaps=st.lists(st.floats(0.01, 50), min_size=2, max_size=9),
    cut=st.integers(1, 8),
    factor=st.sampled_from([0.5, 8.0]),
)
def test_every_prefix_is_a_sentence_of_its_own(gaps: list[float], cut: int, factor: float) -> None:
    """Exactly: what follows changes nothing, and neither does the unit."""
    part, at = part_of("prefix"), torch.tensor(gaps, dtype=torch.float64).cumsum(0)[None, :, None]
    whole, prefix = part(at).dense().bias, part(at[:, :cut]).dense().bias
    assert torch.equal(whole[:, :, :cut, :cut], prefix)
    assert torch.equal(part(at * factor).dense().bias, whole)


def test_a_prefix_is_read_along_its_knots() -> None:
    part = Prefix(num_heads=2, knots=5)
    with torch.no_grad():
        part.weight.copy_(torch.tensor([[0.0, 0], [1, 0], [4, 0], [9, 0], [16, 1]]))
    output = part(line(0, 2, 4, 8)).dense().bias[0]
    expected = [
        [16.0, 16, 16, 16],
        [0, 16, 16, 16],
        [0, 4, 16, 16],
        [0, 1, 4, 16],
    ]  # nothing before a query at 0: all are at 1
    assert output[0].tolist() == expected
    assert output[1].tolist() == [[float(number == 16) for number in row] for row in expected]
    assert part(line(-3, 8)).dense().bias[0, 0].tolist() == [[16, 16], [0, 16]]


def test_a_prefix_has_finite_gradients_wherever_it_begins() -> None:
    part = part_of("prefix")
    for numbers in (
        [0.0, 0.0, 1.0],
        [-2.0, 0.0, 3.0],
        [1e-30, 5.0, 1e7],
        [1e-30, 1e-30, 2.0],
        [4.0, 4.0, 4.0],
    ):
        at = line(*numbers).requires_grad_()
        output = part(at).dense().bias
        (
            output * torch.randn(output.shape, generator=torch.Generator().manual_seed(5))
        ).tril().sum().backward()
        assert torch.isfinite(output).all()
        assert torch.isfinite(at.grad).all()


def test_a_prefix_of_learned_gaps() -> None:
    """In a method, on `Running` coordinates, whatever follows and on either side of the padding."""
    torch.manual_seed(0)
    method = Method(coordinates=Running(source="content", dim=4), encoding=part_of("prefix"))
    assert method.causal
    words, mask = torch.randn(1, 8, 4), torch.ones(1, 8, dtype=torch.bool)
    output = method(words, mask).injection.dense().bias
    other = torch.cat([words[:, :5], torch.randn(1, 3, 4)], 1)
    assert torch.equal(method(other, mask).injection.dense().bias[:, :, :5, :5], output[:, :, :5, :5])
    padded = (
        method(nn.functional.pad(words, (0, 0, 3, 2)), nn.functional.pad(mask, (3, 2))).injection.dense().bias
    )
    torch.testing.assert_close(padded[:, :, 3:11, 3:11], output)


# --- The map of contacts


def test_contacts_start_at_the_map() -> None:
    prior = torch.rand(7, 7)
    output = (
        Contacts(num_heads=3, contacts=prior, start=2.5)(torch.arange(7.0)[None, :, None].repeat(2, 1, 1))
        .dense()
        .bias
    )
    assert torch.equal(output, (2.5 * prior).expand(2, 3, 7, 7))
    listed = Contacts(num_heads=1, contacts=[[0, 1], [0, 0]])
    assert listed.weight.tolist() == [[[0, 1], [0, 0]]]  # the row is the query's
    assert Contacts(num_heads=1, contacts=[[3.0]])(line(0.0)).dense().bias.tolist() == [[[[3.0]]]]


def test_contacts_survive_the_seed_and_the_caller() -> None:
    prior = torch.eye(4)
    part = Contacts(num_heads=2, contacts=prior)
    prior.zero_()
    with torch.no_grad():
        part.weight.fill_(9)
    moved = copy.deepcopy(part).bfloat16()
    for module in (part, moved):
        seed_weights(module, 3)
        assert torch.equal(module.weight.float(), torch.eye(4).expand(2, 4, 4))
    assert set(part.state_dict()) == {"weight"}


def test_contacts_built_on_the_meta_device() -> None:
    """As `from_pretrained` builds: the map is there when the weights are started."""
    with torch.device("meta"):
        part = Contacts(num_heads=2, contacts=[[0.0, 1.0], [1.0, 0.0]])
    part.to_empty(device="cpu").reset_parameters()
    assert part.weight.tolist() == [[[0, 1], [1, 0]]] * 2


def test_contacts_of_half_precision_tell_places_apart() -> None:
    part = Contacts(num_heads=1, contacts=torch.arange(16.0).view(4, 4)).bfloat16()
    output = part((torch.arange(3072.0) / 1024)[None, :, None]).dense().bias[0, 0]
    assert (output.diff(dim=-1) > 0).all()
    assert (output.diff(dim=0) > 0).all()


# --- Starts


def test_tables_start_silent_or_at_their_scale() -> None:
    for make in (ShawBias, partial(T5Bias, num_buckets=1000)):
        assert (make(num_heads=8, max_distance=500).weight == 0).all()
        started = make(num_heads=8, max_distance=500, start=0.3).weight
        assert started.square().mean().sqrt().item() == pytest.approx(0.3, rel=0.05)


def test_a_prefix_starts_silent_or_at_its_scale() -> None:
    assert (Prefix(num_heads=8).weight == 0).all()
    started = Prefix(num_heads=8, knots=1000, start=0.3).weight
    assert started.square().mean().sqrt().item() == pytest.approx(0.3, rel=0.05)


def test_kerple_starts_at_the_papers_draw() -> None:
    torch.manual_seed(0)
    kerple = Kerple(num_heads=5000)
    for drawn, top in ((softplus(kerple.raw_r1), 2), (softplus(kerple.raw_r2), 1)):
        assert drawn.min() > 0.0099
        assert drawn.max() < top * 1.0001
        assert drawn.mean().item() == pytest.approx(top / 2, rel=0.05)


@pytest.mark.parametrize("dtype", BOTH)
def test_fire_by_pieces_is_its_mlp_with_the_same_gradients(dtype: torch.dtype) -> None:
    def found(plain: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[Tensor, list[Tensor]]:
        torch.manual_seed(0)
        part = Fire(num_heads=3, threshold=4.0).to(dtype)
        with torch.no_grad():
            part.mlp[0].weight[:3] = 0.0  # units without an edge, on and off
            part.mlp[0].bias[:3] = torch.tensor([1.0, -1.0, 0.0])
            part.mlp[0].weight[5:7], part.mlp[0].bias[5:7] = 2.0, -1.0  # and two with the same one
        at = (7 * torch.rand(2, 40, 1, dtype=dtype)).cumsum(1).requires_grad_()
        with monkeypatch.context() as patch:
            if plain:
                patch.setattr(torch.compiler, "is_compiling", lambda: True)
            bias = part(at).dense().bias
        weight = torch.randn(bias.shape, generator=torch.Generator().manual_seed(1), dtype=dtype)
        return bias.detach(), list(torch.autograd.grad((bias * weight).sum(), [at, *part.parameters()]))

    with pytest.MonkeyPatch.context() as monkeypatch:
        one, other = found(False, monkeypatch), found(True, monkeypatch)
    torch.testing.assert_close(one[0], other[0], rtol=0, atol=1e-6)
    close = 1e-4 if dtype == torch.float32 else 1e-10  # the MLP's own sums over all pairs are off by 3e-5
    torch.testing.assert_close(one[1], other[1], rtol=close, atol=close)


def test_fire_reads_a_layer_that_wraps_its_own() -> None:
    """As LoRA's does; without it the layer's weights would get no gradient."""

    class Doubled(nn.Module):
        def __init__(self, base: nn.Module) -> None:
            super().__init__()
            self.base, self.gain = base, nn.Parameter(torch.tensor(2.0))

        def forward(self, x: Tensor) -> Tensor:
            return self.gain * self.base(x)

    fire, at = Fire(num_heads=2), torch.arange(5.0)[None, :, None]
    before = fire(at).dense().bias
    fire.mlp[2] = Doubled(fire.mlp[2])
    bias = fire(at).dense().bias
    torch.testing.assert_close(bias, 2 * before)
    bias.sum().backward()
    assert fire.mlp[2].gain.grad is not None


def test_a_formula_without_the_query_has_a_bias_in_every_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "PAIRS", 2 * 7)
    bias = PairBias(line=torch.arange(7.0)[None, None], formula=lambda query, key: -key)
    with torch.no_grad():
        found = bias.dense()
    assert torch.equal(found, -torch.arange(7.0).expand(1, 1, 7, 7))


def test_fire_starts_at_its_threshold() -> None:
    fire = Fire(num_heads=1, threshold=24.0)
    assert fire.log_c.exp().item() == pytest.approx(0.1)
    assert fire.log_threshold.exp().item() == pytest.approx(24)


def test_reset_parameters_starts_again(name: str) -> None:
    torch.manual_seed(1)
    fresh = MAKE[name]()
    for part in (MAKE[name](), part_of(name)):
        for module in part.modules():
            if hasattr(module, "reset_parameters"):
                torch.manual_seed(2)
                module.reset_parameters()
        for module in fresh.modules():
            if hasattr(module, "reset_parameters"):
                torch.manual_seed(2)
                module.reset_parameters()
        for one, other in zip(part.parameters(), fresh.parameters(), strict=True):
            assert torch.equal(one, other)


# --- In a method and in the encoder


@pytest.mark.parametrize("side", ["left", "right", "both"])
@pytest.mark.parametrize("name", ONE_AXIS)
def test_padding_changes_no_bias_among_real_tokens(name: str, side: str) -> None:
    method = Method(coordinates=Index(), encoding=part_of(name))
    alone = method(torch.zeros(1, 5, 4), torch.ones(1, 5, dtype=torch.bool)).injection.dense().bias
    start = {"left": 4, "right": 0, "both": 2}[side]
    mask = torch.zeros(2, 9, dtype=torch.bool)
    mask[0, start : start + 5] = True
    mask[1] = True
    output = method(torch.zeros(2, 9, 4), mask).injection.dense().bias
    assert torch.equal(output[0, :, start : start + 5, start : start + 5], alone[0])


def test_left_and_right_padding_give_the_same_gradients(name: str) -> None:
    """Padding has the nearest real token's coordinate and no gradient, as every coordinate fills
    it.
    """
    part = part_of(name)
    weight = torch.randn(1, HEADS, 4, 4, generator=torch.Generator().manual_seed(5))
    grads = []
    for left, right in ((0, 0), (3, 0), (0, 3)):
        at = torch.tensor([0.3, 1.1, 2.9, 8.6])[None, :, None].repeat(1, 1, HEADS).requires_grad_()
        padded = torch.cat(
            [at[:, :1].detach().repeat(1, left, 1), at, at[:, -1:].detach().repeat(1, right, 1)], 1
        )
        output = part(padded).dense().bias[:, :, left : left + 4, left : left + 4]
        (output * weight).sum().backward()
        grads.append(at.grad)
    torch.testing.assert_close(grads[0], grads[1])
    torch.testing.assert_close(grads[0], grads[2])


@pytest.mark.parametrize("towards", ["future", "past"])
def test_a_forbidding_bias_hides_keys_in_the_whole_encoder(towards: str) -> None:
    torch.manual_seed(0)
    encoder = Encoder(dim=8, num_heads=2, intermediate=16, num_layers=2, dropout=0.0).eval()
    for parameter in encoder.parameters():
        nn.init.normal_(parameter, std=0.5)
    hiding = ShawBias(num_heads=2, max_distance=3)
    with torch.no_grad():
        hiding.weight[slice(4, None) if towards == "future" else slice(0, 3)] = -1e4
    method = Method(coordinates=Index(), encoding=hiding)
    words, keep = torch.randn(1, 6, 8), torch.ones(1, 6, dtype=torch.bool)
    changed = words.clone()
    changed[:, 3] = torch.randn(8)  # a constant more would fall to the norm
    one, other = (
        encoder(output.x, output.injection, keep) for output in (method(words, keep), method(changed, keep))
    )
    blind, seeing = (slice(0, 3), slice(3, None)) if towards == "future" else (slice(4, None), slice(0, 4))
    assert torch.equal(one[:, blind], other[:, blind])
    assert ((one - other)[:, seeing].abs().amax(-1) > 1e-4).all()


@pytest.mark.parametrize("name", ONE_AXIS)
def test_every_part_reaches_the_attention_weights(name: str) -> None:
    torch.manual_seed(0)
    encoder = Encoder(dim=12, num_heads=HEADS, intermediate=16, num_layers=1, dropout=0.0).eval()
    method = Method(coordinates=Index(), encoding=part_of(name))
    words, keep = torch.randn(1, 5, 12), torch.ones(1, 5, dtype=torch.bool)
    output = method(words, keep)
    (weights,) = encoder.weights(output.x, output.injection, keep)
    query, key = encoder.blocks[0].attention.queries_and_keys(
        encoder.blocks[0].norm_attention(output.x), output.injection
    )
    scores = torch.einsum("bhik,bhjk->bhij", query, key) / math.sqrt(2) + output.injection.dense().bias
    torch.testing.assert_close(weights, scores.softmax(-1))


def test_state_dicts_go_round(name: str) -> None:
    part, other = part_of(name), MAKE[name]()
    other.load_state_dict(part.state_dict())
    at = places(name, dtype=torch.float32)
    assert torch.equal(part(at).dense().bias, other(at).dense().bias)


# --- What the parts say


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *(
            (lambda make=make: make(num_heads=0), "num_heads=0; a bias needs at least one head")
            for make in (AlibiBias, T5Bias, Kerple, Fire, CableBias, Prefix)
        ),
        (lambda: Contacts(num_heads=0, contacts=[[1.0]]), "num_heads=0; a bias needs at least one head"),
        (lambda: Prefix(num_heads=2, knots=1), r"knots=1; a table over \[0, 1\] needs at least 2"),
        (lambda: Contacts(num_heads=2, contacts=torch.ones(2, 3)), r"map of shape \(2, 3\); give \(L, L\)"),
        (lambda: Contacts(num_heads=2, contacts=[1.0, 0.0]), r"map of shape \(2,\); give \(L, L\)"),
        (lambda: Contacts(num_heads=2, contacts=torch.ones(0, 0)), r"map of shape \(0, 0\); give \(L, L\)"),
        (
            lambda: Contacts(num_heads=2, contacts=[[0.0, math.nan], [1.0, 0.0]]),
            "numbers that are not finite; give 0",
        ),
        (
            lambda: Contacts(num_heads=2, contacts=[[0, 1], [1, 0]])(line(0, 1, 1.5)),
            r"a coordinate of 1.5 is outside the map of L=2 positions \(0 to 1\); cut the chain",
        ),
        (
            lambda: Contacts(num_heads=2, contacts=[[0, 1], [1, 0]])(line(-0.5, 1)),
            "a coordinate of -0.5 is outside",
        ),
        (lambda: ShawBias(num_heads=-1, max_distance=2), "num_heads=-1; a bias needs at least one head"),
        (lambda: CableBias(num_heads=2, form="axis"), "form='axis' is not known; take one of shared, heads"),
        (lambda: T5Bias(num_heads=2, num_buckets=31), "num_buckets=31, .* the same number for both"),
        (
            lambda: T5Bias(num_heads=2, num_buckets=2),
            "num_buckets=2, .* expected 2 or more buckets per direction",
        ),
        (
            lambda: T5Bias(num_heads=2, num_buckets=1, bidirectional=False),
            "num_buckets=1, .* expected 2 or more buckets",
        ),
        (
            lambda: T5Bias(num_heads=2, max_distance=8),
            "max_distance=8, .* above half of a direction's buckets",
        ),
        (
            lambda: ShawBias(num_heads=2, max_distance=0),
            "max_distance=0; a table of distances needs at least 1",
        ),
        (
            lambda: Fire(num_heads=2, hidden=0),
            "hidden=0, threshold=512.0; expected hidden >= 1 and threshold > 0",
        ),
        (lambda: Fire(num_heads=2, threshold=0.0), "hidden=32, threshold=0.0; expected"),
        (
            lambda: CableBias(num_heads=2, form="heads")(line(0, 1)),
            'reads one axis per head: 1 axes for 2 heads; .* form="shared"',
        ),
        (
            lambda: CableBias(num_heads=2, form="heads", free=2),
            "free=2 of 2 heads, form='heads'; take .* fewer free heads",
        ),
        (
            lambda: CableBias(num_heads=2, free=1),
            "free=1 of 2 heads, form='shared'; take form=\"heads\"",
        ),
    ],
)
def test_messages(make: Callable[[], object], message: str) -> None:
    with unchecked(), pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        (AlibiBias(num_heads=2), "num_heads=2"),
        (T5Bias(num_heads=2), "num_buckets=32, max_distance=128, bidirectional=True"),
        (Fire(num_heads=2), "threshold=512"),
        (CableBias(num_heads=2), "num_heads=2, form='shared'"),
        (Prefix(num_heads=2), "knots=16"),
        (Contacts(num_heads=2, contacts=[[0, 1], [1, 0]], start=3.0), "num_heads=2, L=2, start=3"),
    ],
)
def test_what_a_part_shows_of_itself(part: nn.Module, shown: str) -> None:
    assert shown in repr(part)


@pytest.mark.parametrize("padded", [False, True])
def test_a_gradient_reaches_learned_places_that_are_one_apart(padded: bool) -> None:
    method = Method(coordinates=Elastic(Gate(dim=8)), encoding=Axis(AlibiBias(num_heads=2), 1))
    block = Encoder(dim=8, num_heads=2, intermediate=8, num_layers=1, dropout=0.0)
    mask = torch.ones(2, 6, dtype=torch.bool)
    mask[0, 5] = not padded
    x, injection, _ = method(torch.randn(2, 6, 8), mask)
    block(x, injection, mask)[mask].square().sum().backward()
    gradient = method.coordinates.gate.weigh.weight.grad
    assert gradient is not None and gradient.abs().max() > 0


@pytest.mark.parametrize("make", [Kerple, T5Bias])
def test_one_learned_bias_for_all_heads(make: Callable[..., nn.Module]) -> None:
    """Its gradient is the sum of that of a bias per head."""
    mask, vectors = torch.ones(2, 6, dtype=torch.bool), torch.randn(2, 6, 8)
    block = Encoder(dim=8, num_heads=2, intermediate=8, num_layers=1, dropout=0.0)
    found = []
    for heads in (1, 2):
        method = Method(coordinates=Index(), encoding=make(num_heads=heads))
        with torch.no_grad():
            for weight in method.parameters():
                weight.copy_(torch.linspace(-1, 1, weight[..., :1].numel()).reshape(weight[..., :1].shape))
        x, injection, _ = method(vectors, mask)
        block(x, injection, mask).square().sum().backward()
        found.append([weight.grad for weight in method.parameters()])
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one.sum(-1), two.sum(-1))
