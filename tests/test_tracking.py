"""Each step of a training is logged, once, however often it was killed; and nothing else changes."""

import csv
import sys
from dataclasses import replace

import pytest
import torch

from test_train import RUN, Stopped, equal, stop_at, texts_of, weights, words_of
from vnait.cli import main
from vnait.shared.errors import InputError
from vnait.train import tracking
from vnait.train.estimator import TextClassifier
from vnait.train.fitting import fit


@pytest.fixture(scope="module")
def table():
    return texts_of()


@pytest.fixture(scope="module")
def words(table):
    return words_of(table)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def logged():
    (path,) = tracking.FOLDER.glob("*.csv")
    with path.open() as file:
        return list(csv.DictReader(file))


def test_each_step_is_a_line_and_the_model_its_key_and_its_record_stay(table, words):
    seen = []
    fitted = fit(replace(RUN, track="csv"), table, words, callback=seen.append)
    rows = logged()
    assert [int(row["step"]) for row in rows] == list(range(1, 13))
    for row, status in zip(rows, seen, strict=True):
        logged_values = {name: float(row[name]) for name in tracking.MEASURED if row[name]}
        assert logged_values == status.measured
        assert sum(status.gradient.values()) == pytest.approx(1)
    # keeps_best: the held-out rows are evaluated every four steps, and at the last one
    assert [int(row["step"]) for row in rows if row["validation_loss"]] == [4, 8, 12]
    rates = [status.learning_rate for status in seen]
    assert max(rates) == RUN.rate and rates[-1] < rates[2]
    plain = fit(RUN, table, words)
    assert equal(weights(plain), weights(fitted))
    assert plain.record.key == fitted.record.key and plain.record.run == fitted.record.run


def test_a_training_that_goes_on_replaces_the_steps_that_it_repeats(table, words):
    run = replace(RUN, track="csv")
    fit(run, table, words)
    whole = logged()
    with pytest.raises(Stopped):
        fit(run, table, words, checkpoints="c", callback=stop_at(6))
    assert [int(row["step"]) for row in logged()] == list(range(1, 7))
    fit(run, table, words, checkpoints="c")  # goes on at step 5
    assert logged() == whole


def test_steps_that_were_skipped_do_not_count_as_lines(tmp_path):
    path = tmp_path / "log.csv"
    for first, steps in ((1, (1, 2, 951, 952, 953)), (952, (952, 953))):
        log = tracking._Csv(path, first)
        log.start()
        for step in steps:
            log.log({"loss": float(first)}, step)
        log.finish()
    assert [line.split(",")[:2] for line in path.read_text().splitlines()[1:]] == [
        *(["1", "1.0"], ["2", "1.0"], ["951", "1.0"], ["952", "952.0"], ["953", "952.0"])
    ]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_reads_what_was_logged(table, words):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run, seen = replace(RUN, track="tensorboard"), []
    with pytest.raises(Stopped):
        fit(run, table, words, checkpoints="c", callback=stop_at(6))
    fitted = fit(run, table, words, checkpoints="c", callback=seen.append)
    (folder,) = tracking.FOLDER.iterdir()
    found = EventAccumulator(str(folder)).Reload()
    losses = {event.step: event.value for event in found.Scalars("loss")}
    assert [event.step for event in found.Scalars("loss")] == list(range(1, 13))
    assert {status.step: pytest.approx(status.loss) for status in seen}.items() <= losses.items()
    assert [event.step for event in found.Scalars("validation_loss")] == [4, 8, 12]
    assert equal(weights(fit(RUN, table, words)), weights(fitted))


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "mlflow"])
def test_a_tracker_that_is_not_installed_is_refused_before_the_first_step(name, table, words, monkeypatch):
    monkeypatch.setattr(tracking, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=rf"^track '{name}' needs a package: pip install {name}\."):
        fit(replace(RUN, track=name), table, words, callback=stop_at(1))


def test_a_log_that_can_not_be_written_is_one_sentence(table, words):
    tracking.FOLDER.parent.mkdir()
    tracking.FOLDER.write_text("a file")
    with pytest.raises(InputError, match=r"^csv failed: .* Leave --track \(track=\) out"):
        fit(replace(RUN, track="csv"), table, words)


def test_an_unknown_tracker_is_refused_on_the_command_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["vnait", "train", "builtin:polarity", "--out", "m", "--track", "paper"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert "track is 'paper': it must be one of csv, tensorboard" in capsys.readouterr().err


def test_the_command_logs_too(table, monkeypatch):
    with open("made.csv", "w") as file:
        csv.writer(file).writerows([("text", "label"), *zip(table.texts, table.labels, strict=True)])
    main(["train", "made.csv", "--out", "m", "--method", "none", "--steps", "3", "--track", "csv", "--quiet"])
    assert [row["step"] for row in logged()] == ["1", "2", "3"]


def test_the_estimator_calls_back_after_each_step(table):
    seen = []
    TextClassifier("none", steps=4).fit(table.texts, table.labels, callback=seen.append)
    assert [status.step for status in seen] == [1, 2, 3, 4] and seen[0].steps == 4
    assert all(torch.isfinite(torch.tensor(status.loss)) for status in seen)
