"""word2vec and GloVe files, read row by row: only a chunk and the rows wanted are in memory."""

import io
import re
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from typing import TypeVar

import numpy as np
from jaxtyping import Float32

from vnait.data.decoding import DAMAGED
from vnait.data.vectors.opening import most_bytes, opened
from vnait.data.vectors.sniffing import BINARY, Layout, are_numbers, is_name, number_of
from vnait.shared.errors import InputError

Row = tuple[bytes, bytes]  # a word and its values, not decoded, since most rows are skipped
_CHUNK = 1 << 18  # stays in the processor's cache: chunks of 4 MB take twice as long
_LONGEST_WORD = 1 << 16
_CUT = 90  # bytes of a word that tools may have cut inside a letter; word2vec.c also cuts shorter ones
_UNREADABLE = re.compile(rb"[\0-\x1f\x7f]")  # in a word of a binary file, which is then read shifted
_PHRASE = re.compile(rb"[^\0-\x20\x7f]+ ")  # the next word of a name with spaces
_TINY, _HUGE = 1e-12, 1e9  # outside are numbers of bytes that are letters, or are shifted
_LONGEST_LINE = 1 << 23  # or row, in bytes


Named = TypeVar("Named", bytes, None)


def selected(
    stream: Iterable[tuple[bytes | str, Named]],
    wanted: Collection[str] | None,
    first: int,
    naming: Callable[[str], str],
) -> Iterator[tuple[int, str, Named]]:
    """Numbers and names of the rows that have a name in `wanted` (None: any) or are among the `first`.

    A word's name is `naming(word)`. Of several rows with one name the first counts, but a word that is
    written as its name comes before others; then the name comes again.
    """
    exact: dict[str, bool] = {}
    wanted = wanted if wanted is None else set(wanted)
    for number, (raw, payload) in enumerate(stream):
        # word2vec.c cuts long words anywhere, so some are no UTF-8; escapes keep them distinct.
        word = raw if isinstance(raw, str) else raw.decode("utf-8", "backslashreplace")
        name = naming(word)
        if not (wanted is None or name in wanted or number < first or name in exact):
            continue
        if name in exact and (exact[name] or name != word):
            continue
        if name or not word:  # else its characters are all invisible
            exact[name] = name == word
            yield number, name, payload


def collect(
    layout: Layout, wanted: Collection[str] | None, first: int = 0, naming: Callable[[str], str] = str
) -> tuple[list[str], Float32[np.ndarray, "V D"]]:
    """The `selected` words of the file with their rows, in the file's order.

    The whole file is read even if the last wanted row comes early, so damage is found anywhere.
    """
    table = np.empty((_most(layout, wanted, first), layout.dim), dtype=np.float32)
    row_of: dict[str, int] = {}
    for number, name, payload in selected(rows(layout), wanted, first, naming):
        table[row_of.setdefault(name, len(row_of))] = _values(layout, number, payload)
    # In place: a slice would keep the unused rows in memory.
    table.resize((len(row_of), layout.dim), refcheck=False)
    return list(row_of), table


def rows(layout: Layout) -> Iterator[Row]:
    """Every row of the file; the InputError of a damaged one counts the rows that can be read.

    A word that can't be one is an error at the end, since a wrong header explains it better.
    """
    done, fault = 0, ""
    with opened(layout.path) as file:
        try:
            file.read(layout.skip)
            for row in _binary(file, layout) if layout.format == BINARY else _text(file, layout):
                fault = fault or _fault(layout, done, row[0])
                yield row
                done += 1
        except DAMAGED as error:
            of = "" if layout.count is None else f"of the {layout.count:,} "
            raise InputError(
                f"{layout.path} is cut or damaged: {done:,} {of}vectors can be read ({error}); get it again."
            ) from error
    if fault:
        raise InputError(f"{layout.path}: {fault}")


def _fault(layout: Layout, number: int, word: bytes) -> str:
    """Why these bytes are no word; "" for a word."""
    binary = layout.format == BINARY
    if binary and _UNREADABLE.search(word):
        return (
            f"word {number + 1:,} has control characters, so the file is damaged or has a width other than "
            f"the {layout.dim:,} in its header; get it again."
        )
    try:
        word.decode()
    except UnicodeDecodeError as error:
        cut = error.end == len(word) and error.reason == "unexpected end of data"
        if cut and (layout.count is not None or len(word) > _CUT):
            return ""
        where = f"word {number + 1:,}" if binary else f"line {number + _first_line(layout)}"
        return (
            f"{where} is not UTF-8 (byte 0x{word[error.start]:02x}), so its encoding is another one, such as "
            "Latin-1 or GB 18030; save it again as UTF-8."
        )
    return ""


def records(
    file: io.BufferedReader, end_of_name: Callable[[bytes, int], int], width: int, count: int
) -> Generator[Row, None, bytes]:
    """The next `count` records of a name, the byte that ends it and `width` bytes; returns what was read
    beyond.

    `end_of_name` finds that byte from a place on, or -1. EOFError if there are fewer records. Newlines before
    a name are dropped: some writers end each record with one.
    """
    held, done = b"", 0
    while done < count:
        if len(held) > width + _LONGEST_WORD:
            raise EOFError("no word ends where one should")
        if not (fresh := file.read1(_CHUNK)):
            raise EOFError("the file ends there")
        held, at = held + fresh, 0
        while done < count:
            mark = end_of_name(held, at)
            end = mark + 1 + width
            if mark < 0 or end > len(held):
                break
            yield held[at:mark].lstrip(b"\n"), held[mark + 1 : end]
            at, done = end, done + 1
        held = held[at:]
    return held


def _binary(file: io.BufferedReader, layout: Layout) -> Iterator[Row]:
    assert layout.count is not None, "a binary file has a header"
    width = 4 * layout.dim
    if width > _LONGEST_LINE:
        raise EOFError(f"no file has vectors {layout.dim:,} wide")
    rest = yield from records(file, lambda held, at: _space(held, at, width), width, layout.count)
    if (rest + file.read1(_CHUNK)).strip(b"\n"):
        raise _longer(layout)


def _space(held: bytes, at: int, width: int) -> int:
    """Where the name ends that starts `at`: at its first space, unless the name is a phrase; -1 if too few
    bytes are held.

    In "new york" the vector after the first space would begin with the letters of "york": as numbers they are
    far too large, and the bytes after them are shifted. So the space counts that has usual numbers after it.
    """
    first = space = held.find(b" ", at)
    while space >= 0 and (more := _PHRASE.match(held, space + 1)):
        if space + 1 + width > len(held):
            return -1
        if _is_usual(held[space + 1 : space + 1 + width]):
            return space
        space = more.end() - 1
    if space == first:
        return first
    if space + 1 + width > len(held):
        return -1
    return space if _is_usual(held[space + 1 : space + 1 + width]) else first


def _is_usual(payload: bytes) -> bool:
    sizes = np.abs(np.frombuffer(payload, dtype="<f4"))
    return bool(np.all((sizes == 0) | ((sizes > _TINY) & (sizes < _HUGE))))


def _text(file: io.BufferedReader, layout: Layout) -> Iterator[Row]:
    number = first = _first_line(layout)
    for raw in _lines(file, layout):
        line = raw.rstrip()
        if not line:
            break
        if number - first == layout.count:
            raise _longer(layout)
        yield _row(line, layout, number, cut=bool(layout.count) and not raw.endswith(b"\n"))
        number += 1
    if any(line.strip() for line in _lines(file, layout)):
        raise InputError(
            f"{layout.path}: line {number} is empty; expected a word and its {layout.dim} numbers."
        )
    if layout.count and number - first < layout.count:
        raise EOFError("the file ends there")


def _row(line: bytes, layout: Layout, number: int, cut: bool) -> Row:
    """The word of a line and its numbers with a space between two."""
    if line.count(b" ") == layout.dim and b"  " not in line and b"\t" not in line:
        word, _, values = line.partition(b" ")
        return word, values
    name, *parts = line.rsplit(None, layout.dim)
    if cut and len(parts) < layout.dim:
        raise EOFError(f"line {number} is cut")
    # GloVe 840B has words with spaces (". . ."); a row that is too wide has numbers there instead.
    if len(parts) < layout.dim or not is_name(line, name, parts, layout.phrases):
        raise InputError(
            f"{layout.path}: line {number} has {len(line.split()) - 1} numbers; expected {layout.dim}. "
            "Repair the line or get the file again."
        )
    return name.strip(), b" ".join(parts)


def _lines(file: io.BufferedReader, layout: Layout) -> Iterator[bytes]:
    """The lines left; one without an end is an error, and not a line that fills the memory."""
    while line := file.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise InputError(f"{layout.path} has a line of more than {_LONGEST_LINE:,} bytes; get it again.")
        yield line


def _values(layout: Layout, number: int, payload: bytes) -> Float32[np.ndarray, " D"]:
    if layout.format == BINARY:
        return np.frombuffer(payload, dtype="<f4")
    parts = payload.split(b" ")
    try:
        with np.errstate(over="ignore"):  # 1e99 becomes infinity, which Vectors refuses, naming the word
            return np.array([number_of(part) for part in parts]).astype(np.float32)
    except ValueError as error:
        bad = next(part for part in parts if not are_numbers([part])).decode("utf-8", "backslashreplace")
        raise InputError(
            f"{layout.path}: line {number + _first_line(layout)} has {bad!r}, not a number; repair it."
        ) from error


def _most(layout: Layout, wanted: Collection[str] | None, first: int) -> int:
    # The count of a faulty header could exceed the memory, so the size of the file limits the table.
    size = most_bytes(layout.path)
    if size is None or (wanted is None and layout.count is None):
        possible = sum(1 for _ in rows(layout))
    else:
        possible = size // max(1, (4 if layout.format == BINARY else 2) * layout.dim)
    return min(possible, layout.count or possible, possible if wanted is None else len(wanted) + first)


def _first_line(layout: Layout) -> int:
    return 1 if layout.count is None else 2


def _longer(layout: Layout) -> InputError:
    return InputError(
        f"{layout.path} continues after the {layout.count:,} vectors of width {layout.dim} in its header; "
        "correct its first line or get the file again."
    )
