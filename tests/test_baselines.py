"""Baselines as models: saved without pickle, loaded equal, explained exactly; and a pretrained base beside
them.
"""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from test_comparison import RUN, small, texts_of
from test_finetune import saved_base
from vnait.data import Table, encode, split
from vnait.data import vocabulary as vocabulary
from vnait.shared.errors import InputError
from vnait.train import baselines, predict
from vnait.train.baselines import BASELINES, BY_TASK, FROZEN_BASE, STANDARDIZED, UNIT_ROWS, fit_baseline
from vnait.train.features import Terms
from vnait.train.predict import load
from vnait.train.replacing import check_replaceable
from vnait.train.run import SIMPLE_OF

ASKED = ["a good film", "dull dull plot", "zebra", ""]


@pytest.fixture(scope="module")
def table():
    return texts_of(("neg", "pos", "mix"), rows=60)


@pytest.fixture(scope="module")
def words(table):
    return vocabulary.learn(table.texts, dim=8)


@pytest.mark.parametrize("name", BASELINES)
def test_saved_and_loaded_it_answers_the_same(name, table, words, tmp_path):
    model = fit_baseline(name, table, table, words, tokenization="words", seed=0)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_allclose(again.probabilities(ASKED), model.probabilities(ASKED), atol=1e-12)
    assert again.classes == model.classes and again.record == model.record
    assert not list((tmp_path / "model").glob("*.p*kl"))


def test_averaged_vectors_are_those_of_scikit_learn(table, words):
    model = fit_baseline("averaged", table, table, words, tokenization="words", seed=0)
    means = np.stack(
        [words.table[row].mean(0) for row in encode(words.tokenizer, table.texts, max_length=99)]
    )
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    head = GridSearchCV(LogisticRegression(max_iter=2000), {"C": STANDARDIZED}, cv=folds)
    reference = make_pipeline(StandardScaler(), head).fit(means, table.labels)
    np.testing.assert_allclose(model.probabilities(table.texts), reference.predict_proba(means), atol=1e-6)


@pytest.mark.parametrize("class_weight", ["balanced", {"mix": 5.0}])
def test_class_weights_are_those_of_scikit_learn(class_weight):
    rare = texts_of(("neg", "pos", "neg", "mix"), rows=80)
    model = fit_baseline("one-hot", rare, tokenization="words", seed=0, class_weight=class_weight)
    C = GridSearchCV(
        LogisticRegression(max_iter=2000),
        {"C": UNIT_ROWS},
        cv=StratifiedKFold(5, shuffle=True, random_state=0),
        refit=False,
    ).fit(model.features(rare.texts), rare.labels)
    expected = LogisticRegression(max_iter=2000, class_weight=class_weight, **C.best_params_)
    expected.fit(model.features(rare.texts), rare.labels)
    assert np.allclose(model.weights, expected.coef_.T) and model.record.run["class_weight"] == class_weight
    alone = fit_baseline("one-hot", rare, tokenization="words", seed=0)
    assert "class_weight" not in alone.record.run and alone.record.key != model.record.key


def test_no_fold_that_chooses_c_divides_a_group(monkeypatch):
    table = replace(texts_of(rows=60), groups=[str(row // 6) for row in range(60)])
    divided = []

    class Search(GridSearchCV):
        def fit(self, X, y, groups=None):
            for train, test in self.cv.split(X, y, groups):
                divided.append({table.groups[row] for row in train} & {table.groups[row] for row in test})
            return super().fit(X, y, groups=groups)

    monkeypatch.setattr(baselines, "GridSearchCV", Search)
    fit_baseline("one-hot", table, tokenization="words", seed=0)
    numbers = replace(table, task="regression", labels=list(map(str, range(60))))
    fit_baseline("one-hot", numbers, tokenization="words", seed=0)
    assert divided == [set()] * 10


def test_validation_scores_are_of_rows_not_learned_from(table, words):
    model = fit_baseline("tfidf", table, table, words, tokenization="words", seed=3, validation=0.2)
    rows, held = split(table.labels, holdout=0.2, seed=3)
    part = fit_baseline("tfidf", table.select(rows), table.select(held), words, tokenization="words", seed=3)
    assert model.record.metrics["validation_accuracy"] == part.record.metrics["accuracy"]
    assert model.record.data["rows"] == len(table)


@pytest.mark.parametrize("name", BASELINES)
def test_terms_and_bias_sum_to_the_logit(name, table, words):
    model = fit_baseline(name, table, table, words, tokenization="words", seed=0)
    facts = model.explain("a good film")
    logits = model.logits(["a good film"])[0]
    expected = logits[model.classes.index(facts["label"])] - logits.mean()
    assert sum(facts["terms"].values()) + facts["bias"] == pytest.approx(expected)


@pytest.mark.parametrize("name", ["one-hot", "averaged"])
def test_what_tokens_add_is_what_their_terms_add(name, table, words):
    model = fit_baseline(name, table, table, words, tokenization="words", seed=0)
    text = "a good film plot a zyx film"
    facts = model.explain(text)
    assert facts["tokens"] == text.split()
    assert sum(facts["attribution"]) == pytest.approx(sum(facts["terms"].values()))
    if name == "averaged":
        assert facts["attribution"][0] == pytest.approx(facts["terms"]["a"] / 2)  # of both
        assert facts["attribution"][5] == pytest.approx(facts["terms"]["[UNK]"])
    else:
        shares = {"1=a": 1, "-7=a": 1, "1=a good": 2, "-7=a good": 2}
        expected = sum(facts["terms"].get(term, 0) / share for term, share in shares.items())
        assert facts["attribution"][0] == pytest.approx(expected)


def test_a_token_of_tfidf_adds_how_far_the_logit_falls_without_it(table, words):
    model = fit_baseline("tfidf", table, table, words, tokenization="words", seed=0)
    rival = min(set(model.classes) - {model.explain("A good film!")["answer"]})
    facts = model.explain("A good film!", rival)
    assert facts["tokens"] == ["A", "good", "film", "!"] and facts["label"] == rival != facts["answer"]

    def logit(text):
        logits = model.logits([text])[0]
        return logits[model.classes.index(rival)] - logits.mean()

    falls = [
        logit("A good film!") - logit(text) for text in (" good film!", "A  film!", "A good !", "A good film")
    ]
    assert facts["attribution"] == pytest.approx(falls)
    with pytest.raises(InputError, match="no class 'nobody'; give one of"):
        model.explain("A good film!", "nobody")


@pytest.mark.parametrize(
    ("name", "content"),
    [("baseline.json", "{}"), ("baseline.json", "no json"), ("model.safetensors", "no tensors")],
)
def test_a_damaged_folder_is_one_sentence(name, content, table, words, tmp_path):
    fit_baseline("tfidf", table, table, words, tokenization="words", seed=0).save(tmp_path / "model")
    (tmp_path / "model" / name).write_text(content)
    with pytest.raises(InputError, match="is damaged: "):
        load(tmp_path / "model")


def test_a_baseline_and_a_transformer_may_replace_each_other_and_nothing_else(table, words, tmp_path):
    model = fit_baseline("tfidf", table, table, words, tokenization="words", seed=0)
    model.save(tmp_path / "model")
    check_replaceable(tmp_path / "model")
    (tmp_path / "model" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"other files in it \(thesis.tex\)"):
        model.save(tmp_path / "model")
    assert (tmp_path / "model" / "thesis.tex").read_text() == "years of work"
    with pytest.raises(InputError, match="needs a Transformer"):
        predict.load_transformer(model_in(tmp_path / "other", model))


@pytest.mark.parametrize(("rows", "classes"), [(1_001, 2), (1_019, 20), (2_500, 1_200), (3_000, 3)])
def test_the_rows_that_choose_fit_any_number_of_rows_and_classes(rows, classes):
    labels = np.arange(rows) % classes
    choosing = baselines._choosing(labels, classifies=True)
    assert len(set(choosing)) == 1_000
    if (rows, classes) == (3_000, 3):  # each class with its share
        assert set(np.bincount(labels[choosing])) <= {333, 334}


def test_a_class_of_two_groups_has_two_folds():
    labels = np.repeat([0, 1], 10)
    groups = [*"abcdefghij", *"kkkkklllll"]
    matrix = np.eye(20)
    head = baselines.fitted(LogisticRegression(), "C", (0.1, 1.0, 10.0), matrix, labels, groups=groups)
    assert head.C in (0.1, 1.0, 10.0)  # no fold lacks a class, which scikit-learn warns of


def test_frozen_embeddings_of_texts_do_not_tag_words():
    table = Table(["a film"], ["DET NOUN"], "t.conllu", 0, task="tagging")
    with pytest.raises(InputError, match="are of whole texts, and tags are of words"):
        fit_baseline(FROZEN_BASE, table, tokenization="words", seed=0)


def model_in(folder, model):
    model.save(folder)
    return folder


def test_beside_a_base_it_is_compared_frozen_fine_tuned_and_attached(words_file, tmp_path):
    base = saved_base(tmp_path / "base")
    found = small(
        words_file,
        tmp_path / "out",
        methods=("none", "base:vnait"),
        base=str(base),
        run=replace(RUN, max_length=16),
    )
    assert [row["method"] for row in found.rows] == [
        *BASELINES,
        FROZEN_BASE,
        "none",
        "base:vnait",
        "base:own",
    ]
    assert all("validation_accuracy" in record.metrics for record in found.records)
    model = load(tmp_path / "out" / "model")
    assert model.probabilities(ASKED).shape == (4, 2)


def test_the_frozen_base_is_saved_with_it(words_file, tmp_path, monkeypatch):
    base = saved_base(tmp_path / "base")
    monkeypatch.setattr("vnait.results.results.Results.best", FROZEN_BASE)
    small(words_file, tmp_path / "out", base=str(base), run=replace(RUN, max_length=16))
    model = load(tmp_path / "out" / "model")
    assert model.name == FROZEN_BASE and model.probabilities(ASKED).shape == (4, 2)
    np.testing.assert_allclose(np.linalg.norm(model.features(ASKED), axis=1), 1, atol=1e-5)
    with pytest.raises(InputError, match="no terms to list"):
        model.explain("a good film")


@pytest.mark.parametrize(
    ("methods", "message"),
    [(("base:vnait",), "needs a pretrained base"), (("base:vnat",), r"is not known. Did you mean 'vnait'\?")],
)
def test_a_method_of_a_base_needs_one(methods, message, words_file, tmp_path):
    base = str(saved_base(tmp_path / "base")) if "known" in message else None
    with pytest.raises(InputError, match=message):
        small(words_file, tmp_path / "out", methods=methods, base=base)


@pytest.fixture(scope="module")
def words_file(tmp_path_factory):
    from test_comparison import word_file

    return word_file(tmp_path_factory.mktemp("vectors"))


def test_the_names_that_the_command_line_knows_are_those_that_are_fitted():
    assert {task: tuple(models) for task, models in BY_TASK.items()} == SIMPLE_OF


@pytest.mark.parametrize(
    ("texts", "wrong"),
    [([" ", "\u200b"] * 9, "have no word;"), ([f"w{n}" for n in range(1000)], "that two of them have")],
)
def test_texts_without_words_are_refused(texts, wrong):
    with pytest.raises(InputError, match=wrong):
        Terms.fit("words", "words", texts)
