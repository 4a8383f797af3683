"""Bytes of a file to text: its encoding, and the separator of a table. Files are read in streams."""

from __future__ import annotations

import codecs
import csv
import io
import zlib
from bz2 import BZ2File
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from gzip import GzipFile
from itertools import count, islice
from lzma import LZMAError, LZMAFile
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal, TextIO
from zipfile import BadZipFile, ZipFile

from vnait.data.encodings import likely, mostly_utf8, without_mark
from vnait.data.text import folded
from vnait.shared.errors import InputError, one_line
from vnait.shared.files import check_unpacked, unpacked

SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}
NAMED = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "bar": "|"}  # how a separator may be typed
_MARKS = {  # the longest first: that of UTF-32 begins with that of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_KINDS = {  # how files begin that are no text: what each is, and what to do
    b"\x1f\x8b": ("a gzip file", "name it .gz"),
    b"BZh9": ("a bzip2 file", "name it .bz2"),
    b"\xfd7zX": ("an xz file", "name it .xz"),
    b"\x28\xb5\x2f\xfd": ("a Zstandard file", "name it .zst"),
    b"PAR1": ("a Parquet file", "name it .parquet"),
    b"\xd0\xcf\x11\xe0": ("an old Excel file", "name it .xls"),
    b"%PDF": ("a PDF", "export its table as a .csv file"),
}
_HEAD = 65_536  # characters from which the separator is found
_ROWS = 50
_PART = 1 << 16  # characters looked at together
MAX_LINE = 1 << 24  # characters of a line, or of a cell, ten times the longest novel
CELL = 64  # bytes that a cell takes in memory beside its characters
MAX_GIB = 1  # GiB that a packed table may unpack to: its texts are held in memory, to train on them
# What reading a damaged packed file raises; the last is of a zip archive with an unknown version.
DAMAGED = EOFError, zlib.error, LZMAError, BadZipFile, NotImplementedError
LFS = b"version https://git-lfs"  # how its pointers begin
LFS_POINTER = "is a pointer of Git LFS in place of the file; run git lfs pull"
Row = tuple[int, list[str]]  # its number and its cells
Rows = Callable[[], Iterator[Row]]  # of a table, anew at each call


@dataclass(frozen=True)
class TextFile:
    """A file of text, packed or not, in an encoding; `mark`: whether a byte-order mark is left before it."""

    path: Path
    encoding: str
    mark: bool = False

    @classmethod
    def of(cls, path: Path, encoding: str | None) -> TextFile:
        """The file in `encoding`, else by its byte-order mark, else UTF-8, once all of it is read as such.

        InputError if the bytes are not in that encoding; it suggests a likely one.
        """
        with _opened(path) as raw:
            head = raw.read(4)
        if head.startswith(b"PK\x03\x04"):
            raise InputError(
                f"{path} is a zip archive; if it is an Excel workbook, name it .xlsx, else unpack it."
            )
        for mark, (kind, cure) in _KINDS.items():
            if head.startswith(mark):
                packed = path.suffix.lower() in PACKED
                raise InputError(f"{path} {f'holds {kind}; unpack it' if packed else f'is {kind}; {cure}'}.")
        marked = (name for mark, name in _MARKS.items() if head.startswith(mark))
        file = cls(path, encoding or next(marked, "utf-8"))
        return replace(file, mark=file._check())

    def _check(self) -> bool:
        size = nuls = lines = 0
        mark, empty = False, True
        packed = self.path.suffix.lower() in PACKED
        try:
            with self.opened() as text:
                while part := text.read(_PART):
                    mark = mark or (not size and part.startswith("\ufeff"))
                    size, nuls = size + len(part), nuls + part.count("\0")
                    empty = empty and not part.strip("\ufeff").strip()
                    if packed:  # short lines take far more memory as rows than as bytes
                        lines += part.count("\n")
                        check_unpacked(self.path, CELL * lines, MAX_GIB)
        except UnicodeError as error:
            raise InputError(_undecodable(self.path, self.encoding)) from error
        if nuls > size / 4:
            with _opened(self.path) as raw:
                name = without_mark(raw.read(_PART))
            raise InputError(
                f"{self.path} is mostly NUL characters, like {name[:6].upper()} without a byte-order mark; "
                f"add --encoding {name} (encoding='{name}' in Python), or save it again as UTF-8."
            )
        if empty:
            raise InputError(f"{self.path} is empty; expected a table with a text column.")
        return mark

    @contextmanager
    def opened(self, newline: str = "") -> Iterator[TextIO]:
        """The text; its lines end at any newline, or at `newline` alone."""
        with _opened(self.path) as raw:
            try:
                text = io.TextIOWrapper(raw, encoding=self.encoding, newline=newline)
            except LookupError as error:
                raise InputError(
                    f"there is no encoding {self.encoding!r}; give the name of one, such as utf-8, utf-16 or "
                    "cp1252."
                ) from error
            text.read(int(self.mark))
            yield text

    def lines(self, skipped: int = 0) -> Iterator[str]:
        """The lines after those that are skipped, without blank ones at the end."""
        blank: list[str] = []
        with self.opened() as text:
            for line in islice(bounded(text, self.path), skipped, None):
                blank.append(line)
                if line.strip("\r\n"):
                    yield from blank
                    blank.clear()


def bounded(text: TextIO, path: Path) -> Iterator[str]:
    """The lines of a file; InputError for one that no table has, before it is in memory."""
    for number in count(1):
        if not (line := text.readline(MAX_LINE)):
            return
        if len(line) == MAX_LINE:
            raise InputError(
                f"{path}, line {number} has {MAX_LINE:,} characters or more; a text has fewer. Check that "
                "the file is a table."
            )
        yield line


def _undecodable(path: Path, encoding: str) -> str:
    """Why the bytes of a file are not in that encoding."""
    with _opened(path) as file:
        raw = file.read()
    try:
        raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = len((raw[: error.start] + b"x").splitlines())
        return (
            f"{path} is not {encoding.upper()}: line {line} has the byte 0x{raw[error.start]:02x}. "
            f"{_suggestion(raw, encoding, line)}"
        )
    except UnicodeError as error:
        return f"{path} can't be read as {encoding}: {error}. {_suggestion(raw, encoding, 1)}"
    # A stream wants a byte-order mark, and the bytes alone do not.
    return f"{path} has no byte-order mark; add --encoding {without_mark(raw)} (encoding= in Python)."


def _suggestion(raw: bytes, encoding: str, line: int) -> str:
    """What to do about bytes that are not in that encoding, the first of them in this line."""
    guess = likely(raw)
    if encoding == "utf-8" and mostly_utf8(raw):
        return f"Nearly all of it is UTF-8: mend line {line}, or save the file again as UTF-8."
    if guess is None or guess[0] == encoding or encoding != "utf-8":
        return "Name its encoding with --encoding, or open it in that encoding and save it again as UTF-8."
    name, language = guess
    if name == "cp1252":
        return (
            "If it was written on Windows, add --encoding cp1252 (encoding= in Python; cp1250 in Central "
            "Europe); else save it as UTF-8."
        )
    return f"It may be {language}: add --encoding {name} (encoding= in Python), or save it again as UTF-8."


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked."""
    with _readable(path), path.open("rb") as file:
        reader = PACKED.get(path.suffix.lower())
        yield unpacked(reader(file), path, MAX_GIB) if reader else file


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Around what reads a file: its errors as an InputError."""
    try:
        yield
    except (OSError, *DAMAGED) as error:
        raise InputError(
            f"{path} can't be read: {one_line(error)}. Check the file and its permissions."
        ) from error


def _only_name(archive: ZipFile) -> str:
    """The file in a zip archive that has one alone, beside what macOS adds."""
    names = [part.filename for part in archive.infolist() if not part.is_dir()]
    names = [name for name in names if not (name.startswith("__MACOSX/") or name.endswith(".DS_Store"))]
    if len(names) != 1:
        raise BadZipFile(f"it has {len(names)} files; unpack it, and give one of them")
    return names[0]


def inner_ending(path: Path) -> str:
    """The ending of the file in a zip archive, such as .csv."""
    with _readable(path), ZipFile(path) as archive:
        return Path(_only_name(archive).lower()).suffix


def _only_file(file: BinaryIO) -> IO[bytes]:
    archive = ZipFile(file)
    name = _only_name(archive)
    try:
        return archive.open(name)
    except RuntimeError as error:  # of zipfile, for a password or another method
        raise BadZipFile(str(error)) from error


def _zstandard(file: BinaryIO) -> Any:
    import pyarrow as pa  # here: no other packing needs it

    return pa.CompressedInputStream(file, "zstd")


PACKED: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda file: GzipFile(fileobj=file),
    ".bz2": BZ2File,
    ".xz": LZMAFile,
    ".zip": _only_file,
    ".zst": _zstandard,
}


def unpacked_name(source: str | Path) -> str:
    """A file's name in lower case, without the ending of what it is packed with.

    >>> unpacked_name("data/Films.CSV.xz"), unpacked_name("films.csv")
    ('films.csv', 'films.csv')
    """
    name = Path(source).name.lower()
    packing = next((ending for ending in PACKED if name.endswith(ending)), "")
    return name.removesuffix(packing)


def separator_of(typed: str) -> str:
    """The separator that a user typed, such as "tab" or ";".

    >>> separator_of("tab"), separator_of(";")
    ('\\t', ';')
    """
    separator = NAMED.get(typed, typed)
    if separator not in SEPARATORS:
        raise InputError(f"the separator {typed!r} is not known; give one of , ; | or tab.")
    return separator


def sniffed(lines: Iterable[str], wanted: Sequence[str], usual: str) -> str:
    """The separator of a table: the candidate whose header has most of the wanted columns; among equals the
    one that cuts all rows into equally many fields, then the usual one.

    >>> sniffed(["text;label\\n", "good, but long;pos\\n"], ["text", "label"], ",")
    ';'
    >>> sniffed(["text\\n", "one; two\\n"], ["text"], ",")
    ','
    """
    head = ""
    for line in lines:
        if len(head) + len(line) > _HEAD and head:
            break
        head += line
    return max(SEPARATORS, key=lambda separator: (*_fit(head, wanted, separator), separator == usual))


def rows_of(lines: Callable[[], Iterable[str]], separator: str, start: int = 1) -> Rows:
    """The rows of a table as written, header first, with their numbers. A row may be shorter than the header;
    blank lines are counted and skipped, except in a table of one column, where a blank line is an empty text.

    lines     the table's, anew at each call; they are all read once, to find what is wrong with them
    start     the number of the first line

    Quotes follow RFC 4180. Most tab-separated files quote nothing: if the quotes of one don't pair up, or a
    quoted field would contain a tab and a line break, they are read as ordinary characters, provided that
    every row then has as many fields as the header. ValueError with the reason if no reading fits.

    >>> list(rows_of(lambda: ["text,label\\n", '"good, but long",pos\\n'], ",")())
    [(1, ['text', 'label']), (2, ['good, but long', 'pos'])]
    >>> list(rows_of(lambda: ["text\\tlabel\\n", '"A" or "B"?\\tpos\\n'], "\\t")())
    [(1, ['text', 'label']), (2, ['"A" or "B"?', 'pos'])]
    """
    quoted, plain = (
        partial(_rows, lines, separator, quoting, start) for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_NONE)
    )
    try:
        for number, row in quoted():
            if separator == "\t" and any("\t" in cell and ("\n" in cell or "\r" in cell) for cell in row):
                if _fits(quoted) and not _fits(plain):
                    return quoted
                raise ValueError(f"row {number} has a quoted field with a tab and a line break in it")
    except ValueError:
        if separator == "\t" and _fits(plain):
            return plain
        raise
    return quoted


def _fits(rows: Rows) -> bool:
    """Whether every row has as many fields as the header."""
    try:
        return len({len(row) for _, row in rows()}) == 1
    except ValueError:
        return False


def _rows(
    lines: Callable[[], Iterable[str]], separator: str, quoting: Literal[0, 3], start: int
) -> Iterator[Row]:
    csv.field_size_limit(MAX_LINE)
    reader = csv.reader(lines(), delimiter=separator, strict=True, quoting=quoting)
    begins, width = start - 1, 0
    try:
        for number, row in enumerate(reader, start):
            begins = start - 1 + reader.line_num
            width = width or len(row)
            while len(row) > width and not row[-1].strip():  # a separator at the end of a line
                row.pop()
            if len(row) > width:
                raise ValueError(f"line {begins} has {len(row)} fields, and the header {width}")
            if row or width == 1:
                yield number, row or [""]
    except csv.Error as error:
        if "unexpected end" in str(error):
            raise ValueError(f"the quote in line {begins + 1} never ends") from error
        raise ValueError(f"line {start - 1 + reader.line_num}: {error}") from error


def _fit(head: str, wanted: Sequence[str], separator: str) -> tuple[int, bool]:
    try:
        reader = csv.reader(io.StringIO(head, newline=None), delimiter=separator)
        rows = list(islice((row for row in reader if row), _ROWS))
    except csv.Error:
        return 0, False
    header = [same(name) for name in rows[0]] if rows else []
    alike = len(header) > 1 and all(len(row) == len(header) for row in rows)
    return sum(same(name) in header for name in wanted), alike


def same(name: str) -> str:
    """A column's name without case, outer spaces and invisible characters, for comparison.

    >>> same(" Text "), same("re\u0301sume\u0301") == same("r\u00e9sum\u00e9")
    ('text', True)
    """
    return folded(name)
