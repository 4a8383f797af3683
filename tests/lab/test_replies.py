"""Headers and quotes: what is inserted where, and when the verdict holds."""

from collections import Counter
from random import Random
from types import SimpleNamespace

import pytest

from vnait_lab.runs.replies import END, HEADER, LINE, MARK, QUOTE, TESTS, Articles, document, lines, verdict

WORDS = [f"w{number}" for number in range(35)]
OTHERS = [[f"o{number}" for number in range(23)]]


@pytest.mark.parametrize("kind", ["", "headers", "quotes"])
def test_what_is_left_after_filtering_is_the_article_and_its_answer(kind):
    for seed in range(20):
        tokens, answer = document(WORDS, kind, 3.0, OTHERS, Random(seed))
        rows = " ".join(tokens).split(END)
        own = [row.split() for row in rows if row.split() not in ([], list(HEADER[:-1])) and QUOTE not in row]
        marked = [word for row in own for word in row]
        assert [word for word in marked if word != MARK] == WORDS
        assert answer == 3 * marked.index(MARK) // (len(WORDS) + 1)
        assert all(len(row) == LINE for row in own[:-1])


def test_headers_stand_at_even_distances():
    tokens, _ = document(WORDS, "headers", 3.0, OTHERS, Random(0))
    rows = [row.split() for row in " ".join(tokens).split(END)[:-1]]
    header = list(HEADER[:-1])
    before = Counter(
        sum(row != header for row in rows[:place]) for place, row in enumerate(rows) if row == header
    )
    assert len(before) > 1 and max(before.values()) - min(before.values()) <= 1


def test_quotes_are_one_block_of_whole_lines_within_their_share():
    lengths = []
    for seed in range(20):
        tokens, _ = document(WORDS, "quotes", 0.5, OTHERS, Random(seed))
        rows = [row.split() for row in " ".join(tokens).split(END)[:-1]]
        quoted = [place for place, row in enumerate(rows) if row[0] == QUOTE]
        assert quoted == list(range(quoted[0], quoted[0] + len(quoted))) if quoted else True
        lengths.append(sum(len(rows[place]) + 1 for place in quoted))
    assert 0 < max(lengths) <= len(WORDS) / 2 + 1


def test_ids_of_a_batch():
    ids = {"[PAD]": 0, "[UNK]": 1, "w0": 2}
    found, answers = Articles("", (), [], [], ids).batch([(["w0", "w9"], 1), (["w0"], 0)])
    assert found.tolist() == [[2, 1], [2, 0]] and answers.tolist() == [1, 0]
    assert lines(["a"]) == [["a", END]]


def records(**more):
    return [
        SimpleNamespace(
            method=method,
            seed=seed,
            data={"name": "replies"},
            metrics={f"accuracy_{test}": 0.9 + seed / 1000 for test in TESTS}
            | {"accuracy_quotes_more": score},
        )
        for method, score in more.items()
        for seed in range(3)
    ]


def test_the_verdict_compares_with_a_third_of_the_best_others_loss():
    assert verdict(records(vnait=0.89, rope=0.6, alibi=0.5), "quotes_more").word == "confirmed"
    assert verdict(records(vnait=0.7, rope=0.6), "quotes_more").word == "refuted"
    assert verdict(records(rope=0.6), "quotes_more").word == "undecided"
