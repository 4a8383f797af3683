"""The files that a command of vnait enters, in the order in which a function of each is first called.

python benchmarks/walks.py train reviews.csv --steps 2 -o model
python benchmarks/walks.py compare reviews.csv --methods vnait-warp --steps 2 --jobs 1 -o runs

The two walks of CONTRIBUTING.md are taken from these.
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import vnait

LIBRARY = Path(vnait.__file__).parent


def entered(call: Callable[[], Any]) -> list[str]:
    """The library's files, relative to it, that a call enters in this process; imports don't count."""
    for module in pkgutil.walk_packages(vnait.__path__, "vnait."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    files: dict[str, None] = {}

    def note(frame: FrameType, event: str, argument: object) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(str(LIBRARY)):
            files.setdefault(path)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return [Path(path).relative_to(LIBRARY).as_posix() for path in files]


if __name__ == "__main__":
    from vnait import cli

    print(*entered(lambda: cli.main([*sys.argv[1:], "--quiet"])), sep="\n")
