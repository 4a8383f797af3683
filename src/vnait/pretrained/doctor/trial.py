"""One measurement on a model, and the script that repeats it; errors of the model and of the doctor."""

from __future__ import annotations

import ast
import inspect
import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from textwrap import shorten
from traceback import walk_tb
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from vnait.pretrained.doctor.rule import Evidence, NotTried, Severity, require
from vnait.shared.errors import first_line

PACKAGE = __name__.rpartition(".")[0]
Measure = Callable[..., float]


# Scripts print the measurements and this, so that a name in them is a part of the report.
def difference(before: Tensor, after: Tensor) -> float:
    """max |before - after| / max |before|; 0 if they are equal."""
    return 0.0 if torch.equal(before, after) else float((before - after).abs().max() / before.abs().max())


class Examined(Protocol):
    """What a trial needs of a subject."""

    model: Any
    setup: tuple[str, ...]
    tokenizer_setup: tuple[str, ...]

    @property
    def body(self) -> Any: ...


@dataclass(frozen=True, eq=False)
class Trial:
    """A measurement on a model: a function, the input in a few words, a part of the model, other arguments.

    Without a part it runs on the subject's body.
    """

    subject: Examined
    measure: Measure
    smallest: str
    part: Any
    arguments: dict[str, Any]

    @cached_property
    def size(self) -> float:
        """What it measures; not a number counts as infinite."""
        part = self.subject.body if self.part is None else self.part
        size = tried(self.measure, part, **self.arguments)
        half = self.subject.model.dtype == torch.float16
        require(
            math.isfinite(size) or not half, "its numbers overflow float16; load it in bfloat16 or float32"
        )
        # Outputs that are not numbers are far off, and no comparison with a NaN would say so.
        return math.inf if math.isnan(size) else size

    def at(self, smallest: str = "", /, **arguments: Any) -> Trial:
        """The same measurement with these arguments instead."""
        return replace(self, smallest=smallest, arguments={**self.arguments, **arguments})

    def of(self, measure: Measure) -> Trial:
        """Another measurement on the same part with the same arguments."""
        return replace(self, measure=measure)

    def least(self, name: str, end: int, *, start: int = 2, limit: float = 0) -> int:
        """The smallest value of an argument whose size is over the limit; sizes never fall with it."""
        return bisect_left(
            range(end), True, lo=start, key=lambda value: self.at(**{name: value}).size > limit
        )

    def evidence(
        self,
        measured: str,
        *,
        size: float | None = None,
        shown: float | None = None,
        severity: Severity | None = None,
        advice: str | None = None,
    ) -> Evidence:
        """Evidence of its size; `size` if that was measured on a larger input, `shown` if of another type."""
        return Evidence(
            size=self.size if size is None else size,
            measured=measured,
            smallest=self.smallest,
            reproduction=self.script(),
            shown=self.size if shown is None else shown,
            severity=severity,
            advice=advice,
        )

    def script(self) -> str:
        """The lines that repeat it, without vnait unless the model needs it."""
        subject, names = self.subject, self.measure.__code__.co_names
        part = subject.body if self.part is None else self.part
        called = "model" if part is subject.model else "model.base_model"
        arguments = [called, *(f"{name}={_shown(value)}" for name, value in self.arguments.items())]
        lines = [
            "import torch",
            *subject.setup,
            *(subject.tokenizer_setup if "tokenizer" in self.arguments else ()),
            "torch.set_grad_enabled(False)",
            *([plain(difference)] if "difference" in names else []),
            plain(self.measure),
            f"print({self.measure.__name__}({', '.join(arguments)}))",
        ]
        return "\n".join(lines)


def tried(run: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """What it returns; any error of the model is a `NotTried` with its first line."""
    try:
        return run(*arguments, **named)
    except NotTried:
        raise
    except Exception as error:  # any model may raise anything
        if _of_the_doctor(error):
            raise
        raise NotTried(_first_line(error)) from error


def _of_the_doctor(error: Exception) -> bool:
    """Whether the doctor's code raised it, not a model that it called: by the innermost line of either."""
    for frame in reversed([frame for frame, _ in walk_tb(error.__traceback__)]):
        name = frame.f_globals.get("__name__", "")
        if frame.f_code.co_name == "_call_impl":  # a module that was called with arguments it does not take
            return False
        if not name.startswith("torch"):
            return bool(name.startswith(PACKAGE))
    return False


def described(error: Exception) -> str:
    """An error and the line of the doctor that raised it."""
    places = [
        f"{frame.f_globals['__name__']}:{line}"
        for frame, line in walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__", "").startswith(PACKAGE)
    ]
    return f"{_first_line(error)} ({places[-1]})"


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {shorten(first_line(error), 400, placeholder=' ...')}"


def _shown(value: Any) -> str:
    if isinstance(value, PreTrainedTokenizerBase):
        return "tokenizer"
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    return f"torch.tensor({value.tolist()})" if isinstance(value, Tensor) else repr(value)


def plain(function: Callable[..., Any]) -> str:
    """The source of a function without its docstring and without annotations.

    >>> print(plain(difference))
    def difference(before, after):
        return 0.0 if torch.equal(before, after) else float((before - after).abs().max() / before.abs().max())
    """
    tree = ast.parse(inspect.getsource(function))
    for part in ast.walk(tree):
        if isinstance(part, ast.FunctionDef):
            part.returns = None
            part.body = part.body[1:] if ast.get_docstring(part) else part.body
        elif isinstance(part, ast.arg):
            part.annotation = None
    return ast.unparse(tree)
