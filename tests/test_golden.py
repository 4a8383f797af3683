"""Folders that earlier versions saved load with the same results; tests/golden/make.py wrote them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertModel

from vnait import TextClassifier, predict, report
from vnait.pretrained import load_adapter
from vnait.record import read

GOLDEN = Path(__file__).parent / "golden"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text())


def close(found: object, expected: object) -> bool:
    """The same shape, and numbers within 1e-5."""
    one, other = torch.as_tensor(found).double(), torch.tensor(expected).double()
    return one.shape == other.shape and torch.allclose(one, other, rtol=0, atol=1e-5)


def test_a_classifier_is_loaded():
    classifier = TextClassifier.load(GOLDEN / "vnait")
    assert close(classifier.predict_proba(EXPECTED["asked"]), EXPECTED["vnait"])


@torch.no_grad()
def test_transformers_loads_a_classifier():
    model = AutoModelForSequenceClassification.from_pretrained(GOLDEN / "vnait").eval()
    tokenizer = AutoTokenizer.from_pretrained(GOLDEN / "vnait")
    for text, expected in zip(EXPECTED["asked"], EXPECTED["vnait"], strict=True):
        logits = model(**tokenizer(text, return_tensors="pt")).logits
        assert close(logits.softmax(-1)[0], expected)


def test_a_fine_tuned_base_is_loaded():
    fitted = predict.load(GOLDEN / "fine_tuned")
    assert fitted.max_length == 24
    assert close(fitted.probabilities(EXPECTED["asked"]), EXPECTED["fine_tuned"])


@torch.no_grad()
def test_an_adapter_is_loaded():
    model = BertModel.from_pretrained(GOLDEN / "tiny_bert").eval()
    attachment = load_adapter(model, GOLDEN / "adapter")
    assert attachment.method == ("vnait",)
    ids = torch.tensor([[2, 5, 6, 7, 8, 3]])
    states = model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    assert close(states[0], EXPECTED["adapter"])


def test_a_report_on_a_comparison_is_written(tmp_path):
    folder = shutil.copytree(GOLDEN / "comparison", tmp_path / "comparison")
    found = {
        f"{record.method} {record.seed}": record.metrics["accuracy"]
        for record in read(folder / "records.jsonl")
    }
    assert found == pytest.approx(EXPECTED["comparison"], abs=1e-5)
    page = report.write(folder).read_text(encoding="utf-8")
    assert all(method in page for method in ("none", "vnait", "golden"))


def test_every_golden_folder_is_loaded_here():
    folders = {path.name for path in GOLDEN.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == {"adapter", "comparison", "fine_tuned", "tiny_bert", "vnait"}
