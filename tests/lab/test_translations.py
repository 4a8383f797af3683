"""Translations: every sentence is there with its own second text and with another of its length."""

from collections import Counter
from types import SimpleNamespace

from vnait.data.pairs import sides_of
from vnait_lab.records import BASELINES
from vnait_lab.runs.translations import FILES, METHODS_RUN, plan_of, questions, verdict


def test_neither_side_gives_the_answer_nor_do_lengths():
    pairs = [(f"s{row}", " ".join([f"t{row}"] * (row // 4 + 1))) for row in range(40)]
    table = questions(pairs, "made", seed=0)
    assert Counter(table.labels) == {"yes": 40, "no": 40}
    assert {
        sides_of(text) for text, label in zip(table.texts, table.labels, strict=True) if label == "yes"
    } == {*pairs}
    for side in (0, 1):
        counts = Counter(
            (sides_of(text)[side], label) for text, label in zip(table.texts, table.labels, strict=True)
        )
        assert set(counts.values()) == {1}
    words = [len(sides_of(text)[1].split()) for text in table.texts]
    gaps = [wrong - right for right, wrong in zip(words[::2], words[1::2], strict=True)]
    assert gaps.count(0) == 30 and gaps.count(1) == 9 and gaps.count(-9) == 1  # the longest gets the shortest


def test_no_sentence_is_in_training_and_test(tmp_path):
    for name, file in FILES.items():
        (tmp_path / name).mkdir()
        lines = [f"a{row} b\tc{row} d\t0-0" for row in range(30)]
        (tmp_path / name / file).write_text("source\ttarget\talignment\n" + "\n".join(lines) + "\n")
        plan = plan_of(tmp_path, name, 1, quick=True)
        sides = [{side for text in part.texts for side in sides_of(text)} for part in plan.rows("all", 1)]
        assert len(sides[0]) == 42 and len(sides[1]) == 18 and not sides[0] & sides[1]
        assert plan.methods == METHODS_RUN and plan.table.name == name


def test_the_verdict_needs_a_lead_over_every_other_method():
    def records(**gaps):
        scores = {name: 0.8 - gaps.get(name, 0.1) for name in (*BASELINES, *METHODS_RUN)} | {"vnait": 0.8}
        return [
            SimpleNamespace(
                method=name, seed=seed, data={"name": "made"}, metrics={"accuracy": score + seed / 1000}
            )
            for name, score in scores.items()
            for seed in range(3)
        ]

    assert verdict(records(), "made").word == "confirmed"
    assert verdict(records(none=0), "made").word == "undecided"
    assert verdict(records(none=-0.1, sinusoidal=0), "made").word == "refuted"
