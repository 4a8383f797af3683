"""Records: one line per run, whole lines only, and keys that mean the same run on every machine."""

import errno
import json
import os
from dataclasses import asdict, replace

import numpy as np
import pytest

from vnait.results import record as records
from vnait.results.record import Record, appending, read
from vnait.shared.errors import InputError
from vnait.shared.keys import key_of

ONE = Record(
    key="0123456789abcdef",
    method="vnait",
    seed=0,
    run={"steps": 4, "note": "数据 é\n"},
    data={"name": "d.csv", "rows": 12},
    metrics={"accuracy": 0.1 + 0.2, "mcc": -1.0},
    parameters=123,
    seconds=1.5,
    peak_memory=99.25,
    versions={"python": "3.11"},
    commit=None,
)
OTHER = replace(ONE, key="f" * 16, method="none", seed=1)


def written(path, *found: Record):
    with appending(path) as append:
        for record in found:
            append(record)
    return path


def test_what_is_written_is_read_to_the_last_bit(tmp_path):
    path = written(tmp_path / "deep" / "records.jsonl", ONE, OTHER)
    assert read(path) == [ONE, OTHER]
    lines = path.read_bytes().split(b"\n")
    assert len(lines) == 3 and lines[-1] == b""
    assert json.loads(lines[0]) == asdict(ONE)


def test_appending_goes_on_after_what_is_there(tmp_path):
    path = written(tmp_path / "r.jsonl", ONE)
    assert read(written(path, OTHER)) == [ONE, OTHER]


def test_each_record_is_on_the_disk_before_the_next_run(tmp_path):
    with appending(tmp_path / "r.jsonl") as append:
        append(ONE)
        assert read(tmp_path / "r.jsonl") == [ONE]


@pytest.mark.parametrize("length", [1, 40, -1], ids=["one byte", "some", "all but the line feed"])
def test_a_torn_last_line_is_passed_over_and_cut_before_the_next_append(tmp_path, length):
    path = written(tmp_path / "r.jsonl", ONE)
    whole = path.read_bytes()
    torn = (OTHER.line().encode() + b"\n")[:length]
    path.write_bytes(whole + torn)
    assert read(path) == [ONE]
    assert path.read_bytes() == whole + torn  # reading changes nothing
    written(path)
    assert path.read_bytes() == whole
    path.write_bytes(whole + torn)
    assert read(written(path, OTHER)) == [ONE, OTHER]


def test_a_file_of_one_torn_line_is_empty(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_bytes(ONE.line().encode()[:-5])
    assert read(path) == []
    assert read(written(path, ONE)) == [ONE]


def test_a_full_disk_tears_one_line_at_most(tmp_path, monkeypatch):
    path = written(tmp_path / "r.jsonl", ONE)

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        written(path, OTHER)
    monkeypatch.undo()
    assert read(path)[0] == ONE and read(written(path))[0] == ONE


@pytest.mark.parametrize(
    "broken",
    ["{half", "[]", '"text"', "{}", "\x00", '{"key": 1}'],
    ids=["torn", "list", "string", "empty", "nul", "few"],
)
def test_a_broken_line_in_the_middle_is_named(tmp_path, broken):
    path = tmp_path / "r.jsonl"
    path.write_text(f"{ONE.line()}\n{broken}\n{OTHER.line()}\n")
    with pytest.raises(InputError) as error:
        read(path)
    assert f"line 2 of {path} is not a record of this version" in str(error.value) and "\n" not in str(
        error.value
    )


def test_a_key_of_a_later_version_is_noted_and_left_out(tmp_path, caplog):
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps({**asdict(ONE), "colour": "blue"}) + "\n")
    assert read(path) == [ONE]
    assert "a record has the key 'colour', which this version does not know; it is ignored" in caplog.text


def test_numbers_of_numpy_are_numbers(tmp_path):
    record = replace(ONE, run={"steps": np.int64(4), "learning_rate": np.float64(0.5), "vectors": tmp_path})
    assert json.loads(record.line())["run"] == {"steps": 4, "learning_rate": 0.5, "vectors": str(tmp_path)}
    assert key_of(np.int64(4)) == key_of(4)


def test_keys_are_the_same_in_every_process_and_version():
    # Written down: with another key, every comparison that was interrupted starts again.
    assert key_of({"method": "vnait", "steps": None}, 0, "é") == "ea2d0154afcf81ea"


def test_keys_separate_settings_and_ignore_their_order():
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
    different = [
        key_of({"a": 1}),
        key_of({"a": 2}),
        key_of({"b": 1}),
        key_of({"a": "1"}),
        key_of({"a": 1}, None),
        key_of(),
    ]
    assert len(set(different)) == len(different)
    assert all(len(key) == 16 and int(key, 16) >= 0 for key in different)


def test_now_has_the_versions_of_the_run():
    facts = {
        name: value
        for name, value in asdict(ONE).items()
        if name not in ("peak_memory", "versions", "commit")
    }
    record = Record.now(**facts)
    assert {name: getattr(record, name) for name in facts} == facts
    assert 20 < record.peak_memory < 100_000  # MiB: a Python with numpy, on a machine of this world
    assert {"python", "vnait", "torch", "transformers"} <= set(record.versions)
    assert record.commit is None or len(record.commit) == 40


def test_outside_a_checkout_there_is_no_commit(monkeypatch):
    def fails(*given, **options):
        raise FileNotFoundError("git")

    records.checkout_commit.cache_clear()
    monkeypatch.setattr(records.subprocess, "run", fails)
    try:
        assert records.checkout_commit() is None
    finally:
        records.checkout_commit.cache_clear()
