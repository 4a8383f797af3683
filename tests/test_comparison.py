"""Comparisons: paired on identical splits, the same however they run, and no word more than the records
allow.
"""

import contextlib
import json
import logging
import random
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_union
from threadpoolctl import threadpool_info

from helpers import forkserver, record, save_vectors
from test_plugins import FILE
from vnait.comparison import trainings as module
from vnait.comparison.compare import Comparison, compare
from vnait.comparison.plan import Plan, Training, _stamp
from vnait.data import Table, split, vectors
from vnait.positions import methods, plugins
from vnait.results.record import Record, read
from vnait.shared.errors import InputError
from vnait.shared.processes import one_thread
from vnait.shared.statistics import UNIT, interval
from vnait.train.baselines import BASELINES
from vnait.train.predict import load
from vnait.train.run import Run

RUN = Run(steps=4, eval_every=2, batch_size=8, bag=0.3)  # a set share spares its estimate by folds
METHODS = ("none", "vnait")
WORDS = {"neg": ["bad", "dull", "poor"], "pos": ["good", "fine", "warm"], "mix": ["odd", "even", "mid"]}


def texts_of(classes=("neg", "pos"), rows=48, seed=0, name="made.csv") -> Table:
    rng = random.Random(seed)
    labels = [classes[row % len(classes)] for row in range(rows)]
    told_by = [
        [*rng.choices(WORDS[label], k=2), *rng.choices(["a", "film", "plot", "cast"], k=4)]
        for label in labels
    ]
    return Table(texts=[" ".join(words) for words in told_by], labels=labels, name=name, dropped=0)


def word_file(folder: Path) -> str:
    words = ["a", "film", "plot", "cast", *(word for told_by in WORDS.values() for word in told_by)]
    return save_vectors(folder / "words.bin", words)


@pytest.fixture(scope="module")
def words(tmp_path_factory) -> str:
    return word_file(tmp_path_factory.mktemp("vectors"))


@pytest.fixture(scope="module")
def found(tmp_path_factory, words) -> Comparison:
    out = tmp_path_factory.mktemp("found")
    return compare(
        texts_of(), methods=METHODS, shots=(6, "all"), seeds=3, vectors=words, run=RUN, out=out, jobs=1
    )


def small(words, out, data=None, **options):
    given = {"methods": ("none",), "seeds": 1, "vectors": words, "run": RUN, "jobs": 1, **options}
    return compare(texts_of() if data is None else data, out=out, **given)


def without_times(record: Record) -> Record:
    """What a training gave, without what is of the moment: the commit, too, which may change while the tests
    run.
    """
    metrics = {name: value for name, value in record.metrics.items() if name != "ms_per_text"}
    return replace(record, seconds=0.0, peak_memory=0.0, commit=None, metrics=metrics)


# What comes out


def test_rows_have_the_documented_keys_and_are_the_means_of_their_records(found):
    assert [(row["method"], row["shots"]) for row in found.rows] == [
        (method, shots) for shots in (6, "all") for method in (*BASELINES, *METHODS)
    ]
    keys = {
        "method",
        "shots",
        "metric",
        "mean",
        "ci_low",
        "ci_high",
        "alone",
        "seeds",
        "parameters",
        "seconds",
        "ms_per_text",
    }
    for row in found.rows:
        assert set(row) == keys
        own = [r for r in found.records if r.method == row["method"] and r.data["shots"] == row["shots"]]
        assert len(own) == row["seeds"] == 3 and row["metric"] == "accuracy"
        accuracies = [record.metrics["accuracy"] for record in own]
        mean, *bounds = interval(accuracies, within=UNIT)
        if len(set(accuracies)) == 1:  # equal scores don't make the mean exact
            bounds = [None, None]
        assert (row["mean"], row["ci_low"], row["ci_high"]) == pytest.approx((mean, *bounds))
        assert row["parameters"] == own[0].parameters > 0
        assert row["seconds"] == pytest.approx(np.mean([record.seconds for record in own]))


def test_paired_has_the_documented_keys_and_pairs_by_seed(found):
    assert [(row["method"], row["shots"]) for row in found.paired] == [
        (method, shots) for shots in (6, "all") for method in (*BASELINES, "none")
    ]
    accuracy = {(r.method, r.data["shots"], r.seed): r.metrics["accuracy"] for r in found.records}
    for row in found.paired:
        assert set(row) == {"method", "against", "shots", "seeds", "difference", "ci_low", "ci_high"}
        assert row["against"] == found.reference == "vnait"
        differences = [
            accuracy[row["method"], row["shots"], seed] - accuracy["vnait", row["shots"], seed]
            for seed in range(3)
        ]
        assert (row["difference"], row["ci_low"], row["ci_high"]) == pytest.approx(interval(differences))


def test_the_table_is_the_rows_and_the_records_are_in_the_file(found):
    assert found.table["method"].tolist() == [row["method"] for row in found.rows]
    assert {record.key: record for record in read(found.path)} == {
        record.key: record for record in found.records
    }
    assert len(found.records) == 3 * 2 * (len(BASELINES) + len(METHODS))


def test_another_reference_turns_the_pairs_around(found):
    turned = replace(found, reference="none")
    own = next(row for row in found.paired if row["method"] == "none")
    other = next(row for row in turned.paired if row["method"] == "vnait")
    assert other["difference"] == pytest.approx(-own["difference"]) and other["against"] == "none"


def test_the_winner_is_saved_and_has_not_seen_the_first_seeds_test_rows(found):
    folder = found.path.parent / "model"
    record = json.loads((folder / "record.json").read_text())
    learned, tested = found.plan.split(0)
    assert record["method"] == found.best
    assert record["data"]["fingerprint"] == learned.fingerprint
    assert record["data"]["test_fingerprint"] == tested.fingerprint
    assert len(learned) + len(tested) == 48


# Splits


def test_all_methods_learn_from_the_same_rows_and_are_tested_on_the_same(words, tmp_path, monkeypatch):
    seen: dict[tuple, set] = {}
    fit, baseline = module.train.fit, module.fit_baseline

    def note(method, table, test):
        key = (len(table), table.fingerprint, test.fingerprint)
        seen.setdefault(key, set()).add(method)

    def watched_fit(run, table, vocabulary, *, test):
        note(run.method, table, test)
        return fit(run, table, vocabulary, test=test)

    def watched_baseline(name, table, test, vocabulary, **options):
        note(name, table, test)
        return baseline(name, table, test, vocabulary, **options)

    monkeypatch.setattr(module.train, "fit", watched_fit)
    monkeypatch.setattr(module, "fit_baseline", watched_baseline)
    small(words, tmp_path, methods=METHODS, seeds=2, shots=(5, "all"))
    assert len(seen) == 4  # two seeds, each at two numbers of shots
    assert sorted(size for size, _, _ in seen) == [10, 10, 34, 34]
    assert all(methods == {*BASELINES, *METHODS} for methods in seen.values())


def plan_of(**options) -> Plan:
    given = {
        "table": texts_of(),
        "test": None,
        "methods": METHODS,
        "shots": ("all",),
        "seeds": (0, 1, 2),
        "run": RUN,
        "vectors": None,
        "tokenization": "words",
        **options,
    }
    return Plan(**given)


def test_test_rows_are_held_out_by_each_seed_and_few_shots_come_from_the_rest():
    table = texts_of()
    table = replace(table, texts=[f"{text} {row}" for row, text in enumerate(table.texts)])  # each text once
    plan = plan_of(table=table)
    tests = []
    for seed in range(3):
        everything, test = plan.rows("all", seed)
        few, same = plan.rows(4, seed)
        assert test.texts == same.texts and len(test) == 14
        assert not set(everything.texts) & set(test.texts) and set(few.texts) <= set(everything.texts)
        assert sorted(few.labels) == ["neg"] * 4 + ["pos"] * 4
        tests.append(frozenset(test.texts))
    assert len(set(tests)) == 3


def test_class_weights_reach_every_model_and_its_key():
    plain, balanced = (plan_of(run=replace(RUN, class_weight=weight)) for weight in (None, "balanced"))
    assert all(plain.key(training) != balanced.key(training) for training in plain.trainings())
    assert plain.key(plain.trainings()[0]) == plan_of().key(plain.trainings()[0])
    with pytest.raises(InputError, match="class_weight names 'good', which is no label of"):
        plan_of(run=replace(RUN, class_weight={"good": 2}))


def test_labels_of_a_test_file_are_merged_into_those_of_training(tmp_path, monkeypatch):
    head = "text,label\n"
    (tmp_path / "train.csv").write_text(head + "a warm film,pos\na fine film,pos\na dull film,neg\nbad,neg\n")
    (tmp_path / "test.csv").write_text(head + "warm,Pos\nfine,Pos\ngood,pos\ndull,neg\n")
    seen = []

    def stop(plan, *_, **__):
        seen.append(plan)
        raise InterruptedError

    monkeypatch.setattr("vnait.comparison.compare.run_plan", stop)
    with pytest.raises(InterruptedError):
        compare(
            str(tmp_path / "train.csv"),
            test=str(tmp_path / "test.csv"),
            merge_labels=True,
            out=tmp_path / "out",
        )
    assert seen[0].test.labels == ["pos", "pos", "pos", "neg"]


def test_a_simple_model_scored_on_other_validation_rows_runs_again():
    plan = plan_of()
    other = replace(plan, run=replace(RUN, validation=0.4))
    training = Training(method="tfidf", shots="all", seed=0)
    assert plan.key(training) != other.key(training)


def test_vectors_below_the_home_folder_are_stamped(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    path = save_vectors(tmp_path / "v.txt", ["film"])
    assert _stamp("~/v.txt")[1:] == _stamp(path)[1:] != []


def test_no_split_divides_a_group(words, tmp_path):
    table = replace(texts_of(), groups=[str(row // 4) for row in range(48)])
    plan = plan_of(table=table, shots=(6, "all"))
    for seed in plan.seeds:
        for shots in plan.shots:
            learn, test = plan.rows(shots, seed)
            train, held = learn.split(holdout=0.2, seed=seed)
            sides = [{learn.groups[row] for row in rows} for rows in (train, held)]
            assert not sides[0] & sides[1] and not set(learn.groups) & set(test.groups)
    assert all(plan.key(training) != plan_of(shots=(6, "all")).key(training) for training in plan.trainings())
    record = small(words, tmp_path, data=table).records[-1]
    assert record.data["groups"] == len(set(plan.split(0)[0].groups))
    assert "Rows belong to" in (tmp_path / "model" / "README.md").read_text()
    with pytest.raises(InputError, match="48 rows of groups that the training rows have, such as '0'"):
        plan_of(table=table, test=table)


def test_words_and_vectors_are_learned_without_the_test_rows():
    table = texts_of()
    _, held = split(table.labels, holdout=0.3, seed=0)
    texts = [f"{text} {'secret secret' if row in held else 'open'}" for row, text in enumerate(table.texts)]
    known = plan_of(table=replace(table, texts=texts)).vocabulary(0).tokenizer.get_vocab()
    assert "open" in known and "secret" not in known


def test_with_a_test_file_all_seeds_have_the_same_vectors_whichever_is_first():
    tables = [plan_of(seeds=seeds, test=texts_of(seed=9)).vocabulary(seeds[0]) for seeds in ((0, 1), (1, 2))]
    assert tables[0].fingerprint == tables[1].fingerprint
    assert plan_of(seeds=(1, 2)).vocabulary(1).fingerprint != plan_of(seeds=(1, 2)).vocabulary(2).fingerprint


@pytest.mark.parametrize("unlabelled", ["rest", "none"])
def test_words_are_learned_from_the_rest_of_the_texts_or_from_the_labelled_rows_alone(unlabelled):
    table = texts_of()
    plan = plan_of(table=table, shots=(2,), unlabelled=unlabelled)
    few = plan.rows(2, 0)[0].texts
    texts = [text if text in few else f"{text} further further" for text in table.texts]
    plan = plan_of(table=replace(table, texts=texts), shots=(2,), unlabelled=unlabelled)
    training = Training(method="none", shots=2, seed=0)
    words = plan.vocabulary(*plan.vocabulary_key(training)).tokenizer.get_vocab()
    assert ("further" in words) == (unlabelled == "rest")
    rest = len(plan.split(0)[0]) - len(few)
    assert plan.unlabelled_rows(training) == (rest if unlabelled == "rest" else 0)
    assert plan.unlabelled_rows(replace(training, method="tfidf")) == plan.unlabelled_rows(training)
    assert plan.unlabelled_rows(replace(training, method="one-hot")) == 0


@pytest.mark.parametrize("shots", [2, "all"])
def test_words_are_learned_from_rows_without_a_label_too(shots, tmp_path):
    table = replace(texts_of(), more=["further film"] * 3)
    rest, none = (plan_of(table=table, shots=(shots,), unlabelled=word) for word in ("rest", "none"))
    training = Training(method="tfidf", shots=shots, seed=0)
    words, alone = (
        plan.vocabulary(*plan.vocabulary_key(training)).tokenizer.get_vocab() for plan in (rest, none)
    )
    assert "further" in words and "further" not in alone
    learned = len(rest.split(0)[0]) - len(rest.rows(shots, 0)[0]) + 3
    assert (rest.unlabelled_rows(training), none.unlabelled_rows(training)) == (learned, 0)
    for method in ("tfidf", "none"):
        plans = (rest, none, plan_of(shots=(shots,)))
        assert len({plan.key(replace(training, method=method)) for plan in plans}) == 3
    fitted = module.fit_model(rest, training, rest.vocabulary(0))
    assert fitted.record.data["unlabelled_rows"] == learned
    part = fitted.features.parts[0]
    counted = [*rest.split(0)[0].texts, *table.more]
    having = sum("film" in text.split() for text in counted)
    assert part.idf[part.terms.index("film")] == pytest.approx(np.log((1 + len(counted)) / (1 + having)) + 1)


def test_no_word_is_learned_from_a_text_of_the_test_rows():
    table, test = texts_of(), texts_of(rows=6)
    table = replace(table, more=["further film", test.texts[0], "further film"])
    plan = plan_of(table=table, test=test)
    assert plan.more(0) == ["further film"] * 2
    held_out = plan_of(table=replace(table, more=list(table.texts)))
    assert not {*held_out.more(1)} & {*held_out.split(1)[1].texts} and held_out.more(1)


@pytest.mark.parametrize("unlabelled", ["rest", "none"])
def test_tfidf_counts_texts_with_a_term_among_the_rest_or_among_the_labelled_rows(unlabelled, tmp_path):
    plan = plan_of(shots=(2,), unlabelled=unlabelled)
    training = Training(method="tfidf", shots=2, seed=0)
    module.run_training(plan, training, plan.vocabulary(0), {}, keep=tmp_path)
    part = load(tmp_path / plan.key(training)).features.parts[0]
    learned, pool = plan.rows(2, 0)[0].texts, plan.split(0)[0].texts
    counted = pool if unlabelled == "rest" else learned
    words = sorted({word for text in learned for word in text.lower().split()})
    assert [term for term in part.terms if " " not in term] == words
    for word in words:
        having = sum(word in text.lower().split() for text in counted)
        idf = np.log((1 + len(counted)) / (1 + having)) + 1
        assert part.idf[part.terms.index(word)] == pytest.approx(idf)


def test_only_cells_of_few_rows_depend_on_what_is_not_labelled():
    for method in ("none", "tfidf"):
        trainings = [Training(method=method, shots=shots, seed=0) for shots in (4, "all")]
        keys = [
            [plan_of(unlabelled=word).key(training) for training in trainings] for word in ("rest", "none")
        ]
        assert [few_or_all[0] == few_or_all[1] for few_or_all in zip(*keys, strict=True)] == [False, True]
    with pytest.raises(InputError, match="unlabelled is 'some': give 'rest' or 'none'"):
        plan_of(unlabelled="some")


def test_a_training_that_ends_with_all_rows_has_a_key_of_its_own():
    few, many = (replace(RUN, early_stopping=rows) for rows in (10_000, 10))
    trainings = [
        Training(method=method, shots=shots, seed=0) for method in ("none", "tfidf") for shots in (4, "all")
    ]
    keys = [
        [plan_of(run=run, shots=(4, "all")).key(training) for training in trainings] for run in (few, many)
    ]
    held = [
        [plan_of(run=replace(run, holdout=True), shots=(4, "all")).key(training) for training in trainings]
        for run in (few, many)
    ]
    marked = plan_of(run=many, shots=(4, "all"))
    assert [marked._ends_with_all_rows(training) for training in trainings] == [False, True] * 2
    assert keys[0][2:] == keys[1][2:] == held[0][2:]  # simple models are fitted to all rows anyway
    assert keys[0][1] != keys[1][1] != held[1][1]


# How it runs decides nothing


@pytest.mark.slow
def test_results_do_not_depend_on_how_many_cells_run_at_a_time(words, tmp_path):
    options = {"methods": METHODS, "seeds": 1, "shots": (6,)}
    one = small(words, tmp_path / "one", jobs=1, **options)
    two = small(words, tmp_path / "two", jobs=2, **options)
    assert list(map(without_times, one.records)) == list(map(without_times, two.records))
    assert one.paired == two.paired and one.best == two.best
    weights = [folder.read_bytes() for folder in tmp_path.glob("*/model/model.safetensors")]
    assert len(weights) == 2 and weights[0] == weights[1]


def test_printed_it_is_its_advice(words, tmp_path):
    comparison = small(words, tmp_path, methods=("none",))
    assert str(comparison) == "\n".join(comparison.advice())
    assert repr(comparison).startswith("<Comparison of tfidf, ") and len(repr(comparison)) < 300


def test_methods_of_the_user_run_in_other_processes_too(words, tmp_path, monkeypatch):
    """One begins with the other, which a worker process has to know, too."""

    def begins_with_first(size):
        return methods.METHODS["first"].make(size)

    first = replace(methods.METHODS["learned"], formula="a table of my own")
    second = replace(first, make=begins_with_first, formula="the same", base="first")
    monkeypatch.setitem(methods.METHODS, "first", first)
    monkeypatch.setitem(methods.METHODS, "second", second)
    comparison = small(words, tmp_path, methods=("second", "none"), jobs=2)
    assert all(record.parameters > 0 for record in comparison.records if record.method == "second")


def test_a_method_of_a_file_runs_in_other_processes_too(words, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    try:
        assert plugins.load_file(path) == ["log-bias"]
        found = small(words, tmp_path / "out", methods=("none", "log-bias"), jobs=2)
    finally:
        methods.METHODS.pop("log-bias", None)
    assert {row["method"] for row in found.rows} >= {"none", "log-bias"}


def test_a_file_of_methods_is_loaded_again(tmp_path):
    """Also where `make` is of another module, as a `functools.partial` is."""
    path = tmp_path / "mine.py"
    path.write_text(
        FILE + "import functools\n"
        "METHODS = {n: Recipe(make=functools.partial(r.make), formula=r.formula, source=r.source) "
        "for n, r in METHODS.items()}\n"
    )
    try:
        assert plugins.load_file(path) == plugins.load_file(path) == ["log-bias"]
        shutil.copy(path, tmp_path / "other.py")
        with pytest.raises(InputError, match="exists already"):
            plugins.load_file(tmp_path / "other.py")
    finally:
        methods.METHODS.pop("log-bias", None)


def test_settings_may_be_of_numpy(words, tmp_path):
    found = small(words, tmp_path, methods=("none",), seeds=np.arange(1), shots=np.array([4]))
    command = json.loads((found.path.parent / "about.json").read_text())["command"]
    assert "seeds=[0]" in command and "shots=[4]" in command


def test_it_leaves_threads_and_log_as_they_were(words, tmp_path):
    logger = logging.getLogger("vnait")
    before = (logger.level, torch.get_num_threads())
    logger.setLevel(logging.INFO)
    try:
        small(words, tmp_path)
        assert logger.level == logging.INFO and torch.get_num_threads() == before[1]
    finally:
        logger.setLevel(before[0])


def test_one_thread_is_one_of_every_library():
    before = [pool["num_threads"] for pool in threadpool_info()]
    with one_thread():
        assert torch.get_num_threads() == 1
        assert {pool["num_threads"] for pool in threadpool_info()} == {1}
    assert [pool["num_threads"] for pool in threadpool_info()] == before


def test_what_there_is_to_say_of_the_texts_is_not_said_by_every_cell(words, tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="vnait"):
        small(words, tmp_path, seeds=2, run=replace(RUN, max_length=3))
    cut = [message for message in caplog.messages if "cut to 3 tokens" in message]
    assert cut == ["made.csv: texts are cut to 3 tokens; the longest has 6."]


def run_command(folder: str, arguments: list[str], name: str) -> None:
    """`vnait` in a process of its own, its standard output in a file."""
    from vnait.cli import main

    torch.set_num_threads(1)
    with Path(folder, name).open("w") as file, contextlib.redirect_stdout(file):
        main(arguments)


@pytest.fixture(scope="module")
def server():
    return forkserver("vnait.comparison.compare", "gensim.models")


@pytest.fixture(scope="module")
def command(tmp_path_factory, words) -> list[str]:
    data = tmp_path_factory.mktemp("data") / "made.csv"
    table = texts_of()
    data.write_text(
        "text,label\n" + "".join(f"{t},{la}\n" for t, la in zip(table.texts, table.labels, strict=True))
    )
    return (
        f"compare {data} --methods none,sinusoidal,vnait --seeds 3 --shots 6 --steps 10 --jobs 1 --quiet "
        "--json "
        f"--vectors {words}"
    ).split()


def ran(server, folder: Path, command: list[str], name: str) -> tuple[dict, bytes]:
    """The document of a whole run, without times and places, and the winner's weights."""
    out = folder / "out"
    process = server.Process(target=run_command, args=(str(folder), [*command, "--out", str(out)], name))
    process.start()
    process.join()
    assert process.exitcode == 0
    document = json.loads((folder / name).read_text())
    rows = [
        {key: value for key, value in row.items() if key not in ("seconds", "ms_per_text")}
        for row in document["rows"]
    ]
    kept = {"rows": rows, "paired": document["paired"], "best": document["best"]}
    return kept, (out / "model/model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def uninterrupted(server, command, tmp_path_factory) -> tuple[tuple[dict, bytes], float]:
    ran(server, tmp_path_factory.mktemp("warm"), [*command, "--methods", "none", "--seeds", "1"], "warm.json")
    started = time.perf_counter()
    result = ran(server, tmp_path_factory.mktemp("whole"), command, "whole.json")
    return result, time.perf_counter() - started


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("time_of_killing", range(3))
def test_kill_9_at_a_random_moment_ends_with_the_table_of_an_uninterrupted_run(
    time_of_killing, server, command, uninterrupted, tmp_path
):
    whole, seconds = uninterrupted
    for attempt in range(4):  # a machine that became faster may end the comparison before the kill
        folder = tmp_path / str(attempt)
        folder.mkdir()
        records = folder / "out/records.jsonl"
        arguments = [*command, "--out", str(folder / "out")]
        process = server.Process(target=run_command, args=(str(folder), arguments, "killed.json"))
        process.start()
        while not (records.is_file() and records.read_bytes().count(b"\n")):
            assert process.is_alive(), "the comparison ended before its first training"
            time.sleep(0.002)
        time.sleep(random.uniform(0, 0.7 * seconds / 2**attempt))
        process.kill()
        process.join()
        finished = records.read_bytes()
        finished = finished[: finished.rfind(b"\n") + 1]
        if process.exitcode == -signal.SIGKILL and finished.count(b"\n") < 15:
            break
    assert 1 <= finished.count(b"\n") < 15 and not (folder / "out/model").exists()
    assert ran(server, folder, command, "resumed.json") == whole
    assert records.read_bytes().startswith(finished)  # what was finished is as it was
    assert len({record.key for record in read(records)}) == len(read(records)) == 15  # and nothing ran twice


# What is run again, and what is not


def ran_now(words, out, **options) -> list[str]:
    names = []
    small(
        words,
        out,
        callback=lambda done, total, record: names.append(record.method) if record else None,
        **options,
    )
    return sorted(names)


def test_finished_cells_are_not_run_again_and_a_changed_setting_runs_new_ones(words, tmp_path):
    whole = sorted(["none", *BASELINES])
    assert ran_now(words, tmp_path) == whole
    assert ran_now(words, tmp_path) == []
    assert ran_now(words, tmp_path, seeds=2) == whole  # the second seed
    assert ran_now(words, tmp_path, methods=("none", "learned")) == ["learned"]
    assert ran_now(words, tmp_path, run=replace(RUN, dropout=0.1)) == ["none"]  # baselines have no dropout
    assert ran_now(words, tmp_path, shots=(6,)) == whole
    assert ran_now(words, tmp_path, test=texts_of(seed=1)) == whole
    assert ran_now(words, tmp_path, data=texts_of(seed=2)) == whole
    assert ran_now(words, tmp_path, tokenization="characters", vectors=None) == whole
    assert len(read(tmp_path / "records.jsonl")) == 6 * len(whole) + 2
    assert ran_now(words, tmp_path) == []


# What may be said: fabricated records


def made_up(
    test: dict[str, list[float]], validation: dict[str, list[float]] | None = None, **options
) -> Comparison:
    """A comparison whose test and validation accuracies are given, by method and seed."""
    methods = tuple(name for name in test if name not in BASELINES)
    seeds = tuple(range(len(next(iter(test.values())))))
    plan = plan_of(methods=methods, seeds=seeds, **options)
    records = []
    for training in plan.trainings():
        metrics = {"accuracy": test.get(training.method, [0.5] * len(seeds))[training.seed]}
        if training.method in methods:
            metrics["validation_accuracy"] = (validation or test)[training.method][training.seed]
        data = {"shots": training.shots}
        records.append(
            record(training.method, training.seed, key=plan.key(training), data=data, metrics=metrics)
        )
    reference = options.get("reference", "vnait" if "vnait" in methods else methods[0])
    return Comparison(plan=plan, records=records, reference=reference, path=Path("records.jsonl"))


def test_the_best_is_chosen_by_validation_never_by_test():
    test = {"none": [0.9, 0.9, 0.9], "vnait": [0.2, 0.2, 0.2]}
    assert made_up(test, {"none": [0.5, 0.5, 0.5], "vnait": [0.6, 0.6, 0.6]}).best == "vnait"
    assert made_up(test, {"none": [0.6, 0.6, 0.6], "vnait": [0.5, 0.5, 0.5]}).best == "none"


def test_the_best_is_chosen_at_the_most_labels():
    found = made_up({"none": [0.5], "vnait": [0.5]}, shots=(4, "all", 16))
    by_shots = {
        4: {"none": 0.9, "vnait": 0.1},
        16: {"none": 0.9, "vnait": 0.1},
        "all": {"none": 0.3, "vnait": 0.4},
    }
    records = [
        replace(
            record,
            metrics={**record.metrics, "validation_accuracy": by_shots[record.data["shots"]][record.method]},
        )
        if record.method in METHODS
        else record
        for record in found.records
    ]
    assert replace(found, records=records).best == "vnait"


FIVE = [0.80, 0.81, 0.79, 0.82, 0.80]


def shifted(by: float, noise: float = 0.0) -> list[float]:
    return [value + by + noise * (-1) ** seed for seed, value in enumerate(FIVE)]


def test_sentences_name_methods_ahead_behind_and_level():
    found = made_up(
        {
            "vnait": FIVE,
            "none": shifted(-0.10),
            "learned": shifted(+0.10),
            "sinusoidal": shifted(+0.01, noise=0.05),
            "tfidf": shifted(-0.20),
            "one-hot": shifted(-0.10),
            "averaged": shifted(-0.01, noise=0.05),
        }
    )
    (sentence,) = found.sentences()
    assert sentence == (
        "With all labels: vnait is ahead of tfidf by 20.0 points [20.0, 20.0], one-hot by 10.0 points "
        "[10.0, 10.0] and none by 10.0 points [10.0, 10.0]; vnait is behind learned by 10.0 points "
        "[10.0, 10.0]; averaged and sinusoidal can't be told apart from vnait over 5 seeds."
    )


def test_points_are_the_paired_difference_with_its_bounds_in_order():
    found = made_up({"vnait": FIVE, "none": shifted(-0.10, noise=0.02)})
    row = next(row for row in found.paired if row["method"] == "none")
    low, high = -100 * row["ci_high"], -100 * row["ci_low"]
    assert 6 < low < 100 * -row["difference"] < high < 14
    assert f"none by {-100 * row['difference']:.1f} points [{low:.1f}, {high:.1f}]" in found.sentences()[0]


def test_a_stopped_comparison_counts_the_seeds_that_it_has():
    whole = made_up({"vnait": FIVE, "none": shifted(+0.01, noise=0.05)}).results
    some = [record for record in whole.records if record.method != "none" or record.seed < 3]
    stopped = replace(whole, records=some)
    assert stopped.lacks_seeds and not whole.lacks_seeds
    assert "none can't be told apart from vnait over 3 seeds." in " ".join(stopped.sentences())


@pytest.mark.parametrize("by", [0.004, 0.02, 0.05])
def test_nothing_inside_the_noise_is_ranked(by):
    noisy = {"vnait": FIVE, "none": shifted(by, noise=0.1), "learned": shifted(-by, noise=0.1)}
    noisy |= {name: shifted(by, noise=0.1) for name in BASELINES}
    (sentence,) = made_up(noisy).sentences()
    assert "can't be told apart from vnait over 5 seeds" in sentence
    assert not any(word in sentence for word in ("ahead", "behind", "better", "best", "wins"))


@pytest.mark.parametrize(("seeds", "words"), [(1, "1 seed, too few"), (2, "2 seeds, too few")])
def test_too_few_seeds_rank_nothing_however_far_apart(seeds, words):
    found = made_up({"vnait": [0.9] * seeds, "none": [0.1] * seeds})
    (sentence,) = found.sentences()
    assert f"none and vnait are not ranked: {words}" in sentence and "told apart" not in sentence
    assert "ahead" not in sentence and "behind" not in sentence
    assert all(row["ci_low"] is None and row["ci_high"] is None for row in (*found.rows, *found.paired))


def test_each_number_of_shots_has_its_sentence():
    found = made_up({"vnait": [0.5] * 3, "none": [0.5] * 3}, shots=(16, "all"))
    assert [sentence.split(":")[0] for sentence in found.sentences()] == [
        "At 16 labels per class",
        "With all labels",
    ]


# What a person can do wrong


def test_repeats_between_the_rows_and_a_test_file_are_counted(words, tmp_path, caplog):
    table, test = texts_of(), texts_of(seed=1, name="test.csv")
    test = replace(test, texts=["new words " + text for text in test.texts])
    test.texts[:3] = [table.texts[0].upper() + " !", table.texts[7], table.texts[7]]
    with caplog.at_level(logging.WARNING, logger="vnait"):
        small(words, tmp_path, data=table, test=test)
    assert any("3 of 48 test rows also occur in the training rows" in message for message in caplog.messages)
    caplog.clear()
    test.texts[:3] = ["new one", "new two", "new three"]
    with caplog.at_level(logging.WARNING, logger="vnait"):
        small(words, tmp_path / "clean", data=table, test=test)
    assert not any("also occur" in message for message in caplog.messages)


def test_a_folder_of_another_files_comparison_is_a_warning(words, tmp_path, caplog):
    with caplog.at_level(logging.WARNING, logger="vnait"):
        small(words, tmp_path)
        small(words, tmp_path)
        assert "has a comparison of" not in caplog.text
        small(words, tmp_path, data=replace(texts_of(), name="other.csv"))
    assert (
        "has a comparison of made.csv; its records stay, but its model and report are replaced by those of "
        "other.csv" in caplog.text
    )


def refused(match: str, words, out, **options) -> None:
    """An error in one sentence, before anything trains, with nothing written."""

    def callback(done, total, record):
        pytest.fail("something was about to train")

    with pytest.raises(InputError, match=match) as error:
        small(words, out, callback=callback, **options)
    assert "\n" not in str(error.value)
    assert not out.exists()


def test_a_class_with_too_few_rows_for_the_shots_stops_everything_and_is_named(words, tmp_path):
    table = texts_of(("neg", "pos", "mix"), rows=60)
    table = table.select([row for row in range(60) if table.labels[row] != "mix" or row < 18])
    refused(
        r"8 shots are more than there are: class 'mix' has 4 rows",
        words,
        tmp_path / "o",
        data=table,
        shots=(2, 8),
    )
    refused(r"class 'mix' has 6 rows", words, tmp_path / "o", data=table, shots=(7,), test=texts_of(seed=1))


def test_a_class_of_one_row_and_a_single_class_stop_everything(words, tmp_path):
    table = texts_of()
    lonely = replace(table, labels=["rare", *table.labels[1:]])
    refused(r"class 'rare' has 1 row", words, tmp_path / "o", data=lonely)
    refused(r"class 'rare' has 1 row", words, tmp_path / "o", data=lonely, test=table)
    same = replace(table, labels=["pos"] * 48)
    refused(r"every row has the label 'pos'", words, tmp_path / "o", data=same)
    refused(r"every row has the label 'pos'", words, tmp_path / "o", data=same, test=table)


def test_vectors_that_can_not_be_used_leave_no_folder(words, tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        small(str(tmp_path / "none.bin"), tmp_path / "o")
    alien = vectors.Vectors(["xyzzy"], np.ones((1, 8), np.float32), "made")
    vectors.save(alien, tmp_path / "alien.bin")
    with pytest.raises(InputError, match="has none of the"):
        small(str(tmp_path / "alien.bin"), tmp_path / "o")
    with pytest.raises(InputError, match="tokenization is 'nope'"):
        small(None, tmp_path / "o", tokenization="nope")
    with pytest.raises(InputError, match="backend 'cloud' is not known; give one of local, ray, slurm"):
        small(words, tmp_path / "o", backend="cloud")
    assert not (tmp_path / "o").exists()


def test_a_width_that_a_method_is_not_made_for_stops_everything(words, tmp_path):
    known = sorted({word for text in texts_of().texts for word in text.split()})
    vectors.save(vectors.Vectors(known, np.ones((len(known), 5), np.float32), "made"), tmp_path / "odd.bin")
    message = "rope can't be built at width 5 with 1 heads: a head width of 5"
    refused(message, str(tmp_path / "odd.bin"), tmp_path / "o", methods=("none", "rope"))


def test_all_that_is_wrong_with_a_plan_is_said_together():
    with pytest.raises(InputError) as error:
        plan_of(
            methods=("nope", "none", "none"),
            shots=(1, "some"),
            seeds=(),
            run=replace(RUN, validation=0),
            test=texts_of(("mix",)),
        )
    message = str(error.value)
    for part in (
        "method 'nope' is not known. Did you mean 'rope'? The methods are none,",
        "shots 1: give a number of rows per class, 2 or more, or all",
        "shots 'some'",
        "seeds is empty: give at least one",
        "methods has the same entry twice: nope, none, none",
        "validation is 0",
        "made.csv and made.csv share no label, such as ",
    ):
        assert part in message
    assert "\n" not in message


def test_tasks_that_differ_and_strings_for_lists_are_refused(words, tmp_path):
    sets = replace(texts_of(), task="multilabel")
    refused(
        "made.csv was read for multilabel, and made.csv for classification", words, tmp_path / "o", test=sets
    )
    refused(
        "made.csv was read for multilabel, and task is 'regression'",
        words,
        tmp_path / "o",
        data=sets,
        task="regression",
    )
    refused(r"methods is the string 'none'; give a list, \['none'\]", words, tmp_path / "o", methods="none")
    refused(r"shots is the string 'all'; give a list, \['all'\]", words, tmp_path / "o", shots="all")


def test_the_rest_of_what_is_refused(words, tmp_path):
    refused(r"reference 'rope' is not compared: give one of none", words, tmp_path / "o", reference="rope")
    refused(r"'tfidf' is a simple model, which every", words, tmp_path / "o", methods=("none", "tfidf"))
    no_labels = Table(texts=["a"], labels=None, name="bare.csv", dropped=0)
    refused(r"bare.csv was read without labels", words, tmp_path / "o", data=no_labels)
    (tmp_path / "o2/model").mkdir(parents=True)
    (tmp_path / "o2/model/thesis.txt").write_text("precious")
    with pytest.raises(InputError, match="is a folder with other files in it"):
        small(words, tmp_path / "o2")
    assert (tmp_path / "o2/model/thesis.txt").read_text() == "precious"


def test_labels_of_the_test_file_that_training_never_saw_count_as_wrong(words, tmp_path):
    test = texts_of(rows=40, seed=1)
    test = replace(test, labels=["unseen" if row < 30 else label for row, label in enumerate(test.labels)])
    found = small(words, tmp_path, test=test)
    assert len(found.records) == 1 + len(BASELINES)
    assert all(record.metrics["accuracy"] <= 0.25 for record in found.records)
    assert next(row["mean"] for row in found.rows if row["method"] == "tfidf") > 0.2


def test_a_baseline_is_what_it_says(words, tmp_path):
    """TF-IDF against scikit-learn's own analyzers, on words that both cut the same way."""
    found = small(words, tmp_path)
    learned, tested = found.plan.split(0)
    vectorizer = make_union(
        TfidfVectorizer(token_pattern=r"\w+", ngram_range=(1, 2), sublinear_tf=True),
        TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True),
    )
    features = vectorizer.fit_transform(learned.texts) / np.sqrt(2)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    search = GridSearchCV(LogisticRegression(max_iter=2000), {"C": [1, 10, 100]}, cv=folds)
    reference = search.fit(features, learned.labels).best_estimator_
    score = reference.score(vectorizer.transform(tested.texts) / np.sqrt(2), tested.labels)
    row = next(row for row in found.rows if row["method"] == "tfidf")
    assert row["mean"] == pytest.approx(score)
    assert row["parameters"] == reference.coef_.size + reference.intercept_.size


def test_simple_models_come_first_and_then_seed_by_seed_a_whole_comparison():
    plan = plan_of(shots=(4, "all"))
    first, then = 2 * len(BASELINES), 2 * len(METHODS)
    each, trainings = first + then, plan.trainings()
    assert [training.seed for training in trainings] == [
        seed for n in (first, then) for seed in (0, 1, 2) for _ in range(n)
    ]
    assert all(training.method in BASELINES for training in trainings[: 3 * first])
    assert len({plan.key(training) for training in plan.trainings()}) == 3 * each
    assert plan.key(Training(method="none", shots="all", seed=0)) == plan_of().key(
        Training(method="none", shots="all", seed=0)
    )


def test_a_method_whose_formula_changes_is_another_cell(monkeypatch):
    plan = plan_of()
    before = [plan.key(training) for training in plan.trainings()]
    monkeypatch.setitem(methods.METHODS, "none", replace(methods.METHODS["none"], formula="x = 2 e"))
    changed = [plan.key(training) != key for training, key in zip(plan.trainings(), before, strict=True)]
    assert changed == [training.method == "none" for training in plan.trainings()] and any(changed)


def test_a_method_that_begins_with_another_changes_with_it(monkeypatch):
    plan = plan_of(methods=("rope", "vnait-uniform", "vnait-causal"))
    before = [plan.key(training) for training in plan.trainings()]
    monkeypatch.setitem(methods.METHODS, "vnait", replace(methods.METHODS["vnait"], formula="x = 2 e"))
    changed = {
        training.method
        for training, key in zip(plan.trainings(), before, strict=True)
        if plan.key(training) != key
    }
    assert changed == {"vnait-uniform", "vnait-causal"}


def test_another_rule_for_the_bag_is_another_cell_of_a_method_that_follows_it(monkeypatch):
    plans = plan_of(run=replace(RUN, bag=None)), plan_of()
    before = [[one.key(training) for training in one.trainings()] for one in plans]
    monkeypatch.setattr("vnait.comparison.plan.FORMULA", "s")
    kept = [
        [one.key(training) in keys for training in one.trainings()]
        for one, keys in zip(plans, before, strict=True)
    ]
    assert kept == [[training.method in BASELINES for training in one.trainings()] for one in plans]


def test_the_winner_is_not_trained_again_where_it_lies(words, tmp_path):
    first = small(words, tmp_path)
    weights = tmp_path / "model" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    assert small(words, tmp_path).best == first.best and weights.stat().st_mtime_ns == before
    (tmp_path / "model" / "record.json").unlink()
    small(words, tmp_path)
    assert weights.stat().st_mtime_ns > before


def test_vectors_that_change_under_the_same_name_run_new_cells(words, tmp_path):
    words = shutil.copy(words, tmp_path / "words.bin")
    small(words, tmp_path)
    lines = len((tmp_path / "records.jsonl").read_bytes().splitlines())
    table = vectors.load(words)
    vectors.save(vectors.Vectors(table.words, table.table[:, ::-1].copy(), "made"), words)
    small(words, tmp_path)
    assert len((tmp_path / "records.jsonl").read_bytes().splitlines()) == 2 * lines


def test_a_file_is_read_as_it_is_written(tmp_path):
    path = tmp_path / "films.csv"
    rows = "text;label\n" + "g\u00fcter Film;gut\nschlechter Film;schlecht\n" * 10
    path.write_bytes(rows.encode("cp1252"))
    options = {"methods": ("none",), "seeds": 1, "steps": 2, "out": tmp_path / "out", "jobs": 1}
    found = compare(path, sep=";", encoding="cp1252", **options)
    assert found.plan.table.texts[0] == "g\u00fcter Film"
