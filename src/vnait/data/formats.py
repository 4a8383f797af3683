"""The columns of a file, of a data set of the hub, or of a sample, by format."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from itertools import compress, islice
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from vnait.data.decoding import (
    MAX_GIB,
    PACKED,
    SEPARATORS,
    TextFile,
    rows_of,
    same,
    separator_of,
    sniffed,
    unpacked_name,
)
from vnait.shared.errors import InputError, as_input_error, extra, one_line
from vnait.shared.files import check_unpacked

logger = logging.getLogger("vnait")

# Names of columns, and the cells of the column at an index: those not needed may be large or not text. Each
# call reads the file again, so that only the requested part is in memory.
Columns = tuple[list[str], Callable[[int], Iterable[object]]]


@dataclass(frozen=True)
class Format:
    """The columns wanted of a file; its separator and its encoding, None if they are to be found."""

    wanted: Sequence[str]
    sep: str | None = None
    encoding: str | None = None


def columns_of(source: str, split: str, form: Format) -> Columns:
    """The columns of a source, whose form is checked: all of a file is read once."""
    if source.startswith("hf:"):
        return _hub(source, split)
    if split != "train":
        raise InputError(f"split={split!r} is for hf: data sets, and {source} is not one; leave split out.")
    return _builtin(source) if source.startswith("builtin:") else _file(Path(source), form)


def is_table(source: str) -> bool:
    """Whether a source can be nothing but a table. A .txt or .tsv file may also have a word per line."""
    extension = Path(unpacked_name(source)).suffix
    return source.startswith(("hf:", "builtin:")) or extension in {*_READERS} - {".txt", ".tsv"}


def check_file(path: Path) -> None:
    """Raise InputError unless there is a file that can be read twice."""
    if path.is_dir():
        raise InputError(
            f"{path} is a folder; give a file in it, or hf:{path} to have `datasets` read the folder."
        )
    if not path.exists():
        raise InputError(f"there is no file {path}; give the path of a table, hf:NAME, or builtin:polarity.")
    if not path.is_file():
        raise InputError(f"{path} is a pipe, and a table is read more than once; write it to a file first.")


def _file(path: Path, form: Format) -> Columns:
    check_file(path)
    extension, packing = Path(unpacked_name(path)).suffix, path.suffix.lower()
    readers = _PACKABLE if packing in PACKED else _READERS
    if extension in readers:
        return readers[extension](path, form)
    if extension == ".xls":
        raise InputError(f"{path} is an old Excel file; open it in Excel and save it as .xlsx or .csv.")
    cure = "Rename or convert it."
    if extension.startswith(".conll"):
        cure = "For a tag per word add --task tagging (task= in Python)."
    ending = extension + packing * (packing in PACKED)
    raise InputError(
        f"{path} ends in {ending or 'no extension'}; expected one of {', '.join(_READERS)}. The first "
        f"{len(_PACKABLE)} may be packed: {', '.join(PACKED)}. {cure}"
    )


def _delimited(path: Path, form: Format, *, usual: str) -> Columns:
    file = TextFile.of(path, form.encoding)
    # Excel may name the separator in a first line such as `sep=;`.
    first = same(next(file.lines()))
    named = first[4:] if first.startswith("sep=") and len(first) == 5 else None

    def lines() -> Iterator[str]:
        return islice(file.lines(), int(named is not None), None)

    separator = form.sep or (separator_of(named) if named else sniffed(lines(), form.wanted, usual))
    if separator != usual:
        logger.info("%s: the fields are separated by %s.", path, SEPARATORS[separator])
    try:
        rows = rows_of(lines, separator)
        names = next(rows())
    except ValueError as error:
        raise InputError(
            f"{path} is malformed, read as fields separated by {SEPARATORS[separator]}: {error}. A field "
            'with a separator, a quote or a newline needs quotes around it, and a quote in it is written ""; '
            "--sep sets another separator."
        ) from error
    return names, lambda at: (row[at] if at < len(row) else "" for row in islice(rows(), 1, None))


def _json_lines(path: Path, form: Format) -> Columns:
    """One JSON object per line, or a file that is one array of objects."""
    file = TextFile.of(path, form.encoding)
    # Not str.splitlines: inside a JSON string U+2028 and the like are ordinary characters.
    with file.opened("\n") as text:
        first = next(line for line in text if line.strip()).lstrip()
        elements = _json(first + text.read(), str(path)) if _ARRAY.match(first) else None

    def rows() -> Iterator[dict[str, Any]]:
        for number, row in enumerate(elements or [], 1):
            yield _object(row, f"{path}, element {number}")
        with file.opened("\n") as text:
            for number, line in enumerate(text if elements is None else [], 1):
                if line.strip():
                    place = f"{path}, line {number}"
                    yield _object(_json(line.rstrip("\n"), place), place)

    names = list(dict.fromkeys(name for row in rows() for name in row))
    return names, lambda at: (row.get(names[at]) for row in rows())


def _object(row: object, place: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise InputError(f"{place} is not a JSON object; {_OBJECTS}")
    return _flat(row)


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """With the fields of an inner object, too, by names such as body.text.

    >>> _flat({"id": "7", "body": {"text": "good"}})["body.text"]
    'good'
    """
    inner = {
        f"{name}.{key}": value
        for name, field in row.items()
        if isinstance(field, dict)
        for key, value in _flat(field).items()
    }
    return {**inner, **row} if inner else row


_ARRAY = re.compile(r"\[\s*(\{|$)")  # else a line with an array is not an object
_OBJECTS = "expected one JSON object per line, or an array of objects."


def _json(text: str, place: str) -> Any:
    with as_input_error(
        (ValueError, RecursionError), f"{place} is not JSON: ", f"; {_OBJECTS}", message=one_line
    ):
        return json.loads(text, parse_float=str, parse_int=str)  # numbers as written: 1.10 stays "1.10"


def _excel(path: Path, form: Format) -> Columns:
    """The first sheet of a workbook, cells as Excel shows them (3 for 3.0), dates in ISO 8601."""
    # Not pandas, which lays out all cells between the first and the last: a small file may name one far away.
    with extra("excel"):
        from openpyxl import load_workbook
    before, after = f"{path} can't be read as an Excel workbook: ", ". Save it again as .xlsx."
    # openpyxl, zipfile and expat raise their own.
    with as_input_error(Exception, before, after, message=one_line):
        with ZipFile(path) as archive:
            check_unpacked(path, sum(part.file_size for part in archive.infolist()), MAX_GIB)
        book = load_workbook(path, read_only=True, data_only=True)
        sheet = book.worksheets[0]
        sheet.reset_dimensions()  # a file's own note of its size may be wrong
        rows = [list(row) for row in sheet.iter_rows(values_only=True)]
    if len(book.sheetnames) > 1:
        logger.info("%s: read its first sheet, %r, of %d.", path, sheet.title, len(book.sheetnames))
    blank = [all(cell is None for cell in row) for row in rows]
    rows = rows[blank.index(False) : len(blank) - blank[::-1].index(False)] if False in blank else []
    if not rows:
        raise InputError(f"{path} is empty; expected a table with a text column.")
    names = ["" if cell is None else str(_shown(cell)) for cell in rows[0]]
    return names, lambda at: [_shown(row[at]) if at < len(row) else None for row in rows[1:]]


def _shown(cell: object) -> object:
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell


def _parquet(path: Path, form: Format) -> Columns:
    import pyarrow as pa
    import pyarrow.parquet as pq

    refused = partial(
        as_input_error,
        (OSError, ValueError, pa.ArrowException),
        f"{path} can't be read as Parquet: ",
        message=one_line,
    )

    def cells(at: int) -> Iterator[object]:
        with refused(". Write the file again."):
            for part in _parts(path):
                with refused(". Write the file again as UTF-8."):
                    values: list[object] = part.column(at).to_pylist()
                yield from values

    with refused(". Write the file again."), pq.ParquetFile(path) as file:
        return file.schema_arrow.names, cells


def _parts(path: Path) -> Iterator[Any]:
    """A Parquet file's rows, some at a time, since its values, and not its size, say what they take."""
    import pyarrow.parquet as pq

    # Not read_table, which adds columns it reads off folder names such as label=3/.
    with pq.ParquetFile(path) as file:
        groups = range(file.metadata.num_row_groups)
        check_unpacked(path, sum(file.metadata.row_group(at).total_byte_size for at in groups), MAX_GIB)
        size = 0
        for part in file.iter_batches(1024):
            size += part.nbytes
            check_unpacked(path, size, MAX_GIB)
            yield part


def _hub(source: str, split: str) -> Columns:
    with extra("hub"):
        import datasets

    name, _, config = source.removeprefix("hf:").partition(":")
    before = f"{source} (split {split!r}) could not be loaded: "
    after = ". Check the name, the split and the network, or give a local file."
    # The libraries below raise a dozen unrelated types (httpx, fsspec, pyarrow, datasets).
    with as_input_error(Exception, before, after, message=one_line):
        data = datasets.load_dataset(name, config or None, split=split)

    def cells(at: int) -> list[object]:
        """Classes by name; a class of -1, as in unlabelled test splits, is missing."""
        column, feature = list(data[names[at]]), data.features[names[at]]
        if not isinstance(feature, datasets.ClassLabel):
            return column
        return [None if cell in (None, -1) else feature.int2str(cell) for cell in column]

    names: list[str] = data.column_names
    return names, cells


def _builtin(source: str) -> Columns:
    if source == "builtin:polarity":
        return _polarity()
    if source not in ("builtin:splice", "builtin:splice-test"):
        raise InputError(
            f"there is no {source}; give builtin:splice, builtin:splice-test or builtin:polarity."
        )
    path = Path(str(files("vnait.data") / "samples" / "splice.csv.gz"))
    (*names, _), cells = _delimited(path, Format(["text", "label"]), usual=",")
    wanted = "test" if source.endswith("test") else "train"
    of_part = [part == wanted for part in cells(len(names))]  # the last column says which part a row is of
    return names, lambda at: compress(cells(at), of_part)


def _polarity() -> Columns:
    from gensim.test.utils import datapath

    # A line is "__label__pos some sentence . ", in cp1252.
    written = Path(datapath("pang_lee_polarity.cor")).read_text(encoding="cp1252")
    rows = [line.split(" ", 1) for line in written.split("\n") if line]
    labels = [label.removeprefix("__label__") for label, _ in rows]
    texts = [text.strip() for _, text in rows]
    return ["text", "label"], lambda at: (texts, labels)[at]


_PACKABLE: dict[str, Callable[[Path, Format], Columns]] = {
    ".csv": partial(_delimited, usual=","),
    ".txt": partial(_delimited, usual="\t"),
    ".tsv": partial(_delimited, usual="\t"),
    ".jsonl": _json_lines,
    ".json": _json_lines,
}
_READERS: dict[str, Callable[[Path, Format], Columns]] = {**_PACKABLE, ".parquet": _parquet, ".xlsx": _excel}
