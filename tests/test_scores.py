"""Scores that depend on queries and keys: CoPE and scale-invariant attention against loops, and the slot
`score_mod` in layers, decoders and injections.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor, nn

from conftest import unchecked
from helpers import drawn
from vnait.model.backbone import Encoder
from vnait.positions import attention as backbone
from vnait.positions.attention import Attention
from vnait.positions.cache import causal_mask
from vnait.positions.coordinates import Index
from vnait.positions.encodings import AlibiBias, Cope, Forgetting, Nape, Rotary, ScaleInvariant, Sum
from vnait.positions.encodings.content import ContextualPositions, log_entmax
from vnait.positions.injection import DistanceBias, Injection
from vnait.positions.method import Method

DIM, HEADS, TOKENS, POSITIONS = 16, 2, 9, 4
WIDTH = DIM // HEADS


def masks() -> Tensor:
    """Padding on neither side, on the right, on the left, on both."""
    place = torch.arange(TOKENS)
    bounds = torch.tensor([[0, 9], [0, 5], [3, 9], [2, 7]])
    return (place >= bounds[:, :1]) & (place < bounds[:, 1:])


def cope() -> Cope:
    part = Cope(width=WIDTH, positions=POSITIONS).double()
    with torch.no_grad():
        part.before.copy_(drawn(POSITIONS, WIDTH, seed=1))
        part.after.copy_(drawn(POSITIONS, WIDTH, seed=2))
    return part


def nape() -> Nape:
    torch.manual_seed(1)
    return Nape(num_heads=HEADS, width=WIDTH).double()


def attention() -> Attention:
    torch.manual_seed(0)
    return Attention(dim=DIM, num_heads=HEADS).double()


# --- CoPE


def paper(query: Tensor, scores: Tensor, visible: Tensor, before: Tensor, after: Tensor) -> Tensor:
    """Query by query and key by key; visible (TQ, TK)."""
    queries, keys = scores.shape
    rows = []
    for one in range(queries):
        i, row = keys - queries + one, []
        for j in range(keys):
            counted = [k for k in range(min(i, j), max(i, j) + 1) if visible[one, k]]
            count = sum((scores[one, k].sigmoid() for k in counted), torch.zeros((), dtype=torch.float64))
            count, table = count.clamp(max=POSITIONS - 1), before if j <= i else after
            low, high = math.floor(count.item()), math.ceil(count.item())
            share = count - low
            row.append(scores[one, j] + query[one] @ ((1 - share) * table[low] + share * table[high]))
        rows.append(torch.stack(row))
    return torch.stack(rows)


@pytest.mark.parametrize("past", [0, 4])
@pytest.mark.parametrize("causal", [False, True])
def test_cope_is_the_papers_loop(past: int, causal: bool) -> None:
    """Values and gradients, of all queries and of a decoder's new ones, with padding on either side."""
    mask, part = masks(), cope()
    visible = causal_mask(mask, past) if causal else mask[:, None].expand(-1, TOKENS - past, -1)
    query = drawn(4, HEADS, TOKENS - past, WIDTH, seed=3).requires_grad_()
    key = drawn(4, HEADS, TOKENS, WIDTH, seed=4).requires_grad_()
    scores = query @ key.mT
    found = part(drawn(4, TOKENS, 1)).score_mod(query, key, scores, visible[:, None])
    expected = torch.stack(
        [
            torch.stack(
                [
                    paper(query[row, head], scores[row, head], visible[row], part.before, part.after)
                    for head in (0, 1)
                ]
            )
            for row in range(4)
        ]
    )
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    weight = drawn(*found.shape, seed=5)
    leaves = (query, key, part.before, part.after)
    for one, other in zip(
        *(torch.autograd.grad((out * weight).sum(), leaves, retain_graph=True) for out in (found, expected)),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_cope_with_gates_that_are_open_counts_tokens() -> None:
    """Scores so high that every gate is 1: key j of query i reads row min(i - j + 1, last)."""
    part, query = cope(), drawn(1, 1, TOKENS, WIDTH)
    high = torch.full((1, 1, TOKENS, TOKENS), 50.0, dtype=torch.float64)
    changed = (
        part(torch.zeros(1, TOKENS, 1)).score_mod(query, query, high, masks()[:1, None, None])[0, 0] - 50
    )
    for i in range(TOKENS):
        for j in range(TOKENS):
            table = part.before if j <= i else part.after
            row = min(abs(i - j) + 1, POSITIONS - 1)
            torch.testing.assert_close(changed[i, j], query[0, 0, i] @ table[row])


def test_cope_starts_as_no_position_and_learns_from_there() -> None:
    part, layer, x, keep = Cope(width=WIDTH).double(), attention(), drawn(4, TOKENS, DIM), masks()
    found = layer(x, part(x), keep)
    torch.testing.assert_close(found, layer(x, Injection(), keep))
    (found * drawn(*found.shape, seed=1)).sum().backward()
    assert all(table.grad.abs().max() > 0 for table in (part.before, part.after))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_cope_counts_in_full_precision(dtype: torch.dtype) -> None:
    """2,000 keys with gates of 0.01: a sum in half precision would stop long before 20."""
    low = torch.full((1, 1, 1, 2000), math.log(0.01 / 0.99), dtype=dtype)
    table = torch.arange(64.0, dtype=dtype)[:, None]
    one, visible = torch.ones(1, 1, 1, 1, dtype=dtype), torch.ones(1, 1, 1, 2000, dtype=torch.bool)
    change = ContextualPositions(before=table, after=table)
    found = change(one, one.expand(1, 1, 2000, 1), low, visible) - low
    exact = low[0, 0, 0].double().sigmoid().flip(-1).cumsum(-1).flip(-1)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found[0, 0, 0].double(), exact, rtol=1e-4, atol=1e-4)


# --- Sparse attention


def entmax(scores: Tensor, visible: Tensor) -> Tensor:
    """The threshold by bisection, over the visible keys of each row; hidden keys have no weight."""
    half = (scores / 2).masked_fill(~visible, -torch.inf)
    low, high = half.amax(-1, keepdim=True) - 1, half.amax(-1, keepdim=True)
    for _ in range(100):
        tau = (low + high) / 2
        above = (half - tau).clamp(min=0).square().sum(-1, keepdim=True) > 1
        low, high = torch.where(above, tau, low), torch.where(above, high, tau)
    return (half - tau).clamp(min=0).square()


@pytest.mark.parametrize("past", [0, 4])
@pytest.mark.parametrize("causal", [False, True])
def test_nape_is_entmax_of_local_heads_and_of_heads_that_scale(past: int, causal: bool) -> None:
    mask, part = masks(), nape()
    visible = (causal_mask(mask, past) if causal else mask[:, None].expand(-1, TOKENS - past, -1))[:, None]
    query, key = drawn(4, HEADS, TOKENS - past, WIDTH, seed=3), drawn(4, HEADS, TOKENS, WIDTH, seed=4)
    scores, place = 2 * query @ key.mT, drawn(4, TOKENS, 1, seed=6)
    found = part(place).score_mod(query, key, scores, visible)
    assert found.isfinite().all()
    far = (place[:, past:] - place.mT).abs()[:, None]
    beta = nn.functional.softplus(query[:, 1:] @ part.beta.mT)
    gamma = 2 * torch.tanh(query[:, 1:] @ part.gamma.mT)
    size = (visible.sum(-1, keepdim=True) + 1).log()
    changed = torch.cat([scores[:, :1] - far, scores[:, 1:] * (1 + beta * size**gamma)], 1)
    real = mask[:, None, past:, None].expand_as(found) & visible
    torch.testing.assert_close(found.exp()[real], entmax(changed, visible)[real])


def test_entmax_and_its_gradient_are_exact() -> None:
    scores, visible = 3 * drawn(2, 2, 3, 40), torch.ones(1, 1, 1, 40, dtype=torch.bool)
    weights = log_entmax(scores, visible).exp()
    torch.testing.assert_close(weights, entmax(scores, visible))
    assert (weights < 1e-30).double().mean() > 0.5
    few = (3 * drawn(1, 1, 3, 7, seed=1)).requires_grad_()
    assert torch.autograd.gradcheck(lambda one: log_entmax(one, visible[..., :7]).exp(), [few])


def test_the_weights_of_a_long_text_are_not_diluted() -> None:
    """One score stands out by 5 among 20 or 20,000: softmax loses it, entmax does not."""
    for tokens in (20, 20_000):
        scores = torch.zeros(1, 1, 1, tokens)
        scores[..., 7] = 5
        weights = log_entmax(scores, torch.ones(1, 1, 1, tokens, dtype=torch.bool)).softmax(-1)
        assert weights[0, 0, 0, 7] > 0.999 and scores.softmax(-1)[0, 0, 0, 7] < (
            0.9 if tokens == 20 else 0.01
        )


# --- Forgetting attention


@pytest.mark.parametrize("past", [0, 4])
def test_a_key_makes_all_later_queries_forget_what_came_before_it(past: int) -> None:
    mask, part = masks(), Forgetting(num_heads=HEADS, width=WIDTH).double()
    nn.init.normal_(part.bias)
    key, scores = drawn(4, HEADS, TOKENS, WIDTH, seed=4), drawn(4, HEADS, TOKENS - past, TOKENS, seed=5)
    visible = causal_mask(mask, past)[:, None]
    change = part(torch.zeros(4, TOKENS, 1)).score_mod(key[:, :, past:], key, scores, visible) - scores
    kept = (torch.einsum("bhtk,hk->bht", key, part.weight) + part.bias[:, None]).sigmoid()
    for row, head in itertools.product(range(4), range(HEADS)):
        places = mask[row].nonzero().flatten().tolist()
        for i, j in itertools.product([i for i in places if i >= past], places):
            between = kept[row, head, min(i, j) + 1 : max(i, j) + 1].log().sum()
            torch.testing.assert_close(change[row, head, i - past, j], between)


# --- Scale-invariant attention


@pytest.mark.parametrize("tau", [0.5, 10.0])
def test_scale_invariant_attention_meets_its_two_conditions(tau: float) -> None:
    """Of standard normal scores, E[exp L] and E[L exp L] are sqrt(e) / (t / tau + 1): equations 12 and 13, by
    the expectations of equation 15.
    """
    place = torch.arange(200.0, dtype=torch.float64)
    injection = ScaleInvariant(tau=tau)(place[None, :, None])
    a, m = injection.score_mod.factor.dense()[0, 0, 0], injection.dense().bias[0, 0, 0]
    expected = math.exp(0.5) / (place / tau + 1)
    torch.testing.assert_close((m + a**2 / 2).exp(), expected)
    torch.testing.assert_close((m + a**2) * (m + a**2 / 2).exp(), expected)
    assert a[0] == 1 and m[0] == 0


def test_scale_invariant_attention_of_real_places_in_both_directions() -> None:
    layer, x, at = attention(), drawn(4, TOKENS, DIM), drawn(4, TOKENS, 1, seed=1) * 20
    plain = layer.scores(x, Injection(), None)
    found = layer.scores(x, ScaleInvariant(tau=3.0)(at), None)
    for row in range(4):
        for i in range(TOKENS):
            for j in range(TOKENS):
                log = math.log(abs(at[row, i, 0] - at[row, j, 0]) / 3 + 1)
                expected = math.sqrt(2 * log + 1) * plain[row, :, i, j] - 2 * log
                torch.testing.assert_close(found[row, :, i, j], expected)


# --- The slot


@dataclass(frozen=True)
class Recorder:
    """Doubles the scores of keys that it is allowed to see, and remembers its arguments."""

    seen: list[tuple[Tensor, ...]]

    def __call__(self, query: Tensor, key: Tensor, scores: Tensor, visible: Tensor) -> Tensor:
        self.seen.append((query, key, scores, visible))
        return torch.where(visible, 2 * scores, 1e9)

    def rows(self, index: Tensor) -> Recorder:
        return self


@pytest.mark.parametrize("hidden", ["nothing", "padding", "what follows"])
def test_a_layer_changes_scaled_and_rotated_scores_before_the_bias_and_the_mask(hidden: str) -> None:
    layer, x, keep = attention(), drawn(4, TOKENS, DIM), masks()
    mask = {"nothing": None, "padding": keep, "what follows": causal_mask(keep)}[hidden]
    slots = {"rotary": drawn(4, TOKENS, WIDTH // 2, seed=1), "scale": drawn(4, TOKENS, seed=2).exp()}
    bias, recorder = drawn(4, HEADS, TOKENS, TOKENS, seed=3), Recorder([])
    found = layer(x, Injection(**slots, bias=bias, score_mod=recorder), mask)
    query, key, scores, visible = recorder.seen[0]
    for one, other in zip((query, key), layer.queries_and_keys(x, Injection(**slots)), strict=True):
        assert torch.equal(one, other)
    torch.testing.assert_close(scores, query @ key.mT / WIDTH**0.5)
    shown = torch.ones(4, 1, TOKENS, TOKENS, dtype=torch.bool)
    if mask is not None:
        shown = (mask if mask.ndim == 3 else mask[:, None])[:, None].expand_as(shown)
    assert torch.equal(visible.expand_as(shown), shown)
    weights = (2 * scores + bias).masked_fill(~shown, -torch.inf).softmax(-1)
    values = layer.heads(layer.value(x))
    torch.testing.assert_close(found, layer.out((weights @ values).transpose(1, 2).flatten(2)))
    injection = Injection(**slots, bias=bias, score_mod=recorder)
    torch.testing.assert_close(layer.weights(x, injection, mask), weights)


PARTS: dict[str, Callable[[], nn.Module]] = {
    "cope": cope,
    "cope, a bias": lambda: Sum(cope(), AlibiBias(num_heads=HEADS)),
    "cope, rotated": lambda: Sum(Rotary(width=WIDTH), cope()),
    "scale-invariant": lambda: ScaleInvariant(tau=2.0),
    "nape": lambda: nape(),
    "fox": lambda: Forgetting(num_heads=HEADS, width=WIDTH).double(),
}


def whole() -> Encoder:
    torch.manual_seed(0)
    return Encoder(dim=DIM, num_heads=HEADS, intermediate=16, num_layers=2, dropout=0.0).double().eval()


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("causal", [False, True])
def test_padding_changes_nothing_in_a_whole_encoder(name: str, causal: bool) -> None:
    """Text by text and in a batch; in a decoder nothing that follows changes it, bit for bit."""
    method, encoder, keep = Method(coordinates=Index(), encoding=PARTS[name]()), whole(), masks()
    words = drawn(4, TOKENS, DIM)

    def states(words: Tensor, keep: Tensor) -> Tensor:
        x, injection, _ = method(words, keep)
        return encoder(x, injection, causal_mask(keep) if causal else keep)

    found = states(words, keep)
    assert (found - encoder(words, Injection(), causal_mask(keep) if causal else keep))[
        keep
    ].abs().max() > 0.01
    for row in range(4):
        real = keep[row]
        alone = states(words[row : row + 1, real], keep[row : row + 1, real])
        torch.testing.assert_close(found[row, real], alone[0], rtol=1e-10, atol=1e-10)
    other = words.clone()
    other[:, 4:] = 7.0
    assert torch.equal(states(other, keep)[:, :4][keep[:, :4]], found[:, :4][keep[:, :4]]) == causal


@pytest.mark.parametrize("name", PARTS)
def test_weights_are_those_of_the_forward_pass(name: str) -> None:
    encoder, keep, words = whole(), masks(), drawn(4, TOKENS, DIM)
    x, injection, _ = Method(coordinates=Index(), encoding=PARTS[name]())(words, keep)
    states = encoder.trace(x, injection, keep)
    for block, state, weights in zip(
        encoder.blocks, states, encoder.weights(x, injection, keep), strict=False
    ):
        layer, normed = block.attention, block.norm_attention(state)
        mixed = (weights @ layer.heads(layer.value(normed))).transpose(1, 2).flatten(2)
        torch.testing.assert_close(layer(normed, injection, keep), layer.out(mixed))
        assert not weights[~keep[:, None, None].expand_as(weights)].any()


def test_a_bias_of_distances_is_made_dense_beside_a_score_mod() -> None:
    """A strip would leave the score_mod out."""
    line, layer, x = drawn(4, 1, TOKENS), attention(), drawn(4, TOKENS, DIM)
    distance = DistanceBias(line=line, formula=lambda far: -far.abs(), dtype=torch.float64)
    both = cope()(x) + Injection(distance=distance)
    torch.testing.assert_close(layer(x, both, masks()), layer(x, both.dense(), masks()))
    counted = Injection(distance=replace(distance, line=torch.arange(1.0 * TOKENS).expand(4, 1, -1)))
    assert backbone.whole_distances(x, counted, None) is not None
    assert backbone.whole_distances(x, cope()(x) + counted, None) is None


def test_injections_keep_the_score_mod() -> None:
    at, layer, x, keep = drawn(4, TOKENS, 1), attention(), drawn(4, TOKENS, DIM), masks()
    one, other = ScaleInvariant()(at), cope()(at)
    for both in (one + Injection(scale=torch.ones(4, TOKENS)), Injection(scale=torch.ones(4, TOKENS)) + one):
        assert both.score_mod is one.score_mod and both.distance is one.distance
    for injection in (one, other, other + AlibiBias(num_heads=HEADS)(at)):
        assert injection.misshaped(4, TOKENS) == {} and injection.dense().score_mod is injection.score_mod
        rows = torch.tensor([2, 0, 2])
        found, expected = layer(x[rows], injection.rows(rows), keep[rows]), layer(x, injection, keep)[rows]
        torch.testing.assert_close(found, expected)
        assert injection.since(0) is injection
        last = injection.since(6)
        assert last.score_mod is injection.score_mod
        query, key = layer.queries_and_keys(x, injection)
        new = backbone._scores(query[:, :, 6:], key, last, keep)
        torch.testing.assert_close(new, layer.scores(x, injection, keep)[:, :, 6:])
    with pytest.raises(
        ValueError,
        match="both injections have a score_mod, PairFactor and ContextualPositions, and a layer applies",
    ):
        one + other


def test_a_sum_of_two_is_refused() -> None:
    with pytest.raises(ValueError, match="both injections have a score_mod, ContextualPos"):
        Sum(cope(), cope())(drawn(1, 2, 1))


class Wrong(Recorder):
    def __call__(self, query: Tensor, key: Tensor, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.mean(1, keepdim=True)


def test_scores_of_another_shape_are_named() -> None:
    message = r"the score_mod Wrong returned the shape \(4, 1, 9, 9\), for scores of the shape \(4, 2, 9, 9\)"
    with unchecked(), pytest.raises(ValueError, match=message):
        attention()(drawn(4, TOKENS, DIM), Injection(score_mod=Wrong([])), masks())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cope(width=0), "width=0, positions=64; expected at least 1 and 2"),
        (lambda: Cope(width=4, positions=1), "width=4, positions=1; expected at least 1 and 2"),
        (lambda: Nape(num_heads=1, width=4), "num_heads=1, width=4; expected at least 2 and 1"),
        (lambda: Forgetting(num_heads=0, width=4), "num_heads=0, width=4; expected at least 1 and 1"),
        (lambda: ScaleInvariant(tau=0.0), "tau=0.0; it must be a positive number of tokens"),
    ],
)
def test_messages(make: Callable[[], object], message: str) -> None:
    with unchecked(), pytest.raises(ValueError, match=message):
        make()


def test_what_they_show_of_themselves() -> None:
    assert repr(Cope(width=4)) == "Cope(width=4, positions=64)"
    assert repr(ScaleInvariant()) == "ScaleInvariant(tau=10)"
    assert repr(Forgetting(num_heads=4, width=8)) == "Forgetting(num_heads=4, width=8)"
    assert repr(Nape(num_heads=4, width=8)) == "Nape(num_heads=4, width=8)"


def test_nape_reads_the_first_axis_alone() -> None:
    part, at = Nape(num_heads=4, width=8), torch.randn(2, 5, 3)
    lines = [part(axes).score_mod.bias.line for axes in (at, at[..., :1])]
    assert torch.equal(*lines) and lines[0].shape == (2, 1, 5)
