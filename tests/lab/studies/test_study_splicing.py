"""The splicing study: its introns letter by letter, its block against the library's, and where it looks for a
motif.
"""

from __future__ import annotations

import pytest
import torch

from vnait_lab.studies.parts.dna import LETTERS, letters
from vnait_lab.studies.splicing import Splicer, introns, mass, put, replaced


def test_introns_begin_and_end_as_described() -> None:
    made = introns(400, torch.Generator().manual_seed(0))
    assert 150 < int(made.label.sum()) < 250
    for x, donor, branch, decoys, label in zip(*made, strict=True):
        text = "".join(LETTERS[letter] for letter in x)
        donor, places = int(donor), {i for i in range(len(text)) if text.startswith("CTAAC", i)}
        whole = (
            text[donor : donor + 2] == "GT"
            and text[donor + 3 : donor + 6] == "AGT"
            and text[donor + 2] in "AG"
        )
        assert bool(label) == (whole and int(branch) in places)
        near = set(decoys.nonzero()[:, 0].tolist())
        assert places - {int(branch)} == near and 1 <= len(near) <= 3
        assert all(10 <= place - donor <= 31 for place in near) and 42 <= branch - donor <= 62


@pytest.mark.parametrize("method", ["relative", "learned table", "none"])
def test_one_row_is_the_blocks(method: str) -> None:
    torch.manual_seed(0)
    model, x, place = Splicer(method), torch.randint(4, (3, 128)), torch.tensor([5, 60, 127])
    for weight in model.encoding.parameters():
        torch.nn.init.normal_(weight)
    states, injection = model.inputs(x)
    keep, rows = torch.ones_like(x, dtype=torch.bool), torch.arange(3)
    logits, weights = model(x, place)
    assert torch.allclose(logits, model.read(model.block(states, injection, keep)[rows, place]), atol=1e-5)
    normed = model.block.norm_attention(states)
    expected = model.block.attention.weights(normed, injection, keep)[rows, :, place]
    assert torch.allclose(weights, expected, atol=1e-6)


def test_window_is_all_that_sees_the_motif() -> None:
    """A motif at 40 has its adenine at 43: the places whose state it changes are those that `mass` counts."""
    model, x = Splicer("none"), torch.zeros(1, 128, dtype=torch.long)
    other = x.clone()
    put(other, torch.tensor([40]), "CTGGC")
    changed = (model.inputs(x)[0] - model.inputs(other)[0]).abs().sum(2) > 0
    assert mass(changed[:, None].float(), torch.tensor([43])).item() == changed.sum().item() == 13
    assert other[0, 39:46].tolist() == [0, *letters("CTGGC").tolist(), 0]


def test_replaced_is_a_copy() -> None:
    x = torch.zeros(2, 6, dtype=torch.long)
    found = replaced(x, torch.tensor([1, 1]), torch.tensor([0, 3]), "CG")
    assert found.tolist() == [[0] * 6, [1, 2, 0, 1, 2, 0]] and not x.any()
