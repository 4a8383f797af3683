"""JSON of a wrong structure, in every file that is read, is one sentence with the file's name."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertModel

from vnait import TextClassifier, VnaitConfig, data
from vnait.data import vocabulary as vocabulary
from vnait.pretrained import load_adapter
from vnait.results import report
from vnait.results.about import About
from vnait.results.record import Record, read
from vnait.shared import schemas
from vnait.shared.errors import InputError
from vnait.train import predict
from vnait.train.baselines import BASELINES, fit_baseline

GOLDEN = Path(__file__).parent / "golden" / "format_9"
VALUES = [None, True, -1, 3.5, "x", "", [], {}, [1], {"a": 1}, [[]]]
GONE = object()


def classify(folder: Path) -> None:
    predict.load(folder).probabilities(["a dull film"])


READERS: dict[str, Callable[[Path], object]] = {
    "vnait/estimator.json": lambda folder: TextClassifier.load(folder).predict(["a dull film"]),
    "vnait/record.json": TextClassifier.load,
    "vnait/config.json": classify,
    "vnait/tokenizer_config.json": classify,
    "fine_tuned/tuned.json": classify,
    "adapter/vnait.json": lambda folder: load_adapter(
        BertModel.from_pretrained(GOLDEN / "tiny_bert"), folder
    ),
    "comparison/about.json": report.write,
    "comparison/records.jsonl": report.write,
}


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a document."""
    yield place
    for key in value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0):
        yield from places(value[key], (*place, key))


def changed(document: Any, place: tuple[Any, ...], value: object) -> Any:
    """A copy with another value at the place, or without it."""
    if not place:
        return value
    copy = json.loads(json.dumps(document))
    inner = copy
    for key in place[:-1]:
        inner = inner[key]
    if value is GONE:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return copy


@pytest.mark.parametrize("name", READERS)
def test_a_wrong_structure_is_one_sentence_or_does_no_harm(name, tmp_path):
    source, first = GOLDEN / name, (GOLDEN / name).read_text(encoding="utf-8")
    first, rest = first.split("\n", 1) if source.suffix == ".jsonl" else (first, "")
    document = json.loads(first)
    cases = [(place, value) for place in places(document) for value in (*VALUES, GONE)]
    wholly = [((), value) for value in VALUES]
    refused = 0
    for place, value in wholly[:6] + random.Random(0).sample(cases, 25):
        if place == () and value is GONE:
            continue
        folder = shutil.copytree(source.parent, tmp_path / "copy")
        (folder / source.name).write_text(json.dumps(changed(document, place, value)) + "\n" + rest)
        try:
            READERS[name](folder)
        except InputError as error:
            refused += 1
            assert "\n" not in str(error), (place, value)
        shutil.rmtree(folder)
    assert refused >= 6


@pytest.mark.parametrize("name", READERS)
def test_brackets_without_end_are_one_sentence(name, tmp_path):
    folder = shutil.copytree((GOLDEN / name).parent, tmp_path / "copy")
    (folder / Path(name).name).write_text("[" * 100_000 + "\n")
    with pytest.raises(InputError):
        READERS[name](folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": "0"}, "its seed is '0', expected int"),
        ({"seed": True}, "its seed is True, expected int"),
        ({"data": [1]}, r"its data is \[1\], expected an object"),
        ({"data": {"shots": "few"}}, "its data has wrong shots"),
        ({"metrics": {"confusion": [[1, "a"]]}}, "its metrics's confusion is .* expected list"),
        ({"metrics": {"confusion": [[1]]}}, "it has a confusion matrix or counts of other classes"),
        ({"metrics": {"by_label": [[1, 1, 1]]}}, "it has a confusion matrix or counts of other classes"),
        (
            {"metrics": {"length_rows": [1]}},
            "its metrics has length_rows and length_right of different lengths, or right rows in other than "
            "hexadecimal digits",
        ),
    ],
)
def test_a_wrong_record_is_named_with_its_line(change, message, tmp_path):
    first, second, *_ = (GOLDEN / "comparison" / "records.jsonl").read_text(encoding="utf-8").splitlines()
    path = tmp_path / "records.jsonl"
    record = json.loads(second)
    inner = {name: record[name] | part if isinstance(part, dict) else part for name, part in change.items()}
    if "confusion" in change.get("metrics", {}) or "length_rows" in change.get("metrics", {}):
        inner["metrics"] = change["metrics"]
    path.write_text(f"{first}\n{json.dumps(record | inner)}\n", encoding="utf-8")
    with pytest.raises(
        InputError, match=rf"line 2 of .*records.jsonl is not a record of this version: {message}"
    ):
        read(path)


@pytest.fixture(scope="module")
def baselines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both baselines, saved."""
    room = tmp_path_factory.mktemp("baselines")
    table = data.Table(
        texts=["a dull film", "a warm film"] * 9, labels=["bad", "good"] * 9, name="", dropped=0
    )
    for name in BASELINES:
        words = vocabulary.learn(table.texts, dim=8)
        fit_baseline(name, table, table, words, tokenization="words", seed=0).save(room / name)
    return room


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_of_a_wrong_structure_is_one_sentence_or_does_no_harm(name, baselines, tmp_path):
    path = baselines / name / "baseline.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    cases = [(place, value) for place in places(document) for value in (*VALUES, GONE) if place]
    refused = 0
    for place, value in random.Random(0).sample(cases, 60):
        folder = shutil.copytree(path.parent, tmp_path / "copy")
        (folder / "baseline.json").write_text(json.dumps(changed(document, place, value)))
        try:
            classify(folder)
        except InputError as error:
            refused += 1
            assert "\n" not in str(error) and "is damaged: " in str(error), (place, value)
        shutil.rmtree(folder)
    assert refused >= 30


PART = {"kind": "words", "tokenization": "words", "terms": ["a"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": "ab"}, r"baseline.json's classes is 'ab', expected list"),
        ({"parts": [PART | {"kind": "tf"}]}, r"parts\[0\] has a kind other than words, letters, places"),
        (
            {"parts": [PART, PART | {"terms": ["a", "a"]}]},
            r"parts\[1\] has .* other terms than that kind has",
        ),
        ({"parts": [PART]}, r"its weights are \(\d+, 2\), not \(1, 2\)"),
        ({"parts": [PART | {"kind": "mean", "unknown": "zebra"}]}, "or other terms than that kind has"),
        ({"parts": {}}, r"parts is \{\}, expected list"),
        ({"task": ""}, r"baseline.json's task is '', expected .*classification"),
    ],
)
def test_a_wrong_baseline_is_named(change, message, baselines, tmp_path):
    folder = shutil.copytree(baselines / "tfidf", tmp_path / "copy")
    notes = json.loads((folder / "baseline.json").read_text(encoding="utf-8")) | change
    (folder / "baseline.json").write_text(json.dumps(notes))
    with pytest.raises(InputError, match=message):
        predict.load(folder)


@pytest.mark.parametrize("part", ["vnait", "fine_tuned/base"])
def test_a_number_of_layers_that_no_model_has_is_refused_at_once(part, tmp_path):
    folder = shutil.copytree(GOLDEN / part.split("/")[0], tmp_path / "copy")
    path = folder / Path(part).name / "config.json" if "/" in part else folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    for name, value in (("num_hidden_layers", 10**8), ("num_attention_heads", 10**9)):
        path.write_text(json.dumps(config | {name: value}))
        with pytest.raises(InputError, match=f"has {name} {value:,}; expected 1,000,?0?0?0? at most"):
            predict.load(folder)
    with pytest.raises(InputError, match="num_hidden_layers is 100,000,000; expected 1,000 at most"):
        VnaitConfig(num_hidden_layers=10**8)


@pytest.mark.parametrize(
    ("file", "key", "value", "message"),
    [
        (
            "vnait/config.json",
            "unk_token_id",
            10**30,
            "unk_token_id is 10{29}.*, expected an integer of 64 bits",
        ),
        ("vnait/config.json", "pad_token_id", None, "its tokenizer pads with 0, and its model expects None"),
        ("vnait/config.json", "num_attention_heads", -1, "num_attention_heads is -1; expected at least 1"),
        ("vnait/config.json", "vocab_size", 10**8, "1,200,007,872 weights, more than its files have"),
        ("comparison/about.json", "runs", [], "about.json is damaged: it has no runs"),
        ("vnait/tokenizer_config.json", "unk_token", None, "it has no token for unknown words"),
        ("fine_tuned/tuned.json", "max_length", 2**63, "max_length is .*, expected an integer of 64 bits"),
    ],
)
def test_a_wrong_value_is_named(file, key, value, message, tmp_path):
    folder = shutil.copytree(GOLDEN / Path(file).parent, tmp_path / "copy")
    path = folder / Path(file).name
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {key: value}))
    with pytest.raises(InputError, match=message):
        (report.write if file.startswith("comparison") else classify)(folder)


def test_a_word_without_a_vector_is_refused(tmp_path):
    folder = shutil.copytree(GOLDEN / "vnait", tmp_path / "copy")
    path = folder / "tokenizer.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document["model"]["vocab"]["film"] = 10**8
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match="a word has the id 100000000, and there are 17 words"):
        classify(folder)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"film": 5, "dull": 5}, r"two words of its tokenizer have the id 5"),
        ({"[MASK]": 4}, r"two words of its tokenizer have the id 4"),
        ({"film": 0}, r"two words of its tokenizer have the id 0"),
    ],
)
def test_a_tokenizer_that_does_not_fit_its_own_words_is_refused(words, message, tmp_path):
    folder = shutil.copytree(GOLDEN / "vnait", tmp_path / "copy")
    path = folder / "tokenizer.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document["model"]["vocab"] |= words
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=message):
        classify(folder)


def test_a_model_with_another_unknown_word_is_refused(tmp_path):
    folder = shutil.copytree(GOLDEN / "vnait", tmp_path / "copy")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"unk_token_id": 7}))
    with pytest.raises(InputError, match="unknown word has the id 1, and its model expects 7"):
        classify(folder)


def test_a_confusion_matrix_of_no_classes_is_named(tmp_path):
    folder = shutil.copytree(GOLDEN / "comparison", tmp_path / "copy")
    path = folder / "records.jsonl"
    first, *others = path.read_text(encoding="utf-8").splitlines()
    record = json.loads(first)
    del record["data"]["classes"]
    path.write_text("\n".join([json.dumps(record), *others, ""]))
    with pytest.raises(InputError, match=r"line 1 .* has a confusion matrix or counts of other classes"):
        report.write(folder)


def test_a_number_that_only_a_float_holds_is_read(tmp_path):
    folder = shutil.copytree(GOLDEN / "vnait", tmp_path / "copy")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"mean_length": 10**30}))
    classify(folder)


def test_weights_that_give_no_finite_number_are_no_answer(tmp_path):
    folder = shutil.copytree(GOLDEN / "vnait", tmp_path / "copy")
    weights = load_file(folder / "model.safetensors")
    weights["classifier.weight"][0, 0] = torch.nan
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match="not a finite number: its weights are damaged"):
        classify(folder)


def test_an_unknown_key_is_left_alone():
    tuned = {"method": "vnait", "max_length": 8, "later": 1}
    assert schemas.check(schemas.Tuned, tuned) is tuned


LINEAR = "tfidf/baseline.json"


def parts_of(document: Any) -> list[dict[str, Any]]:
    """The objects of a JSON document that are not settings of a method, in which a key may be a name."""
    parts = [document, *(document[name] for name in ("data", "metrics", "run") if name in document)]
    return parts + document.get("parts", [])


@pytest.mark.parametrize("name", [*READERS, LINEAR])
def test_keys_of_a_later_version_change_no_answer(name, tmp_path, caplog):
    """Each JSON file of a model's folder, and of a comparison, with further keys at every depth."""
    source = GOLDEN / name
    folder = tmp_path / "copy"
    if name == LINEAR:
        read = classify
        TextClassifier("tfidf").fit(["a dull film", "a warm film"] * 9, [0, 1] * 9).save(folder)
    else:
        read = READERS.get(name, classify)
        shutil.copytree(source.parent, folder)
    path = folder / source.name
    documents = list(map(json.loads, lines_of(path)))
    for document in documents:
        for part in parts_of(document):
            part[f"later_{source.stem}"] = {"value": [1, None]}
    path.write_text("".join(json.dumps(document) + "\n" for document in documents), encoding="utf-8")
    schemas._note.cache_clear()
    read(folder)
    noted = [text for text in caplog.messages if "later_" in text and "is ignored" in text]
    assert len(noted) <= 2  # once a file, not for each record
    assert noted or source.name in ("config.json", "tokenizer_config.json")


def lines_of(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    return text.splitlines() if path.suffix == ".jsonl" else [text]


@pytest.mark.parametrize("name", READERS)
def test_files_of_this_version_have_no_key_to_note(name, caplog):
    schemas._note.cache_clear()
    if name.startswith("comparison"):
        for line in lines_of(GOLDEN / "comparison" / "records.jsonl"):
            Record.of(json.loads(line))
        About.read(GOLDEN / "comparison")
    else:
        READERS[name](GOLDEN / Path(name).parent)
    assert "is ignored" not in caplog.text


def test_a_parameter_of_a_later_estimator_is_noted(tmp_path, caplog):
    folder = shutil.copytree(GOLDEN / "vnait", tmp_path / "copy")
    notes = json.loads((folder / "estimator.json").read_text(encoding="utf-8"))
    notes["parameters"]["patience"] = 3
    (folder / "estimator.json").write_text(json.dumps(notes))
    TextClassifier.load(folder).predict(["a dull film"])
    assert "the parameter patience is not known here; it is ignored" in caplog.text


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize(
    "place", ["accuracy", "validation_accuracy", "ms_per_text", "seconds", "length_right"]
)
def test_a_record_whose_numbers_are_none_is_named_with_its_line(value, place, tmp_path):
    folder = shutil.copytree(GOLDEN / "comparison", tmp_path / "copy")
    path = folder / "records.jsonl"
    first, second, *others = lines_of(path)
    document = json.loads(second)
    part = document if place == "seconds" else document["metrics"]
    part[place] = 12345
    changed = json.dumps(document).replace("12345", value)
    path.write_text("\n".join([first, changed, *others, ""]))
    with pytest.raises(InputError, match=r"line 2 of .* which is not a finite number"):
        report.write(folder)


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({"accuracy": 1.5}, r"accuracy is 1.5, expected a number in \[0, 1\]"),
        ({"mcc": -2}, r"mcc is -2, expected a number in \[-1, 1\]"),
        ({"validation_macro_f1": -0.1}, r"validation_macro_f1 is -0.1, expected a number in \[0, 1\]"),
        ({"rmse": -1.0}, r"rmse is -1.0, expected 0 or more"),
        ({"ms_per_text": -3}, r"ms_per_text is -3, expected 0 or more"),
    ],
)
def test_a_score_out_of_its_range_is_named(metrics, message):
    with pytest.raises(ValueError, match=message):
        schemas.check(schemas.Metrics, metrics, "metrics")
    schemas.check(schemas.Metrics, {"pearson": 1.0000000000000002})


@pytest.mark.parametrize("count", [0, 6, 8])
def test_other_than_seven_quantiles_of_numbers_are_named(count, tmp_path):
    folder = shutil.copytree(GOLDEN / "comparison", tmp_path / "copy")
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    about["data"]["numbers"] = [1.0] * count
    (folder / "about.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match=r"about.json is damaged: .*other than seven numbers"):
        report.write(folder)


def test_parquet_with_bytes_that_are_no_utf_8(tmp_path):
    offsets, letters = pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")
    texts = pa.Array.from_buffers(pa.string(), 1, [None, offsets, letters])
    path = tmp_path / "bad.parquet"
    pq.write_table(pa.table({"text": texts, "label": ["a"]}), path)
    with pytest.raises(
        InputError, match=r"bad.parquet can't be read as Parquet: .*Write the file again as UTF-8"
    ):
        data.read(path)


def test_parquet_with_a_column_that_is_no_utf_8(tmp_path):
    path = tmp_path / "bad.parquet"
    pq.write_table(pa.table({"text": ["a"], "label": ["b"]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"text", b"te\xff\xfe"))
    with pytest.raises(InputError, match=r"bad.parquet can't be read as Parquet: .*Write the file again"):
        data.read(path)


@pytest.mark.parametrize("where", [{"method": "a\ud800"}, {"later": [{"a\ud800": 1}]}])
def test_half_a_character_is_refused(where):
    with pytest.raises(ValueError, match=r"it has 'a\\ud800', with half a character"):
        schemas.check(schemas.Tuned, {"method": "vnait", "max_length": 8} | where)
