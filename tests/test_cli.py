"""The command line: every command, one JSON document, 80 columns, and one sentence for whatever a person did
wrong.
"""

import contextlib
import csv
import gzip
import io
import json
import os
import pty
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import openpyxl
import pytest
import torch
import typer
from rich.cells import cell_len
from threadpoolctl import threadpool_info

from helpers import forkserver, save_vectors
from test_advice import FLAT, HIGH, made, results
from vnait import TextClassifier, cli
from vnait import data as text
from vnait.cli.application import app
from vnait.cli.compare import _next
from vnait.cli.shared import folder_name
from vnait.comparison.engines import ENGINES
from vnait.data import vocabulary as vocabulary
from vnait.data.tasks import TASKS
from vnait.data.tokens import TOKENIZATIONS
from vnait.positions.coordinates import Span
from vnait.positions.encodings import Spatial
from vnait.positions.method import Method
from vnait.positions.methods import METHODS
from vnait.positions.recipe import Recipe
from vnait.shared.errors import InputError
from vnait.shared.files import fingerprint
from vnait.shared.processes import threads
from vnait.train import baselines, predict
from vnait.train import fitting as train
from vnait_lab.runners import SUITES

VNAIT = Path(sys.executable).with_name("vnait")
WORDS = {"neg": ["bad", "dull", "poor"], "pos": ["good", "fine", "warm"], "mix": ["odd", "even", "mid"]}
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def rows_of(classes=("neg", "pos"), rows=48, seed=0) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    labels = [classes[row % len(classes)] for row in range(rows)]
    return [
        (" ".join([*rng.choices(WORDS[label], k=2), *rng.choices(["a", "film"], k=4)]), label)
        for label in labels
    ]


def table(path: Path, rows=None, header="text,label") -> str:
    path.write_text(header + "\n" + "".join(f"{text},{label}\n" for text, label in rows or rows_of()))
    return str(path)


@pytest.fixture(autouse=True)
def piped(monkeypatch):
    """Standard output as in a pipe, 80 columns wide."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)


@pytest.fixture(scope="session")
def given(tmp_path_factory) -> Path:
    """A folder with a table, vectors and a trained model, to be read only."""
    folder = tmp_path_factory.mktemp("given")
    data = text.read(table(folder / "data.csv"))
    names = ["a", "film", *(word for told_by in WORDS.values() for word in told_by)]
    words = vocabulary.look_up(data.texts, save_vectors(folder / "words.bin", names))
    train.fit(train.Run(steps=30), data, words).save(folder / "model")
    return folder


@pytest.fixture
def home(given, tmp_path, monkeypatch) -> Path:
    """A working folder with copies of the table, the vectors and the model."""
    for name in ("data.csv", "words.bin"):
        shutil.copy(given / name, tmp_path)
    shutil.copytree(given / "model", tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def vnait(capsys, monkeypatch):
    """Run a command in this process: exit code, standard output, standard error."""

    def run(*arguments: str, given: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        capsys.readouterr()
        code = 0
        try:
            cli.main(arguments)
        except SystemExit as leaving:
            code = leaving.code
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def said(vnait, capsys):
    """Run a command that must succeed: its standard output, without control characters; wide lines where
    asked.
    """

    def run(*arguments: str, given: bytes = b"", narrow: bool = True) -> str:
        code, out, _ = vnait(*arguments, given=given)
        assert code == 0 and not CONTROL.search(out)
        assert not narrow or max(map(cell_len, out.splitlines())) <= 80
        return out

    return run


@pytest.fixture
def document(vnait):
    """Run a command with --json that must succeed: the one document that it prints."""

    def run(*arguments: str, given: bytes = b"") -> dict:
        code, out, _ = vnait(*arguments, "--json", given=given)
        assert code == 0
        return json.loads(out)  # refuses whatever stands before or after the document

    return run


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in sorted(folder.rglob("*"))}


LITTLE = "--vectors words.bin --steps 4"
SMALL = tuple(LITTLE.split())


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize(
    "command", ["list", "params", "study list", "explain model film", "vectors info words.bin"]
)
def test_tables_fit_the_terminal(home, vnait, monkeypatch, columns, command):
    monkeypatch.setenv("COLUMNS", str(columns))
    code, out, _ = vnait(*command.split())
    assert code == 0 and out and not CONTROL.search(out)
    assert max(map(cell_len, out.splitlines())) <= columns


@pytest.mark.parametrize(("environment", "coloured"), [({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True)])
def test_no_colour_where_none_is_wanted(environment, coloured, home):
    """In a real terminal: nothing sets a colour of letters or ground; a bar may still move the cursor."""
    ours, theirs = pty.openpty()
    process = forkserver("vnait.train.fitting", "vnait.cli").Process(
        target=run_command,
        args=(str(home), ["train", "data.csv", *SMALL, "--out", "new"], *[os.ttyname(theirs)] * 2),
        kwargs={**environment, "TERM": "xterm-256color", "COLUMNS": "80"},
    )
    process.start()
    reader = threading.Thread(target=lambda: (process.join(), os.close(theirs)))
    reader.start()
    said = b""
    with contextlib.suppress(OSError):  # Linux says so where the other side is closed
        while part := os.read(ours, 4096):
            said += part
    reader.join()
    os.close(ours)
    assert process.exitcode == 0 and b"model: new" in said
    assert bool(re.search(rb"\x1b\[[0-9;]*\b(3[0-8]|4[0-8]|9[0-7])m", said)) == coloured


# What every command gives


@pytest.mark.parametrize("method", ["none", "averaged", "tfidf"])
def test_a_training_learns_words_of_rows_without_a_label(method, home, said):
    with (home / "data.csv").open("a") as data:
        data.write("further film,\n" * 5)
    steps = ("--steps", "2") if method == "none" else ()
    command = ["train", "data.csv", "--method", method, *steps, "--out", "new"]
    said(*command)
    model = predict.load("new")
    assert model.record.data["unlabelled_rows"] == 5
    assert "learned from 5 more texts" in Path("new/README.md").read_text()
    said(*command, "--unlabelled", "none")
    assert "unlabelled_rows" not in predict.load("new").record.data
    if method == "none":
        assert "further" in model.tokenizer.get_vocab()
        return
    (part, *_) = model.features.parts
    assert ("further" in part.terms) == (method == "averaged")
    if method == "tfidf":
        texts = text.read("data.csv")
        having = sum("film" in row.split() for row in [*texts.texts, *texts.more])
        counted = len(texts) + len(texts.more)
        assert part.idf[part.terms.index("film")] == pytest.approx(np.log((1 + counted) / (1 + having)) + 1)


def test_a_model_that_is_trained_further_learns_no_words_of_rows_without_a_label(home, said):
    with (home / "data.csv").open("a") as data:
        data.write("further film,\n")
    said("train", "data.csv", "--continue", "model", "--steps", "2", "--out", "newer")
    assert "unlabelled_rows" not in predict.load("newer").record.data


def test_train(home, said, document):
    out = said("train", "data.csv", *SMALL, "--out", "new")
    assert out.splitlines()[-1] == "model: new" and "validation_accuracy" in out
    command = f"train data.csv {LITTLE} --out new --test data.csv --method none --seed 3"
    answer = document(*command.split())
    assert answer["model"] == "new"
    record = answer["record"]
    assert (record["method"], record["seed"], record["run"]["steps"]) == ("none", 3, 4)
    assert {"accuracy", "validation_accuracy"} <= set(record["metrics"])
    assert sorted(path.name for path in home.iterdir()) == ["data.csv", "model", "new", "words.bin"]
    assert predict.load("new").record.key == record["key"]


def test_every_option_of_train_reaches_the_run(home, document):
    command = "train data.csv --out new --vectors words.bin --steps 2 --max-length 3 --learning-rate 0.5"
    run = document(*command.split(), "--tune-vectors", "--tokenization", "characters", "--quiet")["record"][
        "run"
    ]
    assert (run["steps"], run["max_length"], run["learning_rate"], run["tune_vectors"]) == (2, 3, 0.5, True)
    assert predict.load("new").tokenizer.init_kwargs["tokenization"] == "characters"


@pytest.mark.parametrize("count", [1, 2])
def test_a_simple_model_is_fitted_on_the_threads_of_its_settings(count, home, vnait, monkeypatch):
    """More than a busy machine has make it many times slower, and another number sums in another order."""
    counts = set()
    fit = baselines._of

    def counting(*args):
        counts.update(
            library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
        )
        return fit(*args)

    monkeypatch.setattr(baselines, "_of", counting)
    with threads(3):
        vnait("train", "data.csv", "--method", "tfidf", "--threads", str(count), "--out", "new", "--quiet")
        assert counts == {count}
        TextClassifier("tfidf").fit(["a dull film", "a warm film"] * 9, ["neg", "pos"] * 9)
    assert counts == {1, count}


@pytest.mark.parametrize(("method", "steps"), [("none", ("--steps", "2")), ("tfidf", ())])
def test_class_weights_reach_the_model(method, steps, home, document, vnait):
    command = ["train", "data.csv", "--out", "new", "--method", method, *steps]
    run = document(*command, "--class-weight", "neg=2, pos=0.5", "--quiet")["record"]["run"]
    assert run["class_weight"] == {"neg": 2, "pos": 0.5}
    code, _, err = vnait(*command, "--class-weight", "neg=two", "--quiet")
    assert code == 2 and "--class-weight neg=two: 'neg=two' is not a label, = and a number" in err
    code, _, err = vnait(*command, "--class-weight", "neg=2,pos", "--quiet")
    assert code == 2 and "'pos' is not a label, = and a number" in err


def test_a_saved_model_is_trained_further(home, document, vnait):
    command = ["train", "data.csv", "--continue", "model", "--out", "new", "--quiet"]
    record = document(*command, "--steps", "2", "--class-weight", "balanced")["record"]
    run, before = record["run"], predict.load("model").record
    assert (run["steps"], run["class_weight"], run["max_length"]) == (2, "balanced", before.run["max_length"])
    assert record["data"]["continued"]["key"] == before.key
    assert f"continued that of another model (record {before.key})" in Path("new/README.md").read_text()
    code, _, err = vnait(*command, "--method", "rope", "--tokenization", "characters")
    assert code == 2 and "goes on with the settings of the model; leave --method, --tokenization out." in err
    code, _, err = vnait(*command[:3], "gone", "--out", "new")
    assert code == 2 and "there is no folder gone" in err


def test_held_out_rows_choose_the_penalty(home, vnait, monkeypatch):
    monkeypatch.setattr(train, "best", lambda fitted: next(one for one in fitted if smoothness(one) == 1))
    command = ["train", "data.csv", *SMALL, "--out", "new", "--method", "vnait-warp", "--smoothness", "0,1,2"]
    code, out, _ = vnait(*command)
    assert code == 0 and out.splitlines()[-1] == "model: new"
    assert smoothness(predict.load("new")) == 1
    assert sorted(path.name for path in home.iterdir()) == ["data.csv", "model", "new", "words.bin"]
    vnait(*command[:-1], "1")
    alone = predict.load("new").record
    assert (alone.run["smoothness"], alone.run["boundary"]) == (1, 0.1)


def smoothness(fitted) -> float:
    return fitted.record.run["smoothness"]


def test_a_stopped_choice_goes_on_where_it_was(home, vnait, monkeypatch):
    command = ["train", "data.csv", *SMALL, "--out", "new", "--method", "vnait-warp", "--smoothness", "0,1"]
    trained, whole = [], train.train

    def stopped(prepared, **options):
        trained.append(prepared.run.smoothness)
        if len(trained) == 2:
            raise KeyboardInterrupt
        return whole(prepared, **options)

    monkeypatch.setattr(train, "train", stopped)
    assert vnait(*command)[0] == 130 and not Path("new").exists()
    assert [path.parent.parent.name for path in home.glob("new.checkpoints/*/*/step-*")] == ["0,0.1"]
    code, _, err = vnait(*command)
    assert code == 0 and trained == [0, 1, 0, 1]
    steps = [line for line in err.splitlines() if "continuing" in line]
    assert steps[0] == "vnait: continuing from step 4"  # the last one: nothing is trained again
    assert not Path("new.checkpoints").exists()


def test_a_penalty_that_would_do_nothing_is_refused(home, vnait, monkeypatch):
    soft = Recipe(
        make=lambda size: Method(coordinates=Span(bounds="soft"), encoding=Spatial(dim=size.dim)),
        formula="soft",
        source="test",
    )
    monkeypatch.setitem(METHODS, "soft", soft)
    command = ("train", "data.csv", *SMALL, "--out", "new", "--method")
    for method, option, says in [
        ("vnait", "--smoothness", "vnait has no learned span"),
        ("rope", "--boundary", "rope has no learned span"),
        ("vnait-warp", "--boundary", "vnait-warp have hard bounds"),
        ("vnait-warp", "--smoothness=-1", "smoothness is -1.0: it must be 0 or more, and finite."),
        ("vnait-warp", "--smoothness=x", "--smoothness x: give a number, or several"),
    ]:
        given = (option,) if "=" in option else (option, "1")
        code, _, err = vnait(*command, method, *given)
        assert code == 2 and says in err and len(err.splitlines()) == 1
    assert not Path("new").exists()
    code, _, _ = vnait(*command, "soft", "--boundary", "0.5")
    assert code == 0 and predict.load("new").record.run["boundary"] == 0.5


def test_compare(home, said, document):
    options = f"--methods none,vnait --seeds 2 --shots 6,all --jobs 1 {LITTLE} --out c".split()
    out = said("compare", "data.csv", *options)
    for part in (
        "data.csv: 48 rows, 2 classes, 2 seeds",
        "accuracy of always answering the most frequent class: 50.0 %",
        "6 labels per class",
        "all labels",
        "minus vnait",
        "tfidf",
        "averaged",
        "At 6 labels per class: ",
        "With all labels: ",
        "model: c/model (",
        "records: c/records.jsonl",
        "report: c/report.html",
    ):
        assert part in out
    found = document("compare", "data.csv", *options)
    documented = {"rows", "paired", "best", "advice", "next", "records", "model", "report", "picture"}
    assert set(found) == documented
    assert len(found["rows"]) == 10 and len(found["paired"]) == 8
    assert {"method", "metric", "mean", "ci_low", "ci_high", "seeds", "parameters", "seconds"} <= set(
        found["rows"][0]
    )
    assert {"method", "against", "difference", "ci_low", "ci_high"} <= set(found["paired"][0])
    assert f"model: c/model ({found['best']})" in out
    assert 2 <= len(found["advice"]) <= 6 and " ".join(found["advice"][0].split()) in " ".join(out.split())
    assert (found["records"], found["model"]) == ("c/records.jsonl", "c/model")
    assert predict.load(found["model"]).record.method == found["best"]
    said(*shlex.split(found["next"])[1:])
    trained = predict.load("model").record
    assert trained.method == found["best"] and trained.data["rows"] == 48


def test_without_a_linear_part_the_table_has_no_column_of_transformers_alone(home, said):
    options = f"--methods none --seeds 1 --shots 6 --jobs 1 {LITTLE}".split()
    mixed, plain = (
        said("compare", "data.csv", *options, "--bag", share, "--out", f"c{share}") for share in ("0.3", "0")
    )
    assert " alone " in mixed and " alone " not in plain


@pytest.mark.parametrize(
    ("best", "words"),
    [
        ("window-logreg", "--method window-logreg --task tagging --tokenization characters"),
        ("averaged", "--method averaged --task tagging --vectors g.bin --tokenization characters"),
        (
            "vnait",
            "--method vnait --task tagging --vectors g.bin --tokenization characters --bag 0.0 --steps 5",
        ),
        ("base:own", "--method own --task tagging --base b --steps 5"),
        ("base:frozen", "--method frozen --task tagging --base b"),
    ],
)
def test_the_next_command_has_the_options_that_its_method_reads(best, words):
    options = {"data": "d.csv", "task": "tagging", "vectors": "g.bin", "tokenization": "characters"}
    options |= {"base": "b", "steps": 5, "bag": 0.0}
    assert _next(best, options) == f"vnait train d.csv {words} --out model"
    assert _next(best, options, ["a.py", "b.py"]).startswith("vnait --plugin a.py --plugin b.py train d.csv ")


@pytest.mark.parametrize(
    "options", [["--max-length", "9"], ["--steps", "9"], ["--vectors", "words.bin"], ["--bag", "0"]]
)
def test_what_a_simple_model_does_not_read_is_refused(options, home, vnait):
    code, _, err = vnait("train", "data.csv", "--method", "tfidf", *options, "--out", "new")
    assert code == 2 and f"tfidf is a linear model without {options[0]}: leave them out." in err


TRAIN_AND_ANSWER = """
import shlex, sys
from vnait.cli import main
from vnait.train.estimator import TextClassifier
for command in sys.argv[1:]:
    try:
        main(shlex.split(command)[1:])
    except SystemExit as leaving:
        assert not leaving.code, command
    model = TextClassifier.load("model")
    print("answers", model.fitted_.record.method, *model.predict(["good fine film", "bad dull film"]))
"""


def test_three_advised_models_are_trained_by_the_printed_command_and_answer_in_a_new_process(home):
    """A simple model and a Transformer that lead, and the cheapest of a tie."""
    scores = {"tfidf": HIGH, "none": FLAT}, {"tfidf": FLAT, "vnait": HIGH}, {"averaged": FLAT, "vnait": FLAT}
    compared = [results(made(part)) for part in scores]
    assert [found.best for found in compared] == ["tfidf", "vnait", "averaged"]
    assert [len(found.tied) > 1 for found in compared] == [False, False, True]
    options = {"data": "data.csv", "vectors": "words.bin", "steps": 30}
    commands = [_next(str(found.best), options) for found in compared]
    done = subprocess.run(
        [sys.executable, "-c", TRAIN_AND_ANSWER, *commands], capture_output=True, text=True, check=True
    )
    answers = [line for line in done.stdout.splitlines() if line.startswith("answers")]
    assert answers == [f"answers {found.best} pos neg" for found in compared]


@pytest.mark.parametrize("where", ["{home}/data.csv", "../{home.name}/data.csv", "data.csv"])
def test_compare_without_a_place_writes_below_runs(home, document, where):
    data = where.format(home=home)
    found = document("compare", data, "--methods", "none", "--seeds", "1", "--jobs", "1", *SMALL)
    assert found["records"] == "runs/data/records.jsonl" and Path(found["records"]).is_file()


def test_progress_and_notes_go_to_standard_error_and_quiet_silences_them(home, vnait):
    blank = table(home / "blank.csv", [*rows_of(), (" ", "pos")])
    _, out, err = vnait("train", blank, *SMALL, "--out", "new", "--json")
    assert "vnait: " in err and "dropped 1 of 49 rows" in err and json.loads(out)
    _, _, err = vnait("train", blank, *SMALL, "--out", "new", "--quiet")
    assert err == ""


def test_texts_that_are_cut_are_counted(home, vnait):
    _, _, err = vnait("train", "data.csv", *SMALL, "--out", "new", "--max-length", "3")
    assert "vnait: 48 of 48 texts were cut to 3 tokens; the longest has 6." in err.splitlines()


def test_predict(home, said, document):
    fitted = predict.load("model")
    texts = [text for text, _ in rows_of()]
    lines = said("predict", "model", "data.csv", narrow=False).splitlines()
    assert lines[0] == "text,label,probability_neg,probability_pos" and len(lines) == 49
    assert [line.split(",")[0] for line in lines[1:]] == texts
    found = document("predict", "model", "data.csv")["rows"]
    assert [row["text"] for row in found] == texts
    for row, probabilities in zip(found, fitted.probabilities(texts), strict=True):
        assert row["label"] == fitted.classes[probabilities.argmax()]
        assert [row["probability_neg"], row["probability_pos"]] == pytest.approx(probabilities, abs=1e-6)
    assert said("predict", "model", "data.csv", "--out", "answers.csv") == "48 rows: answers.csv\n"
    assert Path("answers.csv").read_text().splitlines() == lines


def test_predict_keeps_the_name_of_the_column(home, document):
    data = table(home / "body.csv", header="body,label")
    assert document("predict", "model", data, "--text", "body")["rows"][0]["body"] == rows_of()[0][0]


def test_predict_writes_other_columns_where_asked(home, document, vnait):
    data = home / "ids.csv"
    data.write_text("id,text,day\n7,good film,\n8,dull film,2026-01-02\n", encoding="utf-8")
    rows = document("predict", "model", str(data), "--keep", "id,day")["rows"]
    assert [list(row)[:4] for row in rows] == [["id", "day", "text", "label"]] * 2
    assert [(row["id"], row["day"], row["text"]) for row in rows] == [
        ("7", "", "good film"),
        ("8", "2026-01-02", "dull film"),
    ]
    alone = document("predict", "model", str(data))["rows"]
    assert [{**row, "id": "", "day": ""} for row in alone] == [{**row, "id": "", "day": ""} for row in rows]
    for given, message in [
        ((str(data), "--keep", "date"), "has no column 'date'"),
        ((str(data), "--keep", "text"), "has such a column already"),
        (("-", "--keep", "id"), "names columns, and - is not a table"),
        ((str(data), "--keep", ","), "names no column"),
    ]:
        code, _, err = vnait("predict", "model", *given)
        assert code == 2 and message in err


def test_predict_keeps_columns_of_the_table_that_has_the_texts(home, document):
    texts = [{"id": f"c{row}", "text": "good film", "tags": ["a", "b"]} for row in range(2)]
    data = home / "thread.json"
    data.write_text(json.dumps({"users": [{"id": f"u{row}"} for row in range(3)], "comments": texts}))
    for keep in ("id", "all"):
        rows = document("predict", "model", str(data), "--keep", keep)["rows"]
        assert [row["id"] for row in rows] == ["c0", "c1"]
    assert rows[0]["tags"] == "a|b"


def test_too_long_a_text_for_a_workbook_is_one_sentence(home, vnait):
    (home / "long.csv").write_text("text\n" + "good " * 7000 + "\n")
    code, out, err = vnait("predict", "model", "long.csv", "--out", "long.xlsx")
    assert code == 2 and "write a .csv file" in err and "Traceback" not in out + err
    assert not (home / "long.xlsx").exists()


@pytest.mark.parametrize("name", ["ids.tsv", "ids.txt"])
def test_predict_writes_other_columns_of_a_file_with_tabs(home, document, name):
    (home / name).write_text("id\ttext\n7\tgood film\n8\tdull film\n", encoding="utf-8")
    rows = document("predict", "model", str(home / name), "--keep", "id")["rows"]
    assert [(row["id"], row["text"]) for row in rows] == [("7", "good film"), ("8", "dull film")]


def test_methods_that_are_empty_are_not_the_default_ones(vnait, home):
    code, _, err = vnait("compare", "data.csv", "--methods", "")
    assert code == 2 and "--methods is empty; name methods" in err


def test_labels_are_checked_before_words(vnait, home):
    data = table(home / "one.csv", rows=[("a", "x"), ("b", "x"), ("c", "x")])
    code, _, err = vnait("train", data, "--out", "new")
    assert code == 2 and "has one class only (x)" in err


def test_compare_shows_macro_f1_where_a_class_is_rare(home, said):
    options = ("--methods", "none", "--seeds", "2", "--jobs", "1")
    rare = [row for row in rows_of() if row[1] == "neg"][:8] + [row for row in rows_of() if row[1] == "pos"]
    for rows, shown in ((rows_of(), False), (rare, True)):
        table(home / f"{len(rows)}.csv", rows=rows)
        assert ("macro_f1" in said("compare", f"{len(rows)}.csv", *options, *SMALL)) == shown


def test_predict_writes_the_label_of_the_file_beside_its_own(home, document):
    rows = document("predict", "model", table(home / "data.csv"), "--keep", "label")["rows"]
    assert [row["label_given"] for row in rows] == [label for _, label in rows_of()]
    assert {row["label"] for row in rows} <= {"neg", "pos"}


def test_texts_below_a_threshold_are_none_of_the_classes(home, document, vnait):
    command = ("predict", "model", "data.csv", "--threshold")
    rows = document(*command, "1")["rows"]
    assert {row["label"] for row in rows} == {"none of these"} and "probability_neg" in rows[0]
    _, out, _ = vnait(*command, "1", "--otherwise", "by hand")
    assert out.splitlines()[1].split(",")[1] == "by hand"
    assert {row["label"] for row in document(*command, "0")["rows"]} == {"neg", "pos"}
    scores = document("evaluate", "model", "data.csv", "--threshold", "0.5")["metrics"]
    assert scores["coverage"] == 1 and scores["answered_accuracy"] == scores["accuracy"]


def test_evaluate_scores_a_saved_model_as_its_training_did(home, document, said):
    table(home / "data.csv")
    trained = document(*shlex.split("train data.csv --steps 3 --test data.csv --out scored"))
    found = document("evaluate", "scored", "data.csv")
    accuracy = trained["record"]["metrics"]["accuracy"]
    assert found["rows"] == len(rows_of()) and found["metrics"]["accuracy"] == accuracy
    assert found["metrics"]["accuracy_low"] < accuracy < found["metrics"]["accuracy_high"] or accuracy == 1
    lines = said("evaluate", "scored", "data.csv").splitlines()
    assert lines[0].startswith(f"{'accuracy':28}{accuracy:.3f} [")
    assert lines[-1] == f"{'rows':28}{len(rows_of())}"


def test_evaluate_refuses_labels_of_something_else(home, vnait):
    data = table(home / "other.csv", rows=[("a film", "red"), ("a dull film", "red"), ("film", "blue")])
    code, out, err = vnait("evaluate", "model", data)
    assert code == 2 and out == "" and "share no label" in err


def test_predict_reads_lines_of_standard_input(home, document):
    rows = document("predict", "model", "-", given="good film\r\n\nschön, 很好\nlast".encode())["rows"]
    assert [row["text"] for row in rows] == ["good film", "", "schön, 很好", "last"]


@pytest.mark.parametrize(("tokens", "warned"), [("jieba", False), ("words", True)])
def test_predict_counts_unknown_words_as_the_model_cuts_them(home, vnait, tokens, warned):
    words = save_vectors(home / "zh.bin", ["电影", "很", "好", "坏", "我", "喜欢", "不"])
    data = table(home / "zh.csv", [("我喜欢电影很好", "pos"), ("我不喜欢电影很坏", "neg")] * 12)
    options = ("--vectors", words, "--steps", "2", "--tokenization", tokens, "--out", "zh", "--quiet")
    assert vnait("train", data, *options)[0] == 0
    _, _, err = vnait("predict", "zh", data)
    assert ("unknown words" in err) == warned  # character by character, 喜欢 and 电影 are no words


def test_explain(home, said, document):
    out = said("explain", "model", "a good zyx film")
    lines = out.splitlines()
    assert re.fullmatch(r"(neg|pos)  \(probability 0\.\d{3}\)", lines[0])
    assert re.fullmatch(
        r"Logit [+]\d.\d\d over the labels' mean: Transformer [+-]\d.\d\d, bag of words [+-]\d.\d\d", lines[1]
    )
    assert lines[3].split() == ["token", "coordinate", "gap", "rho", "adds", "adds", "as", "a", "bar"]
    assert "gaps        equal: all tokens count alike here, as in vnait-uniform" in lines
    assert [line.split()[0] for line in lines[4:8]] == ["a", "good", "zyx", "film"]
    assert [("(unknown word)" in line) for line in lines[4:8]] == [False, False, True, False]
    assert lines[7].split()[1] == "100.00"
    for line in lines[4:8]:  # a bar has the sign of what the token adds
        adds, *bar = line.split()[4:6]
        assert "unknown" in line or (bar and set(bar[0]) == {adds[0]}), line
    assert (
        "method      vnait: " in out
        and "enters      joins the semantic vectors" in out
        and "parameters  " in out
    )
    found = document("explain", "model", "a good zyx film")
    assert found["tokens"] == ["a", "good", "zyx", "film"] and found["known"] == [True, True, False, True]
    assert len(found["coordinates"]) == len(found["gaps"]) == len(found["similarity"]) == 4
    assert found["method"] == "vnait"


def test_what_explain_adds_up_is_the_logit(home, said):
    """The tokens and a constant."""
    lines = said("explain", "model", "a good film").splitlines()
    whole = float(re.search(r"Logit ([+-][\d.]+)", " ".join(lines)).group(1))
    tokens = [line.split() for line in lines if line.split()[:1] in (["a"], ["good"], ["film"])]
    (constant,) = [line.split()[-1] for line in lines if line.startswith("(constant)")]
    assert sum(float(row[4]) for row in tokens) + float(constant) == pytest.approx(whole, abs=0.03)


def test_a_model_of_other_texts_is_not_replaced_in_silence(home, vnait):
    for _ in range(2):
        code, _, err = vnait("train", "data.csv", *SMALL, "--out", "new")
        assert code == 0 and "is replaced" not in err
    table(home / "other.csv", rows_of(rows=60))
    code, _, err = vnait("train", "other.csv", *SMALL, "--out", "new")
    assert code == 0 and "new: its model of other texts (data.csv, 48 rows) is replaced" in err


def test_empty_lines_of_standard_input_are_named(home, vnait):
    code, out, err = vnait("predict", "model", "-", given=b"a good film\n\n")
    assert code == 0 and len(out.splitlines()) == 3
    assert "standard input: 1 of 2 rows have an empty text: row 2" in err


def test_explain_lines_up_wide_characters(home, said):
    lines = said("explain", "model", "我 good").splitlines()
    assert cell_len(lines[4].split("  ")[0].rstrip() + " " * 3) == 5 and lines[4].startswith("我     ")


def test_list(said, document):
    out = said("list", "--dim", "96")
    rows = document("list", "--dim", "96")["rows"]
    assert {"none", "sinusoidal", "learned", "vnait", "vnait-uniform", "vnait-paper"} <= {
        row["name"] for row in rows
    }
    for row in rows:
        assert set(row) >= {"name", "formula", "parameters", "learned", "causal", "source"}
        line = next(line for line in out.splitlines() if line.startswith(f"{row['name']} "))
        assert f"{row['parameters']:,}" in line
        squeezed = " ".join(out.split())
        assert row["formula"] in squeezed and row["source"] in squeezed  # wrapped, never cut


def test_params(said, document):
    out = said("params", "--dim", "768")
    counts = {row["name"]: row["parameters"] for row in document("params", "--dim", "768")["rows"]}
    assert counts["learned table, 512 rows"] == 393_216 and counts["learned table, 1024 rows"] == 786_432
    assert counts["the papers' sizes (hidden 2d)"] == 7_084_032
    assert counts["compact, bottleneck 16"] == 87_712 and counts["compact, bottleneck 64"] == 198_400
    assert all(f"{count:,}" in out for count in counts.values())
    assert (
        "18.0 times more" in out
        and "4.5 times fewer" in out
        and "2.0 times fewer" in out
        and "the same" in out
    )


def test_vectors(home, said, document):
    out = said("vectors", "train", "data.csv", "--out", "v.txt", "--dim", "4", "--epochs", "1")
    assert re.search(r"^words +8$", out, re.MULTILINE) and re.search(r"^dim +4$", out, re.MULTILINE)
    assert document("vectors", "train", "data.csv", "--out", "v.txt", "--dim", "4")["words"] == 8
    assert document("vectors", "info", "v.txt")["format"] == "word2vec text"
    assert "word2vec text" in said("vectors", "info", "v.txt")


def test_the_words_of_texts_and_of_a_file(home, said, document):
    assert document("vectors", "words", "ΚΑΚΌΣ du\xadll")["words"] == [["κακός", "dull"]]
    assert said("vectors", "words", "Don't", "CAG").endswith("don ' t\ncag\n")
    assert document("vectors", "info", "words.bin")["normalized"] == 1
    assert "normalized 100.0 %" in said("vectors", "info", "words.bin")


def test_the_share_of_words_with_a_vector_is_printed_and_in_the_card(home, vnait):
    data = table(home / "rare.csv", [("bad film", "neg"), ("good zebra", "pos")] * 12)
    options = ("--vectors", "words.bin", "--steps", "2")
    shares = "75.0 % (75.0 % of the tokens)"
    line = f"words with a vector: training rows {shares}, test rows {shares}"
    assert line in vnait("train", data, "--test", data, "--out", "rare", *options)[2]
    assert f"- {line.capitalize()}." in (home / "rare" / "README.md").read_text()
    err = vnait("predict", "rare", "data.csv", "--out", "answers.csv")[2]
    assert "words with a vector: new rows 100.0 % (100.0 % of the tokens)." in err
    assert line in vnait("compare", data, "--methods", "none", "--seeds", "1", *options)[2]


def test_the_installed_command_writes_plain_text_into_a_pipe():
    done = subprocess.run(
        [VNAIT, "params"], capture_output=True, text=True, env={**os.environ, "TERM": "xterm-256color"}
    )
    assert done.returncode == 0 and done.stderr == "" and "learned table" in done.stdout
    assert not CONTROL.search(done.stdout) and max(map(cell_len, done.stdout.splitlines())) <= 80


@pytest.mark.long
def test_an_explanation_is_printed_without_the_library_of_figures(home):
    code = "import sys; sys.modules['matplotlib'] = None; from vnait.cli import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, "explain", "model", "a good film"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "" and "Logit" in done.stdout


@pytest.mark.long
def test_a_reader_that_has_seen_enough_is_no_error(home, given):
    table(home / "long.csv", rows_of(rows=2000))
    script = f"{VNAIT} predict model long.csv | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", script], capture_output=True, text=True)
    assert done.stdout == "text,label,probability_neg,probability_pos\n" and done.stderr == ""


@pytest.mark.parametrize("arguments", [(), ("vectors",)])
def test_without_a_command_there_is_help(vnait, arguments):
    code, out, err = vnait(*arguments)
    assert code == 2 and "Usage:" in out and err == ""


@pytest.mark.parametrize("arguments", [(), ("compare",), ("train",), ("predict",), ("vectors", "train")])
def test_help_explains_itself(vnait, arguments):
    code, out, err = vnait(*arguments, "--help")
    assert code == 0 and "Usage:" in out and err == ""
    assert vnait(*arguments, "-h") == vnait("help", *arguments) == (0, out, "")


def test_the_first_page_has_all_commands_in_groups(said):
    page = said("-h")
    groups = [block.splitlines() for block in page.split("\n\n")]
    names = {group[0]: [line.split()[0] for line in group[1:]] for group in groups}
    assert names["Pretrained models:"] == ["doctor", "extend"]
    listed = [name for title in ("Train and predict:", "Research:", "Files:") for name in names[title]]
    assert {*listed, "doctor", "extend", "help"} == set(MENU.commands)
    assert "VNAIT_UNPACK_LIMIT" in page and "Exit codes: 0 done" in page


def test_usage_has_what_is_required(said, vnait):
    assert said("train", "-h").startswith("Usage: vnait train [OPTIONS] --out FOLDER DATA\n")
    assert said("draw", "-h").startswith("Usage: vnait draw [OPTIONS] [METHOD]...\n")
    code, _, err = vnait("vectors", "train", "data.csv")
    assert code == 2 and err.endswith("; see vnait vectors train --help.\n")
    code, _, err = vnait("help", "tune")
    assert code == 2 and "No such command 'tune'" in err
    code, _, err = vnait("trian")
    assert code == 2 and err == "vnait: No such command 'trian'. Did you mean 'train'? See vnait --help.\n"


# What a person can do wrong. Each entry prepares the folder and gives the command and a part of the sentence.


def cut(path: Path, keep: float = 0.6) -> str:
    path.write_bytes(path.read_bytes()[: int(keep * path.stat().st_size)])
    return str(path)


def changed(path: Path, **settings) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))


def train_on(name: str, content: str | bytes | None, message: str, *options: str):
    def prepare(home: Path):
        if content is not None:
            (home / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return ("train", name, *SMALL, "--out", "new", *options), message

    return prepare


def with_vectors(name: str, content: bytes | None, message: str):
    def prepare(home: Path):
        if content is not None:
            (home / name).write_bytes(content)
        return ("train", "data.csv", "--vectors", name, "--steps", "4", "--out", "new"), message

    return prepare


def with_model(damage, message: str, command=("predict", "model", "data.csv")):
    def prepare(home: Path):
        damage(home / "model")
        return command, message

    return prepare


def plain(command: str, message: str):
    return lambda home: (shlex.split(command), message)


def truncated(home: Path):
    return ("vectors", "info", cut(home / "words.bin")), "is cut or damaged: 6 of the 11 vectors can be read"


def one_class(home: Path):
    return (
        "compare",
        table(home / "one.csv", rows_of(("pos",))),
        "--out",
        "new",
    ), "every row has the label 'pos'"


def rare(home: Path):
    table(home / "rare.csv", [*rows_of(), ("odd film", "mix")])
    command = "train", "rare.csv", *SMALL, "--min-class", "1", "--out", "new"
    return command, "class 'mix' has 1 row; a class needs 2 rows"


def few(home: Path):
    table(home / "few.csv", [*rows_of(), *rows_of(("mix",), 10)])
    command = f"compare few.csv {LITTLE} --shots 4,8 --out new".split()
    return command, "8 shots are more than there are: class 'mix'"


def unknown(home: Path):
    save_vectors(home / "alien.bin", ["xyzzy", "plugh"])
    return shlex.split(
        "train data.csv --vectors alien.bin --out new"
    ), "alien.bin has none of the 8 words needed"


def precious(home: Path):
    (home / "thesis").mkdir()
    (home / "thesis/chapter.txt").write_text("precious")
    return ("train", "data.csv", *SMALL, "--out", "thesis"), "is a folder with other files in it"


def another_project(home: Path):
    (home / "app/src").mkdir(parents=True)
    (home / "app/config.json").write_text('{"name": "webapp"}')
    (home / "app/src/main.py").write_text("precious")
    return ("train", "data.csv", *SMALL, "--out", "app"), "is a folder with other files in it (src)"


def notes_beside_a_model(home: Path):
    shutil.copytree(home / "model", home / "noted")
    (home / "noted/notes.txt").write_text("precious")
    return ("train", "data.csv", *SMALL, "--out", "noted"), "is a folder with other files in it (notes.txt)"


def a_model_of_others(home: Path):
    (home / "bert").mkdir()
    (home / "bert/config.json").write_text('{"model_type": "bert"}')
    (home / "bert/model.safetensors").write_text("precious")
    return ("train", "data.csv", *SMALL, "--out", "bert"), "bert is not a model of vnait"


def a_page_alone(home: Path):
    (home / "page/base").mkdir(parents=True)
    (home / "page/README.md").write_text("precious")
    return ("train", "data.csv", *SMALL, "--out", "page"), "page is not a model of vnait"


GOOD = "text,label\n" + "".join(f"{text},{label}\n" for text, label in rows_of())
BAD_INPUT = {
    "missing file": train_on("gone.csv", None, "there is no file gone.csv"),
    "missing file to compare": plain("compare gone.csv --out new", "there is no file gone.csv"),
    "missing test file": train_on("some.csv", GOOD, "there is no file gone.csv", "--test", "gone.csv"),
    "missing file to predict": plain("predict model gone.csv", "there is no file gone.csv"),
    "missing vectors": with_vectors("gone.bin", None, "there is no file gone.bin"),
    "missing vectors to compare": plain("compare data.csv --vectors gone --out new --jobs 1", "no file gone"),
    "missing vectors to compare, in workers": plain(  # quiet: workers may take ten seconds to start
        "compare data.csv --vectors gone --out new --jobs 2 --quiet", "no file gone"
    ),
    "missing vectors to describe": plain("vectors info gone.bin", "there is no file gone.bin"),
    "empty file": train_on("empty.csv", "", "empty.csv is empty"),
    "header alone": train_on("head.csv", "text,label\n", "has no rows below its header"),
    "unknown format": train_on("data.xls", GOOD, "data.xls can't be read as an old Excel file: "),
    "wrong text column": train_on(
        "t.csv", GOOD, "has no column 'body'; its columns are 'text', 'label'", "--text", "body"
    ),
    "wrong label column": train_on(
        "t.csv", GOOD, "has no column 'stars'; its columns are 'text', 'label'", "--label", "stars"
    ),
    "wrong column to compare": plain("compare data.csv --text x", "its columns are 'text', 'label'"),
    "wrong column to predict": plain("predict model data.csv --text x", "its columns are 'text', 'label'"),
    "one class": train_on(
        "one.csv", "text,label\ngood film,pos\nfine film,pos\n", "has one class only (pos)"
    ),
    "one class to compare": one_class,
    "a class of one row": rare,
    "a class with fewer rows than shots": few,
    "empty texts": train_on("blank.csv", 'text,label\n" ",pos\n,neg\n', "has no text: all 2 rows are empty"),
    "no label": train_on(
        "none.csv", "text,label\ngood film,\nbad film, \n", "no label in any of its 2 rows with a text"
    ),
    "label NaN": train_on("nan.jsonl", '{"text": "bad", "label": NaN}\n', "no label in any of its 1 rows"),
    "broken UTF-8": train_on(
        "b.csv", GOOD.encode() + b"caf\xe9,pos\n", "is not UTF-8: line 50 has the byte 0xe9"
    ),
    "broken UTF-8 in standard input": plain(
        "predict model -", "standard input is not UTF-8: line 2 has the byte 0xff"
    ),
    "broken UTF-8 in an argument": plain("explain model caf\udce9", "the text is not UTF-8"),
    "truncated vectors": truncated,
    "truncated vectors to train with": lambda home: (
        ("train", "data.csv", "--vectors", cut(home / "words.bin"), "--out", "new"),
        "is cut or damaged",
    ),
    "truncated vectors to compare with": lambda home: (
        ("compare", "data.csv", "--vectors", cut(home / "words.bin"), "--out", "new", "--jobs", "1"),
        "is cut or damaged",
    ),
    "truncated gzip vectors": with_vectors("v.gz", gzip.compress(b"2 2\na 1 2\nb 1 2\n")[:-12], "v.gz"),
    "unreadable vectors": with_vectors("v.bin", b"\x00\x01\x02 no vectors", "v.bin has no known format"),
    "vectors of another width": with_vectors(
        "w.txt", b"3 2\na 1 2\ngood 1.5 2 3\nbad 1 2\n", "line 3 has 3 numbers; expected 2"
    ),
    "zero known words": unknown,
    "no model there": plain("predict gone data.csv", "there is no folder gone; give one that `vnait train`"),
    "answers over the texts": plain(
        "predict model data.csv --out ./data.csv", "data.csv is the file that is read"
    ),
    "answers in no table that is written": plain(
        "predict model data.csv --out new.jsonl", "let its name end in .csv, .txt, .tsv, .xlsx"
    ),
    "the folder around a model": lambda home: (
        ("predict", str(home / "run"), "data.csv"),
        f"Its model is in {(home / 'run' / 'model').mkdir(parents=True) or home / 'run' / 'model'}.",
    ),
    "a folder that is no model": plain("explain . 'good film'", "is not a saved model"),
    "model weights cut": with_model(lambda folder: cut(folder / "model.safetensors"), "model is damaged"),
    "model weights missing": with_model(
        lambda folder: (folder / "model.safetensors").unlink(), "model is damaged"
    ),
    "model settings cut": with_model(lambda folder: cut(folder / "config.json"), "config.json is damaged"),
    "model words cut": with_model(
        lambda folder: cut(folder / "tokenizer.json"), "its tokenizer.json can't be read"
    ),
    "model words missing": with_model(
        lambda folder: (folder / "tokenizer.json").unlink(), "it has no tokenizer.json"
    ),
    "model of other sizes": with_model(
        lambda folder: changed(folder / "config.json", num_hidden_layers=3),
        "its weights don't fit its config.json",
    ),
    "model of another version": with_model(
        lambda folder: changed(folder / "config.json", vnait_format=99),
        "this model is of format 99, and this vnait reads",
    ),
    "model of another version to explain": with_model(
        lambda folder: changed(folder / "config.json", vnait_format=99),
        "is of format 99",
        ("explain", "model", "a film"),
    ),
    "model of an unknown method": with_model(
        lambda folder: changed(folder / "config.json", method="vnait-9"),
        "the method 'vnait-9', which is not known here",
    ),
    "another library's model": with_model(
        lambda folder: changed(folder / "config.json", model_type="bert"), "holds no vnait"
    ),
    "record cut": with_model(lambda folder: cut(folder / "record.json"), "record.json is damaged"),
    "unknown method": plain("train data.csv --method nope --out new", "method 'nope' is not known"),
    "unknown method to compare": plain("compare data.csv --methods none,nope", "method 'nope' is not known"),
    "shots of nonsense": plain("compare data.csv --shots 16,many", "--shots 16,many: 'many' is neither"),
    "one shot": plain("compare data.csv --shots 1", "shots 1: give a number of rows per class, 2 or more"),
    "no shots": plain("compare data.csv --shots ,", "shots is empty: give at least one"),
    "unknown tokens": plain("train data.csv --tokenization x --out new", "tokenization is 'x'; expected one"),
    "unknown flag": plain("compare data.csv --speed 9", "No such option: --speed"),
    "unknown command": plain("tune", "No such command 'tune'"),
    "missing option": plain("train data.csv", "Missing option '--out'"),
    "seeds of nonsense": plain("compare data.csv --seeds 0", "--seeds"),
    "steps of nonsense": plain("train data.csv --steps 0 --out new", "steps is 0: it must be 1 or more"),
    "a seed too large": plain("train data.csv --seed 4294967296 --out new", "seed is 4294967296"),
    "a negative seed": plain("train data.csv --seed -1 --out new", "seed is -1"),
    "unknown backend": plain(f"compare data.csv {LITTLE} --backend x --out new", "backend 'x'"),
    "an empty text to explain": plain("explain model ' '", "the text is empty"),
    "a class weight that is none": plain(
        "train data.csv --class-weight even --out new", "is 'even': it must"
    ),
    "a threshold that is none": plain("predict model data.csv --threshold 2", "the threshold is 2.0; give a"),
    "an answer without a threshold": plain("predict model data.csv --otherwise x", "--threshold; give one"),
    "an answer that is a class": plain(
        "predict model data.csv --threshold 0.5 --otherwise pos", "'pos' is a class of the model"
    ),
    "nothing in standard input": plain("predict model -", "standard input has no text"),
    "a rate of zero": plain(f"train data.csv {LITTLE} --out new --learning-rate 0", "rate is 0.0"),
    "a width that can't be halved": plain("list --dim 50", "can't be built at width 50 with 4 heads"),
    "a number that is none": plain("compare data.csv --shots ² --out new", "'²' is neither"),
    "a model over other files": precious,
    "a model over another project": another_project,
    "a model over its own notes": notes_beside_a_model,
    "a model over one of others": a_model_of_others,
    "a model over names that ours have too": a_page_alone,
    "a model over a file": plain(f"train data.csv {LITTLE} --out words.bin", "words.bin is a file"),
    "a model over the working folder": plain(f"train data.csv {LITTLE} --out .", "choose a new name"),
    "answers below a file": plain("predict model data.csv --out data.csv/a.csv", "can't write"),
    "an unknown ending of vectors": plain("vectors train data.csv --out v.xyz", "has no known ending"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * ("workers" in name)) for name in BAD_INPUT]
)
def test_bad_input_is_one_sentence_and_changes_nothing(name, home, vnait):
    arguments, message = BAD_INPUT[name](home)
    before = tree(home)
    stdin = {
        "broken UTF-8 in standard input": b"good\nbad \xff film\n",
        "nothing in standard input": b"\n \n",
    }
    code, out, err = vnait(*arguments, given=stdin.get(name, b""))
    assert err.startswith("vnait: ") and err.count("\n") == 1 and err.endswith("\n")
    assert message in err and "Traceback" not in err
    assert code == 2 and out == ""
    assert tree(home) == before


def test_bad_input_leaves_the_process_with_2_and_no_traceback(home):
    done = subprocess.run([VNAIT, "vectors", "info", "gone.bin"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("vnait: there is no file gone.bin")


def test_repeats_between_train_and_test_are_a_warning_with_their_count(home, vnait):
    rows = rows_of()
    table(home / "test.csv", [rows[0], rows[1], ("new film good", "pos"), ("new film bad", "neg")])
    options = ("--methods", "none", "--seeds", "1", "--jobs", "1", *SMALL, "--out", "c")
    code, _, err = vnait("compare", "data.csv", "--test", "test.csv", *options)
    assert code == 0
    assert "vnait: 2 of 4 test rows also occur in the training rows" in err


def test_a_training_that_fails_is_no_wrong_use(home, vnait):
    before = set(tree(home))
    code, out, err = vnait("train", "data.csv", *SMALL, "--out", "new", "--learning-rate", "1e30", "--quiet")
    assert code == 1 and out == ""
    assert err.startswith("vnait: the loss of vnait became") and err.count("\n") == 1
    assert set(tree(home)) == before


# A full disk


@contextlib.contextmanager
def full_after(size: int):
    """The system refuses to make any file larger than `size` bytes: what a full disk does, without one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


WRITERS = {
    f"train data.csv {LITTLE} --out model --quiet": 3000,
    "predict model data.csv --out answers.csv": 1000,
    "vectors train data.csv --out v.bin": 300,
    "vectors train data.csv --out v.txt": 300,
    "vectors train data.csv --out v.bin.gz": 100,
    "vectors train data.csv --out v.kv": 300,
}


@pytest.mark.parametrize(("command", "size"), WRITERS.items())
def test_a_full_disk_is_one_sentence_and_the_old_file_stays(command, size, home, vnait):
    for target in ("answers.csv", "v.txt", "v.bin", "v.bin.gz", "v.kv"):
        Path(target).write_text("old")
    before = tree(home)
    with full_after(size):
        code, out, err = vnait(*command.split())
    assert "was not written: " in err and "File too large" in err
    assert err.startswith("vnait: ") and err.count("\n") == 1
    assert code == 2 and out == ""
    assert tree(home) == before


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_model_that_does_not_fit_leaves_the_old_one(home, name):
    fitted, before = predict.load("model"), tree(home)
    size = Path("model", name).stat().st_size - 1
    with full_after(size), pytest.raises(InputError, match=r"model was not written: .*File too large"):
        fitted.save("model")
    assert tree(home) == before
    assert predict.load("model").record == fitted.record


@pytest.fixture
def tiny_disk(tmp_path):
    """A disk of 64 KiB, where this user may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(place)]
    if os.geteuid() or not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a file system")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_disk_that_is_really_full(home, tiny_disk, vnait):
    (tiny_disk / "v.bin").write_text("old")
    (tiny_disk / "filler").write_bytes(bytes(50_000))
    before = tree(tiny_disk)
    for arguments in (
        ("train", "data.csv", *SMALL, "--out", str(tiny_disk / "model"), "--quiet"),
        ("vectors", "train", "data.csv", "--dim", "1000", "--out", str(tiny_disk / "v.bin")),
    ):
        code, out, err = vnait(*arguments)
        assert code == 2 and out == "" and err.count("\n") == 1
        assert "was not written: " in err and "No space left on device" in err
        assert tree(tiny_disk) == before


# Ctrl-C


def run_command(
    folder: str, arguments: list[str], out: str = "out", err: str = "err", **environment: str
) -> None:
    """`vnait` in a process of its own, what it says in files or on a terminal."""
    torch.set_num_threads(1)
    os.environ |= environment
    # where the tests run in the background, it is ignored
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    with (
        open(out, "w") as output,
        open(err, "w") as errors,
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
    ):
        cli.main(arguments)


@pytest.mark.slow
def test_ctrl_c_in_a_training_is_one_sentence_and_the_same_command_goes_on(home, vnait):
    context = forkserver("vnait.train.fitting", "vnait.cli")
    command = ["train", "data.csv", "--vectors", "words.bin", "--steps", "90", "--quiet", "--out"]
    process = context.Process(target=run_command, args=(str(home), [*command, "new"]))
    process.start()
    while not list(home.glob("new.checkpoints/*/step-*")):
        assert process.is_alive()
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGINT)
    process.join()
    assert process.exitcode == 130
    assert Path("out").read_text() == ""
    assert Path("err").read_text() == ("vnait: stopped; the same command goes on from what was finished.\n")
    assert not Path("new").exists()
    code, _, err = vnait(*command[:-2], "--out", "new")  # not quiet now
    assert code == 0 and re.search(r"^vnait: continuing from step (25|50|75)$", err, re.MULTILINE)
    assert vnait(*command, "whole")[0] == 0
    assert Path("new/model.safetensors").read_bytes() == Path("whole/model.safetensors").read_bytes()
    assert not Path("new.checkpoints").exists()


def test_predict_keeps_the_texts_where_their_column_is_called_label(home, document, said):
    Path("odd.csv").write_text('label\nwonderful film\n""\n', encoding="utf-8")
    out = said("predict", "model", "odd.csv", "--text", "label").splitlines()
    assert (
        out[0].startswith("text,label,probability_")
        and out[1].startswith("wonderful film,")
        and len(out) == 3
    )


def commands(group, name="vnait"):
    for own, command in group.commands.items():
        yield from (
            commands(command, f"{name} {own}")
            if hasattr(command, "commands")
            else [(f"{name} {own}", command)]
        )


MENU = typer.main.get_command(app)
COMMANDS = dict(commands(MENU))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_every_default(name, said):
    """A value is shown; where there is none the help has what happens without the option."""
    page = " ".join(said(*name.split()[1:], "-h").split())
    for option in COMMANDS[name].params:
        if option.param_type_name == "option" and not option.is_flag and not option.required:
            has_value = option.default not in (None, "")
            shown = option.show_default if has_value else isinstance(option.show_default, str)
            assert shown, f"{name} {option.opts[0]}: {option.help}"
            default = option.default if option.show_default is True else option.show_default
            assert f"[default: {default}]" in page
            assert option.metavar and option.rich_help_panel


def example_commands(command) -> list[str]:
    assert command.epilog.startswith("Examples:\n")
    return [line.strip() for line in command.epilog.splitlines()[1:]]


def words_of(example: str) -> list[str]:
    return shlex.split(re.split(" [<>] ", example)[0])


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_of_a_command_are_read_without_an_error(name):
    for example in example_commands(COMMANDS[name]):
        words, parts = words_of(example), name.split()
        assert words[: len(parts)] == parts
        COMMANDS[name].make_context(name, words[len(parts) :])


@pytest.mark.parametrize("name", ["predict", "evaluate", "vectors info", "vectors words"])
def test_examples_run(name, home, vnait):
    rows = "".join(
        f"{number},2026,{text},{label},{text},{label}\n" for number, (text, label) in enumerate(rows_of())
    )
    for file in ("new.csv", "later.csv"):
        Path(file).write_text(f"id,date,text,label,body,stars\n{rows}")
    for example in example_commands(COMMANDS[f"vnait {name}"]):
        code, _, err = vnait(*words_of(example)[1:], given=b"a good film\n")
        assert code == 0, (example, err)


def test_a_flag_takes_the_same_kind_of_value_in_all_commands():
    kinds = {}
    for command in COMMANDS.values():
        for option in command.params:
            if option.param_type_name == "option":
                kinds.setdefault(option.opts[0], set()).add("" if option.is_flag else option.metavar)
    assert {flag: kind for flag, kind in kinds.items() if len(kind) > 1} == {"--out": {"FILE", "FOLDER"}}


def test_possible_values_are_those_that_are_taken():
    option = {option.name: option for option in COMMANDS["vnait compare"].params}
    for name, values in {"backend": ENGINES, "tokenization": TOKENIZATIONS, "task": TASKS}.items():
        assert f"[possible values: {', '.join(values)}]" in option[name].help
    *first, last = SUITES
    assert f"{', '.join(first)} or {last}" in COMMANDS["vnait study"].params[0].help


def test_test_rows_that_training_saw_are_counted(given, tmp_path, capsys):
    data = str(given / "data.csv")
    cli.main(["train", data, "--test", data, "--steps", "1", "--out", str(tmp_path / "model")])
    assert "test rows also occur in the training rows, so scores are too good" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("raw", "options"),
    [(b"\xef\xbb\xbfgood\nbad\n", ()), ("caf\u00e9".encode("cp1252"), ("--encoding", "cp1252"))],
)
def test_standard_input_is_decoded_as_a_file_is(raw, options, given, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
    cli.main(["predict", str(given / "model"), "-", *options, "--quiet"])
    first = capsys.readouterr().out.splitlines()[1].split(",")[0]
    assert first == ("caf\u00e9" if options else "good")


def test_a_file_in_place_of_the_models_folder_is_found_before_torch(given, capsys):
    with pytest.raises(SystemExit):
        cli.main(["train", str(given / "data.csv"), "--out", str(given / "words.bin")])
    assert "is a file; a model is saved as a folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("a/rev.2023.csv", "rev.2023"),
        ("films.csv.gz", "films"),
        ("hf:org/name", "org-name"),
        (".hidden.TSV", "hidden"),
    ],
)
def test_a_folder_has_the_name_of_its_file(source, name):
    assert folder_name(source) == name


def test_a_column_to_keep_is_read_before_anything_is_written(home, vnait):
    assert vnait("train", "data.csv", *SMALL, "--out", "kept")[0] == 0
    lines = [{"text": "a film", "id": 1}, {"text": "a plot", "id": "\ud800"}]
    (home / "keep.jsonl").write_text("\n".join(map(json.dumps, lines)))
    code, out, err = vnait("predict", "kept", "keep.jsonl", "--keep", "id")
    assert code == 2 and out == "" and "keep.jsonl" in err


def test_validation_rows_that_repeat_training_rows_are_named(home, vnait):
    rows = [("good film", "pos"), ("bad plot", "neg")] * 10
    (home / "twice.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    code, _, err = vnait("train", "twice.csv", *SMALL, "--out", "twice")
    assert code == 0 and "validation rows also occur in the training rows" in err


def test_predict_carries_all_columns_over_and_writes_what_the_ending_names(home, said):
    data = home / "ids.csv"
    rows = "id,text,label,day\n7,=good film,pos,#REF!\n8,dull\x0b film,neg,2026-01-02\n"
    data.write_text(rows, encoding="utf-8")
    names = ["id", "label_given", "day", "text", "label", "probability_neg", "probability_pos"]
    for ending in ("csv", "tsv", "xlsx"):
        said("predict", "model", "ids.csv", "--keep", "all", "--out", f"answers.{ending}")
    comma, tab = (
        list(csv.reader(io.StringIO(Path(f"answers.{ending}").read_text()), delimiter=separator))
        for ending, separator in (("csv", ","), ("tsv", "\t"))
    )
    assert (
        comma == tab
        and comma[0] == names
        and [row[:4] for row in comma[1:]]
        == [
            ["7", "pos", "#REF!", "=good film"],
            ["8", "neg", "2026-01-02", "dull\x0b film"],
        ]
    )
    sheet = openpyxl.load_workbook("answers.xlsx").active
    assert [cell.value for cell in sheet[1]] == names and sheet.max_row == 3
    texts = [(sheet[cell].value, sheet[cell].data_type) for cell in ("D2", "C2")]
    assert texts == [("=good film", "s"), ("#REF!", "s")]  # neither a formula nor an error
    assert sheet["D3"].value == "dull\ufffd film" and isinstance(sheet["F2"].value, float)


def test_the_options_of_a_file_are_those_of_all_commands_that_read_one(home, said, document):
    rows = [(film, label.title() if row % 9 == 0 else label) for row, (film, label) in enumerate(rows_of())]
    book = openpyxl.Workbook()
    book.active.title = "notes"
    sheet = book.create_sheet("films")
    for row in (["Films of 2024"], *([label, "", film] for film, label in [*rows, ("odd film", "mix")])):
        sheet.append(row)
    book.save("films.xlsx")
    options = shlex.split("--sheet films --no-header --text 2+3 --label 1")
    train = ["--merge-labels", "--steps", "3", "--out", "new"]
    code = said("train", "films.xlsx", *options, *train)
    assert "accuracy" in code
    assert predict.load("new").classes == ["neg", "pos"]  # "mix" and the title have one row each
    assert "rows" in said("evaluate", "new", "films.xlsx", *options, "--merge-labels")
    assert (
        said("predict", "new", "films.xlsx", *options[:-2], "--out", "answers.csv")
        == "50 rows: answers.csv\n"
    )
    little = f"--methods none --seeds 1 --jobs 1 --out run {LITTLE}".split()
    compared = document("compare", "films.xlsx", *options, *train[:1], *little)
    advised = compared["next"]
    assert "--sheet films --no-header --merge-labels" in advised and "--text 2+3 --label 1" in advised


def test_classes_that_are_numbers_are_in_the_order_of_numbers(home, said):
    table(home / "stars.csv", [(f"film w{star}", str(star)) for star in range(8, 12) for _ in range(6)])
    for method in ("none", "tfidf"):
        steps = ["--steps", "2"] if method == "none" else []
        said("train", "stars.csv", "--method", method, *steps, "--out", method)
        head = said("predict", method, "stars.csv").splitlines()[0]
        assert head == "text,label," + ",".join(f"probability_{star}" for star in range(8, 12))


def test_a_path_that_a_shell_leaves_begins_at_home(home, said, monkeypatch):
    monkeypatch.setenv("HOME", str(home / "user"))
    (home / "user").mkdir()
    shutil.move("data.csv", "user/data.csv")
    said("train", "user/data.csv", "-o", "~/new", "--test=~/data.csv", "--method", "tfidf", narrow=False)
    said("predict", "~/new", "user/data.csv", "-o~/answers.csv", narrow=False)
    assert re.search(r"^~ .*\n/ .*\nis ", said("explain", "~/new", "~/ is no folder", narrow=False), re.M)
    classifier = TextClassifier.load("~/new")
    classifier.save("~/again")
    assert {path.name for path in (home / "user").iterdir()} == {"data.csv", "new", "answers.csv", "again"}
    assert not (home / "~").exists()
    (home / "user" / "words.txt").write_text("film 1 0\nplot 0 1\n", encoding="utf-8")
    assert text.vectors.load("~/words.txt").words == ["film", "plot"]
    assert fingerprint("~/words.txt") == fingerprint(home / "user" / "words.txt") != fingerprint("~/none")
    assert text.read("~/data.csv").name == str(home / "user" / "data.csv")
