"""`vnait study NAME` as a user calls it, for every study."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from helpers import TINY_SIZES
from vnait.cli import main
from vnait.train.run import Run
from vnait_lab import runners, studies
from vnait_lab.study import Verdict
from vnait_lab.suites import algorithmic, decoding, few_labels, length


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(length, "QUICK", length.Setting(**TINY_SIZES))
    monkeypatch.setattr(algorithmic, "QUICK", algorithmic.Setting(**TINY_SIZES))
    monkeypatch.setattr(decoding, "QUICK", decoding.Setting(**TINY_SIZES))
    monkeypatch.setattr(few_labels, "RUN", Run(validation=0, steps=1, num_layers=1))
    monkeypatch.setenv("VNAIT_DATA", str(tmp_path / "data"))
    folder = tmp_path / "data" / "trec"
    folder.mkdir(parents=True)
    rows = [
        f"how many {word} are there ,NUM\nwho was the first {word} ,HUM" for word in "abcdefghijklmnopqrst"
    ]
    for name in ("train", "test"):
        (folder / f"{name}.csv").write_text("text,label\n" + "\n".join(rows) + "\n")


@pytest.mark.parametrize(
    ("name", "task", "method", "shown"),
    [
        ("length", "half", "vnait", "500 tokens"),
        ("elastic", "middle", "vnait", "500 tokens"),
        ("algorithmic", "parity_check", "vnait", "accuracy"),
        ("decoding", "parity", "vnait-causal", "mrr"),
        ("few-labels", "trec", "vnait", "area"),
    ],
)
def test_a_study_runs_shows_and_resumes(
    name: str, task: str, method: str, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = (
        f"study {name} --quick --methods none,{method} --tasks {task} --seeds 1 --jobs 1 --quiet".split()
    )
    command += ["--out", str(out)]
    main(command)
    printed = capsys.readouterr().out
    assert shown in printed and f"{method}: undecided" in printed and f"records: {out}" in printed
    kept = {path: path.read_text() for path in out.rglob("records.jsonl")}
    assert kept
    main([*command, "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert {row["method"] for row in answer["rows"]} >= {"none", method}
    assert answer["verdicts"][method][0] == "undecided"
    assert kept == {path: path.read_text() for path in out.rglob("records.jsonl")}


def test_a_quick_look_decides_nothing() -> None:
    options = runners.Options(
        methods=[], tasks=[], seeds=3, quick=True, base=None, corpus=None, out=Path(), jobs=1, callback=print
    )
    verdict = Verdict("refuted", "50.0 % on average")
    assert runners._judged(options, verdict) == Verdict(
        "undecided", "50.0 % on average; --quick is a look and decides nothing"
    )
    assert runners._judged(replace(options, quick=False), verdict) == verdict


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ["widths"],
            "unknown study 'widths'. Choose from all, length, elastic, algorithmic, decoding, few-labels, "
            "language, ",
        ),
        (["length", "hamming"], "length is a suite with its own options; run it alone"),
        (
            ["length", "--corpus", "a.txt"],
            "--corpus is for language, and length has its own texts; leave it out",
        ),
        (["hamming", "--seeds", "3"], "a short study has its own variants and seeds"),
    ],
)
def test_wrong_use_is_one_sentence(
    given: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["study", *given, "--out", str(tmp_path / "out")])
    assert stopped.value.code == 2 and said in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


def test_a_study_without_its_data_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VNAIT_DATA", str(tmp_path))
    with pytest.raises(SystemExit) as stopped:
        main(["study", "horizons", "--out", str(tmp_path / "out")])
    error = " ".join(capsys.readouterr().err.split())
    assert stopped.value.code == 2 and error.count("horizons") == error.count("vnait:") == 1
    assert f"there is no {tmp_path}/etth1" in error.replace("/ ", "/") and not (tmp_path / "out").exists()


def test_a_short_study_draws_and_prints_its_verdicts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["study", "hamming", "--quick", "--quiet", "--out", str(tmp_path), "--jobs", "1"]
    main([*command, "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["claim"] for row in rows] == [claim.statement for claim in studies.load("hamming").claims]
    assert all(Path(row["figure"]).read_bytes().startswith(b"\x89PNG") for row in rows)
    main(command)
    shown, places = capsys.readouterr().out.split("\nrecords and figures: ")
    assert f"{len(rows)} claims: " in shown and max(map(len, shown.splitlines())) <= 80
    assert places == f"{tmp_path}\nreport: {tmp_path}/report.html\n"


def test_the_list_has_every_study(capsys: pytest.CaptureFixture[str]) -> None:
    main(["study", "list", "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["study"] for row in rows] == [*studies.NAMES, *runners.SUITES]
    main(["study", "list"])
    assert "Dog bites man" in capsys.readouterr().out


def test_few_labels_asks_for_its_data(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("VNAIT_DATA")
    with pytest.raises(SystemExit):
        main(["study", "few-labels"])
    assert "VNAIT_DATA is not set; set it to a folder" in capsys.readouterr().err
