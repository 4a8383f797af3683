"""Scores of a saved model on labelled rows: those that its training reported."""

import numpy as np
import pytest

from vnait import InputError, Run, cli
from vnait.data import Table
from vnait.data.vocabulary import vocabulary_of
from vnait.shared.statistics import proportion
from vnait.train.baselines import baselines_of, fit_baseline
from vnait.train.fitting import fit
from vnait.train.predict import Threshold, evaluate, load, table_of

TEXTS = ["a warm film", "a dull film", "warm and dull", "a film and a film"] * 6
LABELS = {
    "classification": ["good", "bad", "bad", "good"] * 6,
    "regression": ["1.5", "-2", "-0.5", "0"] * 6,
    "multilabel": ["warm|film", "dull|film", "warm|dull", "film"] * 6,
    "tagging": ["O B-X O", "O B-Y O", "B-X O B-Y", "O O O O O"] * 6,
}


@pytest.fixture(params=LABELS, scope="module")
def table(request) -> Table:
    return Table(TEXTS, LABELS[request.param], "made", 0, request.param)


def check(model, table: Table, folder) -> None:
    """The model, saved and loaded, has the scores of its own record; the interval of accuracy is Wilson's."""
    model.save(folder)
    again = load(folder)
    assert again.task == table.task
    found = evaluate(again, table)
    bounds = {name: found.pop(name) for name in ("accuracy_low", "accuracy_high") if name in found}
    expected = {name: value for name, value in model.record.metrics.items() if name in found}
    assert expected == pytest.approx(found, abs=1e-6) and len(found) >= 2
    assert bool(bounds) == (table.task == "classification")
    if bounds:
        right = round(found["accuracy"] * len(table))
        assert tuple(bounds.values()) == proportion(right, len(table)).bounds


def test_a_transformer_has_the_scores_of_its_training(table, tmp_path):
    run = Run(method="vnait", steps=4)
    check(fit(run, table, vocabulary_of(table.texts), test=table), table, tmp_path / "model")


def test_a_baseline_has_the_scores_of_its_training(table, tmp_path):
    words = vocabulary_of(table.texts)
    for name in baselines_of(table):
        model = fit_baseline(name, table, table, words, tokenization="words", seed=0)
        check(model, table, tmp_path / name)


def test_a_threshold_gives_coverage_and_the_accuracy_of_what_is_answered():
    texts = [*TEXTS, "a film", "warm"]
    table = Table(texts, [*LABELS["classification"], "bad", "bad"], "made", 0)
    model = fit_baseline("tfidf", table, table, tokenization="words", seed=0)
    probabilities = model.probabilities(texts)
    threshold = float(np.sort(probabilities.max(1))[9])  # of ten texts it is the largest
    answered = probabilities.max(1) >= threshold
    right = np.array(model.classes)[probabilities.argmax(1)] == table.labels
    scores = evaluate(model, table, threshold=threshold)
    assert scores["coverage"] == answered.mean() < 1
    assert scores["answered_accuracy"] == right[answered].mean() > scores["accuracy"]
    assert evaluate(model, table, threshold=0)["coverage"] == 1
    assert evaluate(model, table, threshold=1)["coverage"] == 0
    assert "answered_accuracy" not in evaluate(model, table, threshold=1)
    assert "coverage" not in evaluate(model, table)


def test_texts_below_the_threshold_get_another_answer():
    table = Table(TEXTS, LABELS["classification"], "made", 0)
    model = fit_baseline("tfidf", table, tokenization="words", seed=0)
    plain = list(table_of(model, "text", lambda: iter(TEXTS[:4]))[1])
    highest = [max(row[2:]) for row in plain]
    least = (min(highest) + max(highest)) / 2
    rows = list(table_of(model, "text", lambda: iter(TEXTS[:4]), Threshold(least=least))[1])
    sure = [value >= least for value in highest]
    assert [row[2:] for row in rows] == [row[2:] for row in plain]
    expected = [row[1] if is_sure else "none of these" for row, is_sure in zip(plain, sure, strict=True)]
    assert [row[1] for row in rows] == expected
    for threshold, message in [
        (Threshold(least=1.5), "the threshold is 1.5; give a probability"),
        (Threshold(least=float("nan")), "the threshold is nan; give a probability"),
        (Threshold(least=0.5, otherwise="bad"), "'bad' is a class of the model"),
    ]:
        with pytest.raises(InputError, match=message):
            table_of(model, "text", lambda: iter(TEXTS), threshold)


@pytest.mark.parametrize("task", ["regression", "tagging", "multilabel"])
def test_a_threshold_needs_one_class_per_text(task):
    table = Table(TEXTS, LABELS[task], "made", 0, task)
    model = fit_baseline(baselines_of(table)[0], table, tokenization="words", seed=0)
    with pytest.raises(InputError, match="and a threshold needs one class per text"):
        table_of(model, "text", lambda: iter(TEXTS), Threshold(least=0.5))
    with pytest.raises(InputError, match="and a threshold needs one class per text"):
        evaluate(model, table, threshold=0.5)


def test_a_label_that_training_never_saw_counts_as_wrong(caplog):
    table = Table(TEXTS, LABELS["classification"], "made", 0)
    model = fit_baseline("tfidf", table, table, vocabulary_of(TEXTS), tokenization="words", seed=0)
    new = Table(TEXTS[:4], ["good", "bad", "odd", "good"], "new", 0)
    assert evaluate(model, new)["accuracy"] <= 0.75 and "'odd'" in caplog.text
    with pytest.raises(InputError, match="share no label"):
        evaluate(model, Table(TEXTS[:2], ["odd", "even"], "new", 0))
    with pytest.raises(InputError, match="'Bad' differs from a known one only in spaces, capitals"):
        evaluate(model, Table(TEXTS[:2], ["Good", "Bad"], "new", 0))
    with pytest.raises(InputError, match="new was read for multilabel; read it with task='classification'"):
        evaluate(model, Table(TEXTS[:2], ["good", "bad"], "new", 0, "multilabel"))


@pytest.mark.parametrize(
    ("task", "label", "undefined"),
    [("classification", "good", {"mcc"}), ("regression", "1.5", {"pearson", "spearman"})],
)
@pytest.mark.parametrize("count", [1, 6])
def test_a_score_that_rows_of_one_label_cannot_have_is_left_out(task, label, undefined, count, recwarn):
    """Its 0 would be a model's that guesses. The other scores are those of the rows."""
    table = Table(TEXTS, LABELS[task], "made", 0, task)
    model = fit_baseline("tfidf", table, table, vocabulary_of(TEXTS), tokenization="words", seed=0)
    metrics = evaluate(model, Table(["a warm film"] * count, [label] * count, "new", 0, task))
    assert not undefined & metrics.keys() and undefined < evaluate(model, table).keys()
    assert metrics.get("accuracy", 1) == metrics.get("macro_f1", 1) == 1
    assert not recwarn.list


def test_the_command_says_that_a_score_is_undefined(tmp_path, capsys):
    table = Table(TEXTS, LABELS["classification"], "made", 0)
    model = fit_baseline("tfidf", table, table, vocabulary_of(TEXTS), tokenization="words", seed=0)
    model.save(tmp_path / "m")
    (tmp_path / "good.csv").write_text("text,label\n" + "a warm film,good\n" * 9)
    cli.main(["evaluate", str(tmp_path / "m"), str(tmp_path / "good.csv")])
    shown, warned = capsys.readouterr()
    assert "mcc                         undefined" in shown and "0.000" not in shown and not warned
