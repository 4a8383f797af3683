"""The printed study: the document's own lines, and T5's buckets against its table."""

from __future__ import annotations

import math

import torch

from vnait_lab.studies.parts.shifts import WIDTH
from vnait_lab.studies.printed import buckets, code, printed


def test_printed_code_is_half_of_a_rotation() -> None:
    query = torch.randn(1, WIDTH)
    found, _ = printed("**")(query, query, torch.tensor([[math.pi]]))
    assert found.shape == (1, WIDTH // 2)
    assert torch.allclose(found[0, 0], -query[0, 0], atol=1e-5)  # the first pair turns by pi
    assert code() == {"class_fails": 1.0, "rotary_fails": 1.0, "channels": 32.0}


def test_buckets_are_fewer() -> None:
    found = buckets()
    assert (found["distinct"], found["mismatches"], found["printed_too_long"]) == (31, 0, 1)
