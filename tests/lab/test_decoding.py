"""The decoding suite: its answers, found again in plain Python; what is asked, scored and said of it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Generator

from helpers import record
from vnait.results.record import Record
from vnait.shared.errors import InputError
from vnait_lab.study import Verdict
from vnait_lab.suites import decoding
from vnait_lab.suites.decoding import (
    FAR,
    LONGEST_TEXT,
    NEAR,
    SUITE,
    Setting,
    encode,
    fit,
    lengths_of,
    overall,
    score,
    verdict,
)
from vnait_lab.suites.questions import QUESTIONS, scan_commands
from vnait_lab.suites.suite import IGNORED, Score, in_bulk


def said(name: str, question: list[str]) -> list[str]:
    """The answer, found by reading the question."""
    text = " ".join(question)
    if name in ("copy", "reverse"):
        return question[:: 1 if name == "copy" else -1]
    if name == "addition":
        one, other = (int(part.replace(" ", "")) for part in text.split("+"))
        return list(str(one + other))
    if name == "polynomial":
        at, terms = text.split(" ; ")
        x = int(at.removeprefix("x = ").replace(" ", ""))
        parts = [term.replace(" ", "").split("x^") for term in terms.split(" + ")]
        return [str(sum(int(factor) * x ** int(degree) for factor, degree in parts) % 10)]
    if name == "sorting":
        return [str(number) for number in range(50) for _ in range(question.count(str(number)))]
    if name in ("summation", "parity"):
        return [str(sum(map(int, question)) % (10 if name == "summation" else 2))]
    if name == "lego":
        *clauses, query = [clause.split() for clause in text.split(" ; ")]
        values = {"1": 1}
        for variable, _, sign, other in clauses:
            values[variable] = values[other] * (1 if sign == "+" else -1)
        return ["+" if values[query[1]] > 0 else "-", "1"]
    return actions(text) if name == "scan" else applied(list(question))


def actions(command: str) -> list[str]:
    """SCAN's own rules of interpretation, outermost first."""
    if " and " in command:
        one, other = command.split(" and ")
        return actions(one) + actions(other)
    if " after " in command:
        one, other = command.split(" after ")
        return actions(other) + actions(one)
    *words, last = command.split()
    if last in ("twice", "thrice"):
        return actions(" ".join(words)) * (2 if last == "twice" else 3)
    if not words:
        return [] if last == "turn" else [last.upper()]
    turn, verb = [f"TURN_{last.upper()}"], actions(words[0])
    if words[1:] == ["around"]:
        return (turn + verb) * 4
    return turn * (2 if words[1:] else 1) + verb


def applied(tokens: list[str]) -> list[str]:
    """Reads a prefix expression from the front of the tokens."""
    name = tokens[0]
    if name[0].isupper():
        text = []
        while tokens and tokens[0][0].isupper():
            text.append(tokens.pop(0))
        return text
    tokens.pop(0)
    one = applied(tokens)
    if name in ("append", "prepend", "remove_first", "remove_second"):
        assert tokens.pop(0) == ","
        other = applied(tokens)
        return {
            "append": [*one, *other],
            "prepend": [*other, *one],
            "remove_first": other,
            "remove_second": one,
        }[name]
    return {
        "copy": one,
        "reverse": list(reversed(one)),
        "shift": [*one[1:], one[0]],
        "swap_first_last": [one[-1], *one[1:-1], one[0]][: len(one)],
        "repeat": one * 2,
        "echo": [*one, one[-1]],
    }[name]


@pytest.mark.parametrize(
    ("name", "question", "found"),
    [
        ("copy", "3 1 4", "3 1 4"),
        ("reverse", "3 1 4", "4 1 3"),
        ("addition", "9 9 + 2", "1 0 1"),
        ("polynomial", "x = - 1 ; 2 x ^ 3 + - 3 x ^ 0", "5"),
        ("sorting", "31 4 15", "4 15 31"),
        ("summation", "9 2 5", "6"),
        ("parity", "1 1 1", "1"),
        ("lego", "a = + 1 ; b = - a ; ? b", "- 1"),
        ("scan", "jump left twice", "TURN_LEFT JUMP TURN_LEFT JUMP"),
        (
            "scan",
            "walk opposite right after turn left thrice",
            "TURN_LEFT TURN_LEFT TURN_LEFT TURN_RIGHT TURN_RIGHT WALK",
        ),
        ("scan", "turn around left and run", "TURN_LEFT TURN_LEFT TURN_LEFT TURN_LEFT RUN"),
        ("pcfg", "append reverse A1 B2 , C3", "B2 A1 C3"),
        ("pcfg", "repeat swap_first_last A1 B2 C3", "C3 B2 A1 C3 B2 A1"),
    ],
)
def test_what_is_decoded_by_hand(name: str, question: str, found: str) -> None:
    assert said(name, question.split()) == found.split()


@pytest.mark.parametrize("name", QUESTIONS)
def test_decoding_tasks_have_the_answers_of_their_definition(name: str) -> None:
    about = QUESTIONS[name]
    for length in (1, 2, 3, 8, 20, about.longest):
        pairs = about.make(50, length, Generator().manual_seed(length))
        assert len(pairs) == 50
        for question, found in pairs:
            assert said(name, question) == found, question
            if name in ("copy", "reverse", "sorting", "summation", "parity"):
                assert len(question) == length
            if name == "pcfg":
                assert sum(token.islower() for token in question) == length
            if name == "addition":
                assert max(map(len, " ".join(question).replace(" ", "").split("+"))) == length
            if name in ("polynomial", "lego"):
                assert question.count("^" if name == "polynomial" else "=") == length
    one, other, third = (about.make(9, 8, Generator().manual_seed(seed)) for seed in (3, 3, 4))
    assert one == other != third
    with pytest.raises(ValueError, match=f"{name} takes 1 to {about.longest}"):
        about.make(1, about.longest + 1, Generator())


def test_scan_is_whole() -> None:
    """The published set: 20,910 commands of up to 48 actions, 16,990 of them with 22 or fewer."""
    commands = scan_commands()
    assert sum(map(len, commands.values())) == 20_910
    assert max(commands) == 48
    assert sum(len(own) for size, own in commands.items() if size <= 22) == 16_990


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_token_is_known_and_occurs_and_tables_are_long_enough(name: str) -> None:
    about = QUESTIONS[name]
    pairs = [
        pair
        for length in (8, 12, about.longest)
        for pair in about.make(1000, length, Generator().manual_seed(0))
    ]
    assert {token for question, answer in pairs for token in [*question, *answer]} == set(about.tokens)
    assert len(set(about.tokens)) == len(about.tokens)
    assert max(len(question) + len(answer) + 2 for question, answer in pairs) <= LONGEST_TEXT


def test_a_question_is_followed_by_its_answer_which_alone_is_asked() -> None:
    """Three digits stand for 1 to 10, + for 11; 12 and 13 end a question and an answer."""
    ids, labels = encode(QUESTIONS["addition"], 40, 3, Generator().manual_seed(0))
    assert {len(row[row > 0]) for row in ids} > {9 + 2}  # some shorter than others, and padded
    for row, wanted in zip(ids.tolist(), labels.tolist(), strict=True):
        middle, end = row.index(12), row.index(13)
        one, other = ("".join(str(i - 1) for i in part) for part in _split(row[:middle], 11))
        assert [i - 1 for i in row[middle + 1 : end]] == [int(digit) for digit in str(int(one) + int(other))]
        assert wanted == [IGNORED] * (middle + 1) + row[middle + 1 : end + 1] + [IGNORED] * (
            len(row) - end - 1
        )
        assert not any(row[end + 1 :])


def _split(row: list[int], at: int) -> tuple[list[int], list[int]]:
    return row[: row.index(at)], row[row.index(at) + 1 :]


def test_texts_of_several_seeds_are_padded_to_one_width() -> None:
    def texts(*seeds: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        make = partial(encode, QUESTIONS["pcfg"])
        return list(in_bulk(make, lengths=range(1, 5), seeds=seeds, steps=6, batch=3))

    both = texts(0, 1)
    for ids, labels in both:
        assert ids.shape == labels.shape and ids.shape[:2] == (2, 3)
        assert ((ids == 0) <= (labels == IGNORED)).all()
    for (ids, _), (padded, _) in zip(texts(1), both, strict=True):
        width = ids.shape[-1]
        assert torch.equal(ids[0], padded[1, :, :width]) and not padded[1, :, width:].any()


@pytest.mark.parametrize("method", ["vnait-causal", "rope"])
def test_a_score_is_the_share_of_answers_that_greedy_decoding_writes(method: str) -> None:
    """A model half trained: right on some questions, wrong on others."""
    setting = Setting(steps=60, learning_rate=5e-3, warmup=5, num_hidden_layers=1)
    model = fit(method, QUESTIONS["parity"], [0], setting)[0]
    found = score(model, QUESTIONS["parity"], 6, 30, Generator().manual_seed(1))
    ids, _ = encode(QUESTIONS["parity"], 30, 6, Generator().manual_seed(1))
    written = model.generate(ids[:, :7], max_new_tokens=2, do_sample=False)
    right = (written == ids).all(-1)
    assert 0 < right.sum() < 30
    assert found == pytest.approx(float(right.float().mean()))


def test_a_method_that_refuses_a_length_has_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "LONGEST_TEXT", 20)
    model = fit("learned", QUESTIONS["parity"], [0], Setting(steps=1, num_hidden_layers=1))[0]
    assert score(model, QUESTIONS["parity"], 40, 2, Generator()) == 0


def record_of(method: str, task: str, seed: int, near: float, far: float) -> Record:
    metrics = {f"exact_{NEAR}": near} | {f"exact_{share}": far for share in FAR}
    return record(method, seed, key=f"{method} {task} {seed}", data={"name": task}, metrics=metrics)


def scores_of(fars: dict[str, list[float]], seeds: int = 3) -> list[Score]:
    return SUITE.summary(
        [
            record_of(method, f"task {number}", seed, 1.0, far)
            for method, own in fars.items()
            for number, far in enumerate(own)
            for seed in range(seeds)
        ]
    )


def test_ranks_are_by_task_and_equals_share_one() -> None:
    scores = scores_of({"a": [0.9, 0.2, 0.0], "b": [0.1, 0.3, 0.0], "c": [0.5, 0.1, 0.3]})
    means = {standing.method: standing.means for standing in overall(scores)}
    assert means["a"]["mrr"] == pytest.approx((1 + 1 / 2 + 1 / 2.5) / 3)
    assert means["b"]["mrr"] == pytest.approx((1 / 3 + 1 + 1 / 2.5) / 3)
    assert means["c"]["mrr"] == pytest.approx((1 / 2 + 1 / 3 + 1) / 3)
    assert means["a"]["exact_far"] == pytest.approx(1.1 / 3) and means["a"]["exact_near"] == 1


@pytest.mark.parametrize(
    ("fars", "seeds", "word", "said"),
    [
        ({"m": [0.9, 0.2], "rope": [0.1, 0.3], "none": [0.0, 0.0]}, 3, "refuted", "rope 0.75, 20.0 %"),
        (
            {"m": [0.9, 0.4], "rope": [0.1, 0.3]},
            3,
            "confirmed",
            "mean reciprocal rank 1.00 over 2 tasks, 65.0 % of answers; rope 0.50",
        ),
        ({"m": [0.1, 0.2], "rope": [0.2, 0.3]}, 3, "refuted", "rope 1.00"),
        ({"m": [0.9, 0.4], "rope": [0.1, 0.3]}, 2, "undecided", "fewer than 3 seeds"),
        (
            {"m": [0.9, 0.4], "rope": [0.1]},
            3,
            "undecided",
            "over 1 tasks, 90.0 % of answers; rope 0.50, 10.0 %; not run yet: task 1",
        ),
        ({"m": [0.9, 0.4]}, 3, "undecided", "compared with nothing"),
        ({"rope": [0.9], "none": [0.4]}, 3, "undecided", "compared with nothing"),
    ],
)
def test_the_verdict(fars: dict[str, list[float]], seeds: int, word: str, said: str) -> None:
    found = verdict(scores_of(fars, seeds), "m", tasks=("task 0", "task 1"))
    assert found.word == word
    assert said in found.summary


def test_the_verdict_asks_for_a_task_that_all_have_run_and_for_all_ten() -> None:
    rows = [
        row
        for row in scores_of({"m": [0.9, 0.8], "rope": [0.7, 0.6]})
        if row.task[-1] == "01"[row.method == "m"]
    ]
    assert verdict(rows, "m") == Verdict("undecided", "no task was run by all methods")
    found = verdict([replace(row, task="copy") for row in rows], "m")
    assert found.word == "undecided" and found.summary.endswith(
        ", ".join(name for name in QUESTIONS if name != "copy")
    )


def test_the_lengths_are_shares_of_the_longest() -> None:
    assert list(lengths_of(QUESTIONS["parity"]).values()) == [20, 24, 28, 32, 36, 40]


# A task of one's own


def test_a_token_that_the_task_does_not_name_is_named():
    own = replace(QUESTIONS["copy"], tokens=QUESTIONS["copy"].tokens[:50])
    with pytest.raises(InputError, match=r"has the token '\d\d', which the task's `tokens` lack"):
        encode(own, 20, 20, Generator().manual_seed(0))


def test_lengths_that_do_not_differ_are_refused():
    with pytest.raises(InputError, match="a longest length of 6 was given; take 10 or more"):
        replace(QUESTIONS["copy"], longest=6)


def test_a_table_has_a_row_for_every_token_of_a_longer_task():
    def make(count, length, random):
        return [(["1"] * length, ["1"] * length) for _ in range(count)]

    (model,) = fit(
        "learned",
        replace(QUESTIONS["copy"], make=make, longest=200),
        [0],
        Setting(steps=1, num_hidden_layers=1),
    )
    assert model.config.max_length == 402
