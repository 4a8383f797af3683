"""The input layer: folded equals literal, and every formula against a loop."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from input_layer import folded
from vnait.positions.coordinates import Span
from vnait.positions.inputs import (
    Add,
    Condensed,
    Fusion,
    LiteralFusion,
    Local,
    Nearest,
    Neighbours,
    boundary,
    cosine,
    smoothness,
)

SIZES = {
    "batch": st.integers(1, 3),
    "length": st.integers(1, 5),
    "dim": st.integers(1, 9),
    "hidden": st.integers(1, 7),
}
TOLERANCES = [(torch.float32, 1e-5), (torch.float64, 1e-12)]


def close(one: Tensor, other: Tensor, tolerance: float) -> None:
    """Equal, relative to the largest number."""
    assert (one - other).abs().max() <= tolerance * max(1.0, other.abs().max().item())


def literal_by_hand(literal: LiteralFusion, e: Tensor, s: Tensor) -> Tensor:
    """Sections 3.6 and 3.7 of the papers, token by token."""
    x = torch.empty_like(e)
    for row, place in ((row, place) for row in range(e.shape[0]) for place in range(e.shape[1])):
        one, other = e[row, place], s[row, place]
        norms = one.norm() * other.norm()
        rho = one @ other / norms if norms > 0 else torch.zeros((), dtype=e.dtype)
        relation = torch.cat([one, other, one - other, rho * torch.ones_like(one)])
        hidden = F.gelu(literal.inner.weight @ relation + literal.inner.bias)
        x[row, place] = one + other + literal.out.weight @ hidden + literal.out.bias
    return x


@torch.no_grad()
def unfolded(fusion: Fusion) -> LiteralFusion:
    """The same function in the papers' weights: of all W that fold to it, with W_D = 0 and equal W_r."""
    hidden, dim = fusion.semantic.weight.shape
    literal = LiteralFusion(dim=dim, hidden=hidden).to(fusion.semantic.weight)
    of_rho = (fusion.similarity.weight / dim).expand(hidden, dim)
    weights = [fusion.semantic.weight, fusion.spatial.weight, torch.zeros(hidden, dim), of_rho]
    literal.inner.weight.copy_(torch.cat(weights, 1))
    literal.inner.bias.copy_(fusion.semantic.bias)
    literal.out.load_state_dict(fusion.out.state_dict())
    return literal


@pytest.mark.parametrize(("dtype", "tolerance"), TOLERANCES)
@settings(max_examples=40)
@given(**SIZES)
def test_folded_is_literal(
    dtype: torch.dtype, tolerance: float, batch: int, length: int, dim: int, hidden: int
) -> None:
    """Values, and gradients with respect to e and s."""
    torch.manual_seed(batch + 10 * length + 100 * dim + 1000 * hidden)
    literal = LiteralFusion(dim=dim, hidden=hidden).to(dtype)
    e, s, weights = torch.randn(3, batch, length, dim, dtype=dtype)
    parts = [literal, folded(literal), unfolded(folded(literal))]
    results = []
    for part in parts:
        inputs = e.clone().requires_grad_(), s.clone().requires_grad_()
        x = part(*inputs)
        results.append((x.detach(), *torch.autograd.grad((x * weights).sum(), inputs)))
    close(results[0][0], literal_by_hand(literal, e, s).detach(), tolerance)
    for result in results[1:]:
        for one, other in zip(result, results[0], strict=True):
            close(one, other, tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), TOLERANCES)
@settings(max_examples=30)
@given(**SIZES)
def test_unfolded(
    dtype: torch.dtype, tolerance: float, batch: int, length: int, dim: int, hidden: int
) -> None:
    torch.manual_seed(batch + 10 * length + 100 * dim + 1000 * hidden)
    fusion = Fusion(dim=dim, hidden=hidden).to(dtype)
    nn.init.normal_(fusion.out.weight)
    nn.init.normal_(fusion.out.bias)
    e, s = torch.randn(2, batch, length, dim, dtype=dtype)
    literal = unfolded(fusion)
    close(literal_by_hand(literal, e, s).detach(), fusion(e, s).detach(), tolerance)
    close(literal(e, s), fusion(e, s), tolerance)
    again = folded(literal)
    for one, other in zip(again.parameters(), fusion.parameters(), strict=True):
        close(one, other, tolerance)


def test_folding_halves_the_first_layer() -> None:
    dim, hidden = 768, 1536
    fusion, literal = Fusion(dim=dim, hidden=hidden), LiteralFusion(dim=dim, hidden=hidden)
    first = sum(
        p.numel() for part in (fusion.semantic, fusion.spatial, fusion.similarity) for p in part.parameters()
    )
    assert first == 2 * dim * hidden + hidden + hidden  # and the bias
    assert sum(p.numel() for p in literal.inner.parameters()) == 4 * dim * hidden + hidden


def test_fusion_starts_as_a_sum_and_learns() -> None:
    fusion = Fusion(dim=4, hidden=3)
    e, s = torch.randn(2, 2, 3, 4)
    assert torch.equal(fusion(e, s), e + s)
    fusion(e, s).square().sum().backward()
    assert fusion.out.weight.grad.abs().max() > 0


def test_add() -> None:
    e, s = torch.randn(2, 2, 3, 4)
    assert torch.equal(Add()(e, s), e + s)
    assert torch.equal(Add()(e, None), e)


@pytest.mark.parametrize(
    "part", [Fusion(dim=2), LiteralFusion(dim=2, hidden=2), Neighbours(Fusion(dim=2), [])]
)
def test_a_fusion_needs_something_added(part: nn.Module) -> None:
    with pytest.raises(
        ValueError, match=r"the encoding added none; take an encoding that adds, or inputs=Add\(\)"
    ):
        part(torch.zeros(1, 2, 2), None)


@pytest.mark.parametrize("part", [Add(), Fusion(dim=2), LiteralFusion(dim=2, hidden=2)])
def test_a_fusion_reads_one_token(part: nn.Module) -> None:
    assert part.causal is True


# --- The cosine


@settings(max_examples=60)
@given(dim=st.integers(1, 8), seed=st.integers(0, 10_000), scale=st.sampled_from([1e-3, 1.0, 1e3]))
def test_cosine(dim: int, seed: int, scale: float) -> None:
    torch.manual_seed(seed)
    one, other = scale * torch.randn(2, 2, 3, dim)
    rho = cosine(one, other)
    torch.testing.assert_close(rho, F.cosine_similarity(one, other, dim=-1), rtol=1e-5, atol=1e-6)
    assert (rho.abs() <= 1 + 1e-6).all()


def test_cosine_at_zero_vectors() -> None:
    one = torch.tensor([[[0.0, 0.0], [0.0, 0.0], [1.0, 2.0], [1.0, 2.0]]]).requires_grad_()
    other = torch.tensor([[[0.0, 0.0], [3.0, 4.0], [0.0, 0.0], [2.0, 4.0]]]).requires_grad_()
    rho = cosine(one, other)
    torch.testing.assert_close(rho, torch.tensor([[0.0, 0.0, 0.0, 1.0]]))
    rho.sum().backward()
    assert torch.isfinite(one.grad).all()
    assert torch.isfinite(other.grad).all()
    assert not one.grad[0, :3].any()


def test_the_gradient_of_the_cosine() -> None:
    torch.manual_seed(0)
    pair = torch.randn(2, 1, 3, 4, dtype=torch.float64)
    assert torch.autograd.gradcheck(cosine, (pair[0].requires_grad_(), pair[1].requires_grad_()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [1e-4, 1.0, 300.0, 6e4])
def test_cosine_in_half_precision(dtype: torch.dtype, size: float) -> None:
    """Squares of 300 overflow float16, and those of 1e-4 vanish in it."""
    torch.manual_seed(0)
    one, other = (size * (torch.rand(2, 1, 20, 16) * 2 - 1)).to(dtype)
    expected = F.cosine_similarity(one.double(), other.double(), dim=-1)
    one.requires_grad_()
    rho = cosine(one, other)
    torch.testing.assert_close(rho.double(), expected, rtol=1e-5, atol=1e-5)
    rho.sum().backward()
    assert torch.isfinite(one.grad).all()
    with torch.autocast("cpu", dtype=dtype):
        torch.testing.assert_close(cosine(one, other).double(), expected, rtol=1e-5, atol=1e-5)


# --- The local window


@settings(max_examples=40)
@given(length=st.integers(1, 9), dim=st.integers(1, 4), reach=st.integers(0, 4), seed=st.integers(0, 99))
def test_local_is_a_loop_over_taps(length: int, dim: int, reach: int, seed: int) -> None:
    torch.manual_seed(seed)
    e = torch.randn(2, length, dim)
    local = Local(dim=dim, width=2 * reach + 1, dropout=0)
    nn.init.normal_(local.taps)
    expected = torch.zeros_like(e)
    for i in range(length):
        for j in range(-reach, reach + 1):
            if 0 <= i + j < length:
                expected[:, i] += local.taps[:, 0, reach + j].detach() * e[:, i + j]
    torch.testing.assert_close(local(e).detach(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("look", "own"), [("both", 4), ("back", 8)])
def test_each_channel_of_local_starts_with_one_neighbour(look: str, own: int) -> None:
    torch.manual_seed(0)
    taps = Local(dim=800, width=9, start=0.1, look=look).taps.detach()[:, 0]
    output = taps != 0
    assert (output.sum(1) == 1).all() and not output[:, own].any()
    assert output[:, [tap for tap in range(9) if tap != own]].sum(0).tolist() == [100] * 8
    away = (output.float().argmax(1)[:8] - own).abs()
    assert (away.diff() >= 0).all()  # a narrow model starts with the nearest ones
    assert taps[output].std().item() == pytest.approx(0.1, rel=0.1)


@pytest.mark.parametrize(("look", "right", "left"), [("both", 0, 1), ("back", None, 0)])
def test_fading_taps_start_on_one_side(look: str, right: int | None, left: int) -> None:
    torch.manual_seed(0)
    taps = Local(dim=400, width=9, start=0.1, look=look, shape="fading").taps.detach()[:, 0]
    here = 8 if look == "back" else 4
    nearest = []
    if right is not None:
        assert not taps[right::2, : here + 1].any()
        nearest.append(taps[right::2, here + 1])
        assert (taps[right::2, here + 1 :].abs().diff(dim=1) < 0).all()
    back = taps[left :: 1 if right is None else 2]
    assert not back[:, here:].any()
    assert (back[:, :here].abs().diff(dim=1) > 0).all()
    nearest.append(back[:, here - 1])
    assert torch.cat(nearest).std().item() == pytest.approx(0.1, rel=0.1)
    shares = back[:, here - 2] / back[:, here - 1]  # exp(-1 / tau), tau in [1, w]
    assert shares.min() >= 0.367 and shares.max() <= torch.tensor(-1 / here).exp() + 1e-6


@pytest.mark.parametrize("shape", ["one", "fading"])
def test_a_window_of_one_token_starts_at_nothing(shape: str) -> None:
    assert not Local(dim=4, width=1, shape=shape).taps.detach().any()


@pytest.mark.parametrize("width", [0, 4, -1])
def test_local_has_an_odd_width(width: int) -> None:
    with pytest.raises(ValueError, match=f"width={width}; .* an odd number of taps"):
        Local(dim=2, width=width)


def test_speed_changes_how_fast_taps_are_learned_and_not_their_start() -> None:
    torch.manual_seed(0)
    e, wanted = torch.randn(2, 8, 4), torch.randn(2, 8, 4)
    views, moved = [], []
    for speed in (1.0, 3.0):
        torch.manual_seed(1)
        view = Local(dim=4, width=3, speed=speed, dropout=0)
        views.append(view(e).detach())
        before = speed * view.taps.detach().clone()
        adam = torch.optim.Adam([view.taps], lr=0.01)
        (view(e) - wanted).square().sum().backward()
        adam.step()
        moved.append(speed * view.taps.detach() - before)
    torch.testing.assert_close(*views)
    torch.testing.assert_close(3 * moved[0], moved[1], rtol=1e-3, atol=1e-5)
    with pytest.raises(ValueError, match=r"speed=0; take a number above 0\."):
        Local(dim=4, speed=0)


# --- The nearest neighbour that counts


@settings(max_examples=30)
@given(
    length=st.integers(1, 12),
    dim=st.integers(1, 6),
    heads=st.sampled_from([2, 4]),
    reach=st.integers(1, 6),
    look=st.sampled_from(["both", "back"]),
    seed=st.integers(0, 99),
)
def test_nearest_is_a_softmax_over_one_side(
    length: int, dim: int, heads: int, reach: int, look: str, seed: int
) -> None:
    torch.manual_seed(seed)
    e = torch.randn(1, length, dim)
    nearest = Nearest(dim=dim, heads=heads, reach=reach, look=look, dropout=0)
    beyond = F.pad(e, (0, 0, reach, reach))[0]
    group = -(-dim // heads)
    with torch.no_grad():
        found = nearest(e)[0]
        for i in range(length):
            for channel in range(dim):
                head = channel // group
                side = 1 if look == "both" and head >= heads // 2 else -1
                seen = torch.stack([beyond[reach + i + side * j] for j in range(1, reach + 1)])
                scores = 4 * seen @ nearest.key.weight[head] - F.softplus(nearest.fade[head]) * torch.arange(
                    reach
                )
                expected = nearest.gain[channel] * (scores.softmax(0) * seen[:, channel]).sum()
                torch.testing.assert_close(found[i, channel], expected, rtol=1e-4, atol=1e-5)


def test_nearest_reads_the_first_word_that_counts_at_any_distance_alike() -> None:
    nearest = Nearest(dim=2, heads=2, reach=8, dropout=0)
    with torch.no_grad():
        # the head that looks ahead, of channel 1
        nearest.key.weight.copy_(torch.tensor([[0.0, 0.0], [20.0, 0.0]]))
        nearest.gain.fill_(1)
    e = torch.zeros(1, 12, 2)
    e[0, 7], e[0, 9] = torch.tensor([1.0, 1.0]), torch.tensor([1.0, -1.0])
    found = nearest(e)[0, :, 1].tolist()
    first = math.tanh(1)  # shares 1 : exp(-2), two tokens at tau = 1
    assert found[1] == pytest.approx(first) and found[6] == pytest.approx(first)
    assert found[8] == pytest.approx(-1) and found[0] == pytest.approx(1) and found[11] == 0


@pytest.mark.parametrize("given", [{"heads": 3}, {"heads": 0}, {"reach": 0}])
def test_wrong_options_of_nearest_are_refused(given: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="take an even number of heads, and a reach of 1 or more"):
        Nearest(dim=4, **given)


def test_without_views_both_kinds_of_neighbours_are_the_input_layer_alone():
    e = torch.randn(1, 3, 4)
    at = torch.tensor([[[0.0, 0.0, 1.0, 1.0], [0.0, 0.5, 0.5, 0.0], [0.0, 1.0, 0.0, 1.0]]])
    assert torch.equal(Neighbours(Add(), [])(e, None), e)
    assert torch.equal(Condensed(Add(), [])(e, None, at), e)


def test_views_add_up() -> None:
    torch.manual_seed(0)
    e, s = torch.randn(2, 3, 6, 4)
    views = [Local(dim=4), Nearest(dim=4)]
    neighbours = Neighbours(Add(), views).eval()
    torch.testing.assert_close(neighbours(e, s), e + s + sum(view(e) for view in views))


@pytest.mark.parametrize("view", [Local(dim=4, dropout=0.25), Nearest(dim=4, dropout=0.25)], ids=repr)
def test_a_training_text_gets_all_of_a_view_or_nothing(view: nn.Module) -> None:
    torch.manual_seed(0)
    e = torch.randn(400, 6, 4)
    output, found = view.eval()(e), view.train()(e)
    none = (found == 0).flatten(1).all(1)
    assert none.float().mean().item() == pytest.approx(0.25, abs=0.07)
    assert torch.equal(found[~none], output[~none])


@pytest.mark.parametrize("dropout", [-0.1, 1.0])
def test_a_dropout_is_a_share(dropout: float) -> None:
    with pytest.raises(ValueError, match=f"dropout={dropout}; take a share"):
        Local(dim=4, dropout=dropout)


# --- The regularizers


@dataclass(frozen=True)
class Ragged:
    """Coordinates of sentences padded on either side; padding repeats the nearest real token."""

    lines: list[list[float]]
    at: Tensor
    mask: Tensor


@st.composite
def ragged(draw: st.DrawFn, low: float = -30, high: float = 140) -> Ragged:
    lines = draw(
        st.lists(
            st.lists(st.floats(low, high, width=32), min_size=1, max_size=7, unique=True).map(sorted),
            min_size=1,
            max_size=4,
        )
    )
    before = [draw(st.integers(0, 3)) for _ in lines]
    width = max(len(line) + pad for line, pad in zip(lines, before, strict=True)) + draw(st.integers(0, 3))
    at, mask = torch.empty(len(lines), width), torch.zeros(len(lines), width, dtype=torch.bool)
    for row, (line, pad) in enumerate(zip(lines, before, strict=True)):
        after = width - pad - len(line)
        at[row] = torch.tensor([line[0]] * pad + line + [line[-1]] * after)
        mask[row, pad : pad + len(line)] = True
    return Ragged(lines, at[..., None], mask)


def huber(x: float) -> float:
    return x * x / 2 if abs(x) <= 1 else abs(x) - 0.5


@settings(max_examples=80)
@given(batch=ragged())
def test_smoothness(batch: Ragged) -> None:
    total = 0.0
    for line in batch.lines:
        n = len(line)
        total += sum(huber(line[i + 1] - line[i] - 100 / n) for i in range(n - 1))
    found = smoothness(batch.at, batch.mask).item()
    assert found == pytest.approx(total / len(batch.lines), rel=1e-4, abs=1e-3)


@settings(max_examples=80)
@given(batch=ragged())
def test_boundary(batch: Ragged) -> None:
    total = sum(max(0.0, -line[0]) ** 2 + max(0.0, line[-1] - 100) ** 2 for line in batch.lines)
    assert boundary(batch.at, batch.mask).item() == pytest.approx(
        total / len(batch.lines), rel=1e-4, abs=1e-4
    )


@settings(max_examples=40)
@given(batch=ragged())
def test_padding_takes_no_share_of_the_regularizers_gradients(batch: Ragged) -> None:
    """Each real token's gradient is the one it has alone."""
    at = batch.at.clone().requires_grad_()
    (smoothness(at, batch.mask) + boundary(at, batch.mask)).backward()
    assert not at.grad[~batch.mask].any()
    for row, line in enumerate(batch.lines):
        alone = torch.tensor(line)[None, :, None].requires_grad_()
        real = torch.ones(1, len(line), dtype=torch.bool)
        ((smoothness(alone, real) + boundary(alone, real)) / len(batch.lines)).backward()
        torch.testing.assert_close(at.grad[row, batch.mask[row]], alone.grad[0], rtol=1e-4, atol=1e-4)


def test_uniform_coordinates_are_smooth() -> None:
    mask = torch.arange(9) < torch.tensor([[9], [4], [1]])
    at = Span(source="uniform")(None, mask)
    assert smoothness(at, mask).item() == pytest.approx(0, abs=1e-9)
    assert boundary(at, mask) == 0


def test_one_token_is_smooth() -> None:
    assert smoothness(torch.tensor([[[100.0]]]), torch.ones(1, 1, dtype=torch.bool)) == 0


def test_boundary_is_alive_beyond_the_range() -> None:
    at = torch.tensor([[[-3.0], [50.0], [104.0]]]).requires_grad_()
    loss = boundary(at, torch.ones(1, 3, dtype=torch.bool))
    loss.backward()
    assert loss.item() == 9 + 16
    assert at.grad.flatten().tolist() == [-6, 0, 8]
