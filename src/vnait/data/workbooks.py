"""Sheets of Excel (.xlsx, .xls) and of LibreOffice (.ods), within the size that they may have."""

from __future__ import annotations

import logging
import os
import re
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import iterparse
from zipfile import ZipFile

from vnait.data.decoding import MAX_GIB, same
from vnait.data.layout import Columns, Format, numbered
from vnait.shared.errors import InputError, as_input_error, extra, one_line
from vnait.shared.files import check_unpacked

logger = logging.getLogger("vnait")

MAX_ROWS = 1_048_576  # of a sheet, Excel's own limit
_PLACE, _CELL = 8, 64  # bytes in memory of an empty cell between others, and of one with a value


@dataclass(frozen=True)
class Sheet:
    """A sheet; `rows` reads its cells, from A1."""

    title: str
    hidden: bool
    rows: Callable[[], Generator[Sequence[object], None, None]]


def excel(path: Path, form: Format) -> Columns:
    """A sheet of a workbook, cells as Excel shows them (3 for 3.0), dates in ISO 8601."""
    # Neither pandas nor calamine, which lay out all cells between the first and the last: a small file may
    # name one far away.
    with extra("excel"):
        from openpyxl import load_workbook
        from openpyxl.utils.escape import unescape
    # openpyxl, zipfile and expat raise their own.
    with as_input_error(Exception, *_unreadable(path, "an Excel workbook", ".xlsx"), message=one_line):
        with ZipFile(path) as archive:
            check_unpacked(path, sum(part.file_size for part in archive.infolist()), MAX_GIB)
        # It warns of what is no cell. The filter stays: one put back would mix with those of other threads.
        warnings.filterwarnings("ignore", module=r"openpyxl\.")
        book = load_workbook(path, read_only=True, data_only=True)

        def rows(sheet: Any) -> Generator[Sequence[object], None, None]:
            sheet.reset_dimensions()  # a file's own note of its size may be wrong
            for row in sheet.iter_rows(values_only=True):
                # Excel writes control characters by their codes, such as _x000D_.
                yield [unescape(cell) if isinstance(cell, str) else cell for cell in row]

        sheets = [
            Sheet(sheet.title, sheet.sheet_state != "visible", partial(rows, sheet))
            for sheet in book.worksheets
        ]
        with closing(book):
            return _columns(path, form, sheets)


def old_excel(path: Path, form: Format) -> Columns:
    """The same of a workbook of Excel 97 to 2003."""
    with extra("excel"):
        import xlrd
    kind = "an old Excel file", ".xlsx or .csv"
    with as_input_error(Exception, *_unreadable(path, *kind), message=one_line), open(os.devnull, "w") as log:
        book = xlrd.open_workbook(path, ragged_rows=True, logfile=log)

        def value(cell: Any) -> object:
            if cell.ctype == xlrd.XL_CELL_DATE:
                moment = xlrd.xldate.xldate_as_datetime(cell.value, book.datemode)
                return moment if cell.value >= 1 else moment.time()
            if cell.ctype == xlrd.XL_CELL_BOOLEAN:
                return bool(cell.value)
            return xlrd.error_text_from_code[cell.value] if cell.ctype == xlrd.XL_CELL_ERROR else cell.value

        def rows(sheet: Any) -> Generator[Sequence[object], None, None]:
            yield from (list(map(value, sheet.row(row))) for row in range(sheet.nrows))

        sheets = [
            Sheet(
                sheet.name,
                sheet.visibility != 0,
                partial(rows, sheet),
            )
            for sheet in book.sheets()
        ]
        return _columns(path, form, sheets)


def open_document(path: Path, form: Format) -> Columns:
    """The same of a spreadsheet of LibreOffice."""
    with extra("excel"):
        from python_calamine import CalamineWorkbook, SheetVisibleEnum
    kind = "an OpenDocument spreadsheet", ".ods"
    with as_input_error(Exception, *_unreadable(path, *kind), message=one_line):
        _check_laid_out(path)
        book = CalamineWorkbook.from_filelike(_with_breaks(path))

        def rows(name: str) -> Generator[Sequence[object], None, None]:
            yield from book.get_sheet_by_name(name).to_python(skip_empty_area=False)

        sheets = [
            Sheet(
                about.name,
                about.visible != SheetVisibleEnum.Visible,
                partial(rows, about.name),
            )
            for about in book.sheets_metadata
        ]
        return _columns(path, form, sheets)


def _with_breaks(path: Path) -> BytesIO:
    """An .ods file whose line breaks and tabs in a cell are characters: calamine leaves the elements out."""
    copy = BytesIO()
    with ZipFile(path) as archive, ZipFile(copy, "w") as changed:
        content = archive.read("content.xml")
        for element, character in ((rb"line-break", b"\n"), (rb"tab", b"\t")):
            content = re.sub(rb"<text:%b\b[^>]*/>" % element, character, content)
        for part in archive.infolist():
            changed.writestr(part, content if part.filename == "content.xml" else archive.read(part))
    copy.seek(0)
    return copy


def _unreadable(path: Path, kind: str, ending: str) -> tuple[str, str]:
    return f"{path} can't be read as {kind}: ", f". If it is one, open it and save it as {ending}."


def _check_laid_out(path: Path) -> None:
    """Raise InputError if the sheets of an .ods file are too large: calamine lays out all cells between the
    first and the last, and a short file may repeat one millions of times.
    """
    laid_out = _LaidOut()
    with ZipFile(path) as archive:
        check_unpacked(path, sum(part.file_size for part in archive.infolist()), MAX_GIB)
        with archive.open("content.xml") as content:
            for event, element in iterparse(content, events=("start", "end")):
                name = element.tag.rpartition("}")[2]
                if event == "start":
                    laid_out.begin(name)
                else:
                    laid_out.end(name, element)
                    check_unpacked(path, laid_out.size, MAX_GIB)


class _LaidOut:
    """What calamine lays out of an .ods file, element by element."""

    def __init__(self) -> None:
        self.characters = self.before = 0  # of all texts; the cells of the sheets before this one
        self.rows = self.height = self.width = 0  # of this sheet; the last two without empty cells at its end
        self.columns = self.last = self.of_row = self.spaces = 0  # of this row: its cells and its characters

    @property
    def size(self) -> int:
        """In bytes."""
        return self.characters + _PLACE * 8 * (self.before + self.height * self.width)

    def begin(self, name: str) -> None:
        if name == "table":
            self.before += self.height * self.width
            self.rows = self.height = self.width = 0
        elif name == "table-row":
            self.columns = self.last = self.of_row = 0

    def end(self, name: str, element: Any) -> None:
        if name == "s":  # spaces in a cell, of which there is only the number
            self.spaces += _number(element, "}c")
        elif name in ("table-cell", "covered-table-cell"):
            repeated = _number(element, "-columns-repeated")
            self.columns += repeated
            self.of_row += repeated * (self.spaces + sum(map(len, element.itertext())))
            self.spaces = 0
            self.last = self.columns if len(element) or _has_value(element) else self.last
        elif name == "table-row":
            repeated = _number(element, "-rows-repeated")
            self.rows += repeated
            self.characters += repeated * self.of_row
            self.height = self.rows if self.last else self.height
            self.width = max(self.width, self.last)
            element.clear()


def _number(element: Any, ending: str) -> int:
    """The attribute whose name ends so, how often something is repeated; else 1."""
    return next((int(value) for name, value in element.items() if name.endswith(ending)), 1)


def _has_value(element: Any) -> bool:
    return any(name.endswith("}value-type") for name in element.attrib)


def _columns(path: Path, form: Format, sheets: Sequence[Sheet]) -> Columns:
    """The columns of the sheet that is asked for, below its header."""
    form.refuse(str(path), "a workbook", "sep", "encoding")
    with closing(_chosen(path, form, sheets).rows()) as all_rows:
        rows = _held(path, all_rows)
    written = [at for at, row in enumerate(rows) if row]
    if not written:
        raise InputError(f"{path} is empty; expected a table with a text column.")
    if form.header == 0:
        start, names = written[0], numbered(max(map(len, rows)))
    else:
        start = form.header or written[0] + 1
        if start > len(rows):
            raise InputError(
                f"{path} has {len(rows)} rows, and --header is {start}; give the row of the names."
            )
        names = ["" if cell is None else str(_shown(cell)) for cell in rows[start - 1]]
    return Columns(
        names,
        lambda at: (_shown(row[at]) if at < len(row) else None for row in islice(rows, start, None)),
        lambda row: start + row + 1,
    )


def _chosen(path: Path, form: Format, sheets: Sequence[Sheet]) -> Sheet:
    """The sheet by its name, else the first that is not hidden."""
    if not sheets:
        raise InputError(
            f"{path} has no sheet that can be read. If it is in Excel's strict format (Strict Open XML), "
            "save it as an ordinary workbook."
        )
    titles = ", ".join(repr(sheet.title) for sheet in sheets[:20]) + " ..." * (len(sheets) > 20)
    if form.sheet is not None:
        exact = [sheet for sheet in sheets if sheet.title == form.sheet]
        alike = exact or [sheet for sheet in sheets if same(sheet.title) == same(form.sheet)]
        if len(alike) != 1:
            raise InputError(f"{path} has no sheet {form.sheet!r}; its sheets are {titles}.")
        return alike[0]
    sheet = next((sheet for sheet in sheets if not sheet.hidden), sheets[0])
    if sheet is not sheets[0]:
        logger.warning(
            "%s: its first sheet, %r, is hidden, so %r was read; --sheet names another.",
            *(path, sheets[0].title, sheet.title),
        )
    elif len(sheets) > 1:
        logger.info(
            "%s: read its first sheet, %r, of %d (%s); --sheet names another.",
            *(path, sheet.title, len(sheets), titles),
        )
    return sheet


def _held(path: Path, rows: Iterable[Sequence[object]]) -> list[list[object]]:
    """The rows up to the last one with a value, each up to its last value; InputError if too large."""
    blank: list[object] = []
    held: list[list[object]] = []
    size = length = 0
    for number, row in enumerate(rows, 1):
        if number > MAX_ROWS:
            raise InputError(f"{path} has a row beyond {MAX_ROWS:,}, Excel's last one; save the table again.")
        width = next((at for at in range(len(row), 0, -1) if row[at - 1] not in (None, "")), 0)
        cells = list(row[:width]) if width else blank
        values = [cell for cell in cells if cell is not None]
        size += _PLACE * len(cells) + sum(
            _CELL + (len(cell) if isinstance(cell, str) else 0) for cell in values
        )
        check_unpacked(path, size, MAX_GIB)
        held.append(cells)
        length = number if width else length
    return held[:length]


def _shown(cell: object) -> object:
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell
