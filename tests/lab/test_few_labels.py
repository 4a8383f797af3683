"""The few-label suite: arithmetic and verdicts on invented records; it runs, resumes and names no folder."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers import record
from vnait.data import Table
from vnait.results.record import Record, read
from vnait.shared.errors import InputError
from vnait.train import baselines
from vnait.train.run import Run
from vnait_lab.runs import nine_sets
from vnait_lab.study import Verdict
from vnait_lab.suites.few_labels import (
    SETS,
    area,
    areas,
    behind_none,
    no_loss,
    paired,
    plan_of,
    rows,
    run_suite,
    verdict,
)

RUN = Run(validation=0, steps=1, num_layers=1)


def made_up(scores: dict[tuple[str, str], list[float]], shots=(8, 16)) -> list[Record]:
    """Records with these scores per set, method and seed, at all of `shots`; the other metric is bad."""
    return [
        record(
            method,
            seed,
            data={"name": name, "shots": count},
            metrics={"accuracy": -9.0, "mcc": -9.0, SETS[name].metric: score},
        )
        for (name, method), values in scores.items()
        for seed, score in enumerate(values)
        for count in shots
    ]


def around(mean: float, noise: float = 0.01, splits: int = 10, seed: int = 0) -> list[float]:
    drawn = np.random.default_rng(seed).normal(0, noise, splits)
    return list(mean + drawn - drawn.mean())


def claim(**means: float) -> dict[tuple[str, str], list[float]]:
    """Scores on TREC and SUBJ in which the claim holds, but for the means given as method_set."""
    usual = {"vnait": 0.7, "none": 0.6, "tfidf-logreg": 0.6, "average-logreg": 0.6}
    return {
        (name, method): around(means.get(f"{method}_{name}", mean), seed=number)
        for name in ("trec", "subj")
        for number, (method, mean) in enumerate(usual.items())
    }


# Arithmetic


@pytest.mark.parametrize(
    ("curve", "height"),
    [({8: 0.3}, 0.3), ({8: 0.2, 16: 0.4}, 0.3), ({32: 0.4, 8: 0.0, 16: 0.4}, 0.3), ({8: 0.5, 128: 0.5}, 0.5)],
)
def test_the_area_is_the_mean_height_over_doublings(curve, height):
    assert area(curve) == pytest.approx(height)


def test_a_row_is_the_mean_over_splits_by_the_measure_of_its_set():
    found = made_up({("cola", "vnait"): [0.1, 0.2, 0.3], ("trec", "vnait"): [0.5, 0.5, 0.5]})
    table = {(row["set"], row["shots"]): row for row in rows(found)}
    assert table["cola", 8]["mean"] == pytest.approx(0.2) and table["cola", 8]["metric"] == "mcc"
    assert table["trec", 16]["mean"] == 0.5 and table["trec", 16]["splits"] == 3
    assert table["cola", 8]["ci_low"] < 0.2 < table["cola", 8]["ci_high"]
    assert {row["set"]: row["mean"] for row in areas(found)} == pytest.approx({"cola": 0.2, "trec": 0.5})


def test_differences_are_paired_by_split_and_pooled_over_sets():
    found = made_up(
        {
            ("trec", "vnait"): [0.6, 0.9, 0.3],
            ("trec", "none"): [0.5, 0.8, 0.2],
            ("mr", "vnait"): [0.5, 0.7, 0.2],
            ("mr", "none"): [0.4, 0.6, 0.1],
        }
    )
    by_set = {row["set"]: row for row in paired(found)}
    assert set(by_set) == {None, "trec", "mr"}
    for row in by_set.values():
        assert row["against"] == "none" and row["splits"] == 3
        assert [row[name] for name in ("mean", "ci_low", "ci_high")] == pytest.approx([0.1] * 3)


def test_only_what_both_have_is_compared():
    found = made_up({("trec", "vnait"): [0.6] * 3, ("trec", "none"): [0.5] * 2})
    found += made_up({("trec", "none"): [0.0] * 3, ("mr", "none"): [0.0]}, shots=(32,))
    assert {row["set"]: (row["mean"], row["splits"]) for row in paired(found)} == {
        None: (pytest.approx(0.1), 2),
        "trec": (pytest.approx(0.1), 2),
    }


# The verdict


def pair(verdict: Verdict) -> tuple[str, str]:
    return verdict.word, verdict.summary


def judged(found: list[Record]) -> tuple[str, str]:
    return pair(verdict(found, sets=("trec", "subj"), shots=(8, 16)))


def test_the_claim_is_confirmed_where_all_it_asks_holds():
    word, said = judged(made_up(claim()))
    assert word == "confirmed"
    assert said.startswith("nearest of 1 methods, pooled: none +10.0 [+9.")


def test_a_method_that_is_ahead_pooled_refutes_it():
    word, said = judged(made_up(claim(none_trec=0.9)))
    assert word == "refuted" and "against the claim: none -5.0" in said


def test_a_baseline_ahead_on_one_set_refutes_it_though_the_pool_is_far_ahead():
    scores = claim(**{"average-logreg_subj": 0.72})
    word, said = judged(made_up(scores))
    assert word == "refuted" and "average-logreg on subj -2.0" in said


def test_level_with_a_baseline_is_enough_but_not_where_order_matters():
    level = {"average-logreg_subj": 0.701}
    assert judged(made_up(claim(**level)))[0] == "confirmed"
    assert judged(made_up(claim(**{"average-logreg_trec": 0.7})))[0] == "undecided"
    assert judged(made_up(claim(**{"average-logreg_trec": 0.72})))[0] == "refuted"
    word, said = judged(made_up(claim(**{"average-logreg_trec": 0.699})))
    assert word == "undecided" and "not told apart: average-logreg on trec +0.1" in said


def test_pooled_differences_inside_the_noise_decide_nothing():
    scores = claim(none_trec=0.699, none_subj=0.699)
    assert judged(made_up(scores))[0] == "undecided"


def test_few_splits_and_nothing_to_compare_with_are_undecided():
    few = {key: values[:9] for key, values in claim().items()}
    word, said = judged(made_up(few))
    assert word == "undecided" and "9 splits, fewer than 10" in said
    assert judged(made_up({("trec", "none"): [0.5] * 10})) == ("undecided", "vnait was compared with nothing")


def test_what_was_not_run_leaves_it_open_unless_a_set_refutes_it_alone():
    word, said = pair(verdict(made_up(claim()), shots=(8, 16)))
    assert word == "undecided" and said.endswith(
        "not run yet: "
        + ", ".join(f"{name} with 8, 16 labels" for name in SETS if name not in ("trec", "subj"))
    )
    word, said = pair(verdict(made_up(claim()), sets=("trec", "subj")))
    assert word == "undecided" and said.endswith(
        "not run yet: trec with 32, 64 labels, subj with 32, 64, 128 labels"
    )
    assert verdict(made_up(claim(none_trec=0.9))).word == "undecided"  # ahead in the pool, which is not whole
    assert verdict(made_up(claim(**{"average-logreg_subj": 0.72}))).word == "refuted"


def test_a_rival_that_lacks_a_set_or_a_number_of_labels_leaves_it_open():
    found = made_up(claim())
    rival = [replace(record, method="rope") for record in found if record.method == "none"]
    for lacking in (lambda data: data["name"] == "trec", lambda data: data["shots"] == 8):
        word, said = judged([*found, *(record for record in rival if lacking(record.data))])
        assert word == "undecided" and "not run yet: rope on" in said


def test_a_claim_about_rivals_and_baselines_asks_for_both():
    found = made_up(claim())
    word, said = judged([record for record in found if record.method != "none"])
    assert word == "undecided" and "not run yet: any other method" in said
    word, said = judged([record for record in found if record.method != "tfidf-logreg"])
    assert word == "undecided" and "not run yet: tfidf-logreg" in said


def test_a_rival_on_other_draws_of_rows_leaves_it_open():
    found = made_up(claim())
    others = [
        replace(record, seed=record.seed + 20) if record.method == "none" else record for record in found
    ]
    word, said = judged(others)
    assert word == "undecided" and "none on subj, trec" in said
    found += [replace(record, method="rope") for record in found if record.method == "none"]
    moved = [
        replace(record, seed=record.seed + 20)
        if (record.method, record.data["name"]) == ("rope", "trec")
        else record
        for record in found
    ]
    word, said = judged(moved)
    assert word == "undecided" and "rope on trec" in said


# Runs


@pytest.fixture
def data(tmp_path) -> Path:
    for part in ("train", "test"):
        lines = [f"{word} film number {row},{word}" for row in range(12) for word in ("good", "bad")]
        (tmp_path / "mr").mkdir(exist_ok=True)
        (tmp_path / "mr" / f"{part}.csv").write_text(
            "text,label\n" + "\n".join(lines) + "\n", encoding="utf-8"
        )
    return tmp_path


def suite(data: Path, **options) -> list[Record]:
    given = {"methods": ("none",), "sets": ("mr",), "shots": (4, 8, 16), "seeds": (0,), "run": RUN}
    return run_suite(data=data, out=data / "out", **(given | options))


@pytest.mark.parametrize(
    ("papers", "word"), [(0.69, "confirmed"), (0.704, "confirmed"), (0.7051, "undecided"), (0.72, "refuted")]
)
def test_half_a_point_less_than_the_papers_sizes_is_no_loss(papers, word):
    # The interval is the mean +- 0.1 points, about.
    scores = {(name, "vnait"): around(0.7, 0.0, seed=1) for name in ("trec", "subj")}
    scores |= {(name, "vnait-paper"): around(papers, 0.001, seed=2) for name in ("trec", "subj")}
    found, said = pair(no_loss(made_up(scores), sets=("trec", "subj"), shots=(8, 16)))
    assert found == word
    assert said.startswith(f"vnait-paper {100 * (0.7 - papers):+.1f} [") and said.endswith(
        "pooled over trec, subj"
    )


def test_no_loss_asks_for_ten_splits_of_both():
    scores = {("trec", "vnait"): [0.7] * 10, ("trec", "vnait-paper"): [0.6] * 9}
    assert pair(no_loss(made_up(scores))) == (
        "undecided",
        "vnait-paper +10.0 [+10.0, +10.0], pooled over trec; 9 splits, fewer than 10",
    )
    assert pair(no_loss(made_up(claim()))) == ("undecided", "vnait was not compared with vnait-paper")


def test_no_loss_asks_for_every_set_and_number_of_labels():
    found = made_up(
        {("trec", "vnait"): around(0.7, 0.0, seed=1), ("trec", "vnait-paper"): around(0.6, 0.0, seed=1)}
    )
    assert no_loss(found, sets=("trec",), shots=(8, 16)).word == "confirmed"
    word, said = pair(no_loss(found, sets=("trec", "subj"), shots=(8, 16, 32)))
    assert word == "undecided" and said.endswith(
        "not run yet: trec with 32 labels, subj with 8, 16, 32 labels"
    )


def test_it_runs_resumes_and_names_no_folder(data, caplog):
    with caplog.at_level(logging.WARNING, logger="vnait"):
        found = suite(data)
    assert "mr has 12 rows in its smallest class: 16 labels per class are left out." in caplog.messages
    assert [(record.method, record.data["shots"]) for record in found] == [
        (method, shots)
        for methods in (baselines.BASELINES, ["none"])
        for shots in (4, 8)
        for method in methods
    ]
    path = data / "out/mr/records.jsonl"
    assert str(data) not in path.read_text(encoding="utf-8")
    calls = []
    again = suite(
        data,
        methods=("none", "learned"),
        callback=lambda name, done, total, record: calls.append((name, done)),
    )
    assert len(again) == len(read(path)) == 10 and calls == [("mr", 8), ("mr", 9), ("mr", 10)]
    assert {row["set"] for row in rows(again)} == {"mr"}


def test_of_long_articles_every_method_and_baseline_reads_the_first_words(data):
    (data / "mr").rename(data / "bbc_news")
    for part in ("train", "test"):
        path = data / "bbc_news" / f"{part}.csv"
        path.write_text(path.read_text(encoding="utf-8").replace("film", "film " * 200), encoding="utf-8")
    plan = plan_of("bbc_news", data, ("none",), (4,), (0,), RUN)
    assert {len(text.split()) for table in (plan.table, plan.test) for text in table.texts} == {128}
    assert plan.run == RUN and plan.table.texts[0].startswith("good film film")


@pytest.mark.parametrize(
    ("sets", "said"), [((), "no set was given"), (("imdb",), "the set 'imdb' is not known")]
)
def test_what_is_not_known_is_refused(data, sets, said):
    with pytest.raises(InputError, match=said):
        suite(data, sets=sets)
    assert not (data / "out").exists()


def test_a_table_is_known_by_the_name_of_its_set():
    assert Table(texts=["a"], labels=["b"], name="mr", dropped=0).fingerprint == (
        Table(texts=["a"], labels=["b"], name="elsewhere/mr/train.csv", dropped=0).fingerprint
    )


@pytest.mark.parametrize("shots", ["8", pytest.param("all", marks=pytest.mark.long)])
def test_nine_sets_are_compared_in_both_situations_with_advice(shots, data, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(nine_sets, "RUN", Run(steps=2, num_layers=1, bag=0.3))
    monkeypatch.setenv("VNAIT_DATA", str(data))
    command = [
        "--sets",
        "mr",
        "--shots",
        shots,
        "--seeds",
        "3",
        "--methods",
        "none,vnait",
        "--out",
        str(tmp_path / "o"),
    ]
    nine_sets.main(command)
    printed = capsys.readouterr().out
    for situation in ("rest", "none"):
        records = read(tmp_path / "o" / situation / "mr" / "records.jsonl")
        assert len(records) == 3 * 5  # three simple models
        assert {str(record.data["shots"]) for record in records} == {shots}
        scores = {
            method: {record.seed: record.metrics["accuracy"] for record in records if record.method == method}
            for method in ("none", "vnait")
        }
        difference = np.mean([scores["vnait"][seed] - scores["none"][seed] for seed in range(3)])
        part = printed.split("\n--unlabelled ")[1 + (situation == "none")]
        assert part.startswith(f"{situation}, --shots {shots}, 3 draws")
        header, _, row = part[part.index("| vnait minus") :].splitlines()[:3]
        cells = dict(zip(header.split("|"), row.split("|"), strict=True))
        assert cells[" none "].startswith(f" {100 * difference:+.1f}")
        assert "mr: " in part and "validation rows" in part
    nine_sets.main(command)  # nothing is trained again
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize(
    ("lead", "splits", "sets", "word"),
    [
        (0.02, 10, SETS, "confirmed"),
        (-0.05, 10, SETS, "refuted"),
        (-0.009, 10, SETS, "undecided"),
        (0.02, 9, SETS, "undecided"),
        (0.02, 10, ("trec", "mr"), "undecided"),
    ],
)
def test_behind_no_simple_model_asks_for_every_set_and_ten_splits(lead, splits, sets, word):
    noise = 0.02 if word == "undecided" else 0.001
    scores = {(name, "tfidf"): around(0.6, 0.001, splits) for name in sets}
    scores |= {(name, "vnait"): around(0.6 + lead, noise, splits, seed=1) for name in sets}
    scores |= {(name, "none"): around(0.9, 0.001, splits) for name in sets}  # no simple model
    assert behind_none(made_up(scores, shots=(16,)), ("tfidf",)).word == word
