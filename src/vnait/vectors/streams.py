"""Word2vec and GloVe files, read row by row: only a chunk and the rows wanted are in memory."""

import zlib
from collections.abc import Collection, Generator, Iterable, Iterator

import numpy as np
from jaxtyping import Float32

from vnait.errors import InputError
from vnait.vectors.layout import BINARY, ByteFile, Layout, are_numbers, opened

Row = tuple[bytes, bytes]  # a word and its values, not decoded, since most rows are skipped

_CHUNK = 1 << 18  # stays in the processor's cache: chunks of 4 MB take twice as long
_LONGEST_WORD = 1 << 16
_DEFLATE = 1032  # gzip never packs tighter than 1032 to 1


def collect(layout: Layout, wanted: Collection[str] | None) -> tuple[list[str], Float32[np.ndarray, "V D"]]:
    """The `wanted` words (None: all) and their rows, in the file's order; the first of equal words counts.

    The whole file is read even if the last wanted row comes early, so damage is found anywhere.
    """
    stream = _all(rows(layout)) if wanted is None else _wanted(rows(layout), wanted)
    table = np.empty((_most(layout, wanted), layout.dim), dtype=np.float32)
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
        file.seek(layout.skip)
        try:
            for row in _binary(file, layout) if layout.format == BINARY else _text(file, layout):
                yield row
                done += 1
        except (EOFError, zlib.error) as error:
            of = "" if layout.count is None else f"of the {layout.count:,} "
            raise InputError(
                f"{layout.path} is cut or damaged: {done:,} {of}vectors can be read ({error}); get it again."
            ) from error


def records(file: ByteFile, mark: bytes, width: int, count: int) -> Generator[Row, None, bytes]:
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


def _binary(file: ByteFile, layout: Layout) -> Iterator[Row]:
    assert layout.count is not None, "a binary file has a header"
    rest = yield from records(file, b" ", 4 * layout.dim, layout.count)
    if (rest + file.read1(_CHUNK)).strip(b"\n"):
        raise _longer(layout)


def _text(file: ByteFile, layout: Layout) -> Iterator[Row]:
    number = first = _first_line(layout)
    for raw in file:
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
    if any(line.strip() for line in file):
        raise InputError(
            f"{layout.path}: line {number} is empty; expected a word and its {layout.dim} numbers."
        )
    if layout.count and number - first < layout.count:
        raise EOFError("the file ends there")


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


def _wanted(stream: Iterable[Row], wanted: Collection[str]) -> Iterator[tuple[int, str, bytes]]:
    left = {word.encode("utf-8", "surrogatepass"): word for word in wanted}
    for number, (word, payload) in enumerate(stream):
        if word in left:
            yield number, left.pop(word), payload


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


def _most(layout: Layout, wanted: Collection[str] | None) -> int:
    # The count of a faulty header could exceed the memory, so the size of the file limits the table.
    size = layout.path.stat().st_size * (_DEFLATE if layout.packed else 1)
    possible = size // max(1, (4 if layout.format == BINARY else 2) * layout.dim)
    if wanted is not None:
        return min(possible, len(wanted))
    return min(possible, sum(1 for _ in rows(layout)) if layout.count is None else layout.count)


def _first_line(layout: Layout) -> int:
    return 1 if layout.count is None else 2


def _longer(layout: Layout) -> InputError:
    return InputError(
        f"{layout.path} goes on after the {layout.count:,} vectors of width {layout.dim} in its header; "
        "correct its first line or get the file again."
    )
