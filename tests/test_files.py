"""Files and folders appear whole or not at all: an exception, a full disk or a kill leaves the old one, and
no draft. Packed files are unpacked up to a limit.
"""

import contextlib
import errno
import gzip
import os
import signal
import subprocess
import sys
import tempfile
import tracemalloc
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors import SafetensorError

from vnait import cli, data
from vnait.data import vectors
from vnait.shared.errors import InputError
from vnait.shared.files import (
    UNPACK_LIMIT,
    atomic_file,
    atomic_folder,
    check_replaceable,
    fingerprint,
    locked,
    unpacked,
    writing,
)

FULL = OSError(errno.ENOSPC, "No space left on device")


def tree(folder: Path) -> dict[str, str]:
    """Every file below the folder with its content, and every folder."""
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else "/"
        for path in sorted(folder.rglob("*"))
    }


def put(draft: Path, content: str, kind) -> None:
    (draft / "weights" if kind is atomic_folder else draft).write_text(content)


@pytest.fixture(params=[atomic_file, atomic_folder], ids=["file", "folder"])
def kind(request):
    return request.param


@pytest.fixture(params=["over an old one", "where nothing was"])
def target(request, kind, tmp_path) -> Path:
    path = tmp_path / "room" / "model.bin"
    if request.param == "over an old one":
        with kind(path) as draft:
            put(draft, "old", kind)
            if kind is atomic_folder:
                (draft / "notes").write_text("old notes")
    else:
        path.parent.mkdir()
    return path


def test_the_new_one_takes_the_place_of_all_that_was_there(kind, target):
    with kind(target) as draft:
        put(draft, "new", kind)
    expected = {"model.bin": "new"} if kind is atomic_file else {"model.bin": "/", "model.bin/weights": "new"}
    assert tree(target.parent) == expected


@pytest.mark.parametrize("error", [RuntimeError("ours"), KeyboardInterrupt()], ids=["exception", "Ctrl-C"])
def test_an_exception_in_the_middle_passes_and_changes_nothing(kind, target, error):
    before = tree(target.parent)
    with pytest.raises(type(error)) as caught, kind(target) as draft:
        put(draft, "half", kind)
        raise error
    assert caught.value is error
    assert tree(target.parent) == before


@pytest.mark.parametrize(
    "error",
    [
        FULL,
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
        RuntimeError(
            "[enforce fail at inline_container.cc:863] . PytorchStreamWriter failed writing file data/0"
        ),
    ],
    ids=["system", "safetensors", "torch"],
)
def test_a_full_disk_is_one_sentence_and_changes_nothing(kind, target, error):
    before = tree(target.parent)
    with pytest.raises(InputError) as caught, kind(target) as draft:
        put(draft, "half", kind)
        raise error
    assert str(caught.value).startswith(f"{target} was not written: ") and "\n" not in str(caught.value)
    assert tree(target.parent) == before


def test_a_runtime_error_that_is_no_full_disk_keeps_its_traceback(target):
    with pytest.raises(RuntimeError, match="shapes"), writing(target):
        raise RuntimeError("the shapes do not fit")


def test_the_old_one_comes_back_where_the_last_rename_fails(kind, target, monkeypatch):
    before, rename = tree(target.parent), os.replace

    def refuse(source, destination):
        if Path(destination) == target and Path(source).name == target.name:
            raise FULL
        rename(source, destination)

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(InputError, match="No space left"), kind(target) as draft:
        put(draft, "new", kind)
    assert tree(target.parent) == before


def test_a_draft_lies_on_the_same_disk_and_out_of_sight(kind, tmp_path):
    target = tmp_path / "model"
    with kind(target) as draft:
        put(draft, "new", kind)
        assert draft.name == target.name  # writers that look at the ending see the right one
        assert draft.parent.parent == tmp_path and draft.parent.name.startswith(".")
        assert not target.exists()


def test_the_disk_has_the_content_before_the_rename_and_the_name_after_it(kind, target, monkeypatch):
    """Files are known by their inodes, which a rename does not change."""
    events, rename = [], os.replace
    monkeypatch.setattr(os, "fsync", lambda number: events.append(os.fstat(number).st_ino))

    def watched(source, destination):
        rename(source, destination)
        if Path(destination) == target:
            events.append("renamed")

    monkeypatch.setattr(os, "replace", watched)
    with kind(target) as draft:
        put(draft, "new", kind)
        if kind is atomic_folder:
            (draft / "base").mkdir()
            put(draft / "base", "inner", kind)
    before, after = events[: events.index("renamed")], events[events.index("renamed") + 1 :]
    assert {path.stat().st_ino for path in (target, *target.rglob("*"))} <= {*before}
    assert after == [target.parent.stat().st_ino]


def test_parents_are_made(kind, tmp_path):
    target = tmp_path / "a" / "b" / "model"
    with kind(target) as draft:
        put(draft, "new", kind)
    assert target.exists()


def test_a_place_that_is_no_folder_is_refused_before_anything_is_written(kind, tmp_path):
    (tmp_path / "taken").write_text("a file")
    with (
        pytest.raises(InputError, match=r"can't write .*taken/model: .*Choose another place"),
        kind(tmp_path / "taken" / "model"),
    ):
        pytest.fail("the block must not run")
    assert tree(tmp_path) == {"taken": "a file"}


def test_a_kill_leaves_the_old_file_readable(tmp_path):
    target = tmp_path / "model"
    target.write_text("old")
    script = (
        "import os, sys\nfrom vnait.shared.files import atomic_file\n"
        "with atomic_file(sys.argv[1]) as draft:\n    draft.write_text('half')\n    os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(target)])
    assert done.returncode == -signal.SIGKILL
    assert target.read_text() == "old"


# What packed files unpack to


def zeros(mib: int) -> bytes:
    """A gzip file of so many MiB of zeros, a thousandth as long."""
    return gzip.compress(bytes(1 << 20)) * mib


def parquet(path: Path) -> Path:
    """8,000 rows of the same 100,000 letters, which a dictionary stores once: 800 MB from some kilobytes."""
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 8_000, pa.int32()), pa.array(["a" * 100_000]))
    pq.write_table(pa.table({"text": column, "label": column}), path, store_schema=False)
    return path


def excel(path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", bytes(80 << 20))
    return path


BOMBS = {
    "table.csv": lambda path: path.with_suffix(".csv.gz").write_bytes(zeros(80)),
    "table.jsonl": lambda path: path.with_suffix(".jsonl.gz").write_bytes(zeros(80)),
    "table.parquet": parquet,
    "table.xlsx": excel,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_packed_table_is_not_unpacked_beyond_the_limit(name, tmp_path, monkeypatch):
    BOMBS[name](tmp_path / name)
    (path,) = tmp_path.iterdir()
    assert path.stat().st_size < 200_000
    monkeypatch.setenv(UNPACK_LIMIT, "0.05")
    tracemalloc.start()
    try:
        with pytest.raises(
            InputError, match=r"unpacks to more than 0.05 GiB. If you trust it, allow more"
        ) as error:
            data.read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert str(path) in str(error.value) and peak < 130 << 20


def test_vectors_are_not_unpacked_beyond_the_limit(tmp_path, monkeypatch):
    path = tmp_path / "v.gz"
    path.write_bytes(gzip.compress(b"3 2\n" + b"a 1 2\n") + zeros(80))
    with pytest.raises(InputError, match="has a line of more than 8,388,608 bytes; get it again"):
        vectors.load(path, ["a"])
    monkeypatch.setenv(UNPACK_LIMIT, "0.002")
    path.write_bytes(gzip.compress(b"a 1 2\n" * (1 << 20)))
    with pytest.raises(InputError, match=r"unpacks to more than 0\.002 GiB"):
        vectors.load(path, ["a"])
    monkeypatch.setenv(UNPACK_LIMIT, "0.2")
    assert vectors.load(path, ["a"]).table.tolist() == [[1, 2]]
    path.write_bytes(gzip.compress(b"9 999999999999\n") + zeros(8))
    with pytest.raises(InputError, match=r"0 of the 9 .*no file has vectors 999,999,999,999 wide"):
        vectors.load(path)


@pytest.mark.slow
def test_the_usual_limit_and_the_option(tmp_path, monkeypatch, capsys):
    """Its files are small enough for any reader; what they unpack to is counted without being held."""
    path = tmp_path / "table.csv.gz"
    for name, content in (("table.csv.gz", zeros(1100)), ("small.csv.gz", gzip.compress(b"text\na\n"))):
        (tmp_path / name).write_bytes(content)
    monkeypatch.delenv(UNPACK_LIMIT, raising=False)
    with path.open("rb") as file, pytest.raises(InputError, match="unpacks to more than 1 GiB"):
        stream = unpacked(gzip.GzipFile(fileobj=file), path, 1)
        while stream.read(1 << 20):
            pass
    monkeypatch.setenv(UNPACK_LIMIT, "")  # restored after the option has set it
    for given, message in (("0.01", "unpacks to more than 0.01 GiB"), ("nan", "more than nan GiB")):
        with pytest.raises(SystemExit):
            cli.main([f"--unpack-limit={given}", "predict", str(tmp_path), str(path)])
        assert message in capsys.readouterr().err
    monkeypatch.setenv(UNPACK_LIMIT, "much")
    with pytest.raises(InputError, match="VNAIT_UNPACK_LIMIT is 'much'; give a number of GiB"):
        data.read(tmp_path / "small.csv.gz", label=None)


# One process a folder

HOLDER = """
import sys
from vnait.shared.files import locked
with locked(sys.argv[1]):
    print("holds", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def holder(folder: Path):
    """A process that writes to the folder until it is killed."""
    command = [sys.executable, "-c", HOLDER, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "holds\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_folder_has_one_writer_and_a_killed_one_blocks_nobody(tmp_path):
    out = tmp_path / "out"
    with holder(out) as process:
        message = rf"out is being written by the process {process.pid} on \S+\. Wait for it or stop it, "
        for _ in range(2):
            with pytest.raises(InputError, match=message), locked(out):
                pass
    assert process.returncode == -signal.SIGKILL and (out / ".lock").exists()
    with locked(out), locked(out):
        (out / "result").write_text("whole")
    assert tree(tmp_path) == {"out": "/", "out/result": "whole"}


def test_a_lock_leaves_no_folder_behind_and_one_that_ends_frees_it(tmp_path):
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), locked(tmp_path / "out"):
            raise ZeroDivisionError
    assert tree(tmp_path) == {}
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"can't write .*file: File exists"), locked(tmp_path / "file"):
        pass


@pytest.mark.slow
def test_the_commands_share_no_folder(tmp_path, capsys):
    (tmp_path / "made.csv").write_text("text,label\n" + "warm film,pos\ndull plot,neg\n" * 20)
    made = str(tmp_path / "made.csv")
    commands = {
        tmp_path / "out": [
            "compare",
            made,
            "--methods=none",
            "--seeds=1",
            "--jobs=1",
            "--steps=2",
            f"--out={tmp_path}/out",
        ],
        tmp_path / "model.checkpoints": ["train", made, "--steps=2", f"--out={tmp_path}/model"],
    }
    for folder, command in commands.items():
        with holder(folder) as process:
            with pytest.raises(SystemExit) as left:
                cli.main([*command, "--steps=2", "--quiet"])
            said = capsys.readouterr()
        assert left.value.code == 2 and said.out == "" and said.err.count("\n") == 1
        assert f"is being written by the process {process.pid} on " in said.err
        assert [path.name for path in folder.iterdir()] == [".lock", ".lock.owner"]
        cli.main([*command, "--steps=2", "--quiet"])
        capsys.readouterr()
    assert (tmp_path / "out/records.jsonl").is_file() and not (tmp_path / "out/.lock").exists()
    assert (tmp_path / "model/config.json").is_file() and not (tmp_path / "model.checkpoints").exists()


def test_what_a_killed_process_left_of_a_file_is_replaced_with_the_folder(tmp_path):
    for name in ("config.json", ".config.json.p0xibc19", ".app.py.miuonxzl"):
        (tmp_path / name).mkdir()
    with pytest.raises(InputError, match=r"other files in it \(.app.py.miuonxzl\)"):
        check_replaceable(tmp_path, ["*.json"], "a model")
    (tmp_path / ".app.py.miuonxzl").rmdir()
    check_replaceable(tmp_path, ["*.json"], "a model")


def test_a_fingerprint_is_of_the_files_in_folders_too(tmp_path):
    (tmp_path / "part").mkdir()
    (tmp_path / "modules.json").write_text("{}")
    before = fingerprint(tmp_path)
    (tmp_path / "part" / "weights").write_text("1")
    with_part = fingerprint(tmp_path)
    (tmp_path / "part" / "weights").write_text("2")
    assert len({before, with_part, fingerprint(tmp_path)}) == 3
    (tmp_path / ".cache").mkdir()
    (tmp_path / "part" / "weights").write_text("1")
    (tmp_path / ".cache" / "lock").write_text("")
    assert fingerprint(tmp_path) == with_part


def test_a_link_stays_a_link_to_the_new_content(kind, target, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(target)
    with kind(link) as draft:
        put(draft, "new", kind)
    assert link.is_symlink()
    assert tree(target if kind is atomic_folder else target.parent) == {
        "weights" if kind is atomic_folder else "model.bin": "new"
    }


def test_a_pipe_is_not_replaced(kind, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="is a device or a pipe, which would be replaced"), kind(pipe):
        pytest.fail("nothing may be written")
    assert pipe.is_fifo()


# What killed commands leave


KILLED = """
import os, sys
from vnait.shared import files
kind = getattr(files, sys.argv[2])
if sys.argv[3] == "renaming":
    real = os.replace
    def replace(source, target):
        real(source, target)
        if str(target).endswith(".old"):
            os.kill(os.getpid(), 9)
    os.replace = replace
with kind(sys.argv[1]) as draft:
    (draft / "weights" if kind is files.atomic_folder else draft).write_text("new")
    if sys.argv[3] == "writing":
        os.kill(os.getpid(), 9)
    print("holds", flush=True)
    if sys.argv[3] == "alive":
        input()
"""


def killed(target: Path, kind, where: str) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(target), kind.__name__, where], stdout=subprocess.PIPE)


def test_the_next_command_removes_the_drafts_of_killed_ones(kind, tmp_path):
    target = tmp_path / "a [model]"
    for _ in range(2):
        killed(target, kind, "writing")
    assert len(list(tmp_path.iterdir())) == 1  # the second one has removed what the first one left
    with kind(target) as draft:
        put(draft, "whole", kind)
    assert list(tmp_path.iterdir()) == [target]


def test_the_next_command_in_a_folder_removes_drafts_of_what_it_does_not_write(kind, tmp_path):
    killed(tmp_path / "model", kind, "writing")
    assert len(list(tmp_path.iterdir())) == 1
    with locked(tmp_path):
        (tmp_path / "report.html").write_text("new")
    assert list(tmp_path.iterdir()) == [tmp_path / "report.html"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_draft_whose_process_was_killed_before_it_had_the_lock_is_removed(kind, tmp_path):
    tempfile.mkdtemp(prefix=".model.", dir=tmp_path)
    with kind(tmp_path / "model") as draft:
        put(draft, "whole", kind)
    assert list(tmp_path.iterdir()) == [tmp_path / "model"]


def test_a_draft_that_is_being_written_stays(kind, tmp_path):
    target = tmp_path / "model"
    command = [sys.executable, "-c", KILLED, str(target), kind.__name__, "alive"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "holds\n"
        with kind(target) as draft:
            put(draft, "other", kind)
        process.communicate("\n", timeout=30)
    assert process.returncode == 0 and list(tmp_path.iterdir()) == [target]
    assert (target / "weights" if kind is atomic_folder else target).read_text() == "new"


def test_a_kill_between_two_renames_loses_no_result(tmp_path):
    target = tmp_path / "model"
    with atomic_folder(target) as draft:
        put(draft, "old", atomic_folder)
    killed(target, atomic_folder, "renaming")
    assert not target.exists()
    with pytest.raises(ZeroDivisionError), atomic_folder(target):
        raise ZeroDivisionError
    assert tree(tmp_path) == {"model": "/", "model/weights": "new"}


def test_folders_of_others_with_such_a_name_stay(kind, tmp_path):
    (tmp_path / ".model.mynotes1").mkdir()
    with kind(tmp_path / "model") as draft:
        put(draft, "whole", kind)
    assert (tmp_path / ".model.mynotes1").is_dir()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
@pytest.mark.parametrize("mask", [0o022, 0o027, 0o002])
def test_all_files_have_the_modes_of_new_ones(kind, mask, tmp_path):
    before = os.umask(mask)
    try:
        with kind(tmp_path / "model") as draft:
            put(draft, "whole", kind)
            (draft / "weights" if kind is atomic_folder else draft).chmod(0o600)
    finally:
        os.umask(before)
    modes = {path.is_dir(): path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {False: 0o666 & ~mask} | ({True: 0o777 & ~mask} if kind is atomic_folder else {})


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes on Linux alone")
def test_a_name_that_is_not_utf_8(tmp_path, capsys):
    source = tmp_path / os.fsdecode(b"caf\xe9.csv")
    source.write_text("text,label\n" + "warm film,pos\ndull plot,neg\n" * 20)
    with pytest.raises(SystemExit) as left:
        cli.main(["train", str(source), "--method=none", "--steps=2", "--out", str(tmp_path / "m\udce9")])
    error = capsys.readouterr().err
    assert left.value.code == 2 and "is not UTF-8" in error and error.count("\n") == 1
    cli.main(["train", str(source), "--method=none", "--steps=2", "--out", str(tmp_path / "m"), "--quiet"])
    assert "caf\ufffd.csv" in (tmp_path / "m" / "record.json").read_text(encoding="utf-8")
    cli.main(["predict", str(tmp_path / "m"), str(source), "--out", str(tmp_path / "o\udce9.csv")])
    assert (tmp_path / "o\udce9.csv").is_file()
