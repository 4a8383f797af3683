"""Deletion curves: the most attributed tokens go first, and become unknown words at their places."""

import numpy as np
import pytest
import torch

from vnait import data
from vnait.data import vocabulary
from vnait.train.fitting import fit
from vnait.train.run import Run
from vnait_lab.runs import deletion


@pytest.fixture(scope="module")
def fitted():
    table = data.Table(["a warm film it is", "it is a dull film"] * 8, ["good", "bad"] * 8, "made", 0)
    return fit(Run(steps=8, early_stopping=0, holdout=True), table, vocabulary.learn(table.texts))


def test_tokens_of_the_highest_values_become_unknown_words(fitted, monkeypatch):
    (ids,), seen = fitted.ids(["a warm film it is"]), []
    outputs = deletion._outputs
    monkeypatch.setattr(deletion, "_outputs", lambda *given: seen.append(given[2]) or outputs(*given))
    values = np.array([0.0, 3.0, 1.0, -1.0, 2.0])
    fall = deletion._fall(fitted, ids, values, 0, np.random.default_rng(0))
    # 10, 20, 30 and 50 % of five tokens, one at least; nothing in the first row.
    expected = [[], [1], [1], [1, 4], [1, 4]]
    assert [np.flatnonzero(row).tolist() for row in seen[0]] == expected
    unknown = [ids[0], fitted.tokenizer.unk_token_id, *ids[2:]]
    with torch.no_grad():
        whole, without = (
            fitted.model(torch.tensor([row])).logits[0].softmax(-1)[0] for row in (ids, unknown)
        )
    assert fall[0] == pytest.approx(float(whole - without), abs=1e-6)


def test_a_row_of_the_table_has_each_order_and_what_it_is_behind(fitted):
    curves = [
        deletion.falls(fitted, text, np.random.default_rng(0)) for text in ("a warm film", "it is dull")
    ]
    assert all(curve.keys() == set(deletion.ORDERS) for curve in curves)
    made = [{"adds": np.full(4, fall), "bag": np.full(4, 0.1)} for fall in (0.3, 0.3)]
    made = [{**curve, "leaving out": np.full(4, 0.3), "random": np.zeros(4)} for curve in made]
    cells = deletion.line("made", made).split("|")
    assert [cell.split()[0] for cell in cells[2:9]] == [
        "30.0",
        "10.0",
        "30.0",
        "0.0",
        "+20.0",
        "+0.0",
        "+30.0",
    ]
