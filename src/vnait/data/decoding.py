"""Bytes of a file to text: its encoding, and the separator of a table."""

import codecs
import csv
import io
import zlib
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Literal

from vnait.errors import InputError
from vnait.files import unpacked

SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}
NAMED = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "bar": "|"}  # how a separator may be typed
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_HEAD = 65_536  # characters from which the separator is found
_ROWS = 50
MOST = 1  # GiB that a packed table may unpack to: the whole of it is held in memory


def decoded(path: Path, encoding: str | None) -> str:
    """The text of a file, gzipped or not: in `encoding`, else by its byte-order mark, else UTF-8.

    InputError if the bytes are not in that encoding; it suggests a likely one, cp1252 or GB 18030.
    """
    raw = _bytes(path)
    if raw.startswith(b"PK\x03\x04"):
        raise InputError(
            f"{path} is a zip archive; if it is an Excel workbook, name it .xlsx, else unpack it."
        )
    found = encoding or next((name for mark, name in _MARKS.items() if raw.startswith(mark)), "utf-8")
    try:
        text = raw.decode(found)
    except LookupError as error:
        raise InputError(
            f"there is no encoding {found!r}; give the name of one, such as utf-8, utf-16 or cp1252."
        ) from error
    except UnicodeDecodeError as error:
        line = len((raw[: error.start] + b"x").splitlines())
        raise InputError(
            f"{path} is not {found.upper()}: line {line} has the byte 0x{raw[error.start]:02x}. "
            f"{_suggestion(raw, found)}"
        ) from error
    if text.count("\0") > len(text) / 4:
        raise InputError(
            f"{path} is mostly NUL characters, like UTF-16 without a byte-order mark; add "
            "--encoding utf-16-le (encoding='utf-16-le' in Python), or save it again as UTF-8."
        )
    if not text.strip():
        raise InputError(f"{path} is empty; expected a table with a text column.")
    return text.removeprefix("\ufeff")


def _suggestion(raw: bytes, encoding: str) -> str:
    if encoding == "utf-8" and _is_chinese(raw):
        return "It may be Chinese: add --encoding gb18030 (encoding= in Python), or save it again as UTF-8."
    try:
        raw.decode("cp1252")
    except UnicodeDecodeError:
        return "Name its encoding with --encoding, or open it in that encoding and save it again as UTF-8."
    if encoding != "utf-8" or b"\0" in raw:
        return "Name its encoding with --encoding, or save it again as UTF-8."
    return "If it was written on Windows, add --encoding cp1252 (encoding= in Python); else save it as UTF-8."


def _is_chinese(raw: bytes) -> bool:
    """Whether the bytes are valid GB 18030 and a quarter of them above ASCII, far more than in a western text
    in cp1252.
    """
    try:
        raw.decode("gb18030")
    except UnicodeDecodeError:
        return False
    return sum(byte > 127 for byte in raw) > len(raw) / 4


def _bytes(path: Path) -> bytes:
    try:
        if path.suffix.lower() != ".gz":
            return path.read_bytes()
        with path.open("rb") as file:
            return unpacked(file, path, MOST).read()
    except (OSError, EOFError, zlib.error) as error:
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise InputError(f"{path} can't be read: {reason}. Check the file and its permissions.") from error


def separator_of(typed: str) -> str:
    """The separator that a user typed, such as "tab" or ";".

    >>> separator_of("tab"), separator_of(";")
    ('\\t', ';')
    """
    found = NAMED.get(typed, typed)
    if found not in SEPARATORS:
        raise InputError(f"the separator {typed!r} is not known; give one of , ; | or tab.")
    return found


def sniffed(text: str, wanted: Sequence[str], usual: str) -> str:
    """The separator of a table: the candidate whose header has most of the wanted columns; among equals the
    one that cuts all rows into equally many fields, then the usual one.

    >>> sniffed("text;label\\ngood, but long;pos\\n", ["text", "label"], ",")
    ';'
    >>> sniffed("text\\none; two\\n", ["text"], ",")
    ','
    """
    head = text[:_HEAD]
    if len(text) > _HEAD:
        head = head[: head.rfind("\n") + 1] or head
    return max(SEPARATORS, key=lambda separator: (*_fit(head, wanted, separator), separator == usual))


def rows_of(text: str, separator: str) -> list[list[str]]:
    """The cells of a table as written, header first. A row may be shorter than the header; blank lines are
    skipped, except in a table of one column, where a blank line is an empty text.

    Quotes follow RFC 4180. Most tab-separated files quote nothing: if the quotes of one don't pair up, or a
    quoted field would contain a tab and a line break, they are read as ordinary characters, provided that
    every row then has as many fields as the header. ValueError with the reason if neither reading fits.

    >>> rows_of('text,label\\n"good, but long",pos\\n', ",")
    [['text', 'label'], ['good, but long', 'pos']]
    >>> rows_of('text\\tlabel\\n"A" or "B"?\\tpos\\n', "\\t")
    [['text', 'label'], ['"A" or "B"?', 'pos']]
    """
    try:
        rows = _rows(text, separator, csv.QUOTE_MINIMAL)
        if separator == "\t":
            _check_swallowed(rows)
    except ValueError:
        if separator != "\t":
            raise
        plain = _rows(text, separator, csv.QUOTE_NONE)
        if len({len(row) for row in plain}) > 1:
            raise
        return plain
    return rows


def _rows(text: str, separator: str, quoting: Literal[0, 3]) -> list[list[str]]:
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True, quoting=quoting)
    rows: list[list[str]] = []
    begins = 0
    try:
        for row in reader:
            begins = reader.line_num
            if rows and len(row) > len(rows[0]):
                raise ValueError(f"line {begins} has {len(row)} fields, and the header {len(rows[0])}")
            rows.append(row)
    except csv.Error as error:
        if "unexpected end" in str(error):
            raise ValueError(f"the quote in line {begins + 1} never ends") from error
        raise ValueError(f"line {reader.line_num}: {error}") from error
    return [row or [""] for row in rows] if len(rows[0]) == 1 else [row for row in rows if row]


def _check_swallowed(rows: Sequence[Sequence[str]]) -> None:
    for number, row in enumerate(rows):
        if any("\t" in cell and ("\n" in cell or "\r" in cell) for cell in row):
            raise ValueError(f"row {number} has a quoted field with a tab and a line break in it")


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
    """A column's name without case and surrounding space, for comparison.

    >>> same(" Text ")
    'text'
    """
    return name.strip().strip("\ufeff").casefold()
