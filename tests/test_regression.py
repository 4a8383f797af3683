"""Labels that are numbers: read, split, standardized, scored, compared, saved, answered in their own unit."""

import csv
import json
import random

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from helpers import compare_two, save_vectors
from test_finetune import saved_base
from vnait import InputError, Run, TextClassifier, explain
from vnait.cli import main
from vnait.comparison.plan import Plan
from vnait.data import Table, read, summary
from vnait.data.vocabulary import vocabulary_of
from vnait.results.about import About
from vnait.results.metrics import RMSE
from vnait.results.record import read as records
from vnait.results.report.comparison import sections
from vnait.results.results import Results
from vnait.results.scores import regression_scores
from vnait.train.bag_of_words import BagRidge, bags_of, skill_at_numbers
from vnait.train.base import Base
from vnait.train.fitting import fit
from vnait.train.models import new_model
from vnait.train.predict import load, predictions
from vnait.train.tasks import Numbers, target_of

VALUES = {"awful": -3, "bad": -2, "plain": 0, "good": 2, "great": 3}


def rows_of(rows=150, seed=0) -> list[tuple[str, str]]:
    """1,000 and ten times the sum of two words, the second half as much: order matters a little."""
    rng = random.Random(seed)
    found = []
    for _ in range(rows):
        one, other = rng.choices(list(VALUES), k=2)
        found.append((f"a {one} film, {other} music", f"{1000 + 10 * (VALUES[one] + VALUES[other] / 2):.1f}"))
    return found


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("numbers") / "numbers.csv"
    with path.open("w", newline="") as out:
        csv.writer(out).writerows([["text", "label"], *rows_of()])
    return str(path)


@pytest.fixture(scope="module")
def word_file(tmp_path_factory) -> str:
    names = ["a", "film", "music", ",", *VALUES]
    return save_vectors(tmp_path_factory.mktemp("vectors") / "words.bin", names, width=16)


@pytest.fixture(scope="module")
def compared(file, word_file, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    return compare_two("regression", file, word_file, out, steps=30)


def test_numbers_are_read_and_split_without_classes(file):
    table = read(file, task="regression")
    assert table.task == "regression" and len(set(table.labels)) > 15
    assert table.fingerprint != Table(table.texts, table.labels, table.name, 0).fingerprint
    train, held = table.split(holdout=0.2, seed=1)
    assert len(held) == 30 and sorted([*train, *held]) == list(range(150))
    few, more = table.shots(count=5, seed=0), table.shots(count=9, seed=0)
    assert len(few) == 5 and set(few) < set(more) and len(more) == 9
    facts = summary(table, "words")
    assert facts["classes"] == {} and facts["numbers"][0] == min(map(float, table.labels))


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("4,5", "row 3: the column 'label' has '4,5', which is not a finite number"),
        ("inf", "'inf', which is not a finite number"),
        ("many", "'many', which is not a finite number"),
    ],
)
def test_a_label_that_is_no_number_is_named(label, message, tmp_path):
    path = tmp_path / "wrong.csv"
    path.write_text(f'text,label\na b,1\nc d,"{label}"\n')
    with pytest.raises(InputError) as error:
        read(path, task="regression")
    assert message in str(error.value) and "\n" not in str(error.value)


def test_tasks_and_constants_that_can_not_be_learned_are_refused(file, word_file):
    with pytest.raises(ValueError, match="task='ranking' is not known; take one of classification, regress"):
        read(file, task="ranking")
    same = Table(["a", "b"], ["2", "2.0"], "same", 0, "regression")
    with pytest.raises(InputError, match="same: every label is 2; regression needs different numbers"):
        target_of(same)
    for labels in (["1700000000", "1700000010"], ["0", "1e39"]):
        with pytest.raises(InputError, match="which numbers of 32 bits can't hold; subtract a const"):
            target_of(Table(["a", "b"], labels, "far", 0, "regression"))


def test_numbers_are_standardized_before_they_are_rounded():
    target = Numbers(1e8, 1.0)
    assert target.tensor([1e8 + 1, 1e8 - 2]).tolist() == [1, -2]


def test_errors_agree_with_their_formulas():
    truth, answer = [1.0, 2.0, 4.0], [1.5, 2.0, 3.0]
    found = regression_scores(truth, answer)
    assert found["rmse"] == pytest.approx(np.sqrt(1.25 / 3)) and found["mae"] == pytest.approx(0.5)
    assert found["pearson"] == pytest.approx(np.corrcoef(truth, answer)[0, 1]) and found["spearman"] == 1
    assert set(regression_scores(truth, [2.0] * 3)) == {"rmse", "mae"}  # a constant has no correlation


@pytest.mark.parametrize("bag", [0, 0.4, None])
def test_a_model_learns_standardized_numbers_and_answers_in_their_unit(bag, file, word_file, tmp_path):
    table = read(file, task="regression")
    test = Table(*map(list, zip(*rows_of(60, seed=1), strict=True)), "test", 0, "regression")
    run = Run(method="none", steps=120, learning_rate=0.01, num_layers=1, bag=bag)
    fitted = fit(run, table, vocabulary_of(table.texts, vectors=word_file), test=test)
    metrics = fitted.record.metrics
    spread = np.std([float(label) for label in test.labels])
    assert metrics["rmse"] < 0.5 * spread and metrics["pearson"] > 0.9
    assert sum(metrics["length_squares"]) == pytest.approx(60 * metrics["rmse"] ** 2, rel=1e-4)
    assert metrics["validation_rmse"] < 0.5 * spread
    assert fitted.record.data["task"] == "regression" and "classes" not in fitted.record.data
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    found = again.numbers(test.texts)
    assert np.array_equal(found, fitted.numbers(test.texts))
    assert regression_scores([*map(float, test.labels)], found)["rmse"] == pytest.approx(
        metrics["rmse"], rel=1e-4
    )
    assert [number for _, number in predictions(again, test.texts)] == pytest.approx(found.tolist(), rel=1e-6)


def test_numbers_are_standardized_by_the_training_rows_only():
    table = Table(list("abcd"), ["1", "3", "100", "900"], "made", 0, "regression")
    target = target_of(table, [0, 1])
    assert target == Numbers(2.0, 1.0) and target.tensor([1.0, 3.0]).tolist() == [-1, 1]
    assert target_of(table, [0, 1, 2], np.array([3.0, 1.0, 0.0, 1.0])) == Numbers(1.5, 0.75**0.5)
    assert target_of(table, [0, 1], np.array([0.0, 0.0, 1.0, 1.0])) == target


def test_the_loss_of_the_model_is_the_squared_error_of_standardized_numbers(file, word_file):
    table = read(file, task="regression").select(range(8))
    words = vocabulary_of(table.texts, vectors=word_file)
    target = target_of(table)
    model = new_model(words, Run(method="none", dropout=0.0), target.names, [6], target.task).eval()
    ids = torch.tensor([words.encode([text], max_length=9)[0] for text in table.texts])
    truth = target.tensor(target.truth(table.labels))
    output = model(ids, labels=truth)
    expected = target.loss(output.logits, truth).item()
    assert output.loss.item() == pytest.approx(expected, rel=1e-5)
    assert model.config.problem_type == "regression"


def test_the_linear_part_is_ridge_regression():
    rng = np.random.default_rng(0)
    ids = [rng.integers(1, 12, 5).tolist() for _ in range(80)]
    bags = bags_of(ids, np.ones(12))
    labels = [sum(row) / 10 for row in ids]
    ridge = BagRidge(np.zeros((12, 2))).fit(bags, labels)
    rows = bags.toarray() / np.linalg.norm(bags.toarray(), axis=1)[:, None]
    by_hand = Ridge().fit(rows, labels)
    length = np.linalg.norm(bags.toarray(), axis=1).mean()
    np.testing.assert_allclose(ridge.logits_[:, 0], by_hand.coef_ / length, atol=1e-3)
    skill, alpha = skill_at_numbers(bags, labels, np.zeros((12, 2)))
    assert 0.5 < skill < 1 and alpha < 10
    assert skill_at_numbers(bags, rng.normal(size=80).tolist(), np.zeros((12, 2)))[0] < 0.1


def test_a_comparison_has_the_mean_and_ridge_regression_beside_the_methods(compared):
    assert compared.results.metric is RMSE
    by_method = {row["method"]: row for row in compared.rows if row["shots"] == "all"}
    assert list(by_method) == ["mean", "tfidf", "one-hot", "averaged", "none", "sinusoidal"]
    assert by_method["mean"]["mean"] == pytest.approx(compared.plan.chance_level())
    assert by_method["tfidf"]["mean"] < 0.7 * by_method["mean"]["mean"]
    assert by_method["mean"]["ci_low"] < by_method["mean"]["mean"] < by_method["mean"]["ci_high"]
    ranked = [row["mean"] for row in compared.results.ranked("all")]
    assert ranked == sorted(ranked)
    best = min(compared.results.validation(method) for method in by_method)
    assert compared.results.validation(compared.best) <= best + 0.01 * compared.results.unit
    assert compared.best != "mean"


def test_a_lower_error_is_ahead(compared):
    results = Results(
        records=compared.results.records,
        methods=compared.results.methods,
        shots=compared.results.shots,
        reference="mean",
    )
    row = next(row for row in results.paired if row["method"] == "tfidf" and row["shots"] == "all")
    assert row["difference"] < 0 and results.ahead(row) == 1
    sentence = results.sentences()[1]
    assert sentence.startswith("With all labels: mean is behind") and "points" not in sentence
    assert results.sentences()[0].startswith("At 20 labels: ")


def test_advice_and_report_are_about_errors(compared):
    advice = " ".join(compared.advice())
    assert "its RMSE on the test rows is" in advice and "accuracy" not in advice and "%" not in advice
    assert "RMSE (lower is better)" in advice and "No method is clearly better" not in advice
    assert compared.report().is_file()
    written = repr(list(sections(compared.results, About.read(compared.path.parent))))
    for words in ("RMSE is an error: lower is better.", "Other scores", "pearson", "Quantiles of the labels"):
        assert words in written
    for words in ("ccuracy", "classes", "per class", "confusion"):
        assert words not in written
    assert compared.picture().is_file()
    card = (compared.path.parent / "model" / "README.md").read_text()
    assert "answers a text with a number" in card and "RMSE, lower is better" in card


def test_the_saved_model_answers_with_numbers_and_refuses_the_rest(compared, file, capsys):
    folder = str(compared.path.parent / "model")
    main(["predict", folder, file, "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert list(rows[0]) == ["text", "label"] and len(rows) == 150
    truth = [float(label) for _, label in rows_of()]
    assert regression_scores(truth, [row["label"] for row in rows])["pearson"] > 0.8
    fitted = load(folder)
    with pytest.raises(InputError, match="answers with a number per text, and this needs one class per text"):
        fitted.probabilities(["a good film"])
    with pytest.raises(SystemExit):
        main(["explain", folder, "a good film"])
    assert "answers with a number per text" in capsys.readouterr().err


def test_a_regression_is_not_taken_for_a_classifier(file, word_file, tmp_path):
    table = read(file, task="regression")
    fitted = fit(Run(method="none", steps=2), table, vocabulary_of(table.texts, vectors=word_file))
    fitted.save(tmp_path / "model")
    with pytest.raises(InputError, match="answers with a number per text, and this needs one class per text"):
        TextClassifier.load(tmp_path / "model")
    with pytest.raises(InputError, match="answers with a number per text, and this needs one class per text"):
        explain(fitted, "a good film")


def test_on_the_command_line(file, word_file, tmp_path, capsys):
    given = ["--task", "regression", "--vectors", word_file, "--steps", "4", "--quiet"]
    main(["train", file, *given, "--test", file, "--out", str(tmp_path / "model")])
    printed = capsys.readouterr().out
    assert (
        all(name in printed for name in ("rmse", "mae", "pearson", "spearman")) and "accuracy" not in printed
    )
    main(
        [
            "compare",
            file,
            *given,
            "--methods",
            "none",
            "--seeds",
            "1",
            "--out",
            str(tmp_path / "out"),
            "--jobs",
            "1",
        ]
    )
    printed = capsys.readouterr().out
    assert "RMSE of always answering the mean of the training rows:" in printed
    assert "lower is better" in printed and "accuracy" not in printed.replace("accuracy.png", "")
    assert {record.data["task"] for record in records(tmp_path / "out" / "records.jsonl")} == {"regression"}


@pytest.mark.parametrize("method", ["own", "vnait"])
def test_a_base_learns_numbers_and_its_head_answers_in_their_unit(method, tmp_path):
    base = saved_base(tmp_path / "bert")
    texts = [f"{word} film {other}" for word in ("good", "bad") for other in ("the", "was", "a", "very")]
    labels = [f"{500 + 20 * text.startswith('good')}" for text in texts]
    table = Table(texts * 3, labels * 3, "made", 0, "regression")
    run = Run(method=method, base=str(base), steps=60, max_length=16, learning_rate=3e-3)
    fitted = fit(run, table, Base.load(base), test=table)
    assert fitted.record.metrics["rmse"] < 6 and fitted.model.config.problem_type == "regression"
    fitted.save(tmp_path / "model")
    found = load(tmp_path / "model").numbers(texts)
    assert found == pytest.approx(fitted.numbers(texts)) and found.mean() == pytest.approx(510, abs=6)


def test_a_number_has_no_underscore(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("text,label\ngood,1_000\nbad,2\n")
    with pytest.raises(InputError, match="has '1_000', which is not a finite number"):
        read(str(path), task="regression")


def test_intervals_of_other_scores_stay_in_their_range(compared):
    low, high = (
        compared.results.score("none", 20, "pearson").low,
        compared.results.score("none", 20, "pearson").high,
    )
    assert -1 <= low <= high <= 1
    assert compared.results.score("none", 20, "mae").low >= 0


def test_the_level_to_beat_is_that_of_the_rows_that_are_learned():
    rng = random.Random(0)
    table = Table(["a film"] * 100, [str(rng.gauss(0, 1)) for _ in range(100)], "made", 0, "regression")
    plan = Plan(
        table=table,
        test=None,
        methods=("none",),
        shots=(4,),
        seeds=(0, 1),
        run=Run(),
        vectors=None,
        tokenization="words",
    )
    level = []
    for seed in plan.seeds:
        learn, test = plan.rows(4, seed)
        truth = np.array(test.labels, float)
        level.append(np.sqrt(np.mean((truth - np.mean(np.array(learn.labels, float))) ** 2)))
    assert plan.chance_level() == pytest.approx(np.mean(level))


def test_small_numbers_keep_their_digits(tmp_path, word_file, capsys):
    rng = random.Random(0)
    path = tmp_path / "small.csv"
    rows = [(rng.choice(["good film", "bad plot"]), rng.uniform(1e-9, 1e-6)) for _ in range(40)]
    path.write_text("text,label\n" + "".join(f"{text},{label!r}\n" for text, label in rows))
    out = str(tmp_path / "model")
    options = ["--method", "none", "--steps", "3", "--vectors", word_file]
    main(["train", str(path), "--task", "regression", "--out", out, *options])
    score = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("validation_rmse"))
    assert 0 < float(score.split()[1]) < 1e-5
    main(["predict", out, str(path)])
    answers = [float(row["label"]) for row in csv.DictReader(capsys.readouterr().out.splitlines())]
    assert all(0 < abs(answer) < 1e-5 and len(f"{answer:.7g}") > 7 for answer in answers)


def test_a_row_without_a_text_is_dropped_whatever_its_label(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("text,label\ngood,1\n,NA\nbad,2\n")
    assert read(str(path), task="regression").labels == ["1", "2"]
    path.write_text("text,label\ngood,1\nfine,NA\nbad,2\n")
    with pytest.raises(InputError, match=r"row 3: .* has 'NA'.* leave the cell empty to drop the row"):
        read(str(path), task="regression")
