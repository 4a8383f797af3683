"""One contract for every method, on the whole model: shapes, padding, gradients, saving; the laws of
test_conformance.py are tried there. In `make test` methods of each kind, in `make test-long` all.
"""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from helpers import methods_of_each_kind, perturb
from vnait.model import VnaitConfig, VnaitForSequenceClassification, seed_weights
from vnait.positions import building
from vnait.positions.building import build, parameters
from vnait.positions.coordinates import Jitter, Span
from vnait.positions.encodings import NoPosition
from vnait.positions.injection import Injection
from vnait.positions.inputs import Local, Neighbours
from vnait.positions.method import Method, MethodOutput
from vnait.positions.methods import METHODS

NAMES = list(METHODS)
TABLES = [name for name in NAMES if name in ("learned", "grid-learned", "vnait-paper")]
LONGEST = 64

ROWS = [[5, 9, 3, 17, 2, 8, 4], [6, 1, 12], [7], [11, 4, 9, 2, 6]]


def classifier(
    name: str, *, dim: int = 32, perturbed: bool = True, **settings: object
) -> VnaitForSequenceClassification:
    """A small model whose every parameter, also those that start at zero or at uniform gaps, is off its
    start.
    """
    config = VnaitConfig(
        method=name,
        vocab_size=20,
        hidden_size=dim,
        max_length=LONGEST,
        mean_length=4.0,
        dropout=0.0,
        num_labels=3,
        **settings,
    )
    model = VnaitForSequenceClassification(config).eval()
    seed_weights(model, 0)
    if perturbed:
        perturb(model)
    return model


def padded(side: str) -> tuple[Tensor, Tensor]:
    """`ROWS` as a batch; padding holds words, which nothing may read."""
    width = max(map(len, ROWS)) + (3 if side == "both" else 0)
    ids, mask = torch.full((len(ROWS), width), 13), torch.zeros(len(ROWS), width, dtype=torch.bool)
    for row, words in enumerate(ROWS):
        room = width - len(words)
        start = {"left": room, "right": 0, "both": (row + 1) % (room + 1)}[side]
        ids[row, start : start + len(words)] = torch.tensor(words)
        mask[row, start : start + len(words)] = True
    return ids, mask


@pytest.fixture(params=methods_of_each_kind())
def name(request: pytest.FixtureRequest) -> str:
    return request.param


# --- Shape, dtype, padding


def test_shape_and_dtype_in_every_precision(name: str) -> None:
    model, (ids, mask) = classifier(name), padded("both")
    exact = model.double()(ids, mask).logits
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        told = model.to(dtype).model.method(*model.model.semantics(ids, mask, None))
        assert told.x.shape == (*ids.shape, 32)
        assert told.x.dtype == dtype
        assert told.at.shape[:2] == ids.shape
        assert told.at.dtype in (torch.float32, torch.float64)
        logits = model(ids, mask).logits
        assert logits.shape == (4, 3)
        assert logits.dtype == dtype
        assert (logits - exact).abs().max() < 0.1 * exact.abs().max()


def test_padding_changes_neither_an_answer_nor_a_gradient(name: str) -> None:
    """Of the loss and its regularizer, for the parameters of the method; padding before, after, and on both.

    In float64, where nothing hides in rounding.
    """
    model = classifier(name).double()
    labels = torch.tensor([0, 1, 2, 1])
    ids, mask = padded("both")
    output = model(ids, mask, labels=labels)
    output.loss.backward()
    together = {key: parameter.grad.clone() for key, parameter in model.model.method.named_parameters()}
    model.zero_grad()
    for row, words in enumerate(ROWS):
        alone = model(torch.tensor([words]), labels=labels[row : row + 1])
        torch.testing.assert_close(output.logits[row], alone.logits[0], rtol=1e-9, atol=1e-9)
        (alone.loss / len(ROWS)).backward()
    for key, parameter in model.model.method.named_parameters():
        torch.testing.assert_close(together[key], parameter.grad, rtol=1e-8, atol=1e-8)


# --- Learning


def test_gradients_reach_every_learned_parameter(name: str) -> None:
    model = classifier(name).train()
    for view in getattr(model.model.method.inputs, "views", ()):
        view.dropout = 0.0  # one that is dropped gets no gradient
    ids, mask = padded("right")
    model(ids, mask, labels=torch.tensor([0, 1, 2, 1])).loss.backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert torch.isfinite(parameter.grad).all(), key
        if not key.endswith("attention.key.bias"):  # which moves all scores of a query alike, and so none
            assert parameter.grad.abs().max() > 0, key


def test_a_step_from_the_start_moves_every_part(name: str) -> None:
    """What starts at zero must not stay there: two steps reach everything behind a zero."""
    model = classifier(name, perturbed=False).train()
    start = copy.deepcopy(model.state_dict())
    # Adam moves by the sign: a bias that barely counts moves, too
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    ids, mask = padded("right")
    for _ in range(2):
        optimizer.zero_grad()
        model(ids, mask, labels=torch.tensor([0, 1, 2, 1])).loss.backward()
        optimizer.step()
    for key, parameter in model.model.method.named_parameters():
        assert not torch.equal(parameter, start[f"model.method.{key}"]), key


def test_frozen_uniform_learns_nothing_in_its_coordinates() -> None:
    frozen = classifier("vnait-uniform").model
    assert not list(frozen.method.coordinates.parameters())
    ids, mask = padded("both")
    at = frozen.method(*frozen.semantics(ids, mask, None)).at
    assert torch.equal(at[..., :1], Span(source="uniform")(None, mask))
    assert frozen.penalty(frozen.encode(ids, mask)) == 0
    assert list(classifier("vnait").model.method.coordinates.parameters())


def test_the_penalty_is_the_learned_coordinates_alone() -> None:
    """And free of jitter: equal in training and evaluation."""
    for name in ("vnait-warp", "vnait-paper"):
        model = classifier(name).model
        ids, mask = padded("both")
        calm = model.penalty(model.encode(ids, mask))
        assert calm > 0
        assert torch.equal(model.train().penalty(model.encode(ids, mask)), calm)
        for field in ("smoothness", "boundary"):
            setattr(model.config, field, 0.0)
        assert model.penalty(model.encode(ids, mask)) == 0
    for name in ("none", "sinusoidal", "learned"):
        model = classifier(name).model
        assert model.penalty(model.encode(ids, mask)) == 0


def test_the_penalty_pulls_the_gaps_to_those_of_known_places() -> None:
    model = classifier("vnait-warp").model
    with torch.no_grad():
        model.method.coordinates.coordinates.span.source.z.fill_(0.3)  # even gaps, by place
    ids, mask = padded("both")
    positions = (mask.cumsum(-1).float() ** 2)[..., None]
    assert model.penalty(model.encode(ids, mask, positions=positions)) < 0.01
    assert (
        model.method.penalty(model.encode(ids, mask, positions=positions).at, mask, smooth=1.0, bound=0.0) > 1
    )


def test_the_boundary_penalty_counts_where_bounds_are_soft() -> None:
    span = Span(source="uniform", bounds="soft")
    method = Method(coordinates=Jitter(span), encoding=NoPosition())
    with torch.no_grad():
        span.bounds.offset.fill_(-30)
    mask = torch.ones(1, 10, dtype=torch.bool)
    at = method(torch.zeros(1, 10, 4), mask).at
    assert method.penalty(at, mask, smooth=0.0, bound=0.5).item() == pytest.approx(0.5 * 20**2, rel=1e-5)
    assert method.penalty(at, mask, smooth=1.0, bound=0.0).item() == pytest.approx(0, abs=1e-6)
    assert method.penalty(at, mask, smooth=0.0, bound=0.0) == 0


# --- Order


@pytest.mark.parametrize("name", [name for name in NAMES if not build(name, dim=32, num_heads=2).causal])
def test_what_says_that_it_is_not_causal_tells_tokens_what_follows(name: str) -> None:
    """What says that it is keeps the law `prefix`."""
    model = classifier(name).model
    # the base of rope-ntk changes past the longest text only
    length = 2 * LONGEST if name == "rope-ntk" else 7
    ids, mask = torch.tensor([ROWS[0] * length])[:, :length], torch.ones(1, length, dtype=torch.bool)
    whole = model.method(*model.semantics(ids, mask, None))
    prefix = model.method(*model.semantics(ids[:, :4], mask[:, :4], None))
    assert not model.method.causal
    assert not all(
        torch.allclose(first, again, atol=1e-6 * max(1.0, float(first.detach().abs().max())))
        for first, again in zip(told_first(whole, 4), told_first(prefix, 4), strict=True)
    )


def told_first(told: MethodOutput, count: int) -> list[torch.Tensor]:
    """All that the first tokens of a text are told."""
    slots = told.injection.dense()
    tokens = [
        slot[:, :count] for slot in (told.x, slots.rotary, slots.stretch, slots.scale) if slot is not None
    ]
    return tokens if slots.bias is None else [*tokens, slots.bias[..., :count, :count]]


def test_a_scale_or_a_window_is_not_causal() -> None:
    assert build("sinusoidal", dim=8).causal
    told = Method(
        coordinates=build("none", dim=8).coordinates, encoding=NoPosition(), scale=build("vnait", dim=8).scale
    )
    assert not told.causal
    window = Method(
        coordinates=build("none", dim=8).coordinates,
        encoding=NoPosition(),
        inputs=Neighbours(told.inputs, [Local(dim=8)]),
    )
    assert not window.causal


def test_without_position_a_model_is_a_bag_of_words() -> None:
    """Permuted words give permuted states; every other method keeps the law `order`."""
    model = classifier("none")
    words = torch.tensor([ROWS[0]])
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    states, of_permuted = (model.model(ids).last_hidden_state for ids in (words, words[:, order]))
    logits, logits_of_permuted = (model(ids).logits for ids in (words, words[:, order]))
    torch.testing.assert_close(of_permuted, states[:, order], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(logits_of_permuted, logits, rtol=1e-5, atol=1e-5)


def test_jitter_is_drawn_in_training() -> None:
    model = classifier("vnait").train()
    ids, mask = padded("right")
    assert not torch.equal(model(ids, mask).logits, model(ids, mask).logits)
    added = model.model.method(*model.model.semantics(ids[:1].repeat(16, 1), None, None)).injection.added
    moved = added[:, 0, 0].unique(return_counts=True)[1].sort().values
    # each sentence its own, but for the share that stays where it is
    assert 2 < len(moved) < 16 and moved[-2] == 1


# --- Length


@pytest.mark.parametrize("name", NAMES)
def test_longer_than_any_seen(name: str) -> None:
    """A method is refused past its table alone; the law `past the longest` would take any refusal."""
    model = classifier(name, num_hidden_layers=1)
    ids = torch.randint(1, 20, (1, 5 * LONGEST))
    if name in TABLES:
        limit = (
            f"0 to {LONGEST // 16 - 1} on that axis" if name == "grid-learned" else f"max_length={LONGEST}"
        )
        with pytest.raises(ValueError, match=limit):
            model(ids)
        ids = ids[:, :LONGEST]
    assert torch.isfinite(model(ids).logits).all()


def test_an_empty_text_is_named(name: str) -> None:
    with pytest.raises(ValueError, match="row 1 of the batch has no real token"):
        classifier(name)(torch.tensor([[3, 4], [0, 0]]))


def test_float16_autocast(name: str) -> None:
    model = classifier(name).train()
    ids, mask = padded("both")
    plain = model.eval()(ids, mask).logits
    with torch.autocast("cpu", dtype=torch.float16):
        output = model(ids, mask, labels=torch.tensor([0, 1, 2, 1]))
    assert torch.isfinite(output.logits).all()
    assert torch.isfinite(output.loss)
    torch.testing.assert_close(output.logits.float(), plain, rtol=0.05, atol=0.05)
    output.loss.backward()
    assert all(
        torch.isfinite(parameter.grad).all() for parameter in model.parameters() if parameter.requires_grad
    )


# --- Saving, copying, starting


def test_saved_and_loaded_exactly(name: str, tmp_path: Path) -> None:
    model = classifier(name)
    model.save_pretrained(tmp_path)
    loaded = VnaitForSequenceClassification.from_pretrained(tmp_path)
    assert loaded.config.method == name
    assert loaded.state_dict().keys() == model.state_dict().keys()
    for key, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[key], tensor), key
    ids, mask = padded("both")
    assert torch.equal(loaded.eval()(ids, mask).logits, model(ids, mask).logits)


def test_copied(name: str) -> None:
    model = classifier(name)
    ids, mask = padded("both")
    other = copy.deepcopy(model)
    assert torch.equal(other(ids, mask).logits, model(ids, mask).logits)
    perturb(other)
    assert not torch.equal(other(ids, mask).logits, model(ids, mask).logits)


def test_shared_parts_start_equal(name: str) -> None:
    """Whatever else a model holds, and whatever was drawn before."""
    one, other = (classifier(which, perturbed=False).state_dict() for which in (name, "vnait"))
    shared = [key for key in one if ".method." not in key or name.startswith("vnait-uniform")]
    assert len(shared) >= 37
    for key in shared:
        assert torch.equal(one[key], other[key]), key


def test_a_seed_decides_every_parameter(name: str) -> None:
    model = classifier(name)
    seed_weights(model, 3)
    first = copy.deepcopy(model.state_dict())
    perturb(model)
    state = torch.random.get_rng_state()
    seed_weights(model, 3)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(tensor, first[key]) for key, tensor in model.state_dict().items())
    seed_weights(model, 4)
    assert not torch.equal(model.classifier.weight, first["classifier.weight"])


# --- The rows of all methods


def test_the_rows_of_all_methods_are_read_off_the_modules() -> None:
    rows = {row["name"]: row for row in building.rows(dim=768, max_length=512)}
    assert list(rows) == NAMES
    assert rows["none"]["parameters"] == rows["sinusoidal"]["parameters"] == 0
    assert rows["learned"]["parameters"] == 393_216  # SPEC section 7
    # SPEC section 7's 7,084,032 for spatial 1-2D-D and relation 4D-2D-D; and the 512 z.
    assert rows["vnait-paper"]["parameters"] == 7_084_032 + 512
    # the knots of the warp
    assert rows["vnait-warp"]["parameters"] - rows["vnait-uniform"]["parameters"] == 16
    assert [name for name, row in rows.items() if not row["causal"]] == [
        "fourier",
        "randomized-sinusoidal",
        "rope-ntk",
        "rope-p",
        "randomized-rope",
        "spectral",
        "vnait",
        "vnait-uniform",
        "vnait-warp",
        "vnait-context",
        "vnait-paper",
    ]
    assert all(
        row["learned"] == (row["parameters"] > 0) and row["formula"] and row["source"]
        for row in rows.values()
    )


def test_build() -> None:
    own = Method(coordinates=Span(), encoding=NoPosition())
    assert build(own, dim=8) is own
    with pytest.raises(
        ValueError,
        match=r"method 'vanit' is not known. Did you mean 'vnait'\? Take one of none, sinu.* vnait.METHODS",
    ):
        build("vanit", dim=8)
    frozen = build("learned", dim=8, max_length=10)
    frozen.requires_grad_(False)
    assert parameters(frozen) == 0


def test_what_is_the_same_for_many_sentences_is_computed_once() -> None:
    """Once a distinct mask where the coordinates read no word."""
    seen = []

    class Spy(nn.Module):
        def forward(self, at: Tensor) -> Injection:
            seen.append(len(at))
            return Injection(added=at[..., :1].expand(-1, -1, 4))

    method = Method(coordinates=Span(source="uniform"), encoding=Spy())
    mask = torch.arange(6) < torch.tensor([[6], [4], [6], [4], [6]])
    x = method(torch.zeros(5, 6, 4), mask).x
    assert seen == [2]
    assert torch.equal(x[..., :1], Span(source="uniform")(None, mask))
