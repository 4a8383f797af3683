"""The heads study: its answers, and the labels of attention whose kind is known."""

from __future__ import annotations

import torch
from torch import Tensor

from vnait.results.explanation.attention import head_kind, profile
from vnait_lab.studies.heads import FAR, LENGTH, MOST, answers, attention, reader


def entropy(weights: Tensor) -> Tensor:
    return -torch.special.xlogy(weights, weights).sum(-1).mean() / torch.tensor(float(LENGTH)).log()


def test_answers_by_hand() -> None:
    found = answers(torch.tensor([[3, 0, 5, 0, 1, 2, 7]]))[0]
    assert found[:, 0].tolist() == [-100, 3, 0, 5, 0, 1, 2]
    assert found[:, 1].tolist() == [-100, -100, -100, -100, -100, 3, 0]
    assert found[:, 2].tolist() == [3] * 7
    assert found[:, 3].tolist() == [2] * 7
    assert answers(torch.zeros(1, MOST + 2, dtype=torch.long))[0, 0, 3] == MOST


def test_labels_of_known_attention() -> None:
    near, column = torch.zeros(2, LENGTH, LENGTH)
    for row in range(LENGTH):
        near[row, max(row + FAR, 0)] = 1
    column[:, 0] = 1
    flat = torch.full((LENGTH, LENGTH), 1 / LENGTH)
    content = torch.eye(LENGTH)[torch.randperm(LENGTH, generator=torch.Generator().manual_seed(0))]
    assert head_kind(torch.eye(LENGTH), torch.tensor(0.0)) == ("diagonal", 0)
    assert head_kind(near, entropy(near)) == ("banded", FAR)
    assert head_kind(near.T / near.T.sum(1, keepdim=True).clamp(min=1), torch.tensor(0.0)) == ("banded", -FAR)
    assert head_kind(flat, entropy(flat)) == ("uniform", 0)
    assert head_kind(column, entropy(column)) == ("long-range", 0)
    assert head_kind((content + torch.eye(LENGTH) + flat) / 3, torch.tensor(0.5)) == ("mixed", 0)


def test_profile_is_a_share_of_all_attention() -> None:
    ids = torch.randint(8, (5, LENGTH), generator=torch.Generator().manual_seed(0))
    weights, spread = attention(reader("sinusoidal", 0), ids)
    share = profile(weights[0])
    by_hand = sum(float(weights[0, row, row + 3]) for row in range(LENGTH - 3)) / LENGTH
    assert abs(float(share[LENGTH - 1 + 3]) - by_hand) < 1e-6
    assert abs(float(share.sum()) - 1) < 1e-5
    assert bool((spread > 0.95).all())
    assert bool((spread <= 1.0).all())
