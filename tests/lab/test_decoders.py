"""Decoders with the same parts: what the variants have."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from vnait.model import VnaitConfig, VnaitForCausalLM
from vnait.positions.methods import METHODS
from vnait.positions.recipe import Size
from vnait_lab.runs import decoders
from vnait_lab.runs.decoders import DEFAULT, SCHEMES, variants
from vnait_lab.suites import decoding

SIZE = Size(dim=16, num_heads=4)


def test_the_decoding_suite_is_run_beside_the_default_on_the_named_tasks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr(
        decoders, "run_suite", lambda suite, options, **run: calls.append({"suite": suite, **run})
    )
    monkeypatch.setattr(decoders, "METHODS", dict(METHODS))
    monkeypatch.setattr(
        "sys.argv", ["decoders", "--suite", "decoding", "--tasks", "copy", "--schemes", "alibi,t5"]
    )
    decoders.main()
    (run,) = calls
    assert run["suite"] is decoding.SUITE and tuple(run["tasks"]) == ("copy",)
    assert run["methods"] == [DEFAULT, "alibi + neighbours", "t5 + neighbours"]
    assert run["path"].parent.name == "decoding_neighbours"


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
