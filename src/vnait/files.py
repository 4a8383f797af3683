"""Files and folders written whole or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path

from safetensors import SafetensorError

from vnait.errors import InputError


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, which replaces `path` unless the block raises."""
    target = Path(path)
    with _beside(target) as draft:
        yield draft
        sync(draft)
        os.replace(draft, target)
        sync(target.parent)


@contextmanager
def whole_folder(path: str | Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`, which replaces `path` unless the block raises."""
    target = Path(path)
    with _beside(target) as draft:
        draft.mkdir()
        yield draft
        sync(*draft.rglob("*"), draft)
        # A rename can't replace a folder that has files, so the old one is moved away first.
        aside = draft.with_name(draft.name + ".old")
        if target.exists():
            os.replace(target, aside)
        try:
            os.replace(draft, target)
        except OSError:
            if aside.exists():
                os.replace(aside, target)
            raise
        sync(target.parent)


def sync(*paths: Path) -> None:
    """Return once the disk has the content of these files, and the names in these folders.

    Before a rename, since a power cut could leave the new name with half of the content; and after it.
    """
    for path in paths:
        if path.is_file():
            with path.open("rb+") as file:
                os.fsync(file.fileno())
        else:
            with suppress(OSError):  # Windows and some network disks can't do it for a folder
                folder = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)


def check_replaceable(folder: str | Path, written: Sequence[str], what: str) -> None:
    """Raise InputError if the folder has files other than `written` (names or patterns), which would be lost.

    what   what is to be saved there, for the message
    """
    path = Path(folder)
    if path.is_file():
        raise InputError(f"{path} is a file; {what} is saved as a folder. Choose another name.")
    entries = sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []
    if other := next((name for name in entries if not any(fnmatch(name, one) for one in written)), None):
        raise InputError(
            f"{path} is a folder with other files in it ({other}), which saving {what} would remove; "
            "choose a new name."
        )


@contextmanager
def writing(target: str | Path) -> Iterator[None]:
    """Turn a failure to write `target`, of the system, safetensors or torch, into an InputError."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{target} was not written: {reason}. Nothing was changed there.") from error
    except RuntimeError as error:
        if "PytorchStreamWriter" not in str(error):
            raise
        raise InputError(f"{target} was not written: the disk is full. Nothing was changed there.") from error


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        room = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise InputError(f"can't write {target}: {error.strerror}. Choose another place.") from error
    try:
        with writing(target):
            yield room / target.name
    finally:
        with suppress(OSError):
            shutil.rmtree(room)
