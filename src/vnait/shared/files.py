"""Files and folders written whole or not at all, by one process; limits on what packed files unpack to."""

import hashlib
import io
import os
import platform
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from fnmatch import fnmatch
from glob import escape
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from safetensors import SafetensorError

from vnait.shared.errors import InputError, has_surrogate, whole

UNPACK_LIMIT = "VNAIT_UNPACK_LIMIT"  # GiB, instead of the usual limits; a variable, so that workers have it
GIB = 2**30
LOCK = ".lock"  # in a draft's folder


def home(path: str | os.PathLike[str]) -> str:
    """A path as a string, with the home folder for ~, which a shell leaves in --out=~/model."""
    return os.path.expanduser(os.fspath(path))


@contextmanager
def atomic_file(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, which replaces `path` unless the block raises.

    A link stays a link, to the new file. InputError for what is not a file, such as a device or a pipe.
    """
    target = _real(path)
    with _beside(target) as draft:
        yield draft
        _usual_modes(draft)
        sync(draft)
        os.replace(draft, target)
        sync(target.parent)


@contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`, which replaces `path` unless the block raises."""
    target = _real(path)
    with _beside(target) as draft:
        draft.mkdir()
        yield draft
        _usual_modes(draft, *draft.rglob("*"))
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


def _usual_modes(*paths: Path) -> None:
    """Give files and folders the modes of new ones, though safetensors writes for the owner alone."""
    probe = paths[0].parent / "probe"
    probe.mkdir()  # the process's mask can be set, but not read
    mode = probe.stat().st_mode & 0o777
    probe.rmdir()
    for path in paths:
        if not path.is_symlink():
            path.chmod(mode if path.is_dir() else mode & 0o666)


def _real(path: str | Path) -> Path:
    """What is replaced: where a link leads."""
    target = Path(home(path))
    target = target.resolve() if target.is_symlink() else target
    if target.exists() and not (target.is_file() or target.is_dir()):
        raise InputError(f"{path} is a device or a pipe, which would be replaced; give the name of a file.")
    return target


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


def fingerprint(source: str | Path) -> str:
    """Sixteen hexadecimal digits: a hash of the files in a folder and in those of its folders that are not
    hidden, of a file, or of a name that is neither.
    """
    path = Path(home(source))
    files = {path.name: path} if path.is_file() else {}
    if path.is_dir():
        inside = {file.relative_to(path): file for file in path.rglob("*") if file.is_file()}
        files = {
            name.as_posix(): file
            for name, file in inside.items()
            if not any(part.startswith(".") for part in name.parts[:-1])
        }
    digest = hashlib.sha256(b"" if files else str(source).encode())
    for name, file_path in sorted(files.items()):
        with file_path.open("rb") as file:
            digest.update(name.encode() + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]


def check_replaceable(folder: str | Path, written: Sequence[str], what: str) -> None:
    """Raise InputError if the folder has files other than `written` (names or patterns), which would be lost.

    what   what is to be saved there, for the message
    """
    path = Path(home(folder))
    if has_surrogate(str(path)):
        raise InputError(
            f"the name of the folder {whole(str(path))} is not UTF-8, and {what} has files that are read by "
            "names in UTF-8; choose another name."
        )
    if path.is_file():
        raise InputError(f"{path} is a file; {what} is saved as a folder. Choose another name.")
    entries = sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []
    ours = [*written, *(f".{name}.*" for name in written)]  # what a killed process left of `_beside`, too
    if lost := next((name for name in entries if not any(fnmatch(name, pattern) for pattern in ours)), None):
        raise InputError(
            f"{path} is a folder with other files in it ({lost}), which saving {what} would remove; "
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


_held: ContextVar[frozenset[Path]] = ContextVar("held", default=frozenset())


@contextmanager
def locked(folder: str | Path) -> Iterator[None]:
    """Be the only process that writes to the folder; InputError if another one does.

    The system releases the lock when the process ends, even if it is killed.
    A block inside a block for the same folder does nothing.
    """
    path = Path(home(folder)).absolute()
    if path in _held.get():
        yield
        return
    with _creating(path):
        path.mkdir(parents=True, exist_ok=True)
    mark, owner = path / LOCK, path / f"{LOCK}.owner"
    lock = FileLock(mark, timeout=0)
    try:
        with _creating(path):
            lock.acquire()
    except Timeout as error:
        who = owner.read_text(encoding="utf-8") if owner.is_file() else "of another user"
        raise InputError(
            f"{folder} is being written by the process {who}. Wait for it or stop it, then give the same "
            "command again; or name another folder with --out."
        ) from error
    before = _held.set(_held.get() | {path})
    try:
        _clear(path)
        with writing(path):
            owner.write_text(f"{os.getpid()} on {platform.node()}", encoding="utf-8")
        yield
    finally:
        _held.reset(before)
        for file in (owner, mark):  # while it is held: afterwards it could be another's
            with suppress(OSError):
                file.unlink(missing_ok=True)
        lock.release()
        with suppress(OSError):
            path.rmdir()  # if nothing was written


def check_unpacked(path: Path, size: int, usual: int) -> None:
    """Raise InputError if a packed file unpacks to more bytes than `usual` GiB, or than VNAIT_UNPACK_LIMIT.

    A few megabytes can unpack to more than the memory (DEFLATE packs up to 1032 to 1).
    """
    setting = os.environ.get(UNPACK_LIMIT, str(usual))
    try:
        limit = float(setting) * GIB
    except ValueError as error:
        raise InputError(f"{UNPACK_LIMIT} is {setting!r}; give a number of GiB, such as 4.") from error
    if not size <= limit:
        raise InputError(
            f"{path} unpacks to more than {setting} GiB. If you trust it, allow more: vnait --unpack-limit "
            f"GIB before the command, or the variable {UNPACK_LIMIT} in Python."
        )


def unpacked(content: Any, path: Path, usual: int) -> io.BufferedReader:
    """What the reader of a packed file gives, up to what `check_unpacked` allows."""
    return io.BufferedReader(_Unpacked(content, path, usual), 1 << 16)


class _Unpacked(io.RawIOBase):
    def __init__(self, content: Any, path: Path, usual: int) -> None:
        self.content, self.path, self.usual = content, path, usual
        self.size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        # read1 gives the bytes before the cut of a damaged file; read would raise and lose them.
        chunk = self.content.read1(len(buffer))
        self.size += len(chunk)
        check_unpacked(self.path, self.size, self.usual)
        buffer[: len(chunk)] = chunk
        return len(chunk)


@contextmanager
def _creating(target: Path) -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        raise
    except OSError as error:
        raise InputError(f"can't write {target}: {error.strerror}. Choose another place.") from error


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    with _creating(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _clear(target.parent, escape(target.name))
        room, lock = _room(target)
    try:
        with writing(target):
            yield room / target.name
    finally:
        lock.release()
        with suppress(OSError):
            shutil.rmtree(room)


def _room(target: Path) -> tuple[Path, FileLock]:
    """A new folder beside the target, and the lock that this process holds in it as long as it lives."""
    while True:
        room = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        lock = FileLock(room / LOCK, timeout=0)
        with suppress(Timeout, FileNotFoundError):  # another process took it for an old one, and removes it
            lock.acquire()
            if room.is_dir():
                return room, lock


def _clear(folder: Path, name: str = "*") -> None:
    """Remove what killed processes left of drafts of the targets in a folder whose names match; a whole one
    that was about to replace its target, whose old files it had moved away, does so.
    """
    for room in folder.glob(f".{name}.????????"):
        target = folder / room.name[1:-9]
        if not (room / LOCK).is_file():
            with suppress(OSError):
                if stat.S_IMODE(room.stat().st_mode) == 0o700:  # as `_room` makes it, just before the lock
                    room.rmdir()  # unless something is in it
            continue
        with suppress(OSError, Timeout), FileLock(room / LOCK, timeout=0):
            if (room / f"{target.name}.old").exists() and not target.exists():
                os.replace(room / target.name, target)
            shutil.rmtree(room)
