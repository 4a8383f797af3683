"""Rotations: against transformers' Llama, against formulas written anew, and the laws a rotation keeps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from conftest import unchecked
from helpers import at, drawn, python
from vnait.positions.attention import Attention, rotate
from vnait.positions.building import build
from vnait.positions.coordinates import Index
from vnait.positions.encodings.rotary import Axial, MixedRotary, PartialRotary, Rotary, XPos
from vnait.positions.encodings.rotary_scaling import Scaling
from vnait.positions.injection import Injection
from vnait.positions.method import Method

K = 32
ORIGINAL = 48
RULES: dict[str, Scaling | None] = {
    "default": None,
    "linear": Scaling(rule="linear", factor=4.0),
    "dynamic": Scaling(rule="dynamic", factor=2.0, original_length=ORIGINAL),
    "yarn": Scaling(rule="yarn", factor=4.0, original_length=ORIGINAL),
    "yarn, every number given": Scaling(
        rule="yarn",
        factor=8.0,
        original_length=ORIGINAL,
        more={"beta_fast": 16, "beta_slow": 2, "mscale": 1.0, "mscale_all_dim": 0.5, "truncate": False},
    ),
    "llama3": Scaling(
        rule="llama3",
        factor=8.0,
        original_length=ORIGINAL,
        more={"low_freq_factor": 1.0, "high_freq_factor": 4.0},
    ),
    "longrope": Scaling(
        rule="longrope",
        factor=4.0,
        original_length=ORIGINAL,
        more={"short_factor": [1.0 + k / 50 for k in range(16)], "long_factor": [1.0 + k for k in range(16)]},
    ),
}
EVERY_RULE = pytest.mark.parametrize("scaling", RULES.values(), ids=RULES)


def scores(query: Tensor, key: Tensor, output: Injection) -> Tensor:
    """As the backbone scores, before the softmax."""
    back = None if output.stretch is None else -output.stretch
    query, key = rotate(query, output.rotary, output.stretch), rotate(key, output.rotary, back)
    product = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    return product if output.scale is None else product * output.scale[:, None, :, None]


def llama(scaling: Scaling | None, base: float = 10_000.0) -> LlamaRotaryEmbedding:
    """transformers' own module with the same settings; a new one per call, as it remembers the longest input
    it saw.
    """
    parameters: dict[str, Any] = {"rope_type": "default", "rope_theta": base}
    length = ORIGINAL
    if scaling is not None:
        parameters |= {"rope_type": scaling.rule, "factor": scaling.factor, **scaling.more}
        if scaling.rule not in ("linear", "dynamic"):
            parameters["original_max_position_embeddings"] = scaling.original_length
            length = int(ORIGINAL * scaling.factor)
    config = LlamaConfig(
        hidden_size=2 * K, num_attention_heads=2, max_position_embeddings=length, rope_parameters=parameters
    )
    return LlamaRotaryEmbedding(config)


def reference(place: float, size: int, base: float) -> list[float]:
    """The paper's angles, number by number."""
    return [place / base ** (2 * pair / size) for pair in range(size // 2)]


def apart(one: Tensor, other: Tensor) -> float:
    """The largest difference of two tensors of angles, whole turns aside."""
    difference = one.double() - other.double()
    return float((difference - (difference / math.tau).round() * math.tau).abs().max())


# --- Against transformers


@pytest.mark.parametrize("length", [ORIGINAL, 2 * ORIGINAL], ids=["original", "longer"])
@pytest.mark.parametrize("base", [1e4, 5e5])
@EVERY_RULE
def test_llama_in_float32(scaling: Scaling | None, length: int, base: float) -> None:
    """The whole of transformers' pipeline: rotated queries and keys, scores, and gradients of q and k, to
    1e-5.
    """
    query, key, weight = (drawn(1, 2, length, K, dtype=torch.float32, seed=seed) for seed in range(3))
    weight = (weight @ weight.transpose(-1, -2)) / K
    places = torch.arange(length)[None]
    results = []
    for theirs in (False, True):
        q, k = (x.clone().requires_grad_() for x in (query, key))
        if theirs:
            rotated = apply_rotary_pos_emb(q, k, *llama(scaling, base)(q, places))
        else:
            output = Rotary(width=K, base=base, scaling=scaling)(places[..., None].float())
            m = 1.0 if output.scale is None else float(output.scale[0, 0]) ** 0.5
            rotated = (m * rotate(q, output.rotary), m * rotate(k, output.rotary))
        score = rotated[0] @ rotated[1].transpose(-1, -2) / K**0.5
        ((score * weight).sum() / length**0.5).backward()
        results.append((*rotated, score, q.grad, k.grad))
    for ours, reference in zip(*results, strict=True):
        torch.testing.assert_close(ours, reference, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("length", [ORIGINAL, 2 * ORIGINAL], ids=["original", "longer"])
@EVERY_RULE
def test_llama_in_float64(scaling: Scaling | None, length: int) -> None:
    """transformers' rotation with cos and sin in float64, to 1e-10.

    Its own cos and sin are float32 at any dtype, and its frequencies too: of those, the scaled ones are ours
    as they are, and the default and dynamic ones are written here in float64.
    """
    places = torch.arange(length, dtype=torch.float64)
    module = llama(scaling)
    module(drawn(1), torch.arange(length)[None])  # "dynamic" and "longrope" update their frequencies here
    rates, m = module.inv_freq.double(), module.attention_scaling
    if scaling is None or scaling.rule == "dynamic":
        stretch = 1.0 if scaling is None else max(2.0 * length / ORIGINAL - 1.0, 1.0) ** (K / (K - 2))
        exact = torch.tensor(reference(1.0, K, 10_000.0 * stretch), dtype=torch.float64)
        torch.testing.assert_close(rates, exact, rtol=1e-6, atol=0)
        rates = exact
    angle = (places[:, None] * rates)[None].repeat(1, 1, 2)
    query, key, weight = (drawn(1, 2, length, K, seed=seed) for seed in range(3))
    weight = weight @ weight.transpose(-1, -2)
    output = Rotary(width=K, scaling=scaling)(places[None, :, None])
    results = []
    for theirs in (False, True):
        q, k = (x.clone().requires_grad_() for x in (query, key))
        if theirs:
            one, other = apply_rotary_pos_emb(q, k, m * angle.cos(), m * angle.sin())
            score = one @ other.transpose(-1, -2) / K**0.5
        else:
            score = scores(q, k, output)
        (score * weight).sum().backward()
        results.append((score, q.grad, k.grad))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_llama_where_float32_is_exact() -> None:
    """base 2^16 makes every frequency a power of two: what is left is float32's rounding of transformers' cos
    and sin.
    """
    places = torch.arange(2000)[None]
    query, key = drawn(1, 2, 2000, K), drawn(1, 2, 2000, K, seed=1)
    theirs = apply_rotary_pos_emb(query, key, *llama(None, base=2.0**16)(query, places))
    turn = Rotary(width=K, base=2.0**16)(places[..., None].double()).rotary
    for ours, expected in zip((rotate(query, turn), rotate(key, turn)), theirs, strict=True):
        torch.testing.assert_close(ours, expected, rtol=0, atol=5e-7)


@EVERY_RULE
def test_attention_weights_are_llamas(scaling: Scaling | None) -> None:
    """Through the backbone, `scale` included."""
    torch.manual_seed(0)
    attention = Attention(dim=2 * K, num_heads=2)
    x, places, keep = (
        drawn(1, 60, 2 * K, dtype=torch.float32),
        torch.arange(60)[None],
        torch.ones(1, 60).bool(),
    )
    q, k = (attention.heads(part(x)) for part in (attention.query, attention.key))
    q, k = apply_rotary_pos_emb(q, k, *llama(scaling)(q, places))
    expected = (q @ k.transpose(-1, -2) / K**0.5).softmax(-1)
    output = Rotary(width=K, scaling=scaling)(places[..., None].float())
    torch.testing.assert_close(attention.weights(x, output, keep), expected, rtol=1e-5, atol=1e-6)


# --- Scaling


def test_the_attention_factor_enters_squared() -> None:
    output = Rotary(width=K, scaling=RULES["yarn"])(at(0, 1, 2).repeat(3, 1, 1))
    assert output.scale.shape == (3, 3)  # one number per query
    assert output.scale.flatten().tolist() == pytest.approx([(0.1 * math.log(4) + 1) ** 2] * 9, rel=1e-12)
    longrope = Rotary(width=K, scaling=RULES["longrope"])(at(0, 1, 2)).scale
    assert longrope[0].tolist() == pytest.approx([1 + math.log(4) / math.log(ORIGINAL)] * 3, rel=1e-12)
    for rule in ("default", "linear", "dynamic", "llama3"):
        assert Rotary(width=K, scaling=RULES[rule])(at(0, 1, 2)).scale is None


@pytest.mark.parametrize("rule", ["dynamic", "longrope"])
def test_a_sentence_stretches_by_its_own_length(rule: str) -> None:
    """Not by its neighbours', not by the padding (which stands at the nearest real token), not by what came
    before.
    """
    lengths = [7, ORIGINAL, ORIGINAL + 1, 120, 200]
    mask = torch.arange(200) < torch.tensor(lengths)[:, None]
    mask[3] = mask[3].flip(0)
    rotary = Rotary(width=K, scaling=RULES[rule])
    batch = rotary(Index()(None, mask)).rotary
    for row, length in enumerate(lengths):
        alone = rotary(torch.arange(float(length))[None, :, None]).rotary
        assert torch.equal(batch[row][mask[row]], alone[0])
    plain = Rotary(width=K)(torch.arange(200.0)[None, :, None]).rotary[0]
    if rule == "dynamic":
        assert apart(batch[1][mask[1]], plain[:ORIGINAL]) < 1e-5
        assert apart(batch[2][mask[2]], plain[: ORIGINAL + 1]) > 1e-4
        assert apart(batch[2][mask[2]], plain[: ORIGINAL + 1]) < apart(batch[3][mask[3]], plain[:120])


def test_linear_scaling_is_position_interpolation() -> None:
    places = torch.linspace(0, 500, 40, dtype=torch.float64)[None, :, None]
    stretched, plain = (
        Rotary(width=K, scaling=RULES["linear"])(places).rotary,
        Rotary(width=K)(places / 4).rotary,
    )
    assert apart(stretched, plain) < 1e-5  # transformers' frequencies are float32


@pytest.mark.slow
def test_transformers_is_imported_when_it_is_asked() -> None:
    code = (
        "import sys, torch\n"
        "from vnait.positions.encodings import Rotary, Scaling\n"
        "Rotary(width=4)(torch.zeros(1, 2, 1))\n"
        "scaled = Rotary(width=4, scaling=Scaling(rule='linear', factor=2.0))\n"
        "assert 'transformers' not in sys.modules\n"
        "scaled(torch.zeros(1, 2, 1))\n"
        "assert 'transformers' in sys.modules\n"
    )
    python(code)


# --- Laws of a rotation


@settings(max_examples=60)
@given(
    place=st.floats(-1e5, 1e5, width=32),
    size=st.integers(1, 20).map(lambda half: 2 * half),
    base=st.sampled_from([2.0, 100.0, 1e4, 5e5]),
    unit=st.sampled_from([1.0, 10.0, 0.3]),
)
def test_the_formula(place: float, size: int, base: float, unit: float) -> None:
    turn = Rotary(width=size, base=base, unit=unit)(at(place)).rotary[0, 0]
    assert apart(turn, torch.tensor(reference(place / unit, size, base), dtype=torch.float64)) < 1e-9
    assert turn.abs().max() <= math.pi + 1e-9


# they follow the length
@pytest.mark.parametrize("rule", [rule for rule in RULES if rule not in ("dynamic", "longrope")])
@pytest.mark.parametrize("shift", [1.0, 17.0, 1000.0, 1e5])
def test_scores_depend_on_differences(rule: str, shift: float) -> None:
    query, key, places = drawn(1, 1, 50, 64), drawn(1, 1, 50, 64, seed=1), drawn(1, 50, 1, seed=2) * 50
    rotary = Rotary(width=64, scaling=RULES[rule])
    here, there = (scores(query, key, rotary(where)) for where in (places, places + shift))
    assert (here - there).abs().max() < 1e-9
    assert (here - scores(query, key, rotary(places * 1.1))).abs().max() > 0.1


def test_scores_in_float32_depend_on_differences_far_away() -> None:
    """Whole turns are taken off in float64; angles handed on whole would be off by 5e-3 here (the studies,
    A(b)).
    """
    query, key = (drawn(1, 1, 50, 64, dtype=torch.float32, seed=seed) for seed in (0, 1))
    places = torch.arange(50.0)[None, :, None]
    here, there = (scores(query, key, Rotary(width=64)(where)) for where in (places, places + 1e5))
    assert there.dtype == torch.float32
    assert (here - there).abs().max() < 1e-5


def test_norms_are_kept() -> None:
    query = drawn(2, 2, 50, 64)
    rotated = rotate(query, Rotary(width=64)(drawn(2, 50, 1, seed=1) * 1e4).rotary)
    torch.testing.assert_close(rotated.norm(dim=-1), query.norm(dim=-1), rtol=1e-14, atol=0)
    assert (rotated - query).abs().max() > 1


def test_the_mean_kernel() -> None:
    """The studies' figure: equal q and k, averaged over contents; it falls, and not monotonely."""
    offsets = [0, 1, 2, 4, 8, 16, 32, 64, 128]
    one = torch.ones(1, 1, len(offsets), 64, dtype=torch.float64)
    rotated = rotate(one, Rotary(width=64)(at(*offsets)).rotary)[0, 0]
    expected = [1, 0.966, 0.884, 0.748, 0.700, 0.605, 0.611, 0.435, 0.284]
    assert (rotated @ rotated[0] / 64).tolist() == pytest.approx(expected, abs=6e-4)


def test_the_turn_is_counter_clockwise() -> None:
    """f(x, p) = x e^{ip}, as in the paper: the sign is not to be seen in scores."""
    rotated = rotate(torch.tensor([[[[1.0, 0.0]]]]), Rotary(width=2)(at(0.5)).rotary)[0, 0, 0]
    assert rotated.tolist() == pytest.approx([math.cos(0.5), math.sin(0.5)], abs=1e-7)


# --- Coordinates, gradients and precision


def test_coordinates_are_fractional_negative_and_each_sentences_own() -> None:
    places = torch.tensor([[0.25, -3.5, 1e4 + 0.125], [7.75, 0.0, -0.001]], dtype=torch.float64)
    turn = Rotary(width=8)(places[..., None]).rotary
    for row in range(2):
        for token in range(3):
            expected = reference(float(places[row, token]), 8, 10_000.0)
            assert apart(turn[row, token], torch.tensor(expected, dtype=torch.float64)) < 1e-10


def test_rotary_reads_axis_0() -> None:
    places = drawn(2, 5, 3)
    assert torch.equal(Rotary(width=8)(places).rotary, Rotary(width=8)(places[..., :1]).rotary)


def test_no_tokens() -> None:
    for scaling in RULES.values():
        assert Rotary(width=K, scaling=scaling)(torch.zeros(2, 0, 1)).rotary.shape == (2, 0, K // 2)
    assert XPos(width=K)(torch.zeros(2, 0, 1)).stretch.shape == (2, 0, K // 2)


@EVERY_RULE
def test_the_gradient_is_the_frequency(scaling: Scaling | None) -> None:
    """d turn_k / d p = base^(-2k/R), past a whole turn too; the sentence's length, which may stretch, has no
    gradient.
    """
    places = drawn(2, 6, 1).abs() * 90
    places[:, 2] = 1.0  # its angles are the frequencies
    turn = Rotary(width=K, scaling=scaling)(places.requires_grad_()).rotary
    rates = turn[:, 2:3].detach()
    if scaling is None:
        exact = torch.tensor(reference(1.0, K, 10_000.0), dtype=torch.float64)
        torch.testing.assert_close(rates[0, 0], exact, rtol=1e-14, atol=0)
    weight = drawn(2, 6, K // 2, seed=1)
    (turn * weight).sum().backward()
    torch.testing.assert_close(places.grad, (weight * rates).sum(-1, keepdim=True), rtol=1e-12, atol=1e-12)


def test_gradients_of_scores_reach_the_coordinates() -> None:
    query, key = drawn(1, 2, 4, 8), drawn(1, 2, 4, 8, seed=1)
    for encoding, axes in (
        (Rotary(width=8), 1),
        (Axial(width=8), 2),
        (XPos(width=8), 1),
    ):
        places = (drawn(1, 4, axes, seed=2) * 5).requires_grad_()

        def of(where: Tensor, encoding: torch.nn.Module = encoding) -> Tensor:
            return scores(query, key, encoding(where))

        assert torch.autograd.gradcheck(of, (places,))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_in_half_precision_separates_8192_positions(dtype: torch.dtype) -> None:
    method = Method(coordinates=Index(), encoding=Rotary(width=64)).to(dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = method(torch.zeros(1, 8193, 8, dtype=dtype), torch.ones(1, 8193).bool())
    turn = output.injection.rotary[0]
    assert turn.dtype == torch.float32
    assert len(turn.unique(dim=0)) == 8193
    for pair in (0, 1, 30, 31):
        assert len(turn[:, pair].unique()) == 8193
    expected = torch.tensor([reference(place, 64, 10_000.0) for place in range(8193)], dtype=torch.float64)
    assert apart(turn, expected) < 3e-7


def test_angles_keep_the_precision_of_the_coordinates_and_of_the_model() -> None:
    rotary, axial, xpos = Rotary(width=8), Axial(width=8), XPos(width=8)
    kinds = {torch.float64: torch.float64, torch.float32: torch.float32, torch.bfloat16: torch.float32}
    for given_, expected in kinds.items():
        assert rotary(torch.ones(1, 2, 2, dtype=given_)).rotary.dtype == expected
        assert axial(torch.ones(1, 2, 2, dtype=given_)).rotary.dtype == expected
        output = xpos(torch.ones(1, 2, 1, dtype=given_))
        assert output.rotary.dtype == output.stretch.dtype == expected
    torch.set_default_dtype(torch.float64)
    try:
        assert rotary(torch.ones(1, 2, 1, dtype=torch.float32)).rotary.dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@EVERY_RULE
def test_nothing_is_kept_between_calls(scaling: Scaling | None) -> None:
    """A low-precision, a longer and a moved call change no later one; there is nothing to save."""
    rotary = Rotary(width=K, scaling=scaling)
    places = torch.arange(60.0)[None, :, None]
    before = rotary(places).rotary
    rotary(torch.arange(900.0)[None, :, None])
    rotary.bfloat16()(places.bfloat16())
    assert torch.equal(rotary(places).rotary, before)
    assert rotary.state_dict() == {}


@EVERY_RULE
def test_built_on_the_meta_device(scaling: Scaling | None) -> None:
    """As `from_pretrained` builds."""
    places = torch.arange(60.0)[None, :, None]
    with torch.device("meta"):
        rotary = Rotary(width=K, scaling=scaling)
    assert torch.equal(rotary(places).rotary, Rotary(width=K, scaling=scaling)(places).rotary)


@pytest.mark.long
def test_compiled_and_exported() -> None:
    """In a process of its own: the tests' check of types can't be traced."""
    code = f"""
import torch
from vnait.positions.encodings import Axial, Rotary, Scaling
places = torch.stack([torch.arange(120.0), torch.arange(120.0) / 4]).repeat(2, 1, 1).permute(1, 2, 0)
for scaling in {list(RULES.values())!r}:
    rotary = Rotary(width={K}, scaling=scaling)
    for encoding in (rotary, Axial(width={K}))[: 2 if scaling is None else 1]:
        expected = encoding(places)
        told = torch.compile(encoding, backend="aot_eager", fullgraph=True)(places)
        torch.testing.assert_close(told.rotary, expected.rotary, rtol=0, atol=1e-6)
        assert told.scale is expected.scale is None or torch.equal(told.scale, expected.scale)
        torch._dynamo.reset()
    class Turn(torch.nn.Module):
        def forward(self, places):
            return rotary(places).rotary
    shapes = ({{0: torch.export.Dim("B", min=2), 1: torch.export.Dim("T", min=2)}},)
    exported = torch.export.export(Turn(), (places,), dynamic_shapes=shapes).module()
    longer = torch.arange(3 * 300.0).view(3, 300, 1).expand(3, 300, 2)
    torch.testing.assert_close(exported(longer), rotary(longer).rotary, rtol=0, atol=1e-6)
"""
    python(code)


# --- p-RoPE


@pytest.mark.parametrize(("share", "rotating"), [(1 / 16, 1), (0.25, 4), (0.5, 8), (0.74, 11), (1.0, 16)])
def test_partial_is_rope_in_its_fastest_pairs(share: float, rotating: int) -> None:
    """The listing's int(share * K // 2) pairs; scores are RoPE's there, and the words' own in the others."""
    places, partial = drawn(2, 5, 1) * 100, PartialRotary(width=K, share=share, base=500.0)
    output = partial(places)
    for row in range(2):
        for token in range(5):
            expected = reference(places[row, token, 0].item(), K, 500.0)[:rotating]
            assert apart(output.rotary[row, token, :rotating], torch.tensor(expected).double()) < 1e-5
    assert (output.rotary[..., rotating:] == 0).all() and output.rotary.shape == (2, 5, K // 2)
    query, key = drawn(2, 1, 5, K), drawn(2, 1, 5, K, seed=1)
    still = torch.arange(K) % (K // 2) >= rotating
    found = scores(query * still, key * still, output)
    torch.testing.assert_close(found, (query * still) @ (key * still).mT / K**0.5)


def test_partial_of_all_pairs_is_rotary() -> None:
    places = drawn(1, 5, 1)
    assert torch.equal(PartialRotary(width=8, share=1.0)(places).rotary, Rotary(width=8)(places).rotary)


def test_rope_p_rotates_a_quarter_of_the_channels_twice_down_to_1_in_1024() -> None:
    """And scales by log length: of 9 tokens after a mean of 3, by 2."""
    method = build("rope-p", dim=64, num_heads=2, mean_length=3.0)
    injection = method(torch.zeros(1, 9, 64), torch.ones(1, 9, dtype=torch.bool)).injection
    rates = injection.rotary[0, 1]
    torch.testing.assert_close(rates[:8], 1024 ** (-torch.arange(8) / 8))
    assert (rates[8:] == 0).all() and len(rates) == 16
    torch.testing.assert_close(injection.scale, torch.full((1, 9), 2.0))


# --- Axial


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_axial_is_a_formula(axes: int) -> None:
    places, pairs = drawn(2, 5, axes) * 100, 4
    turn = Axial(width=2 * axes * pairs, axes=axes, base=50.0)(places).rotary
    for axis in range(axes):
        block = turn[..., axis * pairs : (axis + 1) * pairs]
        expected = torch.stack([places[..., axis] / 50.0 ** (k / pairs) for k in range(pairs)], -1)
        assert apart(block, expected) < 1e-11


def test_axial_of_one_axis_is_rotary() -> None:
    places = drawn(1, 5, 1)
    assert torch.equal(Axial(width=8, axes=1, base=1e4)(places).rotary, Rotary(width=8)(places).rotary)


def test_axial_scores_depend_on_differences_along_each_axis() -> None:
    query, key, grid = drawn(1, 2, 12, 24), drawn(1, 2, 12, 24, seed=1), drawn(1, 12, 3, seed=2) * 20
    axial = Axial(width=24, axes=3)
    here = scores(query, key, axial(grid))
    for axis in range(3):
        shift = torch.zeros(3, dtype=torch.float64)
        shift[axis] = 1e5
        assert (scores(query, key, axial(grid + shift)) - here).abs().max() < 1e-9
        shift[axis] = 0.3
        stretched = grid * (1 + shift)
        assert (scores(query, key, axial(stretched)) - here).abs().max() > 0.05


def test_axial_scores_are_a_sum_over_axes() -> None:
    """score(x, y) = score(x, 0) + score(0, y) - score(0, 0), and an axis turns none but its own pairs."""
    query, key, grid = drawn(1, 2, 12, 16), drawn(1, 2, 12, 16, seed=1), drawn(1, 12, 2, seed=2) * 20
    axial = Axial(width=16)
    along = [grid * torch.tensor(kept, dtype=torch.float64) for kept in ((1, 1), (1, 0), (0, 1), (0, 0))]
    both, rows, columns, neither = (scores(query, key, axial(places)) for places in along)
    torch.testing.assert_close(both, rows + columns - neither, rtol=0, atol=1e-12)
    assert (both - rows).abs().max() > 0.1
    assert (axial(along[1]).rotary[..., 4:] == 0).all()
    assert (axial(along[2]).rotary[..., :4] == 0).all()


def test_axial_reads_its_first_axes() -> None:
    places = drawn(1, 5, 4)
    assert torch.equal(Axial(width=8)(places).rotary, Axial(width=8)(places[..., :2]).rotary)


# --- MixedRotary


def test_mixed_frequencies_start_perpendicular_and_of_axials_lengths() -> None:
    frequencies = MixedRotary(width=16).frequencies.detach().view(2, 4, 2)
    assert (frequencies[0] * frequencies[1]).sum(-1).abs().max() < 1e-6
    expected = (10.0 ** (-torch.arange(4) / 4)).repeat(2, 1)
    torch.testing.assert_close(frequencies.norm(dim=-1), expected)


def test_mixed_frequencies_learn_to_compare_along_a_diagonal() -> None:
    mixed = MixedRotary(width=4)
    with torch.no_grad():
        mixed.frequencies.copy_(torch.tensor([[1.0, -1.0], [0.5, 0.5]]))
    turned = mixed(torch.tensor([[[3.0, 3.0], [2.0, 1.0], [1e8, 1e8]]])).rotary
    assert turned[0, :2].tolist() == [[0.0, 3.0], [1.0, 1.5]] and turned[0, 2, 0] == 0
    turned[0, 1].sum().backward()
    assert mixed.frequencies.grad is not None and mixed.frequencies.grad.tolist() == [[2.0, 1.0]] * 2


def test_mixed_scores_depend_on_differences() -> None:
    query, key, grid = drawn(1, 2, 12, 16), drawn(1, 2, 12, 16, seed=1), drawn(1, 12, 2, seed=2) * 20
    mixed = MixedRotary(width=16)
    here = scores(query, key, mixed(grid))
    assert (scores(query, key, mixed(grid + 1e4)) - here).abs().max() < 1e-9
    assert (scores(query, key, mixed(grid * 1.3)) - here).abs().max() > 0.05


# --- XPos


def powers(place: float, width: int, scale_base: float) -> list[float]:
    """The paper's zeta^(p / scale_base), number by number: of a query; a key's are their inverses."""
    return [((2 * pair / width + 0.4) / 1.4) ** (place / scale_base) for pair in range(width // 2)]


def xpos_score(query: Tensor, key: Tensor, i: Tensor, j: Tensor, scale_base: float) -> Tensor:
    """One score of algorithm 1 in complex numbers: Re(q conj(k) e^{i theta (i - j)}) zeta^((i - j) /
    scale_base), summed over pairs.
    """
    half, total = len(query) // 2, torch.zeros((), dtype=torch.float64)
    for pair in range(half):
        zeta = (2 * pair / (2 * half) + 0.4) / 1.4
        angle = (i - j) / 10_000.0 ** (pair / half)
        real = query[pair] * key[pair] + query[pair + half] * key[pair + half]
        imaginary = query[pair + half] * key[pair] - query[pair] * key[pair + half]
        total = total + (real * angle.cos() - imaginary * angle.sin()) * zeta ** ((i - j) / scale_base)
    return total / (2 * half) ** 0.5


@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("scale_base", [512.0, 20.0])
def test_xpos_is_the_papers_score(scale_base: float, dtype: torch.dtype, close: float) -> None:
    """Values, and gradients of queries, keys and coordinates; in no order, fractional, negative."""
    query, key = drawn(1, 1, 6, 8), drawn(1, 1, 6, 8, seed=1)
    places, weight = (drawn(1, 6, 1, seed=2) * 8).float(), drawn(6, 6, seed=3) / 6
    results = []
    for exact in (False, True):
        kind = torch.float64 if exact else dtype
        q, k, at_ = (x.to(kind).clone().requires_grad_() for x in (query, key, places))
        if exact:
            line = at_[0, :, 0]
            pairs = [
                xpos_score(q[0, 0, i], k[0, 0, j], line[i], line[j], scale_base)
                for i in range(6)
                for j in range(6)
            ]
            score = torch.stack(pairs).view(6, 6)
        else:
            score = scores(q, k, XPos(width=8, scale_base=scale_base)(at_))[0, 0]
        (score * weight.to(kind)).sum().backward()
        results.append((score, q.grad, k.grad, at_.grad))
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours.double(), expected, rtol=close, atol=close)


@settings(max_examples=40)
@given(
    place=st.floats(-2e4, 2e4, width=32),
    width=st.integers(1, 9).map(lambda n: 2 * n),
    base=st.sampled_from([512.0, 2e3]),
)
def test_xpos_stretches_beside_rotary(place: float, width: int, base: float) -> None:
    output = XPos(width=width, scale_base=base)(at(place))
    assert torch.equal(output.rotary, Rotary(width=width)(at(place)).rotary)
    assert output.stretch[0, 0].exp().tolist() == pytest.approx(powers(place, width, base), rel=1e-10)


@pytest.mark.parametrize("shift", [1.0, 1000.0, 20_000.0, -20_000.0])
def test_xpos_scores_depend_on_differences_in_float32_too(shift: float) -> None:
    query, key = drawn(1, 1, 50, 64), drawn(1, 1, 50, 64, seed=1)
    places = torch.arange(50.0)[None, :, None]
    xpos = XPos(width=64)
    here, there = (scores(query, key, xpos(where.double())) for where in (places, places + shift))
    torch.testing.assert_close(there, here, rtol=1e-9, atol=1e-9)
    narrow = scores(query.float(), key.float(), xpos(places + shift))
    assert (narrow.double() - here).abs().max() < 1e-5
    assert (scores(query, key, xpos(places.double() * 1.1)) - here).abs().max() > 0.1


def test_xpos_decays_into_the_past_and_grows_into_the_future() -> None:
    ones = torch.ones(1, 1, 9, 16, dtype=torch.float64)
    output = XPos(width=16)(torch.arange(0.0, 900.0, 100.0, dtype=torch.float64)[None, :, None])
    envelope = scores(ones, ones, Injection(rotary=torch.zeros_like(output.rotary), stretch=output.stretch))[
        0, 0
    ]
    assert (envelope.diff(dim=1) > 0).all()  # along the keys, from the furthest past to the furthest future
    expected = sum(powers(800, 16, 512)) * 2 / 4
    assert envelope[8, 0].item() == pytest.approx(expected, rel=1e-12)


def test_a_prefix_keeps_its_powers() -> None:
    """The paper's code measures from the middle of the batch, and does not."""
    places = drawn(1, 40, 1).abs().cumsum(1) * 10
    whole, prefix = XPos(width=8)(places), XPos(width=8)(places[:, :11])
    assert torch.equal(whole.rotary[:, :11], prefix.rotary)
    assert torch.equal(whole.stretch[:, :11], prefix.stretch)


def test_how_far_xpos_reaches() -> None:
    for dtype, bases in ((torch.float32, 47), (torch.float64, 377)):
        edge = bases * 512.0
        query, key = (drawn(1, 1, 2, 64, dtype=dtype, seed=seed) for seed in (0, 1))
        for side in (1, -1):
            output = XPos(width=64)(at(side * edge, side * (edge - 7), dtype=dtype))
            near = XPos(width=64)(at(0, -7 * side))
            expected = scores(query.double(), key.double(), near)
            assert (scores(query, key, output).double() - expected).abs().max() < 1e-5
            with pytest.raises(ValueError, match="too far for xPos with scale_base=512"):
                XPos(width=64)(at(side * edge * 1.01, dtype=dtype))


def test_xpos_in_half_precision_separates_8192_positions() -> None:
    method = Method(coordinates=Index(), encoding=XPos(width=8)).bfloat16()
    output = method(torch.zeros(1, 8192, 8, dtype=torch.bfloat16), torch.ones(1, 8192).bool()).injection
    assert output.stretch.dtype == torch.float32
    for pair in range(4):
        assert (output.stretch[0, :, pair].diff() < 0).all()


def test_who_claims_that_a_shift_changes_nothing() -> None:
    for rule, scaling in RULES.items():
        assert Rotary(width=K, scaling=scaling).relative == (rule not in ("dynamic", "longrope"))
    assert Axial(width=8).relative
    assert XPos(width=8).relative


# --- Messages


def scaled(**settings_: Any) -> Callable[[], object]:
    return lambda: Scaling(**settings_)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rotary(width=7), "a head width of 7 can't be rotated in pairs; take an even width"),
        (lambda: Rotary(width=0), "a head width of 0 can't be rotated in pairs"),
        (lambda: Rotary(width=8, unit=0.0), "unit=0.0; it is a distance and must be positive and finite"),
        (
            lambda: Rotary(width=8, unit=2.0, scaling=Scaling(rule="linear", factor=2.0)),
            "unit=2.0; a scaling counts tokens: leave the unit out",
        ),
        (lambda: Rotary(width=8, base=1.0), "base=1.0 gives no falling frequencies; give a number above 1"),
        (
            lambda: Rotary(width=2, scaling=RULES["dynamic"]),
            "dynamic scaling needs at least 2 pairs of channels",
        ),
        (
            lambda: Rotary(width=8, scaling=RULES["longrope"]),
            "short_factor has 16 numbers; give one for each of the 4 pairs",
        ),
        (
            scaled(rule="ntk", factor=2.0),
            "the scaling rule 'ntk' is not known; take linear, dynamic, yarn, llama3, longr",
        ),
        (
            scaled(rule="linear", factor=0.5),
            "the scaling factor is 0.5; give a number of at least 1",
        ),
        (scaled(rule="linear", factor=math.inf), "the scaling factor is inf"),
        (
            scaled(rule="linear", factor=2.0, original_length=8),
            "linear scaling has no original_length; leave it out",
        ),
        (
            scaled(rule="yarn", factor=2.0),
            "yarn scaling needs the training length, 2 or more: original_length=None",
        ),
        (scaled(rule="dynamic", factor=2.0, original_length=1), "2 or more: original_length=1"),
        (
            scaled(rule="linear", factor=2.0, more={"beta_fast": 3}),
            "linear scaling has beta_fast in `more`; it needs nothing and may have nothing",
        ),
        (
            scaled(rule="llama3", factor=2.0, original_length=8, more={"low_freq_factor": 1.0}),
            "llama3 scaling has low_freq_factor in `more`; it needs high_freq_factor, low_freq_factor "
            "and may",
        ),
        (
            scaled(
                rule="llama3",
                factor=2.0,
                original_length=8,
                more={"low_freq_factor": 4.0, "high_freq_factor": 4.0},
            ),
            "has low_freq_factor=4.0 and high_freq_factor=4.0; the low one must be positive and below the "
            "high one",
        ),
        (
            lambda: Axial(width=8, axes=3),
            "a head width of 8 has no equal number of pairs for each of 3 axes; take a mult",
        ),
        (lambda: Axial(width=7), "a head width of 7 has no equal number of pairs"),
        (lambda: Axial(width=8, axes=0), "for each of 0 axes"),
        (lambda: Axial(width=8, base=0.5), "base=0.5 gives no falling frequencies"),
        (
            lambda: PartialRotary(width=4, share=0.4),
            "share=0.4 rotates 0 of 2 pairs of channels; give a share, at most 1, that rotates at least one",
        ),
        (lambda: PartialRotary(width=4, share=1.5), "share=1.5 rotates 3 of 2 pairs"),
        (lambda: PartialRotary(width=7, share=0.5), "a head width of 7 can't be rotated in pairs"),
        (lambda: XPos(width=7), "a head width of 7 can't be rotated in pairs"),
        (lambda: XPos(width=8, base=0.5), "base=0.5 gives no falling frequencies"),
        (lambda: XPos(width=8, scale_base=0.0), "scale_base=0.0; give a positive number of positions"),
        (
            lambda: XPos(width=8)(at(3.0, -40_000.0, dtype=torch.float32)),
            r"a coordinate of -40000 is too far .* scale_base=512 \(24,\d\d\d either way\); take a",
        ),
        (lambda: Axial(width=8)(at(1.0)), "Axial reads 2 axes, and the coordinates have 1; take coordinates"),
    ],
)
def test_messages(make: Callable[[], object], message: str) -> None:
    with unchecked(), pytest.raises(ValueError, match=message):
        make()


def test_repr_of_the_parts() -> None:
    assert repr(Rotary(width=8)) == "Rotary(width=8, base=10000, unit=1, scaling=None)"
    assert repr(PartialRotary(width=8, share=0.5)) == "PartialRotary(width=8, share=0.5, base=10000)"
    assert repr(XPos(width=8)) == "XPos(width=8, base=10000, scale_base=512)"
    assert repr(Axial(width=8)) == "Axial(width=8, axes=2, base=100)"
