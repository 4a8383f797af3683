"""The encoder: against PyTorch's own with copied weights, and the laws of bias, rotation and scale on the
encoder.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from vnait.model.backbone import Block, Encoder
from vnait.positions import toeplitz
from vnait.positions.attention import Attention, rotate
from vnait.positions.encodings import AlibiBias, CableBias, Fire, Kerple, Rotary, ShawBias, Sum, T5Bias
from vnait.positions.injection import DistanceBias, Injection

DIM, HEADS, TOKENS = 16, 4, 7


def encoder(num_layers: int = 2, dropout: float = 0.0) -> Encoder:
    torch.manual_seed(0)
    built = Encoder(dim=DIM, num_heads=HEADS, intermediate=24, num_layers=num_layers, dropout=dropout)
    for parameter in built.parameters():
        nn.init.normal_(parameter, std=0.3)
    return built.eval()


def inputs() -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    keep = torch.ones(3, TOKENS, dtype=torch.bool)
    keep[1, 4:] = False
    keep[2, :2] = False
    return torch.randn(3, TOKENS, DIM), keep


def angles() -> Tensor:
    return torch.rand(3, TOKENS, DIM // HEADS // 2, generator=torch.Generator().manual_seed(2)) * 6


def torchs_own(ours: Encoder) -> nn.ModuleList:
    """PyTorch's pre-norm layers with the same weights."""
    layers = nn.ModuleList()
    for block in ours.blocks:
        layer = nn.TransformerEncoderLayer(
            DIM, HEADS, dim_feedforward=24, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        attention = block.attention
        weights = {
            "self_attn.in_proj_weight": torch.cat(
                [p.weight for p in (attention.query, attention.key, attention.value)]
            ),
            "self_attn.in_proj_bias": torch.cat(
                [p.bias for p in (attention.query, attention.key, attention.value)]
            ),
        }
        pairs = {
            "self_attn.out_proj": attention.out,
            "linear1": block.feedforward[0],
            "linear2": block.feedforward[2],
            "norm1": block.norm_attention,
            "norm2": block.norm_feedforward,
        }
        for name, part in pairs.items():
            weights |= {f"{name}.weight": part.weight, f"{name}.bias": part.bias}
        layer.load_state_dict(weights)
        # in training: in evaluation PyTorch takes another path through the same numbers
        layers.append(layer.train())
    return layers


def everything(x: Tensor) -> Injection:
    """All four ways into the scores at once."""
    torch.manual_seed(3)
    return Injection(
        rotary=angles(),
        stretch=0.3 * torch.randn_like(angles()),
        bias=torch.randn(len(x), HEADS, TOKENS, TOKENS),
        scale=0.5 + torch.rand(len(x), TOKENS),
    )


def test_pytorchs_encoder() -> None:
    ours, (x, keep) = encoder(), inputs()
    expected = x
    for layer in torchs_own(ours):
        expected = layer(expected, src_key_padding_mask=~keep)
    expected = ours.norm(expected)
    torch.testing.assert_close(ours(x, Injection(), keep)[keep], expected[keep], rtol=1e-4, atol=1e-5)


def test_pytorchs_encoder_with_a_bias() -> None:
    """PyTorch takes a score bias as a float mask (B * H, T, T)."""
    ours, (x, _) = encoder(), inputs()
    bias = torch.randn(3, HEADS, TOKENS, TOKENS)
    expected = x
    for layer in torchs_own(ours):
        expected = layer(expected, src_mask=bias.flatten(0, 1))
    keep = torch.ones(3, TOKENS, dtype=torch.bool)
    torch.testing.assert_close(ours(x, Injection(bias=bias), keep), ours.norm(expected), rtol=1e-4, atol=1e-5)


def test_trace_holds_every_state() -> None:
    ours, (x, keep) = encoder(num_layers=3), inputs()
    states = ours.trace(x, Injection(), keep)
    assert len(states) == 4
    assert torch.equal(states[0], x)
    state = x
    for number, block in enumerate(ours.blocks, start=1):
        state = block(state, Injection(), keep)
        torch.testing.assert_close(states[number], ours.norm(state) if number == 3 else state)
    assert torch.equal(ours(x, Injection(), keep), states[-1])


def test_dropout_is_on_in_training_alone() -> None:
    ours, (x, keep) = encoder(dropout=0.5), inputs()
    assert torch.equal(ours(x, Injection(), keep), ours(x, Injection(), keep))
    ours.train()
    assert not torch.allclose(ours(x, Injection(), keep), ours(x, Injection(), keep))


# --- The weights


def by_hand(attention: Attention, x: Tensor, injection: Injection, keep: Tensor) -> Tensor:
    """softmax(scale * Re(q conj(k)) / sqrt(K) + bias), with rotations as complex numbers."""

    def heads(part: nn.Linear) -> Tensor:
        return part(x).view(*x.shape[:2], HEADS, -1).permute(0, 2, 1, 3)

    half = DIM // HEADS // 2
    query, key = (torch.complex(*heads(part).split(half, -1)) for part in (attention.query, attention.key))
    if injection.rotary is not None:
        spin = torch.polar(torch.ones_like(injection.rotary), injection.rotary)[:, None]
        query, key = query * spin, key * spin
    if injection.stretch is not None:
        grown = injection.stretch[:, None].exp()
        query, key = query * grown, key / grown
    scores = torch.einsum("bhqk,bhpk->bhqp", query, key.conj()).real / math.sqrt(2 * half)
    if injection.scale is not None:
        scores = scores * injection.scale[:, None, :, None]
    if injection.bias is not None:
        scores = scores + injection.bias
    return scores.masked_fill(~keep[:, None, None, :], -math.inf).softmax(-1)


@pytest.mark.parametrize("output", ["nothing", "rotary", "bias", "scale", "everything"])
def test_weights(output: str) -> None:
    """They sum to 1 over the real tokens, are the formula's, and are what `forward` averages the values
    with.
    """
    ours, (x, keep) = encoder(), inputs()
    full = everything(x)
    injection = {"nothing": Injection(), "everything": full}.get(output) or Injection(
        **{output: getattr(full, output)}
    )
    states = ours.trace(x, injection, keep)
    all_weights = ours.weights(x, injection, keep)
    assert len(all_weights) == 2
    for number, (block, weights) in enumerate(zip(ours.blocks, all_weights, strict=True)):
        normed = block.norm_attention(states[number])
        torch.testing.assert_close(weights.sum(-1), torch.ones(3, HEADS, TOKENS))
        assert not weights[~keep[:, None, None, :].expand_as(weights)].any()
        torch.testing.assert_close(
            weights, by_hand(block.attention, normed, injection, keep), rtol=1e-4, atol=1e-6
        )
        values = block.attention.value(normed).view(3, TOKENS, HEADS, -1).transpose(1, 2)
        mixed = block.attention.out((weights @ values).transpose(1, 2).reshape(3, TOKENS, DIM))
        torch.testing.assert_close(block.attention(normed, injection, keep), mixed, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(block.attention.weights(normed, injection, keep), weights)


# --- Laws on the whole encoder


def test_a_key_with_a_bias_of_minus_infinity_is_unseen() -> None:
    ours, (x, _) = encoder(), inputs()
    keep = torch.ones(3, TOKENS, dtype=torch.bool)
    bias = torch.zeros(3, HEADS, TOKENS, TOKENS)
    bias[..., 5] = -math.inf
    seen = torch.arange(TOKENS) != 5
    output = Injection(bias=bias)
    assert not torch.cat(ours.weights(x, output, keep))[..., 5].any()
    without = ours(x[:, seen], Injection(), keep[:, seen])
    torch.testing.assert_close(ours(x, output, keep)[:, seen], without, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(ours(x, Injection(), keep)[:, seen], without, atol=1e-2)


def test_a_causal_bias_hides_what_follows() -> None:
    """The bias is (query, key): a transposed one would hide what precedes."""
    ours, (x, _) = encoder(), inputs()
    keep = torch.ones(3, TOKENS, dtype=torch.bool)
    later = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)
    output = Injection(bias=torch.zeros(3, HEADS, TOKENS, TOKENS).masked_fill(later, -math.inf))
    prefix = Injection(bias=output.bias[..., :3, :3])
    torch.testing.assert_close(
        ours(x, output, keep)[:, :3], ours(x[:, :3], prefix, keep[:, :3]), rtol=1e-4, atol=1e-5
    )


def test_a_constant_bias_is_no_position() -> None:
    ours, (x, keep) = encoder(), inputs()
    output = Injection(bias=torch.full((3, HEADS, TOKENS, TOKENS), 2.5))
    torch.testing.assert_close(ours(x, output, keep), ours(x, Injection(), keep), rtol=1e-4, atol=1e-5)


def test_turning_all_tokens_alike_is_no_position() -> None:
    """Rotations are relative.

    A model that rotates only its queries passes every test of the part, and fails this one.
    """
    ours, (x, keep) = encoder(), inputs()
    alike = torch.tensor([0.3, 2.0]).expand(3, TOKENS, 2)
    plain = ours(x, Injection(), keep)
    torch.testing.assert_close(ours(x, Injection(rotary=alike), keep), plain, rtol=1e-4, atol=1e-5)
    output = ours(x, Injection(rotary=angles()), keep)
    torch.testing.assert_close(
        ours(x, Injection(rotary=angles() + alike), keep), output, rtol=1e-4, atol=1e-4
    )
    assert not torch.allclose(output[keep], plain[keep], atol=1e-2)


def test_rotations_separate_orders() -> None:
    """Without them the encoder is blind to order; with them it is not."""
    ours, (x, _) = encoder(), inputs()
    keep = torch.ones(3, TOKENS, dtype=torch.bool)
    order = torch.randperm(TOKENS, generator=torch.Generator().manual_seed(5))
    blind = ours(x[:, order], Injection(), keep)
    torch.testing.assert_close(blind, ours(x, Injection(), keep)[:, order], rtol=1e-4, atol=1e-5)
    output = Injection(rotary=angles())
    assert not torch.allclose(ours(x[:, order], output, keep), ours(x, output, keep)[:, order], atol=1e-2)


def test_a_scale_of_zero_looks_at_all_alike() -> None:
    ours, (x, keep) = encoder(), inputs()
    blind = Injection(scale=torch.zeros(x.shape[:2]))
    for weights in ours.weights(x, blind, keep):
        expected = (keep / keep.sum(-1, keepdim=True))[:, None, None, :].expand_as(weights)
        torch.testing.assert_close(weights, expected)


def test_a_scale_of_one_changes_nothing_and_a_large_one_looks_at_the_best() -> None:
    ours, (x, keep) = encoder(), inputs()
    plain = ours(x, Injection(), keep)
    torch.testing.assert_close(ours(x, Injection(scale=torch.ones(x.shape[:2])), keep), plain)
    steep = Injection(scale=torch.full(x.shape[:2], 1e4))
    sharp = ours.weights(x, steep, keep)[0]
    best = ours.weights(x, Injection(), keep)[0].argmax(-1)
    assert torch.equal(sharp.argmax(-1), best)
    assert sharp.amax(-1).min() > 0.99


def test_padding_changes_nothing() -> None:
    ours, (x, keep) = encoder(), inputs()
    wild = torch.where(keep[..., None], x, 1e3)
    output = everything(x)
    torch.testing.assert_close(
        ours(wild, output, keep)[keep], ours(x, output, keep)[keep], rtol=1e-4, atol=1e-5
    )


def test_half_precision_turns_by_exact_angles() -> None:
    far = torch.full((1, 1, 1), 1e4)
    one = rotate(torch.tensor([[[[1.0, 0.0]]]]).bfloat16(), far)
    expected = torch.tensor([math.cos(1e4), math.sin(1e4)])
    torch.testing.assert_close(one.float().flatten(), expected, rtol=0, atol=4e-3)


def test_gradients_reach_every_parameter_and_the_injection() -> None:
    ours, (x, keep) = encoder(), inputs()
    output = everything(x)
    leaves = [slot.requires_grad_() for slot in (output.rotary, output.stretch, output.bias, output.scale)]
    (ours(x, output, keep) * torch.randn_like(x))[keep].sum().backward()
    for name, parameter in ours.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, name
    assert all(leaf.grad.abs().max() > 0 for leaf in leaves)


def test_heads_share_the_width() -> None:
    with pytest.raises(ValueError, match="a width of 10 can't be shared among 4 heads"):
        Encoder(dim=10, num_heads=4, intermediate=8, num_layers=1, dropout=0.0)


def test_a_block_is_two_residual_steps() -> None:
    ours, (x, keep) = encoder(), inputs()
    block = ours.blocks[0]
    assert isinstance(block, Block)
    middle = x + block.attention(block.norm_attention(x), Injection(), keep)
    expected = middle + block.feedforward(block.norm_feedforward(middle))
    torch.testing.assert_close(block(x, Injection(), keep), expected)


# --- A bias that is a formula of distances

FORMULAS = {
    "alibi": lambda: AlibiBias(num_heads=HEADS),
    "kerple": lambda: Kerple(num_heads=HEADS),
    "cable": lambda: CableBias(num_heads=HEADS),
    "cable, an axis per head": lambda: CableBias(num_heads=HEADS, form="heads"),
}


def test_a_formula_is_made_dense_and_has_gradients() -> None:
    ours, (x, keep) = encoder(), inputs()
    at = torch.rand(*x.shape[:2], 1).requires_grad_()
    ours(x, AlibiBias(num_heads=HEADS)(at), keep)[keep].sum().backward()
    assert at.grad.abs().max() > 0


def test_formulas_add_up_select_rows_and_meet_other_biases() -> None:
    line = torch.rand(3, 1, TOKENS)
    one = Injection(distance=DistanceBias(line=line, formula=lambda distance: -distance.abs()))
    two = Injection(distance=DistanceBias(line=line, formula=lambda distance: distance))
    bias = Injection(bias=torch.rand(3, HEADS, TOKENS, TOKENS))
    both = (one + two).dense().bias
    torch.testing.assert_close(both, one.dense().bias + two.dense().bias)
    torch.testing.assert_close((one + bias).dense().bias, one.dense().bias + bias.bias)
    torch.testing.assert_close((bias + one).dense().bias, one.dense().bias + bias.bias)
    rows = torch.tensor([2, 0, 2])
    torch.testing.assert_close(one.rows(rows).dense().bias, one.dense().bias[rows])
    assert bias.dense() is bias


# --- Whole distances, without a (T, T)

WHOLE = {
    **FORMULAS,
    "t5": lambda: T5Bias(num_heads=HEADS, start=1.0),
    "shaw": lambda: ShawBias(num_heads=HEADS, max_distance=16, start=1.0),
    "two of them": lambda: Sum(AlibiBias(num_heads=HEADS), T5Bias(num_heads=HEADS, start=1.0)),
}


@pytest.mark.parametrize("tokens", [1, 2, 127, 129, 300])
@pytest.mark.parametrize("name", WHOLE)
def test_whole_distances_give_what_every_pair_gives(
    name: str, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outputs and all gradients, with several blocks of the backward pass."""
    torch.manual_seed(0)
    encoding, layers = WHOLE[name]().double(), encoder().double()
    for weight in encoding.parameters():
        weight.data += 0.3 * torch.randn_like(weight)
    axes = HEADS if name == "cable, an axis per head" else 1
    at = torch.arange(5.0, tokens + 5, dtype=torch.float64)[None, :, None].expand(2, -1, axes)
    x, keep = torch.randn(2, tokens, layers.norm.weight.shape[0]).double(), torch.ones(2, tokens).bool()
    calls, attend = [], toeplitz.attend
    monkeypatch.setattr(toeplitz, "attend", lambda *given: calls.append(1) or attend(*given))

    def outcome(injection: Injection) -> list[Tensor]:
        leaf = x.clone().requires_grad_()
        out = layers(leaf, injection, keep)
        learned = [leaf, *encoding.parameters(), *layers.parameters()]
        gradients = torch.autograd.grad((out * torch.randn_like(x[:1, :1])).sum(), learned, allow_unused=True)
        return [out, *(gradient for gradient in gradients if gradient is not None)]

    torch.manual_seed(1)
    found = outcome(encoding(at))
    assert len(calls) == len(layers.blocks)
    torch.manual_seed(1)
    expected = outcome(encoding(at).dense())
    assert len(calls) == len(layers.blocks)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)


class Largest(TorchDispatchMode):
    """The most numbers that a tensor of a call stores; those of a view are its base's."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, call, types, args=(), kwargs=None):
        found = call(*args, **(kwargs or {}))
        for one in found if isinstance(found, tuple | list) else [found]:
            if isinstance(one, Tensor):
                self.numbers = max(self.numbers, one.untyped_storage().nbytes() // one.element_size())
        return found


@pytest.mark.parametrize("name", WHOLE)
def test_whole_distances_store_no_pairs_in_training(name: str) -> None:
    tokens, layers, encoding = 600, encoder(), WHOLE[name]()
    axes = HEADS if name == "cable, an axis per head" else 1
    at = torch.arange(float(tokens))[None, :, None].expand(1, -1, axes)
    x, keep = torch.randn(1, tokens, layers.norm.weight.shape[0]), torch.ones(1, tokens).bool()
    with Largest() as largest:
        layers(x, encoding(at), keep).sum().backward()
    assert largest.numbers < HEADS * tokens * tokens // 2


@pytest.mark.parametrize("name", ["t5", "shaw"])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_an_injection_read_without_gradients_has_them_afterwards(name: str, mode: Callable) -> None:
    encoding, layers = WHOLE[name](), encoder()
    x, keep = torch.randn(1, 5, layers.norm.weight.shape[0]), torch.ones(1, 5, dtype=torch.bool)
    injection = encoding(torch.arange(5.0)[None, :, None])
    with mode():
        layers(x, injection, keep)
    layers(x, injection, keep).sum().backward()
    assert encoding.weight.grad.any()


def test_attention_alone_adds_a_bias_to_one_of_distances() -> None:
    attention, x = encoder().blocks[0].attention, torch.randn(1, 5, encoder().norm.weight.shape[0])
    distance = AlibiBias(num_heads=HEADS)(torch.arange(5.0)[None, :, None])
    injection = distance + Injection(bias=torch.randn(1, HEADS, 5, 5))
    torch.testing.assert_close(attention(x, injection, None), attention(x, injection.dense(), None))


def test_autocast_gives_a_learned_bias_the_gradient_of_every_pair() -> None:
    torch.manual_seed(0)
    encoding, layers = ShawBias(num_heads=HEADS, max_distance=16, start=0.3), encoder()
    x, keep = torch.randn(1, 300, layers.norm.weight.shape[0]), torch.ones(1, 300, dtype=torch.bool)
    wanted = torch.randn_like(x)

    def gradient(dense: bool) -> Tensor:
        injection = encoding(torch.arange(300.0)[None, :, None])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = layers(x, injection.dense() if dense else injection, keep)
        return torch.autograd.grad((out.float() * wanted).sum(), encoding.weight)[0]

    torch.testing.assert_close(gradient(dense=False), gradient(dense=True), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("line", "hidden"),
    [
        ([0.0, 1.0, 2.5, 3.5], []),
        ([0.0, 1.0, 3.0, 4.0], []),
        ([0.0, 2.0, 4.0, 6.0], []),
        ([3.0, 2.0, 1.0, 0.0], []),
        ([0.0, 0.0, 1.0, 2.0], [0]),
        ([0.0, 1.0, 2.0, 3.0], [3]),
    ],
)
def test_other_distances_and_padding_take_every_pair(
    line: list[float], hidden: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    layers = encoder()
    x, keep = torch.randn(1, 4, layers.norm.weight.shape[0]), torch.ones(1, 4, dtype=torch.bool)
    keep[:, hidden] = False
    injection = AlibiBias(num_heads=HEADS)(torch.tensor(line)[None, :, None])
    monkeypatch.setattr(toeplitz, "attend", lambda *_: pytest.fail("distances are not 1 apart, or hidden"))
    assert torch.equal(layers(x, injection, keep), layers(x, injection.dense(), keep))


def test_a_function_of_places_and_a_score_mod_take_every_pair() -> None:
    at = torch.arange(4.0)[None, :, None]
    assert Fire(num_heads=HEADS)(at).distance.strip is None
    assert AlibiBias(num_heads=HEADS)(at).distance.strip.shape == (HEADS, 7)
    assert AlibiBias(num_heads=HEADS)(at).since(1).distance.strip is None


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        (Rotary(width=2), "rotates heads of width 2, and those of the attention have width 4"),
        (AlibiBias(num_heads=2), "a bias of 2 heads, and the attention has 4"),
        (Fire(num_heads=2), "a bias of 2 heads, and the attention has 4"),
    ],
)
def test_heads_that_do_not_fit_are_named(encoding, message):
    x, keep = inputs()
    attention = Attention(dim=DIM, num_heads=HEADS)
    injection = encoding(torch.arange(float(TOKENS))[None, :, None])
    for mask in (None, keep):
        with pytest.raises(ValueError, match=message):
            attention(x, injection, mask)


@pytest.mark.parametrize("encoding", [T5Bias, partial(ShawBias, max_distance=4), Kerple])
def test_a_gradient_of_a_gradient_is_that_of_every_pair(encoding):
    """Of a bias of distances that no pair is stored of, against the same one where a mask stores them."""
    torch.manual_seed(0)
    bias = encoding(num_heads=HEADS).double()
    for weight in bias.parameters():
        nn.init.normal_(weight)
    attention = Attention(dim=DIM, num_heads=HEADS).double()
    x = torch.randn(2, TOKENS, DIM, dtype=torch.float64, requires_grad=True)
    at = torch.arange(TOKENS, dtype=torch.float64)[None, :, None]

    def twice(injection: Injection) -> Tensor:
        found = attention(x, injection, None).square().sum()
        (once,) = torch.autograd.grad(found, x, create_graph=True)
        return torch.autograd.grad(once.square().sum(), x)[0]

    with sdpa_kernel(SDPBackend.MATH):  # PyTorch's fused kernels have none
        assert torch.allclose(twice(bias(at)), twice(bias(at).dense()), atol=1e-10)


@pytest.mark.parametrize("encoding", [T5Bias, Kerple, Fire])
def test_torch_func_differentiates_through_a_learned_bias(encoding):
    x, keep = inputs()
    bias, attention = encoding(num_heads=HEADS), Attention(dim=DIM, num_heads=HEADS)
    injection = bias(torch.arange(float(TOKENS))[None, :, None])
    found = torch.func.grad(lambda x: attention(x, injection, keep).square().sum())(x)
    wanted = x.clone().requires_grad_()
    attention(wanted, injection, keep).square().sum().backward()
    assert torch.allclose(found, wanted.grad, atol=1e-5)
