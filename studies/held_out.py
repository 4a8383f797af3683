"""Tasks that nothing was chosen on: written before `vnait` last changed, run once, and reported as they came.

    python studies/held_out.py [--methods vnait,rope] [--seeds 3] [--jobs N]

Records go to studies/records/held_out. They are also how a task is added from outside: one function under `@task`. Those of the first
set were held out until 2026-11-21, those of the second until 2026-11-22: what they showed (`fifth`, `four_after`) has changed `vnait`
since, and each next set was written before the change.
"""

import argparse
from pathlib import Path

import torch
from torch import Generator

from vnait import suites
from vnait.suites.tasks import TASKS, A, B, M, Texts, at, below, coin, put, task, words

PATH = Path(__file__).parent / "records" / "held_out" / "records.jsonl"
OWN = set(TASKS)


@task("global", "in which third of the text is M?", classes=3)
def thirds(count: int, length: int, random: Generator) -> Texts:
    """M stands once, in each third equally often; what is left over belongs to the last."""
    ids, third = words(count, length, random), torch.randint(3, (count,), generator=random)
    size = torch.where(third == 2, length - 2 * (length // 3), length // 3)
    within = (torch.rand(count, generator=random) * size).long()
    return put(ids, third * (length // 3) + within, M), third


@task("global", "does M stand between A and B?")
def between(count: int, length: int, random: Generator) -> Texts:
    """All three stand once, anywhere; A before B or after it."""
    ids, yes, turned = words(count, length, random), coin(count, random), coin(count, random)
    places = torch.rand(count, length, generator=random).argsort(-1)[:, :3].sort(-1).values
    outside = 2 * coin(count, random)  # where M is, when it is not in the middle
    middle = torch.where(yes == 1, 1, outside)
    one, two = torch.where(middle == 0, 1, 0), torch.where(middle == 2, 1, 2)
    ids = put(ids, places.gather(1, middle[:, None])[:, 0], M)
    ids = put(ids, places.gather(1, one[:, None])[:, 0], torch.where(turned == 1, A, B))
    return put(ids, places.gather(1, two[:, None])[:, 0], torch.where(turned == 1, B, A)), yes


@task("local", "of what class is the word 2 before M?")
def two_before(count: int, length: int, random: Generator) -> Texts:
    """M stands once, with two words before it at least."""
    ids, place = words(count, length, random), 2 + below(length - 2, count, random)
    return put(ids, place, M), at(ids, place - 2) % 2


@task("absolute", "of what class is the fifth word?")
def fifth(count: int, length: int, random: Generator) -> Texts:
    """Words alone."""
    ids = words(count, length, random)
    return ids, ids[:, 4] % 2


@task("mixed", "is the last A or B before M an A?")
def last_before(count: int, length: int, random: Generator) -> Texts:
    """The mirror image of `first_after`."""
    ids, answers = TASKS["first_after"].make(count, length, random)
    return ids.flip(1), answers


@task("global", "which of A, B and M comes last?", classes=3)
def last_of_three(count: int, length: int, random: Generator) -> Texts:
    """All three stand once, anywhere, in any order."""
    ids, last = words(count, length, random), torch.randint(3, (count,), generator=random)
    places = torch.rand(count, length, generator=random).argsort(-1)[:, :3].sort(-1).values
    marks = torch.tensor([[A, B, M], [B, M, A], [M, A, B]])[last]  # the last one first
    swap = coin(count, random)
    for index, place in ((0, 2), (1, 0), (2, 1)):
        other = torch.where(swap == 1, 3 - index, index) if index else torch.zeros_like(swap)
        ids = put(ids, places[:, place], marks.gather(1, other[:, None])[:, 0])
    return ids, last


@task("global", "in which quarter of the text is M?", classes=4)
def quarters(count: int, length: int, random: Generator) -> Texts:
    """M stands once, in each quarter equally often; what is left over belongs to the last."""
    ids, quarter = words(count, length, random), torch.randint(4, (count,), generator=random)
    size = torch.where(quarter == 3, length - 3 * (length // 4), length // 4)
    within = (torch.rand(count, generator=random) * size).long()
    return put(ids, quarter * (length // 4) + within, M), quarter


@task("local", "of what class is the word 4 after M?")
def four_after(count: int, length: int, random: Generator) -> Texts:
    """M stands once, with four words after it at least."""
    ids, place = words(count, length, random), below(length - 4, count, random)
    return put(ids, place, M), at(ids, place + 4) % 2


@task("absolute", "of what class is the sixth word from the end?")
def sixth_from_end(count: int, length: int, random: Generator) -> Texts:
    """Words alone."""
    ids = words(count, length, random)
    return ids, ids[:, -6] % 2


@task("mixed", "of what class is the word after the last M?")
def after_last(count: int, length: int, random: Generator) -> Texts:
    """Two Ms, a word after each at least."""
    ids, last = words(count, length, random), 3 + below(length - 4, count, random)
    first = (torch.rand(count, generator=random) * (last - 1)).long()
    ids = put(put(ids, first, M), last, M)
    return ids, at(ids, last + 1) % 2


SEEN = tuple(name for name in TASKS if name not in OWN)  # the first and the second set


@task("global", "is M in the first or the last quarter of the text?")
def outer(count: int, length: int, random: Generator) -> Texts:
    """M stands once, there or in the two quarters between; what is left over belongs to these."""
    ids, yes, right, quarter = words(count, length, random), coin(count, random), coin(count, random), length // 4
    inner = quarter + below(length - 2 * quarter, count, random)
    edge = below(quarter, count, random)
    return put(ids, torch.where(yes == 1, torch.where(right == 1, length - 1 - edge, edge), inner), M), yes


@task("local", "of what class is the word 3 before M?")
def three_before(count: int, length: int, random: Generator) -> Texts:
    """M stands once, with three words before it at least."""
    ids, place = words(count, length, random), 3 + below(length - 3, count, random)
    return put(ids, place, M), at(ids, place - 3) % 2


@task("local", "are A and B less than 4 tokens apart?")
def close(count: int, length: int, random: Generator) -> Texts:
    """Both stand once, in any order, 1 to 3 tokens apart or 4 to 7."""
    ids, yes, turned = words(count, length, random), coin(count, random), coin(count, random)
    apart = torch.where(yes == 1, 1 + below(3, count, random), 4 + below(4, count, random))
    first = (torch.rand(count, generator=random) * (length - apart)).long()
    ids = put(ids, first, torch.where(turned == 1, A, B))
    return put(ids, first + apart, torch.where(turned == 1, B, A)), yes


@task("absolute", "of what class is the fourth word?")
def fourth(count: int, length: int, random: Generator) -> Texts:
    """Words alone."""
    ids = words(count, length, random)
    return ids, ids[:, 3] % 2


@task("mixed", "of what class is the neighbour of M on the side where the middle of the text is?")
def inward(count: int, length: int, random: Generator) -> Texts:
    """The texts of `half`."""
    ids, first = TASKS["half"].make(count, length, random)
    place = (ids == M).int().argmax(1)
    return ids, at(ids, torch.where(first == 1, place + 1, place - 1)) % 2


HELD_OUT = tuple(name for name in TASKS if name not in OWN and name not in SEEN)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--methods", default="vnait,rope")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int)
    options = parser.parse_args()
    suites.run_suite(
        methods=tuple(options.methods.split(",")),
        tasks=(*HELD_OUT, *SEEN),
        seeds=range(options.seeds),
        setting=suites.Setting(),
        path=PATH,
        jobs=options.jobs,
        watch=lambda done, total, record: print(f"{done} of {total}", flush=True),
    )


if __name__ == "__main__":
    main()
