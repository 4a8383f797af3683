"""Any number of labels per text: read, trained, scored, compared, saved, answered."""

import csv
import json
import logging
import pickle
import random
import re

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

from helpers import compare_two, save_vectors
from test_finetune import saved_base
from vnait import InputError, Run, TextClassifier, TextRegressor, compare, explain
from vnait.cli import main
from vnait.data import Table, read, summary
from vnait.data.vocabulary import vocabulary_of
from vnait.results.about import About
from vnait.results.metrics import SETS
from vnait.results.report.comparison import sections
from vnait.results.scores import set_scores
from vnait.train.bag_of_words import BagOfEach, bags_of, skill_at_sets
from vnait.train.base import Base
from vnait.train.baselines import fit_baseline
from vnait.train.fitting import fit
from vnait.train.models import new_model
from vnait.train.predict import load, table_of
from vnait.train.tasks import LabelSets, target_of

WORDS = {"food": ["soup", "bread"], "price": ["cheap", "bill"], "staff": ["waiter", "host"]}
FILLERS = ["the", "was", "and", "very"]


def rows_of(count: int, seed: int) -> list[tuple[str, str]]:
    """A word for each label, among others."""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        labels = [label for label in WORDS if rng.random() < 0.4]
        words = [rng.choice(WORDS[label]) for label in labels] + rng.choices(FILLERS, k=rng.randint(3, 9))
        rng.shuffle(words)
        found.append((" ".join(words), "|".join(rng.sample(labels, len(labels)))))
    return found


def table_of_rows(count: int = 80, seed: int = 0) -> Table:
    texts, labels = map(list, zip(*rows_of(count, seed), strict=True))
    return Table(texts, labels, f"made{seed}", 0, "multilabel")


def written(path, rows) -> str:
    with path.open("w", newline="") as out:
        csv.writer(out).writerows([["text", "label"], *rows])
    return str(path)


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> str:
    return written(tmp_path_factory.mktemp("sets") / "made.csv", rows_of(80, 0))


@pytest.fixture(scope="module")
def word_file(tmp_path_factory) -> str:
    names = [*FILLERS, *(word for words in WORDS.values() for word in words)]
    return save_vectors(tmp_path_factory.mktemp("vectors") / "words.bin", names, width=16)


@pytest.fixture(scope="module")
def fitted(word_file):
    table = table_of_rows()
    run = Run(method="none", steps=80, learning_rate=0.01, num_layers=1)
    return fit(run, table, vocabulary_of(table.texts, vectors=word_file), test=table_of_rows(40, seed=1))


@pytest.fixture(scope="module")
def compared(file, word_file, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    return compare_two("multilabel", file, word_file, out)


def test_cells_are_read_in_any_order_and_an_empty_one_is_no_label(tmp_path, caplog):
    rows = [("a", "y| x"), ("b", "x|y|x"), ("c", ""), ("d", " | "), ("", "x"), ("e", "X")]
    with caplog.at_level(logging.WARNING, "vnait"):
        table = read(written(tmp_path / "some.csv", rows), task="multilabel")
    assert table.labels == ["x|y", "x|y", "", "", "X"] and table.dropped == 1
    assert "the labels 'x' (2), 'X' (1) differ only in spaces, capitals" in caplog.text
    assert summary(table, "words")["classes"] == {"x": 2, "y": 2, "X": 1}
    train, held = table.split(holdout=0.4, seed=0)
    assert sorted([*train, *held]) == list(range(5)) and len(table.shots(count=2, seed=0)) == 2


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["", "|", " | "], "has no label in any of its 3 rows"),
        (["x", "", "x"], r"has one label only \(x\); multilabel needs two or more"),
        (["x|y", "y|x", "x | y"], r"every row has the labels x\|y; multilabel needs different ones"),
        ([f"{row},b" for row in range(30)], r"30 different labels in 30 rows, such as '0,b'; .* write \|"),
    ],
)
def test_labels_that_can_not_be_learned_are_one_sentence(labels, message, tmp_path):
    path = written(tmp_path / "some.csv", [("a text", label) for label in labels])
    with pytest.raises(InputError, match=message) as error:
        target_of(read(path, task="multilabel"))
    assert "\n" not in str(error.value)


def test_a_task_that_is_not_known_is_one_sentence(file, capsys):
    with pytest.raises(SystemExit):
        main(["train", file, "--task", "multi-label", "--out", "model"])
    assert "task='multi-label' is not known; take one of classification" in capsys.readouterr().err


def test_cells_of_several_labels_are_noted_where_each_is_a_class(tmp_path, caplog):
    path = written(tmp_path / "some.csv", [("a", "x|y"), ("b", "x")])
    with caplog.at_level(logging.WARNING, "vnait"):
        read(path)
    assert "'x|y' counts as one label; if a text has several, add --task multilabel" in caplog.text


def test_a_column_without_the_mark_is_noted(tmp_path, caplog):
    path = written(tmp_path / "some.csv", [("a", "x,y"), ("b", "x")])
    with caplog.at_level(logging.WARNING, "vnait"):
        assert target_of(read(path, task="multilabel")) == LabelSets(["x", "x,y"])
    assert "no row has two labels in the column 'label'; if some have, write | between" in caplog.text


def test_the_loss_of_the_model_is_binary_cross_entropy(word_file):
    table = Table(["soup was", "cheap bill", "the the"], ["food", "food|price", ""], "t", 0, "multilabel")
    words, target = vocabulary_of(table.texts, vectors=word_file), target_of(table)
    model = new_model(words, Run(method="none", dropout=0.0), target.names, [2], target.task).eval()
    truth = target.tensor(target.truth(table.labels))
    assert truth.tolist() == [[1, 0], [1, 1], [0, 0]]
    ids = torch.tensor([words.encode([text], max_length=9)[0] for text in table.texts])
    output = model(ids, labels=truth)
    chances = torch.sigmoid(output.logits)
    expected = -(truth * chances.log() + (1 - truth) * (1 - chances).log())
    assert output.loss.item() == pytest.approx(expected.mean().item(), rel=1e-5)
    each = target.loss(output.logits, truth, reduction="none")
    assert each.tolist() == pytest.approx(expected.mean(1).tolist(), rel=1e-5)


def test_training_starts_at_the_share_of_each_label(word_file):
    """After a step that moves nothing, a row of weight 3 counts three times."""
    table = Table(["soup", "bill", "the", "was"] * 5, ["food", "price", "", ""] * 5, "t", 0, "multilabel")
    words = vocabulary_of(table.texts, vectors=word_file)
    run = Run(method="none", steps=1, learning_rate=1e-9, validation=0, bag=0)
    for weights, food in ((None, 5 / 20), ([3.0, 1.0, 1.0, 1.0] * 5, 15 / 30)):
        head = fit(run, table, words, weights=weights).model.classifier
        assert torch.sigmoid(head.bias)[0].item() == pytest.approx(food, abs=0.03)


def test_scores_agree_with_their_formulas():
    truth, answers = [["a", "b"], ["a"], [], ["c"]], [["a"], ["a", "b"], [], []]
    found = set_scores(["a", "b", "c", "never"], truth, answers)
    assert found["micro_f1"] == pytest.approx(2 * 2 / (4 + 3)) and found["exact_match"] == 1 / 4
    assert found["macro_f1"] == pytest.approx((1 + 0 + 0) / 3)
    assert set_scores(["a", "b"], [[], []], [[], []]) == {"micro_f1": 0, "macro_f1": 0, "exact_match": 1}
    unseen = set_scores(["a", "b"], [["a", "new"]], [["a"]])
    assert unseen["micro_f1"] == pytest.approx(2 / 3) and unseen["exact_match"] == 0


def test_a_label_is_answered_above_one_half():
    assert LabelSets(["a", "b"]).answers(torch.tensor([[0.1, -0.1], [-1.0, 0.0]])) == [["a"], []]


def test_a_model_learns_each_label(fitted):
    metrics, test = fitted.record.metrics, table_of_rows(40, seed=1)
    assert metrics["micro_f1"] > 0.9 and metrics["exact_match"] > 0.7 and metrics["validation_micro_f1"] > 0.8
    chances = fitted.probabilities(test.texts)
    assert chances.shape == (40, 3) and not np.allclose(chances.sum(1), 1)
    target = target_of(table_of_rows())
    truth = target.tensor(target.truth(test.labels)).numpy()
    assert metrics["micro_f1"] == pytest.approx(f1_score(truth, chances > 0.5, average="micro"))
    assert [counts[0] for counts in metrics["by_label"]] == truth.sum(0).tolist()
    assert sum(metrics["length_rows"]) == 40
    assert sum(metrics["length_right"]) == pytest.approx(40 * metrics["exact_match"])
    assert fitted.record.data["task"] == "multilabel" and fitted.record.data["classes"] == [*WORDS]


def test_a_saved_model_answers_with_sets(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    texts = ["the soup was cheap", "the waiter", "and very"]
    assert np.array_equal(again.probabilities(texts), fitted.probabilities(texts))
    names, rows = table_of(again, "text", lambda: iter(texts))
    assert names == ["text", "label", *(f"probability_{label}" for label in WORDS)]
    assert [row[1] for row in rows] == ["food|price", "staff", ""]
    assert again.model.config.problem_type == "multi_label_classification"


def test_it_is_not_taken_for_one_label(fitted, compared, capsys):
    message = (
        "answers with any number of labels per text, and this needs one class per text; use `vnait predict`"
    )
    with pytest.raises(InputError, match=message):
        explain(fitted, "the soup")
    with pytest.raises(SystemExit):
        main(["explain", str(compared.path.parent / "model"), "the soup"])
    assert "any number of labels" in capsys.readouterr().err


def matrix_of(count: int, seed: int) -> tuple[list[str], np.ndarray]:
    """The same rows; the last column is a label that no text has."""
    texts, cells = zip(*rows_of(count, seed), strict=True)
    return list(texts), np.array([[name in cell.split("|") for name in (*WORDS, "none")] for cell in cells])


def test_a_matrix_of_labels_in_scikit_learn(tmp_path):
    texts, matrix = matrix_of(120, 0)
    classifier = TextClassifier("none", steps=60).fit(texts, matrix)
    test, truth = matrix_of(60, 1)
    assert classifier.classes_.tolist() == [0, 1, 2, 3]
    assert classifier.predict(test).dtype.kind == "i" and classifier.score(test, truth) > 0.8
    assert f1_score(truth, classifier.predict(test), average="micro") > 0.9
    probabilities = classifier.predict_proba(test)
    assert (probabilities[:, 3] == 0).all() and ((probabilities > 0.5) == classifier.predict(test)).all()
    classifier.save(tmp_path / "model")
    for again in (TextClassifier.load(tmp_path / "model"), pickle.loads(pickle.dumps(classifier))):
        assert (again.predict_proba(test) == probabilities).all() and again.classes_.tolist() == [0, 1, 2, 3]


def test_a_model_of_the_command_line_answers_with_a_matrix(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    again = TextClassifier.load(tmp_path / "model")
    assert again.classes_.tolist() == list(WORDS)
    assert again.predict(["the soup was cheap", "and very"]).tolist() == [[1, 1, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        (
            lambda y: y + 1,
            {},
            r"y has 2.0 at row \d, column \d; a matrix of labels has 1 where a text has the",
        ),
        (lambda y: y * np.nan, {}, r"y has no label at row 0 \(20 in all\)"),
        (lambda y: y[:, :1], {}, r"y has shape \(20, 1\); give its column"),
        (lambda y: y[:9], {}, r"y has shape \(9, 4\) for 20 texts; give one label per text, or a matrix"),
        (lambda y: y * 0, {}, "no label; multilabel needs two or more"),
        (
            lambda y: y,
            {"class_weight": "balanced"},
            "class_weight is for one label per text; give sample_weight",
        ),
    ],
)
def test_a_matrix_that_is_none(change, settings, message):
    texts, matrix = matrix_of(20, 0)
    with pytest.raises(InputError, match=message):
        TextClassifier("none", steps=2, **settings).fit(texts, change(matrix.astype(float)))
    with pytest.raises(InputError, match=r"y has shape .* give one label per text"):
        TextRegressor("none", steps=2).fit(texts, matrix.astype(float))


def test_weights_of_rows_with_a_matrix():
    texts, matrix = matrix_of(120, 0)
    wrong = ~matrix
    weights = [1.0] * 120 + [0.0] * 120
    classifier = TextClassifier("none", steps=60).fit(texts * 2, np.vstack([matrix, wrong]), weights)
    assert f1_score(matrix, classifier.predict(texts), average="micro") > 0.9


def test_the_linear_part_learns_each_label_on_its_own():
    rng = np.random.default_rng(0)
    ids = [rng.integers(1, 12, 5).tolist() for _ in range(80)]
    bags = bags_of(ids, np.ones(12))
    labels = np.array([[1 in row, 2 in row, True] for row in ids], dtype=int)  # one that all texts have
    each = BagOfEach(np.zeros((12, 2))).fit(bags, labels)
    assert (each.predict(bags) == labels).mean() > 0.95 and (each.predict(bags)[:, 2] == 1).all()
    assert each.logits_[1].argmax() == 0 and each.logits_[2].argmax() == 1
    assert 0.5 < skill_at_sets(bags, labels, np.zeros((12, 2))) < 1
    chance = (rng.random((80, 3)) < 0.3).astype(int)
    assert skill_at_sets(bags, chance, np.zeros((12, 2))) < 0.2


@pytest.mark.parametrize("bag", [0, 0.5])
def test_rows_of_weight_zero_are_left_out(bag, word_file):
    table = table_of_rows()
    wrong = [label if row % 2 else "staff" for row, label in enumerate(table.labels)]
    given = Table(table.texts, wrong, "wrong", 0, "multilabel")
    run = Run(method="none", steps=100, learning_rate=0.03, num_layers=1, bag=bag)
    words, test = vocabulary_of(table.texts, vectors=word_file), table_of_rows(40, seed=1)
    plain, weighted = (
        fit(run, given, words, test=test, weights=weights).record.metrics["micro_f1"]
        for weights in (None, [float(row % 2) for row in range(80)])
    )
    assert weighted > 0.9 > plain


def test_a_test_label_that_training_never_saw_counts_as_missed(word_file, caplog):
    table, test = table_of_rows(20), Table(["soup", "the"], ["food|new", "new"], "test", 0, "multilabel")
    words = vocabulary_of(table.texts, vectors=word_file)
    with caplog.at_level(logging.WARNING, "vnait"):
        found = fit(Run(method="none", steps=2), table, words, test=test).record.metrics
    assert "test: 2 of 3 labels are ones that training never saw ('new')" in caplog.text
    assert found["exact_match"] == 0 and len(found["by_label"]) == 3
    other = Table(["the"], ["new"], "other", 0, "multilabel")
    with pytest.raises(InputError, match="other and made0 share no label"):
        fit(Run(method="none", steps=2), table, words, test=other)
    empty = Table(["the"], [""], "empty", 0, "multilabel")
    with pytest.raises(InputError, match="no row of empty has a label"):
        fit(Run(method="none", steps=2), table, words, test=empty)


@pytest.mark.parametrize("name", ["majority", "tfidf", "averaged"])
def test_baselines_are_saved_and_answer_with_sets(name, word_file, tmp_path):
    table = table_of_rows()
    often = Table(table.texts, [f"{label}|often" for label in table.labels], "often", 0, "multilabel")
    words = vocabulary_of(table.texts, vectors=word_file)
    model = fit_baseline(name, often, often, words, tokenization="words", seed=0, validation=0.2)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    chances = again.probabilities(table.texts)
    np.testing.assert_allclose(chances, model.probabilities(table.texts))
    assert again.classes == ["food", "often", "price", "staff"] and (chances[:, 1] > 0.9).all()
    if name == "majority":
        assert ((chances > 0.5) == [False, True, False, False]).all()
    else:
        assert model.record.metrics["micro_f1"] > 0.8
        assert model.record.parameters == 4 * (model.inputs + 1)


def test_a_comparison_is_about_micro_f1(compared):
    assert compared.results.metric is SETS
    rows = {row["method"]: row for row in compared.rows if row["shots"] == "all"}
    assert list(rows) == ["majority", "tfidf", "one-hot", "averaged", "none", "sinusoidal"]
    assert rows["majority"]["mean"] == pytest.approx(compared.plan.chance_level())
    assert rows["none"]["alone"] is not None and rows["majority"]["alone"] is None
    assert {one.data["rows"] for one in compared.results.of("none", 20)} == {20}
    assert [line.split(":")[0] for line in compared.sentences()] == ["At 20 rows", "With all rows"]


def test_its_report_advice_and_card_name_labels(compared):
    assert "its micro F1 on the test rows is" in " ".join(compared.advice())
    assert compared.report().is_file() and compared.picture().is_file()
    page = repr(list(sections(compared.results, About.read(compared.path.parent))))
    for words in ("Rows per label", "macro_f1", "exact match", "precision", "labels that most training rows"):
        assert words in page
    assert "confusion" not in page and "per class" not in page and "RMSE" not in page
    card = (compared.path.parent / "model" / "README.md").read_text()
    assert "a text any number of 3 labels" in card and "Micro F1" in card and "above 1/2" in card


def test_on_the_command_line(file, word_file, tmp_path, capsys):
    given = ["--task", "multilabel", "--vectors", word_file, "--steps", "4", "--quiet"]
    folder = str(tmp_path / "model")
    main(["train", file, *given, "--test", file, "--out", folder])
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("micro_f1", "macro_f1", "exact_match"))
    main(["predict", folder, file, "--json", "--quiet"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert list(rows[0]) == ["text", "label", *(f"probability_{label}" for label in WORDS)]
    for row in rows:
        above = [label for label in WORDS if row[f"probability_{label}"] > 0.5]
        assert row["label"] == "|".join(above)
    out = ["--methods", "none", "--seeds", "1", "--jobs", "1", "--out", str(tmp_path / "out")]
    main(["compare", file, *given, *out])
    printed = capsys.readouterr().out
    assert "80 rows, 3 labels, 1 seed" in printed
    assert "micro F1 of always answering the labels that most training rows have: 0.0 %" in printed


def test_a_base_learns_sets(tmp_path):
    base = saved_base(tmp_path / "bert")
    texts = [f"{word} {other}" for word in ("good", "the", "was") for other in ("film", "a", "very")]
    labels = ["|".join(label for label in ("good", "film") if label in text) for text in texts]
    table = Table(texts * 4, labels * 4, "made", 0, "multilabel")
    # A rate that the gates of `vnait` stand, too: attached weights learn ten times as fast as the base.
    run = Run(method="vnait", base=str(base), steps=150, max_length=16, learning_rate=5e-3)
    fitted = fit(run, table, Base.load(base), test=table)
    assert fitted.record.metrics["micro_f1"] > 0.9
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.task == "multilabel" and again.probabilities(texts) == pytest.approx(
        fitted.probabilities(texts)
    )


def test_lists_of_labels_are_sets(tmp_path):
    cells = ["food", "price"], [], "food"
    lines = [json.dumps({"text": f"soup {number}", "label": cell}) for number, cell in enumerate(cells)]
    path = tmp_path / "d.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    assert read(path, task="multilabel").labels == ["food|price", "", "food"]
    path.write_text(json.dumps({"text": "a", "label": ["x|y"]}), encoding="utf-8")
    with pytest.raises(InputError, match=r"has the label 'x\|y'; rename it without"):
        read(path, task="multilabel")


def test_labels_that_a_split_leaves_out_are_named(tmp_path, caplog):
    rows = [("good film", "a"), ("bad plot", "b|c")] * 10 + [("a film", f"rare{n}") for n in range(4)]
    path = tmp_path / "rare.csv"
    path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    options = {"methods": ("none",), "seeds": 2, "steps": 2, "out": tmp_path / "out"}
    compare(str(path), task="multilabel", jobs=1, **options)
    assert "labels are so rare that the training rows of some seeds lack them ('rare" in caplog.text


def test_columns_of_a_frame_name_the_labels(tmp_path):
    import pandas as pd

    texts, matrix = matrix_of(30, 0)
    frame = pd.DataFrame(matrix.astype(int), columns=[*WORDS, "none"], index=range(7, 37))
    classifier = TextClassifier("none", steps=3).fit(texts, frame)
    assert classifier.classes_.tolist() == [*WORDS, "none"]
    classifier.save(tmp_path / "model")
    assert set(load(tmp_path / "model").classes) == set(WORDS)  # no text has the last one
    again = TextClassifier.load(tmp_path / "model")
    assert again.classes_.tolist() == [*WORDS, "none"]
    assert np.array_equal(again.predict(texts), classifier.predict(texts))
    for name in ("food|drink", "", " x", "none"):
        odd = frame.rename(columns={"food": name})
        with pytest.raises(
            InputError, match=re.escape(f"y has the column {name!r}, which can't name a label")
        ):
            TextClassifier("none", steps=1).fit(texts, odd)
    plain = frame.set_axis(range(4), axis=1)
    assert TextClassifier("none", steps=1).fit(texts, plain).classes_.tolist() == [0, 1, 2, 3]
