"""about.json: the facts on a comparison that its report needs and the records lack."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

from vnait.shared import schemas
from vnait.shared.errors import whole
from vnait.shared.escaping import json_text
from vnait.shared.files import atomic_file

NAME = "about.json"


@dataclass(frozen=True, kw_only=True)
class About:
    """The last comparison in a folder.

    command         as typed, or the call;  reference: the method that the others are paired with
    runs            the keys of its records, in order; the folder may have records of other comparisons too
    data, test      `vnait.data.summary` of the table, and of the test file, if there is one
    repeated        test rows of the first seed that also occur in the training rows
    most_frequent   the accuracy of always answering the most frequent class, in [0, 1]; in regression
                    the RMSE of always answering the mean; see `Plan.chance_level`
    """

    command: str
    reference: str
    runs: list[str]
    data: Mapping[str, Any]
    test: Mapping[str, Any] | None
    repeated: int
    most_frequent: float

    @classmethod
    def read(cls, folder: str | Path) -> About | None:
        """Read the file of a folder; None if there is none."""
        path = Path(folder) / NAME
        if not path.is_file():
            return None
        fields = schemas.read(schemas.AboutFields, path, ". Delete it; the report works without it.")
        return cls(**schemas.known(schemas.AboutFields, fields))

    def write(self, folder: str | Path) -> None:
        """Write the file into the folder, whole or not at all."""
        with atomic_file(Path(folder) / NAME) as draft:
            draft.write_text(whole(json_text(asdict(self), indent=1)) + "\n", encoding="utf-8")


def call(function: Callable[..., Any], arguments: Mapping[str, Any]) -> str:
    """A call as Python code, without the arguments that are at their default.

    >>> call(About.read, {"folder": "runs/demo"})
    "vnait.read('runs/demo')"
    """
    signature = inspect.signature(function)
    further = next((name for name, it in signature.parameters.items() if it.kind is it.VAR_KEYWORD), "")
    shown = [
        ("" if parameter.kind is parameter.POSITIONAL_OR_KEYWORD else f"{name}=") + _shown(arguments[name])
        for name, parameter in signature.parameters.items()
        if name != further
        and _shown(arguments[name]) != _shown(parameter.default)
        and not callable(arguments[name])
    ]
    options = arguments.get(further)
    if isinstance(options, Mapping):
        shown += [f"{name}={_shown(value)}" for name, value in options.items()]
    return f"vnait.{function.__name__}({', '.join(shown)})"


def _shown(value: Any) -> str:
    """A table as its name, since its texts don't belong in a report; settings as a call."""
    if hasattr(value, "fingerprint"):
        return repr(value.name)
    if is_dataclass(value):
        return call(type(value), vars(value))
    value = value.tolist() if hasattr(value, "tolist") else value  # of NumPy
    return repr(str(value) if isinstance(value, Path) else value)
