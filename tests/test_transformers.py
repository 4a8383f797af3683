"""transformers' own tests of a model class (`tests/transformers_suite.py`), on this package's models."""

from __future__ import annotations

import pytest

from vnait.model import VnaitForCausalLM


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the warnings of its tests are its own
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("method", ["vnait", "rope", "alibi", "vnait-causal"])
def test_transformers_own_tests_pass(method):
    pytest.importorskip("parameterized", reason='transformers\' tests need it: pip install ".[dev]"')
    from transformers_suite import ENCODERS, Unavailable, run

    classes = ENCODERS if method == "vnait" else (*ENCODERS, VnaitForCausalLM)
    try:
        outcome, reports = run(method, classes)
    except Unavailable as error:
        pytest.skip(str(error))
    assert not outcome.failed, "\n".join([str(outcome), *reports.values()])
    assert len(outcome.passed) > 90
