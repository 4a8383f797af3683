"""Sentences with dependency trees from a CoNLL-U file."""

import gzip

import pytest

from vnait.shared.errors import InputError
from vnait_lab import conllu

TREE = """\ufeff# text = we don't like dull films
1\twe\twe\tPRON\t_\t_\t4\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\t_\t_\t4\taux\t_\t_
3\tn't\tnot\tPART\t_\t_\t4\tadvmod\t_\t_
4\tlike\tlike\tVERB\t_\t_\t0\troot\t_\t_
5\tdull\tdull\tADJ\t_\t_\t6\tamod\t_\t_
6\tfilms\tfilm\tNOUN\t_\t_\t4\tobj\t_\t_

1\tGo\tgo\tVERB\t_\t_\t0\troot\t_\t_
"""


def test_trees_of_a_packed_file_whose_blank_lines_have_spaces(tmp_path):
    path = tmp_path / "two.conllu.gz"
    path.write_bytes(gzip.compress(TREE.replace("\n\n", "\n \n").encode()))
    first, second = conllu.trees(path)
    assert first.words == ("we", "do", "n't", "like", "dull", "films")
    assert first.heads == (3, 3, 3, -1, 5, 3)
    assert second.words == ("Go",) and second.relations == ("root",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("just words\n", "has no sentence"),
        ("1\tGo\tgo\n", "word 1 has 3 columns; expected 10"),
        (TREE.replace("\t6\tamod", "\t9\tamod"), "sentence 1: word 5 has the head '9'; expected 0 to 6"),
        (None, "there is no"),
    ],
)
def test_a_bad_tree_is_one_sentence(tmp_path, content, message):
    path = tmp_path / "one.conllu"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        list(conllu.trees(path))
