"""TextClassifier: scikit-learn's contract, pickles without tensors, and the same answers from the saved
folder.
"""

import copy
import json
import pickle
import pickletools
import random
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from joblib import parallel_config
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks

import vnait
from conftest import unchecked
from helpers import python, save_vectors
from vnait import TextClassifier
from vnait.data import Table
from vnait.data.vocabulary import vocabulary_of
from vnait.shared.errors import InputError
from vnait.shared.processes import threads
from vnait.train import fitting as train
from vnait.train import predict

WORDS = {"neg": ["bad", "dull", "poor"], "pos": ["good", "fine", "warm"]}


def texts_of(rows=40, seed=0) -> tuple[list[str], list[str]]:
    rng = random.Random(seed)
    labels = [("neg", "pos")[row % 2] for row in range(rows)]
    texts = [
        " ".join([*rng.choices(WORDS[label], k=2), *rng.choices(["a", "film"], k=4)]) for label in labels
    ]
    return texts, labels


X, Y = texts_of()
LABELS = {
    "strings": Y,
    "integers": [{"neg": 10, "pos": 2}[label] for label in Y],
    "booleans": [label == "pos" for label in Y],
    "an array of strings": np.array(Y),
    "a series": pd.Series(Y, index=range(100, 140)),
    "objects": np.array(Y, dtype=object),
}
QUICK = {"method": "none", "steps": 4, "num_layers": 1}


def quick(**options) -> TextClassifier:
    return TextClassifier(**{**QUICK, **options})


@pytest.fixture(scope="module")
def word_file(tmp_path_factory) -> str:
    names = ["a", "film", *WORDS["neg"], *WORDS["pos"]]
    return save_vectors(tmp_path_factory.mktemp("vectors") / "words.bin", names)


@pytest.fixture(scope="module")
def learned(word_file) -> TextClassifier:
    return TextClassifier("vnait", vectors=word_file, steps=60, learning_rate=0.03, batch_size=8).fit(X, Y)


# Fit and predict


@pytest.mark.parametrize("y", LABELS.values(), ids=LABELS)
def test_labels_keep_their_own_type(y, word_file, tmp_path):
    fitted = quick(vectors=word_file).fit(X, y)
    expected = np.unique(np.asarray(y))
    assert fitted.classes_.tolist() == expected.tolist() and fitted.classes_.dtype == expected.dtype
    answer = fitted.predict(X)
    assert answer.shape == (40,) and answer.dtype == expected.dtype and set(answer) <= set(expected)
    again = pickle.loads(pickle.dumps(fitted))
    assert again.classes_.tolist() == expected.tolist()
    assert [type(label) for label in again.classes_.tolist()] == [type(label) for label in expected.tolist()]
    assert again.predict(X).tolist() == answer.tolist()


def test_integers_are_ordered_as_numbers_and_probabilities_follow_them(word_file):
    y = LABELS["integers"]  # as strings "10" comes before "2"
    fitted = quick(vectors=word_file, steps=60, learning_rate=0.03, batch_size=8).fit(X, y)
    assert fitted.classes_.tolist() == [2, 10]
    probabilities = fitted.predict_proba(X)
    assert probabilities.shape == (40, 2) and probabilities.sum(1) == pytest.approx(1)
    assert fitted.classes_[probabilities.argmax(1)].tolist() == fitted.predict(X).tolist()
    assert fitted.score(X, y) > 0.9


def test_labels_that_are_equal_are_one_class_however_they_are_written(word_file):
    classifier = quick(vectors=word_file).fit(X, np.array([1, 0, 1.0, False] * 10, dtype=object))
    assert classifier.classes_.tolist() == [False, 1] and len(classifier.fitted_.classes) == 2
    np.testing.assert_allclose(classifier.predict_proba(X[:3]).sum(1), 1)


def test_the_random_numbers_of_whoever_calls_it_go_on(word_file):
    def drawn(fits: bool) -> list[object]:
        random.seed(1), np.random.seed(1), torch.manual_seed(1)
        if fits:
            with unchecked():  # beartype draws from Python's
                quick(vectors=word_file).fit(X, Y)
        return [random.random(), np.random.rand(), torch.rand(()).item()]

    assert drawn(True) == drawn(False)


def test_the_numbers_of_a_grid_are_saved_as_plain_ones(word_file, tmp_path):
    given = {
        "num_layers": np.int64(1),
        "max_length": np.int32(9),
        "dropout": np.float32(0.25),
        "random_state": np.int64(3),
    }
    classifier = quick(vectors=word_file, **given).fit(X, Y)
    classifier.save(tmp_path / "model")
    assert TextClassifier.load(tmp_path / "model").get_params() == classifier.get_params()


def test_it_learns_and_scores(learned):
    other_texts, other_labels = texts_of(seed=1)
    assert learned.score(other_texts, other_labels) > 0.9
    assert learned.score(other_texts, other_labels[::-1]) < 0.1


def test_texts_may_be_a_list_an_array_or_a_series(learned):
    expected = learned.predict_proba(X[:5])
    for given in (
        tuple(X[:5]),
        np.array(X[:5]),
        np.array(X[:5], dtype=object),
        pd.Series(X[:5], index=range(7, 12)),
    ):
        assert np.array_equal(learned.predict_proba(given), expected)


def test_an_answer_does_not_depend_on_the_texts_beside_it(learned):
    together = learned.predict_proba([*X, "a " * 50])
    alone = np.concatenate([learned.predict_proba([text]) for text in X])
    assert together[:40] == pytest.approx(alone, abs=1e-5)


def test_an_answer_does_not_depend_on_the_number_of_threads(learned):
    texts = [" ".join(["good film a"] * length) for length in range(1, 60)]  # of more than one batch
    found = []
    for count in (1, 3):
        with threads(count):
            found.append(learned.predict_proba(texts))
            assert torch.get_num_threads() == count
    assert np.array_equal(*found)


def test_answers_come_in_parts_and_what_was_cut_is_logged_once(learned, monkeypatch, caplog):
    monkeypatch.setattr(predict, "TOGETHER", 16)
    monkeypatch.setattr(learned.fitted_.model.config, "max_length", 6)
    texts = [*X, "zyx " * 30, ""]
    given = iter(texts)
    some = predict.predictions(learned.fitted_, given)
    first = next(some)
    assert len(list(given)) == len(texts) - 16  # no more of them are read than are needed
    assert first[0] == X[0]
    found = list(predict.predictions(learned.fitted_, iter(texts)))
    assert [text for text, _ in found] == texts
    expected = learned.fitted_.probabilities(texts)
    np.testing.assert_allclose(np.stack([row for _, row in found]), expected, atol=1e-6)
    assert [record.getMessage() for record in caplog.records] == [
        "1 of 42 texts were cut to 6 tokens; the longest has 30."
    ] * 2


def test_the_same_random_state_gives_the_same_classifier(word_file):
    one, same, other = (
        quick(vectors=word_file, random_state=seed).fit(X, Y).predict_proba(X) for seed in (3, 3, 4)
    )
    assert np.array_equal(one, same) and not np.array_equal(one, other)


def test_without_a_random_state_each_fit_draws_a_seed_that_can_be_read_back(word_file, tmp_path):
    drawing = quick(vectors=word_file, random_state=None)
    first = clone(drawing).fit(X, Y)
    assert first.seed_ != clone(drawing).fit(X, Y).seed_ and first.random_state is None
    again = quick(vectors=word_file, random_state=first.seed_).fit(X, Y)
    assert np.array_equal(again.predict_proba(X), first.predict_proba(X))
    assert pickle.loads(pickle.dumps(first)).seed_ == first.seed_ == again.seed_
    seeds = [quick(vectors=word_file, random_state=np.random.RandomState(2)).fit(X, Y) for _ in range(2)]
    assert seeds[0].seed_ == seeds[1].seed_
    seeds[0].save(tmp_path / "model")  # a generator has no JSON: the seed that it gave has
    assert TextClassifier.load(tmp_path / "model").random_state == seeds[0].seed_


# Weights


def test_weights_of_zero_leave_the_wrong_labels_out(word_file):
    flipped = ["neg" if label == "pos" and row % 3 else label for row, label in enumerate(Y)]
    right = np.array([one == other for one, other in zip(Y, flipped, strict=True)], dtype=float)
    table, words = Table(X, flipped, "X", 0), vocabulary_of(X, vectors=word_file)
    for share in (0, 0.5, None):  # the Transformer alone, and with the linear part
        run = vnait.Run(method="none", steps=100, learning_rate=0.03, batch_size=8, bag=share)
        plain, weighted = (
            train.fit(run, table, words, weights=weights).probabilities(X) for weights in (None, right)
        )
        truth = np.array(Y) == "pos"
        assert ((plain[:, 1] > 0.5) == truth).mean() < 0.75
        assert ((weighted[:, 1] > 0.5) == truth).mean() > 0.9


def test_the_weights_of_a_label_move_the_answers_to_it(word_file):
    mixed = X[::2] + X[1::2]
    labels = ["neg", "pos"] * 20  # chance
    for label in ("neg", "pos"):
        classifier = quick(vectors=word_file, class_weight={label: 50}, steps=40, learning_rate=0.03)
        assert set(classifier.fit(mixed, labels).predict(mixed)) == {label}
    rare = [*X[:20:2], *X[1::2]]  # 10 and 20
    balanced = quick(vectors=word_file, class_weight="balanced").fit(rare, ["neg"] * 10 + ["pos"] * 20)
    by_hand = quick(vectors=word_file).fit(rare, ["neg"] * 10 + ["pos"] * 20, [2] * 10 + [1] * 20)
    np.testing.assert_allclose(balanced.predict_proba(X), by_hand.predict_proba(X), atol=1e-6)


def test_equal_weights_are_no_weights(word_file):
    plain = quick(vectors=word_file).fit(X, Y)
    same = quick(vectors=word_file, class_weight={"neg": 3, "pos": 3}).fit(X, Y, [0.5] * 40)
    np.testing.assert_allclose(same.predict_proba(X), plain.predict_proba(X), atol=1e-6)
    assert same.fitted_.record.key != plain.fitted_.record.key


def test_few_rows_may_count(word_file):
    """scikit-learn refuses a fold without weights."""
    some = [1.0, 1.0, *[0.0] * 36, 1.0, 1.0]
    assert quick(vectors=word_file).fit(X, Y, some).predict(X[:2]).shape == (2,)


def test_class_weights_are_saved_with_labels_of_their_own_type(word_file, tmp_path):
    numbers = LABELS["integers"]
    weights = {np.int64(10): 2.0, 2: 1}
    classifier = quick(vectors=word_file, class_weight=weights).fit(X, numbers)
    classifier.save(tmp_path / "model")
    assert TextClassifier.load(tmp_path / "model").class_weight == {10: 2.0, 2: 1}
    assert pickle.loads(pickle.dumps(classifier)).get_params() == classifier.get_params()


@pytest.mark.parametrize(
    ("class_weight", "sample_weight", "message"),
    [
        (None, [1.0] * 39, "sample_weight has shape (39,) for 40 texts"),
        (None, [1.0] * 39 + [-1], "the weight of row 39 is -1.0; give finite numbers of 0 or more"),
        (None, [float("nan")] * 40, "the weight of row 0 is nan"),
        (None, [0] * 40, "every weight is zero"),
        (None, [1e308] * 40, "the weights add up to infinity; divide them"),
        (None, [1, 0] * 20, "all rows with a weight above 0 have one label"),
        (None, ["much"] * 40, "sample_weight is not numbers"),
        ("fair", None, "class_weight is 'fair': "),
        ({"negative": 2}, None, "class_weight is {'negative': 2}: 'negative' is not a label of y, whose"),
        ({0: 2}, None, "class_weight is {0: 2}: 0 is not a label of y, whose"),
    ],
)
def test_wrong_weights_are_one_sentence(class_weight, sample_weight, message, word_file):
    with pytest.raises(InputError) as error:
        quick(vectors=word_file, class_weight=class_weight).fit(X, Y, sample_weight)
    assert message in str(error.value) and "\n" not in str(error.value)


# scikit-learn's tools


def test_parameters_are_got_set_and_cloned(word_file):
    classifier = quick(vectors=word_file, random_state=5)
    parameters = classifier.get_params()
    assert (
        parameters["method"] == "none" and parameters["random_state"] == 5 and parameters["validation"] == 0.2
    )
    assert clone(classifier).get_params() == parameters
    assert classifier.set_params(method="vnait", steps=7) is classifier
    assert classifier.get_params() == {**parameters, "method": "vnait", "steps": 7}
    assert not hasattr(clone(classifier.fit(X, Y)), "classes_")


def test_every_parameter_reaches_the_training(word_file):
    options = {
        "method": "learned",
        "steps": 3,
        "batch_size": 5,
        "learning_rate": 0.5,
        "dropout": 0.4,
        "num_layers": 1,
        "max_length": 3,
        "tune_vectors": True,
        "smoothness": 0.2,
        "boundary": 0.3,
        "validation": 0.4,
        "random_state": 6,
        "threads": 2,
    }
    not_of_the_run = {"vectors", "vector_words", "tokenization", "class_weight"}
    classifier = TextClassifier(**options, vectors=word_file, tokenization="characters")
    assert set(classifier.get_params()) == {*options, *not_of_the_run}
    fitted = classifier.fit(X, Y).fitted_
    expected = {"seed" if name == "random_state" else name: value for name, value in options.items()}
    assert {name: fitted.record.run[name] for name in expected} == expected
    assert fitted.tokenizer.init_kwargs["tokenization"] == "characters"
    assert fitted.record.data["vectors"] == word_file


def test_in_a_pipeline_under_cross_validation_and_a_grid_search(word_file):
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    pipeline = make_pipeline(lower, quick(vectors=word_file))
    assert set(pipeline.fit([text.upper() for text in X], Y).predict(X)) <= {"neg", "pos"}
    scores = cross_val_score(pipeline, X, Y, cv=3)
    assert scores.shape == (3,) and np.isfinite(scores).all()
    search = GridSearchCV(quick(vectors=word_file), {"steps": np.array([2, 4])}, cv=2).fit(X, Y)
    again = pickle.loads(pickle.dumps(search.best_estimator_))  # numpy's numbers among the parameters
    assert again.steps == search.best_params_["steps"]
    assert np.array_equal(again.predict_proba(X), search.predict_proba(X))


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.long)])
def test_a_grid_search_beside_itself_is_as_one_after_the_other(backend):
    search = GridSearchCV(quick(random_state=3), {"steps": [2, 4], "method": ["vnait", "tfidf"]}, cv=2)
    alone = clone(search).fit(X, Y)
    with parallel_config(backend, n_jobs=2):
        beside = clone(search).fit(X, Y)
    assert np.array_equal(beside.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"])
    assert np.array_equal(beside.predict_proba(X), alone.predict_proba(X))


def test_a_grid_search_chooses_the_penalties(word_file):
    given = quick(vectors=word_file, method="vnait-warp")
    search = GridSearchCV(given, {"smoothness": [0.0, 1.0], "boundary": [0.5]}, cv=2).fit(X, Y)
    chosen = search.best_estimator_
    config = chosen.fitted_.model.config
    assert (config.smoothness, config.boundary) == (search.best_params_["smoothness"], 0.5)


# Saved, pickled, loaded


def test_a_pickle_gives_equal_probabilities(learned):
    again = pickle.loads(pickle.dumps(learned))
    assert np.array_equal(again.predict_proba(X), learned.predict_proba(X))
    assert again.get_params() == learned.get_params()
    assert np.array_equal(copy.deepcopy(learned).predict_proba(X), learned.predict_proba(X))


class AtThreshold(TextClassifier):
    """As a user extends it: with a parameter and a learned attribute of its own."""

    def __init__(self, method="none", *, recall=0.9, steps=3):
        super().__init__(method, steps=steps)
        self.recall = recall

    def fit(self, X, y, **options):
        super().fit(X, y, **options)
        self.threshold_ = float(np.quantile(self.predict_proba(X)[:, 1], 1 - self.recall))
        return self

    def predict(self, X):
        return self.classes_[(self.predict_proba(X)[:, 1] >= self.threshold_).astype(int)]


def again(estimator, how):
    return copy.deepcopy(estimator) if how == "deepcopy" else pickle.loads(pickle.dumps(estimator))


@pytest.mark.parametrize("how", ["pickle", "deepcopy"])
@pytest.mark.parametrize("kind", [TextClassifier, AtThreshold, vnait.TextRegressor])
def test_a_copy_has_every_attribute(kind, how):
    y = np.arange(40) / 8 if kind is vnait.TextRegressor else [label == "pos" for label in Y]
    fitted = kind("none", steps=3).fit(X, y)
    fitted.note_ = {"rows": ("May", 40)}
    other = again(fitted, how)
    assert vars(other).keys() == vars(fitted).keys()
    assert other.note_ == fitted.note_ and other.get_params() == fitted.get_params()
    assert np.array_equal(other.predict(X), fitted.predict(X))
    if kind is AtThreshold:
        assert other.threshold_ == fitted.threshold_


def test_a_copy_of_a_copy_and_one_of_an_estimator_with_objects():
    """A parameter that JSON has no form for; the state of its generator is copied, too."""
    fitted = TextClassifier("none", steps=2, random_state=np.random.RandomState(3)).fit(X, Y)
    other = again(again(fitted, "pickle"), "deepcopy")
    assert isinstance(other.random_state, np.random.RandomState) and other.seed_ == fitted.seed_
    assert clone(other).fit(X, Y).seed_ == clone(fitted).fit(X, Y).seed_ != fitted.seed_


@pytest.mark.long
def test_an_extension_is_cloned_and_searched_in_processes():
    search = GridSearchCV(AtThreshold("none", steps=2), {"recall": [0.5, 0.9]}, cv=2, n_jobs=2).fit(X, Y)
    assert search.best_estimator_.threshold_ == again(search.best_estimator_, "pickle").threshold_
    assert clone(AtThreshold(recall=0.7)).recall == 0.7


def test_a_pickle_holds_the_models_own_files_and_no_tensor(learned, tmp_path):
    written = pickle.dumps(learned)
    named = {argument for code, argument, _ in pickletools.genops(written) if isinstance(argument, str)}
    assert not any("torch" in name or name.startswith("numpy") for name in named)
    assert {"model.safetensors", "config.json", "tokenizer.json"} <= named
    learned.save(tmp_path / "model")
    assert (tmp_path / "model/model.safetensors").read_bytes() in written


def test_a_pickle_keeps_what_it_asks_of_scikit_learns_routing(word_file):
    with config_context(enable_metadata_routing=True):
        asking = quick(vectors=word_file).set_fit_request(sample_weight=True).fit(X, Y)
        again = pickle.loads(pickle.dumps(asking))
        assert again.get_metadata_routing().fit.requests == {"callback": None, "sample_weight": True}


def test_an_unfitted_one_can_be_pickled_too():
    again = pickle.loads(pickle.dumps(quick()))
    assert again.get_params() == quick().get_params()
    with pytest.raises(NotFittedError):
        again.predict(["a"])


def test_saved_and_loaded_it_answers_the_same(learned, tmp_path):
    learned.save(tmp_path / "model")
    again = TextClassifier.load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(X), learned.predict_proba(X))
    assert again.get_params() == learned.get_params()
    assert again.score(X, Y) == learned.score(X, Y)


def test_a_path_as_vectors_is_saved_by_its_name(word_file, tmp_path):
    from pathlib import Path

    quick(vectors=Path(word_file)).fit(X, Y).save(tmp_path / "model")
    assert TextClassifier.load(tmp_path / "model").vectors == word_file


def test_a_model_of_the_command_line_loads_too(learned, tmp_path):
    learned.fitted_.save(tmp_path / "model")
    again = TextClassifier.load(tmp_path / "model")
    assert again.method == "vnait" and again.classes_.tolist() == ["neg", "pos"]
    assert np.array_equal(again.predict_proba(X), learned.predict_proba(X))


def test_a_model_of_the_command_line_can_be_trained_again_from_its_parameters(tmp_path):
    first = quick(tokenization="characters", max_length=7, num_layers=1, random_state=5).fit(X, Y)
    first.fitted_.save(tmp_path / "model")
    again = TextClassifier.load(tmp_path / "model")
    assert again.get_params() == first.get_params()
    assert np.array_equal(clone(again).fit(X, Y).predict_proba(X), first.predict_proba(X))


@pytest.mark.parametrize("damage", ["notes", "weights", "settings", "words", "other words"])
def test_a_damaged_folder_is_refused_in_one_sentence(damage, learned, tmp_path):
    folder = tmp_path / "model"
    learned.save(folder)
    name = {
        "notes": "estimator.json",
        "weights": "model.safetensors",
        "settings": "config.json",
        "words": "tokenizer.json",
        "other words": "tokenizer.json",
    }[damage]
    content = (folder / name).read_text(errors="surrogateescape")
    if damage == "other words":
        settings = json.loads(content)
        settings["model"]["vocab"].popitem()
        (folder / name).write_text(json.dumps(settings))
    else:
        (folder / name).write_bytes((folder / name).read_bytes()[: len(content) // 2])
    with pytest.raises(InputError, match="is damaged") as error:
        TextClassifier.load(folder)
    assert "\n" not in str(error.value)


def test_the_pipeline_of_transformers_agrees(learned, tmp_path):
    import transformers

    learned.save(tmp_path / "model")
    pipe = transformers.pipeline("text-classification", model=str(tmp_path / "model"), top_k=None)
    for text, probabilities in zip(X[:4], learned.predict_proba(X[:4]), strict=True):
        found = {answer["label"]: answer["score"] for answer in pipe([text])[0]}
        assert found == pytest.approx(dict(zip(["neg", "pos"], probabilities, strict=True)), abs=1e-5)
    assert [answer[0]["label"] for answer in pipe(X)] == learned.predict(X).tolist()


@pytest.mark.parametrize("texts", [["", "good"], ["dull", " ", "\u200b"], [""], ["\ufeff", ""]], ids=ascii)
@pytest.mark.parametrize("size", [1, 3])
def test_an_empty_text_in_a_pipeline_gets_the_answer_of_predict(texts, size, learned, tmp_path):
    import transformers

    learned.save(tmp_path / "model")
    pipe = transformers.pipeline("text-classification", model=str(tmp_path / "model"), top_k=None)
    answers = [{row["label"]: row["score"] for row in rows} for rows in pipe(texts, batch_size=size)]
    expected = learned.predict_proba(texts)
    for answer, row in zip(answers, expected, strict=True):
        assert [answer[name] for name in learned.classes_] == pytest.approx(row.tolist(), abs=1e-6)


@pytest.mark.long
def test_the_pipeline_of_transformers_agrees_in_a_fresh_process(learned, tmp_path):
    learned.save(tmp_path / "model")
    script = (
        "import sys\nimport vnait\nimport transformers\n"
        "pipe = transformers.pipeline('text-classification', model=sys.argv[1])\n"
        "print(type(pipe.model).__name__, *[answer['label'] for answer in pipe(sys.argv[2:])])"
    )
    printed = python(script, tmp_path / "model", *X[:6], HF_HUB_OFFLINE="1")
    assert printed.split() == ["VnaitForSequenceClassification", *learned.predict(X[:6])]


def test_explain_shows_what_the_model_reads(learned):
    found = learned.explain("a good zyx film")
    assert found.tokens == ["a", "good", "zyx", "film"] and found.known == [True, True, False, True]
    assert found.coordinates[-1] == pytest.approx(100) and sum(found.gaps) == pytest.approx(100)
    assert all(gap > 0 for gap in found.gaps)
    assert found.label == learned.predict(["a good zyx film"])[0]
    assert found.probability == pytest.approx(learned.predict_proba(["a good zyx film"]).max())
    assert found.method == "vnait" and found.formula == vnait.METHODS["vnait"].formula
    assert found.enters == [
        "joins the semantic vectors in the input layer",
        "rotates queries and keys",
        "multiplies the attention scores",
    ]
    assert found.parameters == vnait.positions.building.parameters(learned.fitted_.model.model.method)


def test_explain_takes_a_classifier_or_the_model_in_it(learned):
    text = "a good film"
    assert vnait.explain(learned, text) == vnait.explain(learned.fitted_, text) == learned.explain(text)
    simple = TextClassifier("tfidf").fit(X, Y)
    for wrong in (simple, TextClassifier(), "model"):
        with pytest.raises(InputError, match="takes a fitted TextClassifier with a Transformer"):
            vnait.explain(wrong, text)


def test_explain_cuts_where_the_model_cuts(word_file):
    fitted = quick(vectors=word_file, method="sinusoidal", max_length=3).fit(X, Y)
    found = fitted.explain("a good film a film")
    with pytest.raises(InputError, match="explain takes one text, not a list"):
        fitted.explain(["a good film"])
    assert found.tokens == ["a", "good", "film"] and found.coordinates == [0, 1, 2]


# What a person can do wrong


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X, None, "requires y to be passed, but the target y is None"),
        (X, Y[:-1], "y has shape (39,) for 40 texts"),
        (X, [Y], "y has shape (1, 40) for 40 texts"),
        (X, ["neg"] * 40, "y has one class only (neg)"),
        (X, [*Y[:-2], None, None], "y has no label at row 38 (2 in all)"),
        (X, [*Y[:-1], float("nan")], "y has no label at row 39 (1 in all)"),
        (X, np.array([1.0, np.nan] * 20), "y has no label at row 1 (20 in all)"),
        (X, pd.Series([*Y[:-1], pd.NA], dtype="string"), "y has no label at row 39 (1 in all)"),
        (X, [*Y[:-1], "rare"], "class 'rare' has 1 row"),
        (X, [{"a"}, {"b"}] * 20, "y has labels of the type set; give a matrix of 0 and 1, such as Multi"),
        (X, np.array(["2021-01-01", "2021-01-02"] * 20, "M8[ns]"), "labels of the type datetime64; give"),
        (X, [b"bad", b"good"] * 20, "y has labels of the type bytes; give strings or numbers"),
        (X, np.array(Y)[:, None], "y has shape (40, 1); give its column: y.ravel()"),
        (X, sparse.csr_array(np.eye(40)), "y is a sparse matrix; give an array: y.toarray()"),
        ([["a", ["b", "c"]]] * 40, Y, "X[0] is list, not two strings"),
        (X, np.array([1, "1"] * 20, dtype=object), "y mixes labels that have no order (int and str)"),
        ([*X[:-1], "half \ud83d"], Y, "contains a lone surrogate"),
        (X, ["half \ud83d", *Y[1:]], "contains a lone surrogate"),
        (X, [1.0, 2.5] * 20, "y has fractions, such as 2.5, and classes have none; take TextRegressor"),
        (X, [["a"], *[["a", "b"]] * 39], "y is neither labels nor a matrix of them"),
        ("a text", ["a"], "X is one string"),
        ([], [], "X is empty"),
        ([*X[:-1], 3], Y, "X[39] is int, not a string"),
        ([*X[:-1], None], Y, "X[39] is NoneType, not a string"),
        (pd.DataFrame({"text": X}), Y, "X has the shape (40, 1); give the texts alone"),
    ],
)
def test_wrong_input_is_one_sentence_and_fits_nothing(x, y, message, word_file):
    classifier = quick(vectors=word_file)
    with pytest.raises(InputError) as error:
        classifier.fit(x, y)
    assert message in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(NotFittedError):
        classifier.predict(X)


def test_wrong_parameters_are_said_when_it_is_fitted():
    with pytest.raises(InputError, match=r"method 'nope' is not known.*; batch_size is 0"):
        quick(method="nope", batch_size=0).fit(X, Y)
    with pytest.raises(InputError, match="seed is -1: it must be a whole number"):
        quick(random_state=-1).fit(X, Y)
    with pytest.raises(InputError, match=r"steps is '20': it must be 1 or more, and whole"):
        quick(steps="20").fit(X, Y)
    with pytest.raises(InputError, match=r"method is None: it must be a name; threads is True: it must be 1"):
        quick(method=None, threads=True).fit(X, Y)


@pytest.mark.parametrize(
    ("method", "given", "message"),
    [
        ("vnait", {"smoothness": 0.0}, "vnait has no learned span, which smoothness and boundary regularize"),
        ("vnait-warp", {"boundary": 1.0}, "the coordinates of vnait-warp have hard bounds"),
        ("vnait-warp", {"smoothness": 1.0}, ""),
        ("vnait", {}, ""),
    ],
)
def test_a_penalty_that_does_nothing_is_logged(method, given, message, word_file, caplog):
    quick(method=method, vectors=word_file, **given).fit(X, Y)
    found = [record.message for record in caplog.records if "leave" in record.message]
    assert found[0].startswith(message) if message else not found


@pytest.mark.parametrize("call", ["predict", "predict_proba", "explain", "save", "score"])
def test_before_fit_every_method_raises_not_fitted(call):
    with pytest.raises(NotFittedError):
        getattr(quick(), call)(*((X, Y) if call == "score" else ("a text",)))


# scikit-learn's own checks. They make matrices of numbers, so each row is written as a text, one word per
# cell; what the checks then ask of the estimator (parameters, fitting, answers, order, pickles,
# state) they ask of TextClassifier itself.


def written(matrix) -> list[str]:
    rows = np.asarray(matrix, dtype=float)
    return [
        " ".join(f"x{column}{'n' if cell < 0 else 'p'}{abs(round(cell))}" for column, cell in enumerate(row))
        for row in rows
    ]


class OfMatrices:
    """Before an estimator of texts: it is fitted to numbers, as scikit-learn's checks have them."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(written(X), y, sample_weight)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.one_d_array, tags.input_tags.string = True, False, False
        return tags


class Written(OfMatrices, TextClassifier):
    def predict_proba(self, X):
        return super().predict_proba(written(X))


NOT_FOR_TEXTS = {
    "check_estimator_sparse_tag": "a text is no matrix, so it can't be a sparse one",
    "check_estimator_sparse_array": "a text is no matrix, so it can't be a sparse one",
    "check_estimator_sparse_matrix": "a text is no matrix, so it can't be a sparse one",
    "check_methods_subset_invariance": "asks for 1e-7: float32 rounds differently in a batch of other size; "
    "held to 1e-5 above",
    "check_sample_weight_equivalence_on_dense_data": "repeated rows are drawn in other batches, as in "
    "scikit-learn's own SGDClassifier",
    # Never asked, for the tag no_validation says that X is not checked as a matrix:
    "check_n_features_in": "a text has no number of features",
    "check_n_features_in_after_fitting": "a text has no number of features",
    "check_fit1d": "texts are one-dimensional",
    "check_fit2d_predict1d": "texts are one-dimensional",
    "check_array_api_input": "strings are in no array API (skipped, unless SCIPY_ARRAY_API is set)",
}


def checks_passed(estimator) -> list[str]:
    """The names of scikit-learn's checks; none fails that applies to texts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = estimator_checks.check_estimator(
            estimator, on_fail=None, on_skip=None, expected_failed_checks=NOT_FOR_TEXTS
        )
    failed = {
        result["check_name"]: repr(result["exception"]) for result in results if result["status"] == "failed"
    }
    assert failed == {}
    return [result["check_name"] for result in results if result["status"] == "passed"]


@pytest.mark.slow
def test_scikit_learns_checks_pass_where_they_apply_to_texts():
    passed = checks_passed(Written(**QUICK, learning_rate=0.03))
    assert len(passed) >= 35
    assert {
        "check_estimators_unfitted",
        "check_estimators_pickle",
        "check_dict_unchanged",
        "check_fit_idempotent",
        "check_dont_overwrite_parameters",
        "check_classifiers_train",
        "check_classifiers_classes",
        "check_classifiers_one_label",
        "check_methods_sample_order_invariance",
        "check_fit2d_1sample",
        "check_pipeline_consistency",
        "check_parameters_default_constructible",
    } <= set(passed)


def test_the_checks_that_no_validation_leaves_out_and_texts_can_answer():
    estimator_checks.check_requires_y_none("Written", Written(**QUICK))


def test_the_tags_say_that_it_reads_strings():
    from sklearn.utils import get_tags

    tags = get_tags(TextClassifier())
    assert tags.input_tags.string and tags.input_tags.one_d_array and not tags.input_tags.two_d_array
    assert tags.estimator_type == "classifier" and tags.target_tags.required


def test_a_class_whose_rows_weigh_nothing_is_learned_as_absent():
    texts, labels = [f"{word} film" for word in ("warm", "dull", "loud") * 12], ["a", "b", "c"] * 12
    learned = TextClassifier("none", steps=20, class_weight={"c": 0}).fit(texts, labels)
    assert list(learned.classes_) == ["a", "b", "c"]
    assert "c" not in learned.predict(["warm film", "dull film", "loud film"])


def test_a_class_with_one_row_needs_all_rows_for_training():
    texts, labels = [f"{word} film" for word in ("warm", "dull") * 12], ["a", "b"] * 12
    with pytest.raises(InputError, match=r"needs 2 rows .* In Python, validation=0 holds out no rows"):
        TextClassifier("none", steps=2).fit([*texts, "odd"], [*labels, "c"])
