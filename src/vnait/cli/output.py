"""What is printed: text for people, with control characters escaped, and data for programs, unchanged."""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from vnait.shared.errors import InputError
from vnait.shared.escaping import json_text, safe


def echo(words: object = "", *, file: TextIO | None = None, end: str = "\n", flush: bool = False) -> None:
    """Print `safe` words, on standard output unless a file is given."""
    print(safe(words), file=file, end=end, flush=flush)


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


def write_csv(file: TextIO, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    """Write rows as CSV with a header; returns how many they are."""
    writer = csv.writer(file, lineterminator="\n")
    quoted = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
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
