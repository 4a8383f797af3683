"""What the command line prints: data as it is, whatever the encoding; words that can't steer a terminal."""

from __future__ import annotations

import csv
import errno
import io
import json
import logging
import os
import re
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from test_cli import CONTROL
from vnait import TextClassifier, cli
from vnait.cli import terminal
from vnait.cli.output import echo, write_csv
from vnait.cli.progress import progress
from vnait.cli.shared import set_up_logging
from vnait.results import report
from vnait.results.about import About
from vnait.shared.escaping import safe
from vnait.train import saved

GOLDEN = Path(__file__).parent / "golden" / "format_9"
MODEL = str(GOLDEN / "vnait")
TEXT = "a naïve “film” 好 😀"
HOSTILE = "\x1b[2J\x1b]0;title\x07\x9b31m\u202e\u200f"  # clears, retitles, colours, turns around


@pytest.fixture
def data(tmp_path) -> str:
    path = tmp_path / "data.csv"
    path.write_text(f"text\n{TEXT}\n", encoding="utf-8")
    return str(path)


def run(monkeypatch, encoding: str, *arguments: str) -> tuple[int, bytes, str]:
    """The exit code, the bytes on standard output, and standard error."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding=encoding), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    code = 0
    try:
        cli.main(arguments)
    except SystemExit as leaving:
        code = int(leaving.code or 0)
    out.flush()
    return code, out.buffer.getvalue(), err.getvalue()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "gb18030", "utf-8", "utf-16"])
def test_json_is_json_in_every_encoding(encoding, data, monkeypatch):
    code, out, _ = run(monkeypatch, encoding, "predict", MODEL, data, "--json", "--quiet")
    assert code == 0
    assert json.loads(out.decode(encoding))["rows"][0]["text"] == TEXT
    if "utf" not in encoding:
        assert out.isascii()  # so that it is UTF-8, too, as JSON has to be


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "gb18030"])
def test_csv_is_unchanged(encoding, data, monkeypatch):
    code, out, _ = run(monkeypatch, encoding, "predict", MODEL, data, "--quiet")
    assert code == 0
    assert next(csv.DictReader(io.StringIO(out.decode(encoding))))["text"] == TEXT


@pytest.mark.parametrize(("encoding", "letter"), [("ascii", "ï"), ("latin-1", "“"), ("cp1252", "好")])
def test_csv_that_would_be_changed_is_refused(encoding, letter, data, monkeypatch):
    code, out, err = run(monkeypatch, encoding, "predict", MODEL, data, "--quiet")
    assert (code, out) == (2, b"")
    assert err == (
        f"vnait: standard output is in {encoding}, which has no {letter!r}; set PYTHONIOENCODING=utf-8, or "
        "give a file with --out.\n"
    )


def test_closed_streams(data, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", None)
    code, out, err = run(monkeypatch, "utf-8", "predict", MODEL, "-")
    assert (code, out) == (2, b"")
    assert err == "vnait: standard input is closed; give one text per line, or a file in place of -.\n"
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", err := io.StringIO())
    with pytest.raises(SystemExit, match="2"):
        cli.main(["predict", MODEL, data])
    assert err.getvalue() == "vnait: standard output is closed; leave it open, or send it to a file.\n"


def test_notes_never_take_the_place_of_results(data, monkeypatch):
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", None)
    with pytest.raises(SystemExit, match="2"):
        cli.main(["predict", MODEL, "missing.csv", "--json"])
    out.flush()
    assert out.buffer.getvalue() == b""
    sys.stderr.close()


def test_what_steers_a_terminal_is_shown_by_its_code():
    assert safe(f"good{HOSTILE}") == r"good\x1b[2J\x1b]0;title\x07\x9b31m\u202e\u200f"
    unchanged = "two\tcells\nnaïve 好 \u3000\xa0 👩\u200d🚀 e\u0301"
    assert safe(unchanged) == unchanged


def test_labels_and_names_do_not_steer_the_terminal(tmp_path, monkeypatch):
    """In results, in notes and in errors."""
    place = tmp_path / f"m{HOSTILE}"
    shutil.copytree(GOLDEN / "vnait", place)
    settings = json.loads((place / "config.json").read_text(encoding="utf-8"))
    settings["id2label"] = {number: f"{name}{HOSTILE}" for number, name in settings["id2label"].items()}
    settings["label2id"] = {name: int(number) for number, name in settings["id2label"].items()}
    (place / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    code, out, _ = run(monkeypatch, "utf-8", "explain", str(place), "a dull film")
    assert code == 0 and r"\x1b[2J" in out.decode() and not CONTROL.search(out.decode())
    rows = [f"a {word} film,{word}{HOSTILE}" for word in ("dull", "Dull", "warm") for _ in range(8)]
    data = place / "data.csv"
    data.write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    code, out, err = run(
        monkeypatch,
        "utf-8",
        "train",
        str(data),
        "--out",
        str(place / "new"),
        "--steps",
        "2",
        "--method",
        "none",
    )
    assert code == 0, err
    assert err.count(r"\x1b[2J") >= 2 and r"\x1b[2J" in out.decode()
    assert not CONTROL.search(out.decode() + err)
    code, _, err = run(monkeypatch, "utf-8", "predict", str(place), f"missing{HOSTILE}.csv")
    assert code == 2 and not CONTROL.search(err) and r"\x1b[2J" in err


def test_tables_and_notes_are_safe(monkeypatch, capsys):
    grid = terminal.new_grid("term", "adds", left=1)
    grid.add_row(f"film{HOSTILE}", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal.print_wrapped(grid)
    set_up_logging(quiet=False)
    logging.getLogger("vnait").warning("the label %s", f"x{HOSTILE}")
    out, err = capsys.readouterr()
    for printed in (out, err):
        assert r"\x1b[2J" in printed and not CONTROL.search(printed)


def test_an_installed_command_with_closed_streams():
    """The descriptors themselves, which a test in this process can't close."""
    status = os.system(f"{sys.executable} -m vnait list >&- 2>/dev/null")
    assert os.waitstatus_to_exitcode(status) == 2


def test_a_carriage_return_ends_no_row():
    file = io.StringIO()
    rows = [["bad\rfilm", 1], ["good", 2], ["a\nb", 3]]
    assert write_csv(file, ["text", "number"], rows) == 3
    read = list(csv.reader(io.StringIO(file.getvalue(), newline="")))
    assert read == [["text", "number"], *([text, str(number)] for text, number in rows)]
    assert "\ngood,2\n" in file.getvalue()


class Closed(io.StringIO):
    """What a reader such as `head` has closed: the first write fails, or what is flushed at the end."""

    def __init__(self, fails: str, below: io.TextIOBase) -> None:
        super().__init__()
        self.fails, self.below = fails, below

    def fileno(self) -> int:  # of which rich and `main` make a file that takes everything
        return self.below.fileno()

    def write(self, words: str) -> int:
        return self._broken("write") or len(words)

    def flush(self) -> None:
        self._broken("flush")

    def _broken(self, name: str) -> None:
        if self.fails == name:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")


@pytest.mark.parametrize("fails", ["write", "flush"])
@pytest.mark.parametrize("arguments", [["list"], ["list", "--json"], ["--help"]], ids=" ".join)
def test_a_reader_that_has_seen_enough_is_no_failure(fails, arguments, monkeypatch):
    with open(os.devnull, "w") as below:
        monkeypatch.setattr(sys, "stdout", Closed(fails, below))
        with pytest.raises(SystemExit) as left:
            cli.main(arguments)
    assert left.value.code == 0


@pytest.mark.slow
def test_files_do_not_steer_a_terminal_or_a_reader_either(tmp_path, monkeypatch):
    """Labels, texts and names of others in every file of a model, of a report and of an explanation."""
    monkeypatch.chdir(tmp_path)
    rows = [f"a {word} film {number},{word}{HOSTILE}" for word in ("dull", "warm") for number in range(20)]
    data = f"d{HOSTILE}.csv"
    Path(data).write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    code, _, err = run(monkeypatch, "utf-8", "train", data, "--method=none", "--steps=2", "--out=m")
    assert code == 0, err
    shutil.copytree(GOLDEN / "comparison", "c")
    about = About.read("c")
    replace(about, data={**about.data, "name": data}, command=f"vnait {data}").write("c")
    report.write("c")
    labels = [HOSTILE, "b"]
    TextClassifier("tfidf").fit([f"dull{HOSTILE}", "warm"] * 9, labels * 9).save("t")
    for ending in ("svg", "html"):
        out = f"--out=e.{ending}"
        assert run(monkeypatch, "utf-8", "explain", MODEL, f"a dull{HOSTILE} film", out)[0] == 0
    kinds = (".md", ".html", ".json", ".jsonl", ".svg")
    paths = [path for path in Path().rglob("*") if path.suffix in kinds and path.name != "tokenizer.json"]
    assert len(paths) > 8
    for path in paths:
        text = re.sub("<script>.*?</script>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert safe(text) == text, path  # beside plotly.js, which has such characters itself
    assert TextClassifier.load("t").classes_.tolist() == labels  # JSON gives back what was escaped
    assert saved.record_in(Path("m")).data["name"] == data


def test_progress_without_a_terminal_is_a_line_now_and_then_also_while_nothing_is_counted(
    monkeypatch, capsys
):
    monkeypatch.setattr("vnait.cli.progress.LINE_SECONDS", 0.02)

    def lines_while(*moves: tuple[int, int]) -> list[str]:
        with progress(False, "training") as move:
            for done, total in moves:
                move(done, total, "")
            time.sleep(0.2)
        return capsys.readouterr().err.splitlines()

    assert lines_while()[0] == "vnait: training: 0 s so far"
    assert re.fullmatch(r"vnait: training: 3 of 9 done, about \d+ s left", lines_while((1, 9), (3, 9))[0])
    assert "9 of 9 done, finishing" in lines_while((1, 9), (9, 9))[-1]
    with progress(True, "training") as move:
        move(1, 2, "")
    assert capsys.readouterr().err == ""


def test_a_command_goes_on_where_nobody_reads_standard_error(monkeypatch):
    read, write = os.pipe()
    os.close(read)
    with open(write, "w", buffering=1, encoding="utf-8") as stream:  # as after 2>&1 | true
        monkeypatch.setattr(sys, "stderr", stream)
        with pytest.raises(SystemExit) as end:
            cli.main(["no-such-command"])
        set_up_logging(quiet=False)
        logging.getLogger("vnait").warning("a note")
        echo("progress", file=sys.stderr)
    assert end.value.code == 2
