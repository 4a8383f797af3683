"""Texts and their labels, from CSV, TSV, JSONL, Parquet, the Hugging Face hub, or a sample that needs no download."""

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
from pathlib import Path

from vnait.errors import InputError
from vnait.text.decoding import SEPARATORS, decoded, rows_of, same, separator_of, sniffed

log = logging.getLogger("vnait")

# A column is decoded when it is asked for: the others may be large, or of a kind that is no text.
Columns = dict[str, Callable[[], Iterable[object]]]

# JSON can spell half an emoji ("\ud83d"), which no tokenizer and no UTF-8 file takes.
HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Table:
    """Texts, and their labels where there are any, row by row; `dropped` rows of the source had no text or no label.

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
        """Sixteen hexadecimal digits that tell one data set from another: the start of the SHA-256 of texts and labels."""
        # JSON marks where a cell ends; joined by a separator, two cells could read like one.
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
    """The columns `text` and `label` of `source` as a `Table` of strings; rows without text, or without label, are dropped and reported.

    source   a CSV, TSV, JSONL, Parquet or Excel (.xlsx) file; `hf:NAME` or `hf:NAME:CONFIG`, a data set (or local folder) that `datasets`
             can load; `builtin:splice` and `builtin:splice-test`, DNA windows around splice junctions (CC BY 4.0);
             `builtin:polarity`, 200 review sentences labelled pos or neg
    label    None where there are no labels, as in prediction; then every row is kept
    split    which part of an `hf:` data set
    sep      what separates the fields of a CSV or TSV file: , ; | or tab; None: found in the file
    encoding of a CSV, TSV or JSONL file; None: by its byte-order mark, else UTF-8

    Columns are found by name; where none is spelled exactly so, without regard to case and space around it.
    Cells stay as they were written ("1", "NA" and "null" are labels like any other); numbers and booleans of Parquet become
    strings (1 is "1", 1.0 is "1.0"). Rows are counted from 1, the header not among them. InputError where the source can't
    be read, lacks a column, holds no text, or a row has no label.

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
    """What is known of a file before it is read: the columns wanted, the separator and the encoding, None where they must be found."""

    wanted: Sequence[str]
    sep: str | None = None
    encoding: str | None = None


def _columns(source: str, split: str, form: Format) -> Columns:
    if source.startswith("hf:"):
        return _hub(source, split)
    if split != "train":
        raise InputError(f"split={split!r} chooses a part of an hf: data set, and {source} is none; leave split out.")
    return _builtin(source) if source.startswith("builtin:") else _file(Path(source), form)


def _strings(columns: Columns, name: str, source: str) -> list[str]:
    found = name if name in columns else _alike_column(columns, name, source)
    return [_string(cell, f"{source}, row {row}, column {found!r}") for row, cell in enumerate(columns[found](), 1)]


def _alike_column(columns: Columns, name: str, source: str) -> str:
    """The one column that differs in case or space alone; otherwise an error that suggests the closest."""
    alike = [column for column in columns if same(column) == same(name)]
    if len(alike) == 1:
        return alike[0]
    there = ", ".join(map(repr, list(columns)[:20])) + " ..." * (len(columns) > 20)
    close = alike or get_close_matches(name, list(columns), n=1)
    meant = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    raise InputError(
        f"{source} has no column {name!r}; its columns are {there}.{meant} Name the columns with --text and --label (text=, label= in "
        "Python); the first line must hold their names."
    )


def _check_classes(labels: Sequence[str], source: str, column: str) -> None:
    """Dates, numbers or free text in the label column: of many rows, most have a label of their own."""
    distinct = len(set(labels))
    if len(labels) >= 20 and 2 * distinct > len(labels):
        raise InputError(
            f"{source}: the column {column!r} has {distinct} different labels in {len(labels)} rows, such as {labels[0][:40]!r}, and a "
            "classifier needs labels that repeat; name the column of the classes with --label."
        )


def _string(cell: object, where: str) -> str:
    """The cell as a string, "" where it is missing."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if not isinstance(cell, (str, numbers.Number, datetime.date)):
        raise InputError(f"{where} holds a value of type {type(cell).__name__}; expected text or a number.")
    written = str(cell)
    if HALF.search(written):
        raise InputError(f"{where} holds half a character (a lone surrogate); write it again from the original text.")
    return written


def _table(source: str, texts: list[str], labels: list[str] | None) -> Table:
    if not texts:
        raise InputError(f"{source} holds no rows below its header; expected at least one text.")
    kept = [row for row, text in enumerate(texts) if text.strip()]
    blank = [row for row, text in enumerate(texts) if not text.strip()]
    if not kept:
        raise InputError(
            f"{source} holds no text: all {len(blank)} rows are empty in the text column. Name another column."
        )
    if labels is None:  # nothing is learned from these rows, and a prediction must line up with its file
        if blank:
            log.warning("%s: %d of %d rows have an empty text: %s.", source, len(blank), len(texts), _named(blank))
        return Table(texts=texts, labels=None, name=source, dropped=0)
    if blank:
        log.warning(
            "%s: dropped %d of %d rows, whose text is empty: %s.", source, len(blank), len(texts), _named(blank)
        )
    unlabelled = [row for row in kept if not labels[row].strip()]
    if len(unlabelled) == len(kept):
        raise InputError(
            f"{source} has no label in any of its {len(kept)} rows with a text. Name another column; for texts without labels, use "
            "label=None."
        )
    if unlabelled:
        log.warning(
            "%s: dropped %d of %d rows, which have no label: %s.",
            source,
            len(unlabelled),
            len(texts),
            _named(unlabelled),
        )
        kept = [row for row in kept if labels[row].strip()]
    if alike := _alike(labels[row] for row in kept):
        log.warning(
            "%s: the labels %s differ in spaces or capitals alone and count as different classes; write them alike "
            "where they mean the same.",
            source,
            ", ".join(map(repr, alike)),
        )
    whole = Table(texts=texts, labels=labels, name=source, dropped=len(texts) - len(kept))
    return whole.select(kept) if whole.dropped else whole


def _alike(labels: Iterable[str]) -> list[str]:
    """Labels that a reader would take for another one of them.

    >>> _alike(["good", "Good ", "bad", "good"])
    ['Good ', 'good']
    """
    written: dict[str, set[str]] = {}
    for label in labels:
        written.setdefault(label.strip().casefold(), set()).add(label)
    return sorted(label for same in written.values() if len(same) > 1 for label in same)


def _named(rows: Sequence[int]) -> str:
    """The first three rows, counted from 1, and how many more there are.

    >>> _named([4]), _named([0, 1, 2, 3])
    ('row 5', 'rows 1, 2, 3 and 1 more')
    """
    first = ", ".join(str(row + 1) for row in rows[:3])
    more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
    return f"row{'s' if len(rows) > 1 else ''} {first}{more}"


def _file(path: Path, form: Format) -> Columns:
    if path.is_dir():
        raise InputError(f"{path} is a folder; give a file in it, or hf:{path} to have `datasets` read the folder.")
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
            f"{path} is malformed, read as fields separated by {SEPARATORS[separator]}: {error}. A field that holds a separator, "
            'a quote or a newline needs quotes around it, and a quote in it is written ""; --sep names another separator.'
        ) from error
    return _by_name(path, rows[0], [partial(_column, rows, column) for column in range(len(rows[0]))])


def _column(rows: Sequence[Sequence[str]], column: int) -> list[object]:
    return [row[column] if column < len(row) else "" for row in rows[1:]]


def _separated(text: str, form: Format, usual: str) -> tuple[str, str]:
    """The table's text and its separator. Excel may write a first line such as sep=; that names it."""
    first, _, rest = text.partition("\n")
    if same(first).startswith("sep=") and len(first.strip()) == 5:
        return rest, form.sep or separator_of(first.strip()[4])
    return text, form.sep or sniffed(text, form.wanted, usual)


def _by_name(path: Path, names: Sequence[str], cells: Sequence[Callable[[], list[object]]]) -> Columns:
    """Columns by name; one whose name stands twice is refused when it is asked for."""

    def twice(name: str) -> list[object]:
        raise InputError(f"{path} has {names.count(name)} columns {name!r}; rename all but one.")

    return {
        name: read if names.count(name) == 1 else partial(twice, name) for name, read in zip(names, cells, strict=True)
    }


def _json_lines(path: Path, form: Format) -> Columns:
    # Not str.splitlines: inside a JSON string U+2028 and its like are ordinary characters.
    text = decoded(path, form.encoding)
    if text.lstrip().startswith("[{") or text.lstrip().startswith("[\n"):
        return _json_array(text, path)
    lines = enumerate(text.split("\n"), 1)
    rows = [_json_object(line, f"{path}, line {number}") for number, line in lines if line.strip()]
    return _by_key(rows)


def _json_array(text: str, path: Path) -> Columns:
    """A file that is one array of objects."""
    try:
        rows = json.loads(text, parse_float=str, parse_int=str)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path} is no JSON: {_reason(error)}. Expected an array of objects, or one object per line."
        ) from error
    if wrong := next((number for number, row in enumerate(rows, 1) if not isinstance(row, dict)), None):
        raise InputError(
            f"{path}, element {wrong} is no JSON object; expected an array of objects, or one object per line."
        )
    return _by_key(rows)


def _by_key(rows: list[dict[str, object]]) -> Columns:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: partial(_field, rows, name) for name in names}


def _json_object(line: str, where: str) -> dict[str, object]:
    try:
        # Numbers as they were written: 1.10 stays "1.10".
        row = json.loads(line, parse_float=str, parse_int=str)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is no JSON: {_reason(error)}. Expected one JSON object a line.") from error
    if not isinstance(row, dict):
        raise InputError(f"{where} holds a JSON {type(row).__name__}; expected one JSON object a line.")
    return row


def _field(rows: list[dict[str, object]], name: str) -> list[object]:
    return [row.get(name) for row in rows]


def _excel(path: Path, form: Format) -> Columns:
    """The first sheet of a workbook, cells as a person sees them: 3 for 3.0, dates as they are written in ISO 8601."""
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise InputError(f'{path} needs openpyxl; run: pip install "vnait[excel]".') from error
    try:
        book = load_workbook(path, read_only=True, data_only=True)
        rows = [list(row) for row in book.worksheets[0].iter_rows(values_only=True)]
    except Exception as error:  # openpyxl, zipfile and expat raise their own
        raise InputError(
            f"{path} can't be read as an Excel workbook: {_reason(error)}. Save it again as .xlsx."
        ) from error
    if len(book.sheetnames) > 1:
        log.info("%s: read its first sheet, %r, of %d.", path, book.sheetnames[0], len(book.sheetnames))
    rows = [row for row in rows if any(cell is not None for cell in row)]
    if not rows:
        raise InputError(f"{path} is empty; expected a table with a text column.")
    names = ["" if cell is None else str(_shown(cell)) for cell in rows[0]]
    columns = [[_shown(row[column]) for row in rows[1:]] for column in range(len(names))]
    return _by_name(path, names, [cells.copy for cells in columns])


def _shown(cell: object) -> object:
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell


def _parquet(path: Path, form: Format) -> Columns:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Not read_table, which adds columns it reads off folder names such as label=3/.
        with pq.ParquetFile(path) as file:
            table = file.read()
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path} can't be read as Parquet: {_reason(error)}. Write the file again.") from error
    return _by_name(path, table.column_names, [column.to_pylist for column in table.columns])


def _hub(source: str, split: str) -> Columns:
    import datasets

    name, _, config = source.removeprefix("hf:").partition(":")
    try:
        data = datasets.load_dataset(name, config or None, split=split)
    # The hub's stack raises a dozen unrelated types (httpx, fsspec, pyarrow, datasets); for a person all are one sentence.
    except Exception as error:
        raise InputError(
            f"{source} (split {split!r}) could not be loaded: {_reason(error)}. "
            "Check the name, the split and the network, or give a local file."
        ) from error
    return {column: partial(_hub_cells, data, column) for column in data.column_names}


def _hub_cells(data: object, column: str) -> list[object]:
    """The cells of one column; a class is told by its name, and is missing where it is -1 as in unlabelled test splits."""
    from datasets import ClassLabel

    cells: list[object] = list(data[column])  # type: ignore[index]
    feature = data.features[column]  # type: ignore[attr-defined]
    if not isinstance(feature, ClassLabel):
        return cells
    return [None if cell in (None, -1) else feature.int2str(cell) for cell in cells]


def _builtin(source: str) -> Columns:
    if source == "builtin:polarity":
        return _polarity()
    if source not in ("builtin:splice", "builtin:splice-test"):
        raise InputError(f"there is no {source}; take builtin:splice, builtin:splice-test or builtin:polarity.")
    columns = _delimited(Path(str(files("vnait") / "samples" / "splice.csv.gz")), Format(["text", "label"]), usual=",")
    rows = [
        row for row, part in enumerate(columns["part"]()) if part == ("test" if source.endswith("test") else "train")
    ]
    cells = {name: list(columns[name]()) for name in ("text", "label")}
    return {name: partial(_rows_of, cells[name], rows) for name in cells}


def _rows_of(cells: list[object], rows: list[int]) -> list[object]:
    return [cells[row] for row in rows]


def _polarity() -> Columns:
    from gensim.test.utils import datapath

    # A line is "__label__pos some sentence . "; the file is older than UTF-8's victory.
    written = Path(datapath("pang_lee_polarity.cor")).read_text(encoding="cp1252")
    rows = [line.split(" ", 1) for line in written.split("\n") if line]
    labels = [label.removeprefix("__label__") for label, _ in rows]
    texts = [text.strip() for _, text in rows]
    return {"text": texts.copy, "label": labels.copy}


def _reason(error: BaseException) -> str:
    """What a library's error says, on one line, to stand inside a sentence of ours."""
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
