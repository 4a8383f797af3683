"""Sentences with a tag per word, from CoNLL-U or from columns such as those of CoNLL-2003."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from vnait.data.decoding import TextFile, same
from vnait.data.formats import check_file, is_table
from vnait.data.sentences import sentence, split_words
from vnait.shared.errors import InputError, did_you_mean, plural

NAMES = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")  # of CoNLL-U
DOCUMENT = "-DOCSTART-"  # starts the first line of a document in CoNLL-2003
EMPTY = "_"  # a missing value of CoNLL-U
COMMENT = re.compile(r"#\s*\w+\s*=\s")  # before a sentence, such as "# sent_id = 3"

Line = tuple[int, list[str]]  # the number of a line, from 1, and its cells


def tagged(
    source: str, *, text: str = "text", label: str | None = "label", encoding: str | None = None
) -> tuple[list[str], list[str] | None]:
    """The sentences of a file and their tags, each as one text (`vnait.data.sentences`).

    CoNLL-U has ten columns with tabs between them: words are FORM, tags UPOS; contractions (1-2) and empty
    nodes (1.1) are left out. Else a line has a word first and its tag last, with tabs or spaces between the
    columns; a blank line ends a sentence. Lines of -DOCSTART-, and comments before a sentence, such as
    "# sent_id = 3", are left out.

    text, label   other columns: a name of CoNLL-U, such as xpos, or a number from 1. "text" and "label" are
                  those above; None: no tags are read
    """
    path = Path(source)
    if source.startswith(("hf:", "builtin:")):
        raise InputError(
            f"{source} is not a file; tagging reads CoNLL-U, or columns with a word and its tag."
        )
    check_file(path)
    if is_table(source):
        raise InputError(
            f"{source} is a table; tagging reads CoNLL-U, or a line per word with its tag. Convert it, or "
            "leave --task tagging out."
        )
    file = TextFile.of(path, encoding)
    found = list(blocks(file))
    universal = _is_universal(path, found)
    if universal:
        found = [rows for block in found if (rows := [line for line in block if line[1][0].isdigit()])]
    if not found:
        raise InputError(f"{source} has no sentence; give a file with a word and its tag per line.")
    names = NAMES if universal else tuple(map(str, range(1, len(found[0][0][1]) + 1)))
    _check_widths(found, names, source)
    if label is None and not universal and len(names) > 1 and _may_be_texts(file, found):
        raise InputError(
            f"{source} has {len(names)} words in each line: is that a text per line, or a word and its "
            f"columns? Give texts on standard input (- < {path.name}), and end sentences of a word per line "
            "with a blank line."
        )
    word = _column(text, names, {"text": "form" if universal else "1"}, source)
    for number, cells in (line for block in found for line in block):
        if not cells[word].strip():
            raise InputError(f"{source}, line {number} has no word in the column {names[word]}; write one.")
    words = [sentence(cells[word] for _, cells in block) for block in found]
    if label is None:
        return words, None
    tag = _column(label, names, {"label": "upos" if universal else names[-1]}, source)
    if tag == word:
        raise InputError(
            f"{source}, line {found[0][0][0]} has no tag beside {found[0][0][1][word][:40]!r}; tagging "
            "reads a word and its tag per line, with a tab or spaces between them, or CoNLL-U."
        )
    for number, cells in (line for block in found for line in block):
        if not cells[tag].strip() or (universal and cells[tag] == EMPTY):
            raise InputError(
                f"{source}, line {number}: {cells[word][:40]!r} has no tag in the column {names[tag]}; name "
                "another with --label, or remove the sentence."
            )
    return words, [sentence(cells[tag] for _, cells in block) for block in found]


def blocks(file: TextFile) -> Iterator[list[Line]]:
    """The lines of each sentence."""
    block: list[Line] = []
    with file.opened() as text:
        for number, line in enumerate(text, 1):
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
    if path.name.lower().removesuffix(".gz").endswith(".conllu"):
        return True
    lines = (cells for block in blocks for _, cells in block if not cells[0].startswith("#"))
    first = next(lines, [""])
    return len(first) == len(NAMES) and first[0].partition("-")[0].isdigit()


def _may_be_texts(file: TextFile, blocks: Sequence[list[Line]]) -> bool:
    """Whether no line of words is below another in the same sentence, as far as blank lines tell."""
    if len(blocks) > 1:
        return all(len(block) == 1 for block in blocks)
    with file.opened() as text:
        return all(line.strip() for line in text)


def _check_widths(blocks: Sequence[list[Line]], names: Sequence[str], source: str) -> None:
    for number, cells in (line for block in blocks for line in block):
        if len(cells) != len(names):
            expected = "CoNLL-U has" if names is NAMES else f"line {blocks[0][0][0]} has"
            raise InputError(
                f"{source}, line {number} has {plural(len(cells), 'column')}, and {expected} "
                f"{len(names)}; write a word per line, with the same columns for each and a blank line after "
                "a sentence."
            )


def _column(given: str, names: Sequence[str], usual: dict[str, str], source: str) -> int:
    """The index of a column by its name or its number; `usual` has the name behind the option's default."""
    name = same(usual.get(given, given))
    if name in names:
        return names.index(name)
    if name.isdecimal() and 1 <= int(name) <= len(names):
        return int(name) - 1
    known = f"of {', '.join(names)}" if names is NAMES else f"from 1 to {len(names)}"
    raise InputError(f"{source} has no column {given!r}; give one {known}.{did_you_mean(name, names)}")
