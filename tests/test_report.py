"""The report: it says what the records say, from the folder alone, and whatever stands in labels and names
stays text.
"""

from __future__ import annotations

import inspect
import json
import random
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from html import unescape
from html.parser import HTMLParser
from itertools import product
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

from vnait.cli import main
from vnait.comparison.compare import compare
from vnait.data import Table, summary
from vnait.results import record as records
from vnait.results import report, scores
from vnait.results.about import About, call
from vnait.results.advice import advice
from vnait.results.page.sections import Section
from vnait.results.record import Record
from vnait.results.report import breakdown as answers
from vnait.results.report import comparison as comparing
from vnait.results.results import Results
from vnait.shared.errors import InputError
from vnait.train.run import Run
from vnait_lab import report as studying
from vnait_lab import running, studies
from vnait_lab.study import Budget

METHODS = ("tfidf", "none", "rope", "vnait")
EVIL = (
    """<script>document.title='owned'</script>"><img src=x onerror="document.title='owned'">' """
    "& {{ 7 * 7 }} %{y}"
)


@cache
def record_of(method: str, seed: int, shots: int | str, classes: Sequence[str], at: int = 0) -> Record:
    """A run whose answers are drawn: the later a method and the more labels, the better."""
    draw = random.Random(f"{method} {seed} {shots}")
    count, skill = len(classes), 0.4 + 0.05 * at + (0.2 if shots == "all" else 0.0)
    truth = [row % count for row in range(60)]
    answer = [true if draw.random() < skill else draw.randrange(count) for true in truth]
    details = scores.details(truth, answer, [draw.randint(1, 90) for _ in truth], count)
    found = scores.scores(truth, answer)
    learned = method != "tfidf"
    return Record(
        key=f"{method} {seed} {shots}",
        method=method,
        seed=seed,
        run={"method": method, "seed": seed, "steps": 30, "batch_size": 32}
        if learned
        else {"tokenization": "words"},
        data={"name": "made.csv", "classes": list(classes), "shots": shots}
        | ({"unknown_share": 0.125} if learned else {}),
        metrics={**found, **details} | ({"validation_accuracy": found["accuracy"]} if learned else {}),
        parameters=100 * 9 ** (at % 9),
        seconds=0.5 + at,
        peak_memory=100.0,
        versions={"vnait": "0.1.0", "python": "3.11"},
        commit="abc",
    )


def folder_of(
    folder: Path,
    methods: Sequence[str] = METHODS,
    shots: Sequence[int | str] = (16, "all"),
    seeds: int = 4,
    classes: Sequence[str] = ("neg", "pos"),
    name: str = "made.csv",
) -> Path:
    """What `vnait compare` leaves, made up."""
    found = []
    for seed in range(seeds):
        for count, (at, method) in product(shots, enumerate(methods)):
            one = record_of(method, seed % 5, count, tuple(classes), at)
            found.append(replace(one, seed=seed, key=f"{method} {seed} {count}"))
    with (folder / "records.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(one.line() + "\n" for one in found)
    table = Table(
        [f"text {'word ' * (row % 40)}" for row in range(80)],
        [classes[row % len(classes)] for row in range(80)],
        name,
        2,
    )
    About(
        command=f"vnait compare {name} --shots 16,all",
        reference=methods[-1],
        runs=[record.key for record in found],
        data=summary(table, "words"),
        test=None,
        repeated=0,
        most_frequent=0.5,
    ).write(folder)
    return folder


def sections_of(folder: Path) -> dict[str, Section]:
    """By heading, as the page shows them."""
    found = records.read(folder / "records.jsonl")
    about = About.read(folder)
    return {one.heading: one for one in comparing.sections(report.results_of(found, about), about)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(tmp_path_factory.mktemp("made"))


# What is said


def test_the_verdict_comes_first_as_a_sentence(made: Path) -> None:
    heading, first = next(iter(sections_of(made).items()))
    results = report.results_of(records.read(made / "records.jsonl"), About.read(made))
    said = [*advice(results, chance_level=About.read(made).most_frequent), *results.sentences()]
    assert heading == "Conclusions" and list(first.sentences[: len(said)]) == said
    assert first.sentences[0].startswith(f"Use {results.best}: ")
    assert any(sentence.startswith("At 16 labels per class: vnait is ahead of ") for sentence in said)
    assert "test rows were not used" in first.sentences[len(said)]


def test_without_a_default_the_reference_is_no_baseline(made: Path) -> None:
    found = [one for one in records.read(made / "records.jsonl") if one.method != "vnait"]
    assert "steps" in next(one for one in found if one.method == report.results_of(found, None).reference).run


def test_every_part_is_there_and_every_figure_has_a_table(made: Path) -> None:
    found = sections_of(made)
    assert list(found) == [
        "Conclusions",
        "Methods",
        "Learning curves",
        "Differences to vnait",
        "Parameters and time",
        "By length of the text",
        "Answers of vnait (best on validation and reference)",
        "Other scores",
        "The data",
        "Classes",
        "Lengths of the texts",
        "Runs",
        "How it was made",
    ]
    assert all(one.table for one in found.values() if one.figures)
    assert found["How it was made"].code == "vnait compare made.csv --shots 16,all"


def test_plotly_knows_every_word_of_the_figures(made: Path) -> None:
    """In the browser a word that plotly does not know is passed over in silence."""
    drawn = [figure for one in sections_of(made).values() for figure in one.figures]
    assert len(drawn) == 10
    for figure in drawn:
        go.Figure(data=figure.data, layout=figure.layout)


def test_tables_hold_the_rows_of_the_comparison(made: Path) -> None:
    found = sections_of(made)
    results = report.results_of(records.read(made / "records.jsonl"), About.read(made))
    shown = {(row[0], row[1]): row[2:5] for row in found["Methods"].table.rows}
    assert shown == {
        (row["method"], row["shots"]): [row["mean"], row["ci_low"], row["ci_high"]] for row in results.rows
    }
    shown = {(row[0], row[1]): row[2] for row in found["Differences to vnait"].table.rows}
    assert shown == {(row["method"], row["shots"]): 100 * row["difference"] for row in results.paired}
    assert len(found["Runs"].table.rows) == len(results.records) == 4 * 2 * 4


def test_hollow_dots_are_level_with_the_best(made: Path) -> None:
    results = report.results_of(records.read(made / "records.jsonl"), About.read(made))
    (trace,) = sections_of(made)["Differences to vnait"].figures[0].data
    hollow = sum(symbol == "circle-open" for symbol in trace["marker"]["symbol"])
    assert hollow == sum(
        row["shots"] == "all" and row["ci_low"] <= 0 <= row["ci_high"] for row in results.paired
    )


def test_answers_add_up_over_seeds(made: Path) -> None:
    found = sections_of(made)
    own = [
        one
        for one in records.read(made / "records.jsonl")
        if (one.method, one.data["shots"]) == ("vnait", "all")
    ]
    table = found["Answers of vnait (best on validation and reference)"].table
    assert table is not None and [column.title for column in table.columns] == ["truth", "neg", "pos"]
    expected = np.sum([one.metrics["confusion"] for one in own], axis=0)
    assert [row[1:] for row in table.rows] == expected.tolist()
    by_length = {row[0]: row[1:] for row in found["By length of the text"].table.rows}
    rows, right = (
        np.sum([one.metrics[name] for one in own], axis=0) for name in ("length_rows", "length_right")
    )
    assert by_length["vnait"] == [right[group] / rows[group] for group in range(8) if rows[group]]


def test_a_truth_that_was_never_learned_has_a_row_of_its_own() -> None:
    found = record_of("vnait", 0, "all", ("neg", "pos"))
    metrics = {**found.metrics, **scores.confusion([0, 1, -1], [0, 1, 1], 2)}
    results = Results(
        records=[replace(found, metrics=metrics)], methods=["vnait"], shots=["all"], reference="vnait"
    )
    (one,) = answers.confusions(results)
    assert one.table is not None and one.table.rows == [["neg", 1, 0], ["pos", 0, 1], [answers.UNSEEN, 0, 1]]


def test_best_and_reference_both_show_their_answers(tmp_path: Path) -> None:
    folder_of(tmp_path)
    about = About.read(tmp_path)
    assert about is not None
    replace(about, reference="none").write(tmp_path)
    assert {"Answers of vnait (best on validation)", "Answers of none (reference)"} <= set(
        sections_of(tmp_path)
    )


def test_old_records_and_a_folder_without_about_are_read_and_said(tmp_path: Path) -> None:
    path = folder_of(tmp_path) / "records.jsonl"
    (tmp_path / "about.json").unlink()
    kept = {"accuracy", "macro_f1", "mcc"}
    old = [
        replace(
            one,
            metrics={name: value for name, value in one.metrics.items() if name in kept},
            data={"name": "a", "shots": 16},
        )
        for one in records.read(path)
    ]
    path.write_text("".join(one.line() + "\n" for one in old))
    found = sections_of(tmp_path)
    assert "no about.json" in " ".join(found["Conclusions"].sentences)
    assert found["By length of the text"].sentences[0].startswith("These records have no answers by length")
    assert "No confusion matrix is recorded" in found["Answers of vnait (reference)"].sentences[0]
    assert "The data" not in found and report.write(tmp_path).is_file()


def test_only_the_last_comparison_of_a_folder_is_reported(tmp_path: Path) -> None:
    folder_of(tmp_path, methods=("none", "rope", "vnait"), seeds=5)
    folder_of(tmp_path, methods=("none", "vnait"), seeds=3)
    found = sections_of(tmp_path)
    assert {row[0] for row in found["Methods"].table.rows} == {"none", "vnait"}
    assert len(found["Runs"].table.rows) == 2 * 2 * 3


# The page


def test_the_same_folder_gives_the_same_page_and_nothing_else_is_asked(made: Path) -> None:
    first = report.write(made).read_bytes()
    assert report.write(made).read_bytes() == first
    text = first.decode()
    head = text[: text.index("<script>")]
    policy = unescape(re.search('Content-Security-Policy" content="([^"]+)"', head)[1])
    assert policy.startswith("default-src 'none'; img-src data:; style-src") and "connect-src" not in policy
    scripts = policy.split("script-src ")[1].split()
    assert len(scripts) == 2 and all(script.startswith("'sha256-") for script in scripts)
    assert not re.search(r"(src|href)=\"(?!data:|#)", head)


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Whatever a person's file may hold, everywhere that it may hold it."""
    folder = tmp_path_factory.mktemp("evil")
    return folder_of(
        folder, methods=("none", f"a{EVIL}", "vnait"), classes=(f"b{EVIL}", "pos", EVIL), name=f"c{EVIL}.csv"
    )


def test_labels_and_names_of_others_stay_text(evil: Path) -> None:
    parser = Tags()
    parser.feed(report.write(evil).read_text(encoding="utf-8"))
    assert parser.kinds == ["application/json"] * (len(parser.kinds) - 2) + [None, None], (
        "plotly's and ours alone run"
    )
    assert "img" not in parser.tags and not parser.handlers
    assert EVIL in "".join(parser.words)  # read, as it is
    assert "{{ 7 * 7 }}" in "".join(parser.words)


class Tags(HTMLParser):
    """The tags of a page, its scripts' types, attributes that would run, and its words."""

    def __init__(self) -> None:
        super().__init__()
        self.tags, self.kinds, self.handlers, self.words = [], [], [], []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.kinds += [dict(attrs).get("type")] * (tag == "script")
        self.handlers += [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


# Who asks for it


def test_compare_ends_with_a_report_that_can_be_made_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        f"{word} film {number},{label}"
        for number in range(12)
        for label, word in (("neg", "bad"), ("pos", "good"))
    ]
    Path("made up.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    options = ["--methods", "none", "--seeds", "1", "--steps", "2", "--jobs", "1", "--out", "out", "--quiet"]
    main(["compare", "made up.csv", *options])
    assert "report: out/report.html" in capsys.readouterr().out
    first = Path("out/report.html").read_bytes()
    about = json.loads(Path("out/about.json").read_text())
    assert about["command"] == shlex.join(["vnait", "compare", "made up.csv", *options])
    assert about["data"]["classes"] == {"neg": 12, "pos": 12} and about["data"]["rows"] == 24
    main(["report", "out", "--json"])
    assert json.loads(capsys.readouterr().out) == {"report": "out/report.html"}
    assert Path("out/report.html").read_bytes() == first
    assert len(Path("out/records.jsonl").read_bytes()) < 3 * 4_000
    for one in records.read("out/records.jsonl"):
        assert sum(one.metrics["length_rows"]) == one.data["test_rows"] == 8
        assert (
            np.trace(one.metrics["confusion"])
            == sum(one.metrics["length_right"])
            == round(8 * one.metrics["accuracy"])
        )


def test_a_call_is_shown_without_its_texts() -> None:
    table = Table(["secret"], ["a"], "t.csv", 0)
    given = {name: one.default for name, one in inspect.signature(compare).parameters.items()}
    given |= {"data": table, "shots": (4, "all"), "run": Run(steps=4), "out": Path("x"), "watch": print}
    assert call(compare, given) == "vnait.compare('t.csv', shots=(4, 'all'), out='x', run=vnait.Run(steps=4))"


def test_a_study_ends_with_its_verdicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["study", "hamming", "--quick", "--quiet", "--jobs", "1", "--out", str(tmp_path), "--json"])
    output = json.loads(capsys.readouterr().out)
    text = Path(output["report"]).read_text(encoding="utf-8")
    assert text.index(f">{output['rows'][0]['verdict']}<") < text.index("data:image/png;base64,")
    assert ">vnait study hamming<" in text and len(text) < 1e6, "no plotly where nothing needs it"
    found = records.read(tmp_path / "records.jsonl")
    first, *_ = studying.sections([studies.load("hamming")], found, tmp_path / "figures")
    assert [row[0] for row in first.table.rows] == [row["verdict"] for row in output["rows"]]
    assert len(first.sentences) == 1


def test_a_study_that_was_stopped_is_said_to_be(tmp_path: Path) -> None:
    one, path = (
        studies.load("order"),
        Path(__file__).parents[1] / "studies" / "records" / "claims" / "records.jsonl",
    )
    found = [record for record in records.read(path) if record.data["name"] == one.name]
    for some, stopped in ((found, False), ([record for record in found if record.seed == 0], True)):
        first, *_ = studying.sections([one], some, tmp_path)
        assert any("order" in sentence and "Stopped" in sentence for sentence in first.sentences) == stopped


def test_of_two_budgets_the_whole_one_is_reported_once_it_ended() -> None:
    one = studies.load("order")

    def ran(budget: Budget, seeds: int) -> list[Record]:
        keys = [
            (arm, seed, running.key(one, arm, seed, budget)) for arm in one.variants for seed in range(seeds)
        ]
        return [
            replace(record_of("x", 0, "all", "ab"), method=arm, seed=seed, key=key) for arm, seed, key in keys
        ]

    quick, whole, half = ran(one.quick, one.quick.seeds), ran(one.full, one.full.seeds), ran(one.full, 1)
    assert studying.chosen(one, quick) == (one.quick, quick)
    assert studying.chosen(one, [*quick, *half]) == (one.quick, quick)
    assert studying.chosen(one, [*quick, *whole, *whole]) == (one.full, whole)
    assert studying.chosen(one, half) == (one.full, half)
    assert studying.chosen(one, [])[1] == []


def test_what_is_no_result_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"there is no .*records.jsonl; give a folder that vnait compare or short studies"
    ):
        report.write(tmp_path)
    path = tmp_path / "records.jsonl"
    path.write_text("")
    with pytest.raises(InputError, match="holds no finished run"):
        report.write(tmp_path)
    one = record_of("vnait", 0, "all", "ab")
    of_suite = replace(one, data={"name": "order"}, metrics={"accuracy": 1.0})
    path.write_text(of_suite.line() + "\n")  # a task of a suite, and a study
    with pytest.raises(
        InputError, match="holds records of order; a report is of a comparison or of short studies"
    ):
        report.write(tmp_path)
    path.write_text(one.line() + "\n")
    (tmp_path / "about.json").write_text("{}")
    with pytest.raises(InputError, match=r"about.json is damaged: .* Delete it; the report works without it"):
        report.write(tmp_path)
    folder_of(tmp_path)
    path.write_text(one.line() + "\n")
    with pytest.raises(
        InputError, match=r"31 runs of about.json are not in records.jsonl; run the comparison again"
    ):
        report.write(tmp_path)
    assert not (tmp_path / "report.html").exists()
