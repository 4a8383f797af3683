"""Tasks that nothing was chosen on: written after `vnait` was, run once, and reported as they came.

    python studies/held_out.py [--methods vnait,rope] [--seeds 3] [--jobs N]

Records go to studies/records/held_out. They are also how a task is added from outside: one function under `@task`.
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


HELD_OUT = tuple(name for name in TASKS if name not in OWN)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--methods", default="vnait,rope")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int)
    options = parser.parse_args()
    suites.run_suite(
        methods=tuple(options.methods.split(",")),
        tasks=HELD_OUT,
        seeds=range(options.seeds),
        setting=suites.Setting(),
        path=PATH,
        jobs=options.jobs,
        watch=lambda done, total, record: print(f"{done} of {total}", flush=True),
    )


if __name__ == "__main__":
    main()
