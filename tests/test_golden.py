"""A folder of the saved format loads with the same results; tests/golden/make.py wrote it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, BertModel

from vnait import TextClassifier
from vnait.model import VnaitForSequenceClassification
from vnait.pretrained import load_adapter
from vnait.results import report
from vnait.results.record import read
from vnait.train import predict

GOLDEN = Path(__file__).parent / "golden"
FORMATS = ("format_9",)


@pytest.fixture(params=FORMATS)
def golden(request):
    """A folder of one format."""
    return GOLDEN / request.param


@pytest.fixture
def expected(golden):
    """What its models gave when it was saved."""
    return json.loads((golden / "expected.json").read_text())


def close(found: object, expected: object) -> bool:
    """The same shape, and numbers within 1e-5."""
    one, other = torch.as_tensor(found).double(), torch.tensor(expected).double()
    return one.shape == other.shape and torch.allclose(one, other, rtol=0, atol=1e-5)


def test_a_classifier_is_loaded(golden, expected):
    classifier = TextClassifier.load(golden / "vnait")
    assert close(classifier.predict_proba(expected["asked"]), expected["vnait"])


@torch.no_grad()
def test_transformers_loads_a_classifier(golden, expected):
    model = AutoModelForSequenceClassification.from_pretrained(golden / "vnait").eval()
    tokenizer = AutoTokenizer.from_pretrained(golden / "vnait")
    for text, answer in zip(expected["asked"], expected["vnait"], strict=True):
        logits = model(**tokenizer(text, return_tensors="pt")).logits
        assert close(logits.softmax(-1)[0], answer)


def test_a_saved_folder_takes_what_transformers_gives(golden):
    """Settings, a configuration, the stored dtype; the model knows its folder."""
    folder = golden / "vnait"
    load = AutoModelForSequenceClassification.from_pretrained
    model = load(folder, dropout=0.5, dtype="auto")
    assert (model.config.dropout, model.dtype, model.name_or_path) == (0.5, torch.float32, str(folder))
    config = AutoConfig.from_pretrained(folder, tune_vectors=False)
    given, about = VnaitForSequenceClassification.from_pretrained(
        pretrained_model_name_or_path=folder, config=config, output_loading_info=True
    )
    assert not any(weight.requires_grad for weight in given.base_model.vectors.parameters())
    assert not about["missing_keys"]
    for name, weight in load(folder).state_dict().items():
        assert torch.equal(given.state_dict()[name], weight), name


def test_a_saved_folder_in_parts_is_loaded(golden, tmp_path):
    folder = shutil.copytree(golden / "vnait", tmp_path / "vnait")
    expected = AutoModelForSequenceClassification.from_pretrained(folder).state_dict()
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    parts = {name: f"model-0000{1 + index % 2}-of-00002.safetensors" for index, name in enumerate(weights)}
    for part in set(parts.values()):
        own = {name: weight for name, weight in weights.items() if parts[name] == part}
        save_file(own, folder / part, {"format": "pt"})
    index = {"metadata": {"total_size": 0}, "weight_map": parts}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    found = AutoModelForSequenceClassification.from_pretrained(folder).state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in found)


def test_a_fine_tuned_base_is_loaded(golden, expected):
    fitted = predict.load(golden / "fine_tuned")
    assert fitted.max_length == 24
    assert close(fitted.probabilities(expected["asked"]), expected["fine_tuned"])


@torch.no_grad()
def test_an_adapter_is_loaded(golden, expected):
    model = BertModel.from_pretrained(golden / "tiny_bert").eval()
    attachment = load_adapter(model, golden / "adapter")
    assert attachment.method == ("vnait",)
    ids = torch.tensor([[2, 5, 6, 7, 8, 3]])
    states = model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    assert close(states[0], expected["adapter"])


def test_a_report_on_a_comparison_is_written(golden, expected, tmp_path):
    folder = shutil.copytree(golden / "comparison", tmp_path / "comparison")
    found = {
        f"{record.method} {record.seed}": record.metrics["accuracy"]
        for record in read(folder / "records.jsonl")
    }
    assert found == pytest.approx(expected["comparison"], abs=1e-5)
    page = report.write(folder).read_text(encoding="utf-8")
    assert all(method in page for method in ("none", "vnait", "golden"))


def test_every_golden_folder_is_loaded_here():
    assert {path.name for path in GOLDEN.iterdir() if path.name not in ("make.py", "__pycache__")} == {
        *FORMATS
    }
    for folder in FORMATS:
        kinds = {path.name for path in (GOLDEN / folder).iterdir() if path.is_dir()}
        assert kinds == {"adapter", "comparison", "fine_tuned", "tiny_bert", "vnait"}
