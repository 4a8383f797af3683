"""The patches study: the convolution against patches by hand, and the pixels that it drops."""

from __future__ import annotations

import pytest

from vnait_lab.studies.patches import STUDY


def test_patches() -> None:
    own, turned = (STUDY.run(arm, 0, STUDY.quick) for arm in ("patches", "patches, turned"))
    assert own["error"] < 1e-12 < 0.1 < turned["error"]
    assert own["unread"] == pytest.approx(1 - 12 * 20 / (13 * 21))
