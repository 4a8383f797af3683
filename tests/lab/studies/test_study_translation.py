"""Translation: the generated language, what each side sees, BLEU, alignment errors and the dictionary."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vnait_lab.studies.translation import (
    END,
    GRAMMAR,
    PLACES,
    SAME,
    Pair,
    Translator,
    Vocabulary,
    alignment_error,
    bleu,
    dictionary,
    drawn,
    judge_symmetries,
    phrase,
    same,
    sentence,
    translated,
)
from vnait_lab.study import Budget, Findings


def pair(source: str, target: str, *links: int) -> Pair:
    own: list[set[int]] = [{link} - {-1} for link in links]
    return Pair(source.split(), target.split(), own, own)


class Fixed:
    """In place of a generator: the first of all choices, and these numbers of adjectives."""

    def __init__(self, *counts: int) -> None:
        self.counts = list(counts)

    def integers(self, high: int) -> int:
        return self.counts.pop(0)

    def choice(self, words: list[str], count: int | None = None) -> np.ndarray:
        return np.array(words[0] if count is None else words[:count])


def test_a_sentence_of_the_generated_language() -> None:
    source, target = phrase(1, Fixed(2, 0))  # type: ignore[arg-type]
    assert " ".join(source) == "the a0 a1 n0 near the n0"
    assert target == [("N0", 6), ("NEAR", 4), ("N0", 3), ("A0", 1), ("A1", 2)]
    two = sentence(Fixed(2, 1), [0])  # type: ignore[arg-type]
    assert " ".join(two.source) == "the a0 a1 n0 v0 the a0 n0"
    assert " ".join(two.target) == "N0 A0 A1 WA N0 A0 O V0"
    assert two.sure == [{3}, {1}, {2}, set(), {7}, {6}, set(), {4}]


def test_a_link_joins_a_word_and_its_translation() -> None:
    random = np.random.default_rng(0)
    for _ in range(50):
        one = sentence(random, range(4))
        for word, links in zip(one.target, one.sure, strict=True):
            assert [one.source[link].upper() for link in links] == [word] * (word not in ("WA", "O"))


@pytest.fixture
def random_model() -> tuple[list[Pair], Vocabulary]:
    learn, _ = drawn(GRAMMAR, 0, Budget(samples=40))
    torch.manual_seed(0)
    return learn, Vocabulary(learn)


@pytest.mark.parametrize("place", PLACES)
def test_the_target_sees_no_word_to_come(place: str, random_model: tuple[list[Pair], Vocabulary]) -> None:
    learn, words = random_model
    model = Translator(place, len(words.words)).eval()
    source, target = words.tensors(learn[:4])
    other = target.clone()
    other[:, 3:] = END
    one, two = model(source, target), model(source, other)
    torch.testing.assert_close(one[:, :3], two[:, :3])
    assert (one[:, 3] - two[:, 3]).abs().max() > 1e-3
    alone = model(*words.tensors(learn[1:2]))
    torch.testing.assert_close(model(source, target)[1, : alone.shape[1]], alone[0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("place", PLACES)
def test_what_the_order_of_the_source_changes(
    place: str, random_model: tuple[list[Pair], Vocabulary]
) -> None:
    """A permuted source changes nothing where no position is on it."""
    learn, words = random_model
    model = Translator(place, len(words.words)).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.2)  # T5's bias starts at 0
    source, target = words.tensors(learn[:1])
    change = (model(source.flip(1), target) - model(source, target)).abs().max()
    assert (change < 1e-4) == (place in ("none", "target"))


@pytest.mark.parametrize("place", PLACES)
def test_what_a_shift_of_both_sides_changes(place: str, random_model: tuple[list[Pair], Vocabulary]) -> None:
    learn, words = random_model
    model = Translator(place, len(words.words)).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.2)
    source, target = words.tensors(learn[:4])
    change = (model(source, target, 5) - model(source, target)).abs().max()
    assert (change < 1e-4) == (place in SAME["shifted"])


def test_a_translation_is_the_same_word_by_word() -> None:
    assert same([["A", "B"], ["A"], []], [["A", "B"], ["A", "B"], []]) == pytest.approx(2 / 3)


def test_symmetries_are_judged_where_they_must_hold_and_where_they_must_not() -> None:
    def findings(changed: str, way: str, share: float) -> Findings:
        cells = {
            (f"{GRAMMAR}, {place}", seed): {f"same, {name}": float(place in SAME[name]) for name in SAME}
            for place in PLACES
            for seed in range(3)
        }
        cells[f"{GRAMMAR}, {changed}", 1][f"same, {way}"] = share
        return Findings(cells)

    assert judge_symmetries.judge(findings("both", "shifted", 0.5)).word == "confirmed"
    assert judge_symmetries.judge(findings("both", "shifted", 0.95)).word == "undecided"
    assert judge_symmetries.judge(findings("rope", "shifted", 0.95)).word == "undecided"
    assert judge_symmetries.judge(findings("target", "permuted", 0.5)).word == "refuted"


def test_bleu_of_the_right_words_and_of_none() -> None:
    pairs = [pair("a b c d e", "A B C D E F", 0, 1, 2, 3, 4, 4)] * 2
    assert bleu([one.target for one in pairs], pairs) == pytest.approx(100)
    assert bleu([["x", "y"]] * 2, pairs) == 0


def test_the_dictionary_takes_the_largest_dice() -> None:
    pairs = [pair("the cat", "CAT WA", 1, -1), pair("the dog", "DOG WA", 1, -1), pair("cat", "CAT", 0)]
    assert dictionary(pairs) == {"the": "WA", "cat": "CAT", "dog": "DOG"}


def test_alignment_errors_by_hand() -> None:
    class Looks:
        def __init__(self, places: list[list[int]]) -> None:
            self.places = places

        def attention(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.one_hot(torch.tensor(self.places), source.shape[1]).float()

    one = Pair(["a", "b"], ["A", "B", "WA"], [{0}, {1}, set()], [{0}, {0, 1}, set()])
    words = Vocabulary([one])

    def error(*places: int) -> float:
        return alignment_error(Looks([[*places, 0]]), words, [one])  # type: ignore[arg-type]

    assert error(0, 1, 0) == 0
    assert error(0, 0, 1) == pytest.approx(1 - 3 / 4), "a possible link counts half"
    assert error(1, 0, 1) == pytest.approx(1 - 1 / 4)


def test_a_translation_ends_at_its_end() -> None:
    one = pair("a b", "A B", 0, 1)
    words = Vocabulary([one, one])

    class Says(torch.nn.Module):
        def forward(self, source: torch.Tensor, target: torch.Tensor, start: int) -> torch.Tensor:
            answer = torch.tensor([*words.numbers(["B", "A"]), END, *words.numbers(["A"] * 20)])
            return torch.nn.functional.one_hot(answer[: target.shape[1]], len(words.words)).float()[None]

    assert translated(Says(), words, [one]) == [["B", "A"]]  # type: ignore[arg-type]
