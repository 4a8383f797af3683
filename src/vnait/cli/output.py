"""What is printed: text for people, with control characters escaped, and data for programs, unchanged."""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from vnait.shared.errors import InputError, extra
from vnait.shared.escaping import json_text, safe

EXCEL_ROWS, EXCEL_LETTERS = 1_048_576, 32_767  # of a sheet, and of a cell, at most


def echo(words: object = "", *, file: TextIO | None = None, end: str = "\n", flush: bool = False) -> None:
    """Print `safe` words, on standard output unless a file is given. If nobody reads standard error any more,
    as in 2>&1 | head, the command goes on without it.
    """
    try:
        print(safe(words), file=file, end=end, flush=flush)
    except BrokenPipeError:
        if file is None or file is not sys.stderr:
            raise
        to_nowhere(file)


def to_nowhere(stream: TextIO) -> None:
    """Let a stream whose reader has closed the pipe take the rest, also what Python flushes at its end."""
    with suppress(OSError, ValueError):  # a stream in memory has no number
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def json_of(document: Mapping[str, Any]) -> str:
    """One JSON document, in ASCII unless standard output can encode every character."""
    return json_text(document, indent=2) if _takes_every_letter() else json.dumps(document, indent=2)


def print_rows(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print {"rows": [{name: cell, ...}, ...]} as `json_of` writes it, a row at a time."""
    sys.stdout.write('{\n  "rows": [')
    before = ""
    for row in rows:
        written = json_of(dict(zip(names, row, strict=True)))
        sys.stdout.write(f"{before}\n    " + written.replace("\n", "\n    "))
        before = ","
    print("\n  ]\n}")


WRITTEN = ".csv", ".txt", ".tsv", ".xlsx"  # endings of tables that are written


def write_table(path: Path, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    """Write rows with a header, as the file's ending has it: .xlsx, .tsv, else CSV; returns how many."""
    ending = path.suffix.lower()
    if ending == ".xlsx":
        return _write_excel(path, names, rows)
    with path.open("w", encoding="utf-8", newline="") as file:
        return write_csv(file, names, rows, "\t" if ending == ".tsv" else ",")


def _write_excel(path: Path, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    """Write one sheet. InputError if a sheet can't have so many rows, or so long a text."""
    with extra("excel"):
        from openpyxl import Workbook
    book = Workbook(write_only=True)
    sheet = book.create_sheet("vnait")
    count = -1
    try:
        for count, row in enumerate(chain([names], rows)):
            if count == EXCEL_ROWS:
                raise InputError(f"a sheet of Excel has {EXCEL_ROWS:,} rows at most; write a .csv file.")
            if any(isinstance(cell, str) and len(cell) > EXCEL_LETTERS for cell in row):
                raise InputError(
                    f"row {count + 1} has a text of more than {EXCEL_LETTERS:,} characters, the most that a "
                    "cell of Excel has; write a .csv file."
                )
            sheet.append([_excel_cell(sheet, value) for value in row])
    except BaseException:
        sheet.close()  # else Python prints that its writer was left in the middle
        raise
    book.save(path)
    return count


def _excel_cell(sheet: Any, value: Any) -> Any:
    """A cell of a sheet. Characters that XML lacks are replaced, and a text that begins with = is a text."""
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE, WriteOnlyCell

    if not isinstance(value, str):
        return WriteOnlyCell(sheet, value)
    cell = WriteOnlyCell(sheet, ILLEGAL_CHARACTERS_RE.sub("\ufffd", value))
    cell.data_type = "s"
    return cell


def write_csv(file: TextIO, names: Sequence[str], rows: Iterable[Sequence[Any]], separator: str = ",") -> int:
    """Write rows as CSV with a header; returns how many they are."""
    writer = csv.writer(file, lineterminator="\n", delimiter=separator)
    quoted = csv.writer(file, lineterminator="\n", delimiter=separator, quoting=csv.QUOTE_ALL)
    writer.writerow(names)
    count = 0
    for row in rows:
        # Before Python 3.13 the writer leaves a carriage return unquoted, which ends a line for readers.
        (quoted if any("\r" in str(cell) for cell in row) else writer).writerow(row)
        count += 1
    return count


def check_letters(texts: Iterable[str]) -> None:
    """Raise an InputError if standard output would have to replace a letter of these texts."""
    if _takes_every_letter():
        return
    encoding = sys.stdout.encoding
    for text in texts:
        try:
            text.encode(encoding)
        except UnicodeEncodeError as error:
            raise InputError(
                f"standard output is in {encoding}, which has no {text[error.start]!r}; set "
                "PYTHONIOENCODING=utf-8, or give a file with --out."
            ) from error


def _takes_every_letter() -> bool:
    return codecs.lookup(sys.stdout.encoding or "utf-8").name.startswith("utf")


def prepare_streams() -> None:
    """Refuse a closed standard output; escape characters that a stream cannot encode."""
    if sys.stderr is None:  # print would take standard output instead
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  until the process ends
    if sys.stdout is None:
        raise InputError("standard output is closed; leave it open, or send it to a file.")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
