"""Sentences with dependency trees, from a CoNLL-U file (https://universaldependencies.org/format.html)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vnait.data.decoding import TextFile
from vnait.data.tagged import blocks
from vnait.shared.errors import InputError

COLUMNS = 10
FORM, TAG, HEAD, RELATION = 1, 3, 6, 7


@dataclass(frozen=True)
class Tree:
    """Words, their universal tags, the index of each word's head (-1 for the root) and their relations."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The first and the last word of each word's subtree (its phrase).

        >>> words, tags = ("the", "old", "film", "ends"), ("DET", "ADJ", "NOUN", "VERB")
        >>> Tree(words, tags, heads=(2, 2, 3, -1), relations=("det", "amod", "nsubj", "root")).spans
        [(0, 0), (1, 1), (0, 2), (0, 3)]
        """
        first, last = list(range(len(self.words))), list(range(len(self.words)))
        for word in range(len(self.words)):
            above, seen = self.heads[word], 0
            while above >= 0 and seen < len(self.words):  # up to the root; a faulty tree may have a cycle
                first[above], last[above] = min(first[above], word), max(last[above], word)
                above, seen = self.heads[above], seen + 1
        return list(zip(first, last, strict=True))


def trees(path: str | Path) -> Iterator[Tree]:
    """Every sentence of a file, without contractions (1-2) and empty nodes (1.1)."""
    if not Path(path).is_file():
        raise InputError(f"there is no file {path}; give a CoNLL-U file.")
    number = 0
    for block in blocks(TextFile.of(Path(path), None)):
        if rows := [cells for _, cells in block if cells[0].isdigit()]:
            number += 1
            yield _tree(rows, f"{path}, sentence {number}")
    if not number:
        raise InputError(f"{path} has no sentence; CoNLL-U has one word per line, in {COLUMNS} columns.")


def _tree(rows: list[list[str]], place: str) -> Tree:
    for row in rows:
        if len(row) != COLUMNS:
            raise InputError(f"{place}: word {row[0]} has {len(row)} columns; expected {COLUMNS}, with tabs.")
        if not row[HEAD].isdigit() or int(row[HEAD]) > len(rows):
            raise InputError(f"{place}: word {row[0]} has the head {row[HEAD]!r}; expected 0 to {len(rows)}.")
    forms, tags, heads, relations = zip(
        *((row[FORM], row[TAG], int(row[HEAD]) - 1, row[RELATION]) for row in rows), strict=True
    )
    return Tree(forms, tags, heads, relations)
