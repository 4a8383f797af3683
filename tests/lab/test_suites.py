"""The length suite: its answers, found again by a loop; its summary and its verdict. All suites: they resume,
and name what they do not know.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from threading import Lock

import pytest
import torch
from torch import Generator, Tensor, nn

from helpers import TINY_SIZES, record
from vnait.positions.coordinates import Index
from vnait.positions.injection import Injection
from vnait.positions.method import Method
from vnait.positions.methods import METHODS
from vnait.positions.recipe import Recipe, Size
from vnait.results import record as records
from vnait.results.record import Record
from vnait.shared.errors import InputError, OutOfRange
from vnait.shared.statistics import Interval
from vnait_lab import page
from vnait_lab.runs import ablation
from vnait_lab.runs.held_out import HELD_OUT
from vnait_lab.suites import algorithmic, decoding, elastic
from vnait_lab.suites.length import LENGTHS, SUITE, Setting, fit, learned, new_model, score, verdict
from vnait_lab.suites.suite import Score, Suite, Training, answers
from vnait_lab.suites.tasks import TASKS, VOCABULARY, A, B, M, task

STUDIES = Path(__file__).parents[2] / "studies"
TINY = Setting(**TINY_SIZES)
ASKED = {**TASKS, **HELD_OUT}


def answer(name: str, text: list[int]) -> int:
    """The class, looked up by hand."""
    n, place = len(text), {mark: text.index(mark) for mark in (A, B, M) if mark in text}
    odd = [word % 2 for word in text]
    if name == "half":
        return int(2 * place[M] < n - 1)
    if name == "order":
        return int(place[A] < place[B])
    if name == "middle":
        return odd[n // 2]
    if name == "third_from_end":
        return odd[n - 3]
    if name == "adjacent":
        assert abs(place[A] - place[B]) == 1
        return int(place[A] < place[B])
    if name == "offset3":
        return odd[place[M] + 3]
    if name == "bigram":
        pairs = set(pairwise(text))
        assert {(A, B), (B, A)} & pairs
        return int((A, B) in pairs)
    if name == "third":
        return odd[2]
    if name == "first_of_two":
        assert odd[0] != odd[1]
        return odd[0]
    if name == "first_after":
        return int(next(word for word in text[place[M] + 1 :] if word in (A, B)) == A)
    if name == "middle_third":
        return int(n // 3 <= place[M] < n - n // 3)
    if name == "in_order":
        return int(place[A] < place[B] < place[M])
    if name == "two_after":
        return odd[place[M] + 2]
    if name == "second_from_end":
        return odd[n - 2]
    if name == "nearer":
        assert abs(place[A] - place[M]) != abs(place[B] - place[M])
        return int(abs(place[A] - place[M]) < abs(place[B] - place[M]))
    if name == "after_first":
        assert text.count(M) == 2
        return odd[place[M] + 1]
    return 2 * int(2 * place[M] < n - 1) + odd[place[M] - 1]


@pytest.mark.parametrize("length", [8, 9, 40, 41, 320])
@pytest.mark.parametrize("name", ASKED)
def test_tasks_have_the_answers_of_their_definition(name: str, length: int) -> None:
    ids, classes = ASKED[name].make(300, length, Generator().manual_seed(1))
    assert ids.shape == (300, length)
    assert int(ids.min()) >= 1 and int(ids.max()) < VOCABULARY
    wrong = [
        text
        for text, found in zip(ids.tolist(), classes.tolist(), strict=True)
        if answer(name, text) != found
    ]
    assert not wrong, wrong[0]
    shares = classes.bincount(minlength=ASKED[name].classes) / 300
    assert (shares - 1 / ASKED[name].classes).abs().max() < 0.12, shares


@pytest.mark.parametrize("name", TASKS)
def test_texts_are_decided_by_the_generator(name: str) -> None:
    one, other, third = (TASKS[name].make(5, 20, Generator().manual_seed(seed)) for seed in (3, 3, 4))
    assert torch.equal(one[0], other[0]) and torch.equal(one[1], other[1])
    assert not torch.equal(one[0], third[0])


def test_marks_stand_everywhere() -> None:
    """A task whose marks kept to a part of the text would not ask for the rest."""
    random = Generator().manual_seed(0)
    for name, mark, places in (
        ("half", M, 40),
        ("order", A, 40),
        ("adjacent", A, 40),
        ("offset3", M, 37),
        ("bigram", A, 39),
    ):
        ids, _ = TASKS[name].make(4000, 40, random)
        assert len((ids == mark).nonzero()[:, 1].unique()) == places, name


TINY_SUITES = {
    "length": ("half", SUITE, TINY),
    "elastic": ("half", elastic.SUITE, TINY),
    "algorithmic": (
        "parity_check",
        algorithmic.SUITE,
        algorithmic.Setting(intermediate_size=8, **TINY_SIZES),
    ),
    "decoding": ("parity", decoding.SUITE, decoding.Setting(intermediate_size=8, **TINY_SIZES)),
}
of_every_suite = pytest.mark.parametrize(("name", "suite", "tiny"), TINY_SUITES.values(), ids=TINY_SUITES)


@of_every_suite
def test_a_suite_resumes_and_a_task_comes_from_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, suite: Suite, tiny: Training
) -> None:
    path = tmp_path / "new" / "records.jsonl"
    options = {"methods": ["none", "learned"], "seeds": [0], "path": path, "jobs": 1}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        first = suite.run(tasks=[name], setting=tiny, **options)
        drawn = torch.rand(())
    assert drawn == torch.rand((), generator=Generator().manual_seed(11)), "the caller's random state is kept"
    assert [record.method for record in first] == ["none", "learned"]
    assert all(record.data == {"name": name, **suite.facts(suite.tasks[name])} for record in first)
    monkeypatch.setitem(suite.tasks, "other", replace(suite.tasks[name], asks="the same, by another name"))
    seen = []
    both = suite.run(
        tasks=[name, "other"],
        setting=tiny,
        callback=lambda done, total, record: seen.append((done, total)),
        **options,
    )
    assert seen == [(2, 4), (3, 4), (4, 4)]
    assert [record.key for record in both[:2]] == [record.key for record in first]
    assert len(records.read(path)) == 4
    again = suite.run(tasks=[name], setting=replace(tiny, steps=3), **options)
    assert not {record.key for record in again} & {record.key for record in first}
    more = suite.run(tasks=[name], setting=tiny, **{**options, "seeds": [0, 1]})
    assert [record.seed for record in more] == [0, 0, 1, 1]
    assert [record.key for record in more[:2]] == [record.key for record in first]


def test_a_record_has_the_facts_of_its_task_and_a_score_per_length(tmp_path: Path) -> None:
    def recorded(number: str) -> Record:
        task, suite, tiny = TINY_SUITES[number]
        path = tmp_path / f"{number}.jsonl"
        (found,) = suite.run(methods=["none"], tasks=[task], seeds=[0], setting=tiny, path=path, jobs=1)
        return found

    length = recorded("length")
    assert length.data == {"name": "half", "family": "global", "trained": [8, 40]}
    assert set(length.metrics) == {f"accuracy_{tokens}" for tokens in LENGTHS}
    algorithm = recorded("algorithmic")
    assert algorithm.data == {"name": "parity_check", "level": "regular", "chance": 0.5, "trained": [1, 40]}
    assert set(algorithm.metrics) == {f"accuracy_{symbols}" for symbols in algorithmic.LENGTHS}
    question = recorded("decoding")
    assert question.data["lengths"] == [20, 24, 28, 32, 36, 40]
    assert set(question.metrics) == {f"exact_{share}" for share in (50, 60, 70, 80, 90, 100)}


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_name_that_means_another_method_is_run_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    """In processes that know the library's own, and have run it."""
    options = {"methods": ["rope", "none"], "tasks": ["half"], "seeds": [0], "setting": TINY, "jobs": jobs}
    assert [record.parameters for record in SUITE.run(path=tmp_path / "one.jsonl", **options)] == [0, 0]
    table = Recipe(make=METHODS["learned"].make, formula="a table, by the name of rope", source="")
    monkeypatch.setitem(METHODS, "rope", table)
    assert [record.parameters for record in SUITE.run(path=tmp_path / "two.jsonl", **options)] == [500 * 8, 0]


@pytest.mark.long
def test_only_the_task_that_is_run_goes_to_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = Lock()  # which can't be pickled
    held = replace(TASKS["half"], make=lambda count, length, random: lock.locked())
    monkeypatch.setitem(TASKS, "held", held)
    options = {"methods": ["none", "rope"], "tasks": ["half"], "seeds": [0], "setting": TINY, "jobs": 2}
    assert len(SUITE.run(path=tmp_path / "r.jsonl", **options)) == 2


class Unreset(nn.Module):
    """A part with a weight of its own that cannot start again."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim))

    def forward(self, at: Tensor) -> Injection:
        return Injection(added=at[..., :1] * self.weight)


def test_a_part_that_cannot_start_again_depends_on_the_seed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = Recipe(
        make=lambda size: Method(coordinates=Index(), encoding=Unreset(size.dim)),
        formula="w R_i",
        source="a test",
    )
    monkeypatch.setitem(METHODS, "unreset", recipe)
    one, other, third = (
        new_model("unreset", TASKS["half"], seed, TINY).model.method.encoding.weight for seed in (0, 0, 1)
    )
    assert torch.equal(one, other) and not torch.equal(one, third)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda *given: (TASKS["half"].make(*given)[0] + 9, TASKS["half"].make(*given)[1]),
            "a word from .* take 0 to 19",
        ),
        (
            lambda *given: (TASKS["half"].make(*given)[0], TASKS["half"].make(*given)[1] + 1),
            "a class from 1 to 2; take 0 to 1",
        ),
    ],
)
def test_texts_that_fit_no_model_are_an_error_in_words(make: Callable[..., object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit("none", replace(TASKS["half"], make=make), [0], TINY)


def test_a_word_of_number_0_is_a_word_in_training_and_in_the_test() -> None:
    """0 is the id of padding; the attention mask marks it as a word."""
    zeros = replace(
        TASKS["half"], make=lambda *given: (TASKS["half"].make(*given)[0] * 0, TASKS["half"].make(*given)[1])
    )
    (model,) = fit("none", zeros, [0], TINY)
    assert 0 < score(model, zeros, 40, 200, Generator().manual_seed(0)) < 1


def test_a_cell_that_two_processes_wrote_counts_once(tmp_path: Path) -> None:
    found = SUITE.run(
        methods=["none"], tasks=["half"], seeds=[0], setting=TINY, path=tmp_path / "r.jsonl", jobs=1
    )
    assert SUITE.summary([*found, *found])[0].seeds == 1


def test_a_task_is_registered_by_name() -> None:
    try:

        @task("own", "is it so?")
        def so(count: int, length: int, random: Generator):
            return TASKS["half"].make(count, length, random)

        assert TASKS["so"].family == "own" and TASKS["so"].classes == 2
    finally:
        TASKS.pop("so")


def test_a_seed_decides_a_training() -> None:
    one, other, third = (fit("vnait", TASKS["half"], [seed], TINY)[0].state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert not all(torch.equal(one[name], third[name]) for name in one)


def test_the_summary_names_what_was_not_learned() -> None:
    def invented(seed: int, near: float, far: float) -> Record:
        metrics = {f"accuracy_{length}": near if length == 40 else far for length in LENGTHS}
        data = {"name": "half", "family": "global"}
        return record(seed=seed, data=data, metrics=metrics)

    (row,) = SUITE.summary([invented(seed, 0.95, 0.5 + seed / 10) for seed in range(3)])
    assert learned(row) and row.seeds == 3
    assert row.mean("accuracy_500") == pytest.approx(0.6)
    assert row.row()["ci_low_500"] < 0.6 < row.row()["ci_high_500"]
    assert row.row()["family"] == "global"
    (row,) = SUITE.summary([invented(0, 0.85, 0.85)])
    assert not learned(row)


def scores(method: str, task: str, near: float, far: float, seeds: int = 3) -> Score:
    means = {f"accuracy_{length}": near if length == 40 else far for length in LENGTHS}
    intervals = {metric: Interval(mean, None, None) for metric, mean in means.items()}
    return Score(method=method, task=task, seeds=seeds, facts={}, intervals=intervals)


@pytest.mark.parametrize(
    ("rows", "word", "said"),
    [
        (
            [scores("m", "half", 1.0, 0.99), scores("m", "order", 1.0, 0.97)],
            "confirmed",
            "98.0 % on average over 2 tasks",
        ),
        ([scores("m", "half", 1.0, 0.97), scores("m", "order", 1.0, 0.97)], "refuted", "97.0 % on average"),
        (
            [scores("m", "half", 1.0, 1.0), scores("m", "order", 1.0, 0.94)],
            "refuted",
            "order at 320 (94.0), order at 500 (94.0)",
        ),
        ([scores("m", "half", 1.0, 1.0, seeds=2)], "undecided", "fewer than 3 seeds"),
        (
            [scores("m", "half", 0.6, 0.5), scores("n", "half", 0.5, 0.5)],
            "undecided",
            "not run on a task that any method learned",
        ),
        ([scores("m", "half", 0.6, 0.5), scores("n", "half", 1.0, 0.5)], "refuted", "half at 320 (50.0)"),
        (
            [scores("m", "half", 1.0, 1.0), scores("m", "order", 0.5, 0.5), scores("n", "order", 0.5, 0.5)],
            "confirmed",
            "100.0 % on average over 1 tasks",
        ),
        ([scores("m", "half", 1.0, 1.0), scores("m", "order", 0.5, 0.5)], "refuted", "order at 320 (50.0)"),
    ],
)
def test_the_verdict(rows: list[Score], word: str, said: str) -> None:
    """On invented scores: tasks that others tried and no method learned do not count."""
    found = verdict(rows, "m", tasks=sorted({row.task for row in rows}))
    assert found.word == word
    assert said in found.summary


def test_the_verdict_asks_for_all_tasks() -> None:
    found = verdict([scores("m", "half", 1.0, 1.0), scores("n", "order", 1.0, 0.5)], "m")
    assert found.word == "undecided" and found.summary.endswith(
        ", ".join(name for name in TASKS if name != "half")
    )


@pytest.mark.slow
def test_the_pages_are_written_from_their_records() -> None:
    for path, expected in page.pages().items():
        assert path.read_text(encoding="utf-8") == expected, "run: python -m vnait_lab.page"


def variants_of_the_ablation() -> dict[str, Callable[[Size], Method]]:
    variants: dict[str, Callable[[Size], Method]] = ablation.VARIANTS | ablation.COUNTING
    return variants


def test_the_ablation_starts_from_the_default_of_its_time() -> None:
    """Its first arm is written a second time, with what each arm takes out."""
    first = variants_of_the_ablation()["vnait-warp"]
    assert repr(first(Size(dim=16))) == repr(METHODS["vnait-warp"].make(Size(dim=16)))


def test_every_variant_of_the_ablation_takes_texts_of_two_lengths() -> None:
    vectors, mask = torch.randn(2, 7, 64), torch.ones(2, 7, dtype=torch.bool)
    mask[1, 4:] = False
    for name, make in variants_of_the_ablation().items():
        for training in (True, False):
            x = make(Size(dim=64)).train(training)(vectors, mask).x
            assert x.shape == vectors.shape and x[mask].isfinite().all(), name


@of_every_suite
def test_unknown_names_are_named(tmp_path: Path, name: str, suite: Suite, tiny: Training) -> None:
    options = {"seeds": [0], "setting": tiny, "path": tmp_path / "r.jsonl"}
    first = next(iter(suite.tasks))
    with pytest.raises(
        InputError,
        match=rf"the task '{name}s' is not known. Did you mean '{name}'\? Take one of {first}",
    ):
        suite.run(methods=["none"], tasks=[f"{name}s"], **options)
    with pytest.raises(
        InputError, match=r"the method 'ropes' is not known. Did you mean 'rope'\? Take one of none"
    ):
        suite.run(methods=["ropes"], tasks=[name], **options)
    with pytest.raises(InputError, match="no task was given"):
        suite.run(methods=["none"], tasks=[], **options)
    assert not (tmp_path / "r.jsonl").exists()


def test_an_error_of_a_method_is_no_wrong_answer() -> None:
    """Only a text that is too long for a table counts as wrong."""
    ids = torch.zeros(2, 3, dtype=torch.long)

    def table(part: Tensor) -> Tensor:
        raise OutOfRange("a text of 3 tokens is longer than max_length=2.")

    def broken(part: Tensor) -> Tensor:
        _one, _two = [1, 2, 3]
        return part

    assert answers(table, ids, rows=1) is None
    with pytest.raises(ValueError, match="too many values to unpack"):
        answers(broken, ids, rows=1)


class Unbounded(nn.Module):
    """Its gradient is not a number; what it returns is one."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, at):
        apart = at - at.transpose(1, 2)
        return Injection(bias=torch.where(apart > 0, -self.weight * torch.log(apart), 0)[:, None])


def test_a_training_that_is_not_finite_is_no_result(monkeypatch, tmp_path):
    recipe = Recipe(
        make=lambda size: Method(coordinates=Index(), encoding=Unbounded()), formula="log", source="made"
    )
    monkeypatch.setitem(METHODS, "log", recipe)
    options = {"methods": ["log"], "tasks": ["half"], "seeds": [0, 1], "setting": Setting(steps=3, tests=4)}
    with pytest.raises(InputError, match="log, task half, seed 0: weights are not finite after training"):
        SUITE.run(path=tmp_path / "records.jsonl", jobs=1, **options)
    assert not (tmp_path / "records.jsonl").exists() or not records.read(tmp_path / "records.jsonl")


def test_logits_that_are_not_finite_are_no_answers():
    with pytest.raises(InputError, match="the logits of texts of 3 tokens are not finite"):
        answers(lambda ids: torch.full((len(ids), 2), torch.nan), torch.zeros(4, 3).long(), rows=2)
