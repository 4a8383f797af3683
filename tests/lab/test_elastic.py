"""The elastic suite: its answers, found again by a loop; an oracle; its verdict; its coordinates."""

from __future__ import annotations

import pytest
import torch
from torch import Generator, nn

from vnait.data.vocabulary import vocabulary_of
from vnait.positions.building import build
from vnait.positions.coordinates import ContextGate, Elastic, Ends, Gate, Span
from vnait.positions.coordinates.elastic import _recurrence
from vnait.positions.inputs import Add, Condensed, Local, Nearest, Neighbours
from vnait.shared.statistics import Interval
from vnait.train.models import new_model
from vnait.train.run import Run
from vnait_lab.suites import elastic
from vnait_lab.suites.fillers import (
    CLOSE,
    FEWEST,
    FILLERS,
    OPEN,
    ORACLES,
    TASKS,
    WORDS,
    M,
    condensed,
)
from vnait_lab.suites.length import Setting
from vnait_lab.suites.suite import Score
from vnait_lab.suites.tasks import VOCABULARY

MASK = torch.tensor([[True] * 5, [False, True, True, True, False]])


def weights_of(name: str, text: list[int]) -> list[float]:
    """What each token counts, from the text alone."""
    kind, inside, weights = TASKS[name].filler, False, []
    for number, token in enumerate(text):
        if kind == "class":
            weights.append(0.0 if token in FILLERS else 1.0)
        elif kind == "repetition":
            weights.append(1.0 if number == 0 or token != text[number - 1] else 0.0)
        elif kind == "context":
            inside = inside or token == OPEN
            weights.append(0.0 if inside else 1.0)
            inside = inside and token != CLOSE
        else:
            weights.append(0.5 if token in FILLERS else 1.0)
    return weights


def answer(name: str, text: list[int], weights: list[float]) -> int:
    """The class, looked up by hand."""
    counting = [token for token, weight in zip(text, weights, strict=True) if weight]
    if name in ("half", "half_of_weight"):
        place = text.index(M)
        return int(sum(weights[:place]) < sum(weights[place + 1 :]))
    if name == "parity":
        return len(counting) % 2
    place = {
        "middle": len(counting) // 2,
        "third": 2,
        "third_from_end": len(counting) - 3,
        "three_after": counting.index(M) + 3 if M in counting else 0,
    }[name.removesuffix("_run").removesuffix("_outside")]
    return counting[place] % 2


@pytest.mark.parametrize("filler", [True, False])
@pytest.mark.parametrize("length", [8, 9, 40, 320])
@pytest.mark.parametrize("name", TASKS)
def test_tasks_have_the_answers_of_their_definition(name: str, length: int, filler: bool) -> None:
    ids, classes, weights = TASKS[name].make(300, length, Generator().manual_seed(1), filler)
    assert ids.shape == weights.shape == (300, length)
    assert int(ids.min()) >= 1 and int(ids.max()) < VOCABULARY
    assert int((weights > 0).sum(-1).min()) >= FEWEST or name == "half"
    for text, own, found in zip(ids.tolist(), weights.tolist(), classes.tolist(), strict=True):
        if filler or name != "half_of_weight":
            assert weights_of(name, text) == own, text
        assert answer(name, text, own) == found, text
    if filler:
        assert 0.3 < classes.float().mean() < 0.7
        assert length < 40 or (weights < 1).float().mean() > 0.2
    else:
        assert (weights == 1).all()


def test_an_oracle_removes_what_does_not_count() -> None:
    ids, weights = torch.tensor([5, 12, 6, 13]), torch.tensor([1.0, 0.0, 1.0, 0.0])
    assert condensed(ids, weights).tolist() == [5, 6]
    assert condensed(ids, torch.tensor([1.0, 0.5, 1.0, 0.5])).tolist() == [5, 5, 12, 6, 6, 13]
    assert ORACLES["middle-oracle"].make is TASKS["middle"].make and ORACLES["middle-oracle"].oracle


def test_an_oracle_answers_from_what_counts() -> None:
    """A model that reads the middle word is right on condensed texts and wrong on whole ones."""

    class Middle(nn.Module):
        def forward(self, ids: torch.Tensor) -> object:
            logits = nn.functional.one_hot(ids[:, ids.shape[1] // 2] % 2, 2).float()
            return type("Output", (), {"logits": logits})

    oracle, alone = (
        elastic.score(Middle(), task, 40, 200, Generator().manual_seed(0))
        for task in (ORACLES["middle-oracle"], TASKS["middle"])
    )
    assert oracle == 1 and alone < 0.75


def test_whose_coordinates_read_words() -> None:
    reads = {
        name: elastic.reads_words(name) for name in ("rope", "cape", "randomized-rope", "vnait-warp", "cable")
    }
    assert reads == {
        "rope": False,
        "cape": False,
        "randomized-rope": False,
        "vnait-warp": False,
        "cable": True,
    }
    assert elastic.reads_words("vnait") and elastic.reads_words("lpi")


def score(method: str, task: str, mean: float, seeds: int = 3) -> Score:
    at = {f"accuracy_{length}": Interval(mean, None, None) for length in elastic.LENGTHS}
    return Score(method=method, task=task, seeds=seeds, facts={}, intervals=at)


CONTROLS = [score("vnait-uniform", "middle", 0.6), score("vnait-uniform", "middle-oracle", 1.0)]


@pytest.mark.parametrize(
    ("scores", "word", "found"),
    [
        ([*CONTROLS, score("vnait", "middle", 0.97)], "confirmed", "97.0 % on average over 1 tasks"),
        ([*CONTROLS, score("vnait", "middle", 0.89)], "refuted", "short of 90: middle (89.0)"),
        (
            [*CONTROLS, score("vnait", "middle", 0.97), score("rope", "middle", 0.7)],
            "refuted",
            "+27.0 points to the best method of the raw index, rope",
        ),
        (
            [*CONTROLS, score("vnait", "middle", 0.97), score("cable", "middle", 0.9)],
            "confirmed",
            "+37.0 points to the best method of the raw index, vnait-uniform",
        ),
        ([*CONTROLS, score("vnait", "middle", 0.97, seeds=2)], "undecided", "fewer than 3 seeds"),
        ([score("vnait", "middle", 0.97)], "undecided", "no task counts"),
        (
            [score("vnait-uniform", "middle", 0.8), CONTROLS[1], score("vnait", "middle", 0.97)],
            "undecided",
            "no task counts",
        ),
        (CONTROLS, "undecided", "vnait was not run"),
    ],
)
def test_the_verdict(scores: list[Score], word: str, found: str) -> None:
    verdict = elastic.verdict(scores, "vnait")
    assert verdict.word == word and found in verdict.summary


def test_the_control_alone_is_compared_with_nothing() -> None:
    verdict = elastic.verdict(CONTROLS, "vnait-uniform")
    assert verdict.word == "undecided" and "compared with no other method" in verdict.summary


# --- The coordinates


def gated(*weights: float) -> Elastic:
    class Fixed(nn.Module):
        def forward(self, vectors: object, mask: torch.Tensor) -> torch.Tensor:
            return torch.tensor([weights], dtype=torch.float32)

    return Elastic(Fixed())


def weights(gate: nn.Module, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """How much each token counts."""
    return Elastic(gate).weigh(gate(words, mask))


def test_what_counts_nothing_takes_no_room() -> None:
    mask = torch.ones(1, 5, dtype=torch.bool)
    at = gated(1, 0, 1, 0, 1)(None, mask)[0]
    assert at[:, 1].tolist() == pytest.approx([0, 0.5, 1, 1.5, 2], abs=1e-4)
    assert at[:, 2].tolist() == pytest.approx([2, 1.5, 1, 0.5, 0], abs=1e-4)
    assert at[:, 0].tolist() == pytest.approx([100 / 3, 100 / 3, 200 / 3, 200 / 3, 100], abs=1e-2)
    assert bool((at[1:, 0] > at[:-1, 0]).all()) and at[-1, 0] == 100
    half = gated(1, 0.5, 1)(None, mask[:, :3])[0]
    assert half[:, 1].tolist() == pytest.approx([0, 0.75, 1.5], abs=1e-4)


def test_where_all_count_they_are_the_ends() -> None:
    words = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
    at = Elastic(Gate(dim=8))(words, MASK)
    ends = Ends(Span(source="uniform"))(words, MASK).double()
    torch.testing.assert_close(at[..., :3], ends, rtol=0, atol=1e-5)
    assert torch.equal(at[..., 3], MASK.double())  # padding counts nothing


def test_a_gate_is_exact_and_never_closed_for_good() -> None:
    """Beyond the clip the weight is 0 or 1 to the digit, and still has a gradient."""
    gate, mask = Gate(dim=4), torch.ones(1, 1, dtype=torch.bool)
    for bias, weight in ((-0.75, 0.0), (-0.25, 0.5), (0.5, 1.0)):
        nn.init.constant_(gate.weigh.bias, bias)
        found = weights(gate, torch.ones(1, 1, 4), mask)
        assert found.item() == weight
        (gradient,) = torch.autograd.grad(found.sum(), gate.weigh.bias)
        assert gradient.item() == gate.speed


def test_nothing_pushes_a_context_gate_further_beyond_its_clip() -> None:
    gate, mask = ContextGate(dim=4), torch.ones(1, 1, dtype=torch.bool)
    for bias, weight, up, down in (
        (-0.75, 0.0, 1, 0),
        (-0.45, 0.0, 1, 1),
        (-0.25, 0.5, 1, 1),
        (0.5, 1.0, 0, 1),
    ):
        nn.init.constant_(gate.weigh.bias, bias)
        found = weights(gate, torch.ones(1, 1, 4), mask)
        assert found.item() == weight
        for sign, passes in ((-1, up), (1, down)):
            (gradient,) = torch.autograd.grad(sign * found.sum(), gate.weigh.bias, retain_graph=True)
            assert gradient.item() == sign * passes * gate.speed


def opening_and_closing() -> ContextGate:
    """A gate of one-hot words in which the first type mutes what follows, up to the second type."""
    gate = ContextGate(dim=4)
    with torch.no_grad():
        gate.key.weight.copy_(torch.tensor([[4.0, 4.0, -4.0, -4.0]]))
        gate.key.bias.zero_()
        gate.value.weight.copy_(torch.tensor([[-1.0, 1.0, 0.0, 0.0]]))
    return gate


def test_a_prior_keeps_tokens_counting_with_few_texts() -> None:
    """`muting` pulls levels up to 3/2, the start, and no further; it is 0 for other coordinates."""
    method, words = build("vnait", dim=8), torch.randn(2, 5, 8)
    gate = method.coordinates.coordinates.gate
    below = -4.0 * gate.speed * len(MASK) / float(MASK.sum())  # the mean over texts of that over tokens
    for bias, cost, pull in ((0.0, 0.0, 0.0), (-0.25, 4.0, below), (0.5, 0.0, 0.0)):
        nn.init.constant_(gate.weigh.bias, bias)
        loss = method.penalty(method(words, MASK).at, MASK, smooth=1, bound=1, mute=4.0)
        (gradient,) = torch.autograd.grad(loss, gate.weigh.bias)
        assert (loss.item(), gradient.item()) == pytest.approx((cost, pull))
    other = build("vnait-warp", dim=8)
    assert other.penalty(other(words, MASK).at, MASK, smooth=0, bound=0, mute=4.0) == 0


def test_few_texts_have_a_strong_prior() -> None:
    words = vocabulary_of(["a b", "b c"], tokenization="words")
    few, many = (new_model(words, Run(), ["x", "y"], [2] * count) for count in (4, 400))
    assert (few.config.muting, many.config.muting) == (6.0, 0.06)


def test_what_stands_between_two_marks_need_not_count() -> None:
    gate, types = opening_and_closing(), [2, 0, 3, 2, 3, 1, 2, 1, 3]
    words = torch.eye(4)[None, types]
    found = weights(gate, words, torch.ones(1, 9, dtype=torch.bool))
    assert found.tolist() == [[1, 1, 0, 0, 0, 0, 1, 1, 1]]  # the marks themselves are for f
    long = torch.eye(4)[None, [0] + [2] * 600 + [1, 3]]
    assert weights(gate, long, torch.ones(1, 603, dtype=torch.bool))[0, 1:602].eq(0).all()
    padded = torch.cat([torch.zeros(1, 2, 4), words, torch.zeros(1, 1, 4)], 1)
    mask = torch.tensor([[False] * 2 + [True] * 9 + [False]])
    assert torch.equal(weights(gate, padded, mask)[:, 2:11], found)
    assert torch.equal(weights(gate, words[:, :5], mask[:, 2:7]), found[:, :5])


def test_the_state_is_that_of_a_loop() -> None:
    keep, new = torch.rand(2, 3, 70, generator=torch.Generator().manual_seed(0))
    state, states = torch.zeros(3), []
    for i in range(70):
        state = keep[:, i] * state + new[:, i]
        states.append(state)
    torch.testing.assert_close(_recurrence(keep, new), torch.stack(states, -1))


def test_a_repetition_can_count_less() -> None:
    gate = Gate(dim=4)
    nn.init.constant_(gate.repeat, -1.0)
    words = torch.eye(4)[None, [0, 0, 1, 1, 1, 0]]
    found = weights(gate, words, torch.ones(1, 6, dtype=torch.bool))
    assert found.round(decimals=1).tolist() == [[1, 0, 1, 0, 0, 1]]
    padded = torch.cat([torch.zeros(1, 1, 4), words], 1)
    mask = torch.tensor([[False] + [True] * 6])
    assert torch.equal(weights(gate, padded, mask)[:, 1:], found)


def test_neighbours_are_the_next_ones_that_count() -> None:
    """The view of a text with filler is the view of the text without it, read at the tokens that count."""
    weights = (1, 0, 0, 1, 1, 0, 1)
    words = torch.randn(1, 7, 8, generator=torch.Generator().manual_seed(0))
    counted = torch.tensor(weights).bool()
    views = [Local(dim=8, dropout=0), Nearest(dim=8, dropout=0)]
    plain, condensed = Neighbours(Add(), views), Condensed(Add(), views)
    mask = torch.ones(1, 7, dtype=torch.bool)
    without = plain(words[:, counted], None)
    at = gated(*weights)(None, mask)
    torch.testing.assert_close(condensed(words, None, at)[:, counted], without, rtol=0, atol=1e-3)
    assert (plain(words, None)[:, counted] - without).abs().max() > 0.1
    at = gated(*[1.0] * 7)(None, mask)
    torch.testing.assert_close(condensed(words, None, at), plain(words, None), rtol=0, atol=1e-6)


@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0, 1.0, 1.0), (1.0, 0.5, 0.0, 1.0, 1.0)])
def test_without_gradients_the_neighbours_are_the_same(weights: tuple[float, ...]) -> None:
    """Where all count, evaluation does not condense."""
    condensed = Condensed(Add(), [Local(dim=8, dropout=0), Nearest(dim=8, dropout=0)])
    words, at = torch.randn(1, 5, 8), gated(*weights)(None, torch.ones(1, 5, dtype=torch.bool))
    with torch.no_grad():
        found = condensed(words, None, at)
    torch.testing.assert_close(found, condensed(words, None, at), rtol=0, atol=1e-6)


def test_views_give_gradients_to_weights() -> None:
    """The view of the last word moves when filler before it counts less."""
    weight = torch.tensor([[1.0, 0.6, 1.0]], requires_grad=True)

    class Learned(nn.Module):
        def forward(self, vectors: object, mask: torch.Tensor) -> torch.Tensor:
            return weight

    at = Elastic(Learned())(None, torch.ones(1, 3, dtype=torch.bool))
    found = Condensed(Add(), [Local(dim=4, dropout=0)])(torch.randn(1, 3, 4), None, at)
    (gradient,) = torch.autograd.grad(found[0, -1].sum(), weight)
    assert bool(gradient.isfinite().all()) and gradient[0, 1] != 0


def test_condensed_views_need_weights() -> None:
    at = Ends(Span(source="uniform"))(None, MASK)
    with pytest.raises(
        ValueError, match="Condensed reads axes 1 and 3 of Elastic, and the coordinates have 3"
    ):
        Condensed(Add(), [Local(dim=4)])(torch.randn(*MASK.shape, 4), None, at)


def test_wrong_input_is_refused() -> None:
    with pytest.raises(ValueError, match="a Gate reads the words"):
        Elastic(Gate(dim=4))(None, torch.ones(1, 2, dtype=torch.bool))
    for share in (0, 1):
        with pytest.raises(
            ValueError, match=rf"min_gap={share}; it is a share of a token and must be in \(0, 1\)"
        ):
            Elastic(Gate(dim=4), min_gap=share)


@pytest.mark.long
@pytest.mark.slow
def test_the_labels_alone_silence_filler() -> None:
    """In 700 steps on texts of 8 to 40 tokens: words count one, filler nothing."""
    setting = Setting(steps=700)
    (model,) = elastic.fit("vnait", TASKS["middle"], [0], setting)
    gate = model.model.method.coordinates.coordinates.gate
    types = model.model.vectors.weight[None]
    with torch.no_grad():
        weights = gate(types, torch.ones(1, VOCABULARY, dtype=torch.bool))[0]
    assert weights[list(WORDS)].mean() > 0.9 and weights[list(FILLERS)].mean() < 0.1
