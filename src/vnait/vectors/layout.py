"""The format of a vector file, found from its first bytes."""

import gzip
import io
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from vnait.errors import InputError

BINARY, TEXT, GLOVE = "word2vec binary", "word2vec text", "GloVe text"
FASTTEXT, NATIVE = "fastText", "gensim KeyedVectors"
FASTTEXT_MAGIC = struct.pack("<i", 793712314)

ByteFile = io.BufferedReader | gzip.GzipFile

_HEAD = 1 << 18  # enough for the first line of a text table 50,000 wide
_LOOK = 1 << 16  # bytes searched for control characters, which no text has
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\v\f\r"))
_HEADER = re.compile(rb"[ \t]*(\d{1,15})[ \t]+(\d{1,15})\s*")


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
def opened(path: Path) -> Iterator[ByteFile]:
    """`path` open for reading, unpacked if its content is gzip; an InputError if that fails."""
    try:
        with path.open("rb") as file:
            if is_packed(file):
                with gzip.GzipFile(fileobj=file) as unpacked:
                    yield unpacked
            else:
                yield file
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
        head, packed = _head(file), isinstance(file, gzip.GzipFile)
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


def _head(file: ByteFile) -> bytes:
    # read1 returns the bytes before the cut of a damaged gzip file; read would raise and lose them.
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
