"""The study of looking back: what can be learned of an order and of a place, where the answer is known."""

from __future__ import annotations

import torch

from vnait_lab.studies.three_back import order, retrieval
from vnait_lab.study import Budget


def test_order_is_learned_by_counting_and_not_from_noise() -> None:
    torch.manual_seed(0)
    assert order("linear")["order_all"] == 1
    assert order("random")["order_far"] < 0.7


def test_retrieval_needs_more_than_a_line() -> None:
    found = retrieval("linear", 0, Budget(steps=100), anywhere=False)
    assert found["inside"] <= 1 / 61 + 1e-6  # one row at most: the largest score is at an end
