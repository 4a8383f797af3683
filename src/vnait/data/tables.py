"""Texts and labels from CSV, TSV, JSONL, Excel, Parquet, the Hugging Face hub, or a built-in sample."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from vnait.data import rows
from vnait.data.columns import Texts, column, text_and_label
from vnait.data.decoding import TextFile
from vnait.data.labels import check_labels, labels_in
from vnait.data.missing import check_texts, complete_rows
from vnait.data.sentences import split_words
from vnait.data.tagged import tagged
from vnait.data.tasks import CLASSIFICATION, MULTILABEL, NUMBER, TAGGING, TASKS
from vnait.shared.errors import InputError, whole


@dataclass(frozen=True)
class Table:
    """Texts and labels (None if there are none), row by row; `dropped` counts the rows without text or label.

    task   "classification"; "regression" if the labels are numbers, as written; "tagging" if a label has a
           tag for each word of its text, both with a space between them; "multilabel" if a text has any
           number of labels, with | between them
    groups what rows belong to, such as their authors; a split leaves each group whole on one side

    >>> table = Table(texts=["good", "bad", "fine"], labels=["1", "0", "1"], name="three.csv", dropped=0)
    >>> len(table), table.select([2, 0]).texts
    (3, ['fine', 'good'])
    """

    texts: list[str]
    labels: list[str] | None
    name: str
    dropped: int
    task: str = CLASSIFICATION
    groups: list[str] | None = None

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
        groups = [] if self.groups is None else encode(self.groups)
        for part in chain(encode(self.texts), [", "], encode(self.labels), [end], groups):
            digest.update(part.encode())
        return digest.hexdigest()[:16]

    def select(self, indices: Iterable[int]) -> Table:
        """The rows `indices`, in that order."""
        chosen = list(indices)
        labels = None if self.labels is None else [self.labels[row] for row in chosen]
        groups = None if self.groups is None else [self.groups[row] for row in chosen]
        return replace(self, texts=[self.texts[row] for row in chosen], labels=labels, groups=groups)

    def split(self, *, holdout: float, seed: int) -> tuple[list[int], list[int]]:
        """Training rows and held-out rows, stratified by class if there are classes."""
        if self.groups is not None:
            return rows.split_groups(self._classes, self.groups, holdout=holdout, seed=seed)
        cut = rows.split if self.task == CLASSIFICATION else rows.split_numbers
        return cut(labels_of(self), holdout=holdout, seed=seed)

    def shots(self, *, count: int, seed: int) -> list[int]:
        """`count` random rows of every class, or of all rows if labels are numbers."""
        return rows.shots(self._classes, count=count, seed=seed, groups=self.groups)

    def check_apart(self, test: Table) -> None:
        """Raise InputError if test rows are of groups that this table has."""
        if self.groups is not None and test.groups is not None:
            rows.check_apart(self.groups, test.groups, test.name)

    @property
    def _classes(self) -> list[str]:
        """The class of each row; where labels are no classes, all rows are of one."""
        labels = labels_of(self)
        return labels if self.task == CLASSIFICATION else [NUMBER] * len(labels)


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
    group: str | None = None,
) -> Table:
    """The columns `text` and `label` of `source`; rows without text or label are dropped and logged.

    text     two columns with a comma between their names, such as "question,answer": each row is a `Pair`
    source   a CSV, TSV or JSONL file, packed (.gz, .bz2, .xz, .zip) or not; a Parquet or Excel (.xlsx) file;
             `hf:NAME` or `hf:NAME:CONFIG`, a data set (or local folder) that `datasets` can load;
             `builtin:splice` and `builtin:splice-test`, DNA windows around splice junctions (CC BY 4.0);
             `builtin:polarity`, 200 review sentences labelled pos or neg
    label    None if there are no labels, as in prediction; then every row is kept
    split    the part of an `hf:` data set
    sep      the separator of a CSV or TSV file: , ; | or tab; None: found in the file
    task     "regression" if the labels are numbers; an InputError names the first that is none. "tagging" if
             each word has a tag: the file is CoNLL-U or columns, as `vnait.data.tagged` reads them.
             "multilabel" if a text has any number of labels, with | between them; an empty cell is no label
    encoding of a CSV, TSV or JSONL file; None: by its byte-order mark, else UTF-8
    of_tests    test rows, whose labels may all differ: those of the training rows must repeat

    group       a column of what rows belong to, such as their authors, which no split divides

    Columns are found by their exact name, else ignoring case and surrounding space. Cells stay as written
    ("1", "NA" and "null" are ordinary labels); numbers and booleans of Parquet become strings (1.0 is "1.0").
    Rows are counted from 1, without the header. InputError if the source can't be read, lacks a column, or
    has no text or no label at all.

    >>> table = read("builtin:polarity")
    >>> len(table), table.labels[0], table.texts[0]
    (200, 'neg', 'simplistic , silly and tedious .')
    """
    source = os.fspath(source)
    name = whole(source)
    if task not in TASKS:
        raise InputError(f"task={task!r} is not known; take one of {', '.join(TASKS)}.")
    if task == TAGGING:
        if group is not None:
            raise InputError("sentences of words have no column of groups; leave --group (group=) out.")
        sentences = tagged(source, text=text, label=label, sep=sep, encoding=encoding)
        return Table(*sentences, name=name, dropped=0, task=task)
    sets = task == MULTILABEL
    read_texts, read_labels = text_and_label(
        source, text, label, split=split, sep=sep, encoding=encoding, sets=sets
    )
    texts = list(read_texts())
    if label is None or read_labels is None:
        check_texts(source, texts)
        return Table(texts, None, name=name, dropped=0)
    labels = list(map(sys.intern, read_labels()))  # one string per label
    complete = complete_rows(source, texts, labels, sets=sets, of_tests=of_tests)
    dropped = len(texts) - len(complete)
    groups = None
    if group is not None:
        groups = _groups(source, group, complete, split=split, sep=sep, encoding=encoding)
    table = Table(texts, labels, name=name, dropped=dropped, task=task, groups=groups).select(complete)
    check_labels(labels_of(table), complete, source, label, task, repeated=not of_tests)
    return table


def _groups(source: str, name: str, complete: Iterable[int], **reading: Any) -> list[str]:
    """The groups of all rows; InputError if one of the complete rows has none."""
    groups = [sys.intern(cell.strip()) for cell in column(source, name, **reading)()]
    if (empty := next((row for row in complete if not groups[row]), None)) is not None:
        raise InputError(
            f"{source}, row {empty + 1}: the column {name!r} is empty, and every row needs its group; fill "
            "it in, or remove the row."
        )
    return groups


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
    texts, _ = text_and_label(source, text, None, sep=sep, encoding=encoding)
    check_texts(source, texts())
    return texts


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

        check_texts("standard input", lines())
        yield lines
