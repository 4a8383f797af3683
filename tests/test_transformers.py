"""transformers' own tests of a model class on this package's models, the decoder included.

Other methods: `python tests/transformers_suite.py vnait,rope,alibi`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
@pytest.mark.timeout(900)
def test_transformers_own_tests_pass():
    pytest.importorskip("parameterized", reason='transformers\' tests need it: pip install ".[dev]"')
    script = Path(__file__).with_name("transformers_suite.py")  # in a process of its own: marks, warnings
    done = subprocess.run(
        [sys.executable, script, "vnait-causal"], capture_output=True, text=True, check=False
    )
    if "Unavailable" in done.stderr:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
