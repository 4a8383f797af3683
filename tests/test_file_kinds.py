"""Small files as programs and people write them: each is read as it was meant, or refused with a remedy that
then reads it.
"""

import bz2
import csv
import gzip
import io
import json
import lzma
import tracemalloc
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xlwt

from vnait import TextClassifier
from vnait.data import Pair, read, workbooks
from vnait.shared.errors import InputError

ROWS = [
    ("a warm film, with heart", "good"),
    ("a dull film", "bad"),
    ('she said "never again"', "bad"),
    ("warm and funny", "good"),
    ("funny; and warm", "good"),
    ("slow, cold", "bad"),
]
TEXTS, LABELS = map(list, zip(*ROWS, strict=True))
JAPANESE = [
    "映画はとても面白かった",
    "退屈な作品でした",
    "音楽がとても良い",
    "とても長くて眠かった",
    "また見たい",
    "つまらない",
]
CHINESE = ["这部电影非常好看", "太无聊了，浪费时间", "没有意思", "音乐很好听", "我还想再看一次", "剧情太慢"]
TAIWANESE = ["這部電影非常好看", "太無聊了，浪費時間", "沒有意思", "音樂很好聽", "我還想再看一次", "劇情太慢"]
KOREAN = [
    "정말 재미있는 영화",
    "지루한 작품이었다",
    "음악이 좋았다",
    "너무 길었다",
    "다시 보고 싶다",
    "별로였다",
]
RUSSIAN = ["Очень хороший фильм", "Скучно и долго", "Музыка понравилась", "Слишком долго", "Ещё раз", "Плохо"]
FRENCH = ["Un très bon film", "C'était ennuyeux", "Déçu", "Drôle et léger", "À voir", "Trop long, hélas"]

Content = bytes | str | Callable[[Path], object]


class File(NamedTuple):
    """What is written, how it is read, and what a person sees in it; `first` is typed before `remedy`, which
    the refusal must name.
    """

    name: str
    content: Content
    options: dict[str, Any] = {}  # noqa: RUF012  read alone
    texts: list[str] = TEXTS
    labels: list[str] = LABELS
    remedy: str = ""
    first: dict[str, Any] = {}  # noqa: RUF012


def table(
    rows: list[tuple[str, ...]] = ROWS, sep: str = ",", head: tuple[str, ...] = ("text", "label"), **form: Any
) -> str:
    with io.StringIO(newline="") as file:
        writer = csv.writer(file, delimiter=sep, **{"lineterminator": "\n", **form})
        writer.writerows([head, *rows] if head else rows)
        return file.getvalue()


def pairs(texts: list[str]) -> list[tuple[str, str]]:
    return list(zip(texts, LABELS, strict=True))


def records(**names: str) -> list[dict[str, Any]]:
    return [{names.get("text", "text"): text, names.get("label", "label"): label} for text, label in ROWS]


def lines(rows: list[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def workbook(*sheets: tuple[str, list[Any]], hidden: tuple[str, ...] = ()) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        book = openpyxl.Workbook()
        book.remove(book.active)
        for title, rows in sheets:
            sheet = book.create_sheet(title)
            sheet.sheet_state = "hidden" if title in hidden else "visible"
            for row in rows:
                sheet.append(list(row))
        book.save(path)

    return write


def old_workbook(rows: list[Any], first: int = 0) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        book = xlwt.Workbook()
        sheet = book.add_sheet("films")
        for at, row in enumerate(rows, first):
            for column, cell in enumerate(row):
                sheet.write(at, column, cell)
        book.save(str(path))

    return write


def open_document(*rows: str, name: str = "films") -> Callable[[Path], object]:
    """An .ods file of rows in its own markup."""
    spaces = " ".join(
        f'xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{short}:1.0"'
        for short in ("office", "table", "text")
    )
    content = (
        f'<?xml version="1.0"?><office:document-content {spaces}><office:body><office:spreadsheet>'
        f'<table:table table:name="{name}">{"".join(rows)}</table:table>'
        "</office:spreadsheet></office:body></office:document-content>"
    )

    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
            archive.writestr("content.xml", content)
            archive.writestr(
                "META-INF/manifest.xml",
                '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>',
            )

    return write


def cells(*values: str, **repeated: int) -> str:
    """A row of an .ods file, with cells that are empty to the right, as LibreOffice writes them."""
    times = "".join(f' table:number-{name}-repeated="{count}"' for name, count in repeated.items())
    written = "".join(
        f'<table:table-cell office:value-type="string"><text:p>{value}</text:p></table:table-cell>'
        for value in (value.replace("&", "&amp;").replace('"', "&quot;") for value in values)
    )
    empty = '<table:table-cell table:number-columns-repeated="16000"/>'
    return f"<table:table-row{times}>{written}{empty}</table:table-row>"


def zipped(inner: str, content: bytes) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(inner, content)

    return write


def zstandard(path: Path) -> None:
    with pa.CompressedOutputStream(str(path), "zstd") as file:
        file.write(table().encode())


def by_class(path: Path) -> None:
    for number, (text, label) in enumerate(ROWS):
        (path / label).mkdir(parents=True, exist_ok=True)
        (path / label / f"{number}.txt").write_text(text, encoding="utf-8")


def with_hidden(path: Path) -> None:
    by_class(path)
    (path / "bad" / "1.txt").rename(path / "bad" / "1.TXT")
    for name in ("good/._0.txt", ".ipynb_checkpoints/a.txt"):
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_bytes(b"\0\5\x16")


PLAIN = table().encode()
HEAD = ("text", "label")
TITLED = [("Films of 2024",), (), HEAD, *ROWS]
TWO = [("", "a warm film", "good"), ("sequel", "a dull film", "bad")] * 3
FIRST_BAD = sorted(range(len(ROWS)), key=lambda row: (LABELS[row], row))
ONE_HOT = table(
    [(text, str(int(label == "bad")), str(int(label == "good"))) for text, label in ROWS],
    head=("text", "bad", "good"),
)
NUMBERS = ["1,5", "2", "1.250,75", "0", "-3,25", "7"]

FILES = {
    "semicolons": File("d.csv", table(sep=";")),
    "tabs in a .csv": File("d.csv", table(sep="\t")),
    "bars": File("d.txt", table(sep="|")),
    "CRLF and a mark": File("d.csv", table(lineterminator="\r\n").encode("utf-8-sig")),
    "old Mac line ends": File("d.csv", table(lineterminator="\r")),
    "all quoted": File("d.csv", table(quoting=csv.QUOTE_ALL)),
    "sep= on the first line": File("d.csv", "sep=;\r\n" + table(sep=";")),
    "blank lines before the header": File("d.csv", "\n\n" + table()),
    "columns in other case and order": File(
        "d.csv", table([row[::-1] for row in ROWS], head=(" Label", "TEXT "))
    ),
    "UTF-16 with a mark": File("d.csv", table().encode("utf-16")),
    "gzip": File("d.csv.gz", gzip.compress(PLAIN)),
    "bzip2": File("d.csv.bz2", bz2.compress(PLAIN)),
    "xz": File("d.csv.xz", lzma.compress(PLAIN)),
    "zstandard": File("d.csv.zst", zstandard),
    "zip": File("d.csv.zip", zipped("d.csv", PLAIN)),
    "zip named without the table's ending": File("d.zip", zipped("films/d.csv", PLAIN)),
    "zip with a JSON file": File("d.zip", zipped("d.jsonl", lines(records()).encode())),
    "zip named as another kind than its file": File(
        "d.csv.zip", zipped("d.jsonl", lines(records()).encode())
    ),
    "a title row": File("d.csv", "Films of 2024,\n" + table(), {"header": 2}),
    "no header": File("d.csv", table(head=()), {"header": 0, "text": "1", "label": "2"}),
    "no header, two columns": File("d.csv", table(head=())),
    "no header, label first": File("d.tsv", table([row[::-1] for row in ROWS], "\t", head=())),
    "no header, three columns": File(
        "d.csv",
        table([("7", *row) for row in ROWS], head=()),
        {"header": 0, "text": "2", "label": "3"},
    ),
    "fastText": File("d.txt", "".join(f"__label__{label} {text}\n" for text, label in ROWS)),
    "fastText with tabs": File("d.txt", "".join(f"__label__{label}\t{text}\n" for text, label in ROWS)),
    "fastText with a comma first": File(
        "d.txt",
        "".join(f"__label__{label} , {text}\n" for text, label in ROWS),
        texts=[f", {text}" for text in TEXTS],
    ),
    "fastText with the label last": File(
        "d.txt", "".join(f"{text} __label__{label}\n" for text, label in ROWS)
    ),
    "fastText's marks in a table": File(
        "d.csv", table([(text, f"__label__{label}") for text, label in ROWS])
    ),
    "fastText's marks without a header": File(
        "d.csv", table([(f"__label__{label}", text) for text, label in ROWS], head=())
    ),
    "fastText with two labels": File(
        "d.txt",
        "".join(f"__label__{label} __label__all {text}\n" for text, label in ROWS),
        {"task": "multilabel"},
        labels=["|".join(sorted(["all", label])) for label in LABELS],
    ),
    "one-hot columns": File("d.csv", ONE_HOT, {"label": "bad,good"}),
    "columns of yes and no, several labels": File(
        "d.csv",
        table([(text, "yes", "no") for text in TEXTS], head=("text", "old", "new")),
        {"label": "old,new", "task": "multilabel"},
        labels=["old"] * len(ROWS),
    ),
    "title and text joined": File(
        "d.csv",
        table(TWO, head=("title", "body", "label")),
        {"text": "title+body"},
        texts=["a warm film", "sequel a dull film"] * 3,
        labels=["good", "bad"] * 3,
    ),
    "a pair, of which one is joined": File(
        "d.csv",
        table([("a", "b", "c", label) for label in LABELS], head=("title", "body", "answer", "label")),
        {"text": "title+body,answer"},
        texts=[Pair.of("a b", "c")] * 6,
    ),
    "JSON lines": File("d.jsonl", lines(records())),
    "a JSON array": File("d.json", json.dumps(records(), indent=2)),
    "JSON records under a key": File("d.json", json.dumps({"version": 1, "data": records()}, indent=1)),
    "the same on one line": File("d.json", json.dumps({"data": records(), "tags": [{"x": 1}] * 99})),
    "JSON records under keys, by path": File(
        "d.json",
        json.dumps({"reply": {"data": records(text="body")}}),
        {"text": "reply.data.body", "label": "reply.data.label"},
    ),
    "JSON with inner objects": File(
        "d.jsonl",
        lines([{"data": {"body": text}, "label": label} for text, label in ROWS]),
        {"text": "data.body"},
    ),
    "JSON by column": File("d.json", json.dumps({"text": TEXTS, "label": LABELS})),
    "JSON of pandas": File("d.json", lambda path: pd.DataFrame(records()).to_json(path)),
    "JSON of pandas, split": File(
        "d.json", lambda path: pd.DataFrame(records()).to_json(path, orient="split")
    ),
    "JSON of pandas, table": File(
        "d.json", lambda path: pd.DataFrame(records()).to_json(path, orient="table")
    ),
    "a list of one label": File("d.jsonl", lines([{"text": text, "label": [label]} for text, label in ROWS])),
    "Parquet": File("d.parquet", lambda path: pd.DataFrame(records()).to_parquet(path)),
    "Parquet with categories": File(
        "d.parquet", lambda path: pd.DataFrame(records()).astype("category").to_parquet(path)
    ),
    "Excel": File("d.xlsx", workbook(("films", [HEAD, *ROWS]))),
    "Excel with macros": File("d.xlsm", workbook(("films", [HEAD, *ROWS]))),
    "Excel, the second sheet": File(
        "d.xlsx", workbook(("notes", [("x",)]), ("films", [HEAD, *ROWS])), {"sheet": "films"}
    ),
    "Excel, the first sheet hidden": File(
        "d.xlsx", workbook(("lists", [HEAD, ("no", "no")]), ("films", [HEAD, *ROWS]), hidden=("lists",))
    ),
    "Excel below a title": File("d.xlsx", workbook(("films", TITLED)), {"header": 3}),
    "Excel without a header": File(
        "d.xlsx", workbook(("films", ROWS)), {"header": 0, "text": "1", "label": "2"}
    ),
    "Excel 97": File("d.xls", old_workbook([HEAD, *ROWS], first=2)),
    "LibreOffice": File(
        "d.ods",
        open_document(cells(*HEAD), *(cells(*row) for row in ROWS), cells(rows=1_048_000)),
    ),
    "a folder by class": File(
        "films", by_class, texts=[TEXTS[row] for row in FIRST_BAD], labels=sorted(LABELS)
    ),
    "a decimal comma": File(
        "d.csv",
        table(list(zip(TEXTS, NUMBERS, strict=True)), ";"),
        {"task": "regression", "decimal": ","},
        labels=["1.5", "2", "1250.75", "0", "-3.25", "7"],
    ),
    "a decimal comma beside a workbook's numbers": File(
        "d.xlsx",
        workbook(("films", [HEAD, *zip(TEXTS, [1.5, 2, "1.250,75", 0, -3.25, 1.125], strict=True)])),
        {"task": "regression", "decimal": ","},
        labels=["1.5", "2", "1250.75", "0", "-3.25", "1.125"],
    ),
    "a document in other case": File(
        "d.json", json.dumps({"rows": records(text="Text", label="LABEL"), "users": [{"id": "7"}] * 9})
    ),
    "one record with a list of others": File(
        "d.jsonl",
        lines([{"Text": TEXTS[0], "Label": LABELS[0], "spans": [{"start": 0}, {"start": 2}]}]),
        texts=TEXTS[:1],
        labels=LABELS[:1],
    ),
    "JSON by column, its keys in another order": File(
        "d.json",
        json.dumps(
            {
                "text": {str(row): text for row, text in enumerate(TEXTS)},
                "label": {str(row): LABELS[row] for row in reversed(range(len(LABELS)))},
            }
        ),
    ),
    "a tab named as Excel does": File("d.csv", "sep=\t\r\n" + table(sep="\t", lineterminator="\r\n")),
    "a separator that Excel padded": File("d.csv", "sep=;;\r\n" + table(sep=";", lineterminator="\r\n")),
    "a comma in a name, in other case": File(
        "d.csv", table(head=("Film, year", "label")), {"text": "film, Year"}
    ),
    "a folder with what systems add": File(
        "films", with_hidden, texts=[TEXTS[row] for row in FIRST_BAD], labels=sorted(LABELS)
    ),
    "line breaks in LibreOffice": File(
        "d.ods",
        open_document(
            cells(*HEAD),
            cells("a warm<text:line-break/>film<text:tab/>twice", "good"),
            cells("dull", "bad"),
        ),
        texts=["a warm\nfilm\ttwice", "dull"],
        labels=["good", "bad"],
    ),
    # Refused at first
    "UTF-16 that has no mark": File(
        "d.csv",
        table().encode("utf-16-le"),
        {"encoding": "utf-16-le"},
        first={"encoding": "utf-16"},
        remedy="--encoding utf-16-le",
    ),
    "a pair of labels in a list": File(
        "d.jsonl",
        lines([{"text": text, "label": [label, "all"]} for text, label in ROWS]),
        {"task": "multilabel"},
        labels=["|".join(sorted(["all", label])) for label in LABELS],
        remedy="--task multilabel",
    ),
    "fastText with two labels, as one": File(
        "d.txt",
        "".join(f"__label__{label} __label__all {text}\n" for text, label in ROWS),
        {"task": "multilabel"},
        labels=["|".join(sorted(["all", label])) for label in LABELS],
        remedy="--task multilabel",
    ),
    "a title row, unnamed": File("d.csv", "Films of 2024,\n\n" + table(), {"header": 3}, remedy="--header 3"),
    "a title of two lines": File(
        "d.csv", '"Films\nof 2024",\n' + table(), {"header": 2}, remedy="--header 2"
    ),
    "a title with a quote": File(
        "d.csv",
        '"Films of 2024\n\n' + table(ROWS[3:]),
        {"header": 3},
        texts=TEXTS[3:],
        labels=LABELS[3:],
        remedy="--header the row of the names below a title",
    ),
    "a title in Excel, unnamed": File(
        "d.xlsx", workbook(("films", TITLED)), {"header": 3}, remedy="--header 3"
    ),
    "no header, unnamed": File(
        "d.csv",
        table([("7", *row) for row in ROWS], head=()),
        {"header": 0, "text": "2", "label": "3"},
        remedy="--no-header",
    ),
    "no header and labels that differ": File(
        "d.csv",
        table([("a", "x"), ("b", "y"), ("c", "y")], head=()),
        {"header": 0, "text": "1", "label": "2"},
        texts=["a", "b", "c"],
        labels=["x", "y", "y"],
        remedy="--no-header",
    ),
    "an unknown sheet": File(
        "d.xlsx",
        workbook(("notes", [("x",)]), ("films", [HEAD, *ROWS])),
        {"sheet": "films"},
        first={"sheet": "Film"},
        remedy="its sheets are 'notes', 'films'",
    ),
    "two labels of one-hot columns": File(
        "d.csv",
        table([(text, "1", "1") for text in TEXTS], head=("text", "old", "new")),
        {"label": "old,new", "task": "multilabel"},
        labels=["new|old"] * 6,
        first={"label": "old,new"},
        remedy="--task multilabel",
    ),
    "a decimal comma, unnamed": File(
        "d.csv",
        table(list(zip(TEXTS, NUMBERS, strict=True)), ";"),
        {"task": "regression", "decimal": ","},
        labels=["1.5", "2", "1250.75", "0", "-3.25", "7"],
        first={"task": "regression"},
        remedy="--decimal ,",
    ),
} | {
    f"{name} in {encoding}": File(
        "d.csv",
        table(pairs(texts)).encode(encoding),
        {"encoding": encoding},
        texts=texts,
        remedy=f"--encoding {encoding} ",
    )
    for name, encoding, texts in (
        ("Japanese", "shift_jis", JAPANESE),
        ("Japanese", "euc_jp", JAPANESE),
        ("Japanese", "utf-16-le", JAPANESE),
        ("Chinese", "gb18030", CHINESE),
        ("Chinese", "utf-16-be", CHINESE),
        ("Chinese", "big5", TAIWANESE),
        ("Korean", "euc_kr", KOREAN),
        ("Russian", "cp1251", RUSSIAN),
        ("Russian", "koi8_r", RUSSIAN),
        ("French", "cp1252", FRENCH),
        ("French", "utf-16-le", FRENCH),
    )
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_is_read_as_meant_or_refused_with_a_remedy_that_reads_it(kind, tmp_path):
    file = FILES[kind]
    path = tmp_path / file.name
    if callable(file.content):
        file.content(path)
    else:
        path.write_bytes(file.content if isinstance(file.content, bytes) else file.content.encode())
    if file.remedy:
        with pytest.raises(InputError) as error:
            read(path, **file.first)
        assert file.remedy in str(error.value) and "\n" not in str(error.value)
    got = read(path, **file.options)
    assert (got.texts, got.labels, got.dropped) == (file.texts, file.labels, 0)


def test_there_are_sixty_kinds():
    assert len(FILES) >= 60


def test_the_table_of_a_document_is_found_by_all_its_rows(tmp_path):
    path = tmp_path / "d.json"
    path.write_text(json.dumps({"rows": [{"text": "a"}, *records()], "legend": [{"label": "good"}] * 9}))
    assert (read(path).texts, read(path).dropped) == (TEXTS, 1)


def test_a_second_table_with_the_same_columns_is_named(tmp_path, caplog):
    path = tmp_path / "d.json"
    path.write_text(json.dumps({"train": records()[:2], "test": records()}))
    assert read(path).texts == TEXTS
    assert "'train' and 'test' have the same columns; 'test' was read" in caplog.text


@pytest.mark.parametrize(
    ("name", "content", "remedy"),
    [
        ("d.csv", bz2.compress(PLAIN), "is a bzip2 file; name it .bz2"),
        ("d.csv", b"%PDF-1.7", "is a PDF; export its table"),
        ("d.csv.gz", gzip.compress(gzip.compress(PLAIN)), "holds a gzip file; unpack it"),
        ("d.csv", table(pairs(FRENCH)).encode() + b"caf\xe9,bad\n", "mend line 8"),
    ],
)
def test_what_is_wrong_with_the_bytes_is_named(name, content, remedy, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=remedy):
        read(tmp_path / name)


def test_one_and_a_quarter_million_is_no_number_with_a_decimal_comma(tmp_path):
    (tmp_path / "d.csv").write_text('text,label\na,"1,250,750.5"\nb,2\n')
    with pytest.raises(InputError) as error:
        read(tmp_path / "d.csv", task="regression")
    assert "--decimal" not in str(error.value) and "write it as 1234.5" in str(error.value)


# Files that fill the memory


def far_row(path: Path) -> None:
    _inserted(path, b'<row r="4000000000"><c r="A4000000000"><v>1</v></c></row>')


def wide_rows(path: Path) -> None:
    _inserted(path, b'<row><c r="XFD1"><v>1</v></c></row>' * 500)


def _inserted(path: Path, rows: bytes) -> None:
    """A workbook with further rows in its XML."""
    workbook(("films", [HEAD, *ROWS]))(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content.replace(b"</sheetData>", rows + b"</sheetData>"))


def repeated_text(path: Path, *, encode: bool, labels: Any = "x") -> None:
    texts = pa.array(["a film " * 1400] * 2000 if labels == "x" else ["a"] * 2000)
    column = texts.dictionary_encode() if encode else texts
    pq.write_table(pa.table({"text": column, "label": [labels] * 2000}), path)


VALUE = '<table:table-cell table:number-columns-repeated="{}" office:value-type="float" office:value="1"/>'
BOMBS = {
    "a row beyond Excel's last": ("d.xlsx", far_row, "has a row beyond 1,000, Excel's last one"),
    "rows with a cell far to the right": ("d.xlsx", wide_rows, "unpacks to more than 0.002 GiB"),
    "a row repeated": (
        "d.ods",
        open_document(
            cells(*HEAD),
            f'<table:table-row table:number-rows-repeated="1000000">{VALUE.format(9)}</table:table-row>',
        ),
        "unpacks to more than 0.002 GiB",
    ),
    "a cell repeated": (
        "d.ods",
        open_document(cells(*HEAD), f"<table:table-row>{VALUE.format(2_000_000_000)}</table:table-row>"),
        "unpacks to more than 0.002 GiB",
    ),
    "a text in repeated rows": (
        "d.ods",
        open_document(cells(*HEAD), cells("a" * 3000, "x", rows=1000)),
        "unpacks to more than 0.002 GiB",
    ),
    "repeated spaces": (
        "d.ods",
        open_document(cells(*HEAD), cells("a<text:s text:c='2000000000'/>", "x")),
        "unpacks to more than 0.002 GiB",
    ),
    "empty rows before one": (
        "d.ods",
        open_document(cells(*HEAD), cells(rows=2_000_000_000), cells("a", "x")),
        "unpacks to more than 0.002 GiB",
    ),
    "a dictionary": ("d.parquet", partial(repeated_text, encode=True), "unpacks to more than 0.002 GiB"),
    "a text stored once": (
        "d.parquet",
        partial(repeated_text, encode=False),
        "unpacks to more than 0.002 GiB",
    ),
    "labels in lists": (
        "d.parquet",
        partial(repeated_text, encode=False, labels=["x" * 9999]),
        "unpacks to more than 0.002 GiB",
    ),
    "zstandard": (
        "d.csv.zst",
        lambda path: pa.CompressedOutputStream(str(path), "zstd").write(b"a" * 9_000_000),
        "d.csv.zst",
    ),
    "many short rows": (
        "d.csv.gz",
        lambda path: path.write_bytes(gzip.compress(b"text,label\n" + b"a,b\n" * 40_000)),
        "unpacks to more than 0.002 GiB",
    ),
    "many values of JSON": (
        "d.json.gz",
        lambda path: path.write_bytes(gzip.compress(b'[\n{"text": [' + b"[],\n" * 100_000 + b"1]}]")),
        "unpacks to more than 0.002 GiB",
    ),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_a_small_file_does_not_fill_the_memory(kind, tmp_path, monkeypatch):
    name, write, reason = BOMBS[kind]
    path = tmp_path / name
    write(path)
    assert path.stat().st_size < 60_000
    monkeypatch.setenv("VNAIT_UNPACK_LIMIT", "0.002")
    assert workbooks.MAX_ROWS == 1_048_576
    monkeypatch.setattr(workbooks, "MAX_ROWS", 1000)
    task = "multilabel" if "lists" in kind else "classification"
    tracemalloc.start()
    with pytest.raises(InputError) as error:
        read(path, task=task)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert reason in str(error.value) and "\n" not in str(error.value)
    assert peak < 4e7


def test_a_zip_archive_of_an_unknown_version_is_refused(tmp_path):
    path = tmp_path / "d.csv.zip"
    zipped("d.csv", PLAIN)(path)
    content = path.read_bytes()
    at = content.index(b"PK\x01\x02") + 6  # the version that a reader needs, in the list of files
    path.write_bytes(content[:at] + b"\x9a" + content[at + 1 :])
    with pytest.raises(InputError, match="can't be read: zip file version 15"):
        read(path)


def test_a_line_longer_than_any_text_is_refused(tmp_path):
    path = tmp_path / "d.csv"
    path.write_bytes(b"text,label\n" + b"a" * (1 << 24))
    with pytest.raises(InputError, match=r"line 2 has 16,777,216 characters or more"):
        read(path)


def test_json_nested_deeper_than_columns_have_names_is_read(tmp_path):
    path = tmp_path / "d.jsonl"
    path.write_text('{"text":"a","label":"x","d":' + '{"a":' * 600 + "1" + "}" * 600 + "}\n")
    assert read(path).labels == ["x"]


# Labels in doubt


def file_of(folder: Path, rows: list[tuple[str, str]]) -> Path:
    path = folder / "labels.csv"
    path.write_text(table(rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("label", "variant"),
    [
        ("mal\u00e9", "male\u0301"),
        ("very bad", "very\u00a0bad"),
        ("very bad", "very  bad"),
        ("bad", "bad\u200b"),
        ("bad", "b\u200bad"),
        ("bad", "bad\u200e"),
        ("bad", "ba\u00add"),
        ("bad", "bad\ufe0f"),
        ("bad", "\ufeffbad"),
        ("bad", "BAD "),
        ("1", "1.0"),
        ("1", "１"),
        ("bad", "ｂａｄ"),
    ],
)
def test_labels_that_look_alike_are_shown_and_merged_on_request(label, variant, tmp_path, caplog):
    rows = [("dull", label), ("slow", label), ("cold", variant), ("warm", "good"), ("odd", "baddish")]
    path = file_of(tmp_path, rows)
    assert read(path).labels == [label, label, variant, "good", "baddish"]
    assert "differ only in" in caplog.text and "(2), " in caplog.text and "--merge-labels" in caplog.text
    caplog.clear()
    merged = read(path, merge_labels=True)
    assert merged.labels == [label, label, label, "good", "baddish"] and not caplog.messages
    assert read(path, merge_labels=True, known=[variant], of_tests=True).labels[:3] == [variant] * 3


def test_tags_and_labels_of_an_estimator_that_look_alike_are_shown(tmp_path, caplog):
    path = tmp_path / "tags.txt"
    path.write_text("film\tN\ndull\tADJ\n\nwarm\tAd\u00adj\n", encoding="utf-8")
    assert read(path, task="tagging").labels == ["N ADJ", "Ad\u00adj"]
    assert "tags.txt: the labels 'ADJ' (1), 'Ad\\xadj' (1) differ only in" in caplog.text
    labels = ["very bad", "very\u00a0bad", "good"] * 4
    TextClassifier("tfidf").fit(["dull film", "slow film", "warm film"] * 4, labels)
    assert "y: the labels 'very bad' (4), 'very\\xa0bad' (4) differ only in" in caplog.text


@pytest.mark.parametrize(
    "name", ["re\u0301sume\u0301", "\u200br\u00e9sum\u00e9", "RE\u0301SUM\u00c9 ", "ｒéｓｕｍé"]
)
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "xlsx"])
def test_a_column_is_found_by_a_name_that_looks_the_same(name, ending, tmp_path):
    path = tmp_path / f"table.{ending}"
    frame = pd.DataFrame({name: ["a film", "a plot"], "label": ["x", "y"]})
    writers = {
        "csv": frame.to_csv,
        "jsonl": lambda path, index: frame.to_json(path, orient="records", lines=True),
        "parquet": frame.to_parquet,
        "xlsx": frame.to_excel,
    }
    writers[ending](path, index=False)
    assert read(path, text="r\u00e9sum\u00e9").texts == ["a film", "a plot"]


def test_labels_of_sets_are_merged_one_by_one(tmp_path):
    path = file_of(tmp_path, [("a", "Old|new"), ("b", "old"), ("c", "old|New"), ("d", "new")])
    labels = read(path, task="multilabel", merge_labels=True).labels
    assert labels == ["new|old", "old", "new|old", "new"]


def test_contradicting_texts_are_counted_shown_and_dropped_on_request(tmp_path, caplog):
    rows = [("A film", "good"), ("b", "bad"), ("a  film", "bad"), ("c", "good"), ("b", "bad")]
    path = file_of(tmp_path, rows)
    assert len(read(path)) == 5
    assert (
        "1 text with more than one label in 2 of 5 rows: 'A film' is 'good' and 'bad' (rows 2, 4)."
        in caplog.text
    )
    assert "--drop-contradicting" in caplog.text
    table = read(path, drop_contradicting=True)
    assert (table.texts, table.dropped) == (["b", "c", "b"], 2)
    assert "dropped 2 rows of texts with more than one label" in caplog.text


def test_a_file_in_which_every_text_is_contradicted_is_refused(tmp_path):
    path = file_of(tmp_path, [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")])
    with pytest.raises(InputError, match="every text has more than one label, so no row is left"):
        read(path, drop_contradicting=True)


@pytest.mark.parametrize("blank", [b"\xef\xbb\xbf", b" \n" * 3_000, "\ufeff \n".encode("utf-16-le")])
def test_a_file_without_letters_in_a_folder_of_texts_is_an_empty_text(blank, tmp_path, caplog):
    for name, content in {
        "good/a": b"a warm film",
        "good/b": b"funny",
        "bad/a": b"dull",
        "bad/b": blank,
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.txt").write_bytes(content)
    table = read(tmp_path)
    assert (table.texts, table.dropped) == (["dull", "a warm film", "funny"], 1)


def test_small_classes_are_left_out_with_their_count(tmp_path, caplog):
    path = file_of(tmp_path, [*ROWS, ("odd", "mixed"), ("so so", "fair")])
    assert len(read(path)) == 8  # unless it is requested
    table = read(path, min_class=2)
    assert (table.labels, table.dropped) == (LABELS, 2)
    assert "left out 2 classes with fewer than 2 rows, 2 rows in all: 'mixed' (1), 'fair' (1)." in caplog.text
    assert len(read(path, min_class=2, of_tests=True)) == 8


def test_a_file_of_small_classes_alone_is_refused(tmp_path):
    path = file_of(tmp_path, [("a", "x"), ("b", "y"), ("c", "z")])
    with pytest.raises(InputError, match="no class has 2 rows, the largest 1; add rows"):
        read(path, min_class=2)


@pytest.mark.parametrize(
    ("content", "options", "row"),
    [
        ("text,label\na,x\n,y\n", {}, 3),
        ("\ntext,label\n\na,x\n\n,y\n", {}, 6),
        ('Films,\ntext,label\n"a\nb",x\n,y\n', {"header": 2}, 4),
        ("a,x\n,y\n", {"header": 0, "text": "1", "label": "2"}, 2),
    ],
)
def test_rows_are_numbered_as_a_spreadsheet_shows_them(content, options, row, tmp_path, caplog):
    path = tmp_path / "d.csv"
    path.write_text(content)
    read(path, **options)
    assert f"dropped 1 of 2 rows, whose text is empty: row {row}." in caplog.text


def test_an_empty_title_drops_no_row_and_an_empty_side_of_a_pair_does(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text(table(TWO, head=("title", "body", "label")))
    assert read(path, text="title+body").dropped == 0 and read(path, text="title,body").dropped == 3


def test_an_option_that_a_file_has_no_use_for_is_refused(tmp_path):
    for name, options, reason in (
        ("d.csv", {"sheet": "films"}, "leave --sheet out"),
        ("d.jsonl", {"header": 0}, "leave --no-header out"),
        ("d.jsonl", {"sep": ","}, "leave --sep out"),
    ):
        (tmp_path / name).write_text(table() if name == "d.csv" else lines(records()))
        with pytest.raises(InputError, match=reason):
            read(tmp_path / name, **options)
