"""Model cards: the hub can read them, the numbers are the record's, and folders without one still load."""

import json

import pytest
from huggingface_hub import ModelCard

from vnait import cli
from vnait import data as text
from vnait.results import card
from vnait.results.record import Record
from vnait.train import predict

ROWS = [("a warm film", "good"), ("a dull film", "b|a<d>")] * 12


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text("text,label\n" + "".join(f"{one},{label}\n" for one, label in ROWS))
    return tmp_path / "data.csv"


def made(**changes) -> Record:
    facts = {
        "key": "k",
        "method": "rope",
        "seed": 0,
        "run": {"max_length": 512, "base": None},
        "data": {"name": "/home/me/data.csv", "rows": 20, "classes": ["b", "g"], "unknown_share": 0.125},
        "metrics": {"accuracy": 0.75, "macro_f1": 0.5, "mcc": 0.25},
        "parameters": 12_345,
        "seconds": 1.0,
        "peak_memory": 1.0,
        "versions": {},
        "commit": None,
    }
    return Record(**facts | changes)


def facts(data):
    return text.summary(text.read(str(data)), "words")


def test_card_has_the_facts_of_the_record(data):
    found = card.card(made(), facts(data))
    assert "12,345 learned parameters" in found and "20 of them used for training" in found
    assert "| test rows | 0.750 | 0.500 | 0.250 |" in found and "validation rows" not in found
    assert "| good | 12 |" in found and "| b&#124;a&lt;d> | 12 |" in found
    assert "12.5 % of the tokens" in found and "cut to 512 tokens" in found
    assert "/home" not in found and str(data.parent) not in found, "a card is sent on"
    front = ModelCard(found).data.to_dict()
    assert front["library_name"] == "vnait" and front["pipeline_tag"] == "text-classification"
    assert "rope" in front["tags"] and "language" not in front


def test_card_gives_the_share_of_the_answer_without_positions(data):
    assert "bag of words" not in card.card(made(), facts(data))
    found = card.card(made(data=made().data | {"bag_share": 0.876}), facts(data))
    assert "88 % of its logits come from a bag of words, without positions." in found
    chosen = {"bag_share": 0.876, "linear_part": "one-hot words"}
    found = card.card(made(data=made().data | chosen), facts(data))
    assert "88 % of its logits come from words and pairs of neighbours at their places, from" in found


def test_card_has_the_class_weights(data):
    assert "In training, " not in card.card(made(), facts(data))
    found = card.card(made(run=dict(made().run) | {"class_weight": "balanced"}), facts(data))
    assert "the rows of all labels count the same in sum" in found
    found = card.card(made(run=dict(made().run) | {"class_weight": {"b|a<d>": 2.5}}), facts(data))
    assert "a row counts as much as its label: b&#124;a&lt;d> 2.5, any other 1." in found


def test_card_without_held_out_rows_or_of_a_base(data):
    found = card.card(
        made(metrics={}, method="own", run={"max_length": 8, "base": "/home/me/bert"}), facts(data)
    )
    assert "No rows were held out" in found and "`bert`, fine-tuned" in found and "/home" not in found


def test_train_writes_a_card_that_loads(data, capsys):
    cli.main(["train", str(data), "--out", "model", "--steps", "2", "--method", "none", "--json", "--quiet"])
    record = json.loads(capsys.readouterr().out)["record"]
    found = ModelCard.load("model/README.md")
    score = record["metrics"]["validation_accuracy"]
    assert f"| validation rows | {score:.3f} |" in found.text and "data.csv, none" in found.text
    assert predict.load("model").classes == ["b|a<d>", "good"]
    (data.parent / "model" / "README.md").unlink()
    assert predict.load("model").classes == ["b|a<d>", "good"]


def test_compare_writes_its_table_and_writes_it_again(data, capsys):
    options = ("--out", "runs", "--seeds", "3", "--steps", "2", "--jobs", "1", "--quiet")
    cli.main(["compare", str(data), "--methods", "none", *options, "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    path = data.parent / "runs" / "model" / "README.md"
    found = path.read_text()
    assert "## Comparison" in found and "With all labels:" in found
    for row in rows:
        line = next(line for line in found.splitlines() if line.startswith(f"| `{row['method']}` |"))
        bounds = "" if row["ci_low"] is None else f" [{row['ci_low']:.3f}, {row['ci_high']:.3f}]"
        assert f"{row['mean']:.3f}{bounds}" in line
    path.unlink()
    cli.main(["compare", str(data), "--methods", "none", *options])
    assert path.read_text() == found, "a model that was there gets the same card again"
