"""A small language model on few labels: what is chosen on training rows, what is asked, and learned gaps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from helpers import record
from vnait.data import Table
from vnait.train.base import Base
from vnait_lab.runs import language_model as runs

TINY = Path(__file__).parents[1] / "golden" / "format_9" / "tiny_bert"
TABLE = Table(texts=["a good film", "a dull film"] * 8, labels=["good", "dull"] * 8, name="films", dropped=0)


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("decoder")
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **sizes)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def test_states_are_chosen_that_predict_held_out_training_rows() -> None:
    draws, labels = np.random.default_rng(0), ["a", "b"] * 20
    readings = []
    for label in labels:
        states = draws.normal(size=(4, 6)).astype(np.float32)
        states[2, 0] = 3 if label == "a" else -3
        readings.append(runs.Reading(states, np.zeros(2)))
    place, model = runs.frozen(readings, labels, seed=0)
    assert place == 2
    assert list(model.predict([reading.states[2] for reading in readings])) == labels


def test_a_prompt_is_answered_by_the_likelier_word_and_calibrated_by_an_empty_text(
    decoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(runs.PROMPTS, "films", runs.Prompt("a ", " film", {"good": "good", "dull": "dull"}))
    reader = runs.Reader(decoder)
    readings = [reader.read("films", text) for text in TABLE.texts]
    assert readings[0].states.shape == (2 * 3, 16)
    likely = np.stack([reading.likely for reading in readings])
    assert (likely < 0).all() and len({tuple(row) for row in likely.tolist()}) == 2
    classes = np.array(["good", "dull"])
    asked, _ = runs.answers("prompt", reader, "films", TABLE, TABLE, 0)
    assert asked == classes[likely.argmax(1)].tolist()
    calibrated, _ = runs.answers("calibrated", reader, "films", TABLE, TABLE, 0)
    empty = reader.read("films", runs.EMPTY).likely
    assert calibrated == classes[(likely - empty).argmax(1)].tolist()


def test_adapters_and_their_control_record_gaps(decoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "LORA", {**runs.LORA, "steps": 2, "batch_size": 4})
    monkeypatch.setattr(runs, "SHOWN", 3)
    arms = ("own", "vnait-causal", runs.CONTROL)
    records = {arm: runs.tuned(arm, Base.load(decoder), TABLE, TABLE, 0) for arm in arms}
    assert "gaps" not in records["own"].metrics
    for arm in arms[1:]:
        gaps = records[arm].metrics["gaps"]
        assert [len(row) for row in gaps] == [
            len(Base.load(decoder).tokenizer("a good film")["input_ids"]) - 1
        ] * 3
        assert np.allclose(np.concatenate(gaps), 1, atol=0.1)  # after so few steps
    assert records["vnait-causal"].data["fingerprint"] != records[runs.CONTROL].data["fingerprint"]


def test_tables_pair_arms_by_draw_and_trainings_by_their_gaps() -> None:
    scores = {"frozen": (0.8, 0.7, 0.9), "prompt": (0.5, 0.5, 0.5)}
    records = [
        record(arm, seed, data={"name": "trec", "shots": 16}, metrics={"accuracy": value})
        for arm, values in scores.items()
        for seed, value in enumerate(values)
    ]
    absolute, difference = runs.table_of("trec", records, ("frozen", "prompt"))
    assert "80.0 [55.2, 100.0] | 50.0 [50.0, 50.0]" in absolute and "+30.0 [+5.2, +54.8]" in difference
    moves = {"vnait-causal": [[0.5, 1.0], [1.0]], runs.CONTROL: [[0.6, 1.0], [1.0]]}
    records = [
        record(arm, 0, data={"name": "trec", "shots": 16}, metrics={"accuracy": 0.5, "gaps": gaps})
        for arm, gaps in moves.items()
    ]
    first, second = runs.moved(records)
    assert "vnait-causal 0.167" in first and f"{runs.CONTROL} 0.133" in first
    assert second.endswith("correlation +1.00")
