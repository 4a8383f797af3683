"""Sentences of a treebank (CoNLL-U) with what their trees say of every place between two words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

# Relations whose subtree is a clause; a conjunct is one where both it and what it is joined to are verbs.
CLAUSES = {"ccomp", "advcl", "acl", "acl:relcl", "advcl:relcl", "parataxis", "csubj", "csubj:pass"}


@dataclass(frozen=True)
class Sentence:
    """Words and universal tags (n,), and of the n - 1 places between neighbours, True or False:

    clause        a clause that is part of the sentence begins or ends there
    phrase        one arc of the tree crosses it and no more, punctuation's left out: the least that a tree has
    punctuation   a neighbour is punctuation
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    clause: np.ndarray
    phrase: np.ndarray
    punctuation: np.ndarray


def read(path: Path) -> Iterator[Sentence]:
    """Every sentence of a file. Contractions (1-2) and empty nodes (1.1) are left out."""
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        rows = [line.split("\t") for line in block.splitlines() if line[:1].isdigit()]
        rows = [row for row in rows if row[0].isdigit()]
        if rows:
            yield parsed(rows)


def parsed(rows: list[list[str]]) -> Sentence:
    """A sentence from its CoNLL-U rows.

    >>> tree = [("I", "PRON", 2, "nsubj"), ("know", "VERB", 0, "root"), ("he", "PRON", 4, "nsubj"), ("left", "VERB", 2, "ccomp")]
    >>> one = parsed([[str(n), word, "_", tag, "_", "_", str(to), rel] for n, (word, tag, to, rel) in enumerate(tree, 1)])
    >>> one.clause.tolist(), one.phrase.tolist()
    ([False, True, False], [True, True, False])
    """
    tags = tuple(row[3] for row in rows)
    heads = [int(row[6]) - 1 for row in rows]
    first, last = np.arange(len(rows)), np.arange(len(rows))
    for word in range(len(rows)):
        above, seen = heads[word], 0
        while above >= 0 and seen < len(rows):  # up to the root; a faulty tree may have a ring
            first[above], last[above] = min(first[above], word), max(last[above], word)
            above, seen = heads[above], seen + 1
    clause, crossing = np.zeros(len(rows) + 1, dtype=bool), np.zeros(len(rows) + 1, dtype=int)
    for word, (head, row) in enumerate(zip(heads, rows, strict=True)):
        verbs = row[7] == "conj" and tags[word] == "VERB" and tags[head] == "VERB"
        if row[7] in CLAUSES or verbs:
            clause[[first[word], last[word] + 1]] = True
        if head >= 0 and row[7] != "punct":
            crossing[min(word, head) + 1 : max(word, head) + 1] += 1
    point = np.array([tag == "PUNCT" for tag in tags])
    inner = slice(1, -1)
    return Sentence(
        tuple(row[1].lower() for row in rows), tags, clause[inner], crossing[inner] <= 1, point[:-1] | point[1:]
    )
