"""Length tasks: generated texts of 8 tokens or more whose class depends on positions.

A task is a function (number of texts, length, generator) -> (ids (N, T), classes (N,)), registered in
`TASKS`. Ids 1 to 3 are the marks A, B and M; the others are words, and the class of a word is its parity.
Positions are drawn evenly, and classes are balanced by construction. Which words are in a text does not
predict its class, except for the one word that the task asks about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Generator, Tensor

A, B, M = 1, 2, 3
WORDS = range(4, 20)
VOCABULARY = WORDS.stop
SHORTEST = 8

Texts = tuple[Int[Tensor, "N T"], Int[Tensor, " N"]]


@dataclass(frozen=True, kw_only=True)
class Task:
    """`make` generates texts; `asks` is the question, `family` the kind of position that it needs."""

    make: Callable[[int, int, Generator], Texts]
    asks: str
    family: str
    classes: int = 2


TASKS: dict[str, Task] = {}


def task(
    family: str, asks: str, classes: int = 2, *, tasks: dict[str, Task] = TASKS
) -> Callable[[Callable[..., Texts]], Callable[..., Texts]]:
    """Register a task in `tasks` under its function's name."""

    def register(make: Callable[..., Texts]) -> Callable[..., Texts]:
        tasks[make.__name__] = Task(make=make, asks=asks, family=family, classes=classes)
        return make

    return register


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
    return put(put(ids, early, torch.where(first == 1, A, B)), late, torch.where(first == 1, B, A)), first


@task("global", "of what class is the word in the middle (of n, number n // 2 from 0)?")
def middle(count: int, length: int, random: Generator) -> Texts:
    """Words alone."""
    ids = words(count, length, random)
    return ids, ids[:, length // 2] % 2


@task("global", "of what class is the third word from the end?")
def third_from_end(count: int, length: int, random: Generator) -> Texts:
    """Words alone."""
    ids = words(count, length, random)
    return ids, ids[:, -3] % 2


# --- Local: the neighbourhood, wherever it is


@task("local", "A and B are neighbours: is A the left one?")
def adjacent(count: int, length: int, random: Generator) -> Texts:
    """Both occur once."""
    ids, left, place = words(count, length, random), coin(count, random), below(length - 1, count, random)
    return put(put(ids, place, torch.where(left == 1, A, B)), place + 1, torch.where(left == 1, B, A)), left


@task("local", "of what class is the word 3 after M?")
def offset3(count: int, length: int, random: Generator) -> Texts:
    """M occurs once, with at least three words after it."""
    ids, place = words(count, length, random), below(length - 3, count, random)
    return put(ids, place, M), at(ids, place + 3) % 2


@task("local", "does A stand right before B, anywhere?")
def bigram(count: int, length: int, random: Generator) -> Texts:
    """Two As and two Bs: A B or B A together, and one more A and B apart. They are in separate slots of two
    positions, so no other A is right before a B.
    """
    ids, yes, shift = words(count, length, random), coin(count, random), coin(count, random)
    slots = torch.rand(count, (length - 1) // 2, generator=random).argsort(-1)[:, :3]
    pair, one, other = (2 * slots + shift[:, None]).unbind(-1)
    ids = put(put(ids, pair, torch.where(yes == 1, A, B)), pair + 1, torch.where(yes == 1, B, A))
    return put(put(ids, one, A), other + 1, B), yes


# --- Absolute: counted from the start


@task("absolute", "of what class is the third word?")
def third(count: int, length: int, random: Generator) -> Texts:
    """Words alone."""
    ids = words(count, length, random)
    return ids, ids[:, 2] % 2


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
    one = below(length, count, random)
    other = (one + 1 + below(length - 1, count, random)) % length
    return torch.minimum(one, other), torch.maximum(one, other)


def put(
    ids: Int[Tensor, "N T"], place: Int[Tensor, " N"], what: int | Int[Tensor, " N"]
) -> Int[Tensor, "N T"]:
    """A copy with one id per text replaced."""
    value = torch.as_tensor(what).expand(len(ids))
    return ids.scatter(1, place[:, None], value[:, None])


def at(ids: Int[Tensor, "N T"], place: Int[Tensor, " N"]) -> Int[Tensor, " N"]:
    """One id per text."""
    return ids.gather(1, place[:, None])[:, 0]
