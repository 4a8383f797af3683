"""Texts and labels from a file of any kind, a folder, the Hugging Face hub, or a built-in sample."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Unpack

from vnait.data import rows
from vnait.data.columns import Texts, text_and_label
from vnait.data.decoding import TextFile, bounded
from vnait.data.doubtful import settled
from vnait.data.labels import cleaned, labels_in
from vnait.data.layout import Layout
from vnait.data.missing import check_texts, complete_rows
from vnait.data.sentences import split_words
from vnait.data.tagged import tagged
from vnait.data.tasks import CLASSIFICATION, MULTILABEL, NUMBER, REGRESSION, TAGGING, TASKS
from vnait.shared.errors import InputError, whole
from vnait.shared.files import home


@dataclass(frozen=True)
class Table:
    """Texts and labels (None if there are none), row by row; `dropped` counts the rows of the source without
    text or label.

    task   "classification"; "regression" if the labels are numbers, as written; "tagging" if a label has a
           tag for each word of its text, both with a space between them; "multilabel" if a text has any
           number of labels, with | between them
    groups what rows belong to, such as their authors; a split leaves each group whole on one side
    more   texts without a label, of which words are learned; no part of the rows

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
    more: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def single_labels(self) -> list[str]:
        """The labels of all rows one by one, where a row has several: of its words, or of its text."""
        parts = {TAGGING: split_words, MULTILABEL: labels_in}.get(self.task)
        labels = self.labels or []
        return labels if parts is None else list(chain.from_iterable(map(parts, labels)))

    @property
    def label_names(self) -> set[str]:
        """What `single_labels` has, each once; numbers have no names."""
        return set() if self.task == REGRESSION else set(self.single_labels)

    @cached_property
    def fingerprint(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of texts, labels, and texts without a label."""
        # JSON marks where a cell ends; joined by a separator, two cells could look like one.
        digest = hashlib.sha256(b"[")
        end = "]" if self.task == CLASSIFICATION else f"] {self.task}"
        encode = json.JSONEncoder().iterencode  # json.dumps would take more memory than the cells
        groups = [] if self.groups is None else encode(self.groups)
        more = chain(["more"], encode(self.more)) if self.more else []
        for part in chain(encode(self.texts), [", "], encode(self.labels), [end], groups, more):
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

    def unlike(self, test: Table) -> list[str]:
        """The texts without a label, but for those that test rows have."""
        tests = set(test.texts)
        return [text for text in self.more if text not in tests]

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
    task: str = CLASSIFICATION,
    of_tests: bool = False,
    merge_labels: bool = False,
    known: Iterable[str] = (),
    drop_contradicting: bool = False,
    min_class: int = 1,
    group: str | None = None,
    **layout: Unpack[Layout],
) -> Table:
    """The columns `text` and `label` of `source`; rows without text or label are left out and logged, but
    texts without a label are in `Table.more`, unless they are test rows.

    source   a CSV, TSV, JSONL or JSON file, packed (.gz, .bz2, .xz, .zip, .zst) or not; fastText's lines
             (__label__good a text) in one; a Parquet, Excel (.xlsx, .xls) or .ods file; a folder that has a
             folder of .txt files per class;
             `hf:NAME` or `hf:NAME:CONFIG`, a data set (or local folder) that `datasets` can load;
             `builtin:splice` and `builtin:splice-test`, DNA windows around splice junctions (CC BY 4.0);
             `builtin:polarity`, 200 review sentences labelled pos or neg
    text     one column; "title+body": several, joined by a space; "question,answer": each row is a `Pair`
    label    one column; "crime,drama": a column of 0 and 1 per label; None if there are no labels, as in
             prediction; then every row is kept
    split    the part of an `hf:` data set
    task     "regression" if the labels are numbers; an InputError names the first that is none. "tagging" if
             each word has a tag: the file is CoNLL-U or columns, as `vnait.data.tagged` reads them.
             "multilabel" if a text has any number of labels, with | between them; an empty cell is no label
    of_tests    test rows, whose labels may all differ: those of the training rows must repeat
    merge_labels   labels that look alike, such as "pos" and "Pos ", are one class, written as one of the
                   `known` ones, or as most rows have it
    drop_contradicting   rows whose text has another label in another row are dropped
    min_class   classes with fewer rows are left out
    group       a column of what rows belong to, such as their authors, which no split divides
    layout      of the file: sep, encoding, sheet, header, decimal, as in `vnait.data.layout.Layout`

    Columns are found by their exact name, else ignoring case and surrounding space. Cells stay as written
    ("1", "NA" and "null" are ordinary labels); numbers and booleans of Parquet become strings (1.0 is "1.0").
    Messages count rows as a spreadsheet does. InputError if the source can't be read, lacks a column, or has
    no text or no label at all.

    >>> table = read("builtin:polarity")
    >>> len(table), table.labels[0], table.texts[0]
    (200, 'neg', 'simplistic , silly and tedious .')
    """
    source = home(source)
    name = whole(source)
    if task not in TASKS:
        raise InputError(f"task={task!r} is not known; take one of {', '.join(TASKS)}.")
    if task == TAGGING:
        if group is not None:
            raise InputError("sentences of words have no column of groups; leave --group (group=) out.")
        sentences = tagged(source, text=text, label=label, **_of_words(layout))
        return Table(*sentences, name=name, dropped=0, task=task)
    sets = task == MULTILABEL
    cells = text_and_label(source, text, label, group=group, split=split, sets=sets, **layout)
    texts = list(cells.texts())
    if label is None or cells.labels is None:
        check_texts(source, texts, cells.number)
        return Table(texts, None, name=name, dropped=0)
    labels: Sequence[str] = list(map(sys.intern, cells.labels()))  # one string per label
    groups = None if cells.groups is None else [sys.intern(cell.strip()) for cell in cells.groups()]
    decimal = layout.get("decimal", ".")
    labels = cleaned(labels, source, task, decimal=decimal, merge=merge_labels, known=known)
    rows, unlabelled = complete_rows(source, texts, labels, cells.number, sets=sets, of_tests=of_tests)
    more = [texts[row] for row in unlabelled]
    rows = settled(
        source,
        label,
        texts,
        labels,
        rows,
        cells.number,
        task=task,
        drop=drop_contradicting,
        least=min_class,
        of_tests=of_tests,
    )
    if groups is not None and not all(groups[row] for row in rows):
        raise _no_group(source, group, cells.number(next(row for row in rows if not groups[row])))
    dropped = len(texts) - len(rows)
    table = Table(texts, list(labels), name=name, dropped=dropped, task=task, groups=groups, more=more)
    return table.select(rows)


def _no_group(source: str, column: str | None, number: int) -> InputError:
    return InputError(
        f"{source}, row {number}: the column {column!r} is empty, and every row needs its group; fill it in, "
        "or remove the row."
    )


def _of_words(layout: Layout) -> dict[str, str | None]:
    """The part of a layout that a file with a word per line has."""
    if wrong := next((name for name in ("sheet", "header") if layout.get(name) is not None), None):
        raise InputError(f"a file of words and tags has no {wrong} to choose; leave --{wrong} out.")
    return {"sep": layout.get("sep"), "encoding": layout.get("encoding")}


def stream(source: str, *, text: str, tags: bool = False, **layout: Unpack[Layout]) -> Texts:
    """The texts of a source, as `read` gives them without labels, but not held in memory: anew at each call.
    With `tags`, the source is read as for tagging, and its sentences are held.

    The whole of it is read once here, so that what is wrong with it is found before anything is predicted.

    >>> texts = stream("builtin:polarity", text="text")
    >>> len(list(texts())), next(texts())
    (200, 'simplistic , silly and tedious .')
    """
    if tags:
        sentences = read(source, text=text, label=None, task=TAGGING, **layout).texts
        return lambda: iter(sentences)
    cells = text_and_label(home(source), text, None, **layout)
    check_texts(source, cells.texts(), cells.number)
    return cells.texts


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
                for line in bounded(opened, Path(copy.name)):
                    yield line.rstrip("\r\n")

        check_texts("standard input", lines(), lambda row: row + 1)
        yield lines
