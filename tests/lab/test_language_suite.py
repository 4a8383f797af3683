"""The language suite: what a text becomes, what is asked of a model, which losses are compared."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Generator

from helpers import record
from vnait.cli import main
from vnait.shared.errors import InputError
from vnait_lab.page.language import draw
from vnait_lab.suites import language
from vnait_lab.suites.language import LENGTHS, MASK, TRAINED, UNKNOWN, Corpus, Setting
from vnait_lab.suites.suite import IGNORED

SMALL = Setting(steps=2, batch=2, hidden_size=8, num_hidden_layers=1, windows=1)


def file_of(path: Path, words: int, join: str = " ") -> Path:
    drawn = random.Random(0)
    path.write_text(join.join("".join(drawn.choices("abcdefgh", k=3)) for _ in range(words)))
    return path


def corpus(masked: bool, count: int = 3 * LENGTHS[-1]) -> Corpus:
    ids = torch.randint(3, 11, (count,), generator=Generator().manual_seed(0))
    return Corpus(masked=masked, unit="letters", words=11, train=ids, validation=ids, test=ids)


def test_a_file_is_split_in_tenths_whose_vocabulary_is_that_of_the_first(tmp_path: Path) -> None:
    path = file_of(tmp_path / "made.txt", 8_000, join="")
    text = path.read_text()[:-1] + "z"
    path.write_text(text)
    tasks = language.tasks_of_file(path)
    assert list(tasks) == ["next-made", "masked-made"]
    assert [task.masked for task in tasks.values()] == [False, True]
    task = tasks["next-made"]
    assert (task.unit, task.words) == ("characters", 3 + 8)
    assert [len(part) for part in (task.train, task.validation, task.test)] == [19_200, 2_400, 2_400]
    assert task.test[-1] == UNKNOWN and (task.test[:-1] > MASK).all()
    letters = {int(number): letter for number, letter in zip(task.train, text, strict=False)}
    assert "".join(letters[int(number)] for number in task.validation) == text[19_200:21_600]


@pytest.mark.parametrize("part", ["train", "validation", "test"])
def test_a_change_of_any_part_of_the_text_is_another_run(part: str) -> None:
    whole = corpus(masked=False)
    changed = getattr(whole, part).clone()
    changed[5] = 3 + changed[5] % 8
    assert replace(whole, **{part: changed}).asks != whole.asks


def test_texts_with_spaces_become_subwords(tmp_path: Path) -> None:
    task = language.tasks_of_file(file_of(tmp_path / "made.txt", 30_000))["next-made"]
    assert task.unit == "subwords" and 259 < task.words <= language.SUBWORDS
    assert len(task.train) < 8 * 30_000 * 4 / 10
    assert (task.train > MASK).all()


@pytest.mark.parametrize("content", [b"too short", "\u00e9".encode("utf-16")])
def test_a_file_that_can_t_be_read_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "made.txt").write_bytes(content)
    with pytest.raises(
        InputError, match=r"made.*(needed; give a longer text, of 20,480|can't be read as UTF-8)"
    ):
        language.tasks_of_file(tmp_path / "made.txt")


def test_masked_tokens_are_asked_and_no_others() -> None:
    ids = corpus(masked=True).train[None]
    shown, labels = language.question(corpus(masked=True), ids, Generator().manual_seed(1))
    hidden = labels != IGNORED
    assert 0.13 < hidden.float().mean() < 0.17
    assert torch.equal(labels[hidden], ids[hidden]) and (shown[hidden] == MASK).all()
    assert torch.equal(shown[~hidden], ids[~hidden])
    assert language.question(corpus(masked=False), ids, Generator())[1] is ids


class KnowsTheBeginning(torch.nn.Module):
    """Predicts the next id in the first three quarters of a window, and nothing in the last."""

    def forward(self, ids: torch.Tensor) -> SimpleNamespace:
        answers = torch.nn.functional.one_hot(ids, 11).float().roll(-1, dims=1)
        asked = torch.arange(1, ids.shape[1] + 1)
        return SimpleNamespace(logits=99.0 * answers * (asked < ids.shape[1] * 3 // 4)[:, None])


def test_losses_are_means_over_windows_and_their_last_quarters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "VnaitForCausalLM", KnowsTheBeginning)
    text = corpus(masked=False)
    for length in LENGTHS:
        mean, last = language.loss_at(KnowsTheBeginning(), text, text.test, length, SMALL, 3)
        assert last == pytest.approx(math.log(11))
        assert mean == pytest.approx(math.log(11) * (length / 4) / (length - 1))


def test_the_same_tokens_are_masked_at_every_length() -> None:
    seen = {}
    for length in LENGTHS:
        model = torch.nn.Module()
        shown: list[torch.Tensor] = []
        model.forward = lambda ids, shown=shown: (  # type: ignore[method-assign, misc]
            shown.append(ids) or SimpleNamespace(logits=torch.zeros(*ids.shape, 11))  # type: ignore[func-returns-value]
        )
        text = corpus(masked=True)
        losses = language.loss_at(model, text, text.test, length, SMALL, 3)  # type: ignore[arg-type]
        assert losses == pytest.approx((math.log(11), math.log(11)))
        seen[length] = torch.cat([ids.flatten() for ids in shown])
    assert all(torch.equal(ids, seen[TRAINED]) for ids in seen.values())
    assert 0.13 < (seen[TRAINED] == MASK).float().mean() < 0.17


def test_seed_0_chooses_the_better_learning_rate_on_validation_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    losses = {1e-3: 2.0, 3e-3: 1.0}
    monkeypatch.setattr(
        language,
        "fit_at",
        lambda method, text, seed, setting, rate: SimpleNamespace(seed=seed, learning_rate=rate),
    )
    seen = []

    def loss_at(
        model: SimpleNamespace, text: Corpus, ids: torch.Tensor, length: int, *_: object
    ) -> tuple[float, float]:
        seen.append((model.seed, ids is text.validation, length))
        return losses[model.learning_rate], 0.0

    monkeypatch.setattr(language, "loss_at", loss_at)
    text = Corpus(
        masked=False, unit="", words=3, train=torch.ones(1), validation=torch.ones(2), test=torch.ones(3)
    )

    def chosen(*seeds: int) -> list[tuple[int, float]]:
        models: list[Any] = language.fit("rope", text, seeds, Setting())
        return [(model.seed, model.learning_rate) for model in models]

    assert chosen(0, 1) == [(0, 3e-3), (1, 3e-3)]
    losses[1e-3] = 0.5
    assert chosen(2) == [(2, 1e-3)]  # as when seed 0 runs with it
    assert set(seen) == {(0, True, TRAINED)}


@pytest.mark.parametrize(
    ("loss", "seeds", "word"),
    [(1.9, 3, "confirmed"), (2.1, 3, "refuted"), (2.0, 3, "undecided"), (1.9, 2, "undecided")],
)
def test_the_lowest_loss_at_every_length_is_claimed(loss: float, seeds: int, word: str) -> None:
    def runs(method: str, mean: float, spread: float) -> list:
        return [
            record(
                method=method,
                seed=seed,
                data={"name": "next-made", "masked": False},
                metrics={f"loss_{length}": mean + spread * (seed - 1) for length in LENGTHS},
            )
            for seed in range(seeds)
        ]

    records = [*runs("ours", loss, 0.01), *runs("rope", 2.0, 0.02), *runs("none", 3.0, 0.0)]
    verdict = language.verdict(records, "ours", masked=False)
    assert (
        verdict.word == word
        and "next-made at 2,048 tokens: " in verdict.summary
        and "to rope" in verdict.summary
    )
    assert language.verdict(records, "ours", masked=True).summary == "ours was compared with nothing"
    # A rival that has not run leaves open only what it could still change.
    lacking = [*records, replace(records[-1], method="alibi")]
    assert language.verdict(lacking, "ours", masked=False).word == {"confirmed": "undecided"}.get(word, word)


def test_a_file_of_the_reader_s_is_studied_by_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(language, "QUICK", SMALL)
    path = file_of(tmp_path / "made.txt", 8_000, join="")
    command = (
        f"study language --corpus {path} --quick --methods none,sinusoidal,vnait --seeds 1 --jobs 1 --quiet"
    )
    main([*command.split(), "--out", str(tmp_path / "out")])
    printed = capsys.readouterr().out
    assert printed.index("next-made") < printed.index("masked-made") and "2,048" in printed
    main([*command.split(), "--out", str(tmp_path / "out"), "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    methods = {
        task: [row["method"] for row in rows if row["task"] == task] for task in ("next-made", "masked-made")
    }
    assert methods == {"next-made": ["none", "sinusoidal"], "masked-made": ["none", "sinusoidal", "vnait"]}
    assert all(row["flops"] > 1e5 and row["tokens"] == 2 * 2 * TRAINED for row in rows)


def test_a_line_has_the_colour_of_its_name_on_every_panel() -> None:
    """Records of the second text have another order of methods."""

    def of(text: str, **losses: float) -> list[Any]:
        return [
            record(
                method=method,
                seed=0,
                data={"name": f"next-{text}"},
                metrics=dict.fromkeys((f"loss_{length}" for length in LENGTHS), loss),
            )
            for method, loss in losses.items()
        ]

    drawn = draw([*of("one", rope=1.0, alibi=2.0), *of("two", alibi=4.0, rope=3.0)])
    first, second = (axes.get_lines() for axes in drawn.axes)
    assert [line.get_color() for line in first] == [line.get_color() for line in second]
    assert [float(line.get_ydata()[0]) for line in second] == [3.0, 4.0]
