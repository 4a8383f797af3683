"""Conformance: laws that every positional method must keep, tried on methods of ours and of other libraries.

subjects.py     a method between semantic vectors and attention, and its claims
register.py     what a law is, how it is tried, texts to try, and the comparison of results
precision.py, texts.py, positions.py, running.py    the laws, each a function with a sentence
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import nn

from vnait.positions.conformance_suite import positions, precision, running, texts
from vnait.positions.conformance_suite.register import Law, try_law
from vnait.positions.conformance_suite.subjects import (
    Limit,
    Observation,
    Probe,
    Subject,
    subject_of_name,
    subject_of_part,
)
from vnait.positions.methods import METHODS
from vnait.positions.plugins import call_plugins
from vnait.shared.errors import InputError, did_you_mean
from vnait.shared.processes import one_thread
from vnait.shared.randomness import preserved_generators

__all__ = ["LAWS", "Law", "Limit", "Observation", "Probe", "Row", "Subject", "conformance", "subjects"]

MODULES = (precision, texts, positions, running)
LAWS = {law.name: law for module in MODULES for law in vars(module).values() if isinstance(law, Law)}


@dataclass(frozen=True)
class Row:
    """The result of one law on one implementation.

    passed    True, False, or None if the law does not apply
    detail    the smallest failing input, or why the law does not apply
    """

    implementation: str
    law: str
    passed: bool | None
    detail: str


def conformance(
    subject: str | nn.Module | Subject | Iterable[Subject],
    *,
    laws: str | Iterable[str] | None = None,
    dim: int | None = None,
    num_heads: int | None = None,
    callback: Callable[[int, int, str], None] | None = None,
) -> list[Row]:
    """Try positional methods on the laws of conformance, in seconds per method; one row per method and law.

    Args:
        subject: a name in METHODS or of a peer, "ours", "peers", a Method, coordinates (with a sinusoid),
            an encoding (of the index), or one or several Subjects
        laws: a name of a law, or several; all by default
        dim: width of a module that does not show it, and its `num_heads`
        callback: called with (done, total, name)

    >>> rows = conformance("alibi", laws=["translation", "right padding"])
    >>> [(row.law, row.passed) for row in rows]
    [('translation', True), ('right padding', True)]
    """
    chosen = _laws(laws)
    candidates = subjects(subject, dim=dim, num_heads=num_heads)
    rows: list[Row] = []
    for number, candidate in enumerate(candidates):
        if callback is not None:
            callback(number, len(candidates), candidate.name)
        # Texts are small: several threads would mostly wait for each other.
        with one_thread(), preserved_generators():
            rows += [Row(candidate.name, law.name, *try_law(law, candidate)) for law in chosen]
    return rows


def subjects(
    subject: str | nn.Module | Subject | Iterable[Subject],
    *,
    dim: int | None = None,
    num_heads: int | None = None,
) -> list[Subject]:
    """The subjects for a name, a module, or one or several Subjects, as in `conformance`."""
    if isinstance(subject, Subject):
        return [subject]
    if isinstance(subject, nn.Module):
        return [subject_of_part(subject, dim=dim, num_heads=num_heads)]
    if isinstance(subject, type):
        raise InputError(f"{subject.__name__} is a type; give an object of it, {subject.__name__}(...).")
    if not isinstance(subject, str):
        return list(subject)
    if subject == "ours":
        return [subject_of_name(name) for name in METHODS]
    if subject in METHODS:
        return [subject_of_name(subject)]
    added = {name: make for names in call_plugins("subjects") for name, make in names.items()}
    if subject not in added:
        known = ["ours", *METHODS, *added]
        raise InputError(
            f"{subject!r} is neither a method nor an implementation that a plugin adds."
            f"{did_you_mean(subject, known)} Take one of {', '.join(known)}."
        )
    return list(added[subject]())


def _laws(names: str | Iterable[str] | None) -> list[Law]:
    names = LAWS if names is None else [names] if isinstance(names, str) else list(names)
    for name in names:
        if name not in LAWS:
            raise InputError(
                f"the law {name!r} is not known.{did_you_mean(name, LAWS)} Take one of {', '.join(LAWS)}."
            )
    return [LAWS[name] for name in names]
