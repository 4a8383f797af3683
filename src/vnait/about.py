"""What a comparison's records do not say of themselves, for its report: one small file beside them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

from vnait.errors import InputError
from vnait.files import whole_file

NAME = "about.json"


@dataclass(frozen=True, kw_only=True)
class About:
    """The last comparison of a folder.

    command         as it was typed, or called;  reference: the method that the others are paired with
    runs            the keys of its records, in order: the folder may hold those of other comparisons, too
    data, test      `vnait.text.summary` of the table, and of the file of test rows, if there is one
    repeated        test rows of the first seed that also occur among the rows to learn from
    most_frequent   the accuracy of always answering the most frequent class, in [0, 1]
    """

    command: str
    reference: str
    runs: list[str]
    data: Mapping[str, Any]
    test: Mapping[str, Any] | None
    repeated: int
    most_frequent: float

    def write(self, folder: str | Path) -> None:
        """Into the folder, whole."""
        with whole_file(Path(folder) / NAME) as draft:
            draft.write_text(json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def read(folder: str | Path) -> About | None:
    """Of a folder; None where there is none."""
    path = Path(folder) / NAME
    if not path.is_file():
        return None
    try:
        return About(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} is damaged: {error}. Delete it; the report does with less.") from error


def call(function: Callable[..., Any], given: Mapping[str, Any]) -> str:
    """A call as Python writes it; what is as by default is left out.

    >>> call(read, {"folder": "runs/demo"})
    "vnait.read('runs/demo')"
    """
    said = [
        _shown(given[name]) if parameter.kind is parameter.POSITIONAL_OR_KEYWORD else f"{name}={_shown(given[name])}"
        for name, parameter in inspect.signature(function).parameters.items()
        if given[name] != parameter.default and not callable(given[name])
    ]
    return f"vnait.{function.__name__}({', '.join(said)})"


def _shown(value: Any) -> str:
    """A table by its name, for its texts are not for a report; settings as their call."""
    if hasattr(value, "fingerprint"):
        return repr(value.name)
    if is_dataclass(value):
        return call(type(value), vars(value))
    return repr(str(value) if isinstance(value, Path) else value)
