"""A positional method as a whole: known positions, exactly one method, what a decoder may use, the penalty
of a span alone.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from conftest import unchecked
from vnait import InputError
from vnait.model import (
    VnaitConfig,
    VnaitForMaskedLM,
    VnaitForSequenceClassification,
    VnaitForTokenClassification,
    VnaitModel,
    seed_weights,
)
from vnait.positions import method as method_module
from vnait.positions.attention import Attention
from vnait.positions.building import build
from vnait.positions.coordinates import (
    Ends,
    Gate,
    Grid,
    Index,
    Jitter,
    Joined,
    Phase,
    Running,
    Saturating,
    Segments,
    Span,
    Start,
)
from vnait.positions.encodings import (
    Anchors,
    Centre,
    Fourier,
    NoPosition,
    Rotary,
    Scalar,
    Sinusoid,
    Spatial,
    Sum,
)
from vnait.positions.injection import Injection, LogLength
from vnait.positions.inputs import Add, Local, Nearest, Neighbours, smoothness
from vnait.positions.method import Method
from vnait.positions.methods import METHODS
from vnait.positions.recipe import Recipe
from vnait.shared import chunks
from vnait.shared.errors import DoesNotFit

MASK = torch.tensor([[True] * 5, [False, True, True, True, False]])


def words(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


# --- Exactly one method


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (["rope", "alibi"], "rope and alibi"),
        (("vnait", "t5", "fire"), "vnait and t5 and fire"),
        ("rope+alibi", "rope and alibi"),
        ("vnait, learned", "vnait and learned"),
        ([build("rope", dim=8), "alibi"], "Index x Rotary and alibi"),
    ],
)
def test_two_methods_are_an_error_that_names_both(given: object, names: str) -> None:
    with (
        unchecked(),
        pytest.raises(ValueError, match=f"exactly one positional method, given {names}; take one of them"),
    ):
        build(given, dim=8)
    if isinstance(given, str):
        with pytest.raises(ValueError, match=f"exactly one positional method, given {names}"):
            VnaitModel(VnaitConfig(method=given, vocab_size=9))


def test_a_registered_name_may_have_any_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "rope, but mine + alibi", METHODS["rope"])
    assert isinstance(build("rope, but mine + alibi", dim=8).encoding, Rotary)


@pytest.mark.parametrize("part", ["coordinates", "encoding", "inputs", "scale"])
def test_a_method_in_a_method_is_an_error_that_names_both(part: str) -> None:
    inner = nn.Sequential(build("rope", dim=8))
    parts = {"coordinates": Index(), "encoding": Sinusoid(dim=8), part: inner}
    with pytest.raises(
        ValueError, match=rf"{part} contains another method \(Index x Rotary\); a model has exactly one"
    ):
        Method(**parts)


def test_several_encodings_are_one_method() -> None:
    method = Method(coordinates=Index(), encoding=Sum(Sinusoid(dim=8), Rotary(width=4)))
    output = method(words(2, 5, 8), MASK)
    assert output.injection.added is not None
    assert output.injection.rotary is not None


# --- Known positions


@pytest.mark.parametrize(
    ("name", "axes"),
    [(name, 2 if name.startswith("grid") or name == "hierarchical" else 1) for name in METHODS],
)
def test_places_stand_in_for_the_count_or_are_refused(name: str, axes: int) -> None:
    method = build(name, dim=16, num_heads=2).eval()
    positions = words(2, 5, axes).abs().cumsum(1)  # a span's may not decrease
    if not getattr(method.coordinates, "takes_positions", False):
        with pytest.raises(
            ValueError, match="take no positions; leave `positions` out, or take Index, Span, Elastic, Grid"
        ):
            method(words(2, 5, 16), MASK, positions)
        return
    with torch.no_grad():
        for parameter in method.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(1))
    output = method(words(2, 5, 16), MASK, positions)
    alone = method(words(2, 5, 16)[1:, 1:4], MASK[1:, 1:4], positions[1:, 1:4])
    # The large weights of this test multiply the rounding of a span's running sum.
    near = {"rtol": 1e-4, "atol": 1e-4} if name.startswith(("vnait", "fourier")) else {}
    torch.testing.assert_close(output.at[1:, 1:4], alone.at, **near)
    torch.testing.assert_close(output.x[1:, 1:4], alone.x, **near)
    counted = method(words(2, 5, 16), MASK).at
    assert not torch.equal(output.at, counted)
    if name.startswith("vnait"):  # a span scales its gaps by them: tests/test_positions_of_spans.py
        return
    # what a wrapper counts by
    count = getattr(method.coordinates, "coordinates", method.coordinates)(None, MASK)
    assert torch.equal(method(words(2, 5, 16), MASK, count).at, counted)


@pytest.mark.parametrize(
    "head", [VnaitModel, VnaitForSequenceClassification, VnaitForTokenClassification, VnaitForMaskedLM]
)
def test_places_reach_every_head(head: type) -> None:
    config = VnaitConfig(method="grid-separable", vocab_size=20, hidden_size=16, shape=[-1, 3], dropout=0.0)
    assert config.to_dict()["shape"] == [-1, 3]
    model = head(config).eval()
    seed_weights(model, 0)
    ids, positions = (
        torch.tensor([[5, 9, 3, 17, 2]]),
        torch.tensor([[[0, 0], [0, 1], [0, 2], [1, 0], [1, 1]]]).float(),
    )
    torch.testing.assert_close(model(ids, positions=positions)[0], model(ids)[0])
    assert not torch.allclose(model(ids, positions=positions.flip(1))[0], model(ids)[0], atol=1e-3)


def test_settings_reach_the_grid_and_the_phase() -> None:
    assert build("grid-learned", dim=8, max_length=50).encoding.shape == (4, 16)
    assert build("grid-learned", dim=8, shape=(3, 5)).encoding.shape == (3, 5)
    assert build("grid-rope", dim=24, num_heads=2, shape=(-1, 3, 4)).encoding.axes == 3
    assert build("phase", dim=12, periods=(2, 3, 4)).coordinates.periods == (2, 3, 4)
    config = VnaitConfig(method="phase", vocab_size=9, hidden_size=12, periods=[7.0])
    assert VnaitModel(config).method.coordinates.periods == (7,)


# --- Decoders


def test_start_is_a_running_coordinate_and_its_distance_from_the_first() -> None:
    content = Running(source="content", dim=8)
    with torch.no_grad():
        for parameter in content.parameters():
            parameter.normal_()
    at = Start(content)(words(2, 5, 8), MASK)
    torch.testing.assert_close(at[..., :1], content(words(2, 5, 8), MASK))
    for row, first in enumerate((0, 1)):
        since = at[row, :, 0] - at[row, first, 0]
        torch.testing.assert_close(at[row, MASK[row], 1], since[MASK[row]])
    assert torch.equal(at[1, [0, 4]], at[1, [1, 3]])  # padding stands at the nearest


def test_start_of_a_saturating_one_counts_in_gaps() -> None:
    at = Start(Saturating(middle=3))(None, MASK)
    torch.testing.assert_close(at[0, :, 0].float(), torch.tensor([25.0, 40.0, 50.0, 400 / 7, 62.5]))
    torch.testing.assert_close(at[0, :, 1].float(), torch.arange(5.0))


@pytest.mark.parametrize(
    "make", [lambda: Start(Running()), lambda: Start(Saturating(source="content", dim=8))]
)
def test_start_is_causal(make: Callable[[], Start]) -> None:
    part = make()
    assert part.causal
    whole, prefix = (
        part(words(1, 9, 8)[:, :count], torch.ones(1, count, dtype=torch.bool)) for count in (9, 4)
    )
    torch.testing.assert_close(whole[:, :4], prefix)


def test_neighbours_looking_back_see_no_later_word() -> None:
    views = [Local(dim=8, width=4, look="back"), Nearest(dim=8, reach=2, look="back")]
    assert Neighbours(Add(), views).causal and not Neighbours(Add(), [*views, Nearest(dim=8)]).causal
    x = words(1, 7, 8).requires_grad_()
    Neighbours(Add(), views[1:]).eval()(x, None)[0, 3].sum().backward()
    assert (x.grad[0].abs().amax(-1) > 0).tolist() == [False, True, True, True, False, False, False]


def test_a_window_that_looks_back_sees_no_later_word() -> None:
    window = Local(dim=8, width=4, look="back", dropout=0)
    nn.init.normal_(window.taps)  # it starts without the token itself
    assert window.causal
    assert not Local(dim=8, width=3).causal
    x = words(1, 7, 8).requires_grad_()
    window(x)[0, 3].sum().backward()
    seen = x.grad[0].abs().amax(-1) > 0
    assert seen.tolist() == [True, True, True, True, False, False, False]
    taps = window.taps.detach()[:, 0]
    expected = sum(taps[:, 3 - back] * x[0, 3 - back] for back in range(4))
    torch.testing.assert_close(window(x)[0, 3], expected)


def test_wrong_options_of_a_window_are_refused() -> None:
    with unchecked(), pytest.raises(ValueError, match="look='ahead' is not known; take one of both, back"):
        Local(dim=8, look="ahead")
    with unchecked(), pytest.raises(ValueError, match="shape='flat' is not known; take one of one, fading"):
        Local(dim=8, shape="flat")
    with pytest.raises(ValueError, match="width=4; a window around a token has an odd number of taps"):
        Local(dim=8, width=4)


def test_log_length_of_a_prefix() -> None:
    scale = LogLength(mean_length=4, sees="prefix")
    assert scale.causal
    assert not LogLength(mean_length=4).causal
    output = scale(MASK).scale
    expected = torch.tensor([2.0, 2, 3, 4, 5]).log() / torch.tensor(4.0).log()
    torch.testing.assert_close(output[0], expected)
    torch.testing.assert_close(output[1, 1:4], expected[:3])
    text = LogLength(mean_length=4)(MASK).scale
    torch.testing.assert_close(text, expected[[4, 2]][:, None].expand(2, 5))
    with unchecked(), pytest.raises(ValueError, match="sees='all' is not known; take one of text, prefix"):
        LogLength(mean_length=4, sees="all")


def test_causal_vnait_is_vnait_without_what_follows() -> None:
    causal, default = (build(name, dim=16, num_heads=2, mean_length=9) for name in ("vnait-causal", "vnait"))
    assert causal.causal and not default.causal
    start, decaying = causal.coordinates.coordinates
    assert start.running.middle == 9 and type(decaying) is Running
    spatial = causal.encoding.encodings[0].encodings[0]
    assert [type(part) for part in spatial.features] == [Fourier, Anchors]
    assert spatial.features[1].ends == 1
    spatial, rotation = default.encoding.encodings
    assert [type(part) for part in spatial.features] == [Scalar, Fourier, Anchors, Centre]
    assert spatial.features[1].shortest == 12.5
    (blurred,) = rotation.encodings
    (rotary,) = blurred.encodings  # S as an angle
    assert (rotation.axis, blurred.width, rotary.base, rotary.unit) == ((0,), 3.0, 100.0, 10.0)
    assert causal.scale.sees == "prefix"


@pytest.mark.parametrize(("heads", "decaying"), [(1, 1), (2, 1), (4, 3), (9, 6)])
def test_three_of_four_heads_of_causal_vnait_decay_and_the_others_scale(heads: int, decaying: int) -> None:
    method = build("vnait-causal", dim=4 * heads, num_heads=heads, mean_length=2).eval()
    injection = method(words(1, 4, 4 * heads), torch.ones(1, 4, dtype=torch.bool)).injection.dense()
    decays = injection.bias[0, :, 3, 0] < 0
    assert decays.tolist() == [head < decaying for head in range(heads)]
    assert (injection.scale[0, 3] == torch.where(decays, 1.0, 2.0)).all()


def test_a_scale_of_each_head_and_one_of_all_multiply() -> None:
    both = Injection(scale=torch.full((1, 2), 3.0)), Injection(scale=torch.tensor([[[1.0, 2.0]] * 2]))
    for first, second in (both, both[::-1]):
        assert (first + second).scale.tolist() == [[[3.0, 6.0]] * 2]
    with pytest.raises(DoesNotFit, match="a scale of 2 heads, and the attention has 4"):
        Attention(dim=8, num_heads=4)(torch.zeros(1, 2, 8), both[1], None)


@pytest.mark.parametrize("name", ["vnait", "vnait-uniform", "vnait-context"])
def test_vnait_rotates_heads_of_an_even_width_alone(name: str) -> None:
    for dim, rotates in ((12, True), (25, False)):
        method = build(name, dim=dim, num_heads=1)
        injection = method(words(2, 5, dim), MASK).injection
        assert injection.added is not None and (injection.rotary is not None) == rotates


# --- The rest


def test_a_stretch_needs_a_turn() -> None:
    with pytest.raises(ValueError, match="a stretch needs rotary angles"):
        Injection(stretch=torch.zeros(1, 2, 3))


@pytest.mark.parametrize(
    ("coordinates", "penalized"),
    [
        (Span(source="warp"), "counts"),
        (Jitter(Span(source="warp")), "counts"),
        (Span(source="uniform"), "nothing learned"),
        (Span(source="warp", normalization="none"), "no span"),
        (Running(source="content", dim=8), "no span"),
        (Start(Saturating(source="content", dim=8)), "no span"),
        (Index(), "no span"),
        (Grid(shape=(-1, 2)), "no span"),
        (Segments(size=3), "no span"),
        (Jitter(Ends(Span(source="warp"))), "counts"),
        (Phase(periods=[3]), "no span"),
        (Phase(periods=[3], coordinates=Span(source="warp")), "unseen"),
        (Joined(Index(), Span(source="warp")), "unseen"),
    ],
)
def test_only_a_learned_span_is_drawn_to_uniform(
    coordinates: nn.Module, penalized: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its ideal gap, 100/n, means nothing to a coordinate that counts tokens. A span that the penalty does
    not reach is named.
    """
    method_module._log_unseen.cache_clear()
    for parameter in coordinates.parameters():
        nn.init.normal_(parameter, generator=torch.Generator().manual_seed(0))
    method = Method(coordinates=coordinates, encoding=Spatial(dim=8, features=[Fourier()]))
    at = method(words(2, 5, 8), MASK).at
    assert (method.penalty(at, MASK, smooth=1.0, bound=0.0) > 0) == (penalized == "counts")
    assert ("does not reach the learned Span" in caplog.text) == (penalized == "unseen")


def test_a_training_step_computes_coordinates_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The penalty reads those of the forward pass."""
    calls = []
    source = Gate.forward
    monkeypatch.setattr(Gate, "forward", lambda *given: calls.append(1) or source(*given))
    model = VnaitForSequenceClassification(VnaitConfig(vocab_size=9, hidden_size=32, num_attention_heads=2))
    model.train()(torch.tensor([[3, 4, 5]]), labels=torch.tensor([1])).loss.backward()
    assert len(calls) == 1


@pytest.mark.parametrize(
    "name", ["vnait", "vnait-uniform", "vnait-causal", "vnait-paper", "sinusoidal", "none"]
)
def test_many_texts_are_read_in_chunks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    method = build(name, dim=8, num_heads=2).double().eval()
    mask = torch.arange(4) < torch.tensor([[1], [2], [3], [4], [4], [1], [3]])
    vectors = words(7, 4, 8).double()
    whole = method(vectors, mask)
    monkeypatch.setattr(chunks, "CHUNK", 9)  # two texts, and one that is left
    calls = []
    hook = method.inputs.register_forward_pre_hook(lambda part, given: calls.append(len(given[0])))
    with torch.no_grad():
        torch.testing.assert_close(method(vectors, mask).x[mask], whole.x[mask])
    hook.remove()
    assert calls == [2, 2, 2, 1]


@pytest.mark.parametrize("name", ["vnait", "vnait-uniform", "rope", "alibi"])
def test_no_text_and_no_token(name: str) -> None:
    method = build(name, dim=16, num_heads=2).eval()
    for shape in ((0, 3), (0, 0)):
        assert method(words(*shape, 16), torch.ones(shape, dtype=torch.bool)).x.shape == (*shape, 16)


@pytest.mark.parametrize("name", ["vnait", "vnait-context", "fourier"])
@pytest.mark.parametrize("gradients", [True, False])
def test_models_are_stacked_for_vmap(name: str, gradients: bool) -> None:
    first, second = (build(name, dim=8, num_heads=2).eval() for _ in range(2))
    vectors, mask = words(2, 6, 8), torch.ones(2, 6, dtype=torch.bool)
    weights, buffers = torch.func.stack_module_state([first, second])

    def x(own: dict[str, Tensor], fixed: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(first, {**own, **fixed}, (vectors, mask)).x

    with torch.set_grad_enabled(gradients):
        found = torch.vmap(x, randomness="same")(weights, buffers)
        torch.testing.assert_close(found, torch.stack([one(vectors, mask).x for one in (first, second)]))
        (alone,) = (key for key in weights if key.endswith("direct.weight"))  # the other weights are shared
        kept = {**dict(first.named_parameters()), **dict(first.named_buffers())}
        of_one = torch.vmap(lambda weight: x({**kept, alone: weight}, {}))(weights[alone])
        torch.testing.assert_close(of_one[0], first(vectors, mask).x)


def test_relative_is_what_the_encoding_says() -> None:
    assert build("rope", dim=8, num_heads=2).relative
    assert build("alibi", dim=8, num_heads=2).relative
    assert not build("rope-ntk", dim=16, num_heads=2).relative
    assert not build("sinusoidal", dim=8).relative
    assert Method(coordinates=Index(), encoding=NoPosition()).relative


# --- A part of one's own that is wrong


def test_a_part_that_does_not_say_what_it_must_is_named() -> None:
    class Own(nn.Module):
        causal = True

    with (
        unchecked(),
        pytest.raises(TypeError, match="the coordinates Own must have per_sentence, True or False"),
    ):
        Method(coordinates=Own(), encoding=Sinusoid(dim=4))
    with unchecked(), pytest.raises(TypeError, match="the inputs Identity must have causal"):
        Method(coordinates=Index(), encoding=Sinusoid(dim=4), inputs=nn.Identity())
    method = Method(coordinates=Index(), encoding=nn.Identity())
    with (
        unchecked(),
        pytest.raises(TypeError, match="the encoding Identity returned a Tensor; return an Injection"),
    ):
        method(words(1, 3, 4), torch.ones(1, 3, dtype=torch.bool))


class Line(nn.Module):
    causal, per_sentence = True, False

    def forward(self, vectors: Tensor | None, mask: Tensor) -> Tensor:
        return mask.float()


class Slot(nn.Module):
    def __init__(self, **shapes: tuple[int, ...]) -> None:
        super().__init__()
        self.shapes = shapes

    def forward(self, at: Tensor) -> Injection:
        return Injection(**{name: torch.zeros(shape) for name, shape in self.shapes.items()})


@pytest.mark.parametrize(
    ("coordinates", "encoding", "message"),
    [
        (
            Line(),
            NoPosition(),
            r"coordinates Line returned the shape \(2, 5\) for a mask of the shape \(2, 5\)",
        ),
        (Index(), Slot(bias=(3, 5, 5)), r"Slot returned bias of the shape \(3, 5, 5\).*\(2, H, 5, 5\)"),
        (Index(), Slot(bias=(2, 3, 4, 5)), r"bias of the shape \(2, 3, 4, 5\)"),
        (Index(), Slot(bias=(3, 1, 5, 5)), r"bias of the shape \(3, 1, 5, 5\)"),
        (Index(), Slot(added=(1, 3, 5, 5)), r"added of the shape \(1, 3, 5, 5\).*return \(B, T, \.\.\.\)"),
        (Index(), Slot(added=(2, 4, 8)), r"added of the shape \(2, 4, 8\)"),
        (Index(), Slot(rotary=(5, 4)), r"rotary of the shape \(5, 4\)"),
        (Index(), Slot(scale=(2, 4, 1)), r"scale of the shape \(2, 4, 1\)"),
    ],
)
def test_a_wrong_shape_is_named(coordinates: nn.Module, encoding: nn.Module, message: str) -> None:
    with unchecked(), pytest.raises(ValueError, match=message):
        Method(coordinates=coordinates, encoding=encoding)(words(2, 5, 8), MASK)


class Given(nn.Module):
    causal, per_sentence = True, False

    def __init__(self, found: object) -> None:
        super().__init__()
        self.found = found

    def forward(self, *inputs: Tensor | None) -> object:
        return self.found


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Method(coordinates=Index, encoding=NoPosition()),
            "not a module; give an object, such as Index",
        ),
        (lambda: Method(coordinates=Index(), encoding=len), "the encoding <built-in .*> is not a module"),
        (lambda: Sum([Sinusoid(dim=8)]), "Sum takes encodings one by one, not"),
        (lambda: Injection(added=[1.0]), "added is a list; give a tensor"),
        (lambda: Injection(score_mod=len), "score_mod is a builtin_function_or_method; give an object with"),
        (
            lambda: Method(coordinates=Given(None), encoding=NoPosition())(words(2, 5, 8), MASK),
            r"the coordinates Given returned a NoneType; return a tensor \(B, T, C\)",
        ),
    ],
)
def test_what_is_no_part_is_named(make: Callable[[], object], message: str) -> None:
    with unchecked(), pytest.raises(TypeError, match=message):
        make()


@pytest.mark.parametrize(
    ("vectors", "mask", "positions", "message"),
    [
        (words(2, 5, 8), MASK[:1], None, r"vectors have the shape \(2, 5, 8\) and the mask \(1, 5\)"),
        (words(2, 5, 8), MASK.long(), None, r"the mask has the dtype torch.int64; .* mask.bool\(\)"),
        (words(2, 5, 8), MASK, words(2, 4, 1), r"the positions have the shape \(2, 4, 1\) for a mask of"),
    ],
)
def test_inputs_that_do_not_fit_are_named(
    vectors: Tensor, mask: Tensor, positions: Tensor | None, message: str
) -> None:
    method = Method(coordinates=Index(), encoding=Sinusoid(dim=8))
    with unchecked(), pytest.raises(ValueError, match=message):
        method(vectors, mask, positions)


def test_a_model_has_a_head_at_least() -> None:
    with pytest.raises(InputError, match="dim is 8 and num_heads 0; both must be 1 or more"):
        build("rope", dim=8, num_heads=0)


@pytest.mark.parametrize(
    ("name", "lookback"), [("vnait-causal", 16), ("cable", 1), ("rope", 0), ("vnait", None)]
)
def test_how_far_back_a_new_token_reads(name: str, lookback: int | None) -> None:
    method = build(name, dim=8, num_heads=2, max_length=32)
    assert method.lookback is None  # in training
    assert method.eval().lookback == lookback


def _text_with_a_hole(dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """A text of 4 words, and the same with a token of padding after the second."""
    torch.manual_seed(0)
    words, mask = torch.randn(1, 4, dim), torch.tensor([[True, True, False, True, True]])
    apart = torch.randn(1, 5, dim)
    apart[mask] = words[0]
    return words, apart, mask


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("name", METHODS)
def test_padding_between_words_changes_nothing(name: str, gradients: bool) -> None:
    words, apart, mask = _text_with_a_hole(16)
    method = build(name, dim=16, num_heads=2).eval()
    with torch.no_grad():
        for weight in method.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    with torch.set_grad_enabled(gradients):
        whole = method(words, torch.ones(1, 4, dtype=torch.bool)).x
        found = method(apart, mask).x[mask][None]
    assert torch.allclose(found, whole, atol=1e-5)


def test_repetition_is_of_the_word_before_whatever_padding_is_between() -> None:
    gate = Gate(dim=4)
    nn.init.constant_(gate.repeat, -0.3)
    same, mask = torch.ones(1, 3, 4), torch.tensor([[True, False, True]])
    alone = gate(same[:, :2], torch.ones(1, 2, dtype=torch.bool))
    assert torch.allclose(gate(same, mask)[mask], alone[0])


def test_smoothness_counts_the_gap_across_padding() -> None:
    span = Span(source="warp")
    nn.init.normal_(span.source.z)
    whole, mask = torch.ones(1, 4, dtype=torch.bool), torch.tensor([[True, True, False, True, True]])
    assert torch.allclose(smoothness(span(None, mask), mask), smoothness(span(None, whole), whole))


def test_vectors_of_another_width_are_named() -> None:
    method = Method(coordinates=Index(), encoding=Sinusoid(dim=1))
    with pytest.raises(ValueError, match=r"Sinusoid adds vectors of width 1, and those of the words .* 16"):
        method(torch.zeros(1, 2, 16), torch.ones(1, 2, dtype=torch.bool))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((Rotary(width=8), Rotary(width=2)), "`rotary` of width 4 and 1"),
        ((Sinusoid(dim=8), Sinusoid(dim=1)), "`added` of width 8 and 1"),
    ],
)
def test_a_sum_of_different_widths_is_named(parts: tuple[nn.Module, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sum(*parts)(torch.arange(3.0)[None, :, None])


def test_a_recipe_that_returns_one_module_for_all_is_refused(monkeypatch):
    made = Method(coordinates=Index(), encoding=Sinusoid(dim=8))
    monkeypatch.setitem(METHODS, "mine", Recipe(make=lambda size: made, formula="mine", source="mine"))
    assert build("mine", dim=8) is made
    with pytest.raises(InputError, match="returns the same module again, whose weights two models would"):
        build("mine", dim=8)
