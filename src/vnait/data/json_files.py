"""Tables of JSON: an object per line, an array of objects, or a document with one somewhere in it."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from vnait.data.decoding import MAX_GIB, PACKED, TextFile, bounded, same
from vnait.data.layout import Columns, Format
from vnait.shared.errors import InputError, as_input_error, one_line
from vnait.shared.files import check_unpacked

logger = logging.getLogger("vnait")

_ARRAY = re.compile(r"\[\s*(\{|$)")  # else a line with an array is not an object
_OBJECTS = "expected one JSON object per line, or an array of objects."
_DEPTH = 20  # objects in one another, of which the fields have names
_VALUE = 64  # bytes that a value takes in memory, at least

Record = dict[str, Any]


def json_columns(path: Any, form: Format) -> Columns:
    """The fields of all objects as columns, those of an inner object by names such as body.text."""
    form.refuse(str(path), "a JSON file", "sep", "sheet", "header")
    file = TextFile.of(path, form.encoding)
    records = _records(file, form.wanted)

    def rows() -> Iterator[Record]:
        if records is not None:
            for number, row in enumerate(records, 1):
                yield _object(row, f"{path}, element {number}")
            return
        for number, line in _lines(file):
            place = f"{path}, line {number}"
            yield _object(_json(line, place), place)

    names = list(dict.fromkeys(name for row in rows() for name in row))
    return Columns(names, lambda at: (row.get(names[at]) for row in rows()))


def _lines(file: TextFile) -> Iterator[tuple[int, str]]:
    # Not str.splitlines: inside a JSON string U+2028 and the like are ordinary characters.
    with file.opened("\n") as text:
        for number, line in enumerate(bounded(text, file.path), 1):
            if line.strip():
                yield number, line.rstrip("\n")


def _records(file: TextFile, wanted: Sequence[str]) -> Sequence[Any] | None:
    """The records of a file that is one document; None if it has an object per line."""
    lines = _lines(file)
    first = next(lines)[1]
    single = next(lines, None) is None
    if not _ARRAY.match(first.lstrip()):
        try:
            row = _loads(first)
        except (ValueError, RecursionError):
            if single or not first.lstrip().startswith("{"):
                return None
        else:
            return _in_document(row, wanted, file.path) if single and not _is_row(row, wanted) else None
    place = str(file.path)
    with file.opened("\n") as text:
        content = text.read()
    if file.path.suffix.lower() in PACKED:
        values = sum(map(content.count, "[{,"))
        check_unpacked(file.path, len(content) + _VALUE * values, MAX_GIB)
    try:
        document = _json(content, place)
    except InputError:
        if _ARRAY.match(first.lstrip()):
            raise
        return None  # lines, of which the first is malformed
    return document if isinstance(document, list) else _in_document(document, wanted, file.path)


def _is_row(row: Any, wanted: Sequence[str]) -> bool:
    """Whether an object has all wanted fields, with one value each."""
    flat = {same(name): cell for name, cell in _flat(row).items()} if isinstance(row, dict) else {}
    cells = [flat.get(same(name), []) for name in wanted]
    return not any(isinstance(cell, list | dict) for cell in cells)


def _in_document(document: Any, wanted: Sequence[str], path: Path) -> Sequence[Record] | None:
    """The records somewhere in a document: of the tables with the most wanted fields the longest."""
    names = {same(name) for name in wanted}

    def fields(rows: Sequence[Record]) -> int:
        return len({same(name) for row in rows for name in _flat(row)} & names)

    tables = {key: _prefixed(key, rows, wanted) for key, rows in _tables(document)}
    most = max(map(fields, tables.values()), default=0)
    alike = {key: rows for key, rows in tables.items() if fields(rows) == most}
    chosen = max(alike, key=lambda key: len(alike[key]), default=None)
    if chosen is None:
        return None
    if len(alike) > 1 and most:
        logger.warning(
            "%s: %s have the same columns; %s was read, since it is the longest. Save the other as a file.",
            *(path, " and ".join(map(repr, alike)), repr(chosen)),
        )
    return alike[chosen]


def _tables(value: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, Sequence[Record]]]:
    """Each array of objects, and each object with a table column by column, with the key that leads there."""
    if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        yield key, value
    if not isinstance(value, dict) or depth == _DEPTH:
        return
    if rows := _by_column(value):
        yield key, rows
    for name, inner in value.items():
        yield from _tables(inner, f"{key}.{name}" if key else name, depth + 1)


def _by_column(value: Record) -> list[Record]:
    """The rows of {"text": [...], "label": [...]}, or of what pandas writes.

    >>> _by_column({"text": {"0": "a", "1": "b"}}), _by_column({"columns": ["text"], "data": [["a"]]})
    ([{'text': 'a'}, {'text': 'b'}], [{'text': 'a'}])
    """
    names, data = value.get("columns"), value.get("data")
    if isinstance(names, list) and isinstance(data, list) and all(isinstance(row, list) for row in data):
        return [dict(zip(map(str, names), row, strict=False)) for row in data]
    if parts := [part for part in value.values() if isinstance(part, dict)]:
        keys = list(dict.fromkeys(key for part in parts for key in part))  # a row's, as pandas writes them
        if len(parts) < len(value) or any(isinstance(cell, dict) for part in parts for cell in part.values()):
            return []
        if any(len(part) < len(keys) for part in parts) and not all(key.isdecimal() for key in keys):
            return []
        return [{name: part.get(key) for name, part in value.items()} for key in keys]
    cells = list(value.values())
    whole = all(isinstance(column, list) for column in cells) and len({len(column) for column in cells}) == 1
    if not whole or any(isinstance(cell, dict) for column in cells for cell in column):
        return []
    return [dict(zip(value, row, strict=True)) for row in zip(*cells, strict=True)]


def _prefixed(key: str, rows: Sequence[Record], wanted: Sequence[str]) -> Sequence[Record]:
    """The rows, with the key before the names of fields if it is typed so: data.body for body."""
    if not key or not any(name.startswith(f"{key}.") for name in wanted):
        return rows
    return [{f"{key}.{name}": cell for name, cell in row.items()} for row in rows]


def _object(row: object, place: str) -> Record:
    if not isinstance(row, dict):
        raise InputError(f"{place} is not a JSON object; {_OBJECTS}")
    return _flat(row)


def _flat(row: Record, depth: int = 0) -> Record:
    """With the fields of an inner object, too, by names such as body.text.

    >>> _flat({"id": "7", "body": {"text": "good"}})["body.text"]
    'good'
    """
    if depth == _DEPTH:
        return row
    inner = {
        f"{name}.{key}": value
        for name, field in row.items()
        if isinstance(field, dict)
        for key, value in _flat(field, depth + 1).items()
    }
    return {**inner, **row} if inner else row


def _json(text: str, place: str) -> Any:
    with as_input_error(
        (ValueError, RecursionError), f"{place} is not JSON: ", f"; {_OBJECTS}", message=one_line
    ):
        return _loads(text)


def _loads(text: str) -> Any:
    """JSON with numbers as they are written: 1.10 stays "1.10"; ValueError for a key that stands twice."""
    return json.loads(text, parse_float=str, parse_int=str, object_pairs_hook=_distinct)


def _distinct(pairs: Sequence[tuple[str, Any]]) -> Record:
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        again = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has the key {again!r} twice")
    return record
