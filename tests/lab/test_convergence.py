"""Steps to converge: what is read off the curves, and what is concluded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from helpers import record
from vnait.results.record import Record
from vnait_lab import records as committed
from vnait_lab.page.trainings import of_convergence
from vnait_lab.runs.convergence import METHODS_RUN, STEPS, curves, steps_to, verdict


def records(own: float) -> list[Record]:
    """Accuracy .8 after 400 steps for all but `vnait`, after `own` steps for it; .4 after 25."""
    return [
        record(
            method,
            seed,
            run={"steps": steps},
            data={"name": "trec"},
            metrics={
                "accuracy": seed / 1000 + (0.8 if steps >= (own if method == "vnait" else 400) else 0.4)
            },
        )
        for method in METHODS_RUN
        for seed in range(3)
        for steps in STEPS
    ]


def test_steps_are_read_between_two_trainings():
    assert 2 ** steps_to(0.5, {25: 0.6, 50: 0.9}) == pytest.approx(25)
    assert 2 ** steps_to(0.75, {25: 0.5, 100: 1.0}) == pytest.approx(50)
    assert 2 ** steps_to(0.9, {25: 0.1, 50: 0.95, 100: 0.5, 200: 1.0}) < 50


@pytest.mark.parametrize(("own", "word"), [(100, "confirmed"), (800, "refuted"), (400, "undecided")])
def test_the_verdict_needs_fewer_steps_than_every_other(own, word):
    found = records(own)
    assert verdict(found, "vnait").word == word
    written = of_convergence(found)
    assert len(written.claims) == 1 and "| vnait | 40.1 " in written.text


def test_the_page_reads_every_training(tmp_path, monkeypatch):
    """Trainings of one cell differ in their steps only."""
    monkeypatch.setattr(committed, "RECORDS", tmp_path)
    found = records(100)
    (tmp_path / "convergence").mkdir()
    lines = "".join(one.line() + "\n" for one in found)
    (tmp_path / "convergence" / "records.jsonl").write_text(lines, encoding="utf-8")
    assert curves(committed.read("convergence")) == curves(found)


def test_baselines_have_no_steps():
    found = records(100)
    assert curves([*found, replace(found[0], method="tfidf-logreg", run={})]) == curves(found)


def test_a_run_that_was_stopped_has_no_verdict():
    found = records(100)
    assert verdict([one for one in found if one.method != "vnait"], "vnait").word == "undecided"
    assert verdict([one for one in found if one.method == "vnait"], "vnait").word == "undecided"
    assert verdict([one for one in found if one.run["steps"] < 100], "vnait").word == "undecided"
    half = [one for one in found if one.seed < 2 or one.run["steps"] < 100]
    assert of_convergence(half).text == of_convergence([one for one in found if one.seed < 2]).text
    assert verdict(half, "vnait").summary == verdict([one for one in found if one.seed < 2], "vnait").summary


def test_a_method_is_not_faster_by_having_less_to_reach():
    """Those that stay at .4 need as many steps to .4 as `vnait`, which goes on to .8."""
    stay = [replace(one, metrics={"accuracy": 0.4}) if one.method != "vnait" else one for one in records(100)]
    found = verdict(stay, "vnait")
    assert found.word == "undecided" and "1.00 [1.00, 1.00] times" in found.summary
    assert len(curves(stay)) == 3 * len(METHODS_RUN)
