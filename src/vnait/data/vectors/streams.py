"""The format of a vector file, found from its first bytes; word2vec and GloVe files, read row by row: only a
chunk and the rows wanted are in memory.
"""

import io
import re
import struct
import zlib
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from vnait.shared.errors import InputError
from vnait.shared.files import unpacked

BINARY, TEXT, GLOVE = "word2vec binary", "word2vec text", "GloVe text"
FASTTEXT, NATIVE = "fastText", "gensim KeyedVectors"
FASTTEXT_MAGIC = struct.pack("<i", 793712314)

_HEAD = 1 << 18  # enough for the first line of a text table 50,000 wide
_LOOK = 1 << 16  # bytes searched for control characters, which no text has
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\v\f\r"))
_HEADER = re.compile(rb"[ \t]*(\d{1,15})[ \t]+(\d{1,15})\s*")
Row = tuple[bytes, bytes]  # a word and its values, not decoded, since most rows are skipped
_CHUNK = 1 << 18  # stays in the processor's cache: chunks of 4 MB take twice as long
_LONGEST_WORD = 1 << 16
_DEFLATE = 1032  # gzip never packs tighter than 1032 to 1
_MOST = 16  # GiB that a packed file may unpack to; only the rows wanted are held in memory
_LONGEST_LINE = 1 << 23  # or row, in bytes


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The format of a vector file, whether it is gzipped, and the sizes in its header.

    Without a header, `count` is None and `skip` (bytes before the first row) 0. If gensim reads the file,
    `dim` is 0.
    """

    path: Path
    format: str
    packed: bool
    count: int | None = None
    dim: int = 0
    skip: int = 0


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader]:
    """`path` open for reading, unpacked if its content is gzip; an InputError if that fails."""
    try:
        with path.open("rb") as file:
            yield unpacked(file, path, _MOST) if is_packed(file) else file
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}; check the path of the vectors.") from error
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path} can't be read: {reason}; check the path, or get the file again.") from error


def is_packed(file: io.BufferedReader) -> bool:
    """Whether the next two bytes are gzip's magic number; nothing is consumed."""
    return file.peek(2)[:2] == b"\x1f\x8b"


def sniff(path: Path) -> Layout:
    """The layout of the vector file `path`; an InputError if it is empty or has none of the five formats.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "v").write_text("1 3\\nword 0.1 0.2 0.3\\n")
    ...     layout = sniff(Path(folder) / "v")
    >>> layout.format, layout.count, layout.dim, layout.skip
    ('word2vec text', 1, 3, 4)
    """
    with opened(path) as file:
        head, packed = _head(file), not isinstance(file.raw, io.FileIO)
    if not head:
        raise InputError(f"{path} is empty; get the file of vectors again.")
    for look in (_fasttext, _native, _word2vec, _glove):
        if layout := look(path, packed, head):
            return layout
    raise InputError(
        f"{path} has no known format: its first line is neither 'words width' nor a word and its numbers; "
        "give word2vec (binary or text), GloVe, fastText .bin or gensim .kv."
    )


def are_numbers(values: list[bytes]) -> bool:
    """Whether there are `values` and each of them is a number."""
    with suppress(ValueError):
        return bool([float(value) for value in values])
    return False


def _head(file: io.BufferedReader) -> bytes:
    # read1 returns the bytes before the cut of a damaged file; read would raise and lose them.
    head = b""
    with suppress(EOFError):
        while len(head) < _HEAD and (more := file.read1(_HEAD - len(head))):
            head += more
    return head


def _fasttext(path: Path, packed: bool, head: bytes) -> Layout | None:
    # Files older than fastText's magic number start with the 12 settings; loss and model are small codes.
    settings = struct.unpack_from("<12i", head) if len(head) >= 48 else (0,) * 12
    old = settings[6] in (1, 2, 3, 4) and settings[7] in (1, 2, 3) and 0 < settings[0] < 1 << 16
    if not (head.startswith(FASTTEXT_MAGIC) or old):
        return None
    if packed:
        raise InputError(
            f"{path} is a fastText model inside gzip; unpack it first (gunzip), then give the .bin file."
        )
    return Layout(path=path, format=FASTTEXT, packed=False)


def _native(path: Path, packed: bool, head: bytes) -> Layout | None:
    if not (head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")):
        return None
    if packed or path.suffix not in (".kv", ".model"):
        raise InputError(
            f"{path} is a Python pickle, which can run any code when it is read; if it is gensim's and you "
            "trust it, unpack it and rename it to .kv or .model."
        )
    return Layout(path=path, format=NATIVE, packed=False)


def _word2vec(path: Path, packed: bool, head: bytes) -> Layout | None:
    first, end, rest = head.partition(b"\n")
    if not (header := _HEADER.fullmatch(first)):
        return None
    count, dim = int(header[1]), int(header[2])
    kind = TEXT if _is_text(rest, dim) else BINARY
    return Layout(path=path, format=kind, packed=packed, count=count, dim=dim, skip=len(first + end))


def _is_text(rest: bytes, dim: int) -> bool:
    values = rest.partition(b"\n")[0].rstrip().split(b" ")[1:]
    if len(values) == dim and are_numbers(values):
        return True
    look = rest[:_LOOK]  # a faulty first row of text is still text, and its error names the line
    if look.translate(None, delete=_CONTROLS) != look:
        return False
    try:
        look.decode()
    except UnicodeDecodeError as error:
        return error.start > len(look) - 4 and len(look) == _LOOK  # only the last character was cut
    return True


def _glove(path: Path, packed: bool, head: bytes) -> Layout | None:
    values = head.partition(b"\n")[0].rstrip().split(b" ")[1:]
    return Layout(path=path, format=GLOVE, packed=packed, dim=len(values)) if are_numbers(values) else None


def collect(
    layout: Layout, wanted: Collection[str] | None, first: int = 0
) -> tuple[list[str], Float32[np.ndarray, "V D"]]:
    """The `wanted` words (None: all) and the `first` of the file, with their rows, in the file's order; of
    equal words the first counts.

    The whole file is read even if the last wanted row comes early, so damage is found anywhere.
    """
    stream = _all(rows(layout)) if wanted is None else _wanted(rows(layout), wanted, first)
    table = np.empty((_most(layout, wanted, first), layout.dim), dtype=np.float32)
    words: list[str] = []
    for number, word, payload in stream:
        table[len(words)] = _values(layout, number, payload)
        words.append(word)
    # In place: a slice would keep the unused rows in memory.
    table.resize((len(words), layout.dim), refcheck=False)
    return words, table


def rows(layout: Layout) -> Iterator[Row]:
    """Every row of the file; the InputError of a damaged one counts the rows that can be read."""
    done = 0
    with opened(layout.path) as file:
        file.read(layout.skip)
        try:
            for row in _binary(file, layout) if layout.format == BINARY else _text(file, layout):
                yield row
                done += 1
        except (EOFError, zlib.error) as error:
            of = "" if layout.count is None else f"of the {layout.count:,} "
            raise InputError(
                f"{layout.path} is cut or damaged: {done:,} {of}vectors can be read ({error}); get it again."
            ) from error


def records(file: io.BufferedReader, mark: bytes, width: int, count: int) -> Generator[Row, None, bytes]:
    """The next `count` records of a name, the byte `mark` and `width` bytes; returns the bytes read beyond.

    EOFError if there are fewer. Newlines before a name are dropped: some writers end each record with one.
    """
    held, done = b"", 0
    while done < count:
        if len(held) > width + _LONGEST_WORD:
            raise EOFError("no word ends where one should")
        if not (fresh := file.read1(_CHUNK)):
            raise EOFError("the file ends there")
        held, at = held + fresh, 0
        while done < count:
            space = held.find(mark, at)
            end = space + 1 + width
            if space < 0 or end > len(held):
                break
            yield held[at:space].lstrip(b"\n"), held[space + 1 : end]
            at, done = end, done + 1
        held = held[at:]
    return held


def _binary(file: io.BufferedReader, layout: Layout) -> Iterator[Row]:
    assert layout.count is not None, "a binary file has a header"
    if 4 * layout.dim > _LONGEST_LINE:
        raise EOFError(f"no file has vectors {layout.dim:,} wide")
    rest = yield from records(file, b" ", 4 * layout.dim, layout.count)
    if (rest + file.read1(_CHUNK)).strip(b"\n"):
        raise _longer(layout)


def _text(file: io.BufferedReader, layout: Layout) -> Iterator[Row]:
    number = first = _first_line(layout)
    for raw in _lines(file, layout):
        line = raw.rstrip()
        if not line:
            break
        if number - first == layout.count:
            raise _longer(layout)
        spaces = line.count(b" ")
        if spaces < layout.dim and layout.count and not raw.endswith(b"\n"):
            raise EOFError(f"line {number} is cut")
        word, _, values = line.partition(b" ") if spaces == layout.dim else _spaced(line, layout, number)
        yield word, values
        number += 1
    if any(line.strip() for line in _lines(file, layout)):
        raise InputError(
            f"{layout.path}: line {number} is empty; expected a word and its {layout.dim} numbers."
        )
    if layout.count and number - first < layout.count:
        raise EOFError("the file ends there")


def _lines(file: io.BufferedReader, layout: Layout) -> Iterator[bytes]:
    """The lines left; one without an end is an error, and not a line that fills the memory."""
    while line := file.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise InputError(f"{layout.path} has a line of more than {_LONGEST_LINE:,} bytes; get it again.")
        yield line


def _spaced(line: bytes, layout: Layout, number: int) -> tuple[bytes, bytes, bytes]:
    # GloVe 840B has words with spaces (". . ."); a row that is too wide has numbers there instead.
    parts = line.split(b" ")
    split = len(parts) - layout.dim
    if split < 1 or are_numbers(parts[1:split]):
        raise InputError(
            f"{layout.path}: line {number} has {len(parts) - 1} numbers; expected {layout.dim}. Repair the "
            "line or get the file again."
        )
    return b" ".join(parts[:split]), b" ", b" ".join(parts[split:])


def _all(stream: Iterable[Row]) -> Iterator[tuple[int, str, bytes]]:
    seen: set[bytes] = set()
    for number, (word, payload) in enumerate(stream):
        if word not in seen:
            seen.add(word)
            # word2vec.c cuts long words anywhere, so some are no UTF-8; escapes keep them distinct.
            yield number, word.decode("utf-8", "backslashreplace"), payload


def _wanted(stream: Iterable[Row], wanted: Collection[str], first: int) -> Iterator[tuple[int, str, bytes]]:
    left = {word.encode("utf-8", "surrogatepass"): word for word in wanted}
    seen: set[bytes] = set()
    for number, (word, payload) in enumerate(stream):
        if word in left:
            seen.add(word)
            yield number, left.pop(word), payload
        elif number < first and word not in seen:
            seen.add(word)
            yield number, word.decode("utf-8", "backslashreplace"), payload


def _values(layout: Layout, number: int, payload: bytes) -> Float32[np.ndarray, " D"]:
    if layout.format == BINARY:
        return np.frombuffer(payload, dtype="<f4")
    parts = payload.split(b" ")
    try:
        with np.errstate(over="ignore"):  # 1e99 becomes infinity, which Vectors refuses, naming the word
            return np.array([float(part) for part in parts]).astype(np.float32)
    except ValueError as error:
        bad = next(part for part in parts if not are_numbers([part])).decode("utf-8", "backslashreplace")
        raise InputError(
            f"{layout.path}: line {number + _first_line(layout)} has {bad!r}, not a number; repair it."
        ) from error


def _most(layout: Layout, wanted: Collection[str] | None, first: int) -> int:
    # The count of a faulty header could exceed the memory, so the size of the file limits the table.
    size = layout.path.stat().st_size * (_DEFLATE if layout.packed else 1)
    possible = size // max(1, (4 if layout.format == BINARY else 2) * layout.dim)
    if wanted is not None:
        return min(possible, len(wanted) + first)
    return min(possible, sum(1 for _ in rows(layout)) if layout.count is None else layout.count)


def _first_line(layout: Layout) -> int:
    return 1 if layout.count is None else 2


def _longer(layout: Layout) -> InputError:
    return InputError(
        f"{layout.path} continues after the {layout.count:,} vectors of width {layout.dim} in its header; "
        "correct its first line or get the file again."
    )
