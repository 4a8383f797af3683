"""The learned Hamming decoder: its words, its bounds, and its baselines by enumeration."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from test_study_hamming import encoded

from vnait_lab.studies.hamming import twice
from vnait_lab.studies.hamming_learned import (
    ALL,
    CODED,
    PART,
    STUDY,
    blind,
    everything,
    fitted,
    judge_binary,
    judge_held,
    judge_learned,
    tokens,
)
from vnait_lab.study import Budget, Findings


def test_every_word_is_a_code_word_or_one_flip_away() -> None:
    words, truth = everything()
    known = {tuple(encoded(data)) for data in product((0, 1), repeat=4)}
    assert len({tuple(row) for row in words.int().tolist()}) == 128
    for word, place in zip(words.int().tolist(), truth.tolist(), strict=True):
        if place:
            word[place - 1] ^= 1
        assert tuple(word) in known


def test_what_the_number_of_ones_allows() -> None:
    words, truth = everything()
    assert 128 * blind(words, truth) == 24
    assert blind(words, words.sum(1).long()) == 1


def test_two_flips_name_a_third_place() -> None:
    words, truth = everything()
    received, places = twice(words[truth == 0])
    assert received.shape == (336, 7) and ((received == 0) | (received == 1)).all()
    answer = fitted("nearest", words, truth, 0, Budget())
    assert (answer(received) == places[:, 0] ^ places[:, 1]).all()
    assert not (answer(received)[:, None] == places).any()


def test_the_nearest_word_is_a_neighbour() -> None:
    words, truth = everything()
    answer = fitted("nearest", words[1:], truth[1:], 0, Budget())
    neighbours = truth[words.sum(1) == 1].tolist()  # of the word of zeros, a code word
    assert int(answer(words[:1])) in neighbours and (answer(words[1:]) == truth[1:]).all()
    linear = fitted("linear", words, truth, 0, Budget())
    assert (linear(words) == truth).double().mean() < 0.2  # parities are no sums


def test_the_place_is_read_after_the_bits() -> None:
    assert tokens(torch.tensor([[1.0, 0, 1]])).tolist() == [[1, 0, 1, 2]]


def given(trained: float, held: dict[str, float]) -> Findings:
    """Findings with these shares, over three seeds."""
    cells = {}
    for name, split, seed in product((*CODED, "nearest", "linear"), (ALL, PART), range(3)):
        share = held.get(name, 0.1) + 0.01 * seed
        cells[f"{name}, {split}", seed] = {"trained": trained, "held": share}
    return Findings(cells)


@pytest.mark.parametrize(
    ("trained", "held", "words"),
    [
        (1.0, dict.fromkeys(CODED, 0.97), ("confirmed", "confirmed", "undecided")),
        (1.0, {"binary": 0.97, "rope": 0.5}, ("confirmed", "conditional", "confirmed")),
        (1.0, {"binary": 0.3, "rope": 0.6}, ("confirmed", "refuted", "refuted")),
        (0.6, {"binary": 0.3}, ("refuted", "undecided", "confirmed")),
    ],
)
def test_verdicts(trained: float, held: dict[str, float], words: tuple[str, ...]) -> None:
    found = given(trained, held)
    judges = (judge_learned, judge_held, judge_binary)
    assert tuple(judge.judge(found).word for judge in judges) == words
    assert len(STUDY.claims) == 4
