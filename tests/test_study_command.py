"""`vnait study NAME` as a user calls it, for every study."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vnait.cli import main
from vnait.studies import STUDIES
from vnait.suites import algorithmic, few_labels, length
from vnait.train import Run

SMALL = {"steps": 2, "batch": 4, "tests": 5, "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(length, "QUICK", length.Setting(**SMALL))
    monkeypatch.setattr(algorithmic, "QUICK", algorithmic.Setting(**SMALL))
    monkeypatch.setattr(few_labels, "RUN", Run(validation=0, steps=1, num_layers=1))
    monkeypatch.setenv("VNAIT_DATA", str(tmp_path / "data"))
    folder = tmp_path / "data" / "trec"
    folder.mkdir(parents=True)
    rows = [f"how many {word} are there ,NUM\nwho was the first {word} ,HUM" for word in "abcdefghijklmnopqrst"]
    for name in ("train", "test"):
        (folder / f"{name}.csv").write_text("text,label\n" + "\n".join(rows) + "\n")


@pytest.mark.parametrize(
    ("name", "task", "shown"),
    [("length", "half", "500 tokens"), ("algorithmic", "parity_check", "accuracy"), ("few-labels", "trec", "area")],
)
def test_a_study_runs_shows_and_resumes(
    name: str, task: str, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = ["study", name, "--quick", "--methods", "none,vnait", "--tasks", task, "--seeds", "1", "--jobs", "1"]
    command += ["--out", str(out), "--quiet"]
    main(command)
    printed = capsys.readouterr().out
    assert shown in printed and "vnait: undecided" in printed and f"records: {out}" in printed
    kept = {path: path.read_text() for path in out.rglob("records.jsonl")}
    assert kept
    main([*command, "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert {row["method"] for row in answer["rows"]} >= {"none", "vnait"}
    assert answer["verdicts"]["vnait"][0] == "undecided"
    assert kept == {path: path.read_text() for path in out.rglob("records.jsonl")}


def test_an_unknown_study_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["study", "widths"])
    assert stopped.value.code == 2
    assert f"the study 'widths' is not known; take one of {', '.join(STUDIES)}" in capsys.readouterr().err


def test_few_labels_asks_for_its_data(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("VNAIT_DATA")
    with pytest.raises(SystemExit):
        main(["study", "few-labels"])
    assert "VNAIT_DATA is not set; set it to a folder" in capsys.readouterr().err
