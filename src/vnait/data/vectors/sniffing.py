"""The format of a vector file, found from its first bytes."""

import io
import re
import struct
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from vnait.data.vectors.opening import check_kind, opened, packing_of, unknown
from vnait.shared.errors import InputError
from vnait.shared.files import home

BINARY, TEXT, GLOVE = "word2vec binary", "word2vec text", "GloVe text"
FASTTEXT, NATIVE = "fastText", "gensim KeyedVectors"
FASTTEXT_MAGIC = struct.pack("<i", 793712314)
_HEAD = 1 << 18  # enough for the first line of a text table 50,000 wide
_LOOK = 1 << 16  # bytes searched for control characters, which no text has
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\v\f\r"))
_HEADER = re.compile(rb"[ \t]*(\d{1,15})[ \t]+(\d{1,15})\s*")
_PLAIN, _WORDY = re.compile(rb"[+-]?\d+"), re.compile(rb"[+-]?[a-zA-Z]+")  # 10; nan, infinity


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The format of a vector file, what it is packed with, and the sizes in its header.

    Without a header, `count` is None and `skip` (bytes before the first row) 0. If gensim reads the file,
    `dim` is 0. `phrases`: the header is true of most rows, so that a whole number before is of a word.
    """

    path: Path
    format: str
    packing: str = ""
    count: int | None = None
    dim: int = 0
    skip: int = 0
    phrases: bool = False


def sniff(path: str | Path) -> Layout:
    """The layout of the vector file `path`; an InputError if it is empty or has none of the five formats.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "v").write_text("1 3\\nword 0.1 0.2 0.3\\n")
    ...     layout = sniff(Path(folder) / "v")
    >>> layout.format, layout.count, layout.dim, layout.skip
    ('word2vec text', 1, 3, 4)
    """
    path = Path(home(path))
    with opened(path) as file:
        head = _head(file)
    if not head:
        raise InputError(f"{path} is empty; get the file of vectors again.")
    check_kind(path, head)
    for look in (_fasttext, _native, _word2vec, _glove):
        if layout := look(path, packing_of(path), head):
            return layout
    raise unknown(path, head)


def are_numbers(values: list[bytes]) -> bool:
    """Whether there are `values` and each of them is a number."""
    with suppress(ValueError):
        return bool([number_of(value) for value in values])
    return False


def number_of(value: bytes) -> float:
    """A number as text. ValueError if it is none, or has an underscore, which Python alone reads."""
    if b"_" in value:
        raise ValueError(value)
    return float(value)


def _head(file: io.BufferedReader) -> bytes:
    # read1 returns the bytes before the cut of a damaged file; read would raise and lose them.
    head = b""
    try:
        while len(head) < _HEAD and (more := file.read1(_HEAD - len(head))):
            head += more
    except EOFError:
        if not head:
            raise
    return head


def _fasttext(path: Path, packing: str, head: bytes) -> Layout | None:
    # Files older than fastText's magic number start with the 12 settings; loss and model are small codes.
    settings = struct.unpack_from("<12i", head) if len(head) >= 48 else (0,) * 12
    old = settings[6] in (1, 2, 3, 4) and settings[7] in (1, 2, 3) and 0 < settings[0] < 1 << 16
    if not (head.startswith(FASTTEXT_MAGIC) or old):
        return None
    if packing:
        name = "gzip" if packing == "gz" else packing
        raise InputError(
            f"{path} is a fastText model inside {name}; unpack it first, then give the .bin file."
        )
    return Layout(path=path, format=FASTTEXT)


def _native(path: Path, packing: str, head: bytes) -> Layout | None:
    if not (head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")):
        return None
    if packing or path.suffix not in (".kv", ".model"):
        raise InputError(
            f"{path} is a Python pickle, which can run any code when it is read; if it is gensim's and you "
            "trust it, unpack it and rename it to .kv or .model."
        )
    return Layout(path=path, format=NATIVE)


def _word2vec(path: Path, packing: str, head: bytes) -> Layout | None:
    first, end, rest = head.partition(b"\n")
    if not (header := _HEADER.fullmatch(first)):
        return None
    count, dim = int(header[1]), int(header[2])
    layout = Layout(path=path, format=BINARY, packing=packing, count=count, dim=dim, skip=len(first + end))
    if not _is_text(rest, dim):
        return layout
    widths = Counter(map(_width, _whole_lines(head)[1:]))
    return replace(layout, format=TEXT, phrases=widths[dim] >= max(widths.values(), default=0))


def _is_text(rest: bytes, dim: int) -> bool:
    values = rest.partition(b"\n")[0].split()[1:]
    if dim and len(values) >= dim and are_numbers(values[-dim:]):
        return True
    look = rest[:_LOOK]  # a faulty first row of text is still text, and its error names the line
    if look.translate(None, delete=_CONTROLS) != look:
        return False
    try:
        look.decode()
    except UnicodeDecodeError as error:
        return error.start > len(look) - 4 and len(look) == _LOOK  # only the last character was cut
    return True


def _glove(path: Path, packing: str, head: bytes) -> Layout | None:
    """The width is that of most of the first lines; among equals that of the first one."""
    lines = _whole_lines(head)
    widths = Counter(filter(None, map(_width, lines)))
    if not (widths and are_numbers(lines[0].split()[-1:])):
        return None
    dim = max(widths, key=lambda dim: (sum(_has_width(line, dim) for line in lines), dim == _width(lines[0])))
    return Layout(path=path, format=GLOVE, packing=packing, dim=dim)


def _whole_lines(head: bytes) -> list[bytes]:
    lines = head.split(b"\n")
    if len(head) >= _HEAD and len(lines) > 1:
        lines.pop()  # cut by the end of the head
    return [line for line in lines if line.strip()]


def _width(line: bytes) -> int:
    """How many numbers follow the first word of a line, or its first tab, if only numbers do; else 0."""
    values = line.partition(b"\t")[2].split() if b"\t" in line.strip() else line.split()[1:]
    return len(values) if are_numbers(values) else 0


def _has_width(line: bytes, dim: int) -> bool:
    name, *values = line.rsplit(None, dim)
    return len(values) == dim and are_numbers(values) and is_name(line, name, values)


def is_name(line: bytes, name: bytes, values: list[bytes], phrases: bool = False) -> bool:
    """Whether what stands before the values is a word, as ". . ." and "windows 10", with no number of theirs.

    A number belongs to the name if the line's first tab comes after it, if it is letters (infinity), or if it
    is whole and all values have a point, or a header gives the width (`phrases`).
    """
    if line[len(name) :].startswith(b"\t") and b"\t" not in name:
        return True
    numbers = [part for part in name.split()[1:] if are_numbers([part])]
    whole = phrases or not any(map(_PLAIN.fullmatch, values))
    return all(_WORDY.fullmatch(part) or (whole and _PLAIN.fullmatch(part)) for part in numbers)
