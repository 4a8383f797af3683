"""What is printed: words for people, which can't steer a terminal, and data for programs, unchanged."""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from vnait.errors import InputError

# Controls but tab and newline, separators of lines, and marks that turn the direction of a text around.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def safe(words: object) -> str:
    """Words for a terminal: its control characters, which could move the cursor, as their codes.

    >>> safe("good " + chr(27) + "[2J")
    'good \\\\x1b[2J'
    """
    return _STEERING.sub(lambda found: ascii(found[0])[1:-1], str(words))


def say(words: object = "", *, file: TextIO | None = None, end: str = "\n", flush: bool = False) -> None:
    """Print `safe` words, on standard output unless a file is given."""
    print(safe(words), file=file, end=end, flush=flush)


def json_of(document: Mapping[str, Any]) -> str:
    """One JSON document, in ASCII unless standard output takes every letter."""
    narrow = not codecs.lookup(sys.stdout.encoding or "utf-8").name.startswith("utf")
    return json.dumps(document, ensure_ascii=narrow, indent=2)


def csv_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV with a header."""
    file = io.StringIO()
    writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def print_unchanged(text: str) -> None:
    """Print a text; an InputError, and nothing printed, if a letter would have to be replaced."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError as error:
        raise InputError(
            f"standard output is in {encoding}, which has no {text[error.start]!r}; set PYTHONIOENCODING="
            "utf-8, or give a file with --out."
        ) from error
    sys.stdout.write(text)


def prepare_streams() -> None:
    """Refuse a closed standard output; of words, show a letter that a stream can't write by its code."""
    if sys.stderr is None:  # print would take standard output instead
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  until the process ends
    if sys.stdout is None:
        raise InputError("standard output is closed; leave it open, or send it to a file.")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
