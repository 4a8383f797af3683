"""A tag for each word: read, aligned with tokens, trained, scored by sentence, compared, saved, answered."""

import csv
import json
import logging
import random
import sys

import numpy as np
import pytest
import torch
from transformers import pipeline

from helpers import compare_two, save_vectors
from test_finetune import WORDS, saved_base
from vnait import InputError, Run, TextClassifier, compare, explain
from vnait.cli import main
from vnait.data import Table, read, summary
from vnait.data.sentences import Piece, split_words
from vnait.data.tagged import tagged
from vnait.data.vocabulary import vocabulary_of
from vnait.results.about import About
from vnait.results.metrics import ENTITIES, TOKENS
from vnait.results.report.comparison import sections
from vnait.results.scores import tag_scores
from vnait.shared.statistics import clustered, proportion
from vnait.train.base import Base
from vnait.train.baselines import fit_baseline
from vnait.train.fitting import fit
from vnait.train.models import new_model
from vnait.train.predict import load, table_of
from vnait.train.tasks import Tags, target_of

UNIVERSAL = """\
# text = Don't go to New York
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVBP\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
3\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_
3.1\tway\tway\tNOUN\tNN\t_\t_\t_\t_\t_
4\tto\tto\tADP\tIN\t_\t5\tcase\t_\t_
5\tNew York\tNew York\tPROPN\tNNP\t_\t3\tobl\t_\t_

# text = Stop
1\tStop\tstop\tVERB\tVB\t_\t0\troot\t_\t_
"""
COLUMNS = """\
-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O

# SYM B-NP O
"""


def rows_of(count: int, seed: int) -> tuple[list[str], list[str]]:
    """ "walk" is a noun after "the" and a verb after "they": only its neighbours decide."""
    rng = random.Random(seed)
    texts, tags = [], []
    for _ in range(count):
        one, two = rng.choice(["walk", "play"]), rng.choice(["walk", "play"])
        if rng.random() < 0.5:
            texts.append(f"the {one} was long and they {two} .")
            tags.append("DET NOUN AUX ADJ CCONJ PRON VERB PUNCT")
        else:
            texts.append(f"they {one} and the {two} ends .")
            tags.append("PRON VERB CCONJ DET NOUN VERB PUNCT")
    return texts, tags


def table_of_rows(count: int = 60, seed: int = 0) -> Table:
    return Table(*rows_of(count, seed), f"made{seed}", 0, "tagging")


@pytest.fixture(scope="module")
def word_file(tmp_path_factory) -> str:
    names = ["the", "they", "walk", "play", "was", "long", "and", "ends", "."]
    return save_vectors(tmp_path_factory.mktemp("vectors") / "words.bin", names, width=16)


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("tagged") / "made.conll"
    table = table_of_rows()
    pairs = (
        zip(split_words(text), split_words(tags), strict=True)
        for text, tags in zip(table.texts, table.labels, strict=True)
    )
    path.write_text("\n".join("".join(f"{word}\t{tag}\n" for word, tag in rows) for rows in pairs))
    return str(path)


@pytest.fixture(scope="module")
def fitted(word_file):
    table = table_of_rows()
    run = Run(method="vnait", steps=80, learning_rate=0.01, num_layers=1)
    words = vocabulary_of(table.texts, vectors=word_file)
    return fit(run, table, words, test=table_of_rows(30, seed=1))


@pytest.fixture(scope="module")
def compared(file, word_file, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    return compare_two("tagging", file, word_file, out, shots=10)


def written(tmp_path, text: str, name: str = "words.txt") -> str:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return str(tmp_path / name)


def test_an_empty_text_in_a_pipeline_has_no_tags(fitted):
    pipe = pipeline("token-classification", model=fitted.model, tokenizer=fitted.tokenizer, device="cpu")
    (alone,) = pipe(["they walk"])
    for texts in (["", "they walk"], ["they walk", " \u200b"], ["\ufeff", ""]):
        answers = pipe(texts)
        assert [[row["entity"] for row in rows] for rows in answers] == [
            [row["entity"] for row in alone] if "walk" in text else [] for text in texts
        ]


@pytest.mark.parametrize("name", ["words.conllu", "words.txt"])
def test_words_and_tags_of_conllu(name, tmp_path):
    path = written(tmp_path, UNIVERSAL, name)
    table = read(path, task="tagging")
    assert list(map(split_words, table.texts)) == [["Do", "n't", "go", "to", "New\u00a0York"], ["Stop"]]
    assert table.labels == ["AUX PART VERB ADP PROPN", "VERB"] and table.task == "tagging"
    assert read(path, task="tagging", label="XPOS").labels[0] == "VBP RB VB IN NNP"
    assert read(path, task="tagging", text="lemma", label="8").labels[1] == "root"
    assert read(path, task="tagging", label=None).labels is None
    assert table.fingerprint != read(path, task="tagging", label="xpos").fingerprint


def test_words_and_tags_of_columns(tmp_path):
    path = written(tmp_path, COLUMNS)
    table = read(path, task="tagging")
    assert table.texts == ["EU rejects", "#"] and table.labels == ["B-ORG O", "O"]
    assert read(path, task="tagging", label="2").labels == ["NNP VBZ", "SYM"]
    windows = written(tmp_path, COLUMNS.replace("\n", "\r\n").replace(" ", "\t"), "windows.conll")
    assert read(windows, task="tagging").labels == table.labels


@pytest.mark.parametrize(
    ("text", "label", "message"),
    [
        ("a X\nb\n", "label", "line 2 has 1 column, and line 1 has 2; write a word per line"),
        ("text,label\n", "label", "line 1 has no tag beside 'text,label'; tagging reads a word and its tag"),
        ("a X\n", "3", "has no column '3'; give one from 1 to 2."),
        (UNIVERSAL, "upso", "has no column 'upso'; give one of id, form, .* Did you mean 'upos'"),
        (UNIVERSAL, "feats", "line 3: 'Do' has no tag in the column feats; name another with --label"),
        ("a\tX\n\tY\n", "label", "line 2 has no word in the column 1; write one"),
        ("-DOCSTART- O\n", "label", "has no sentence; give a file with a word and its tag per line"),
    ],
)
def test_what_is_no_tagged_text_is_one_sentence(text, label, message, tmp_path):
    with pytest.raises(InputError, match=message) as error:
        read(written(tmp_path, text), task="tagging", label=label)
    assert "\n" not in str(error.value)


def test_sources_that_can_not_be_tagged_are_refused(tmp_path):
    with pytest.raises(InputError, match="builtin:polarity is not a file; tagging reads CoNLL-U, or columns"):
        read("builtin:polarity", task="tagging")
    with pytest.raises(InputError, match="separated by tabs or spaces; leave --sep"):
        read(written(tmp_path, COLUMNS), task="tagging", sep=",")
    with pytest.raises(InputError, match="made, sentence 2 has 2 words and 1 tags; give each word a tag"):
        target_of(Table(["a", "b c"], ["X", "Y"], "made", 0, "tagging"))
    with pytest.raises(InputError, match=r"made has one tag only \(X\); tagging needs two or more"):
        target_of(Table(["a", "b"], ["X", "X"], "made", 0, "tagging"))
    table = table_of_rows(4)
    with pytest.raises(InputError, match="weights are of texts, and each word has a tag"):
        fit(Run(), table, vocabulary_of(table.texts), weights=[1.0] * 4)


def test_a_word_of_several_tokens_has_its_tag_at_the_first(word_file):
    words = vocabulary_of(["the walk ends"], vectors=word_file)
    (one, two) = words.pieces(["the walk.ends they", "and"], max_length=9)
    the, walk, dot, ends, they = words.encode(["the walk . ends they"], max_length=9)[0]
    assert one == [Piece([the, walk, dot, ends, they], [0, 1, 4])] and two[0].starts == [0]
    labels = Tags(["A", "B"]).batch([one, two], [["A", "B", "A"], ["B"]])
    assert labels.tolist() == [[0, 1, -100, -100, 0], [1, -100, -100, -100, -100]]


def test_the_loss_of_the_model_is_cross_entropy_over_words(word_file):
    table = table_of_rows(6)
    words, target = vocabulary_of(table.texts, vectors=word_file), target_of(table)
    model = new_model(words, Run(method="none", dropout=0.0), target.names, [8], "tagging").eval()
    encoded, truth = target.encode(words, table.texts, 99), target.truth(table.labels)
    ids = target.ids(encoded)
    width = max(map(len, ids))
    batch = torch.tensor([row + [0] * (width - len(row)) for row in ids])
    output = model(batch, (batch != 0).long(), labels=target.batch(encoded, truth))
    expected = target.loss(target.logits(model, encoded), target.tensor(truth))
    assert output.loss.item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("command", ["train", "compare"])
def test_a_share_of_the_linear_part_that_taggers_lack_is_refused(command, file, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main([command, file, "--task", "tagging", "--bag", "0.3", "--quiet", "--out", str(tmp_path / "out")])
    assert "bag is 0.3: a tagger has no linear part beside it; leave it out." in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_neighbours_decide_the_tag(fitted):
    metrics = fitted.record.metrics
    assert metrics["token_accuracy"] > 0.95 and metrics["validation_token_accuracy"] > 0.9
    assert metrics["token_accuracy_low"] <= metrics["token_accuracy"] <= metrics["token_accuracy_high"]
    assert sum(metrics["length_rows"]) == sum(map(sum, metrics["confusion"]))
    assert fitted.record.data["task"] == "tagging" and "NOUN" in fitted.record.data["classes"]


def test_a_training_names_sentences_that_it_reads_in_part(word_file, caplog):
    table = Table(
        ["they walk and the play ends"] * 8, ["PRON VERB CCONJ DET NOUN VERB"] * 8, "t", 0, "tagging"
    )
    run = Run(method="none", steps=2, num_layers=1, max_length=4)
    fit(run, table, vocabulary_of(table.texts, vectors=word_file))
    assert "8 of 8 sentences are longer than max_length; training reads their first part" in caplog.text


def test_a_single_tag_among_spans_may_be_a_headers(caplog):
    table = Table(["word one two", "one two"], ["tag B-PER O", "B-PER I-PER"], "t.tsv", 0, "tagging")
    target_of(table)
    assert "t.tsv: of its tags 'tag' alone marks no span" in caplog.text


def test_a_saved_model_tags_every_word_also_of_long_sentences(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    text = "they walk and the play ends ."
    (found,) = again.of_words([text])
    assert np.array_equal(found, fitted.of_words([text])[0]) and found.shape == (7, len(again.classes))
    assert [again.classes[index] for index in found.argmax(1)][1:5] == ["VERB", "CCONJ", "DET", "NOUN"]
    again.model.config.max_length = 4
    one, none, two = again.of_words([f"{text} {text}", "", "they walk and the"])
    assert one.shape[0] == 14 and none.shape[0] == 0
    np.testing.assert_allclose(one[:4], two, atol=1e-6)  # the first piece


def test_answers_are_a_row_per_word(fitted):
    names, rows = table_of(fitted, "text", lambda: iter(["the  walk", "", "they"]))
    assert names[:3] == ["sentence", "word", "label"] and names[3] == "probability_ADJ"
    rows = list(rows)
    assert [row[:2] for row in rows] == [[1, "the"], [1, "walk"], [3, "they"]]
    assert sum(rows[0][3:]) == pytest.approx(1, abs=1e-4)


def test_a_tagger_is_not_taken_for_a_classifier(fitted, compared, tmp_path, capsys):
    fitted.save(tmp_path / "model")
    message = "answers with a tag per word, and this needs "
    for call in (
        lambda: fitted.probabilities(["the walk"]),
        lambda: explain(fitted, "the walk"),
        lambda: TextClassifier.load(tmp_path / "model"),
    ):
        with pytest.raises(InputError, match=message):
            call()
    for folder in (tmp_path / "model", compared.path.parent / "model"):
        with pytest.raises(SystemExit):
            main(["explain", str(folder), "the walk"])
        assert "answers with a tag per word" in capsys.readouterr().err


def test_the_interval_is_over_sentences():
    right, counts = [9, 8, 10, 3, 0], [10, 10, 10, 4, 2]
    found = clustered(right, counts)
    assert found.mean == 30 / 36 and found.low < found.mean < found.high <= 1
    rng, own = np.random.default_rng(0), np.random.default_rng(1).integers(1, 20, 200)
    hits = rng.binomial(own, rng.beta(8, 2, size=200))
    picks = rng.integers(0, 200, (4000, 200))
    drawn = hits[picks].sum(1) / own[picks].sum(1)  # the bootstrap over sentences agrees
    ends = clustered(hits.tolist(), own.tolist())
    assert (ends.low, ends.high) == pytest.approx(np.quantile(drawn, [0.025, 0.975]).tolist(), abs=0.004)
    assert clustered([1, 2], [2, 2]).low is None
    assert clustered([2, 3, 1], [2, 3, 1]) == proportion(3, 3)
    assert clustered([0, 0], [2, 3]) == proportion(0, 2)


def test_entities_count_as_wholes():
    pytest.importorskip("seqeval")
    truth = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-LOC"]]
    answers = [["B-PER", "O", "O", "B-LOC"], ["B-LOC", "B-LOC"]]
    found = tag_scores(truth, answers, spans=True)
    assert found["token_accuracy"] == 4 / 6
    assert found["entity_precision"] == 2 / 4 and found["entity_recall"] == 2 / 3
    assert found["entity_f1"] == pytest.approx(4 / 7)
    assert not {name for name in tag_scores(truth, answers, spans=False) if "entity" in name}
    nowhere = [["O"] * len(tags) for tags in truth]  # sentences without an entity have no score of entities
    assert tag_scores(nowhere, answers, spans=True).keys() == tag_scores(truth, answers, spans=False).keys()


def test_spans_need_seqeval_before_anything_trains(monkeypatch):
    monkeypatch.setitem(sys.modules, "seqeval", None)
    table = Table(["Ann left", "Bob"], ["B-PER O", "B-PER"], "made", 0, "tagging")
    with pytest.raises(InputError, match=r"needs seqeval, which is missing: pip install 'vnait\[tagging\]'"):
        target_of(table)


def test_a_test_tag_that_training_never_saw_counts_as_wrong(word_file, caplog):
    table, test = table_of_rows(20), Table(["the walk", "they"], ["DET NOUN", "X"], "new", 0, "tagging")
    words = vocabulary_of(table.texts, vectors=word_file)
    with caplog.at_level(logging.WARNING, "vnait"):
        found = fit(Run(method="none", steps=2), table, words, test=test).record.metrics
    assert "new: 1 of 3 words have a tag that training never saw ('X')" in caplog.text
    assert found["token_accuracy"] < 1 and len(found["confusion"]) == len(target_of(table).names) + 1
    other = Table(["the"], ["Y"], "other", 0, "tagging")
    with pytest.raises(InputError, match="other and made0 share no label"):
        fit(Run(method="none", steps=2), table, words, test=other)


def test_the_most_frequent_tag_of_each_word(tmp_path):
    table = Table(["a b a", "A c", "d d"], ["X Y X", "Z Y", "Y Z"], "made", 0, "tagging")
    words = vocabulary_of(table.texts)
    model = fit_baseline("frequent-tag", table, table, words, tokenization="words", seed=0)
    (found,) = model.of_words(["a b d new"])
    # a: X twice, Z once; d: Y and Z once each, and Y is more frequent among all words, as for a new one
    assert [model.classes[index] for index in found.argmax(1)] == ["X", "Y", "Y", "Y"]
    np.testing.assert_allclose(found[0], [(2 + 2 / 7) / 4, (3 / 7) / 4, (1 + 2 / 7) / 4])
    assert model.record.metrics["token_accuracy"] == pytest.approx(5 / 7)
    model.save(tmp_path / "model")
    np.testing.assert_allclose(load(tmp_path / "model").of_words(["a b d new"])[0], found)


def test_the_window_reads_neighbours_and_endings(tmp_path):
    texts = [f"{word}s run" for word in ("cat", "dog", "bird")] + [f"{word}ed it" for word in ("fix", "wash")]
    table = Table(texts * 2, (["NOUN VERB"] * 3 + ["VERB PRON"] * 2) * 2, "made", 0, "tagging")
    words = vocabulary_of(table.texts)
    model = fit_baseline("window-logreg", table, table, words, tokenization="words", seed=0, validation=0.2)
    (found,) = model.of_words(["frogs run", "mended it"][:1])
    assert model.classes[found[0].argmax()] == "NOUN"
    assert model.classes[model.of_words(["mended it"])[0][0].argmax()] == "VERB"
    model.save(tmp_path / "model")
    np.testing.assert_allclose(load(tmp_path / "model").of_words(["frogs run"])[0], found)
    notes = json.loads((tmp_path / "model" / "baseline.json").read_text())
    (part,) = notes["parts"]
    assert part["kind"] == "window" and "before=[START]" in part["terms"]


def test_a_comparison_is_about_tokens(compared):
    assert compared.results.metric is TOKENS
    rows = {row["method"]: row for row in compared.rows if row["shots"] == "all"}
    assert list(rows) == ["frequent-tag", "window-logreg", "none", "sinusoidal"]
    assert rows["window-logreg"]["mean"] > rows["frequent-tag"]["mean"] > compared.plan.chance_level()
    assert {one.data["rows"] for one in compared.results.of("none", 10)} == {10}
    assert compared.sentences()[0].startswith("At 10 sentences: ")
    assert compared.sentences()[1].startswith("With all sentences: ")
    facts = summary(compared.plan.table, "words")
    assert facts["classes"]["NOUN"] == 60 and sum(facts["classes"].values()) > 400


def test_its_report_advice_and_card_name_tags(compared):
    assert "its token accuracy on the test rows is" in " ".join(compared.advice())
    assert compared.report().is_file() and compared.picture().is_file()
    page = repr(list(sections(compared.results, About.read(compared.path.parent))))
    for words in (
        "Words per tag",
        "macro_f1",
        "confusion",
        "by tokens of their sentence",
        "most frequent tag",
    ):
        assert words in page
    assert "per class" not in page and "RMSE" not in page
    card = (compared.path.parent / "model" / "README.md").read_text()
    assert (
        "token-classification" in card
        and "gives each word one of 8 tags" in card
        and "Token accuracy" in card
    )


def test_a_comparison_of_spans_is_about_entities(tmp_path, word_file):
    pytest.importorskip("seqeval")
    texts, _ = rows_of(40, seed=0)
    tags = [
        " ".join("B-X" if word in ("walk", "play") else "O" for word in split_words(text)) for text in texts
    ]
    table = Table(texts, tags, "spans", 0, "tagging")
    run = Run(steps=5, num_layers=1)
    found = compare(table, methods=["none"], seeds=1, out=tmp_path, vectors=word_file, run=run, jobs=1)
    assert found.results.metric is ENTITIES and found.plan.chance_level() == 0
    assert {row["mean"] for row in found.rows if row["method"] == "frequent-tag"} == {1.0}


def test_columns_of_a_sentence_are_kept_beside_each_of_its_words(fitted, tmp_path, capsys):
    fitted.save(tmp_path / "model")
    table = written(tmp_path, "id,text\n7,the walk\n8,\n9,they\n", "texts.csv")
    main(["predict", str(tmp_path / "model"), table, "--keep", "id", "--json", "--quiet"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["id"], row["word"]) for row in rows] == [("7", "the"), ("7", "walk"), ("9", "they")]


def test_a_column_of_a_file_of_words_is_not_kept(fitted, tmp_path, capsys):
    fitted.save(tmp_path / "model")
    words = written(tmp_path, "the\tDET\nwalk\tNOUN\n", "words.tsv")
    with pytest.raises(SystemExit):
        main(["predict", str(tmp_path / "model"), words, "--keep", "1"])
    assert "is not a table; leave it out" in capsys.readouterr().err


def test_comments_before_a_sentence_are_no_words(tmp_path):
    comment = "# sent_id = 7\n"
    rows = "the D x DET\n# H x NOUN\n#walk V x VERB\n"
    words, tags = tagged(written(tmp_path, f"{comment}{rows}\n{comment}{rows}"))
    assert words == ["the # #walk"] * 2 and tags == ["DET NOUN VERB"] * 2


def test_a_word_may_have_a_no_break_space(tmp_path):
    words, _ = tagged(written(tmp_path, "10\u00a0000 NUM\nkm NOUN\n"))
    assert list(map(split_words, words)) == [["10\u00a0000", "km"]]


def test_on_the_command_line(file, word_file, tmp_path, capsys):
    given = ["--task", "tagging", "--vectors", word_file, "--steps", "4", "--quiet"]
    folder = str(tmp_path / "model")
    main(["train", file, *given, "--test", file, "--out", folder])
    printed = capsys.readouterr().out
    assert "token_accuracy " in printed and "[0." in printed and "token_accuracy_low" not in printed
    main(["predict", folder, file, "--out", str(tmp_path / "tagged.csv"), "--quiet"])
    capsys.readouterr()
    with (tmp_path / "tagged.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert [row["word"] for row in rows if row["sentence"] == "1"] == split_words(table_of_rows().texts[0])
    assert len(rows) == sum(len(split_words(text)) for text in table_of_rows().texts)
    table = written(tmp_path, "text\nthe walk\nthey\n", "texts.csv")
    main(["predict", folder, table, "--json", "--quiet"])
    printed = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["sentence"], row["word"]) for row in printed] == [(1, "the"), (1, "walk"), (2, "they")]
    out = ["--methods", "none", "--seeds", "1", "--jobs", "1", "--out", str(tmp_path / "out")]
    main(["compare", file, *given, *out])
    printed = capsys.readouterr().out
    assert "60 rows, 8 tags, 1 seed" in printed and "token accuracy of always answering the most" in printed
    assert "macro_f1" in printed and "linear part" not in printed


@pytest.mark.parametrize("method", ["own", "vnait"])
def test_a_base_tags_words(method, tmp_path):
    base = saved_base(tmp_path / "bert")
    rng = random.Random(0)
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(1, 6))) for _ in range(40)]
    kinds = dict(zip(WORDS, ["A", "A", "N", "N", "D", "V", "D", "R"], strict=True))
    tags = [" ".join(kinds[word] for word in split_words(text)) for text in texts]
    table = Table(texts, tags, "made", 0, "tagging")
    run = Run(method=method, base=str(base), steps=40, max_length=16, learning_rate=3e-3)
    fitted = fit(run, table, Base.load(base), test=table)
    assert fitted.record.metrics["token_accuracy"] > 0.9
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.task == "tagging" and np.allclose(
        again.of_words(texts)[3], fitted.of_words(texts)[3], atol=1e-6
    )


def test_a_base_reads_words_between_its_special_tokens():
    class Tokenizer:
        unk_token_id, pad_token_id = 1, 0

        def __call__(self, texts, **settings):
            if texts == "a":
                return {"input_ids": [101, 7, 102], "special_tokens_mask": [1, 0, 1]}
            return {"input_ids": [[len(text)] * text.count("x") for text in texts]}

    base = Base("made", Tokenizer())
    first, second = base.pieces(["x xx", "y"], max_length=5)
    assert first == [Piece([101, 2, 3, 3, 102], [1, 2])] and second == [Piece([101, 1, 102], [1])]
    assert [piece.ids for piece in base.pieces(["xx xx"], max_length=5)[0]] == [[101, 3, 3, 102]] * 2
    with pytest.raises(InputError, match="max_length is 2, of which the base's special tokens take 2"):
        base.pieces(["x"], max_length=2)


@pytest.mark.parametrize(
    "content", ["the film ends .\n", "the film ends .\nthe dog runs .\n", "the film ends\n\nthe dog runs\n"]
)
def test_a_text_per_line_is_not_taken_for_columns(content, fitted, tmp_path, capsys):
    fitted.save(tmp_path / "model")
    path = written(tmp_path, content)
    with pytest.raises(SystemExit):
        main(["predict", str(tmp_path / "model"), path])
    assert "is that a text per line, or a word and its columns? Give texts on" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["the x\nfilm x\n\n", "the\tx\nfilm\tx\n\ndog\tx\n", "the\nfilm\n"])
def test_columns_of_words_to_predict_are_read(content, tmp_path):
    texts, _ = tagged(written(tmp_path, content), label=None)
    assert texts[0] == "the film"


def test_the_entities_of_bilou_are_those_of_bioes():
    bilou = [["B-P", "L-P", "B-P", "L-P", "O", "U-P", "U-P"]]
    answers = [["B-P", "L-P", "B-P", "I-P", "O", "U-P", "O"]]
    other = [
        [[tag.replace("L-", "E-").replace("U-", "S-") for tag in row] for row in rows]
        for rows in (bilou, answers)
    ]
    found = tag_scores(bilou, answers, spans=True)
    assert found["entity_recall"] == pytest.approx(tag_scores(*other, spans=True)["entity_recall"])
    assert tag_scores(bilou, bilou, spans=True)["entity_f1"] == 1
    assert found["entity_recall"] == 0.75  # "B-P I-P" has the same words as the second entity


def test_a_line_that_no_file_of_tags_has_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("vnait.data.decoding.MAX_LINE", 100)
    path = tmp_path / "tags.conll"
    path.write_text("a\tDET\n" + "film" * 99 + "\tNOUN\n")
    with pytest.raises(InputError, match="line 2 has 100 characters or more"):
        read(path, task="tagging")
