"""Sentences of a treebank (CoNLL-U): what their trees say of every place between two words, and how surprising the word after it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vnait.text.conllu import Tree, trees

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


def read(path: Path) -> list[Sentence]:
    """Every sentence of a file."""
    return [parsed(tree) for tree in trees(path)]


def parsed(tree: Tree) -> Sentence:
    """What a tree says.

    >>> words, tags = ("I", "know", "he", "left"), ("PRON", "VERB", "PRON", "VERB")
    >>> one = parsed(Tree(words, tags, (1, -1, 3, 1), ("nsubj", "root", "nsubj", "ccomp")))
    >>> one.clause.tolist(), one.phrase.tolist()
    ([False, True, False], [True, True, False])
    """
    count = len(tree.words)
    clause, crossing = np.zeros(count + 1, dtype=bool), np.zeros(count + 1, dtype=int)
    for word, ((first, last), head, relation) in enumerate(zip(tree.spans, tree.heads, tree.relations, strict=True)):
        verbs = relation == "conj" and tree.tags[word] == "VERB" and tree.tags[head] == "VERB"
        if relation in CLAUSES or verbs:
            clause[[first, last + 1]] = True
        if head >= 0 and relation != "punct":
            crossing[min(word, head) + 1 : max(word, head) + 1] += 1
    point = np.array([tag == "PUNCT" for tag in tree.tags])
    inner = slice(1, -1)
    words = tuple(word.lower() for word in tree.words)
    return Sentence(words, tree.tags, clause[inner], crossing[inner] <= 1, point[:-1] | point[1:])


def surprisal(train: list[Sentence], test: list[Sentence]) -> list[np.ndarray]:
    """-log p(word | word before): bigrams, backed by single words, backed by an even share."""
    single = Counter(word for one in train for word in one.words)
    pairs = Counter(pair for one in train for pair in zip(one.words, one.words[1:], strict=False))
    total, kinds = sum(single.values()), len(single) + 1

    def bits(before: str, word: str) -> float:
        alone = (single[word] + 1) / (total + kinds)
        return float(-np.log((pairs[before, word] + alone) / (single[before] + 1)))

    return [np.array([bits(*pair) for pair in zip(one.words, one.words[1:], strict=False)]) for one in test]
