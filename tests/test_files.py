"""Files and folders appear whole or not at all: an exception, a full disk or a kill leaves the old one, and
no draft.
"""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors import SafetensorError

from vnait.errors import InputError
from vnait.files import whole_file, whole_folder, writing

FULL = OSError(errno.ENOSPC, "No space left on device")


def tree(folder: Path) -> dict[str, str]:
    """Every file below the folder with its content, and every folder."""
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else "/"
        for path in sorted(folder.rglob("*"))
    }


def put(draft: Path, content: str, kind) -> None:
    (draft / "weights" if kind is whole_folder else draft).write_text(content)


@pytest.fixture(params=[whole_file, whole_folder], ids=["file", "folder"])
def kind(request):
    return request.param


@pytest.fixture(params=["over an old one", "where nothing was"])
def target(request, kind, tmp_path) -> Path:
    path = tmp_path / "room" / "model.bin"
    if request.param == "over an old one":
        with kind(path) as draft:
            put(draft, "old", kind)
            if kind is whole_folder:
                (draft / "notes").write_text("old notes")
    else:
        path.parent.mkdir()
    return path


def test_the_new_one_takes_the_place_of_all_that_was_there(kind, target):
    with kind(target) as draft:
        put(draft, "new", kind)
    expected = {"model.bin": "new"} if kind is whole_file else {"model.bin": "/", "model.bin/weights": "new"}
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
        if kind is whole_folder:
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


def test_a_place_that_is_no_folder_is_said_before_anything_is_written(kind, tmp_path):
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
        "import os, sys\nfrom vnait.files import whole_file\n"
        "with whole_file(sys.argv[1]) as draft:\n    draft.write_text('half')\n    os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(target)])
    assert done.returncode == -signal.SIGKILL
    assert target.read_text() == "old"
