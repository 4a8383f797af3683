"""Training: the same run gives the same weights, whatever ran before and however often it was killed."""

import faulthandler
import hashlib
import json
import logging
import math
import os
import pickle
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import normalize

from helpers import forkserver
from vnait.comparison.plan import Plan
from vnait.comparison.trainings import run_plan
from vnait.data import Table, encode, split
from vnait.data import vocabulary as vocabulary
from vnait.results.explanation import explain
from vnait.results.scores import scores
from vnait.shared.errors import InputError
from vnait.shared.processes import one_thread, threads
from vnait.train import bag_of_words, labelled, loop, predict
from vnait.train import fitting as train
from vnait.train.baselines import BASELINES, fit_baseline
from vnait.train.continued import Continued, loaded, run_of
from vnait.train.estimator import TextClassifier
from vnait.train.features import with_places
from vnait.train.fitting import fit, prepare
from vnait.train.models import new_model
from vnait.train.predict import Fitted
from vnait.train.run import Run
from vnait.train.tasks import Classes

ONCE = Run(
    method="vnait", early_stopping=0, holdout=True, bag=0
)  # gradient descent alone, on the rows that are not held out
RUN = replace(ONCE, steps=12, eval_every=4, batch_size=8)
LONG = replace(RUN, steps=60, eval_every=3, patience=60)
WORDS = {
    "neg": ["bad", "dull", "poor", "weak"],
    "pos": ["good", "fine", "warm", "rich"],
    "mix": ["odd", "even", "so", "mid"],
}


def texts_of(classes=("neg", "pos"), rows=40, seed=0, name="made.csv", noise=0.0) -> Table:
    """Short texts that tell their label, but for the share `noise` of them."""
    rng = random.Random(seed)
    labels = [classes[row % len(classes)] for row in range(rows)]
    told = [rng.choice(classes) if rng.random() < noise else label for label in labels]
    told_by = [
        [rng.choice(WORDS[label]), *rng.choices([*WORDS[label], "a", "film"], k=rng.randint(1, 8))]
        for label in told
    ]
    texts = [" ".join(words) for words in told_by]
    return Table(texts=texts, labels=labels, name=name, dropped=0)


def words_of(table: Table, **options) -> vocabulary.Vocabulary:
    return vocabulary.learn(table.texts, dim=8, **options)


@pytest.fixture(scope="module")
def table() -> Table:
    return texts_of()


@pytest.fixture(scope="module")
def words(table):
    return words_of(table)


@pytest.fixture(scope="module")
def whole(table, words) -> dict[str, torch.Tensor]:
    """The weights of RUN, to be compared with."""
    return weights(fit(RUN, table, words))


def weights(fitted) -> dict[str, torch.Tensor]:
    return fitted.model.state_dict()


def equal(one, other) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


class Stopped(Exception):
    pass


def stop_at(step):
    def callback(status):
        if status.step == step:
            raise Stopped

    return callback


def steps_seen(run, table, words, folder) -> list[int]:
    seen = []
    fit(run, table, words, checkpoints=folder, callback=lambda status: seen.append(status.step))
    return seen


# The same seed, the same weights


def test_the_same_seed_gives_the_same_weights_whatever_ran_before(table, words):
    before = fit(RUN, table, words)
    torch.manual_seed(99)
    torch.randn(7)
    random.random()
    np.random.seed(5)
    fit(replace(RUN, method="learned", seed=3, steps=4), table, words)
    after = fit(RUN, table, words)
    assert equal(weights(before), weights(after))
    assert before.record.metrics == after.record.metrics and before.record.key == after.record.key


def test_another_seed_gives_other_weights(table, words):
    one, other = fit(RUN, table, words), fit(replace(RUN, seed=1), table, words)
    different = [name for name in weights(one) if not torch.equal(weights(one)[name], weights(other)[name])]
    assert any("attention" in name for name in different) and any("method" in name for name in different)


@pytest.mark.slow
def test_a_fresh_process_gives_the_same_weights(table, words, tmp_path):
    fit(RUN, table, words).save(tmp_path / "here")
    script = "import sys, test_train\ntest_train.train_and_save(sys.argv[1], test_train.RUN, 'there')"
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "77"}
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, env=environment)
    assert (tmp_path / "there/model.safetensors").read_bytes() == (
        tmp_path / "here/model.safetensors"
    ).read_bytes()


def test_training_leaves_the_record_of_its_run(table, words):
    test = texts_of(seed=1, rows=12)
    record = fit(RUN, table, words, test=test).record
    assert record.method == "vnait" and record.seed == 0 and record.run["steps"] == 12
    assert record.data["name"] == "made.csv" and record.data["rows"] == 40 and record.data["test_rows"] == 12
    assert record.data["classes"] == ["neg", "pos"]
    names = {"accuracy", "macro_f1", "mcc"}
    details = {"length_rows", "length_right", "confusion", "right"}
    assert set(record.metrics) == names | {f"validation_{name}" for name in names} | details | {"ms_per_text"}
    assert sum(record.metrics["length_rows"]) == np.sum(record.metrics["confusion"]) == 12
    assert record.seconds > 0 and record.parameters > 0


def test_a_training_of_one_step_is_validated_too(table, words):
    record = fit(replace(RUN, steps=1, early_stopping=1000), table, words).record
    assert record.metrics["validation_accuracy"] >= 0


def test_the_key_of_a_run_depends_on_settings_rows_words_and_nothing_else(table, words):
    short = replace(RUN, steps=1)
    key = fit(short, table, words).record.key
    assert fit(short, table, words).record.key == key
    others = [
        fit(replace(short, dropout=0.0), table, words),
        fit(short, texts_of(seed=1), words),
        fit(short, table, words, test=texts_of(seed=1)),
        fit(short, table, words_of(table, seed=1)),
        fit(short, table, words_of(table, tokenization="characters")),
    ]
    keys = {key, *(other.record.key for other in others)}
    assert len(keys) == 6


# Killed and resumed


def train_and_save(folder: str, run: Run, name: str) -> None:
    """What a process of its own runs: it notes its first step, trains with checkpoints, and saves."""
    torch.set_num_threads(1)
    seen = []
    table = texts_of()

    def callback(status):
        if not seen:
            Path(folder, f"{name}.first").write_text(str(status.step))
        seen.append(status.step)

    checkpoints = Path(folder, f"{name}.checkpoints")
    fitted = fit(run, table, words_of(table), checkpoints=checkpoints, callback=callback)
    fitted.save(Path(folder, name))
    train.forget(checkpoints, fitted)


@pytest.fixture(scope="module")
def server():
    return forkserver("vnait.train.fitting", "gensim.models")


@pytest.fixture(scope="module")
def uninterrupted(server, tmp_path_factory) -> tuple[bytes, float]:
    folder = tmp_path_factory.mktemp("whole")
    for name in ("warm", "whole"):  # the first one waits for the imports
        started = time.perf_counter()
        process = server.Process(target=train_and_save, args=(str(folder), LONG, name))
        process.start()
        process.join()
        assert process.exitcode == 0
    return (folder / "whole/model.safetensors").read_bytes(), time.perf_counter() - started


def kill_in_the_middle(server, folder: Path, longest: float) -> int:
    """kill -9 at a random moment after the first checkpoint; returns the step that can be resumed from."""
    checkpoints = folder / "m.checkpoints"
    process = server.Process(target=train_and_save, args=(str(folder), LONG, "m"))
    process.start()
    while not list(checkpoints.glob("*/step-*")):
        assert process.is_alive(), "the training ended before its first checkpoint"
        time.sleep(0.002)
    time.sleep(random.uniform(0, longest))
    process.kill()
    process.join()
    states = sorted(checkpoints.glob("*/step-*"))
    return (
        int(states[-1].name.removeprefix("step-")) if process.exitcode == -signal.SIGKILL and states else -1
    )


MOMENTS = [0, *(pytest.param(number, marks=pytest.mark.long) for number in (1, 2))]


@pytest.mark.parametrize("time_of_killing", MOMENTS)
@pytest.mark.slow
def test_kill_9_in_the_middle_ends_with_the_weights_of_an_uninterrupted_run(
    time_of_killing, server, uninterrupted, tmp_path
):
    whole, seconds = uninterrupted
    for attempt in range(4):  # a machine that became faster may end the training before the kill
        folder = tmp_path / str(attempt)
        folder.mkdir()
        step = kill_in_the_middle(server, folder, longest=0.6 * seconds / 2**attempt)
        if 0 < step < LONG.steps:
            break
    assert 0 < step < LONG.steps and not (folder / "m").exists()
    process = server.Process(target=train_and_save, args=(str(folder), LONG, "m"))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert int((folder / "m.first").read_text()) == step + 1  # it went on, and did not begin again
    assert (folder / "m/model.safetensors").read_bytes() == whole
    assert not (folder / "m.checkpoints").exists()


@pytest.mark.parametrize("step", [1, 4, 5, 8, 11, 12])
def test_stopped_at_any_step_it_goes_on_from_the_last_evaluation(step, table, words, whole, tmp_path):
    folder = tmp_path / "c"
    with pytest.raises(Stopped):
        fit(RUN, table, words, checkpoints=folder, callback=stop_at(step))
    seen = []
    resumed = fit(RUN, table, words, checkpoints=folder, callback=lambda status: seen.append(status.step))
    assert seen[0] == (step - 1) // 4 * 4 + 1 and seen[-1] == 12
    assert equal(weights(resumed), whole)
    # it is done, and not done again
    again = fit(RUN, table, words, checkpoints=folder, callback=stop_at(1))
    assert equal(weights(again), whole)
    train.forget(folder, again)
    assert not folder.exists()


def test_early_stopping_counts_on_over_a_stop(tmp_path):
    table = texts_of(noise=1.0)
    words = words_of(table)
    run = replace(RUN, steps=60, eval_every=2, patience=3, learning_rate=0.03, dropout=0.0)
    whole_steps = steps_seen(run, table, words, None)
    assert whole_steps[-1] < run.steps
    with pytest.raises(Stopped):
        fit(run, table, words, checkpoints=tmp_path / "c", callback=stop_at(whole_steps[-1]))
    assert steps_seen(run, table, words, tmp_path / "c")[-1] == whole_steps[-1]


def test_a_state_that_a_kill_left_unfinished_is_never_taken_for_one(table, words, whole, tmp_path):
    with pytest.raises(Stopped):
        fit(RUN, table, words, checkpoints=tmp_path / "c", callback=stop_at(6))
    (state,) = (tmp_path / "c").glob("*/step-*")
    draft = state.with_name("draft")
    draft.mkdir()
    (draft / "model.safetensors").write_bytes(b"half")
    assert equal(weights(fit(RUN, table, words, checkpoints=tmp_path / "c")), whole)


class Planted:
    """Unpickled, it writes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


TENSORS = ["best.safetensors", "draws_0.safetensors", "model.safetensors", "optimizer.bin", "scheduler.bin"]
STATE = sorted([*TENSORS, "manifest.json", "progress.json"])
DAMAGES = {
    "missing": lambda file: file.unlink(),
    "empty": lambda file: file.write_bytes(b""),
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-9]),
    "one bit": lambda file: file.write_bytes(file.read_bytes()[:-30] + b"\x01" + file.read_bytes()[-29:]),
}


@pytest.fixture(scope="module")
def stopped(table, words, tmp_path_factory) -> Path:
    """The checkpoints of a training that was stopped."""
    folder = tmp_path_factory.mktemp("stopped") / "c"
    with pytest.raises(Stopped):
        fit(RUN, table, words, checkpoints=folder, callback=stop_at(6))
    return folder


def copy_of(stopped: Path, tmp_path: Path) -> Path:
    """The folder of a copy's only state."""
    (state,) = shutil.copytree(stopped, tmp_path / "c").glob("*/step-*")
    return state


def refused(state: Path, table, words) -> str:
    """The message, one sentence that names the folder to delete."""
    with pytest.raises(InputError, match=r"^the checkpoint .* Delete that folder and train again") as error:
        fit(RUN, table, words, checkpoints=state.parents[1])
    message = str(error.value)
    assert f"the checkpoint {state} is damaged" in message and "\n" not in message
    return message


def test_the_weights_do_not_depend_on_the_threads_of_the_process(table, words):
    """They come from the settings: one thread, if they don't set another number."""
    run = replace(RUN, threads=1)
    whole = fit(run, table, words)
    assert whole.record.run["threads"] == 1
    seen = []

    def callback(status):
        seen.append(torch.get_num_threads())

    with threads(3):
        assert equal(weights(fit(run, table, words, callback=callback)), weights(whole))
        two = replace(run, threads=2, steps=2)
        fitted = fit(two, table, words, callback=callback)
        assert torch.get_num_threads() == 3
    assert set(seen[:12]) == {1} and set(seen[12:]) == {2}
    assert fitted.record.run["threads"] == 2
    assert fitted.record.key != fit(replace(two, threads=1), table, words).record.key


def test_the_keys_of_records_from_before_the_setting_hold():
    later = ("threads", "track", "holdout", "early_stopping", "lora", "class_weight", "one_hot")
    former = {name for name in vars(Run()) if name not in later}
    assert set(Run().facts) == {*former, "refit"} and Run(threads=1, track="csv").facts == Run().facts
    assert Run(threads=2).facts == {**Run().facts, "threads": 2}


def test_train_compare_and_the_estimator_agree_on_any_machine(tmp_path):
    """Two threads in the process: sums over many rows would differ in the last digits."""
    learn, test = texts_of(rows=400, seed=1), texts_of(seed=2)
    run = Run(method="none", steps=4)
    plan = Plan(
        table=learn,
        test=test,
        methods=("none",),
        shots=("all",),
        seeds=(0,),
        run=run,
        vectors=None,
        tokenization="words",
    )
    whole = weights(fit(run, learn, vocabulary.learn(learn.texts)))
    with threads(2):
        assert equal(weights(fit(run, learn, vocabulary.learn(learn.texts))), whole)
        assert equal(weights(TextClassifier("none", steps=4).fit(learn.texts, learn.labels).fitted_), whole)
        run_plan(plan, tmp_path / "records.jsonl", keep=tmp_path / "models")
        (kept,) = (one for one in (tmp_path / "models").iterdir() if (one / "config.json").is_file())
        assert equal(weights(predict.load(kept)), whole)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"threads": 2}, r"was made with 2 threads, and this run has 1, .* delete that folder"),
        ({"format": 6}, r"is of another version of vnait, .* Delete that folder"),
    ],
)
def test_a_state_whose_weights_differ_is_refused(changed, message, stopped, table, words, tmp_path):
    state = copy_of(stopped, tmp_path)
    progress, manifest = state / "progress.json", state / "manifest.json"
    facts = json.loads(progress.read_text())
    assert facts["threads"] == 1
    progress.write_text(json.dumps({**facts, **changed}))
    checksum = hashlib.sha256(progress.read_bytes()).hexdigest()
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "progress.json": checksum}))
    with pytest.raises(InputError, match=message):
        fit(RUN, table, words, checkpoints=tmp_path / "c")


def test_a_state_of_other_settings_is_left_and_named(stopped, table, words, tmp_path, caplog):
    state = copy_of(stopped, tmp_path)
    with caplog.at_level(logging.WARNING, logger="vnait"):
        other = fit(replace(RUN, batch_size=4), table, words, checkpoints=tmp_path / "c")
    assert f"{tmp_path / 'c'} has the state of a training with other settings" in caplog.text
    train.forget(tmp_path / "c", other)
    assert state.is_dir()


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", STATE)
def test_a_damaged_state_is_refused(name, damage, stopped, table, words, tmp_path):
    state = copy_of(stopped, tmp_path)
    assert sorted(path.name for path in state.iterdir()) == STATE
    DAMAGES[damage](state / name)
    message = refused(state, table, words)
    assert name == "manifest.json" or f"{name} is not as it was written" in message


def test_a_file_too_many_is_refused(stopped, table, words, tmp_path):
    state = copy_of(stopped, tmp_path)
    (state / "custom_checkpoint_0.pkl").write_bytes(b"")
    assert "custom_checkpoint_0.pkl is not as it was written" in refused(state, table, words)
    shutil.rmtree(state)
    assert steps_seen(RUN, table, words, tmp_path / "c")[0] == 1


@pytest.mark.parametrize("name", [name for name in STATE if name != "manifest.json"])
def test_code_in_a_state_never_runs(name, stopped, table, words, tmp_path):
    """Not even if the manifest has the checksum of the pickle."""
    state, mark = copy_of(stopped, tmp_path), tmp_path / "ran"
    content = pickle.dumps(Planted(mark))
    (state / name).write_bytes(content)
    manifest = json.loads((state / "manifest.json").read_text())
    (state / "manifest.json").write_text(json.dumps(manifest | {name: hashlib.sha256(content).hexdigest()}))
    refused(state, table, words)
    assert not mark.exists()
    pickle.loads(content)
    assert mark.exists()


def test_a_state_is_on_the_disk_before_it_has_its_name(table, words, tmp_path, monkeypatch):
    synced, renamed, rename = set(), [], os.replace

    def watched(source, destination):
        renamed.append({path.stat().st_ino for path in Path(source).rglob("*")} - synced)
        rename(source, destination)

    monkeypatch.setattr(os, "fsync", lambda number: synced.add(os.fstat(number).st_ino))
    monkeypatch.setattr(os, "replace", watched)
    with pytest.raises(Stopped):
        fit(RUN, table, words, checkpoints=tmp_path / "c", callback=stop_at(6))
    assert renamed == [set()]
    (state,) = (tmp_path / "c").glob("*/step-*")
    assert {state.stat().st_ino, state.parent.stat().st_ino} <= synced


def test_a_state_of_other_words_settings_or_rows_is_left_alone(table, words, tmp_path):
    with pytest.raises(Stopped):
        fit(RUN, table, words, checkpoints=tmp_path / "c", callback=stop_at(6))
    others = [
        (RUN, table, words_of(table, tokenization="characters")),
        (RUN, table, words_of(table, seed=1)),
        (replace(RUN, dropout=0.1), table, words),
        (RUN, texts_of(seed=1), words),
    ]
    for run, rows, lexicon_ in others:
        assert steps_seen(run, rows, lexicon_, tmp_path / "c")[0] == 1
    assert steps_seen(RUN, table, words, tmp_path / "c")[0] == 5


def test_a_disk_that_is_full_leaves_the_state_before(table, words, whole, tmp_path, monkeypatch):
    saves = []

    def full(accelerator, folder):
        saves.append(folder)
        Path(folder).mkdir(parents=True)
        Path(folder, "model.safetensors").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(Stopped):
        fit(RUN, table, words, checkpoints=tmp_path / "c", callback=stop_at(6))
    with monkeypatch.context() as patch:
        patch.setattr(loop.Accelerator, "save_state", full)
        with pytest.raises(InputError, match="was not written: No space left on device"):
            fit(RUN, table, words, checkpoints=tmp_path / "c")
        with pytest.raises(InputError, match="No space left"):
            fit(RUN, table, words, checkpoints=tmp_path / "other")
    assert len(saves) == 2
    assert [path.name for path in (tmp_path / "c").glob("*/*")] == ["step-00000004"]
    assert not (tmp_path / "other").exists()
    assert equal(weights(fit(RUN, table, words, checkpoints=tmp_path / "c")), whole)


# Early stopping and validation


def test_early_stopping_keeps_the_weights_of_the_best_validation_loss(monkeypatch):
    table = texts_of(noise=1.0)  # nothing to learn, so it soon gets worse
    words = words_of(table)
    run = replace(RUN, steps=60, eval_every=2, patience=3, learning_rate=0.03, dropout=0.0)
    losses, states, evaluate = [], [], loop.Loop._evaluate

    def watched(training):
        evaluate(training)
        model, task = training.model.eval(), training.labelled
        with torch.no_grad():  # text by text, no batches
            logits = torch.cat([model(torch.tensor([task.ids[row]])).logits for row in task.valid])
        picked = torch.log_softmax(logits, -1)[
            range(len(task.valid)), [task.labels[row] for row in task.valid]
        ]
        losses.append(-float(picked.mean()))
        states.append({name: value.clone() for name, value in model.state_dict().items()})

    monkeypatch.setattr(loop.Loop, "_evaluate", watched)
    fitted = fit(run, table, words)
    best = int(np.argmin(losses))
    assert len(losses) == best + 1 + run.patience < run.steps / run.eval_every
    assert equal(weights(fitted), states[best])
    assert not equal(weights(fitted), states[-1])


def test_the_best_training_is_that_of_the_best_validation_score_and_of_equals_the_first(table, words, caplog):
    one = fit(replace(RUN, steps=1), table, words)

    def scored(name: str, scores: list[float]) -> list[Fitted]:
        return [
            replace(one, record=replace(one.record, seed=seed, metrics={name: score}))
            for seed, score in enumerate(scores)
        ]

    def best_of(name: str, scores: list[float]) -> int:
        return train.best(scored(name, scores)).record.seed

    assert best_of("validation_accuracy", [0.5, 0.75, 0.75, 0.25]) == 1
    assert best_of("validation_rmse", [0.5, 0.75, 0.25, 0.25]) == 2
    with caplog.at_level("INFO", logger="vnait"):
        best_of("validation_accuracy", [0.5, 0.75])
    assert caplog.messages[-1] == "smoothness 0.1, boundary 0.1: validation accuracy 0.750"
    with pytest.raises(InputError, match="no rows were held out"):
        best_of("accuracy", [0.5, 0.75])


def test_class_weights_are_weights_of_the_rows_by_their_labels():
    rare = texts_of(("neg", "neg", "neg", "pos"))
    words = words_of(rare)
    loss = [2 / 3 if label == "neg" else 2.0 for label in rare.labels]  # rows / (classes * rows of the class)
    run = Run(steps=3, method="none", class_weight="balanced")
    balanced = fit(run, rare, words)
    assert equal(weights(balanced), weights(fit(replace(run, class_weight=None), rare, words, weights=loss)))
    assert balanced.record.run["class_weight"] == "balanced"
    both = prepare(run, rare, words, weights=[3.0] * 40)
    assert np.allclose(both.labelled.weights, loss)
    named = prepare(replace(run, class_weight={"pos": 3}), rare, words)
    assert np.allclose(named.labelled.weights, np.array(loss))
    assert len({ready.key for ready in (both, named)} | {balanced.record.key}) == 3


@pytest.mark.parametrize(
    ("class_weight", "changes", "message"),
    [
        (
            {"good": 2},
            {},
            "class_weight names 'good', which is no label of made.csv; its labels are neg, pos.",
        ),
        ({"nge": 2}, {}, "Did you mean 'neg'?"),
        ({"neg": -1}, {}, "the weight of row 0 is -1.0"),
        ("balanced", {"task": "regression", "labels": ["1", "2"] * 20}, "was read for regression; leave it"),
    ],
)
def test_class_weights_that_fit_no_labels_are_refused(class_weight, changes, message, table, words):
    with pytest.raises(InputError, match=re.escape(message)):
        prepare(Run(class_weight=class_weight), replace(table, **changes), words)
    with pytest.raises(InputError, match=re.escape(message)):
        fit_baseline(
            "tfidf", replace(table, **changes), tokenization="words", seed=0, class_weight=class_weight
        )


@pytest.mark.parametrize("task", ["classification", "regression", "multilabel", "tagging"])
def test_further_training_starts_from_the_saved_model(task, tmp_path):
    texts, later = (texts_of(seed=seed) for seed in (1, 2))
    labels = {
        "classification": lambda row: texts.labels[row],
        "regression": lambda row: str(row % 5 + (texts.labels[row] == "pos")),
        "multilabel": lambda row: texts.labels[row] + "|all" * (row % 3 == 0),
        "tagging": lambda row: " ".join(["O", "X"] * 9)[: 2 * len(texts.texts[row].split()) - 1],
    }[task]
    table = replace(texts, task=task, labels=[labels(row) for row in range(len(texts))])
    first = fit(Run(steps=20, method="none"), table, words_of(table))
    first.save(tmp_path / "first")
    new = replace(table, texts=later.texts, name="later.csv") if task != "tagging" else table
    run = run_of(first, tmp_path / "first", {"steps": 1, "learning_rate": 1e-12})
    second = fit(run, new, Continued.of(first, tmp_path / "first", new))
    asked = new.texts[:8]
    read = {"regression": "numbers", "tagging": "of_words"}.get(task, "probabilities")
    answers, before = (
        np.concatenate([*map(np.atleast_1d, getattr(m, read)(asked))]) for m in (second, first)
    )
    assert np.allclose(answers, before, atol=1e-5)
    assert second.classes == first.classes and second.record.method == "none"
    continued = second.record.data["continued"]
    assert (continued["key"], continued["rows"]) == (first.record.key, len(table))
    assert second.record.data["bag_share"] == first.record.data["bag_share"]
    learned = fit(
        replace(run, learning_rate=0.01, steps=5), new, Continued.of(first, tmp_path / "first", new)
    )
    assert not equal(weights(learned), weights(second)) and learned.record.key != second.record.key


def test_further_training_needs_a_transformer_with_the_same_labels(table, words, tmp_path):
    fitted = fit(Run(steps=2, method="none"), table, words)
    fitted.save(tmp_path / "model")
    for labels, message in [
        (["neg", "odd"], "made.csv also has 'odd', and made.csv lacks 'pos'; train a new model on the old"),
        (["neg", "pos", "odd", "pos"], "made.csv also has 'odd'; train"),
    ]:
        others = replace(table, labels=[labels[row % len(labels)] for row in range(len(table))])
        with pytest.raises(InputError, match=message):
            Continued.of(fitted, tmp_path / "model", others)
    fit_baseline("tfidf", table, tokenization="words", seed=0).save(tmp_path / "simple")
    with pytest.raises(InputError, match="the simple model tfidf, which is fitted at once and"):
        loaded(tmp_path / "simple")
    with pytest.raises(InputError, match=r"has no record\.json"):
        run_of(replace(fitted, record=None), tmp_path / "model", {})
    before = Continued.of(fitted, tmp_path / "model", table).fingerprint
    fit(Run(steps=3, method="none"), table, words).save(tmp_path / "model")
    assert Continued.of(fitted, tmp_path / "model", table).fingerprint != before


def test_no_validation_trains_on_every_row_to_the_last_step(table, words, monkeypatch):
    seen = watch_batches(monkeypatch)
    run = replace(RUN, validation=0, steps=5)  # one epoch of 40 rows in batches of 8
    record = fit(run, table, words, test=texts_of(seed=1)).record
    assert sorted(row for rows in seen for row in rows) == list(range(40))
    assert not any(name.startswith("validation") for name in record.metrics) and "accuracy" in record.metrics


def test_validation_rows_are_never_trained_on(table, words, monkeypatch):
    seen = watch_batches(monkeypatch)
    tasks = []
    make = labelled.Labelled.of
    monkeypatch.setattr(labelled.Labelled, "of", lambda *given: tasks.append(make(*given)) or tasks[-1])
    fit(RUN, table, words)
    assert len(tasks[0].valid) == 8
    assert not {row for rows in seen for row in rows} & set(tasks[0].valid)


def test_it_learns_from_the_texts(table, words):
    record = fit(replace(RUN, steps=30, learning_rate=0.03), table, words, test=texts_of(seed=2)).record
    assert record.metrics["accuracy"] > 0.9


# All rows, and a bag of words beside the Transformer


def test_few_rows_are_all_learned_from_and_scored_before_the_held_out_ones_are_seen(
    table, words, seen, monkeypatch
):
    validated, validate = [], loop.Loop._validate
    monkeypatch.setattr(loop.Loop, "_validate", lambda self: validated.append(len(seen)) or validate(self))
    record = fit(replace(RUN, steps=15, early_stopping=40, holdout=False), table, words).record
    _, held = split(table.labels, holdout=0.2, seed=0)
    assert validated == [10] and len(seen) == 15
    assert not set(held) & {row for rows in seen[:10] for row in rows}
    assert {row for rows in seen[10:] for row in rows} == set(range(40))
    assert {f"validation_{name}" for name in ("accuracy", "macro_f1", "mcc")} <= set(record.metrics)


def test_taking_the_validation_scores_changes_nothing(table, words, monkeypatch):
    run = replace(RUN, early_stopping=40, holdout=False, bag=0.5)
    found = weights(fit(run, table, words))
    monkeypatch.setattr(loop.Loop, "_validate", lambda self: None)
    assert equal(weights(fit(run, table, words)), found)


@pytest.fixture
def seen(monkeypatch) -> list[list[int]]:
    """The rows of each step of the trainings that follow."""
    rows_of, step = [], loop.Loop._step
    monkeypatch.setattr(loop.Loop, "_step", lambda self, rows: rows_of.append(rows) or step(self, rows))
    return rows_of


def test_rows_that_are_held_out_for_good_are_never_learned(table, words, seen):
    _, held = split(table.labels, holdout=0.2, seed=0)
    fit(RUN, table, words)
    assert not set(held) & {row for rows in seen for row in rows}


def test_many_rows_stop_the_first_part_early_and_all_rows_follow_from_the_best_step(
    table, words, seen, monkeypatch
):
    losses = iter([3.0, 1.0, 2.0, 2.0, 0.5])  # the best after step 8; two worse ones end the first part
    monkeypatch.setattr(loop.Loop, "_validation_loss", lambda self: next(losses))
    rates, run = [], replace(RUN, steps=60, patience=2, early_stopping=39, holdout=False)
    model = fit(run, table, words, callback=lambda status: rates.append(status.learning_rate))
    _, held = split(table.labels, holdout=0.2, seed=0)
    assert len(seen) == 16 + 8 // 2
    assert not set(held) & {row for rows in seen[:16] for row in rows}
    assert set(held) & {row for rows in seen[16:] for row in rows}
    assert rates[16:] == pytest.approx(
        [run.rate * left / 54 for left in (4, 3, 2, 1)]
    )  # as of the last steps
    assert model.record.metrics.keys() >= {"validation_accuracy"}


def test_many_rows_without_a_stop_end_in_all_rows_too(table, words, seen):
    run = replace(RUN, steps=15, patience=60, early_stopping=39, holdout=False)
    fit(run, table, words)
    assert {row for rows in seen[10:] for row in rows} == set(range(40)) and len(seen) == 15


def test_more_rows_take_no_more_than_4000_steps_40_evaluations_and_2000_validation_rows():
    run = Run()
    assert [run.total_steps(rows) for rows in (100, 8_000, 10**6)] == [150, 750, 4_000]
    assert [run.steps_between(steps) for steps in (150, 750, 4_000)] == [25, 25, 100]
    assert [round(run.held_out(rows) * rows) for rows in (100, 10_000, 10**6)] == [20, 2_000, 2_000]


JOINED = replace(RUN, early_stopping=40, holdout=False, bag=0.5, patience=60)


@pytest.fixture(scope="module")
def joined(table, words) -> dict[str, torch.Tensor]:
    return weights(fit(JOINED, table, words))


@pytest.mark.parametrize("stop", [3, 7, 8, 9, 10, 12])
def test_stopped_before_or_after_the_rows_are_joined_it_goes_on(stop, table, words, joined, tmp_path):
    folder, seen = tmp_path / "c", []

    def callback(status):
        seen.append(status.step)
        if len(seen) == stop:
            raise Stopped

    with pytest.raises(Stopped):
        fit(JOINED, table, words, checkpoints=folder, callback=callback)
    again = []
    resumed = fit(JOINED, table, words, checkpoints=folder, callback=lambda status: again.append(status.step))
    assert equal(weights(resumed), joined)
    assert len(again) == 12 - (stop - 1) // 4 * 4
    train.forget(folder, resumed)
    assert not folder.exists()


def bags(words, table) -> sparse.csr_array:
    ids = encode(words.tokenizer, table.texts, max_length=99)
    return bag_of_words.bags_of(
        ids, bag_of_words.sif_weights(words.frequency, words.tokenizer.all_special_ids)
    )


@pytest.mark.parametrize("classes", [("neg", "pos"), ("neg", "pos", "mix")])
@pytest.mark.parametrize("learning_rate", [1e-4, 0.03])
def test_the_answer_is_the_weighted_mean_of_two_answers(classes, learning_rate):
    """The Transformer's logits, scaled to the other's RMS, and those of scikit-learn's own logistic
    regression, both scaled up.
    """
    table = texts_of(classes, rows=42, noise=0.3)
    words = words_of(table)
    run = replace(RUN, validation=0, learning_rate=learning_rate)
    alone = centred(np.log(fit(run, table, words).probabilities(table.texts)))
    mixed = fit(replace(run, bag=0.3), table, words).probabilities(table.texts)
    counts = np.zeros((len(table), len(words.table)))
    for row, text in zip(counts, encode(words.tokenizer, table.texts, max_length=99), strict=True):
        np.add.at(row, text, 1)
    x = 0.01 / (0.01 + words.frequency) * np.log2(1 + counts)
    x[:, :3] = 0  # padding, unknown words, masks
    length = np.linalg.norm(x, axis=1, keepdims=True)
    means = x / length @ words.table
    scale = np.sqrt((means**2).sum(1).mean())
    linear = LogisticRegression(C=10, max_iter=2000).fit(np.hstack([means / scale, x / length]), table.labels)
    # Evidence adds up when a text is asked: its length stays, divided by the mean.
    other = x / length.mean()
    other = centred(linear.predict_log_proba(np.hstack([other @ words.table / scale, other])))
    ratio = max(np.sqrt((alone**2).mean() / (other**2).mean()), 1)
    logits = ratio ** (0.7**2) * (0.7 * alone / ratio + 0.3 * other)
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(mixed, expected, atol=2e-3)


def test_where_words_carry_nothing_the_answer_stays_as_sure_as_the_transformers():
    table = Table(texts=["a b", "b a"] * 40, labels=["ab", "ba"] * 40, name="order", dropped=0)
    words = vocabulary.learn(table.texts, dim=8)
    found = fit(
        replace(RUN, bag=None, one_hot=False, validation=0, steps=60, learning_rate=0.01), table, words
    )
    assert 0 < found.record.data["bag_share"] < 0.1
    assert (found.probabilities(table.texts).max(1) > 0.9).all()


def test_the_share_of_the_bag_follows_its_skill_and_the_strange_words(table):
    table = replace(table, texts=[f"{text} only{row}" for row, text in enumerate(table.texts)])
    # a word that stands once in all texts is no word of its own
    words = vocabulary.learn(table.texts * 2, dim=8)
    ids = encode(words.tokenizer, table.texts, max_length=99)
    labels = [int(label == "pos") for label in table.labels]
    skill = bag_of_words.skill(bags(words, table), labels, words.table)
    share = bag_of_words.share_of(skill, bag_of_words.strange(ids, labels))
    assert share > bag_of_words.share_of(skill, 0) > 0
    run = replace(RUN, validation=0, one_hot=False)
    one, other = (fit(replace(run, bag=bag), table, words) for bag in (None, share))
    assert equal(weights(one), weights(other)) and one.record.data["bag_share"] == share


def random_bags(rows: int, seed: int = 0) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    return bag_of_words.bags_of(rng.integers(0, 30, size=(rows, 4)).tolist(), np.ones(30))


def test_a_regression_that_knows_nothing_has_no_share():
    table = np.random.default_rng(1).normal(size=(30, 3))
    assert bag_of_words.skill(random_bags(400), [0, 1] * 200, table) < 0.15
    assert bag_of_words.skill(random_bags(3), [0, 1, 1], table) == 0


def test_few_rows_that_are_all_right_leave_the_transformer_a_share():
    texts, table = [[0], [0, 1], [2], [2, 3]], np.array([[0.0], [0.2], [2.0], [2.2]])
    few, many = (
        bag_of_words.skill(bag_of_words.bags_of(texts * times, np.ones(4)), [0, 0, 1, 1] * times, table)
        for times in (1, 50)
    )
    assert few == pytest.approx(2 / 3) and 0.98 < many < 1
    assert bag_of_words.share_of(few, 0) == pytest.approx(0.8) and bag_of_words.share_of(many, 0.9) < 1


def test_strange_words_are_those_that_few_texts_of_a_class_have():
    one = bag_of_words.strange([[1, 1, 2], [3, 2], [2]], [0, 0, 0])
    assert one == pytest.approx(((1 + 1 + 1 / 3) / 4 + (1 + 1 / 3) / 3 + (1 / 3) / 2) / 3)
    assert bag_of_words.strange([[1, 2], [2, 1]], [0, 1]) > bag_of_words.strange([[1, 2], [2, 1]], [0, 0])
    assert bag_of_words.strange([[1, 2]] * 100, [0] * 100) < 0.01
    alone = bag_of_words.strange([list(range(20)), list(range(20, 40))], [0, 0])
    assert 0.9 < alone < 1, "the Transformer keeps a say"


def test_always_answering_the_largest_class_is_no_skill():
    table = np.random.default_rng(1).normal(size=(30, 3))
    assert bag_of_words.skill(random_bags(300), [0] * 270 + [1] * 30, table) == 0
    assert bag_of_words.skill(random_bags(300), [0] * 210 + [1] * 90, table) == 0


def test_the_bag_knows_words_with_useless_vectors_and_vectors_of_words_it_never_met():
    texts = bag_of_words.bags_of([[0, 4], [1, 4], [2, 4], [3, 4]], np.ones(6))
    of_words = bag_of_words.BagRegression(np.zeros((6, 2))).fit(texts, [0, 0, 1, 1])
    assert of_words.predict(texts).tolist() == [0, 0, 1, 1]
    table = np.array([[1.0], [1.1], [-1.0], [-1.1], [0.0], [5.0]])
    of_vectors = bag_of_words.BagRegression(table).fit(texts, [0, 0, 1, 1])
    assert of_vectors.predict(bag_of_words.bags_of([[5]], np.ones(6))).tolist() == [0]


def test_classes_of_a_row_or_two_pass_without_a_warning(words):
    texts = [f"good film {row}" for row in range(60)]
    bags = bag_of_words.bags_of(words.encode(texts, max_length=9), np.ones(len(words.table)))
    assert 0 <= bag_of_words.skill(bags, [row // 2 for row in range(60)], words.table) < 1
    labels = [row // 2 if row < 40 else row for row in range(60)]
    bag_of_words.BagRegression(words.table).fit(bags, labels)
    table = Table(texts, [f"class {label}" for label in labels], "made", 0)
    for name in BASELINES:
        fit_baseline(name, table, table, words, tokenization="words", seed=0)


def test_a_rare_word_weighs_more_than_a_frequent_one():
    weights = bag_of_words.sif_weights(np.array([0.2, 0.001]))
    assert bag_of_words.bags_of([[0, 1]], weights).toarray()[0] == pytest.approx([0.048, 0.909], abs=0.001)


def centred(logits: np.ndarray) -> np.ndarray:
    return logits - logits.mean(1, keepdims=True)


def generated(seed: int) -> tuple[list[list[int]], list[int], np.ndarray, dict[int, int]]:
    """Texts of 1 to 12 words, of which some belong to one class alone; their labels, vectors of any kind,
    word -> its class.
    """
    random_ = np.random.default_rng(seed)
    classes, shared, own = (
        int(random_.integers(2, 5)),
        int(random_.integers(1, 9)),
        int(random_.integers(1, 4)),
    )
    of_class = {3 + shared + label * own + number: label for label in range(classes) for number in range(own)}
    labels = [*range(classes), *random_.integers(0, classes, size=int(random_.integers(0, 30))).tolist()]
    texts = []
    for label in labels:
        owned = [word for word, one in of_class.items() if one == label]
        chosen = [3 + int(word) for word in random_.integers(0, shared, size=int(random_.integers(0, 9)))]
        texts.append([*chosen, *random_.choice(owned, size=int(random_.integers(1, 4))).tolist()])
    table = random_.normal(size=(3 + shared + classes * own, 6)) * random_.choice(
        [0.1, 1, 10]
    ) + random_.normal(size=6)
    present = {word for text in texts for word in text}
    return texts, labels, table, {word: label for word, label in of_class.items() if word in present}


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.slow
def test_a_word_of_one_class_never_argues_for_another():
    """200 generated training sets: alone, repeated, and added to any text of 1 to 50 words it never lowers
    its class.
    """
    with one_thread():  # several would mostly wait for each other
        for seed in range(200):
            texts, labels, table, of_class = generated(seed)
            weights = bag_of_words.sif_weights(
                np.random.default_rng(seed).uniform(0, 0.2, len(table)), [0, 1, 2]
            )
            model = bag_of_words.BagRegression(table).fit(bag_of_words.bags_of(texts, weights), labels)
            random_ = np.random.default_rng(seed)
            word = int(random_.choice(sorted(of_class)))
            others = [random_.integers(3, len(table), size=size).tolist() for size in (0, 1, 7, 49)]
            asked = [text + [word] * times for text in others for times in (0, 1, 2, 5)]
            logits = model.decision_function(bag_of_words.bags_of(asked, weights))
            chances = softmax(logits)[:, of_class[word]]
            for group in chances.reshape(len(others), 4):
                assert (np.diff(group) >= -1e-9).all(), (seed, group)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_texts_without_a_known_word_get_the_prior(seed):
    """The whole model, overtrained: no answer above .99 for words that no training row has, and a word of one
    class has the right sign.
    """
    table = texts_of(rows=24, seed=seed)
    fitted = fit(Run(steps=40, learning_rate=0.02, seed=seed), table, words_of(table))
    strangers = [" ".join(["zebra", "yak", "gnu", "ox"][:count] * 3) for count in range(1, 5)] + [""]
    prior = fitted.probabilities(strangers)
    assert prior.max() < 0.9 and np.ptp(prior, axis=0).max() < 1e-6
    for label, own in (("neg", WORDS["neg"]), ("pos", WORDS["pos"])):
        column = fitted.classes.index(label)
        assert (fitted.probabilities(own)[:, column] > 0.5).all()


def test_the_bag_is_of_the_vectors_that_training_tuned(table, words):
    run = replace(RUN, tune_vectors=True, learning_rate=0.03, validation=0)
    fitted = fit(replace(run, bag=0.5), table, words)
    tuned = fitted.model.get_input_embeddings().weight.detach().numpy()
    assert not np.allclose(tuned, words.table)
    labels = [int(label == "pos") for label in table.labels]
    expected = bag_of_words.BagRegression(tuned).fit(bags(words, table), labels)
    np.testing.assert_allclose(fitted.model.bag.logits.numpy(), expected.logits_ / 2, atol=1e-5)
    np.testing.assert_allclose(fitted.model.bag.bias.numpy(), expected.bias_ / 2, atol=1e-5)
    assert fitted.record.parameters == fit(run, table, words).record.parameters + 2 * len(words.table) + 2


# One-hot words in place of the bag


@pytest.fixture(scope="module")
def ordered() -> Table:
    """Texts whose label is the order of two words, but of one in eight."""
    texts = [f"{'b a' if (row % 2 == 1) != (row % 16 > 13) else 'a b'} w{row % 5}" for row in range(48)]
    return Table(texts=texts, labels=["ab", "ba"] * 24, name="order", dropped=0)


@pytest.fixture(scope="module")
def placed(ordered) -> Fitted:
    return fit(replace(RUN, bag=None, validation=0), ordered, words_of(ordered))


def test_training_rows_choose_one_hot_words_where_these_are_better(table, words, ordered, placed):
    assert placed.record.data["linear_part"] == placed.model.bag.part == "one-hot words"
    run = replace(RUN, bag=None, validation=0)
    bag = fit(replace(run, one_hot=False), ordered, words_of(ordered))
    assert bag.record.data["bag_share"] < 0.2 and bag.model.bag.part == "bag of words"
    assert bag.record.key != placed.record.key
    none = fit(replace(run, method="none"), ordered, words_of(ordered))
    assert none.model.bag.part == "bag of words", "without positions nothing sees the order"
    rng = random.Random(0)
    texts = [" ".join(rng.sample(text.split(), len(text.split()))) for text in table.texts]
    assert fit(run, replace(table, texts=texts), words).record.data["linear_part"] == "bag of words"


def test_one_hot_words_are_mixed_in_by_their_size_on_held_out_rows(ordered, placed):
    """The answer, from scikit-learn's features and regressions of the texts, and the Transformer alone."""
    words, labels = words_of(ordered), np.array(ordered.labels)
    transformer = fit(replace(RUN, bag=0, validation=0), ordered, words)
    alone = centred(np.log(transformer.probabilities(ordered.texts)))
    head = LogisticRegression(C=10, max_iter=2000)
    held_out, rows = np.zeros(48), list(map(str.split, ordered.texts))
    for learned, left in StratifiedKFold(5, shuffle=True, random_state=0).split(rows, labels):
        counter = CountVectorizer(analyzer=with_places).fit([rows[row] for row in learned])
        features = normalize(counter.transform(rows).astype(float))
        held_out[left] = head.fit(features[learned], labels[learned]).decision_function(features[left]) / 2
    features = normalize(CountVectorizer(analyzer=with_places).fit_transform(rows).astype(float))
    linear = head.fit(features, labels).decision_function(features) / 2
    right = ((held_out > 0) == (labels == "ba")).mean()
    skill = ((right * 48 + 1) / 50 - 0.5) / 0.5
    ids = encode(words.tokenizer, ordered.texts, max_length=99)
    share = bag_of_words.share_of(skill, bag_of_words.strange(ids, labels.tolist()))
    assert placed.record.data["bag_share"] == pytest.approx(share)
    ratio = max(np.sqrt((alone**2).mean() / (held_out**2).mean()), 1)
    logits = ratio ** ((1 - share) ** 2) * (
        (1 - share) * alone / ratio + share * np.stack([-linear, linear], 1)
    )
    np.testing.assert_allclose(placed.probabilities(ordered.texts), softmax(logits), atol=2e-3)


def test_a_model_with_one_hot_words_is_scored_saved_loaded_and_explained(ordered, placed, tmp_path):
    words = words_of(ordered)
    tested = fit(
        replace(RUN, bag=None, validation=0.2, holdout=False), ordered, words, test=replace(ordered, name="t")
    )
    assert tested.model.bag.part == "one-hot words"
    metrics = tested.record.metrics
    assert metrics["accuracy"] > metrics["accuracy_alone"] and "validation_accuracy" in metrics
    placed.save(tmp_path / "model")
    again = predict.load(tmp_path / "model")
    np.testing.assert_array_equal(again.probabilities(ordered.texts), placed.probabilities(ordered.texts))
    found = explain(again, "a b w1")
    label = again.classes.index(found.label)
    bias = float(again.model.bag.bias[label] - again.model.bag.bias.mean())
    assert sum(found.bag_contribution) + bias == pytest.approx(found.logit["one-hot words"], abs=1e-5)
    assert found.answer == "ab" and max(map(abs, found.bag_contribution)) > 0.1


# Paired: what two methods share


def watch_batches(monkeypatch) -> list[list[int]]:
    seen, step = [], loop.Loop._step

    def watched(training, rows):
        seen.append(list(rows))
        return step(training, rows)

    monkeypatch.setattr(loop.Loop, "_step", watched)
    return seen


def test_two_methods_meet_the_same_batches_in_the_same_order(table, words, monkeypatch):
    orders = {}
    for method in ("none", "sinusoidal", "vnait"):
        with monkeypatch.context() as patch:
            seen = watch_batches(patch)
            fit(replace(RUN, method=method), table, words)
            orders[method] = seen
    with monkeypatch.context() as patch:
        other_seed = watch_batches(patch)
        fit(replace(RUN, method="none", seed=1), table, words)
    assert len(orders["none"]) == 12
    assert orders["none"] == orders["sinusoidal"] == orders["vnait"] != other_seed


def test_what_two_methods_share_starts_equal(table, words):
    models = {
        method: new_model(words, replace(RUN, method=method), ["neg", "pos"], [5]).state_dict()
        for method in ("none", "learned", "vnait-paper", "vnait")
    }
    shared = set.intersection(*map(set, models.values()))
    assert any("attention.query" in name for name in shared) and "classifier.weight" in shared
    for name in shared:
        assert all(torch.equal(models["none"][name], model[name]) for model in models.values()), name
    assert len(models["vnait"]) > len(shared)
    both = set(models["vnait"]) & set(models["learned"])
    assert all(torch.equal(models["vnait"][name], models["learned"][name]) for name in both)


# What a person can do wrong


def test_a_loss_that_diverges_is_one_sentence(table, words):
    with pytest.raises(FloatingPointError) as error:
        fit(replace(RUN, learning_rate=1e30), table, words)
    message = str(error.value)
    assert "the loss of vnait became" in message and "lower learning_rate" in message and "\n" not in message


def test_all_wrong_settings_are_listed_together():
    with pytest.raises(InputError) as error:
        Run(
            method="nope",
            seed=-1,
            steps=0,
            batch_size=0,
            learning_rate=math.nan,
            weight_decay=-1,
            smoothness="x",
            boundary=math.inf,
            warmup=1.0,
            dropout=-0.1,
            num_layers=0,
            num_heads=0,
            max_length=0,
            validation=1.5,
            eval_every=0,
            patience=0,
            early_stopping=-1,
            bag=1.0,
        )
    message = str(error.value)
    assert message.count(";") == 17 and message.endswith(".") and "\n" not in message
    for part in (
        "method 'nope' is not known. Did you mean 'rope'? The methods are none, sinusoidal",
        "seed is -1: it must be a whole number in [0, 4294967296)",
        "steps is 0",
        "batch_size is 0",
        "learning_rate is nan: it must be above 0",
        "weight_decay is -1: it must be 0 or more, and finite",
        "smoothness is 'x': it must be 0 or more",
        "boundary is inf",
        "warmup is 1.0: it must be in [0, 1)",
        "dropout is -0.1",
        "num_layers is 0",
        "num_heads is 0",
        "max_length is 0",
        "validation is 1.5",
        "eval_every is 0",
        "patience is 0",
        "early_stopping is -1: it must be a number of rows",
        "bag is 1.0: it must be in [0, 1)",
    ):
        assert part in message


def test_texts_that_are_cut_are_counted_in_the_log(words, caplog):
    table = texts_of()
    table.texts[3] = "good " * 30
    table.texts[8] = "bad " * 31
    with caplog.at_level(logging.WARNING, logger="vnait"):
        fit(replace(RUN, steps=1, max_length=20), table, words)
    assert "2 of 40 texts were cut to 20 tokens; the longest has 31." in caplog.messages


def test_one_class_is_not_enough(table, words):
    one = Table(texts=table.texts, labels=["pos"] * 40, name="one.csv", dropped=0)
    with pytest.raises(InputError, match=r"one.csv has one class only \(pos\)"):
        fit(RUN, one, words)


def test_a_class_of_one_row_can_not_be_held_out(words):
    table = texts_of()
    table.labels[0] = "rare"
    with pytest.raises(InputError, match="class 'rare' has 1 row; a class needs 2 rows"):
        fit(RUN, table, words)
    fit(replace(RUN, validation=0, steps=1), table, words)


def test_texts_without_labels_can_not_be_trained_on(table, words):
    with pytest.raises(InputError, match=r"made\.csv was read without labels"):
        fit(RUN, Table(texts=table.texts, labels=None, name="made.csv", dropped=0), words)


def test_a_label_that_training_never_saw_counts_as_wrong(table, words, caplog):
    run, test = replace(RUN, steps=30, learning_rate=0.03), texts_of(seed=2)
    fitted = fit(run, table, words, test=test)
    known = fitted.record.metrics["accuracy"]
    for row in range(10):
        test.labels[row] = "unseen"
    answers = [fitted.classes[index] for index in fitted.probabilities(test.texts).argmax(1)]
    right = sum(answer == label for answer, label in zip(answers, test.labels, strict=True))
    accuracy = fit(run, table, words, test=test).record.metrics["accuracy"]
    assert accuracy == pytest.approx(right / 40) and accuracy <= 0.75 < known
    assert "10 of 40 rows have a label that training never saw ('unseen'); they count as wrong" in caplog.text
    with pytest.raises(InputError, match=r"share no label, such as .*: check the label column of both"):
        fit(RUN, table, words, test=replace(test, labels=["Pos"] * 40))


def test_scores_are_those_of_their_formulas():
    found = scores([0, 0, 0, 1], [0, 0, 1, 1])
    assert found == pytest.approx({"accuracy": 0.75, "macro_f1": (0.8 + 2 / 3) / 2, "mcc": 1 / math.sqrt(3)})
    names = ["a", "b", "new", "other", "a"]
    truth = Classes(["a", "b"]).truth(names)  # as scikit-learn scores the labels' names
    answers = ["a", "a", "b", "b", "a"]
    found = scores(truth, [["a", "b"].index(answer) for answer in answers])
    assert found["macro_f1"] == pytest.approx(f1_score(names, answers, average="macro", zero_division=0))


def test_steps_where_none_are_given():
    assert Run().total_steps(100) == 150
    assert Run(batch_size=10).total_steps(10_001) == 3 * 1001
    assert Run(steps=7).total_steps(10_001) == 7


# In several processes


@pytest.fixture
def loopback(monkeypatch):
    """Processes that find each other without a network."""
    name = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", name)


def train_a_share(rank: int, folder: Path) -> None:
    """What each process of a launcher runs."""
    faulthandler.dump_traceback_later(400, exit=True)  # the parent would wait forever, without our stack
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", LOCAL_WORLD_SIZE="2")
    os.environ.update(ACCELERATE_USE_CPU="true", OMP_NUM_THREADS="1")
    store = torch.distributed.FileStore(str(folder / "store"), 2)
    torch.distributed.init_process_group(
        "gloo", store=store, rank=rank, world_size=2, timeout=timedelta(seconds=120)
    )
    table, losses = texts_of(), []
    fitted = fit(
        SHARED, table, words_of(table), checkpoints=folder / "c", callback=lambda one: losses.append(one.loss)
    )
    torch.save((losses, weights(fitted)), folder / f"{rank}.pt")
    torch.distributed.destroy_process_group()


# Without dropout and random places, whose draws depend on the shape of a batch. The last batch has 5 rows.
SHARED = replace(RUN, method="vnait-paper", dropout=0.0, batch_size=9)


@pytest.mark.slow
@pytest.mark.long
def test_two_processes_train_as_one_with_the_same_batches(table, words, tmp_path, loopback):
    torch.multiprocessing.spawn(train_a_share, args=(tmp_path,), nprocs=2)
    (one, first), (other, second) = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    losses: list[float] = []
    alone = weights(fit(SHARED, table, words, callback=lambda status: losses.append(status.loss)))
    assert one == other and equal(first, second)
    assert one == pytest.approx(losses, abs=1e-4) and len(one) == 12
    # A key's bias changes no score after the softmax: AdamW makes steps of its gradient's rounding errors.
    gaps = {name: float((first[name] - alone[name]).abs().max()) for name in alone if "key.bias" not in name}
    assert len(gaps) > 20 and max(gaps.values()) < 1e-5


LAUNCHED = """
import json, os, sys
import numpy as np
from vnait.train import fitting as train
from vnait.cli import main

calls, prepare, run = [], train.prepare, train.train

def noted(ready, **options):
    fitted = run(ready, **options)
    arrays = ready.labelled.encoded.flat, ready.labelled.vocabulary.table
    facts = [len(calls), [isinstance(one, np.memmap) for one in arrays], len(ready.labelled.labels)]
    sums = {name: float(one.double().sum()) for name, one in fitted.model.state_dict().items()}
    with open(f"{os.environ['RANK']}.json", "w") as file:
        json.dump([facts, fitted.record.data["bag_share"], sums], file)
    return fitted

train.prepare, train.train = (lambda *given, **more: calls.append(1) or prepare(*given, **more)), noted
main()
"""


@pytest.mark.slow
def test_torchrun_trains_one_model_on_one_copy_of_the_texts(tmp_path, monkeypatch, table, loopback):
    """Without a GPU, too, where accelerate would leave each process alone."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "launched.py").write_text(LAUNCHED, encoding="utf-8")
    rows = [{"text": text, "label": label} for text, label in zip(table.texts, table.labels, strict=True)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    command = "-m torch.distributed.run --standalone --nproc-per-node 2 launched.py"
    command += " train rows.jsonl --out model --steps 5 --quiet"
    subprocess.run([sys.executable, *command.split()], cwd=tmp_path, check=True, timeout=400)
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    (first, *ours), (other, *others) = found
    assert first == [1, [True, True], len(table)] and other == [0, [True, True], len(table)]
    assert ours == others and ours[0] > 0
    assert (tmp_path / "model").is_dir() and not list(tmp_path.glob("vnait-*"))
