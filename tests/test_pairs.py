"""Rows of two texts: read from two columns, joined by a separator or by a base's tokenizer, and remembered by
the model.
"""

import csv
import itertools
import json
import pickle
import random

import numpy as np
import pandas as pd
import pytest
import torch
from tokenizers import processors

from helpers import save_vectors
from test_finetune import saved_base
from vnait import Run, TextClassifier, compare
from vnait.cli import main
from vnait.data import Pair, Table, encode, read, summary, tokenizer, words
from vnait.data.pairs import cut
from vnait.data.vocabulary import vocabulary_of
from vnait.shared.errors import InputError
from vnait.train.base import Base
from vnait.train.fitting import fit
from vnait.train.predict import load, predictions

COLOURS, THINGS = ["red", "blue", "green"], ["cat", "dog", "car"]


def pairs_of(rows=120, seed=0) -> tuple[list[tuple[str, str]], list[str]]:
    """Both sides have the same colour, or not: words without their sides can't tell all of it."""
    rng = random.Random(seed)
    found, labels = [], []
    for row in range(rows):
        one, other = rng.choice(COLOURS), rng.choice(COLOURS)
        other = one if row % 2 else other
        found.append((f"the {one} {rng.choice(THINGS)}", f"a {other} {rng.choice(THINGS)}"))
        labels.append("same" if one == other else "other")
    return found, labels


X, Y = pairs_of()


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("pairs") / "pairs.csv"
    with path.open("w", newline="") as out:
        csv.writer(out).writerows([["one", "two", "label"], *([*x, y] for x, y in zip(X, Y, strict=True))])
    return str(path)


@pytest.fixture(scope="module")
def word_file(tmp_path_factory) -> str:
    names = ["the", "a", *COLOURS, *THINGS]
    return save_vectors(tmp_path_factory.mktemp("vectors") / "words.bin", names)


@pytest.fixture(scope="module")
def learned(word_file) -> TextClassifier:
    return TextClassifier("vnait", vectors=word_file, steps=20, num_layers=1).fit(X, Y)


# Read


def test_two_columns_are_read_as_pairs(file):
    table = read(file, text="one, TWO")
    assert [text.sides for text in table.texts] == X and table.labels == Y
    assert table.fingerprint != read(file, text="two,one").fingerprint != read(file, text="one").fingerprint


def test_the_tokens_of_a_pair_have_a_separator_between_its_texts():
    pair = Pair.of("Red cat!", "[SEP] dog\x1f")
    expected = ["red", "cat", "!", "[SEP]", "[", "sep", "]", "dog"]
    assert words([pair, "one"], "words") == [expected, ["one"]]
    assert words([Pair.of("CA", "G")], "characters") == [["c", "a", "[SEP]", "g"]]
    made = tokenizer([*dict.fromkeys(expected)])
    assert made.convert_ids_to_tokens(encode(made, [pair], max_length=9)[0]) == expected
    assert encode(made, [Pair.of("", "dog")], max_length=9) == [[1, made.sep_token_id, 10]]
    assert made("red cat!", "[SEP] dog")["input_ids"] == encode(made, [pair], max_length=9)[0]


@pytest.mark.parametrize(
    ("one", "other", "most", "kept"),
    [
        (6, 6, 9, (4, 4)),
        (6, 6, 8, (3, 4)),
        (9, 2, 6, (3, 2)),
        (2, 9, 6, (2, 3)),
        (1, 1, 3, (1, 1)),
        (8, 9, 4, (1, 2)),
        (9, 8, 4, (2, 1)),
    ],
)
def test_the_longer_text_of_a_pair_is_cut_first(one, other, most, kept):
    found = cut([*[5] * one, 3, *[6] * other], most, 3)
    assert found == [*[5] * kept[0], 3, *[6] * kept[1]] and len(found) <= most


def test_rows_with_an_empty_side_are_dropped_and_counted(tmp_path, caplog):
    path = tmp_path / "gaps.csv"
    path.write_text("one,two,label\na b,c,x\n,d,y\ne, ,x\nf,g,y\n")
    table = read(path, text="one,two")
    assert len(table) == 2 and table.dropped == 2
    assert "dropped 2 of 4 rows, of which a text is empty: rows 3, 4." in caplog.text


def test_a_column_whose_name_has_a_comma_is_one_column(tmp_path, caplog):
    path = tmp_path / "comma.csv"
    path.write_text('"one,two",label,one,two\nboth,x,a,b\nall,y,c,d\n')
    assert read(path, text="one,two").texts == ["both", "all"]
    assert "'one,two' is one column; rename it to read one and two as pairs." in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("one,three", "has no column 'three'; its columns are 'one', 'two', 'label'"),
        ("one,two,label", "has no column 'one,two,label', and it is not a pair of columns"),
        ("one,", "not a pair of columns"),
        ("one,one", "not a pair of columns"),
    ],
)
def test_columns_that_are_no_pair_are_one_sentence(text, message, file):
    with pytest.raises(InputError, match=message):
        read(file, text=text)


def test_a_side_that_is_empty_in_every_row_is_an_error(tmp_path):
    path = tmp_path / "empty.csv"
    path.write_text("one,two,label\na,,x\nb,,y\n")
    with pytest.raises(InputError, match="all 2 rows are empty in a text column"):
        read(path, text="one,two")


# Learned and remembered


def test_the_estimator_reads_rows_of_two_texts(learned, tmp_path):
    expected = learned.predict_proba(X[:5])
    frame = pd.DataFrame(X[:5], index=range(3, 8))
    for given in (np.array(X[:5]), np.array(X[:5], dtype=object), frame, [list(row) for row in X[:5]]):
        assert np.array_equal(learned.predict_proba(given), expected)
    swapped = learned.predict_proba([(other, one) for one, other in X[:5]])
    assert not np.allclose(swapped, expected)  # the order of the sides matters
    again = pickle.loads(pickle.dumps(learned))
    assert np.array_equal(again.predict_proba(X[:5]), expected)


def test_the_separator_has_a_vector_unlike_that_of_an_unknown_word(learned):
    table = learned.fitted_.model.get_input_embeddings().weight
    made = learned.fitted_.tokenizer
    assert made.sep_token == "[SEP]"
    assert (table[made.sep_token_id] - table[made.unk_token_id]).norm() > 1


def test_pairs_and_single_texts_are_not_confused(learned, word_file):
    single = TextClassifier("none", vectors=word_file, steps=2, num_layers=1).fit([x for x, _ in X], Y)
    with pytest.raises(InputError, match="the model reads pairs of texts, and these are single texts"):
        learned.predict(["the red cat"])
    with pytest.raises(InputError, match="the model reads single texts, and these are pairs of texts"):
        single.predict(X)
    with pytest.raises(InputError, match="explain shows one"):
        learned.explain("the red cat")
    for rows, message in (
        ([*X[:-1], "one"], r"X\[119\] is str, not two strings"),
        ([*X[:-1], ("a", 1)], r"X\[119\] is tuple, not two strings"),
        ([("a", "b", "c")] * 120, r"X\[0\] is tuple, not a string"),
        (np.array([("a", "b", "c")] * 120), "give the texts alone, .* or two columns for pairs"),
    ):
        with pytest.raises(InputError, match=message):
            TextClassifier().fit(rows, Y)


def test_transformers_pipeline_joins_pairs_as_the_model_does(learned, tmp_path):
    import transformers

    learned.save(tmp_path / "model")
    pipe = transformers.pipeline("text-classification", model=str(tmp_path / "model"), top_k=None)
    found = {row["label"]: row["score"] for row in pipe({"text": X[0][0], "text_pair": X[0][1]})}
    assert [found["other"], found["same"]] == pytest.approx(
        learned.predict_proba(X[:1])[0].tolist(), abs=1e-5
    )


def test_a_comparison_of_pairs_keeps_a_model_that_reads_pairs(file, word_file, tmp_path):
    table = read(file, text="one,two")
    assert summary(table, "words")["tokens"]["quantiles"][3] == 7
    found = compare(
        table, methods=["none"], seeds=1, steps=4, out=tmp_path / "out", vectors=word_file, jobs=1
    )
    fitted = load(tmp_path / "out" / "model")
    assert fitted.pairs and len(found.rows) == 4
    with pytest.raises(InputError, match="reads pairs of texts"):
        fitted.probabilities(["the red cat"])


def test_a_base_reads_pairs_as_its_own_tokenizer_joins_them(tmp_path):
    base = Base.load(saved_base(tmp_path / "bert"))
    base.tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A", pair="$A [UNK] $B", special_tokens=[("[UNK]", 1)]
    )
    texts = [Pair.of("good film", "bad plot"), Pair.of("the very bad film", "a")] * 4
    assert base.encode(texts, max_length=9)[:2] == [[2, 4, 1, 3, 5], [6, 9, 3, 4, 1, 8]]
    assert base.encode(texts, max_length=4)[1] == [6, 9, 1, 8]  # the longer side is cut
    table = Table(texts, ["x", "y"] * 4, "made", 0)
    run = Run(method="own", base=str(tmp_path / "bert"), steps=2, max_length=16, validation=0.25)
    fit(run, table, base, test=table).save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.pairs and again.probabilities(texts).shape == (8, 2)
    assert json.loads((tmp_path / "model" / "tuned.json").read_text())["pairs"] is True
    with pytest.raises(InputError, match="reads pairs of texts"):
        again.probabilities(["good film"])


def test_pairs_are_cut_as_the_tokenizer_of_a_pipeline_cuts_them():
    made = tokenizer(["a", "b", "[SEP]"])
    for one, other, most in itertools.product(range(1, 7), range(1, 7), range(3, 9)):
        pair = "a " * one, "b " * other
        expected = made(*pair, truncation=True, max_length=most)["input_ids"]
        assert cut(made(*pair)["input_ids"], most, made.sep_token_id) == expected, (one, other, most)


@pytest.mark.parametrize("method", ["own", "vnait"])
def test_the_second_text_of_a_pair_has_its_token_type(tmp_path, method):
    """In training and in prediction, as in a pipeline of transformers on the saved base."""
    source = saved_base(tmp_path / "bert")
    own = Base.load(source).tokenizer
    own.add_special_tokens({"sep_token": "plot"})
    own.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A plot", pair="$A plot $B:1 plot:1", special_tokens=[("plot", own.sep_token_id)]
    )
    own.save_pretrained(source)
    settings = source / "tokenizer_config.json"
    names = {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
    settings.write_text(json.dumps({**json.loads(settings.read_text()), **names}))
    own = Base.load(source).tokenizer
    texts = [Pair.of("good film", "bad"), Pair.of("the very bad film", "a")] * 4
    table = Table(texts, ["x", "y"] * 4, "made", 0)
    run = Run(method=method, base=str(source), steps=2, max_length=16, validation=0.25)
    fitted = fit(run, table, Base.load(source))
    seen = []
    fitted.model.base_model.embeddings.token_type_embeddings.register_forward_hook(
        lambda module, given, output: seen.append(given[0])
    )
    found = fitted.probabilities(texts[:1])
    assert seen[0].tolist() == [[0, 0, 0, 1, 1]]
    expected = fitted.model(**own("good film", "bad", return_tensors="pt")).logits.softmax(-1)
    assert found == pytest.approx(expected.detach().numpy(), abs=1e-6)
    fitted.save(tmp_path / "model")
    assert load(tmp_path / "model").probabilities(texts[:1]) == pytest.approx(found, abs=1e-6)


def test_answers_of_a_base_whose_tokenizer_has_no_separator(tmp_path):
    source = saved_base(tmp_path / "bert")
    texts = [Pair.of("good film", "bad"), Pair.of("the very bad film", "a")] * 4
    run = Run(method="own", base=str(source), steps=2, max_length=16, validation=0.25)
    fitted = fit(run, Table(texts, ["x", "y"] * 4, "made", 0), Base.load(source))
    assert [text for text, _ in predictions(fitted, texts)] == texts


def test_the_accuracy_alone_is_that_without_the_bag_where_pairs_are_cut(word_file):
    long = [Pair.of(f"{one} the the", f"{other} a a a") for one, other in X]
    run = Run(method="none", steps=3, max_length=5, bag=0.9)
    table = Table(long, Y, "made", 0)
    fitted = fit(run, table, vocabulary_of(long, vectors=word_file, tokenization="words"), test=table)
    bag = fitted.model.bag
    with torch.no_grad():
        bag.logits.zero_(), bag.bias.zero_()
    found = np.array(fitted.classes)[fitted.probabilities(long).argmax(-1)]
    assert fitted.record.metrics["accuracy_alone"] == pytest.approx(np.mean(found == np.array(Y)))
    assert fitted.record.metrics["accuracy_alone"] != fitted.record.metrics["accuracy"]


def test_on_the_command_line(file, word_file, tmp_path, capsys):
    model = str(tmp_path / "model")
    given = ["--text", "one,two", "--vectors", word_file, "--steps", "4", "--quiet"]
    main(["train", file, *given, "--out", model])
    capsys.readouterr()
    main(["predict", model, file, "--text", "one,two", "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert len(rows) == 120 and (rows[0]["one"], rows[0]["two"]) == X[0]
    assert list(rows[0]) == ["one", "two", "label", "probability_other", "probability_same"]
    with pytest.raises(SystemExit):
        main(["predict", model, file, "--text", "one"])
    refused = capsys.readouterr()
    assert not refused.out and "reads pairs of texts" in refused.err and "--text a,b" in refused.err
