"""Structure from texts without labels: what is asked, what is kept, and the verdict."""

from types import SimpleNamespace

import pytest
import torch
from torch import Generator

from vnait.data.vocabulary import learn
from vnait.train.models import new_model
from vnait_lab.runs import self_supervision
from vnait_lab.runs.self_supervision import IGNORED, RUN, masked_words, moved_words, pretrained, verdict

TEXTS = [f"{one} {two} the film was {three} today" for one in "abcd" for two in "efgh" for three in "ijkl"]


@pytest.fixture(scope="module")
def words():
    return learn(TEXTS, dim=8)


def batch(words, count=400):
    ids = torch.tensor(words.encode(TEXTS, max_length=16)).repeat(count // len(TEXTS) + 1, 1)[:count]
    ids[::2, -2:] = words.tokenizer.pad_token_id
    return ids


def test_some_words_are_hidden_and_asked(words):
    ids = batch(words)
    shown, asked = masked_words(ids, words, Generator().manual_seed(0))
    real = ids != words.tokenizer.pad_token_id
    chosen = asked != IGNORED
    assert torch.equal(asked[chosen], ids[chosen]) and torch.equal(shown[~chosen], ids[~chosen])
    assert not chosen[~real].any()
    assert 0.12 < float(chosen.sum() / real.sum()) < 0.18
    masked = shown[chosen] == words.tokenizer.mask_token_id
    assert 0.7 < float(masked.float().mean()) < 0.9
    assert 0.05 < float((shown[chosen] == ids[chosen]).float().mean()) < 0.25


def test_spans_change_places_and_padding_stays(words):
    ids = batch(words)
    shown, asked = moved_words(ids, words, Generator().manual_seed(0))
    real = ids != words.tokenizer.pad_token_id
    assert torch.equal(shown.sort(1).values, ids.sort(1).values)
    assert torch.equal(asked[real], (shown != ids).long()[real]) and (asked[~real] == IGNORED).all()
    assert 0.65 < float((shown != ids).any(1).float().mean()) < 0.8


@pytest.mark.parametrize("question", ["masked words", "moved words"])
def test_a_new_model_begins_with_what_was_learned(question, words, monkeypatch):
    monkeypatch.setattr(self_supervision, "STEPS", 3)
    found = pretrained(words, TEXTS, RUN, question)
    model = new_model(found, RUN, ["a", "b"], [7])
    plain = new_model(words, RUN, ["a", "b"], [7])
    for name, weight in model.model.state_dict().items():
        assert torch.equal(weight, found.weights[name])
    assert not torch.equal(model.model.encoder.norm.weight, plain.model.encoder.norm.weight)
    assert torch.equal(model.classifier.weight, plain.classifier.weight)
    assert pretrained(words, TEXTS, RUN, "nothing").weights is None


@pytest.mark.parametrize(
    ("masked", "moved", "word"),
    [
        ((0.63, 0.63, 0.635), (0.5, 0.5, 0.5), "confirmed"),
        ((0.5, 0.5, 0.5), (0.6, 0.605, 0.6), "refuted"),
        ((0.5, 0.6, 0.7), (0.5, 0.5, 0.5), "undecided"),
    ],
)
def test_the_verdict(masked, moved, word):
    scores = {"nothing": (0.6, 0.6, 0.6), "masked words": masked, "moved words": moved}
    found = [
        SimpleNamespace(
            method="vnait",
            seed=seed,
            data={"name": "trec", "question": question},
            metrics={"accuracy": score},
        )
        for question, own in scores.items()
        for seed, score in enumerate(own)
    ]
    assert verdict(found, "trec").word == word
    assert verdict(found[:-1], "trec").word == "undecided"
