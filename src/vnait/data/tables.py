"""Texts and labels from CSV, TSV, JSONL, Excel, Parquet, the Hugging Face hub, or a built-in sample."""

from __future__ import annotations

import datetime
import hashlib
import json
import logging
import math
import numbers
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from importlib.resources import files
from itertools import compress
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from vnait.data.decoding import MOST, SEPARATORS, decoded, rows_of, same, separator_of, sniffed
from vnait.errors import InputError, as_input_error, extra
from vnait.files import check_unpacked

log = logging.getLogger("vnait")

# Names of columns, and the cells of the column at an index: those not needed may be large or not text.
Columns = tuple[list[str], Callable[[int], Iterable[object]]]

# JSON can spell half an emoji ("\ud83d"), which no tokenizer and no UTF-8 file takes.
HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Table:
    """Texts and labels (None if there are none), row by row; `dropped` counts the rows without text or label.

    >>> table = Table(texts=["good", "bad", "fine"], labels=["1", "0", "1"], name="three.csv", dropped=0)
    >>> len(table), table.select([2, 0]).texts
    (3, ['fine', 'good'])
    """

    texts: list[str]
    labels: list[str] | None
    name: str
    dropped: int

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def fingerprint(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of texts and labels."""
        # JSON marks where a cell ends; joined by a separator, two cells could look like one.
        return hashlib.sha256(json.dumps([self.texts, self.labels]).encode()).hexdigest()[:16]

    def select(self, indices: Iterable[int]) -> Table:
        """The rows `indices`, in that order."""
        rows = list(indices)
        labels = None if self.labels is None else [self.labels[row] for row in rows]
        return replace(self, texts=[self.texts[row] for row in rows], labels=labels)


def read(
    source: str | os.PathLike[str],
    *,
    text: str = "text",
    label: str | None = "label",
    split: str = "train",
    sep: str | None = None,
    encoding: str | None = None,
) -> Table:
    """The columns `text` and `label` of `source`; rows without text or label are dropped and logged.

    source   a CSV, TSV, JSONL, Parquet or Excel (.xlsx) file; `hf:NAME` or `hf:NAME:CONFIG`, a data set (or
             local folder) that `datasets` can load; `builtin:splice` and `builtin:splice-test`, DNA windows
             around splice junctions (CC BY 4.0); `builtin:polarity`, 200 review sentences labelled pos or neg
    label    None if there are no labels, as in prediction; then every row is kept
    split    the part of an `hf:` data set
    sep      the separator of a CSV or TSV file: , ; | or tab; None: found in the file
    encoding of a CSV, TSV or JSONL file; None: by its byte-order mark, else UTF-8

    Columns are found by their exact name, else ignoring case and surrounding space. Cells stay as written
    ("1", "NA" and "null" are ordinary labels); numbers and booleans of Parquet become strings (1.0 is "1.0").
    Rows are counted from 1, without the header. InputError if the source can't be read, lacks a column, or
    has no text or no label at all.

    >>> table = read("builtin:polarity")
    >>> len(table), table.labels[0], table.texts[0]
    (200, 'neg', 'simplistic , silly and tedious .')
    """
    source = os.fspath(source)
    wanted = [text] if label is None else [text, label]
    columns = _columns(source, split, Format(wanted, None if sep is None else separator_of(sep), encoding))
    texts = _strings(columns, text, source)
    labels = None if label is None else _strings(columns, label, source)
    found = _table(source, texts, labels)
    if found.labels is not None:
        _check_classes(found.labels, source, str(label))
    return found


@dataclass(frozen=True)
class Format:
    """The columns wanted of a file; its separator and its encoding, None if they are to be found."""

    wanted: Sequence[str]
    sep: str | None = None
    encoding: str | None = None


def _columns(source: str, split: str, form: Format) -> Columns:
    if source.startswith("hf:"):
        return _hub(source, split)
    if split != "train":
        raise InputError(f"split={split!r} is for hf: data sets, and {source} is not one; leave split out.")
    return _builtin(source) if source.startswith("builtin:") else _file(Path(source), form)


def _strings(columns: Columns, name: str, source: str) -> list[str]:
    names, cells = columns
    found = name if name in names else _alike_column(list(dict.fromkeys(names)), name, source)
    if (count := names.count(found)) > 1:
        raise InputError(f"{source} has {count} columns {found!r}; rename all but one.")
    return [
        _string(cell, f"{source}, row {row}, column {found!r}")
        for row, cell in enumerate(cells(names.index(found)), 1)
    ]


def _alike_column(columns: Sequence[str], name: str, source: str) -> str:
    """The only column that differs just in case or space; else an error that suggests the closest."""
    alike = [column for column in columns if same(column) == same(name)]
    if len(alike) == 1:
        return alike[0]
    there = ", ".join(map(repr, columns[:20])) + " ..." * (len(columns) > 20)
    close = alike or get_close_matches(name, columns, n=1)
    meant = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    raise InputError(
        f"{source} has no column {name!r}; its columns are {there}.{meant} Name the columns with --text and "
        "--label (text=, label= in Python); the first line must be the header."
    )


def _check_classes(labels: Sequence[str], source: str, column: str) -> None:
    """Refuse dates, numbers or free text as labels: columns in which most values occur once."""
    distinct = len(set(labels))
    if len(labels) >= 20 and 2 * distinct > len(labels):
        raise InputError(
            f"{source}: the column {column!r} has {distinct} different labels in {len(labels)} rows, such as "
            f"{labels[0][:40]!r}; labels must repeat. Name the column of the classes with --label."
        )


def _string(cell: object, where: str) -> str:
    """The cell as a string, "" if it is missing."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if not isinstance(cell, (str, numbers.Number, datetime.date)):
        raise InputError(f"{where} has a value of type {type(cell).__name__}; expected text or a number.")
    written = str(cell)
    if HALF.search(written):
        raise InputError(
            f"{where} has half a character (a lone surrogate); write it again from the original text."
        )
    return written


def _table(source: str, texts: list[str], labels: list[str] | None) -> Table:
    if not texts:
        raise InputError(f"{source} has no rows below its header; expected at least one text.")
    blank = [row for row, text in enumerate(texts) if not text.strip()]
    if len(blank) == len(texts):
        raise InputError(
            f"{source} has no text: all {len(blank)} rows are empty in the text column. Name another column."
        )
    if labels is None:  # for prediction: the answers must line up with the rows of the file
        if blank:
            log.warning(
                "%s: %d of %d rows have an empty text: %s.", source, len(blank), len(texts), _numbers(blank)
            )
        return Table(texts=texts, labels=None, name=source, dropped=0)
    unlabelled = [row for row, text in enumerate(texts) if text.strip() and not labels[row].strip()]
    if (written := len(texts) - len(blank)) == len(unlabelled):
        raise InputError(
            f"{source} has no label in any of its {written} rows with a text. Name another column; for "
            "texts without labels, use label=None."
        )
    for rows, why in ((blank, "whose text is empty"), (unlabelled, "which have no label")):
        if rows:
            log.warning(
                "%s: dropped %d of %d rows, %s: %s.", source, len(rows), len(texts), why, _numbers(rows)
            )
    dropped = {*blank, *unlabelled}
    kept = [row for row in range(len(texts)) if row not in dropped]
    if alike := _alike(labels[row] for row in kept):
        log.warning(
            "%s: the labels %s differ only in spaces or capitals and count as different classes; write them "
            "alike if they mean the same.",
            source,
            ", ".join(map(repr, alike)),
        )
    whole = Table(texts=texts, labels=labels, name=source, dropped=len(dropped))
    return whole.select(kept) if dropped else whole


def _alike(labels: Iterable[str]) -> list[str]:
    """Labels that differ from another one only in case or surrounding space.

    >>> _alike(["good", "Good ", "bad", "good"])
    ['Good ', 'good']
    """
    written: dict[str, set[str]] = {}
    for label in labels:
        written.setdefault(label.strip().casefold(), set()).add(label)
    return sorted(label for same in written.values() if len(same) > 1 for label in same)


def _numbers(rows: Sequence[int]) -> str:
    """The first three rows, counted from 1, and how many more there are.

    >>> _numbers([4]), _numbers([0, 1, 2, 3])
    ('row 5', 'rows 1, 2, 3 and 1 more')
    """
    first = ", ".join(str(row + 1) for row in rows[:3])
    more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
    return f"row{'s' if len(rows) > 1 else ''} {first}{more}"


def _file(path: Path, form: Format) -> Columns:
    if path.is_dir():
        raise InputError(
            f"{path} is a folder; give a file in it, or hf:{path} to have `datasets` read the folder."
        )
    if not path.exists():
        raise InputError(f"there is no file {path}; give the path of a table, hf:NAME, or builtin:polarity.")
    extension = "".join(path.suffixes[-2:] if path.suffix.lower() == ".gz" else path.suffixes[-1:]).lower()
    if extension == ".xls":
        raise InputError(f"{path} is an old Excel file; open it in Excel and save it as .xlsx or .csv.")
    if extension not in _READERS:
        known = ", ".join(_READERS)
        raise InputError(
            f"{path} ends in {extension or 'no extension'}; expected one of {known}. Rename or convert it."
        )
    return _READERS[extension](path, form)


def _delimited(path: Path, form: Format, *, usual: str) -> Columns:
    text, separator = _separated(decoded(path, form.encoding).strip("\r\n"), form, usual)
    if separator != usual:
        log.info("%s: the fields are separated by %s.", path, SEPARATORS[separator])
    try:
        rows = rows_of(text, separator)
    except ValueError as error:
        raise InputError(
            f"{path} is malformed, read as fields separated by {SEPARATORS[separator]}: {error}. A field "
            'with a separator, a quote or a newline needs quotes around it, and a quote in it is written ""; '
            "--sep sets another separator."
        ) from error
    return rows[0], lambda at: [row[at] if at < len(row) else "" for row in rows[1:]]


def _separated(text: str, form: Format, usual: str) -> tuple[str, str]:
    """The table's text and its separator, which Excel may write as a first line such as `sep=;`."""
    first, _, rest = text.partition("\n")
    if same(first).startswith("sep=") and len(first.strip()) == 5:
        return rest, form.sep or separator_of(first.strip()[4])
    return text, form.sep or sniffed(text, form.wanted, usual)


def _json_lines(path: Path, form: Format) -> Columns:
    """One JSON object per line, or a file that is one array of objects."""
    text, kind = decoded(path, form.encoding), "line"
    if text.lstrip().startswith(("[{", "[\n")):
        kind = "element"
        rows = list(enumerate(_json(text, str(path)), 1))
    else:
        # Not str.splitlines: inside a JSON string U+2028 and the like are ordinary characters.
        lines = enumerate(text.split("\n"), 1)
        rows = [(number, _json(line, f"{path}, line {number}")) for number, line in lines if line.strip()]
    for number, row in rows:
        if not isinstance(row, dict):
            raise InputError(f"{path}, {kind} {number} is no JSON object; {_OBJECTS}")
    names = list(dict.fromkeys(name for _, row in rows for name in row))
    return names, lambda at: [row.get(names[at]) for _, row in rows]


_OBJECTS = "expected one JSON object per line, or an array of objects."


def _json(text: str, place: str) -> Any:
    with as_input_error((ValueError, RecursionError), f"{place} is no JSON: ", f"; {_OBJECTS}", says=_reason):
        return json.loads(text, parse_float=str, parse_int=str)  # numbers as written: 1.10 stays "1.10"


def _excel(path: Path, form: Format) -> Columns:
    """The first sheet of a workbook, cells as Excel shows them (3 for 3.0), dates in ISO 8601."""
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise InputError(f'{path} needs openpyxl; run: pip install "vnait[excel]".') from error
    before, after = f"{path} can't be read as an Excel workbook: ", ". Save it again as .xlsx."
    # openpyxl, zipfile and expat raise their own.
    with as_input_error(Exception, before, after, says=_reason):
        with ZipFile(path) as archive:
            check_unpacked(path, sum(part.file_size for part in archive.infolist()), MOST)
        book = load_workbook(path, read_only=True, data_only=True)
        rows = [list(row) for row in book.worksheets[0].iter_rows(values_only=True)]
    if len(book.sheetnames) > 1:
        log.info("%s: read its first sheet, %r, of %d.", path, book.sheetnames[0], len(book.sheetnames))
    rows = [row for row in rows if any(cell is not None for cell in row)]
    if not rows:
        raise InputError(f"{path} is empty; expected a table with a text column.")
    names = ["" if cell is None else str(_shown(cell)) for cell in rows[0]]
    return names, lambda at: [_shown(row[at]) for row in rows[1:]]


def _shown(cell: object) -> object:
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell


def _parquet(path: Path, form: Format) -> Columns:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds, before = (OSError, ValueError, pa.ArrowException), f"{path} can't be read as Parquet: "
    # Not read_table, which adds columns it reads off folder names such as label=3/.
    with as_input_error(kinds, before, ". Write the file again.", says=_reason), pq.ParquetFile(path) as file:
        table = _within_limit(path, file)

    def cells(at: int) -> list[object]:
        with as_input_error(ValueError, before, ". Write the file again as UTF-8.", says=_reason):
            found: list[object] = table.column(at).to_pylist()
            return found

    return table.column_names, cells


def _within_limit(path: Path, file: Any) -> Any:
    """The table of a Parquet file; read in parts, since its values, and not its size, say what they take."""
    import pyarrow as pa

    stated = sum(file.metadata.row_group(at).total_byte_size for at in range(file.metadata.num_row_groups))
    check_unpacked(path, stated, MOST)
    parts, size = [], 0
    for part in file.iter_batches(1024):
        size += part.nbytes
        check_unpacked(path, size, MOST)
        parts.append(part)
    return pa.Table.from_batches(parts, file.schema_arrow)


def _hub(source: str, split: str) -> Columns:
    with extra("hub"):
        import datasets

    name, _, config = source.removeprefix("hf:").partition(":")
    before = f"{source} (split {split!r}) could not be loaded: "
    after = ". Check the name, the split and the network, or give a local file."
    # The libraries below raise a dozen unrelated types (httpx, fsspec, pyarrow, datasets).
    with as_input_error(Exception, before, after, says=_reason):
        data = datasets.load_dataset(name, config or None, split=split)

    def cells(at: int) -> list[object]:
        """Classes by name; a class of -1, as in unlabelled test splits, is missing."""
        found, feature = list(data[names[at]]), data.features[names[at]]
        if not isinstance(feature, datasets.ClassLabel):
            return found
        return [None if cell in (None, -1) else feature.int2str(cell) for cell in found]

    names: list[str] = data.column_names
    return names, cells


def _builtin(source: str) -> Columns:
    if source == "builtin:polarity":
        return _polarity()
    if source not in ("builtin:splice", "builtin:splice-test"):
        raise InputError(
            f"there is no {source}; give builtin:splice, builtin:splice-test or builtin:polarity."
        )
    path = Path(str(files("vnait") / "samples" / "splice.csv.gz"))
    (*names, _), cells = _delimited(path, Format(["text", "label"]), usual=",")
    wanted = "test" if source.endswith("test") else "train"
    kept = [part == wanted for part in cells(len(names))]  # the last column says which part a row is of
    return names, lambda at: compress(cells(at), kept)


def _polarity() -> Columns:
    from gensim.test.utils import datapath

    # A line is "__label__pos some sentence . ", in cp1252.
    written = Path(datapath("pang_lee_polarity.cor")).read_text(encoding="cp1252")
    rows = [line.split(" ", 1) for line in written.split("\n") if line]
    labels = [label.removeprefix("__label__") for label, _ in rows]
    texts = [text.strip() for _, text in rows]
    return ["text", "label"], lambda at: (texts, labels)[at]


def _reason(error: BaseException) -> str:
    """The message of a library's error on one line, without its full stop."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


_READERS: dict[str, Callable[[Path, Format], Columns]] = {
    ".csv": partial(_delimited, usual=","),
    ".csv.gz": partial(_delimited, usual=","),
    ".txt": partial(_delimited, usual="\t"),
    ".tsv": partial(_delimited, usual="\t"),
    ".tsv.gz": partial(_delimited, usual="\t"),
    ".jsonl": _json_lines,
    ".jsonl.gz": _json_lines,
    ".json": _json_lines,
    ".json.gz": _json_lines,
    ".parquet": _parquet,
    ".xlsx": _excel,
}
