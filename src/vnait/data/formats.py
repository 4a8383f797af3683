"""The columns of a file, of a folder, of a data set of the hub, or of a sample, by format."""

from __future__ import annotations

import csv
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.resources import files
from itertools import compress, islice
from pathlib import Path
from typing import Any

from vnait.data.decoding import (
    CELL,
    LFS,
    LFS_POINTER,
    MAX_GIB,
    PACKED,
    SEPARATORS,
    TextFile,
    inner_ending,
    rows_of,
    same,
    separator_of,
    sniffed,
    unpacked_name,
)
from vnait.data.json_files import json_columns
from vnait.data.labels import LABEL_MARK
from vnait.data.layout import Columns, Format, numbered
from vnait.data.workbooks import excel, old_excel, open_document
from vnait.shared.errors import InputError, as_input_error, extra, one_line
from vnait.shared.files import check_unpacked

logger = logging.getLogger("vnait")

# The first line of fastText's, and the labels at the ends of a line.
_FASTTEXT = re.compile(r"(__label__\S+\s+)*__label__[^\s,;|]+(\s|$)|.*[^\s,;|]\s+__label__[^\s,;|]+\s*$")
# Excel pads the line to the width of the table, and may quote it.
_SEPARATOR = re.compile(r'"?sep=([,;|\t])"?[,;|\t]*\s*$', re.IGNORECASE)
_BLANK = b" \t\n\r\f\v\0\xef\xbb\xbf\xfe\xff"  # bytes of a file without letters; the last five are of marks
_LABELS = re.compile(r"^(?:__label__\S*\s*)+|(?:\s+__label__\S*)+$")


def columns_of(source: str, split: str, form: Format) -> Columns:
    """The columns of a source, whose form is checked: all of a file is read once."""
    if source.startswith("hf:"):
        form.refuse(source, "a data set of the hub", "sep", "encoding", "sheet", "header")
        return _hub(source, split)
    if split != "train":
        raise InputError(f"split={split!r} is for hf: data sets, and {source} is not one; leave split out.")
    if source.startswith("builtin:"):
        form.refuse(source, "a sample", "sep", "encoding", "sheet", "header")
        return _builtin(source)
    path = Path(source)
    return _folder(path, form) if _has_classes(path) else _file(path, form)


def is_table(source: str) -> bool:
    """Whether a source can be nothing but a table. A .txt or .tsv file may also have a word per line."""
    extension = Path(unpacked_name(source)).suffix
    return source.startswith(("hf:", "builtin:")) or extension in {*_READERS} - {".txt", ".tsv"}


def check_file(path: Path) -> None:
    """Raise InputError unless there is a file that can be read twice."""
    if path.is_dir():
        raise InputError(
            f"{path} is a folder, without folders of .txt files by class; give a file in it, or hf:{path} to "
            "have `datasets` read the folder."
        )
    if not path.exists():
        raise InputError(f"there is no file {path}; give the path of a table, hf:NAME, or builtin:polarity.")
    if not path.is_file():
        raise InputError(f"{path} is a pipe, and a table is read more than once; write it to a file first.")
    with suppress(OSError), path.open("rb") as file:  # whose reader says more of what can't be read
        if file.read(len(LFS)) == LFS:
            raise InputError(f"{path} {LFS_POINTER}.")


def _file(path: Path, form: Format) -> Columns:
    check_file(path)
    extension, packing = Path(unpacked_name(path)).suffix, path.suffix.lower()
    if packing == ".zip" and extension in ("", *_PACKABLE):
        inner = inner_ending(path)
        extension = inner if inner in _PACKABLE or not extension else extension
    readers = _PACKABLE if packing in PACKED else _READERS
    if extension in readers:
        columns = readers[extension](path, form)
        plain = extension in _PACKABLE and packing not in PACKED
        return columns if plain else replace(columns, cells=partial(_limited, path, columns))
    cure = "Rename or convert it."
    if extension.startswith(".conll"):
        cure = "For a tag per word add --task tagging (task= in Python)."
    ending = extension + packing * (packing in PACKED)
    raise InputError(
        f"{path} ends in {ending or 'no extension'}; expected one of {', '.join(_READERS)}. The first "
        f"{len(_PACKABLE)} may be packed: {', '.join(PACKED)}. {cure}"
    )


def _limited(path: Path, columns: Columns, at: int) -> Iterator[object]:
    """The cells of a column of a packed file, which may hold a large one a million times."""
    size = checked = 0
    for cell in columns.cells(at):
        parts = cell if isinstance(cell, list) else [cell]
        size += sum(CELL + (len(part) if isinstance(part, str | bytes) else 0) for part in parts)
        if size > checked + (1 << 16):
            check_unpacked(path, size, MAX_GIB)
            checked = size
        yield cell


def _has_classes(path: Path) -> bool:
    """Whether a folder has folders with texts."""
    return path.is_dir() and next(_texts_in(path), None) is not None


def _texts_in(path: Path) -> Iterator[Path]:
    """The texts in the folders of a folder, without hidden files, such as those that macOS adds."""
    for file in path.glob("*/*"):
        hidden = file.name.startswith(".") or file.parent.name.startswith(".")
        if file.suffix.lower() == ".txt" and not hidden and file.is_file():
            yield file


def _folder(path: Path, form: Format) -> Columns:
    """A text per file, whose folder has the name of its class: text, label, file."""
    form.refuse(str(path), "a folder of texts", "sep", "sheet", "header")
    texts = sorted(_texts_in(path))

    def cells(at: int) -> Iterator[str]:
        for file in texts:
            yield _content(file, form) if at == 0 else (file.parent.name, str(file.relative_to(path)))[at - 1]

    for _ in cells(0):  # so that what is wrong with one is found at once
        pass
    return Columns(["text", "label", "file"], cells)


def _content(path: Path, form: Format) -> str:
    """The text of a file; one without letters is an empty text."""
    if not path.read_bytes().strip(_BLANK):
        return ""
    with TextFile.of(path, form.encoding).opened() as text:
        return text.read()


def _delimited(path: Path, form: Format, *, usual: str) -> Columns:
    form.refuse(str(path), "a text file", "sheet")
    file = TextFile.of(path, form.encoding)
    blank = next(number for number, line in enumerate(file.lines()) if line.strip("\r\n"))
    first = next(file.lines(blank))
    if form.sep is None and _FASTTEXT.match(first):
        return _fasttext(path, file)
    # Excel may name the separator in a first line such as `sep=;`, and shows the next one as the first.
    excels = _SEPARATOR.match(first)
    named = excels[1] if excels else None
    start = _first_line(file, form.header, form, usual) if form.header else blank + 1
    hidden = int(named is not None)

    def lines() -> Iterator[str]:
        return file.lines(start - 1 + hidden)

    if next(lines(), None) is None:
        raise InputError(f"{path} has fewer lines than {start}, its header by --header; give an earlier one.")
    separator = form.sep or (separator_of(named) if named else sniffed(lines(), form.wanted, usual))
    if separator != usual:
        logger.info("%s: the fields are separated by %s.", path, SEPARATORS[separator])
    try:
        rows = rows_of(lines, separator, start)
        _, names = next(rows())
    except ValueError as error:
        raise InputError(
            f"{path} is malformed, read as fields separated by {SEPARATORS[separator]}: {error}. A field "
            'with a separator, a quote or a newline needs quotes around it, and a quote in it is written ""; '
            "--sep sets another separator, --header the row of the names below a title."
        ) from error
    skipped = 0 if form.header == 0 else 1

    def numbers() -> Iterator[int]:
        return (number for number, _ in islice(rows(), skipped, None))

    return Columns(
        names if skipped else numbered(len(names)),
        lambda at: (row[at] if at < len(row) else "" for _, row in islice(rows(), skipped, None)),
        lambda row: next(islice(numbers(), row, None)),
    )


def _first_line(file: TextFile, row: int, form: Format, usual: str) -> int:
    """The line in which the row of the names begins: a cell of a title above it may have several lines."""
    reader = csv.reader(file.lines(), delimiter=form.sep or usual)
    with suppress(csv.Error):
        above = sum(1 for _ in islice(reader, row - 1))
        begins = reader.line_num + 1
        if above == row - 1 and {*map(same, next(reader, []))} & {*map(same, form.wanted)}:
            return begins
    return row  # a single quote in a title, say


def _fasttext(path: Path, file: TextFile) -> Columns:
    """Lines such as `__label__good a warm film`, with any number of labels before or after the text."""

    def rows() -> Iterator[tuple[list[str], str]]:
        for line in file.lines():
            text = line.strip()
            marked = " ".join(_LABELS.findall(text)).split()
            yield [label.removeprefix(LABEL_MARK) for label in marked], _LABELS.sub("", text)

    def cells(at: int) -> Iterator[object]:
        return (row[1 - at] for row in rows())

    logger.info("%s: read as lines of fastText, with %s before a label.", path, LABEL_MARK)
    return Columns(["text", "label"], cells)


def _parquet(path: Path, form: Format) -> Columns:
    import pyarrow as pa
    import pyarrow.parquet as pq

    form.refuse(str(path), "a Parquet file", "sep", "encoding", "sheet", "header")
    refused = partial(
        as_input_error,
        (OSError, ValueError, pa.ArrowException),
        f"{path} can't be read as Parquet: ",
        message=one_line,
    )

    def cells(at: int) -> Iterator[object]:
        with refused(". Write the file again."):
            for part in _parts(path):
                for cell in _fields(part).column(at):
                    with refused(". Write the file again as UTF-8."):
                        value = cell.as_py()
                    yield value

    with refused(". Write the file again."), pq.ParquetFile(path) as file:
        return Columns(_fields(file.schema_arrow.empty_table()).column_names, cells)


def _fields(table: Any) -> Any:
    """A table with the fields of its structures as columns, named as in body.text."""
    import pyarrow as pa

    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    return table


def _parts(path: Path) -> Iterator[Any]:
    """A Parquet file's rows, some at a time, since its values, and not its size, decide what they take.

    Strings come as dictionaries, as they are stored: a short file may repeat a long one in each row.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Not read_table, which adds columns it reads off folder names such as label=3/.
    with pq.ParquetFile(path) as file:
        groups = range(file.metadata.num_row_groups)
        check_unpacked(path, sum(file.metadata.row_group(at).total_byte_size for at in groups), MAX_GIB)
        strings = [file.schema.column(at) for at in range(len(file.schema))]
        names = [column.path for column in strings if column.physical_type == "BYTE_ARRAY"]
    with pq.ParquetFile(path, read_dictionary=names) as file:
        size = 0
        for part in file.iter_batches(1024):
            size += part.nbytes
            check_unpacked(path, size, MAX_GIB)
            yield pa.Table.from_batches([part])


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
    return Columns(names, cells)


def _builtin(source: str) -> Columns:
    if source == "builtin:polarity":
        return _polarity()
    if source not in ("builtin:splice", "builtin:splice-test"):
        raise InputError(
            f"there is no {source}; give builtin:splice, builtin:splice-test or builtin:polarity."
        )
    path = Path(str(files("vnait.data") / "samples" / "splice.csv.gz"))
    columns = _delimited(path, Format(["text", "label"]), usual=",")
    *names, _ = columns.names
    wanted = "test" if source.endswith("test") else "train"
    of_part = [
        part == wanted for part in columns.cells(len(names))
    ]  # the last column says which part a row is of
    return Columns(names, lambda at: compress(columns.cells(at), of_part))


def _polarity() -> Columns:
    from gensim.test.utils import datapath

    # A line is "__label__pos some sentence . ", in cp1252.
    written = Path(datapath("pang_lee_polarity.cor")).read_text(encoding="cp1252")
    rows = [line.split(" ", 1) for line in written.split("\n") if line]
    labels = [label.removeprefix(LABEL_MARK) for label, _ in rows]
    texts = [text.strip() for _, text in rows]
    return Columns(["text", "label"], lambda at: (texts, labels)[at])


_PACKABLE: dict[str, Callable[[Path, Format], Columns]] = {
    ".csv": partial(_delimited, usual=","),
    ".txt": partial(_delimited, usual="\t"),
    ".tsv": partial(_delimited, usual="\t"),
    ".jsonl": json_columns,
    ".json": json_columns,
}
_READERS: dict[str, Callable[[Path, Format], Columns]] = {
    **_PACKABLE,
    ".parquet": _parquet,
    ".xlsx": excel,
    ".xlsm": excel,
    ".xls": old_excel,
    ".ods": open_document,
}
