"""Agreement: the grammar's sentences, the pairs, and how a model is judged."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch
from torch import Tensor

from vnait_lab.studies import agreement
from vnait_lab.studies.agreement import (
    KINDS,
    KNOWN,
    NOUN,
    NOUNS,
    STOP,
    THAT,
    THE,
    VERB,
    VERBS,
    VOCABULARY,
    looks,
    model_of,
    pairs,
    right,
    sentences,
    subject,
    texts,
)

NOUN_TOKENS, VERB_TOKENS = range(NOUN, VERB), range(VERB, VOCABULARY)


def number(token: int) -> int:
    """0 singular, 1 plural."""
    return (token - NOUN) // NOUNS if token < VERB else (token - VERB) // VERBS


def parsed(tokens: list[int]) -> list[tuple[int, int]]:
    """Pairs of subject and verb of one sentence, by a stack: a clause's noun waits for its verb; a noun after
    a preposition has none.
    """
    waiting, found, before = [], [], STOP
    for place, token in enumerate(tokens):
        if token in NOUN_TOKENS:
            begins = tokens[place - 2] if place > 1 else THAT
            assert before == THE
            if place == 1 or begins == THAT:
                waiting.append(token)
        elif token in VERB_TOKENS:
            found.append((waiting.pop(), token))
        before = token
    assert not waiting
    return found


def test_every_verb_agrees_with_its_own_subject() -> None:
    sentence, seen = [], 0
    for token in islice(sentences(np.random.default_rng(0)), 5_000):
        if token != STOP:
            sentence.append(token)
            continue
        for one, other in parsed(sentence):
            assert number(one) == number(other)
            seen += 1
        assert 1 <= len([token for token in sentence if token in NOUN_TOKENS]) <= KNOWN + 1
        sentence = []
    assert seen > 400


def test_training_texts_are_cut_anywhere_and_full() -> None:
    drawn = texts(np.random.default_rng(0), 4)
    assert drawn.shape == (4, agreement.LENGTH + 1) and int(drawn.max()) < VOCABULARY
    assert len({int(token) for token in drawn[:, 0]}) > 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [0, 1, 3])
def test_all_nouns_between_have_the_other_number(kind: str, count: int) -> None:
    ids, answers = pairs(kind, count, np.random.default_rng(1))
    for row, answer in zip(ids.tolist(), answers.tolist(), strict=True):
        first, *others = [number(token) for token in row[5:] if token in NOUN_TOKENS]
        assert first == answer and others == [1 - answer] * count
        assert row[0] == row[4] == STOP and row[6] in NOUN_TOKENS


def test_clauses_stand_inside_one_another() -> None:
    tokens = subject("clauses", 2, [0, 1, 0], np.random.default_rng(0))
    assert tokens[::3][:3] == [THE, tokens[3], THE] and tokens.count(THAT) == 2
    assert [number(token) for token in tokens[-2:]] == [0, 1], "the inner clause's verb comes first"


class Oracle(torch.nn.Module):
    """Expects verbs of the number of the token at place 6."""

    def forward(self, ids: Tensor) -> Tensor:
        logits = torch.zeros(*ids.shape, VOCABULARY)
        plural = ids[:, 6] >= NOUN + NOUNS
        logits[..., VERB : VERB + VERBS] = torch.where(plural, 0.0, 1.0)[:, None, None]
        logits[..., VERB + VERBS :] = torch.where(plural, 1.0, 0.0)[:, None, None]
        return logits


def test_who_names_the_subjects_number_is_right() -> None:
    ids, answers = pairs("phrases", 2, np.random.default_rng(0))
    assert right(Oracle(), ids, answers) == 1  # type: ignore[arg-type]
    assert right(Oracle(), ids, 1 - answers) == 0  # type: ignore[arg-type]


def test_the_control_does_not_see_the_subject() -> None:
    model = model_of("window", 0)
    ids, _ = pairs("phrases", 2, np.random.default_rng(0))
    other = ids.clone()
    other[:, 6] = NOUN
    with torch.no_grad():
        assert torch.equal(model(ids)[:, -1], model(other)[:, -1])
        assert not torch.equal(model_of("rope", 0)(ids)[:, -1], model_of("rope", 0)(other)[:, -1])
    assert looks(model, ids) == 0
