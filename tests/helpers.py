"""What the tests of several subjects share: what they invent, and how they look at it.

Not in conftest.py: a process that a test starts imports the test's file, and conftest.py would then install
its check of types there and take half a second, within the time in which such a process is killed.
"""

from __future__ import annotations

from typing import Any

from vnait.record import Record


def record(method: str = "m", seed: int = 0, **facts: Any) -> Record:
    """An invented run: nothing in it but the given facts."""
    usual: dict[str, Any] = {
        "key": f"{method} {seed}",
        "run": {},
        "data": {},
        "metrics": {},
        "parameters": 0,
        "seconds": 0.0,
        "peak_memory": 0.0,
        "versions": {},
        "commit": None,
    }
    return Record(method=method, seed=seed, **usual | facts)
