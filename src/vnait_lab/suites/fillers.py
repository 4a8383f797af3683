"""Elastic tasks: generated texts in which some tokens don't count, and the question is about those that do.

A task is a function (number of texts, length, generator, filler) -> (ids (N, T), classes (N,), weights
(N, T)), registered in `TASKS`. A weight is how much a token counts, 0, 1/2 or 1; without filler all weights
are 1. Four kinds of filler:

    class        tokens of 8 types never count
    repetition   of a run of one token the first counts
    context      tokens between the marks OPEN and CLOSE don't count, nor do these
    weight       words of 8 types count one half

The raw index cannot answer: filler is denser on one side of a random cut, or, where the question is about a
mark's half, its place is independent of its class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from vnait_lab.suites.registry import registry

M, OPEN, CLOSE = 1, 2, 3
WORDS = range(4, 12)  # the class of a word is its parity
FILLERS = range(12, 20)
BOTH = range(WORDS.start, FILLERS.stop)
FEWEST = 4  # tokens that count, in every text

Counted = Bool[Tensor, "N T"]
Texts = tuple[Int[Tensor, "N T"], Int[Tensor, " N"], Float[Tensor, "N T"]]


@dataclass(frozen=True)
class Task:
    """`make` generates texts; `asks` is the question, `filler` what does not count.

    oracle   trained on texts without filler; tested on texts from which it was removed
    """

    make: Callable[[int, int, Generator, bool], Texts]
    filler: str
    asks: str
    classes: int = 2
    oracle: bool = False


TASKS, task = registry(Task)


# --- Filler by class


@task("class", "of what class is the middle one (of n, number n // 2 from 0) of the words that count?")
def middle(count: int, length: int, random: Generator, filler: bool) -> Texts:
    """Words and filler."""
    counted = which_count(count, length, random, filler)
    return worded(counted, counted.sum(-1) // 2, random)


@task("class", "of what class is the third word that counts?")
def third(count: int, length: int, random: Generator, filler: bool) -> Texts:
    """Dense filler at the start."""
    counted = which_count(count, length, random, filler, at_start=0.4)
    return worded(counted, torch.full((count,), 2), random)


@task("class", "of what class is the third word from the end, of those that count?")
def third_from_end(count: int, length: int, random: Generator, filler: bool) -> Texts:
    """Dense filler at the end."""
    counted = which_count(count, length, random, filler, at_start=0.4).flip(-1)
    return worded(counted, counted.sum(-1) - 3, random)


@task("class", "of what class is the third word that counts after M?")
def three_after(count: int, length: int, random: Generator, filler: bool) -> Texts:
    """M counts, and stands where three words that count follow."""
    counted = which_count(count, length, random, filler, fewest=6)
    rank = below(counted.sum(-1) - 3, random)
    ids, classes, weights = worded(counted, rank + 3, random)
    return torch.where(of_rank(counted, rank), M, ids), classes, weights


@task("class", "is the number of words that count odd?")
def parity(count: int, length: int, random: Generator, filler: bool) -> Texts:
    """Words and filler; without filler, the length decides."""
    counted = which_count(count, length, random, filler)
    ids, _, weights = worded(counted, torch.zeros(count, dtype=torch.long), random)
    return ids, counted.sum(-1) % 2, weights


@task("class", "is M in the first half of what counts?")
def half(count: int, length: int, random: Generator, filler: bool) -> Texts:
    """M's place is drawn first; then which side has more words that count, and how many each has."""
    place, sides, first = mark(count, length, random)
    few = below(sides.amin(-1), random)
    many = few + 1 + below(sides.amin(-1) - few, random)
    if filler:
        counts = torch.where(first[:, None] == 1, torch.stack([few, many], -1), torch.stack([many, few], -1))
    else:
        counts, first = sides, (sides[:, 0] < sides[:, 1]).long()
    counted = on_sides(place, counts, length, random)
    ids, _, weights = worded(counted, torch.zeros(count, dtype=torch.long), random)
    return ids.scatter(1, place[:, None], M), first, weights


# --- Filler by repetition


@task("repetition", "of what class is the middle one of the words, a run of one word counted once?")
def middle_run(count: int, length: int, random: Generator, filler: bool) -> Texts:
    """Runs of words; longer ones on one side."""
    counted = which_count(count, length, random, filler)
    return in_runs(counted, lambda number: number // 2, random)


@task("repetition", "of what class is the third word, a run of one word counted once?")
def third_run(count: int, length: int, random: Generator, filler: bool) -> Texts:
    """Long runs at the start."""
    counted = which_count(count, length, random, filler, at_start=0.4)
    return in_runs(counted, lambda number: torch.full_like(number, 2), random)


# --- Filler by context


@task("context", "of what class is the middle one of the words outside of OPEN ... CLOSE?")
def middle_outside(count: int, length: int, random: Generator, filler: bool) -> Texts:
    """Stretches of words between the marks; more on one side."""
    return outside(count, length, random, filler, lambda number: number // 2)


@task("context", "of what class is the third word outside of OPEN ... CLOSE?")
def third_outside(count: int, length: int, random: Generator, filler: bool) -> Texts:
    """Half of the texts begin with OPEN."""
    return outside(count, length, random, filler, lambda number: torch.full_like(number, 2), opened=0.5)


# --- Filler by weight


@task("weight", "is M in the first half of the weight, where words of 8 types weigh one half?")
def half_of_weight(count: int, length: int, random: Generator, filler: bool) -> Texts:
    """M's place is drawn first; then which side weighs more, and how many heavy words each side has."""
    place, sides, first = mark(count, length, random)
    heavy = below(sides + 1, random)
    for _ in range(24):  # enough for all but texts whose mark is so near an end that one class is impossible
        weight = (sides + heavy) / 2
        wrong = torch.where(first == 1, weight[:, 0] >= weight[:, 1], weight[:, 0] <= weight[:, 1])
        heavy = torch.where(wrong[:, None], below(sides + 1, random), heavy)
    if not filler:
        heavy = sides
    weight = sides + heavy
    counted = on_sides(place, heavy, length, random)
    ids, _, _ = worded(counted, torch.zeros(count, dtype=torch.long), random)
    weights = (1.0 + counted) / 2
    return ids.scatter(1, place[:, None], M), (weight[:, 0] < weight[:, 1]).long(), weights


ORACLES = {f"{name}-oracle": replace(plain, oracle=True) for name, plain in TASKS.items()}


def condensed(ids: Int[Tensor, " T"], weights: Float[Tensor, " T"]) -> Int[Tensor, " C"]:
    """A text as an oracle would give it: without what does not count; words of weight 1/2 once, others twice
    if there are such words.
    """
    return ids.repeat_interleave((weights * (2 if bool((weights == 0.5).any()) else 1)).long())


# --- Parts of tasks


def which_count(
    count: int, length: int, random: Generator, filler: bool, *, at_start: float = 0.0, fewest: int = FEWEST
) -> Counted:
    """Which tokens count. Left and right of a random cut filler has its own share, up to 0.9; left of it
    `at_start` at least.
    """
    if not filler:
        return torch.ones(count, length, dtype=torch.bool)
    share = torch.rand(count, 3, generator=random)
    left = (torch.arange(length) + 0.5) / length < share[:, :1]
    shares = torch.where(left, at_start + (0.9 - at_start) * share[:, 1:2], 0.9 * share[:, 2:])
    above = torch.rand(count, length, generator=random) - shares
    return (above > 0).scatter(1, above.topk(fewest, -1).indices, True)


def worded(counted: Counted, rank: Int[Tensor, " N"], random: Generator) -> Texts:
    """Words where a token counts, filler elsewhere, and the class of the word of this rank, from 0."""
    ids = torch.where(counted, drawn(WORDS, counted.shape, random), drawn(FILLERS, counted.shape, random))
    return ids, (ids * of_rank(counted, rank)).sum(-1) % 2, counted.float()


def in_runs(counted: Counted, rank: Callable[[Tensor], Tensor], random: Generator) -> Texts:
    """Words of all types, each one repeated until the next token that counts; neighbouring runs differ."""
    counted = counted.clone()
    counted[:, 0] = True
    number = counted.long().cumsum(-1) - 1  # of the run
    steps = torch.randint(1, len(BOTH), counted.shape, generator=random)
    words = BOTH.start + steps.cumsum(-1) % len(BOTH)
    ids = words.gather(1, number)
    return ids, (ids * of_rank(counted, rank(counted.sum(-1)))).sum(-1) % 2, counted.float()


def outside(
    count: int,
    length: int,
    random: Generator,
    filler: bool,
    rank: Callable[[Tensor], Tensor],
    *,
    opened: float = 0.0,
) -> Texts:
    """Words of all types, with stretches between OPEN and CLOSE that don't count. A text of fewer than
    `FEWEST` words outside has no stretch.
    """
    shape = (count, length)
    ids = drawn(BOTH, shape, random)
    cut, *rates = torch.rand(count, 5, generator=random).unbind(-1)
    left = (torch.arange(length) + 0.5) / length < cut[:, None]
    opens = torch.where(left, 0.02 + 0.3 * rates[0][:, None], 0.02 + 0.3 * rates[1][:, None])
    closes = torch.where(left, 0.1 + 0.4 * rates[2][:, None], 0.1 + 0.4 * rates[3][:, None])
    opens[:, 0] = torch.where(torch.rand(count, generator=random) < opened, 1.0, opens[:, 0])
    chance = torch.rand(shape, generator=random)
    marks = torch.zeros(shape, dtype=torch.long)
    inside = torch.zeros(count, dtype=torch.bool)
    counted = torch.ones(shape, dtype=torch.bool)
    for i in range(length):
        last = i == length - 1
        opening = ~inside & (chance[:, i] < opens[:, i]) & (not last)
        closing = inside & ((chance[:, i] < closes[:, i]) | last)
        marks[:, i] = OPEN * opening + CLOSE * closing
        counted[:, i] = ~(inside | opening)
        inside = (inside | opening) & ~closing
    plain = (counted.sum(-1) < FEWEST) | (not filler)
    counted |= plain[:, None]
    ids = torch.where(counted | (marks == 0), ids, marks)
    return ids, (ids * of_rank(counted, rank(counted.sum(-1)))).sum(-1) % 2, counted.float()


def mark(
    count: int, length: int, random: Generator
) -> tuple[Int[Tensor, " N"], Int[Tensor, "N 2"], Int[Tensor, " N"]]:
    """M's place, three tokens or more from either end, the tokens on each side, and a coin."""
    place = 3 + below(torch.full((count,), length - 6), random)
    sides = torch.stack([place, length - 1 - place], -1)
    return place, sides, torch.randint(2, (count,), generator=random)


def on_sides(place: Int[Tensor, " N"], counts: Int[Tensor, "N 2"], length: int, random: Generator) -> Counted:
    """The mark, and on each side of it so many other tokens, at random places."""
    at, chance = torch.arange(length), torch.rand(len(place), length, generator=random)
    counted = at == place[:, None]
    for side, number in ((at < place[:, None], counts[:, 0]), (at > place[:, None], counts[:, 1])):
        order = chance.masked_fill(~side, 2).argsort(-1).argsort(-1)
        counted |= side & (order < number[:, None])
    return counted


def of_rank(counted: Counted, rank: Int[Tensor, " N"]) -> Counted:
    """The token of this rank among those that count."""
    return counted & (counted.long().cumsum(-1) - 1 == rank[:, None])


def drawn(types: range, shape: tuple[int, ...] | torch.Size, random: Generator) -> Int[Tensor, "N T"]:
    """Tokens, drawn evenly."""
    return torch.randint(types.start, types.stop, shape, generator=random)


def below(limits: Int[Tensor, "*any"], random: Generator) -> Int[Tensor, "*any"]:
    """Whole numbers from 0 to each limit - 1."""
    return (torch.rand(limits.shape, generator=random) * limits).long().clamp(max=limits - 1)
