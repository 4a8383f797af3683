"""Decoders with the same parts: what the variants have."""

from __future__ import annotations

import pytest
import torch

from vnait.model import VnaitConfig, VnaitForCausalLM
from vnait.positions.methods import METHODS
from vnait.positions.recipe import Size
from vnait_lab.runs.decoders import DEFAULT, SCHEMES, variants

SIZE = Size(dim=16, num_heads=4)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_scheme_has_the_neighbours_of_the_default_and_reads_from_left_to_right(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{scheme} + neighbours"
    monkeypatch.setitem(METHODS, name, variants()[name])
    method, default = METHODS[name].make(SIZE), METHODS[DEFAULT].make(SIZE)
    assert list(map(str, method.inputs.views)) == list(map(str, default.inputs.views))
    model = VnaitForCausalLM(VnaitConfig(method=name, vocab_size=10, hidden_size=16)).eval()
    ids = torch.randint(1, 10, (1, 6))
    changed = ids.clone()
    changed[0, -1] = ids[0, -1] % 9 + 1
    with torch.no_grad():
        logits, again = model(ids).logits, model(changed).logits
    torch.testing.assert_close(logits[:, :-1], again[:, :-1])
    assert not torch.equal(logits[:, -1], again[:, -1])
