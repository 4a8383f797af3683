"""What a law is, the list of them, and how one is tried on a subject."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch

from vnait.laws.subjects import Subject

Check = Callable[[Subject], str | None]


class DoesNotApply(Exception):
    """A law that a subject makes no claim about, or can't be asked; the message says why."""


@dataclass(frozen=True)
class Law:
    """A name, a sentence, and the check: the smallest failing input in words, or None."""

    name: str
    sentence: str
    check: Check


def law(name: str) -> Callable[[Check], Law]:
    """A check as a law of this name; its docstring is the sentence."""
    return lambda check: Law(name, " ".join((check.__doc__ or "").split()), check)


def judged(one: Law, subject: Subject) -> tuple[bool | None, str]:
    """Whether the subject keeps the law: True, False with the smallest failing input, None with the reason why it isn't asked."""
    torch.manual_seed(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wrong = one.check(subject)
    except DoesNotApply as reason:
        return None, str(reason)
    except ValueError as error:
        return None, f"refused: {error}"
    except Exception as error:
        wrong = described(error)
    for limit in subject.limits:
        if wrong is not None and one.name in limit.laws and limit.shows in wrong:
            return None, f"{limit.reason} ({wrong})"
    return wrong is None, wrong or ""


def in_words(error: Exception) -> bool:
    """A refusal that says why, and no crash further down."""
    return isinstance(error, ValueError | AssertionError | NotImplementedError) and len(str(error)) > 10


def described(error: Exception) -> str:
    """Its kind and the first line of what it says."""
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0][:120]}" if said else f"{type(error).__name__} without a word"
