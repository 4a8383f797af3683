"""The four-terms study: its split against a loop, and its tasks against their definitions."""

from __future__ import annotations

import torch
from torch import Generator

from vnait.results.explanation.attention import centred, four_terms
from vnait_lab.studies.four_terms import LENGTH, exact, texts


def test_split_by_hand() -> None:
    content, place, query, key = torch.randn(4, 3, 3).double()
    terms = four_terms(content, place, query, key)
    weight = query @ key.T
    for row in range(3):
        for column in range(3):
            assert torch.isclose(terms[1, row, column], content[row] @ weight @ place[column])
            assert torch.isclose(terms[2, row, column], place[row] @ weight @ content[column])
    assert not torch.allclose(terms[1], terms[2])


def test_centred_hides_what_softmax_hides() -> None:
    scores = torch.randn(4, 5)
    assert torch.allclose(centred(scores + torch.randn(4, 1)), centred(scores), atol=1e-6)


def test_tasks_look_where_their_definition_does() -> None:
    random = Generator().manual_seed(0)
    words, wanted = texts("content", 5, random)
    assert ((words + 1) % LENGTH == words.gather(1, wanted)).all()
    words, wanted = texts("both", 5, random)
    assert ((words + 1) % (LENGTH // 2) == words.gather(1, wanted)).all()
    assert ((wanted < LENGTH // 2) != (torch.arange(LENGTH) < LENGTH // 2)).all()
    _, wanted = texts("position", 1, random)
    assert wanted[0].tolist() == [-100] * 3 + list(range(LENGTH - 3))


def test_remedies_are_needed() -> None:
    for variant in ("biases", "LayerNorm"):
        found = exact(variant, 0)
        assert found["mended"] < 1e-12 < 0.1 < found["error"]
