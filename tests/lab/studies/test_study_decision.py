"""The Decision Transformer: its episodes against gymnasium's own, its windows, its clocks, its verdicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from vnait_lab.studies import decision
from vnait_lab.studies.decision import (
    ABSOLUTE,
    EVEN,
    HELD,
    LIMIT,
    RELATIVE,
    STARTS,
    STUDY,
    TESTS,
    VARIANTS,
    WINDOW,
    Memory,
    Window,
    demonstrated,
    due,
    judge_absolute,
    judge_cost,
    judge_needed,
    judge_rate,
    judge_relative,
    judge_times,
    play,
    played,
    policy,
)
from vnait_lab.study import Findings

METHODS = [variant for variant in VARIANTS if variant not in ("last two", "window", "rules")]


def test_decisions_are_one_to_three_steps_apart() -> None:
    every, varied = due(50, 1, 0), due(50, HELD, 0)
    assert every.all() and varied[:, 0].all()
    apart = np.concatenate([np.diff(np.flatnonzero(row)) for row in varied])
    assert sorted(set(apart.tolist())) == [1, 2, 3] and apart.mean() == pytest.approx(2, abs=0.1)


def test_returns_are_those_of_the_simulator() -> None:
    """Episode by episode, with one action held by hand."""
    gymnasium = pytest.importorskip("gymnasium")
    first: dict[int, Any] = {}
    asked: list[tuple[int, int]] = []

    def act(rows: Any, states: Any, seen: Any, time: int, earned: Any) -> Any:
        first.update({row: state for row, state in zip(rows, states, strict=True) if time == 0})
        asked.extend((row, time) for row in rows)
        assert (earned == time).all(), "a step that stands earns 1"
        return (states[:, 2] > 0).astype(np.int64)

    found = play(act, 4, 3, [1, HELD])
    assert found.shape == (2, 4) and all((first[row] == first[row + 4]).all() for row in range(4))
    for row, decides in enumerate(np.concatenate([due(4, 1, 3), due(4, HELD, 3)])):
        simulator = gymnasium.make("CartPole-v1").unwrapped
        simulator.reset()
        state = simulator.state = np.array(first[row], dtype=np.float64)
        earned, ended, action = 0.0, False, 0
        for time in range(LIMIT):
            if decides[time]:
                action = int(state[2] > 0)
                assert (row, time) in asked
            state, reward, ended, _, _ = simulator.step(action)
            earned += float(reward)
            if ended:
                break
        assert found.flatten()[row] == earned < LIMIT


def test_a_window_ends_with_the_newest_decision() -> None:
    memory = Memory(2)
    for time in range(WINDOW + 3):
        window = memory.see(np.array([1]), np.array([[0.5, 0.02]]), 2 * time, np.array([2.0 * time]))
        memory.did(np.array([1]), np.array([time % 2]))
    assert window.real.all() and not memory.real[0].any()
    assert window.times[0, :, 0].tolist() == [2.0 * time for time in range(3, WINDOW + 3)]
    assert window.times[0, :, 1].tolist() == [float(time) for time in range(3, WINDOW + 3)]
    last = [1.0 if time % 2 else -1.0 for time in range(2, WINDOW + 2)]
    assert window.tokens[0, :, 3].tolist() == last
    expected = torch.tensor([0.5, 0.2, 2 * (WINDOW + 2) / LIMIT])
    assert torch.allclose(window.tokens[0, -1, :3], expected)


def test_demonstrations_are_whole() -> None:
    pytest.importorskip("gymnasium")
    windows, actions = demonstrated(20, 0)
    starts = windows.times[:, -1, 1] == 0
    assert int(starts.sum()) == 20 and windows.real[starts].sum() == 20
    assert (windows.goal > windows.tokens[:, -1, 2]).all(), "there is a return to go"
    # The action of a token is the last action of the token after it.
    after = (windows.tokens[:, 1:, 3] > 0)[windows.real[:, :-1]]
    assert torch.equal(actions[:, :-1][windows.real[:, :-1]].bool(), after)
    assert 0.3 < actions[:, -1].double().mean() < 0.7


def windows(count: int = 3, seed: int = 0) -> Window:
    random = torch.Generator().manual_seed(seed)
    real = torch.ones(count, WINDOW, dtype=torch.bool)
    real[0, :4] = False
    times = torch.randint(1, HELD + 1, (count, WINDOW), generator=random).cumsum(1)
    both = torch.stack([times, torch.arange(WINDOW).expand(count, -1)], -1).float()
    return Window(torch.randn(count, WINDOW, 4, generator=random), both, real, torch.ones(count))


@pytest.mark.parametrize("variant", METHODS)
def test_what_a_policy_reads(variant: str) -> None:
    torch.manual_seed(0)
    model, given = policy(variant).eval(), windows()
    for parameter in model.parameters():  # a bias starts at 0
        torch.nn.init.normal_(parameter, std=0.3)

    @torch.no_grad()
    def changes(other: Window, last: slice = slice(-1, None)) -> bool:
        new, old = (model(one)[:, last] for one in (other, given))
        return not torch.allclose(new, old, atol=2e-4)

    assert changes(given._replace(goal=torch.zeros(3)))
    later = given.tokens.clone()
    later[:, -1] += 1
    assert not changes(given._replace(tokens=later), slice(None, -1)), "no token sees a later one"
    before = given.tokens.clone()
    before[:, -2] += 1
    assert changes(given._replace(tokens=before)) == (variant != "one step")
    padding = given.tokens.masked_fill(~given.real[..., None], 7.0)
    assert not changes(given._replace(tokens=padding))
    assert changes(given._replace(times=given.times + 50)) == (variant in ABSOLUTE)
    doubled = given.times * torch.tensor([2, 1])
    assert changes(given._replace(times=doubled)) == (variant in (*ABSOLUTE, *RELATIVE))
    numbers = given.times * torch.tensor([1, 2])
    assert changes(given._replace(times=numbers)) == variant.endswith("counted")


def test_a_perceptron_of_two_sees_two_observations() -> None:
    model, given = policy("last two"), windows()
    for back, channel, reads in ((1, 1, True), (2, 1, True), (3, 1, False), (1, 2, False), (1, 3, False)):
        other = given.tokens.clone()
        other[:, -back, channel] += 1
        with torch.no_grad():
            same = torch.equal(model(given)[:, -1], model(given._replace(tokens=other))[:, -1])
        assert same != reads, (back, channel)


def test_a_test_has_its_own_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two episodes; the first decision, and the next one at one step per decision."""
    pytest.importorskip("gymnasium")
    monkeypatch.setattr(decision, "EPISODES", 2)
    seen: list[torch.Tensor] = []

    class Spy(torch.nn.Module):
        def forward(self, window: Window) -> torch.Tensor:
            seen.append(window.times[:, -1])
            return torch.zeros(len(window.real), WINDOW, 2)

    returns = played(Spy(), 0)
    assert len(returns) == len(TESTS) and returns[EVEN] < 15, "it always pushes to the left"
    assert seen[0][::2, 0].tolist() == [start for start, _, _ in TESTS]
    assert TESTS[EVEN] == (0, 1, 1) and [1.0, 1.0] in seen[1].tolist()


def given(returns: dict[str, list[float]]) -> Findings:
    """Findings over three seeds, with these returns in `TESTS`, and 100 in all tests of other variants."""
    cells = {}
    for variant in VARIANTS:
        for seed in range(3):
            own = [value + seed for value in returns.get(variant, [100.0] * len(TESTS))]
            cells[variant, seed] = {
                "return": own[0],
                "double": own[4],
                "noisy": 0.0,
                "random": 0.0,
                "returns": own,
            }
    return Findings(cells)


def test_verdicts() -> None:
    flat, fall = [150.0] * 4, [140.0, 130.0, 60.0, 50.0]
    found = given(
        {
            "relative": [*flat, 150.0, 200.0, 200.0],
            "rope": [*flat, 90.0, 200.0, 200.0],
            "learned": [140.0] * 7,
            "sinusoidal": [*fall, 140.0, 200.0, 20.0],
        }
    )
    assert judge_relative.judge(found).word == "confirmed"
    assert judge_absolute.judge(found).condition == "the positions are sinusoidal"
    assert judge_cost.judge(found).word == "confirmed"
    assert judge_times.judge(found).word == "confirmed"
    assert judge_rate.judge(found).condition == "the positions are relative"
    assert "relative or rope or learned or sinusoidal" in judge_needed.judge(found).condition
    late = given({"rope": [*flat, 150.0, 200.0, 180.0], "relative": [150.0, 135.0, *flat, 150.0]})
    assert judge_relative.judge(late).word == "refuted"
    assert judge_cost.judge(given({"rope": [50.0] * 7})).word == "refuted"
    assert (
        judge_times.judge(given({})).word == "refuted" and judge_absolute.judge(given({})).word == "refuted"
    )
    assert len(STUDY.claims) == 6 and len(STARTS) == 4
