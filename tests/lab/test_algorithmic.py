"""The algorithmic suite: its answers, found again in plain Python; its summary and verdict."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Generator

from helpers import record
from vnait.results.record import Record
from vnait.shared.statistics import interval
from vnait_lab.suites import algorithmic
from vnait_lab.suites.algorithmic import (
    FAR,
    LENGTHS,
    SUITE,
    Setting,
    encode,
    fit,
    new_model,
    overall,
    verdict,
)
from vnait_lab.suites.algorithms import ALGORITHMS, algorithm
from vnait_lab.suites.suite import IGNORED, Score

TINY = Setting(
    steps=2, batch=2, tests=8, hidden_size=8, intermediate_size=8, num_attention_heads=2, num_hidden_layers=1
)
SIGNS = "01234+-*()x="  # the symbols of expressions


def answer(name: str, text: list[int]) -> list[int]:
    """The answers, found by hand; END is 2."""
    n, half = len(text), len(text) // 2
    if name == "even_pairs":
        return [sum(one != other for one, other in pairwise(text)) % 2]
    if name in ("modular_arithmetic", "modular_arithmetic_brackets"):
        return [eval("".join(SIGNS[symbol] for symbol in text)) % 5]
    if name == "parity_check":
        return [text.count(1) % 2]
    if name == "cycle_navigation":
        return [(text.count(2) - text.count(0)) % 5]
    if name == "stack_manipulation":
        return closed(stack_of(text), n + 1)
    if name == "reverse_string":
        return [text[n - 1 - place] for place in range(n)]
    if name == "solve_equation":
        return solutions(text) if n > 2 else [0]
    if name == "duplicate_string":
        return text + text
    if name == "missing_duplicate":
        if n == 1:
            return [1]
        assert text.count(2) == 1 and text[2 * half :] == [3] * (n % 2)
        place = text.index(2)
        whole = [one if one != 2 else other for one, other in zip(text, text[half : 2 * half], strict=False)]
        assert [symbol for symbol in text if symbol < 2] == [s for i, s in enumerate(whole * 2) if i != place]
        return [whole[place % half]]
    if name == "odds_first":
        return [text[place] for place in range(n) if place % 2] + [
            text[place] for place in range(n) if place % 2 == 0
        ]
    if name in ("binary_addition", "binary_multiplication"):
        return arithmetic(name, text)
    if name == "compute_sqrt":
        number, root = int("".join(map(str, text)), 2), 0
        for bit in reversed(range(half + 1)):
            root += 2**bit * ((root + 2**bit) ** 2 <= number)
        return [int(digit) for digit in format(root, f"0{math.ceil(n / 2)}b")]
    assert name == "bucket_sort"
    return [symbol for symbol in range(5) for _ in range(text.count(symbol))]


def closed(row: list[int], width: int) -> list[int]:
    return row + [2] + [0] * (width - 1 - len(row))


def stack_of(text: list[int]) -> list[int]:
    stack: list[int] = []
    for symbol in text:
        stack = stack[1:] if symbol == 2 else [symbol % 3 if symbol > 2 else symbol, *stack]
    return stack


def solutions(text: list[int]) -> list[int]:
    left, right = "".join(SIGNS[symbol] for symbol in text).split("=")
    return [digit for digit in range(5) if eval(left.replace("x", str(digit))) % 5 == int(right)]


def arithmetic(name: str, text: list[int]) -> list[int]:
    n, plus = len(text), name == "binary_addition"
    if n < 3:
        return closed(list(low_bits(value(text))) if plus else [0] * (n - 1), n + plus)
    place = text.index(2)
    one, other = value(text[:place]), value(text[place + 1 :])
    assert one and other
    return closed(list(low_bits(one + other if plus else one * other)), n + plus)


def value(bits: list[int]) -> int:
    return int("".join(map(str, reversed(bits))), 2)


def low_bits(number: int) -> list[int]:
    return [int(digit) for digit in reversed(bin(number)[2:])]


@pytest.mark.parametrize(
    ("name", "text", "answers"),
    [  # of the papers' code, where it gives any
        ("even_pairs", "001110", "0"),
        ("even_pairs", "0101001", "1"),
        ("modular_arithmetic", "1+2*3", "2"),
        ("modular_arithmetic", "1-1-1", "4"),
        ("modular_arithmetic", "0*1+4*3-2", "0"),
        ("parity_check", "1010100", "1"),
        ("parity_check", "01111", "0"),
        ("cycle_navigation", "20100", "3"),
        ("cycle_navigation", "2220", "2"),
        ("stack_manipulation", "0110422", "11020000"),
        ("stack_manipulation", "110222", "2000000"),
        ("reverse_string", "011010", "010110"),
        ("modular_arithmetic_brackets", "((3*4)-(-1))", "3"),
        ("solve_equation", "(x+(3-1))=1", "4"),
        ("duplicate_string", "101", "101101"),
        ("missing_duplicate", "01100210", "1"),
        ("missing_duplicate", "1011213", "0"),
        ("odds_first", "00110101", "01110100"),
        ("odds_first", "110", "110"),
        ("binary_addition", "001201101", "0101120000"),
        ("binary_addition", "10012000001", "100101200000"),
        ("binary_multiplication", "001201101", "000110120"),
        ("binary_multiplication", "10012000001", "00000100120"),
        ("compute_sqrt", "100101", "110"),
        ("compute_sqrt", "111", "10"),
        ("bucket_sort", "10204112", "00111224"),
    ],
)
def test_the_answers_by_hand(name: str, text: str, answers: str) -> None:
    """The judge of the other tests, judged."""
    assert answer(name, [SIGNS.index(symbol) for symbol in text]) == [int(symbol) for symbol in answers]


@pytest.mark.parametrize("length", [*range(1, 13), 39, 40, 120, 500])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_tasks_have_the_answers_of_their_definition(name: str, length: int) -> None:
    about = ALGORITHMS[name]
    texts, answers = about.make(40, length, Generator().manual_seed(length))
    assert texts.dtype == answers.dtype == torch.long
    assert texts.shape == (40, length - (name == "modular_arithmetic" and length % 2 == 0))
    assert answers.shape == (40, about.answers(length))
    for text, found in zip(texts.tolist(), answers.tolist(), strict=True):
        assert set(text) <= set(range(about.symbols)) and set(found) <= set(range(about.classes))
        assert answer(name, text) == found, text


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_symbol_and_every_class_occur_and_none_can_be_guessed(name: str) -> None:
    """The commonest answer is little commoner than chance; products make 0 the likeliest value of an
    expression.
    """
    about = ALGORITHMS[name]
    texts, answers = about.make(3000, 40, Generator().manual_seed(0))
    unused = (
        {7} if name == "solve_equation" else {3} if name == "missing_duplicate" else set()
    )  # no *, no odd length
    assert set(range(about.symbols)) - set(texts.unique().tolist()) == unused
    shares = answers[about.counted(answers)].bincount(minlength=about.classes).double()
    shares /= shares.sum()
    assert shares.min() > 0
    assert shares.max() < about.chance + (0.12 if name == "modular_arithmetic_brackets" else 0.04)
    assert about.chance == {"binary": 0.5, "mod 5": 0.2}["mod 5" if about.classes == 5 else "binary"]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_texts_are_decided_by_the_generator(name: str) -> None:
    one, other, third = (ALGORITHMS[name].make(5, 21, Generator().manual_seed(seed)) for seed in (3, 3, 4))
    assert torch.equal(one[0], other[0]) and torch.equal(one[1], other[1])
    assert not torch.equal(one[0], third[0])
    random = Generator().manual_seed(3)
    twice = [ALGORITHMS[name].make(5, 21, random)[0] for _ in range(2)]
    assert not torch.equal(*twice)


def test_parts_of_texts_are_drawn_evenly() -> None:
    """Where the operator stands, how long the stack is, which digit is asked for."""
    random = Generator().manual_seed(0)
    sums, _ = ALGORITHMS["binary_addition"].make(3000, 12, random)
    places = (sums == 2).long().argmax(-1).bincount(minlength=12)
    assert places[[0, 11]].tolist() == [0, 0] and places[1:11].min() > 230
    stacks, _ = ALGORITHMS["stack_manipulation"].make(3000, 11, random)
    sizes = (stacks >= 2).long().argmax(-1).bincount(minlength=11)
    assert sizes[0] == 0 and sizes[1:].min() > 230
    equations, _ = ALGORITHMS["solve_equation"].make(3000, 11, random)
    assert (equations == 10).sum(-1).eq(1).all()
    assert (equations == 10).any(0).nonzero()[:, 0].tolist() == [1, 2, 3, 4, 6, 7]  # where a digit can stand


def test_what_follows_the_end_does_not_count() -> None:
    about = ALGORITHMS["binary_addition"]
    assert about.counted(torch.tensor([[2, 0, 0], [1, 1, 2]])).tolist() == [[True, False, False], [True] * 3]
    assert ALGORITHMS["bucket_sort"].counted(torch.tensor([[2, 3, 4]])).all()


def test_a_text_is_followed_by_a_blank_an_answer() -> None:
    ids, labels = encode(ALGORITHMS["odds_first"], (torch.tensor([[1, 0, 1]]), torch.tensor([[0, 1, 1]])))
    assert ids.tolist() == [[2, 1, 2, 3, 3, 3]]
    assert labels.tolist() == [[-100, -100, -100, 0, 1, 1]]
    for about in ALGORITHMS.values():
        ids, labels = encode(about, about.make(50, 9, Generator()))
        assert ids.min() >= 1 and int(ids.max()) == about.symbols + 1
        assert (labels != IGNORED).sum() == 50 * about.answers(9)


def test_the_model_has_the_papers_depth_and_width() -> None:
    config = new_model("learned", ALGORITHMS["duplicate_string"], 0, Setting()).config
    assert (config.num_hidden_layers, config.hidden_size) == (5, 64)
    assert config.max_length == 1500 and config.mean_length == 61.5


def test_a_score_is_the_share_of_answers_that_count() -> None:
    """A model that always says 0: right at every 0 before END, and nowhere else that counts."""
    model = fit("none", ALGORITHMS["stack_manipulation"], [0], TINY)[0]
    with torch.no_grad():
        model.classifier.weight.zero_()
        model.classifier.bias.copy_(torch.tensor([1.0, 0.0, 0.0]))
    found = algorithmic.score(model, ALGORITHMS["stack_manipulation"], 12, 1300, Generator().manual_seed(1))
    texts, _ = ALGORITHMS["stack_manipulation"].make(100, 12, Generator().manual_seed(1))
    stacks = [stack_of(text) for text in texts.tolist()]
    assert found == pytest.approx(sum(row.count(0) for row in stacks) / sum(len(row) + 1 for row in stacks))


def test_a_method_that_refuses_a_length_has_no_score() -> None:
    model = fit("learned", ALGORITHMS["parity_check"], [0], TINY)[0]
    assert algorithmic.score(model, ALGORITHMS["parity_check"], 501, 8, Generator()) == 0
    assert algorithmic.score(model, ALGORITHMS["duplicate_string"], 501, 8, Generator()) == 0


def test_a_task_is_registered_by_name() -> None:
    try:

        @algorithm("regular", "is the last bit 1?", symbols=2, classes=2)
        def last(count: int, length: int, random: Generator):
            text = torch.randint(2, (count, length), generator=random)
            return text, text[:, -1:]

        about = ALGORITHMS["last"]
        assert (about.level, about.chance, about.answers(7)) == ("regular", 0.5, 1)
    finally:
        ALGORITHMS.pop("last")


def test_a_seed_decides_a_training_whatever_stands_beside_it() -> None:
    def weights(seeds: list[int]) -> list[dict]:
        return [model.state_dict() for model in fit("vnait", ALGORITHMS["bucket_sort"], seeds, TINY)]

    one, other = weights([0, 1])
    (alone,) = weights([1])
    assert all(torch.allclose(alone[name], other[name], atol=1e-5) for name in alone)
    assert not all(torch.allclose(one[name], other[name], atol=1e-5) for name in one)


def test_the_summary_is_of_the_lengths_past_training() -> None:
    def invented(seed: int) -> Record:
        metrics = {f"accuracy_{length}": 1.0 if length == 40 else 0.5 + seed / 10 for length in LENGTHS}
        data = {"name": "parity_check", "level": "regular", "chance": 0.5}
        return record(seed=seed, data=data, metrics=metrics)

    (row,) = SUITE.summary([invented(seed) for seed in range(3)])
    assert (row.method, row.task, row.facts["level"], row.seeds) == ("m", "parity_check", "regular", 3)
    assert row.mean("accuracy_40") == 1 and row.mean("accuracy_500") == pytest.approx(0.6)
    assert row.mean("accuracy_far") == pytest.approx(0.6)
    assert row.row()["ci_low_far"] < 0.6 < row.row()["ci_high_far"]
    (row,) = SUITE.summary([invented(0)])
    assert row.row()["ci_low_far"] is None


def test_the_lengths_stand_for_all() -> None:
    """The papers' score is the mean over 41 ... 500."""
    assert abs(sum(FAR) / len(FAR) - 270.5) < 10


def scores_of(method: str, *fars: float, seeds: int = 3) -> list[Score]:
    levels = ("regular", "context-free")
    return [
        Score(
            method=method,
            task=f"task {i}",
            seeds=seeds,
            facts={"level": levels[i % 2]},
            intervals={"accuracy_40": interval([0.9]), "accuracy_far": interval([far])},
        )
        for i, far in enumerate(fars)
    ]


def test_the_overall_mean_is_over_tasks() -> None:
    best, other = overall([*scores_of("a", 0.5, 0.6), *scores_of("b", 0.9, 0.7, seeds=2)])
    assert (best.method, best.tasks, best.seeds) == ("b", 2, 2)
    assert best.means["accuracy_far"] == pytest.approx(0.8)
    assert best.means["accuracy_40"] == pytest.approx(0.9)
    assert other.means["accuracy_far_regular"] == 0.5 and other.means["accuracy_far_context-free"] == 0.6


@pytest.mark.parametrize(
    ("rows", "word", "said"),
    [
        (
            [
                *scores_of("m", 0.9, 0.8),
                *scores_of("rope", 0.7, 0.7),
                *scores_of("randomized-rope", 0.8, 0.8),
            ],
            "confirmed",
            "85.0 % over 2 tasks at 60 to 500 symbols; +15.0 points to the best non-randomized method, "
            "rope, and +5.0 to "
            "randomized-rope",
        ),
        (
            [
                *scores_of("m", 0.9, 0.8),
                *scores_of("rope", 0.7, 0.7),
                *scores_of("randomized-rope", 0.9, 0.9),
            ],
            "refuted",
            "-5.0 to randomized-rope",
        ),
        ([*scores_of("m", 0.9, 0.8), *scores_of("rope", 0.8, 0.8)], "refuted", "+5.0 points"),
        (
            [*scores_of("m", 0.9, 0.8), *scores_of("rope", 0.5, 0.5), *scores_of("t5", 0.7, 0.75)],
            "confirmed",
            "+12.5 points to the best non-randomized method, t5",
        ),
        (
            [*scores_of("m", 0.9, 0.9), *scores_of("m-paper", 1.0, 1.0), *scores_of("rope", 0.7, 0.7)],
            "confirmed",
            "best non-randomized method, rope",
        ),
        (
            [*scores_of("m", 0.9, 0.9), *scores_of("rope", 0.7, 0.7, seeds=2)],
            "undecided",
            "fewer than 3 seeds",
        ),
        (
            [*scores_of("m", 0.9, 0.1), *scores_of("rope", 0.7)],
            "undecided",
            "90.0 % over 1 tasks at 60 to 500 symbols; +20.0 points to the best non-randomized method, "
            "rope; not run yet: task 1",
        ),
        (
            [*scores_of("m", 0.9), *scores_of("rope", 0.7, 0.7)[1:]],
            "undecided",
            "no task was run by all of m, rope",
        ),
        (
            [*scores_of("m", 0.9, 0.9), *scores_of("randomized-rope", 0.7, 0.7)],
            "undecided",
            "were not both run",
        ),
        (scores_of("rope", 0.9, 0.9), "undecided", "were not both run"),
    ],
)
def test_the_verdict(rows: list[Score], word: str, said: str) -> None:
    """On invented scores."""
    found = verdict(rows, "m", tasks=("task 0", "task 1"))
    assert found.word == word
    assert said in found.summary


def test_the_verdict_asks_for_all_fifteen_tasks() -> None:
    rows = [*scores_of("m", 0.9), *scores_of("rope", 0.7)]
    found = verdict([replace(row, task="even_pairs") for row in rows], "m")
    assert found.word == "undecided" and found.summary.endswith(
        ", ".join([name for name in ALGORITHMS if name != "even_pairs"])
    )
