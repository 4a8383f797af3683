"""The methods without torch, for `vnait list` and for names that are wrong.

`catalogue.json` has the rows at the default sizes; `python -m vnait.positions.catalogue` writes it again from the
modules, and a test compares them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from typing import Any

from vnait.shared.errors import did_you_mean

DIM, MAX_LENGTH = 768, 512  # the sizes of the saved rows
FILE = "catalogue.json"


def rows(*, dim: int = DIM, max_length: int = MAX_LENGTH) -> list[dict[str, Any]]:
    """`METHODS` as rows: name, formula, parameters (at this width and length), learned, causal, source.

    The saved ones, unless other sizes are asked for or a method may have been added.
    """
    if (dim, max_length) == (DIM, MAX_LENGTH) and not _loaded() and not _offered():
        return _saved()
    return counted(dim=dim, max_length=max_length)


def counted(*, dim: int = DIM, max_length: int = MAX_LENGTH) -> list[dict[str, Any]]:
    """`rows`, from the modules in any case."""
    from vnait.positions.methods import METHODS, build, parameters

    built = {name: build(name, dim=dim, max_length=max_length) for name in METHODS}
    return [
        {
            "name": name,
            "formula": METHODS[name].formula,
            "parameters": parameters(method),
            "learned": parameters(method) > 0,
            "causal": method.causal,
            "source": METHODS[name].source,
        }
        for name, method in built.items()
    ]


def names() -> tuple[str, ...]:
    """The names in `METHODS`, in its order."""
    methods = _loaded()
    return tuple(methods.METHODS) if methods else (*(row["name"] for row in _saved()), *_offered())


def unknown(given: Iterable[str]) -> Iterator[str]:
    """A clause for each name that is not in `METHODS`, with the closest one.

    >>> next(unknown(["vnat"])).split(" The methods")[0]
    "method 'vnat' is not known. Did you mean 'vnait'?"
    """
    known = names()
    for name in given:
        if name not in known:
            meant = did_you_mean(name, known)
            yield f"method {name!r} is not known.{meant} The methods are {', '.join(known)}"


def _loaded() -> Any:
    """The module of the methods, which files and programs add to, if it is loaded."""
    return sys.modules.get("vnait.positions.methods")


def _offered() -> list[str]:
    """The methods of installed packages."""
    return [entry.name for entry in entry_points(group="vnait.methods")]


def _saved() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((files("vnait") / FILE).read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    text = json.dumps(counted(), ensure_ascii=False, indent=1)
    Path(str(files("vnait") / FILE)).write_text(text + "\n", encoding="utf-8")
