"""Tasks on which nothing about `vnait` was chosen: written before they were run, run once, reported as is.

    python -m vnait_lab.runs.held_out [--methods vnait,rope] [--seeds 3]

Records go to studies/records/held_out; recorded cells do not run again. Three earlier sets are no longer held
out: their results have changed `vnait`, the first on 2026-11-21, the second (`fifth`, `four_after`) on
2026-11-22, and the third (`close`) on 2026-11-26.
"""

from dataclasses import replace
from functools import partial
from itertools import permutations

import torch
from torch import Generator, Tensor

from vnait_lab import RECORDS
from vnait_lab.runs import names, parser, run_suite
from vnait_lab.suites import length
from vnait_lab.suites.tasks import TASKS, A, B, M, Task, Texts, at, below, coin, put, task, words

PATH = RECORDS / "held_out" / "records.jsonl"
SEEN: dict[str, Task] = {}  # the first three sets
HELD_OUT: dict[str, Task] = {}
seen, held_out = partial(task, tasks=SEEN), partial(task, tasks=HELD_OUT)


@seen("global", "in which third of the text is M?", classes=3)
def thirds(count: int, length: int, random: Generator) -> Texts:
    """M occurs once, in each third equally often; the last third takes the remainder."""
    ids, third = words(count, length, random), torch.randint(3, (count,), generator=random)
    size = torch.where(third == 2, length - 2 * (length // 3), length // 3)
    within = (torch.rand(count, generator=random) * size).long()
    return put(ids, third * (length // 3) + within, M), third


@seen("global", "does M stand between A and B?")
def between(count: int, length: int, random: Generator) -> Texts:
    """All three occur once, anywhere; A is before B or after it."""
    ids, yes, swapped = words(count, length, random), coin(count, random), coin(count, random)
    places = torch.rand(count, length, generator=random).argsort(-1)[:, :3].sort(-1).values
    outside = 2 * coin(count, random)  # the place of M if it is not in the middle
    middle = torch.where(yes == 1, 1, outside)
    one, two = torch.where(middle == 0, 1, 0), torch.where(middle == 2, 1, 2)
    ids = put(ids, places.gather(1, middle[:, None])[:, 0], M)
    ids = put(ids, places.gather(1, one[:, None])[:, 0], torch.where(swapped == 1, A, B))
    return put(ids, places.gather(1, two[:, None])[:, 0], torch.where(swapped == 1, B, A)), yes


@seen("local", "of what class is the word 2 before M?")
def two_before(count: int, length: int, random: Generator) -> Texts:
    """M occurs once, with at least two words before it."""
    ids, place = words(count, length, random), 2 + below(length - 2, count, random)
    return put(ids, place, M), at(ids, place - 2) % 2


@seen("absolute", "of what class is the fifth word?")
def fifth(count: int, length: int, random: Generator) -> Texts:
    """Words alone."""
    ids = words(count, length, random)
    return ids, ids[:, 4] % 2


@seen("mixed", "is the last A or B before M an A?")
def last_before(count: int, length: int, random: Generator) -> Texts:
    """The mirror image of `first_after`."""
    ids, answers = TASKS["first_after"].make(count, length, random)
    return ids.flip(1), answers


@seen("global", "which of A, B and M comes last?", classes=3)
def last_of_three(count: int, length: int, random: Generator) -> Texts:
    """All three occur once, anywhere, in any order."""
    ids, last = words(count, length, random), torch.randint(3, (count,), generator=random)
    places = torch.rand(count, length, generator=random).argsort(-1)[:, :3].sort(-1).values
    marks = torch.tensor([[A, B, M], [B, M, A], [M, A, B]])[last]  # the last one first
    swap = coin(count, random)
    for index, place in ((0, 2), (1, 0), (2, 1)):
        other = torch.where(swap == 1, 3 - index, index) if index else torch.zeros_like(swap)
        ids = put(ids, places[:, place], marks.gather(1, other[:, None])[:, 0])
    return ids, last


@seen("global", "in which quarter of the text is M?", classes=4)
def quarters(count: int, length: int, random: Generator) -> Texts:
    """M occurs once, in each quarter equally often; the last quarter takes the remainder."""
    ids, quarter = words(count, length, random), torch.randint(4, (count,), generator=random)
    size = torch.where(quarter == 3, length - 3 * (length // 4), length // 4)
    within = (torch.rand(count, generator=random) * size).long()
    return put(ids, quarter * (length // 4) + within, M), quarter


@seen("local", "of what class is the word 4 after M?")
def four_after(count: int, length: int, random: Generator) -> Texts:
    """M occurs once, with at least four words after it."""
    ids, place = words(count, length, random), below(length - 4, count, random)
    return put(ids, place, M), at(ids, place + 4) % 2


@seen("absolute", "of what class is the sixth word from the end?")
def sixth_from_end(count: int, length: int, random: Generator) -> Texts:
    """Words alone."""
    ids = words(count, length, random)
    return ids, ids[:, -6] % 2


@seen("mixed", "of what class is the word after the last M?")
def after_last(count: int, length: int, random: Generator) -> Texts:
    """The texts of `two_marks`."""
    ids, _, last = two_marks(count, length, random)
    return ids, at(ids, last + 1) % 2


@seen("global", "is M in the first or the last quarter of the text?")
def outer(count: int, length: int, random: Generator) -> Texts:
    """M occurs once, there or in the two quarters between, which take the remainder."""
    ids, yes, right = words(count, length, random), coin(count, random), coin(count, random)
    quarter = length // 4
    inner = quarter + below(length - 2 * quarter, count, random)
    edge = below(quarter, count, random)
    return put(ids, torch.where(yes == 1, torch.where(right == 1, length - 1 - edge, edge), inner), M), yes


@seen("local", "of what class is the word 3 before M?")
def three_before(count: int, length: int, random: Generator) -> Texts:
    """M occurs once, with at least three words before it."""
    ids, place = words(count, length, random), 3 + below(length - 3, count, random)
    return put(ids, place, M), at(ids, place - 3) % 2


@seen("local", "are A and B less than 4 tokens apart?")
def close(count: int, length: int, random: Generator) -> Texts:
    """Both occur once, in any order, 1 to 3 tokens apart or 4 to 7."""
    ids, yes, swapped = words(count, length, random), coin(count, random), coin(count, random)
    apart = torch.where(yes == 1, 1 + below(3, count, random), 4 + below(4, count, random))
    first = (torch.rand(count, generator=random) * (length - apart)).long()
    ids = put(ids, first, torch.where(swapped == 1, A, B))
    return put(ids, first + apart, torch.where(swapped == 1, B, A)), yes


@seen("absolute", "of what class is the fourth word?")
def fourth(count: int, length: int, random: Generator) -> Texts:
    """Words alone."""
    ids = words(count, length, random)
    return ids, ids[:, 3] % 2


@seen("mixed", "of what class is the neighbour of M on the side where the middle of the text is?")
def inward(count: int, length: int, random: Generator) -> Texts:
    """The texts of `half`."""
    ids, first = TASKS["half"].make(count, length, random)
    place = (ids == M).int().argmax(1)
    return ids, at(ids, torch.where(first == 1, place + 1, place - 1)) % 2


@held_out("global", "is M in the middle third of the text?")
def middle_third(count: int, length: int, random: Generator) -> Texts:
    """M occurs once, there or in the thirds beside it; the middle one takes the remainder."""
    ids, yes, right = words(count, length, random), coin(count, random), coin(count, random)
    third = length // 3
    inner, edge = third + below(length - 2 * third, count, random), below(third, count, random)
    return put(ids, torch.where(yes == 1, inner, torch.where(right == 1, length - 1 - edge, edge)), M), yes


@held_out("global", "do A, B and M stand in this order?")
def in_order(count: int, length: int, random: Generator) -> Texts:
    """All three occur once, anywhere; if not in this order, in any other."""
    ids, yes = words(count, length, random), coin(count, random)
    places = torch.rand(count, length, generator=random).argsort(-1)[:, :3].sort(-1).values
    orders = torch.tensor([*permutations((A, B, M))])
    marks = orders[torch.where(yes == 1, 0, 1 + below(len(orders) - 1, count, random))]
    for place, mark in zip(places.unbind(1), marks.unbind(1), strict=True):
        ids = put(ids, place, mark)
    return ids, yes


@held_out("local", "of what class is the word 2 after M?")
def two_after(count: int, length: int, random: Generator) -> Texts:
    """M occurs once, with at least two words after it."""
    ids, place = words(count, length, random), below(length - 2, count, random)
    return put(ids, place, M), at(ids, place + 2) % 2


@held_out("absolute", "of what class is the second word from the end?")
def second_from_end(count: int, length: int, random: Generator) -> Texts:
    """Words alone."""
    ids = words(count, length, random)
    return ids, ids[:, -2] % 2


@held_out("mixed", "is A nearer to M than B?")
def nearer(count: int, length: int, random: Generator) -> Texts:
    """All three occur once, anywhere, A and B not equally far from M."""
    ids, yes = words(count, length, random), coin(count, random)
    places = torch.rand(count, length, generator=random).argsort(-1)
    far = (places - places[:, :1]).abs()
    unequal = ((far != far[:, 1:2]) & (far > 0)).int().argmax(1, keepdim=True)
    two, away = (torch.cat([one[:, 1:2], one.gather(1, unequal)], 1) for one in (places, far))
    near = two.gather(1, away.argmin(1, keepdim=True))[:, 0]
    distant = two.gather(1, away.argmax(1, keepdim=True))[:, 0]
    ids = put(put(ids, places[:, 0], M), near, torch.where(yes == 1, A, B))
    return put(ids, distant, torch.where(yes == 1, B, A)), yes


@held_out("mixed", "of what class is the word after the first M?")
def after_first(count: int, length: int, random: Generator) -> Texts:
    """The texts of `two_marks`."""
    ids, first, _ = two_marks(count, length, random)
    return ids, at(ids, first + 1) % 2


def two_marks(count: int, length: int, random: Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Texts with two Ms, at least one word after each; the places of both."""
    ids, last = words(count, length, random), 3 + below(length - 4, count, random)
    first = (torch.rand(count, generator=random) * (last - 1)).long()
    ids = put(put(ids, first, M), last, M)
    return ids, first, last


def main() -> None:
    command = parser(__doc__, seeds=3, methods=("vnait", "rope"))
    command.add_argument("--tasks", type=names, help="[all of every set]")
    options = command.parse_args()
    suite = replace(length.SUITE, tasks={**HELD_OUT, **SEEN})
    run_suite(suite, options, methods=options.methods, tasks=options.tasks or suite.tasks, path=PATH)


if __name__ == "__main__":
    main()
