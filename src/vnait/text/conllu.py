"""Sentences with dependency trees, from a CoNLL-U file (https://universaldependencies.org/format.html)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vnait.errors import InputError

COLUMNS = 10
FORM, TAG, HEAD, RELATION = 1, 3, 6, 7


@dataclass(frozen=True)
class Tree:
    """words and their universal tags; the index of each word's head, -1 for the root; and its relation to that."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The first and the last word of each word's subtree, its phrase.

        >>> tree = Tree(("the", "old", "film", "ends"), ("DET", "ADJ", "NOUN", "VERB"), (2, 2, 3, -1), ("det", "amod", "nsubj", "root"))
        >>> tree.spans
        [(0, 0), (1, 1), (0, 2), (0, 3)]
        """
        first, last = list(range(len(self.words))), list(range(len(self.words)))
        for word in range(len(self.words)):
            above, seen = self.heads[word], 0
            while above >= 0 and seen < len(self.words):  # up to the root; a faulty tree may have a ring
                first[above], last[above] = min(first[above], word), max(last[above], word)
                above, seen = self.heads[above], seen + 1
        return list(zip(first, last, strict=True))


def trees(path: str | Path) -> Iterator[Tree]:
    """Every sentence of a file. Contractions (1-2) and empty nodes (1.1) are left out."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")  # newlines of other systems are read as \n
    except FileNotFoundError as error:
        raise InputError(f"there is no {path}; give a CoNLL-U file.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: {error.reason} at byte {error.start}; convert it first.") from error
    number = 0
    for block in text.split("\n\n"):
        rows = [line.split("\t") for line in block.splitlines() if line[:1].isdigit()]
        rows = [row for row in rows if row[0].isdigit()]
        if rows:
            number += 1
            yield _tree(rows, f"{path}, sentence {number}")
    if not number:
        raise InputError(f"{path} has no sentence: in CoNLL-U every word is a line of {COLUMNS} columns with tabs.")


def tree(path: str | Path, number: int = 1) -> Tree:
    """Sentence `number` of a file, from 1."""
    found = list(trees(path))
    if not 1 <= number <= len(found):
        raise InputError(f"{path} has {len(found)} sentences; there is no number {number}.")
    return found[number - 1]


def _tree(rows: list[list[str]], place: str) -> Tree:
    for row in rows:
        if len(row) != COLUMNS:
            raise InputError(f"{place}: word {row[0]} has {len(row)} columns; CoNLL-U has {COLUMNS}, with tabs.")
        if not row[HEAD].isdigit() or int(row[HEAD]) > len(rows):
            raise InputError(f"{place}: word {row[0]} has the head {row[HEAD]!r}; give 0 to {len(rows)}.")
    forms, tags, heads, relations = zip(
        *((row[FORM], row[TAG], int(row[HEAD]) - 1, row[RELATION]) for row in rows), strict=True
    )
    return Tree(forms, tags, heads, relations)
