"""The kit of studies: rules at their limits, registration by decorators, and panels that show their data."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from vnait.shared.statistics import Interval
from vnait_lab.kit import (
    Bars,
    Dots,
    Lines,
    Panel,
    above,
    ahead,
    at_most,
    below,
    clear,
    decided,
    each,
    figure,
    within,
)
from vnait_lab.studies import NAMES, load
from vnait_lab.study import Budget, Findings, Study, Verdict

FINDINGS = Findings(
    {("a", 0): {"x": 0.25}, ("a", 1): {"x": 0.75}, ("b", 0): {"x": 1.0}, ("b", 1): {"x": 1.0}}
)


def toy(**fields: object) -> Study:
    settings = {"data": "", "measure": "", "smallest": "", "full": Budget(), "quick": Budget()}
    return Study.of(__name__, variants={"a": "one", "b": "another"}, **settings, **fields)


def test_a_ratio_pairs_seeds_and_not_their_order() -> None:
    runs: dict[tuple[str, int], dict[str, object]] = {
        ("a", 0): {"x": 1.0},
        ("a", 1): {"x": 9.0},
        ("b", 0): {"x": 2.0},
        ("b", 2): {"x": 3.0},
    }
    assert Findings(runs).ratio("a", "b", "x").mean == 0.5


def test_a_study_is_named_by_its_module() -> None:
    study = toy(needs="package:torch")
    assert study.name == __name__.rpartition(".")[2]
    assert study.subject.startswith("The kit of studies: rules") and study.subject.endswith("show their data")
    assert study.needs == {"a": "package:torch", "b": "package:torch"}
    assert toy(needs={"b": "data:x"}).needs == {"b": "data:x"} and toy().needs == {}


def test_parts_are_registered_in_order() -> None:
    study = toy()

    @study.runs
    def run(variant: str, seed: int, budget: Budget) -> dict[str, float]:
        return {"x": float(seed)}

    @study.control("it fails", variant="a", mechanism="b")
    def fails(findings: Findings) -> bool:
        return findings.mean("a", "x") < 0.9

    for number in range(3):

        @study.claim(f"claim {number}", source="here", rule="a rule")
        def judge(findings: Findings) -> Verdict:
            return decided(findings.mean("b", "x") == 1, "")

    assert study.run("a", 3, study.quick) == {"x": 3.0}
    assert [claim.statement for claim in study.claims] == ["claim 0", "claim 1", "claim 2"]
    assert study.verdict(judge, FINDINGS).word == "confirmed"
    assert "did not fail: it fails" in study.verdict(judge, FINDINGS.replaced("b", "a")).summary
    assert toy().claims == [], "studies share no lists"
    with pytest.raises(NotImplementedError, match=r"decorate one with @STUDY\.runs or \.draws"):
        study.draw(FINDINGS)


def test_an_unknown_variant_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no variant 'c', .* its variants are a, b"):
        toy().control("", variant="c", mechanism="a")(lambda findings: True)
    with pytest.raises(ValueError, match="no variant 'c'"):
        toy(source="here").claim("", rule="x", needs=["c"])(lambda findings: decided(True, ""))


def test_a_claim_has_its_source_or_that_of_the_study() -> None:
    study = toy(source="there")
    study.claim("one", rule="x")(lambda findings: decided(True, ""))
    study.claim("two", source="here", rule="x")(lambda findings: decided(True, ""))
    assert [claim.source for claim in study.claims] == ["there", "here"]
    with pytest.raises(AssertionError, match="'three' has no source"):
        toy().claim("three")


def test_every_study_has_all_its_parts() -> None:
    """Also one in which somebody forgot a decorator."""
    for study in map(load, NAMES):
        assert study.run.__module__ == study.draw.__module__ == f"vnait_lab.studies.{study.name}"


@pytest.mark.parametrize(
    ("confirmed", "refuted", "condition", "word"),
    [
        (True, None, "", "confirmed"),
        (False, None, "c", "refuted"),
        (True, True, "", "confirmed"),
        (False, True, "c", "refuted"),
        (False, False, "c", "conditional"),
        (False, False, "", "undecided"),
    ],
)
def test_decided(confirmed: bool, refuted: bool | None, condition: str, word: str) -> None:
    assert decided(confirmed, "s", refuted=refuted, condition=condition).word == word


def test_each() -> None:
    assert each({"a": True, "b": True}, "s", "it is {}") == Verdict("confirmed", "s")
    assert each({"a": True, "b": False, "c": True}, "s", "it is {}").condition == "it is a or c"
    assert each({"a": False}, "s", "it is {}").word == "refuted" == each({}, "s", "{}").word
    assert each({"a": False}, "s", "it is {}", undecided=True).word == "undecided"


@pytest.mark.parametrize(
    ("lead", "word"),
    [
        (Interval(0.05, 0.01, 0.09), "confirmed"),
        (Interval(0.049, 0.01, 0.09), "undecided"),
        (Interval(0.06, -0.01, 0.13), "undecided"),
        (Interval(0.01, 0.0, 0.049), "refuted"),
        (Interval(-0.01, -0.02, -0.001), "refuted"),
        (Interval(0.5, None, None), "undecided"),
    ],
)
def test_ahead(lead: Interval, word: str) -> None:
    assert ahead(lead, 0.05, "").word == word


def test_intervals_against_limits() -> None:
    assert at_most([Interval(0.9, 0.85, 0.95)], 0.95, "").word == "confirmed"
    assert at_most([Interval(0.9, 0.951, 0.99)], 0.95, "").word == "refuted"
    assert at_most([Interval(0.9, None, None)], 0.95, "").word == "undecided"
    assert at_most([Interval(0.9, 0.85, 0.95), Interval(0.9, 0.85, 0.96)], 0.95, "").word == "undecided"
    assert clear([Interval(0.3, 0.1, 0.5), Interval(0.3, 0.2, 0.4)], "").word == "confirmed"
    assert clear([Interval(0.3, 0.1, 0.5), Interval(-0.3, -0.4, -0.2)], "").word == "refuted"
    assert clear([Interval(0.3, 0.1, 0.5)], "", least=0.2).word == "undecided" == clear([], "").word
    few = Interval(0.0, None, None)
    assert not (above(few, -1) or below(few, 1) or within(few, 1)), "two seeds exclude nothing"
    assert within(Interval(0, -0.9, 0.9), 1) and not within(Interval(0, -1.0, 0.9), 1)


def test_findings_as_text_and_curves() -> None:
    assert FINDINGS.listed("ab", "x", "{:.0f} %", scale=100, join="; ") == "a 50 %; b 100 %"
    assert FINDINGS.best("ab", "x") == "b" and FINDINGS.seeds == 2
    assert FINDINGS.curves("a", "x", 2)["a"].tolist() == [0.5, 1.5]
    assert FINDINGS.differences("a", "b", "x")["a"].mean == -0.5


def drawn(panel: Panel) -> Figure:
    picture = figure(panel)
    picture.canvas.draw()
    return picture


def test_bars_show_means_seeds_and_what_is_dotted() -> None:
    (axes,) = drawn(Bars(FINDINGS.curves("ab", "x"), "right", percent=True, at_x={"chance": 50})).axes
    assert [bar.get_width() for bar in axes.patches] == [50, 100]
    assert sorted(x for line in axes.lines[:2] for x in line.get_xdata()) == [25, 75, 100, 100]
    assert axes.get_title() == "one dot per seed (n=2); dotted: chance" and axes.get_xlabel() == "right"
    assert axes.get_legend() is None
    groups = {name: FINDINGS.curves("ab", "x") for name in ("near", "far")}
    (axes,) = drawn(Bars(groups, "right", upright=True)).axes
    assert len(axes.patches) == 4 and axes.get_ylabel() == "right"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["near", "far"]


@pytest.mark.parametrize("legend", ["right", "below"])
def test_a_legend_beside_the_panels(legend: str) -> None:
    picture = drawn(Dots({name: FINDINGS.curves("ab", "x") for name in "xy"}, "right", legend=legend))
    assert picture.axes[0].get_legend() is None and len(picture.legends) == 1


@pytest.mark.parametrize("band", [True, False])
def test_lines_show_the_mean_over_seeds(band: bool) -> None:
    series = {"a": np.array([[1.0, 2.0], [3.0, 4.0]]), "b": [5.0, 6.0]}
    (axes,) = drawn(Lines([0, 1], series, "x", "y", band=band, at_y=[0, 1])).axes
    assert axes.lines[0].get_ydata().tolist() == [2, 3] and axes.lines[1].get_ydata().tolist() == [5, 6]
    assert axes.get_title() == "mean and range of 2 seeds" and len(axes.lines) == 4
