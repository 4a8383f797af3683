"""Sentences with a tag per word, from CoNLL-U or from columns such as those of CoNLL-2003."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from vnait.data.decoding import TextFile, bounded, same, unpacked_name
from vnait.data.formats import check_file, is_table
from vnait.data.labels import warn_of_variants
from vnait.data.sentences import sentence, split_words
from vnait.shared.errors import InputError, did_you_mean, plural

NAMES = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")  # of CoNLL-U
DOCUMENT = "-DOCSTART-"  # starts the first line of a document in CoNLL-2003
EMPTY = "_"  # a missing value of CoNLL-U
COMMENT = re.compile(r"#\s*\w+\s*=\s")  # before a sentence, such as "# sent_id = 3"

Line = tuple[int, list[str]]  # the number of a line, from 1, and its cells


@dataclass(frozen=True)
class WordColumns:
    """A file with a word per line: its columns (`NAMES` of CoNLL-U, or numbers from 1) and its sentences."""

    source: str
    names: Sequence[str]
    sentences: Sequence[list[Line]]

    @property
    def universal(self) -> bool:
        return self.names is NAMES

    @property
    def lines(self) -> Iterator[Line]:
        return chain.from_iterable(self.sentences)

    def index(self, asked: str, usual: dict[str, str]) -> int:
        """The index of a column by its name or number; `usual` has the name behind the option's default."""
        name = same(usual.get(asked, asked))
        if name in self.names:
            return self.names.index(name)
        if name.isdecimal() and 1 <= int(name) <= len(self.names):
            return int(name) - 1
        known = f"of {', '.join(self.names)}" if self.universal else f"from 1 to {len(self.names)}"
        raise InputError(
            f"{self.source} has no column {asked!r}; give one {known}.{did_you_mean(name, self.names)}"
        )

    def of(self, index: int) -> list[str]:
        """The cells of a column, a text per sentence."""
        return [sentence(cells[index] for _, cells in lines) for lines in self.sentences]


def tagged(
    source: str,
    *,
    text: str = "text",
    label: str | None = "label",
    sep: str | None = None,
    encoding: str | None = None,
) -> tuple[list[str], list[str] | None]:
    """The sentences of a file and their tags, each as one text (`vnait.data.sentences`).

    CoNLL-U has ten columns with tabs between them: words are FORM, tags UPOS; contractions (1-2) and empty
    nodes (1.1) are left out. Else a line has a word first and its tag last, with tabs or spaces between the
    columns; a blank line ends a sentence. Lines of -DOCSTART-, and comments before a sentence, such as
    "# sent_id = 3", are left out.

    text, label   other columns: a name of CoNLL-U, such as xpos, or a number from 1. "text" and "label" are
                  those above; None: no tags are read
    sep           refused, since it is a table's
    """
    file = _file(source, sep, encoding)
    columns = _columns(source, file)
    if label is None:
        _check_words(columns, file)
    word = columns.index(text, {"text": "form" if columns.universal else "1"})
    for number, cells in columns.lines:
        if not cells[word].strip():
            raise InputError(
                f"{source}, line {number} has no word in the column {columns.names[word]}; write one."
            )
    if label is None:
        return columns.of(word), None
    tag = columns.index(label, {"label": "upos" if columns.universal else columns.names[-1]})
    _check_tags(columns, word, tag)
    return columns.of(word), columns.of(tag)


def _file(source: str, sep: str | None, encoding: str | None) -> TextFile:
    """The file, unless it is a table."""
    if sep is not None:
        raise InputError("columns with tags are separated by tabs or spaces; leave --sep (sep=) out.")
    if source.startswith(("hf:", "builtin:")):
        raise InputError(
            f"{source} is not a file; tagging reads CoNLL-U, or columns with a word and its tag."
        )
    check_file(Path(source))
    if is_table(source):
        raise InputError(
            f"{source} is a table; tagging reads CoNLL-U, or a line per word with its tag. Convert it, or "
            "leave --task tagging out."
        )
    return TextFile.of(Path(source), encoding)


def _columns(source: str, file: TextFile) -> WordColumns:
    """All words of a file; InputError if there are none, or lines differ in their number of columns."""
    sentences = list(blocks(file))
    universal = _is_universal(file.path, sentences)
    if universal:  # a word has a whole number; 1-2 is a contraction, 1.1 an empty node, # begins a comment
        words = ([line for line in lines if line[1][0].isdigit()] for lines in sentences)
        sentences = list(filter(None, words))
    if not sentences:
        raise InputError(f"{source} has no sentence; give a file with a word and its tag per line.")
    first, cells = sentences[0][0]
    names = NAMES if universal else tuple(map(str, range(1, len(cells) + 1)))
    for number, cells in chain.from_iterable(sentences):
        if len(cells) != len(names):
            expected = "CoNLL-U has" if universal else f"line {first} has"
            raise InputError(
                f"{source}, line {number} has {plural(len(cells), 'column')}, and {expected} "
                f"{len(names)}; write a word per line, with the same columns for each and a blank line after "
                "a sentence."
            )
    return WordColumns(source, names, sentences)


def _check_words(columns: WordColumns, file: TextFile) -> None:
    """Refuse lines that look like a text each: nothing but a tag separates them from the columns of words."""
    if columns.universal or len(columns.names) == 1:
        return
    # Below one another, lines are words of a sentence; only blank lines show where one ends.
    if len(columns.sentences) > 1:
        a_text_per_line = all(len(lines) == 1 for lines in columns.sentences)
    else:
        with file.opened() as opened:
            a_text_per_line = all(line.strip() for line in opened)
    if a_text_per_line:
        raise InputError(
            f"{columns.source} has {len(columns.names)} words in each line: is that a text per line, or a "
            f"word and its columns? Give texts on standard input (- < {file.path.name}), and end sentences "
            "of a word per line with a blank line."
        )


def _check_tags(columns: WordColumns, word: int, tag: int) -> None:
    """Refuse a word without a tag, and the column of words as that of tags."""
    if tag == word:
        first, cells = columns.sentences[0][0]
        raise InputError(
            f"{columns.source}, line {first} has no tag beside {cells[word][:40]!r}; tagging "
            "reads a word and its tag per line, with a tab or spaces between them, or CoNLL-U."
        )
    for number, cells in columns.lines:
        if not cells[tag].strip() or (columns.universal and cells[tag] == EMPTY):
            raise InputError(
                f"{columns.source}, line {number}: {cells[word][:40]!r} has no tag in the column "
                f"{columns.names[tag]}; name another with --label, or remove the sentence."
            )
    warn_of_variants((cells[tag] for _, cells in columns.lines), columns.source)


def blocks(file: TextFile) -> Iterator[list[Line]]:
    """The lines of each sentence."""
    block: list[Line] = []
    with file.opened() as text:
        for number, line in enumerate(bounded(text, file.path), 1):
            cells = line.strip("\r\n").split("\t") if "\t" in line.strip(" \r\n") else split_words(line)
            if not block and COMMENT.match(line):
                continue
            if not line.strip():
                if block:
                    yield block
                block = []
            elif not cells[0].startswith(DOCUMENT):
                block.append((number, cells))
    if block:
        yield block


def _is_universal(path: Path, blocks: Sequence[list[Line]]) -> bool:
    """By the name, or by the first line that is not a comment."""
    if unpacked_name(path).endswith(".conllu"):
        return True
    lines = (cells for block in blocks for _, cells in block if not cells[0].startswith("#"))
    first = next(lines, [""])
    return len(first) == len(NAMES) and first[0].partition("-")[0].isdigit()
