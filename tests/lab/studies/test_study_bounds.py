"""The study of bounds: where S ends, and that the penalty's weight reaches the model."""

from __future__ import annotations

import pytest
import torch

from vnait.positions.coordinates import Span
from vnait_lab.studies.bounds import GAMMAS, STUDY, ends, judge_bounds, untrained
from vnait_lab.study import Findings
from vnait_lab.suites.length import Setting


def test_the_ends_of_a_span_that_was_moved() -> None:
    span = Span(source="uniform", bounds="soft")
    assert ends(span) == pytest.approx((2.5, 100))
    with torch.no_grad():
        span.bounds.offset.fill_(-4)  # type: ignore[union-attr]
        span.bounds.log_scale.fill_(0.1)  # type: ignore[union-attr]
    scale = torch.tensor(0.1).exp().item()
    assert ends(span) == pytest.approx((2.5 * scale - 4, 100 * scale - 4))


@pytest.mark.parametrize("variant", GAMMAS)
def test_only_the_boundary_penalty_is_weighed(variant: str) -> None:
    model, ids = untrained(variant, 0, Setting()), torch.arange(2, 12)[None]
    span = model.model.method.coordinates
    with torch.no_grad():
        span.bounds.offset.fill_(3)
    labels = torch.tensor([0])
    penalized = model(ids, labels=labels).loss
    plain = torch.nn.functional.cross_entropy(model(ids).logits, labels)
    assert (penalized - plain).item() == pytest.approx(9 * GAMMAS[variant], abs=1e-4)


def test_the_verdict_needs_both_of_the_papers_weights() -> None:
    cells = {
        (variant, seed): {"outside": 0.0, "accuracy": 1.0, "first": -1.0}
        for variant in STUDY.variants
        for seed in range(3)
    }
    assert judge_bounds.judge(Findings(cells)).word == "confirmed"
    assert STUDY.verdict(judge_bounds, Findings(cells)).word == "undecided"  # nothing leaves the range
    safe = {key: {**metrics, "first": 2.0} for key, metrics in cells.items()}
    assert judge_bounds.judge(Findings(safe)).condition == "it is S_n", "S_1 needs no penalty"
    cells["gamma_2 = 1", 0] = {"outside": 0.2, "accuracy": 1.0, "first": -1.0}
    assert judge_bounds.judge(Findings(cells)).word == "conditional"
