"""Kinds of heads, and the parts of a block's scores, for every place where position enters."""

import pytest
import torch

from vnait.model.backbone import Block
from vnait.positions.encodings import ScaleInvariant
from vnait.positions.injection import Injection
from vnait.results.explanation.attention import (
    HEAD_KINDS,
    OTHERS,
    TERMS,
    entropy,
    four_terms,
    head_kind,
    score_terms,
    shares,
)

T, DIM, HEADS = 7, 12, 3


def block() -> Block:
    """With every bias and norm away from where it starts."""
    torch.manual_seed(0)
    made = Block(dim=DIM, num_heads=HEADS, intermediate=8, dropout=0.0)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    return made


TURN = torch.linspace(0, 3, T)[None, :, None] * torch.tensor([1.0, 0.3])
INJECTIONS = {
    "nothing": Injection(),
    "rotary": Injection(rotary=TURN),
    "stretch": Injection(rotary=TURN, stretch=TURN / 10),
    "bias": Injection(bias=torch.randn(1, HEADS, T, T, generator=torch.Generator().manual_seed(3))),
    "scale": Injection(scale=torch.linspace(0.5, 2, T)[None]),
    "scale of a head": Injection(scale=torch.linspace(0.5, 2, T * HEADS).reshape(1, T, HEADS)),
    "score_mod": ScaleInvariant()(torch.arange(float(T))[None, :, None]),
    "all": Injection(
        rotary=TURN,
        scale=torch.linspace(0.5, 2, T)[None],
        bias=torch.randn(1, HEADS, T, T, generator=torch.Generator().manual_seed(3)),
        score_mod=ScaleInvariant()(torch.arange(float(T))[None, :, None]).score_mod,
    ),
}


@pytest.mark.parametrize("name", INJECTIONS)
def test_the_terms_sum_to_the_blocks_own_scores(name):
    made, injection = block(), INJECTIONS[name]
    content, place = torch.randn(2, T, DIM, generator=torch.Generator().manual_seed(1))
    terms = score_terms(made, content, place, injection)
    own = made.attention.scores(made.norm_attention((content + place)[None]), injection, None)[0]
    assert tuple(terms) == (*TERMS, *OTHERS)
    torch.testing.assert_close(torch.stack(list(terms.values())).sum(0), own, rtol=1e-5, atol=1e-5)
    assert bool(terms["rotary"].any()) == (injection.rotary is not None)
    assert bool(terms["bias"].any()) == (injection.dense().bias is not None)
    assert all(terms[term].any() for term in TERMS)


def test_a_part_that_is_zero_has_no_terms():
    terms = score_terms(block(), torch.randn(T, DIM), torch.zeros(T, DIM), Injection())
    assert [bool(terms[term].any()) for term in TERMS] == [True, False, False, False]


def test_terms_by_hand_with_a_head_each():
    content, place = torch.randn(2, T, DIM)
    query, key = torch.randn(2, HEADS, DIM, 4)
    found = four_terms(content, place, query, key)
    assert found.shape == (4, HEADS, T, T)
    torch.testing.assert_close(found[1, 2, 3, 4], content[3] @ query[2] @ (place[4] @ key[2]))


def test_shares_are_of_centred_rows():
    rows = torch.randn(1, T, T)
    found = shares({"one": rows, "shifted": rows + torch.randn(1, T, 1), "flat": torch.ones(1, T, T)})
    assert found["one"].item() == pytest.approx(0.5) and found["shifted"].item() == pytest.approx(0.5)
    assert found["flat"].item() == 0
    assert shares({"flat": torch.ones(1, T, T)})["flat"].item() == 0


def test_kinds_of_one_text():
    column, far = torch.zeros(2, 8, 8)
    column[:, 5] = 1
    far[torch.arange(8), torch.tensor([4, 6, 7, 7, 0, 0, 1, 3])] = 1
    assert head_kind(column) == ("long-range", 0) and head_kind(far) == ("long-range", 0)
    assert head_kind(torch.eye(8).roll(1, 0)) == ("banded", -1)
    assert head_kind(torch.full((8, 8), 0.125)) == ("uniform", 0)
    assert head_kind((torch.eye(8) + torch.full((8, 8), 0.5)) / 5) == ("mixed", 0)
    assert head_kind(torch.ones(1, 1)) == ("diagonal", 0)
    assert all(head_kind(torch.rand(8, 8).softmax(-1))[0] in HEAD_KINDS for _ in range(5))


def test_a_given_spread_takes_the_place_of_the_weights_own():
    flat = torch.full((8, 8), 0.125)
    torch.testing.assert_close(entropy(flat), torch.full((8,), 8.0).log())
    assert head_kind(flat, torch.tensor(0.5)) == ("mixed", 0)
