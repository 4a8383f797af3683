"""TextRegressor: scikit-learn's contract for numbers, which share most with TextClassifier."""

import pickle
import random

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags

from helpers import save_vectors
from test_estimator import OfMatrices, checks_passed, written
from vnait import InputError, TextClassifier, TextRegressor
from vnait.cli import main

VALUES = {"awful": -3, "bad": -2, "plain": 0, "good": 2, "great": 3}
QUICK = {"method": "none", "steps": 4, "num_layers": 1}


def rows_of(rows: int = 60, seed: int = 0) -> tuple[list[str], list[float]]:
    """1,000 and ten times the sum of two words."""
    rng = random.Random(seed)
    pairs = [rng.choices(list(VALUES), k=2) for _ in range(rows)]
    texts = [f"a {one} film , {other} music" for one, other in pairs]
    return texts, [1000.0 + 10 * sum(VALUES[word] for word in pair) for pair in pairs]


X, Y = rows_of()


def quick(**options) -> TextRegressor:
    return TextRegressor(**{**QUICK, **options})


@pytest.fixture(scope="module")
def word_file(tmp_path_factory) -> str:
    names = ["a", "film", "music", ",", *VALUES]
    return save_vectors(tmp_path_factory.mktemp("vectors") / "words.bin", names)


@pytest.fixture(scope="module")
def learned(word_file) -> TextRegressor:
    return quick(vectors=word_file, steps=120, learning_rate=0.03).fit(X, Y)


def test_it_answers_in_the_unit_of_y_and_scores_by_r2(learned):
    texts, numbers = rows_of(seed=1)
    found = learned.predict(texts)
    assert found.shape == (60,) and found.dtype == np.float64
    assert learned.score(texts, numbers) == r2_score(numbers, found) > 0.8
    half = [1.0, 0.0] * 30
    assert learned.score(texts, numbers, half) == r2_score(numbers, found, sample_weight=half)


@pytest.mark.parametrize("kind", ["integers", "strings", "a series", "objects"])
def test_numbers_may_be_written_in_several_ways(kind, word_file):
    numbers = list(map(int, Y))
    y = {
        "integers": numbers,
        "strings": list(map(str, Y)),
        "a series": pd.Series(numbers, index=range(100, 160)),
        "objects": np.array(Y, dtype=object),
    }[kind]
    expected = quick(vectors=word_file).fit(X, Y).predict(X[:3])
    assert np.array_equal(quick(vectors=word_file).fit(X, y).predict(X[:3]), expected)


def test_a_weight_of_zero_leaves_a_row_out(word_file):
    wrong = [3000.0 if row % 3 == 0 else number for row, number in enumerate(Y)]
    weights = [float(row % 3 != 0) for row in range(len(Y))]
    settings = {"vectors": word_file, "steps": 120, "learning_rate": 0.03}
    plain, weighted = (quick(**settings).fit(X, wrong, own) for own in (None, weights))
    assert weighted.score(X, Y) > 0.7 > 0 > plain.score(X, Y)


def test_the_number_of_a_row_without_weight_does_not_count(word_file):
    weights = [float(row % 3 != 0) for row in range(len(Y))]
    wild = [1e6 if weight == 0 else number for number, weight in zip(Y, weights, strict=True)]
    found = [quick(vectors=word_file).fit(X, own, weights).predict(X) for own in (Y, wild)]
    np.testing.assert_allclose(*found, rtol=1e-4)


def test_random_states_are_those_of_scikit_learn(word_file):
    first, second = (quick(vectors=word_file, random_state=None).fit(X, Y) for _ in range(2))
    assert first.seed_ != second.seed_
    again = quick(vectors=word_file, random_state=first.seed_).fit(X, Y)
    assert np.array_equal(again.predict(X), first.predict(X))


def test_it_is_cloned_and_cross_validated_in_a_pipeline(word_file):
    regressor = quick(vectors=word_file, random_state=5)
    assert clone(regressor).get_params() == regressor.get_params()
    assert set(TextClassifier().get_params()) - set(regressor.get_params()) == {"class_weight"}
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    scores = cross_val_score(make_pipeline(lower, regressor), X, Y, cv=3)
    assert scores.shape == (3,) and np.isfinite(scores).all()


def test_saved_and_pickled_it_answers_the_same(learned, tmp_path):
    learned.save(tmp_path / "model")
    for again in (TextRegressor.load(tmp_path / "model"), pickle.loads(pickle.dumps(learned))):
        assert np.array_equal(again.predict(X), learned.predict(X))
        assert again.get_params() == learned.get_params() and again.seed_ == learned.seed_
    main(["predict", str(tmp_path / "model"), "builtin:polarity", "--out", str(tmp_path / "answers.csv")])
    assert (tmp_path / "answers.csv").is_file()


def test_classes_and_numbers_are_not_taken_for_each_other(learned, word_file, tmp_path):
    learned.save(tmp_path / "numbers")
    TextClassifier(**QUICK, vectors=word_file).fit(X, ["a", "b"] * 30).save(tmp_path / "classes")
    with pytest.raises(InputError, match=r"answers with a number per text, .*; use .*TextRegressor"):
        TextClassifier.load(tmp_path / "numbers")
    with pytest.raises(InputError, match="answers with one class per text, and this needs a number per text"):
        TextRegressor.load(tmp_path / "classes")


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "TextRegressor requires y to be passed, but the target y is None"),
        (Y[:-1], "y has shape (59,) for 60 texts"),
        (np.array([Y]).T, "y has shape (60, 1); give its column"),
        ([*Y[:-1], "many"], "y is not numbers: could not convert string to float: 'many'."),
        ([*Y[:-1], None], "y has no label at row 59 (1 in all)"),
        ([*Y[:-1], float("inf")], "y has inf at row 59 (1 in all); give finite numbers."),
        ([7] * 60, "every label is 7; regression needs different numbers"),
    ],
)
def test_wrong_numbers_are_one_sentence_and_fit_nothing(y, message, word_file):
    regressor = quick(vectors=word_file)
    with pytest.raises(InputError) as error:
        regressor.fit(X, y)
    assert message in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(NotFittedError):
        regressor.predict(X)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0] * 59, "sample_weight has shape (59,) for 60 texts"),
        ([1.0] + [0.0] * 59, "all rows with a weight above 0 have one label"),
    ],
)
def test_wrong_weights_are_one_sentence(weights, message):
    with pytest.raises(InputError) as error:
        quick().fit(X, Y, weights)
    assert message in str(error.value) and "\n" not in str(error.value)


class Written(OfMatrices, TextRegressor):
    def predict(self, X):
        return super().predict(written(X))


@pytest.mark.long
@pytest.mark.slow
def test_scikit_learns_checks_pass_where_they_apply_to_texts():
    passed = checks_passed(Written(**QUICK, learning_rate=0.03))
    assert {
        "check_estimators_unfitted",
        "check_estimators_pickle",
        "check_dict_unchanged",
        "check_fit_idempotent",
        "check_regressors_train",
        "check_regressors_int",
        "check_fit2d_1sample",
        "check_parameters_default_constructible",
    } <= set(passed)


def test_the_tags_say_that_it_is_a_regressor_of_strings():
    tags = get_tags(TextRegressor())
    assert tags.input_tags.string and tags.estimator_type == "regressor" and tags.target_tags.required
