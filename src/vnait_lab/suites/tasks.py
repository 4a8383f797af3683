"""Length tasks: generated texts of 8 tokens or more whose class depends on positions.

A task is a function (number of texts, length, generator) -> (ids (N, T), classes (N,)), registered in
`TASKS`. Ids 1 to 3 are the marks A, B and M; the others are words, and the class of a word is its parity.
Positions are drawn evenly, and classes are balanced by construction. Which words are in a text does not
predict its class, except for the one word that the task asks about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Int
from torch import Generator, Tensor

from vnait_lab.suites.registry import registry

A, B, M = 1, 2, 3
WORDS = range(4, 20)
VOCABULARY = WORDS.stop
SHORTEST = 8

Texts = tuple[Int[Tensor, "N T"], Int[Tensor, " N"]]


@dataclass(frozen=True)
class Task:
    """`make` generates texts; `asks` is the question, `family` the kind of position that it needs."""

    make: Callable[[int, int, Generator], Texts]
    family: str
    asks: str
    classes: int = 2


TASKS, task = registry(Task)


# --- Questions of several tasks


def word_at(place: int, count: int, length: int, random: Generator) -> Texts:
    """The class of the word at a place, from the end if negative; words alone."""
    ids = words(count, length, random)
    return ids, ids[:, place] % 2


def word_beside(steps: int, count: int, length: int, random: Generator) -> Texts:
    """The class of the word so many steps after M, or before it if negative. M occurs once."""
    ids = words(count, length, random)
    place = max(-steps, 0) + below(length - abs(steps), count, random)
    return put(ids, place, M), at(ids, place + steps) % 2


# --- Global: a share of the text, an order over any distance


@task("global", "is M in the first half of the text?")
def half(count: int, length: int, random: Generator) -> Texts:
    """M occurs once, anywhere except in the middle of an odd length."""
    ids, first = words(count, length, random), coin(count, random)
    place = below(length // 2, count, random)
    place = torch.where(first == 1, place, length - 1 - place)
    return put(ids, place, M), first


@task("global", "does A stand before B?")
def order(count: int, length: int, random: Generator) -> Texts:
    """Both occur once, anywhere."""
    ids, first = words(count, length, random), coin(count, random)
    early, late = two_places(length, count, random)
    return put_both(ids, early, late, first), first


@task("global", "of what class is the word in the middle (of n, number n // 2 from 0)?")
def middle(count: int, length: int, random: Generator) -> Texts:
    """Words alone."""
    ids = words(count, length, random)
    return ids, ids[:, length // 2] % 2


task("global", "of what class is the third word from the end?", name="third_from_end")(partial(word_at, -3))


# --- Local: the neighbourhood, wherever it is


@task("local", "A and B are neighbours: is A the left one?")
def adjacent(count: int, length: int, random: Generator) -> Texts:
    """Both occur once."""
    ids, left, place = words(count, length, random), coin(count, random), below(length - 1, count, random)
    return put_both(ids, place, place + 1, left), left


task("local", "of what class is the word 3 after M?", name="offset3")(partial(word_beside, 3))


@task("local", "does A stand right before B, anywhere?")
def bigram(count: int, length: int, random: Generator) -> Texts:
    """Two As and two Bs: A B or B A together, and one more A and B apart. They are in separate slots of two
    positions, so no other A is right before a B.
    """
    ids, yes, shift = words(count, length, random), coin(count, random), coin(count, random)
    slots = torch.rand(count, (length - 1) // 2, generator=random).argsort(-1)[:, :3]
    pair, left, right = (2 * slots + shift[:, None]).unbind(-1)
    ids = put_both(ids, pair, pair + 1, yes)
    return put(put(ids, left, A), right + 1, B), yes


# --- Absolute: counted from the start


task("absolute", "of what class is the third word?", name="third")(partial(word_at, 2))


@task(
    "absolute",
    "of the first two words, is the first one of the odd class and the second one not, or the other way "
    "round?",
)
def first_of_two(count: int, length: int, random: Generator) -> Texts:
    """Words alone; the first two are of different classes."""
    ids, odd = words(count, length, random), coin(count, random)
    ids[:, 0] += odd - ids[:, 0] % 2
    ids[:, 1] += 1 - odd - ids[:, 1] % 2
    return ids, odd


# --- Mixed: two of these at once


@task("mixed", "is the first A or B after M an A?")
def first_after(count: int, length: int, random: Generator) -> Texts:
    """M stands in the first half; As and Bs stand at about a quarter of the places, one at least after M."""
    ids, place = words(count, length, random), below(length // 2, count, random)
    marks = torch.where(torch.rand(count, length, generator=random) < 0.5, A, B)
    ids = torch.where(torch.rand(count, length, generator=random) < 0.25, marks, ids)
    last = torch.full((count,), length - 1)
    ids = put(put(ids, last, at(marks, last)), place, M)
    later = ((ids == A) | (ids == B)) & (torch.arange(length) > place[:, None])
    return ids, (at(ids, later.long().argmax(-1)) == A).long()


@task("mixed", "M's half, and the class of its left neighbour", classes=4)
def half_and_left(count: int, length: int, random: Generator) -> Texts:
    """M occurs once, not first in either half, nor in the middle of an odd length."""
    ids, first = words(count, length, random), coin(count, random)
    place = below(length // 2 - 1, count, random)
    place = torch.where(first == 1, 1 + place, length - 1 - place)
    return put(ids, place, M), 2 * first + at(ids, place - 1) % 2


# --- Parts of tasks


def words(count: int, length: int, random: Generator) -> Int[Tensor, "N T"]:
    """Random words, drawn evenly."""
    return torch.randint(WORDS.start, WORDS.stop, (count, length), generator=random)


def coin(count: int, random: Generator) -> Int[Tensor, " N"]:
    """0 or 1."""
    return torch.randint(2, (count,), generator=random)


def below(limit: int, count: int, random: Generator) -> Int[Tensor, " N"]:
    """Positions 0 to limit - 1."""
    return torch.randint(limit, (count,), generator=random)


def two_places(length: int, count: int, random: Generator) -> tuple[Int[Tensor, " N"], Int[Tensor, " N"]]:
    """Two different positions, the earlier one first; every pair is drawn evenly."""
    first = below(length, count, random)
    second = (first + 1 + below(length - 1, count, random)) % length
    return torch.minimum(first, second), torch.maximum(first, second)


def three_places(length: int, count: int, random: Generator) -> Int[Tensor, "N 3"]:
    """Three different positions in ascending order."""
    return torch.rand(count, length, generator=random).argsort(-1)[:, :3].sort(-1).values


def put(
    ids: Int[Tensor, "N T"], place: Int[Tensor, " N"], what: int | Int[Tensor, " N"]
) -> Int[Tensor, "N T"]:
    """A copy with one id per text replaced."""
    value = torch.as_tensor(what).expand(len(ids))
    return ids.scatter(1, place[:, None], value[:, None])


def put_both(
    ids: Int[Tensor, "N T"], left: Int[Tensor, " N"], right: Int[Tensor, " N"], a_left: Int[Tensor, " N"]
) -> Int[Tensor, "N T"]:
    """A copy with A at one place and B at the other, the other way round where `a_left` is 0."""
    return put(put(ids, left, torch.where(a_left == 1, A, B)), right, torch.where(a_left == 1, B, A))


def at(ids: Int[Tensor, "N T"], place: Int[Tensor, " N"]) -> Int[Tensor, " N"]:
    """One id per text."""
    return ids.gather(1, place[:, None])[:, 0]
