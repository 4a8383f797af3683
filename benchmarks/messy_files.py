"""Thirty-odd tables as they come out of Excel, databases and scripts: each is read as it was meant, or
refused in one sentence.

    VNAIT_DATA=DIR python benchmarks/messy_files.py

Each file is made of rows of a real set and read by `vnait.data.read`. "read": texts and labels are those that
were written. A table that is read as anything else is a MISREAD, and the exit status is 1.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from vnait import data as text
from vnait.shared.errors import InputError

Rows = list[tuple[str, str]]
ROWS = 120


@dataclass
class Messy:
    """A file: what is odd about it, its name, what is written, the rows a person sees in it, and what is
    typed to read it.
    """

    odd: str
    name: str
    content: bytes | Callable[[Path], Any]
    rows: Rows
    options: dict[str, str] = field(default_factory=dict)


def rows_of(name: str, data: Path) -> Rows:
    table = text.read(data / name / "train.csv")
    return list(zip(table.texts, table.labels or [], strict=True))[:ROWS]


def table(
    rows: Rows, sep: str = ",", head: tuple[str, ...] = ("text", "label"), end: str = "\r\n", **format: Any
) -> str:
    with io.StringIO(newline="") as file:
        writer = csv.writer(file, delimiter=sep, lineterminator=end, **format)
        writer.writerow(head)
        writer.writerows(rows)
        return file.getvalue()


def messy(data: Path) -> Iterator[Messy]:
    news, trec, films, chinese, long = (
        rows_of(name, data) for name in ("ag_news", "trec", "mr", "eprstmt", "bbc_news")
    )
    accents = [(f"{words} — déjà vu, naïve café", label) for words, label in films]
    yield Messy("commas, as pandas writes it", "news.csv", table(news, end="\n").encode(), news)
    yield Messy(
        "semicolons, byte-order mark: Excel in Europe", "news.csv", table(news, ";").encode("utf-8-sig"), news
    )
    yield Messy("semicolons, and commas in every text", "commas.csv", table(accents, ";").encode(), accents)
    yield Messy(
        "sep=; on the first line", "news.csv", ("sep=;\r\n" + table(news, ";")).encode("utf-8-sig"), news
    )
    yield Messy("tabs in a .csv", "trec.csv", table(trec, "\t").encode(), trec)
    yield Messy("bars", "trec.csv", table(trec, "|").encode(), trec)
    yield Messy("a .tsv", "trec.tsv", table(trec, "\t").encode(), trec)
    yield Messy(
        "a .tsv without any quoting, quotes in texts",
        "quotes.tsv",
        _unquoted([('"A" or "B" ?', "X"), *trec]),
        [
            ('"A" or "B" ?', "X"),
            *trec,
        ],
    )
    yield Messy(
        "Excel's Unicode text: tabs, UTF-16", "films.txt", table(accents, "\t").encode("utf-16"), accents
    )
    yield Messy(
        "UTF-16, big end first", "films.csv", b"\xfe\xff" + table(accents).encode("utf-16-be"), accents
    )
    bare = table(films).encode("utf-16-le")
    yield Messy("UTF-16 without a mark", "films.csv", bare, films)
    yield Messy("the same, named", "films.csv", bare, films, {"encoding": "utf-16-le"})
    western = table(accents, ";").encode("cp1252")
    yield Messy("cp1252, Windows", "films.csv", western, accents)
    yield Messy("the same, named", "films.csv", western, accents, {"encoding": "cp1252"})
    yield Messy("GB 18030, Chinese", "shop.csv", table(chinese).encode("gb18030"), chinese)
    yield Messy(
        "the same, named", "shop.csv", table(chinese).encode("gb18030"), chinese, {"encoding": "gb18030"}
    )
    yield Messy("Chinese in UTF-8, full-width commas", "shop.csv", table(chinese).encode(), chinese)
    yield Messy(
        "texts of many lines, CRLF",
        "long.csv",
        table([(_crlf(one), x) for one, x in long]).encode(),
        [(_crlf(one), x) for one, x in long],
    )
    yield Messy("old Mac line ends", "trec.csv", table(trec, end="\r").encode(), trec)
    yield Messy("Text and LABEL", "trec.csv", table(trec, head=("Text ", "LABEL")).encode(), trec)
    yield Messy(
        "review and sentiment", "films.csv", table(films, head=("review", "sentiment")).encode(), films
    )
    named = {"text": "review", "label": "sentiment"}
    yield Messy(
        "the same, named", "films.csv", table(films, head=("review", "sentiment")).encode(), films, named
    )
    yield Messy("texts and labels", "films.csv", table(films, head=("texts", "labels")).encode(), films)
    yield Messy("no header", "trec.csv", table(trec).split("\r\n", 1)[1].encode(), trec)
    holes = [(one, "" if row % 9 == 0 else x) for row, (one, x) in enumerate(trec)]
    yield Messy(
        "labels missing in 14 rows", "trec.csv", table(holes).encode(), [row for row in holes if row[1]]
    )
    yield Messy("no label anywhere", "trec.csv", table([(one, "") for one, _ in trec]).encode(), [])
    empty = [("" if row % 9 == 0 else one, x) for row, (one, x) in enumerate(trec)]
    yield Messy(
        "texts missing in 14 rows", "trec.csv", table(empty).encode(), [row for row in empty if row[0]]
    )
    odd = [(one, ("NA", "null", "None")[row % 3]) for row, (one, _) in enumerate(trec)]
    yield Messy("labels NA, null and None", "trec.csv", table(odd).encode(), odd)
    dates = [(one, f"2026-{1 + row % 12:02}-{1 + row % 28:02}") for row, (one, _) in enumerate(trec)]
    yield Messy("dates for labels", "trec.csv", table(dates).encode(), [])
    free = [(x, one) for one, x in films]
    yield Messy("free text for labels", "films.csv", table(free).encode(), [])
    index = "\r\n".join(
        f"{row - 1 if row else ''},{line}" for row, line in enumerate(table(trec).split("\r\n")[:-1])
    )
    yield Messy("pandas' index in front", "trec.csv", index.encode(), trec)
    yield Messy("a comma too many, unquoted", "trec.csv", _unquoted([("Who, when", "HUM"), *trec], ","), [])
    yield Messy(
        "two columns text", "trec.csv", table(trec, head=("text", "text")).encode(), [], {"label": "text"}
    )
    yield Messy(
        "a quote that never ends",
        "trec.tsv",
        _unquoted([*trec[:9], ('"Who', "HUM"), *trec[9:]]),
        [
            *trec[:9],
            ('"Who', "HUM"),
            *trec[9:],
        ],
    )
    yield Messy(
        "one byte of cp1252 in UTF-8", "shop.csv", table(chinese).encode() + b"caf\xe9,Positive\r\n", []
    )
    yield Messy("gzip", "news.csv.gz", gzip.compress(table(news).encode()), news)
    yield Messy(
        "blank lines above and below", "trec.csv", ("\r\n\r\n" + table(trec) + "\r\n\r\n").encode(), trec
    )
    yield Messy("a workbook", "films.xlsx", lambda path: _frame(films).to_excel(path, index=False), films)
    stars = [(one, str(row % 5 + 1)) for row, (one, _) in enumerate(films)]
    numbers = _frame(stars).assign(label=[float(x) for _, x in stars])
    yield Messy(
        "a workbook, stars for labels", "films.xlsx", lambda path: numbers.to_excel(path, index=False), stars
    )
    yield Messy("a workbook of Excel 97", "films.xls", b"\xd0\xcf\x11\xe0", films)
    yield Messy("a .csv that is a workbook", "films.csv", _workbook(films), films)
    lines = [json.dumps({"label": x, "text": one}) for one, x in chinese]
    yield Messy("JSON lines, escaped", "shop.jsonl", "\n".join(lines).encode(), chinese)
    yield Messy("a JSON array", "shop.json", ("[\n  " + ",\n  ".join(lines) + "\n]").encode(), chinese)
    yield Messy(
        "Parquet, numbers for labels", "films.parquet", lambda path: _whole(stars).to_parquet(path), stars
    )


def _unquoted(rows: Rows, sep: str = "\t") -> bytes:
    return "\n".join(sep.join(row) for row in [("text", "label"), *rows]).encode()


def _crlf(words: str) -> str:
    return words.replace("\r\n", "\n").replace("\n", "\r\n")


def _frame(rows: Rows) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["text", "label"])


def _whole(rows: Rows) -> pd.DataFrame:
    return _frame(rows).astype({"label": int})


def _workbook(rows: Rows) -> bytes:
    with io.BytesIO() as file:
        _frame(rows).to_excel(file, index=False)
        return file.getvalue()


def outcome(one: Messy, folder: Path) -> str:
    path = folder / one.name
    if callable(one.content):
        one.content(path)
    else:
        path.write_bytes(one.content)
    try:
        found = text.read(path, **one.options)
    except InputError as error:
        return str(error).replace(f"{folder}{os.sep}", "")
    rows = list(zip(found.texts, found.labels or [], strict=True))
    if rows != one.rows:
        wrong = next((pair for pair in zip(rows, one.rows, strict=False) if pair[0] != pair[1]), None)
        return f"MISREAD: {len(rows)} rows, {len(one.rows)} were written; {wrong}"
    return f"read, {len(rows)} rows" + (f", {found.dropped} dropped" if found.dropped else "")


def main() -> int:
    if "VNAIT_DATA" not in os.environ:
        print("VNAIT_DATA is not set; set it to the folder of the data sets.", file=sys.stderr)
        return 2
    misread = refused = number = 0
    print("| # | file | what is odd | options | outcome |\n|---|---|---|---|---|")
    for number, one in enumerate(messy(Path(os.environ["VNAIT_DATA"])), 1):
        with TemporaryDirectory() as folder:
            said = outcome(one, Path(folder))
        options = " ".join(f"--{name} {value}" for name, value in one.options.items())
        print(f"| {number} | {one.name} | {one.odd} | {options} | {said.replace('|', chr(92) + '|')} |")
        misread += said.startswith("MISREAD")
        refused += not said.startswith(("MISREAD", "read"))
    print(f"\n{number} files: {number - refused - misread} read, {refused} refused, {misread} misread")
    return int(misread > 0)


if __name__ == "__main__":
    sys.exit(main())
