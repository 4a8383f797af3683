"""The conformance suite: laws that every positional method must keep, and implementations, ours and other libraries', tried on them.

subjects.py     what is tried: a method between semantic vectors and attention, and what it claims
formulas.py     the papers' formulas as plain loops
register.py     what a law is, and how one is tried
comparing.py    texts to try, and whether two were told the same
precision.py, texts.py, positions.py, running.py    the laws, each a small function with a sentence
peers.py        other libraries' parts, and what each claims; adapters.py   how they are called
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from torch import nn

from vnait.errors import InputError
from vnait.laws import peers, positions, precision, running, texts
from vnait.laws.register import Law, judged
from vnait.laws.subjects import Limit, Probe, Seen, Subject, given, named, ours
from vnait.methods import METHODS
from vnait.threads import one_thread

__all__ = ["LAWS", "Law", "Limit", "Probe", "Row", "Seen", "Subject", "conformance", "subjects"]

LAWS = {law.name: law for family in (precision, texts, positions, running) for law in family.LAWS}


@dataclass(frozen=True)
class Row:
    """One implementation and one law. `detail` is the smallest failing input where it is broken, the reason where it was not asked."""

    implementation: str
    law: str
    passed: bool | None
    detail: str


def conformance(
    subject: str | nn.Module | Subject | Iterable[Subject],
    *,
    laws: Iterable[str] | None = None,
    dim: int | None = None,
    num_heads: int | None = None,
    watch: Callable[[int, int, str], None] | None = None,
) -> list[Row]:
    """Try a positional method on the laws of conformance; a row for every law.

    subject     a name in METHODS or of a peer, "ours" or "peers", a Method, coordinates (told by a sinusoid), an encoding (told the
                index), a Subject, or several Subjects
    laws        some of them, by name; all without
    dim         width of a given module, and its `num_heads`, where it doesn't say
    watch       called with (done, total, name)

    Takes seconds a method. `pandas.DataFrame(rows)` makes a table of them.

    >>> rows = conformance("alibi", laws=["translation", "right padding"])
    >>> [(row.law, row.passed) for row in rows]
    [('translation', True), ('right padding', True)]
    """
    some = _laws(laws)
    tried = subjects(subject, dim=dim, num_heads=num_heads)
    rows: list[Row] = []
    for number, one in enumerate(tried):
        if watch is not None:
            watch(number, len(tried), one.name)
        with one_thread():  # the texts are small: several threads would mostly wait for each other
            rows += [Row(one.name, law.name, *judged(law, one)) for law in some]
    return rows


def subjects(
    given_one: str | nn.Module | Subject | Iterable[Subject], *, dim: int | None = None, num_heads: int | None = None
) -> list[Subject]:
    """What a name, a module or several subjects stand for."""
    if isinstance(given_one, Subject):
        return [given_one]
    if isinstance(given_one, nn.Module):
        return [given(given_one, dim=dim, num_heads=num_heads)]
    if not isinstance(given_one, str):
        return list(given_one)
    if given_one in METHODS:
        return [named(given_one)]
    if given_one == "ours":
        return ours()
    return peers.found(given_one)


def _laws(names: Iterable[str] | None) -> list[Law]:
    if names is None:
        return list(LAWS.values())
    wanted = list(names)
    for name in wanted:
        if name not in LAWS:
            near = get_close_matches(name, LAWS, 1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise InputError(f"the law {name!r} is not known{hint} Take one of {', '.join(LAWS)}.")
    return [LAWS[name] for name in wanted]
