"""The reinforcement study: its task, and the shift, the window and the times that its policies are given."""

from __future__ import annotations

import torch
from torch import Tensor

from vnait_lab.studies.reinforcement import REACH, STATES, WINDOW, act, policy, right_actions


def states(count: int, seed: int = 0) -> Tensor:
    return torch.randint(STATES, (3, count), generator=torch.Generator().manual_seed(seed))


def test_right_actions_by_hand() -> None:
    assert right_actions(torch.tensor([[3, 5, 5, 1, 2]])).tolist() == [[1, 0, 0, 1]]


@torch.no_grad()
def test_act_is_the_reader_at_its_own_times() -> None:
    """And a shift of a learned table reads its later rows."""
    model, ids = policy("learned", 0).eval(), states(12)
    assert torch.allclose(act(model, ids), model(ids), atol=1e-6)
    shifted = act(model, ids, start=7)
    table = model.method.encoding.weight
    table.copy_(table.roll(-7, 0))
    assert torch.allclose(shifted, model(ids), atol=1e-6)


@torch.no_grad()
def test_a_window_ends_the_past() -> None:
    model, ids = policy("relative", 0).eval(), states(REACH + 3)
    torch.nn.init.normal_(model.method.encoding.weight)
    other = ids.clone()
    other[:, 0] = (ids[:, 0] + 1) % STATES
    change = (act(model, ids, window=WINDOW) - act(model, other, window=WINDOW)).abs().amax((0, 2))
    assert change[: REACH + 1].min() > 1e-6  # the last state that still hears of the first one
    assert change[REACH + 1 :].max() < 1e-6
    assert (act(model, ids) - act(model, other))[:, -1].abs().max() > 1e-6


@torch.no_grad()
def test_no_state_sees_what_follows() -> None:
    model, ids = policy("rope", 0).eval(), states(9)
    other = ids.clone()
    other[:, 5:] = (ids[:, 5:] + 1) % STATES
    assert torch.allclose(act(model, ids)[:, :5], act(model, other)[:, :5], atol=1e-6)
