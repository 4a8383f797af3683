"""What the long experiments share: options, records that are read again, committed records by facts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers import record
from vnait.results.record import Record
from vnait_lab import records
from vnait_lab.runs import parser, run_each


@pytest.fixture
def made() -> list[Record]:
    facts: Iterator[tuple[str, int, str, float]] = iter(
        [("rope", 0, "a", 0.5), ("rope", 0, "b", 0.7), ("rope", 1, "a", 0.8), ("none", 0, "a", 0.1)]
    )
    return [
        record(method, seed, data={"name": name, "shots": 16}, metrics={"accuracy": accuracy})
        for method, seed, name, accuracy in facts
    ]


def test_options_stand_with_commas_and_have_their_defaults() -> None:
    command = parser("A run.", seeds=3, quick="two steps", methods=("none", "rope"), shots=(16,), tasks=())
    options = command.parse_args([])
    assert (options.methods, options.shots, options.tasks) == (("none", "rope"), (16,), None)
    assert (options.seeds, options.jobs, options.quick) == (3, None, False)
    options = command.parse_args(["--shots", "8,16", "--tasks", "half", "--quick", "--jobs", "2"])
    assert (options.shots, options.tasks, options.quick, options.jobs) == ((8, 16), ("half",), True, 2)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_recorded_run_is_not_repeated(jobs: int, tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"

    def key(method: str, seed: int) -> str:
        return f"key of {method} {seed}"

    def run(method: str, seed: int) -> Record:
        return record(method, seed, metrics={"accuracy": seed / 10})

    def fail(method: str, seed: int) -> Record:
        raise AssertionError("this run is recorded")

    first = run_each(path, run, [("rope", 1), ("none", 2)], key, jobs)
    assert [(one.key, one.seed) for one in first] == [("key of rope 1", 1), ("key of none 2", 2)]
    assert run_each(path, fail, [("none", 2), ("rope", 1)], key, jobs) == first[::-1]


def test_records_are_picked_by_facts_and_averaged_by_seed(made: list[Record]) -> None:
    assert [one.seed for one in records.where(made, method="rope", name="a")] == [0, 1]
    assert records.values_of(made, "name") == ["a", "b"]
    assert records.by_seed(made, "accuracy", method="rope") == pytest.approx({0: 0.6, 1: 0.8})
    assert records.by_seed(made, lambda one: one.seed + 1.0, name="a", shots=16) == {0: 1.0, 1: 2.0}
    assert records.by_method(made, "accuracy", ["none"]) == {"none": {0: 0.1}}
    assert records.points({0: 0.5, 1: 0.6}, {1: 0.5, 2: 0.0}).mean == pytest.approx(10)
