"""The same texts in other pieces: what is read, where it stands, and when the verdicts hold."""

from random import Random
from types import SimpleNamespace

import pytest

from vnait_lab.runs.retokenization import (
    MARK,
    METHODS_RUN,
    SEGMENTS,
    Question,
    after,
    batch,
    byte_pairs,
    kept,
    least,
    moved,
    placed,
    third,
    words_of,
)

TEXTS = ["The market fell, and the market rose.", "Markets rose again"] * 20


@pytest.fixture(scope="module")
def tokenizers():
    every = byte_pairs(TEXTS)
    return {name: after(every, merges) for name, merges in (SEGMENTS | {"pieces": 3}).items()}


def test_all_pieces_have_the_same_ids(tokenizers):
    every = tokenizers["words"]
    assert every.encode("market").tokens == ["market"]
    assert tokenizers["letters"].encode("market").tokens == list("market")
    assert 1 < len(tokenizers["pieces"].encode("market").ids) < 6
    for one in tokenizers.values():
        assert one.encode("market").tokens == list(map(every.id_to_token, one.encode("market").ids))
        assert one.encode(MARK).ids == [2]


def test_the_last_piece_of_a_word_stands_at_its_number():
    assert placed([[5], [6, 7], [8], [1, 2, 3, 4]]) == [0, 0.5, 1, 2, 2.25, 2.5, 2.75, 3]


@pytest.mark.parametrize("segments", SEGMENTS)
def test_a_batch_has_the_same_words_and_answers_in_any_pieces(segments, tokenizers):
    texts = words_of(TEXTS[:2], tokenizers["words"])
    assert texts[1] == ["markets", "rose", "again"]
    ids, places, answers = batch(texts, Question("", third, 3, [], [], tokenizers), segments, Random(0))
    assert (
        answers.tolist()
        == batch(texts, Question("", third, 3, [], [], tokenizers), "words", Random(0))[2].tolist()
    )
    marks = (ids == 2).nonzero()
    assert marks[:, 0].tolist() == [0, 1]
    for row, column in marks.tolist():
        assert int(3 * places[row, column, 0] / (len(texts[row]) + 1)) == answers[row]


def test_questions_by_hand():
    assert {third(list("abc"), Random(seed))[1] for seed in range(20)} == {0, 1, 2}
    found = {("".join(words), answer) for words, answer in (moved(list("abc"), Random(s)) for s in range(9))}
    assert found == {("abc", 0), ("bca", 1)}


def records(**letters):
    return [
        SimpleNamespace(
            method=method,
            seed=seed,
            metrics={
                "accuracy_words_counted": 0.9 + seed / 100,
                "accuracy_letters_counted": letters.get(method, 0.5) + seed / 100,
                "accuracy_letters_known": letters.get("known", 0.895) + seed / 100,
            },
        )
        for method in METHODS_RUN
        for seed in range(3)
    ]


def test_verdicts_compare_what_is_lost():
    assert least(records(vnait=0.88)).word == "confirmed"
    assert least(records(vnait=0.88, rope=0.89)).word == "refuted"
    assert kept(records()).word == "confirmed" and kept(records(known=0.8)).word == "refuted"
