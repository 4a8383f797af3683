"""A vector file as bytes: unpacked, without a byte-order mark; what it is if it is no vector file."""

import codecs
import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from zipfile import ZipFile

from vnait.data.decoding import DAMAGED, LFS, LFS_POINTER, PACKED
from vnait.shared.errors import InputError, one_line
from vnait.shared.files import unpacked

_MOST = 16  # GiB that a packed file may unpack to; only the rows wanted are held in memory
_PACKINGS = {b"\x1f\x8b": "gz", b"BZh91AY&SY": "bz2", b"\xfd7zXZ\0": "xz", b"PK\x03\x04": "zip"}
# The longest first: that of UTF-32 begins with that of UTF-16.
_OTHER_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
# No text begins with these bytes; what follows them may look like rows.
_BINARY = {
    b"\x28\xb5\x2f\xfd": "is packed by zstd; unpack it (zstd -d)",
    b"\x04\x22\x4d\x18": "is packed by lz4; unpack it (lz4 -d)",
    b"\x1f\x9d": "is packed by compress; unpack it (gzip -d)",
    b"7z\xbc\xaf\x27\x1c": "is a 7z archive; unpack it",
    b"Rar!\x1a": "is a RAR archive; unpack it",
    b"\x93NUMPY": "is a NumPy array, which has no words; save words and vectors as text",
    b"\x89HDF": "is an HDF5 file; save words and vectors as text",
    b"SQLite format 3\0": "is an SQLite database; save words and vectors as text",
    **{magic: f"has a {name} file inside; unpack it" for magic, name in _PACKINGS.items()},
}
_FOREIGN = {
    b"\x5d\0\0": "is packed by LZMA without a container; unpack it (xz -d)",
    b"PK": "is a zip archive without files; get it again",
    b"PAR1": "is a Parquet file; save words and vectors as text",
    LFS: LFS_POINTER,
    b"<": "is a web page or XML; get the file itself",
    b"{": "is JSON; save words and vectors as text",
    b"[": "is JSON; save words and vectors as text",
}


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader]:
    """`path` open for reading, unpacked and behind its byte-order mark; an InputError if that fails."""
    try:
        with path.open("rb") as file:
            packing = _packing(file)
            content = unpacked(PACKED[f".{packing}"](file), path, _MOST) if packing else file
            _skip_mark(content, path)
            yield content
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}; check the path of the vectors.") from error
    except (OSError, *DAMAGED) as error:
        reason = getattr(error, "strerror", None) or one_line(error)
        raise InputError(f"{path} can't be read: {reason}; check the path, or get the file again.") from error


def most_bytes(path: Path) -> int | None:
    """How many bytes the file has at most, unpacked; None if nothing limits them."""
    size = path.stat().st_size
    packing = packing_of(path)
    if packing == "zip":
        with ZipFile(path) as archive:
            return sum(part.file_size for part in archive.infolist())
    return {"": size, "gz": 1032 * size}.get(packing)  # DEFLATE packs up to 1032 to 1


def packing_of(path: Path) -> str:
    """What the file is packed with, by its content: gz, bz2, xz, zip, or "" for nothing."""
    with path.open("rb") as file:
        return _packing(file)


def _packing(file: io.BufferedReader) -> str:
    head = file.peek(10)
    return next((name for magic, name in _PACKINGS.items() if head.startswith(magic)), "")


def _skip_mark(file: io.BufferedReader, path: Path) -> None:
    with suppress(EOFError):  # a damaged file, which is named where its rows are read
        head = file.peek(4)
        if head.startswith(codecs.BOM_UTF8):
            file.read(len(codecs.BOM_UTF8))
        elif name := next((name for mark, name in _OTHER_MARKS.items() if head.startswith(mark)), None):
            raise InputError(
                f"{path} is {name} text; save it again as UTF-8 (iconv -f {name} -t UTF-8 FILE > NEW)."
            )


def check_kind(path: Path, head: bytes) -> None:
    """Raise InputError if the first bytes, unpacked, are those of an archive or of a known binary format."""
    tar = "is a tar archive; unpack it" if head[257:262] == b"ustar" else ""
    if what := tar or next((what for magic, what in _BINARY.items() if head.startswith(magic)), ""):
        raise InputError(f"{path} {what}.")


def unknown(path: Path, head: bytes) -> InputError:
    """The error for a file that has none of the formats, with what it is instead, as far as that is known."""
    what = next((what for magic, what in _FOREIGN.items() if head.lstrip().startswith(magic)), "")
    lines = head.split(b"\n")[:2]
    if head.count(b"\0") > len(head) / 4:
        what = what or "is mostly NUL characters, like UTF-16 without a mark; save it again as UTF-8"
    elif b"\r" in head and len(lines) == 1:
        what = what or "has lines that end in a carriage return alone; save it with newlines"
    elif not what and (mark := next((mark for mark in ",;|" if _separates(mark.encode(), lines)), None)):
        what = f"has {mark!r} between its columns; put spaces or tabs there"
    if what:
        return InputError(f"{path} {what}.")
    return InputError(
        f"{path} has no known format: its first line is neither 'words width' nor a word and its numbers; "
        "give word2vec (binary or text), GloVe, fastText .bin or gensim .kv."
    )


def _separates(mark: bytes, lines: list[bytes]) -> bool:
    return any(line.count(mark) > 1 for line in lines)
