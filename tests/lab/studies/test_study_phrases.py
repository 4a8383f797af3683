"""The phrases study: boundaries of a tree by hand, areas against a count of pairs, and batches of one
length.
"""

from __future__ import annotations

import numpy as np
import pytest
from torch import Generator

from vnait_lab.conllu import Tree
from vnait_lab.studies.phrases import area, batches, parsed, surprisal

# I think that he left , and she stayed
TREE = [
    ("I", "PRON", 2, "nsubj"),
    ("think", "VERB", 0, "root"),
    ("that", "SCONJ", 5, "mark"),
    ("he", "PRON", 5, "nsubj"),
    ("left", "VERB", 2, "ccomp"),
    (",", "PUNCT", 9, "punct"),
    ("and", "CCONJ", 9, "cc"),
    ("she", "PRON", 9, "nsubj"),
    ("stayed", "VERB", 2, "conj"),
]


def tree(words: list[tuple[str, str, int, str]]) -> Tree:
    return Tree(*zip(*((word, tag, head - 1, relation) for word, tag, head, relation in words), strict=True))


ONE = parsed(tree(TREE))


def test_boundaries_by_hand() -> None:
    # that ... left from 2 to 5, ", and she stayed" from 5 on; the end of the sentence is no place between
    # words.
    assert np.flatnonzero(ONE.clause).tolist() == [1, 4]
    assert np.flatnonzero(ONE.punctuation).tolist() == [4, 5]
    # Arcs over a place: I|think 1, think|that 2 (left, stayed), that|he 3, he|left 3, left|, 1, ,|and 1,
    # and|she 2, she|stayed 3.
    assert np.flatnonzero(ONE.phrase).tolist() == [0, 4, 5]


def test_area_is_a_count_of_pairs() -> None:
    random = np.random.default_rng(0)
    labels = [random.random(size) < 0.4 for size in (7, 9, 30)]
    scores = [random.integers(0, 4, len(one)) + 1.0 * one for one in labels]
    yes, no = (
        np.concatenate([s[one == side] for s, one in zip(scores, labels, strict=True)])
        for side in (True, False)
    )
    count = (yes[:, None] > no).mean() + (yes[:, None] == no).mean() / 2
    found, low, high = area(scores, labels, seed=0)
    assert found == pytest.approx(count) and low < found < high
    assert area([-one for one in scores], labels, seed=0)[0] == pytest.approx(1 - count)


def test_surprisal_knows_the_pairs() -> None:
    found = surprisal([ONE] * 5, [ONE])[0]
    assert (found < 0.5).all()  # every pair has been seen, after most words the only one
    backwards = parsed(tree([(word, "X", 0, "root") for word, *_ in TREE[::-1]]))
    assert (surprisal([ONE] * 5, [backwards])[0] > 2).all()


def test_batches_are_of_one_length() -> None:
    short = parsed(tree([("Go", "VERB", 0, "root"), ("!", "PUNCT", 1, "punct")]))
    draw = batches([ONE, short], Generator().manual_seed(0))
    lengths = [{len(one.words) for one in draw()} for _ in range(20)]
    assert all(len(own) == 1 for own in lengths) and {9} in lengths and {2} in lengths
