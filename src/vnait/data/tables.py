"""Texts and labels from CSV, TSV, JSONL, Excel, Parquet, the Hugging Face hub, or a built-in sample."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from vnait.data import rows
from vnait.data.columns import Texts, named, strings_in, texts_in
from vnait.data.decoding import TextFile, same, separator_of
from vnait.data.formats import Format, columns_of
from vnait.data.labels import (
    alike,
    cell_of,
    check_classes,
    check_numbers,
    check_sets,
    labels_in,
)
from vnait.data.pairs import are_pairs, sides_of
from vnait.data.sentences import split_words
from vnait.data.tagged import tagged
from vnait.data.tasks import CLASSIFICATION, MULTILABEL, NUMBER, REGRESSION, TAGGING, TASKS
from vnait.shared.errors import InputError

logger = logging.getLogger("vnait")


@dataclass(frozen=True)
class Table:
    """Texts and labels (None if there are none), row by row; `dropped` counts the rows without text or label.

    task   "classification"; "regression" if the labels are numbers, as written; "tagging" if a label has a
           tag for each word of its text, both with a space between them; "multilabel" if a text has any
           number of labels, with | between them

    >>> table = Table(texts=["good", "bad", "fine"], labels=["1", "0", "1"], name="three.csv", dropped=0)
    >>> len(table), table.select([2, 0]).texts
    (3, ['fine', 'good'])
    """

    texts: list[str]
    labels: list[str] | None
    name: str
    dropped: int
    task: str = CLASSIFICATION

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def single_labels(self) -> list[str]:
        """The labels of all rows one by one, where a row has several: of its words, or of its text."""
        parts = {TAGGING: split_words, MULTILABEL: labels_in}.get(self.task)
        labels = self.labels or []
        return labels if parts is None else list(chain.from_iterable(map(parts, labels)))

    @property
    def fingerprint(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of texts and labels."""
        # JSON marks where a cell ends; joined by a separator, two cells could look like one.
        digest = hashlib.sha256(b"[")
        end = "]" if self.task == CLASSIFICATION else f"] {self.task}"
        encode = json.JSONEncoder().iterencode  # json.dumps would take more memory than the cells
        for part in chain(encode(self.texts), [", "], encode(self.labels), [end]):
            digest.update(part.encode())
        return digest.hexdigest()[:16]

    def select(self, indices: Iterable[int]) -> Table:
        """The rows `indices`, in that order."""
        kept = list(indices)
        labels = None if self.labels is None else [self.labels[row] for row in kept]
        return replace(self, texts=[self.texts[row] for row in kept], labels=labels)

    def split(self, *, holdout: float, seed: int) -> tuple[list[int], list[int]]:
        """Training rows and held-out rows, stratified by class if there are classes."""
        cut = rows.split if self.task == CLASSIFICATION else rows.split_numbers
        return cut(labels_of(self), holdout=holdout, seed=seed)

    def shots(self, *, count: int, seed: int) -> list[int]:
        """`count` random rows of every class, or of all rows if labels are numbers."""
        labels = labels_of(self)
        return rows.shots(
            labels if self.task == CLASSIFICATION else [NUMBER] * len(labels), count=count, seed=seed
        )


def labels_of(table: Table) -> list[str]:
    """The labels of a table, which must have some."""
    if table.labels is None:
        raise InputError(f"{table.name} was read without labels; a comparison needs them.")
    return table.labels


def read(
    source: str | os.PathLike[str],
    *,
    text: str = "text",
    label: str | None = "label",
    split: str = "train",
    sep: str | None = None,
    encoding: str | None = None,
    task: str = CLASSIFICATION,
    of_tests: bool = False,
) -> Table:
    """The columns `text` and `label` of `source`; rows without text or label are dropped and logged.

    text     two columns with a comma between their names, such as "question,answer": each row is a `Pair`
    source   a CSV, TSV, JSONL, Parquet or Excel (.xlsx) file; `hf:NAME` or `hf:NAME:CONFIG`, a data set (or
             local folder) that `datasets` can load; `builtin:splice` and `builtin:splice-test`, DNA windows
             around splice junctions (CC BY 4.0); `builtin:polarity`, 200 review sentences labelled pos or neg
    label    None if there are no labels, as in prediction; then every row is kept
    split    the part of an `hf:` data set
    sep      the separator of a CSV or TSV file: , ; | or tab; None: found in the file
    task     "regression" if the labels are numbers; an InputError names the first that is none. "tagging" if
             each word has a tag: the file is CoNLL-U or columns, as `vnait.data.tagged` reads them.
             "multilabel" if a text has any number of labels, with | between them; an empty cell is no label
    encoding of a CSV, TSV or JSONL file; None: by its byte-order mark, else UTF-8
    of_tests    test rows, whose labels may all differ: those of the training rows must repeat

    Columns are found by their exact name, else ignoring case and surrounding space. Cells stay as written
    ("1", "NA" and "null" are ordinary labels); numbers and booleans of Parquet become strings (1.0 is "1.0").
    Rows are counted from 1, without the header. InputError if the source can't be read, lacks a column, or
    has no text or no label at all.

    >>> table = read("builtin:polarity")
    >>> len(table), table.labels[0], table.texts[0]
    (200, 'neg', 'simplistic , silly and tedious .')
    """
    source = os.fspath(source)
    if task not in TASKS:
        raise InputError(f"task={task!r} is not known; take one of {', '.join(TASKS)}.")
    if task == TAGGING:
        if sep is not None:
            raise InputError("columns with tags are separated by tabs or spaces; leave --sep (sep=) out.")
        return Table(*tagged(source, text=text, label=label, encoding=encoding), source, 0, task)
    asked = {same(name) for name in named(text)}  # columns are found in any case
    if label is not None and same(label) in asked and len(named(text)) <= 3:  # more are refused below
        raise InputError(
            f"the column {label!r} is given as text and as label; a model would read its answer. Name "
            "another with --text or --label (text=, label= in Python)."
        )
    wanted = named(text) if label is None else [*named(text), label]
    columns = columns_of(source, split, Format(wanted, None if sep is None else separator_of(sep), encoding))
    texts = list(texts_in(columns, text, source)())
    if label is None:
        _check_texts(source, texts)
        return Table(texts=texts, labels=None, name=source, dropped=0)
    known: dict[str, str] = {}  # one string per label
    lists = task == MULTILABEL
    labels = [known.setdefault(cell, cell) for cell in strings_in(columns, label, source, lists=lists)()]
    if task == MULTILABEL:
        labels = [cell_of(labels_in(cell)) for cell in labels]
    found = _labelled(source, texts, labels, task, of_tests)
    if task == REGRESSION:
        pairs = zip(texts, labels, strict=True)  # a row without a text was dropped, whatever its label
        written = [cell if all(map(str.strip, sides_of(one))) else "" for one, cell in pairs]
        check_numbers(written, source, label)
    elif task == MULTILABEL:
        check_sets(labels_of(found), source, label, repeated=not of_tests)
    else:
        check_classes(labels_of(found), source, label, repeated=not of_tests)
    return found


def stream(
    source: str, *, text: str, sep: str | None = None, encoding: str | None = None, tags: bool = False
) -> Texts:
    """The texts of a source, as `read` gives them without labels, but not held in memory: anew at each call.
    With `tags`, the source is read as for tagging, and its sentences are held.

    The whole of it is read once here, so that what is wrong with it is found before anything is predicted.

    >>> texts = stream("builtin:polarity", text="text")
    >>> len(list(texts())), next(texts())
    (200, 'simplistic , silly and tedious .')
    """
    if tags:
        sentences = read(source, text=text, label=None, sep=sep, encoding=encoding, task=TAGGING).texts
        return lambda: iter(sentences)
    form = Format(named(text), None if sep is None else separator_of(sep), encoding)
    texts = texts_in(columns_of(source, "train", form), text, source)
    _check_texts(source, texts())
    return texts


def column(source: str, name: str, *, sep: str | None = None, encoding: str | None = None) -> Texts:
    """The cells of one column as strings, a row each, "" where one is missing; not held in memory."""
    form = Format([name], None if sep is None else separator_of(sep), encoding)
    return strings_in(columns_of(source, "train", form), name, source)


@contextmanager
def piped(file: BinaryIO | None, encoding: str | None = None) -> Iterator[Texts]:
    """The lines of a binary file, decoded as `TextFile` does, anew at each call, from a copy on the disk; a
    text stream would take broken bytes for half characters in some locales.
    """
    if file is None:
        raise InputError("standard input is closed; give one text per line, or a file in place of -.")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "standard input"
        with copy.open("wb") as written:
            shutil.copyfileobj(file, written)
        with copy.open("rb") as read:
            if not any(line.strip() for line in read):
                raise InputError("standard input has no text; give one text per line.")
        try:
            text = TextFile.of(copy, encoding)
        except InputError as error:
            raise InputError(str(error).replace(str(copy), copy.name)) from error

        def lines() -> Iterator[str]:
            with text.opened() as opened:
                for line in opened:
                    yield line.rstrip("\r\n")

        _check_texts("standard input", lines())
        yield lines


def _check_texts(source: str, texts: Iterable[str]) -> None:
    """Raise InputError if every text is empty; log how many are."""
    rows, blank = _blank(source, texts)
    if blank:
        logger.warning("%s: %d of %d rows have an empty text: %s.", source, len(blank), rows, _numbers(blank))


def _blank(source: str, texts: Iterable[str]) -> tuple[int, list[int]]:
    """How many rows there are, and which ones have no text; an error if that is all of them."""
    rows, blank = 0, []
    sides: tuple[str, ...] = ()
    for row, text in enumerate(texts):
        rows += 1
        sides = sides_of(text)
        if not all(side.strip() for side in sides):
            blank.append(row)
    if not rows:
        raise InputError(f"{source} has no rows below its header; expected at least one text.")
    if len(blank) == rows:
        raise InputError(
            f"{source} has no text: all {rows} rows are empty in {'the' if len(sides) == 1 else 'a'} text "
            "column. Name another column."
        )
    return rows, blank


def _labelled(source: str, texts: list[str], labels: list[str], task: str, of_tests: bool) -> Table:
    _, blank = _blank(source, texts)
    textless = set(blank)
    unlabelled = [row for row, label in enumerate(labels) if row not in textless and not label.strip()]
    none_is_an_answer = task == MULTILABEL and of_tests
    if (written := len(texts) - len(blank)) == len(unlabelled) and not none_is_an_answer:
        raise InputError(
            f"{source} has no label in any of its {written} rows with a text. Name another column; for "
            "texts without labels, use label=None."
        )
    if task == MULTILABEL:
        unlabelled = []  # none of the labels is an answer, too
    empty = "of which a text is empty" if are_pairs(texts) else "whose text is empty"
    for left_out, why in ((blank, empty), (unlabelled, "which have no label")):
        if left_out:
            logger.warning(
                "%s: dropped %d of %d rows, %s: %s.",
                source,
                len(left_out),
                len(texts),
                why,
                _numbers(left_out),
            )
    dropped = {*textless, *unlabelled}
    kept = [row for row in range(len(texts)) if row not in dropped]
    whole = Table(texts=texts, labels=labels, name=source, dropped=len(dropped), task=task)
    found = whole.select(kept) if dropped else whole
    if task != REGRESSION and (near := alike(found.single_labels)):
        logger.warning(
            "%s: the labels %s differ only in spaces, capitals or how a number is written, and count as "
            "different classes; write them alike if they mean the same.",
            source,
            ", ".join(map(repr, near)),
        )
    return found


def _numbers(rows: Sequence[int]) -> str:
    """The first three rows, counted from 1, and how many more there are.

    >>> _numbers([4]), _numbers([0, 1, 2, 3])
    ('row 5', 'rows 1, 2, 3 and 1 more')
    """
    first = ", ".join(str(row + 1) for row in rows[:3])
    more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
    return f"row{'s' if len(rows) > 1 else ''} {first}{more}"
