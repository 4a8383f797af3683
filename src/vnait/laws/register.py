"""A law, and how it is tried on a subject."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch

from vnait.laws.subjects import Subject

Check = Callable[[Subject], str | None]


class DoesNotApply(Exception):
    """The subject does not claim this law, or can't be tested on it; the message gives the reason."""


@dataclass(frozen=True)
class Law:
    """A name, a sentence, and a check that returns the smallest failing input in words, or None."""

    name: str
    sentence: str
    check: Check


def law(name: str) -> Callable[[Check], Law]:
    """Decorator: make a check a law of this name, with its docstring as the sentence."""
    return lambda check: Law(name, " ".join((check.__doc__ or "").split()), check)


def try_law(law: Law, subject: Subject) -> tuple[bool | None, str]:
    """`passed` and `detail` of a `Row`: True, False with the smallest failing input, None with the reason."""
    torch.manual_seed(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            failure = law.check(subject)
    except DoesNotApply as reason:
        return None, str(reason)
    except ValueError as error:
        return None, f"refused: {error}"
    except Exception as error:
        failure = error_line(error)
    for limit in subject.limits:
        if failure is not None and law.name in limit.laws and limit.shows in failure:
            return None, f"{limit.reason} ({failure})"
    return failure is None, failure or ""


def is_refusal(error: Exception) -> bool:
    """Whether an error explains itself, unlike a crash further down."""
    return isinstance(error, ValueError | AssertionError | NotImplementedError) and len(str(error)) > 10


def error_line(error: Exception) -> str:
    """Type and first line of an error, at most 120 characters."""
    lines = str(error).strip().splitlines()
    return (
        f"{type(error).__name__}: {lines[0][:120]}" if lines else f"{type(error).__name__} without a message"
    )
